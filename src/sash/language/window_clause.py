"""The window clause behind a stream's name: `[WINDOW|RANGE d [SLIDE [EXACTLY] d] [LAG d]]`.

Other forms are recognised far enough to be named in the error. Multiples of the granule are checked by the
binder, which knows the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.core.errors import Span
from sash.core.time import Micros
from sash.core.window import TimeWindow
from sash.language.cursor import Cursor

_FORMS = "WINDOW, for example [WINDOW 10 min SLIDE 2 min]"
_LATER = {
    "ROWS": "row-based windows",
    "PARTITION BY": "partitioned row-based windows",
    "NOW": "windows of the current instant (NOW)",
    "UNBOUNDED": "unbounded windows",
    "INTERNAL": "internal windows",
}


@dataclass(frozen=True)
class WindowClause:
    """A window with the places of its parts."""

    window: TimeWindow
    span: Span
    length_at: Span
    slide_at: Span | None = None
    lag_at: Span | None = None


def parse_window_clause(cursor: Cursor) -> WindowClause:
    """Reads from `[` to `]`; the cursor stands behind it afterwards."""
    start = cursor.span.start
    cursor.expect("[")
    for word, what in _LATER.items():
        if cursor.at(word):
            raise cursor.unsupported(what)
    if not (cursor.accept("WINDOW") or cursor.accept("RANGE")):
        raise cursor.error(f"expected {_FORMS}, got {cursor.found()}")
    length, length_at = _part(cursor, "a window's length", least=1)
    slide, slide_at, exactly, lag, lag_at = None, None, False, 0, None
    if cursor.accept("SLIDE"):
        exactly = cursor.accept("EXACTLY")
        slide, slide_at = _part(cursor, "a SLIDE", least=1)
    if cursor.accept("LAG"):
        lag, lag_at = _part(cursor, "a LAG", least=0)
    if cursor.at("INTERNAL"):
        raise cursor.unsupported(_LATER["INTERNAL"])
    cursor.expect("]", _rest(slide_at is not None, lag_at is not None))
    span = Span(start, cursor.previous.end)
    return WindowClause(TimeWindow(length, slide, lag, exactly), span, length_at, slide_at, lag_at)


def _part(cursor: Cursor, what: str, *, least: Micros) -> tuple[Micros, Span]:
    start = cursor.span.start
    micros = cursor.duration(what, least=least)
    return micros, Span(start, cursor.previous.end)


def _rest(has_slide: bool, has_lag: bool) -> str:
    if has_lag:
        return "]"
    return "LAG or ]" if has_slide else "SLIDE, LAG or ]"
