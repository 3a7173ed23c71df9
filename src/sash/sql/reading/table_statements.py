"""INSERT, UPDATE and DELETE, as they are written.

INSERT INTO t [(a, b)] VALUES (1, 'x'), (2, 'y')        all columns, or those that are named; the others are NULL
UPDATE t SET b = 'z' WHERE a = 1                        a = 1 is the whole key: one row
DELETE FROM t WHERE a = 1
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from sash.sql.reading.cursor import Cursor, Name
from sash.sql.reading.dialect import parse_expression
from sash.sql.reading.statements import Delete, Insert, Update


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
