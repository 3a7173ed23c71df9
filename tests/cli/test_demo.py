"""The demo from its first word to its last, with sessions of straw."""

import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from sash.cli import app
from tests.cli.test_view import Straw

demo = sys.modules["sash.cli.demo"]


class Told(Straw):
    """Each micro-batch takes a moment of waiting; what happens is told."""

    spark = None

    def __init__(self, name: str, told: list[str]) -> None:
        super().__init__(0)
        self._name, self._told = name, told

    def create_stream(self, name: str, rows: object, timestamp: str) -> None:
        self._told.append(f"{self._name}: stream")

    def register(self, text: str, name: str) -> None:
        pass

    def start(self, trigger: str) -> None:
        self._told.append(f"{self._name}: start every {trigger}")

    def wait(self, seconds: float) -> bool:
        self.seconds += 1
        return self._name == "live"

    def stop(self) -> None:
        self._told.append(f"{self._name}: stop after {self.seconds} micro-batches")

    def __enter__(self) -> "Told":
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def test_a_cold_jvm_cannot_make_a_micro_batch_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream starts when the JVM is warm; meanwhile there is no time within which a micro-batch should end."""
    told: list[str] = []

    @contextmanager
    def opened(messages: object):
        yield Told("live", told)

    monkeypatch.setattr(demo, "open_session", opened)
    monkeypatch.setattr(demo, "connect", lambda: Told("warm-up", told))
    monkeypatch.setattr(demo, "packets", lambda *arguments: None)
    monkeypatch.setattr(demo, "packets_at_once", lambda *arguments: None)
    monkeypatch.setattr(demo, "stop", lambda session, messages: session.stop())
    result = CliRunner().invoke(app, ["demo", "--plain"])
    assert result.exit_code == 0, result.output
    assert told == [
        "warm-up: stream",
        "warm-up: start every 0 seconds",
        "warm-up: stop after 20 micro-batches",
        "live: stream",
        "live: start every 1 second",
        "live: stop after 1 micro-batches",
    ]
