"""One flat view of a periodic query's plan, for the layers that compile and execute it.

A query is one `PeriodicAggregate`, or a `Composition` of the answers of several, all as of one time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import pyarrow as pa

from sash.core.interned import InternedValue
from sash.core.window import WINDOW_COLUMNS, Window
from sash.plan.expressions import Expression, RowExpression, columns_in
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    AnswerFilter,
    AnswerJoin,
    AnswerProbe,
    AnswerUnion,
    AnswerWindow,
    Having,
    Items,
    Key,
    Limit,
    Lookup,
    Node,
    Output,
    Project,
    Sort,
    SortKey,
    StreamScan,
    StreamWindow,
    Subquery,
    WindowFilter,
)

# All clauses of an aggregate but its window.
_OTHER_CLAUSES = attrgetter(
    "stream", "predicate", "keys", "calls", "having", "order", "limit", "outputs", "partition", "items", "approximate",
    "lookups", "finest", "time",
)  # fmt: skip


@dataclass(frozen=True)
class PeriodicAggregate:
    """The clauses of a periodic (or one-time) aggregate, one field per clause.

    With `items` the last key is the item and the only call its count or weight. `counters`: COUNT_MIN may read counters
    (panes/counters.py) instead of the counts of all values. `finest`: the keys of the pane table, where
    a grouping set has fewer. `time` is the event time, if the window is one of sessions.
    """

    stream: str
    window: Window
    predicate: RowExpression | None
    keys: tuple[Key, ...]
    calls: tuple[AggregateCall, ...]
    having: Expression | None
    order: tuple[SortKey, ...]
    limit: int | None
    outputs: tuple[Output, ...]
    partition: tuple[RowExpression, ...] = ()
    items: ItemRule | None = None
    approximate: bool = False
    lookups: tuple[Lookup, ...] = ()
    counters: bool = False
    finest: tuple[Key, ...] = ()
    time: RowExpression | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(output.name, output.expression.type) for output in self.outputs])

    @cached_property
    def window_columns(self) -> frozenset[str]:
        """The columns of its window that it reads."""
        read = [output.expression for output in self.outputs] + [key.expression for key in self.order]
        having = [] if self.having is None else [self.having]
        return WINDOW_COLUMNS.intersection(name for each in (*read, *having) for name in columns_in(each))

    @cached_property
    def shape(self) -> Shape:
        """The query without its window: over the same window, queries of one shape have one answer.

        `time` keeps sessions, whose answers have more columns, apart from other windows.
        FREQUENT cuts its window into sub-windows by its own SLIDE, so there the window belongs to the shape.
        """
        is_cut = self.items is not None and self.items.function == "frequent"
        return Shape(_OTHER_CLAUSES(self), self.window if is_cut else None)


@dataclass(frozen=True)
class ItemRule:
    """Which items of each group an answer lists: see `nodes.Items`."""

    function: str
    count: int | None
    bounds: bool


@dataclass(frozen=True)
class Composition:
    """An answer made of those of aggregates; `leaves` are in the order in which the plan has them."""

    plan: Project
    leaves: tuple[PeriodicAggregate, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(output.name, output.expression.type) for output in self.plan.outputs])


PeriodicQuery = PeriodicAggregate | Composition


@dataclass(frozen=True, eq=False)
class Shape(InternedValue):
    """The common part of queries over different windows."""

    clauses: tuple[Any, ...]
    window: Window | None


def flatten(plan: Project, counters: bool = False) -> PeriodicQuery:
    derived = list(sub_queries(plan))
    if not derived:
        return _aggregate(plan, counters)
    return Composition(plan, tuple(_aggregate(each.input, counters) for each in derived))


def leaves(query: PeriodicQuery) -> tuple[PeriodicAggregate, ...]:
    return query.leaves if isinstance(query, Composition) else (query,)


def sub_queries(node: Node) -> list[Subquery]:
    """The sub-queries over streams, from left to right; none of an aggregate over a stream."""
    if isinstance(node, Subquery):
        return sub_queries(node.input) or [node]
    if isinstance(node, AnswerJoin):
        return [each for side in (node.left, node.right) for each in sub_queries(side)]
    if isinstance(node, AnswerProbe):
        return [each for side in (node.input, node.query) for each in sub_queries(side)]
    if isinstance(node, AnswerUnion):
        return [each for part in node.parts for each in sub_queries(part)]
    if isinstance(node, Project | Limit | Sort | AnswerFilter | AnswerWindow):
        return sub_queries(node.input)
    return []


def _aggregate(plan: Project, counters: bool) -> PeriodicAggregate:
    found: dict[type, Node] = {}
    node: Node | None = plan
    while node is not None:
        found[type(node)] = node
        node = getattr(node, "input", None)
    aggregate, windowed, scan = found[Aggregate], found[StreamWindow], found[StreamScan]
    assert isinstance(aggregate, Aggregate) and isinstance(windowed, StreamWindow) and isinstance(scan, StreamScan)
    where, having, sort, limit = found.get(WindowFilter), found.get(Having), found.get(Sort), found.get(Limit)
    items = found.get(Items)
    return PeriodicAggregate(
        stream=scan.stream,
        window=windowed.window,
        predicate=where.predicate if isinstance(where, WindowFilter) else None,
        keys=aggregate.keys,
        calls=aggregate.calls,
        having=having.condition if isinstance(having, Having) else None,
        order=sort.keys if isinstance(sort, Sort) else (),
        limit=limit.count if isinstance(limit, Limit) else None,
        outputs=plan.outputs,
        partition=windowed.partition,
        items=ItemRule(items.function, items.count, items.bounds) if isinstance(items, Items) else None,
        approximate=isinstance(having, Having) and having.approximate,
        lookups=scan.lookups,
        counters=counters,
        finest=aggregate.finest,
        time=windowed.time,
    )
