"""The meaning of names at one place of a SELECT: columns, aliases, and whether aggregates are allowed.

A column is a term `field`, and its value is the name of its source in FROM, a dot, and its own name. A source is a
stream's window, a table or a sub-query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Catalog, DeclaredArchive, Stream, Table
from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.core.user_aggregate import UserAggregate
from sash.core.user_function import UserFunction
from sash.sql.expressions.functions import REFUSED
from sash.sql.expressions.terms import AskedQuery, Term, render
from sash.sql.reading.places import span_of, word_of

_NOWHERE = Span(0, 1)
QUERY, STREAM, TABLE = "sub-query", "stream", "table"
_INSTANT = pa.timestamp("us", "UTC")
# The functions that tell the window of an answer, with the types of their values.
WINDOW_FUNCTIONS: Mapping[str, pa.DataType] = {
    "window_start": _INSTANT,
    "window_end": _INSTANT,
    "window_bounds": pa.struct([("start", _INSTANT), ("end", _INSTANT)]),
}


@dataclass(frozen=True)
class SourceColumns:
    """The columns of one source under its alias; `name` is the plan's name of the source.

    The columns of a stream can also be called by the name of the stream, `also`.
    """

    alias: str
    # By their lower-case names, which no two columns of a source share.
    columns: Mapping[str, pa.Field]
    name: str
    kind: str = QUERY
    also: str = ""
    # The column of a stream's event time.
    time: str = ""

    @classmethod
    def of(cls, relation: Stream | Table, alias: str, name: str) -> SourceColumns:
        if isinstance(relation, Table):
            return cls(alias, relation.columns, name, TABLE)
        return cls(alias, relation.columns, name, STREAM, relation.name, relation.timestamp)

    @classmethod
    def of_query(cls, columns: Iterable[tuple[str, pa.DataType]], alias: str, name: str) -> SourceColumns:
        return cls(alias, {column.lower(): pa.field(column, type) for column, type in columns}, name)

    def find(self, name: str, span: Span) -> list[Term]:
        """The column of this name, if there is one, as a term that stands at a place."""
        column = self.columns.get(name.lower())
        return [] if column is None else [self._term(column, span)]

    @property
    def fields(self) -> list[tuple[str, Term]]:
        """The columns as terms that stand nowhere yet."""
        return [(column.name, self._term(column, _NOWHERE)) for column in self.columns.values()]

    def _term(self, column: pa.Field, span: Span) -> Term:
        return Term("field", (), column.type, span, f"{self.name}.{column.name}")


@dataclass(frozen=True)
class FromColumns:
    """The columns of FROM. `outer` are those of the query around a sub-query; the columns of the sub-query hide them.

    A column of USING stands once, in `merged`, and hides those that it was made of: a name without a qualifier does not
    mean them, and SELECT * does not show them. All columns can be called by their qualified names.
    """

    sources: tuple[SourceColumns, ...] = ()
    merged: tuple[tuple[str, Term], ...] = ()
    hidden: frozenset[object] = frozenset()
    outer: FromColumns | None = None

    def beside(self, source: SourceColumns) -> FromColumns:
        return replace(self, sources=(*self.sources, source))

    def using(self, merged: Mapping[str, Term], hidden: Set[object]) -> FromColumns:
        """The columns of USING stand before all others. The `hidden` values are of the columns that they replace."""
        rest = ((name, term) for name, term in self.merged if term.value not in hidden)
        return replace(self, merged=(*merged.items(), *rest), hidden=self.hidden | hidden)

    @property
    def visible(self) -> list[tuple[str, Term]]:
        """The columns of SELECT *, which a name without a qualifier may mean."""
        columns = (column for source in self.sources for column in source.fields)
        return [*self.merged, *((name, term) for name, term in columns if term.value not in self.hidden)]

    @property
    def kinds(self) -> set[str]:
        return {source.kind for source in self.sources}

    @property
    def several(self) -> str:
        """The sources of a column with an ambiguous name."""
        if TABLE in self.kinds:
            return "of stream and tables"
        return "sub-queries" if self.kinds == {QUERY} else "windows"

    @property
    def qualifiers(self) -> tuple[str, ...]:
        outer = self.outer.qualifiers if self.outer is not None else ()
        return (*(source.alias for source in self.sources), *outer)

    def names(self, qualifier: str | None) -> list[str]:
        outer = self.outer.names(qualifier) if self.outer is not None else []
        return list(dict.fromkeys((*(name for name, _ in self.all(qualifier)), *outer)))

    def has(self, qualifier: str) -> bool:
        return self._source(qualifier) is not None or (self.outer is not None and self.outer.has(qualifier))

    def has_alias(self, alias: str) -> bool:
        return any(source.alias.lower() == alias.lower() for source in self.sources)

    def _source(self, qualifier: str) -> SourceColumns | None:
        """The source of this alias, or the only one of this stream, unless a query around has the alias."""
        name = qualifier.lower()
        found = [source for source in self.sources if source.alias.lower() == name]
        if not found and (self.outer is None or not self.outer.has(qualifier)):
            found = [source for source in self.sources if source.also.lower() == name]
        return found[0] if len(found) == 1 else None

    def streams(self, qualifier: str | None) -> list[SourceColumns]:
        """The streams with this alias or name; without a qualifier, all."""
        source = None if qualifier is None else self._source(qualifier)
        found = self.sources if qualifier is None else [source] if source is not None else []
        return [each for each in found if each.kind == STREAM]

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        """The meanings of a name: none, one column, or several if it is ambiguous."""
        source = None if qualifier is None else self._source(qualifier)
        if qualifier is None:
            found = self._visible(name, span)
        else:
            found = source.find(name, span) if source is not None else []
        if found or self.outer is None or source is not None:
            return found
        return self.outer.find(name, qualifier, span)

    def event_time(self, title: str, otherwise: str, at: Span, scope: Scope) -> Term:
        """The event time of the only stream; without it the message says what to write `otherwise`."""
        times = [source.find(source.time, at) for source in self.sources if source.time]
        if len(times) != 1 or not times[0]:
            raise scope.error(f"{title} goes by the event time of one stream: write {otherwise}", at)
        return times[0][0]

    def _visible(self, name: str, span: Span) -> list[Term]:
        """The columns of `visible` with this name, without the terms of all columns: a stream may have hundreds."""
        merged = [replace(term, span=span) for column, term in self.merged if column.lower() == name.lower()]
        found = (term for source in self.sources for term in source.find(name, span))
        return [*merged, *(term for term in found if term.value not in self.hidden)]

    def all(self, qualifier: str | None) -> Sequence[tuple[str, Term]]:
        """The columns that a name may mean, with this qualifier or without one."""
        if qualifier is None:
            return self.visible
        source = self._source(qualifier)
        return source.fields if source is not None else ()

    def starred(self, qualifier: str | None) -> Iterator[tuple[str, str | None, Term]]:
        """The columns of `*` or `a.*`, each with the alias of its source; USING's have several sources."""
        owners = {term.value: source.alias for source in self.sources for _, term in source.fields}
        hidden = owners.keys() - {term.value for _, term in self.visible}
        merged = {str(value).split(".", 1)[1].lower() for value in hidden} if qualifier is None else set[str]()
        for name, term in self.all(qualifier):
            yield name, None if name.lower() in merged else owners[term.value], term
            # A column of USING stands before all others of its name.
            merged.discard(name.lower())


