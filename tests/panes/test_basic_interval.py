"""The basic interval synopsis against brute force over raw tuples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sash.core.time import multiple_at_or_after
from sash.core.window import TimeWindow
from sash.panes import basic_interval
from sash.panes.answers import Finisher
from sash.panes.basic_interval import MOST_CONTRIBUTIONS, BasicIntervalSynopsis
from sash.panes.partials import Partial
from sash.plan.expressions import RowExpression
from sash.plan.periodic import PeriodicAggregate
from tests.panes.raw import (
    F,
    G,
    K,
    M,
    N,
    P,
    Row,
    S,
    Tuple,
    answer,
    check_answer,
    filled,
    lift_rows,
    query,
    row,
)
from tests.support.examples import examples

NAN = math.nan
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "ä", None]),
        "g": st.sampled_from([NAN, 0.5, None]),
        "n": st.none() | st.integers(-(2**62), 2**62) | st.integers(-9, 9),
        "f": st.sampled_from([NAN, math.inf, 0.25, -3.5, 1e3, None]),
        "s": st.sampled_from(["", "x", "y", "zz", None]),
        "m": st.sampled_from([Decimal("0.01"), Decimal("-99999999.99"), Decimal("12.50"), None]),
        "p": st.sampled_from([True, False, None]),
    }
)
KEYS: list[tuple[RowExpression, ...]] = [(), (K,), (K, G)]
WINDOWS = [TimeWindow(12), TimeWindow(6), TimeWindow(6, lag=6), TimeWindow(18, lag=12), TimeWindow(24)]
# What queries may ask: aggregates and arguments, with WHERE p or without.
ASKED: list[tuple[list[tuple[str, RowExpression | None]], RowExpression | None]] = [
    ([("count", None), ("sum", F)], None),
    ([("min", S), ("max", S)], None),
    ([("avg", M), ("count", N)], P),
    ([("min", N), ("max", F)], None),
    ([("stddev", F)], None),
    ([("var_pop", M), ("max", S)], P),
    ([], None),
]


Needs = dict[TimeWindow, list[Partial]]


@dataclass
class Held:
    """A tuple with the pane it was put into."""

    start: int
    end: int
    row: Row


class Machine(RuleBasedStateMachine):
    """What an engine does to a synopsis, in any order: micro-batches with late tuples, finer and coarser panes,
    queries that come and go, panes that close and expire, restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[PeriodicAggregate] = []
        self.held: list[Held] = []
        self.length = 6
        self.closed = 0
        self.latest: int | None = None
        self.expired = -100
        # Frozen synopses, each with its questions and their answers.
        self.frozen: list[tuple[BasicIntervalSynopsis, int, Needs, list[tuple[PeriodicAggregate, pa.Table]]]] = []

    @initialize(keys=st.sampled_from(KEYS), asked=st.sampled_from(ASKED), window=st.sampled_from(WINDOWS))
    def begin(self, keys: tuple[RowExpression, ...], asked: Any, window: TimeWindow) -> None:
        self.keys = keys
        self.synopsis = BasicIntervalSynopsis([key.type for key in sorted(keys, key=lambda key: key.sql)])
        self.add_query(asked, window)

    @property
    def partials(self) -> list[Partial]:
        return list(self.synopsis.since)

    def since(self, asked: PeriodicAggregate) -> int:
        starts = [self.synopsis.since[partial] for partial in Finisher(asked).partials]
        return max((start for start in starts if start is not None), default=-100)

    @rule(asked=st.sampled_from(ASKED), window=st.sampled_from(WINDOWS))
    def add_query(self, asked: Any, window: TimeWindow) -> None:
        calls, predicate = asked
        self.queries.append(query(self.keys, calls or [("count", None)], window, predicate))
        since = None if self.latest is None else multiple_at_or_after(self.latest, self.length)
        self.synopsis.require(Finisher(self.queries[-1]).partials, since)

    @precondition(lambda self: len(self.queries) > 1)
    @rule(data=st.data())
    def drop_query(self, data: st.DataObject) -> None:
        self.queries.pop(data.draw(st.integers(0, len(self.queries) - 1)))
        self.synopsis.release({partial for asked in self.queries for partial in Finisher(asked).partials})

    @rule(length=st.sampled_from([1, 2, 3, 6]))
    def cut_panes(self, length: int) -> None:
        """Only at times that are multiples of both lengths, as the engine's windows make sure."""
        self.length = length

    @rule(drawn=st.lists(st.tuples(st.integers(1, 14), ROWS), max_size=8))
    def micro_batch(self, drawn: list[tuple[int, Row]]) -> None:
        self._absorb([(self.closed + ahead, row) for ahead, row in drawn], None)

    @rule(drawn=st.lists(st.tuples(st.integers(-9, 8), ROWS), min_size=1, max_size=4))
    def late_micro_batch(self, drawn: list[tuple[int, Row]]) -> None:
        self._absorb([(self.closed + ahead, row) for ahead, row in drawn], self.closed)

    def _absorb(self, tuples: list[Tuple], closed_until: int | None) -> None:
        if closed_until is None:
            # a longer pane that ends at a closed time is late as a whole
            tuples = [t for t in tuples if multiple_at_or_after(t[0], self.length) > self.closed]
        self.synopsis.absorb(lift_rows(tuples, self.length, self._sorted_keys(), self.partials), closed_until)
        for ts, each in tuples:
            end = multiple_at_or_after(ts, self.length)
            self.held.append(Held(end - self.length, end, each))
            self.latest = ts if self.latest is None else max(ts, self.latest)

    def _sorted_keys(self) -> list[RowExpression]:
        return sorted(self.keys, key=lambda key: key.sql)

    @rule(panes=st.integers(1, 3))
    def close(self, panes: int) -> None:
        self.closed = multiple_at_or_after(self.closed + 1, self.length) + (panes - 1) * self.length
        self.synopsis.close(self.closed)

    @rule(reach=st.sampled_from([30, 36, 48]))
    def expire(self, reach: int) -> None:
        """Never what a window still reaches."""
        self.synopsis.expire(self.closed - reach)

    @rule()
    def restart(self) -> None:
        fresh = BasicIntervalSynopsis([key.type for key in self._sorted_keys()])
        fresh.require(self.partials[::-1], 12345)
        fresh.load(self.synopsis.to_table(), self.synopsis.save_since())
        assert fresh.since == self.synopsis.since
        assert (fresh.panes, fresh.rows) == (self.synopsis.panes, self.synopsis.rows)
        self.synopsis = fresh

    @rule()
    def freeze(self) -> None:
        """Whatever happens to the synopsis later, the frozen one gives the answers of now."""
        needs = self.needs()
        answers = [
            (asked, Finisher(asked).answer(view, {}))
            for view in self.synopsis.scan(needs, self.closed)
            for asked in self.queries
            if asked.window == view.window
        ]
        self.frozen = [*self.frozen[-2:], (self.synopsis.frozen(needs, self.closed), self.closed, needs, answers)]

    @invariant()
    def frozen_answers_stay(self) -> None:
        for synopsis, now, needs, answers in self.frozen:
            views = {view.window: view for view in synopsis.scan(needs, now)}
            for asked, known in answers:
                check_same(Finisher(asked).answer(views[asked.window], {}), known)

    def needs(self) -> Needs:
        needs: Needs = {}
        for asked in self.queries:
            needs.setdefault(asked.window, []).extend(Finisher(asked).partials)
        return needs

    @invariant()
    def every_answer_is_that_of_brute_force(self) -> None:
        if not self.queries:
            return
        needs = self.needs()
        seen = []
        for view in self.synopsis.scan(needs, self.closed):
            seen.append(view.window)
            found: dict[Partial, Any] = {}
            for asked in self.queries:
                if asked.window == view.window:
                    check_answer(asked, Finisher(asked).answer(view, found), self.visible(asked))
        assert sorted(seen, key=str) == sorted(needs, key=str)

    def visible(self, asked: PeriodicAggregate) -> list[Row]:
        newest = self.closed - asked.window.lag
        oldest = max(newest - asked.window.length, self.since(asked))
        return [held.row for held in self.held if oldest <= held.start and held.end <= newest]


