"""Clauses behind a statement, in any order and each at most once: `DELAY 2 sec KEEP 10 min`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sash.core.errors import nearest
from sash.language.reading.cursor import Cursor

# By a clause's first word: the field that it fills, and what reads the rest of it.
Readers = Mapping[str, tuple[str, Callable[[Cursor], Any]]]


def read_clauses(cursor: Cursor, readers: Readers) -> dict[str, Any]:
    """All that follows, by field; CqlError at a word that begins no clause, or one that was there before."""
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
