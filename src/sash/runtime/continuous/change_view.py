"""A materialised view: the rows that a continuous query's changes add up to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import in_sequence
from sash.core.changes import Changes


class ChangeView:
    """Changes are collected and added up when somebody looks, or when they have become many."""

    def __init__(self, schema: pa.Schema) -> None:
        self._parts = [Changes.none(schema)]
        self._settled = 0

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add(self, changes: Changes, now: int) -> None:
        """Add the changes of an epoch; `now` is the last instant that the epoch processed."""
        self._parts.append(changes)
        if len(self) > 2 * self._settled + 1_000:
            self.rows(now)

    def rows(self, now: int) -> Changes:
        """The rows of the answer at an instant after all changes, each with when it appeared and will expire."""
        every = in_sequence(self._parts)
        every = every.where(every.exp > now)
        self._parts = [_standing(every)]
        self._settled = len(self._parts[0])
        return self._parts[0]

    def count(self, now: int) -> int:
        """How many rows the answer has, without building it: a row that is taken back expires when it is taken back."""
        return sum(int(part.sign[part.exp > now].sum()) for part in self._parts)

    def size_with(self, changes: Changes, now: int) -> int:
        """How many rows the answer would have at an instant after more changes."""
        every = in_sequence([*self._parts, changes])
        return len(_standing(every.where(every.exp > now)))


class EndlessView(ChangeView):
    """The view of a stream: its results never end, and nobody keeps them all."""

    def add(self, changes: Changes, now: int) -> None:
        pass

    def size_with(self, changes: Changes, now: int) -> int:
        return 0


def _standing(changes: Changes) -> Changes:
    """The rows that were not taken back. Of equal rows with the same expiry the oldest go first."""
    if not (changes.sign < 0).any():
        return changes
    rows = changes.rows.append_column("_exp", pa.array(changes.exp))
    (codes,) = dense_codes([rows], [rows.schema.names], null_safe=True)
    taken_back = np.bincount(codes, weights=changes.sign < 0).astype(np.int64)
    order = np.lexsort((changes.ts, -changes.sign, codes))
    rank = np.arange(len(order)) - np.searchsorted(codes[order], codes[order])
    stays = (changes.sign[order] > 0) & (rank >= taken_back[codes[order]])
    return changes.take(np.sort(order[stays]))
