"""A stream's Spark query that begins anew under another limit: every micro-batch counts once, whatever comes between.

Spark is played here by a thread that plans a micro-batch, writes down which, hands it over, and notes that it is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.catalog import Source
from sash.core.clock import ManualClock
from sash.core.errors import SashError, SourceError
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.statistics import StreamStatistics
from sash.runtime.streams.intake import Intake
from sash.runtime.streams.load import FAILED, RUNNING, STOPPED
from sash.runtime.streams.runner import Runner


class Disk:
    """What Spark's checkpoint has: which items each epoch is planned to have, and which epochs are done."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.planned: list[range] = []
        self.done: set[int] = set()


class Query:
    """Plans `most` items for a micro-batch, one after the other; ends with the items, or when it is stopped."""

    def __init__(self, disk: Disk, most: int, relay: Callable[[Any, int], None], forgets: Callable[[], bool]) -> None:
        self._disk, self._most, self._relay, self._forgets = disk, most, relay, forgets
        self.isActive = True
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        try:
            disk, epoch = self._disk, max(0, len(self._disk.planned) - 1)
            while self.isActive and (epoch < len(disk.planned) or self._plan()):
                if epoch not in disk.done:
                    self._relay(disk.planned[epoch], epoch)
                    # A stop interrupts: it may or may not come to this.
                    if self.isActive or not self._forgets():
                        disk.done.add(epoch)
                epoch += 1
        except Exception as error:
            self._error = error
        finally:
            self.isActive = False

    def _plan(self) -> bool:
        begin = self._disk.planned[-1].stop if self._disk.planned else 0
        if begin < self._disk.items:
            self._disk.planned.append(range(begin, min(begin + self._most, self._disk.items)))
        return begin < self._disk.items

    def stop(self) -> None:
        self.isActive = False
        self._thread.join()

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self) -> None:  # noqa: N802
        self._thread.join()
        if self._error is not None:
            raise self._error


class Running:
    """Takes each epoch once, as a stream does."""

    stream = SimpleNamespace(name="s", source=Source("parquet", {"path": "x"}), directory="s", idle_after=None)
    is_streaming, in_batch, at_start, interval = True, False, True, 1.0

    def __init__(self, disk: Disk, limits: list[int | None], forgets: Callable[[], bool] = lambda: False) -> None:
        self.disk, self.forgets = disk, forgets
        self.pipeline = self
        self.input_limit: Limits | None = Limits(limits)
        self.runtime = SimpleNamespace(statistics=StreamStatistics())
        self.error: SashError | None = None
        self.stopping = False
        self.taken: list[range] = []
        self.skipped = 0
        self.starts: list[int] = []
        self.fails_at = -1
        self.in_epoch: Callable[[int], None] = lambda epoch: None
        self._lock = threading.Lock()

    def start(self, relay: Callable[[Any, int], None], directory: Path, trigger: str | None, most: int | None) -> Query:
        most = 3 if most is None else most
        self.starts.append(most)
        if len(self.starts) == self.fails_at:
            raise SourceError("the directory has gone")
        return Query(self.disk, most, relay, self.forgets)

    def begin(self) -> None:
        """There is nothing to register."""

    def end_flights(self) -> None:
        """Nothing is under way."""

    def refuse_batches(self, refuse: bool) -> None:
        with self._lock:
            self.stopping = refuse

    @contextmanager
    def between_batches(self) -> Iterator[None]:
        with self._lock:
            yield

    def on_batch(self, version: Callable[[], int], rows: range, epoch: int) -> None:
        with self._lock:
            if self.stopping:
                raise SashError("is stopping")
            if epoch < len(self.taken):
                self.skipped += 1
                return
            version()
            assert epoch == len(self.taken)
            self.taken.append(rows)
            if self.input_limit is not None:
                self.input_limit.has_news = True
            self.runtime.statistics.micro_batches += 1
        self.in_epoch(epoch)


class Limits:
    """After each micro-batch the next of some limits; None: the same as before."""

    def __init__(self, limits: list[int | None]) -> None:
        self._limits = iter(limits)
        self.has_news = False
        self.most: int | None = None

    def begin(self) -> int | None:
        self.most = 3
        return self.most

    def look(self) -> int | None:
        has_news, self.has_news = self.has_news, False
        return next(self._limits, None) if has_news else None

    def changed(self, most: int, seconds: float) -> None:
        self.most = most


