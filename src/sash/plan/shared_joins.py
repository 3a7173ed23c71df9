"""Aggregates over a join of two windows that slide: the part that is the same for other windows.

    SELECT MAX(S.a) FROM S [WINDOW 7 min SLIDE 1 min], T [WINDOW 8 min SLIDE 1 min] WHERE S.b = T.b

    Sampled <- Project <- HAVING <- GroupBy <- Project <- Filter <- Join <- Window S, 7 min
                                                                     ^----- Window T, 8 min

Queries with the same join, whatever their windows, aggregates and SLIDEs, are answered from the rows of one join over
the longest windows. Each row carries the expiries of its two tuples, from which their timestamps follow:

    Results <- Project (the columns of all of them, both expiries) <- Filter <- Join <- Expiry <- Window S, longest
                                                                                 ^----- Expiry <- Window T, longest

For comparison, queries are rewritten alike: the same names, the same side first.

    FROM S [..] a, T [..] b WHERE a.k = b.k        ──►   S, T   S.k = T.k
    FROM T [..] x, S [..] y WHERE y.k = x.k        ──►   S, T   S.k = T.k
    FROM S [..] x, S [..] y WHERE x.v < 3 AND ..   ──►   S1, S2, whichever has the condition

A column is named by its stream and its expression, whatever its alias was. The texts of the two possible skeletons
decide which side is the first; if they are equal, both sides are alike, and the question decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Filter, GroupBy, Join, Map, Node
from sash.plan.expressions import Call, Expression, Field, RowExpression, substituted
from sash.plan.nodes import AggregateCall, AnswerOrder, Key, Output
from sash.plan.outputs import Outliving, Sampled, Stamped
from sash.plan.periodic import PeriodicAggregate
from sash.plan.reach import Reach

_ANY = TimeWindow(0)
Columns = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class WrittenJoin:
    """An aggregate over a join: the join of two windows, further conditions on pairs, columns of pairs, the question.

    Keys and arguments of the question are columns by their names.
    """

    join: Join
    condition: Expression | None
    columns: Columns
    query: PeriodicAggregate


def canonical(written: WrittenJoin) -> WrittenJoin:
    """The same for all queries that differ only in aliases and in the order of the two sides."""
    return min((_named(written), _named(_swapped(written))), key=_text)


def skeleton(join: Join, condition: Expression | None) -> tuple[Hashable, ...]:
    """The part of a join that is the same for other windows and other columns."""
    sides = (replace(_base_window(side), window=_ANY, columns=()) for side in (join.left, join.right))
    return (*sides, join.keys, condition)


def _text(written: WrittenJoin) -> tuple[str, str]:
    return repr(skeleton(written.join, written.condition)), repr(written)


def _base_window(node: object) -> BaseWindow:
    assert isinstance(node, BaseWindow)
    return node


def _swapped(written: WrittenJoin) -> WrittenJoin:
    join = written.join
    keys = tuple((other, one) for one, other in join.keys)
    return replace(written, join=Join(join.right, join.left, keys))


def _named(written: WrittenJoin) -> WrittenJoin:
    """With names that follow from the streams and the order of the sides."""
    sides = [_base_window(written.join.left), _base_window(written.join.right)]
    alike = sides[0].stream.lower() == sides[1].stream.lower()
    renamed: dict[str, str] = {}
    named: list[BaseWindow] = []
    for number, side in enumerate(sides, 1):
        alias = f"{side.stream}{number}" if alike else side.stream
        columns = tuple(Column(f"{alias}.{column.expression.sql}", column.expression) for column in side.columns)
        renamed |= {before.name: after.name for before, after in zip(side.columns, columns, strict=True)}
        named.append(replace(side, alias=alias, columns=columns))
    keys = sorted((renamed[one], renamed[other]) for one, other in written.join.keys)
    condition = None if written.condition is None else _expression(written.condition, renamed)
    columns_above, made = _columns(written.columns, renamed)
    return WrittenJoin(Join(named[0], named[1], tuple(keys)), condition, columns_above, _question(written.query, made))


def _columns(columns: Columns, renamed: Mapping[str, str]) -> tuple[Columns, dict[str, str]]:
    """The columns of pairs, each named after its contents; and their new names by the old ones."""
    found: dict[str, Expression] = {}
    names: dict[str, str] = {}
    for before, made in columns:
        expression = _expression(made, renamed)
        name = str(expression)
        # The texts do not show the type of a constant.
        while found.setdefault(name, expression) != expression:
            name += "'"
        names[before] = name
    return tuple(found.items()), names


def _expression(expression: Expression, renamed: Mapping[str, str]) -> Expression:
    if isinstance(expression, Field):
        return replace(expression, name=renamed[expression.name])
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_expression(part, renamed) for part in expression.arguments))
    return expression


def _question(query: PeriodicAggregate, made: Mapping[str, str]) -> PeriodicAggregate:
    """The question with new column names; names of keys and aggregates stay, the answer's expressions use them."""

    def column(expression: RowExpression) -> RowExpression:
        name = made[expression.sql]
        return replace(expression, sql=name, columns=(name,))

    keys = tuple(replace(key, expression=column(key.expression)) for key in query.keys)
    calls = tuple(
        call if call.argument is None else replace(call, argument=column(call.argument)) for call in query.calls
    )
    return replace(query, keys=keys, calls=calls)


