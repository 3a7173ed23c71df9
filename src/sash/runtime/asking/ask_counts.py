"""Aggregates that are made of counts by value, answered from a set-valued index over the whole stored window.

MEDIAN(x), COUNT(DISTINCT x), HISTOGRAM(x), TOP(k, x) and the like read a pane table that has, for each value of x, the
number of rows. A set-valued index keeps just that for the stored window, so that no row is looked at.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.catalog import StoredIndex
from sash.core.time import Micros
from sash.panes.pane_rows import BatchFacts, PaneRows
from sash.panes.partials import Partial
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.runtime.stored.stored_indexes import IndexGoneError
from sash.runtime.stored.stored_window import KeptWindow
from sash.sharing.groups import PaneTable
from sash.spark.lanes import is_column

_ROWS = Partial("rows")


def counting_index(query: CompiledQuery, kept: KeptWindow) -> StoredIndex | None:
    """The index that answers a query, if one does: over the whole stored window, without WHERE and GROUP BY."""
    indexes = kept.indexes
    if indexes is None or len(query.readings) != 1 or query.lookups:
        return None
    (reading,) = query.readings
    table, window = reading.table, reading.window
    if table.by_rows or window.lag or not window.length == kept.extent == kept.stream.keep:
        return None
    if len(table.keys) != 1 or not is_column(table.keys[0]) or set(reading.partials) != {_ROWS}:
        return None
    return None if reading.sub_window is not None else indexes.set_index(table.keys[0].columns[0])


def answer_from_counts(
    query: CompiledQuery, kept: KeptWindow, index: StoredIndex, settings: Settings
) -> tuple[pa.Table, Micros]:
    """The answer, and as of when; IndexGoneError where the index has been dropped meanwhile."""
    indexes = kept.indexes
    if indexes is None:
        raise IndexGoneError
    values, counts, now = indexes.counts(index)

    def facts(tables: list[PaneTable]) -> BatchFacts:
        (table,) = tables
        moment = np.full(len(values), now, dtype=np.int64)
        rows = PaneRows(table.length, moment, [values], {_ROWS: [counts]}, moment)
        numbers = np.asarray(counts)
        return BatchFacts(int(numbers.sum()), now, 0, 0, [(0, rows, numbers)])

    runtime = StreamRuntime(kept.stream, settings)
    return runtime.answer_alone(query, now - kept.extent, now, facts), now
