"""Histories of transactions over sub-windows, in the notation of the thesis (sections 7.2.3 and 7.3.1).

A window is a ring of n sub-windows, its *slots*. A history is a sequence of operations on it:

    w5[0]    transaction T5 writes slot 0. A number is a slide: T_j replaces slot j mod n, the oldest.
             A slide may write other slots, too (section 7.4.3): it inserts what expires with them
    wR1[3]   a name is a revision: late tuples change a slot that stays where it is
    rQ1[2]   query Q1 reads slot 2; a second read of a slot takes the place of the first
    uQ1[2]   Q1 takes back what it read of slot 2
    c5  aQ1  commit, abort

                 slot   0   1   2   3   4             w5[0] c5                  w6[1] c6
    the ring            T0  T1  T2  T3  T4    ──►     T5  T1  T2  T3  T4  ──►   T5  T6  T2  T3  T4
    oldest ──► youngest 0   1   2   3   4             1   2   3   4   0         2   3   4   0   1

A history begins with a window that slides have filled; these slides are left out. The content of a slot has the name of
the transaction that wrote it, its *version*.

A `Recorder` records the operations on a window, as a history that `checker` can judge. The window calls it under its
own lock, so the history has the true order. A recorder costs an append per operation and never frees memory: it is for
tests and for debugging, not for production.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal, NamedTuple, get_args

from sash.core.errors import SashError

Kind = Literal["r", "w", "u", "c", "a"]
_NOTATION = re.compile(r"([rwuca])(Q?\w+?)(?:\[(\d+)\])?")
_KINDS: tuple[Kind, ...] = get_args(Kind)
_ENDS = ("c", "a")


class Operation(NamedTuple):
    """One step of a transaction; commits and aborts have no slot.

    >>> str(Operation("r", "Q1", 2)), str(Operation("c", "5"))
    ('rQ1[2]', 'c5')
    """

    kind: Kind
    transaction: str
    slot: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}{self.transaction}" + ("" if self.slot is None else f"[{self.slot}]")


@dataclass(frozen=True)
class History:
    """The operations on a window of `slots` slots after the slide `filled` (n - 1 when nothing has slid yet).

    >>> history = History.parse("rQ1[0] w2[0] c2 rQ1[1] cQ1", slots=2)
    >>> print(history, history.operations[1].slot)
    rQ1[0] w2[0] c2 rQ1[1] cQ1 0
    """

    slots: int
    filled: int
    operations: tuple[Operation, ...]

    def __post_init__(self) -> None:
        if self.slots < 1 or self.filled < self.slots - 1:
            raise SashError(f"a window of {self.slots} sub-windows cannot be full after T{self.filled}")
        youngest = self.filled
        for each in self.operations:
            if (each.slot is None) != (each.kind in _ENDS) or not 0 <= (each.slot or 0) < self.slots:
                raise SashError(f"'{each}' is no operation on a window of {self.slots} sub-windows")
            if each.kind == "w" and is_slide(each.transaction):
                if int(each.transaction) == youngest > self.filled:
                    continue  # an insertion of the same slide
                youngest += 1
                if int(each.transaction) != youngest or each.slot != youngest % self.slots:
                    raise SashError(f"'{each}': the next slide is w{youngest}[{youngest % self.slots}]")

    @staticmethod
    def parse(text: str | Iterable[str], slots: int, filled: int | None = None) -> History:
        words = text.split() if isinstance(text, str) else text
        return History(slots, slots - 1 if filled is None else filled, tuple(map(parse_operation, words)))

    def __str__(self) -> str:
        return " ".join(map(str, self.operations))

    def initial(self) -> list[str]:
        """The version in each slot at the beginning."""
        oldest = self.filled - self.slots + 1
        return [str(oldest + (slot - oldest) % self.slots) for slot in range(self.slots)]

    def committed(self) -> set[str]:
        return {each.transaction for each in self.operations if each.kind == "c"}


def parse_operation(word: str) -> Operation:
    """One word of the notation.

    >>> parse_operation("w5[0]")
    Operation(kind='w', transaction='5', slot=0)
    """
    found = _NOTATION.fullmatch(word)
    if found is None:
        raise SashError(f"'{word}' is no operation; like rQ1[2], w5[0], c5, aQ1")
    kind = next(each for each in _KINDS if each == found[1])
    return Operation(kind, found[2], None if found[3] is None else int(found[3]))


def is_slide(transaction: str) -> bool:
    """T5 slides the window, TR1 revises it, TQ1 reads it."""
    return transaction.isdecimal()


def effective(history: History) -> Iterator[tuple[int, Operation]]:
    """The reads and writes that count, with their places: those of committed transactions, without reads taken back.

    A read that is taken back, or repeated, has no part in its query's answer.
    """
    committed = history.committed()
    replaced: set[int] = set()
    last: dict[tuple[str, int | None], int] = {}
    for place, each in enumerate(history.operations):
        if each.kind in ("r", "u"):
            before = last.pop((each.transaction, each.slot), None)
            if before is not None:
                replaced.add(before)
            if each.kind == "r":
                last[each.transaction, each.slot] = place
    for place, each in enumerate(history.operations):
        if each.kind in ("r", "w") and each.transaction in committed and place not in replaced:
            yield place, each


class Recorder:
    """Belongs to one window, from that window's beginning.

    >>> recorder = Recorder()
    >>> recorder.begin(slots=2, filled=1)
    >>> recorder.wrote("2", [0])
    >>> print(recorder.history)
    w2[0] c2
    """

    def __init__(self) -> None:
        self._slots = 0
        self._filled = 0
        self._operations: list[tuple[Kind, str, int | None]] = []

    def begin(self, slots: int, filled: int) -> None:
        if self._slots:
            raise SashError("a recorder writes the history of one window")
        self._slots, self._filled = slots, filled

    def wrote(self, transaction: str, slots: Iterable[int]) -> None:
        """All writes of a transaction and its commit: nothing comes between them."""
        self._operations.extend(("w", transaction, slot) for slot in slots)
        self._operations.append(("c", transaction, None))

    def did(self, kind: Kind, query: str, slot: int | None = None) -> None:
        self._operations.append((kind, query, slot))

    @property
    def history(self) -> History:
        """The history so far; ask when nothing is under way."""
        return History(self._slots, self._filled, tuple(Operation(*each) for each in self._operations))


class PaneRecorder(Recorder):
    """The same for panes, which are known by their ends: `slots` panes of a length, from the first slide on.

    >>> recorder = PaneRecorder(slots=2, length=10)
    >>> recorder.slid(100)
    >>> query = recorder.took(80, 100)
    >>> recorder.slid(110)
    >>> recorder.did("c", query)
    >>> print(recorder.history)
    rQ1[0] rQ1[1] w2[0] c2 cQ1
    """

    def __init__(self, slots: int, length: int) -> None:
        super().__init__()
        self._size, self._length = slots, length
        self._first: int | None = None
        self._now = 0
        self._names, self._revisions = count(1), count(1)

    def _number(self, end: int) -> int:
        assert self._first is not None, "nothing is read before the first slide"
        return self._size - 1 + (end - self._first) // self._length

    def slid(self, now: int) -> None:
        """The panes up to a time have closed."""
        if self._first is None:
            self._first = now
            self.begin(self._size, self._size - 1)
        else:
            for number in range(self._number(self._now) + 1, self._number(now) + 1):
                self.wrote(str(number), [number % self._size])
        self._now = max(now, self._now)

    def revised(self, ends: Iterable[int]) -> None:
        """Late tuples have changed panes that end at these times."""
        if self._first is not None:
            oldest = self._now - self._size * self._length
            slots = sorted(self._number(end) % self._size for end in ends if end > oldest)
            if slots:
                self.wrote(f"R{next(self._revisions)}", slots)

    def took(self, after: int, until: int) -> str:
        """A query has read the panes after a time, up to another; the result is the query's name."""
        name = f"Q{next(self._names)}"
        for number in range(self._number(after) + 1, self._number(until) + 1):
            self.did("r", name, number % self._size)
        return name
