"""What the queries of one pane table share, by the rules: its panes, its partials and its executions.

    pane table   the queries of a stream with the same grouping expressions read the same panes (SS1)
    partials     a query finds its partials stored (SS1, SS2), or combines them from others (SS4), or adds them
    executions   queries that read the same data are executed together (CS1 to CS3, CS6, CS7)

The rules speak of synopses of one aggregate's data; the runtime stores partials. This module translates, calls the
rules and returns their decisions. The runtime acts on the decisions and keeps them; EXPLAIN prints them.

The conditions of SS1, SS2 and SS4 about lengths hold by construction: all windows of a pane table are multiples of its
panes, and it keeps panes as long as its longest window. Predicates do not separate queries: a predicate becomes a
filtered partial of the same rows.

A cover (SS4) saves the space of a partial, and Spark the work of filling it; but an execution reads several partials
instead of one. `auto` weighs the two per pane: an own partial is filled from every tuple, a cover's parts are read
window by window.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from sash.panes.aggregates import HOLISTIC
from sash.panes.answers import Finisher
from sash.panes.covered import CoveredPredicate, can_be_covered
from sash.panes.partials import Partial
from sash.panes.readers import CoarserReader, ItemReader, PlainReader, Reader, aggregate_of
from sash.panes.readings import KeySet, Reading, TableName
from sash.plan.expressions import RowExpression
from sash.plan.nodes import AggregateCall
from sash.plan.periodic import PeriodicAggregate
from sash.plan.predicates import EVERYTHING, Conjunction, Disjunction, opaque
from sash.sharing.choose import Load
from sash.sharing.covers import Cover
from sash.sharing.rules import (
    Decision,
    Kind,
    QueryDescription,
    SynopsisDescription,
    may_compute_together,
    may_share_state,
    together_key,
)

# The rules' words for aggregates, where they differ from ours. Most need the counts of single values.
_WORDS = {
    "mean": "AVG",
    "count_distinct": "COUNT DISTINCT",
    "median": "MEDIAN",
    "quantile": "QUANTILE",
    "quantile_cont": "QUANTILE",
    "mode": "TOP K",
    "count_min": "TOP K",
}
# The assumed number of tuples in a pane before anything is known, and of tuples behind a row.
_TUPLES_PER_PANE = 1_000.0
_TUPLES_PER_ROW = 10.0


def synopsis_kind(kind: str) -> Kind:
    """The rules' name for a synopsis of pane tables."""
    return Kind.BASIC_INTERVAL if kind == "basic" else Kind(kind)


# -- queries in the words of the rules -----------------------------------------------------------------


@dataclass(frozen=True)
class Need:
    """One aggregate of a query, and the partials that every pane must store for it."""

    query: QueryDescription
    partials: tuple[Partial, ...]

    @property
    def text(self) -> str:
        return f"{self.query.aggregate} of {self.query.argument}"

    @property
    def parts(self) -> tuple[Need, ...]:
        """An AVG is combined like its sum and its count."""
        if self.query.aggregate != "AVG":
            return (self,)
        sums, counts = self.partials
        return (
            Need(replace(self.query, aggregate="SUM"), (sums, counts)),
            Need(replace(self.query, aggregate="COUNT"), (counts,)),
        )


def needs_of(name: str, finisher: Finisher) -> list[tuple[Need, ...]]:
    """The needs of a query in each of its readings: its aggregates; without aggregates, the rows of its groups."""
    return [_needs(name, finisher.query, reader) for reader in finisher.readers]


def _needs(name: str, leaf: PeriodicAggregate, reader: Reader) -> tuple[Need, ...]:
    reading = reader.reading
    calls = reader.calls if isinstance(reader, PlainReader | ItemReader | CoarserReader) else leaf.calls
    described = [
        Need(
            replace(
                _described(name, leaf, reading, _aggregate(leaf, call), _argument(leaf, call)),
                where=_where(call.where(leaf.predicate)),
            ),
            _lifted(leaf, call, reading),
        )
        for call in calls
    ]
    rows = Need(_described(name, leaf, reading, "COUNT", _within(leaf, "*")), reading.partials)
    return tuple(dict.fromkeys(described)) or (rows,)


def _lifted(leaf: PeriodicAggregate, call: AggregateCall, reading: Reading) -> tuple[Partial, ...]:
    if leaf.items is not None or call.function in HOLISTIC:
        return reading.partials
    return aggregate_of(call).lift(call.argument, call.where(leaf.predicate))


