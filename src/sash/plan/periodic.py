"""One flat view of a periodic aggregate's plan, for the layers that compile and execute it."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(output.name, output.expression.type) for output in self.outputs])


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
