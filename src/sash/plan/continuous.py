"""Logical nodes of continuous queries, and the update pattern of every edge (thesis 3.2, 3.5.1).

    Map <- Filter <- Join <- BaseWindow S
                       ^---- BaseWindow T

A node's columns have their own names (`alias.column` until the topmost Map names the answer). Spark computes a stream's
WHERE and the expressions over its columns before the stateful part: a base window has the finished columns. Expressions
above are evaluated on Arrow arrays.

The pattern of an edge decides how the operator above stores its input:

    rule 1  Filter, Map, NrrJoin   as the input
    rule 2  Union                  the greatest of the inputs; WEAKEST only if all lifetimes are equal
    rule 3  Joins, Distinct        at least WEAK
    rule 4  Negation, Intersection, OuterJoin, GroupBy, RelationJoin, row-based windows: STRICT

The thesis prints WEAKEST for a union of windows of different lengths; by its own definition of 3.2.1 that is WEAK.

A pattern that follows from several inputs is cached: a rule reads the inputs' patterns more than once, so without a
cache the reads would double with every level of unions.

The ways to execute a continuous plan (thesis 2.3.3, 3.5.2), by name:

    upa      update-pattern-aware: each edge is stored as its pattern asks; negative tuples only where results end early
    nt       negative tuples: windows announce every expiry, so every edge is STRICT and every buffer hashed
    direct   tuples expire by their timestamps wherever they can, out of plain lists
    auto     upa or nt, whichever is expected to cost less when a query is registered

The answers are the same at every instant. `direct` is for comparison, and never chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from sash.catalog import Table
from sash.core.changes import UpdatePattern
from sash.core.window import RowWindow, TimeWindow
from sash.plan.expressions import Expression, RowExpression
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, Outliving, OutputNode, ResultWindow, Sampled, Snapshots, Stamped


@dataclass(frozen=True)
class Column:
    """A column of a base window, as Spark computes it from the stream's own columns."""

    name: str
    expression: RowExpression

    @property
    def type(self) -> pa.DataType:
        return self.expression.type


@dataclass(frozen=True)
class BaseWindow:
    """A window on a stream. `predicate` is WHERE on the stream alone: never below a row-based window.

    An `internal` window is kept as any other; `Outliving` above it says that its results outlive it.
    """

    stream: str
    alias: str
    window: TimeWindow | RowWindow
    columns: tuple[Column, ...]
    predicate: RowExpression | None = None
    partition: tuple[str, ...] = ()
    internal: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, column.type) for column in self.columns])

    @property
    def pattern(self) -> UpdatePattern:
        if isinstance(self.window, RowWindow):
            return UpdatePattern.STRICT
        return UpdatePattern.MONOTONIC if self.window.unbounded else UpdatePattern.WEAKEST

    @property
    def lifetime(self) -> int | None:
        return self.window.length if self.pattern is UpdatePattern.WEAKEST else None

    def describe(self) -> str:
        by = f" partitioned by {', '.join(self.partition)}" if self.partition else ""
        where = f" where {self.predicate}" if self.predicate is not None else ""
        name = self.stream if self.alias == self.stream else f"{self.stream} {self.alias}"
        internal = " INTERNAL" if self.internal else ""
        return f"Window {name} {str(self.window)[:-1]}{internal}]{by}{where}"


class Unary:
    """A node that passes on tuples of its only input, as they come (rule 1)."""

    input: Node

    @cached_property
    def pattern(self) -> UpdatePattern:
        return self.input.pattern

    @property
    def lifetime(self) -> int | None:
        """How long every tuple lives; None unless WEAKEST."""
        return self.input.lifetime


@dataclass(frozen=True)
class Filter(Unary):
    input: Node
    condition: Expression

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    def describe(self) -> str:
        return f"Filter {self.condition}"


@dataclass(frozen=True)
class Map(Unary):
    """The columns that go on, each computed from the input's."""

    input: Node
    outputs: tuple[tuple[str, Expression], ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, expression.type) for name, expression in self.outputs])

    def describe(self) -> str:
        shown = (name if str(made) == name else f"{made} AS {name}" for name, made in self.outputs)
        return f"Project {', '.join(shown)}"


@dataclass(frozen=True)
class Union:
    """All tuples of all inputs (UNION ALL); columns are matched by position and named as in the first."""

    inputs: tuple[Node, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.inputs[0].schema

    @cached_property
    def pattern(self) -> UpdatePattern:
        greatest = max(input.pattern for input in self.inputs)
        mixed = len({input.pattern for input in self.inputs}) > 1 or len({input.lifetime for input in self.inputs}) > 1
        return max(greatest, UpdatePattern.WEAK) if mixed else greatest

    @property
    def lifetime(self) -> int | None:
        return self.inputs[0].lifetime if self.pattern is UpdatePattern.WEAKEST else None

    def describe(self) -> str:
        return "Union"


class Stateful:
    """A node whose results do not all live equally long."""

    lifetime = None


@dataclass(frozen=True)
class Join(Stateful):
    """Pairs with equal keys, alive while both are; `keys` are pairs of column names of one type."""

    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.left.schema, *self.right.schema])

    @cached_property
    def pattern(self) -> UpdatePattern:
        inputs = max(self.left.pattern, self.right.pattern)
        return inputs if inputs is UpdatePattern.MONOTONIC else max(inputs, UpdatePattern.WEAK)

    def describe(self) -> str:
        return f"Join on {_equalities(self.keys)}"


