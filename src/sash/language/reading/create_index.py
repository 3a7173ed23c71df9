"""CREATE INDEX ON stream (column) [USING kind], DROP INDEX ON stream (column) [USING kind]."""

from __future__ import annotations

from sash.core.errors import nearest
from sash.language.reading.cursor import Cursor, Name
from sash.language.reading.statements import CreateIndex, DropIndex

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
    cursor.expect("ON", "ON and a stream with KEEP, for example ON packets (src)")
    stream = cursor.named("the stream's name")
    cursor.expect("(", "( and the column")
    column = cursor.named("a column of the stream")
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
