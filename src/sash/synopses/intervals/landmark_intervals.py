"""Landmark intervals: any interval of a known width is at most two of them (Arasu and Widom, 3.1.2).

    landmarks       3000                4000                5000                6000        W_min = 1000
    interval             |3257 ............................. 5164|                           W_max = 2000
    its parts            |3257 ... 3999|4000 ............... 5164|
                         ends just before, begins at a landmark

Landmarks are the positions that W_min divides. An interval at least W_min wide contains one, so it can be cut there.
It may contain several; `landmark_decomposition` cuts at the first, as Example 3.2 does. Then the left part is
shorter than W_min, and a synopsis needs to keep left parts of one landmark only.

Definition 3.2 lets a landmark interval be W_max + 1 wide, the prose says less than W_max; no lookup needs either.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from sash.synopses.intervals.base_intervals import Interval


def landmark_decomposition(left: int, right: int, w_min: int) -> list[Interval]:
    """One or two landmark intervals that make up an interval at least `w_min` wide (Theorem 3.3).

    >>> landmark_decomposition(3257, 5164, 1000)
    [(3257, 3999), (4000, 5164)]
    """
    landmark = -(-left // w_min) * w_min
    return [(left, right)] if left == landmark else [(left, landmark - 1), (landmark, right)]


def partition_by_spread(widths: Iterable[int], spread: int | Fraction = 2) -> list[Interval]:
    """The fewest partitions of window widths, each as (W_min, W_max) with W_max / W_min <= spread.

    >>> partition_by_spread([1000, 10, 15, 20, 21, 2000])
    [(10, 20), (21, 21), (1000, 2000)]
    """
    partitions: list[Interval] = []
    for width in sorted(set(widths)):
        # A partition begins at the narrowest width that the one before cannot take: no other choice needs fewer.
        if partitions and width <= spread * partitions[-1][0]:
            partitions[-1] = (partitions[-1][0], width)
        else:
            partitions.append((width, width))
    return partitions
