"""CI-COUNT and CI-SUM against a look at every tuple: supersets, relaxed no further than promised."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.substreams import CollectiveIndex, collective
from sash.panes.substreams.collective import Levels
from tests.panes.substreams.histories import COMPARISONS, KEYS, Update, apply, updates, window
from tests.support.examples import examples

PS = [1, 2, 8]
COUNTS, SUMS = st.integers(1, 9), st.one_of(st.integers(0, 300), st.integers(0, 2**50))
LOOKUPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 40), st.one_of(st.integers(-1, 40), st.integers(0, 2**52))), max_size=3
)


def check(index: CollectiveIndex, history: list[tuple[int, int, int]], tau: int, length: int, v: int) -> None:
    """Both sides of a threshold."""
    totals = {key: sum(amounts) for key, amounts in window(history, tau, length).items()}
    above, below = index.lookup_above(tau, length, v).tolist(), index.lookup_below(tau, length, v).tolist()
    for answer in (above, below):
        assert answer == sorted(set(answer))
    p = index.levels.p
    assert {key for key, total in totals.items() if total > v} <= set(above) <= set(totals)
    assert all(totals[key] > v * (1 - Levels(p).epsilon) for key in above)
    assert {key for key, total in totals.items() if total < v} <= set(below) <= set(totals)
    assert all(totals[key] < v * (1 + Levels(p).excess) for key in below)
    certain, uncertain = index.candidates_above(tau, length, v)
    assert sorted([*certain.tolist(), *uncertain.tolist()]) == above
    assert all(totals[key] > v for key in certain.tolist())


def replay(index: Any, steps: list[Update], after: Any) -> list[tuple[int, int, int]]:
    """Applies the updates; calls `after(history, time)` after each."""
    history: list[tuple[int, int, int]] = []
    time = 0
    for later, rows in steps:
        time += later
        apply(index, time, rows)
        history += [(time, key, amount) for key, amount in rows]
        after(history, time)
    return history


@pytest.mark.parametrize("amounts", [COUNTS, SUMS], ids=["count", "sum"])
@pytest.mark.parametrize("p", PS)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_answers_are_supersets_and_bounded(p: int, amounts: st.SearchStrategy[int], data: st.DataObject) -> None:
    """Look-ups come between updates, so lists are made, moved, merged and asked for further back."""
    index = CollectiveIndex(p)

    def look(history: list[tuple[int, int, int]], time: int) -> None:
        for later, length, v in data.draw(LOOKUPS):
            check(index, history, time + later, length, v)

    replay(index, data.draw(updates(amounts)), look)


def test_a_long_stream_with_standing_filters() -> None:
    """Hundreds of keys and panes: lists are merged again and again, given up, and come back."""
    chance, index = np.random.default_rng(1), CollectiveIndex(4)
    panes = chance.poisson(2_000 / np.arange(1, 301) / 40, (400, 300))
    running = np.vstack([np.zeros(300, dtype=np.int64), np.cumsum(panes, axis=0)])
    filters = [(5, 3), (20, 40), (20, 41), (60, 150), (60, 10), (100, 1_000), (399, 20)]
    for number in range(1, 401):
        keys = np.flatnonzero(panes[number - 1])
        index.update(number, keys, panes[number - 1][keys])
        if number % 100 > 50:
            # Nobody looks for a while: logs grow too long.
            continue
        for length, v in filters:
            counts = running[number] - running[max(0, number - length)]
            certain, uncertain = index.candidates_above(number, length, v)
            exact = np.sort(np.concatenate([certain, uncertain[counts[uncertain] > v]]))
            np.testing.assert_array_equal(exact, np.flatnonzero(counts > v))
        index.forget(number - 399)
    assert 0 < index.listed <= len(filters) + 1


@given(steps=updates(SUMS), length=st.integers(1, 30), v=st.fractions(-2, 50))
@settings(max_examples=examples(40))
def test_comparisons(steps: list[Update], length: int, v: Fraction) -> None:
    """Any number will do as a threshold: more than 2.5 is more than 2."""
    index = CollectiveIndex(2)
    history = replay(index, steps, lambda *_: None)
    tau = sum(later for later, _ in steps)
    totals = {key: sum(amounts) for key, amounts in window(history, tau, length).items()}
    for comparison, holds in COMPARISONS.items():
        exact = {key for key, total in totals.items() if holds(total, v)}
        assert exact <= set(index.lookup(tau, length, comparison, v).tolist()) <= set(totals)


def test_forgetting_and_starting_the_numbers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective, "RENUMBER_FROM", 10)
    index, history = CollectiveIndex(2), []
    for time in range(1, 60):
        rows = [(time % KEYS, time % 4), (KEYS, 1)]
        apply(index, time, rows)
        history += [(time, key, amount) for key, amount in rows]
        index.forget(time - 12)
        for v in (0, 2, 7):
            check(index, history, time, 12, v)
    with pytest.raises(ValueError, match="reaches into what was forgotten"):
        index.lookup_above(59, 13, 1)


def test_a_key_without_units_is_seen() -> None:
    """SUM over zeros is 0: not more than 0, less than 1, and there."""
    index = CollectiveIndex()
    index.update(1, np.array([0, 1]), np.array([0, 3]))
    assert index.lookup_above(1, 1, 0).tolist() == [1]
    assert index.lookup_below(1, 1, 1).tolist() == [0]
    assert index.lookup(1, 1, ">=", 0).tolist() == [0, 1]
    assert index.lookup_below(1, 1, 0).tolist() == []


def test_many_levels_are_listed_at_once() -> None:
    """More than there are slots at first; each stays as long as it is asked for."""
    index = CollectiveIndex(8)
    index.update(1, np.arange(5), np.array([1, 10, 100, 1_000, 10_000]))
    thresholds = [int(1.5**i) for i in range(22)]
    for _ in range(2):
        for v in thresholds:
            assert set(index.lookup_above(1, 1, v)) >= {i for i in range(5) if 10**i > v}
    assert index.listed == len({index.levels.above(v) for v in thresholds})


def test_a_list_leaves_out_the_keys_that_nobody_asks_for() -> None:
    """A thousand keys were seen long ago, five are seen now: a look-up has to do with the five."""
    index, old, young = CollectiveIndex(), np.arange(1_000), np.arange(5)
    index.update(0, old, np.full(1_000, 50))
    for time in range(1, 200):
        index.update(time, young, np.full(5, 7))
        assert index.lookup_above(time, 10, 30).tolist() == (young if time >= 10 else old).tolist()
    listed = index.listing.filled >= 0
    assert listed.sum() == 1 and index.listing.sizes[listed][0] == 5


def test_updates_that_are_errors() -> None:
    index, key = CollectiveIndex(), np.array([0])
    index.update(5, key, np.array([1]))
    index.update(5, np.array([], dtype=np.int64), np.array([]))
    with pytest.raises(ValueError, match="in the order of time"):
        index.update(4, key, np.array([1]))
    with pytest.raises(ValueError, match="an amount below 0"):
        index.update(6, key, np.array([-1]))
    with pytest.raises(ValueError, match="a key below 0"):
        index.update(6, -key - 1, np.array([1]))
    with pytest.raises(ValueError, match="more than once"):
        index.update(6, np.array([0, 0]), np.array([60, 60]))
    with pytest.raises(ValueError, match="1 keys with 2 amounts"):
        index.update(6, key, np.array([1, 2]))
    with pytest.raises(TypeError, match="whole numbers, not int64 and float64"):
        index.update(6, key, np.array([0.5]))
    with pytest.raises(ValueError, match="unknown comparison: ="):
        index.lookup(6, 1, "=", Decimal(3))


def test_what_it_refuses() -> None:
    refuse = CollectiveIndex.refuse
    assert refuse("count", None) is None and refuse("COUNT", pa.string()) is None
    assert refuse("sum", pa.int64()) is None and refuse("sum", pa.decimal128(10, 2)) is None
    assert "a SUM of double is not a whole number" in (refuse("sum", pa.float64()) or "")
    assert "serves COUNT and SUM, not MAX" in (refuse("max", pa.int64()) or "")
