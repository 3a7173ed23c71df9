"""The choice of join synopses: right for every pair, and cheapest by its own account."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.window import TimeWindow
from sash.panes.answers import Finisher
from sash.panes.joins import Band, WindowPair, join_synopsis
from sash.panes.partials import Partial
from sash.sharing.choose_join import AskedPair, JoinChoice, JoinLoad, JoinPart, choose_join
from tests.panes.joins.cases import Result, joined, lift_results
from tests.panes.raw import F, K, N, S, check_answer, query, row

COUNT = [Partial("rows")]
MAXIMUM = [Partial("rows"), Partial("max", N), Partial("count", N)]


def chosen(*pairs: tuple[int, int], partials: list[Partial] = MAXIMUM, slide: int = 1, **load: float) -> JoinChoice:
    asked = [AskedPair(WindowPair(*pair), slide) for pair in pairs]
    return choose_join(asked, partials, JoinLoad(**load))  # type: ignore[arg-type]


def bands(choice: JoinChoice) -> list[Band]:
    return [part.band for part in choice.parts]


def test_equal_windows_need_one_value_per_interval() -> None:
    assert bands(chosen((7, 7), (8, 8), (3, 3))) == [Band(0, 0)]


def test_windows_one_apart_need_three() -> None:
    """SS3: the generalized synopsis."""
    choice = chosen((7, 7), (7, 8), (8, 7), (8, 8), slide=8)
    assert bands(choice) == [Band(-1, 1)]
    assert len(choice.parts) == 1


def test_one_difference_needs_one_value_whatever_it_is() -> None:
    assert bands(chosen((2, 8), (1, 7))) == [Band(-6, -6)]


def test_differences_far_apart_have_a_synopsis_each() -> None:
    assert sorted(bands(chosen((8, 8), (1, 8), (7, 7))), key=lambda band: band.low) == [Band(-7, -7), Band(0, 0)]


def test_sums_of_all_pairs_have_a_table_of_running_sums() -> None:
    every = [(first, second) for first in range(1, 13) for second in range(1, 13)]
    choice = chosen(*every, partials=COUNT, groups=1000)
    assert [part.kind for part in choice.parts] == ["table"]
    assert choice.space == 13 * 13
    assert "table" in choice.reason
    extremes = chosen(*every)
    assert "table of running sums refused: MAX is not subtractable" in extremes.reason
    assert extremes.space <= 12 * 12, "the same table, as rows"


def test_many_windows_are_scanned_and_few_are_looked_up() -> None:
    many = [(n, n) for n in range(1, 129)]
    assert [part.kind for part in chosen(*many, groups=1000).parts] == ["basic"]
    assert [part.kind for part in chosen((128, 128), (128, 128), partials=COUNT, groups=1000).parts] == ["running"]
    assert [part.kind for part in chosen((128, 128), groups=1000).parts] == ["interval"]


def test_what_only_panes_hold_is_scanned() -> None:
    """Strings, moments, sketches; and floats are not taken back."""
    choice = chosen((7, 8), (8, 8), partials=[Partial("rows"), Partial("max", S)])
    assert [part.kind for part in choice.parts] == ["basic"]
    assert "refused: MAX of string compares values through a dictionary" in choice.reason
    floats = chosen((3, 3), partials=[Partial("rows"), Partial("sum", F), Partial("count", F)])
    assert {part.kind for part in floats.parts} <= {"basic", "interval"}


def test_vectors_that_are_too_large_are_not_made() -> None:
    choice = chosen((1000, 1000), partials=COUNT, groups=1_000_000, density=0.001)
    assert [part.kind for part in choice.parts] == ["basic"]
    assert "too much memory for 1000000 groups" in choice.reason


pairs = st.lists(st.builds(WindowPair, st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=6, unique=True)
RESULTS: list[Result] = [
    (i, max(1, i + (11 * i) % 67 - 33), row(k="xy"[i % 2], n=(i * i) % 17, f=float(i % 5), s="abc"[i % 3]))
    for i in range(1, 120)
]


@pytest.mark.parametrize("calls", [[("count", None), ("sum", N)], [("max", N)], [("max", S), ("variance", F)]])
@given(wanted=pairs, slides=st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_what_is_chosen_answers_rightly(calls: list[Any], wanted: list[WindowPair], slides: list[int]) -> None:
    """The synopses of a choice, filled and read, equal the join recomputed; and rule SS3 agrees with the choice."""
    asked = query((K,), calls, TimeWindow(10))
    finisher = Finisher(asked)
    choice = choose_join([AskedPair(*each) for each in zip(wanted, slides, strict=False)], finisher.partials)
    assert sorted(pair for part in choice.parts for pair in part.pairs) == sorted(wanted)
    for part in choice.parts:
        synopsis = join_synopsis(part.kind, [K.type], finisher.partials, 10, part.band, part.capacity)
        synopsis.absorb(lift_results(RESULTS, 10, [K], finisher.partials))
        synopsis.close(110)
        for pair, view in synopsis.views(dict.fromkeys(part.pairs, finisher.partials)):
            check_answer(asked, finisher.answer(view, {}), joined(RESULTS, pair, 10, 110))
        for pair in [*wanted, WindowPair(9, 1), WindowPair(9, 9)]:
            ruled = part.decide(pair, "by k")
            assert ruled.rule == "SS3"
            assert ruled.allowed is (synopsis.why_not(pair) is None)
        assert all(part.decide(pair, "by k").allowed for pair in part.pairs)


def test_the_rule_says_which_differences_are_kept() -> None:
    pair = WindowPair(8, 8)
    kept = JoinPart("basic", Band(0, 2), 8, ()).decide(pair, "by k")
    assert kept.allowed and kept.reason == "the synopsis by k (BIJ) has their join"
    refused = JoinPart("basic", Band(-2, -1), 8, ()).decide(pair, "by k")
    assert not refused.allowed and refused.reason.endswith("keeps apart what windows that differ by -2 to -1 need")


def test_a_table_of_running_sums_has_no_window_that_is_longer_than_its_side() -> None:
    """Its longest window is of the other side, so its capacity alone would allow this."""
    (part,) = (JoinPart("table", Band(-7, 3), 8, ()),)
    assert part.decide(WindowPair(4, 8), "by k").allowed
    refused = part.decide(WindowPair(6, 6), "by k")
    assert not refused.allowed and "the synopsis keeps 4 and 8" in refused.reason
