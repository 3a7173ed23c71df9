"""EXPLAIN of a question that Spark answers from stored windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sash.catalog import Stream
from sash.core.time import format_duration
from sash.engine.kept_indexes import KeptIndexes
from sash.engine.sub_windows import sub_window_length
from sash.language import StoredQuestion, StoredReading

# The indexes of a stream's stored window, if there are any.
IndexesOf = Callable[[Stream], KeptIndexes | None]


def explain_rows(question: StoredQuestion, indexes_of: IndexesOf = lambda stream: None) -> str:
    return "\n".join(_lines(question, indexes_of))


def _lines(question: StoredQuestion, indexes_of: IndexesOf) -> Iterator[str]:
    yield "One-time: by Spark SQL over the stored rows, as of the newest closed sub-window"
    for view, reading in question.windows.items():
        yield f"  {view}: {_window(reading)}"
        if reading.sought:
            yield f"    {_access(reading, indexes_of(reading.stream))}"
    for view, table in question.tables.items():
        yield f"  {view}: table {table.name}"
    yield f"  {question.sql}"


def _access(reading: StoredReading, indexes: KeptIndexes | None) -> str:
    """How rows with constants in some columns are found."""
    found = None if indexes is None else indexes.row_index(reading.sought)
    if indexes is not None and found is not None:
        index, sought = found
        return (
            f"{sought}: found by the {index.kind} index on {index.column}, which has {indexes.values(index):,} values"
        )
    terms = " AND ".join(map(str, reading.sought))
    columns = [each.column for each in reading.sought]
    if indexes is not None and (known := indexes.known(columns)):
        few = f"the index on {known.column} has {indexes.values(known):,} values, too few to help"
        return f"{terms}: looked for in every row; {few}"
    way_out = f"CREATE INDEX ON {reading.stream.name} ({columns[0]}) would find the rows"
    return f"{terms}: looked for in every row; {way_out}"


def _window(reading: StoredReading) -> str:
    stream = reading.stream
    assert stream.keep is not None
    partition = f"PARTITION BY {', '.join(reading.partition)} " if reading.partition else ""
    window = "[NOW]" if reading.now else str(reading.window).replace("[", f"[{partition}", 1)
    lengths = f"{format_duration(stream.keep)} in sub-windows of {format_duration(sub_window_length(stream))}"
    return f"{stream.name} {window}, of the stored {lengths}"
