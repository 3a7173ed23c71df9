"""Levels (Arasu and Widom 4.1): how distances from the end of a substream are grouped, and which group answers what.

A substream is a row of units: a tuple is one unit of COUNT, a value a is a units of SUM. The newest has distance 1.
There are p levels of size 1, then p of size 2, p of size 4, ... A *class* c is the p levels of size 2^c:

    p = 2      class |   0   |     1     |         2         |               3                |
               level | 0 | 1 |  2  |  3  |    4    |    5    |       6        |       7        |
    distance from    | 1 | 2 |  3  |  5  |    7    |   11    |       15       |       23       |
               to    | 1 | 2 |  4  |  6  |   10    |   14    |       22       |       30       |

With level = c p + r, the distances are (p + r) 2^c - p + 1 .. (p + r + 1) 2^c - p. So many distances in a row hold one
multiple of 2^c: the unit at that position stands for the level, and the index knows when it came. After m units
it is position 2^c ((m + p) div 2^c - p - r): it changes when m + p passes a multiple of 2^c, and then it is
a position that a lower level stood for. A level whose distances are not all there yet (m < `last`) stores nothing.

A threshold v is turned into a level beside it: that is the whole approximation, and it gets better with p.
The paper leaves the lower side of a range open. Here it has a level of its own, and a bound of its own (`excess`).
"""

from __future__ import annotations

from fractions import Fraction


class Levels:
    """The arithmetic of levels, in integers of any size.

    Needs: p >= 1, levels per class. Time: O(1) each. Reference: Arasu and Widom 4.1.2.

    >>> levels = Levels(2)
    >>> [(levels.first(i), levels.last(i)) for i in range(6)]
    [(1, 1), (2, 2), (3, 4), (5, 6), (7, 10), (11, 14)]
    >>> levels.above(12), levels.below(12), levels.epsilon
    (4, 6, Fraction(1, 2))
    """

    def __init__(self, p: int) -> None:
        if p < 1:
            raise ValueError(f"a class has at least one level, not {p}")
        self.p = p

    def size(self, level: int) -> int:
        return 1 << level // self.p

    def first(self, level: int) -> int:
        """The smallest distance of a level."""
        c, r = divmod(level, self.p)
        return ((self.p + r) << c) - self.p + 1

    def last(self, level: int) -> int:
        """The largest distance of a level."""
        return self.first(level) + self.size(level) - 1

    def of(self, distance: int) -> int:
        """The level of a distance."""
        # first(c p + r) + p - 1 = (p + r) 2^c: its leading part lies between p and 2 p.
        shifted = distance + self.p - 1
        c = (shifted // self.p).bit_length() - 1
        return c * self.p + (shifted >> c) - self.p

    def full(self, distance: int) -> int:
        """How many levels lie wholly within a distance, which is as many as a substream of that length stores."""
        return self.of(distance + 1)

    def stored(self, length: int, level: int) -> int | None:
        """The position that stands for a level after `length` units."""
        c, r = divmod(level, self.p)
        position = (((length + self.p) >> c) - self.p - r) << c
        return position if position > 0 else None

    def above(self, v: int) -> int:
        """The level that answers > v: the highest one without a distance beyond v, else level 0."""
        # Figure 7 says floor(log2 v) - 1 for p = 1, which for v = 2^j - 1 is one level lower than need be.
        return max(0, self.full(v - 1 if self.p == 1 else v) - 1) if v > 0 else 0

    def below(self, v: int) -> int:
        """The level that answers < v: the lowest one without a distance before v."""
        level = self.of(max(v, 1))
        return level if self.first(level) >= v else level + 1

    @property
    def epsilon(self) -> Fraction:
        """What a look-up returns for > v is more than v (1 - epsilon)."""
        return max(Fraction(2, self.p + 2), Fraction(3, 2 * self.p + 2))

    @property
    def excess(self) -> Fraction:
        """What a look-up returns for < v is less than v (1 + excess): 4 v for p = 1, (1 + 2/p) v beyond."""
        # The unit that stands for level `below(v)` is outside the window, so the window has fewer than last(below(v))
        # units. Against v > first(below(v) - 1) that is 2/p more inside a class and 3/(2p - 1) across two.
        return max(Fraction(2, self.p), Fraction(3, 2 * self.p - 1))
