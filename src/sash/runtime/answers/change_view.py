"""A materialised view: the rows that a continuous query's changes add up to, and their indexes.

    parts      │ settled │ epoch 7 │ epoch 8 │ <- changes of the next epoch
    an index   7 ─► (settled, 4) (8, 0)          from a value to the changes that have it

Golab, Garg and Özsu 2003 name the indexing of views as future work (section 8). The update pattern of the plan decides
how a change leaves the index (thesis 3.2.1):

    MON, WKS, WK   a row says when it expires: the oldest part is evicted when all its rows have expired, so the index
                   slides like that of a stored window
    STR            a negative change is one more change, with the same values as the row that it takes back: a probe
                   that finds one of them finds both. When most changes are of rows that have gone, the parts become one

Queries with the same plan share the view, and its indexes. The rows that KEEP stores are a view, too (kept_result.py):
who looks at an earlier instant than that of the last change sees the rows that have left since then as well, with their
ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sash.catalog import StoredIndex
from sash.changes.buffers import Chunk
from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import in_sequence
from sash.core.changes import Changes
from sash.rows import RowIndex
from sash.rows.sliding_window import PURGES

# Parts become one when there are this many changes more than twice the rows that stood then.
FEW = 1_000
# Bits of a change's number for its place in its part; the others are the number of the part.
_PLACE = 32


class ChangeView:
    """Changes are collected and added up when somebody looks, or when they have become many."""

    def __init__(self, schema: pa.Schema) -> None:
        self._parts = deque([Chunk(Changes.none(schema))])
        self._number = self._settled = 0
        # The number of the oldest part; how many changes were evicted since values without rows were forgotten.
        self._oldest = self._evicted = 0
        # By column and kind; and the indexes of queries for which each is there.
        self._indexes: dict[tuple[str, str], RowIndex] = {}
        self._wanted: set[StoredIndex] = set()

    def __len__(self) -> int:
        return self._number

    def add(self, changes: Changes, now: int) -> None:
        """Add the changes of an epoch; `now` is the last instant that the epoch processed."""
        if len(changes):
            self._parts.append(Chunk(changes))
            self._number += len(changes)
            for (column, _), index in self._indexes.items():
                self._link(index, column, len(self._parts) - 1)
        while len(self._parts) > 1 and self._parts[0].latest <= now:
            self._evict()
        if self._is_long:
            self.rows(now)

    def rows(self, now: int) -> Changes:
        """The rows of the answer at an instant after all changes, each with when it appeared and will expire."""
        found = rows_at([part.tuples for part in self._parts], now)
        # Indexes know changes by their places in the parts.
        if not self._indexes or self._is_long:
            self._settle(found)
        return found

    def forget(self, instant: int) -> None:
        """Drop the changes of an instant, which come again. No row has been taken back."""
        found = in_sequence([part.tuples for part in self._parts])
        self._settle(found.where(found.ts != instant))

    def _settle(self, found: Changes) -> None:
        """Make one part of everything."""
        self._parts, self._oldest = deque([Chunk(found)]), 0
        self._number = self._settled = len(found)
        self._indexes = {key: self._made(*key) for key in self._indexes}

    @property
    def nbytes(self) -> int:
        """About how much memory the changes take."""
        return sum(part.nbytes for part in self._parts)

    @property
    def _is_long(self) -> bool:
        return len(self) > 2 * self._settled + FEW

    def count(self, now: int) -> int:
        """How many rows the answer has, without building it: a row that is taken back expires when it is taken back."""
        return sum(int(part.tuples.sign[part.tuples.exp > now].sum()) for part in self._parts)

    def size_with(self, changes: Changes, now: int) -> int:
        """How many rows the answer would have at an instant after more changes."""
        return len(rows_at([*(part.tuples for part in self._parts), changes], now))

    # -- indexes ---------------------------------------------------------------------------------------

    def index(self, index: StoredIndex) -> RowIndex:
        """An index of a query, made on first use; TypeError for a column that cannot have one."""
        key = index.column, index.kind
        if key not in self._indexes:
            self._indexes[key] = self._made(*key)
        self._wanted.add(index)
        return self._indexes[key]

    def release(self, *gone: StoredIndex) -> None:
        """Some queries do not have these indexes any more; what no other query has goes."""
        self._wanted.difference_update(gone)
        wanted = {(index.column, index.kind) for index in self._wanted}
        self._indexes = {key: made for key, made in self._indexes.items() if key in wanted}

    def indexes_of(self, query: int) -> list[StoredIndex]:
        return [index for index in self._wanted if index.query == query]

    def having(self, index: StoredIndex, values: pa.Array, now: int) -> Changes:
        """The rows of the answer with one of these values in the index's column."""
        ids = np.sort(self.index(index).probe(values.unique())[1])
        numbers, starts = np.unique(ids >> _PLACE, return_index=True)
        found = [self._parts[0].tuples.take(np.zeros(0, dtype=np.int64))]
        for number, some in zip(numbers.tolist(), np.split(ids, starts)[1:], strict=True):
            found.append(self._parts[number - self._oldest].tuples.take(some & ((1 << _PLACE) - 1)))
        return rows_at(found, now)

    def _made(self, column: str, kind: str) -> RowIndex:
        made = RowIndex(self._parts[0].tuples.rows.schema.field(column).type, kind)
        for place in range(len(self._parts)):
            self._link(made, column, place)
        return made

    def _link(self, index: RowIndex, column: str, place: int) -> None:
        number = self._oldest + place
        index.add(number, number << _PLACE, self._parts[place].tuples.rows[column])

    def _evict(self) -> None:
        """Drop the oldest part, all of whose rows have expired: changes that take them back have expired as well."""
        gone = len(self._parts.popleft())
        self._number -= gone
        self._evicted += gone
        for index in self._indexes.values():
            index.evict(self._oldest)
        self._oldest += 1
        if self._evicted > len(self) // PURGES:
            self._evicted = 0
            for index in self._indexes.values():
                index.purge()


class EndlessView(ChangeView):
    """The view of a stream: its results never end, and nobody keeps them all."""

    def add(self, changes: Changes, now: int) -> None:
        pass

    def size_with(self, changes: Changes, now: int) -> int:
        return 0


def rows_at(parts: list[Changes], now: int) -> Changes:
    """The rows that have not ended by an instant; all changes of equal rows must be among them."""
    every = in_sequence(parts)
    found = _with_ends(every.where(every.exp > now))
    return found.where(found.exp > now)


def _with_ends(changes: Changes) -> Changes:
    """The rows. A row that was taken back expires then; of equal rows with the same expiry the oldest go first."""
    if not (changes.sign < 0).any():
        return changes
    rows = changes.rows.append_column("_exp", pa.array(changes.exp))
    (codes,) = dense_codes([rows], [rows.schema.names], null_safe=True)
    came, gone = (np.bincount(codes[changes.sign == sign], minlength=codes.max() + 1) for sign in (1, -1))
    # Of each code: what came, in order of time, then what took it back, likewise.
    order = np.lexsort((changes.ts, -changes.sign, codes))
    code = codes[order]
    rank = np.arange(len(order)) - np.searchsorted(code, code)
    ended = np.flatnonzero((changes.sign[order] > 0) & (rank < gone[code]))
    exp = changes.exp.copy()
    exp[order[ended]] = changes.ts[order[ended + came[code[ended]]]]
    # What came and went at one instant was never there.
    return replace(changes, exp=exp).where((changes.sign > 0) & (exp > changes.ts))
