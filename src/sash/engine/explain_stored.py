"""EXPLAIN of a question that Spark answers from stored windows."""

from __future__ import annotations

from collections.abc import Iterator

from sash.core.time import format_duration
from sash.engine.kept import why_not_stored
from sash.engine.running import RunningStream
from sash.language import StoredQuestion


def explain_rows(question: StoredQuestion, streams: dict[str, RunningStream]) -> str:
    return "\n".join(_explain_rows(question, streams))


def _explain_rows(question: StoredQuestion, streams: dict[str, RunningStream]) -> Iterator[str]:
    yield "Asked once: Spark SQL over stored windows"
    for view, reading in question.windows.items():
        partition = f"PARTITION BY {', '.join(reading.partition)} " if reading.partition else ""
        window = "[NOW]" if reading.now else str(reading.window).replace("[", f"[{partition}", 1)
        yield f"  {view}: {reading.stream.name} {window}"
        why = why_not_stored(reading.stream, reading.reach, reading.window.unbounded)
        yield f"  {_kept(streams[view])}" if why is None else f"    refused: {why}"
    for view, table in question.tables.items():
        yield f"  {view}: table {table.name}"
    yield f"  {question.sql}"


def _kept(running: RunningStream) -> str:
    kept, stream = running.kept, running.stream
    assert kept is not None and stream.keep is not None
    lengths = f"in sub-windows of {format_duration(kept.length)}"
    return f"  stored: the last {format_duration(stream.keep)} of {stream.name}, {lengths}"
