"""Subscribers are called in the middle of an epoch, and say things to their session while other threads do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.runtime.test_continuous import declare, tuples, write
from tests.runtime.test_continuous_life import rows, static

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]
TEXT = "SELECT DISTINCT k FROM s [RANGE 3 sec]"


class Elsewhere:
    """Does something on another thread, and tells whether it came to its end soon."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._thread = threading.Thread(target=action, daemon=True)

    def ends(self) -> bool:
        self._thread.start()
        self._thread.join(timeout=20)
        return not self._thread.is_alive()


def test_nobody_waits_for_a_callback_that_waits_for_him(spark: Any, tmp_path: Path) -> None:
    """Another thread comes with the session's lock (or the window), the callback wants it too, with the plan."""
    write(tuples(3, parts=3), tmp_path / "s")
    ended: list[bool] = []
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        first = session.register(TEXT, name="first")
        actions: list[Callable[[], Any]] = [
            lambda: session.register(TEXT, name=f"other{len(ended)}"),
            session.stats,
            first.view,
        ]

        def told(answer: sash.Answer) -> None:
            for action in actions:
                if len(ended) < 2 * len(actions) and all(ended):
                    ended.append(Elsewhere(action).ends())
                    if ended[-1]:
                        # The same from here; before, it would wait for ever.
                        session.register(TEXT, name=f"mine{len(ended)}")
                        session.stats()

        first.subscribe(told)
        session.run()
        assert ended == [True] * 2 * len(actions) and first.subscriber_errors == 0
        assert session.stats()["plans"] == 1
        for query in session.queries.values():
            assert query.view() == first.view(), query.name


def test_who_comes_in_the_middle_of_an_epoch_misses_nothing(spark: Any, tmp_path: Path) -> None:
    """Rows that stand before the epoch, then its changes, once: they add up to what the others have."""
    parts = tuples(4, parts=3)
    write(parts, tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        first = session.register("SELECT k, v FROM s [RANGE 30 sec]", name="first")
        came: list[tuple[int, sash.Query]] = []

        def told(answer: sash.Answer) -> None:
            came.append((first.answered, session.register(first.text, name=f"q{len(came)}")))

        first.subscribe(told)
        session.run()
        whole = sorted(rows(first.changes()))
        assert len(came) == first.answered > 2
        for _, query in came:
            assert sorted(rows(query.changes())) == whole, query.name


def test_a_query_may_be_dropped_by_its_own_subscriber_and_registered_again(spark: Any, tmp_path: Path) -> None:
    """The plan's files go when its epoch is over; the new query begins with empty windows, and the stream goes on."""
    write(tuples(5, parts=3), tmp_path / "s")
    with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
        declare(session, tmp_path, "s")
        query = session.register(TEXT, name="q")
        again: list[sash.Query] = []

        def told(answer: sash.Answer) -> None:
            query.drop()
            again.append(session.register(TEXT, name="q"))

        query.subscribe(told)
        session.run()
        assert len(again) == 1 and query.subscriber_errors == 0
        (later,) = again
        assert later.error is None and later.answered > 0
        assert later.answers()[0].as_of > query.answers()[0].as_of
        later.drop()
        assert not any((tmp_path / "state" / "plans").iterdir())


def test_a_subscriber_cannot_move_the_time_of_its_own_plan(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0), (1, 2, 5))
        query = session.register(TEXT, name="q")
        query.subscribe(lambda answer: session.advance("s", answer.as_of))
        session.run()
        assert query.subscriber_errors == query.answered > 0 and query.error is None
