"""The executor in the process: an aggregate of one stored window, computed from the Arrow tables of the ring.

It folds the window sub-window by sub-window while the window slides (thesis 7.2.2, 7.4.2):

    slides             s5          s6, s7, s8
    reads      s4 s3       s5 s2                 s8 s7 s6      as of s8: s4 s5 s6 s7 s8
    state      +s4+s3      +s5+s2  -s2-s3        +s8+s7+s6     s0 and s1 had left before they were read

The state is the groups of the window; nothing else is kept of a sub-window that was read. If a sub-window leaves before
the question has its answer, its rows, which still exist, are folded once more and taken back. Where taking back is not
exact (MIN, MAX, sums of floating-point numbers), the question begins again, as the isolation level says. Late tuples
come as insertions: only they are folded, for every aggregate.

A set-valued index has the groups of the whole window already, if the question asks only how often values occur.

However large a window is, the fold is faster than a pass: Spark would have to be given the rows first. `rows_behind`
says which questions are answered here.
"""

from __future__ import annotations

import pyarrow as pa

from sash.catalog import StoredIndex
from sash.core.errors import QueryFailedError
from sash.core.time import Micros
from sash.panes import row_folds
from sash.panes.answers import Finisher
from sash.panes.pane_store import FAILURES
from sash.panes.row_folds import RowFold
from sash.runtime.answers.answer import stamped_table
from sash.runtime.compiler import CompiledQuery
from sash.runtime.stored.stored_indexes import IndexGoneError
from sash.runtime.stored.stored_window import StoredWindow


def answer_in_process(query: CompiledQuery, kept: StoredWindow, index: StoredIndex | None = None) -> pa.Table:
    """The answer; `rows_behind` must have found nothing that takes Spark."""
    table, as_of = answer_folded(query, kept, index)
    return stamped_table(table, as_of, kept.is_complete(query.windows[0].reach, as_of))


def answer_folded(
    query: CompiledQuery, kept: StoredWindow, index: StoredIndex | None = None
) -> tuple[pa.Table, Micros]:
    """The answer, and its time."""
    (finisher,) = query.finishers
    folding = _GroupFolds(finisher, kept.stream.schema)
    as_of = folding.count(kept, index) if index is not None else None
    if as_of is None:
        as_of = kept.fold(query.windows[0].reach, folding)
    try:
        return query.compose([folding.answer(as_of)]), as_of
    except QueryFailedError:
        raise
    except FAILURES as error:
        raise QueryFailedError(str(error)) from error


class _GroupFolds:
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

    def count(self, kept: StoredWindow, index: StoredIndex) -> Micros | None:
        """Take the counts of an index; the result is their time. None: the index was dropped, or is still empty."""
        kept.check_begun()
        if (indexes := kept.indexes) is None:
            return None
        try:
            (values, counts), as_of = indexes.read([index], lambda: (indexes.counts(index), indexes.now))
        except IndexGoneError:
            return None
        (fold,) = self._folds
        fold.add_counts(values, counts)
        return as_of

    def answer(self, as_of: Micros) -> pa.Table:
        pairs = zip(self._finisher.readers, self._folds, strict=True)
        return self._finisher.finish([reader.read([fold.view()], {}) for reader, fold in pairs], as_of)
