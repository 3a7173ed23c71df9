"""Answers on their way into a sink that fails now and then: in order, without a hole, across restarts."""

from __future__ import annotations

import shutil
import tempfile
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.time import SECOND, to_datetime
from sash.engine import outlet as outlets
from sash.engine.answer import Answer
from sash.engine.outlet import Outlet
from tests.support.streams import START


class Moody:
    """A sink that takes what it is given while it is `well`."""

    name = "moody"

    def __init__(self) -> None:
        self.well = True
        self.tries = 0
        self.has: list[int] = []

    def write(self, as_of: datetime, table: pa.Table, rows: int | None) -> None:
        self.tries += 1
        if not self.well:
            raise OSError("not today")
        assert rows == table["n"][0].as_py() and as_of == moment(rows)
        self.has.append(rows)


def moment(number: int) -> datetime:
    return to_datetime(START + number * SECOND)


def answer(number: int) -> Answer:
    return Answer("q", moment(number), True, True, pa.table({"n": [number]}), number)


def opened(sink: Moody, directory: Path | None = None) -> Outlet:
    return Outlet("q", sink, directory, str)


@given(steps=st.lists(st.sampled_from(["answer", "answer", "well", "ill", "flush", "restart"]), max_size=40))
def test_a_sink_has_all_answers_up_to_one_and_in_the_end_all(steps: list[str]) -> None:
    directory = Path(tempfile.mkdtemp()) / "waiting"
    sink, given_ = Moody(), 0
    outlet = opened(sink, directory)
    for step in steps:
        if step == "answer":
            outlet.take(answer(given_))
            given_ += 1
        elif step == "flush":
            outlet.flush()
        elif step == "restart":
            outlet = opened(sink, directory)
        else:
            sink.well = step == "well"
        assert sink.has == list(range(len(sink.has)))
        assert len(sink.has) + outlet.statistics()["waiting"] == given_
        if step in ("answer", "flush") and sink.well:
            assert len(sink.has) == given_ and outlet.error is None
    sink.well = True
    outlet.flush()
    assert sink.has == list(range(given_)) and not list(directory.glob("*"))
    shutil.rmtree(directory.parent)


def test_what_fails_is_shown_until_it_is_written() -> None:
    sink = Moody()
    outlet = opened(sink)
    outlet.take(answer(0))
    sink.well = False
    for number in (1, 2):
        outlet.take(answer(number))
    said = "query 'q' cannot write to moody: not today (2 answers wait and are tried again)"
    assert str(outlet.error) == said
    assert outlet.statistics() == {"sink": "moody", "written": 1, "waiting": 2, "error": said}
    # The oldest is tried, not all that wait.
    assert sink.tries == 3
    sink.well = True
    outlet.take(answer(3))
    assert outlet.error is None and sink.has == [0, 1, 2, 3]


def test_a_sink_that_stays_away_is_given_up_without_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "WAITING_ANSWERS", 5)
    sink = Moody()
    outlet = opened(sink, tmp_path / "waiting")
    outlet.take(answer(0))
    sink.well = False
    for number in range(1, 7):
        outlet.take(answer(number))
    sink.well = True
    outlet.take(answer(7))
    outlet.flush()
    assert sink.has == [0] and not (tmp_path / "waiting").exists()
    assert "given up after 1 answers, which are there without a hole; call write_to again" in str(outlet.error)


def test_bytes_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "WAITING_BYTES", 20)
    sink = Moody()
    sink.well = False
    outlet = opened(sink)
    for number in range(3):
        outlet.take(answer(number))
    assert "given up" in str(outlet.error)
