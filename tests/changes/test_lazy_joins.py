"""Lazy evaluation of joins under SLIDE: the answers of the eager plan and of the definition, with less work."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.joins.lazy_join import join_lazily
from papers.joins.run import INTERVAL, STREAMS, UNIT
from sash.changes import Arrivals, Stage, pipelined_join
from sash.changes.bucket_state import State
from sash.core.changes import UpdatePattern
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import (
    STRATEGIES,
    Aggregated,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Negation,
    Node,
    NrrJoin,
    OuterJoin,
    Union,
    edges,
    windows,
)
from sash.plan.join_order import EAGER, JoinExecution, JoinInput, augmented, cost
from sash.plan.lazy_joins import eagerly, evaluation_of, keeps_times, lazily
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import DSTREAM, ISTREAM, Deltas, LazilySampled, Sampled
from sash.plan.rewrites import fuse_joins
from tests.changes.test_plans_oracle import END, run
from tests.changes.test_stages_oracle import run as run_in_buckets
from tests.support.examples import examples
from tests.support.multi_joins import arriving
from tests.support.plans import INT, dense_tuples, less, named, row_windows, time_windows, tuples, window, with_table
from tests.support.relational import answer, check_net, view

any_cuts = st.lists(st.integers(1, END - 1), max_size=8)


@st.composite
def sides(draw: st.DrawFn, name: str) -> Node:
    """A window of time or of rows, a part of one, or a union of two."""
    kinds = st.one_of(time_windows, time_windows, row_windows, st.just(TimeWindow(FOREVER)))
    side: Node = window(name, draw(kinds))
    form = draw(st.sampled_from(["as it is", "as it is", "filter", "union"]))
    if form == "filter":
        return Filter(side, less(f"{name}.b", 2))
    return named(Union((side, window(f"{name}2", draw(kinds)))), f"{name}3") if form == "union" else side


@st.composite
def relations(draw: st.DrawFn) -> Node:
    """A join, or something that counts, groups or matches its rows."""
    join = draw(joined())
    form = draw(st.sampled_from(["join", "join", "distinct", "group", "total", "negation", "intersection"]))
    if form == "join":
        return join
    first, second = join.schema.names[0], join.schema.names[-1]
    if form in ("distinct", "group", "total"):
        pairs = named(join, "G", first, second)
        calls = (Aggregated("n", "count", None, INT), Aggregated("most", "max", "G.b", INT))
        return Distinct(pairs) if form == "distinct" else GroupBy(pairs, ("G.a",) if form == "group" else (), calls)
    kind = Negation if form == "negation" else Intersection
    return kind(join, window("X", draw(time_windows)), ((second, "X.a"),), whole=True)


@st.composite
def joined(draw: st.DrawFn) -> Node:
    """Two to four inputs, joined by one column or along a chain."""
    first, *others = [draw(sides(name)) for name in "STUV"[: draw(st.integers(2, 4))]]
    joined, last = first, first
    for other in others:
        column = draw(st.integers(0, 1))
        keys = ((last.schema.names[column], other.schema.names[0]),)
        keeps = draw(st.sampled_from([None, None, (True, False), (False, True), (True, True)]))
        joined = Join(joined, other, keys) if keeps is None else OuterJoin(joined, other, keys, *keeps)
        last = other
    return named(Filter(joined, less(joined.schema.names[1], 3)), "W") if draw(st.booleans()) else joined


@st.composite
def samples(draw: st.DrawFn) -> Node:
    """A join at the multiples of SLIDE, in all the ways in which a query gives its answer."""
    plan, slide = draw(relations()), draw(st.integers(1, 9))
    offset = draw(st.integers(0, slide - 1))
    form, kind = (
        draw(st.sampled_from(["rows", "restored", "new", "new, restored"])),
        draw(st.sampled_from([ISTREAM, DSTREAM])),
    )
    if form in ("rows", "restored"):
        return Sampled(plan, slide, offset, form == "restored")
    if form == "new":
        return Deltas(Sampled(plan, slide, offset), kind)
    return Sampled(Deltas(plan, kind), slide, offset)


def is_defined(plan: Node) -> bool:
    """Whether the definition has its answers: no results that came and went, no row over no tuples."""
    totals = any(isinstance(node, GroupBy) and not node.keys for _, node in edges(plan))
    return not totals and not (isinstance(plan, Sampled) and plan.restore)


def forms(plan: Node) -> st.SearchStrategy[Node]:
    """The joins one by one, or all at once."""
    return st.sampled_from([plan, fuse_joins(plan)])


def lazy(plan: Node) -> Node:
    found = lazily(plan)
    assert found is not None and evaluation_of(found) is not None and eagerly(found) == plan != found
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(200))
def test_lazy_plans_have_the_changes_of_eager_plans(strategy: str, data: st.DataObject) -> None:
    plan = data.draw(samples(), label="plan")
    inputs = [data.draw(st.one_of(tuples, dense_tuples), label=each.alias) for each in windows(plan)]
    late = data.draw(st.integers(0, 3), label="late")
    form = data.draw(forms(plan), label="form")
    found = run(lazy(form), inputs, data.draw(any_cuts, label="cuts"), late=late, strategy=strategy)
    check_net(found)
    assert Counter(found) == Counter(run(form, inputs, data.draw(any_cuts, label="eager cuts"), strategy=strategy))
    for now in range(END) if is_defined(plan) else ():
        assert view(found, now) == answer(plan, inputs, now), f"at {now}"


@given(st.data())
@settings(max_examples=examples(100))
def test_tuples_that_come_too_late_are_left_out_as_by_eager_plans(data: st.DataObject) -> None:
    """A tuple before the watermark is late, though no multiple has seen its instant yet."""
    plan = data.draw(samples(), label="plan")
    plan = data.draw(forms(plan), label="form")
    inputs = [data.draw(tuples, label=each.alias) for each in windows(plan)]
    came = [data.draw(st.lists(st.integers(0, END - 1), min_size=len(each), max_size=len(each))) for each in inputs]
    cuts = [0, *sorted(set(data.draw(any_cuts, label="cuts"))), END]
    found = []
    for each in (plan, lazy(plan)):
        stage, state, changes = Stage(each, 3), State(), list[Any]()
        for low, high in pairwise(cuts):
            arrived = {
                place: _arrivals([each for each, at in zip(given_, times, strict=True) if low <= at < high], schema)
                for place, (given_, times, schema) in enumerate(zip(inputs, came, stage.schemas, strict=True))
            }
            step, state = stage.step(state, arrived, low, high)
            changes += zip(step.ts.tolist(), step.exp.tolist(), step.sign.tolist(), step.rows.to_pylist(), strict=True)
        found.append(Counter(map(str, changes)))
    assert found[0] == found[1]


def _arrivals(batch: list[tuple[int, tuple[int | None, ...]]], schema: pa.Schema) -> Arrivals:
    columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(schema)]
    return Arrivals(pa.table(columns, schema=schema), np.array([ts for ts, _ in batch], dtype=np.int64))


@given(st.data())
@settings(max_examples=examples(100))
def test_buckets_stages_and_shares_of_lazy_plans(data: st.DataObject) -> None:
    plan = data.draw(samples(), label="plan")
    plan = data.draw(forms(plan), label="form")
    inputs = [data.draw(st.one_of(tuples, dense_tuples), label=each.alias) for each in windows(plan)]
    cuts, buckets = data.draw(any_cuts, label="cuts"), data.draw(st.integers(1, 3), label="buckets")
    shares = data.draw(st.integers(1, 3), label="shares")
    assert Counter(run_in_buckets(lazy(plan), inputs, cuts, buckets, shares=shares)) == Counter(run(plan, inputs, []))


@given(st.data())
@settings(max_examples=examples(100))
def test_algorithms_4_and_5_find_the_same(data: st.DataObject) -> None:
    """The algorithms of the thesis as papers/joins has them: the same results at the same multiples."""
    lengths = [data.draw(st.integers(1, 12), label="length") for _ in range(data.draw(st.integers(2, 4)))]
    inputs = [data.draw(tuples, label="tuples") for _ in lengths]
    inputs = [[(ts, row) for ts, row in each if row[0] is not None] for each in inputs]
    interval, restore = data.draw(st.integers(1, 7), label="interval"), data.draw(st.booleans(), label="restore")
    arrived = arriving([[(ts, row[0]) for ts, row in each] for each in inputs], [("time", each) for each in lengths])
    patterns = [UpdatePattern.WEAKEST] * len(lengths)
    found = join_lazily(arrived, tuple(range(len(lengths))), patterns, interval=interval, restore=restore)
    names = [f"w{place}" for place in range(len(lengths))]
    inner = tuple(window(name, TimeWindow(length)) for name, length in zip(names, lengths, strict=True))
    join = MultiJoin(inner, (tuple(f"{name}.a" for name in names),))
    ours = run(lazy(Sampled(join, interval, restore=restore)), inputs, data.draw(any_cuts, label="cuts"))
    reported = Counter(at for at in found.reported.tolist() if at < END)
    assert Counter(ts for ts, *_ in ours) == reported


S, T, U = (window(name, TimeWindow(length)) for name, length in (("S", 6), ("T", 6), ("U", 6)))
JOIN = MultiJoin((S, T, U), (("S.a", "T.a", "U.a"),))


def step(
    stage: Stage, state: State, given_: dict[int, list[tuple[int, int]]], low: int, high: int
) -> tuple[int, State]:
    arrived = {
        place: _arrivals([(ts, (a, 0)) for ts, a in each], stage.schemas[place]) for place, each in given_.items()
    }
    changes, after = stage.step(state, arrived, low, high)
    return len(changes), after


def test_tuples_wait_for_their_multiple_and_results_never_do() -> None:
    stage, sampled = Stage(lazy(Sampled(JOIN, 10))), Stage(Sampled(JOIN, 10))
    given_ = {place: [(5, 1)] * 4 for place in range(3)}
    found, state = step(stage, State(), given_, 1, 9)
    assert found == 0 and state.buffers.keys() == {"00.pending", "01.pending", "02.pending"} and state.tuples == 12
    assert step(sampled, State(), given_, 1, 9)[1].tuples == 12 + 4**3
    found, state = step(stage, state, {}, 9, 12)
    assert found == 4**3
    # They expire at 11: the next multiple does not see them, so they are not stored.
    assert state.tuples == 0
    assert step(Stage(lazy(Sampled(JOIN, 10, restore=True))), State(), given_, 1, 11)[1].tuples == 0


def test_tuples_that_no_multiple_sees_take_no_part() -> None:
    """Algorithm 4 leaves them out; algorithm 5 finds the results that they had."""
    given_ = {place: [(12, 1)] for place in range(3)}
    for restore, results in ((False, 0), (True, 1)):
        stage = Stage(lazy(Sampled(JOIN, 10, restore=restore)))
        found, state = step(stage, State(), given_, 11, 25)
        assert (found, state.tuples) == (results, 0)


def test_what_is_evaluated_eagerly() -> None:
    rows = window("R", RowWindow(3))
    looked_up = Sampled(with_table(NrrJoin, JOIN, "S.a", "n"), 5)
    for plan in (JOIN, Sampled(S, 5), Sampled(Distinct(Union((S, T))), 5), Deltas(JOIN, ISTREAM), looked_up):
        assert lazily(plan) is None and evaluation_of(plan) is None and eagerly(plan) is plan
    found = lazy(Sampled(Join(rows, S, (("R.a", "S.a"),)), 5, 2, True))
    assert found == LazilySampled(Join(rows, S, (("R.a", "S.a"),)), 5, 2, True)
    assert not keeps_times(lazy(Sampled(JOIN, 5))) and keeps_times(lazy(Sampled(Distinct(JOIN), 5)))
    assert found.describe() == "Every 0.005 ms, short-lived results included, computed only then"


class Probes:
    """Counts the tuples that new tuples look at in other inputs, from the orders of the operator's kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self._kernel = pipelined_join.kernel_combinations
        monkeypatch.setattr(pipelined_join, "kernel_combinations", self._counted)

    def _counted(self, bounds: Any, orders: Any, *others: Any) -> Any:
        for turn, order in enumerate(orders.tolist()):
            begins = [bounds[1 if side < turn else 0, side] for side in order]
            sizes = [bounds[1 if side == turn else 2, side] for side in order] - np.stack(begins)
            looked_at = np.cumprod(sizes * (sizes[order.index(turn)] > 0), axis=0)
            self.number += int(np.delete(looked_at, order.index(turn), axis=0).sum())
        return self._kernel(bounds, orders, *others)


