"""Random plans against the definition, at every instant, however the input is cut into micro-batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.changes.buffers import Chunk, tuples_of
from sash.core.versions import RowVersions
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import (
    STRATEGIES,
    Aggregated,
    BaseWindow,
    Column,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    Union,
    windows,
)
from sash.plan.expressions import Field, RowExpression
from tests.support.examples import examples
from tests.support.plans import (
    INT,
    TABLES,
    dense_tuples,
    dense_updates,
    less,
    plans,
    table_plans,
    tuples,
    updates,
    versions,
    window,
)
from tests.support.relational import Inputs, Versions, answer, check_net, listed, view

END = 32


def restored(state: State) -> State:
    """A state as it comes back from its files."""
    buffers = {
        name: tuple(Chunk(tuples_of(chunk.to_table()), chunk.partition) for chunk in chunks)
        for name, chunks in state.buffers.items()
    }
    return State(buffers, dict(state.counters))


def needed(tables: Versions, low: int, high: int) -> dict[str, RowVersions]:
    """What an epoch needs of each table, and no more."""
    found = {}
    for table in TABLES.values():
        given = tables.get(table.name, ())
        begin, end = (np.array([version[i] for version in given], dtype=np.int64) for i in (0, 1))
        columns = [pa.array([row[i] for *_, row in given], pa.int64()) for i in (0, 1)]
        every = RowVersions(pa.table(columns, schema=table.schema), begin, end, np.arange(len(given)))
        found[table.name] = every.changed(low, high) if table.retroactive else every.seen(low, high)
    return found


def run(
    plan: Node,
    inputs: Inputs,
    cuts: list[int],
    *,
    late: int = 0,
    strategy: str = "upa",
    tables: Versions | None = None,
    over_nothing: bool = False,
) -> list[tuple[int, int, int, tuple[object, ...]]]:
    """All changes up to END. Tuples arrive in the micro-batch in which the watermark is `late` behind them.

    `over_nothing`: aggregates without GROUP BY are to have a row before they have a tuple.
    """
    stage, state, found, low = Stage(plan, 3, strategy), State(), [], 0
    schemas = [window.schema for window in windows(plan)]
    for high in [*sorted(set(cuts)), END]:
        arrived = {}
        for place, (schema, given_tuples) in enumerate(zip(schemas, inputs, strict=True)):
            first, last = (low + late if low else 0), (high + late if high < END else END)
            batch = [(ts, row) for ts, row in given_tuples if first <= ts < last]
            columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(schema)]
            arrived[place] = Arrivals(
                pa.table(columns, schema=schema), np.array([ts for ts, _ in batch], dtype=np.int64)
            )
        stamps = [ts for each in inputs for ts, _ in each if ts < high and over_nothing]
        begins = min(stamps) - 1 if stamps else None
        changes, state = stage.step(state, arrived, low, high, needed(tables or {}, low, high), begins=begins)
        assert all(low <= ts < high for ts in changes.ts.tolist()) and changes.ids.shape[1] == 0
        found += listed(changes)
        state, low = restored(state), high
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(100))
def test_a_plan_gives_the_definitions_answer_at_every_instant(strategy: str, data: st.DataObject) -> None:
    plan = data.draw(plans(), label="plan")
    inputs = [data.draw(tuples, label=window.alias) for window in windows(plan)]
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=6), label="cuts")
    late = data.draw(st.integers(0, 3), label="late")
    changes = run(plan, inputs, cuts, late=late, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"
    assert Counter(changes) == Counter(run(plan, inputs, [], strategy=strategy))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(60))
def test_an_aggregate_without_keys_has_a_row_over_nothing_from_the_first_tuple_on(
    strategy: str, data: st.DataObject
) -> None:
    length = data.draw(st.sampled_from([1, 3, FOREVER]))
    counted = Filter(window("S", TimeWindow(length)), less("S.a", data.draw(st.integers(0, 3))))
    calls = (Aggregated("n", "count", None, INT), Aggregated("total", "sum", "S.b", INT))
    plan: Node = GroupBy(counted, (), calls)
    least = data.draw(st.integers(0, 4))
    plan = Filter(plan, less("n", least)) if least else plan
    inputs = [data.draw(tuples)]
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=6), label="cuts")
    changes = run(plan, inputs, cuts, strategy=strategy, over_nothing=True)
    check_net(changes)
    first = min((ts for ts, _ in inputs[0]), default=END)
    for now in range(END):
        values = [b for _, b in answer(counted, inputs, now).elements()]
        known = [value for value in values if value is not None]
        row = (len(values), sum(known) if known else None)
        assert view(changes, now) == Counter([row] if now >= first and (not least or row[0] < least) else []), now


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(100))
def test_negation_and_intersection_show_whole_rows(strategy: str, data: st.DataObject) -> None:
    """Which of several tuples of a key are shown is a choice: as many as the rule says, and the same in every epoch."""
    left = data.draw(plans(2), label="left")
    right = window("right", TimeWindow(4))
    keys = ((left.schema.names[0], "right.a"),)
    plan = data.draw(st.sampled_from([Negation, Intersection]))(left, right, keys, null_safe=True)
    inputs = [data.draw(dense_tuples, label=each.alias) for each in windows(plan)]
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=6), label="cuts")
    changes = run(plan, inputs, cuts, strategy=strategy)
    for now in range(END):
        shown, there = view(changes, now), answer(left, inputs, now)
        assert shown <= there
        assert _by_key(shown) == _by_key(answer(plan, inputs, now)), f"at {now}"


def _by_key(rows: Counter[tuple[object, ...]]) -> Counter[object]:
    found: Counter[object] = Counter()
    for row, number in rows.items():
        found[row[0]] += number
    return found


def check_tables(
    data: st.DataObject, plan: Node, arriving: st.SearchStrategy, changing: st.SearchStrategy, strategy: str
) -> None:
    inputs = [data.draw(arriving, label=window.alias) for window in windows(plan)]
    tables = {table.name: versions(data.draw(changing, label=table.name)) for table in TABLES.values()}
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=6), label="cuts")
    changes = run(plan, inputs, cuts, late=data.draw(st.integers(0, 3), label="late"), tables=tables, strategy=strategy)
    check_net(changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now, tables), f"at {now}"
    assert Counter(changes) == Counter(run(plan, inputs, [], tables=tables, strategy=strategy))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(80))
def test_a_join_with_a_table_that_changes(strategy: str, data: st.DataObject) -> None:
    """A relation as it is, a non-retroactive one as it was when the tuple arrived."""
    check_tables(data, data.draw(table_plans(), label="plan"), dense_tuples, dense_updates, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(80))
def test_joins_with_tables_below_everything_else(strategy: str, data: st.DataObject) -> None:
    check_tables(data, data.draw(plans(3, tables=True), label="plan"), tuples, updates, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_stored_does_not_grow(strategy: str) -> None:
    """A join below groups: three kinds of buffers, epoch after epoch, hold little more than what lives."""
    joined = Join(window("S", TimeWindow(40)), window("T", TimeWindow(40)), (("S.a", "T.a"),))
    plan = GroupBy(joined, ("S.a",), (Aggregated("n", "count", None, pa.int64()),))
    stage, state, sizes = Stage(plan, strategy=strategy), State(), []
    for now in range(300):
        arrived = {}
        for place, name in enumerate("ST"):
            rows = pa.table({f"{name}.a": [now % 2], f"{name}.b": [now]}, schema=stage.schemas[place])
            arrived[place] = Arrivals(rows, np.array([now]))
        _, state = stage.step(state, arrived, now, now + 1)
        sizes.append(state.tuples)
    # 40 tuples of each side, 800 pairs, the rows of two groups; under nt the windows' tuples as well.
    assert max(sizes) <= 2 * (2 * 40 + 800 + 2) + 80


# -- the sign of zero, and NaN ----------------------------------------------------------------------------------

NEGATIVE_NAN = float(np.array([0xFFF8000000000001], dtype=np.uint64).view(np.float64)[0])
doubles = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([0.0, -0.0, float("nan"), NEGATIVE_NAN, 1.5, None])), max_size=10
).map(lambda each: sorted(((ts, (value,)) for ts, value in each), key=lambda pair: pair[0]))


def over_numbers(name: str, type: pa.DataType) -> BaseWindow:
    return BaseWindow(name, name, TimeWindow(5), (Column(f"{name}.a", RowExpression("a", type, ("a",))),))


def put_together(kind: str, type: pa.DataType) -> Node:
    """Plans that make one row of equal ones, or match them."""
    left, right = over_numbers("S", type), over_numbers("T", type)
    both, keys = Union((left, right)), (("S.a", "T.a"),)
    rows_of_each = (Aggregated("n", "count", None, pa.int64()),)
    return {
        "group": GroupBy(left, ("S.a",), rows_of_each),
        "distinct": Distinct(left),
        "union": Distinct(both),
        "group of rows": GroupBy(replace(left, window=RowWindow(3)), ("S.a",), rows_of_each),
        "distinct of groups": Distinct(Map(GroupBy(left, ("S.a",), rows_of_each), (("a", Field("S.a", type)),))),
        "except all": Negation(left, right, keys, null_safe=True),
        "intersect all": Intersection(left, right, keys, null_safe=True),
        "except": Negation(Distinct(left), right, keys, whole=True, null_safe=True),
        "in": Intersection(left, right, keys, whole=True),
        "join": Join(left, right, keys),
    }[kind]


def shown(value: object) -> object:
    """A number as text, with the sign of a zero but not of a NaN."""
    return repr(value) if isinstance(value, float) else value


def without_sign(value: object) -> object:
    return "0.0" if shown(value) == "-0.0" else shown(value)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", ["group", "distinct", "union", "group of rows", "distinct of groups", "except all",
                                  "intersect all", "except", "in", "join"])  # fmt: skip
@given(st.data())
@settings(max_examples=examples(25))
def test_zero_has_no_sign_and_nan_is_one_value(kind: str, strategy: str, data: st.DataObject) -> None:
    """The definition is over texts, of which each number has one. A join, and IN, give numbers out as they came."""
    plan, definition = put_together(kind, pa.float64()), put_together(kind, pa.string())
    inputs = [data.draw(doubles, label=each.alias) for each in windows(plan)]
    texts = [[(ts, (without_sign(value),)) for ts, (value,) in given_tuples] for given_tuples in inputs]
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=4), label="cuts")
    told = without_sign if kind in ("join", "in") else shown
    found = run(plan, inputs, cuts, strategy=strategy)
    changes = [(ts, exp, sign, tuple(map(told, row))) for ts, exp, sign, row in found]
    for now in range(END):
        assert view(changes, now) == answer(definition, texts, now), f"at {now}"


def test_tuples_of_one_instant_stay_in_the_order_in_which_they_came() -> None:
    """Also when some tuples of the same instant have been processed before."""
    plan = window("S", RowWindow(1))

    def arrived(*tuples_: tuple[int, int]) -> dict[int, Arrivals]:
        numbers = [number for _, number in tuples_]
        table = pa.table({"S.a": numbers, "S.b": numbers}, schema=plan.schema)
        return {0: Arrivals(table, np.array([ts for ts, _ in tuples_], dtype=np.int64))}

    stage, state, shown = Stage(plan), State(), []
    steps = [(arrived((4, 1), (5, 2)), 0, 0), (arrived((5, 3), (6, 4)), 0, 0), ({}, 0, 5), ({}, 5, 7)]
    for given_tuples, low, high in steps:
        changes, state = stage.step(state, given_tuples, low, high)
        shown += [row[0] for _, _, sign, row in listed(changes) if sign > 0]
    assert shown == [1, 3, 4]
