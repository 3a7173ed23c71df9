"""From merged partials to an answer: HAVING, ORDER BY, LIMIT, expressions, empty windows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import QueryFailedError
from sash.core.window import WINDOW_END, TimeWindow
from sash.panes import answers
from sash.panes.answers import Finisher, sorted_and_limited
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.partials import Partial
from sash.panes.readers import Columns, PredicateGroups
from sash.plan.expressions import Call, Expression, Field, Literal, RowExpression
from sash.plan.nodes import Output, SortKey
from sash.plan.periodic import PeriodicAggregate
from tests.panes.raw import G, K, N, P, S, Tuple, answer, filled, lift_rows, query, row
from tests.support.examples import examples

WINDOW = TimeWindow(10)
TOTAL, COUNT = Field("sum(n)", pa.int64()), Field("count(*)", pa.int64())
KEY, NUMBER = Field("k", pa.string()), Field("g", pa.float64())
DATA = [
    (1, row(k="a", g=1.5, n=10, p=True)),
    (2, row(k="b", g=math.nan, n=5, p=False)),
    (3, row(k="a", g=None, n=-3, p=True)),
    (4, row(k=None, g=1.5, n=7, p=None)),
    (5, row(k="c", g=-2.0, n=None, p=True)),
]


def answered(asked: PeriodicAggregate, tuples: list[Tuple], now: int = 10) -> list[dict[str, Any]]:
    synopsis = filled(asked, tuples)
    synopsis.close(now)
    return answer(synopsis, asked, now)


def number(value: int) -> Literal:
    return Literal(value, pa.int64())


def outputs(**expressions: Expression) -> tuple[Output, ...]:
    return tuple(Output(name, expression) for name, expression in expressions.items())


# -- groups -------------------------------------------------------------------------------------------


def test_a_group_for_each_key_null_included() -> None:
    rows = answered(query((K,), [("sum", N), ("count", None)], WINDOW), DATA)
    assert sorted(rows, key=str) == [
        {"k": "a", "sum(n)": 7, "count(*)": 2},
        {"k": "b", "sum(n)": 5, "count(*)": 1},
        {"k": "c", "sum(n)": None, "count(*)": 1},
        {"k": None, "sum(n)": 7, "count(*)": 1},
    ]


def test_groups_that_where_leaves_without_tuples_are_not_there() -> None:
    rows = answered(query((K,), [("count", None)], WINDOW, P), DATA)
    assert sorted(rows, key=str) == [{"k": "a", "count(*)": 2}, {"k": "c", "count(*)": 1}]


def test_keys_come_in_the_order_of_group_by_not_of_the_pane_table() -> None:
    """Pane tables sort their keys by name: g before k."""
    asked = query((K, G), [("count", None)], WINDOW)
    synopsis = BasicIntervalSynopsis([G.type, K.type])
    synopsis.require(Finisher(asked).partials, None)
    synopsis.absorb(lift_rows(DATA[:1], 1, [G, K], Finisher(asked).partials))
    synopsis.close(10)
    assert answer(synopsis, asked, 10) == [{"k": "a", "g": 1.5, "count(*)": 1}]


def test_keys_alone() -> None:
    """SELECT DISTINCT by GROUP BY: no aggregates at all."""
    assert sorted(answered(query((K,), [], WINDOW), DATA), key=str) == [{"k": k} for k in ("a", "b", "c", None)]


@pytest.mark.parametrize("where", [None, P], ids=["all", "where"])
def test_empty_windows(where: RowExpression | None) -> None:
    calls = [("count", None), ("count", N), ("sum", N), ("avg", N), ("max", S), ("stddev", N)]
    plain = answered(query((), calls, WINDOW, where), [])
    assert plain == [{"count(*)": 0, "count(n)": 0, "sum(n)": None, "avg(n)": None, "max(s)": None, "stddev(n)": None}]
    assert answered(query((K,), calls, WINDOW, where), []) == []
    # tuples there are, but outside the window or outside WHERE
    outside = [(-5, row(k="a", n=1, s="x", p=True)), (3, row(k="a", n=1, s="x", p=False))][: 1 if where is None else 2]
    assert answered(query((), calls, WINDOW, where), outside) == plain
    assert answered(query((K,), calls, WINDOW, where), outside) == []


def test_queries_of_one_view_share_their_groups() -> None:
    """Where a window does not have all groups: nobody looks for them twice."""
    window = TimeWindow(7)
    first, second = query((K,), [("count", None)], window), query((K,), [("sum", N)], window)
    synopsis = filled(first, [])
    synopsis.require(Finisher(second).partials, None)
    synopsis.absorb(lift_rows(DATA, 1, [K], list(synopsis.since)))
    synopsis.close(10)
    (view,) = synopsis.scan({window: list(synopsis.since)}, 10)
    found: dict[Partial, PredicateGroups] = {}
    Finisher(first).answer(view, found)
    assert list(found) == [Partial("rows")]
    kept = found[Partial("rows")]
    Finisher(second).answer(view, found)
    assert found == {Partial("rows"): kept}


# -- HAVING, SELECT list --------------------------------------------------------------------------------


def test_having() -> None:
    more = Call("gt", (TOTAL, number(5)), pa.bool_())
    rows = answered(query((K,), [("sum", N)], WINDOW, having=more), DATA)
    assert sorted(rows, key=str) == [{"k": "a", "sum(n)": 7}, {"k": None, "sum(n)": 7}], "a NULL condition is not met"
    none = Call("gt", (TOTAL, number(500)), pa.bool_())
    assert answered(query((K,), [("sum", N)], WINDOW, having=none), DATA) == []
    assert answered(query((), [("sum", N)], WINDOW, having=none), DATA) == []
    assert answered(query((), [("sum", N)], WINDOW, having=more), DATA) == [{"sum(n)": 19}]


def test_having_keeps_an_empty_global_answer_from_appearing() -> None:
    some = Call("gt", (COUNT, number(0)), pa.bool_())
    assert answered(query((), [("count", None)], WINDOW, having=some), []) == []


def test_expressions() -> None:
    ratio = Call(
        "divide",
        (Call("cast", (TOTAL,), pa.float64()), Call("cast", (COUNT,), pa.float64())),
        pa.float64(),
    )
    listed = outputs(name=Call("upper", (KEY,), pa.string()), ratio=ratio, one=number(1))
    asked = query((K,), [("sum", N), ("count", None)], WINDOW, outputs=listed)
    assert sorted(answered(asked, DATA), key=str) == [
        {"name": "A", "ratio": 3.5, "one": 1},
        {"name": "B", "ratio": 5.0, "one": 1},
        {"name": "C", "ratio": None, "one": 1},
        {"name": None, "ratio": 7.0, "one": 1},
    ]


def test_a_field_may_be_selected_twice_or_not_at_all() -> None:
    asked = query((K,), [("sum", N), ("count", None)], WINDOW, outputs=outputs(t=TOTAL, again=TOTAL))
    assert answered(asked, DATA[:1]) == [{"t": 10, "again": 10}]


def test_the_schema_is_that_of_the_plan() -> None:
    asked = query((K,), [("sum", N), ("count", None)], WINDOW, outputs=outputs(k=KEY, n=COUNT))
    for tuples in (DATA, []):
        synopsis = filled(asked, tuples)
        synopsis.close(10)
        (view,) = synopsis.scan({WINDOW: Finisher(asked).partials}, 10)
        table = Finisher(asked).answer(view, {})
        assert table.schema == asked.schema
        table.validate(full=True)


def test_an_error_of_an_expression_is_the_query_s() -> None:
    inverse = Call("divide", (Literal(1.0, pa.float64()), Call("cast", (TOTAL,), pa.float64())), pa.float64())
    asked = query((K,), [("sum", N)], WINDOW, outputs=outputs(inverse=inverse))
    with pytest.raises(QueryFailedError, match="division by zero"):
        answered(asked, [(1, row(k="a", n=0))])


def test_an_overflow_is_the_query_s() -> None:
    asked = query((), [("sum", N)], WINDOW)
    with pytest.raises(QueryFailedError, match=r"SUM\(n\): the sum does not fit into BIGINT"):
        answered(asked, [(1, row(n=2**63 - 1)), (2, row(n=1))])


# -- ORDER BY, LIMIT ------------------------------------------------------------------------------------


def ordered(*keys: SortKey, limit: int | None = None, tuples: list[Tuple] = DATA) -> list[tuple[Any, ...]]:
    asked = query((K, G), [("sum", N), ("count", None)], WINDOW, order=keys, limit=limit)
    synopsis = BasicIntervalSynopsis([G.type, K.type])
    synopsis.require(Finisher(asked).partials, None)
    synopsis.absorb(lift_rows(tuples, 1, [G, K], Finisher(asked).partials))
    synopsis.close(10)
    return [tuple(each.values()) for each in answer(synopsis, asked, 10)]


NAN = math.nan
NUMBERS = [
    (i, row(k=k, g=g))
    for i, (k, g) in enumerate([("x", 2.0), ("x", NAN), ("x", None), ("x", -math.inf), ("x", math.inf)], 1)
]


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [
        (False, True, [None, -math.inf, 2.0, math.inf, NAN]),
        (False, False, [-math.inf, 2.0, math.inf, NAN, None]),
        (True, False, [NAN, math.inf, 2.0, -math.inf, None]),
        (True, True, [None, NAN, math.inf, 2.0, -math.inf]),
    ],
)
def test_nan_is_the_greatest_and_null_stands_where_it_is_told(
    descending: bool, nulls_first: bool, expected: list[float | None]
) -> None:
    found = [g for _, g, *_ in ordered(SortKey(NUMBER, descending, nulls_first), tuples=NUMBERS)]
    assert str(found) == str(expected)


def test_several_keys() -> None:
    tuples = [(i, row(k=k, g=g, n=1)) for i, (k, g) in enumerate([("b", 1.0), ("a", 2.0), ("b", 3.0), ("a", 1.0)], 1)]
    by_key = ordered(SortKey(KEY), SortKey(NUMBER, descending=True), tuples=tuples)
    assert [(k, g) for k, g, *_ in by_key] == [("a", 2.0), ("a", 1.0), ("b", 3.0), ("b", 1.0)]
    by_number = ordered(SortKey(NUMBER, descending=True), SortKey(KEY, descending=True), tuples=tuples)
    assert [(k, g) for k, g, *_ in by_number] == [("b", 3.0), ("a", 2.0), ("b", 1.0), ("a", 1.0)]


def test_order_by_an_expression() -> None:
    size = Call("abs", (TOTAL,), pa.int64())
    tuples = [(1, row(k="a", n=-9)), (1, row(k="b", n=1)), (1, row(k="c", n=5))]
    assert [k for k, *_ in ordered(SortKey(size), tuples=tuples)] == ["b", "c", "a"]


def test_limit() -> None:
    assert [total for _, _, total, _ in ordered(SortKey(TOTAL, True, False), limit=2)] == [10, 7]
    assert len(ordered(SortKey(TOTAL), limit=100)) == 5
    assert ordered(SortKey(TOTAL), limit=0) == []


def test_limit_after_having() -> None:
    asked = query(
        (K,),
        [("sum", N)],
        WINDOW,
        having=Call("lt", (TOTAL, number(7)), pa.bool_()),
        order=(SortKey(TOTAL, descending=True),),
        limit=1,
    )
    assert answered(asked, DATA) == [{"k": "b", "sum(n)": 5}]


@given(st.permutations([(k, g) for k in ("a", "b", None) for g in (1.0, NAN, None)]), st.integers(1, 9))
@settings(max_examples=examples(20))
def test_a_limit_among_equals_does_not_depend_on_history(
    order: list[tuple[str | None, float | None]], limit: int
) -> None:
    """Groups are numbered as they come; which of the equals are shown must not depend on it."""
    tuples = [(1 + i // 3, row(k=k, g=g, n=1)) for i, (k, g) in enumerate(order)]
    synopsis = BasicIntervalSynopsis([G.type, K.type])
    asked = query((K, G), [("count", None)], WINDOW, order=(SortKey(COUNT),), limit=limit)
    synopsis.require(Finisher(asked).partials, None)
    for each in tuples:
        synopsis.absorb(lift_rows([each], 1, [G, K], Finisher(asked).partials))
    synopsis.close(10)
    found = [(each["k"], each["g"]) for each in answer(synopsis, asked, 10)]
    everything = [(k, g) for k in (None, "a", "b") for g in (None, 1.0, NAN)]
    assert str(found) == str(everything[:limit])


# -- several windows together --------------------------------------------------------------------------

FEW = st.integers(-3, 3)
HAVINGS = (None, Call("gt", (TOTAL, number(0)), pa.bool_()), Call("eq", (KEY, Literal("a", pa.string())), pa.bool_()))
LISTS = (
    outputs(k=KEY, total=TOTAL),
    outputs(twice=Call("add", (TOTAL, TOTAL), pa.int64()), k=KEY, end=Field(WINDOW_END, pa.timestamp("us", "UTC"))),
)
GROUPS = st.lists(st.tuples(st.none() | st.sampled_from("abcd"), st.none() | FEW, FEW), max_size=12)


def columns(groups: list[tuple[str | None, int | None, int]]) -> Columns:
    keys, totals, counts = ([each[place] for each in groups] for place in range(3))
    fields = {"sum(n)": pa.array(totals, pa.int64()), "count(*)": pa.array(counts, pa.int64())}
    return Columns({"k": pa.array(keys, pa.string())}, fields, len(groups))


@settings(max_examples=examples(200))
@given(
    st.lists(GROUPS, min_size=1, max_size=5),
    st.sampled_from(HAVINGS),
    st.lists(st.builds(SortKey, st.sampled_from([TOTAL, COUNT, KEY]), st.booleans(), st.booleans()), max_size=2),
    st.none() | st.integers(0, 6),
    st.sampled_from(LISTS),
)
def test_windows_that_are_finished_together_have_the_answers_of_each(
    windows: list[list[tuple[str | None, int | None, int]]],
    having: Expression | None,
    order: list[SortKey],
    limit: int | None,
    listed: tuple[Output, ...],
) -> None:
    asked = query((K,), [("sum", N), ("count", None)], WINDOW)
    asked = replace(asked, having=having, order=tuple(order), limit=limit, outputs=listed)
    read = [
        (Finisher(replace(asked, window=TimeWindow(length))), columns(groups))
        for length, groups in enumerate(windows, 1)
    ]
    alone = [finisher.finish([own], 100) for finisher, own in read]
    with mock.patch.object(answers, "SELECTED_FROM", 1):
        together = read[0][0].finish_windows(read, 100)
    assert [table.to_pylist() for table in together] == [table.to_pylist() for table in alone]
    assert all(table.schema == asked.schema for table in together)


# -- ORDER BY and LIMIT -------------------------------------------------------------------------------

VALUES = {
    pa.int32(): FEW,
    pa.float64(): st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, 2.5]),
    pa.timestamp("us", "UTC"): FEW,
    pa.string(): st.sampled_from("abc"),
}


@settings(max_examples=examples(200))
@given(st.data(), st.sampled_from(list(VALUES)), st.booleans(), st.booleans(), st.integers(0, 12))
def test_a_limit_selects_what_sorting_everything_would_put_first(
    data: st.DataObject, type: pa.DataType, descending: bool, nulls_first: bool, limit: int
) -> None:
    with mock.patch.object(answers, "SELECTED_FROM", 1):
        check_limit(data, type, descending, nulls_first, limit)


def check_limit(data: st.DataObject, type: pa.DataType, descending: bool, nulls_first: bool, limit: int) -> None:
    column = pa.array(data.draw(st.lists(st.none() | VALUES[type], max_size=40)), type)
    fields = {"x": column, "place": pa.array(range(len(column)), pa.int64())}
    order = (SortKey(Field("x", type), descending, nulls_first),)
    everything, rows = sorted_and_limited(fields, len(column), order, None)
    some, count = sorted_and_limited(fields, len(column), order, limit)
    assert count == min(limit, rows)
    assert some["place"].to_pylist() == everything["place"].to_pylist()[:limit]
