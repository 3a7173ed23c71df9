"""Aggregates over a join as if all had been written alike: the same names, the same side first.

    FROM S [..] a, T [..] b WHERE a.k = b.k        ──►   S, T   S.k = T.k
    FROM T [..] x, S [..] y WHERE y.k = x.k        ──►   S, T   S.k = T.k
    FROM S [..] x, S [..] y WHERE x.v < 3 AND ..   ──►   S1, S2, whichever has the condition

A column is named by its stream and its expression, whatever its alias was. Which side is the first is decided by the
texts of the two possible skeletons; where they are the same, both sides are alike, and by what is asked.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Join
from sash.plan.expressions import Call, Expression, Field, RowExpression
from sash.plan.periodic import PeriodicAggregate

_ANY = TimeWindow(0)
Columns = tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Written:
    """An aggregate over a join: the join of two windows, what else must hold of a pair, columns of pairs, the question.

    Keys and arguments of the question are columns by their names.
    """

    join: Join
    condition: Expression | None
    columns: Columns
    query: PeriodicAggregate


def canonical(written: Written) -> Written:
    """The same for all that differ in aliases and in the order of the two sides."""
    return min((_named(written), _named(_swapped(written))), key=_text)


def skeleton(join: Join, condition: Expression | None) -> tuple[Hashable, ...]:
    """What of a join is the same for other windows and other columns."""
    sides = (replace(_window(side), window=_ANY, columns=()) for side in (join.left, join.right))
    return (*sides, join.keys, condition)


def _text(written: Written) -> tuple[str, str]:
    return repr(skeleton(written.join, written.condition)), repr(written)


def _window(node: object) -> BaseWindow:
    assert isinstance(node, BaseWindow)
    return node


def _swapped(written: Written) -> Written:
    join = written.join
    keys = tuple((other, one) for one, other in join.keys)
    return replace(written, join=Join(join.right, join.left, keys))


def _named(written: Written) -> Written:
    """With names that follow from the streams and the order of the sides."""
    sides = [_window(written.join.left), _window(written.join.right)]
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
    return Written(Join(named[0], named[1], tuple(keys)), condition, columns_above, _question(written.query, made))


def _columns(columns: Columns, renamed: Mapping[str, str]) -> tuple[Columns, dict[str, str]]:
    """The columns of pairs, each named by what it is; and their new names by the old ones."""
    found: dict[str, Expression] = {}
    names: dict[str, str] = {}
    for before, made in columns:
        expression = _expression(made, renamed)
        name = str(expression)
        # Texts do not say of which type a constant is.
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
    """Names that the answer's expressions use, those of keys and aggregates, are the query's own affair."""

    def column(expression: RowExpression) -> RowExpression:
        name = made[expression.sql]
        return replace(expression, sql=name, columns=(name,))

    keys = tuple(replace(key, expression=column(key.expression)) for key in query.keys)
    calls = tuple(
        call if call.argument is None else replace(call, argument=column(call.argument)) for call in query.calls
    )
    return replace(query, keys=keys, calls=calls)
