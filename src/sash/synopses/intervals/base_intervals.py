"""Base-intervals: the dyadic intervals of which every interval is a union of few (Arasu and Widom, 3.1.1).

    level 3   | 1                                           8 |
    level 2   | 1                   4 | 5                   8 |
    level 1   | 1       2 | 3       4 | 5       6 | 7       8 |
    level 0   | 1 |   2   | 3 |   4   | 5 |   6   | 7 |   8   |        (2, 7) = (2, 2) (3, 4) (5, 6) (7, 7)

A level-l base-interval is (2^l i + 1, 2^l (i + 1)). Positions are 1-based and intervals include both ends.
These functions say which intervals there are; the kernels of `interval` and `quantile` walk them with bits.

The paper cuts (1, 43) into eight base-intervals (Example 3.1), which fits (2, 43); `decompose` returns the fewest.
"""

from __future__ import annotations

Interval = tuple[int, int]


def decompose(left: int, right: int) -> list[Interval]:
    """The fewest base-intervals that make up an interval, from left to right (Theorem 3.1).

    >>> decompose(1, 43)
    [(1, 32), (33, 40), (41, 42), (43, 43)]
    """
    parts = []
    while left <= right:
        # The longest base-interval that starts here (0 is a multiple of everything) and does not reach too far.
        aligned, fitting = (left - 1) & -(left - 1), 1 << ((right - left + 1).bit_length() - 1)
        width = min(aligned, fitting) or fitting
        parts.append((left, left + width - 1))
        left += width
    return parts


def active_base_intervals(length: int, oldest: int) -> list[Interval]:
    """Those inside the active positions `oldest .. length`, level by level: what an interval synopsis stores."""
    found = []
    width = 1
    while width <= length - oldest + 1:
        first = -(-(oldest - 1) // width) * width + 1
        found += [(left, left + width - 1) for left in range(first, length - width + 2, width)]
        width *= 2
    return found
