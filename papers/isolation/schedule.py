"""Algorithms 7 and 8 of the thesis (section 7.4) step by step, by the book: what the threads' window must agree with.

Slides are executed and committed at once. A query reads one sub-window at a time; after a slide T_j it has seen what is
no longer in its window if it has read the sub-window that has just left its n_k youngest:

    B[(j + n - n_k) mod n] is set  ──►  abort (or take that sub-window back, and go on)

                                   read order within a query
    Algorithm 7 (`lws`)            slot 0, 1, 2, ...
    Algorithm 8 (`ttu`)            the highest time-to-update first: what the next slide overwrites is read last

The time-to-update of a slot is the number of slides until it is overwritten: n right after its own slide, 1 for the
oldest. A query's last read and its commit are one step: no slide comes between them.

A revision writes a slot that stays in its place, so it is in conflict with queries that have read that slot. A weak
sub-result (7.4.3) has insertions into several slots with a slide; a query that has read one gets its insertions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.core.errors import SashError
from sash.isolation.history import History, Kind, Operation

ORDERS = ("lws", "ttu")


@dataclass
class RunningQuery:
    """A read-only transaction: `bits` says which slots it has read."""

    name: str
    count: int
    priority: int
    undoes: bool
    bits: list[bool]

    @property
    def left(self) -> int:
        """Sub-windows that are still to be read: always `count` in all."""
        return self.count - sum(self.bits)


class Scheduler:
    """The transaction scheduler over a full window of n sub-windows.

    >>> scheduler = Scheduler(5, "ttu")
    >>> scheduler.start("Q1")
    >>> for event in "RURRRUR":
    ...     _ = scheduler.step() if event == "R" else scheduler.slide()
    >>> print(scheduler.history)
    rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1
    """

    def __init__(self, slots: int, order: str = "ttu") -> None:
        if order not in ORDERS:
            raise SashError(f"a schedule is one of {', '.join(ORDERS)}, not '{order}'")
        self.slots = slots
        self.order = order
        self.youngest = slots - 1
        self.ttu = list(range(1, slots + 1))
        self.running: dict[str, RunningQuery] = {}
        self._revisions = 0
        self._done: list[Operation] = []

    @property
    def history(self) -> History:
        return History(self.slots, self.slots - 1, tuple(self._done))

    def start(self, name: str, count: int | None = None, priority: int = 0, undoes: bool = False) -> None:
        """A query over the `count` youngest sub-windows (all without it)."""
        count = self.slots if count is None else count
        if not 1 <= count <= self.slots:
            raise SashError(f"a window of {self.slots} sub-windows has no {count} youngest")
        self.running[name] = RunningQuery(name, count, priority, undoes, [False] * self.slots)

    def slide(self, inserts: Iterable[int] = ()) -> list[str]:
        """T_j, with insertions into these slots besides; the names of the queries that are aborted."""
        self.youngest = j = self.youngest + 1
        also = sorted(set(inserts) - {j % self.slots})
        self._write(str(j), j % self.slots, *also)
        self.ttu = [value - 1 for value in self.ttu]
        self.ttu[j % self.slots] = self.slots
        aborted = self._conflict({query.name: self.left_by(query, j) for query in self.running.values()})
        self._hand_over(also)
        return aborted

    def revise(self, slot: int) -> list[str]:
        self._revisions += 1
        self._write(f"R{self._revisions}", slot)
        return self._conflict(dict.fromkeys(self.running, slot))

    def insert(self, slots: Iterable[int]) -> None:
        """Insertions without a slide."""
        self._revisions += 1
        written = sorted(set(slots))
        self._write(f"R{self._revisions}", *written)
        self._hand_over(written)

    def step(self) -> Operation | None:
        """The next read of the query with the highest priority; with the last read, its commit."""
        if not self.running:
            return None
        query = max(self.running.values(), key=lambda each: each.priority)
        slot = self.choose(query)
        self._record("r", query.name, slot)
        query.bits[slot] = True
        if not query.left:
            self._record("c", query.name)
            del self.running[query.name]
        return Operation("r", query.name, slot)

    def choose(self, query: RunningQuery) -> int:
        window = [number % self.slots for number in range(self.youngest - query.count + 1, self.youngest + 1)]
        unread = [slot for slot in window if not query.bits[slot]]
        return max(unread, key=self.ttu.__getitem__) if self.order == "ttu" else min(unread)

    def left_by(self, query: RunningQuery, j: int) -> int:
        """The slot whose sub-window has left the query's window with T_j."""
        return (j + self.slots - query.count) % self.slots

    def _conflict(self, overwritten: dict[str, int]) -> list[str]:
        """Queries that have read the slot which is overwritten or expired for them."""
        aborted = []
        for name, slot in overwritten.items():
            query = self.running[name]
            if query.bits[slot]:
                if query.undoes:
                    self._record("u", name, slot)
                    query.bits[slot] = False
                else:
                    self._record("a", name)
                    aborted.append(name)
                    del self.running[name]
        return aborted

    def _hand_over(self, slots: Iterable[int]) -> None:
        """Insertions into slots that a query has read are read at once; the rest when their turn comes."""
        for query in self.running.values():
            for slot in slots:
                if query.bits[slot]:
                    self._record("r", query.name, slot)

    def _write(self, transaction: str, *slots: int) -> None:
        for slot in slots:
            self._record("w", transaction, slot)
        self._record("c", transaction)

    def _record(self, kind: Kind, transaction: str, slot: int | None = None) -> None:
        self._done.append(Operation(kind, transaction, slot))
