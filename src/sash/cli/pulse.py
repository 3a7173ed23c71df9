"""The demo's vital signs: counters of `session.stats()` turned into what is going on now."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_RECENT_SECONDS = 5.0


@dataclass(frozen=True)
class Vitals:
    """`running` is the time since the first tuples came; `tuples_per_s` is over the last seconds; batch times are those
    of the newest micro-batches."""

    running: float
    tuples: int
    tuples_per_s: float
    answers: int
    executions: int
    joint_executions: int
    work_saved: float
    micro_batches: int
    batch_in_spark: float
    batch_in_sash: float
    watermark: datetime | None


class Pulse:
    """
    >>> def stats(tuples): return {
    ...     "tuples": tuples, "executions": 4, "joint_executions": 2, "refreshes": 9, "work_saved": 0.5,
    ...     "streams": {"s": {"micro_batches": tuples // 100, "seconds_in_spark": tuples / 1e3,
    ...                       "seconds_in_sash": 0.0, "watermark": None}}}
    >>> times = iter([0.0, 1.0])
    >>> pulse = Pulse(lambda: next(times))
    >>> _ = pulse.take(stats(100))
    >>> vitals = pulse.take(stats(300))
    >>> vitals.tuples_per_s, vitals.running
    (200.0, 1.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self._batches = (0, 0.0, 0.0)
        self._batch_times = (0.0, 0.0)

    def take(self, stats: Mapping[str, Any]) -> Vitals:
        """Vitals from the counters as they are now."""
        (stream,) = stats["streams"].values()
        self._time_batches(stream)
        now = self._clock()
        if self._began is None and stats["tuples"]:
            self._began = now
        return Vitals(
            0.0 if self._began is None else now - self._began,
            stats["tuples"],
            self._speed(now, stats["tuples"]),
            stats["refreshes"],
            stats["executions"],
            stats["joint_executions"],
            stats["work_saved"],
            stream["micro_batches"],
            *self._batch_times,
            stream["watermark"],
        )

    def _speed(self, now: float, tuples: int) -> float:
        self._samples.append((now, tuples))
        while self._samples[0][0] < now - _RECENT_SECONDS:
            self._samples.popleft()
        then, before = self._samples[0]
        return (tuples - before) / (now - then) if now > then else 0.0

    def _time_batches(self, stream: Mapping[str, Any]) -> None:
        number, spark, sash = stream["micro_batches"], stream["seconds_in_spark"], stream["seconds_in_sash"]
        known, spark_before, sash_before = self._batches
        if number > known:
            self._batch_times = ((spark - spark_before) / (number - known), (sash - sash_before) / (number - known))
            self._batches = (number, spark, sash)
