"""Runs of (key, greatest value), sorted by value: what an extreme index keeps of a stretch of panes.

A run has a key once. Values are int64 whose order is the order of the numbers they stand for (`encode`), so one kernel
serves whole numbers and fractions, and MIN is MAX with the order turned round.

`seen[key] == mark` says that a key was met since `mark` was new: a set that is emptied by counting on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from sash.storage.keys import Codes


class Run(NamedTuple):
    """Keys by value, the least first."""

    keys: Codes
    values: NDArray[np.int64]


EMPTY = Run(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64))


def encode(values: NDArray[Any], reverse: bool) -> NDArray[np.int64]:
    """Numbers as int64 in the same order, or in the reverse one. NaN is the greatest number, and there is one zero.

    >>> encode(np.array([2.5, np.nan, -1.0, 0.0]), reverse=False).argsort().tolist()
    [2, 3, 0, 1]
    """
    if np.issubdtype(values.dtype, np.floating):
        numbers = values.astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        bits = numbers.view(np.int64)
        # The bits of negative numbers count upward as the numbers go down.
        values = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    encoded = values.astype(np.int64)
    return ~encoded if reverse else encoded


@numba.njit(cache=True, nogil=True)
def _kernel_merge(keys: Any, values: Any, other_keys: Any, other_values: Any, seen: Any, mark: int) -> Any:
    """One run from two; of a key that is in both, or twice in one, the greatest value."""
    i, j, place = keys.size - 1, other_keys.size - 1, keys.size + other_keys.size
    merged_keys, merged_values = np.empty(place, dtype=np.int32), np.empty(place, dtype=np.int64)
    while i >= 0 or j >= 0:
        if j < 0 or (i >= 0 and values[i] >= other_values[j]):
            key, value = keys[i], values[i]
            i -= 1
        else:
            key, value = other_keys[j], other_values[j]
            j -= 1
        if seen[key] != mark:
            seen[key] = mark
            place -= 1
            merged_keys[place], merged_values[place] = key, value
    return merged_keys[place:], merged_values[place:]


@numba.njit(cache=True, nogil=True)
def _kernel_distinct(keys: Any, seen: Any, mark: int) -> Any:
    """The keys that were not seen yet, each once."""
    found, count = np.empty(keys.size, dtype=np.int32), 0
    for i in range(keys.size):
        if seen[keys[i]] != mark:
            seen[keys[i]] = mark
            found[count] = keys[i]
            count += 1
    return found[:count]


merge_runs, distinct = _kernel_merge, _kernel_distinct
