"""CREATE ARCHIVE name FROM stream_or_query KEY column LIFETIME [column] UP TO duration UPDATE EVERY duration ..

    [PARTITION AUTO | PARTITION g x e [CHRONOLOGICAL | ROUND ROBIN] [REBUILD | NOREBUILD]] [IN 'directory']

and ALTER ARCHIVE name PARTITION .., DROP ARCHIVE name.
"""

from __future__ import annotations

import re
from typing import Any

from sash.core.time import Micros
from sash.language.reading.clauses import Readers, read_clauses
from sash.language.reading.cursor import Cursor, Name
from sash.language.reading.statements import AlterArchive, CreateArchive, Partitioning

_MANNERS = (
    (("CHRONOLOGICAL",), "chronological", True),
    (("ROUND", "ROBIN"), "chronological", False),
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
    clauses = _clauses(cursor)
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


def _clauses(cursor: Cursor) -> dict[str, Any]:
    readers: Readers = {
        "KEY": ("key", lambda c: c.named("the column by which rows are looked for")),
        "LIFETIME": ("lifetime", _lifetime),
        "UPDATE": ("every", _every),
        "PARTITION": ("partitioning", _partitioning),
        "IN": ("directory", lambda c: c.string("a directory")),
    }
    return read_clauses(cursor, readers)


def _lifetime(cursor: Cursor) -> tuple[Name | None, Micros]:
    """`UP TO 16 min`, or first the column that says for how long each row is to be kept."""
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
    said: dict[str, bool] = {}
    while (found := _manner(cursor)) is not None and found[0] not in said:
        said[found[0]] = found[1]
        cursor.position += found[2]
    return Partitioning(insertions, expiries, **said)


def _manner(cursor: Cursor) -> tuple[str, bool, int] | None:
    """How it is partitioned or updated, as the next words say; and how many words these are."""
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
