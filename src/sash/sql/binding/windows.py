"""Checks of a query's windows against its stream: multiples of the granule, and where SLIDE must and may be.

Windows may also slide in queries that panes cannot answer: joins, DISTINCT, negation, set operations, plain rows,
sub-queries over several streams.

    SELECT .. FROM s [RANGE 1 min SLIDE 10 sec], t [RANGE 1 min SLIDE 10 sec] WHERE s.k = t.k

Such a query is kept up to date as any continuous one, and answered at the multiples of SLIDE (thesis 3.3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.core.time import Micros, format_duration, format_instant
from sash.core.window import ElasticWindow, LandmarkWindow, MixedWindow, RowWindow, SessionWindow, TimeWindow
from sash.plan.expressions import RowExpression
from sash.plan.nodes import StreamScan, StreamWindow
from sash.sql.reading.cursor import Name
from sash.sql.reading.places import span_of, window_clause
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause
from sash.sql.types import identifier, spark_name

ADD_SLIDE = "add SLIDE to the window and it is computed at every re-execution: [WINDOW 10 min SLIDE 1 min]"
_MIXED = "the windows of a query slide, all of them, or none does"


BoundWindow = tuple[TimeWindow | RowWindow, tuple[str, ...]]


def bind_window(table: exp.Expr, stream: Stream, script: str, *, periodic: bool) -> StreamWindow:
    """A window that panes answer, at its multiples or once."""
    clause = _clause(table, stream, script, "[WINDOW 10 min SLIDE 2 min]" if periodic else "[WINDOW 10 min]")
    if not periodic:
        _refuse_sessions(clause, script)
    if clause.now:
        raise NotSupportedError("windows of the current instant (NOW)", script, clause.length_at)
    _refuse_continuous(clause, script, slides=periodic)
    if periodic and clause.slide_at is None:
        raise NotSupportedError("continuous queries (a window without SLIDE)", script, clause.span)
    window, partition = _checked(clause, stream, script)
    if isinstance(window, MixedWindow):  # `route` sends them to a plan
        raise NotSupportedError("windows of rows that slide by time, from panes", script, clause.span)
    time = _column(stream, stream.timestamp) if isinstance(window, SessionWindow) else None
    return StreamWindow(StreamScan(stream.name), window, tuple(_column(stream, name) for name in partition), time)


def _column(stream: Stream, name: str) -> RowExpression:
    column = stream.schema.field(name)
    return RowExpression(identifier(column.name), column.type, (column.name,))


def bind_continuous_window(table: exp.Expr, stream: Stream, script: str, *, slides: bool = False) -> BoundWindow:
    """A window that is kept up to date with every tuple, and the columns of its PARTITION BY.

    `slides`: its SLIDE says when the query answers, and is checked already.
    """
    clause = _clause(table, stream, script)
    if clause.slide_at is not None and not slides:
        raise CqlError(f"{_MIXED}: leave out SLIDE here too", script, clause.slide_at)
    if clause.lag_at is not None:
        reason = "LAG needs SLIDE: a window without SLIDE follows its stream; leave out LAG, or add SLIDE"
        raise CqlError(reason, script, clause.lag_at)
    _refuse_of_panes(clause, stream, script, "" if slides else "aggregate it with SLIDE, or ")
    _check_order(table, stream, script, slides)
    return _checked(clause, stream, script)


def bind_stored_window(table: exp.Expr, stream: Stream, script: str) -> BoundWindow:
    """A window that is read once from the stored rows, and the columns of its PARTITION BY."""
    clause = _clause(table, stream, script)
    _refuse_sessions(clause, script)
    _refuse_continuous(clause, script, slides=False)
    _refuse_of_panes(clause, stream, script)
    return _checked(clause, stream, script)


def _clause(table: exp.Expr, stream: Stream, script: str, example: str = "[WINDOW 10 min]") -> WindowClause:
    clause = window_clause(table)
    if clause is None:
        raise CqlError(f"'{stream.name}' needs a window: write {stream.name} {example}", script, span_of(table))
    return clause


def _refuse_continuous(clause: WindowClause, script: str, *, slides: bool) -> None:
    if clause.slide_at is not None and not slides:
        raise CqlError("a one-time query is answered once: leave out SLIDE", script, clause.slide_at)
    if clause.internal_at is not None:
        reason = "INTERNAL belongs to continuous queries: results that are given once end with their windows anyway"
        raise CqlError(f"{reason}; leave it out", script, clause.internal_at)


def _refuse_sessions(clause: WindowClause, script: str) -> None:
    if isinstance(clause.window, SessionWindow):
        reason = "sessions are told when they end, and a one-time query is answered now"
        way_out = "REGISTER QUERY .. AS this SELECT, with KEEP if its answers are to be asked"
        raise CqlError(f"{reason}: {way_out}", script, clause.length_at)


def _refuse_of_panes(clause: WindowClause, stream: Stream, script: str, way_out: str = "") -> None:
    """Refuse windows of several lengths, and with fixed edges, where panes do not answer."""
    window = clause.window
    if isinstance(window, ElasticWindow):
        reason = "windows of several lengths are answered from panes, which have aggregates of one window"
        raise CqlError(f"{reason}: {way_out}give one length", script, clause.length_at)
    if isinstance(window, SessionWindow):
        reason = "sessions are answered from panes, which have aggregates of one window"
        raise CqlError(f"{reason}: aggregate them, with GROUP BY the columns of a session", script, clause.length_at)
    if not isinstance(window, LandmarkWindow):
        return
    signs = (">=", "<") if stream.closed_left else (">", "<=")
    instants = zip(signs, window.fixed_edges, strict=False)
    bounds = " AND ".join(f"{stream.timestamp} {sign} TIMESTAMP '{format_instant(edge)}'" for sign, edge in instants)
    other = "give a WINDOW of 1 day" if window.every else f"give a WINDOW, and WHERE {bounds}"
    reason = f"{window.word} is answered from panes, which have aggregates of one window: {way_out}{other}"
    raise CqlError(reason, script, clause.length_at)


def _checked(clause: WindowClause, stream: Stream, script: str) -> BoundWindow:
    """The window, if its times are multiples of the stream's granule, and its PARTITION BY."""
    if isinstance(clause.window, LandmarkWindow):
        clause = replace(clause, window=replace(clause.window, offset=stream.offset))
        _check_edges(clause, stream, script)
    if isinstance(clause.window, SessionWindow):
        clause = replace(clause, window=replace(clause.window, offset=stream.offset, closed_left=stream.closed_left))
    if isinstance(clause.window, TimeWindow | MixedWindow) and not clause.now:
        _check_multiples(clause, stream, script)
    columns = {name.text.lower(): _partition_column(name, stream, script) for name in clause.partition}
    return clause.window, tuple(columns.values())