def _described(name: str, leaf: PeriodicAggregate, reading: Reading, aggregate: str, argument: str) -> QueryDescription:
    return QueryDescription(
        name,
        aggregate,
        argument,
        (leaf.stream,),
        (leaf.window.length,),
        leaf.window.slide or 0,
        _where(leaf.predicate),
        by_rows=reading.table.by_rows,
        sensitive=reading.sensitive,
        subtractable=all(partial.subtractable for partial in reading.partials),
        lag=leaf.window.lag,
    )


def _is_counted(leaf: PeriodicAggregate, call: AggregateCall) -> bool:
    """Whether counters suffice: a list by count needs its items' counters, a list by weight the weights' sums."""
    return leaf.items is not None and call.function != "sum"


def _aggregate(leaf: PeriodicAggregate, call: AggregateCall) -> str:
    return "TOP K" if _is_counted(leaf, call) else _WORDS.get(call.function, call.function.upper())


def _argument(leaf: PeriodicAggregate, call: AggregateCall) -> str:
    """The subject of an aggregate: its argument, within its groups."""
    if _is_counted(leaf, call):
        return _within(leaf, leaf.keys[-1].expression.sql, 1)
    return _within(leaf, "*" if call.argument is None else call.argument.sql)


def _within(leaf: PeriodicAggregate, argument: str, items: int = 0) -> str:
    groups = ", ".join(sorted(key.expression.sql for key in leaf.keys[: len(leaf.keys) - items]))
    return f"{argument} by ({groups})" if groups else argument


def _where(predicate: RowExpression | None) -> Disjunction:
    if predicate is None:
        return EVERYTHING
    return predicate.terms if predicate.terms is not None else opaque(predicate.sql)


def _synopsis(
    query: QueryDescription, where: Disjunction, pane: int, kind: Kind = Kind.BASIC_INTERVAL
) -> SynopsisDescription:
    """Stored data of one aggregate under a predicate, in panes that fit the query's window."""
    name = f"{query.data} of {query.argument}{'' if where == EVERYTHING else f' where {where}'}"
    (window,) = query.windows
    length = math.gcd(pane, window)
    return SynopsisDescription(
        name, kind, query.data, query.argument, query.streams, length, window // length, where=where,
        by_rows=query.by_rows,
    )  # fmt: skip


# -- state: SS1, SS2, SS4 ------------------------------------------------------------------------------


class StoredPartials:
    """The stored partials of a pane table, with the number of readings of each; their predicates are found by terms.

    The predicates of a cover have terms in common, so a search for a cover does not go through all predicates.
    """

    def __init__(self, partials: Iterable[Partial] = ()) -> None:
        self._readings: Counter[Partial] = Counter()
        # The predicates of a term, and the stored data of each predicate: kinds with their arguments.
        self._by_term: dict[Conjunction, dict[RowExpression, None]] = {}
        self._data: dict[RowExpression, set[tuple[str, RowExpression | None]]] = {}
        self.add(partials)

    def copy(self) -> StoredPartials:
        other = StoredPartials()
        other._readings = self._readings.copy()
        other._by_term = {term: dict(found) for term, found in self._by_term.items()}
        other._data = {predicate: set(data) for predicate, data in self._data.items()}
        return other

    def __contains__(self, partial: object) -> bool:
        return partial in self._readings

    def __iter__(self) -> Iterator[Partial]:
        return iter(self._readings)

    def among(self, partials: Iterable[Partial]) -> frozenset[Partial]:
        """Which of some partials are stored."""
        return frozenset(filter(self._readings.__contains__, partials))

    def readings(self, partial: Partial) -> int:
        """How many readings need a partial."""
        return self._readings[partial]

    def add(self, partials: Iterable[Partial]) -> None:
        for partial in partials:
            self._readings[partial] += 1
            if partial.predicate is not None:
                self._store(partial.predicate, partial)

    def _store(self, predicate: RowExpression, partial: Partial) -> None:
        if predicate not in self._data:
            self._data[predicate] = set()
            for term in _terms(predicate):
                self._by_term.setdefault(term, {})[predicate] = None
        self._data[predicate].add((partial.kind, partial.argument))

    def remove(self, partials: Iterable[Partial]) -> None:
        for partial in partials:
            self._readings[partial] -= 1
            if not self._readings[partial]:
                del self._readings[partial]
                if partial.predicate is not None:
                    self._forget(partial.predicate, partial)

    def _forget(self, predicate: RowExpression, partial: Partial) -> None:
        self._data[predicate].discard((partial.kind, partial.argument))
        if self._data[predicate]:
            return
        del self._data[predicate]
        for term in _terms(predicate):
            del self._by_term[term][predicate]
            if not self._by_term[term]:
                del self._by_term[term]

    def has(self, predicate: RowExpression, data: set[tuple[str, RowExpression | None]]) -> bool:
        """Whether partials of some kinds and arguments are stored under a predicate."""
        return data <= self._data[predicate]

    def predicates_with(self, terms: Iterable[Conjunction]) -> set[RowExpression]:
        """The predicates that have some of these terms."""
        return {predicate for term in terms for predicate in self._by_term.get(term, ())}


