"""ALTER QUERY: other parts in the text of a query.

    SELECT COUNT(*) FROM s [WINDOW 1 min SLIDE 5 sec] GROUP BY a     SET (WINDOW 2 min, WHERE b > 1)
    SELECT COUNT(*) FROM s [WINDOW 2 min SLIDE 5 sec] WHERE b > 1 GROUP BY a

The text is edited, and not the plan: DESCRIBE shows the query that runs, and a restart reads it. Where a word could
mean several parts of the text, the word is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sash.core.errors import CqlError, Span
from sash.core.window import ElasticWindow, LandmarkWindow, SessionWindow
from sash.sql.reading.cursor import Cursor
from sash.sql.reading.dialect import tokenize
from sash.sql.reading.places import TextEdit, window_clause
from sash.sql.reading.statements import Select, Setting
from sash.sql.reading.window_clause import WindowClause

EXAMPLE = "WINDOW 2 min, SLIDE 10 sec, WHERE length > 100"
_WHOLE = "write the whole query, by REGISTER OR REPLACE QUERY"
_BEHIND_WHERE = ("GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT", "WITH")


def altered(query: Select, settings: Sequence[Setting], script: str) -> str:
    """The text of a query with other parts; CqlError at the setting that it has no place for. `script` has these."""
    edits = tuple(edit for setting in settings for edit in EDITED[setting.word](query, setting, script))
    return Select(exp.Select(), query.script, query.span, edits).cql


def _window(query: Select, setting: Setting, script: str) -> list[TextEdit]:
    clauses = _clauses(query, setting, script)
    if len(clauses) > 1:
        raise CqlError(f"the query has {len(clauses)} windows, and WINDOW sets one: {_WHOLE}", script, setting.at)
    window = clauses[0].window
    if window.unbounded or clauses[0].now or isinstance(window, ElasticWindow | LandmarkWindow | SessionWindow):
        written = query.script[clauses[0].span.start : clauses[0].span.end]
        raise CqlError(f"{written} has no length that WINDOW could set: {_WHOLE}", script, setting.at)
    return [TextEdit(clauses[0].length_at, setting.text)]


def _slide(query: Select, setting: Setting, script: str) -> list[TextEdit]:
    """In all windows: the windows of a query have one SLIDE."""
    clauses = _clauses(query, setting, script)
    if any(isinstance(clause.window, SessionWindow) for clause in clauses):
        reason = "with another SLIDE, sessions could be told twice, or not at all"
        raise CqlError(f"{reason}: {_WHOLE}", script, setting.at)
    places = [clause.slide_at for clause in clauses if clause.slide_at is not None]
    if not places:
        raise CqlError(f"the query has no SLIDE that could be set: {_WHOLE}", script, setting.at)
    return [TextEdit(place, setting.text) for place in places]


def _clauses(query: Select, setting: Setting, script: str) -> list[WindowClause]:
    found = {clause.span: clause for node in query.tree.walk() if (clause := window_clause(node)) is not None}
    if not found or any(clause.call is not None for clause in found.values()):
        reason = f"{setting.word} is set in a window behind a stream's name, [WINDOW ..], which the query does not have"
        raise CqlError(f"{reason}: {_WHOLE}", script, setting.at)
    return list(found.values())


def _where(query: Select, setting: Setting, script: str) -> list[TextEdit]:
    """The condition in the place of the present one, or behind FROM."""
    selects = list(query.tree.find_all(exp.Select))
    cursor = Cursor(tokenize(query.text), query.text)
    if len(selects) != 1 or not cursor.at("SELECT"):
        raise CqlError(f"the query has several places for WHERE: {_WHOLE}", script, setting.at)
    base = query.span.start
    cursor.until("WHERE", *_BEHIND_WHERE)
    end = base + cursor.previous.end
    if not cursor.accept("WHERE"):
        return [TextEdit(Span(end, end), f" WHERE {setting.text}")]
    start = base + cursor.span.start
    cursor.until(*_BEHIND_WHERE)
    return [TextEdit(Span(start, base + cursor.previous.end), setting.text)]


# What ALTER QUERY .. SET may edit.
EDITED: dict[str, Callable[[Select, Setting, str], list[TextEdit]]] = {
    "WINDOW": _window,
    "SLIDE": _slide,
    "WHERE": _where,
}
