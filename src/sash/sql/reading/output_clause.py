"""The output of a query: a relation-to-stream operator around the SELECT list, or around the whole SELECT.

SELECT Istream(*) FROM ..       SELECT Rstream(DISTINCT a, b) FROM ..      Istream(SELECT ..)
SELECT Wstream(*)[ROWS 10] ..   SELECT Rstream-restore(*) ..               Istream_restore(SELECT ..)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sash.core.errors import Span
from sash.sql.reading.cursor import Cursor, Name
from sash.sql.reading.window_clause import WindowClause, parse_window_clause

KINDS = ("istream", "dstream", "rstream", "wstream")
RESTORE = "restore"
_NO_RESTORE = {
    "dstream": "restore brings back results that came and went: write Istream_restore or Rstream_restore",
    "wstream": (
        "Wstream_restore cannot be: where a re-evaluation brings more results than the window has rows, "
        "nobody can say which of them are the last; use Istream_restore"
    ),
}


@dataclass(frozen=True)
class Around:
    """The aggregate around `Wstream(..)[..]`, as in SUM(Wstream(SUM(a))[ROWS 10]), and what its column is called."""

    function: Name
    alias: str | None = None


@dataclass(frozen=True)
class OutputClause:
    """`at` is the operator's own word."""

    kind: str
    restore: bool
    at: Span
    distinct: Span | None = None
    window: WindowClause | None = None
    around: Around | None = None

    @property
    def title(self) -> str:
        return f"{self.kind.capitalize()}{'_restore' if self.restore else ''}"


def accept_output(cursor: Cursor) -> OutputClause | None:
    """Reads `Istream(`; the cursor stands behind the parenthesis afterwards. A column may have such a name."""
    if cursor.token is None or not cursor.token.text.lower().startswith(KINDS):
        return None
    kind = next((kind for kind in KINDS if cursor.at(kind.upper())), None)
    if kind is not None and cursor.at(kind.upper(), "("):
        return _accepted(cursor, kind, False, 2)
    if kind is not None and cursor.at(kind.upper(), "-", RESTORE.upper(), "("):
        return _accepted(cursor, kind, True, 4)
    spelt = next((kind for kind in KINDS if cursor.at(f"{kind}_{RESTORE}".upper(), "(")), None)
    return None if spelt is None else _accepted(cursor, spelt, True, 2)


def accept_aggregate_of_results(cursor: Cursor) -> OutputClause | None:
    """Reads `SUM(Wstream(`, likewise."""
    inner = Cursor(cursor.tokens, cursor.text, cursor.position + 2)
    if cursor.token is None or not cursor.follows("(") or not inner.at("WSTREAM", "("):
        return None
    function = cursor.named("an aggregate")
    cursor.expect("(")
    clause = accept_output(cursor)
    return None if clause is None else replace(clause, around=Around(function))


def _accepted(cursor: Cursor, kind: str, restore: bool, words: int) -> OutputClause:
    start = cursor.span.start
    cursor.position += words - 1
    clause = OutputClause(kind, restore, Span(start, cursor.previous.end))
    cursor.position += 1
    if restore and kind in _NO_RESTORE:
        raise cursor.error(_NO_RESTORE[kind], clause.at)
    return clause


def finish_output(cursor: Cursor, clause: OutputClause) -> OutputClause:
    """Reads the window behind `Wstream(..)`: it has one, and the others have none."""
    if not cursor.at("["):
        if clause.kind == "wstream":
            raise cursor.error("Wstream needs a window: Wstream(*)[ROWS 10] or Wstream(*)[RANGE 1 min]", clause.at)
        return clause
    if clause.kind != "wstream":
        reason = f"only Wstream has a window behind it: Wstream(*)[ROWS 10], not {clause.title}"
        raise cursor.error(reason)
    return replace(clause, window=parse_window_clause(cursor))
