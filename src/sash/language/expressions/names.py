"""A column's name, with or without its qualifier, in the scope where it stands; a stream's name in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Catalog, DeclaredArchive, Stream, Table
from sash.core.errors import CqlError, Span, nearest
from sash.language.expressions.functions import REFUSED
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import Term, render
from sash.language.reading.places import span_of


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
