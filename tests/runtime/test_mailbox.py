"""Subscribers with a queue: in order, bounded, counted, and only callers that want to wait for them do."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.core.time import SECOND, to_datetime
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.mailbox import DROP_NEWEST, DROP_OLDEST, Mailbox, check_policy
from tests.support.log import events
from tests.support.streams import START
from tests.support.threads import PATIENCE, join, start

POLICIES = (DROP_OLDEST, DROP_NEWEST)


def answer(number: int) -> Answer:
    return Answer("q", to_datetime(START + number * SECOND), True, True, pa.table({"n": [number]}))


class Slow:
    """A subscriber that takes the next answer when it is let."""

    def __init__(self) -> None:
        self.has: list[int] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)

    def __call__(self, given_: Answer) -> None:
        self.entered.release()
        assert self.gate.acquire(timeout=PATIENCE)
        self.has.append(given_.table["n"][0].as_py())


def boxed(slow: Slow, queue: int, when_full: str) -> Mailbox:
    return Mailbox("q", slow, queue, when_full, lambda: None)


def model(queue: int, when_full: str, number: int) -> list[int]:
    """While the first answer is being delivered, all others come."""
    line: list[int] = []
    for each in range(1, number):
        if len(line) < queue:
            line.append(each)
        elif when_full == DROP_OLDEST:
            line = [*line[1:], each]
    return [0, *line]


@given(queue=st.integers(1, 5), when_full=st.sampled_from(POLICIES), number=st.integers(1, 12))
def test_who_is_behind_misses_what_the_policy_says(queue: int, when_full: str, number: int) -> None:
    slow = Slow()
    mailbox = boxed(slow, queue, when_full)
    mailbox.take(answer(0))
    assert slow.entered.acquire(timeout=PATIENCE)
    for each in range(1, number):
        mailbox.take(answer(each))
    expected = model(queue, when_full, number)
    said = {"when_full": when_full, "delivered": 0, "waiting": len(expected) - 1, "dropped": number - len(expected)}
    assert mailbox.statistics() == said
    slow.gate.release(number)
    mailbox.settle(None)
    assert slow.has == expected
    assert mailbox.statistics() == {**said, "delivered": len(expected), "waiting": 0}


@pytest.mark.parametrize("when_full", POLICIES)
def test_who_keeps_up_gets_everything_in_order(when_full: str) -> None:
    has: list[int] = []
    mailbox = Mailbox("q", lambda each: has.append(each.table["n"][0].as_py()), 1_000, when_full, lambda: None)
    for number in range(500):
        mailbox.take(answer(number))
        if number % 50 == 0:
            mailbox.settle(None)
    mailbox.settle(None)
    assert has == list(range(500)) and mailbox.statistics()["dropped"] == 0


def test_what_it_raises_is_counted_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    raised: list[int] = []
    has: list[int] = []

    def moody(given_: Answer) -> None:
        number = given_.table["n"][0].as_py()
        if number % 2:
            raise ValueError("not this one")
        has.append(number)

    mailbox = Mailbox("q", moody, 10, DROP_OLDEST, lambda: raised.append(1))
    for number in range(4):
        mailbox.take(answer(number))
    mailbox.settle(None)
    assert has == [0, 2] and len(raised) == 2
    assert events(caplog) == [{"event": "subscriber.failed", "query": "q"}] * 2
    assert all(record.exc_info for record in caplog.records)


def test_settling_from_inside_does_not_wait_for_itself() -> None:
    boxes: list[Mailbox] = []
    has: list[int] = []

    def inside(given_: Answer) -> None:
        boxes[0].settle(None)
        has.append(given_.table["n"][0].as_py())

    boxes.append(Mailbox("q", inside, 10, DROP_OLDEST, lambda: None))
    boxes[0].take(answer(0))
    join(start(lambda: boxes[0].settle(None)))
    assert has == [0]


def test_settling_gives_up_after_its_patience(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    mailbox = boxed(slow, 3, DROP_OLDEST)
    for number in range(3):
        mailbox.take(answer(number))
    assert slow.entered.acquire(timeout=PATIENCE)
    mailbox.settle(0.01)
    assert "answers to go" in caplog.text
    assert events(caplog) == [{"event": "subscriber.stuck", "query": "q", "waiting": 2}]
    slow.gate.release(3)
    mailbox.settle(None)
    assert slow.has == [0, 1, 2]


def test_who_is_behind_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    mailbox = boxed(slow, 1, DROP_NEWEST)
    mailbox.take(answer(0))
    assert slow.entered.acquire(timeout=PATIENCE)
    for number in range(1, 4):
        mailbox.take(answer(number))
    slow.gate.release(2)
    mailbox.settle(None)
    assert mailbox.statistics()["dropped"] == 2
    assert events(caplog) == [{"event": "subscriber.behind", "query": "q", "queue": 1, "when_full": DROP_NEWEST}]


def test_words_that_are_wrong() -> None:
    with pytest.raises(SashError, match="when_full is one of wait, drop_oldest, drop_newest, not 'drop'"):
        check_policy(10, "drop")
    with pytest.raises(SashError, match="one answer at least, not 0"):
        check_policy(0, DROP_OLDEST)
