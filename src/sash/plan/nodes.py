"""Logical nodes: nouns, frozen, each with its inputs.

A periodic aggregate is one of these chains, with the optional nodes left out when they do nothing:

    Project <- Limit <- Sort <- Having <- Aggregate <- WindowFilter <- StreamWindow <- StreamScan
    Project <- Items <- Aggregate <- WindowFilter <- StreamWindow <- StreamScan   (TOP, FREQUENT, HISTOGRAM, APPROX_TOP)

A query over several windows joins the answers of such chains, all as of one time:

    Project <- Limit <- Sort <- AnswerFilter <- AnswerJoin <- Subquery <- Project <- ..
                                                    ^-------- Subquery <- Project <- ..

AnswerUnion has the rows of several answers, and AnswerProbe adds a column from the answer of a sub-query in an
expression. Window functions (OVER) are over the rows of such an answer, or over the groups of one window, as a
sub-query:

    Project <- Limit <- Sort <- AnswerFilter <- AnswerWindow <- Subquery <- Project <- Having <- Aggregate <- ..
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from sash.catalog import Table
from sash.core.user_aggregate import UserAggregate
from sash.core.window import Window
from sash.plan.expressions import Expression, RowExpression


@dataclass(frozen=True)
class Lookup:
    """A non-retroactive table in which each tuple is looked up when it arrives.

    `keys` are pairs of a column of the stream and one of the table's key. From then on the tuple has the row's columns,
    each under the name `column` gives, and under `name` whether there was such a row.
    """

    table: Table
    keys: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.table.name}({', '.join(mine for mine, _ in self.keys)})"

    def column(self, name: str) -> str:
        return f"{self.name}.{name}"


_LOOKED_UP = re.compile(r"`(\w+)\([^`]*\)\.(\w+)`")
_FOUND = re.compile(r"`(\w+)\([^`]*\)`")


def as_written(sql: str) -> str:
    """An expression for people, with the columns of look-ups under the queries' names.

    >>> as_written("(`services(port).service`) where `services(port)`")
    '(services.service) where found in services'
    """
    return _FOUND.sub(r"found in \1", _LOOKED_UP.sub(r"\1.\2", sql))


@dataclass(frozen=True)
class StreamScan:
    stream: str
    lookups: tuple[Lookup, ...] = ()

    def describe(self) -> str:
        found = f", looked up in {', '.join(lookup.name for lookup in self.lookups)}" if self.lookups else ""
        return f"StreamScan {self.stream}{found}"


@dataclass(frozen=True)
class StreamWindow:
    """`partition` is the PARTITION BY of a row-based window: the last rows of each of its values. `time` is the event
    time, which makes the sessions.
    """

    input: StreamScan
    window: Window
    partition: tuple[RowExpression, ...] = ()
    time: RowExpression | None = None

    def describe(self) -> str:
        by = f" partitioned by {', '.join(map(str, self.partition))}" if self.partition else ""
        return f"StreamWindow {self.window}{by}"


@dataclass(frozen=True)
class WindowFilter:
    input: StreamWindow
    predicate: RowExpression

    def describe(self) -> str:
        return f"Filter {self.predicate}"


# A constant of an aggregate: a fraction where exactness counts, else what `pa.scalar` accepts.
Parameter = Fraction | int | float | str | bytes | bool | date | datetime | Decimal


@dataclass(frozen=True)
class Key:
    """One GROUP BY expression under the name by which the nodes above refer to it."""

    name: str
    expression: RowExpression


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over rows, e.g. SUM(length); argument is None for COUNT(*).

    `parameters` are its constants: the p of QUANTILE(x, p), the value of COUNT_MIN(x, value). `user` is the aggregate
    if a program has made it. Several arguments are one struct. `condition` is that of FILTER, and `filtered` is the
    WHERE of the query with it: only tuples that fulfil both are aggregated.
    """

    name: str
    function: str
    argument: RowExpression | None
    type: pa.DataType
    parameters: tuple[Parameter, ...] = ()
    user: UserAggregate | None = field(default=None, repr=False)
    condition: RowExpression | None = field(default=None, repr=False)
    filtered: RowExpression | None = field(default=None, repr=False)

    def where(self, predicate: RowExpression | None) -> RowExpression | None:
        """The condition of the aggregated tuples, in a query with this WHERE."""
        return predicate if self.filtered is None else self.filtered

    def __str__(self) -> str:
        if self.function in ("collect_list", "collect_set", "listagg"):
            return self.name
        return self._call if self.condition is None else f"{self._call} FILTER (WHERE {self.condition})"

    @property
    def _call(self) -> str:
        argument = str(self.argument) if self.argument is not None else "*"
        if self.function == "count_distinct":
            return f"COUNT(DISTINCT {argument})"
        return f"{self.function.upper()}({', '.join([argument, *map(str, self.parameters)])})"