def check_same(ours: pa.Table, theirs: pa.Table) -> None:
    """To the last bit, NaN being equal to itself."""
    assert ours.schema == theirs.schema
    assert repr(ours.to_pylist()) == repr(theirs.to_pylist())


Machine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=20)
test_machine = Machine.TestCase


# -- one length of panes: plain windows over plain tuples ---------------------------------------------


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 40), ROWS), max_size=12), min_size=1, max_size=12),
    st.lists(
        st.builds(TimeWindow, st.sampled_from([2, 4, 10, 40]), st.none(), st.sampled_from([0, 2, 6])),
        min_size=1,
        max_size=4,
    ),
    st.integers(2, 21).map(lambda n: 2 * n),
)
@settings(max_examples=examples(40))
def test_windows_over_tuples(batches: list[list[Tuple]], windows: list[TimeWindow], now: int) -> None:
    """Micro-batches in any order of time; (t - w, t] tuple by tuple."""
    queries = [query((K,), calls or [("count", None)], w, where) for w in windows for calls, where in ASKED]
    needs = {w: [p for q in queries if q.window == w for p in Finisher(q).partials] for w in windows}
    partials = list(dict.fromkeys(p for each in needs.values() for p in each))
    synopsis = BasicIntervalSynopsis([K.type])
    synopsis.require(partials, None)
    for batch in batches:
        synopsis.absorb(lift_rows(batch, 2, [K], partials))
    synopsis.close(now)
    tuples = [each for batch in batches for each in batch]
    lengths: dict[int, list[int]] = {}
    for view in synopsis.scan(needs, now):
        lengths.setdefault(view.window.lag, []).append(view.window.length)
        newest = now - view.window.lag
        inside = [row for ts, row in tuples if newest - view.window.length < ts <= newest]
        assert (not inside) == synopsis.is_empty(view.window, now)
        for each in queries:
            if each.window == view.window:
                check_answer(each, Finisher(each).answer(view, {}), inside)
    assert all(found == sorted(found) for found in lengths.values()), "the shortest window first"


