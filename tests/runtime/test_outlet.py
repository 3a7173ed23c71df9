"""Answers on their way into a sink that fails now and then: in order, without a hole, across restarts."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.core.time import SECOND, to_datetime
from sash.runtime.answers import outlet as outlets
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.outlet import Channel, Outlet
from sash.runtime.answers.registered_query import deliver, written_together
from tests.support.faults import DAMAGES, FullDisk, Killed, dying
from tests.support.streams import START
from tests.support.threads import PATIENCE, join, start


class Moody:
    """A sink that takes answers while it is `well`."""

    name = "moody"
    channel: str | None = None

    def __init__(self) -> None:
        self.well = True
        self.tries = 0
        self.has: list[int] = []

    def write(self, answers: Sequence[Answer]) -> None:
        self.tries += 1
        if not self.well:
            raise OSError("not today")
        for each in answers:
            assert each.rows == each.table["n"][0].as_py() and each.as_of == moment(each.rows)
            self.has.append(each.rows)


def moment(number: int) -> datetime:
    return to_datetime(START + number * SECOND)


def answer(number: int) -> Answer:
    return Answer("q", moment(number), True, True, pa.table({"n": [number]}), number)


def opened(sink: Moody, directory: Path | None = None) -> Outlet:
    return Outlet("q", sink, directory, str)


def take(outlet: Outlet, *answers: Answer) -> None:
    """As a micro-batch does it."""
    for each in answers:
        channel = outlet.add(each)
    channel.begin()
    channel.wait_a_moment()


@given(steps=st.lists(st.sampled_from(["answer", "answer", "well", "ill", "flush", "restart"]), max_size=40))
def test_a_sink_has_all_answers_up_to_one_and_in_the_end_all(steps: list[str]) -> None:
    directory = Path(tempfile.mkdtemp()) / "waiting"
    sink, given_ = Moody(), 0
    outlet = opened(sink, directory)
    for step in steps:
        if step == "answer":
            take(outlet, answer(given_))
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
    take(outlet, answer(0))
    sink.well = False
    for number in (1, 2):
        take(outlet, answer(number))
    said = "query 'q' cannot write to moody: not today (2 answers wait and are tried again)"
    assert str(outlet.error) == said
    assert outlet.statistics() == {"sink": "moody", "written": 1, "waiting": 2, "error": said}
    assert sink.tries == 3
    sink.well = True
    take(outlet, answer(3))
    assert outlet.error is None and sink.has == [0, 1, 2, 3]


def test_a_sink_that_stays_away_is_given_up_without_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "WAITING_ANSWERS", 5)
    sink = Moody()
    outlet = opened(sink, tmp_path / "waiting")
    take(outlet, answer(0))
    sink.well = False
    for number in range(1, 7):
        take(outlet, answer(number))
    sink.well = True
    take(outlet, answer(7))
    outlet.flush()
    assert sink.has == [0] and not (tmp_path / "waiting").exists()
    assert "given up after 1 answers, which are there without a hole; call write_to again" in str(outlet.error)


def test_bytes_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "WAITING_BYTES", 20)
    sink = Moody()
    sink.well = False
    outlet = opened(sink)
    for number in range(3):
        take(outlet, answer(number))
    assert "given up" in str(outlet.error)


class Slow(Moody):
    """A sink that takes the next answer when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Semaphore(0)

    def write(self, answers: Sequence[Answer]) -> None:
        assert self.gate.acquire(timeout=PATIENCE)
        super().write(answers)


