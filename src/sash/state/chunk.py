"""A chunk: live tuples that are stored together, never changed, and dropped as a whole.

A chunk is an Arrow table: the tuple's columns, then `_ts`, `_exp` and its ids as integers. What was read from a file
remembers where it came from, so that an epoch writes only the chunks that it made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sash.core.changes import EXP, TS, Changes

_ID = "_id"


@dataclass(frozen=True)
class ChunkPlace:
    """Where a chunk is stored: some bytes of a file, and what they must add up to."""

    file: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True, eq=False)
class Chunk:
    """`partition` is its day in a calendar queue, 0 elsewhere."""

    tuples: Changes
    partition: int = 0
    place: ChunkPlace | None = None

    def __len__(self) -> int:
        return len(self.tuples)

    @cached_property
    def latest(self) -> int:
        """When the last of its tuples expires."""
        return int(self.tuples.exp.max(initial=0))

    def to_table(self) -> pa.Table:
        table = self.tuples.rows.append_column(TS, pa.array(self.tuples.ts)).append_column(
            EXP, pa.array(self.tuples.exp)
        )
        for place in range(self.tuples.ids.shape[1]):
            table = table.append_column(f"{_ID}{place}", pa.array(self.tuples.ids[:, place]))
        return table


def tuples_of(table: pa.Table) -> Changes:
    """What `to_table` wrote."""
    width = sum(name.startswith(_ID) and name[len(_ID) :].isdigit() for name in table.schema.names)
    hidden = [TS, EXP, *(f"{_ID}{place}" for place in range(width))]
    ts, exp, *ids = (np.asarray(table[name], dtype=np.int64) for name in hidden)
    rows = table.drop_columns(hidden)
    stacked = np.stack(ids, axis=1) if ids else np.zeros((len(ts), 0), dtype=np.int64)
    return Changes(rows, ts, exp, np.ones(len(ts), dtype=np.int8), stacked)
