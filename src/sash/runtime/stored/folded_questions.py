"""An aggregate of one stored window, computed sub-window by sub-window while the window slides (thesis 7.2.2, 7.4.2).

    slides             s5          s6, s7, s8
    reads      s4 s3       s5 s2                 s8 s7 s6      as of s8: s4 s5 s6 s7 s8
    state      +s4+s3      +s5+s2  -s2-s3        +s8+s7+s6     s0 and s1 had left before they were read

The state is the groups of the window, and nothing else is kept of a sub-window that was read. If one leaves before the
question has its answer, its rows, which are there still, are folded once more and taken back. Where that is not exact
(MIN, MAX, sums of floating-point numbers), the question is begun again, as the isolation level says.

Late tuples come as insertions: only they are folded, whatever the aggregate.

However large a window is, that is faster than a pass: Spark would have to be given the rows first.
"""

from __future__ import annotations

import pyarrow as pa

from sash.catalog import CLUSTER, Stream
from sash.core.errors import QueryFailedError
from sash.core.time import Micros, format_duration
from sash.panes import row_folds
from sash.panes.answers import Finisher
from sash.panes.pane_store import FAILURES
from sash.panes.row_folds import RowFold
from sash.runtime.compiler import CompiledQuery
from sash.runtime.stored.stored_indexes import sub_window_length
from sash.runtime.stored.stored_window import KeptWindow


def why_not_folded(query: CompiledQuery, stream: Stream) -> str | None:
    """What takes a pass of Spark's, in words; None: nothing does."""
    if stream.keep_in == CLUSTER:
        return "its rows are in the cluster"
    if len(query.finishers) != 1:
        return "it puts several answers together"
    if query.lookups:
        return f"it looks tuples up in {', '.join(query.tables)}"
    reasons = (row_folds.why_not_folded(reading, stream.schema) for reading in query.readings)
    reason = next((each for each in reasons if each is not None), None)
    if reason is not None:
        return reason
    (window,), length = query.windows, sub_window_length(stream)
    if window.lag:
        return "its window has a LAG"
    if window.length % length:
        return f"its window is no multiple of the sub-windows of {format_duration(length)}"
    return None


def irreversible(query: CompiledQuery) -> str | None:
    """What makes a question begin again when something that it has read leaves the window, in words."""
    return next((word for reading in query.readings if (word := row_folds.irreversible(reading)) is not None), None)


def answer_folded(query: CompiledQuery, kept: KeptWindow) -> tuple[pa.Table, Micros]:
    """The answer, and as of when; something must be stored, and `why_not_folded` be None."""
    (finisher,) = query.finishers
    folding = _Folding(finisher, kept.stream.schema)
    as_of = kept.fold(query.windows[0].reach, folding)
    try:
        return query.compose([folding.answer()]), as_of
    except QueryFailedError:
        raise
    except FAILURES as error:
        raise QueryFailedError(str(error)) from error


class _Folding:
    """The groups of each pane table that the question would read."""

    def __init__(self, finisher: Finisher, schema: pa.Schema) -> None:
        self._finisher = finisher
        self._schema = schema
        self.is_reversible = all(row_folds.irreversible(reading) is None for reading in finisher.readings)
        self._folds: list[RowFold] = []
        self.restart()

    def restart(self) -> None:
        self._folds = [RowFold(reading, self._schema) for reading in self._finisher.readings]

    def add(self, rows: pa.Table) -> None:
        for fold in self._folds:
            fold.add(rows)

    def take_back(self, rows: pa.Table) -> None:
        for fold in self._folds:
            fold.take_back(rows)

    def answer(self) -> pa.Table:
        pairs = zip(self._finisher.readers, self._folds, strict=True)
        return self._finisher.finish([reader.read([fold.view()], {}) for reader, fold in pairs])
