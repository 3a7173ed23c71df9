"""Whether a stream keeps up: judged by what several micro-batches in a row took."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.runtime.statistics import StreamStatistics
from sash.runtime.streams.load import IN_A_ROW, REST_SECONDS, LiveLoad
from tests.support.streams import START, stream, to_table
from tests.support.without_spark import Sparkless, World


def by_definition(times: list[float], interval: float) -> list[bool]:
    """After each micro-batch: the last judgement that IN_A_ROW of them agree on."""
    over, found = False, []
    for number in range(1, len(times) + 1):
        last = [seconds > interval for seconds in times[max(0, number - IN_A_ROW) : number]]
        if len(last) == IN_A_ROW and len(set(last)) == 1:
            over = last[0]
        found.append(over)
    return found


@given(times=st.lists(st.sampled_from([0.5, 1.0, 1.5]), max_size=40))
def test_several_in_a_row_make_a_judgement(times: list[float]) -> None:
    statistics = StreamStatistics()
    load, found = LiveLoad("s", statistics), []
    for epoch, seconds in enumerate(times):
        load.take(epoch, seconds, 1.0)
        found.append(load.is_over)
    assert found == by_definition(times, 1.0)
    assert statistics.slow_batches == times.count(1.5)


def test_without_an_interval_nothing_is_too_long() -> None:
    load = LiveLoad("s", StreamStatistics())
    for epoch in range(10):
        load.take(epoch, 100.0, 0.0)
    assert not load.is_over


def test_the_log_says_when_overload_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    load = LiveLoad("s", StreamStatistics())
    with caplog.at_level(logging.INFO, "sash"):
        for epoch, seconds in enumerate([2.0] * 6 + [0.5] * 4):
            load.take(epoch, seconds, 1.0)
    events = [(record.__dict__["sash"]["event"], record.__dict__["sash"]["epoch"]) for record in caplog.records]
    slow = [("batch.slow", epoch) for epoch in range(3)]
    assert events == [*slow, ("overload.began", 2), ("overload.ended", 8)]


@given(interval=st.sampled_from([0.1, 2.0, 60.0]), rest=st.floats(0, 300), slow=st.integers(0, 5))
def test_a_rest_ends_overload(interval: float, rest: float, slow: int) -> None:
    load, now = LiveLoad("s", StreamStatistics(), one_in=10), 0.0
    for epoch in range(slow):
        load.begin(now, interval)
        now += 2 * interval
        load.take(epoch, 2 * interval, interval, 1_000, now)
    assert load.is_over == (slow >= IN_A_ROW)
    is_long = slow > 0 and (now + rest) - now > max(REST_SECONDS, 3 * interval)
    load.begin(now + rest, interval)
    assert load.keeps_one_in == (10 if slow >= IN_A_ROW and not is_long else 1)
    for epoch in range(IN_A_ROW):
        assert not load.is_over or not is_long, "it takes as many slow ones to begin again"
        load.take(epoch, 2 * interval, interval, 1_000, now + rest)
    assert load.is_over


def test_shedding_ends_when_all_tuples_would_be_in_time() -> None:
    """However long a micro-batch takes that has hardly any tuples: what counts is what all of them would cost."""
    load = LiveLoad("s", StreamStatistics(), one_in=10)
    slow, shed, calm = (2.0, 1_000), (0.5, 1_000), (0.4, 400)
    batches = [*[(*slow, 1)] * 3, *[(*shed, 10)] * 4, *[(*calm, 10)] * 3, (0.8, 400, 1)]
    for epoch, (seconds, tuples, one_in) in enumerate(batches):
        assert load.keeps_one_in == one_in, epoch
        load.take(epoch, seconds, 1.0, tuples)
    for epoch in range(3):
        load.take(epoch, 2.0, 1.0, 1_000)
    for epoch in range(5):
        load.take(epoch, 1.5, 1.0, 10)
    assert load.keeps_one_in == 10, "what is too long is too long, however few there are"


def test_tuples_that_may_go_first_are_shed_first() -> None:
    load = LiveLoad("s", StreamStatistics(), one_in=10, has_first=True)
    for epoch in range(3):
        assert load.keeps_one_in == 1
        load.take(epoch, 2.0, 1.0, 1_000)
    for epoch, seconds in enumerate([1.5, 1.5, 0.5, 1.5, 1.5, 1.5]):
        assert load.keeps_one_in == 10 and not load.sheds_all, epoch
        load.take(epoch, seconds, 1.0, 1_000)
    assert load.keeps_one_in == 10 and load.sheds_all, "three in a row were too long all the same"
    for epoch in range(3):
        load.take(epoch, 0.1, 1.0, 10)
    assert load.keeps_one_in == 1
    for epoch in range(3):
        load.take(epoch, 2.0, 1.0, 1_000)
    assert load.keeps_one_in == 10 and not load.sheds_all, "another overload begins with them again"


@pytest.mark.parametrize(
    ("interval", "pauses", "between", "waiting"),
    [
        # Micro-batches begin at 0.25, 5.25 and 20.25 s, a quarter of a second after their triggers.
        (5.0, [0.25, 5.0, 15.0], 0.75, 19.5),
        # The second begins 2.25 s after its trigger, the third as soon as Spark can.
        (5.0, [0.25, 7.0, 0.25], 2.75, 4.75),
        # As soon as Spark can, or all that is there: Spark does not tell when it waits for input.
        (0.0, [0.25, 5.0, 15.0], 20.25, 0.0),
        (None, [0.25, 0.25, 0.25], 0.75, 0.0),
    ],
)
def test_pauses_are_spark_s_work_or_waiting(
    tmp_path: Path, interval: float | None, pauses: list[float], between: float, waiting: float
) -> None:
    world = World(tmp_path)
    process = Sparkless(stream(), world)
    process.running.interval = interval
    process.running.begin()
    for epoch, pause in enumerate(pauses):
        world.clock.advance(pause)
        rows: Any = to_table([(START + epoch * SECOND, 1, None, 1, 1, None)])
        process.running.on_batch(lambda: 0, rows, epoch)
    counted = process.running.runtime.statistics
    assert (counted.seconds_between, counted.seconds_waiting) == (between, waiting)
    process.vanish()
