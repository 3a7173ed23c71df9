"""Which synopsis answers the windows of a group: by cost, and the cost includes the schedule.

A basic interval synopsis is scanned once for all windows that are due together (rule CS2); a running, interval or
landmark synopsis is looked up window by window (CS1), but a lookup costs 2 vectors or about log2 of the window's panes.
With b
panes in the longest window, the scan wins as soon as about b / log2 b windows are executed together (thesis 8.3.1),
which synchronised schedules make likely (8.4.4). So lookups replace the scan of panes only if both conditions hold:

    together    even if the scheduler put all windows of the group into one execution, lookups would cost less
    as due      over the coming deadlines, the executions cost less than half by lookups, updates included

Costs are counted in values of one group that are read or written, the same for every group. Sparse panes (few of the
groups in each) make scans cheaper and dense vectors dearer.

Policies that weigh schedules use the cost of executions (thesis 8.4.4):

    access   the values of panes that are combined: shared by a joint execution, as far as the longest
             window goes; or the few values of a running or interval synopsis
    post     each query's own cost: its answer, a row per group, sorting

The unit is the combination of two values of one group, about a nanosecond where the constants were measured. Live,
measured times correct the weight of the two parts (`Prices`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sash.core.errors import RefusalError
from sash.core.window import SessionWindow, TimeWindow
from sash.panes.accelerator import refusal
from sash.panes.intervals.landmark import partition_by_spread
from sash.panes.partials import Combine, Partial
from sash.panes.readings import Reading
from sash.panes.sketches import SKETCHES
from sash.plan.periodic import PeriodicAggregate

# Panes that are read like `basic` ones, by a job in the cluster (STORED IN CLUSTER).
CLUSTER = "cluster"
KINDS = ("basic", "running", "interval", "landmark", CLUSTER)
# How many deadlines the choice looks ahead.
_HORIZON = 2_000
# A synopsis beside the panes must save this factor to be worth its space.
LEAST_SAVING = 2.0
# The most numbers that the vectors of one component may take.
_MOST_NUMBERS = 16_000_000


@dataclass(frozen=True)
class SynopsisChoice:
    kind: str
    reason: str


@dataclass(frozen=True)
class Load:
    """The known facts about a group: its panes' length, its groups, and how many of them a pane has."""

    pane: int
    groups: int = 1
    rows_per_pane: float = 1.0
    in_cluster: bool = False


def check_synopsis(kind: str, readings: Iterable[Reading]) -> None:
    """Refuse a kind that the user has set and that cannot work; the message says why."""
    if kind not in KINDS:
        raise RefusalError(f"unknown synopsis '{kind}'; known: {', '.join(KINDS)}")
    if kind == CLUSTER:
        _check_cluster(list(readings))
        return
    for reading in readings:
        if kind != "basic" and not can_be_looked_up(reading):
            what = "PARTITION BY" if reading.table.partition else _word(reading)
            reason = f"{_an(kind)} synopsis cannot answer {what} windows: leave out SYNOPSIS {kind.upper()}"
            raise RefusalError(reason, what.split()[0])
        for partial in reading.partials:
            if (why := refusal(kind, partial)) is not None:
                word = "APPROX" if partial.kind in SKETCHES else ""
                raise RefusalError(
                    f"{_an(kind)} synopsis cannot answer this query: {why}; SYNOPSIS AUTO finds one", word
                )


def _check_cluster(readings: list[Reading]) -> None:
    for reading in readings:
        if reading.table.by_rows:
            reason = "STORED IN CLUSTER is for windows of time: ROWS are numbered in this process; leave it out"
            raise RefusalError(reason)
        if reading.window.unbounded:
            reason = f"STORED IN CLUSTER is for windows with a length: {_word(reading)} ones would keep every file"
            raise RefusalError(reason, _word(reading))
    if not any(reading.table.keys for reading in readings):
        raise RefusalError("STORED IN CLUSTER is for many groups, and this query has one; leave it out")


def can_be_looked_up(reading: Reading) -> bool:
    """Whether its windows are sums over ranges of panes, which other synopses may have."""
    return not (reading.table.partition or reading.window.unbounded or isinstance(reading.window, SessionWindow))


def _word(reading: Reading) -> str:
    assert isinstance(reading.window, TimeWindow)
    return reading.window.word


def _an(kind: str) -> str:
    return f"an {kind}" if kind == "interval" else f"a {kind}"


