"""A queue of deadlines: a binary heap with lazy deletion.

Changing or dropping an item leaves its old entry in the heap; an entry whose serial is no longer the item's
current one is stale and is thrown away when it comes to the top.

Card: set and discard O(log n), peek amortised O(log n), up_to O(items it yields); space one entry per `set`
until the old deadline passes. Thesis, section 8.5.1.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from sash.core.time import Micros
from sash.scheduling.task import TaskKey

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
            if self._is_current(item, serial):
                return urgency, item
            heapq.heappop(self._heap)
        return None

    def up_to(self, deadline: Micros) -> Iterator[Item]:
        """All items whose deadline is at most this one, in no order; they stay in the queue.

        In a heap they form a subtree at the root, so only they and their children are looked at.
        """
        pending = [0]
        while pending:
            index = pending.pop()
            if index < len(self._heap) and self._heap[index][0][0] <= deadline:
                _, serial, item = self._heap[index]
                if self._is_current(item, serial):
                    yield item
                pending += (2 * index + 1, 2 * index + 2)

    def _is_current(self, item: Item, serial: int) -> bool:
        known = self._current.get(item)
        return known is not None and known[1] == serial
