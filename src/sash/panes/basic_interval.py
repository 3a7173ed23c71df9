"""Basic interval synopsis (thesis 2.3.4): partials of disjoint panes, all windows in one scan (rule CS2).

Panes are filled while open, by as many micro-batches as touch them, and closed in the order of time.
A scan goes from the youngest closed pane to the oldest and yields every window's groups along the way.

Needs: any aggregate whose partials combine associatively. Time: one pass over the panes of the longest
window for all queries together. Space: groups x panes per component.

Invariants: a tuple is in exactly one pane; closed panes end at or before `now`; a partial that came later has
its own `since`: panes that start before it may lack some of its tuples, and readers of the partial skip them.
"""

from __future__ import annotations

import copy
import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import EARLIEST, Micros
from sash.core.window import SessionWindow, Window
from sash.expr.value_codes import Codes, KeyDictionary
from sash.panes.accelerator import Accelerator
from sash.panes.accumulator import Accumulator, RankedValues, ScanRows, counted, scan
from sash.panes.answers import Finisher
from sash.panes.covered import CoveredPredicate
from sash.panes.filters import FilterIndex, SubstreamFilter
from sash.panes.pane_ring import Pane, PaneRing
from sash.panes.pane_rows import PaneRows, panes_to_table, table_to_panes
from sash.panes.pane_store import AnswerPart, PaneStore, PartResult, WindowNeeds, needs_of
from sash.panes.partials import Combine, Component, Partial
from sash.panes.prefix_sums import DifferenceColumns, PrefixSums, YoungestPane
from sash.panes.readers import PlainReader, PredicateGroups, SessionReader, SharedGroups
from sash.panes.readings import WindowView
from sash.panes.sessions import SessionRows, SessionView, sessions_in

# Contributions of more micro-batches than this to one open pane are merged before it closes.
MOST_CONTRIBUTIONS = 8
# How many panes gather before they are merged into the history of unbounded windows.
MOST_UNMERGED = 16
# Smaller dictionaries than this are never compacted.
LEAST_COMPACTED = 1024
# Windows are scanned together as long as windows x groups stay below this many numbers per component.
MOST_SCANNED = 4_000_000