def test_a_slow_sink_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are unwritten by then are stored; a restart finds them."""
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 0.01)
    sink = Slow()
    outlet = opened(sink, tmp_path / "waiting")
    take(outlet, answer(0))
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 10 * PATIENCE)
    for number in range(1, 5):
        take(outlet, answer(number))
    assert sink.has == [] and outlet.statistics()["waiting"] == 5
    assert outlet.error is None
    assert len(list((tmp_path / "waiting").iterdir())) == 5
    another = Moody()
    again = opened(another, tmp_path / "waiting")
    assert again.statistics()["waiting"] == 5
    sink.gate.release(5)
    outlet.flush()
    assert sink.has == [0, 1, 2, 3, 4] and not list((tmp_path / "waiting").iterdir())
    # It has caught up: it is waited for again.
    sink.gate.release()
    take(outlet, answer(5))
    assert sink.has == [0, 1, 2, 3, 4, 5]


def test_a_sink_that_is_slow_to_fail_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 0.01)
    sink = Slow()
    outlet = opened(sink)
    take(outlet, answer(0))
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 10 * PATIENCE)
    sink.well = False
    sink.gate.release()
    outlet.flush()
    assert outlet.error is not None
    # It is tried again, and has not caught up: nobody waits for it.
    take(outlet, answer(1))
    assert sink.has == [] and outlet.statistics()["waiting"] == 2
    sink.well = True
    sink.gate.release(2)
    outlet.flush()
    assert sink.has == [0, 1]


def test_waiting_for_a_sink_uses_up_patience_which_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer takes four seconds of a clock that only the sink turns."""
    now = 0.0

    class Turning(Slow):
        def write(self, answers: Sequence[Answer]) -> None:
            nonlocal now
            super().write(answers)
            now += 4.0

    monkeypatch.setattr(outlets.time, "monotonic", lambda: now)
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 10.0)
    sink = Turning()
    outlet = opened(sink)
    sink.gate.release(3)
    for number in range(3):
        take(outlet, answer(number))
    assert sink.has == [0, 1, 2]
    # Twelve seconds were waited, of which a tenth is back. The gate is closed, and nobody stands before it.
    take(outlet, answer(3))
    assert sink.has == [0, 1, 2] and outlet.statistics()["waiting"] == 1
    sink.gate.release()
    outlet.flush()
    now += 200
    sink.gate.release()
    take(outlet, answer(4))
    assert sink.has == [0, 1, 2, 3, 4]


def test_a_file_that_cannot_be_removed_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Moody()
    sink.well = False
    outlet = opened(sink, tmp_path / "waiting")
    take(outlet, answer(0))
    sink.well = True
    with monkeypatch.context() as broken:
        broken.setattr(outlets, "remove", lambda path: (_ for _ in ()).throw(OSError("broken disk")))
        take(outlet, answer(1))
    assert sink.has == [0, 1] and "broken disk" in str(outlet.error)
    take(outlet, answer(2))
    assert sink.has == [0, 1, 2] and outlet.error is None


def test_a_sink_that_hangs_is_not_waited_for_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(outlets, "LAST_PATIENCE_SECONDS", 0.05)
    sink = Slow()
    outlet = opened(sink, tmp_path / "waiting")
    for number in range(3):
        take(outlet, answer(number))
    outlet.flush()
    assert "waits no longer for moody" in caplog.text
    assert opened(Moody(), tmp_path / "waiting").statistics()["waiting"] == 3
    sink.gate.release(3)


def test_a_slow_sink_is_given_up_when_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(outlets, "WAITING_ANSWERS", 3)
    sink = Slow()
    outlet = opened(sink)
    for number in range(5):
        take(outlet, answer(number))
    sink.gate.release(5)
    outlet.flush()
    # The answer on its way arrives, and none after it.
    join(start(lambda: outlet.drop()))
    assert sink.has in ([], [0])


def test_what_can_neither_be_written_nor_stored_stops_the_micro_batch(tmp_path: Path) -> None:
    sink = Moody()
    sink.well = False
    outlet = opened(sink, tmp_path / "waiting")
    with listening(FullDisk(1)), pytest.raises(outlets.NotKeptError, match="No space left on device"):
        take(outlet, answer(0))
    take(outlet, answer(1))
    sink.well = True
    outlet.flush()
    assert sink.has == [0, 1]


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_a_damaged_answer_is_refused_by_its_name(tmp_path: Path, damage: str) -> None:
    sink = Moody()
    sink.well = False
    outlet = opened(sink, tmp_path)
    for number in range(2):
        take(outlet, answer(number))
    path = max(tmp_path.iterdir())
    DAMAGES[damage](path)
    with pytest.raises(CheckpointError, match=f"{path.name} is damaged"):
        opened(sink, tmp_path)


