"""How two rows of partials combine: the vectors over groups that every shared synopsis stores per interval.

A synopsis is a 2-D array, slots x groups; its kernels fold one row into another. The three combines are told apart
by a small number inside the kernel, so that each kernel is compiled once per dtype and not once per combine.
They are inlined by force: passing two arrays costs more than combining two numbers. Numba's cache watches a kernel's
own file only, so a change here takes effect after `make clean`.

Conventions, the same as in `sash.synopses.kernels`: NaN is the greatest number; a group without a value holds
the identity, which for a minimum of floats is NaN as well.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sash.synopses.partials import Combine, Dtype

ADD, MIN, MAX = 0, 1, 2
OPERATIONS: dict[Combine, int] = {Combine.ADD: ADD, Combine.MIN: MIN, Combine.MAX: MAX}
# What an operation is in NumPy.
UFUNCS: tuple[np.ufunc, ...] = (np.add, np.fmin, np.maximum)


def identity(combine: Combine, dtype: Dtype) -> int | float:
    """The value that changes nothing (the same as `Partial.identity`)."""
    if combine is Combine.ADD:
        return 0
    if dtype is np.float64:
        return float("nan") if combine is Combine.MIN else float("-inf")
    return np.iinfo(np.int64).max if combine is Combine.MIN else np.iinfo(np.int64).min


@numba.njit(cache=True, nogil=True, forceinline=True)
def _kernel_fold(operation: Any, old: Any, new: Any) -> Any:
    if operation == ADD:
        return old + new
    if operation == MIN:
        return new if new < old or old != old else old
    return new if new > old or new != new else old


@numba.njit(cache=True, nogil=True, forceinline=True)
def _kernel_fold_row(operation: Any, target: Any, t: Any, source: Any, s: Any) -> None:
    # Rows are given by number: a slice would be an object of its own, with references to count.
    groups = target.shape[1]
    if groups == 1:
        # A loop, made for long rows, would take ten times as long to begin as to run.
        target[t, 0] = _kernel_fold(operation, target[t, 0], source[s, 0])
    elif operation == ADD:
        for g in range(groups):
            target[t, g] += source[s, g]
    elif operation == MIN:
        for g in range(groups):
            target[t, g] = _kernel_fold(MIN, target[t, g], source[s, g])
    else:
        for g in range(groups):
            target[t, g] = _kernel_fold(MAX, target[t, g], source[s, g])


@numba.njit(cache=True, nogil=True, forceinline=True)
def _kernel_copy_row(target: Any, t: Any, source: Any, s: Any) -> None:
    if target.shape[1] == 1:
        target[t, 0] = source[s, 0]
        return
    for g in range(target.shape[1]):
        target[t, g] = source[s, g]


fold = _kernel_fold
fold_row = _kernel_fold_row
copy_row = _kernel_copy_row
