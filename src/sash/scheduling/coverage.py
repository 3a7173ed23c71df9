"""How often one period falls on multiples of others: what lets a synchronised schedule share its scans.

Of the multiples of p, those that are multiples of q are every q / gcd(q, p)-th, wherever q lies; so what several
periods cover together is the density of a union of multiples:

    p = 6:        6   12   18   24   30   36   42   48 ...
    q = 4:            *         *         *         *       4 / gcd(4, 6) = 2: every second
    q = 9:                 *              *                 9 / gcd(9, 6) = 3: every third        left uncovered: 1/3

Nothing here walks through a least common multiple, which is astronomically long already for the periods 1 to 50.
Only ratios of periods count, so microseconds and days are alike. For thesis, section 8.4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache, lru_cache
from math import gcd

from sash.core.time import Micros

# Highly composite, so that the short steps, which cover the most, are counted without a remainder.
HORIZON = 5040
# Larger sets are counted within the horizon: inclusion and exclusion may double its work with every step.
EXACT_STEPS = 10


def uncovered(period: Micros, others: Iterable[Micros]) -> Fraction:
    """Which part of the multiples of a period are not multiples of any of the others.

    >>> uncovered(6, [4, 9]), uncovered(6, [5, 7]), uncovered(6, [3])
    (Fraction(1, 3), Fraction(24, 35), Fraction(0, 1))
    """
    steps = primitive(other // gcd(other, period) for other in others)
    return _exactly_uncovered(steps) if len(steps) <= EXACT_STEPS else _counted_uncovered(steps)


def primitive(steps: Iterable[int]) -> tuple[int, ...]:
    """The steps, ascending, without multiples of other steps: they cover nothing new.

    >>> primitive([6, 4, 2, 9, 2])
    (2, 9)
    """
    kept: list[int] = []
    for step in sorted(set(steps)):
        if all(step % shorter for shorter in kept):
            kept.append(step)
    return tuple(kept)


@lru_cache(maxsize=1 << 14)
def _exactly_uncovered(steps: tuple[int, ...]) -> Fraction:
    """By inclusion and exclusion: the longest step covers its share of what the others leave.

    Of its own multiples, that is; when it is coprime to the others, that share is the same everywhere.
    """
    if not steps:
        return Fraction(1)
    *others, longest = steps
    left = _exactly_uncovered(tuple(others))
    within = primitive(other // gcd(other, longest) for other in others)
    return left - (left if within == tuple(others) else _exactly_uncovered(within)) / longest


def _counted_uncovered(steps: tuple[int, ...]) -> Fraction:
    covered = 0
    for step in steps:
        covered |= multiples(step)
    return Fraction(HORIZON - covered.bit_count(), HORIZON)


def multiples(step: int) -> int:
    """The multiples of a step among the positions 1 to HORIZON, as the bits of an integer.

    >>> bin(multiples(2000))[2:] == "1" + "0" * 1999 + "1" + "0" * 2000
    True
    """
    return _short_multiples(step) if step <= HORIZON else 0


@cache
def _short_multiples(step: int) -> int:
    # A one in every step-th bit, by the sum of a geometric series.
    return (((1 << (HORIZON // step * step)) - 1) // ((1 << step) - 1)) << step
