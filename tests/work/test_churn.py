"""Nothing piles up: queries that come and go, due queries that never repeat, subscribers that keep everything."""

from __future__ import annotations

import gc
from collections import Counter
from itertools import count

import pytest

from sash.core.interned import InternedValue
from sash.panes.answers import Finisher, PendingTable
from sash.plan.expressions import RowExpression
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.joint_queries import JointQueries
from tests.work.packets import PacketSession

COUNTED = (ActiveQuery, JointQueries, CompiledQuery, Finisher, PendingTable, InternedValue, RowExpression)


def text(window: int, slide: int, where: str = "") -> str:
    return f"SELECT src, SUM(length) AS bytes FROM packets [WINDOW {window} sec SLIDE {slide} sec]{where} GROUP BY src"


def alive() -> Counter[str]:
    gc.collect()
    found = [type(each) for each in gc.get_objects() if isinstance(each, COUNTED)]
    return Counter(kind.__name__ for kind in found)


def test_queries_that_come_and_go_leave_nothing() -> None:
    with PacketSession(keep_answers=2) as session:
        for number in range(5):
            session.register(text(20 + number, 4), f"stays{number}")

        def churn(times: int) -> None:
            for number in range(times):
                where = f" WHERE length > {40 + next(conditions)}"
                session.register(text(10 + number % 17, 2 + number % 5, where), f"passing{number}")
                session.go_on()
                session.queries[f"passing{number}"].drop()

        conditions = count()
        churn(60)
        before = alive()
        churn(1_000)
        more = alive() - before
        # What is remembered of windows is bounded by their number, not by how often queries came.
        assert all(count <= 20 for count in more.values()), more


@pytest.mark.parametrize("policy", ["conservative", "hybrid-late-pending"])
def test_sets_of_due_queries_that_never_repeat(policy: str) -> None:
    slides = [1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]
    with PacketSession(policy=policy, keep_answers=2) as session:
        for slide in slides:
            session.register(text(40 + slide, slide), f"q{slide}")
        session.go_on(100)
        before = alive()
        for _ in range(30):
            session.go_on(10)
        more = alive() - before
        assert all(count <= 20 for count in more.values()), more
        assert session.answers >= sum(400 // slide for slide in slides) - 2 * len(slides)


def test_a_subscriber_that_keeps_every_answer_keeps_their_values_and_no_more() -> None:
    """The session's memory stays within `answer_memory`; the subscriber's is its own: the columns of its answers."""
    kept: list[Answer] = []
    with PacketSession(answer_memory=100_000, keep_answers=10**6) as session:
        session.register(text(20, 1), "q").subscribe(kept.append)
        for _ in range(40):
            session.go_on(10)
        assert len(kept) == session.answers and session.stats()["answers_forgotten"] > 0
        assert 0 < session.stats()["answer_bytes"] <= 100_000
        assert sum(answer.table.nbytes for answer in session.queries["q"].answers()) <= 100_000
        assert all(answer.num_rows == answer.table.num_rows for answer in kept)