# -- single facts -------------------------------------------------------------------------------------

MAX_S = Partial("max", S)


def test_open_panes_are_not_read() -> None:
    asked = query((), [("count", None)], TimeWindow(10))
    synopsis = filled(asked, [(1, row()), (2, row()), (3, row())])
    assert synopsis.next_end(0) == 1
    synopsis.close(2)
    assert synopsis.panes == 2 and synopsis.rows == 3 and synopsis.next_end(2) == 3
    assert answer(synopsis, asked, 2) == [{"count(*)": 2}]
    synopsis.close(3)
    assert synopsis.next_end(3) is None


def test_a_pane_of_many_micro_batches() -> None:
    """More contributions than are kept apart; codes, values and ranks come out right."""
    asked = query((K,), [("sum", N), ("max", S), ("min", S), ("stddev_pop", F)], TimeWindow(10))
    partials = Finisher(asked).partials
    synopsis = BasicIntervalSynopsis([K.type])
    synopsis.require(partials, None)
    tuples = [
        (5, row(k="abc"[i % 3], n=2**62 + i, f=float(i), s=chr(120 - i))) for i in range(3 * MOST_CONTRIBUTIONS + 2)
    ]
    for each in tuples:
        synopsis.absorb(lift_rows([each], 10, [K], partials))
        assert synopsis.rows <= 3 + MOST_CONTRIBUTIONS
    synopsis.close(10)
    assert synopsis.rows == 3
    (view,) = synopsis.scan({asked.window: partials}, 10)
    merged = view.accumulator.merged(Partial("max", S), None)
    assert isinstance(merged, pa.Array)
    with pytest.raises(Exception, match="does not fit into BIGINT"):
        Finisher(asked).answer(view, {})
    small = [(5, {**each, "n": each["n"] - 2**62}) for _, each in tuples]
    check_answer(asked, pa.Table.from_pylist(answer_of(asked, small), schema=asked.schema), [each for _, each in small])


def answer_of(asked: PeriodicAggregate, tuples: list[Tuple]) -> list[dict[str, Any]]:
    synopsis = filled(asked, tuples, 10)
    synopsis.close(10)
    return answer(synopsis, asked, 10)


def test_late_tuples_revise_closed_panes() -> None:
    asked = query((K,), [("sum", N), ("min", S)], TimeWindow(4))
    partials = Finisher(asked).partials
    synopsis = filled(asked, [(1, row(k="a", n=1, s="m")), (3, row(k="a", n=2, s="n"))])
    synopsis.close(3)
    assert answer(synopsis, asked, 3) == [{"k": "a", "sum(n)": 3, "min(s)": "m"}]
    late = [(1, row(k="a", n=10, s="a")), (2, row(k="b", n=5)), (4, row(k="a", n=100))]
    synopsis.absorb(lift_rows(late, 1, [K], partials), closed_until=3)
    expected = [{"k": "a", "sum(n)": 13, "min(s)": "a"}, {"k": "b", "sum(n)": 5, "min(s)": None}]
    assert answer(synopsis, asked, 3) == expected
    synopsis.close(4)
    assert answer(synopsis, asked, 4)[0]["sum(n)"] == 113


