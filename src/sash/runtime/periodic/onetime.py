"""One-time queries: answered from synopses that cover them, else refused with the reason.

An answer takes two steps: its panes are taken in a moment, and computed with while panes slide.

    under the lock     as of when, complete or not; the panes that it reads, frozen
    without it         scan or merge, HAVING, ORDER BY, the SELECT list
    at the end         lws, ttu: have the groups that it read moved on, or were panes revised?

The first answer of a new query is made in the same way.
"""

from __future__ import annotations

import pyarrow as pa

from sash.core.errors import QueryFailedError, SashError
from sash.core.time import format_duration, to_micros
from sash.core.window import LandmarkWindow
from sash.panes.answers import PendingTable
from sash.runtime.answers.answer import Answer, stamped_table
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome, BoundReading
from sash.runtime.periodic.executor import Execution
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.stream_runtime import StreamRuntime, newest_common
from sash.sharing.choose import CLUSTER


class PaneLookup:
    """Made under the isolation level's lock; it is a `TakenWindow`."""

    def __init__(self, active: ActiveQuery, as_of: int) -> None:
        home = active.home
        self._joint = JointQueries([active])
        home.note_execution([self._joint])
        for bound in active.readings:
            bound.valid_from = bound.group.valid_from(bound)
        self._active = active
        self._as_of = as_of
        self._moment = home.clock.moment(as_of)
        self._complete = active.is_complete(as_of)
        self._outcome = AdvanceOutcome()
        self._execution = Execution([self._joint], as_of, self._outcome)
        self._execution.freeze()
        self._seen = self._state()

    def compute(self) -> Answer:
        active, home = self._active, self._active.home
        self._execution.read()
        (table,) = self._execution.tables(self._joint)
        if table is None:
            raise QueryFailedError(next(iter(self._outcome.failed.values())))
        scheduled = home.clock.is_multiple(active.compiled.slide, self._as_of)
        number = self._as_of if home.name.by_rows else None
        whole = table.table if isinstance(table, PendingTable) else table
        return Answer(active.name, self._moment, self._complete, scheduled, whole, number)

    def is_latest(self) -> bool:
        """Whether all its groups are where they were. Numbers only grow, so they were so at the first comparison.

        A job in the cluster is not done again: its answer has the time at which its files were taken.
        """
        return any(group.panes.kind == CLUSTER for group in self._active.groups) or self._state() == self._seen

    def _state(self) -> list[tuple[int | None, int]]:
        return [(group.clock.now, group.panes.version) for group in self._active.groups]


def look_up(query: CompiledQuery, runtime: StreamRuntime) -> PaneLookup:
    """The panes for an answer as of the newest pane."""
    if runtime.latest is None:
        raise SashError(_too_early(query))
    active = runtime.covers(query)
    if active is None:
        raise SashError(_why_not(query, runtime))
    for bound in active.readings:
        _check_edges(bound, active)
    as_of = newest_common(active)
    if as_of is None:
        raise SashError(_too_early(query))
    return PaneLookup(active, as_of)


def stamped(answer: Answer) -> pa.Table:
    return stamped_table(answer.table, to_micros(answer.as_of), answer.complete)


def is_cut(active: ActiveQuery) -> bool:
    """Whether some window's edge lies inside a stored pane as of the newest common time."""
    as_of = newest_common(active)
    return as_of is not None and any(bound.is_cut(as_of) for bound in active.readings)


def _check_edges(bound: BoundReading, active: ActiveQuery) -> None:
    window, group, as_of = bound.reading.window, bound.group, newest_common(active)
    stream = active.compiled.stream
    if isinstance(window, LandmarkWindow):
        if as_of is not None and not group.keeps(window, as_of):
            raise SashError(
                f"the synopsis over {stream} by {group.label} does not keep all of {window}; "
                "register a query with such a window first"
            )
        return
    if window.unbounded and not group.members.keeps_history:
        raise SashError(
            f"the synopsis over {stream} by {group.label} forgets what its windows have passed; "
            "register a query with an [UNBOUNDED ..] window first"
        )
    if not window.unbounded and window.reach > group.members.reach:
        raise SashError(
            f"the synopsis over {stream} by {group.label} keeps {_extent(bound, group.members.reach)}, "
            f"the question looks back {_extent(bound, window.reach)}; register a query with such a window first"
        )
    if as_of is not None and bound.is_cut(as_of):
        pane = _extent(bound, group.clock.length)
        raise SashError(f"{window} does not fit the stored panes of {pane}; take multiples of {pane}")


def _extent(bound: BoundReading, length: int) -> str:
    return f"{length} rows" if bound.group.name.by_rows else format_duration(length)


def _too_early(query: CompiledQuery) -> str:
    return f"no pane of stream '{query.stream}' is closed yet: there is nothing to ask"


def _why_not(query: CompiledQuery, runtime: StreamRuntime) -> str:
    labels = ", ".join(group.label for group in runtime.groups.values()) or "none"
    missing = [each for number, each in enumerate(query.readings) if runtime.offer(query, number) is None]
    leaf = next(f.query for f in query.finishers if any(reading in missing for reading in f.readings))
    wanted = ", ".join(str(call) for call in leaf.calls)
    by = ", ".join(key.expression.sql for key in leaf.keys)
    return (
        f"no synopsis of stream '{query.stream}' holds {wanted} by ({by}) "
        f"{'under this WHERE ' if leaf.predicate is not None else ''}"
        f"(pane tables: {labels}); register a query with these aggregates and groups, its panes then answer"
    )