def probed(plan: Node, epoch: int, epochs: int, probes: Probes) -> float:
    """Per unit of time, over the streams of table 5.5, once the windows are full."""
    chance, stage, state, full = np.random.default_rng(3), Stage(plan), State(), 110 // epoch
    for number in range(full + epochs):
        if number == full:
            probes.number = 0
        arrived = {}
        for place, each in enumerate(STREAMS):
            count = int(each.rate) * epoch
            ts = np.sort(chance.integers(1, epoch + 1, count)) + number * epoch
            values = pa.array(chance.integers(0, int(each.values), count), INT)
            arrived[place] = Arrivals(pa.table([values, values], schema=stage.schemas[place]), ts)
        _, state = stage.step(state, arrived, number * epoch + 1, (number + 1) * epoch + 1)
    return probes.number / (epochs * epoch)


def test_as_many_tuples_are_probed_as_the_cost_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams of table 5.5, with a hash bucket per value: lazily each value of an interval probes once."""
    assert sum(int(each.rate) for each in STREAMS) == UNIT
    inner = tuple(window(f"S{place}", TimeWindow(int(each.length))) for place, each in enumerate(STREAMS, 1))
    join = MultiJoin(inner, (tuple(f"{each.alias}.a" for each in inner),))
    inputs = [JoinInput(each.rate, each.length, each.values, each.values) for each in STREAMS]
    probes, counted = Probes(monkeypatch), dict[str, float]()
    for name, plan, execution in (
        ("eager", Sampled(join, INTERVAL), EAGER),
        ("lazy", lazy(Sampled(join, INTERVAL)), JoinExecution(True, False, INTERVAL)),
        ("restore", lazy(Sampled(join, INTERVAL, restore=True)), JoinExecution(True, True, INTERVAL)),
    ):
        counted[name] = probed(plan, INTERVAL, 20, probes)
        expected = float(cost(augmented(inputs, execution=execution), inputs, execution))
        assert counted[name] == pytest.approx(expected, rel=0.2), name
    assert counted["lazy"] < counted["restore"] < counted["eager"]
