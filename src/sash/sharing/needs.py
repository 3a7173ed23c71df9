"""The aggregates of a query: the partials that each needs of every pane, and its name in the words of the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import repeat

from sash.panes.answers import Finisher
from sash.panes.covered import CoveredPredicate
from sash.panes.partials import Partial
from sash.panes.readers import CoarserReader, ItemReader, PlainReader, Reader
from sash.plan.expressions import RowExpression
from sash.plan.nodes import AggregateCall
from sash.plan.periodic import PeriodicAggregate

# The rules' words for aggregates, where they differ from ours.
_WORDS = {
    "mean": "AVG",
    "avg": "AVG",
    "count_distinct": "COUNT DISTINCT",
    "quantile_cont": "QUANTILE",
    "mode": "TOP K",
    "count_min": "TOP K",
}
_AVERAGES = frozenset(name for name, word in _WORDS.items() if word == "AVG")
# The data that aggregates need of every pane, where that is not what they are called.
_DATA = {"AVG": "SUM and COUNT", **dict.fromkeys(("QUANTILE", "MEDIAN", "TOP K", "COUNT DISTINCT"), "COUNTERS")}
# The most names in a sentence.
_LISTED = 5


def listed(words: Iterable[str]) -> str:
    """
    >>> listed(["a"]), listed("abab"), listed("abcdefgh")
    ('a', 'a and b', 'a, b, c, d, e and 3 more')
    """
    *most, last = dict.fromkeys(words)
    if len(most) > _LISTED:
        most, last = most[:_LISTED], f"{len(most) + 1 - _LISTED} more"
    return f"{', '.join(most)} and {last}" if most else last


@dataclass(frozen=True, slots=True)
class Need:
    """One aggregate of a reading, and its partials. Without a call it needs to know which groups have rows."""

    leaf: PeriodicAggregate
    call: AggregateCall | None
    partials: tuple[Partial, ...]
    is_average: bool = False

    @property
    def parts(self) -> tuple[Need, ...]:
        """An AVG is combined like its sum and its count."""
        if self.call is None or not self.is_average:
            return (self,)
        sums, counts = (
            replace(self, call=replace(self.call, function=name), is_average=False) for name in ("sum", "count")
        )
        return sums, counts

    @property
    def text(self) -> str:
        """`AVG of v by (k)`."""
        return f"{self._aggregate} of {self._argument}"

    @property
    def _aggregate(self) -> str:
        if self.call is None:
            return "COUNT"
        return "TOP K" if self._is_counted else _WORDS.get(self.call.function, self.call.function.upper())

    @property
    def _is_counted(self) -> bool:
        """Whether counters suffice: a list by count needs its items' counters, a list by weight the weights' sums."""
        return self.leaf.items is not None and self.call is not None and self.call.function != "sum"

    @property
    def _argument(self) -> str:
        """The subject of the aggregate: its argument, within its groups."""
        keys = [key.expression.sql for key in self.leaf.keys]
        if self._is_counted:
            *keys, argument = keys
        else:
            argument = "*" if self.call is None or self.call.argument is None else self.call.argument.sql
        return f"{argument} by ({', '.join(sorted(keys))})" if keys else argument

    @property
    def _data(self) -> str:
        return _DATA.get(self._aggregate, self._aggregate)

    def _named(self, data: str, predicate: RowExpression | None) -> str:
        return f"{data} of {self._argument}" if predicate is None else f"{data} of {self._argument} where {predicate}"

    # -- why, in a sentence ----------------------------------------------------------------------------

    def why_stored(self) -> str:
        where = self.leaf.predicate if self.call is None else self.call.where(self.leaf.predicate)
        if self.is_average:
            sums, counts = (self._named(data, where) for data in ("SUM", "COUNT"))
            return f"{sums} and {counts} have the sum and the count of the same panes"
        return f"the basic interval synopsis {self._named(self._data, where)} has {self._data} of every pane"

    def why_combined(self, covered: CoveredPredicate) -> str:
        added, less = ([self._named(self._data, each) for each in some] for some in (covered.added, covered.subtracted))
        if covered.overlaps:
            return f"the answer is {self._aggregate.lower()}({', '.join(added)})"
        return f"the answer is {' - '.join([' + '.join(added), *less])}"


def needs_of(finisher: Finisher) -> list[tuple[Need, ...]]:
    """The needs of a query in each of its readings."""
    return list(map(_needs, repeat(finisher.query), finisher.readers))


def _needs(leaf: PeriodicAggregate, reader: Reader) -> tuple[Need, ...]:
    partials = reader.reading.partials
    if isinstance(reader, CoarserReader):
        reader = reader.inner
    if isinstance(reader, PlainReader):
        found = [Need(leaf, call, each.parts, call.function in _AVERAGES) for call, each in reader.bound]
    else:
        calls = reader.calls if isinstance(reader, ItemReader) else leaf.calls
        found = [Need(leaf, call, partials) for call in calls]
    return tuple(found) or (Need(leaf, None, partials),)
