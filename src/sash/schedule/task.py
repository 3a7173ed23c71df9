"""Tasks, the scheduler's decisions, and the queue of deadlines (thesis, sections 8.4.1 to 8.4.3, 8.5.1).

A task T(i,j) is a sub-group: the queries of group G(i) with one SLIDE, always executed together. The thesis counts
d(T), the updates left until the deadline, down at every update; like its implementation we keep the deadline itself, an
event time, and derive d(T) = (deadline - now) / s when asked. So nothing happens here when time passes, nor when s
changes because a finer query came.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from sash.core.time import Micros, format_duration


class TaskKey(NamedTuple):
    """Queries with an equal key are members of one task; the order of keys breaks the last ties of the scheduler.

    EXACTLY is part of the key because no policy moves such queries.
    """

    group: str
    slide: Micros
    offset: Micros = 0
    exactly: bool = False

    def __str__(self) -> str:
        return f"{self.group} SLIDE {'EXACTLY ' if self.exactly else ''}{format_duration(self.slide)}"


@dataclass(frozen=True)
class Task:
    """A sub-group at this moment: the policy assigned `period`, at most the SLIDE of its queries."""

    key: TaskKey
    period: Micros
    priority: int
    members: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.key)

    @property
    def group(self) -> str:
        return self.key.group

    @property
    def exactly(self) -> bool:
        return self.key.exactly


@dataclass(frozen=True)
class Due:
    """A task chosen for execution at event time `now`, with its deadline."""

    task: Task
    deadline: Micros
    now: Micros

    @property
    def on_time(self) -> bool:
        return self.deadline >= self.now

    def d(self, s: Micros) -> int:
        """d(T): updates left until the deadline when synopses are updated every s; negative when late.

        >>> [Due(Task(TaskKey("G1", 4), 4, 0, ("q",)), 8, now).d(s=2) for now in (4, 8, 10)]
        [2, 0, -1]
        """
        return -((self.now - self.deadline) // s)


@dataclass(frozen=True)
class ScheduledTask:
    """Tasks of one group to execute jointly: one scan of the synopsis as of `as_of` answers all of them."""

    as_of: Micros
    tasks: tuple[Due, ...]

    @property
    def group(self) -> str:
        return self.tasks[0].task.group

    @property
    def members(self) -> tuple[str, ...]:
        return tuple([query for due in self.tasks for query in due.task.members])


Item = TypeVar("Item", bound=Hashable)
# Lowest deadline, then highest priority (stored negated), then the task's name.
Urgency = tuple[Micros, int, TaskKey]


class DeadlineQueue(Generic[Item]):
    """A heap whose entries may be replaced or discarded; the outdated ones are skipped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[Urgency, int, Item]] = []
        self._current: dict[Item, tuple[Urgency, int]] = {}
        self._serial = 0

    def set(self, item: Item, urgency: Urgency) -> None:
        """Insert the item, or move it to another urgency."""
        known = self._current.get(item)
        if known is not None and known[0] == urgency:
            return
        self._serial += 1
        self._current[item] = (urgency, self._serial)
        heapq.heappush(self._heap, (urgency, self._serial, item))

    def discard(self, item: Item) -> None:
        self._current.pop(item, None)

    def peek(self) -> tuple[Urgency, Item] | None:
        """The most urgent item; it stays in the queue."""
        while self._heap:
            urgency, serial, item = self._heap[0]
            known = self._current.get(item)
            if known is not None and known[1] == serial:
                return urgency, item
            heapq.heappop(self._heap)
        return None

    def up_to(self, deadline: Micros) -> Iterator[Item]:
        """All items whose deadline is at most this one, in no order; they stay in the queue.

        In a heap they form a subtree at the root, so only they and their children are visited.
        """
        pending = [0]
        while pending:
            index = pending.pop()
            if index < len(self._heap) and self._heap[index][0][0] <= deadline:
                _, serial, item = self._heap[index]
                known = self._current.get(item)
                if known is not None and known[1] == serial:
                    yield item
                pending += (2 * index + 1, 2 * index + 2)