def _terms(predicate: RowExpression) -> tuple[Conjunction, ...]:
    return () if predicate.terms is None else predicate.terms.terms


@dataclass(frozen=True)
class StateSharing:
    """What a reading finds stored: the rules' decision about each aggregate, and the cover if one is used.

    `reason` says why a cover is used or not; `possible`: a cover was found. Whether a cover is used is SS4's decision.
    Equal partials are stored once, which SS1 and SS2 allow; these two are asked when somebody reads the decisions.
    """

    covered: CoveredPredicate | None = None
    reason: str = ""
    possible: bool = False
    _decide: Callable[[], tuple[tuple[str, Decision], ...]] = tuple

    @functools.cached_property
    def decisions(self) -> tuple[tuple[str, Decision], ...]:
        return self._decide()


UNSHARED = StateSharing()


def share_state(
    reading: Reading, needs: Callable[[], Sequence[Need]], stored: StoredPartials, load: Load, mode: str
) -> StateSharing:
    """How a reading is answered from stored partials, if that is possible; `mode` is auto, always or never."""
    usable = _usable(reading, stored)
    others = [(part, _combined(part, usable, load.pane)) for need in needs() for part in need.parts] if usable else []
    found = stored.among(reading.partials)
    covers = [decision.cover for _, decision in others if decision.allowed and decision.cover is not None]
    if not covers or len(covers) < len(others):
        reason = "no stored synopses have just its terms"
        return StateSharing(None, reason, False, functools.partial(_alone, needs, found, load.pane, dict(others)))
    covered = _covered(covers[0], usable)
    extra, own = _costs(reading, covered, load)
    costs = f"values per pane and group: {extra:.3g} read in addition, {own:.3g} written for its own synopsis"
    if mode == "always" or (mode == "auto" and extra <= own):
        return StateSharing(covered, costs, True, lambda: tuple((part.text, decision) for part, decision in others))
    reason = "share_predicates is 'never'" if mode == "never" else costs
    refused = {part: Decision("SS4", False, reason) for part, _ in others}
    return StateSharing(None, reason, True, functools.partial(_alone, needs, found, load.pane, refused))


def _combined(need: Need, usable: Iterable[RowExpression], pane: int) -> Decision:
    """Combine synopses of other predicates."""
    return may_share_state(need.query, [_synopsis(need.query, _where(each), pane) for each in usable])


def _alone(
    needs: Callable[[], Sequence[Need]], stored: frozenset[Partial], pane: int, refused: Mapping[Need, Decision]
) -> tuple[tuple[str, Decision], ...]:
    """Use synopses of the same predicate, for each aggregate whose partials were stored when the reading came."""
    found: dict[str, Decision] = {}
    for need in needs():
        if stored.issuperset(need.partials):
            own = [_synopsis(part.query, need.query.where, pane) for part in need.parts]
            found[need.text] = may_share_state(need.query, own)
        else:
            found[need.text] = refused.get(need.parts[0], Decision("", False, "no query before it keeps its data"))
    return tuple(found.items())


def _usable(reading: Reading, stored: StoredPartials) -> list[RowExpression]:
    """The other predicates that may be a part of a cover, and that store everything that the reading needs.

    An added predicate has a wanted term. A predicate that is taken back has only terms that were added before.
    """
    predicate = reading.partials[0].predicate
    if predicate is None or predicate.terms is None or all(partial in stored for partial in reading.partials):
        return []
    if any(partial.predicate != predicate for partial in reading.partials):
        return []  # A FILTER: no cover fits several conditions.
    # Short lists of conditions have not all items in common: they cannot be combined.
    if reading.table.lists is not None or not all(map(can_be_covered, reading.partials)):
        return []
    added = stored.predicates_with(_terms(predicate))
    related = stored.predicates_with(term for each in added for term in _terms(each)) - {predicate}
    data = {(partial.kind, partial.argument) for partial in reading.partials}
    return sorted((each for each in related if stored.has(each, data)), key=attrgetter("sql"))


def _covered(cover: Cover, usable: list[RowExpression]) -> CoveredPredicate:
    added, subtracted = (tuple(usable[i] for i in places) for places in (cover.added, cover.subtracted))
    return CoveredPredicate(added, subtracted, overlaps=cover.combine == "extreme")


