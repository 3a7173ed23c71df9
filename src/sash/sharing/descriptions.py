"""Descriptions of queries and synopses for the sharing rules, and the rules' decisions.

Lengths are microseconds, or rows where windows count rows. A join has two streams and a window over each.

Conditions that several rules have; each gives the reason why it fails, or None if it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Generic, TypeVar

from sash.core.time import format_duration
from sash.plan.predicates import EVERYTHING, Disjunction
from sash.sharing.covers import Cover


class Kind(StrEnum):
    """The synopses of Figure 2.5, the landmark window's, and the join synopses of 8.3.2 in their generalized form.

    Panes in the cluster are files: one job reads the files of all windows that are due.
    """

    RUNNING = "running"
    INTERVAL = "interval"
    LANDMARK = "landmark"
    BASIC_INTERVAL = "basic_interval"
    CLUSTER = "cluster"
    RJ = "RJ"
    IJ = "IJ"
    BIJ = "BIJ"

    @property
    def words(self) -> str:
        return f"{self.value} synopsis".replace("_", " ")


JOINS = frozenset({Kind.RJ, Kind.IJ, Kind.BIJ})
# These are read from the youngest interval to the oldest, with the answers of shorter windows on the way.
SCANNED = frozenset({Kind.BASIC_INTERVAL, Kind.CLUSTER, Kind.BIJ})

_COUNTED = frozenset({"QUANTILE", "MEDIAN", "TOP K", "COUNT DISTINCT"})
_DUPLICATE_INSENSITIVE = frozenset({"MIN", "MAX"})
_SUBTRACTABLE = frozenset({"SUM", "COUNT"})
# The most names in a sentence.
_LISTED = 5


@dataclass(frozen=True)
class QueryDescription:
    """One aggregate of a query. `sensitive`: a row must not count twice. `subtractable`: a part can be taken back.

    If the two are None, the data of the aggregate decide.
    """

    id: str
    aggregate: str
    argument: str
    streams: tuple[str, ...]
    windows: tuple[int, ...]
    slide: int
    where: Disjunction = EVERYTHING
    by_rows: bool = False
    sensitive: bool | None = None
    subtractable: bool | None = None
    lag: int = 0

    @property
    def is_sensitive(self) -> bool:
        return self.data not in _DUPLICATE_INSENSITIVE if self.sensitive is None else self.sensitive

    @property
    def is_subtractable(self) -> bool:
        return self.data in _SUBTRACTABLE if self.subtractable is None else self.subtractable

    @cached_property
    def data(self) -> str:
        """The data that the aggregate needs per interval."""
        if self.aggregate == "AVG":
            return "SUM and COUNT"
        return "COUNTERS" if self.aggregate in _COUNTED else self.aggregate


@dataclass(frozen=True)
class SynopsisDescription:
    """`b` intervals of length `s`, updated at phase + i * s; the `g` oldest of a join synopsis hold three values.

    A join synopsis with more values apart than that, or with others, has `differences`: the least and the greatest
    difference between the lengths of its windows, in intervals, that it answers.
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
    """The rule that decided, its decision, and why, in a sentence for EXPLAIN.

    `cover` belongs to SS4: the places of the synopses that make up the answer, among the relevant ones.
    """

    rule: str
    allowed: bool
    reason: str
    cover: Cover | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        rule = f" ({self.rule})" if self.rule else ""
        return f"{'shared' if self.allowed else 'not shared'}{rule}: {self.reason}"


Asked = TypeVar("Asked")


@dataclass(frozen=True)
class Rule(Generic[Asked]):
    """`decide` gets a query (or several) and synopses, and returns None if the rule does not apply.

    A rule that is not always beneficial trades space for time: fewer synopses are kept, and more are read per answer.
    """

    name: str
    decide: Callable[[Asked, Synopses], Decision | None]
    always_beneficial: bool = True


def length_text(length: int, by_rows: bool) -> str:
    return f"{length} rows" if by_rows else format_duration(length)