@dataclass(frozen=True)
class OuterJoin(Stateful):
    """The pairs of a join; and each tuple of a kept side, with NULLs in place of the other side, while it has no match.

    A NULL in a key matches nothing. A match that comes takes the tuple with NULLs back. `condition` is what a pair must
    fulfil beside having equal keys.
    """

    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]
    keeps_left: bool
    keeps_right: bool
    condition: Expression | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.left.schema, *self.right.schema])

    @property
    def pattern(self) -> UpdatePattern:
        return UpdatePattern.STRICT

    @property
    def keeps(self) -> tuple[bool, bool]:
        return self.keeps_left, self.keeps_right

    def describe(self) -> str:
        kind = "Left" if not self.keeps_right else "Full" if self.keeps_left else "Right"
        condition = "" if self.condition is None else f" AND {self.condition}"
        return f"{kind} join on {_equalities(self.keys)}{condition}"


@dataclass(frozen=True)
class NrrJoin(Unary):
    """Tuples with the row of a non-retroactive relation that has their key, as it was when they arrived (3.3.1).

    `columns` are the table's columns that go on, each with its new name; the key is among them. `keys` are pairs of
    such names, the input's and the table's, of one type. `keeps`: tuples without a row go on.
    """

    input: Node
    table: Table
    keys: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    keeps: ClassVar[bool] = False

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *_table_columns(self.table, self.columns)])

    def describe(self) -> str:
        kind = "left join" if self.keeps else "join"
        return f"Non-retroactive {kind} with {self.table.name} on {_equalities(self.keys)}"


class LeftNrrJoin(NrrJoin):
    """The same, and tuples that find no row go on with NULLs (LEFT JOIN)."""

    keeps = True


@dataclass(frozen=True)
class RelationJoin(Stateful):
    """Tuples with the row of a relation that has their key, as it is now: its changes give and take back results."""

    input: Node
    table: Table
    keys: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    keeps: ClassVar[bool] = False

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.input.schema, *_table_columns(self.table, self.columns)])

    @property
    def pattern(self) -> UpdatePattern:
        return UpdatePattern.STRICT

    def describe(self) -> str:
        kind = "left join" if self.keeps else "join"
        return f"Relation {kind} with {self.table.name} on {_equalities(self.keys)}"


class LeftRelationJoin(RelationJoin):
    """The same, and a tuple is there with NULLs while the relation has no row for it (LEFT JOIN)."""

    keeps = True


@dataclass(frozen=True)
class Distinct(Stateful):
    """Each row once, as long as an equal row is in the input."""

    input: Node

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @cached_property
    def pattern(self) -> UpdatePattern:
        inputs = self.input.pattern
        return inputs if inputs is UpdatePattern.MONOTONIC else max(inputs, UpdatePattern.WEAK)

    def describe(self) -> str:
        return "Distinct"


@dataclass(frozen=True)
class _MatchByKey(Stateful):
    """Tuples of the left input by how many tuples with the same key either input has.

    `whole`: all of a key's tuples or none, by whether the right input has any (SQL's anti and semi join); else as
    many as the counts say, the youngest ones. `null_safe`: NULL equals NULL, as in EXCEPT and INTERSECT.
    """

    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]
    whole: bool = False
    null_safe: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.left.schema

    @property
    def pattern(self) -> UpdatePattern:
        return UpdatePattern.STRICT

    def describe(self) -> str:
        match = "no" if isinstance(self, Negation) else "a"
        condition = f", kept while there is {match} match" if self.whole else ""
        return f"{type(self).__name__} on {_equalities(self.keys)}{condition}"


class Negation(_MatchByKey):
    """v1 - v2 tuples of a key that the inputs have v1 and v2 times (thesis 2.2.2); `whole`: v1 while v2 is 0."""


class Intersection(_MatchByKey):
    """The lesser of v1 and v2 tuples of a key; `whole`: v1 while v2 is not 0."""


@dataclass(frozen=True)
class Aggregated:
    """One aggregate over a column of the input; None for COUNT(*)."""

    name: str
    function: str
    argument: str | None
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.function.upper()}({self.argument or '*'})"


