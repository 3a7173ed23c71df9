"""The result of a pass over a micro-batch, sorted out by pane tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.spark.lanes import NULL_TIMESTAMP_PANE, UNPARSABLE_PANE, PassProgram
from sash.synopses.pane_rows import BatchFacts, PaneRows


def split(program: PassProgram, result: pa.Table) -> BatchFacts:
    number_of = np.asarray(result["_lane"], dtype=np.int64)
    panes = np.asarray(result["_pane"], dtype=np.int64)
    counts = np.asarray(result["_rows"], dtype=np.int64)
    latest = np.asarray(result["_latest"].fill_null(NULL_TIMESTAMP_PANE), dtype=np.int64)
    first = number_of == 0
    timed = (panes > UNPARSABLE_PANE) & (latest > NULL_TIMESTAMP_PANE)
    lanes = []
    for number, lane in enumerate(program.lanes):
        if lane.table < 0:
            continue
        mine = (number_of == number) & (panes > UNPARSABLE_PANE)
        names = program.partial_columns[number]
        wanted = {*program.key_columns(number), *(name for columns in names.values() for name in columns)}
        rows = result if mine.all() else result.select(sorted(wanted)).filter(pa.array(mine))
        keys = [_column(rows, name) for name in program.key_columns(number)]
        lifted = {p: [_column(rows, name) for name in columns] for p, columns in names.items()}
        lanes.append((lane.table, PaneRows(lane.length, panes[mine], keys, lifted, latest[mine]), counts[mine]))
    return BatchFacts(
        rows=int(counts[first].sum()),
        latest=pc.max(result["_latest"].filter(pa.array(panes > UNPARSABLE_PANE))).as_py(),
        null_timestamps=int(counts[first & (panes == NULL_TIMESTAMP_PANE)].sum()),
        unparsable=int(counts[first & (panes == UNPARSABLE_PANE)].sum()),
        lanes=lanes,
        earliest=int(panes[timed].min()) if timed.any() else None,
    )


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp("us", "UTC"))
    return array