def choose(readings: Sequence[Reading], load: Load) -> SynopsisChoice:
    """The kind for the windows of these readings of one pane table, if their users have set none."""
    bounded = [reading for reading in readings if can_be_looked_up(reading)]
    if not bounded:
        return SynopsisChoice("basic", "no other synopsis answers such windows")
    # Many queries ask for the same: whatever is alike counts once.
    apart = list({(reading.window, reading.sub_window, reading.partials): reading for reading in bounded}.values())
    partials = {partial for reading in apart for partial in reading.partials}
    panes = max(reading.window.length // load.pane for reading in apart)
    windows = {(span.length, span.lag) for reading in apart for span in reading.spans}
    asked = f"{len(windows)} window{'s' * (len(windows) > 1)}"
    reasons: list[str] = []
    cheapest, basic = math.inf, 0.0
    chosen: SynopsisChoice | None = None
    for kind in ("running", "interval", "landmark"):
        if (why := _refused(kind, partials)) is not None:
            reasons.append(f"{kind} refused: {why}")
            continue
        if panes * load.groups * _values_per_pane(kind, apart, load) > _MOST_NUMBERS:
            reasons.append(f"{kind} would need too much memory for {load.groups} groups")
            continue
        together = len(windows) * lookup_cost(kind, panes) * load.groups
        if together >= panes * load.rows_per_pane:
            limit = max(1, math.ceil(panes * load.rows_per_pane / (lookup_cost(kind, panes) * load.groups)))
            what = "b / log2 b" if kind == "interval" else "b / 2"
            reasons.append(
                f"no {kind} synopsis for {asked} over {panes} panes: from {limit} on ({what}) one scan costs less"
            )
            continue
        # Computed only here: the costs over all deadlines of many queries take a while to add up.
        basic = basic or _cost("basic", apart, len(bounded), load)
        other = _cost(kind, apart, len(bounded), load)
        if other * LEAST_SAVING > basic:
            reasons.append(f"{kind} saves too little ({other:.3g} values per pane and group against {basic:.3g})")
        elif other < cheapest:
            per = f"{other:.3g} values per pane and group against {basic:.3g} by scanning {panes} panes"
            cheapest, chosen = other, SynopsisChoice(kind, f"{asked}: {per}")
    return chosen or SynopsisChoice("basic", "; ".join(dict.fromkeys(reasons)))


def _refused(kind: str, partials: set[Partial]) -> str | None:
    """Why a kind is not chosen for some partials. Landmarks lie elsewhere after a restart, and float sums tell."""
    ordered = sorted(partials, key=lambda partial: partial.signature)
    if kind == "landmark" and any(p.combine is Combine.ADD and not p.subtractable for p in ordered):
        return "sums of floats would depend on where the landmarks lie"
    return next((why for partial in ordered if (why := refusal(kind, partial)) is not None), None)


def _values_per_pane(kind: str, readings: Sequence[Reading], load: Load) -> int:
    """How many values a synopsis keeps, and writes, for each pane: one or two, or those of each set of landmarks."""
    if kind != "landmark":
        return 1 if kind == "running" else 2
    widths = (span.length // load.pane for reading in readings for span in reading.spans)
    return sum(-(-widest // narrowest) + 1 for narrowest, widest in partition_by_spread(widths))


def lookup_cost(kind: str, panes: int) -> float:
    """How many vectors a lookup reads: two, or the base intervals of a window (about log2 of it)."""
    return 2.0 if kind in ("running", "landmark") else max(1.0, math.log2(max(2, panes)))


def _cost(kind: str, readings: Sequence[Reading], queries: int, load: Load) -> float:
    """Values per pane and group over the coming deadlines; the more queries there are, the fewer deadlines."""
    due: dict[int, set[tuple[int, int]]] = {}
    slides = [(reading.window.slide or load.pane) for reading in readings]
    horizon = min(math.lcm(*slides), max(slides) * max(1, _HORIZON // queries))
    for reading, slide in zip(readings, slides, strict=True):
        spans = {(span.length // load.pane, span.lag) for span in reading.spans}
        for time in range(slide, horizon + 1, slide):
            due.setdefault(time, set()).update(spans)
    density = load.rows_per_pane / load.groups
    steps = horizon / load.pane
    if kind == "basic":
        return sum(_scanned(spans) for spans in due.values()) * density / steps
    lookups = sum(lookup_cost(kind, panes) for spans in due.values() for panes, _ in spans) / steps
    return _values_per_pane(kind, readings, load) + lookups


def _scanned(spans: Iterable[tuple[int, int]]) -> int:
    """The panes of one joint execution: windows with the same LAG are one scan."""
    longest: dict[int, int] = {}
    for panes, lag in spans:
        longest[lag] = max(panes, longest.get(lag, 0))
    return sum(longest.values())


class StorePrices(NamedTuple):
    """What an execution over one kind of store costs.

    `execution` and `answer` are fixed costs. `read` is the cost of each value of panes, `lowered` that of each value of
    an answer, `ordered` that of each row that is sorted.
    """

    execution: float
    read: float
    answer: float
    lowered: float
    ordered: float


# Fitted to executions of 1 to 30 queries over 50 to 50,000 groups (papers/scheduling/run.py).
_IN_PROCESS = StorePrices(200_000.0, 1.0, 40_000.0, 15.0, 150.0)
# An execution is a Spark job. Fitted to jobs of 1 to 24 queries over 1,000 to 400,000 groups
# (benchmarks/run_cluster_panes.py --fit).
_IN_CLUSTER = StorePrices(210_000_000.0, 200.0, 40_000.0, 50.0, 150.0)


class Prices(NamedTuple):
    """Factors that bring the two parts to one scale."""

    access: float = 1.0
    post: float = 1.0


def access_cost(readings: Iterable[Reading], kind: str, load: Load) -> float:
    """The cost of reading these windows of one pane table."""
    prices = _IN_CLUSTER if kind == CLUSTER else _IN_PROCESS
    return prices.execution + prices.read * sum(_values(reading, kind, load) for reading in readings)


def _values(reading: Reading, kind: str, load: Load) -> float:
    """How many values are read."""
    components = sum(len(partial.dtypes) for partial in reading.partials)
    if reading.window.unbounded:
        return float(load.groups * components)
    panes = max(1, reading.window.length // load.pane)
    if kind in ("basic", CLUSTER):
        return (panes - 1) * load.rows_per_pane * components
    return lookup_cost(kind, panes) * load.groups * components * len(reading.window.parts)


def post_cost(leaves: Iterable[PeriodicAggregate], load: Load) -> float:
    """The cost of a query's answer from the values that it has read."""
    prices = _IN_CLUSTER if load.in_cluster else _IN_PROCESS
    return sum([_made(leaf, load.groups, prices) for leaf in leaves])


def _made(leaf: PeriodicAggregate, groups: int, prices: StorePrices) -> float:
    each = prices.lowered * max(1, len(leaf.calls)) + (prices.ordered if leaf.order else 0.0)
    return prices.answer + each * groups
