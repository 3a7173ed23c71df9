"""Names for results that are replaced: a value of a counted DISTINCT, the row of a group.

Such an operator has at most one row per value in its answer. Each time one appears it gets a new number; the row that
takes it back has the same number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.core.changes import Changes
from sash.operators.keys import dense_codes
from sash.operators.lifetimes import in_sequence
from sash.state import Fifo
from sash.state.state import Working


class Identities:
    """`keys` tell results apart (all columns by default); the ones that stand are stored with their numbers."""

    def __init__(self, name: str, schema: pa.Schema, keys: Sequence[str] | None = None) -> None:
        self._name = name
        self._schema = schema
        self._keys = list(schema.names if keys is None else keys)

    def named(self, found: Changes, state: Working) -> Changes:
        """Changes of which those of one key alternate between appearing and being taken back, with their ids."""
        stored = [*Fifo(state.chunks(self._name)).tuples(), Changes.none(self._schema, 1)][0]
        numbers = np.full((len(found), 1), -1, dtype=np.int64)
        appears = found.sign > 0
        numbers[appears, 0] = state.numbers(self._name, int(appears.sum()))
        every = in_sequence([stored, Changes(found.rows, found.ts, found.exp, found.sign, numbers)])
        codes = self._codes(every.rows)
        order = np.lexsort((every.sign, every.ts, codes))
        back = np.flatnonzero(every.sign[order] < 0)
        every.ids[order[back]] = every.ids[order[back - 1]]
        last = np.append(codes[order][1:] != codes[order][:-1], True) if len(order) else np.zeros(0, dtype=np.bool_)
        stand = np.sort(order[last & (every.sign[order] > 0)])
        buffer = Fifo()
        buffer.add(every.take(stand))
        state.store(self._name, buffer.chunks)
        return Changes(found.rows, found.ts, found.exp, found.sign, every.ids[len(stored) :])

    def _codes(self, rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if not self._keys:
            return np.zeros(rows.num_rows, dtype=np.int64)
        return dense_codes([rows], [self._keys], null_safe=True)[0]
