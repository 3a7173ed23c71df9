"""ListPanes: closed panes with only the k most frequent items of each group (thesis chapter 6, algorithm 6 "Frequent").

    open panes      exact counts of every item            | files, which executors write and read |   or this process
                                        the pane closes   v   top k by count, then by item        v
    closed panes    | a 3  b 2 | a 3  c 2 | b 4  a 1 |    at most k pairs for each group (k = 2)
    k-th counts       2      +   2      +   1             = delta: how often an item on no list may occur
    counters          a 7, b 6, c 2                       a and b exceed delta: reported

A sub-window is a pane, and spans micro-batches. The counts of an open pane must be exact, so they wait where there is
room: in files, a file or more for each micro-batch that touches the pane. When the pane is about to close, one job
merges its files and brings the list (`bring`). Row-based windows, streams that SHED, and clusters whose executors see
no common directory have the open counts in this process, and `close` cuts them.

Invariants: a listed count is the true count in its pane; an item that is not listed occurs in a pane at most as often
as the k-th listed one. So a reported count is at most the true one and greater than delta: never a false positive.
There may be false negatives: items on too few lists. Where the thesis says nothing: a pane with fewer than k items has
a k-th count of 0, and of equal counts the lesser item is the more frequent one. Queries with other conditions have
counts of their own in a row; a row stays if it is on the list of some condition.

Needs: panes that expire in the order of time, and no late tuples. Time: one sort of a pane's counts. Space: k pairs
for each pane, group and condition; the open counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.core.window import Window
from sash.expr.value_codes import KeyDictionary, value_ranks
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.cluster_panes import Cluster, as_snapshot
from sash.panes.items import Ints
from sash.panes.pane_ring import Pane
from sash.panes.pane_rows import PaneRows, panes_to_table, table_to_panes
from sash.panes.pane_store import FILES
from sash.panes.partials import Partial
from sash.panes.readings import ShortLists


class ListPanes(BasicIntervalSynopsis):
    """The panes of a table of short lists."""

    def __init__(self, key_types: list[pa.DataType], lists: ShortLists) -> None:
        super().__init__(key_types)
        self.lists = lists
        # The files of open panes; None: their counts are in this process.
        self.open_files: pa.Table | None = None
        # The files of a micro-batch, until `absorb` says which of them are not too late.
        self._brought = FILES.empty_table()

    # -- open panes in files -----------------------------------------------------------------------------

    def load_files(self, files: pa.Table) -> None:
        """The counts of open panes are in files from now on, which have the counts of this process."""
        self.open_files, self._open = files, {}

    @property
    def filed(self) -> pa.Table | None:
        return self.open_files

    def save_files(self) -> list[dict[str, Any]]:
        return [] if self.open_files is None else self.open_files.to_pylist()

    def bring(self, files: pa.Table, ends: NDArray[np.int64] | None = None, lists: pa.Table | None = None) -> None:
        assert self.open_files is not None
        self._brought = files
        if ends is None or lists is None:
            return
        self._brought = _without(files, ends)
        self.open_files = _without(self.open_files, ends)
        numbers = {partial: number for number, partial in enumerate(self.since)}
        rows = as_snapshot(lists, self.key_types, list(self.since))
        for pane, _ in table_to_panes(rows, self._keys, numbers, self.ranked):
            self._add_open(pane)
        listed = {end for _, end in self._open}
        for end in (end for end in ends.tolist() if end not in listed):
            # Tuples came, and none of them had an item: the pane is not as one without tuples.
            nothing = self._keys.encode([pa.nulls(1, type) for type in self.key_types], 1)
            self._add_open(Pane(end - self.lists.length, end, nothing, {}))

    def attach(self, cluster: Cluster | None, failures: dict[str, tuple[Micros, str]]) -> None:
        """Do nothing: lists are in this process, and queries read no files."""

    def closing(self, files: pa.Table, after: Micros | None, until: Micros) -> pa.Table:
        assert self.open_files is not None
        every = pa.concat_tables([self.open_files, files])
        ends = np.asarray(every["end"])
        return every.filter(pa.array((ends <= until) & (True if after is None else ends > after)))

    def absorb(self, rows: PaneRows, closed_until: Micros | None = None) -> None:
        assert closed_until is None, "where late tuples revise panes, all counts are kept"
        if self.open_files is None:
            super().absorb(rows)
            return
        brought, self._brought = self._brought, FILES.empty_table()
        came = pa.array(np.isin(np.asarray(brought["end"]), rows.ends))
        self.open_files = pa.concat_tables([self.open_files, brought.filter(came)])

    def next_end(self, after: Micros) -> Micros | None:
        filed = [] if self.open_files is None else self.open_files["end"].to_pylist()
        known = super().next_end(after)
        return min([*([] if known is None else [known]), *(end for end in filed if end > after)], default=None)

    def pane_tables(self) -> Iterator[pa.Table]:
        """The rows that go to files: those of open panes."""
        for pane in self._open_panes():
            yield panes_to_table([], [pane], self._keys, list(self.since), self.ranked)

    # -- lists -------------------------------------------------------------------------------------------

    def close(self, until: Micros) -> None:
        for span in [span for span in self._open if span[1] <= until]:
            self._open[span] = [self._cut(self._merge(self._open[span]))]
        super().close(until)

    def _cut(self, pane: Pane) -> Pane:
        """The rows of a pane that are on the list of some condition."""
        columns = self._keys.decode(pane.codes)
        owners = self._owners(columns, len(pane.codes))
        ranks, is_null = value_ranks(columns[self.lists.item])
        stays = np.zeros(len(pane.codes), dtype=np.bool_)
        for counts in self._counts(pane):
            there = np.flatnonzero((counts > 0) & ~is_null)
            order = there[np.lexsort((ranks[there], -counts[there], owners[there]))]
            stays[order[_places(owners[order]) < self.lists.k]] = True
        # A pane without rows would be as one without tuples.
        stays[:1] |= not stays.any()
        return replace(pane, codes=pane.codes[stays], columns={slot: c[stays] for slot, c in pane.columns.items()})

    def _owners(self, columns: list[pa.Array], rows: int) -> Ints:
        """The number of each row's group."""
        groups = KeyDictionary([self.key_types[place] for place in self.lists.group])
        return groups.encode([columns[place] for place in self.lists.group], rows).astype(np.int64)

    def _counts(self, pane: Pane) -> Iterator[Ints]:
        """The counts of each condition; a pane may be older than a condition."""
        return (pane.columns[partial, 0] for partial in self.since if (partial, 0) in pane.columns)

    def delta(self, presence: Partial, window: Window, now: Micros) -> int:
        """The sum of the k-th counts in a window, in the group where it is greatest."""
        newest = self._ring.position(now - window.lag)
        panes = [self._ring.pane(i) for i in range(self._ring.first_whole(now - window.reach, newest), newest)]
        if not panes:
            return 0
        counts = np.concatenate([pane.columns[presence, 0] for pane in panes])
        columns = self._keys.decode(np.concatenate([pane.codes for pane in panes]))
        owners = self._owners(columns, len(counts))
        number = np.repeat(np.arange(len(panes)), [len(pane.codes) for pane in panes])
        order = np.lexsort((-counts, owners, number))
        kth = _places(number[order] * (owners.max(initial=0) + 1) + owners[order]) == self.lists.k - 1
        listed = order[kth & np.asarray(columns[self.lists.item].is_valid())[order]]
        return int(np.bincount(owners[listed], weights=counts[listed]).max(initial=0))


def _places(owners: Ints) -> Ints:
    """The place of each row among those of its group, which follow each other.

    >>> _places(np.array([3, 3, 5, 5, 5])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return np.arange(len(owners)) - np.repeat(starts, np.diff(starts, append=len(owners)))


def _without(files: pa.Table, ends: NDArray[np.int64]) -> pa.Table:
    return files.filter(pa.array(~np.isin(np.asarray(files["end"]), ends)))
