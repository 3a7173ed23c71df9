"""The algebra of bound queries: names are resolved, types are checked, and nothing is decided about the execution yet.

    BoundSelect    FROM (joins of sources), WHERE (conditions and tests), GROUP BY, SELECT list, HAVING, ORDER BY, LIMIT
    BoundSet       UNION, EXCEPT or INTERSECT of two queries

A source of FROM is a stream with its window, a table, or a query again. All terms are over the fields of the sources.
`panes` and `changes` make plans of it, or say at which word they cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from sash.catalog import Stream, Table
from sash.core.errors import Span
from sash.plan.set_windows import HIGH, LOW
from sash.sql.binding.select_list import ItemRows, Order, SelectEntry
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import AskedQuery, Term, asked_in
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import approx_at, output_of, span_of, window_clause, word_of
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause

# The source of the columns of a set operation, in its ORDER BY.
UNION = "union"


@dataclass(frozen=True)
class BoundSource:
    """One entry of FROM. `name` is its alias, or one made from the alias that no other source of the query has."""

    name: str
    alias: str
    node: exp.Expr
    relation: Stream | Table | BoundSelect | BoundSet

    @property
    def window(self) -> WindowClause | None:
        return window_clause(self.node)

    @property
    def word(self) -> Span:
        return word_of(self.node) if isinstance(self.node, exp.Subquery) else span_of(self.node.this)


@dataclass(frozen=True)
class BoundJoin:
    """A source, and how it is joined to those before it; `node` is None for the first.

    `kind` is inner, left, right, full or cross. `conditions` are the parts of ON, or the equalities of USING.
    """

    source: BoundSource
    node: exp.Expr | None = None
    kind: str = "cross"
    conditions: tuple[Term, ...] = ()

    @property
    def is_outer(self) -> bool:
        return self.kind not in ("inner", "cross")

    @property
    def is_unconditional(self) -> bool:
        """JOIN without USING and ON."""
        node = self.node
        return self.kind != "cross" and node is not None and not node.args.get("using") and node.args.get("on") is None


@dataclass(frozen=True)
class BoundTest:
    """[NOT] EXISTS (SELECT ..) or x [NOT] IN (SELECT y ..).

    `compared` is x with y, in one type. `tied`: the sub-query is a plain SELECT, whose ties refer to the query around.
    `condition` is the test as a condition over answers, if nothing ties it to the rows around.
    """

    query: BoundSelect | BoundSet
    node: exp.Expr
    negated: bool
    at: Span
    compared: tuple[Term, Term] | None = None
    tied: bool = True
    condition: Term | None = None

    @property
    def title(self) -> str:
        return f"{'NOT ' if self.negated else ''}{'EXISTS' if self.compared is None else 'IN'}"


@dataclass(frozen=True)
class BoundSelect:
    """One SELECT. `ties` are its equalities with the query around it: an outer term, and an inner one.

    `sets` has the places of the keys of each grouping set; none where GROUP BY lists keys alone.
    `items` is there if a call of TOP or its like gives the rows.
    """

    select: Select
    tree: exp.Select
    joins: tuple[BoundJoin, ...]
    scope: Scope
    conditions: tuple[Term, ...] = ()
    tests: tuple[BoundTest, ...] = ()
    ties: tuple[tuple[Term, Term], ...] = ()
    entries: tuple[SelectEntry, ...] = ()
    keys: tuple[Term, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    having: Term | None = None
    qualify: Term | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    items: ItemRows | None = None
    columns: tuple[tuple[str, pa.DataType], ...] = ()

    @property
    def sources(self) -> tuple[BoundSource, ...]:
        return tuple(join.source for join in self.joins)

    @property
    def output(self) -> OutputClause | None:
        return output_of(self.tree)

    @property
    def is_distinct(self) -> bool:
        return self.tree.args.get("distinct") is not None

    @property
    def has_windows(self) -> bool:
        """Whether window functions are computed over its rows."""
        asked = (*(entry.term for entry in self.entries), *(key.term for key in self.order))
        return self.qualify is not None or any(part.op == "over" for term in asked for part in term.walk())

    @property
    def asked(self) -> tuple[Term, ...]:
        """The terms that are sub-queries in its expressions."""
        behind = (term for term in (self.having, self.qualify) if term is not None)
        terms = (*self.conditions, *(entry.term for entry in self.entries), *(key.term for key in self.order), *behind)
        return tuple(part for term in terms for part in asked_in(term))

    @property
    def asked_queries(self) -> list[BoundSelect | BoundSet]:
        found = {asked.name: asked.body for term in self.asked if isinstance(asked := term.value, AskedQuery)}
        return [body for body in found.values() if isinstance(body, BoundSelect | BoundSet)]

    @property
    def is_grouped(self) -> bool:
        """Whether its rows are groups."""
        grouped = self.tree.args.get("group") is not None or self.having is not None or self.items is not None
        return grouped or any(entry.term.has_aggregate for entry in self.entries)


@dataclass(frozen=True)
class BoundSet:
    """A set operation; `types` are the common types of both queries. ORDER BY is over its columns."""

    select: Select
    tree: exp.SetOperation
    left: BoundSelect | BoundSet
    right: BoundSelect | BoundSet
    types: tuple[pa.DataType, ...]
    order: tuple[Order, ...] = ()
    limit: int | None = None

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """The columns, named as in the first query; an approximate operation gives ranges."""
        if approx_at(self.tree) is not None:
            return ((LOW, self.types[0]), (HIGH, self.types[0]))
        return tuple((name, type) for (name, _), type in zip(self.left.columns, self.types, strict=True))

    @property
    def output(self) -> OutputClause | None:
        return output_of(self.tree)

    @property
    def is_union(self) -> bool:
        """Whether it is a UNION without clauses behind parentheses."""
        return isinstance(self.tree, exp.Union) and self.select.tree is self.tree


@dataclass(frozen=True)
class BoundQuery:
    """A whole statement. `places` has the name of every source, and where its window was written."""

    select: Select
    body: BoundSelect | BoundSet
    places: dict[str, Span] = field(default_factory=dict)

    @property
    def script(self) -> str:
        return self.select.script


def parts(body: BoundSelect | BoundSet) -> Iterator[BoundSelect | BoundSet]:
    """A query and all queries inside of it."""
    yield body
    if isinstance(body, BoundSet):
        inner = [body.left, body.right]
    else:
        sources = [source.relation for source in body.sources]
        inner = [each for each in sources if isinstance(each, BoundSelect | BoundSet)]
        inner += [test.query for test in body.tests]
        inner += body.asked_queries
    for each in inner:
        yield from parts(each)


def sources_of(body: BoundSelect | BoundSet) -> Iterator[BoundSource]:
    """The sources of a query and of all queries inside of it."""
    for part in parts(body):
        yield from part.sources if isinstance(part, BoundSelect) else ()


def relations_in(body: BoundSelect | BoundSet) -> dict[str, Stream | Table]:
    """The streams and tables that a query reads, by their names."""
    relations = (source.relation for source in sources_of(body))
    return {each.name: each for each in relations if isinstance(each, Stream | Table)}