@dataclass(frozen=True)
class Aggregate:
    """`finest` are the keys of the finest of several grouping sets: all of them are read from its pane table."""

    input: WindowFilter | StreamWindow
    keys: tuple[Key, ...]
    calls: tuple[AggregateCall, ...]
    finest: tuple[Key, ...] = ()

    def describe(self) -> str:
        keys = ", ".join(str(key.expression) for key in self.keys) or "()"
        finest = f" of ({', '.join(str(key.expression) for key in self.finest)})" if self.finest else ""
        return f"Aggregate {', '.join(map(str, self.calls))} BY {keys}{finest}"


@dataclass(frozen=True)
class Having:
    """`approximate` (HAVING APPROX ..) lets a substream filter answer with its superset."""

    input: Aggregate
    condition: Expression
    approximate: bool = False

    def describe(self) -> str:
        return f"Having {'approximately ' if self.approximate else ''}{self.condition}"


@dataclass(frozen=True)
class Items:
    """One row per item: the Aggregate's last key is the item, its only call the item's count or weight.

    `function` is top, frequent, histogram or approx_top; `count` is k (None for a histogram); `bounds` asks for the
    columns `lower` and `upper` of an approximate count.
    """

    input: Aggregate
    function: str
    count: int | None
    bounds: bool = False

    @property
    def item(self) -> Key:
        return self.input.keys[-1]

    @property
    def weight(self) -> AggregateCall:
        return self.input.calls[0]

    def describe(self) -> str:
        count = "" if self.count is None else f" {self.count}"
        return f"Items {self.function.upper()}{count} of {self.item.expression}"


@dataclass(frozen=True)
class SortKey:
    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        return f"{self.expression} {'DESC' if self.descending else 'ASC'}"


@dataclass(frozen=True)
class AnswerOrder:
    """ORDER BY and LIMIT over the columns of a finished answer: each answer of a continuous plan under SLIDE has them.

    They are a query's own: queries that differ in nothing else share their plan.
    """

    keys: tuple[SortKey, ...] = ()
    limit: int | None = None

    def describe(self) -> str:
        order = f" in the order {', '.join(map(str, self.keys))}" if self.keys else ""
        return f"Each answer{order}{'' if self.limit is None else f', the first {self.limit:,} rows'}"


@dataclass(frozen=True)
class Subquery:
    """A sub-query in FROM. The nodes above call its columns `alias.column`."""

    alias: str
    input: Project

    def describe(self) -> str:
        return f"Subquery {self.alias}"


@dataclass(frozen=True)
class AnswerJoin:
    """Two answers joined on equal fields; `kind` is inner, left, right, full or cross.

    `keys` are pairs of field names, from the left and the right input. A residual condition of an inner join is an
    AnswerFilter above it.
    """

    left: AnswerJoin | Subquery
    right: Subquery
    kind: str
    keys: tuple[tuple[str, str], ...]

    def describe(self) -> str:
        on = " AND ".join(f"{left} = {right}" for left, right in self.keys)
        return f"AnswerJoin {self.kind}{f' ON {on}' if on else ''}"


