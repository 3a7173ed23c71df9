"""What was executed lately, with whom, and whether in time: the schedule as it happened (thesis, figure 8.6).

as of          12:02      12:03      12:04      12:05
SLIDE 2 min    ■──────────────────────■                   one scan as of 12:04 for two sub-groups
SLIDE 3 min               ■           □                   early: it is due at 12:06, and goes along
SLIDE 5 min                           ▲                   late: it was due at 12:02
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sash.core.time import format_duration
from sash.scheduling import Due, ScheduledTask

# How many executions of a group are remembered.
REMEMBERED = 300

ON_TIME, EARLY, LATE = "on time", "early", "late"


@dataclass(frozen=True)
class Turn:
    """A sub-group in an execution. Early: at none of its own multiples of SLIDE; late: after its deadline."""

    group: str
    slide: str
    period: str
    state: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Executed:
    """One scan as of a time, for all these sub-groups; `seconds` is what it took."""

    pane_table: str
    as_of: datetime
    seconds: float
    turns: tuple[Turn, ...]


class Scheduled(Protocol):
    """A group of queries with a local scheduler of their own."""

    @property
    def label(self) -> str: ...

    @property
    def by_rows(self) -> bool:
        """Slides are numbers of tuples."""

    def answered_by(self, members: Iterable[str]) -> list[str]:
        """The queries that a task of these members answers, without those that have gone since."""

    def is_scheduled(self, slide: int, now: int) -> bool:
        """Whether a time is one of the multiples of a SLIDE."""


class Timeline:
    """The last executions of a group. It is written by one thread at a time, and read by any."""

    def __init__(self) -> None:
        self._ran: deque[tuple[Sequence[ScheduledTask], datetime, float, frozenset[str]]] = deque(maxlen=REMEMBERED)

    def note(self, executions: Sequence[ScheduledTask], moment: datetime, seconds: float, awake: Iterable[str]) -> None:
        """Those queries that were awake have been executed together."""
        self._ran.append((executions, moment, seconds, frozenset(awake)))

    def executed(self, group: Scheduled) -> Iterator[Executed]:
        """Oldest first. Only here the past is put into words: most of it is never asked for."""
        # Most executions are of the same tasks as the one before.
        answered: dict[tuple[str, ...], list[str]] = {}
        for executions, moment, seconds, awake in list(self._ran):
            dues = [due for execution in executions for due in execution.tasks]
            for members in {due.task.members for due in dues} - answered.keys():
                answered[members] = group.answered_by(members)
            turns = [_turn(due, executions[0].as_of, group, answered[due.task.members], awake) for due in dues]
            yield Executed(group.label, moment, seconds, tuple(turn for turn in turns if turn.queries))


def _turn(due: Due, as_of: int, group: Scheduled, answered: Sequence[str], awake: frozenset[str]) -> Turn:
    key, extent = due.task.key, str if group.by_rows else format_duration
    if not due.on_time:
        state = LATE
    else:
        state = ON_TIME if group.is_scheduled(key.slide, as_of) else EARLY
    queries = tuple(filter(awake.__contains__, answered))
    return Turn(key.group, extent(key.slide), extent(due.task.period), state, queries)
