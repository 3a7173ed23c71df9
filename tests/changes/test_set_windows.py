"""INTERSECT and EXCEPT from one index with two counts, against the definition: sets of the values in two windows.

The slow definition keeps every tuple and looks at all of them at every multiple of SLIDE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes.set_counts import SetWindows, counts_schema
from sash.core.time import multiple_at_or_after
from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Distinct, Filter, Intersection, Map, Negation, Node
from sash.plan.expressions import Call, Field, Literal, RowExpression
from sash.plan.outputs import Sampled
from sash.plan.set_windows import GroupedIntersection, WindowedSet, windowed_set
from tests.support.examples import examples

Tuple = tuple[int, int, Any]
Answers = list[tuple[int, list[Any]]]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [-7, 0, 1, 2, 1_000, None]),
    "text": (pa.string(), ["", "a", "ab", "z", None]),
    "float": (pa.float64(), [-1.5, 0.0, 2.25, math.inf, None]),
    "date": (pa.date32(), [None, *pa.array([0, 1, 20_000], pa.date32()).to_pylist()]),
}


@dataclass(frozen=True)
class Case:
    """Two windows, a slide, and tuples (side, time, value) in epochs, each of which ends at a time."""

    lengths: tuple[int, int]
    slide: int
    offset: int
    epochs: list[tuple[list[Tuple], int]]

    @property
    def tuples(self) -> list[Tuple]:
        return [each for epoch, _ in self.epochs for each in epoch]


@st.composite
def cases(draw: Any, values: list[Any]) -> Case:
    pane = draw(st.sampled_from([1, 3, 5]))
    lengths = (pane * draw(st.integers(1, 6)), pane * draw(st.integers(1, 6)))
    epochs, low = [], draw(st.integers(-40, 40))
    for _ in range(draw(st.integers(1, 6))):
        high = low + draw(st.sampled_from([0, 1, 4, 9, 30, 200]))
        # A tuple may come before the watermark reaches it, and never after.
        late = st.tuples(st.integers(0, 1), st.integers(low, high + 12), st.sampled_from(values))
        epochs.append((draw(st.lists(late, max_size=12)), high))
        low = high
    return Case(lengths, pane * draw(st.integers(1, 8)), draw(st.integers(0, 4)), epochs)


def window(name: str, type: pa.DataType, length: int) -> BaseWindow:
    return BaseWindow(name, name, TimeWindow(length), (Column(f"{name}.x", RowExpression("x", type, ("x",))),))


def asked(case: Case, type: pa.DataType, negated: bool = False, groups: int = 0) -> WindowedSet:
    left, right = (
        Map(window(name, type, length), (("x", Field(f"{name}.x", type)),))
        for name, length in zip("ST", case.lengths, strict=True)
    )
    keys = (("x", "x"),)
    matched: Node = Negation(Distinct(left), right, keys, whole=True, null_safe=True)
    if groups:
        matched = GroupedIntersection(Distinct(left), right, keys, whole=True, null_safe=True, groups=groups)
    elif not negated:
        matched = Intersection(Distinct(left), right, keys, whole=True, null_safe=True)
    found = windowed_set(Sampled(matched, case.slide, case.offset))
    assert found is not None
    return found


def counted(sets: SetWindows, query: WindowedSet, tuples: list[Tuple]) -> pa.Table:
    """What Spark would make of an epoch's tuples; here every tuple is counted by itself."""
    parts = [counts_schema(query.type).empty_table()]
    for side in (0, 1):
        mine = [(ts, value) for place, ts, value in tuples if place == side]
        panes = [multiple_at_or_after(ts, query.pane, query.offset) for ts, _ in mine]
        column = pa.array([value for _, value in mine], query.sides[side].window.columns[0].type)
        ones = pa.array([1] * len(mine), pa.int64())
        parts.append(sets.counts(side, pa.array(panes, pa.int64()), column, ones))
    return pa.concat_tables(parts)


def run(query: WindowedSet, case: Case, restart_before: int | None = None) -> list[tuple[int, pa.Table]]:
    sets, found = SetWindows(query), []
    for number, (tuples, high) in enumerate(case.epochs):
        if number == restart_before:
            saved = sets.save()
            sets = SetWindows(query)
            sets.load(*saved)
        sets.absorb(counted(sets, query, tuples))
        stamps = [ts for _, ts, _ in case.tuples if ts < high]
        begins = min(stamps) - 1 if stamps else None
        # Time has come up to `high`, which is still to be processed.
        found += list(sets.advance(high - 1, begins))
    return found


def inside(case: Case, side: int, now: int) -> set[Any]:
    begin = now - case.lengths[side]
    return {value for place, ts, value in case.tuples if place == side and begin < ts <= now}


def defined(case: Case, negated: bool) -> Answers:
    """At every multiple up to the end where there are rows, or were some at the multiple before; and at the first."""
    answers: Answers = []
    times = [ts for _, ts, _ in case.tuples]
    if not times:
        return []
    had_rows, multiple = True, multiple_at_or_after(min(times), case.slide, case.offset)
    while multiple < case.epochs[-1][1]:
        first, second = inside(case, 0, multiple), inside(case, 1, multiple)
        rows = in_order(first - second if negated else first & second)
        if rows or had_rows:
            answers.append((multiple, rows))
        had_rows = bool(rows)
        multiple += case.slide
    return answers


