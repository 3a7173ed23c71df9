"""FROM: which sources there are, what their columns are called, and what ON and USING say.

    FROM packets [RANGE 5 sec] a, packets [RANGE 1 min] b JOIN (SELECT ..) c USING (src) JOIN ports p ON a.port = p.port

A source may have any join here; the plans decide which joins are possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sash.catalog import Catalog, Stream, Table
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.window import WINDOW_LENGTH, ElasticWindow
from sash.sql.binding.bound import BoundJoin, BoundSelect, BoundSet, BoundSource
from sash.sql.expressions.operators import compare, require_boolean
from sash.sql.expressions.scope import FromColumns, Scope, SourceColumns, stream_of, table_of
from sash.sql.expressions.terms import Term, column_of
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import span_of, window_clause, word_of

_SIDES = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}
_KINDS = ("", "INNER", "OUTER", "CROSS")
QueryBinder = Callable[[exp.Expr], BoundSelect | BoundSet]


@dataclass(frozen=True)
class FromClause:
    """The sources so far, and their columns."""

    joins: tuple[BoundJoin, ...]
    columns: FromColumns


class FromBinder:
    """Binds the FROM clauses of one statement. `places` has the names of all sources, and where they were written."""

    def __init__(self, catalog: Catalog, script: str, bind_query: QueryBinder) -> None:
        self.places: dict[str, Span] = {}
        self._catalog, self._script, self._bind_query = catalog, script, bind_query

    def bind(self, tree: exp.Select, outer: FromColumns | None) -> FromClause:
        first, joins = tree.args["from_"].this, tree.args.get("joins") or []
        nodes = [first, *(join.this for join in joins)]
        names = [self.name(self._alias(node), _window_place(node)) for node in nodes]
        found = FromClause((), FromColumns())
        for name, node, join in zip(names, nodes, (None, *joins), strict=True):
            found = self._joined(found, name, node, join)
        return replace(found, columns=replace(found.columns, outer=outer))

    def name(self, alias: str, at: Span) -> str:
        """The alias, or one made from it that no other source of the statement has."""
        taken = {name.lower() for name in self.places}
        while alias.lower() in taken:
            alias += "'"
        self.places[alias] = at
        return alias

    def _alias(self, node: exp.Expr) -> str:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise NotSupportedError("names for columns behind an alias", self._script, span_of(alias))
        if node.args.get("joins"):
            what = "a join inside of a join; write one JOIN .. ON after the other"
            raise NotSupportedError(what, self._script, word_of(node))
        name = alias.name if alias is not None else self._relation(node).name
        if "." in name:
            raise CqlError("an alias has no dot: write AS and one without", self._script, span_of(alias or node))
        return name

    def _relation(self, node: exp.Expr) -> Stream | Table:
        return table_of(node, self._catalog) or stream_of(node, self._catalog, self._script)

    def _joined(self, left: FromClause, name: str, node: exp.Expr, join: exp.Expr | None) -> FromClause:
        source, columns = self._source(name, node)
        if left.columns.has_alias(columns.alias):
            at = span_of(node.args["alias"] if node.args.get("alias") is not None else node.this)
            raise CqlError(f"'{columns.alias}' stands twice in FROM: give each its own alias", self._script, at)
        both = FromClause((*left.joins, BoundJoin(source)), left.columns.beside(columns))
        return both if join is None else self._with_condition(left, both, columns, join)

    def _source(self, name: str, node: exp.Expr) -> tuple[BoundSource, SourceColumns]:
        if isinstance(node, exp.Subquery):
            query = self._bind_query(node.this)
            return BoundSource(name, node.alias, node, query), SourceColumns.of_query(query.columns, node.alias, name)
        relation = self._relation(node)
        alias = node.alias or relation.name
        columns = SourceColumns.of(relation, alias, name)
        clause = window_clause(node)
        if clause is not None and isinstance(clause.window, ElasticWindow):
            if WINDOW_LENGTH in columns.columns:
                reason = f"'{relation.name}' has a column {WINDOW_LENGTH}, the name of the lengths of this window"
                raise CqlError(f"{reason}: rename it, or give one length", self._script, clause.length_at)
            length = pa.field(WINDOW_LENGTH, pa.float64())
            columns = replace(columns, columns={**columns.columns, WINDOW_LENGTH: length})
        return BoundSource(name, alias, node, relation), columns

    def _with_condition(self, left: FromClause, both: FromClause, right: SourceColumns, join: exp.Expr) -> FromClause:
        kind, using, on = join_kind(join, self._script), join.args.get("using"), join.args.get("on")
        made = replace(both.joins[-1], node=join, kind=kind)
        if using:
            if isinstance(made.source.relation, Table):
                _check_using(left.columns, made.source.relation, using, self._script)
            conditions, columns = self._using(left.columns, both.columns, right, using, kind)
            return FromClause((*left.joins, replace(made, conditions=conditions)), columns)
        if on is not None:
            scope = Scope(self._script, both.columns, user=self._catalog.functions)
            scope = scope.without_aggregates("cannot stand in ON; HAVING tests aggregates")
            condition = require_boolean(type_expression(on, scope), "ON", scope)
            made = replace(made, conditions=condition.args if condition.op == "and" else (condition,))
        return FromClause((*left.joins, made), both.columns)

    def _using(
        self, left: FromColumns, both: FromColumns, right: SourceColumns, using: list[exp.Expr], kind: str
    ) -> tuple[tuple[Term, ...], FromColumns]:
        """A column of USING stands once, before the others, with the value of the side that is never missing."""
        shared: dict[str, Term] = {}
        merged: set[object] = set()
        conditions: list[Term] = []
        for node in using:
            column = exp.Column(this=node.copy())
            one, other = (type_expression(column, Scope(self._script, side)) for side in (left, FromColumns((right,))))
            if one.op != "field":
                what = f"JOIN by a column that USING of a FULL JOIN made; write ON {one.args[0].value} = {other.value}"
                raise NotSupportedError(what, self._script, span_of(node))
            conditions.append(compare("eq", one, other, Scope(self._script, both)))
            shared[column_of(one)] = _shared(kind, one, other)
            merged |= {one.value, other.value}
        return tuple(conditions), both.using(shared, merged)


def _check_using(left: FromColumns, table: Table, using: list[exp.Expr], script: str) -> None:
    """Check that a table is looked up by its key."""
    for node in using:
        if not left.find(node.name, None, span_of(node)):
            reason = f"USING names columns of the key that the stream has too ({', '.join(table.key)})"
            raise CqlError(reason, script, span_of(node))


def join_kind(join: exp.Expr, script: str) -> str:
    """inner, left, right, full or cross; other joins are refused by name."""
    at = word_of(join)
    side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
    if method or kind not in _KINDS or side not in _SIDES:
        raise NotSupportedError(f"{' '.join(filter(None, (method, side, kind)))} JOIN", script, at)
    if kind == "CROSS" and (join.args.get("on") or join.args.get("using")):
        raise CqlError("CROSS JOIN has no condition: write JOIN", script, at)
    if kind == "OUTER" and not side:
        raise CqlError("OUTER JOIN: write LEFT, RIGHT or FULL before it", script, at)
    return "cross" if kind == "CROSS" else _SIDES[side]


def _shared(kind: str, left: Term, right: Term) -> Term:
    if kind == "full":
        return Term("coalesce", (left, right), left.type, left.span, coerced=(left.type, left.type))
    return right if kind == "right" else left


def _window_place(node: exp.Expr) -> Span:
    clause = window_clause(node)
    return clause.span if clause is not None else span_of(node)
