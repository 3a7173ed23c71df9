"""Tuples with their real ends: a tuple that is taken back ends before its `exp`.

`Identities` names results that are replaced: a value of a counted DISTINCT, the row of a group. A result gets a new
number each time it appears; the negative tuple that takes it back has the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.buffers import Buffer, Fifo
from sash.changes.key_numbers import dense_codes
from sash.changes.operator import Epoch
from sash.core.changes import NEVER, Changes


@dataclass(frozen=True)
class Lifetimes:
    """Stored tuples, then those that came in this epoch, each oldest first; `end` is NEVER unless it was taken back."""

    tuples: Changes
    end: NDArray[np.int64]
    stored: int

    def __len__(self) -> int:
        return len(self.end)

    @property
    def out(self) -> NDArray[np.int64]:
        """When a tuple leaves: at its expiry, or when it is taken back."""
        return np.minimum(self.tuples.exp, self.end)

    @property
    def is_new(self) -> NDArray[np.bool_]:
        return np.arange(len(self.end)) >= self.stored

    @property
    def touched(self) -> NDArray[np.bool_]:
        """The tuples that came or were taken back in this epoch."""
        return self.is_new | (self.end < NEVER)

    def before(self, epoch: Epoch) -> NDArray[np.bool_]:
        """Stored tuples whose expiry was not processed before the epoch."""
        return ~self.is_new & (self.tuples.exp >= epoch.low)

    def arrivals(self) -> NDArray[np.int64]:
        return np.arange(self.stored, len(self.end))

    def departures(self, epoch: Epoch) -> NDArray[np.int64]:
        """Places of the tuples that leave in the epoch."""
        return np.flatnonzero((self.out >= epoch.low) & (self.out < epoch.high))

    def settle(self, buffer: Buffer, now: int, superfluous: NDArray[np.bool_] | None = None) -> None:
        """Keep in the buffer the tuples that live after `now`, but for those that nobody needs."""
        gone = self.end < NEVER
        buffer.came += len(self) - self.stored
        buffer.taken_back += int(gone.sum())
        if superfluous is not None:
            # Expired tuples go with their chunk.
            gone |= superfluous & (self.tuples.exp > now)
        if gone[: self.stored].any():
            buffer.drop(gone[: self.stored])
        stays = ~gone & (self.tuples.exp > now)
        stays[: self.stored] = False
        buffer.add(self.tuples.where(stays) if stays.any() else self.tuples.take(np.zeros(0, dtype=np.int64)))
        buffer.expire(now)


def lifetimes(buffer: Buffer, arrived: Changes) -> Lifetimes:
    """The stored and the arrived tuples; each negative tuple ends the tuple that it takes back."""
    new = arrived.where(arrived.sign > 0)
    tuples = in_sequence([*buffer.tuples(), new])
    end = np.full(len(tuples), NEVER, dtype=np.int64)
    taken_back = arrived.where(arrived.sign < 0) if len(new) < len(arrived) else None
    if taken_back is not None:
        places = _matched(tuples, taken_back)
        end[places] = taken_back.ts
    return Lifetimes(tuples, end, len(tuples) - len(new))


def in_sequence(parts: Sequence[Changes]) -> Changes:
    """Several batches, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Changes(
        pa.concat_tables([part.rows for part in parts]),
        np.concatenate([part.ts for part in parts]),
        np.concatenate([part.exp for part in parts]),
        np.concatenate([part.sign for part in parts]),
        np.concatenate([part.ids for part in parts]),
    )


def _matched(tuples: Changes, taken_back: Changes) -> NDArray[np.int64]:
    """The place of the tuple that each negative one takes back: the last one before it with the same ids.

    A tuple may come, go and come again under the same ids, never twice at a time.
    """
    ids = np.concatenate([tuples.ids, taken_back.ids])
    ts = np.concatenate([tuples.ts, taken_back.ts])
    sign = np.concatenate([tuples.sign, taken_back.sign])
    order = np.lexsort((sign, ts, *ids.T))
    negative = np.flatnonzero(sign[order] < 0)
    before, this = order[negative - 1], order[negative]
    assert (negative > 0).all() and (ids[before] == ids[this]).all() and (sign[before] > 0).all(), (
        "nothing to take back"
    )
    places = np.empty(len(taken_back), dtype=np.int64)
    places[this - len(tuples)] = before
    return places


class Identities:
    """`keys` identify results (all columns by default); standing results are stored with their numbers."""

    def __init__(self, name: str, schema: pa.Schema, keys: Sequence[str] | None = None) -> None:
        self.name = name
        self._schema = schema
        self._keys = list(schema.names if keys is None else keys)

    def named(self, found: Changes, state: WorkingState) -> Changes:
        """Changes with ids; those of one key alternate between appearing and being taken back."""
        buffer = Fifo(state.chunks(self.name))
        stored = in_sequence([Changes.none(self._schema, 1), *buffer.tuples()])
        numbers = np.full((len(found), 1), -1, dtype=np.int64)
        appears = found.sign > 0
        numbers[appears, 0] = state.numbers(self.name, int(appears.sum()))
        every = in_sequence([stored, Changes(found.rows, found.ts, found.exp, found.sign, numbers)])
        codes = self._codes(every.rows)
        order = np.lexsort((every.sign, every.ts, codes))
        back = np.flatnonzero(every.sign[order] < 0)
        every.ids[order[back]] = every.ids[order[back - 1]]
        last = np.append(codes[order][1:] != codes[order][:-1], True) if len(order) else np.zeros(0, dtype=np.bool_)
        stands = np.zeros(len(every), dtype=np.bool_)
        stands[order[last & (every.sign[order] > 0)]] = True
        buffer.drop(~stands[: len(stored)])
        buffer.add(every.take(len(stored) + np.flatnonzero(stands[len(stored) :])))
        state.store(self.name, buffer.chunks)
        return Changes(found.rows, found.ts, found.exp, found.sign, every.ids[len(stored) :])

    def _codes(self, rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if not self._keys:
            return np.zeros(rows.num_rows, dtype=np.int64)
        return dense_codes([rows], [self._keys], null_safe=True)[0]
