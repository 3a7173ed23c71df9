"""The limit of a live micro-batch: it follows what micro-batches take, and does not change all the time."""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.core.clock import ManualClock
from sash.runtime.streams.input_limit import InputLimit, InputMeter

LAG = 10.0


@dataclass
class Stream:
    """A source that always has more, and micro-batches that take `fixed + each * units` seconds."""

    fixed: float
    each: float
    # The seconds that a change of the limit takes.
    start_seconds: float = 0.0
    clock: ManualClock = field(default_factory=ManualClock)
    meter: InputMeter = field(default_factory=InputMeter)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limit = InputLimit("s", self.meter, LAG, self.clock)

    def batch(self, there: int) -> float:
        """A micro-batch of the available input, or as much as the limit allows, and the seconds that it took."""
        units = there if self.limit.most is None else min(there, self.limit.most)
        seconds = self.fixed + self.each * units
        self.clock.advance(seconds)
        self.meter.take(units, seconds)
        self.meter.end(seconds)
        most = self.limit.look()
        if most is not None:
            self.changes.append((self.clock.now(), most))
            self.clock.advance(self.start_seconds)
            self.limit.changed(most, self.start_seconds)
        return seconds


@example(fixed=4.0, each=2**-8, first=1)
@example(fixed=4.0, each=1e-4, first=1)
@given(fixed=st.floats(0, 4), each=st.floats(1e-4, 1), first=st.integers(1, 10_000))
def test_with_a_backlog_micro_batches_come_near_to_the_lag(fixed: float, each: float, first: int) -> None:
    stream = Stream(fixed, each)
    stream.batch(first)
    assert len(stream.changes) == 1, "the first measure gives a limit"
    # The limit doubles until it is reached, and the mean of what micro-batches took follows within ten of them.
    doublings = math.ceil(math.log2(LAG / each))
    for _ in range(10 * (1 + doublings)):
        last = stream.batch(10**9)
        assert last <= LAG + fixed + each, "what was taken for a cost of each unit does not get less"
    assert LAG / 2 - each <= last <= LAG / 0.9 + each


@given(before=st.floats(0.001, 1), factor=st.floats(1.2, 50))
def test_when_work_becomes_slower_one_micro_batch_is_too_long(before: float, factor: float) -> None:
    stream = Stream(0.0, before)
    for _ in range(20):
        stream.batch(10**9)
    stream.each = before * factor
    stream.batch(10**9)
    for _ in range(20):
        assert stream.batch(10**9) <= max(LAG / 0.9, stream.each) + stream.each


def test_room_again() -> None:
    stream = Stream(0.0, 1.0)
    for _ in range(20):
        assert stream.batch(1_000) <= LAG or len(stream.changes) == 1
    stream.each = 0.1
    last = [stream.batch(1_000) for _ in range(40)][-1]
    assert LAG / 2 <= last <= LAG


@given(loads=st.lists(st.integers(0, 200), min_size=1, max_size=80), each=st.sampled_from([0.01, 0.3, 1.0]))
def test_a_limit_that_holds_nothing_back_stays(loads: list[int], each: float) -> None:
    stream = Stream(0.5, each)
    for there in loads:
        most, changed = stream.limit.most, len(stream.changes)
        seconds = stream.batch(there)
        if most is not None and there < most / 2 and seconds <= LAG:
            assert len(stream.changes) == changed
    if not any(loads):
        assert stream.limit.most is None


@given(
    costs=st.lists(st.floats(0.001, 100), min_size=1, max_size=60),
    start=st.floats(0.1, 20),
)
def test_starting_takes_a_tenth_of_the_time_at_most(costs: list[float], start: float) -> None:
    stream = Stream(0.1, 1.0, start)
    for cost in costs:
        stream.each = cost
        stream.batch(10**6)
    moments = [moment for moment, _ in stream.changes]
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert all(gap >= 11 * start * (1 - 1e-9) for gap in gaps)


@given(fixed=st.floats(LAG * 1.05, 100), each=st.floats(1e-4, 1))
def test_what_cannot_be_reached_is_not_pursued(fixed: float, each: float) -> None:
    """Smaller and smaller micro-batches of nothing but overhead would be worse than any lag."""
    stream = Stream(fixed, each)
    for _ in range(50):
        stream.batch(10**6)
    assert len(stream.changes) <= 2
    stream.fixed = 0.0
    for _ in range(60):
        last = stream.batch(10**9)
    assert LAG / 2 - each <= last <= LAG / 0.9 + each, "it is in reach again"


def test_the_log_says_what_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(20.0, 0.01)
    with caplog.at_level(logging.INFO, "sash"):
        for _ in range(20):
            stream.batch(10**6)
    assert [record.__dict__["sash"] for record in caplog.records] == [
        {"event": "lag.unreachable", "stream": "s", "lag": LAG}
    ]


def test_what_follows_the_measure_counts_with_the_next() -> None:
    meter = InputMeter()
    assert meter.take(10, 2.0) == (10, 2.0)
    meter.end(2.5)
    assert meter.newest == (10, 2.5)
    assert meter.take(10, 2.0) == (10, 2.5)
    assert meter.take(10, 2.0) == (10, 2.0)
    again = InputMeter()
    for told in ((10, 2.0), (10, 2.5), (10, 2.0)):
        again.take(*told)
    assert again.save() == meter.save(), "the log is enough to know it again"
