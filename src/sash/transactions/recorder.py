"""Writes down what happens to a window, as a history that `checker` can judge.

A window without a recorder pays one comparison per operation. With one it pays an append, and memory for ever: for
tests and for looking into a problem, not for production.

All calls come under the window's own lock, so that the history has the order in which things happened.
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.core.errors import SashError
from sash.transactions.history import History, Kind, Operation


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
        """So far; to be asked for when nothing is under way."""
        return History(self._slots, self._filled, tuple(Operation(*each) for each in self._operations))
