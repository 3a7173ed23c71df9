"""What executions cost, for the policies that weigh schedules (thesis 8.4.4).

    access   the values of panes that are combined: shared by all who are executed together, as far as the longest
             window goes; or the few values of a running or interval synopsis
    post     what each query pays for itself: its answer, a row per group, sorting

The unit is the combination of two values of one group, about 1.4 nanoseconds where the constants were measured. Live,
what executions really took corrects the weight of the two parts (`Prices`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sash.plan.periodic import PeriodicAggregate
from sash.sharing.choose import Load, lookup_cost
from sash.synopses.readings import Reading

# A scan costs this much however short it is, an answer however small; each value of an answer, and each comparison of a
# sort (joint executions over 10 to 50,000 groups were fitted).
_SCAN = 50_000.0
_ANSWER = 50_000.0
_LOWERED = 12.0
_COMPARED = 8.0


@dataclass(frozen=True)
class Prices:
    """Factors that bring the two parts to one scale."""

    access: float = 1.0
    post: float = 1.0


def access_cost(readings: Iterable[Reading], kind: str, load: Load) -> float:
    """What it costs to read these windows of one pane table."""
    return _SCAN + sum(_read(reading, kind, load) for reading in readings)


def _read(reading: Reading, kind: str, load: Load) -> float:
    components = sum(len(partial.dtypes) for partial in reading.partials)
    if reading.window.unbounded:
        return float(load.groups * components)
    panes = max(1, reading.window.length // load.pane)
    if kind == "basic":
        return (panes - 1) * load.rows_per_pane * components
    return lookup_cost(kind, panes) * load.groups * components


def post_cost(leaves: Iterable[PeriodicAggregate], load: Load) -> float:
    """What it costs to make a query's answer from the values it has read."""
    return sum(_made(leaf, load.groups) for leaf in leaves)


def _made(leaf: PeriodicAggregate, groups: int) -> float:
    sorts = bool(leaf.order or leaf.limit or leaf.items)
    compared = groups * math.log2(max(2, groups)) if sorts else 0.0
    return _ANSWER + _LOWERED * groups * max(1, len(leaf.calls)) + _COMPARED * compared
