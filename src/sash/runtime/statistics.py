"""The statistics of a stream: the numbers of stats(), and the latest executions.

The latest executions are the schedule as it happened: what was executed, with whom, whether in time (thesis, figure
8.6).

as of          12:02      12:03      12:04      12:05
SLIDE 2 min    ■──────────────────────■                   one scan as of 12:04 for two sub-groups
SLIDE 3 min               ■           □                   early: it is due at 12:06, and goes along
SLIDE 5 min                           ▲                   late: it was due at 12:02
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Protocol

from sash.core.time import format_duration
from sash.isolation import WindowRead
from sash.schedule import Due, ScheduledTask

# How many executions of a group are remembered.
REMEMBERED = 300

ON_TIME, EARLY, LATE = "on time", "early", "late"


@dataclass(frozen=True)
class Turn:
    """A sub-group in an execution. Early: not at a multiple of its own SLIDE; late: after its deadline."""

    group: str
    slide: str
    period: str
    state: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionRecord:
    """One scan as of a time, for all these sub-groups; it took `seconds`."""

    pane_table: str
    as_of: datetime
    seconds: float
    turns: tuple[Turn, ...]


class ScheduledGroup(Protocol):
    """A group of queries with a local scheduler of their own."""

    @property
    def label(self) -> str: ...

    @property
    def by_rows(self) -> bool:
        """Whether slides are numbers of tuples."""

    def answered_by(self, members: Iterable[str]) -> list[str]:
        """The queries that a task of these members answers, without those that have gone since."""

    def is_scheduled(self, slide: int, now: int) -> bool:
        """Whether a time is one of the multiples of a SLIDE."""


class Timeline:
    """The last executions of a group. It is written by one thread at a time, and read by any."""

    def __init__(self) -> None:
        self._ran: deque[tuple[Sequence[ScheduledTask], datetime, float, Sequence[Collection[str]]]] = deque(
            maxlen=REMEMBERED
        )

    def note(
        self, executions: Sequence[ScheduledTask], moment: datetime, seconds: float, awake: Sequence[Collection[str]]
    ) -> None:
        """Record that the queries that were awake, in one collection or several, were executed together."""
        self._ran.append((executions, moment, seconds, awake))

    def executed(self, group: ScheduledGroup) -> Iterator[ExecutionRecord]:
        """Oldest first. Records are made only here, because most of the past is never asked for."""
        # Most executions are of the same tasks as the one before.
        answered: dict[tuple[str, ...], list[str]] = {}
        for executions, moment, seconds, names in list(self._ran):
            awake = frozenset(chain.from_iterable(names))
            dues = [due for execution in executions for due in execution.tasks]
            for members in {due.task.members for due in dues} - answered.keys():
                answered[members] = group.answered_by(members)
            turns = [_turn(due, executions[0].as_of, group, answered[due.task.members], awake) for due in dues]
            yield ExecutionRecord(group.label, moment, seconds, tuple(turn for turn in turns if turn.queries))


def _turn(due: Due, as_of: int, group: ScheduledGroup, answered: Sequence[str], awake: frozenset[str]) -> Turn:
    key, extent = due.task.key, str if group.by_rows else format_duration
    if not due.on_time:
        state = LATE
    else:
        state = ON_TIME if group.is_scheduled(key.slide, as_of) else EARLY
    queries = tuple(filter(awake.__contains__, answered))
    return Turn(key.group, extent(key.slide), extent(due.task.period), state, queries)


@dataclass
class GroupStatistics:
    """Costs are the analytic model's: pane values combined, jointly and as if each query had run alone."""

    executions: int = 0
    joint_executions: int = 0
    refreshes: int = 0
    joint_cost: int = 0
    separate_cost: int = 0
    # Live: executions in the cluster whose window slid meanwhile.
    beside_slides: int = 0
    # Live, under `lws`: how often such an execution began again because its window had changed.
    beside_restarts: int = 0

    def executed(self, queries: int, joint_cost: int, separate_cost: int) -> None:
        """Record that some queries were executed together."""
        self.executions += 1
        self.joint_executions += queries > 1
        self.refreshes += queries
        self.joint_cost += joint_cost
        self.separate_cost += separate_cost


@dataclass
class StreamStatistics:
    tuples: int = 0
    micro_batches: int = 0
    # Live: micro-batches that took longer than the trigger interval.
    slow_batches: int = 0
    # Live: how often the source got another limit, to keep to `max_lag`.
    limit_changes: int = 0
    late_tuples: int = 0
    # About how many tuples SHED dropped under overload; `tuples` counts them, too.
    shed_tuples: int = 0
    null_timestamps: int = 0
    unparsable: int = 0
    jumped_tuples: int = 0
    seconds_in_spark: float = 0.0
    seconds_in_sash: float = 0.0
    # Between micro-batches: Spark looks for input, plans the next one and writes its logs; or it waits for its trigger.
    seconds_between: float = 0.0
    seconds_waiting: float = 0.0

    @contextmanager
    def in_spark(self) -> Iterator[None]:
        """The time inside is Spark's."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds_in_spark += time.perf_counter() - started


class ReadStatistics:
    """Counts how slides affected reads of a stored window; threads read at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("stored_reads", "read_restarts", "read_undone", "read_inserted"), 0)

    def count(self, answer: WindowRead[Any]) -> None:
        with self._lock:
            self._counts["stored_reads"] += 1
            self._counts["read_restarts"] += answer.attempts - 1
            self._counts["read_undone"] += answer.undone
            self._counts["read_inserted"] += answer.inserted

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
