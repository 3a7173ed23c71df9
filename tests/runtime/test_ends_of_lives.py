"""LIFETIME and sinks: answers that are unwritten when a life ends are tried once more, and no micro-batch waits."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from sash.runtime.answers import outlet as outlets
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.outlet import Outlet
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream
from tests.support.threads import PATIENCE


class Stuck:
    name = "stuck"
    channel: str | None = None

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.has: list[Any] = []

    def write(self, answers: Sequence[Answer]) -> None:
        assert self.gate.wait(PATIENCE)
        self.has += [each.table["n"][0].as_py() for each in answers]


def test_no_micro_batch_waits_for_the_sink_of_a_query_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(outlets, "LAST_PATIENCE_SECONDS", 10 * PATIENCE)
    session = SparklessSession()
    session.declare(stream())
    text = "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]"
    sink, query = Stuck(), session.register(text, name="q", lifetime="4 sec")
    query.outward.add(Outlet("q", sink, None, str))
    session.push("s", tuples(*((second, 1, 1) for second in range(12))))
    assert "q" not in session.queries and sink.has == []
    sink.gate.set()
    session.stop()
    assert len(sink.has) == query.answered > 0


@pytest.mark.parametrize("text", ["SELECT COUNT(*) FROM s [WINDOW 2 sec SLIDE 2 sec]", "SELECT k FROM s [RANGE 2 sec]"])
def test_explain_says_how_long_a_query_lives(text: str) -> None:
    with SparklessSession() as session:
        session.declare(stream())
        shown = [session.explain(f"REGISTER QUERY q AS {text}{clause}") for clause in ("", " LIFETIME 7 sec")]
        assert shown[1] == f"{shown[0]}\nLifetime: it ends 7 sec after it begins"