@dataclass(frozen=True)
class AnswerUnion:
    """All rows of answers with the same columns, those of grouping sets or of UNION; `distinct`: each row once."""

    parts: tuple[Subquery, ...]
    distinct: bool = False

    def describe(self) -> str:
        return f"AnswerUnion{' distinct' if self.distinct else ''}"


@dataclass(frozen=True)
class AnswerProbe:
    """The rows with a column from a sub-query's answer: its only value, whether it has rows, whether a value is in it.

    `kind` is value, exists or in. `value` is the compared one, over the rows; `of` the sub-query's column, in one type
    with it. `text` is the sub-query as it was written.
    """

    input: AnswerProbe | AnswerJoin | AnswerUnion | Subquery
    query: Subquery
    name: str
    kind: str
    of: Expression | None = None
    value: Expression | None = None
    text: str = field(default="", compare=False)

    def describe(self) -> str:
        return f"AnswerProbe {self.name}"


@dataclass(frozen=True)
class OverCall:
    """A window function: a value for each row of an answer, from the rows of its partition.

    `frame` says where the frame of an aggregate ends, which begins with the partition: `rows`, at the row; `range`, at
    the last of the rows that are equal to it in order; `all`, with the partition.
    """

    name: str
    function: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: str
    type: pa.DataType


@dataclass(frozen=True)
class AnswerWindow:
    """The rows with a column for each window function, under its name."""

    input: AnswerFilter | AnswerProbe | AnswerJoin | AnswerUnion | Subquery
    calls: tuple[OverCall, ...]

    def describe(self) -> str:
        return f"AnswerWindow {', '.join(call.name for call in self.calls)}"


@dataclass(frozen=True)
class AnswerFilter:
    """WHERE over the columns of answers, and QUALIFY over those of window functions too."""

    input: AnswerWindow | AnswerProbe | AnswerJoin | AnswerUnion | Subquery
    condition: Expression

    def describe(self) -> str:
        return f"AnswerFilter {self.condition}"


@dataclass(frozen=True)
class Sort:
    input: Having | Aggregate | AnswerRows
    keys: tuple[SortKey, ...]

    def describe(self) -> str:
        return f"Sort {', '.join(map(str, self.keys))}"


@dataclass(frozen=True)
class Limit:
    input: Sort | Having | Aggregate | AnswerRows
    count: int

    def describe(self) -> str:
        return f"Limit {self.count}"


@dataclass(frozen=True)
class Output:
    name: str
    expression: Expression


@dataclass(frozen=True)
class Project:
    input: Limit | Sort | Having | Items | Aggregate | AnswerRows
    outputs: tuple[Output, ...]

    def describe(self) -> str:
        return "Project " + ", ".join(
            output.name if str(output.expression) == output.name else f"{output.expression} AS {output.name}"
            for output in self.outputs
        )


AnswerRows = AnswerFilter | AnswerWindow | AnswerProbe | AnswerJoin | AnswerUnion | Subquery
Node = (
    Project
    | Limit
    | Sort
    | Having
    | Items
    | Aggregate
    | WindowFilter
    | StreamWindow
    | StreamScan
    | AnswerFilter
    | AnswerWindow
    | AnswerProbe
    | AnswerJoin
    | AnswerUnion
    | Subquery
)


def inputs(node: Node) -> tuple[Node, ...]:
    if isinstance(node, AnswerJoin):
        return (node.left, node.right)
    if isinstance(node, AnswerProbe):
        return (node.input, node.query)
    if isinstance(node, AnswerUnion):
        return node.parts
    return () if isinstance(node, StreamScan) else (node.input,)


def tree(plan: Node, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """The plan's nodes from the answer down to the streams, each with its depth."""
    yield depth, plan
    for node in inputs(plan):
        yield from tree(node, depth + 1)