@dataclass(frozen=True)
class Scope:
    """`no_aggregates` is why an aggregate is not allowed here; empty if it is allowed. `ask` binds a sub-query of an
    expression, where one may stand.

    `user` are the aggregates and functions that the program has made, by lower-case name.
    """

    script: str
    columns: FromColumns
    no_aggregates: str = ""
    aliases: Mapping[str, Term] = field(default_factory=dict)
    aliases_first: bool = False
    user: Mapping[str, UserAggregate | UserFunction] = field(default_factory=dict)
    ask: Callable[[exp.Expr], AskedQuery] | None = None

    def without_aggregates(self, reason: str) -> Scope:
        """The scope of what is computed over rows: it has no sub-queries either."""
        return replace(self, no_aggregates=reason, aliases={}, ask=None)

    def with_aliases(self, aliases: Mapping[str, Term], *, first: bool = False, no_aggregates: str = "") -> Scope:
        return replace(self, aliases=aliases, aliases_first=first, no_aggregates=no_aggregates)

    def check_aggregate(self, name: str, word: Span) -> None:
        """Check that an aggregate, or a call of TOP and its like, is allowed here."""
        if self.no_aggregates:
            raise self.error(f"the aggregate {name} {self.no_aggregates}", word)

    def error(self, reason: str, span: Span) -> CqlError:
        return CqlError(reason, self.script, span)

    def unsupported(self, what: str, span: Span) -> NotSupportedError:
        return NotSupportedError(what, self.script, span)


# Rules of single expressions call the typer of all expressions by this.
Typer = Callable[[exp.Expr, Scope], Term]


