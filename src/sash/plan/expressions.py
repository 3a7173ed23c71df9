"""Two kinds of expression, because two machines evaluate them.

`RowExpression` speaks of a stream's rows (WHERE, GROUP BY, arguments of aggregates). It is canonical
Spark SQL text, evaluated by Spark's generated code; two queries share work when their texts are equal.
A WHERE also has its disjunctive normal form, by which queries with overlapping predicates find each other.

`Expression` speaks of an answer's groups (SELECT list, HAVING, ORDER BY over keys and aggregates).
It is a small tree that the Sash process evaluates on Arrow arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from sash.core.user_function import ERROR, VALUE
from sash.plan.predicates import Disjunction


@dataclass(frozen=True)
class RowExpression:
    """`terms` is the normal form of a WHERE, None where it would be too long; it is no part of the identity."""

    sql: str
    type: pa.DataType
    columns: tuple[str, ...] = ()
    terms: Disjunction | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.sql

    @property
    def column(self) -> str | None:
        """The column, if the expression is a bare column: evaluating it cannot raise."""
        return column_of(self.sql, self.columns) if len(self.columns) == 1 else None


def name_in_spark(function: str) -> str:
    """What Spark calls a function of the program."""
    return f"_sash_{function}"


def value_in_spark(result: str, type: str) -> str:
    """The value of a result of a program's function, or its error, raised (core/user_function.py).

    Spark computes equal calls once, and for every tuple, even where a CASE around the call would skip it.
    """
    failed = f"CAST(raise_error({result}.{ERROR}) AS {type})"
    return f"CASE WHEN {result}.{ERROR} IS NULL THEN {result}.{VALUE} ELSE {failed} END"


_CALL = re.compile(
    rf"CASE WHEN _sash_(\w+)\((.*?)\)\.{ERROR} IS NULL THEN _sash_\1\(\2\)\.{VALUE} "
    rf"ELSE CAST\(raise_error\(_sash_\1\(\2\)\.{ERROR}\) AS \w+(?:\(\d+,\d+\))?\) END"
)


def with_short_calls(text: str) -> str:
    """A text for people: calls of a program's functions as they were written.

    >>> with_short_calls(f"SUM({value_in_spark('_sash_f(_sash_g(x))', 'DECIMAL(9,2)')})")
    'SUM(f(g(x)))'
    """
    return re.sub(r"\b_sash_(\w+)\(", r"\1(", _CALL.sub(r"\1(\2)", text))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def column_of(text: str, names: Iterable[str]) -> str | None:
    """The column that a canonical text is.

    >>> column_of("`my column`", ["length", "my column"])
    'my column'
    """
    return next((name for name in names if text in (name, quoted(name))), None)


@dataclass(frozen=True)
class Field:
    """A key or an aggregate of the query, by its name in the Aggregate node."""

    name: str
    type: pa.DataType

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal:
    """A constant; value is what `pa.scalar(value, type)` accepts."""

    value: object
    type: pa.DataType

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True)
class Call:
    """A function that `synopses.evaluate` knows, by its lower-case name; operators have names too (`add`, `eq`).

    `type` is the result's type: the evaluator casts to it.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Expression = Field | Literal | Call


def columns_in(expression: Expression) -> set[str]:
    """The names of the columns that an expression reads."""
    if isinstance(expression, Field):
        return {expression.name}
    return {name for part in getattr(expression, "arguments", ()) for name in columns_in(part)}


def substituted(expression: Expression, made: Mapping[str, Expression]) -> Expression:
    """The expression with others in place of its columns."""
    if isinstance(expression, Field):
        return made[expression.name]
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(substituted(part, made) for part in expression.arguments))
    return expression
