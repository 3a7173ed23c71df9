"""The meaning of INSERT, UPDATE and DELETE for a table of the catalog.

Values are constants: nothing is computed. The types are checked against the table's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sash.catalog import Catalog, Table
from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.sql.expressions.constants import constant_of
from sash.sql.expressions.operators import conjuncts
from sash.sql.expressions.scope import FromColumns, Scope
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.cursor import Name
from sash.sql.reading.limits import within_stack
from sash.sql.reading.places import span_of
from sash.sql.reading.statements import Delete, Insert, TableStatement
from sash.sql.types import spark_name

_ONLY_KEY = "WHERE of UPDATE and DELETE fixes the key, and nothing else"


@dataclass(frozen=True)
class TableChange:
    """Rows with all columns (`insert`), with the key and what is set (`update`), or with the key alone (`delete`)."""

    table: Table
    kind: str
    rows: pa.Table


def bind_change(statement: TableStatement, catalog: Catalog) -> TableChange:
    """The change that a statement makes to a table; CqlError at the wrong word."""
    with within_stack(statement.script, statement.table.span):
        return _bind(statement, catalog)


def _bind(statement: TableStatement, catalog: Catalog) -> TableChange:
    table = _table(statement.table, catalog, statement.script)
    scope = Scope(statement.script, FromColumns())
    if isinstance(statement, Insert):
        return TableChange(table, "insert", _inserted(statement, table, scope))
    key = _key(statement.where, statement.table, table, scope)
    if isinstance(statement, Delete):
        return TableChange(table, "delete", _rows([key], table))
    values: dict[str, object] = {}
    for name, value in statement.values:
        column = _column(name.text, name.span, table, scope)
        if column.name in table.key:
            raise scope.error(f"'{column.name}' is in the key: DELETE the row and INSERT another", name.span)
        if column.name in values:
            raise scope.error(f"'{column.name}' is set twice", name.span)
        values[column.name] = _constant(value, column, table, scope)
    return TableChange(table, "update", _rows([{**key, **values}], table))


def _table(name: Name, catalog: Catalog, script: str) -> Table:
    if not catalog.has_table(name.text):
        hint = nearest(name.text, (table.name for table in catalog.tables)) or "; CREATE TABLE makes one"
        raise CqlError(f"unknown table '{name.text}'{hint}", script, name.span)
    return catalog.table(name.text)


def _inserted(statement: Insert, table: Table, scope: Scope) -> pa.Table:
    columns = list(table.schema)
    if statement.columns is not None:
        columns = [_column(name.text, name.span, table, scope) for name in statement.columns]
        twice = next((n for n, c in zip(statement.columns, columns, strict=True) if columns.count(c) > 1), None)
        if twice is not None:
            raise scope.error(f"'{twice.text}' is named twice", twice.span)
    missing = [key for key in table.key if key not in [column.name for column in columns]]
    if missing:
        raise scope.error(f"'{missing[0]}' is in the key of '{table.name}': give it a value", statement.table.span)
    rows = []
    for row in statement.rows:
        if len(row) != len(columns):
            at = Span(span_of(row[0]).start, span_of(row[-1]).end)
            raise scope.error(f"{len(columns)} columns need as many values, this row has {len(row)}", at)
        rows.append({c.name: _constant(value, c, table, scope) for c, value in zip(columns, row, strict=True)})
    return _rows([{**dict.fromkeys(table.schema.names), **row} for row in rows], table)


def _rows(rows: list[dict[str, object]], table: Table) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([column for column in table.schema if column.name in rows[0]]))


def _column(name: str, at: Span, table: Table, scope: Scope) -> pa.Field:
    column = table.column(name)
    if column is None:
        raise scope.error(f"unknown column '{name}' of '{table.name}'{nearest(name, table.schema.names)}", at)
    return column


def _constant(node: exp.Expr, column: pa.Field, table: Table, scope: Scope) -> object:
    if node.find(exp.Column) is not None:
        raise scope.error("expected a constant: a table holds what is said, nothing is computed", span_of(node))
    term = type_expression(node, scope)
    if term.op == "literal" and term.value is None:
        if column.name in table.key:
            raise scope.error(f"'{column.name}' is in the key of '{table.name}' and cannot be NULL", span_of(node))
        return None
    value = constant_of(term, column.type)
    if value is None:
        if term.op not in ("literal", "cast"):
            raise scope.error("expected a constant: a table holds what is said, nothing is computed", span_of(node))
        written = scope.script[span_of(node).start : span_of(node).end]
        reason = f"'{column.name}' is {spark_name(column.type)}, and {written} is no constant of this type"
        raise scope.error(reason, span_of(node))
    return value


def _key(where: exp.Expr, word: Name, table: Table, scope: Scope) -> dict[str, object]:
    """The constants that WHERE compares the key's columns with."""
    found: Mapping[str, object] = {}
    for part in conjuncts(where):
        name, value = _equality(part, scope)
        column = _column(name.name, span_of(name), table, scope)
        qualifier = name.args.get("table")
        if qualifier is not None and qualifier.name.lower() != table.name.lower():
            raise scope.error(f"unknown table '{qualifier.name}' here; it is '{table.name}'", span_of(qualifier))
        if column.name not in table.key:
            key = " AND ".join(f"{each} = .." for each in table.key)
            raise scope.unsupported(f"conditions on '{column.name}'; {_ONLY_KEY}: {key}", span_of(name))
        if column.name in found:
            raise scope.error(f"'{column.name}' is compared twice", span_of(name))
        found = {**found, column.name: _constant(value, column, table, scope)}
    missing = [each for each in table.key if each not in found]
    if missing:
        wanted = " AND ".join(f"{each} = .." for each in missing)
        raise scope.error(f"WHERE must fix the whole key of '{table.name}': add {wanted}", word.span)
    return dict(found)


def _equality(node: exp.Expr, scope: Scope) -> tuple[exp.Expr, exp.Expr]:
    """`column = constant`, whichever way around."""
    if isinstance(node, exp.EQ):
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(one, exp.Column) and other.find(exp.Column) is None:
                return one, other
    raise NotSupportedError(f"this condition; {_ONLY_KEY}: column = constant [AND ..]", scope.script, span_of(node))
