"""Aggregates over a join of two windows that slide: what of them is the same for other windows.

    SELECT MAX(S.a) FROM S [WINDOW 7 min SLIDE 1 min], T [WINDOW 8 min SLIDE 1 min] WHERE S.b = T.b

    Sampled <- Project <- HAVING <- GroupBy <- Project <- Filter <- Join <- Window S, 7 min
                                                                     ^----- Window T, 8 min

Queries with the same join, whatever their windows, aggregates and SLIDEs, are answered from the rows of one join over
the longest windows. Each row carries the expiries of its two tuples, from which their timestamps follow:

    Results <- Project (the columns of all of them, both expiries) <- Filter <- Join <- Expiry <- Window S, longest
                                                                                 ^----- Expiry <- Window T, longest
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from sash.core.window import TimeWindow
from sash.plan.canonical_joins import Written, canonical, skeleton
from sash.plan.continuous import BaseWindow, Column, Filter, GroupBy, Join, Map, Node
from sash.plan.expressions import Expression, Field, RowExpression
from sash.plan.nodes import AggregateCall, Key, Output
from sash.plan.outputs import Outliving, Sampled, Stamped
from sash.plan.periodic import PeriodicAggregate
from sash.plan.reach import Reach

# The columns of the shared rows that say when the tuples of the two windows expire.
FIRST, SECOND = "first expires", "second expires"
_ANY = TimeWindow(0)
T = TypeVar("T")


@dataclass(frozen=True)
class JoinedAggregate:
    """One query: the join, the columns that its groups are made of, and what it asks of them.

    All names, and which side is the first, are as `canonical_joins` has them, however the query was written.
    """

    join: Join
    condition: Expression | None
    columns: tuple[tuple[str, Expression], ...]
    query: PeriodicAggregate
    slide: int
    offset: int

    @property
    def exactly(self) -> bool:
        return _window(self.join.left).window.exactly

    @property
    def windows(self) -> tuple[int, int]:
        return (_window(self.join.left).window.length, _window(self.join.right).window.length)

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        sides = (_window(self.join.left), _window(self.join.right))
        return tuple(Reach(side.stream.lower(), side.window.length) for side in sides)

    @property
    def window_columns(self) -> tuple[tuple[str, RowExpression], ...]:
        sides = (_window(self.join.left), _window(self.join.right))
        return tuple((column.name, column.expression) for side in sides for column in side.columns)

    @cached_property
    def computed(self) -> Hashable:
        """The columns that are more than columns of the streams: what is computed may fail."""
        plain = [name for name, made in self.columns if isinstance(made, Field)]
        made = [column for column in self.columns if column[0] not in plain]
        read = [column for column in self.window_columns if column[1].sql not in column[1].columns]
        return (tuple(sorted(made, key=repr)), tuple(sorted(read, key=repr)))

    @cached_property
    def skeleton(self) -> Hashable:
        """What queries have in common that share a join: everything but the windows' lengths and columns."""
        return (*skeleton(self.join, self.condition), self.offset)


def _window(node: Node) -> BaseWindow:
    assert isinstance(node, BaseWindow)
    return node


def joined_aggregate(plan: Node) -> JoinedAggregate | None:
    """What a plan asks, if it is an aggregate over a join of two windows that slide; None otherwise."""
    if not isinstance(plan, Sampled) or plan.restore or not isinstance(plan.input, Map):
        return None
    grouped, having = _below_filter(plan.input.input)
    if not isinstance(grouped, GroupBy):
        return None
    computed = grouped.input.outputs if isinstance(grouped.input, Map) else _plain(grouped)
    rows, condition = _below_filter(grouped.input.input if isinstance(grouped.input, Map) else grouped.input)
    if not isinstance(rows, Join) or not all(_slides(side) for side in (rows.left, rows.right)):
        return None
    found = canonical(Written(rows, condition, computed, _asked(grouped, having, plan.input.outputs)))
    return JoinedAggregate(found.join, found.condition, found.columns, found.query, plan.slide, plan.offset)


def _below_filter(node: Node) -> tuple[Node, Expression | None]:
    return (node.input, node.condition) if isinstance(node, Filter) else (node, None)


def _slides(node: Node) -> bool:
    return (
        isinstance(node, BaseWindow)
        and isinstance(node.window, TimeWindow)
        and not (node.window.unbounded or node.internal or node.partition)
    )


def _plain(grouped: GroupBy) -> tuple[tuple[str, Expression], ...]:
    arguments = [call.argument for call in grouped.calls if call.argument is not None]
    names = dict.fromkeys([*grouped.keys, *arguments])
    return tuple((name, Field(name, grouped.input.schema.field(name).type)) for name in names)


def _asked(
    grouped: GroupBy, having: Expression | None, outputs: tuple[tuple[str, Expression], ...]
) -> PeriodicAggregate:
    """The same question as of a window: groups and aggregates of columns that are there already."""
    schema = grouped.input.schema

    def column(name: str) -> RowExpression:
        return RowExpression(name, schema.field(name).type, (name,))

    calls = tuple(
        AggregateCall(call.name, call.function, column(call.argument) if call.argument is not None else None, call.type)
        for call in grouped.calls
    )
    return PeriodicAggregate(
        stream="",
        window=_ANY,
        predicate=None,
        keys=tuple(Key(name, column(name)) for name in grouped.keys),
        calls=calls,
        having=having,
        order=(),
        limit=None,
        outputs=tuple(Output(name, expression) for name, expression in outputs),
    )


def shared_rows(queries: Sequence[JoinedAggregate]) -> Outliving | None:
    """The rows that answer queries of one skeleton, over the longest windows; None where names clash.

    Each comes once and is never taken back: whoever takes it up knows when it ends, and nobody else has to.
    """
    sides = [
        (_merged(_window(query.join.left) for query in queries), FIRST),
        (_merged(_window(query.join.right) for query in queries), SECOND),
    ]
    columns = _union(column for query in queries for column in query.columns)
    if columns is None or any(window is None for window, _ in sides):
        return None
    left, right = (Stamped(window, name) for window, name in sides if window is not None)
    rows: Node = Join(left, right, queries[0].join.keys)
    if (condition := queries[0].condition) is not None:
        rows = Filter(rows, condition)
    return Outliving(Map(rows, (*columns, *((name, Field(name, pa.int64())) for name in (FIRST, SECOND)))))


def _merged(windows: Iterable[BaseWindow]) -> BaseWindow | None:
    """One window with the columns of several, as long as the longest."""
    every = list(windows)
    columns = _union((column.name, column.expression) for window in every for column in window.columns)
    if columns is None:
        return None
    longest = TimeWindow(max(window.window.length for window in every))
    return replace(every[0], window=longest, columns=tuple(Column(name, made) for name, made in columns))


def _union(columns: Iterable[tuple[str, T]]) -> tuple[tuple[str, T], ...] | None:
    """Named columns without repetition; None where one name stands for two."""
    found: dict[str, T] = {}
    for name, made in columns:
        if found.setdefault(name, made) != made:
            return None
    return tuple(found.items())
