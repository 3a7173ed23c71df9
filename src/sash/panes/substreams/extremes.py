"""Exact filters for MAX and MIN: keys by their greatest value, for every base-interval of panes.

The paper has these in its full version only; this is our own design with the paper's costs. MAX(S_k[T]) > v says that k
reached more than v in some pane of the window. So each base-interval (Definition 3.1: 2^l panes from a multiple of 2^l
on) keeps a run of its keys sorted by their maximum, and the keys that reached more than v are the end of a run. MAX < v
and MAX <= v are the complement: keys seen in the window that did not reach v. MIN is MAX in reverse order.

A run has a key once. Values are int64 in the order of their numbers (`encode`), so one kernel serves whole numbers and
fractions. `seen[key] == mark` says that a key was met since `mark` was new: a set that a new mark empties.

Invariants: a pane is closed when a later one comes, and is in no base-interval before; a base-interval is made of its
two halves when its last pane closes, unless its first pane has been forgotten by then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.expr.value_codes import Codes
from sash.panes.partials import is_machine_number
from sash.panes.substreams.pane_numbers import PaneTimes


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
def kernel_merge(keys: Any, values: Any, other_keys: Any, other_values: Any, seen: Any, mark: int) -> Any:
    """Merge two runs into one; a key that is in both, or twice in one, has its greatest value."""
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
def kernel_distinct(keys: Any, seen: Any, mark: int) -> Any:
    """The keys that were not seen yet, each once."""
    found, count = np.empty(keys.size, dtype=np.int32), 0
    for i in range(keys.size):
        if seen[keys[i]] != mark:
            seen[keys[i]] = mark
            found[count] = keys[i]
            count += 1
    return found[:count]


merge_runs, distinct = kernel_merge, kernel_distinct


_LEAST_KEYS = 64
_LEAST, _GREATEST = -(2**63), 2**63 - 1
COMPARISONS = (">", ">=", "<", "<=")


class ExtremeIndex:
    """Keys by MAX (or MIN) of all windows that end now, exactly.

    Needs: panes in the order of time; windows of whole panes; int64 or float64 values. NaN is the greatest number.
    Time: an update O(log W) per key, amortised over the W panes that are kept, besides sorting its pane. A look-up
    for MAX > v: a search in each of O(log W) base-intervals, and a step for each of them that a found key is found in.
    For the complement, MAX < v: a step for each key of each base-interval, so O(keys in the window, times log W).
    Space: 12 log2 W bytes for each key of a pane. Reference: Arasu and Widom, Figure 1 and Definition 3.1.

    >>> index = ExtremeIndex("max")
    >>> index.update(10, np.array([0, 1]), np.array([70, 10]))
    >>> index.update(20, np.array([1, 2]), np.array([90, 40]))
    >>> index.lookup(20, 20, ">", 50).tolist(), index.lookup(20, 10, ">", 50).tolist()
    ([0, 1], [1])
    >>> index.lookup(20, 20, "<=", 40).tolist()
    [2]
    """

    def __init__(self, kind: str, dtype: type[np.int64] | type[np.float64] = np.int64) -> None:
        if kind not in ("max", "min"):
            raise ValueError(f"an extreme index serves max or min, not {kind}")
        self.kind = kind
        self.dtype = dtype
        self._panes = PaneTimes()
        self._open = EMPTY
        # By level, then by place: the run of panes place 2^level + 1 .. (place + 1) 2^level.
        self._intervals: list[dict[int, Run]] = [{}]
        self._closed = 0
        self._seen = np.zeros(_LEAST_KEYS, dtype=np.int64)
        self._mark = 0

    @classmethod
    def refuse(cls, function: str, type: pa.DataType | None) -> str | None:
        """Why the index cannot serve HAVING with this function of this argument; None if it can."""
        if function.upper() not in ("MAX", "MIN") or type is None:
            return f"an extreme index serves MAX and MIN of a column, not {function.upper()}"
        if not is_machine_number(type):
            return f"an extreme index compares machine numbers, and {type} is none"
        return None

    @property
    def rows(self) -> int:
        """How many (key, value) are stored, in all base-intervals together."""
        return len(self._open.keys) + sum(len(run.keys) for level in self._intervals for run in level.values())

    # -- updating ------------------------------------------------------------------------------------

    def update(self, time: Micros, keys: NDArray[np.integer[Any]], values: NDArray[Any]) -> None:
        """Each key's extreme value in the pane that ends at a time. A key may come more than once for a pane."""
        keys, values = np.asarray(keys), np.asarray(values)
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys with {len(values)} values")
        if not len(keys):
            return
        if np.issubdtype(values.dtype, np.floating) != (self.dtype is np.float64):
            raise TypeError(f"values are {np.dtype(self.dtype)}, not {values.dtype}")
        if keys.min() < 0:
            raise ValueError("a key below 0")
        pane = self._panes.number(time)
        if pane > self._closed + 1:
            self._close()
            # Panes without values have no number, so the next number follows at once.
            assert pane == self._closed + 1
        self._reserve(int(keys.max()) + 1)
        encoded = encode(values, self.kind == "min")
        order = np.argsort(encoded, kind="stable")
        self._open = self._merge(self._open, Run(keys[order].astype(np.int32), encoded[order]))

    def _close(self) -> None:
        self._closed += 1
        level, place, run = 0, self._closed - 1, self._open
        self._intervals[0][place] = run
        # The last pane of a greater base-interval has closed as well, as long as this is a right half.
        while place % 2 and (left := self._intervals[level].get(place - 1)) is not None:
            level, place, run = level + 1, place // 2, self._merge(left, run)
            if level == len(self._intervals):
                self._intervals.append({})
            self._intervals[level][place] = run
        self._open = EMPTY

    def _merge(self, left: Run, right: Run) -> Run:
        self._mark += 1
        return Run(*merge_runs(left.keys, left.values, right.keys, right.values, self._seen, self._mark))

    def _reserve(self, keys: int) -> None:
        if keys > len(self._seen):
            self._seen = np.zeros(max(keys, 2 * len(self._seen)), dtype=np.int64)

    # -- looking up ----------------------------------------------------------------------------------

    def lookup(self, tau: Micros, length: Micros, comparison: str, v: float | Decimal | Fraction) -> Codes:
        """The keys seen in (tau - length, tau] whose extreme is > v, >= v, < v or <= v, sorted."""
        if comparison not in COMPARISONS:
            raise ValueError(f"unknown comparison: {comparison}; known: {', '.join(COMPARISONS)}")
        outward = comparison in ((">", ">=") if self.kind == "max" else ("<", "<="))
        # A key that fails MAX < v has reached v itself; a key that fails MAX <= v has reached more.
        strict = (comparison in (">", "<")) == outward
        threshold, side = self._threshold(v, strict)
        runs = list(self._window(self._panes.last_outside(tau, length)))
        cuts = [int(np.searchsorted(run.values, threshold, side)) for run in runs]
        self._mark += 1
        found = self._distinct([run.keys[cut:] for run, cut in zip(runs, cuts, strict=True)])
        if not outward:
            found = self._distinct([run.keys[:cut] for run, cut in zip(runs, cuts, strict=True)])
        return np.sort(found)

    def _threshold(self, v: float | Decimal | Fraction, strict: bool) -> tuple[np.int64, Any]:
        """Where a run is cut: the keys after it have reached v, or more than v if that is strict."""
        reverse = self.kind == "min"
        if self.dtype is np.float64:
            return encode(np.array([v], dtype=np.float64), reverse)[0], "right" if strict else "left"
        if isinstance(v, float) and not math.isfinite(v):
            bound = _LEAST - 1 if v < 0 else _GREATEST + 1
        else:
            # More than 2.5 is more than 2, and at least 2.5 is at least 3; downward the other way round.
            bound = math.floor(v) if strict != reverse else math.ceil(v)
        bound = ~bound if reverse else bound
        if bound > _GREATEST:
            return np.int64(_GREATEST), "right"
        if bound < _LEAST:
            return np.int64(_LEAST), "left"
        return np.int64(bound), "right" if strict else "left"

    def _window(self, outside: int) -> Iterator[Run]:
        """The base-intervals of the panes after a pane, and the open pane."""
        first = outside
        while first < self._closed:
            widest = (self._closed - first).bit_length() - 1
            level = min(widest, (first & -first).bit_length() - 1) if first else widest
            yield self._intervals[level][first >> level]
            first += 1 << level
        if outside <= self._closed:
            yield self._open

    def _distinct(self, parts: list[Codes]) -> Codes:
        """The keys that were not met since the last mark, each once."""
        found: Codes = distinct(np.concatenate([*parts, EMPTY.keys]), self._seen, self._mark)
        return found

    # -- forgetting --------------------------------------------------------------------------------------

    def forget(self, before: Micros) -> None:
        """Forget panes: no window will begin before a time."""
        self._panes.forget(before)
        gone = self._panes.forgotten
        if gone > self._closed:
            self._close()
        for level, runs in enumerate(self._intervals):
            for place in [place for place in runs if place << level < gone]:
                del runs[place]
