"""BIJ, the basic interval join synopsis (thesis 8.3.2), for any band: plain, generalized, or in two dimensions.

Rows are sparse, (interval, lead, group), and hold any partial: sums, extremes, moments, sketches. Each update brings
rows to many intervals; they gather, and are merged when the synopsis is read. Windows (6, 8) read 6 intervals whole,
then of ages 6 and 7 the results whose second tuple is older by more than 0 and by more than 1.

The thesis keeps values apart in the g oldest intervals only. But an interval gathers results from its first day on, and
the lead of a result is known only when the result comes. So values are apart in all intervals, and g only limits the
pairs of windows that a query may use.

Needs: any partial. Time: an update b values; all pairs of windows together one pass over the longest (CS5), and
|n1 - n2| intervals' leads for each unequal pair. Space: b x (1 + differences) x groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.panes.accumulator import Accumulator, RankedValues, ScanRows, scan
from sash.panes.basic_interval import LEAST_COMPACTED, MOST_SCANNED
from sash.panes.joins.join_synopsis import JoinHistory, Needs
from sash.panes.joins.pairs import Band, Cells, PairReading, WindowPair
from sash.panes.partials import Partial

Numbers = NDArray[np.int64]
# How many updates gather before they are merged, with or without readers.
MOST_UNMERGED = 16


class RowStore:
    """Rows of (interval, lead, group) that gather and are merged: one for each, the oldest interval first."""

    def __init__(self, partials: Sequence[Partial], ranked: Mapping[Partial, RankedValues]) -> None:
        self._partials, self._ranked = partials, ranked
        self._merged_rows = self._nothing()
        self._new: list[Cells] = []

    def add(self, rows: Cells, oldest: int, groups: int) -> None:
        if len(rows):
            self._new.append(rows)
        if len(self._new) > MOST_UNMERGED:
            self.settled(oldest, groups)

    def settled(self, oldest: int, groups: int) -> Cells:
        """The rows of intervals from `oldest` on, the oldest first; older rows are dropped."""
        kept = [part.where(part.x >= oldest) for part in (self._merged_rows, *self._new)]
        self._merged_rows = self._merged(_together(kept), groups) if self._new else kept[0]
        self._new = []
        return self._merged_rows

    def replace(self, rows: Cells) -> None:
        """Replace the stored rows by settled ones."""
        self._merged_rows = rows

    def _nothing(self) -> Cells:
        none = np.empty(0, dtype=np.int64)
        columns = {(p, i): np.empty(0, dtype=dtype) for p in self._partials for i, dtype in enumerate(p.dtypes)}
        return Cells(none, none, none.astype(np.int32), columns)

    def _merged(self, rows: Cells, groups: int) -> Cells:
        if not len(rows):
            return rows
        low, lead = rows.x.min(), rows.y.min()
        leads = int(rows.y.max() - lead) + 1
        keys = ((rows.x - low) * leads + (rows.y - lead)) * groups + rows.codes
        unique, places = np.unique(keys, return_inverse=True)
        merged = Accumulator(len(unique), self._partials, self._ranked)
        merged.fold(self._partials, places.astype(np.int32), rows.columns.__getitem__)
        columns = {(p, i): column for p in self._partials for i, column in enumerate(merged.stored(p))}
        above, codes = np.divmod(unique, groups)
        intervals, number = np.divmod(above, leads)
        return Cells(intervals + low, number + lead, codes.astype(np.int32), columns)


def _together(parts: list[Cells]) -> Cells:
    columns = {slot: np.concatenate([part.columns[slot] for part in parts]) for slot in parts[0].columns}
    return Cells(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.codes for part in parts]),
        columns,
    )


class JoinPanes(JoinHistory):
    """Rows by interval of expiry; leads apart where windows may differ. See the module's docstring."""

    kind = "basic"

    def __init__(
        self, key_types: list[pa.DataType], partials: Iterable[Partial], length: int, band: Band, capacity: int
    ) -> None:
        super().__init__(key_types, partials, length, band, capacity)
        self._whole, self._apart = (RowStore(self.partials, self._ranked) for _ in range(2))
        self._most_values: dict[Partial, int] = {}

    @property
    def numbers(self) -> int:
        """Rows, not vectors: one for each group in each interval."""
        return sum(len(self._rows(store)) for store in (self._whole, self._apart))

    @property
    def _oldest(self) -> int:
        assert self._now is not None
        return self._now - self.capacity + 1

    def _rows(self, store: RowStore) -> Cells:
        return store.settled(0 if self._now is None else self._oldest, len(self._keys))

    def _begin(self, pane: int) -> None:
        """Do nothing: intervals have the numbers of panes."""

    def _slide(self, panes: int) -> None:
        """Do nothing: no row has to move."""

    def _insert(self, ages: Numbers, leads: Numbers, cells: Cells) -> None:
        assert self._now is not None
        intervals = self._now - ages
        none = np.zeros(len(leads), dtype=np.int64)
        self._whole.add(Cells(intervals, none, cells.codes, cells.columns), self._oldest, len(self._keys))
        if self.band.values > 1:
            apart = Cells(intervals, leads, cells.codes, cells.columns).where(leads != 0)
            self._apart.add(apart, self._oldest, len(self._keys))

    def _live(self) -> NDArray[np.bool_]:
        live = np.zeros(len(self._keys), dtype=np.bool_)
        live[self._rows(self._whole).codes] = True
        return live

    def _recode(self, remap: NDArray[np.int32], groups: int) -> None:
        for store in (self._whole, self._apart):
            rows = self._rows(store)
            store.replace(Cells(rows.x, rows.y, remap[rows.codes], rows.columns))

    def close(self, until: Micros) -> None:
        super().close(until)
        for partial, values in self._ranked.items():
            if len(values.dictionary) > self._most_values.get(partial, LEAST_COMPACTED):
                self._forget_values(partial, values)

    def _forget_values(self, partial: Partial, values: RankedValues) -> None:
        """Forget values of extremes that no row has any more."""
        slot, identity = (partial, 0), int(partial.identity())
        columns = [self._rows(store).columns[slot] for store in (self._whole, self._apart)]
        columns += [cells.columns[slot] for waiting in self._pending.values() for cells in waiting]
        live = np.zeros(len(values.dictionary), dtype=np.bool_)
        for column in columns:
            live[column[column != identity]] = True
        if 2 * int(live.sum()) <= len(live):
            remap = values.compact(live)
            for column in columns:
                known = column != identity
                column[known] = remap[column[known]]
        self._most_values[partial] = max(LEAST_COMPACTED, 2 * len(values.dictionary))

    def _saved(self) -> Iterator[tuple[int, Cells]]:
        for part, store in enumerate((self._whole, self._apart), 1):
            yield part, self._rows(store)

    def _load(self, part: int, cells: Cells) -> None:
        (self._whole, self._apart)[part - 1].replace(cells)

    # -- answering -----------------------------------------------------------------------------------

    def _answers(self, needs: Needs) -> Iterator[tuple[WindowPair, Accumulator]]:
        readings = {pair: self.band.reading(pair) for pair in needs}
        by_length: dict[int, list[WindowPair]] = {}
        for pair in sorted(needs, key=lambda pair: readings[pair].whole):
            by_length.setdefault(readings[pair].whole, []).append(pair)
        lengths = list(by_length)
        most = max(1, MOST_SCANNED // max(1, len(self._keys)))
        for start in range(0, len(lengths), most):
            some = lengths[start : start + most]
            wanted = [_union(needs[pair] for pair in by_length[length]) for length in some]
            for length, accumulator in zip(some, self._scan(some, wanted), strict=True):
                for pair in by_length[length]:
                    more = readings[pair].next
                    yield pair, self._with_leads(accumulator, readings[pair], needs[pair]) if more else accumulator

    def _scan(self, lengths: list[int], wanted: list[list[Partial]]) -> Iterator[Accumulator]:
        """One pass from the youngest interval to the oldest, with each length's groups on the way."""
        rows, now = self._rows(self._whole), self._now or 0
        # Intervals after `now` belong to no pane yet; there are none.
        edges = [now + 1, *(now + 1 - length for length in lengths)]
        cuts = np.searchsorted(rows.x, edges)
        return scan(wanted, ScanRows(len(self._keys), cuts, rows.codes, rows.columns.__getitem__, self._ranked))

    def _with_leads(self, whole: Accumulator, reading: PairReading, partials: Sequence[Partial]) -> Accumulator:
        """The result of a scan, and the results of the next intervals that are in the longer window alone."""
        rows, groups, youngest = self._rows(self._apart), len(self._keys), (self._now or 0) - reading.whole
        first, last = np.searchsorted(rows.x, [youngest - reading.next + 1, youngest + 1])
        leads = rows.y[first:last] * reading.side
        places = first + np.flatnonzero(leads >= reading.least + youngest - rows.x[first:last])
        found = Accumulator(groups, partials, self._ranked)
        found.fold(partials, np.arange(groups, dtype=np.int32), lambda slot: whole.stored(slot[0])[slot[1]])
        found.fold(partials, rows.codes[places], lambda slot: rows.columns[slot][places])
        return found


def _union(needs: Iterator[Sequence[Partial]]) -> list[Partial]:
    return list(dict.fromkeys(partial for partials in needs for partial in partials))