def intake_of(running: Running) -> Intake:
    return Intake(running, lambda: 0, Path("x"), "1 second", ManualClock())  # type: ignore[arg-type]


def until(holds: Callable[[], bool]) -> None:
    tick = threading.Event()
    while not holds():
        tick.wait(0.001)


@given(
    limits=st.lists(st.one_of(st.none(), st.integers(1, 6)), max_size=8),
    forgotten=st.lists(st.booleans(), max_size=8),
    items=st.integers(1, 60),
)
def test_every_item_once_and_each_limit_from_the_next_micro_batch_on(
    limits: list[int | None], forgotten: list[bool], items: int
) -> None:
    chances = iter(forgotten)
    running = Running(Disk(items), limits, lambda: next(chances, False))
    intake = intake_of(running)
    intake.start()
    until(lambda: not intake.is_active)
    intake.wait()
    expected, most, begin = [], 3, 0
    for given_limit in [*limits, *[None] * items]:
        if begin < items:
            expected.append(range(begin, min(begin + most, items)))
            begin, most = expected[-1].stop, most if given_limit is None else given_limit
    changes = [limit for limit in limits[: len(expected)] if limit is not None]
    assert running.taken == expected
    assert running.starts == [3, *changes]
    assert running.skipped == sum(forgotten[: len(changes)])
    assert running.runtime.statistics.limit_changes == len(changes)


def test_a_stop_in_the_middle_of_a_change_stops_what_has_been_started() -> None:
    for wanted in range(1, 6):
        running = Running(Disk(1_000_000), [1, 2] * 1_000)
        intake = intake_of(running)
        intake.start()
        until(lambda running=running, wanted=wanted: len(running.starts) > wanted)  # type: ignore[misc]
        intake.stop()
        assert not intake.is_active
        taken = len(running.taken)
        assert [item for part in running.taken for item in part] == list(range(running.taken[-1].stop))
        again = intake_of(running)
        again.start()
        until(lambda running=running, taken=taken: len(running.taken) > taken + 3)  # type: ignore[misc]
        again.stop()
        assert [item for part in running.taken for item in part] == list(range(running.taken[-1].stop))


def test_a_stop_that_comes_before_the_change() -> None:
    """It has been asked for in the micro-batch after which the limit would change."""
    running = Running(Disk(1_000), [None, 5])
    intake, stops = intake_of(running), list[threading.Thread]()

    def in_epoch(epoch: int) -> None:
        if epoch == 1:
            running.stopping = True
            stop = threading.Thread(target=intake.stop)
            stop.start()
            stops.append(stop)

    running.in_epoch = in_epoch
    intake.start()
    until(lambda: bool(stops))
    stops[0].join()
    assert not intake.is_active and running.starts == [3]
    assert running.taken == [range(3), range(3, 6)]


def test_a_query_that_cannot_start_again_fails_the_stream() -> None:
    running = Running(Disk(1_000), [None, 5])
    running.fails_at = 2
    intake = intake_of(running)
    intake.start()
    until(lambda: not intake.is_active)
    with pytest.raises(SourceError, match="the directory has gone"):
        intake.wait()
    assert running.taken == [range(3), range(3, 6)]


def test_an_error_of_a_micro_batch_is_ours() -> None:
    running = Running(Disk(1_000), [])

    def in_epoch(epoch: int) -> None:
        if epoch == 2:
            raise SashError("the third is too much")

    running.in_epoch = in_epoch
    intake = intake_of(running)
    intake.start()
    until(lambda: not intake.is_active)
    with pytest.raises(SashError, match="the third is too much"):
        intake.wait()


@pytest.mark.parametrize("fails", [True, False])
def test_a_stop_does_not_hide_a_failure_that_nobody_has_asked_about(fails: bool) -> None:
    running, runner = Running(Disk(1_000_000), []), Runner(None, ManualClock(), CatalogHistory())

    def in_epoch(epoch: int) -> None:
        if epoch == 2 and fails:
            raise SashError("the third is too much")

    running.in_epoch = in_epoch
    runner.start([running], "1 second")  # type: ignore[list-item]
    until(lambda: len(running.taken) > 2 and (runner.state_of("s").name != RUNNING or not fails))
    runner.stop()
    state = runner.state_of("s")
    assert (state.name, str(state.error)) == ((FAILED, "the third is too much") if fails else (STOPPED, "None"))
