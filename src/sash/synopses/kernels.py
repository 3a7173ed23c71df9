"""Kernels that fold rows of panes into one accumulator per group.

Each is a plain loop that Numba compiles. Rows are (group code, component), accumulators are indexed by code and hold
the combine's identity at first.
"""

from __future__ import annotations

from typing import Any

import numba

from sash.synopses.partials import Combine


@numba.njit(cache=True, nogil=True)
def _kernel_add(codes: Any, values: Any, accumulator: Any) -> None:
    for i in range(codes.size):
        accumulator[codes[i]] += values[i]


@numba.njit(cache=True, nogil=True)
def _kernel_min(codes: Any, values: Any, accumulator: Any) -> None:
    # NaN is the greatest number and also the identity: anything replaces it.
    for i in range(codes.size):
        old = accumulator[codes[i]]
        if values[i] < old or old != old:
            accumulator[codes[i]] = values[i]


@numba.njit(cache=True, nogil=True)
def _kernel_max(codes: Any, values: Any, accumulator: Any) -> None:
    # NaN is the greatest number: it replaces anything and nothing replaces it.
    for i in range(codes.size):
        if values[i] > accumulator[codes[i]] or values[i] != values[i]:
            accumulator[codes[i]] = values[i]


@numba.njit(cache=True, nogil=True)
def _kernel_moments(codes: Any, counts: Any, means: Any, squares: Any, n: Any, mean: Any, square: Any) -> None:
    # n is the accumulator's own count, so that the shared count partial may be folded before or after.
    for i in range(codes.size):
        added = counts[i]
        if added == 0:
            continue
        g = codes[i]
        if n[g] == 0:
            # Nothing to combine with: the formula below would make NaN of a mean whose square overflows.
            n[g], mean[g], square[g] = added, means[i], squares[i]
            continue
        total = n[g] + added
        delta = means[i] - mean[g]
        step = delta / total
        mean[g] += step * added
        square[g] += squares[i] + delta * step * n[g] * added
        n[g] = total


# A scan fills one row of `out` per window, the shortest first: the row before it, and the rows of panes between
# cuts[i + 1] and cuts[i] on top. One call serves all windows, so its cost does not grow with their number.


@numba.njit(cache=True, nogil=True)
def _kernel_scan_add(codes: Any, values: Any, cuts: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        if i > 0:
            out[i, :] = out[i - 1, :]
        _kernel_add(codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


@numba.njit(cache=True, nogil=True)
def _kernel_scan_min(codes: Any, values: Any, cuts: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        if i > 0:
            out[i, :] = out[i - 1, :]
        _kernel_min(codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


@numba.njit(cache=True, nogil=True)
def _kernel_scan_max(codes: Any, values: Any, cuts: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        if i > 0:
            out[i, :] = out[i - 1, :]
        _kernel_max(codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


SCANS: dict[Combine, Any] = {
    Combine.ADD: _kernel_scan_add,
    Combine.MIN: _kernel_scan_min,
    Combine.MAX: _kernel_scan_max,
}
FOLDS: dict[Combine, Any] = {Combine.ADD: _kernel_add, Combine.MIN: _kernel_min, Combine.MAX: _kernel_max}
fold_moments = _kernel_moments
