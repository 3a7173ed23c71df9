"""CREATE [NONRETROACTIVE] TABLE name (column type [PRIMARY KEY], .. [, PRIMARY KEY (column, ..)])."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from sash.core.errors import Span, nearest
from sash.language.reading.create_stream import column_type
from sash.language.reading.cursor import Cursor, Name
from sash.language.reading.statements import CreateTable
from sash.language.types import spark_name

_KEY = "PRIMARY KEY"


def parse_create_table(cursor: Cursor, *, retroactive: bool) -> CreateTable:
    """The cursor stands behind the word TABLE."""
    name = cursor.named("the table's name")
    cursor.expect("(", "( and the table's columns")
    fields, keys = dict[str, pa.Field](), list[tuple[Name, ...]]()
    while True:
        if cursor.at(_KEY):
            keys.append(_named_key(cursor, keys))
        else:
            _column(cursor, fields, keys)
        if not cursor.accept(","):
            break
    cursor.expect(")", ", or )")
    cursor.expect_end()
    return CreateTable(name.text, pa.schema(list(fields.values())), _key(cursor, name, fields, keys), retroactive)


def _column(cursor: Cursor, fields: dict[str, pa.Field], keys: list[tuple[Name, ...]]) -> None:
    name = cursor.named("a column's name or PRIMARY KEY")
    if name.text.lower() in fields:
        raise cursor.error(f"column '{name.text}' is declared twice", name.span)
    fields[name.text.lower()] = pa.field(name.text, column_type(cursor, end=_KEY))
    if cursor.at(_KEY):
        _check_once(cursor, keys)
        cursor.accept(_KEY)
        keys.append((name,))


def _named_key(cursor: Cursor, keys: list[tuple[Name, ...]]) -> tuple[Name, ...]:
    _check_once(cursor, keys)
    cursor.accept(_KEY)
    cursor.expect("(", "( and the columns of the key")
    names = [cursor.named("a column of the key")]
    while cursor.accept(","):
        names.append(cursor.named("a column of the key"))
    cursor.expect(")", ", or )")
    return tuple(names)


def _check_once(cursor: Cursor, keys: list[tuple[Name, ...]]) -> None:
    if keys:
        raise cursor.error("PRIMARY KEY is given twice: a key of several columns is PRIMARY KEY (a, b) at the end")


def _key(cursor: Cursor, table: Name, fields: dict[str, pa.Field], keys: list[tuple[Name, ...]]) -> tuple[str, ...]:
    """The key's columns as the table spells them."""
    if not keys:
        reason = f"'{table.text}' needs a key, by which its rows are found: write PRIMARY KEY behind a column's type"
        raise cursor.error(f"{reason}, or PRIMARY KEY (a, b) at the end", table.span)
    found: dict[str, Span] = {}
    for name in keys[0]:
        column = fields.get(name.text.lower())
        if column is None:
            hint = nearest(name.text, [each.name for each in fields.values()])
            raise cursor.error(f"unknown column '{name.text}'{hint}", name.span)
        if pt.is_nested(column.type) or pt.is_floating(column.type):
            raise cursor.unsupported(f"a key of type {spark_name(column.type)}", name.span)
        if column.name in found:
            raise cursor.error(f"column '{name.text}' stands twice in the key", name.span)
        found[column.name] = name.span
    return tuple(found)
