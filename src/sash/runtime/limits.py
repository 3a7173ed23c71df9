"""Limits of memory: a query that would take all memory fails by name, and other queries go on.

Rows are counted in the state of continuous plans and in stored windows, groups in the synopses of joins. The groups of
pane tables have a limit of their own (`PaneGroup.crowded_out`).
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.runtime.settings import DEFAULT_MAX_GROUPS, DEFAULT_MAX_ROWS

_MORE_ROWS = "connect(max_rows=..) with more if there is memory"


@dataclass(frozen=True)
class PlanLimits:
    """The most that one plan may keep: rows of its operators and of its answer; groups in a synopsis of a join."""

    rows: int = DEFAULT_MAX_ROWS
    groups: int = DEFAULT_MAX_GROUPS


USUAL = PlanLimits()


def too_many_rows(rows: int, most: int) -> str:
    """Why a continuous query fails."""
    return (
        f"it keeps {rows:,} rows, and max_rows is {most:,}: take shorter windows, a WHERE that leaves out more, "
        f"Istream(..) where only the changes matter, or {_MORE_ROWS}"
    )


def too_many_kept(query: str, rows: int, most: int) -> str:
    """Why the results of a query are not stored any more."""
    return (
        f"query '{query}': KEEP stored {rows:,} rows of its results, and max_rows is {most:,}, so nothing is stored "
        f"any more; register it with a shorter KEEP, or {_MORE_ROWS}, or CREATE ARCHIVE .. FROM {query}"
    )


def too_many_values(rows: int, most: int) -> str:
    """Why a set operation that an index answers fails."""
    return (
        f"it keeps {rows:,} values by pane, and max_rows is {most:,}: take shorter windows, APPROX INTERSECT where "
        f"ranges of values do, or {_MORE_ROWS}"
    )


def too_many_results(groups: int, label: str, most: int) -> str:
    """Why aggregates over a join fail."""
    return (
        f"it has {groups:,} groups by {label} in its join, and max_groups is {most:,}: group by something coarser, "
        "take shorter windows, or connect(max_groups=..) with more if there is memory"
    )


def too_much_stored(stream: str, rows: int, most: int) -> str:
    """Why a stored window is given up."""
    return (
        f"stream '{stream}': its stored window had {rows:,} rows, and max_rows is {most:,}, so nothing is stored any "
        "more; declare it with KEEP .. STORED IN CLUSTER, or with a shorter KEEP, or connect(max_rows=..) with more "
        "if there is memory"
    )
