"""How unequal the sub-indices of a layout are (thesis, appendix A), simulated and in closed form.

A unit is what is inserted in one slot and expires in one slot: with a constant rate and uniform lifetimes all such
pairs have the same number of records. "Variance" is the sum of the squared deviations of the n sizes from their
mean, averaged over the updates of a cycle, as the thesis has it.

The lemmas as printed are wrong: A.1 lets all empty sub-indices grow at once, which is right for n = 4 only, and A.2's
second state does not keep the total. The closed forms here agree with the simulation; theorem 4.1, that round robin
is the more even, holds. `deviation` has what the thesis leaves to words (4.3.3): a rate that alternates makes round
robin uneven, and rounds that begin anywhere even it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sash.archive.layout import ArchiveLayout

Rate = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def steady(slot: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ones_like(slot)


def alternating(slot: NDArray[np.int64]) -> NDArray[np.int64]:
    """The worst case of section 4.3.3: every second update brings four times as much."""
    return np.where(slot % 2 == 0, 4, 1)


def sizes_after(layout: ArchiveLayout, updates: int, rate: Rate = steady) -> NDArray[np.int64]:
    """The size of each sub-index, in units, after a number of updates since slot p - 1 ended."""
    p = layout.slots
    inserted, expires = np.meshgrid(np.arange(p), np.arange(p), indexing="ij")
    alive = expires <= inserted  # a record inserted in slot i lives for p slots at most: it expires in slot i + p
    ends_inserted = (inserted[alive] + updates + 1) * layout.every
    ends_expires = (expires[alive] + updates + p + 1) * layout.every
    places = layout.place(ends_inserted, ends_expires)
    return np.bincount(places, rate(inserted[alive] + updates), minlength=layout.n).astype(np.int64)


def deviation(layout: ArchiveLayout, rate: Rate, cycles: int = 10) -> float:
    """The standard deviation of the sizes, as a part of their mean, averaged over the updates of some cycles."""
    every = np.array([sizes_after(layout, updates, rate) for updates in range(cycles * layout.slots)])
    return float((every.std(axis=1) / every.mean(axis=1)).mean())


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
