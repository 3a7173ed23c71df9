"""The join of n windows against the definition, at every instant, however the input is cut into micro-batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State, WorkingState
from sash.changes.build import pipelined
from sash.changes.deltas import net
from sash.changes.join import Int64s
from sash.changes.join_values import Booleans, kernel_members, kernel_numbered
from sash.changes.operator import Epoch, Share, StoredInput
from sash.changes.pipelined_join import kernel_combinations
from sash.core.changes import Changes, UpdatePattern, together
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import STRATEGIES, Aggregated, GroupBy, Join, Node, windows
from sash.plan.multi_join import MultiJoin
from sash.plan.rewrites import fuse_joins
from tests.changes.test_plans_oracle import END, restored, run
from tests.support.examples import examples
from tests.support.plans import INT, dense_tuples, named, plans, row_windows, time_windows, tuples, window
from tests.support.relational import Inputs, Row, answer, check_net, listed, view


def nested(node: MultiJoin) -> Node:
    """The same as joins of two, from left to right."""

    def joined(left: Node, place: int) -> Node:
        return Join(left, node.inputs[place], tuple((names[0], names[place]) for names in node.keys))

    return reduce(joined, range(1, len(node.inputs)), node.inputs[0])


@dataclass
class Running:
    """The operator alone, or each of several shares of it, over inputs that are stages of their own."""

    node: MultiJoin
    shares: int = 1

    def __post_init__(self) -> None:
        sides = tuple(StoredInput(f"side {place}", each.pattern, 7, 3) for place, each in enumerate(self.node.inputs))
        self._stages = [Stage(each, 3, named=True) for each in self.node.inputs]
        self._states = [State() for _ in self._stages]
        self._operator = pipelined(self.node, sides, width=0)
        self.state = State()

    def step(self, inputs: Inputs, low: int, high: int) -> Changes:
        below, place = [], 0
        for number, stage in enumerate(self._stages):
            arrived = {}
            for own, schema in enumerate(stage.schemas):
                arrived[own] = arrivals(inputs[place], schema, low, high)
                place += 1
            changes, self._states[number] = stage.step(self._states[number], arrived, low, high)
            below.append(changes)
        found = []
        for share in range(self.shares):
            working = WorkingState(self.state)
            found.append(self._operator.step(below, working, Epoch(low, high, Share(share, self.shares))))
        self.state = restored(working.finished())
        return net(together(found))


def arrivals(given_tuples: list[tuple[int, Row]], schema: pa.Schema, low: int, high: int) -> Arrivals:
    batch = [(ts, row) for ts, row in given_tuples if low <= ts < high]
    columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(schema)]
    return Arrivals(pa.table(columns, schema=schema), np.array([ts for ts, _ in batch], dtype=np.int64))


def changes_of(node: MultiJoin, inputs: Inputs, cuts: list[int], shares: int = 1) -> list[tuple[int, int, int, Row]]:
    running, found, low = Running(node, shares), [], 0
    for high in [*sorted(set(cuts)), END]:
        changes = running.step(inputs, low, high)
        assert all(low <= ts < high for ts in changes.ts.tolist())
        found += listed(changes)
        low = high
    return found


@st.composite
def joins(draw: st.DrawFn, *, windows_only: bool) -> MultiJoin:
    """Two to five inputs, joined on one column or on two."""
    inputs: list[Node] = []
    for place in range(draw(st.integers(2, 5))):
        kind = draw(st.sampled_from(["time", "time", "rows", "partition"] + ["plan"] * (not windows_only)))
        if kind == "plan":
            inputs.append(named(draw(plans(2, rows=False)), f"w{place}"))
        elif kind == "time":
            inputs.append(window(f"w{place}", draw(time_windows)))
        else:
            inputs.append(window(f"w{place}", draw(row_windows), ("a",) if kind == "partition" else ()))
    columns = draw(st.sampled_from([(0,), (0,), (0, 1)]))
    return MultiJoin(tuple(inputs), tuple(tuple(each.schema.names[i] for each in inputs) for i in columns))


def check(node: MultiJoin, inputs: Inputs, cuts: list[int]) -> None:
    changes, plan = changes_of(node, inputs, cuts), nested(node)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"
    assert Counter(changes) == Counter(changes_of(node, inputs, [])) == Counter(run(plan, inputs, []))


# Four or five inputs of one value have very many results: fewer tuples are enough.
_few = st.integers(0, 1)
some_tuples = st.lists(st.tuples(st.integers(1, 8), st.tuples(_few, _few)), min_size=2, max_size=6)
any_cuts = st.lists(st.integers(1, END - 1), max_size=6)


@given(st.data())
@settings(max_examples=examples(200))
def test_any_windows_give_the_definitions_answer(data: st.DataObject) -> None:
    node = data.draw(joins(windows_only=True), label="join")
    dense = dense_tuples if len(node.inputs) < 4 else some_tuples
    inputs = [data.draw(st.one_of(dense, tuples), label=each.alias) for each in windows(nested(node))]
    check(node, inputs, data.draw(any_cuts, label="cuts"))


@given(st.data())
@settings(max_examples=examples(100))
def test_any_inputs_give_the_definitions_answer(data: st.DataObject) -> None:
    """Negations, groups and other joins below: negative tuples come at any time."""
    node = data.draw(joins(windows_only=False), label="join")
    inputs = [data.draw(tuples, label=each.alias) for each in windows(nested(node))]
    check(node, inputs, data.draw(any_cuts, label="cuts"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(80))
def test_in_a_plan(strategy: str, data: st.DataObject) -> None:
    """Fused out of joins of two, below groups that ask who its rows are, under every strategy."""
    node = data.draw(joins(windows_only=True), label="join")
    below = nested(node)
    fused = fuse_joins(below)
    assert isinstance(fused, MultiJoin) == (len(node.inputs) > 2) and fused.schema == below.schema
    first, *_, last = below.schema.names
    call = Aggregated("value", data.draw(st.sampled_from(["count", "sum", "min"])), last, INT)
    plan, written = ((GroupBy(each, (first,), (call,)) for each in (fused, below))
                     if data.draw(st.booleans(), label="grouped") else (fused, below))  # fmt: skip
    inputs = [data.draw(tuples, label=each.alias) for each in windows(written)]
    cuts, late = data.draw(any_cuts, label="cuts"), data.draw(st.integers(0, 3), label="late")
    changes = run(plan, inputs, cuts, late=late, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(written, inputs, now), f"at {now}"
    assert Counter(changes) == Counter(run(plan, inputs, [], strategy=strategy))


def test_the_pattern_of_the_edge_above() -> None:
    time, rows, always = window("S", TimeWindow(3)), window("T", RowWindow(3)), window("U", TimeWindow(FOREVER))
    for inputs in [(time, time), (time, always), (time, rows), (always, always)]:
        node = MultiJoin((*inputs, inputs[0]), (("S.a", "T.a", "U.a"),))
        assert node.pattern is nested(node).pattern and node.lifetime is None
    assert MultiJoin((always, always), (("U.a", "U.a"),)).pattern is UpdatePattern.MONOTONIC
    assert MultiJoin((time, rows, time), (("S.a", "T.a", "S.a"),)).pattern is UpdatePattern.STRICT


def test_only_the_live_tuples_of_the_inputs_are_stored() -> None:
    """Three inputs of one value have 40^3 results at a time, and 40^2 pairs that joins of two would store."""
    names = ("S", "T", "U")
    node = MultiJoin(tuple(window(name, TimeWindow(40)) for name in names), (tuple(f"{name}.a" for name in names),))
    running, sizes = Running(node), []
    for now in range(120):
        found = running.step([[(now, (1, now))]] * 3, now, now + 1)
        sizes.append(running.state.tuples)
        assert len(found) == min(now + 1, 40) ** 3 - min(now, 39) ** 3
    assert max(sizes) <= 2 * 3 * 40


lives = st.lists(
    st.tuples(_few, st.integers(0, 9), st.integers(4, 9), st.integers(1, 12), st.booleans()), min_size=2, max_size=6
)


def reference_members(
    codes: Int64s, wanted: Booleans, touched: Booleans, keys: Int64s
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """`kernel_members` by looking for each key in turn, keys numbered as they come."""
    found = []
    for key in dict.fromkeys(keys.tolist()):
        mine = np.flatnonzero((codes == key) & wanted)
        found.append((mine[touched[mine]], mine[~touched[mine]]))
    sizes = [len(hit) + len(others) for hit, others in found]
    last = np.cumsum(np.array(sizes, dtype=np.int64))
    first = last - np.array(sizes, dtype=np.int64)
    middle = first + np.array([len(hit) for hit, _ in found], dtype=np.int64)
    parts = [part for pair in found for part in pair]
    return first, middle, last, np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def reference_combinations(
    bounds: Int64s, orders: Int64s, members: Int64s, ts: Int64s, exp: Int64s, end: Int64s, low: int
) -> set[tuple[tuple[int, ...], int, int, int]]:
    """`kernel_combinations`, as a set, by trying every combination of a key whatever its tuples are."""
    found = set()
    for key in range(bounds.shape[2]):
        first, middle, last = bounds[:, :, key]
        ranges = [range(*limits) for limits in zip(first.tolist(), last.tolist(), strict=True)]
        for chosen in product(*ranges):
            picks = list(chosen)
            start, until, taken = int(ts[picks].max()), int(exp[picks].min()), int(end[picks].min())
            changes = start < min(until, taken) and (start >= low or taken < until)
            if changes and any(place < middle[side] for side, place in enumerate(chosen)):
                found.add((tuple(members[picks].tolist()), start, until, taken))
    return found


@given(st.lists(lives, min_size=1, max_size=4), st.integers(3, 9), st.randoms(use_true_random=False))
@settings(max_examples=examples(200))
def test_kernels(sides: list[list[tuple[int, int, int, int, bool]]], low: int, chance: object) -> None:
    bounds, members, times = [], [], []
    columns = [[np.array([each[i] for each in side], dtype=np.int64) for i in range(5)] for side in sides]
    keys = np.concatenate([codes[touched.astype(bool)] for codes, *_, touched in columns])
    slots, numbers, count = kernel_numbered(keys)
    assert count == len(set(keys.tolist()))
    for codes, ts, length, taken, touched in columns:
        wanted = ts + length > low
        found = kernel_members(codes, wanted, touched.astype(bool), keys, slots, numbers, count)
        expected = reference_members(codes, wanted, touched.astype(bool), keys)
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
        bounds.append([part + sum(map(len, members)) for part in found[:3]])
        members.append(found[3])
        times.append([part[found[3]] for part in (ts, ts + length, ts + taken)])
    orders = [[side, *sorted((i for i in range(len(sides)) if i != side), key=lambda _: chance.random())]
              for side in range(len(sides))]  # fmt: skip
    arguments = (
        np.stack(bounds, 1), np.array(orders), np.concatenate(members),
        *(np.concatenate([part[i] for part in times]) for i in range(3)), low,
    )  # fmt: skip
    places, *lifetimes = kernel_combinations(*arguments)
    listed_ = list(zip(map(tuple, places.T.tolist()), *(part.tolist() for part in lifetimes), strict=True))
    assert len(listed_) == len(set(listed_)) and set(listed_) == reference_combinations(*arguments)
