"""Algorithms 7 and 8: theorems 7.3 and 7.4, priorities, undoing, revisions, insertions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.isolation.schedule import ORDERS, Scheduler
from sash.core.errors import SashError
from sash.isolation.checker import classify, judge_queries


def steps(events: str, order: str, slots: int, **options: int | bool) -> str:
    scheduler = Scheduler(slots, order)
    scheduler.start("Q1", **options)  # type: ignore[arg-type]
    for event in events:
        scheduler.step() if event == "R" else scheduler.slide()
    return str(scheduler.history)


@given(st.integers(1, 5), st.sampled_from(ORDERS), st.data())
def test_what_is_committed_is_the_latest_window(slots: int, order: str, data: st.DataObject) -> None:
    """Theorem 7.3, for shorter windows, several queries, undoing, revisions and insertions, too."""
    scheduler = Scheduler(slots, order)
    started = 0
    slot = st.integers(0, slots - 1)
    for event in data.draw(st.lists(st.sampled_from("QRRRRRRUVI"), max_size=40)):
        if event == "Q":
            started += 1
            count, priority = data.draw(st.integers(1, slots)), data.draw(st.integers(0, 2))
            scheduler.start(f"Q{started}", count, priority, undoes=data.draw(st.booleans()))
        elif event == "R":
            scheduler.step()
        elif event == "U":
            scheduler.slide()
        elif event == "V":
            scheduler.revise(data.draw(slot))
        else:
            scheduler.slide(inserts=data.draw(st.sets(slot)))
    verdict = classify(scheduler.history)
    assert verdict.serializable and verdict.ws and verdict.lws and verdict.lws_by_committed_state
    for query in judge_queries(scheduler.history):
        assert query.lws


def survives(slots: int, count: int, before: Sequence[int]) -> bool:
    """Whether some order of reads is not aborted, when so many slides come before each read: tries all of them.

    Sub-windows by number; a read of one that is in the window now, and is not read yet, is a possible choice.
    """

    @cache
    def search(place: int, youngest: int, read: frozenset[int]) -> bool:
        if place == count:
            return True
        youngest += before[place]
        oldest = youngest - count + 1
        if any(number < oldest for number in read):
            return False
        return any(
            search(place + 1, youngest, read | {number}) for number in range(oldest, youngest + 1) if number not in read
        )

    return search(0, slots - 1, frozenset())


def is_aborted(slots: int, count: int, before: Sequence[int], order: str) -> bool:
    scheduler = Scheduler(slots, order)
    scheduler.start("Q", count)
    for slides in before:
        for _ in range(slides):
            if scheduler.slide():
                return True
        scheduler.step()
    assert not scheduler.running
    return False


@pytest.mark.parametrize("slots", range(1, 7))
def test_ttu_aborts_only_what_every_order_aborts(slots: int) -> None:
    """Theorem 7.4 by brute force: every length of window, up to four slides at every combination of places."""
    for count in range(1, slots + 1):
        for slides in range(5):
            for places in combinations_with_replacement(range(count), slides):
                before = [places.count(place) for place in range(count)]
                hopeless = not survives(slots, count, before)
                assert is_aborted(slots, count, before, "ttu") == hopeless
                assert is_aborted(slots, count, before, "lws") or not hopeless


@given(st.integers(1, 6), st.data())
def test_ttu_never_aborts_for_one_slide(slots: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, slots))
    at = data.draw(st.integers(0, count - 1))
    assert not is_aborted(slots, count, [int(place == at) for place in range(count)], "ttu")


def test_a_query_that_undoes_is_not_aborted() -> None:
    assert steps("RURR", "lws", 2, undoes=True) == "rQ1[0] w2[0] c2 uQ1[0] rQ1[0] rQ1[1] cQ1"
    # The shorter window loses slot 1, and gets slot 0.
    assert steps("RRUR", "lws", 3, count=2, undoes=True) == "rQ1[1] rQ1[2] cQ1 w3[0] c3"
    assert steps("RUR", "ttu", 3, count=2, undoes=True) == "rQ1[2] w3[0] c3 rQ1[0] cQ1"
    assert steps("RUR", "lws", 3, count=2, undoes=True) == "rQ1[1] w3[0] c3 uQ1[1] rQ1[0]"


def test_the_highest_priority_runs_first() -> None:
    scheduler = Scheduler(2)
    scheduler.start("Q1")
    scheduler.step()
    scheduler.start("Q2", priority=1)
    for _ in range(3):
        scheduler.step()
    assert str(scheduler.history) == "rQ1[1] rQ2[1] rQ2[0] cQ2 rQ1[0] cQ1"
    assert scheduler.step() is None


def test_a_revision_aborts_those_who_have_read_it() -> None:
    scheduler = Scheduler(3)
    scheduler.start("Q1")
    scheduler.start("Q2", priority=-1)
    scheduler.step()
    assert scheduler.revise(0) == [] and scheduler.revise(2) == ["Q1"] and list(scheduler.running) == ["Q2"]


def test_insertions_are_handed_to_those_who_have_read_the_sub_window() -> None:
    scheduler = Scheduler(3)
    scheduler.start("Q1")
    scheduler.step()
    assert scheduler.slide(inserts=[1, 2]) == []
    assert str(scheduler.history) == "rQ1[2] w3[0] w3[1] w3[2] c3 rQ1[2]"


def test_what_is_refused() -> None:
    with pytest.raises(SashError, match="one of lws, ttu, not 'edf'"):
        Scheduler(3, "edf")
    with pytest.raises(SashError, match="has no 4 youngest"):
        Scheduler(3).start("Q1", 4)
