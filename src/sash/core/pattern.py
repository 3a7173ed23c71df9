"""Update patterns: in which order the results of a plan appear and disappear (thesis 3.2.1).

MONOTONIC   results never expire
WEAKEST     every result lives equally long: first in, first out
WEAK        a result's expiry is known when it appears, but lifetimes differ
STRICT      some results end at times that only later tuples decide: negative tuples announce them
"""

from __future__ import annotations

from enum import IntEnum


class UpdatePattern(IntEnum):
    """Ordered from the simplest to the most complex: the pattern of several inputs is their greatest."""

    MONOTONIC = 0
    WEAKEST = 1
    WEAK = 2
    STRICT = 3

    @property
    def label(self) -> str:
        """As the thesis and EXPLAIN write it."""
        return ("MON", "WKS", "WK", "STR")[self]
