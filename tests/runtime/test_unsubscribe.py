"""Subscribers that leave: nothing more comes, and nothing of them stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Query
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream
from tests.support.threads import PATIENCE


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    with SparklessSession() as made:
        made.declare(stream())
        made.register("SELECT SUM(v) AS total FROM s [WINDOW 5 sec SLIDE 5 sec]", name="q")
        yield made


@pytest.fixture
def query(session: SparklessSession) -> Query:
    return session.queries["q"]


def test_who_has_left_is_not_called(session: SparklessSession, query: Query) -> None:
    here: list[Answer] = []
    left: list[Answer] = []
    subscription = query.subscribe(left.append)
    query.subscribe(here.append)
    session.push("s", tuples((1, 1, 1), (6, 1, 1)))
    subscription.cancel()
    subscription.cancel()
    session.push("s", tuples((11, 1, 1)))
    assert len(left) == 1 and len(here) == 2


def test_one_of_two_subscriptions_of_the_same_callback(session: SparklessSession, query: Query) -> None:
    seen: list[Answer] = []
    with query.subscribe(seen.append):
        query.subscribe(seen.append)
    session.push("s", tuples((1, 1, 1), (6, 1, 1)))
    assert len(seen) == 1


def test_a_queue_goes_with_its_subscriber(session: SparklessSession, query: Query) -> None:
    entered, gate = threading.Event(), threading.Event()
    seen: list[Answer] = []

    def slow(answer: Answer) -> None:
        entered.set()
        assert gate.wait(PATIENCE)
        seen.append(answer)

    subscription = query.subscribe(slow, when_full="drop_oldest")
    session.push("s", tuples((1, 1, 1), (6, 1, 1)))
    assert entered.wait(PATIENCE)
    session.push("s", tuples((11, 1, 1), (16, 1, 1)))
    assert query.subscribers()[0]["waiting"] == 2
    (mailbox,) = query.outward.mailboxes
    subscription.cancel()
    assert query.subscribers() == [] and query.outward.subscribers == []
    gate.set()
    mailbox.settle(PATIENCE)
    assert len(seen) == 1, "what was on its way is told, what waited is not"


def test_a_subscriber_may_leave_while_it_is_called(session: SparklessSession, query: Query) -> None:
    seen: list[Answer] = []

    def once(answer: Answer) -> None:
        seen.append(answer)
        subscription.cancel()

    subscription = query.subscribe(once)
    session.push("s", tuples((1, 1, 1), (6, 1, 1), (11, 1, 1)))
    session.push("s", tuples((16, 1, 1), (21, 1, 1)))
    assert query.subscriber_errors == 0 and len(seen) == 1
