"""Joins of windows on different attributes against the definition: chains, stars, trees and cycles, in one operator."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes.graph_join import Booleans, Values, kernel_connected, kernel_grouped
from sash.changes.join import Int64s
from sash.changes.lifetimes import Lifetimes
from sash.core.changes import NEVER, Changes
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import STRATEGIES, Aggregated, GroupBy, Join, windows
from sash.plan.multi_join import MultiJoin
from sash.plan.rewrites import fuse_joins
from sash.plan.stages import EVERYWHERE, stages
from tests.changes.test_multi_join import Running, any_cuts, changes_of, some_tuples
from tests.changes.test_plans_oracle import END
from tests.changes.test_plans_oracle import run as run_in_one_stage
from tests.changes.test_stages_oracle import run
from tests.support.examples import examples
from tests.support.graphs import graphs, nested
from tests.support.plans import INT, TABLES, dense_tuples, named, table_plans, tuples, updates, versions, window
from tests.support.relational import Inputs, answer, check_net, view


def fused(plan: Join) -> MultiJoin:
    found = fuse_joins(plan)
    assert isinstance(found, MultiJoin) and found.schema == plan.schema
    return found


def drawn(data: st.DataObject, plan: Join, *, dense: bool = True) -> Inputs:
    """Four or five inputs have very many results: fewer tuples are enough."""
    many = dense_tuples if len(windows(plan)) < 4 else some_tuples
    choice = st.one_of(many, tuples) if dense else tuples
    return [data.draw(choice, label=each.alias) for each in windows(plan)]


@given(st.data())
@settings(max_examples=examples(100))
def test_any_windows_give_the_definitions_answer(data: st.DataObject) -> None:
    plan = data.draw(graphs(), label="graph")
    check(data, plan, drawn(data, plan))


@given(st.data())
@settings(max_examples=examples(60))
def test_any_inputs_give_the_definitions_answer(data: st.DataObject) -> None:
    """Negations, groups and other joins below: negative tuples come at any time."""
    plan = data.draw(graphs(windows_only=False, most=4), label="graph")
    check(data, plan, drawn(data, plan, dense=False))


def check(data: st.DataObject, plan: Join, inputs: Inputs) -> None:
    """At every instant; the changes are those of joins of two, however the input is cut and the work is shared."""
    node, cuts = fused(plan), data.draw(any_cuts, label="cuts")
    changes = changes_of(node, inputs, cuts)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"
    shared = changes_of(node, inputs, cuts, shares=3)
    whole = changes_of(node, inputs, [])
    assert Counter(changes) == Counter(whole) == Counter(shared) == Counter(run_in_one_stage(plan, inputs, []))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(40))
def test_in_buckets(strategy: str, data: st.DataObject) -> None:
    """Some inputs are spread and the others are in every bucket, below groups that ask who the rows are or not."""
    below = data.draw(graphs(), label="graph")
    call = Aggregated("value", data.draw(st.sampled_from(["count", "sum", "min"])), below.schema.names[-1], INT)
    key = data.draw(st.sampled_from(below.schema.names), label="key")
    grouped = data.draw(st.booleans(), label="grouped")
    plan, written = (GroupBy(each, (key,), (call,)) if grouped else each for each in (fused(below), below))
    inputs = drawn(data, below)
    cuts, late = data.draw(any_cuts, label="cuts"), data.draw(st.integers(0, 3), label="late")
    buckets = data.draw(st.integers(1, 3), label="buckets")
    changes = run(plan, inputs, cuts, buckets, late=late, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(written, inputs, now), f"at {now}"
    for other in {1, 2, 3} - {buckets}:
        assert Counter(run(plan, inputs, [], other, strategy=strategy, shares=2)) == Counter(changes)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(40))
def test_inputs_that_are_plans_in_buckets(strategy: str, data: st.DataObject) -> None:
    """What takes more than a row at a time is done once, and its changes go to every bucket."""
    plan = data.draw(graphs(windows_only=False, most=4), label="graph")
    inputs = drawn(data, plan, dense=False)
    cuts, buckets = data.draw(any_cuts, label="cuts"), data.draw(st.integers(1, 3), label="buckets")
    changes = run(fused(plan), inputs, cuts, buckets, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(30))
def test_inputs_that_are_joined_with_tables(strategy: str, data: st.DataObject) -> None:
    """A join with a table is repeated in every bucket that needs a copy of its tuples."""
    sides = [named(data.draw(table_plans()), "w0"), *(window(name, TimeWindow(5)) for name in ("w1", "w2"))]
    chain = nested(sides, [((0, 1), ("w0.a", "w1.a")), ((1, 2), ("w1.b", "w2.b"))])
    star = nested(sides, [((0, 1), ("w0.a", "w1.a")), ((0, 2), ("w0.b", "w2.b"))])
    plan = data.draw(st.sampled_from([chain, star]), label="graph")
    inputs = [data.draw(st.one_of(tuples, dense_tuples), label=each.alias) for each in windows(plan)]
    tables = {table.name: versions(data.draw(updates, label=table.name)) for table in TABLES.values()}
    cuts, buckets = data.draw(any_cuts, label="cuts"), data.draw(st.integers(1, 3), label="buckets")
    changes = run(fused(plan), inputs, cuts, buckets, strategy=strategy, tables=tables)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now, tables), f"at {now}"


A, B, C, D = (window(name, TimeWindow(40)) for name in "ABCD")
FORMS = {
    "chain": nested([A, B, C, D], [((0, 1), ("A.a", "B.a")), ((1, 2), ("B.b", "C.a")), ((2, 3), ("C.b", "D.a"))]),
    "star": nested([A, B, C, D], [((0, 1), ("A.a", "B.a")), ((0, 2), ("A.b", "C.a")), ((0, 3), ("A.b", "D.b"))]),
    "cycle": nested([A, B, C], [((0, 1), ("A.a", "B.a")), ((1, 2), ("B.b", "C.a")), ((0, 2), ("A.b", "C.b"))]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_only_the_live_tuples_of_the_inputs_are_stored(form: str) -> None:
    """Tuples of one value: after 40 instants any two windows have 1,600 pairs, which joins of two would store."""
    node = fused(FORMS[form])
    running = Running(node)
    for now in range(60):
        found = running.step([[(now, (1, 1))]] * len(node.inputs), now, now + 1)
        living = min(now + 1, 40)
        assert len(found) == living ** len(node.inputs) - (living - 1) ** len(node.inputs)
        stored = [chunk.tuples for chunks in running.state.buffers.values() for chunk in chunks]
        # What expires at the end of the epoch is gone already.
        assert sum(int((each.exp > now + 1).sum()) for each in stored) == min(now + 1, 39) * len(node.inputs)
        assert running.state.tuples <= 2 * 40 * len(node.inputs)


def test_where_the_inputs_of_a_chain_go() -> None:
    (stage,) = stages(fused(FORMS["chain"]))
    assert stage.spread and stage.copies
    assert dict(stage.windows) == {0: EVERYWHERE, 1: EVERYWHERE, 2: "C.b", 3: "D.a"}


def test_rows_are_counted_in_every_bucket() -> None:
    """A window of the last rows of a whole stream could not be spread, but it can be copied."""
    plan = fused(nested([A, B, window("C", RowWindow(2))], [((0, 1), ("A.a", "B.a")), ((1, 2), ("B.b", "C.a"))]))
    assert [dict(stage.windows) for stage in stages(plan)] == [{0: "A.a", 1: "B.a", 2: EVERYWHERE}]


lives = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(4, 9), st.integers(1, 12), st.booleans())


def reference_grouped(numbers: Int64s, wanted: Booleans, count: int) -> tuple[Int64s, Int64s]:
    """`kernel_grouped` by sorting."""
    places = np.flatnonzero(wanted)
    members = places[np.argsort(numbers[places], kind="stable")]
    return np.searchsorted(numbers[members], np.arange(count + 1)), members


def reference_connected(
    roots: Int64s, sides: Int64s, lookups: Int64s, checks: Int64s, starts: Int64s, members: Int64s,
    numbers: Int64s, touched: Booleans, ts: Int64s, exp: Int64s, end: Int64s, low: int,
) -> set[tuple[tuple[int, ...], int, int, int]]:  # fmt: skip
    """`kernel_connected`, as a set, by trying every combination of tuples of the inputs."""
    every = [roots.tolist()]
    for attribute, _, begin in lookups[1:].tolist():
        every.append(members[starts[begin] : starts[begin + numbers[attribute].max() + 1]].tolist())
    equal = [(depth, attribute, other) for depth, (attribute, other, _) in enumerate(lookups.tolist()) if depth]
    equal += checks.tolist()
    found = set()
    for chosen in product(*every):
        picks = list(chosen)
        start, until, taken = int(ts[picks].max()), int(exp[picks].min()), int(end[picks].min())
        changes = start < min(until, taken) and (start >= low or taken < until)
        tied = all(numbers[each, picks[one]] == numbers[each, picks[other]] for one, each, other in equal)
        mine = not any(touched[place] for place, side in zip(picks, sides, strict=True) if side < sides[0])
        if changes and tied and mine:
            found.add((tuple(picks[place] for place in np.argsort(sides)), start, until, taken))
    return found


@given(st.data())
@settings(max_examples=examples(200))
def test_kernels(data: st.DataObject) -> None:
    node, low = fused(data.draw(graphs(most=4), label="graph")), data.draw(st.integers(3, 9), label="low")
    sides = [np.array(data.draw(st.lists(lives, min_size=1, max_size=5)), dtype=np.int64) for _ in node.inputs]
    rows = st.lists(st.integers(0, 2), min_size=sum(map(len, sides)), max_size=sum(map(len, sides)))
    numbers = np.array([data.draw(rows, label="values") for _ in node.attributes], dtype=np.int64)
    touched = [side[:, 4].astype(bool) for side in sides]
    wanted = [side[:, 1] + side[:, 2] > low for side in sides]
    alive = [_alive(side) for side in sides]
    for own, side in zip(wanted, sides, strict=True):
        found, expected = (each(side[:, 0], own, 3) for each in (kernel_grouped, reference_grouped))
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
    values = Values(node.attributes, alive, numbers, touched, wanted)
    every = []
    for turn in values.turns:
        places, *times = kernel_connected(*values.arguments(turn, low))
        listed = list(zip(map(tuple, places.T.tolist()), *(part.tolist() for part in times), strict=True))
        assert len(listed) == len(set(listed)) and set(listed) == reference_connected(*values.arguments(turn, low))
        every += listed
    assert len(every) == len(set(every))


def _alive(side: np.ndarray) -> Lifetimes:
    _, ts, length, taken, touched = side.T
    sign, ids = np.ones(len(side), dtype=np.int8), np.zeros((len(side), 0), dtype=np.int64)
    rows = window("S", TimeWindow(1)).schema.empty_table()
    return Lifetimes(Changes(rows, ts, ts + length, sign, ids), np.where(touched, ts + taken, NEVER), 0)
