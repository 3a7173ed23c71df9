"""Subscribers with queues of a session: the stream goes on while they are busy, and `run` ends when they are not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.engine.test_continuous import declare, tuples, write
from tests.support.threads import PATIENCE

pytestmark = pytest.mark.spark
TEXT = "SELECT DISTINCT k FROM s [RANGE 1 sec]"


@pytest.mark.parametrize(("queue", "when_full"), [(1_000, "drop_newest"), (1, "drop_oldest"), (1, "drop_newest")])
def test_a_slow_subscriber_holds_nobody_up(spark: Any, tmp_path: Path, queue: int, when_full: str) -> None:
    write(tuples(9, parts=6), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        query = session.register(TEXT, name="q")
        prompt: list[sash.Answer] = []
        slow: list[sash.Answer] = []
        all_told = threading.Event()

        def wait_for_the_others(answer: sash.Answer) -> None:
            """If the stream waited for this one, the others would never be told."""
            assert all_told.wait(PATIENCE)
            slow.append(answer)

        def note(answer: sash.Answer) -> None:
            prompt.append(answer)
            if len(prompt) == 5:
                all_told.set()

        query.subscribe(wait_for_the_others, queue=queue, when_full=when_full)
        query.subscribe(note)
        session.run()
        (counted,) = session.stats()["queries"]["q"]["subscribers"]
        assert query.subscribers() == [counted]
        assert counted["when_full"] == when_full and counted["waiting"] == 0
        assert len(slow) == counted["delivered"] and len(slow) + counted["dropped"] == len(prompt)
        assert query.subscriber_errors == 0
        if queue > 1:
            assert [answer.as_of for answer in slow] == [answer.as_of for answer in prompt]
        else:
            assert counted["dropped"] > 0 and {a.as_of for a in slow} < {a.as_of for a in prompt}


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