def test_finer_panes_later() -> None:
    """
    (0       4]                     cut when only windows of 4 were asked for
             (4   6](6   8]         a window of 2 came
    """
    asked = query((), [("count", None)], TimeWindow(4))
    partials = Finisher(asked).partials
    synopsis = filled(asked, [(ts, row()) for ts in (1, 2, 3, 4)], 4)
    synopsis.absorb(lift_rows([(ts, row()) for ts in (5, 6, 7, 8)], 2, [], partials))
    synopsis.close(8)
    assert [answer(synopsis, asked, now) for now in (4, 8)] == [[{"count(*)": 4}]] * 2
    assert answer(synopsis, asked, 6) == [{"count(*)": 2}], "the long pane is across the edge at 2 and is left out"
    assert synopsis.straddles(2) and not synopsis.straddles(4) and not synopsis.straddles(6)
    # a straggler of the coarse time comes after finer panes: panes are nested now
    synopsis.absorb(lift_rows([(7, row())], 4, [], partials), closed_until=8)
    assert answer(synopsis, asked, 8) == [{"count(*)": 5}]
    assert answer(synopsis, query((), [("count", None)], TimeWindow(8)), 8) == [{"count(*)": 9}]
    assert answer(synopsis, query((), [("count", None)], TimeWindow(2)), 8) == [{"count(*)": 2}]


def test_a_partial_that_came_later_does_not_mix_with_what_was_there() -> None:
    """COUNT(n) is stored from the beginning, MIN(n), AVG(n) and STDDEV(n) are asked for at 2."""
    first = query((K,), [("count", N)], TimeWindow(4))
    later = query((K,), [("min", N), ("avg", N), ("stddev_pop", N), ("count", N)], TimeWindow(4))
    synopsis = filled(first, [(1, row(k="a", n=100)), (2, row(k="b", n=200))])
    synopsis.require(Finisher(later).partials, 2)
    synopsis.absorb(lift_rows([(2, row(k="a", n=50)), (3, row(k="a", n=7))], 1, [K], list(synopsis.since)))
    synopsis.close(3)
    (view,) = synopsis.scan({first.window: [*Finisher(first).partials, *Finisher(later).partials]}, 3)
    found: dict[Partial, Any] = {}
    for _ in range(2):
        assert Finisher(later).answer(view, found).to_pylist() == [
            {"k": "a", "min(n)": 7, "avg(n)": 7.0, "stddev_pop(n)": 0.0, "count(n)": 1}
        ]
        both = [{"k": "a", "count(n)": 3}, {"k": "b", "count(n)": 1}]
        assert Finisher(first).answer(view, found).to_pylist() == both
    synopsis.close(6)
    (view,) = synopsis.scan({later.window: Finisher(later).partials}, 6)
    assert view.accumulator_for(Finisher(later).partials) is view.accumulator, "complete: one scan serves all"


def test_a_ranked_partial_may_go_and_come_back_while_a_pane_is_open() -> None:
    """Its dictionary is another one then: codes of the old one in the open pane would mean nothing."""
    count, ranked = query((K,), [("count", None)], TimeWindow(4)), query((K,), [("max", S)], TimeWindow(4))
    synopsis = filled(count, [])
    synopsis.require(Finisher(ranked).partials, None)
    synopsis.absorb(lift_rows([(1, row(k=s, s=s)) for s in "zyx"], 4, [K], list(synopsis.since)))
    synopsis.release(set(Finisher(count).partials))
    synopsis.require(Finisher(ranked).partials, 4)
    synopsis.absorb(lift_rows([(2, row(k="x", s="a"))], 4, [K], list(synopsis.since)))
    synopsis.absorb(lift_rows([(5, row(k="x", s="b"))], 4, [K], list(synopsis.since)))
    synopsis.close(8)
    assert answer(synopsis, ranked, 8) == [{"k": "x", "max(s)": "b"}]
    assert {each["k"]: each["count(*)"] for each in answer(synopsis, count, 4)} == {"x": 2, "y": 1, "z": 1}


def test_many_windows_are_scanned_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [TimeWindow(length) for length in (2, 4, 6, 10)]
    asked = [query((K,), [("max", S), ("sum", N), ("stddev_pop", F)], window) for window in windows]
    tuples = [(ts, row(k="ab"[ts % 2], n=ts, s=f"{ts % 7}", f=float(ts % 5))) for ts in range(1, 11)]
    synopsis = filled(asked[0], tuples)
    synopsis.close(10)
    needs = {window: Finisher(asked[0]).partials for window in windows}
    for most in (1, 5, 1_000):
        monkeypatch.setattr(basic_interval, "MOST_SCANNED", most)
        views = list(synopsis.scan(needs, 10))
        assert [view.window for view in views] == windows
        for each, view in zip(asked, views, strict=True):
            check_answer(each, Finisher(each).answer(view, {}), [r for ts, r in tuples if ts > 10 - view.window.length])


