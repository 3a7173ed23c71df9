"""What the sharing rules say about a query and those that are registered: the sentences of EXPLAIN.

The engine stores partials of pane tables; the rules speak of synopses of one aggregate's data. This is the translation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sash.plan.expressions import RowExpression
from sash.plan.nodes import AggregateCall
from sash.plan.periodic import PeriodicAggregate
from sash.plan.predicates import EVERYTHING, Disjunction, opaque
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.group_schedule import identity_of
from sash.sharing.choose import CLUSTER
from sash.sharing.rules import (
    Decision,
    Kind,
    QueryDescription,
    SynopsisDescription,
    may_compute_together,
    may_share_state,
    shares_output,
)

# The rules' words for aggregates that need more than a number per pane: the counts of single values.
_COUNTED = {
    "count_distinct": "COUNT DISTINCT",
    "median": "MEDIAN",
    "quantile": "QUANTILE",
    "quantile_cont": "QUANTILE",
    "mode": "TOP K",
    "count_min": "TOP K",
}


def describe(query: CompiledQuery, leaf: PeriodicAggregate, call: AggregateCall) -> QueryDescription:
    """One aggregate of a query, as the rules see it."""
    window = leaf.window
    return QueryDescription(
        query.name,
        _aggregate(leaf, call),
        _argument(leaf, call),
        (leaf.stream,),
        (window.length,),
        window.slide or 0,
        _where(leaf.predicate),
        by_rows=query.readings[0].table.by_rows,
    )


def _is_counted(leaf: PeriodicAggregate, call: AggregateCall) -> bool:
    """A list by count needs the counters of its items; one by weight the sums of its weights by item."""
    return leaf.items is not None and call.function != "sum"


def _aggregate(leaf: PeriodicAggregate, call: AggregateCall) -> str:
    return "TOP K" if _is_counted(leaf, call) else _COUNTED.get(call.function, call.function.upper())


def _argument(leaf: PeriodicAggregate, call: AggregateCall) -> str:
    """What an aggregate is about: its argument, within its groups."""
    *others, last = [key.expression.sql for key in leaf.keys] or [""]
    if not _is_counted(leaf, call):
        others, last = [*others, last], "*" if call.argument is None else call.argument.sql
    groups = ", ".join(sorted(filter(None, others)))
    return f"{last} by ({groups})" if groups else last


def _where(predicate: RowExpression | None) -> Disjunction:
    if predicate is None:
        return EVERYTHING
    return predicate.terms if predicate.terms is not None else opaque(predicate.sql)


class Synopses:
    """What the registered queries over one pane table keep, as the rules see it."""

    def __init__(self, mates: Sequence[CompiledQuery], kind: str, pane: int, panes: int) -> None:
        self._kind = Kind.BASIC_INTERVAL if kind in ("basic", CLUSTER) else Kind(kind)
        self._pane, self._panes = pane, panes
        self._by_id: dict[str, SynopsisDescription] = {}
        self.described = [each for mate in mates for each in descriptions(mate)]
        for each in self.described:
            # Beside its data every number is kept with its count, which tells whether there was one at all.
            for data in ("COUNTERS",) if each.data == "COUNTERS" else (_own_data(each), "COUNT"):
                self._keep(each, data)

    def _keep(self, query: QueryDescription, data: str) -> None:
        where = "" if query.where == EVERYTHING else f" where {query.where}"
        name = f"{data} of {query.argument}{where}"
        self._by_id[name] = SynopsisDescription(
            name,
            self._kind,
            data,
            query.argument,
            query.streams,
            self._pane,
            self._panes,
            where=query.where,
            by_rows=query.by_rows,
        )

    def parts(self, query: QueryDescription) -> list[QueryDescription]:
        """An AVG whose predicate nobody has is put together like its sum and its count (SS4)."""
        if query.aggregate != "AVG" or any(each.where == query.where for each in self.relevant_to(query)):
            return [query]
        return [replace(query, aggregate=aggregate) for aggregate in ("SUM", "COUNT")]

    def relevant_to(self, query: QueryDescription) -> list[SynopsisDescription]:
        """Those that may answer a query: of its own predicate, or of one that shares terms with it, or else of any."""
        wanted = ("SUM", "COUNT") if query.aggregate == "AVG" else (query.data,)
        alike = [each for each in self._by_id.values() if each.data in wanted and each.argument == query.argument]
        return [each for each in alike if each.where == query.where] or _related(query, alike) or alike


def _related(query: QueryDescription, synopses: Sequence[SynopsisDescription]) -> list[SynopsisDescription]:
    """Those that may be part of a cover: with a term of the query's, or with a term that would come with such a one."""
    terms = frozenset(query.where.terms)
    added = [each for each in synopses if not terms.isdisjoint(each.where.terms)]
    terms = terms.union(*(each.where.terms for each in added))
    return [each for each in synopses if not terms.isdisjoint(each.where.terms)]


def _own_data(query: QueryDescription) -> str:
    return "SUM" if query.aggregate == "AVG" else query.data


def descriptions(query: CompiledQuery) -> list[QueryDescription]:
    return [describe(query, leaf, call) for leaf in query.leaves for call in leaf.calls]


def state_rulings(query: CompiledQuery, synopses: Synopses) -> Iterator[tuple[str, Decision]]:
    """For each aggregate of a query, which rule lets it use what is kept already."""
    if any(leaf.window.unbounded for leaf in query.leaves):
        # The rules speak of windows of so many panes.
        return
    for mine in dict.fromkeys(part for each in descriptions(query) for part in synopses.parts(each)):
        text = f"{mine.aggregate} of {mine.argument}"
        relevant = synopses.relevant_to(mine)
        yield text, may_share_state(mine, relevant) if relevant else Decision("", False, "nobody keeps its data yet")


def computation_ruling(query: CompiledQuery, synopses: Synopses) -> Decision | None:
    """Why a query is executed together with those that keep the same data; None: nobody does."""
    for mine in (part for each in descriptions(query) for part in synopses.parts(each)):
        relevant = synopses.relevant_to(mine)
        kept = {(each.argument, each.where) for each in relevant}
        alike = [each for each in synopses.described if (each.argument, each.where) in kept]
        mates = [each for each in alike if each.data == mine.data or "AVG" in (each.aggregate, mine.aggregate)]
        if mates and may_share_state(mine, relevant).allowed:
            return may_compute_together([*mates, mine], relevant)
    return None


def output_ruling(query: CompiledQuery, mates: Sequence[CompiledQuery]) -> Decision | None:
    """The identical query whose output a query would read (CS8), or which would read its."""
    identity = identity_of(query)
    same = [mate for mate in mates if identity_of(mate) == identity]
    asked = descriptions(query)
    if not same or not asked:
        return None
    fastest = min(same, key=lambda mate: (mate.slide or 0, mate.serial))
    return shares_output(descriptions(fastest)[0], asked[0])