@pytest.mark.parametrize("half", [False, True], ids=["whole", "by half"])
def test_a_death_while_answers_are_stored(tmp_path: Path, half: bool) -> None:
    """An answer of an uncommitted micro-batch is delivered again: the sink gets it again, and nothing out of order."""
    for at in range(1, 40):
        sink, directory = Moody(), tmp_path / str(at)
        sink.well = False
        given_ = 0
        try:
            with dying(at, half):
                outlet = opened(sink, directory)
                for _ in range(3):
                    take(outlet, answer(given_))
                    given_ += 1
        except (Killed, outlets.NotKeptError):
            pass
        sink.well = True
        outlet = opened(sink, directory)
        for number in range(given_, 3):
            take(outlet, answer(number))
        outlet.flush()
        assert sorted(set(sink.has)) == [0, 1, 2] and sink.has == sorted(sink.has)


# -- several queries, one sink ----------------------------------------------------------------------------


class Picky(Moody):
    """A sink that several queries share, and that takes nothing with an answer of those it `hates`."""

    channel = "picky"

    def __init__(self) -> None:
        super().__init__()
        self.hates: set[str] = set()
        self.by_query: dict[str, list[int]] = {query: [] for query in "abc"}

    def write(self, answers: Sequence[Answer]) -> None:
        self.tries += 1
        if not self.well or self.hates & {each.query for each in answers}:
            raise OSError("not today")
        for each in answers:
            assert each.rows is not None
            self.by_query[each.query].append(each.rows)


def shared(sink: Picky) -> dict[str, Outlet]:
    channels: dict[str, Channel] = {}
    return {query: Outlet(query, sink, None, str, channels=channels) for query in "abc"}


def micro_batch(lines: dict[str, Outlet], number: int) -> None:
    """Two answers of each query."""
    channels = {
        line.add(replace(answer(each), query=query)) for query, line in lines.items() for each in (number, number + 1)
    }
    (channel,) = channels
    channel.begin()
    channel.wait_a_moment()


def test_all_answers_of_a_micro_batch_are_one_write() -> None:
    sink = Picky()
    lines = shared(sink)
    for number in (0, 2):
        micro_batch(lines, number)
    assert sink.tries == 2 and sink.by_query == {query: [0, 1, 2, 3] for query in "abc"}


def test_a_query_whose_answers_are_not_taken_keeps_no_other_from_writing() -> None:
    sink = Picky()
    sink.hates = {"a"}
    lines = shared(sink)
    for number in range(0, 8, 2):
        micro_batch(lines, number)
    assert sink.by_query == {"a": [], "b": list(range(8)), "c": list(range(8))}
    assert lines["a"].error is not None and lines["b"].error is None
    before = sink.tries
    micro_batch(lines, 8)
    assert sink.tries == before + 2, "one for those who can write together, one for who cannot"
    sink.hates.clear()
    micro_batch(lines, 10)
    before = sink.tries
    micro_batch(lines, 12)
    assert sink.tries == before + 1 and sink.by_query == {query: list(range(14)) for query in "abc"}


