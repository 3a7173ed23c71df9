"""Groups of values: the ranges that GROUP and the G-INDEX count instead of values.

    lows 1, 6, 11, 16, 21   last 25

    place    0      1      2       3       4       5       6
    range    ..0    1..5   6..10   11..15  16..20  21..25  26..

Columns of whole numbers, dates, times, timestamps and decimals have groups, both ends included. The first and the last
group have the values outside, so that no value is lost: an approximate answer may have too much, never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from sash.rows.value_keys import Ints, Keys, keys_of

_LEAST, _MOST = -(2**63), 2**63 - 1


@njit(cache=True)
def kernel_count_groups(keys: Any, lows: Any, counts: Any) -> None:
    """Count tuple by tuple. The lows at or below a key are counted without a branch: groups are few."""
    for place in range(keys.size):
        key, group = keys[place], 0
        for bound in range(lows.size):
            group += key >= lows[bound]
        counts[group] += 1


def keys_with_groups(type: pa.DataType) -> Keys:
    """Keys whose ranges have a least and a greatest value."""
    keys = keys_of(type)
    if not keys.ordered or pa.types.is_floating(type):
        raise TypeError(f"a column of {type} has no groups: a range ends where the next one begins, by one less")
    return keys


class Groups:
    """Consecutive ranges of the values of a column.

    >>> groups = Groups(pa.int64(), [1, 6, 11, 16, 21], 25)
    >>> groups.count(groups.keys.encode(pa.array([12, 3, 99, 23]))).tolist()
    [0, 1, 0, 1, 0, 1, 1]
    >>> groups.ranges().slice(5).to_pylist()
    [{'low': 21, 'high': 25}, {'low': 26, 'high': None}]
    """

    def __init__(self, type: pa.DataType, lows: Sequence[Any], last: Any) -> None:
        self.type = type
        self.keys: Keys = keys_with_groups(type)
        bounds = self.keys.encode(pa.array([*lows, last], type))
        if len(bounds) < 2 or (bounds[1:-1] <= bounds[:-2]).any() or bounds[-1] < bounds[-2]:
            raise ValueError("groups need ascending lows, and a last value that is not below them")
        self.lows: Ints = bounds[:-1]
        if self._neighbour(int(bounds[-1]) + 1) is not None:
            self.lows = np.append(self.lows, bounds[-1] + 1)

    @classmethod
    def equal(cls, type: pa.DataType, low: int, high: int, number: int) -> Groups:
        """This many ranges of equal length over low .. high, of a column of whole numbers.

        >>> Groups.equal(pa.int64(), 0, 99, 4).lows.tolist()
        [0, 25, 50, 75, 100]
        """
        return cls(type, [low + (high + 1 - low) * place // number for place in range(number)], high)

    def __len__(self) -> int:
        return len(self.lows) + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and self.type == other.type and np.array_equal(self.lows, other.lows)

    def __hash__(self) -> int:
        return hash((self.type, self.lows.tobytes()))

    def count(self, keys: Ints) -> Ints:
        """How many keys are in each group."""
        counts = np.zeros(len(self), dtype=np.int64)
        kernel_count_groups(keys, self.lows, counts)
        return counts

    def place(self, keys: Ints) -> Ints:
        """The group of each key."""
        return np.searchsorted(self.lows, keys, side="right").astype(np.int64)

    def ranges(self) -> pa.Table:
        """The least and the greatest value of each group; NULL for an open end."""
        none = pa.nulls(1, self.type)
        below = self._neighbour(int(self.lows[0]) - 1)
        highs = [none if below is None else below, self.keys.decode(self.lows[1:] - 1), none]
        return pa.table({"low": pa.concat_arrays([none, self.keys.decode(self.lows)]), "high": pa.concat_arrays(highs)})

    def _neighbour(self, key: int) -> pa.Array | None:
        """The value next to a bound, by its key; None beyond the least and the greatest value of a type."""
        if not _LEAST <= key <= _MOST or (pa.types.is_time(self.type) and key < 0):
            return None
        try:
            return self.keys.decode(np.array([key]))
        except pa.ArrowInvalid:
            return None