def test_expired_panes_are_gone() -> None:
    asked = query((), [("count", None)], TimeWindow(100))
    synopsis = filled(asked, [(ts, row()) for ts in range(1, 11)])
    synopsis.close(10)
    synopsis.expire(4)
    assert synopsis.panes == 6
    assert answer(synopsis, asked, 10) == [{"count(*)": 6}]
    synopsis.expire(10)
    assert synopsis.panes == 0 and synopsis.is_empty(asked.window, 10)
    assert answer(synopsis, asked, 10) == [{"count(*)": 0}]


@pytest.mark.parametrize("keys", [(K,), (K, G)], ids=str)
def test_memory_does_not_grow_with_ever_new_keys(
    keys: tuple[RowExpression, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 window lengths of ever new groups and strings: the dictionaries stay a small multiple of a window's."""
    monkeypatch.setattr(basic_interval, "LEAST_COMPACTED", 32)
    window, per_pane = 8, 10
    asked = query(keys, [("max", S), ("min", S), ("sum", N)], TimeWindow(window))
    partials = Finisher(asked).partials
    synopsis = BasicIntervalSynopsis([key.type for key in sorted(keys, key=lambda key: key.sql)])
    synopsis.require(partials, None)
    recent: list[Tuple] = []
    most_groups = most_values = 0
    for now in range(1, 50 * window + 1):
        batch = [(now, row(k=f"k{now}-{n}", g=float(now), n=n, s=f"s{now}-{n}")) for n in range(per_pane)]
        batch += [(now, row(k="steady", g=NAN, n=1, s=f"t{now}"))]
        # the next pane is already open while this one closes
        ahead = [(now + 1, row(k=f"k{now + 1}-0", g=float(now + 1), n=0, s=f"s{now}-ahead"))]
        synopsis.absorb(lift_rows([*batch, *ahead], 1, sorted(keys, key=lambda key: key.sql), partials))
        recent = [each for each in [*recent, *batch, *ahead] if each[0] > now - window]
        synopsis.close(now)
        if now % 7 == 0:
            check_answer(
                asked,
                Finisher(asked).answer(next(iter(synopsis.scan({asked.window: partials}, now))), {}),
                [each for ts, each in recent if ts <= now],
            )
        synopsis.expire(now - window + 1)
        most_groups = max(most_groups, synopsis.groups)
        most_values = max(most_values, *(len(ranked.dictionary) for ranked in synopsis.ranked.values()))
    in_a_window = (window + 1) * (per_pane + 2)
    assert most_groups <= 3 * in_a_window and most_values <= 3 * in_a_window
    assert synopsis.rows <= in_a_window


def test_a_burst_of_groups_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic_interval, "LEAST_COMPACTED", 32)
    asked = query((K,), [("count", None)], TimeWindow(4))
    synopsis = filled(asked, [(1, row(k=f"k{n}")) for n in range(500)])
    for now in range(2, 10):
        synopsis.absorb(lift_rows([(now, row(k="k7"))], 1, [K], Finisher(asked).partials))
        synopsis.close(now)
        synopsis.expire(now - 4)
    assert synopsis.groups == 1
    assert answer(synopsis, asked, 9) == [{"k": "k7", "count(*)": 4}]


def test_an_empty_synopsis_is_saved_and_loaded() -> None:
    asked = query((K,), [("sum", M), ("max", S)], TimeWindow(4))
    for tuples in ([], [(1, row(k="a", m=Decimal("1.25"), s="x"))]):
        synopsis = filled(asked, tuples)
        fresh = filled(asked, [])
        fresh.load(synopsis.to_table(), synopsis.save_since())
        fresh.close(2)
        assert len(answer(fresh, asked, 2)) == len(tuples)
        assert fresh.to_table().schema == synopsis.to_table().schema


def test_a_snapshot_speaks_of_values_not_of_codes() -> None:
    asked = query((K,), [("max", S)], TimeWindow(4))
    synopsis = filled(asked, [(1, row(k="b", s="q")), (1, row(k="a", s=None)), (2, row(k=None, s="p"))])
    synopsis.close(1)
    table = synopsis.to_table().to_pydict()
    assert sorted(map(str, table["key0"])) == ["None", "a", "b"]
    assert {"q", "p", None} == set(table[f"value{list(synopsis.since).index(MAX_S)}_0"])
    assert table["closed"] == [True, True, False]