def in_order(values: set[Any]) -> list[Any]:
    """NULL first."""
    known = sorted(value for value in values if value is not None)
    return [None, *known] if None in values else known


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_the_definitions_answers(kind: str, negated: bool, data: st.DataObject) -> None:
    """In ascending order, whatever the epochs are; and after a restart at any time the same."""
    type, values = VALUES[kind]
    case = data.draw(cases(values))
    query = asked(case, type, negated)
    found = run(query, case)
    assert [(at, table["x"].to_pylist()) for at, table in found] == defined(case, negated)
    assert all(table.schema == query.schema for _, table in found)
    again = run(query, case, restart_before=data.draw(st.integers(0, len(case.epochs))))
    assert [(at, table["x"].to_pylist()) for at, table in again] == defined(case, negated)


@given(case=cases([-(2**31), -3, 0, 1, 2, 3, 500, 2**31 - 1, None]), groups=st.integers(2, 12), data=st.data())
@settings(max_examples=examples(150))
def test_ranges_have_every_value_of_the_intersection(case: Case, groups: int, data: st.DataObject) -> None:
    query = asked(case, pa.int32(), groups=groups)
    found = run(query, case)
    for at, table in found:
        ranges = list(zip(table["low"].to_pylist(), table["high"].to_pylist(), strict=True))
        sides = [inside(case, side, at) - {None} for side in (0, 1)]
        assert len(ranges) <= groups
        for value in sides[0] & sides[1]:
            assert sum(low <= value <= high for low, high in ranges) == 1
        for low, high in ranges:
            assert all(any(low <= value <= high for value in side) for side in sides), "a range that one window lacks"
        assert ranges == sorted(ranges)
    assert {at for at, rows in defined(case, False) if set(rows) - {None}} <= {at for at, _ in found}
    again = run(query, case, restart_before=data.draw(st.integers(0, len(case.epochs))))
    assert [(at, table.to_pylist()) for at, table in again] == [(at, table.to_pylist()) for at, table in found]


@given(case=cases([1, 5, 6, 900]))
@settings(max_examples=examples(50))
def test_ranges_are_exact_while_there_are_no_more_values_than_groups(case: Case) -> None:
    found = [(at, table.to_pylist()) for at, table in run(asked(case, pa.int64(), groups=4), case)]
    assert found == [(at, [{"low": x, "high": x} for x in rows]) for at, rows in defined(case, False)]


def test_a_column_is_cast_and_filtered_where_values_are_few() -> None:
    """What stands between a window and the set operation is computed of each value once."""
    source = window("S", pa.int32(), 10)
    small = Filter(source, Call("lt", (Field("S.x", pa.int32()), Literal(3, pa.int32())), pa.bool_()))
    left = Map(small, (("x", Call("cast", (Field("S.x", pa.int32()),), pa.int64())),))
    right = Map(window("T", pa.int64(), 10), (("x", Field("T.x", pa.int64())),))
    query = windowed_set(Sampled(Intersection(Distinct(left), right, (("x", "x"),), whole=True, null_safe=True), 10))
    assert query is not None
    case = Case((10, 10), 10, 0, [([(0, 1, 2), (0, 2, 4), (0, 3, None), (1, 4, 2), (1, 5, 4), (1, 6, None)], 11)])
    ((at, table),) = run(query, case)
    assert (at, table.to_pydict(), table.schema.field("x").type) == (10, {"x": [2]}, pa.int64())


def test_which_plans_an_index_answers() -> None:
    left, right = (Map(window(name, pa.int64(), 10), (("x", Field(f"{name}.x", pa.int64())),)) for name in "ST")
    keys = (("x", "x"),)
    sets = Intersection(Distinct(left), right, keys, whole=True, null_safe=True)
    assert windowed_set(Sampled(sets, 5)) is not None and windowed_set(sets) is None
    assert windowed_set(Sampled(sets, 5, restore=True)) is None
    assert windowed_set(Sampled(Intersection(left, right, keys, null_safe=True), 5)) is None, "multisets"
    assert windowed_set(Sampled(Intersection(Distinct(left), right, keys, whole=True), 5)) is None, "a test: IN"
    nested = Intersection(Distinct(sets), right, keys, whole=True, null_safe=True)
    assert windowed_set(Sampled(nested, 5)) is None


def test_somebody_who_comes_later_has_an_empty_answer_as_of_the_next_multiple() -> None:
    """However long the relation has rested, and once."""
    query = asked(Case((10, 10), 5, 0, []), pa.int64())
    sets = SetWindows(query)
    sets.absorb(counted(sets, query, [(0, 1, 7)]))
    assert [(at, rows.num_rows) for at, rows in sets.advance(20, 0)] == [(5, 0)]
    assert not list(sets.advance(999, 0))
    assert [(at, rows.num_rows) for at, rows in sets.advance(1_013, 0, 1_000)] == [(1_000, 0)]
    assert not list(sets.advance(1_100, 0))
