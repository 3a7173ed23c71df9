"""Windows that are taken as differences have the answers of a scan, whichever panes come, go and are revised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sash.core.window import FOREVER, TimeWindow
from sash.panes import basic_interval
from sash.panes.answers import Finisher, PendingTable
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.pane_ring import Pane, PaneRing
from sash.panes.pane_rows import PaneRows
from sash.panes.pane_store import AnswerPart, needs_of
from sash.panes.prefix_sums import DifferenceColumns, PrefixSums
from sash.plan.expressions import RowExpression
from sash.plan.periodic import PeriodicAggregate
from tests.panes.raw import column, query
from tests.support.examples import examples

NUMBER = column("i", pa.int32())
GROUP = column("k", pa.int64())


def asked(length: int, lag: int = 0, keys: tuple[RowExpression, ...] = (GROUP,)) -> PeriodicAggregate:
    return query(
        keys, [("sum", NUMBER), ("count", NUMBER), ("count", None), ("avg", NUMBER)], TimeWindow(length, lag=lag)
    )


WINDOWS = [asked(1), asked(2), asked(5), asked(9), asked(3, lag=2)]
# Those that read the same partials up to the same pane are taken together; these are apart.
WINDOWS += [query((GROUP,), [("count", None)], TimeWindow(length, lag=lag)) for length, lag in ((2, 0), (4, 0), (5, 2))]
PARTIALS = Finisher(WINDOWS[0]).partials


def rows_of(end: int, values: dict[int, int | None]) -> PaneRows:
    """A pane of one tuple for each group."""
    known = [0 if value is None else value for value in values.values()]
    present = [int(value is not None) for value in values.values()]
    numbers = {"rows": [1] * len(values), "sum": known, "count": present}
    lifted = {partial: [pa.array(numbers[partial.kind], pa.int64())] for partial in PARTIALS}
    return PaneRows(1, np.full(len(values), end, dtype=np.int64), [pa.array(list(values), pa.int64())], lifted)


def answers(synopsis: BasicIntervalSynopsis, queries: list[PeriodicAggregate], now: int) -> list[Any]:
    parts = [AnswerPart(Finisher(each), 0) for each in queries]
    found = dict(synopsis.read(parts, now))
    tables = [parts[number].finisher.finish([columns], 0) for number, columns in sorted(found.items())]  # type: ignore[list-item]
    return [sorted(table.to_pylist(), key=str) for table in tables]


def scanned(synopsis: BasicIntervalSynopsis, queries: list[PeriodicAggregate], now: int) -> list[Any]:
    """A frozen synopsis scans its panes."""
    parts = [AnswerPart(Finisher(each), 0) for each in queries]
    return answers(synopsis.frozen(needs_of(parts), now), queries, now)


values = st.dictionaries(st.integers(0, 5), st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), max_size=6)


class Panes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # So that groups which have vanished are forgotten, and others get their codes.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(basic_interval, "LEAST_COMPACTED", 1)
        self.synopsis = BasicIntervalSynopsis([pa.int64()])
        self.synopsis.require(PARTIALS, None)
        self.now = 0
        # What was not looked at when it was answered, and what a scan said then.
        self.pending: list[tuple[PendingTable, list[Any]]] = []

    @rule(values=values)
    def close(self, values: dict[int, int | None]) -> None:
        self.now += 1
        if values:
            self.synopsis.absorb(rows_of(self.now, values))
        self.synopsis.close(self.now)

    @rule(values=values, ago=st.integers(0, 5))
    @precondition(lambda self: self.now > 0)
    def come_late(self, values: dict[int, int | None], ago: int) -> None:
        if values:
            self.synopsis.absorb(rows_of(max(1, self.now - ago), values), closed_until=self.now)

    @rule(kept=st.integers(3, 12))
    def expire(self, kept: int) -> None:
        self.synopsis.expire(self.now - kept)

    @rule()
    def drop_and_add(self) -> None:
        """The sums of a partial that comes back begin anew."""
        first, *others = PARTIALS
        self.synopsis.release({first})
        self.synopsis.require(others, self.now)

    @rule(number=st.integers(0, len(WINDOWS) - 1))
    def answer_without_looking(self, number: int) -> None:
        part = AnswerPart(Finisher(WINDOWS[number]), 0)
        for _, columns in self.synopsis.read([part], self.now):
            if isinstance(columns, DifferenceColumns):
                (expected,) = scanned(self.synopsis, [WINDOWS[number]], self.now)
                self.pending.append((PendingTable(part.finisher, columns, 0), expected))

    @invariant()
    def windows_are_as_scanned(self) -> None:
        assert answers(self.synopsis, WINDOWS, self.now) == scanned(self.synopsis, WINDOWS, self.now)

    def teardown(self) -> None:
        self.patch.undo()
        for table, expected in self.pending:
            assert table.num_rows == len(expected)
            assert sorted(table.table.to_pylist(), key=str) == expected


TestPanes = Panes.TestCase
TestPanes.settings = settings(max_examples=examples(300), stateful_step_count=20, deadline=None)


def filled(groups: int, panes: int) -> BasicIntervalSynopsis:
    synopsis = BasicIntervalSynopsis([pa.int64()])
    synopsis.require(PARTIALS, None)
    for end in range(1, panes + 1):
        synopsis.absorb(rows_of(end, dict.fromkeys(range(groups), end)))
        synopsis.close(end)
    return synopsis


def kinds(synopsis: BasicIntervalSynopsis, queries: list[PeriodicAggregate], now: int) -> set[bool]:
    parts = [AnswerPart(Finisher(each), 0) for each in queries]
    return {isinstance(columns, DifferenceColumns) for _, columns in synopsis.read(parts, now)}


def test_a_pane_is_added_up_once_however_many_windows_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    synopsis, added = filled(groups=3, panes=9), list[int]()
    original = basic_interval.PrefixSums.catch_up

    def counted(self: Any, ring: Any, partials: Any, groups: int) -> Any:
        before = sum(len(sums) for sums in self._sums)
        found = original(self, ring, partials, groups)
        added.append(sum(len(sums) for sums in found) - before)
        return found

    monkeypatch.setattr(basic_interval.PrefixSums, "catch_up", counted)
    for _ in range(3):
        assert kinds(synopsis, WINDOWS, 9) == {True}
    assert added == [10 * len(PARTIALS), 0, 0]
    synopsis.absorb(rows_of(10, {0: 1}))
    synopsis.close(10)
    assert kinds(synopsis, WINDOWS, 10) == {True} and added[-1] == len(PARTIALS)


def test_a_partial_that_came_later_concerns_its_own_readers() -> None:
    synopsis = filled(groups=3, panes=9)
    other = query((GROUP,), [("count", column("j", pa.int32()))], TimeWindow(9))
    synopsis.require(Finisher(other).partials, since=9)
    parts = [AnswerPart(Finisher(each), 0) for each in (*WINDOWS, other)]
    found = {number: isinstance(columns, DifferenceColumns) for number, columns in synopsis.read(parts, 9)}
    assert found == {**dict.fromkeys(range(len(WINDOWS)), True), len(WINDOWS): False}


@pytest.mark.parametrize(("panes", "groups"), [(1_001, 1), (10, 100_001)], ids=["panes", "groups"])
def test_sums_of_very_many_panes_are_not_kept(panes: int, groups: int) -> None:
    ring = PaneRing()
    ones, codes = np.ones(groups, dtype=np.int64), np.arange(groups, dtype=np.int32)
    ring.add_column((PARTIALS[0], 0), np.int64, 0)
    for end in range(1, panes + 1):
        ring.insert(Pane(end - 1, end, codes, {(PARTIALS[0], 0): ones}))
    sums = PrefixSums()
    assert not sums.serves(ring, groups)
    ring.expire(panes // 2)
    assert sums.serves(ring, groups)


def test_values_of_any_type_are_counted_by_differences() -> None:
    names = query((GROUP,), [("count", column("s", pa.string()))], TimeWindow(5))
    synopsis = BasicIntervalSynopsis([pa.int64()])
    synopsis.require(Finisher(names).partials, None)
    lifted = {partial: [pa.array([3], pa.int64())] for partial in Finisher(names).partials}
    synopsis.absorb(PaneRows(1, np.array([1]), [pa.array([7], pa.int64())], lifted))
    synopsis.close(1)
    assert kinds(synopsis, [names], 1) == {True} and answers(synopsis, [names], 1) == [[{"k": 7, "count(s)": 3}]]


def test_what_cannot_be_subtracted_is_scanned() -> None:
    synopsis = filled(groups=3, panes=9)
    limited, extreme = replace(WINDOWS[2], limit=1), query((GROUP,), [("max", NUMBER)], TimeWindow(5))
    synopsis.require(Finisher(extreme).partials, None)
    assert kinds(synopsis, [limited], 9) == {True} and kinds(synopsis, [extreme], 9) == {False}
    (rows,) = answers(synopsis, [limited], 9)
    assert len(rows) == 1 and [rows] == scanned(synopsis, [limited], 9)
    none = replace(query((), [("count", None)], TimeWindow(5)), limit=0)
    assert not Finisher(none).is_plain
    unbounded = replace(WINDOWS[2], window=TimeWindow(FOREVER))
    assert AnswerPart(Finisher(unbounded), 0).subtracting is None


def test_sparse_panes_are_scanned() -> None:
    """Sums would have a number for every group, and panes have few of them."""
    synopsis = BasicIntervalSynopsis([pa.int64()])
    synopsis.require(PARTIALS, None)
    for end in range(1, 10):
        synopsis.absorb(rows_of(end, {end: 1}))
        synopsis.close(end)
    assert kinds(synopsis, WINDOWS, 9) == {False}
