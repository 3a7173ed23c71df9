"""One flat view of a periodic aggregate's plan, for the layers that compile and execute it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sash.core.window import TimeWindow
from sash.plan.expressions import Expression, RowExpression
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    Having,
    Key,
    Limit,
    Output,
    Project,
    Sort,
    SortKey,
    StreamScan,
    Windowed,
    chain,
)


@dataclass(frozen=True)
class PeriodicAggregate:
    """What a periodic (or one-time) aggregate asks, one field per clause."""

    stream: str
    window: TimeWindow
    predicate: RowExpression | None
    keys: tuple[Key, ...]
    calls: tuple[AggregateCall, ...]
    having: Expression | None
    order: tuple[SortKey, ...]
    limit: int | None
    outputs: tuple[Output, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(output.name, output.expression.type) for output in self.outputs])

    @cached_property
    def shape(self) -> Shape:
        """The query without its window: over the same window, queries of one shape have one answer."""
        return Shape(replace(self, window=TimeWindow(0)))


class Shape:
    """A query's shape as a dictionary key that is hashed once: executions look it up thousands of times a second."""

    def __init__(self, query: PeriodicAggregate) -> None:
        self._query = query
        self._hash = hash(query)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self is other or self._query == other._query)


def flatten(plan: Project) -> PeriodicAggregate:
    found = {type(node): node for node in chain(plan)}
    aggregate, windowed, scan = found[Aggregate], found[Windowed], found[StreamScan]
    assert isinstance(aggregate, Aggregate) and isinstance(windowed, Windowed) and isinstance(scan, StreamScan)
    where, having, sort, limit = found.get(Filter), found.get(Having), found.get(Sort), found.get(Limit)
    return PeriodicAggregate(
        stream=scan.stream,
        window=windowed.window,
        predicate=where.predicate if isinstance(where, Filter) else None,
        keys=aggregate.keys,
        calls=aggregate.calls,
        having=having.condition if isinstance(having, Having) else None,
        order=sort.keys if isinstance(sort, Sort) else (),
        limit=limit.count if isinstance(limit, Limit) else None,
        outputs=plan.outputs,
    )


def key_set(query: PeriodicAggregate) -> tuple[RowExpression, ...]:
    """The grouping expressions without order or repetition: queries with equal sets read one pane table."""
    return tuple(sorted({key.expression for key in query.keys}, key=lambda expression: expression.sql))
