"""One flat view of a periodic query's plan, for the layers that compile and execute it.

A query is one `PeriodicAggregate`, or a `Composition` of the answers of several, all as of one time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sash.core.interned import InternedValue
from sash.core.window import TimeWindow, Window
from sash.plan.expressions import Expression, RowExpression
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    AnswerFilter,
    AnswerJoin,
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

# The window of a shape.
_ANY_WINDOW = TimeWindow(0)


@dataclass(frozen=True)
class PeriodicAggregate:
    """The clauses of a periodic (or one-time) aggregate, one field per clause.

    With `items` the last key is the item and the only call its count or weight.
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

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(output.name, output.expression.type) for output in self.outputs])

    @cached_property
    def shape(self) -> Shape:
        """The query without its window: over the same window, queries of one shape have one answer.

        FREQUENT cuts its window into sub-windows by its own SLIDE, so there the window belongs to the shape.
        """
        if self.items is not None and self.items.function == "frequent":
            return Shape(self)
        return Shape(replace(self, window=_ANY_WINDOW))


@dataclass(frozen=True)
class ItemRule:
    """Which items of each group an answer lists: see `nodes.Items`."""

    function: str
    count: int | None
    bounds: bool


@dataclass(frozen=True)
class Composition:
    """The answers of several aggregates joined into one; `leaves` are in the order of the plan's aliases."""

    plan: Project
    leaves: tuple[PeriodicAggregate, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(output.name, output.expression.type) for output in self.plan.outputs])


PeriodicQuery = PeriodicAggregate | Composition


@dataclass(frozen=True, eq=False)
class Shape(InternedValue):
    """The common part of queries over different windows."""

    query: PeriodicAggregate


def flatten(plan: Project) -> PeriodicQuery:
    derived = list(sub_queries(plan))
    if not derived:
        return _aggregate(plan)
    leaves = [flatten(each.input) for each in derived]
    assert all(isinstance(leaf, PeriodicAggregate) for leaf in leaves), "sub-queries of sub-queries do not bind"
    return Composition(plan, tuple(leaf for leaf in leaves if isinstance(leaf, PeriodicAggregate)))


def leaves(query: PeriodicQuery) -> tuple[PeriodicAggregate, ...]:
    return query.leaves if isinstance(query, Composition) else (query,)


def sub_queries(node: Node) -> list[Subquery]:
    """The sub-queries of a FROM clause, from left to right; none of an aggregate over a stream."""
    if isinstance(node, Subquery):
        return [node]
    if isinstance(node, AnswerJoin):
        return [*sub_queries(node.left), node.right]
    if isinstance(node, Project | Limit | Sort | AnswerFilter):
        return sub_queries(node.input)
    return []


def _aggregate(plan: Project) -> PeriodicAggregate:
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
    )
