"""How unequal the sub-indices of a layout are (thesis, appendix A), simulated and in closed form.

A unit is what is inserted in one slot and expires in one slot: with a constant rate and uniform lifetimes all such
pairs have the same number of records. "Variance" is the sum of the squared deviations of the n sizes from their
mean, averaged over the updates of a cycle, as the thesis has it.

The lemmas as printed are wrong: A.1 lets all empty sub-indices grow at once, which is right for n = 4 only, and A.2's
second state does not keep the total. The closed forms here agree with the simulation; theorem 4.1, that round robin
is the more even, holds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sash.archive.layout import ArchiveLayout


def sizes_after(layout: ArchiveLayout, updates: int) -> NDArray[np.int64]:
    """The size of each sub-index, in units, after a number of updates since slot p - 1 ended."""
    p = layout.slots
    inserted, expires = np.meshgrid(np.arange(p), np.arange(p), indexing="ij")
    alive = expires <= inserted  # a record inserted in slot i lives for p slots at most: it expires in slot i + p
    ends_inserted = (inserted[alive] + updates + 1) * layout.every
    ends_expires = (expires[alive] + updates + p + 1) * layout.every
    return np.bincount(layout.place(ends_inserted, ends_expires), minlength=layout.n)


def simulated_variance(layout: ArchiveLayout) -> float:
    """The average over the updates of one cycle."""
    every = np.array([sizes_after(layout, updates) for updates in range(layout.slots)])
    return float(((every - every.mean(axis=1, keepdims=True)) ** 2).sum(axis=1).mean())


def round_robin_variance(n: int, p: int) -> float:
    """For G = E = sqrt(n), where sqrt(n) divides p: the same after every update."""
    return p * p * (n - 1) / (4 * n)


def chronological_variance(n: int, p: int) -> float:
    """For G = E = sqrt(n), where sqrt(n) divides p.

    The sqrt(n) sub-indices on the diagonal have q (q + 1) / 2 units at all times. Of the others sqrt(n) - 1 grow from
    nothing to q * q while as many shrink from there to nothing; the rest are full or empty.
    """
    r = math.isqrt(n)
    q, mean = p // r, p * (p + 1) / (2 * n)
    diagonal = q * (q + 1) / 2
    changing = sum((i * q) ** 2 + (q * q - i * q) ** 2 for i in range(q)) / q
    full = (n - r) / 2 - (r - 1)
    return r * diagonal**2 + (r - 1) * changing + full * q**4 - n * mean**2
