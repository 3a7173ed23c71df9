"""INSERT, UPDATE and DELETE: what they say, and what that means for a table of the catalog.

    INSERT INTO t [(a, b)] VALUES (1, 'x'), (2, 'y')        all columns, or those that are named; the others are NULL
    UPDATE t SET b = 'z' WHERE a = 1                        a = 1 is the whole key: one row
    DELETE FROM t WHERE a = 1

Values are constants: tables hold what is said, nothing is computed. The types are checked against the table's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from sash.catalog import Catalog, Table
from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.language.constants import constant_of
from sash.language.continuous_where import conjuncts
from sash.language.cursor import Cursor, Name
from sash.language.dialect import parse_expression
from sash.language.limits import within_stack
from sash.language.places import span_of
from sash.language.scope import Scope, WindowColumns
from sash.language.statements import Delete, Insert, TableStatement, Update
from sash.language.typer import type_expression
from sash.language.types import spark_name

_ONLY_KEY = "WHERE of UPDATE and DELETE fixes the key, and nothing else"


@dataclass(frozen=True)
class TableChange:
    """Rows with all columns (`insert`), with the key and what is set (`update`), or with the key alone (`delete`)."""

    table: Table
    kind: str
    rows: pa.Table


# -- reading -------------------------------------------------------------------------------------------


def parse_insert(cursor: Cursor) -> Insert:
    """The cursor stands behind the word INSERT."""
    cursor.expect("INTO")
    table = cursor.named("the table's name")
    columns = _names(cursor) if cursor.at("(") else None
    if cursor.at("SELECT"):
        raise cursor.unsupported("INSERT .. SELECT; write VALUES (..), or session.update_table in Python")
    cursor.expect("VALUES", "VALUES and rows in parentheses")
    rows = [_row(cursor)]
    while cursor.accept(","):
        rows.append(_row(cursor))
    cursor.expect_end(", or the end of the statement")
    return Insert(table, columns, tuple(rows), cursor.text)


def parse_update(cursor: Cursor) -> Update:
    table = cursor.named("the table's name")
    cursor.expect("SET")
    values = [_assignment(cursor)]
    while cursor.accept(","):
        values.append(_assignment(cursor))
    return Update(table, tuple(values), _where(cursor, "UPDATE", table), cursor.text)


def parse_delete(cursor: Cursor) -> Delete:
    cursor.expect("FROM")
    table = cursor.named("the table's name")
    return Delete(table, _where(cursor, "DELETE", table), cursor.text)


def _names(cursor: Cursor) -> tuple[Name, ...]:
    cursor.expect("(")
    names = [cursor.named("a column's name")]
    while cursor.accept(","):
        names.append(cursor.named("a column's name"))
    cursor.expect(")", ", or )")
    return tuple(names)


def _row(cursor: Cursor) -> tuple[exp.Expr, ...]:
    cursor.expect("(", "a row in parentheses")
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    cursor.expect(")", ", or )")
    return tuple(values)


def _assignment(cursor: Cursor) -> tuple[Name, exp.Expr]:
    name = cursor.named("a column's name")
    cursor.expect("=")
    return name, _value(cursor)


def _value(cursor: Cursor) -> exp.Expr:
    """The expression that ends at the next comma, parenthesis or WHERE of this level."""
    tokens = cursor.until(",", ")", "WHERE")
    return _expression(tokens, cursor, "a constant")


def _where(cursor: Cursor, word: str, table: Name) -> exp.Expr:
    if not cursor.at("WHERE"):
        raise cursor.error(
            f"{word} changes one row: expected WHERE and the key of '{table.text}', got {cursor.found()}"
        )
    cursor.accept("WHERE")
    tokens = cursor.tokens[cursor.position :]
    cursor.position = len(cursor.tokens)
    return _expression(tokens, cursor, "a condition")


def _expression(tokens: list[Token], cursor: Cursor, what: str) -> exp.Expr:
    if not tokens:
        raise cursor.error(f"expected {what}, got {cursor.found()}")
    return parse_expression(tokens, cursor.text)


# -- binding -------------------------------------------------------------------------------------------


def bind_change(statement: TableStatement, catalog: Catalog) -> TableChange:
    """What a statement says about a table; CqlError at the word that is wrong."""
    with within_stack(statement.script, statement.table.span):
        return _bind(statement, catalog)


def _bind(statement: TableStatement, catalog: Catalog) -> TableChange:
    table = _table(statement.table, catalog, statement.script)
    scope = Scope(statement.script, WindowColumns((), ()))
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
