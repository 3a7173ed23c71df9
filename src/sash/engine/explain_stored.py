"""EXPLAIN of a question that Spark answers from stored windows."""

from __future__ import annotations

from collections.abc import Iterator

from sash.core.time import format_duration
from sash.engine.kept import sub_window
from sash.language import StoredQuestion, StoredReading


def explain_rows(question: StoredQuestion) -> str:
    return "\n".join(_lines(question))


def _lines(question: StoredQuestion) -> Iterator[str]:
    yield "One-time: by Spark SQL over the stored rows, as of the newest closed sub-window"
    for view, reading in question.windows.items():
        yield f"  {view}: {_window(reading)}"
    for view, table in question.tables.items():
        yield f"  {view}: table {table.name}"
    yield f"  {question.sql}"


def _window(reading: StoredReading) -> str:
    stream = reading.stream
    assert stream.keep is not None
    partition = f"PARTITION BY {', '.join(reading.partition)} " if reading.partition else ""
    window = "[NOW]" if reading.now else str(reading.window).replace("[", f"[{partition}", 1)
    lengths = f"{format_duration(stream.keep)} in sub-windows of {format_duration(sub_window(stream))}"
    return f"{stream.name} {window}, of the stored {lengths}"
