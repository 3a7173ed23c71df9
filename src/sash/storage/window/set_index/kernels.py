"""Counts of entries go up and down by the links of sub-windows."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def _kernel_apply(counts: Any, entries: Any, amounts: Any, sign: int) -> int:
    """Add amounts to counts, or take them back; by how many the entries with a count above 0 have grown."""
    grown = 0
    for place in range(entries.size):
        before = counts[entries[place]]
        after = before + sign * amounts[place]
        counts[entries[place]] = after
        grown += (after > 0) - (before > 0)
    return grown


@njit(cache=True)
def _kernel_apply_ones(counts: Any, entries: Any, sign: int) -> int:
    """The same where each link is one tuple."""
    grown = 0
    for place in range(entries.size):
        before = counts[entries[place]]
        counts[entries[place]] = before + sign
        grown += (before + sign > 0) - (before > 0)
    return grown
