"""The ring of panes against a plain list of panes."""

from __future__ import annotations

import weakref
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sash.panes import pane_ring
from sash.panes.pane_ring import Dtype, Pane, PaneRing
from tests.support.examples import examples


@dataclass
class Plain:
    """A pane as the oracle keeps it: rows of (code, values by column)."""

    start: int
    end: int
    codes: list[int]
    values: dict[str, list[Any]] = field(default_factory=dict)


FILLS: dict[str, int | float | None] = {"sum": 0, "min": 2**63 - 1, "max": float("-inf"), "sketch": None}
DTYPES: dict[str, Dtype] = {"sum": np.int64, "min": np.int64, "max": np.float64, "sketch": np.object_}


class RingMachine(RuleBasedStateMachine):
    """Panes come in order or late, of any length, some inside others; columns come and go; old panes expire."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = PaneRing()
        self.panes: list[Plain] = []
        self.columns: set[str] = set()
        self.now = -30
        self.lent: list[tuple[PaneRing, list[Plain]]] = []

    @rule(name=st.sampled_from(sorted(FILLS)))
    def toggle_column(self, name: str) -> None:
        if name in self.columns:
            self.columns.discard(name)
            self.ring.drop_column(name)
            for pane in self.panes:
                del pane.values[name]
            return
        self.columns.add(name)
        self.ring.add_column(name, DTYPES[name], FILLS[name])
        for pane in self.panes:
            pane.values[name] = [FILLS[name]] * len(pane.codes)

    @rule(late=st.integers(0, 12), length=st.integers(1, 6), size=st.integers(1, 5), data=st.data())
    def insert(self, late: int, length: int, size: int, data: st.DataObject) -> None:
        end = self.now - late
        self.now += data.draw(st.integers(0, 4))
        codes = data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
        given_columns = data.draw(st.sets(st.sampled_from(sorted(FILLS))))
        numbers = {
            name: data.draw(st.lists(st.integers(-5, 5), min_size=size, max_size=size)) for name in given_columns
        }
        columns = {name: np.array(values, dtype=DTYPES[name]) for name, values in numbers.items()}
        self.ring.insert(Pane(end - length, end, np.array(codes, dtype=np.int32), columns))
        values = {name: [*numbers.get(name, [FILLS[name]] * size)] for name in self.columns}
        place = sum(pane.end <= end for pane in self.panes)
        self.panes.insert(place, Plain(end - length, end, codes, values))

    @precondition(lambda self: self.panes)
    @rule(ahead=st.integers(0, 8))
    def expire(self, ahead: int) -> None:
        before = self.panes[0].start + ahead
        gone = 0
        while self.panes and self.panes[0].start < before:
            self.panes.pop(0)
            gone += 1
        assert self.ring.expire(before) == gone

    @rule(shift=st.integers(1, 3))
    def recode(self, shift: int) -> None:
        self.ring.recode(((np.arange(10) + shift) % 10).astype(np.int32))
        for pane in self.panes:
            pane.codes = [(code + shift) % 10 for code in pane.codes]

    @precondition(lambda self: self.panes)
    @rule(count=st.integers(0, 3))
    def merge(self, count: int) -> None:
        """The oldest panes become one."""
        old = self.panes[: min(count, len(self.panes))]
        if not old:
            return
        codes = [code for pane in old for code in pane.codes]
        values = {name: [value for pane in old for value in pane.values[name]] for name in self.columns}
        merged = Plain(min(pane.start for pane in old), max(pane.end for pane in old), codes, values)
        columns = {name: np.array(column, dtype=DTYPES[name]) for name, column in values.items()}
        self.ring.replace(len(old), [Pane(merged.start, merged.end, np.array(codes, dtype=np.int32), columns)])
        self.panes[: len(old)] = [merged]

    @precondition(lambda self: "sum" in self.columns)
    @rule()
    def rewrite(self) -> None:
        self.ring.writable("sum")[:] += 1
        for pane in self.panes:
            pane.values["sum"] = [value + 1 for value in pane.values["sum"]]

    @rule()
    def lend(self) -> None:
        self.lent.append((self.ring.frozen(), deepcopy(self.panes)))

    @precondition(lambda self: self.lent)
    @rule(size=st.integers(1, 3))
    def change_what_was_lent(self, size: int) -> None:
        """Both rings are rings: neither sees what the other does."""
        ring, panes = self.lent[-1]
        end = max([self.now, *(pane.end for pane in panes)])
        ring.insert(Pane(end, end + 1, np.full(size, 7, dtype=np.int32), {}))
        panes.append(Plain(end, end + 1, [7] * size, {name: [FILLS[str(name)]] * size for name in ring.columns}))
        ring.recode(((np.arange(10) + 1) % 10).astype(np.int32))
        for pane in panes:
            pane.codes = [(code + 1) % 10 for code in pane.codes]

    @invariant()
    def the_same_panes(self) -> None:
        assert set(self.ring.columns) == self.columns
        for ring, panes in [(self.ring, self.panes), *self.lent]:
            assert len(ring) == len(panes) and ring.rows == sum(len(pane.codes) for pane in panes)
            for i, plain in enumerate(panes):
                pane = ring.pane(i)
                assert (pane.start, pane.end) == (plain.start, plain.end) == ring.span(i)
                assert pane.codes.tolist() == plain.codes == ring.codes(i, i + 1).tolist()
                assert {name: column.tolist() for name, column in pane.columns.items()} == plain.values

    @invariant()
    def slices(self) -> None:
        last = len(self.panes)
        for first in range(0, last + 1, 3):
            rows = self.panes[first:last]
            assert self.ring.codes(first, last).tolist() == [code for pane in rows for code in pane.codes]
            for name in self.columns:
                stored = self.ring.column(name, first, last).tolist()
                assert stored == [value for pane in rows for value in pane.values[name]]

    @invariant()
    def positions(self) -> None:
        for edge in range(self.now - 20, self.now + 2, 3):
            assert self.ring.position(edge) == sum(pane.end <= edge for pane in self.panes)

    @invariant()
    def nesting_is_noticed(self) -> None:
        starts = [pane.start for pane in self.panes]
        assert self.ring.nested or starts == sorted(starts)


RingMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30)
test_ring = RingMachine.TestCase


def pane(start: int, end: int, rows: int = 1) -> Pane:
    return Pane(start, end, np.zeros(rows, dtype=np.int32), {})


@pytest.mark.parametrize("origin", [-8, 0, 1_700_000_000])
def test_nesting_ends_when_the_panes_inside_others_expire(origin: int) -> None:
    """
    (0    2]
          (2    4]
    (0          4]     came late, from a time of longer panes
                (4    6]
    """
    ring = PaneRing()
    for start, end in ((0, 2), (2, 4)):
        ring.insert(pane(origin + start, origin + end))
    assert not ring.nested
    ring.insert(pane(origin, origin + 4))
    ring.insert(pane(origin + 4, origin + 6))
    assert ring.nested
    ring.expire(origin + 3)
    assert not ring.nested and ring.span(0) == (origin + 4, origin + 6)


def test_lending_copies_nothing_until_rows_are_changed() -> None:
    """New panes go behind the lent rows; a late pane makes the ring continue with fresh arrays."""
    ring = PaneRing()
    ring.add_column("sum", np.int64, 0)
    for i in range(3):
        ring.insert(Pane(i, i + 1, np.array([i], dtype=np.int32), {"sum": np.array([i])}))
    lent = ring.frozen()
    ring.insert(pane(3, 4))
    assert np.shares_memory(ring.column("sum", 0, 3), lent.column("sum", 0, 3))
    ring.insert(pane(0, 1))
    assert not np.shares_memory(ring.column("sum", 0, 4), lent.column("sum", 0, 3))
    assert not np.shares_memory(ring.codes(0, 4), lent.codes(0, 3))
    assert lent.column("sum", 0, 3).tolist() == [0, 1, 2]


def test_panes_of_one_end_keep_their_order_of_arrival() -> None:
    ring = PaneRing()
    for rows in (1, 2, 3):
        ring.insert(pane(0, 10, rows))
    assert [len(ring.pane(i).codes) for i in range(3)] == [1, 2, 3]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 6))
@settings(max_examples=examples(20))
def test_room_follows_the_rows(sizes: list[int], kept: int) -> None:
    """However many panes pass through, the arrays stay within a small multiple of the live rows."""
    least = pane_ring.LEAST_CAPACITY
    pane_ring.LEAST_CAPACITY = 8
    try:
        ring = PaneRing()
        ring.add_column("sum", np.int64, 0)
        for i, size in enumerate(sizes):
            ring.insert(Pane(i, i + 1, np.full(size, i, dtype=np.int32), {"sum": np.arange(size)}))
            ring.expire(i + 1 - kept)
            assert ring.codes(0, len(ring)).tolist() == [
                n for n in range(max(0, i + 1 - kept), i + 1) for _ in range(sizes[n])
            ]
            assert ring.capacity <= max(8, 4 * max(sum(sizes[j : j + kept + 1]) for j in range(i + 1)))
    finally:
        pane_ring.LEAST_CAPACITY = least


def test_a_burst_gives_its_room_back() -> None:
    ring = PaneRing()
    ring.insert(pane(0, 1, 1_000_000))
    ring.expire(1)
    for i in range(1, 3_000):
        ring.insert(pane(i, i + 1, 1_000))
        ring.expire(i)
        if ring.capacity < 10_000:
            return
    pytest.fail(f"still room for {ring.capacity} rows")


class Sketch:
    """An object that a weak reference can watch."""


def test_expired_objects_are_let_go() -> None:
    ring = PaneRing()
    ring.add_column("sketch", np.object_, None)
    sketches = [Sketch() for _ in range(6)]
    alive = [weakref.ref(sketch) for sketch in sketches]
    for i in range(6):
        ring.insert(Pane(i, i + 1, np.zeros(1, dtype=np.int32), {"sketch": np.array([sketches[i]], dtype=object)}))
    del sketches
    assert all(reference() is not None for reference in alive)
    ring.expire(4)
    assert [reference() is not None for reference in alive] == [False] * 4 + [True] * 2


def test_a_column_is_a_view() -> None:
    ring = PaneRing()
    ring.add_column("sum", np.int64, 0)
    ring.insert(Pane(0, 1, np.array([4], dtype=np.int32), {"sum": np.array([7])}))
    ring.column("sum", 0, 1)[:] = 9
    assert ring.pane(0).columns["sum"].tolist() == [9]
