"""Versions of a table's rows: a change of a row ends one version and begins another.

    key 80   ──┤ http ├──────────┤ web ├──────────►        begin, end: the event times of the changes
                begin          end = begin        NEVER

A relation has a version at t when begin <= t < end. A tuple with timestamp ts finds the version of a non-retroactive
relation with begin < ts <= end: a change at u affects what arrives after u (thesis 3.3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import NEVER, Changes


@dataclass(frozen=True)
class RowVersions:
    """Columnar. A version keeps its number for ever; versions that never were (begin = end) are left out."""

    rows: pa.Table
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    number: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin)

    @classmethod
    def none(cls, schema: pa.Schema) -> RowVersions:
        zero = np.zeros(0, dtype=np.int64)
        return cls(schema.empty_table(), zero, zero, zero)

    def select(self, columns: Sequence[str]) -> RowVersions:
        return RowVersions(self.rows.select(columns), self.begin, self.end, self.number)

    def where(self, wanted: NDArray[np.bool_]) -> RowVersions:
        rows = self.rows.filter(pa.array(wanted))
        return RowVersions(rows, self.begin[wanted], self.end[wanted], self.number[wanted])

    def seen(self, low: int, high: int) -> RowVersions:
        """The versions that tuples with low <= ts < high may find in a non-retroactive relation."""
        return self.where((self.begin < high - 1) & (self.end >= low))

    def changed(self, low: int, high: int) -> RowVersions:
        """The versions that begin or end at an instant low <= t < high."""
        begins, ends = ((low <= times) & (times < high) for times in (self.begin, self.end))
        return self.where(begins | ends)

    def as_tuples(self) -> Changes:
        """Each version as one tuple, from its begin to its end."""
        return Changes(self.rows, self.begin, self.end, np.ones(len(self), dtype=np.int8), self.number[:, None])

    def as_changes(self, low: int, high: int) -> Changes:
        """The insertions and deletions at low <= t < high; a row is inserted without an expiry."""
        parts = []
        for times, sign in ((self.end, -1), (self.begin, 1)):
            places = np.flatnonzero((low <= times) & (times < high))
            never = np.full(len(places), NEVER, dtype=np.int64)
            signs = np.full(len(places), sign, dtype=np.int8)
            rows = self.rows.take(pa.array(places))
            parts.append(Changes(rows, times[places], never, signs, self.number[places, None]))
        gone, come = parts
        return Changes(
            pa.concat_tables([gone.rows, come.rows]),
            np.concatenate([gone.ts, come.ts]),
            np.concatenate([gone.exp, come.exp]),
            np.concatenate([gone.sign, come.sign]),
            np.concatenate([gone.ids, come.ids]),
        ).in_order()
