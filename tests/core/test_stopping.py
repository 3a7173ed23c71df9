"""Cancelled work: it stops once, with the first reason, and the actions for work elsewhere are called."""

from __future__ import annotations

import threading

import pytest

from sash.core.errors import QuestionCancelledError, QuestionTimedOutError
from sash.core.stopping import QUESTION, Cancellation, check_question
from tests.support.threads import PATIENCE


def test_nothing_stops_by_itself() -> None:
    cancellation = Cancellation()
    cancellation.check()
    check_question()
    assert cancellation.why is None


def test_who_works_for_a_question_sees_that_it_is_to_stop() -> None:
    cancellation = Cancellation()
    before = QUESTION.set(cancellation)
    try:
        check_question()
        cancellation.cancel()
        with pytest.raises(QuestionCancelledError, match="was cancelled"):
            check_question()
    finally:
        QUESTION.reset(before)
    check_question()


def test_the_time_is_over() -> None:
    cancellation, told = Cancellation(), threading.Event()
    with cancellation.calling(told.set), cancellation.within(0.001):
        assert told.wait(PATIENCE)
    with pytest.raises(QuestionTimedOutError, match=r"within 0.001 s; allow more time"):
        cancellation.check()
    first = cancellation.why
    cancellation.cancel()
    assert cancellation.why is first


def test_who_is_done_in_time_is_not_stopped() -> None:
    cancellation = Cancellation()
    with cancellation.within(3_600):
        pass
    for timer in [each for each in threading.enumerate() if isinstance(each, threading.Timer)]:
        timer.join(PATIENCE)
        assert not timer.is_alive()
    assert cancellation.why is None


def test_actions_are_called_once_and_only_inside() -> None:
    cancellation, calls = Cancellation(), list[str]()
    with cancellation.calling(lambda: calls.append("before")):
        pass
    with cancellation.calling(lambda: calls.append("inside")):
        cancellation.cancel()
        cancellation.cancel()
        with cancellation.calling(lambda: calls.append("late")):
            pass
    assert calls == ["inside", "late"]