def column(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    if isinstance(node.this, exp.Star):
        raise scope.error("* cannot stand here: name the columns", span_of(node))
    name, qualifier, span = node.name, node.args.get("table"), span_of(node.this)
    if qualifier is not None:
        check_qualifier(node, scope)
        return _only(scope.columns.find(name, qualifier.name, span_of(node)), node, scope, span)
    alias = scope.aliases.get(name.lower())
    found = scope.columns.find(name, None, span)
    if alias is not None and (scope.aliases_first or not found):
        return replace(alias, span=span)
    return _only(found, node, scope, span)


def type_window_function(node: exp.Expr, scope: Scope) -> Term:
    """`window_end(w)` as a column of the window `w`, or of the only one."""
    name, word = node.name.lower(), word_of(node)
    arguments = node.expressions
    if len(arguments) > 1 or not all(isinstance(each, exp.Column) and not each.args.get("table") for each in arguments):
        raise scope.error(f"{name}(w) tells the window of w, the alias or the name of a stream in FROM", word)
    qualifier = arguments[0].name if arguments else None
    found = scope.columns.streams(qualifier)
    if qualifier is not None and not found:
        hint = nearest(qualifier, [each.alias for each in scope.columns.streams(None)])
        raise scope.error(f"'{qualifier}' is no stream of this FROM{hint}", span_of(arguments[0]))
    if not found:
        reason = f"{name}() tells the window of a stream in FROM, and here are none"
        raise scope.error(f"{reason}: select it inside the sub-query", word)
    if len(found) > 1:
        choices = " or ".join(f"{name}({each.alias})" for each in found)
        raise scope.error(f"{name}() is of several windows: write {choices}", word)
    return Term("field", (), WINDOW_FUNCTIONS[name], word, f"{found[0].name}.{name}()")


def check_qualifier(column: exp.Expr, scope: Scope) -> None:
    """Check that the qualifier of a column is a stream or an alias."""
    qualifier = column.args["table"]
    if not scope.columns.has(qualifier.name):
        if any(pt.is_struct(term.type) for term in scope.columns.find(qualifier.name, None, span_of(qualifier))):
            raise scope.unsupported(field_of_struct(column), span_of(column))
        hint = nearest(qualifier.name, scope.columns.qualifiers)
        what = " or ".join(kind for kind in (STREAM, QUERY) if kind in scope.columns.kinds) or STREAM
        raise scope.error(f"unknown {what} '{qualifier.name}'{hint}", span_of(qualifier))


def field_of_struct(column: exp.Expr) -> str:
    """The message for `http.status`: what is not supported, and the alternative."""
    struct, field = column.args["table"].name, column.name
    written = f"{struct}.*" if isinstance(column.this, exp.Star) else f"{struct}.{field} AS {struct}_{field}"
    way_out = f"df.selectExpr('*', '{written}')"
    return f"fields of structs; make a column of it before the stream is made: {way_out}"


def _only(found: list[Term], node: exp.Expr, scope: Scope, span: Span) -> Term:
    if not found:
        raise _unknown(node, scope, span)
    if len(found) > 1:
        choices = " or ".join(render(term) for term in found)
        raise scope.error(f"column '{node.name}' is in several {scope.columns.several}: write {choices}", span)
    return found[0]


def _unknown(node: exp.Expr, scope: Scope, span: Span) -> CqlError:
    if node.name.lower() in REFUSED and not node.this.args.get("quoted"):
        return scope.error(f"{node.name.upper()} is refused: {REFUSED[node.name.lower()]}", span)
    qualifier = node.args.get("table")
    known = [*scope.columns.names(qualifier.name if qualifier is not None else None), *scope.aliases]
    return scope.error(f"unknown column '{node.name}'{nearest(node.name, known)}", span)


def stream_of(table: exp.Expr, catalog: Catalog, script: str) -> Stream:
    if catalog.has_stream(table.name):
        return catalog.stream(table.name)
    asked_once = "an archive" if catalog.has_archive(table.name) else "a query" if catalog.has_query(table.name) else ""
    if asked_once:
        reason = f"'{table.name}' is {asked_once}, which is asked once: a SELECT without a window and without REGISTER"
        raise CqlError(reason, script, span_of(table.this))
    known = [stream.name for stream in catalog.streams] + [each.name for each in catalog.tables]
    known += [archive.name for archive in catalog.archives] + [query.name for query in catalog.queries]
    hint = nearest(table.name, known) or "; CREATE STREAM makes one"
    raise CqlError(f"unknown stream '{table.name}'{hint}", script, span_of(table.this))


def table_of(node: exp.Expr, catalog: Catalog) -> Table | None:
    """The table of a name in FROM, or None."""
    return catalog.table(node.name) if isinstance(node, exp.Table) and catalog.has_table(node.name) else None


def archive_of(node: exp.Expr, catalog: Catalog) -> DeclaredArchive | None:
    """The archive of a name in FROM, or None."""
    return catalog.archive(node.name) if isinstance(node, exp.Table) and catalog.has_archive(node.name) else None
