"""Subscribers with queues of a session: the stream goes on while they are busy, and `run` ends when they are not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.runtime.test_continuous import declare, tuples, write
from tests.support.threads import PATIENCE

pytestmark = pytest.mark.spark
TEXT = "SELECT DISTINCT k FROM s [RANGE 1 sec]"


class Told:
    """The answers of two subscribers of a query; the slow one waits until the other has had five answers."""

    def __init__(self, query: sash.Query, queue: int, when_full: str) -> None:
        self.query, self.queue, self.when_full = query, queue, when_full
        self.prompt: list[sash.Answer] = []
        self.slow: list[sash.Answer] = []
        self._all_told = threading.Event()
        query.subscribe(self._wait_for_the_other, queue=queue, when_full=when_full)
        query.subscribe(self._note)

    def _wait_for_the_other(self, answer: sash.Answer) -> None:
        """If the stream waited for this one, the other would never be told."""
        assert self._all_told.wait(PATIENCE)
        self.slow.append(answer)

    def _note(self, answer: sash.Answer) -> None:
        self.prompt.append(answer)
        if len(self.prompt) == 5:
            self._all_told.set()


def test_slow_subscribers_hold_nobody_up(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=6), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        cases = [
            Told(session.register(TEXT, name=f"q{number}"), queue, when_full)
            for number, (queue, when_full) in enumerate(
                [(1_000, "drop_newest"), (1, "drop_oldest"), (1, "drop_newest")]
            )
        ]
        session.run()
        for told in cases:
            (counted,) = session.stats()["queries"][told.query.name]["subscribers"]
            assert told.query.subscribers() == [counted]
            assert counted["when_full"] == told.when_full and counted["waiting"] == 0
            assert len(told.slow) == counted["delivered"]
            assert len(told.slow) + counted["dropped"] == len(told.prompt)
            assert told.query.subscriber_errors == 0
            if told.queue > 1:
                assert [answer.as_of for answer in told.slow] == [answer.as_of for answer in told.prompt]
            else:
                assert counted["dropped"] > 0
                assert {answer.as_of for answer in told.slow} < {answer.as_of for answer in told.prompt}


def test_a_policy_that_is_no_word(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=1), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        with pytest.raises(sash.SashError, match="when_full is one of"):
            session.register(TEXT, name="q").subscribe(print, when_full="block")


def test_a_session_may_be_stopped_from_a_queue(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=3), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        stopped = threading.Event()

        def stop(answer: sash.Answer) -> None:
            session.stop()
            stopped.set()

        session.register(TEXT, name="q").subscribe(stop, when_full="drop_oldest")
        session.start(trigger="0 seconds")
        session.wait(PATIENCE)
        assert stopped.wait(PATIENCE)