# The columns of the shared rows with the expiries of the tuples of the two windows.
FIRST, SECOND = "first expires", "second expires"
T = TypeVar("T")


@dataclass(frozen=True)
class JoinedAggregate:
    """One query: the join, the columns of its groups, and its question.

    `canonical` gives all names and the first side, however the query was written.
    """

    join: Join
    condition: Expression | None
    columns: tuple[tuple[str, Expression], ...]
    query: PeriodicAggregate
    slide: int
    offset: int

    def in_order(self, order: AnswerOrder) -> JoinedAggregate:
        """The same query with ORDER BY and LIMIT, over the columns of its answer."""
        made = {output.name: output.expression for output in self.query.outputs}
        keys = tuple(replace(key, expression=substituted(key.expression, made)) for key in order.keys)
        return replace(self, query=replace(self.query, order=keys, limit=order.limit))

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
        """The columns that are no plain columns of the streams: computing them may fail."""
        plain = [name for name, made in self.columns if isinstance(made, Field)]
        made = [column for column in self.columns if column[0] not in plain]
        read = [column for column in self.window_columns if column[1].sql not in column[1].columns]
        return (tuple(sorted(made, key=repr)), tuple(sorted(read, key=repr)))

    @cached_property
    def skeleton(self) -> Hashable:
        """The common part of queries that share a join: everything but the windows' lengths and columns."""
        return (*skeleton(self.join, self.condition), self.offset)


def _window(node: Node) -> BaseWindow:
    assert isinstance(node, BaseWindow)
    return node


def joined_aggregate(plan: Node) -> JoinedAggregate | None:
    """The aggregate of a plan, if it is one over a join of two windows that slide; None otherwise."""
    if not isinstance(plan, Sampled) or plan.restore or not isinstance(plan.input, Map):
        return None
    grouped, having = _below_filter(plan.input.input)
    if not isinstance(grouped, GroupBy):
        return None
    computed = grouped.input.outputs if isinstance(grouped.input, Map) else _plain(grouped)
    rows, condition = _below_filter(grouped.input.input if isinstance(grouped.input, Map) else grouped.input)
    if not isinstance(rows, Join) or not all(_slides(side) for side in (rows.left, rows.right)):
        return None
    found = canonical(WrittenJoin(rows, condition, computed, _asked(grouped, having, plan.input.outputs)))
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
    """The same question over a window: groups and aggregates of existing columns."""
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

    Each comes once and is never taken back: its receiver knows when it ends, and nobody else has to.
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
