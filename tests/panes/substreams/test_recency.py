"""Each kernel of the lists against a NumPy version of it, and lists that are merged, given up and made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.substreams import recency
from sash.panes.substreams.collective import kernel_note
from sash.panes.substreams.recency import empty_listing, with_more_slots
from tests.support.examples import examples

KEYS, PANES = 12, 15
NUMBERS = st.integers(0, PANES)


def ints(values: list[int]) -> Any:
    return np.array(values, dtype=np.int32)


def run_of(stamps: list[int], floor: int) -> tuple[Any, Any]:
    order = sorted((-stamp, key) for key, stamp in enumerate(stamps) if stamp > floor)
    return ints([key for _, key in order]), ints([-stamp for stamp, _ in order])


STAMPS = st.lists(NUMBERS, min_size=KEYS, max_size=KEYS)


@st.composite
def moved(draw: st.DrawFn) -> tuple[list[int], Any]:
    """Stamps by key, and successive moves of the keys."""
    stamps = draw(STAMPS)
    now, moves = list(stamps), []
    for key, step in draw(st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(1, 5)), max_size=20)):
        moves.append((key, now[key], now[key] + step))
        now[key] += step
    return stamps, np.array(moves, dtype=np.int32).reshape(-1, 3)


def reference_order(keys: Any, stamps: Any, floor: int, newest: int, sorted_keys: Any, sorted_stamps: Any) -> None:
    order = np.argsort(-stamps, kind="stable")
    sorted_keys[: len(order)], sorted_stamps[: len(order)] = keys[order], stamps[order]


def reference_pick(stamps: Any, column: int, floor: int) -> Any:
    keys = np.flatnonzero(stamps[:, column] > floor).astype(np.int32)
    return keys, stamps[keys, column]


def reference_merge(run_keys: Any, run_stamps: Any, moves: Any, floor: int, marks: Any) -> Any:
    newest = dict(zip(run_keys.tolist(), run_stamps.tolist(), strict=True))
    for key, _, stamp in moves.tolist():
        # Moved to the end, where the last moves are.
        newest.pop(key, None)
        newest[key] = stamp
    kept = {key: stamp for key, stamp in newest.items() if stamp > floor}
    return np.array(list(kept), dtype=np.int32), np.array(list(kept.values()), dtype=np.int32)


def reference_prefix(sorted_stamps: Any, outside: int) -> int:
    return int((sorted_stamps > outside).sum())


def reference_select(keys: Any, sorted_stamps: Any, surely: Any, moves: Any, outside: int, found: Any) -> Any:
    crossed = (moves[:, 1] <= outside) & (moves[:, 2] > outside)
    prefix = keys[sorted_stamps > outside]
    sure = surely[: len(prefix)] > outside
    rest = np.concatenate([prefix[~sure], moves[crossed, 0]])[::-1]
    certain, uncertain = int(sure.sum()), len(found) - len(rest)
    found[:certain], found[uncertain:] = prefix[sure], rest
    return certain, uncertain


def reference_newer(listing: Any, stamps: Any, column: int, outside: int, forgotten: int, newest: int) -> Any:
    found = np.flatnonzero(stamps[:, column] > outside)
    listing.found[len(listing.found) - len(found) :] = found
    return 0, len(listing.found) - len(found)


@given(stamps=STAMPS, floor=NUMBERS)
@settings(max_examples=examples(50))
def test_picking_and_ordering(stamps: list[int], floor: int) -> None:
    column = np.column_stack([np.zeros(KEYS, dtype=np.int32), ints(stamps)])
    results = []
    for pick, order in ((recency.kernel_pick, recency.kernel_order), (reference_pick, reference_order)):
        keys, theirs = pick(column, 1, floor)
        sorted_keys, sorted_stamps = np.zeros(KEYS, dtype=np.int32), np.zeros(KEYS, dtype=np.int32)
        order(keys, theirs, floor, PANES, sorted_keys, sorted_stamps)
        results.append((keys.tolist(), theirs.tolist(), sorted_keys.tolist(), sorted_stamps.tolist()))
    assert results[0] == results[1]
    assert results[0][2][: len(results[0][0])] == run_of(stamps, floor)[0].tolist()


@given(history=moved(), floors=st.tuples(NUMBERS, NUMBERS), outside=NUMBERS, surely=STAMPS)
@settings(max_examples=examples(100))
def test_merging_and_selecting(
    history: tuple[list[int], Any], floors: tuple[int, int], outside: int, surely: list[int]
) -> None:
    (stamps, moves), floor, marks = history, min(floors), np.zeros(KEYS, dtype=np.int32)
    keys, sorted_stamps = run_of(stamps, floor)
    moves = moves[moves[:, 2] > floor]
    ours = recency.kernel_merge(keys, sorted_stamps, moves, max(floors), marks)
    theirs = reference_merge(keys, sorted_stamps, moves, max(floors), marks)
    np.testing.assert_array_equal(ours, theirs)
    assert not marks.any()
    assert recency.kernel_prefix(sorted_stamps, outside) == reference_prefix(sorted_stamps, outside)
    found = [np.zeros(KEYS + len(moves) + 1, dtype=np.int32) for _ in range(2)]
    sure = ints(surely)[keys]
    cuts = recency.kernel_select(keys, sorted_stamps, sure, moves, outside, found[0])
    assert cuts == reference_select(keys, sorted_stamps, sure, moves, outside, found[1])
    for part in (slice(None, cuts[0]), slice(cuts[1], None)):
        np.testing.assert_array_equal(found[0][part], found[1][part])


def answer(newer: Callable[..., Any], listing: Any, stamps: Any, column: int, outside: int, newest: int) -> list[int]:
    certain, uncertain = newer(listing, stamps, column, outside, 0, newest)
    return sorted([*listing.found[:certain].tolist(), *listing.found[uncertain:].tolist()])


@pytest.mark.parametrize("most", [3, 256])
@given(steps=st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(1, 3), st.integers(0, 12)), max_size=60))
@settings(max_examples=examples(50))
def test_a_list_is_what_the_stamps_say(most: int, steps: list[tuple[int, int, int]]) -> None:
    """One key moves and somebody looks, near or far back, again and again; a short log is given up at times."""
    listing = empty_listing(4, 1, KEYS)._replace(moves=np.zeros((1, most, 3), dtype=np.int32))
    listing.slots[1] = 0
    stamps = np.zeros((KEYS, 4), dtype=np.int32)
    for newest, (key, level, back) in enumerate(steps, 1):
        for column in range(1, level + 1):
            if column == 1:
                kernel_note(0, key, stamps[key, 1], newest, listing.floors, listing.moves, listing.filled)
            stamps[key, column] = newest
        if back:
            outside = max(0, newest - back)
            assert answer(recency.newer, listing, stamps, 1, outside, newest) == answer(
                reference_newer, listing, stamps, 1, outside, newest
            )
            certain = recency.kernel_newer(listing, stamps, 1, outside, 0, newest)[0]
            assert (stamps[listing.found[:certain], 3] > outside).all()


def test_more_slots_keep_what_there_is() -> None:
    listing = empty_listing(5, 2, KEYS)
    listing.slots[3], listing.sizes[1], listing.filled[1], listing.keys[1] = 1, KEYS, 0, np.arange(KEYS)
    more = with_more_slots(listing, 2)
    assert more.slots.tolist() == listing.slots.tolist()
    assert more.filled.tolist() == [-1, 0, -1, -1]
    assert more.keys.shape == (4, KEYS) and more.keys[1].tolist() == list(range(KEYS))
    assert more.found.shape == listing.found.shape
