"""Basic interval synopsis (thesis 2.3.4): partials of disjoint panes, all windows in one scan (rule CS2).

    oldest                                            youngest      open
    | pane | pane | pane | pane | pane | pane | pane | pane |   ( pane ) ( pane )
                                 <--- window 3 panes ------|
                  <------- window 6 panes -----------------|
                                                           ^ now: the end of the youngest closed pane

Panes are filled while open, by as many micro-batches as touch them, and closed in the order of time.
A scan goes from the youngest closed pane to the oldest and yields every window's groups along the way.

Needs: any aggregate whose partials combine associatively. Time: one pass over the panes of the longest
window for all queries together. Space: groups x panes per component.

Invariants: a tuple is in exactly one pane; closed panes end at or before `now`; `retained_from` is the time
since which nothing has been thrown away; a partial that came later knows its own `since`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.core.window import TimeWindow
from sash.storage.keys import KeyDictionary
from sash.storage.ring import Pane, PaneRing
from sash.synopses.accumulator import Accumulator, RankedValues, counted
from sash.synopses.partials import Combine, Partial

# Contributions of more micro-batches than this to one open pane are merged before it closes.
MOST_CONTRIBUTIONS = 8


@dataclass(frozen=True)
class PaneRows:
    """What one micro-batch brings: rows of (pane, group), sorted in no order, as Arrow columns."""

    length: Micros
    ends: NDArray[np.int64]
    keys: list[pa.Array]
    lifted: dict[Partial, list[pa.Array]]


@dataclass(frozen=True)
class BatchFacts:
    """What one pass over a micro-batch brought: counts, and rows of partials with the tuples behind each row."""

    rows: int
    latest: Micros | None
    null_timestamps: int
    unparsable: int
    lanes: list[tuple[int, PaneRows, np.ndarray]]


@dataclass(frozen=True)
class WindowView:
    """The groups of one window while the scan stands at its oldest pane; copy what you keep."""

    window: TimeWindow
    empty: bool
    accumulator: Accumulator
    keys: KeyDictionary


class BasicIntervalSynopsis:
    def __init__(self, key_types: list[pa.DataType]) -> None:
        self._key_types = key_types
        self._keys = KeyDictionary(key_types)
        self._ring = PaneRing()
        self._open: dict[tuple[Micros, Micros], list[Pane]] = {}
        self._ranked: dict[Partial, RankedValues] = {}
        self.since: dict[Partial, Micros | None] = {}

    # -- what it stores ------------------------------------------------------------------------------

    def require(self, partials: Sequence[Partial], since: Micros | None) -> None:
        """Store these partials from now on; `since` None means from the beginning of the stream."""
        for partial in partials:
            if partial in self.since:
                continue
            self.since[partial] = since
            if partial.ranked:
                self._ranked[partial] = RankedValues(partial.type)
            for i, dtype in enumerate(partial.dtypes):
                self._ring.add_column((partial, i), dtype, partial.identity(i))

    def release(self, kept: set[Partial]) -> None:
        """Forget every partial that no query needs any more."""
        for partial in [partial for partial in self.since if partial not in kept]:
            del self.since[partial]
            self._ranked.pop(partial, None)
            for i in range(len(partial.dtypes)):
                self._ring.drop_column((partial, i))

    @property
    def groups(self) -> int:
        return len(self._keys)

    @property
    def panes(self) -> int:
        return len(self._ring)

    @property
    def rows(self) -> int:
        return self._ring.rows + sum(len(pane.codes) for parts in self._open.values() for pane in parts)

    # -- filling and closing panes -------------------------------------------------------------------

    def absorb(self, rows: PaneRows, closed_until: Micros | None = None) -> None:
        """Take a micro-batch's rows in; rows of panes that ended by `closed_until` revise closed panes."""
        if not len(rows.ends):
            return
        codes = self._keys.encode(rows.keys, len(rows.ends))
        columns = {(p, i): c for p, parts in rows.lifted.items() for i, c in enumerate(self._store(p, rows, parts))}
        order = np.argsort(rows.ends, kind="stable")
        ends = rows.ends[order]
        cuts = np.flatnonzero(np.diff(ends)) + 1
        for part in np.split(order, cuts):
            end = int(rows.ends[part[0]])
            pane = Pane(end - rows.length, end, codes[part], {name: column[part] for name, column in columns.items()})
            if closed_until is not None and end <= closed_until:
                self._ring.insert(self._merge([pane]))
            else:
                self._add_open(pane)

    def _store(self, partial: Partial, rows: PaneRows, columns: list[pa.Array]) -> list[np.ndarray]:
        if partial.ranked:
            return [self._ranked[partial].store(columns[0], int(partial.identity()))]
        counts = None
        if partial.combine is Combine.MOMENTS:
            counts = np.asarray(rows.lifted[counted(partial)][0], dtype=np.int64)
        return list(partial.store(columns, counts))

    def _add_open(self, pane: Pane) -> None:
        parts = self._open.setdefault((pane.start, pane.end), [])
        parts.append(pane)
        if len(parts) > MOST_CONTRIBUTIONS:
            self._open[pane.start, pane.end] = [self._merge(parts)]

    def _merge(self, parts: list[Pane]) -> Pane:
        """One row per group from several contributions."""
        codes = np.concatenate([part.codes for part in parts])
        unique, places = np.unique(codes, return_inverse=True)
        if len(unique) == len(codes) and len(parts) == 1:
            return parts[0]
        partials = [p for p in self.since if any((p, 0) in part.columns for part in parts)]
        accumulator = Accumulator(len(unique), partials, self._ranked)
        first = 0
        for part in parts:
            last = first + len(part.codes)
            present = [p for p in partials if (p, 0) in part.columns]
            accumulator.fold(present, places[first:last].astype(np.int32), part.columns.__getitem__)
            first = last
        columns = {(p, i): c for p in partials for i, c in enumerate(accumulator.stored(p))}
        return Pane(parts[0].start, parts[0].end, unique.astype(np.int32), columns)

    def next_end(self, after: Micros) -> Micros | None:
        """When the next pane with tuples ends after a time, closed or open."""
        following = self._ring.position(after)
        closed = [self._ring.span(following)[1]] if following < len(self._ring) else []
        return min([*closed, *(end for _, end in self._open if end > after)], default=None)

    def close(self, until: Micros) -> None:
        """Close every open pane that ends by a time."""
        due = sorted((end, start) for start, end in self._open if end <= until)
        for end, start in due:
            self._ring.insert(self._merge(self._open.pop((start, end))))

    def expire(self, before: Micros) -> None:
        """Drop panes that start before a time, and forget groups that have vanished from every pane."""
        if self._ring.expire(before) and self._key_types and len(self._keys) > 1024:
            self._forget_groups()

    def _forget_groups(self) -> None:
        """Compact when fewer than half of the codes are in use, so that the cost is amortised."""
        if self.rows * 2 > len(self._keys) and self._live().sum() * 2 > len(self._keys):
            return
        self._keys, remap = self._keys.compacted(self._live())
        self._ring.recode(remap)
        for span, parts in self._open.items():
            self._open[span] = [Pane(p.start, p.end, remap[p.codes], p.columns) for p in parts]

    def _live(self) -> NDArray[np.bool_]:
        live = np.zeros(len(self._keys), dtype=np.bool_)
        live[self._ring.codes(0, len(self._ring))] = True
        for parts in self._open.values():
            for pane in parts:
                live[pane.codes] = True
        return live

    # -- answering -----------------------------------------------------------------------------------

    def is_empty(self, window: TimeWindow, now: Micros) -> bool:
        """No pane with tuples lies in the window as of now."""
        last = self._ring.position(now - window.lag)
        return last == 0 or self._ring.span(last - 1)[1] <= now - window.lag - window.length

    def straddles(self, edge: Micros) -> bool:
        """Some stored pane holds tuples on both sides of a time."""
        first = self._ring.position(edge)
        return any(start < edge < end for start, end in map(self._ring.span, range(first, len(self._ring))))

    def scan(self, needs: dict[TimeWindow, list[Partial]], now: Micros) -> Iterator[WindowView]:
        """Every window as of `now`, the shortest first; windows with the same lag are one scan."""
        for lag in sorted({window.lag for window in needs}):
            windows = sorted((w for w in needs if w.lag == lag), key=lambda window: window.length)
            yield from self._scan_from(now - lag, [(window, needs[window]) for window in windows])

    def _scan_from(self, newest: Micros, windows: list[tuple[TimeWindow, list[Partial]]]) -> Iterator[WindowView]:
        longest = {partial: window.length for window, partials in windows for partial in partials}
        accumulator = Accumulator(len(self._keys), longest, self._ranked)
        youngest = young = self._ring.position(newest)
        for window, _ in windows:
            edge = newest - window.length
            if self._ring.nested:
                accumulator = Accumulator(len(self._keys), longest, self._ranked)
                young = youngest
            wanted = [partial for partial, length in longest.items() if length >= window.length]
            for first, last in self._runs(edge, young):
                self._fold(accumulator, wanted, first, last)
                young = first
            yield WindowView(window, young == youngest, accumulator, self._keys)

    def _fold(self, accumulator: Accumulator, partials: list[Partial], first: int, last: int) -> None:
        codes = self._ring.codes(first, last)
        accumulator.fold(partials, codes, lambda slot: self._ring.column(slot, first, last))

    def _runs(self, edge: Micros, young: int) -> list[tuple[int, int]]:
        """The runs of panes before `young` that lie wholly after an edge, youngest first; panes across it are left out."""
        first = min(self._ring.position(edge), young)
        if not self._ring.nested:
            while first < young and self._ring.span(first)[0] < edge:
                first += 1
            return [(first, young)] if first < young else []
        return [(i, i + 1) for i in range(young - 1, first - 1, -1) if self._ring.span(i)[0] >= edge]

    # -- recovery ------------------------------------------------------------------------------------

    def to_table(self) -> pa.Table:
        """Every pane's rows with their key values; ranked extremes as values, the rest as they are stored."""
        closed = [self._ring.pane(i) for i in range(len(self._ring))]
        opened = [pane for parts in self._open.values() for pane in parts]
        panes = closed + opened
        sizes = [len(pane.codes) for pane in panes]
        codes = np.concatenate([pane.codes for pane in panes]) if panes else np.empty(0, dtype=np.int32)
        columns: dict[str, pa.Array] = {
            "start": pa.array(np.repeat(np.array([pane.start for pane in panes], dtype=np.int64), sizes)),
            "end": pa.array(np.repeat(np.array([pane.end for pane in panes], dtype=np.int64), sizes)),
            "part": pa.array(np.repeat(np.arange(len(panes), dtype=np.int64), sizes)),
            "closed": pa.array(np.repeat(np.arange(len(panes)) < len(closed), sizes)),
        }
        columns |= {f"key{i}": column for i, column in enumerate(self._keys.decode(codes))}
        for number, partial in enumerate(self.since):
            for i, dtype in enumerate(partial.dtypes):
                fill = np.asarray(partial.identity(i), dtype=dtype)
                parts = [pane.columns.get((partial, i), np.full(len(pane.codes), fill)) for pane in panes]
                stored = np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
                columns[f"value{number}_{i}"] = self._unranked(partial, stored)
        return pa.table(columns)

    def _unranked(self, partial: Partial, stored: np.ndarray) -> pa.Array:
        if not partial.ranked:
            return pa.array(stored)
        identity = int(partial.identity())
        return self._ranked[partial].values(self._ranked[partial].ranks(stored, identity), identity)

    def save_since(self) -> list[list[object]]:
        return [[*partial.signature, since] for partial, since in self.since.items()]

    def load(self, table: pa.Table, since: list[list[object]]) -> None:
        """The inverse of `to_table` and `save_since`, into a synopsis with the same partials and no panes."""
        places = {tuple(saved[:-1]): number for number, saved in enumerate(since)}
        numbers = {partial: places[partial.signature] for partial in self.since}
        for partial, number in numbers.items():
            self.since[partial] = since[number][-1]  # type: ignore[assignment]
        table = table.combine_chunks()
        keys = [_array(table[f"key{i}"]) for i in range(len(self._key_types))]
        codes = self._keys.encode(keys, len(table))
        columns = {}
        for partial, number in numbers.items():
            for i in range(len(partial.dtypes)):
                column = _array(table[f"value{number}_{i}"])
                ranked = partial.ranked
                columns[partial, i] = (
                    self._ranked[partial].store(column, int(partial.identity())) if ranked else np.asarray(column)
                )
        starts, ends, closed = (np.asarray(table[name]) for name in ("start", "end", "closed"))
        part = np.asarray(table["part"])
        for rows in np.split(np.arange(len(table)), np.flatnonzero(np.diff(part)) + 1):
            if len(rows):
                values = {name: column[rows] for name, column in columns.items()}
                pane = Pane(int(starts[rows[0]]), int(ends[rows[0]]), codes[rows], values)
                self._ring.insert(pane) if closed[rows[0]] else self._add_open(pane)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
