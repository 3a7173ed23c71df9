"""Results of a join that were put together where they were found: how they travel from executors.

The tables of a bucket have columns of their own each, and the rows of a job's answer have one layout: so a bucket sends
one row, with its tables as they would be written to files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sash.core.changes import Changes
from sash.operators.join_partials import Fold, together

FOLDED = "_folded"


def packed(tables: Sequence[pa.Table]) -> pa.Array:
    """A row of a list of files."""
    return pa.array([[_file(table) for table in tables]], pa.list_(pa.binary()))


def unpacked(column: pa.ChunkedArray, fold: Fold, schema: pa.Schema) -> list[pa.Table]:
    """The tables of all buckets, put together; without any, tables with no rows."""
    rows = [[pa.ipc.open_stream(file).read_all() for file in files] for files in column.to_pylist()]
    return together(rows or [fold.tables(Changes.none(schema))])


def _file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
