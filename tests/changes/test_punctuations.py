"""Promises about values that do not come again: the same answers from less state, as long as they are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.changes import Changes
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import (
    DIRECT,
    NT,
    UPA,
    Aggregated,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Negation,
    Node,
    windows,
)
from sash.plan.multi_join import MultiJoin
from sash.plan.punctuations import Promise, useful_promises
from tests.changes.test_plans_oracle import END, restored, run
from tests.support.examples import examples
from tests.support.plans import INT, dense_tuples, less, named, window
from tests.support.relational import Inputs, answer, listed, view

S, T, U = (window(name, TimeWindow(length)) for name, length in (("S", 9), ("T", 6), ("U", 12)))
FOREVER_S = window("S", TimeWindow(FOREVER))
CALLS = (Aggregated("n", "count", None, INT), Aggregated("most", "max", "S.b", INT))
JOIN = Join(S, T, (("S.a", "T.a"),))
PLANS: dict[str, Node] = {
    "join": JOIN,
    "two columns": Join(S, T, (("S.a", "T.a"), ("S.b", "T.b"))),
    "crossed columns": Join(S, T, (("S.a", "T.b"),)),
    "with itself": Join(S, replace(window("S2", TimeWindow(6)), stream="S"), (("S.a", "S2.a"),)),
    "of three": MultiJoin((S, T, U), (("S.a", "T.a", "U.a"),)),
    "chain": MultiJoin((S, T, U), (("S.a", "T.a", None), (None, "T.b", "U.b"))),
    "below projections": Join(named(Filter(S, less("S.b", 3)), "x", "S.b", "S.a"), T, (("x.b", "T.a"),)),
    "below distinct": Distinct(JOIN),
    "below a negation": Negation(JOIN, U, (("S.a", "U.a"),), whole=True),
    "of negations": Join(Negation(S, U, (("S.a", "U.a"),), whole=True), T, (("S.a", "T.a"),)),
    "of rows": Join(window("S", RowWindow(3)), T, (("S.a", "T.a"),)),
    "nested": Join(JOIN, U, (("S.a", "U.a"),)),
    "groups": GroupBy(FOREVER_S, ("S.a",), CALLS),
    "groups of two": GroupBy(Filter(FOREVER_S, less("S.b", 3)), ("S.a", "S.b"), CALLS),
    "groups of a window": GroupBy(S, ("S.a",), CALLS),
    "distinct groups": Distinct(named(GroupBy(FOREVER_S, ("S.a",), CALLS), "g", "S.a", "n")),
    "all": GroupBy(FOREVER_S, (), CALLS),
}


def promised(
    plan: Node,
    inputs: Inputs,
    cuts: list[int],
    promises: Mapping[int, list[tuple[str, str, int]]],
    *,
    late: int = 0,
    strategy: str = UPA,
) -> tuple[list[tuple[int, int, int, tuple[object, ...]]], list[int], int]:
    """All changes up to END, the sizes of the state, and how many tuples broke a promise. `promises` are by cut.

    As in `run`, tuples arrive in the micro-batch in which the watermark is `late` behind them.
    """
    stage, state, low = Stage(plan, 3, strategy), State(), 0
    found, sizes, broken, latest = list[tuple[int, int, int, tuple[object, ...]]](), list[int](), 0, -1
    for high in [*sorted(set(cuts)), END]:
        arrived = {}
        for place, (schema, given_tuples) in enumerate(zip(stage.schemas, inputs, strict=True)):
            first, last = (low + late if low else 0), (high + late if high < END else END)
            batch = [(ts, row) for ts, row in given_tuples if first <= ts < last]
            latest = max([latest, *(ts for ts, _ in batch)])
            columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(schema)]
            ts = np.array([ts for ts, _ in batch], dtype=np.int64)
            arrived[place] = Arrivals(pa.table(columns, schema=schema), ts)
        given_promises = [Promise(stream, column, pa.array([value], pa.int32()), latest)
                          for stream, column, value in promises.get(high, ())]  # fmt: skip
        changes, state = stage.step(state, arrived, low, high, promises=given_promises)
        found += listed(changes)
        stored = sized(state, high)
        sizes.append(sum(n for name, n in stored.items() if ".promised." not in name and "pending" not in name))
        broken += sum(state.broken.values())
        state, low = restored(state), high
    return found, sizes, broken


def sized(state: State, now: int) -> dict[str, int]:
    """How many live tuples each buffer has; dead ones stay as long as their chunk does."""
    return {
        name: sum(int((chunk.tuples.exp > now).sum()) for chunk in chunks) for name, chunks in state.buffers.items()
    }


def kept(
    inputs: Inputs, plan: Node, promises: Mapping[int, list[tuple[str, str, int]]], late: int
) -> list[list[tuple[int, tuple[object, ...]]]]:
    """The inputs without the tuples that would break a promise."""
    found = []
    for leaf, given_tuples in zip(windows(plan), inputs, strict=True):
        mine = [(cut, "ab".index(column), value) for cut, each in promises.items() for stream, column, value in each
                if stream.lower() == leaf.stream.lower()]  # fmt: skip
        found.append([(ts, row) for ts, row in given_tuples
                      if not any(ts >= cut + late and row[place] == value for cut, place, value in mine)])  # fmt: skip
    return found


@pytest.mark.parametrize("name", PLANS)
@given(st.data())
@settings(max_examples=examples(60))
def test_kept_promises_change_no_answer(name: str, data: st.DataObject) -> None:
    plan, strategy = PLANS[name], data.draw(st.sampled_from([UPA, UPA, NT, DIRECT]), label="strategy")
    cuts = data.draw(st.lists(st.integers(1, END - 4), min_size=1, max_size=8, unique=True), label="cuts")
    late = data.draw(st.integers(0, 3), label="late")
    about = st.tuples(st.sampled_from(["s", "T", "U"]), st.sampled_from("ab"), st.integers(0, 3))
    by_cut = st.dictionaries(st.sampled_from(cuts), st.lists(about, max_size=3), max_size=4)
    promises = data.draw(by_cut, label="promises")
    drawn = {leaf.stream: data.draw(dense_tuples, label=leaf.stream) for leaf in windows(plan)}
    inputs = kept([drawn[leaf.stream] for leaf in windows(plan)], plan, promises, late)
    changes, sizes, broken = promised(plan, inputs, cuts, promises, late=late, strategy=strategy)
    without, all_sizes, _ = promised(plan, inputs, cuts, {}, late=late, strategy=strategy)
    assert Counter(changes) == Counter(without) and broken == 0
    assert all(few <= many for few, many in zip(sizes, all_sizes, strict=True))
    for now in range(END) if not isinstance(plan, MultiJoin) else ():
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"


def test_where_promises_count() -> None:
    found = {
        name: [f"{column.stream}.{column.column}" for _, each in useful_promises(plan, UPA) for column in each]
        for name, plan in PLANS.items()
    }
    assert found == {
        "join": ["T.a", "S.a"],
        "two columns": ["T.a", "T.b", "S.a", "S.b"],
        "crossed columns": ["T.b", "S.a"],
        "with itself": ["S.a", "S.a"],
        "of three": ["T.a", "U.a", "S.a"],
        # Only T has a key in common with both others.
        "chain": ["S.a", "U.b"],
        "below projections": ["T.a", "S.a"],
        "below distinct": ["T.a", "S.a"],
        "below a negation": ["T.a", "S.a"],
        "of negations": [],
        "of rows": [],
        # The pairs of the lower join wait for U alone.
        "nested": ["U.a", "T.a", "S.a"],
        "groups": ["S.a"],
        "groups of two": ["S.a", "S.b"],
        "groups of a window": [],
        "distinct groups": ["S.a"],
        "all": [],
    }
    assert list(useful_promises(JOIN, NT)) == []


def test_a_tuple_that_breaks_a_promise_is_left_out_and_counted() -> None:
    inputs = [[(1, (1, 1)), (12, (1, 2)), (13, (2, 3))], [(2, (1, 4)), (14, (1, 5)), (15, (2, 6))]]
    changes, _, broken = promised(JOIN, inputs, [10], {10: [("S", "a", 1)]})
    assert broken == 1
    expected, _, _ = promised(JOIN, [[inputs[0][0], inputs[0][2]], inputs[1]], [10], {})
    assert Counter(changes) == Counter(expected) != Counter(promised(JOIN, inputs, [10], {})[0])


def test_the_promise_holds_once_the_tuples_before_it_are_processed() -> None:
    """The tuple of instant 11 came before the promise, and waits for the watermark: its partner is not forgotten."""
    inputs = [[(11, (1, 1))], [(7, (1, 2))]]
    changes, sizes, broken = promised(JOIN, inputs, [10, 12, 14], {10: [("S", "a", 1)]}, late=2)
    assert Counter(changes) == Counter(run(JOIN, inputs, [10, 12, 14])) != Counter() and broken == 0
    # Both are there until the first epoch after instant 11; of T's nobody needs the tuple then.
    assert sizes == [1, 2, 1, 0]


@pytest.mark.parametrize("name", ["join", "of three", "groups"])
def test_the_state_of_keys_that_come_and_go_stays_small(name: str) -> None:
    """Every key lives for 5 instants, the windows are 200 times as long: without promises everything is kept."""
    s, t, u = (window(each, TimeWindow(1_000)) for each in "STU")
    plan = {"join": Join(s, t, (("S.a", "T.a"),)), "of three": MultiJoin((s, t, u), (("S.a", "T.a", "U.a"),)),
            "groups": GroupBy(FOREVER_S, ("S.a",), CALLS)}[name]  # fmt: skip
    sizes = {}
    for promising in (False, True):
        stage, state = Stage(plan), State()
        for now in range(0, 500, 5):
            arrived = {place: Arrivals(pa.table([[now] * 5, range(5)], schema=schema), np.arange(now, now + 5))
                       for place, schema in enumerate(stage.schemas)}  # fmt: skip
            made = [Promise(each, "a", pa.array([now]), now + 4) for each in "STU" if promising]
            changes, state = stage.step(state, arrived, now, now + 5, promises=made)
            assert isinstance(changes, Changes)
        sizes[promising] = sum(n for buffer, n in sized(state, 500).items() if ".promised." not in buffer)
        assert {n for buffer, n in sized(state, 500).items() if ".promised." in buffer} == (
            {100} if promising else set()
        )
    inputs = len(windows(plan))
    if name == "groups":
        # A row and the partials of a group; the last key's promise holds in the next epoch.
        assert sizes == {False: 2 * 100, True: 2}
    else:
        assert sizes == {False: inputs * 500, True: inputs * 5}
