"""What the sharing rules know of queries and synopses, and what they answer.

Lengths are microseconds, or rows where windows count rows. A join has two streams and a window over each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sash.core.time import format_duration
from sash.plan.predicates import EVERYTHING, Disjunction


class Kind(StrEnum):
    """The synopses of Figure 2.5, the landmark window's, and the join synopses of 8.3.2 in their generalized form."""

    RUNNING = "running"
    INTERVAL = "interval"
    LANDMARK = "landmark"
    BASIC_INTERVAL = "basic_interval"
    RJ = "RJ"
    IJ = "IJ"
    BIJ = "BIJ"

    @property
    def words(self) -> str:
        return f"{self.value} synopsis".replace("_", " ")


JOINS = frozenset({Kind.RJ, Kind.IJ, Kind.BIJ})
# Read from the youngest interval to the oldest, with the answers of shorter windows on the way.
SCANNED = frozenset({Kind.BASIC_INTERVAL, Kind.BIJ})

_COUNTED = frozenset({"QUANTILE", "MEDIAN", "TOP K", "COUNT DISTINCT"})
DUPLICATE_INSENSITIVE = frozenset({"MIN", "MAX"})
SUBTRACTABLE = frozenset({"SUM", "COUNT"})
# Nobody reads a sentence with more names than that.
_LISTED = 5


@dataclass(frozen=True)
class QueryDescription:
    id: str
    aggregate: str
    argument: str
    streams: tuple[str, ...]
    windows: tuple[int, ...]
    slide: int
    where: Disjunction = EVERYTHING
    by_rows: bool = False

    @property
    def data(self) -> str:
        """What it needs per interval."""
        if self.aggregate == "AVG":
            return "SUM and COUNT"
        return "COUNTERS" if self.aggregate in _COUNTED else self.aggregate


@dataclass(frozen=True)
class SynopsisDescription:
    """`b` intervals of length `s`, updated at phase + i * s; the `g` oldest of a join synopsis hold three values.

    A join synopsis that keeps more apart than that, or something else, says which `differences` between the lengths of
    its windows, in intervals, it answers: from the least to the greatest.
    """

    id: str
    kind: Kind
    data: str
    argument: str
    streams: tuple[str, ...]
    s: int
    b: int
    g: int = 0
    where: Disjunction = EVERYTHING
    phase: int = 0
    by_rows: bool = False
    differences: tuple[int, int] | None = None


Queries = Sequence[QueryDescription]
Synopses = Sequence[SynopsisDescription]


@dataclass(frozen=True)
class Decision:
    """The rule that decided, what it says, and why, in a sentence for EXPLAIN."""

    rule: str
    allowed: bool
    reason: str


Asked = TypeVar("Asked")


@dataclass(frozen=True)
class Rule(Generic[Asked]):
    """`decide` is given a query (or several) and synopses, and is silent (None) where the rule has nothing to say.

    A rule that is not always beneficial trades space for time: fewer synopses are kept, and more are read per answer.
    """

    name: str
    decide: Callable[[Asked, Synopses], Decision | None]
    always_beneficial: bool = True


def length_text(length: int, by_rows: bool) -> str:
    return f"{length} rows" if by_rows else format_duration(length)


def windows_text(query: QueryDescription) -> str:
    """`10 min`, of a join `(7 sec, 8 sec)`."""
    texts = [length_text(length, query.by_rows) for length in query.windows]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed("ab"), listed("abcdefgh")
    ('a', 'a and b', 'a, b, c, d, e and 3 more')
    """
    *most, last = words
    if len(most) > _LISTED:
        most, last = most[:_LISTED], f"{len(most) + 1 - _LISTED} more"
    return f"{', '.join(most)} and {last}" if most else last
