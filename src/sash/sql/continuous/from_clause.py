"""FROM of a continuous query: which sources there are, what their columns are called, and what ON and USING say.

    FROM packets [RANGE 5 sec] a, packets [RANGE 1 min] b JOIN (SELECT ..) c USING (src) JOIN ports p ON a.port = p.port

The conditions of all joins are conditions on the joined rows, as in SQL: `joins` finds the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sash.catalog import Catalog
from sash.core.changes import UpdatePattern
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.time import Micros
from sash.plan.continuous import BaseWindow, GroupBy, Node, NrrJoin, RelationJoin, edges, inputs, windows
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Snapshots
from sash.sql.binding.joins import join_kind
from sash.sql.binding.windows import bind_continuous_window
from sash.sql.continuous.sources import QuerySource, Source, TableSource, WindowSource, condition_of
from sash.sql.expressions.operators import compare, require_boolean
from sash.sql.expressions.scope import AnswerTable, Scope, WindowColumns, stream_of, table_of
from sash.sql.expressions.terms import Term
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.limits import MOST_READ
from sash.sql.reading.places import extent, span_of, window_clause, word_of
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause


@dataclass(frozen=True)
class QueryScope:
    """What all SELECTs of one continuous query share. `windows` has every alias, and where its window was written.

    `slide` is the SLIDE of all windows, and from where its multiples count, if they slide.
    """

    catalog: Catalog
    script: str
    bind: Callable[[Select, WindowClause | None], Node]
    windows: dict[str, Span] = field(default_factory=dict)
    slide: tuple[Micros, Micros] | None = None

    def name(self, alias: str, at: Span) -> str:
        """The alias, or one made from it that no other window of the plan has."""
        while alias.lower() in (taken.lower() for taken in self.windows):
            alias += "'"
        self.windows[alias] = at
        return alias

    def sub_query(self, tree: exp.Expr, window: WindowClause | None = None) -> Node:
        """The plan of a query inside of this one; `window` is over its results."""
        return self.bind(Select(tree, self.script, extent(tree)), window)

    def check_size(self, read: int, at: Span, why: str = "") -> None:
        """What is not written often may still be read often; `why` says so, with the way out."""
        if read > MOST_READ:
            reason = f"the plan of this query would read {read:,} windows and tables, and {MOST_READ} are the most"
            raise CqlError(reason + why, self.script, at)

    def check_bounded(self, node: Node, what: str) -> Node:
        """The node, unless an operator that remembers its input would remember all of a stream."""
        for alias, of_what in _unbounded(node):
            reason = f"{what} over {of_what}"
            raise CqlError(reason, self.script, self.windows[alias])
        return node


_STREAM = "[UNBOUNDED] would have to remember the whole stream: give a window, [WINDOW 10 min]"
_RESULTS = "append-only results would have to remember all of them: give them a window, (SELECT ..) [RANGE 10 min] a"


def _unbounded(node: Node) -> Iterator[tuple[str, str]]:
    """Windows whose tuples, or results, would be remembered for ever."""
    if isinstance(node, BaseWindow) and node.window.unbounded:
        yield node.alias, _STREAM
    if isinstance(node, Deltas | Outliving | Snapshots) and node.pattern is UpdatePattern.MONOTONIC:
        yield windows(node)[0].alias, _RESULTS
    elif not isinstance(node, GroupBy | ResultWindow):  # groups and windows are all that is remembered
        for part in inputs(node):
            yield from _unbounded(part)


def read_by(node: Node) -> int:
    """How many windows and tables a plan reads, each as often as it stands there."""
    return sum(isinstance(part, BaseWindow | NrrJoin | RelationJoin) for _, part in edges(node))


@dataclass(frozen=True)
class From:
    """The sources by the names that the plan gives them, with the places of their words."""

    sources: dict[str, Source]
    places: dict[str, Span]
    columns: WindowColumns
    conditions: tuple[Term, ...] = ()


def bind_from(tree: exp.Select, query: QueryScope, outer: WindowColumns | None) -> From:
    first, joins = tree.args["from_"].this, tree.args.get("joins") or []
    tables = [first, *(join.this for join in joins)]
    names = [query.name(_alias(table, query), _window_place(table)) for table in tables]
    found = From({}, {}, WindowColumns((), ()))
    for name, table, join in zip(names, tables, (None, *joins), strict=True):
        found = _joined(found, name, table, join, query)
    return replace(found, columns=replace(found.columns, outer=outer))


def _alias(table: exp.Expr, query: QueryScope) -> str:
    alias = table.args.get("alias")
    if alias is None and isinstance(table, exp.Subquery):
        raise CqlError("a sub-query needs an alias: (SELECT ..) a", query.script, word_of(table))
    if alias is not None and alias.args.get("columns"):
        raise NotSupportedError("names for columns behind an alias", query.script, span_of(alias))
    known = table_of(table, query.catalog)
    if alias is not None:
        name = alias.name
    else:
        name = known.name if known is not None else stream_of(table, query.catalog, query.script).name
    if "." in name:
        raise CqlError("an alias has no dot: write AS and one without", query.script, span_of(alias or table))
    return name


def _window_place(table: exp.Expr) -> Span:
    clause = window_clause(table)
    return clause.span if clause is not None else span_of(table)


def _joined(left: From, name: str, node: exp.Expr, join: exp.Expr | None, query: QueryScope) -> From:
    source, table = _source(name, node, query)
    if left.columns.has(table.alias):
        at = span_of(node.args["alias"] if node.args.get("alias") is not None else node.this)
        reason = f"two windows or sub-queries are named '{table.alias}': give each its own alias"
        raise CqlError(reason, query.script, at)
    place = word_of(node) if isinstance(node, exp.Subquery) else span_of(node.this)
    columns = WindowColumns((*left.columns.tables, table), (*left.columns.visible, *table.fields))
    both = From({**left.sources, name: source}, {**left.places, name: place}, columns, left.conditions)
    return both if join is None else _with_condition(left, both, table, join, query.script)


def _source(name: str, node: exp.Expr, query: QueryScope) -> tuple[Source, AnswerTable]:
    if isinstance(node, exp.Subquery):
        plan = query.sub_query(node.this, window_clause(node))
        columns = tuple((column.name, column.type) for column in plan.schema)
        table = AnswerTable(node.alias, columns, name)
        return QuerySource(name, plan, Scope(query.script, WindowColumns((table,), ()))), table
    known = table_of(node, query.catalog)
    if known is not None:
        _refuse_window(node, query)
        columns = tuple((column.name, column.type) for column in known.schema)
        return TableSource(name, known), AnswerTable(node.alias or known.name, columns, name)
    stream = stream_of(node, query.catalog, query.script)
    window, partition = bind_continuous_window(node, stream, query.script, slides=query.slide is not None)
    clause = window_clause(node)
    internal = clause is not None and clause.internal_at is not None
    columns = tuple((column.name, column.type) for column in stream.schema)
    return WindowSource(name, stream, window, partition, internal=internal), AnswerTable(
        node.alias or stream.name, columns, name
    )


def _refuse_window(node: exp.Expr, query: QueryScope) -> None:
    clause = window_clause(node)
    if clause is not None:
        reason = f"'{node.name}' is a table, and only streams have windows: leave out the window"
        raise CqlError(reason, query.script, clause.span)


def _with_condition(left: From, both: From, table: AnswerTable, join: exp.Expr, script: str) -> From:
    kind, at = join_kind(join, script), word_of(join)
    if kind not in ("inner", "cross"):
        raise NotSupportedError(f"{kind.upper()} JOIN in a continuous query", script, at)
    using, on = join.args.get("using"), join.args.get("on")
    if kind != "cross" and not using and on is None:
        raise CqlError("JOIN needs USING (..) or ON ..; CROSS JOIN leaves the condition to WHERE", script, at)
    if using:
        return _using(left, both, table, using, script)
    if on is None:
        return both
    scope = Scope(script, both.columns).without_aggregates("cannot stand in ON; HAVING tests aggregates")
    condition = condition_of(require_boolean(type_expression(on, scope), "ON", scope))
    parts = condition.args if condition.op == "and" else (condition,)
    return replace(both, conditions=(*both.conditions, *parts))


def _using(left: From, both: From, table: AnswerTable, using: list[exp.Expr], script: str) -> From:
    """A column of USING stands once, before the others."""
    right = WindowColumns((table,), tuple(table.fields))
    shared: dict[str, Term] = {}
    merged: set[object] = set()
    conditions = list(both.conditions)
    for node in using:
        column = exp.Column(this=node.copy())
        one, other = (type_expression(column, Scope(script, side)) for side in (left.columns, right))
        conditions.append(compare("eq", one, other, Scope(script, both.columns)))
        shared[str(one.value).split(".", 1)[1]] = one
        merged |= {one.value, other.value}
    rest = ((name, term) for name, term in both.columns.visible if term.value not in merged)
    columns = WindowColumns(both.columns.tables, (*shared.items(), *rest))
    return replace(both, columns=columns, conditions=tuple(conditions))
