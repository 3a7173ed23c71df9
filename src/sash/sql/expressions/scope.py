"""What a name may mean at one place of a SELECT: columns, aliases, and whether aggregates may stand.

Columns come from a stream's tuples (`StreamColumns`), from the answers of sub-queries (`AnswerColumns`), or, in a
continuous query, from windows and sub-queries alike (`WindowColumns`).

A column's name, with or without its qualifier, in the scope where it stands; a stream's name in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Catalog, DeclaredArchive, Stream, Table
from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.sql.expressions.functions import REFUSED
from sash.sql.expressions.terms import Term, render
from sash.sql.reading.places import span_of

_NOWHERE = Span(0, 1)


@dataclass(frozen=True)
class StreamColumns:
    """The columns of one stream, which may be called by its alias or its name."""

    stream: Stream
    alias: str
    what, plural, aggregable = "stream", "streams", True

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return (self.alias,)

    def names(self, qualifier: str | None) -> list[str]:
        return list(self.stream.schema.names)

    def has(self, qualifier: str) -> bool:
        return qualifier.lower() in (self.alias.lower(), self.stream.name.lower())

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        """What the name may mean: nothing, one column, or several where it is ambiguous."""
        column = self.stream.column(name)
        return [] if column is None else [Term("column", (), column.type, span, column.name)]


@dataclass(frozen=True)
class AnswerTable:
    """The answer of one sub-query under its alias; `name` is what the plan calls it, if that is not the alias."""

    alias: str
    columns: tuple[tuple[str, pa.DataType], ...]
    name: str = ""

    @property
    def fields(self) -> list[tuple[str, Term]]:
        """Its columns as terms that stand nowhere yet."""
        prefix = self.name or self.alias
        return [(name, Term("field", (), type, _NOWHERE, f"{prefix}.{name}")) for name, type in self.columns]


@dataclass(frozen=True)
class AnswerColumns:
    """The columns of joined answers.

    `visible` is what SELECT * shows and what a name without a qualifier may mean: a column of USING stands there
    once, and all columns of the tables can be called by their qualified names.
    """

    tables: tuple[AnswerTable, ...]
    visible: tuple[tuple[str, Term], ...]
    what, plural, aggregable = "sub-query", "sub-queries", False

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return tuple(table.alias for table in self.tables)

    def names(self, qualifier: str | None) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.all(qualifier)))

    def has(self, qualifier: str) -> bool:
        return self.table(qualifier) is not None

    def table(self, alias: str) -> AnswerTable | None:
        return next((table for table in self.tables if table.alias.lower() == alias.lower()), None)

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        return [replace(term, span=span) for column, term in self.all(qualifier) if column.lower() == name.lower()]

    def all(self, qualifier: str | None) -> Sequence[tuple[str, Term]]:
        """The columns that a name may mean, with this qualifier or without one."""
        if qualifier is None:
            return self.visible
        table = self.table(qualifier)
        return table.fields if table is not None else ()

    def starred(self, qualifier: str | None) -> Iterator[tuple[str, str | None, Term]]:
        """What `*` or `a.*` stands for, each column with the alias of its table; USING's are of several tables."""
        owners = {term.value: table.alias for table in self.tables for _, term in table.fields}
        hidden = owners.keys() - {term.value for _, term in self.visible}
        merged = {str(value).split(".", 1)[1].lower() for value in hidden} if qualifier is None else set[str]()
        for name, term in self.all(qualifier):
            yield name, None if name.lower() in merged else owners[term.value], term
            # A column of USING stands before all others of its name.
            merged.discard(name.lower())


@dataclass(frozen=True)
class WindowColumns(AnswerColumns):
    """The columns of FROM in a continuous query. `outer` are those of the query around it, which its own hide."""

    outer: WindowColumns | None = None
    what, plural, aggregable = "stream or sub-query", "windows", True

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return (*super().qualifiers, *(self.outer.qualifiers if self.outer is not None else ()))

    def names(self, qualifier: str | None) -> list[str]:
        outer = self.outer.names(qualifier) if self.outer is not None else []
        return list(dict.fromkeys((*super().names(qualifier), *outer)))

    def has(self, qualifier: str) -> bool:
        return super().has(qualifier) or (self.outer is not None and self.outer.has(qualifier))

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        found = super().find(name, qualifier, span)
        if found or self.outer is None or (qualifier is not None and super().has(qualifier)):
            return found
        return self.outer.find(name, qualifier, span)


