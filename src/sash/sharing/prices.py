"""What executions cost, for the policies that weigh schedules (thesis 8.4.4).

    access   the values of panes that are combined: shared by all who are executed together, as far as the longest
             window goes; or the few values of a running or interval synopsis
    post     what each query pays for itself: its answer, a row per group, sorting

The unit is the combination of two values of one group, about a nanosecond where the constants were measured. Live, what
executions really took corrects the weight of the two parts (`Prices`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sash.plan.periodic import PeriodicAggregate
from sash.sharing.choose import CLUSTER, Load, lookup_cost
from sash.synopses.readings import Reading

# An execution costs this much however little it reads, an answer however small; then each value of an answer, and each
# row that is sorted. Fitted to executions of 1 to 30 queries over 50 to 50,000 groups (papers/scheduling/run.py).
_EXECUTION = 200_000.0
_ANSWER = 40_000.0
_LOWERED = 15.0
_SORTED = 150.0


class Prices(NamedTuple):
    """Factors that bring the two parts to one scale."""

    access: float = 1.0
    post: float = 1.0


def access_cost(readings: Iterable[Reading], kind: str, load: Load) -> float:
    """What it costs to read these windows of one pane table."""
    return _EXECUTION + sum(_read(reading, kind, load) for reading in readings)


def _read(reading: Reading, kind: str, load: Load) -> float:
    components = sum(len(partial.dtypes) for partial in reading.partials)
    if reading.window.unbounded:
        return float(load.groups * components)
    panes = max(1, reading.window.length // load.pane)
    if kind in ("basic", CLUSTER):
        return (panes - 1) * load.rows_per_pane * components
    return lookup_cost(kind, panes) * load.groups * components


def post_cost(leaves: Iterable[PeriodicAggregate], load: Load) -> float:
    """What it costs to make a query's answer from the values it has read."""
    return sum(_made(leaf, load.groups) for leaf in leaves)


def _made(leaf: PeriodicAggregate, groups: int) -> float:
    each = _LOWERED * max(1, len(leaf.calls)) + (_SORTED if leaf.order else 0.0)
    return _ANSWER + each * groups
