"""CREATE STREAM name [(columns)] FROM format [OPTIONS (...)] TIMESTAMP column [clauses in any order].

TIMESTAMP may be left out where a source has one column for it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from sash.catalog import CLUSTER, EVENT_TIMES, MEMORY, Source, one_in
from sash.core.errors import Span, nearest
from sash.core.time import Micros
from sash.language.reading.clauses import Readers, read_clauses
from sash.language.reading.cursor import Cursor
from sash.language.reading.dialect import parse_type
from sash.language.reading.statements import CreateStream
from sash.language.types import arrow_type


def parse_create_stream(cursor: Cursor) -> CreateStream:
    """The cursor stands behind the words CREATE STREAM."""
    name = cursor.name("the stream's name")
    schema = _columns(cursor) if cursor.at("(") else None
    cursor.expect("FROM", "FROM and a Spark source's format, for example FROM parquet")
    source = Source(cursor.name("a Spark source's format").lower(), _options(cursor))
    clauses = _clauses(cursor)
    if "timestamp" not in clauses and source.format not in EVENT_TIMES:
        raise cursor.error("expected TIMESTAMP and the column that carries event time")
    column, at = clauses.pop("timestamp", (EVENT_TIMES.get(source.format), cursor.previous))
    if "keep" in clauses:
        clauses["keep"], clauses["keep_in"] = clauses["keep"]
    if "shed" in clauses:
        clauses["shed"], clauses["shed_approx"] = clauses["shed"]
    return CreateStream(name, schema, _timestamp(cursor, schema, column, at), source, **clauses)


def _clauses(cursor: Cursor) -> dict[str, Any]:
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


def _shed(cursor: Cursor) -> tuple[int, bool]:
    """RANDOM p [APPROX]: p is one in n."""
    cursor.expect("RANDOM", "RANDOM and the part of the tuples to keep, for example RANDOM 0.5")
    token = cursor.token
    if token is None or token.token_type != TokenType.NUMBER:
        raise cursor.error(f"expected the part of the tuples to keep, for example 0.5, got {cursor.found()}")
    cursor.position += 1
    try:
        return one_in(token.text), cursor.accept("APPROX")
    except ValueError as reason:
        raise cursor.error(str(reason), cursor.previous) from None


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
    raise cursor.error(f"unknown column '{column}'{nearest(column, schema.names)}", at)


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