class BasicIntervalSynopsis(PaneStore):
    """The panes of one pane table in this process."""

    kind = "basic"

    def __init__(self, key_types: list[pa.DataType]) -> None:
        super().__init__(key_types)
        self._keys = KeyDictionary(key_types)
        self._ring = PaneRing()
        self._open: dict[tuple[Micros, Micros], list[Pane]] = {}
        self.ranked: dict[Partial, RankedValues] = {}
        # The size at which the dictionary of groups (None) or of a ranked partial's values is checked next.
        self._limits: dict[Partial | None, int] = {}
        # How many of the oldest panes are merged.
        self._history = 0
        # In a frozen synopsis: the accelerators' results, by window.
        self._found: dict[Window, Accumulator] = {}
        # A frozen synopsis has none: its panes are read once.
        self._sums: PrefixSums | None = PrefixSums()

    # -- what it stores ------------------------------------------------------------------------------

    def require(self, partials: Sequence[Partial], since: Micros | None) -> None:
        for partial in partials:
            if partial in self.since:
                continue
            self.since[partial] = since
            if partial.ranked:
                self.ranked[partial] = RankedValues(partial.type)
            for i, dtype in enumerate(partial.dtypes):
                self._ring.add_column((partial, i), dtype, partial.identity(i))

    def adopt(self, partials: Sequence[Partial], covered: CoveredPredicate) -> bool:
        for partial in partials:
            starts = [self.since[part] for part in covered.parts(partial)]
            self.require([partial], max((start for start in starts if start is not None), default=None))
            for i in range(len(partial.dtypes)):
                parts = [(part, i) for part in covered.parts(partial)]
                whole = [self._ring.column(part, 0, len(self._ring)) for part in parts]
                self._ring.writable((partial, i))[:] = covered.combined(partial, whole)
                for span, panes in self._open.items():
                    self._open[span] = [covered.completed(pane, (partial, i), parts) for pane in panes]
        return True

    def release(self, kept: set[Partial]) -> None:
        for partial in [partial for partial in self.since if partial not in kept]:
            del self.since[partial]
            self.ranked.pop(partial, None)
            self._limits.pop(partial, None)
            for i in range(len(partial.dtypes)):
                self._ring.drop_column((partial, i))
        # An open pane must forget the partial as well: if the partial comes back, it has another dictionary of ranks.
        for span, parts in self._open.items():
            self._open[span] = [
                replace(part, columns={slot: column for slot, column in part.columns.items() if slot[0] in kept})
                for part in parts
            ]

    @property
    def groups(self) -> int:
        return len(self._keys)

    def groups_beyond(self, most: int) -> int:
        """How many groups some pane has, closed or open; `groups` also counts vanished ones."""
        live = int(self._live().sum()) if self.groups > most else 0
        return live if live > most else 0

    def last_seen(self, presence: Partial) -> NDArray[np.int64]:
        panes = len(self._ring)
        if presence not in self.since or not panes:
            return super().last_seen(presence)
        there = self._ring.column((presence, 0), 0, panes) > 0
        seen = np.full(len(self._keys), EARLIEST - 1, dtype=np.int64)
        # Panes are in the order of their ends: of several, the newest is written last.
        seen[self._ring.codes(0, panes)[there]] = self._ring.ends_of_rows()[there]
        return np.sort(seen[seen >= EARLIEST])

    def _live(self) -> NDArray[np.bool_]:
        live = np.zeros(len(self._keys), dtype=np.bool_)
        for codes in (self._ring.codes(0, len(self._ring)), *(pane.codes for pane in self._open_panes())):
            live[codes] = True
        return live

    @property
    def panes(self) -> int:
        return len(self._ring)

    @property
    def closed_rows(self) -> int:
        return self._ring.rows

    def closed_groups(self) -> tuple[int, float]:
        codes = self._ring.codes(0, len(self._ring))
        groups = int(np.count_nonzero(np.bincount(codes))) if len(codes) else 1
        return groups, max(1.0, self._ring.rows / max(1, len(self._ring)))

    @property
    def rows(self) -> int:
        return self._ring.rows + sum(len(pane.codes) for pane in self._open_panes())

    def _open_panes(self) -> Iterator[Pane]:
        return (pane for parts in self._open.values() for pane in parts)

    # -- filling and closing panes -------------------------------------------------------------------

    def absorb(self, rows: PaneRows, closed_until: Micros | None = None) -> None:
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
                self._version += 1
            else:
                self._add_open(pane)

    def _store(self, partial: Partial, rows: PaneRows, columns: list[pa.Array]) -> list[Component]:
        if partial.ranked:
            return [self.ranked[partial].store(columns[0], int(partial.identity()))]
        counts = None
        if partial.combine is Combine.MOMENTS:
            counts = np.asarray(rows.lifted[counted(partial)][0], dtype=np.int64)
        return partial.store(columns, counts)

    def _add_open(self, pane: Pane) -> None:
        parts = self._open.setdefault((pane.start, pane.end), [])
        parts.append(pane)
        if len(parts) > MOST_CONTRIBUTIONS:
            self._open[pane.start, pane.end] = [self._merge(parts)]

    def _merge(self, parts: list[Pane]) -> Pane:
        """One row per group from several contributions."""
        codes = np.concatenate([part.codes for part in parts])
        unique, firsts, places = np.unique(codes, return_index=True, return_inverse=True)
        if len(unique) == len(codes) and len(parts) == 1:
            # Sorted by code: a pane is read far more often than it is closed.
            columns = {name: column[firsts] for name, column in parts[0].columns.items()}
            return replace(parts[0], codes=unique.astype(np.int32), columns=columns)
        partials = [p for p in self.since if any((p, 0) in part.columns for part in parts)]
        accumulator = Accumulator(len(unique), partials, self.ranked)
        first = 0
        for part in parts:
            last = first + len(part.codes)
            present = [p for p in partials if (p, 0) in part.columns]
            accumulator.fold(present, places[first:last].astype(np.int32), part.columns.__getitem__)
            first = last
        columns = {(p, i): c for p in partials for i, c in enumerate(accumulator.stored(p))}
        return Pane(parts[0].start, parts[0].end, unique.astype(np.int32), columns)

    def next_end(self, after: Micros) -> Micros | None:
        following = self._ring.position(after)
        closed = [self._ring.span(following)[1]] if following < len(self._ring) else []
        return min([*closed, *(end for _, end in self._open if end > after)], default=None)

    def close(self, until: Micros) -> None:
        due = sorted((end, start) for start, end in self._open if end <= until)
        for end, start in due:
            self._ring.insert(self._merge(self._open.pop((start, end))))

    def expire(self, before: Micros) -> None:
        """Drop panes that start before a time, and forget groups and values that have vanished from every pane."""
        gone = self._ring.expire(before)
        if gone:
            self._history = max(0, self._history - gone)
            self._forget_groups()
            for partial in self.ranked:
                self._forget_values(partial)

    def merge(self, before: Micros, edges: Collection[Micros] = ()) -> None:
        """Merge old panes, but not across the start of a partial: its readers must find the panes that have it.

        Merge only when some have gathered, so that the cost is amortised.
        """
        last = self._ring.position(before)
        if last - self._history < MOST_UNMERGED:
            return
        bounds = sorted({*edges, *(start for start in self.since.values() if start is not None)})
        panes = [self._ring.pane(i) for i in range(last)]
        runs = itertools.groupby(panes, key=lambda pane: bisect_right(bounds, pane.start))
        merged = [self._merge_run(list(run)) for _, run in runs]
        self._ring.replace(last, merged)
        self._history = len(merged)

    def _merge_run(self, panes: list[Pane]) -> Pane:
        whole = self._merge(panes)
        return replace(whole, start=min(pane.start for pane in panes), end=max(pane.end for pane in panes))

    def _forget_groups(self) -> None:
        if not self._outgrown(None, len(self._keys)):
            return
        live = self._live()
        if self._is_sparse(None, live):
            self._keys, remap = self._keys.compacted(live)
            self._version += 1
            self._ring.recode(remap)
            for span, parts in self._open.items():
                self._open[span] = [replace(part, codes=remap[part.codes]) for part in parts]

    def _forget_values(self, partial: Partial) -> None:
        values, slot, identity = self.ranked[partial], (partial, 0), int(partial.identity())
        if not self._outgrown(partial, len(values.dictionary)):
            return
        open_columns = [pane.columns[slot] for pane in self._open_panes() if slot in pane.columns]
        live = np.zeros(len(values.dictionary), dtype=np.bool_)
        for column in (self._ring.column(slot, 0, len(self._ring)), *open_columns):
            live[column[column != identity]] = True
        if self._is_sparse(partial, live):
            remap = values.compact(live)
            for column in (self._ring.writable(slot), *open_columns):
                known = column != identity
                column[known] = remap[column[known]]

    def _outgrown(self, dictionary: Partial | None, size: int) -> bool:
        """Whether to check a dictionary: surely half empty, or twice as large as at the last check (amortised)."""
        return size > LEAST_COMPACTED and (2 * self.rows <= size or size >= self._limits.get(dictionary, 0))

    def _is_sparse(self, dictionary: Partial | None, live: NDArray[np.bool_]) -> bool:
        used = int(live.sum())
        sparse = 2 * used <= len(live)
        self._limits[dictionary] = 2 * (used if sparse else len(live))
        return sparse

    # -- answering -----------------------------------------------------------------------------------

    def frozen(
        self, needs: WindowNeeds, now: Micros, build: bool = False, partials: Collection[Partial] | None = None
    ) -> Self:
        """A copy for another thread. It shares the panes. Accelerators change in place, so they are looked up at once;
        if an accelerator lags far behind, a scan answers its windows, unless `build` lets it catch up.
        """
        other, read = copy.copy(self), self.since.keys() if partials is None else partials
        other._ring, other._keys = self._ring.frozen(self._columns_of(read)), self._keys.frozen()
        other.ranked = {partial: self.ranked[partial].frozen() for partial in read if partial.ranked}
        other.since, other._open, other.accelerators, other._sums = self.since.copy(), {}, [], None
        other._found = self._found_at_once(needs, now, build)
        return other

    def _columns_of(self, partials: Iterable[Partial]) -> list[Hashable]:
        return [(partial, component) for partial in partials for component in range(len(partial.dtypes))]

    def _found_at_once(self, needs: WindowNeeds, now: Micros, build: bool) -> dict[Window, Accumulator]:
        found: dict[Window, Accumulator] = {}
        for newest, servers, windows in self._together(needs, now):
            if not (build or all(each.is_near(self._ring, now, self._version) for each in servers)):
                continue
            if looked_up := self._looked_up(newest, windows, servers, now):
                found |= {window: accumulator for (window, _), accumulator in zip(windows, looked_up, strict=True)}
        return found

    def is_empty(self, window: Window, now: Micros) -> bool:
        last = self._ring.position(window.end(now))
        return last == 0 or self._ring.span(last - 1)[1] <= window.start(now)

    def straddles(self, edge: Micros) -> bool:
        first = self._ring.position(edge)
        # Without nested panes, the oldest pane that ends after the edge is the only one that may begin before it.
        last = len(self._ring) if self._ring.nested else min(first + 1, len(self._ring))
        return any(start < edge < end for start, end in map(self._ring.span, range(first, last)))

    def read(self, parts: Sequence[AnswerPart], now: Micros) -> Iterator[tuple[int, PartResult]]:
        subtracted = self._differences(parts, now)
        yield from subtracted.items()
        others = {number: part for number, part in enumerate(parts) if number not in subtracted}
        told = self._sessions(others, now)
        yield from told.items()
        scanned = [(number, part) for number, part in others.items() if number not in told]
        waiting: dict[Window, list[int]] = {}
        for number, part in scanned:
            for span in part.stored.spans:
                waiting.setdefault(span, []).append(number)
        views: dict[int, dict[Window, WindowView]] = {}
        for view in self.scan(needs_of([part for _, part in scanned]), now):
            shared: dict[CoveredPredicate | None, SharedGroups] = {}
            for number in waiting[view.window]:
                part = parts[number]
                spans = part.stored.spans
                if len(spans) == 1:
                    yield number, part.found([view], shared.setdefault(part.covered, {}))
                    continue
                mine = views.setdefault(number, {})
                mine[view.window] = view
                if len(mine) == len(spans):
                    # A query over several windows shares its groups with no other.
                    yield number, part.found([mine.pop(span) for span in spans], {})

    def _differences(self, parts: Sequence[AnswerPart], now: Micros) -> dict[int, DifferenceColumns]:
        """The parts, by number, whose windows are differences of sums: nothing is scanned for them."""
        ring, groups, sums = self._ring, len(self._keys), self._sums
        if sums is None:
            return {}
        if self.accelerators or not sums.serves(ring, groups):
            sums.clear()
            return {}
        came_later = {partial: start for partial, start in self.since.items() if start is not None}
        # Those that read the same partials up to the same pane.
        together: dict[tuple[int, tuple[Partial, ...]], list[tuple[int, PlainReader, int]]] = {}
        for number, part in enumerate(parts):
            if (reader := part.subtracting) is None:
                continue
            reading = reader.reading
            window, needed = reading.window, reading.partials
            edge = now - window.reach
            if not came_later or all(came_later.get(partial, edge) <= edge for partial in needed):
                together.setdefault((window.lag, needed), []).append((number, reader, edge))
        partials = dict.fromkeys(partial for _, needed in together for partial in needed)
        before, keys = sums.catch_up(ring, partials, groups), self._keys.decode_all()
        everybody, found = PredicateGroups(groups if keys else 1, None, keys), dict[int, DifferenceColumns]()
        for (lag, needed), chosen in together.items():
            newest = ring.position(now - lag)
            # The number of rows is the first partial of a reading.
            youngest = YoungestPane(before[max(0, newest - 1)][needed[0]], before[newest][needed[0]], everybody)
            oldest = ring.first_wholes([edge for _, _, edge in chosen], newest)
            cuts = {pane: tuple(map(before[pane].__getitem__, needed)) for pane in {newest, *oldest}}
            newer = cuts[newest]
            for (number, reader, _), pane in zip(chosen, oldest, strict=True):
                found[number] = DifferenceColumns(reader, cuts[pane], newer, youngest)
        return found

    def _sessions(self, parts: Mapping[int, AnswerPart], now: Micros) -> dict[int, PartResult]:
        """The parts, by number, that are about sessions. The same sessions are found once for all parts over them."""
        same: dict[tuple[SessionWindow, Partial, Micros], dict[int, SessionReader]] = {}
        for number, part in parts.items():
            reader = part.chosen
            if not isinstance(reader, SessionReader):
                continue
            starts = (self.since[partial] for partial in reader.reading.partials)
            oldest = max([reader.window.start(now), *(start for start in starts if start is not None)])
            same.setdefault((reader.window, reader.presence, oldest), {})[number] = reader
        found: dict[int, PartResult] = {}
        for (_, _, oldest), readers in same.items():
            view = self._session_view(list(readers.values()), oldest, now)
            found |= {number: parts[number].found([view], {}) for number in readers}
        return found

    def _session_view(self, readers: Sequence[SessionReader], oldest: Micros, now: Micros) -> SessionView:
        reader = readers[0]
        after, since, until = reader.window.told(now, self.ends)
        passed, youngest = self._ring.position(after), self._ring.position(now)
        runs = [(max(first, passed), last) for first, last in reversed(self._runs(oldest, youngest)) if last > passed]

        def gathered(part: Callable[[int, int], NDArray[Any]]) -> NDArray[Any]:
            # Without nested panes there is one run, of which nothing is copied.
            found = [part(*run) for run in runs] or [part(0, 0)]
            return found[0] if len(found) == 1 else np.concatenate(found)

        def column(slot: tuple[Partial, int]) -> Component:
            return gathered(functools.partial(self._ring.column, slot))

        counts, firsts, lasts = (column((each, 0)) for each in (reader.presence, reader.first, reader.last))
        codes, ends = gathered(self._ring.codes), gathered(self._ring.ends_of_rows)
        order = np.argsort(firsts, kind="stable") if self._ring.nested else slice(None)
        rows = SessionRows(*(each[order] for each in (codes, counts, firsts, lasts, ends)))
        sessions = sessions_in(rows, len(self._keys), reader.window, since, until)
        chosen = np.flatnonzero(sessions.numbers >= 0)
        partials = list(dict.fromkeys(partial for each in readers for partial in each.inner.reading.partials))
        accumulator = Accumulator(len(sessions), partials, self.ranked)
        accumulator.fold(partials, sessions.numbers[chosen], lambda slot: column(slot)[order][chosen])
        return SessionView(reader.window, accumulator, self._keys, oldest, self.since, lambda _: accumulator, sessions)

    def scan(self, needs: dict[Window, list[Partial]], now: Micros) -> Iterator[WindowView]:
        """Every window as of `now`, the shortest first; windows with the same lag are one scan."""
        for window in (each for each in self._found if each in needs):
            later = functools.partial(self._folded_since, self._ring.position(window.end(now)), needs[window])
            yield WindowView(window, self._found[window], self._keys, window.start(now), self.since, later)
        left = {window: partials for window, partials in needs.items() if window not in self._found}
        for newest, servers, windows in self._together(left, now):
            yield from self._scan_from(newest, windows, servers, now)

    def _together(
        self, needs: WindowNeeds, now: Micros
    ) -> Iterator[tuple[Micros, list[Accelerator], list[tuple[Window, list[Partial]]]]]:
        """Windows with the same end and accelerators, the shortest first, at most as many as are scanned at a time."""
        together: dict[tuple[int, tuple[int, ...]], list[tuple[Window, list[Partial]]]] = {}
        for window in sorted(needs, key=lambda window: -window.start(now)):
            servers = self._servers(window, needs[window])
            together.setdefault((-window.end(now), servers), []).append((window, needs[window]))
        most = max(1, MOST_SCANNED // max(1, len(self._keys)))
        for (end, servers), windows in sorted(together.items(), key=lambda item: item[0]):
            for start in range(0, len(windows), most):
                yield -end, [self.accelerators[i] for i in servers], windows[start : start + most]

    def answer_by(self, index: FilterIndex, finisher: Finisher, now: Micros) -> pa.Table | None:
        (reading,), filter = finisher.readings, finisher.filter
        assert filter is not None
        codes = self.candidates(index, filter, reading.window.length, now)
        if codes is None:
            return None
        accumulator = self.among(reading.spans[0], reading.partials, codes, now)
        return None if accumulator is None else finisher.answer_among(accumulator, self._keys, codes, now)

    def among(self, window: Window, partials: Sequence[Partial], codes: Codes, now: int) -> Accumulator | None:
        """One window for some groups alone, from a synopsis that need not visit the others; None without one."""
        for accelerator in self.accelerators:
            if accelerator.serves(window, partials):
                accelerator.catch_up(self._ring, len(self._keys), now, self._version)
                return accelerator.lookup_among(window, now, codes, partials, self.ranked)
        return None

    def candidates(self, index: FilterIndex, filter: SubstreamFilter, length: int, now: int) -> Codes | None:
        """The groups that a substream filter may let through; None if the index cannot tell."""
        if self._ring.nested:
            return None
        index.catch_up(self._ring, now, self._version)
        return index.lookup(filter, now, length, len(self._keys))

    def _servers(self, window: Window, partials: list[Partial]) -> tuple[int, ...]:
        """The accelerators that hold all of a window's partials together; none: the panes are scanned with others'."""
        missing, servers = set(partials), []
        for i, accelerator in enumerate(self.accelerators):
            if window in accelerator.windows and missing & accelerator.partials:
                servers.append(i)
                missing -= accelerator.partials
        return () if missing else tuple(servers)

    def _scan_from(
        self, newest: Micros, windows: list[tuple[Window, list[Partial]]], servers: list[Accelerator], now: int
    ) -> Iterator[WindowView]:
        looked_up, youngest = self._looked_up(newest, windows, servers, now), self._ring.position(newest)
        starts = [window.start(now) for window, _ in windows]
        found = self._accumulators(starts, youngest, windows) if looked_up is None else looked_up
        for (window, partials), start, accumulator in zip(windows, starts, found, strict=True):
            later = functools.partial(self._folded_since, youngest, partials)
            yield WindowView(window, accumulator, self._keys, start, self.since, later)

    def _looked_up(
        self, newest: int, windows: list[tuple[Window, list[Partial]]], servers: list[Accelerator], now: int
    ) -> Sequence[Accumulator] | None:
        """The windows from running, interval or landmark synopses; None where panes must be scanned."""
        found: Sequence[Accumulator] = []
        for accelerator in servers:
            if accelerator.is_ahead_of(now, self._version):
                return None
            accelerator.catch_up(self._ring, len(self._keys), now, self._version)
            more = accelerator.lookup([window for window, _ in windows], newest, len(self._keys), self.ranked)
            if more is None:
                return None
            found = found or more
            for accumulator, other in zip(found, more, strict=True):
                assert accumulator.block is not None and other.block is not None
                accumulator.block.slots |= other.block.slots
                accumulator.slots |= other.slots
        return found or None

    def _accumulators(
        self, starts: list[Micros], youngest: int, windows: list[tuple[Window, list[Partial]]]
    ) -> Iterable[Accumulator]:
        """One accumulator per window, the shortest first: in one pass over the panes, unless panes are nested."""
        needs = [needed for _, needed in windows]
        if self._ring.nested:
            return (self._folded(self._runs(start, youngest), need) for start, need in zip(starts, needs, strict=True))
        firsts = [youngest, *self._ring.first_wholes(starts, youngest)]
        cuts, codes = self._ring.cuts(firsts), self._ring.codes(firsts[-1], youngest)
        column = functools.partial(self._ring.column, first=firsts[-1], last=youngest)
        return scan(needs, ScanRows(len(self._keys), cuts, codes, column, self.ranked))

    def _folded_since(self, youngest: int, partials: list[Partial], since: Micros) -> Accumulator:
        """The partials that are complete since a time, over the panes that start at or after it."""
        whole = [p for p in partials if (start := self.since[p]) is None or start <= since]
        return self._folded(self._runs(since, youngest), whole)

    def _folded(self, runs: list[tuple[int, int]], needed: list[Partial]) -> Accumulator:
        partials = list(dict.fromkeys(needed))
        accumulator = Accumulator(len(self._keys), partials, self.ranked)
        for first, last in runs:
            column = functools.partial(self._ring.column, first=first, last=last)
            accumulator.fold(partials, self._ring.codes(first, last), column)
        return accumulator

    def _runs(self, edge: Micros, young: int) -> list[tuple[int, int]]:
        """The runs of panes before `young` that lie wholly after an edge, youngest first, without cut panes."""
        if not self._ring.nested:
            first = self._ring.first_whole(edge, young)
            return [(first, young)] if first < young else []
        first = min(self._ring.position(edge), young)
        return [(i, i + 1) for i in range(young - 1, first - 1, -1) if self._ring.span(i)[0] >= edge]

    # -- recovery ------------------------------------------------------------------------------------

    def note_failure(self, query: str, now: Micros, why: str) -> None:
        """Do nothing: a replay computes the part again."""

    def to_table(self) -> pa.Table:
        """Every pane's rows with their key values (see `snapshot`)."""
        closed = [self._ring.pane(i) for i in range(len(self._ring))]
        return panes_to_table(closed, list(self._open_panes()), self._keys, list(self.since), self.ranked)

    def pane_tables(self) -> Iterator[pa.Table]:
        """The rows of each closed pane, and of each contribution to an open pane."""
        for i in range(len(self._ring)):
            yield panes_to_table([self._ring.pane(i)], [], self._keys, list(self.since), self.ranked)
        for pane in self._open_panes():
            yield panes_to_table([], [pane], self._keys, list(self.since), self.ranked)

    def load(self, table: pa.Table, since: list[list[object]]) -> None:
        places = {tuple(saved[:-1]): number for number, saved in enumerate(since)}
        numbers = {partial: places[partial.signature] for partial in self.since}
        for partial, number in numbers.items():
            self.since[partial] = since[number][-1]  # type: ignore[assignment]
        for pane, closed in table_to_panes(table, self._keys, numbers, self.ranked):
            if closed:
                self._ring.insert(pane)
            else:
                self._add_open(pane)