def test_a_sink_that_hangs_is_waited_for_once_by_all_its_queries(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outlets, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(outlets, "LAST_PATIENCE_SECONDS", 0.05)
    gate = threading.Event()

    class Hanging(Picky):
        def write(self, answers: Sequence[Answer]) -> None:
            assert gate.wait(PATIENCE)
            super().write(answers)

    sink = Hanging()
    lines = shared(sink)
    micro_batch(lines, 0)
    lines["a"].flush()
    monkeypatch.setattr(outlets, "LAST_PATIENCE_SECONDS", 10 * PATIENCE)
    lines["b"].flush()
    lines["c"].flush()
    assert caplog.text.count("waits no longer for moody") == 3, "each query once"
    gate.set()
    micro_batch(lines, 2)
    deadline = time.monotonic() + PATIENCE
    while sink.by_query != {query: [0, 1, 2, 3] for query in "abc"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@given(steps=st.lists(st.sampled_from(["batch", "batch", "well", "ill", "hate", "love", "flush", "drop"]), max_size=30))
def test_each_query_has_its_answers_in_order_whatever_happens_to_others(steps: list[str]) -> None:
    sink, number = Picky(), 0
    lines = shared(sink)
    for step in steps:
        if step == "batch":
            micro_batch(lines, number)
            number += 2
        elif step == "flush":
            lines["a"].flush()
        elif step == "drop" and "c" in lines:
            lines.pop("c").drop()
        else:
            sink.well, sink.hates = step != "ill", {"b"} if step == "hate" else set()
        for query, line in lines.items():
            has = sink.by_query[query]
            assert has == list(range(len(has))) and len(has) + line.statistics()["waiting"] == number
    sink.well, sink.hates = True, set()
    lines["a"].flush()
    assert all(sink.by_query[query] == list(range(number)) for query in lines)


def _nothing(answer: Answer) -> None: ...


def _handle(line: Outlet, heard: Callable[[Answer], None] = _nothing) -> Any:
    """A query that writes to one sink."""
    memory = SimpleNamespace(add=_nothing)
    return SimpleNamespace(
        outlets=[line], tell=heard, subscribers=[heard], memory=memory, kept_result=None, answers=[], answered=0
    )


def test_plans_of_a_micro_batch_are_one_write_and_stored_until_then(tmp_path: Path) -> None:
    """Each plan commits before the others answer. A crash in between finds the answers in the checkpoint."""
    sink, channels, heard = Picky(), dict[str, Channel](), list[Answer]()
    lines = {query: Outlet(query, sink, tmp_path / query, str, channels=channels) for query in "abc"}
    handles = {query: _handle(line, heard.append) for query, line in lines.items()}

    def told(query: str, number: int) -> Any:
        return [(handles[query], replace(answer(number), query=query))]

    def stored() -> list[str]:
        return [query for query in "abc" if list((tmp_path / query).glob("*.arrow"))]

    for number, periodic in enumerate((True, False)):
        before = sink.tries
        with written_together():
            for query in "ab":
                deliver(told(query, number), by_plan=True)
            assert (sink.tries, stored(), len(heard)) == (before, ["a", "b"], 3 * number + 2)
            if periodic:
                deliver(told("c", number))
                assert (sink.tries, stored()) == (before + 1, [])
            else:
                deliver(told("c", number), by_plan=True)
        assert (sink.tries, stored(), len(heard)) == (before + 1, [], 3 * number + 3)
    assert sink.by_query == {query: [0, 1] for query in "abc"}
    # Outside of a micro-batch nothing is held.
    deliver(told("a", 2), by_plan=True)
    assert sink.by_query["a"] == [0, 1, 2] and stored() == []


def test_a_micro_batch_that_breaks_off_has_the_answers_of_its_plans_written(tmp_path: Path) -> None:
    sink, channels = Picky(), dict[str, Channel]()
    lines = {query: Outlet(query, sink, tmp_path / query, str, channels=channels) for query in "ab"}
    handles = {query: _handle(line) for query, line in lines.items()}
    broken: Any = [(handles["a"], replace(answer(0), query="a"))]

    def micro_batch() -> None:
        with written_together():
            deliver(broken, by_plan=True)
            raise RuntimeError("the next plan lost its executor")

    with pytest.raises(RuntimeError):
        micro_batch()
    lines["a"].flush()
    assert sink.by_query["a"] == [0]
    after: Any = [(handles["b"], replace(answer(1), query="b"))]
    with written_together():
        deliver(after, by_plan=True)
    assert (sink.by_query["a"], sink.by_query["b"]) == ([0], [1])


def test_more_answers_than_may_wait_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that catches up: its sink is not given up before it has been tried."""
    monkeypatch.setattr(outlets, "WAITING_ANSWERS", 3)
    sink, channels = Picky(), dict[str, Channel]()
    lines = {query: Outlet(query, sink, tmp_path / query, str, channels=channels) for query in "ab"}
    handle = _handle(lines["a"])
    many: Any = [(handle, replace(answer(number), query="a")) for number in range(9)]
    with written_together():
        deliver(many, by_plan=True)
    assert sink.by_query["a"] == list(range(9)) and lines["a"].error is None
