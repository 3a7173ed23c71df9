"""CREATE and DROP of streams, tables, indexes and archives, as they are written.

    CREATE STREAM name [(columns)] FROM format [OPTIONS (...)] TIMESTAMP column | ARRIVAL [clauses]
    CREATE [NONRETROACTIVE] TABLE name (column type [PRIMARY KEY], .. [, PRIMARY KEY (column, ..)])
    CREATE INDEX ON stream (column) [USING kind]        DROP INDEX ON stream (column) [USING kind]
    CREATE ARCHIVE name FROM stream_or_query KEY column LIFETIME [column] UP TO duration UPDATE EVERY duration
        [PARTITION AUTO | PARTITION g x e [CHRONOLOGICAL | ROUND ROBIN | RANDOM] [REBUILD | NOREBUILD]] [IN 'directory']
    ALTER ARCHIVE name PARTITION ..                     DROP ARCHIVE name

TIMESTAMP may be left out where a source has one column for it. Clauses of a stream (`DELAY 2 sec KEEP 10 min`) stand in
any order, each at most once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot.tokenizer_core import TokenType

from sash.catalog import ARRIVAL, CLUSTER, EVENT_TIMES, MEMORY, Source, one_in
from sash.core.errors import Span, nearest
from sash.core.time import Micros
from sash.sql.reading.cursor import Cursor, Name
from sash.sql.reading.dialect import parse_type
from sash.sql.reading.statements import (
    AlterArchive,
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    DropIndex,
    Partitioning,
)
from sash.sql.types import arrow_type, spark_name

# By a clause's first word: its field, and the reader of its rest.
Readers = Mapping[str, tuple[str, Callable[[Cursor], Any]]]


def read_clauses(cursor: Cursor, readers: Readers) -> dict[str, Any]:
    """All clauses, by field; CqlError at a word that begins no clause, or begins one again."""
    found: dict[str, Any] = {}
    while cursor.token is not None:
        word = next((clause for clause in readers if cursor.at(clause)), None)
        if word is None:
            hint = nearest(cursor.token.text, readers).split("; known")[0]
            raise cursor.error(f"expected one of {', '.join(readers)}, got {cursor.found()}{hint}")
        field, read = readers[word]
        if field in found:
            raise cursor.error(f"{word} is given twice")
        cursor.accept(word)
        found[field] = read(cursor)
    return found


# From a value to its rows, and from a value to their number (Golab, Garg and Özsu 2003).
ROW_KINDS = ("ring", "aux", "bw", "db")
SET_KINDS = ("list", "tree", "hash", "unsorted")
_NO_G = "a G-INDEX knows ranges of values, and no question asks for ranges; APPROX INTERSECT has one of its own"


def parse_create_index(cursor: Cursor) -> CreateIndex:
    """The cursor stands behind the words CREATE INDEX."""
    return CreateIndex(*_rest(cursor), cursor.text)


def parse_drop_index(cursor: Cursor) -> DropIndex:
    """The cursor stands behind the words DROP INDEX."""
    return DropIndex(*_rest(cursor), cursor.text)


def _rest(cursor: Cursor) -> tuple[Name, Name, str | None]:
    cursor.expect("ON", "ON and a stream with KEEP or a query, for example ON packets (src)")
    stream = cursor.named("the name of a stream or a query")
    cursor.expect("(", "( and the column")
    column = cursor.named("a column")
    cursor.expect(")", ") after the column: an index has one")
    kind = None
    if cursor.accept("USING"):
        name = cursor.named(f"one of {', '.join((*ROW_KINDS, *SET_KINDS))}")
        kind = name.text.lower()
        if kind == "g":
            raise cursor.error(_NO_G, name.span)
        if kind not in (*ROW_KINDS, *SET_KINDS):
            raise cursor.error(f"unknown index '{name.text}'{nearest(kind, (*ROW_KINDS, *SET_KINDS))}", name.span)
    cursor.expect_end()
    return stream, column, kind


_MANNERS = (
    (("CHRONOLOGICAL",), "layout", "chronological"),
    (("ROUND", "ROBIN"), "layout", "round_robin"),
    (("RANDOM",), "layout", "random"),
    (("REBUILD",), "rebuild", True),
    (("NOREBUILD",), "rebuild", False),
)
_NEEDED = {
    "key": "KEY and the column by which rows are looked for",
    "lifetime": "LIFETIME UP TO and the longest time that a row is kept, for example LIFETIME UP TO 16 min",
    "every": "UPDATE EVERY and a duration, for example UPDATE EVERY 2 min",
}


def parse_create_archive(cursor: Cursor) -> CreateArchive:
    """The cursor stands behind the words CREATE ARCHIVE."""
    name = cursor.named("the archive's name")
    cursor.expect("FROM", "FROM and a stream or a registered query")
    source = cursor.named("a stream or a registered query")
    clauses = _archive_clauses(cursor)
    for field, what in _NEEDED.items():
        if field not in clauses:
            raise cursor.error(f"expected {what}")
    column, lifetime = clauses.pop("lifetime")
    return CreateArchive(name, source, **clauses, lifetime=lifetime, lifetime_column=column, script=cursor.text)


def parse_alter_archive(cursor: Cursor) -> AlterArchive:
    """The cursor stands behind the words ALTER ARCHIVE."""
    name = cursor.named("the archive's name")
    cursor.expect("PARTITION", "PARTITION, for example PARTITION 2 x 2")
    partitioning = _partitioning(cursor)
    cursor.expect_end()
    return AlterArchive(name, partitioning, cursor.text)


def _archive_clauses(cursor: Cursor) -> dict[str, Any]:
    readers: Readers = {
        "KEY": ("key", lambda c: c.named("the column by which rows are looked for")),
        "LIFETIME": ("lifetime", _lifetime),
        "UPDATE": ("every", _every),
        "PARTITION": ("partitioning", _partitioning),
        "IN": ("directory", lambda c: c.string("a directory")),
    }
    return read_clauses(cursor, readers)


def _lifetime(cursor: Cursor) -> tuple[Name | None, Micros]:
    """`UP TO 16 min`, or first the column with the lifetime of each row."""
    column = None if cursor.at("UP", "TO") else cursor.named("UP TO, or the column that has the lifetimes")
    if not cursor.accept("UP", "TO"):
        raise cursor.error(f"expected UP TO and the longest lifetime, got {cursor.found()}")
    return column, cursor.duration("a LIFETIME", least=1)


def _every(cursor: Cursor) -> Micros:
    cursor.expect("EVERY", "EVERY and a duration after UPDATE")
    return cursor.duration("a duration after UPDATE EVERY", least=1)


def _partitioning(cursor: Cursor) -> Partitioning:
    if cursor.accept("AUTO"):
        return Partitioning()
    start = cursor.span
    insertions, expiries = _numbers(cursor)
    if min(insertions, expiries) < 2:
        reason = f"an archive has at least 2 x 2 partitions, got {insertions} x {expiries}"
        raise cursor.error(f"{reason}; with one, every update would go through all of it", start)
    said: dict[str, Any] = {}
    while (found := _manner(cursor)) is not None and found[0] not in said:
        said[found[0]] = found[1]
        cursor.position += found[2]
    return Partitioning(insertions, expiries, **said)


def _manner(cursor: Cursor) -> tuple[str, bool | str, int] | None:
    """The partitioning or update strategy in the next words, and the number of these words."""
    if cursor.at("ROUND") and not cursor.at("ROUND", "ROBIN"):
        cursor.accept("ROUND")
        raise cursor.error(f"expected ROBIN after ROUND, got {cursor.found()}")
    for words, field, value in _MANNERS:
        if cursor.at(*words):
            return field, value, len(words)
    return None


def _numbers(cursor: Cursor) -> tuple[int, int]:
    """`4 x 4`, however it is spaced: the tokenizer takes `4x4` for a name."""
    ahead, start = cursor.tokens[cursor.position : cursor.position + 3], cursor.position
    for count in range(len(ahead), 0, -1):
        found = re.fullmatch(r"(\d{1,4})x(\d{1,4})", "".join(token.text.lower() for token in ahead[:count]))
        if found is not None:
            cursor.position = start + count
            return int(found[1]), int(found[2])
    raise cursor.error(f"expected AUTO, or parts by insertion x parts by expiry such as 4 x 4, got {cursor.found()}")


def parse_create_stream(cursor: Cursor) -> CreateStream:
    """The cursor stands behind the words CREATE STREAM."""
    name = cursor.name("the stream's name")
    schema = _columns(cursor) if cursor.at("(") else None
    cursor.expect("FROM", "FROM and a Spark source's format, for example FROM parquet")
    source = Source(cursor.name("a Spark source's format").lower(), _options(cursor))
    clauses = _stream_clauses(cursor)
    if "timestamp" not in clauses and source.format not in EVENT_TIMES:
        raise cursor.error("expected TIMESTAMP and the column that carries event time")
    column, at = clauses.pop("timestamp", (EVENT_TIMES.get(source.format), cursor.previous))
    if "keep" in clauses:
        clauses["keep"], clauses["keep_in"] = clauses["keep"]
    if "shed" in clauses:
        clauses["shed"], clauses["shed_first"], clauses["shed_approx"] = clauses["shed"]
    return CreateStream(name, schema, _timestamp(cursor, schema, column, at), source, **clauses)


def _stream_clauses(cursor: Cursor) -> dict[str, Any]:
    readers: Readers = {
        "TIMESTAMP": ("timestamp", _timestamp_name),
        "DELAY": ("delay", lambda c: c.duration("a DELAY")),
        "GRANULE": ("granule", lambda c: c.duration("a GRANULE", least=1)),
        "OFFSET": ("offset", lambda c: c.duration("an OFFSET")),
        "CLOSED": ("closed_left", lambda c: _flag(c, "LEFT")),
        "LATE": ("late_revise", lambda c: _flag(c, "REVISE")),
        "IDLE": ("idle_after", _idle_after),
        "KEEP": ("keep", _keep),
        "SHED": ("shed", _shed),
        "MAX": ("max_jump", _max_jump),
    }
    return read_clauses(cursor, readers)


def _flag(cursor: Cursor, word: str) -> bool:
    cursor.expect(word)
    return True


def _idle_after(cursor: Cursor) -> Micros:
    cursor.expect("AFTER")
    return cursor.duration("a duration after IDLE AFTER", least=1)


def _keep(cursor: Cursor) -> tuple[Micros, str]:
    """How long, and where: KEEP 1 hour [STORED IN CLUSTER]."""
    length = cursor.duration("a KEEP", least=1)
    if not cursor.accept("STORED"):
        return length, MEMORY
    cursor.expect("IN")
    place = next((place for place in (MEMORY, CLUSTER) if cursor.accept(place.upper())), None)
    if place is None:
        raise cursor.error(f"expected MEMORY or CLUSTER after STORED IN, got {cursor.found()}")
    return length, place


def _shed(cursor: Cursor) -> tuple[int, str | None, bool]:
    """RANDOM p [WHERE condition FIRST] [APPROX]: p is one in n."""
    cursor.expect("RANDOM", "RANDOM and the part of the tuples to keep, for example RANDOM 0.5")
    token = cursor.token
    if token is None or token.token_type != TokenType.NUMBER:
        raise cursor.error(f"expected the part of the tuples to keep, for example 0.5, got {cursor.found()}")
    cursor.position += 1
    try:
        part = one_in(token.text)
    except ValueError as reason:
        raise cursor.error(str(reason), cursor.previous) from None
    return part, _shed_first(cursor), cursor.accept("APPROX")


def _shed_first(cursor: Cursor) -> str | None:
    """WHERE condition FIRST: the condition's text. The stream's columns give it a meaning later."""
    if not cursor.accept("WHERE"):
        return None
    start = cursor.span.start
    while not cursor.at("FIRST"):
        if cursor.token is None:
            raise cursor.error("expected FIRST after the condition of SHED .. WHERE")
        cursor.position += 1
    if not (text := cursor.text[start : cursor.span.start].strip()):
        raise cursor.error(f"expected a condition after WHERE, got {cursor.found()}")
    cursor.expect("FIRST")
    return text


def _max_jump(cursor: Cursor) -> Micros:
    cursor.expect("JUMP")
    return cursor.duration("a duration after MAX JUMP", least=1)


def _timestamp_name(cursor: Cursor) -> tuple[str, Span]:
    return cursor.name("the column that carries event time"), cursor.previous


def _timestamp(cursor: Cursor, schema: pa.Schema | None, column: str, at: Span) -> str:
    """The column as the schema spells it."""
    if schema is None:
        return column
    for field in schema:
        if field.name.lower() == column.lower():
            if not pa.types.is_timestamp(field.type):
                raise cursor.error(f"'{field.name}' is not a TIMESTAMP; event time needs one", at)
            return field.name
    if column.lower() == ARRIVAL:
        _refuse_order(cursor)
        return ARRIVAL
    raise cursor.error(f"unknown column '{column}'{nearest(column, schema.names)}", at)


def _refuse_order(cursor: Cursor) -> None:
    """Refuse the clauses for tuples that are not in order: those of ARRIVAL are."""
    clauses = Cursor(cursor.tokens, cursor.text, cursor.position)
    while clauses.position and not clauses.at("FROM"):
        clauses.position -= 1
        if clauses.at("DELAY") or clauses.at("MAX", "JUMP"):
            word = "DELAY" if clauses.at("DELAY") else "MAX JUMP"
            raise clauses.error(f"tuples arrive in order, and {word} is for others: leave it out")


def _columns(cursor: Cursor) -> pa.Schema:
    fields: dict[str, pa.Field] = {}
    cursor.expect("(")
    while True:
        name, at = cursor.name("a column's name"), cursor.previous
        if name.lower() in fields:
            raise cursor.error(f"column '{name}' is declared twice", at)
        fields[name.lower()] = pa.field(name, column_type(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")", ", or )")
    return pa.schema(list(fields.values()))


def column_type(cursor: Cursor, *, end: str = ",") -> pa.DataType:
    """The type that ends at the next comma or parenthesis of this level, or before the word `end`."""
    tokens = cursor.until(",", ")", end, is_type=True)
    if not tokens:
        raise cursor.error(f"expected a type, got {cursor.found()}")
    span = Span(tokens[0].start, tokens[-1].end + 1)
    try:
        return arrow_type(parse_type(tokens, cursor.text))
    except ValueError as reason:
        raise cursor.error(str(reason), span) from None


def _options(cursor: Cursor) -> dict[str, str]:
    options: dict[str, str] = {}
    if not cursor.accept("OPTIONS"):
        return options
    cursor.expect("(")
    while True:
        name = _option_name(cursor)
        cursor.accept("=")
        options[name] = cursor.string(f"the value of option '{name}'")
        if not cursor.accept(","):
            break
    cursor.expect(")", ", or )")
    return options


def _option_name(cursor: Cursor) -> str:
    """`path`, 'path' or a dotted name such as kafka.bootstrap.servers."""
    if cursor.token is not None and cursor.token.token_type == TokenType.STRING:
        return cursor.string("an option's name")
    parts = [cursor.name("an option's name")]
    while cursor.accept("."):
        parts.append(cursor.name("an option's name"))
    return ".".join(parts)


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
