"""The cost of a continuous plan per second of event time under each execution strategy (thesis 3.5.2, 3.5.3).

    work   how often operators do a thing: take a tuple, go through their state, search it, sort it
    price  the cost of doing it once, in microseconds of processor time

A negative tuple is taken like a positive one. In addition it changes the state: the buffer is searched for the tuple
that it takes back, and that tuple's chunk is rewritten. So:

    upa      an edge without negative tuples only costs going through it; STRICT edges are searched
    nt       every edge comes twice, is searched, and is also kept by its window; but nobody sorts by expiry
    direct   plain lists are rewritten as wholes in every epoch

Under lazy evaluation (lazy_joins.py) operators work once per SLIDE instead of once per epoch.

The last point of `nt` is query 3 of the thesis' experiments. A negation needs its left tuples by key and, if they have
expiries, in the order in which they leave: one more sort of the window by expiry, and one back by key. Under `nt` only
announced tuples leave. The sorts grow faster than the other savings, so UPA is ahead over small windows and NT over
large ones; below a selective condition, or without a negation, NT never is.

The prices are least squares of relative errors over the times that `papers/update_patterns/run.py` measures (7 queries,
4 windows, 3 strategies), by `papers/update_patterns/fit_costs.py`. Only their ratios matter; the total is right within
a factor of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from sash.core.changes import UpdatePattern
from sash.core.time import SECOND
from sash.plan.continuous import (
    DIRECT,
    NT,
    UPA,
    BaseWindow,
    Distinct,
    GroupBy,
    Intersection,
    Join,
    Negation,
    Node,
    OuterJoin,
    RelationJoin,
    drops_outdone,
    inputs,
    strategy_below,
    windows,
)
from sash.plan.estimates import Flow, Statistics, flow, flow_above, partial_combinations
from sash.plan.lazy_joins import evaluation_of
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, LazilySampled, Sampled, Snapshots

STORING = (
    Join | OuterJoin | MultiJoin | RelationJoin | Distinct | GroupBy | Negation | Intersection | Deltas | Snapshots
)
# Partitions of a buffer that is not a list: an epoch's tuples go to at most this many chunks.
_PARTITIONS = 10


@dataclass(frozen=True)
class PlanWork:
    """Per second: tuples taken or given, chunks written, and stored tuples that were gone through, searched, made
    anew, sorted (each counted log2 n times), or kept by a window so that it can announce their expiry."""

    tuples: float = 0.0
    chunks: float = 0.0
    passed: float = 0.0
    searched: float = 0.0
    remade: float = 0.0
    sorted: float = 0.0
    kept: float = 0.0

    def __add__(self, other: PlanWork) -> PlanWork:
        return PlanWork(*(one + more for one, more in zip(self.amounts, other.amounts, strict=True)))

    @property
    def amounts(self) -> tuple[float, ...]:
        return tuple(getattr(self, each.name) for each in fields(self))


# Microseconds each.
PRICES = PlanWork(tuples=0.49, chunks=28.0, passed=0.022, searched=0.027, remade=0.033, sorted=0.0046, kept=0.031)


def cost(plan: Node, statistics: Statistics, strategy: str = UPA) -> float:
    """Microseconds of processor time per second of event time, for the whole plan and for keeping its answer."""
    return sum(costs_by_kind(plan, statistics, strategy).values())


def costs_by_kind(plan: Node, statistics: Statistics, strategy: str) -> dict[str, float]:
    """The cost of each kind of work, by its name."""
    done = work(plan, statistics, strategy)
    return {each.name: getattr(PRICES, each.name) * getattr(done, each.name) for each in fields(done)}


def work(plan: Node, statistics: Statistics, strategy: str = UPA) -> PlanWork:
    lazy = evaluation_of(plan)
    known, waiting = (statistics, []) if lazy is None else _lazily(plan, lazy, statistics)
    answer, found = _worked(plan, known, strategy)
    return sum([*waiting, *_answer_work(answer, statistics, strategy)], found)


def _lazily(plan: Node, lazy: LazilySampled, known: Statistics) -> tuple[Statistics, list[PlanWork]]:
    """Operators work at the multiples alone. In between tuples wait, and each epoch goes through those that wait."""
    rates = [flow_above(window, known, UPA).rate for window in windows(plan)]
    waits = [
        PlanWork(chunks=min(known.epochs, rate), passed=known.epochs * rate * lazy.slide / SECOND / 2) for rate in rates
    ]
    return replace(known, epochs=min(known.epochs, SECOND / lazy.slide)), waits


def _worked(node: Node, known: Statistics, strategy: str) -> tuple[Flow, PlanWork]:
    lower = strategy_below(node, strategy)
    below = [_worked(input, known, lower) for input in inputs(node)]
    flows = [each for each, _ in below]
    above = flow(node, flows, known, strategy)
    spent = sum((each for _, each in below), PlanWork(tuples=sum(each.tuples for each in flows) + above.tuples))
    return above, sum(_state_work(node, flows, above, known, strategy), spent)


def _state_work(node: Node, below: list[Flow], above: Flow, known: Statistics, strategy: str) -> Iterator[PlanWork]:
    """An operator's work on its state."""
    if isinstance(node, BaseWindow):
        if strategy == NT and above.pattern is UpdatePattern.STRICT:
            yield PlanWork(kept=known.epochs * above.live)
        return
    if isinstance(node, Distinct) and strategy != DIRECT and below[0].pattern is not UpdatePattern.STRICT:
        # Delta-star has two tuples for each value, and rewrites both.
        size = 2 * known.epochs * above.live
        yield PlanWork(passed=size, remade=size, chunks=2 * known.epochs)
        return
    if isinstance(node, GroupBy) and drops_outdone(node, strategy):
        below = [replace(below[0], live=_outlasting(below[0].live, above.live, len(node.calls)))]
    if isinstance(node, STORING):
        for each in below:
            yield from _buffer_work(each, known, strategy)
    if isinstance(node, MultiJoin) and not node.is_common:
        yield PlanWork(passed=partial_combinations(node, below, known))
    if isinstance(node, Sampled):
        yield PlanWork(passed=known.epochs * above.live)
    if isinstance(node, OuterJoin):
        kept = [each for each, keeps in zip(below, node.keeps, strict=True) if keeps]
        if node.condition is not None:
            # All live pairs.
            yield PlanWork(passed=known.epochs * above.live)
        for one in kept:
            # A negation for each kept side, over both.
            yield from (PlanWork(passed=known.epochs * each.live) for each in below)
            yield from (_sorting(each.live, known) for each in below)
            yield from [_sorting(one.live, known)] * (0 if one.pattern is UpdatePattern.STRICT else 2)
    if isinstance(node, Negation | Intersection | GroupBy):
        for each in below:
            yield _sorting(each.live, known)
    if isinstance(node, Negation | Intersection) and below[0].pattern is not UpdatePattern.STRICT:
        # By expiry, and back by key.
        yield from [_sorting(below[0].live, known)] * 2


