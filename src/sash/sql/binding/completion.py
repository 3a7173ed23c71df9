"""The windows that a SELECT leaves to its streams.

    FROM packets                                   FROM packets [UNBOUNDED]
    GROUP BY window(ts, '10 seconds', '4 seconds') FROM packets [WINDOW 10 sec SLIDE EXACTLY 4 sec LAG 2 sec]

Windows of calls have their starts at the multiples of SLIDE, windows of CQL their ends. Where the two differ, LAG moves
the window back to the last end that a call has: the window is the call's, and is answered by less than a SLIDE later.
EXACTLY, because no policy may add windows.
On which side a window is closed decides which pane a tuple falls into, and that is the stream's: see `_check_edges`.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.catalog import Catalog, Stream
from sash.core.errors import CqlError
from sash.core.time import format_duration
from sash.core.window import FOREVER, SessionWindow, TimeWindow
from sash.sql.reading.places import TextEdit, set_window, span_of, window_clause
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowCall, WindowClause


def complete(select: Select, catalog: Catalog) -> Select:
    """The SELECT with the windows that it leaves out; itself if it has all of them."""
    if all((clause := window_clause(table)) is not None and clause.call is None for table in select.tables):
        return select
    # Where some streams have windows and others have none, somebody forgot one.
    has_windows = any(window_clause(table) is not None for table in select.tables)
    tree = select.tree.copy()
    edits = list(select.edits)
    for table in Select(tree, select.script, select.span).tables:
        if _is_open(table, catalog, has_windows):
            written, name = window_clause(table), span_of(table.this)
            clause = _unbounded(table) if written is None else _placed(written, catalog.stream(table.name), select)
            set_window(table, clause)
            place = name if written is None else written.span
            edits.append(TextEdit(place, f"{select.script[name.start : name.end]} {clause.window}"))
    return Select(tree, select.script, select.span, tuple(edits))


def _is_open(table: exp.Table, catalog: Catalog, has_windows: bool) -> bool:
    clause = window_clause(table)
    return (not has_windows if clause is None else clause.call is not None) and catalog.has_stream(table.name)


def _unbounded(table: exp.Table) -> WindowClause:
    at = span_of(table.this)
    return WindowClause(TimeWindow(FOREVER), at, at)


def _placed(clause: WindowClause, stream: Stream, select: Select) -> WindowClause:
    """The window of a call as the stream's multiples have it."""
    call, window = clause.call, clause.window
    assert call is not None and window.slide is not None
    _check_time(call, stream, select.script)
    if isinstance(window, SessionWindow):  # whose tuples are the same on whichever side a stream is closed
        return replace(clause, call=None)
    _check_edges(call, stream, select.script)
    lag = (stream.offset - call.end) % window.slide
    return replace(clause, window=replace(window, lag=lag), call=None, lag_at=call.at if lag else None)


def _check_time(call: WindowCall, stream: Stream, script: str) -> None:
    if call.column.text.lower() != stream.timestamp.lower():
        reason = (
            f"windows of '{stream.name}' are of its TIMESTAMP, '{stream.timestamp}', and not of '{call.column.text}'"
        )
        way_out = f"CREATE STREAM .. TIMESTAMP {call.column.text} CLOSED LEFT makes a stream for them"
        raise CqlError(f"{reason}: {way_out}", script, call.column.span)


def _check_edges(call: WindowCall, stream: Stream, script: str) -> None:
    if not stream.closed_left:
        delay = f" DELAY {format_duration(stream.delay)}" if stream.delay else ""
        reason = f"{call.word}(..) has windows with their start and without their end, and '{stream.name}' the opposite"
        way_out = f"CREATE STREAM {stream.name} .. TIMESTAMP {stream.timestamp}{delay} CLOSED LEFT has such windows"
        raise CqlError(f"{reason}: {way_out}; or write the window behind the stream's name", script, call.at)
