"""Kernels that fold rows of panes into one accumulator per group.

Each is a plain loop that Numba compiles, beside a NumPy reference of the same signature that tests compare
it with. Rows are (group code, component), accumulators are indexed by code and hold the combine's identity
at first.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sash.synopses.partials import Combine


@numba.njit(cache=True, nogil=True)
def _kernel_add(codes: Any, values: Any, accumulator: Any) -> None:
    for i in range(codes.size):
        accumulator[codes[i]] += values[i]


def _reference_add(codes: Any, values: Any, accumulator: Any) -> None:
    np.add.at(accumulator, codes, values)


@numba.njit(cache=True, nogil=True)
def _kernel_min(codes: Any, values: Any, accumulator: Any) -> None:
    # NaN is the greatest number and also the identity: anything replaces it.
    for i in range(codes.size):
        old = accumulator[codes[i]]
        if values[i] < old or old != old:
            accumulator[codes[i]] = values[i]


def _reference_min(codes: Any, values: Any, accumulator: Any) -> None:
    np.fmin.at(accumulator, codes, values)


@numba.njit(cache=True, nogil=True)
def _kernel_max(codes: Any, values: Any, accumulator: Any) -> None:
    # NaN is the greatest number: it replaces anything and nothing replaces it.
    for i in range(codes.size):
        if values[i] > accumulator[codes[i]] or values[i] != values[i]:
            accumulator[codes[i]] = values[i]


def _reference_max(codes: Any, values: Any, accumulator: Any) -> None:
    np.maximum.at(accumulator, codes, values)


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


def _reference_moments(codes: Any, counts: Any, means: Any, squares: Any, n: Any, mean: Any, square: Any) -> None:
    for g, added, x, s in zip(codes.tolist(), counts.tolist(), means.tolist(), squares.tolist(), strict=True):
        if added and not n[g]:
            n[g], mean[g], square[g] = added, x, s
        elif added:
            total = n[g] + added
            old_mean, new_mean = mean[g], mean[g] + (x - mean[g]) * (added / total)
            square[g] += s + n[g] * (old_mean - new_mean) ** 2 + added * (x - new_mean) ** 2
            mean[g], n[g] = new_mean, total


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


def reference_scan(combine: Combine, codes: Any, values: Any, cuts: Any, out: Any) -> None:
    """What every scan kernel does, in NumPy."""
    for i in range(out.shape[0]):
        if i > 0:
            out[i] = out[i - 1]
        REFERENCES[combine][1](codes[cuts[i + 1] : cuts[i]], values[cuts[i + 1] : cuts[i]], out[i])


SCANS: dict[Combine, Any] = {
    Combine.ADD: _kernel_scan_add,
    Combine.MIN: _kernel_scan_min,
    Combine.MAX: _kernel_scan_max,
}
FOLDS: dict[Combine, Any] = {Combine.ADD: _kernel_add, Combine.MIN: _kernel_min, Combine.MAX: _kernel_max}
fold_moments = _kernel_moments
REFERENCES: dict[Combine, tuple[Any, Any]] = {
    Combine.ADD: (_kernel_add, _reference_add),
    Combine.MIN: (_kernel_min, _reference_min),
    Combine.MAX: (_kernel_max, _reference_max),
    Combine.MOMENTS: (_kernel_moments, _reference_moments),
}