def _check_order(table: exp.Expr, stream: Stream, script: str, slides: bool) -> None:
    """Check the stream's order: a given change is final, and a tuple's last instant is before ts + w."""
    reasons = {
        "CLOSED LEFT, and tuples of a continuous query count from their own instant on": stream.closed_left,
        "LATE REVISE, and the changes of a continuous query are final": stream.late_revise,
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    if reason is not None:
        parts = "aggregate each window in a sub-query, FROM (SELECT .. GROUP BY ..) a JOIN (SELECT .. GROUP BY ..) b"
        way_out = (
            f"{parts if slides else 'add SLIDE to the window'}, or ask a second stream of the same source without it"
        )
        raise CqlError(f"'{stream.name}' is {reason}: {way_out}", script, span_of(table.this))


def check_all_slide(select: Select) -> None:
    """Refuse windows of both kinds: the query would be neither periodic nor continuous."""
    clauses, script = [clause for _, clause in windows_of(select)], select.script
    sliding = [clause for clause in clauses if clause.slide_at is not None]
    fixed = [clause for clause in clauses if clause.slide_at is None]
    if sliding and fixed:
        written = script[sliding[0].span.start : sliding[0].span.end]
        example = written if written.startswith("[") else sliding[0].window
        raise CqlError(f"{_MIXED}: add SLIDE here, as in {example}, or leave it out everywhere", script, fixed[0].span)


def _check_multiples(clause: WindowClause, stream: Stream, script: str) -> None:
    window = clause.window
    elastic = window if isinstance(window, ElasticWindow) else ElasticWindow(0)
    sessions = window if isinstance(window, SessionWindow) else SessionWindow(0)
    parts = (
        ("GAP", sessions.gap, clause.length_at),
        ("MAX", sessions.most, clause.most_at),
        ("WINDOW", elastic.shortest, clause.shortest_at),
        (
            "WINDOW",
            0 if sessions.gap or window.unbounded or isinstance(window, RowWindow) else window.length,
            clause.length_at,
        ),
        ("STEP", elastic.step, clause.step_at),
        ("SLIDE", window.slide, clause.slide_at),
        ("LAG", window.lag, clause.lag_at),
    )
    for what, value, at in parts:
        if value and at is not None:
            _check_multiple(what, value, stream, script, at)


def _check_multiple(what: str, value: Micros, stream: Stream, script: str, at: Span) -> None:
    granule = stream.granule
    if value % granule == 0:
        return
    below = value // granule * granule
    choices = [format_duration(choice) for choice in (below, below + granule) if choice]
    raise CqlError(
        f"{what} {format_duration(value)} is not a multiple of the granule of '{stream.name}', "
        f"{format_duration(granule)}; nearest: {' or '.join(choices)}",
        script,
        at,
    )


def _check_edges(clause: WindowClause, stream: Stream, script: str) -> None:
    assert isinstance(clause.window, LandmarkWindow)
    granule = f"not a multiple of the granule of '{stream.name}', {format_duration(stream.granule)}"
    for edge, at in zip(clause.window.fixed_edges, (clause.length_at, clause.until_at), strict=False):
        below = (edge - stream.offset) // stream.granule * stream.granule + stream.offset
        if edge != below and at is not None:
            choices = " or ".join(f"'{format_instant(time)}'" for time in (below, below + stream.granule))
            raise CqlError(f"'{format_instant(edge)}' is {granule}; nearest: {choices}", script, at)
    if clause.window.every % stream.granule:
        raise CqlError(f"a day is {granule}: make the stream with another GRANULE", script, clause.length_at)


def _partition_column(name: Name, stream: Stream, script: str) -> str:
    column = stream.column(name.text)
    if column is None:
        hint = nearest(name.text, stream.schema.names)
        raise CqlError(f"unknown column '{name.text}'{hint}", script, name.span)
    if pt.is_nested(column.type):
        raise NotSupportedError(f"PARTITION BY of {spark_name(column.type)}", script, name.span)
    return str(column.name)


def check_together(select: Select) -> None:
    """Check that the windows of sub-queries can be read as of one time: one stream, one unit, one SLIDE."""
    script, ((first_table, first), *others) = select.script, windows_of(select)
    for table, clause in others:
        if table.name.lower() != first_table.name.lower():
            raise NotSupportedError("sub-queries over different streams", script, span_of(table.this))
        if isinstance(clause.window, RowWindow) != isinstance(first.window, RowWindow):
            reason = "time-based and row-based windows cannot be read as of one time: give all sub-queries one kind"
            raise CqlError(reason, script, clause.span)
        check_one_slide(first, clause, script)


def check_one_slide(first: WindowClause, other: WindowClause, script: str) -> None:
    if first.slide_at is None or other.slide_at is None:
        return
    slide, written = first.slide_at, ("", "EXACTLY ")[first.window.exactly]
    if isinstance(other.window, SessionWindow) and not first.window.exactly:
        reason = "all windows of a query slide together, and sessions are told at the multiples of SLIDE alone"
        raise CqlError(f"{reason}: write SLIDE EXACTLY here", script, first.slide_at)
    if (other.window.slide, other.window.exactly) != (first.window.slide, first.window.exactly):
        wanted = f"SLIDE {written}{script[slide.start : slide.end]}"
        raise CqlError(f"all windows of a query slide together: write {wanted} here too", script, other.slide_at)


def stream_names(select: Select) -> list[str]:
    """The names in all FROM clauses of a SELECT, of streams and of tables."""
    return [table.name for table in select.tables]


def windows_of(select: Select) -> list[tuple[exp.Table, WindowClause]]:
    """The streams of a SELECT that have windows, sub-queries included, in the order in which they are written."""
    return [(table, clause) for table in select.tables if (clause := window_clause(table)) is not None]


def has_slide(select: Select) -> bool:
    """Whether a SELECT is re-executed: some window of it slides."""
    return any(clause.slide_at is not None for _, clause in windows_of(select))


def without_panes(*, slides: bool) -> str:
    """The place of aggregates that only panes compute, and the alternative if there is one."""
    if slides:
        return "in a query that panes cannot answer (a join, DISTINCT, tests, set operations, plain rows, ROWS by time)"
    return f"in a continuous query; {ADD_SLIDE}"


def common_slide(select: Select, streams: Mapping[str, Stream]) -> tuple[Micros, Micros] | None:
    """The SLIDE of all windows, and the origin of its multiples; None if none slides."""
    if not has_slide(select):
        return None
    check_all_slide(select)
    found = windows_of(select)
    (_, first), *others = found
    for _, clause in found:
        _check_in_time(clause, select.script)
    for _, clause in others:
        check_one_slide(first, clause, select.script)
    assert first.window.slide is not None
    return first.window.slide, _offset([table for table, _ in found], streams, select.script)


def _check_in_time(clause: WindowClause, script: str) -> None:
    if isinstance(clause.window, RowWindow) and not isinstance(clause.window, MixedWindow) and clause.slide_at:
        reason = "this query is answered at multiples of a time, and SLIDE of a row-based window counts tuples"
        ways = f"give SLIDE a time, [ROWS {clause.window.length} SLIDE 1 sec], or leave it out everywhere"
        raise CqlError(f"{reason}: {ways}", script, clause.slide_at)
    if clause.lag_at is not None:
        raise NotSupportedError("LAG beside joins, DISTINCT, negation, set operations", script, clause.lag_at)


def _offset(tables: list[exp.Table], streams: Mapping[str, Stream], script: str) -> Micros:
    offsets: list[Micros] = []
    for table in tables:
        if table.name.lower() not in streams:
            continue  # a window behind a table is refused where the plan is made
        offsets.append(streams[table.name.lower()].offset)
        if offsets[-1] != offsets[0]:
            reason = "the multiples of streams with different OFFSETs are not the same: make the streams with one"
            raise CqlError(reason, script, span_of(table.this))
    return offsets[0] if offsets else 0
