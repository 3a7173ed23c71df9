"""The records of the archive's experiments: the same for every way to index them, whatever is measured before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.archive import with_times

# 1,000 bytes per record: a key, two times, and bytes that do not compress.
RECORD, KEYS = 1_000, 100
SCHEMA = pa.schema({"key": pa.int64(), "content": pa.binary(RECORD - 24)})
EVERY = 1_000_000
SLOTS = 36
LIFETIME = SLOTS * EVERY
RATES = ("steady", "fluctuating")


@dataclass(frozen=True)
class Workload:
    """`alive` records are stored at any time, in the mean; lifetimes and keys are uniform."""

    alive: int
    rate: str = "steady"

    def arrivals(self, update: int) -> int:
        """With lifetimes uniform up to the bound, half of the records within it are alive."""
        mean = 2 * self.alive / SLOTS
        if self.rate == "steady":
            return round(mean)
        # By a factor of up to four, with the same mean.
        return round(mean * np.random.default_rng([update, 1]).uniform(1, 4) / 2.5)

    def records(self, update: int) -> pa.Table:
        """What update number `update` (from 1), at `update * EVERY`, inserts."""
        random, rows = np.random.default_rng([update, 2]), self.arrivals(update)
        keys, inserted, expires = self._times(update)
        content = pa.py_buffer(random.bytes(rows * (RECORD - 24)))
        column = pa.Array.from_buffers(pa.binary(RECORD - 24), rows, [None, content])
        return with_times(pa.table({"key": keys, "content": column}, schema=SCHEMA), inserted, expires)

    def count_alive(self, update: int, key: int | None = None) -> int:
        """How many records are alive after an update: of one key, or all."""
        now, alive = update * EVERY, 0
        for before in range(max(1, update - SLOTS), update + 1):
            keys, _, expires = self._times(before)
            alive += int(((expires > now) & (True if key is None else keys == key)).sum())
        return alive

    def _times(self, update: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        random, rows = np.random.default_rng([update, 3]), self.arrivals(update)
        keys = random.integers(0, KEYS, rows)
        inserted = (update - 1) * EVERY + random.integers(1, EVERY + 1, rows)
        return keys, inserted, inserted + random.integers(1, LIFETIME + 1, rows)