@dataclass(frozen=True)
class Scope:
    """`no_aggregates` is why an aggregate may not stand here, or empty where it may."""

    script: str
    columns: StreamColumns | AnswerColumns
    no_aggregates: str = ""
    aliases: Mapping[str, Term] = field(default_factory=dict)
    aliases_first: bool = False

    def without_aggregates(self, reason: str) -> Scope:
        return replace(self, no_aggregates=reason, aliases={})

    def with_aliases(self, aliases: Mapping[str, Term], *, first: bool = False, no_aggregates: str = "") -> Scope:
        return replace(self, aliases=aliases, aliases_first=first, no_aggregates=no_aggregates)

    def check_aggregate(self, name: str, word: Span) -> None:
        """Whether an aggregate, or a call of TOP and its like, may stand here at all."""
        if not self.columns.aggregable:
            raise self.unsupported(f"the aggregate {name} over sub-queries; aggregate inside a sub-query", word)
        if self.no_aggregates:
            raise self.error(f"the aggregate {name} {self.no_aggregates}", word)

    def error(self, reason: str, span: Span) -> CqlError:
        return CqlError(reason, self.script, span)

    def unsupported(self, what: str, span: Span) -> NotSupportedError:
        return NotSupportedError(what, self.script, span)


# How the rules of single expressions come back to the typer of all.
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


def check_qualifier(column: exp.Expr, scope: Scope) -> None:
    """Whether what stands before a column's dot is a stream or an alias."""
    qualifier = column.args["table"]
    if not scope.columns.has(qualifier.name):
        if any(pt.is_struct(term.type) for term in scope.columns.find(qualifier.name, None, span_of(qualifier))):
            raise scope.unsupported(field_of_struct(column), span_of(column))
        hint = nearest(qualifier.name, scope.columns.qualifiers)
        raise scope.error(f"unknown {scope.columns.what} '{qualifier.name}'{hint}", span_of(qualifier))


def field_of_struct(column: exp.Expr) -> str:
    """What is not supported of `http.status`, with the way out."""
    struct, field = column.args["table"].name, column.name
    written = f"{struct}.*" if isinstance(column.this, exp.Star) else f"{struct}.{field} AS {struct}_{field}"
    way_out = f"df.selectExpr('*', '{written}')"
    return f"fields of structs; make a column of it before the stream is made: {way_out}"


def _only(found: list[Term], node: exp.Expr, scope: Scope, span: Span) -> Term:
    if not found:
        raise _unknown(node, scope, span)
    if len(found) > 1:
        choices = " or ".join(render(term) for term in found)
        raise scope.error(f"column '{node.name}' is in several {scope.columns.plural}: write {choices}", span)
    return found[0]


def _unknown(node: exp.Expr, scope: Scope, span: Span) -> CqlError:
    if node.name.lower() in REFUSED and not node.this.args.get("quoted"):
        return scope.error(f"{node.name.upper()} is refused: {REFUSED[node.name.lower()]}", span)
    qualifier = node.args.get("table")
    known = [*scope.columns.names(qualifier.name if qualifier is not None else None), *scope.aliases]
    return scope.error(f"unknown column '{node.name}'{nearest(node.name, known)}", span)


def stream_of(table: exp.Expr, catalog: Catalog, script: str) -> Stream:
    for stream in catalog.streams:
        if stream.name.lower() == table.name.lower():
            return stream
    if catalog.has_archive(table.name):
        reason = f"'{table.name}' is an archive, which is asked once: a SELECT without a window and without REGISTER"
        raise CqlError(reason, script, span_of(table.this))
    known = [stream.name for stream in catalog.streams] + [each.name for each in catalog.tables]
    known += [archive.name for archive in catalog.archives]
    hint = nearest(table.name, known) or "; CREATE STREAM makes one"
    raise CqlError(f"unknown stream '{table.name}'{hint}", script, span_of(table.this))


def table_of(node: exp.Expr, catalog: Catalog) -> Table | None:
    """The table that a name in FROM means, if it means one."""
    return catalog.table(node.name) if isinstance(node, exp.Table) and catalog.has_table(node.name) else None


def archive_of(node: exp.Expr, catalog: Catalog) -> DeclaredArchive | None:
    """The archive that a name in FROM means, if it means one."""
    return catalog.archive(node.name) if isinstance(node, exp.Table) and catalog.has_archive(node.name) else None