def windows_text(query: QueryDescription) -> str:
    """`10 min`, with a LAG `10 min, 1 min ago`, of a join `(7 sec, 8 sec)`."""
    texts = [length_text(length, query.by_rows) for length in query.windows]
    ago = f", {length_text(query.lag, query.by_rows)} ago" if query.lag else ""
    return f"{texts[0]}{ago}" if len(texts) == 1 else f"({', '.join(texts)})"


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed("ab"), listed("abcdefgh")
    ('a', 'a and b', 'a, b, c, d, e and 3 more')
    """
    *most, last = words
    if len(most) > _LISTED:
        most, last = most[:_LISTED], f"{len(most) + 1 - _LISTED} more"
    return f"{', '.join(most)} and {last}" if most else last


def why_not_answered(query: QueryDescription, synopsis: SynopsisDescription) -> str | None:
    """Why this synopsis alone does not answer the query, predicates aside."""
    return why_not_relevant(query, synopsis) or why_too_short(query, synopsis)


def why_not_relevant(query: QueryDescription, synopsis: SynopsisDescription) -> str | None:
    """Why the synopsis has not the same data about the same input."""
    if (why := why_other_input(query, synopsis)) is not None or query.data == synopsis.data:
        return why
    return f"{query.aggregate} needs {query.data} of every pane, {synopsis.id} has {synopsis.data}"


def why_other_input(query: QueryDescription, synopsis: SynopsisDescription) -> str | None:
    """Why the input differs: another stream, another unit of windows, another argument."""
    if query.streams != synopsis.streams:
        return f"{synopsis.id} is over {listed(synopsis.streams)}, the query reads {listed(query.streams)}"
    if query.by_rows != synopsis.by_rows:
        units = ("rows", "time") if synopsis.by_rows else ("time", "rows")
        return f"the panes of {synopsis.id} are cut by {units[0]}, the query's window by {units[1]}"
    if query.argument != synopsis.argument:
        return f"{synopsis.id} is about {synopsis.argument}, the query about {query.argument}"
    return None


def why_too_short(query: QueryDescription, synopsis: SynopsisDescription) -> str | None:
    """Check that every window is n intervals, 1 <= n <= b; a join's windows also fit together (SS3)."""
    panes = f"panes of {length_text(synopsis.s, synopsis.by_rows)}"
    for window in query.windows:
        text = length_text(window, query.by_rows)
        if window <= 0 or window % synopsis.s:
            return f"window {text} is not a multiple of the {panes} that {synopsis.id} keeps"
        if window > synopsis.b * synopsis.s:
            return f"window {text} is longer than the {synopsis.b} {panes} that {synopsis.id} keeps"
    return _why_unequal(query, synopsis) if synopsis.kind in JOINS else None


def _why_unequal(query: QueryDescription, synopsis: SynopsisDescription) -> str | None:
    """SS3: windows of a join differ by one interval at most, and only within the g oldest intervals.

    As printed the rule allows any two lengths there. But the three values of an interval (all results, those without
    the first window's oldest tuples, those without the second's) are exact only for lengths one interval apart.
    """
    lengths = [window // synopsis.s for window in query.windows]
    joined = f"a join of windows of {listed(map(str, lengths))} panes"
    if synopsis.differences is not None:
        return _why_beyond(lengths[0] - lengths[-1], synopsis.differences, f"{joined} is not kept by {synopsis.id}")
    if len(set(lengths)) == 1:
        return None
    if min(lengths) < synopsis.b - synopsis.g:
        exact = f"the {synopsis.g} oldest of its {synopsis.b} panes" if synopsis.g else "no pane"
        return f"{joined} is not kept by {synopsis.id}, which tells windows apart in {exact}"
    if max(lengths) - min(lengths) > 1:
        return f"{joined} is not kept by {synopsis.id}, whose windows may differ by one pane"
    return None


def _why_beyond(difference: int, answered: tuple[int, int], what: str) -> str | None:
    low, high = answered
    if low <= difference <= high:
        return None
    kept = f"{low}" if low == high else f"{low} to {high}"
    return f"{what}, whose windows differ by {kept}, the first less the second"


def why_not_aligned(synopses: Synopses) -> str | None:
    """Why not: synopses whose answers are combined must be of exactly the same window."""
    first, *others = synopses
    for other in others:
        if other.s != first.s:
            lengths = listed(length_text(synopsis.s, synopsis.by_rows) for synopsis in (first, other))
            return f"{first.id} and {other.id} have panes of different lengths: {lengths}"
        if (other.phase - first.phase) % first.s:
            return f"{first.id} and {other.id} are updated at different times"
    return None