@dataclass(frozen=True)
class GroupBy(Stateful):
    """A row per group, replaced when one of its aggregates changes. Without keys, one row from the first tuple on."""

    input: Node
    keys: tuple[str, ...]
    calls: tuple[Aggregated, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        keys = [self.input.schema.field(key) for key in self.keys]
        return pa.schema([*keys, *((call.name, call.type) for call in self.calls)])

    @property
    def pattern(self) -> UpdatePattern:
        return UpdatePattern.STRICT

    def describe(self) -> str:
        return f"GroupBy {', '.join(self.keys) or '()'}: {', '.join(map(str, self.calls))}"


@dataclass(frozen=True)
class RememberedValues(GroupBy):
    """A whole stream as a row for each of its values, of which conditions leave finitely many (thesis 2.2.1): how often
    the value came, or the least or the greatest of another column beside it."""

    def describe(self) -> str:
        return f"Values {', '.join(self.keys) or '()'}: {', '.join(map(str, self.calls))}"


@dataclass(frozen=True)
class Duplicates(Stateful):
    """Each row as often as its `copies` say: a column that ends here. Until the row expires, they only become more."""

    input: Node
    copies: str

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([field for field in self.input.schema if field.name != self.copies])

    @cached_property
    def pattern(self) -> UpdatePattern:
        expires = any(not window.window.unbounded for window in windows(self.input))
        return UpdatePattern.WEAK if expires else UpdatePattern.MONOTONIC

    def describe(self) -> str:
        return f"Each as often as {self.copies}"


TableJoin = NrrJoin | RelationJoin
Node = (
    BaseWindow
    | Filter
    | Map
    | Union
    | Join
    | OuterJoin
    | MultiJoin
    | NrrJoin
    | RelationJoin
    | Distinct
    | Negation
    | Intersection
    | GroupBy
    | Duplicates
    | OutputNode
)


def inputs(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Join | OuterJoin | _MatchByKey):
        return (node.left, node.right)
    if isinstance(node, Union | MultiJoin):
        return node.inputs
    return () if isinstance(node, BaseWindow) else (node.input,)


def with_inputs(node: Node, below: tuple[Node, ...]) -> Node:
    """The node over other inputs, as many as before."""
    if below == inputs(node):
        return node
    if isinstance(node, Join | OuterJoin | _MatchByKey):
        return replace(node, left=below[0], right=below[1])
    if isinstance(node, Union | MultiJoin):
        return replace(node, inputs=below)
    assert not isinstance(node, BaseWindow)
    return replace(node, input=below[0])


def edges(plan: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every node, inputs before the node itself; the path is the inputs' positions from the answer down."""
    for place, node in enumerate(inputs(plan)):
        yield from edges(node, path_below(path, place))
    yield path or "root", plan


def path_below(path: str, place: int) -> str:
    """The path of a node's input.

    >>> path_below("01", 2), path_below("01", 10)
    ('012', '01(10)')
    """
    return f"{path}{place}" if place < 10 else f"{path}({place})"


def windows(plan: Node) -> list[BaseWindow]:
    """The plan's leaves, from left to right."""
    return [node for _, node in edges(plan) if isinstance(node, BaseWindow)]


def streams_of(plan: Node) -> tuple[str, ...]:
    """The streams that a plan reads, each once."""
    return tuple(dict.fromkeys(window.stream for window in windows(plan)))


def table_joins(plan: Node) -> list[TableJoin]:
    """The plan's joins with tables, in the order of `edges`."""
    return [node for _, node in edges(plan) if isinstance(node, TableJoin)]


def _table_columns(table: Table, columns: tuple[tuple[str, str], ...]) -> list[pa.Field]:
    return [pa.field(name, table.schema.field(column).type) for name, column in columns]


def _equalities(keys: tuple[tuple[str, str], ...]) -> str:
    return " AND ".join(f"{left} = {right}" for left, right in keys) or "TRUE"


def is_stream(plan: Node) -> bool:
    """Whether the answer is a stream of results that never end, and not a relation."""
    streams = any(isinstance(part, Deltas | Outliving | Snapshots) for _, part in edges(plan))
    return streams and plan.pattern is UpdatePattern.MONOTONIC


def sampling_of(plan: Node) -> Sampled | None:
    """The multiples at which a plan answers, if it does not answer at every instant."""
    top = plan.input if isinstance(plan, Deltas) else plan
    return top if isinstance(top, Sampled) else None


UPA, NT, DIRECT, AUTO = "upa", "nt", "direct", "auto"
STRATEGIES = (UPA, NT, DIRECT)
# The strategies that a user may set.
EXECUTIONS = (*STRATEGIES, AUTO)


def executed_pattern(node: Node, strategy: str) -> UpdatePattern:
    """The pattern of the edge above a node: if every expiry is announced, all edges with expiries are STRICT."""
    announced = strategy == NT and node.pattern is not UpdatePattern.MONOTONIC
    return UpdatePattern.STRICT if announced else node.pattern


def drops_outdone(node: GroupBy, strategy: str) -> bool:
    """Whether a tuple leaves a group early if another one outlives and outdoes it (thesis 2.2.2): MIN and MAX alone
    allow it, over inputs whose tuples expire and are never taken back."""
    expires = executed_pattern(node.input, strategy) in (UpdatePattern.WEAKEST, UpdatePattern.WEAK)
    return strategy != DIRECT and expires and all(call.function in ("min", "max") for call in node.calls)


def strategy_below(node: Node, strategy: str) -> str:
    """The strategy below a node. A lookup in a table cannot be repeated for a negative tuple, and results have their
    expiries from their tuples: below such a node nothing announces expiries."""
    knows = isinstance(node, NrrJoin | Duplicates | Stamped | Outliving | ResultWindow | Sampled | Snapshots)
    return UPA if strategy == NT and knows else strategy
