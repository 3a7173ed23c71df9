"""The window of a query against its stream: multiples of the granule, SLIDE where it must and may be."""

from __future__ import annotations

from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.time import Micros, format_duration
from sash.core.window import TimeWindow
from sash.language.dialect import span_of, window_clause
from sash.language.statements import Select


def bind_window(table: exp.Expr, stream: Stream, script: str, *, periodic: bool) -> TimeWindow:
    clause = window_clause(table)
    if clause is None:
        example = "[WINDOW 10 min SLIDE 2 min]" if periodic else "[WINDOW 10 min]"
        raise CqlError(f"'{stream.name}' needs a window: write {stream.name} {example}", script, span_of(table))
    window = clause.window
    if not periodic and clause.slide_at is not None:
        raise CqlError("a one-time query is answered once: leave out SLIDE", script, clause.slide_at)
    if periodic and clause.slide_at is None:
        raise NotSupportedError("continuous queries (a window without SLIDE)", script, clause.span)
    parts = (
        ("WINDOW", window.length, clause.length_at),
        ("SLIDE", window.slide, clause.slide_at),
        ("LAG", window.lag, clause.lag_at),
    )
    for what, value, at in parts:
        if value and at is not None:
            _check_multiple(what, value, stream, script, at)
    return window


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


def has_slide(select: Select) -> bool:
    """Whether a SELECT is meant to be re-executed: some window of it slides."""
    clauses = [window_clause(table) for table in select.tree.find_all(exp.Table)]
    return any(clause is not None and clause.slide_at is not None for clause in clauses)