def _costs(reading: Reading, covered: CoveredPredicate, load: Load) -> tuple[float, float]:
    """Values per pane and group: the additional ones that executions read, and those that are written otherwise."""
    parts = len(covered.added) + len(covered.subtracted)
    panes = 1.0 if reading.window.unbounded else reading.window.length / load.pane
    executions = load.pane / (reading.window.slide or load.pane)
    tuples = max(_TUPLES_PER_ROW, _TUPLES_PER_PANE / load.rows_per_pane)
    return (parts - 1) * panes * executions, 1 + tuples


# -- computation: CS1 to CS3, CS6, CS7 -----------------------------------------------------------------


def same_data(label: str, reading: Reading, related: Mapping[str, str]) -> str:
    """The data of a reading; `related` gives the first of a family of predicates."""
    arguments = sorted({partial.argument.sql for partial in reading.partials if partial.argument is not None})
    of = f" of {', '.join(arguments)}" if arguments else ""
    predicate = reading.partials[0].predicate
    where = "" if predicate is None else f" where {related.get(predicate.sql, predicate.sql)}"
    return f"{label}{of}{where}"


def similar(data: str, reading: Reading, kind: str) -> str:
    """The name of a reading's scheduling group: its data, and its window if the rules want equal windows."""
    return " ".join(map(str, (data, *together_key(synopsis_kind(kind), reading.spans[:1]).windows)))


def compute_together(
    data: str, kind: str, needs: Sequence[Need], covered: CoveredPredicate | None, mates: Sequence[Sequence[Need]]
) -> Decision:
    """Whether a query of some needs is executed together with others that read the same data."""
    for part in (part for need in needs for part in (need.parts if covered is not None else (need,))):
        wheres = [part.query.where] if covered is None else [*map(_where, (*covered.added, *covered.subtracted))]
        alike = [other.query for each in mates for other in each if _are_alike(part.query, other.query, wheres)]
        if alike:
            queries = [*dict.fromkeys(alike), part.query]
            return may_compute_together(queries, _synopses(queries, wheres, synopsis_kind(kind)))
    # Other aggregates of the same panes.
    queries = [_of_panes(each[0].query, data) for each in (*mates, needs)]
    (panes,) = _synopses(queries, [EVERYTHING], synopsis_kind(kind))
    return may_compute_together(queries, [replace(panes, id=data)])


def _are_alike(mine: QueryDescription, other: QueryDescription, wheres: Sequence[Disjunction]) -> bool:
    same, aggregates = other.argument == mine.argument and other.where in wheres, {other.aggregate, mine.aggregate}
    return same and (other.data == mine.data or ("AVG" in aggregates and aggregates <= {"AVG", "SUM", "COUNT"}))


def _synopses(
    queries: Sequence[QueryDescription], wheres: Iterable[Disjunction], kind: Kind
) -> list[SynopsisDescription]:
    mine, windows = queries[-1], [query.windows[0] for query in queries]
    divided = any(query.aggregate == "AVG" for query in queries)
    parts = [replace(mine, aggregate=each) for each in ("SUM", "COUNT")] if divided else [mine]
    found = [_synopsis(part, where, math.gcd(*windows), kind) for where in wheres for part in parts]
    return [replace(each, b=max(windows) // each.s) for each in found]


def _of_panes(query: QueryDescription, data: str) -> QueryDescription:
    return replace(query, aggregate="PANES", argument=data, where=EVERYTHING)


def families(readings: Iterable[Reading]) -> dict[str, str]:
    """Predicates whose synopses are read together, each with the first of its family."""
    family_of: dict[str, set[str]] = {}
    for reading in readings:
        together = {partial.predicate.sql for partial in reading.partials if partial.predicate is not None}
        known = {id(family): family for one in together if (family := family_of.get(one)) is not None}
        # The largest family takes the others in: so no predicate moves more than log2 of their number times.
        largest, *others = sorted([together, *known.values()], key=len, reverse=True)
        for family in others:
            largest |= family
            family_of |= dict.fromkeys(family, largest)
        family_of |= dict.fromkeys(together, largest)
    families = {id(family): family for family in family_of.values()}
    firsts = {which: min(family) for which, family in families.items()}
    return {predicate: firsts[id(family)] for predicate, family in family_of.items()}


@dataclass(frozen=True)
class PaneTable:
    """The partials that Spark computes for one grouping, for every pane and group, in canonical order."""

    name: TableName
    length: int
    partials: tuple[Partial, ...]

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def keys(self) -> KeySet:
        """The keys of the pass: those of the groups, then those that only PARTITION BY names."""
        return (*self.name.keys, *(key for key in self.name.partition if key not in self.name.keys))


def pane_table(name: TableName, length: int, partials: Iterable[Partial]) -> PaneTable:
    """The table for some readings; sorted, so that the same queries give the same pass."""
    return PaneTable(name, length, tuple(sorted(set(partials), key=lambda partial: partial.signature)))
