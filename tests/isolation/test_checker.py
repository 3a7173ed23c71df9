"""The checker against definitions written down without a thought for time."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given

from sash.core.errors import SashError
from sash.isolation.checker import (
    classify,
    is_acyclic,
    judge_queries,
    nearest_edges,
    preserves_commit_order,
)
from sash.isolation.history import History, is_slide, parse_operation
from tests.isolation.histories import histories, serialization_graph, serialization_orders


class Judged(NamedTuple):
    ws: bool
    lws: bool
    lws_by_committed_state: bool


def judge_slowly(history: History, query: str) -> Judged:
    """Walk through the history, keep every state as a dictionary from slot to version, and look for the reads."""
    states = [(history.filled, dict(enumerate(history.initial())))]
    read: dict[int, str] = {}
    for place, each in enumerate(history.operations):
        if each.kind == "w" and each.slot is not None:
            youngest, state = states[-1]
            youngest = int(each.transaction) if is_slide(each.transaction) else youngest
            new = (youngest, {**state, each.slot: each.transaction})
            before = history.operations[place - 1] if place else None
            if before is not None and before.kind == "w" and before.transaction == each.transaction:
                states[-1] = new
            else:
                states.append(new)
        elif each.transaction == query and each.kind == "r" and each.slot is not None:
            read[each.slot] = states[-1][1][each.slot]
        elif each.transaction == query and each.kind == "u" and each.slot is not None:
            read.pop(each.slot, None)
        elif each.transaction == query:
            shown = [seen_by(read, history.slots, *state) for state in states]
            ws = read in shown
            return Judged(ws, shown[-1] == read, ws and committed_view(history, place, read) == read)
    raise AssertionError(f"{query} has no end")


def seen_by(read: dict[int, str], slots: int, youngest: int, state: dict[int, str]) -> dict[int, str]:
    """What a query over as many sub-windows would read in this state."""
    return {(youngest - age) % slots: state[(youngest - age) % slots] for age in range(len(read))}


def committed_view(history: History, place: int, read: dict[int, str]) -> dict[int, str]:
    """The same with only the writes that were committed by then."""
    early = {each.transaction for each in history.operations[:place] if each.kind == "c"}
    state, youngest = dict(enumerate(history.initial())), history.filled
    for each in history.operations[:place]:
        if each.kind == "w" and each.transaction in early and each.slot is not None:
            state[each.slot] = each.transaction
            youngest = int(each.transaction) if is_slide(each.transaction) else youngest
    return seen_by(read, history.slots, youngest, state)


@given(histories())
def test_queries_are_judged_as_by_looking_at_every_state(history: History) -> None:
    for found in judge_queries(history):
        if found.state_read:
            want = judge_slowly(history, found.query)
            assert Judged(found.ws, found.lws, found.lws_by_committed_state) == want


@given(histories())
def test_neighbours_in_a_slot_say_what_all_pairs_say(history: History) -> None:
    every, nearest = serialization_graph(history), nearest_edges(history)
    assert nearest <= every
    assert is_acyclic(nearest) == is_acyclic(every) == any(True for _ in serialization_orders(history))
    assert preserves_commit_order(history, nearest) == preserves_commit_order(history, every)


@given(histories())
def test_levels_contain_each_other(history: History) -> None:
    verdict = classify(history)
    assert verdict.ws or not (verdict.lws or verdict.lws_by_committed_state)


def judged(text: str, slots: int) -> Judged:
    (found,) = judge_queries(History.parse(text, slots))
    return Judged(found.ws, found.lws, found.lws_by_committed_state)


def test_a_shorter_window_is_that_of_the_youngest() -> None:
    assert judged("rQ1[2] rQ1[1] cQ1", 3) == (True, True, True)
    assert judged("rQ1[0] rQ1[1] cQ1", 3) == (False, False, False)
    assert judged("rQ1[2] w3[0] c3 rQ1[0] cQ1", 3) == (True, True, True)
    # Slot 1 has left the two youngest, though nobody wrote it.
    assert judged("rQ1[2] rQ1[1] w3[0] c3 cQ1", 3) == (True, False, False)


def test_a_revision_is_a_write() -> None:
    assert judged("rQ1[0] wR1[0] cR1 rQ1[1] cQ1", 2) == (True, False, False)
    assert judged("rQ1[1] wR1[0] cR1 rQ1[0] cQ1", 2) == (True, True, True)
    assert judged("rQ1[0] wR1[0] cR1 wR2[1] cR2 rQ1[1] cQ1", 2) == (False, False, False)


def test_what_is_taken_back_does_not_count() -> None:
    text = "rQ1[0] w2[0] c2 uQ1[0] rQ1[0] rQ1[1] cQ1"
    assert judged(text, 2) == (True, True, True)
    assert serialization_graph(History.parse(text, 2)) == {("2", "Q1")}


def test_the_writes_of_one_slide_are_one_state() -> None:
    assert judged("w2[0] w2[1] c2 rQ1[1] rQ1[0] cQ1", 2) == (True, True, True)
    assert judged("rQ1[1] w2[0] w2[1] c2 rQ1[0] cQ1", 2) == (False, False, False)


@pytest.mark.parametrize("word", ["", "r", "x5[0]", "rQ1[-1]", "rQ1 [0]"])
def test_what_is_no_operation(word: str) -> None:
    with pytest.raises(SashError, match="is no operation"):
        parse_operation(word)


@pytest.mark.parametrize("text", ["w3[1] c3", "w2[1] c2", "rQ1[2]", "rQ1", "cQ1[0]", "w1[1]"])
def test_what_cannot_happen_to_a_window_of_two(text: str) -> None:
    with pytest.raises(SashError):
        History.parse(text, slots=2)


def test_a_window_that_is_not_full() -> None:
    with pytest.raises(SashError, match="cannot be full after T1"):
        History.parse("", slots=3, filled=1)