def _outlasting(live: float, groups: float, calls: int) -> float:
    """How many tuples may become their groups' extremes: about ln n of n in random order, for each aggregate."""
    return min(live, groups * max(calls, 1) * (1 + math.log(max(live / groups, 1)))) if live else 0.0


def _buffer_work(edge: Flow, known: Statistics, strategy: str) -> Iterator[PlanWork]:
    """A stored input: each epoch goes through it once, and searches it for negative tuples."""
    yield PlanWork(passed=known.epochs * edge.live)
    yield from _kept_up(edge, known, strategy)


def _kept_up(edge: Flow, known: Statistics, strategy: str) -> Iterator[PlanWork]:
    if strategy == DIRECT:
        yield PlanWork(remade=known.epochs * edge.live, chunks=known.epochs)
        return
    spread = _PARTITIONS if edge.pattern >= UpdatePattern.WEAK else 1
    yield PlanWork(chunks=min(known.epochs * spread, edge.tuples))
    if edge.negative:
        yield PlanWork(searched=known.epochs * edge.live)


def _answer_work(edge: Flow, known: Statistics, strategy: str) -> Iterator[PlanWork]:
    """The work of keeping the answer; an answer without negative tuples need not be gone through."""
    yield PlanWork(tuples=edge.tuples)
    if edge.negative:
        yield PlanWork(passed=known.epochs * edge.live)
    yield from _kept_up(edge, known, strategy)


def _sorting(live: float, known: Statistics) -> PlanWork:
    return PlanWork(sorted=known.epochs * live * math.log2(live + 2))
