"""A group: one pane table with its synopsis, the readings it serves, and the local scheduler of its queries.

    micro-batch ─► absorb ─► open panes ─► step(t): close panes up to t ─► decide ─► joint execution ─► answers
                                           catch_up(target): close up to the target, expire

`now` is the end of the youngest closed pane: the time as of which the synopsis answers. `origin` is where the
stream's data begin. All times are multiples of the pane length: microseconds, or tuples for row-based windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.core.time import multiple_after, multiple_at_or_after, to_datetime
from sash.core.window import Window
from sash.engine.active import ActiveQuery, BoundReading, Outcome
from sash.engine.filters import Filters
from sash.engine.statistics import GroupStatistics
from sash.scheduling import Execution, LocalScheduler, Policy
from sash.sharing.choose import Choice, Load, choose
from sash.sharing.pane_tables import PaneTable, pane_table
from sash.synopses.accelerator import Accelerator
from sash.synopses.basic_interval import BasicIntervalSynopsis, PaneRows
from sash.synopses.partitioned import PartitionedSynopsis
from sash.synopses.readings import Reading, TableName


class PaneGroup:
    """The readings of one pane table, and the queries that are scheduled by it."""

    def __init__(self, name: TableName, stream: Stream, policy: Policy, precision: int) -> None:
        self.name = name
        self._offset = 0 if name.by_rows else stream.offset
        self._closed_left = stream.closed_left and not name.by_rows
        self._late_revise = stream.late_revise
        self.synopsis = _synopsis(name)
        self.scheduler = LocalScheduler(policy)
        self.readers: dict[tuple[str, int], BoundReading] = {}
        self.queries: dict[str, ActiveQuery] = {}
        self.scheduled: set[str] = set()
        self._mortal: dict[str, ActiveQuery] = {}
        self.length: int = 1 if name.by_rows else stream.granule
        # How far back the readings look; what an UNBOUNDED window sees beyond its LAG is merged into history.
        self.reach: int = 0
        self.keeps_history = False
        self.now: int | None = None
        self.origin: int | None = None
        self.retained_from: int | None = None
        # Since when UNBOUNDED windows have everything; None: from the origin.
        self.history_from: int | None = None
        # Panes of these lengths were cut until these times; a finer window is valid only after them.
        self.coarse: list[tuple[int, int]] = []
        # The ends of panes and when their last tuples came: what time it was as of a number of tuples.
        self._stamps = np.empty((2, 0), dtype=np.int64)
        self.statistics = GroupStatistics()
        self.choice = Choice("basic", "")
        self.filters = Filters(precision)
        # How many groups there were when the choice was made.
        self._judged = 1

    # -- which queries ---------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def table(self) -> PaneTable:
        partials = [partial for bound in self.readers.values() for partial in bound.reading.partials]
        return pane_table(self.name, self.length, partials)

    def add_reader(self, name: str, number: int, bound: BoundReading) -> None:
        if bound.reading.window.unbounded and not self.keeps_history:
            begun = self.retained_from is not None and self.origin is not None and self.retained_from > self.origin
            self.history_from = self.retained_from if begun else None
        self.readers[name, number] = bound
        self._look_back(bound.reading.window)

    def _look_back(self, window: Window) -> None:
        self.reach = max(self.reach, window.lag if window.unbounded else window.reach)
        self.keeps_history = self.keeps_history or window.unbounded
        if isinstance(self.synopsis, PartitionedSynopsis):
            self.synopsis.reach = self.reach

    def cut(self, length: int, latest: int | None) -> None:
        """Panes have this length from now on; what is stored stays as it is."""
        if length != self.length and latest is not None and self.origin is not None:
            self.coarse.append((self.length, self.ends_after(latest)))
        self.length = length

    @property
    def load(self) -> Load:
        """What is known about its panes, for the choice of a synopsis."""
        groups, panes = max(1, self.synopsis.groups), max(1, self.synopsis.panes)
        return Load(self.length, groups, max(1.0, self.synopsis.rows / panes))

    def choose(self) -> None:
        """Choose the synopses for the readings as they are now; the panes stay, so nothing is lost."""
        if self.name.partition:
            return
        load = self.load
        self._judged = load.groups
        by_kind: dict[str, list[Reading]] = {}
        for bound in self.readers.values():
            by_kind.setdefault(bound.synopsis or "auto", []).append(bound.reading)
        auto = by_kind.pop("auto", [])
        self.choice = choose(auto, load)
        by_kind.setdefault(self.choice.kind, []).extend(auto)
        by_kind.pop("basic", None)
        for kind, readings in self.filters.choose(self.queries.values(), load).items():
            by_kind.setdefault(kind, []).extend(readings)
        wanted = [_accelerator(kind, self.length, readings) for kind, readings in by_kind.items() if readings]
        # One that is as it was keeps what it has built.
        known = {each.key: each for each in self.synopsis.accelerators}
        self.synopsis.accelerators = [known.get(each.key, each) for each in wanted]

    def require(self, bound: BoundReading, latest: int | None) -> None:
        """Store what a reading needs; `latest` is the greatest timestamp (or number of tuples) seen before it came."""
        since = None if latest is None else self.ends_after(latest)
        self.synopsis.require(bound.reading.partials, since)
        bound.valid_from = self.valid_from(bound)

    def remove_readers(self, name: str) -> None:
        self.readers = {key: bound for key, bound in self.readers.items() if key[0] != name}
        self.reach, self.keeps_history = 0, False
        for bound in self.readers.values():
            self._look_back(bound.reading.window)
        self.synopsis.release({p for bound in self.readers.values() for p in bound.reading.partials})
        self._mortal.pop(name, None)
        if self.queries.pop(name, None) is not None:
            self.unschedule(name)

    def valid_from(self, bound: BoundReading) -> int | None:
        """Since when every tuple of the reading's windows is in panes that its edges do not cut."""
        window = bound.reading.window
        starts = [self.synopsis.since[partial] for partial in bound.reading.partials]
        edges = [until for length, until in self.coarse if window.resolution % length]
        history = [self.history_from] if window.unbounded else []
        return max([start for start in (*starts, *edges, *history) if start is not None], default=None)

    def schedule(self, active: ActiveQuery) -> None:
        """Queries are scheduled from the origin of the data on."""
        self.queries[active.name] = active
        if active.compiled.lifetime is not None:
            self._mortal[active.name] = active
        if self.origin is None:
            return
        after = self.now if self.now is not None else self.origin
        compiled = active.compiled
        assert compiled.slide is not None
        if compiled.lifetime is not None and active.ends_at is None and not self.name.by_rows:
            active.ends_at = after + compiled.lifetime
        self.scheduler.add(
            active.name,
            self.label,
            compiled.slide,
            now=after,
            offset=self._offset,
            exactly=compiled.exactly,
            priority=compiled.priority,
            window=max(window.lag if window.unbounded else window.length for window in compiled.windows),
        )
        self.scheduled.add(active.name)

    def unschedule(self, name: str) -> bool:
        if name not in self.scheduled:
            return False
        self.scheduled.discard(name)
        self.scheduler.remove(name, self.now)
        return True

    # -- filling ---------------------------------------------------------------------------------------

    def absorb(self, rows: PaneRows, counts: np.ndarray) -> int:
        """Take a micro-batch's rows in; how many tuples were late."""
        if not len(rows.ends):
            return 0
        late = rows.ends <= self.now if self.now is not None else np.zeros(len(rows.ends), dtype=bool)
        tuples = int(counts[late].sum())
        if self.origin is None:
            if late.all():
                return tuples
            self._begin(int(rows.ends[~late].min()) - rows.length)
        if self.name.by_rows:
            self._note_stamps(rows)
        if not tuples:
            self.synopsis.absorb(rows)
        elif self._late_revise:
            assert self.now is not None
            self.synopsis.absorb(rows, closed_until=self.now)
        else:
            self.synopsis.absorb(_only(rows, ~late))
        return tuples

    def _begin(self, origin: int) -> None:
        self.origin = self.retained_from = origin
        for bound in self.readers.values():
            bound.valid_from = self.valid_from(bound)
        for active in list(self.queries.values()):
            self.schedule(active)

    def _note_stamps(self, rows: PaneRows) -> None:
        ends, places = np.unique(np.concatenate([self._stamps[0], rows.ends]), return_inverse=True)
        latest = np.full(len(ends), np.iinfo(np.int64).min)
        np.maximum.at(latest, places, np.concatenate([self._stamps[1], rows.latest]))
        self._stamps = np.stack([ends, latest])

    def moment(self, now: int) -> datetime:
        """The event time as of a position: itself, or that of the last tuple counted."""
        clock = self._clock(now)
        assert clock is not None, "no tuple has been counted"
        return to_datetime(clock)

    def _clock(self, now: int) -> int | None:
        if not self.name.by_rows:
            return now
        place = int(np.searchsorted(self._stamps[0], now, side="right")) - 1
        return int(self._stamps[1, place]) if place >= 0 else None

    # -- advancing -------------------------------------------------------------------------------------

    def closed_by(self, watermark: int) -> int:
        """The end of the youngest pane that a watermark (or a number of tuples) closes."""
        if self.name.by_rows or self._closed_left:
            return multiple_after(watermark, self.length, self._offset) - self.length
        return multiple_at_or_after(watermark, self.length, self._offset) - self.length

    def ends_after(self, latest: int) -> int:
        """The end of the pane that holds a timestamp (or a tuple's number)."""
        ahead = multiple_after if self._closed_left else multiple_at_or_after
        return ahead(latest, self.length, self._offset)

    @property
    def has_closed(self) -> bool:
        """Some pane since the beginning of the data is closed: there is something to ask."""
        return self.origin is not None and self.now is not None and self.now > self.origin

    def next_due(self, target: int) -> int | None:
        """When the next execution is due by a time."""
        if self.origin is None or (self.now is not None and target <= self.now):
            return None
        return self.scheduler.next_due(target)

    def step(self, due: int, outcome: Outcome) -> Iterator[Execution]:
        """Close panes up to a deadline, and give what is due then; each must be executed before the next is taken."""
        self.synopsis.close(due)
        self.now = due
        self._end_lifetimes(outcome)
        while (execution := self.scheduler.decide(due)) is not None:
            yield execution
        self._expire()

    def catch_up(self, target: int, outcome: Outcome) -> None:
        """Nothing more is due by a time: close panes up to it."""
        if self.now is not None and target <= self.now:
            return
        self.now = target
        if self.origin is None:
            return
        self.synopsis.close(target)
        self._end_lifetimes(outcome)
        self._expire()

    def _expire(self) -> None:
        assert self.now is not None and self.retained_from is not None
        edge = self.now - self.reach
        if edge <= self.retained_from:
            return
        if self.keeps_history:
            self.synopsis.merge(edge)
        else:
            self.synopsis.expire(edge)
        self.retained_from = edge
        self.coarse = [(length, until) for length, until in self.coarse if until > edge]
        self._stamps = self._stamps[:, self._stamps[0] >= edge]
        if not 0.8 * self._judged <= self.synopsis.groups <= 1.25 * self._judged:
            self.choose()

    def _end_lifetimes(self, outcome: Outcome) -> None:
        assert self.now is not None
        clock = self._clock(self.now) if self._mortal else None
        if clock is None:
            return
        for active in self._mortal.values():
            # A row-based query's life begins with the first tuples counted: only then is there a time.
            assert active.compiled.lifetime is not None
            if active.ends_at is None:
                active.ends_at = clock + active.compiled.lifetime
            if active.ends_at < clock and self.unschedule(active.name):
                outcome.ended.append(active.name)

    def awake(self, execution: Execution) -> list[ActiveQuery]:
        """The queries of an execution that have something to say: a window that stays empty is told once."""
        for due in execution.tasks:
            if not due.on_time:
                for name in due.task.members:
                    self.queries[name].lateness += due.latency(self.length)
        awake = []
        for active in map(self.queries.__getitem__, execution.members):
            empty = all(bound.is_empty(execution.as_of) for bound in active.readings)
            if not (empty and active.resting):
                awake.append(active)
            active.resting = empty
        return awake

    def rest(self, execution: Execution, target: int) -> None:
        """A gap without tuples: sleep until some window reaches the next pane that has some, or past what is known."""
        for due in execution.tasks:
            bound = [b for name in due.task.members for b in self.queries[name].readings]
            ends = [(b.reading.window.lag, _next_end(b, execution.as_of)) for b in bound]
            wakes = [end + lag for lag, end in ends if end is not None]
            self.scheduler.postpone(due.task, min([*wakes, target + 1]))

    def filtered(self, active: ActiveQuery, now: int) -> pa.Table | None:
        """A query's answer by its substream filter, where an index serves it."""
        # Panes of several lengths may lie across a window's edge, and an index counts whole ones.
        return None if self.coarse else self.filters.answer(active, self.synopsis, now)

    # -- what it can answer ----------------------------------------------------------------------------

    def is_complete(self, bound: BoundReading, now: int) -> bool:
        if bound.reading.window.unbounded or self.name.partition:
            # However few rows a partition has, they are all there if they were counted from the beginning.
            return bound.valid_from is None
        assert self.retained_from is not None
        known_from = self.retained_from if bound.valid_from is None else max(self.retained_from, bound.valid_from)
        return now - bound.reading.window.reach >= known_from

    def is_scheduled(self, slide: int | None, now: int) -> bool:
        """Whether a position is one of a query's own multiples of SLIDE."""
        return slide is not None and (now - self._offset) % slide == 0

    def cuts(self, window: Window, now: int) -> bool:
        """Some stored pane lies across an edge of a window as of a time: the window cannot be put together."""
        return any(self.synopsis.straddles(edge) for edge in (now - window.lag, now - window.reach))

    def save_stamps(self) -> list[list[int]]:
        return [row.tolist() for row in self._stamps]

    def load_stamps(self, saved: list[list[int]]) -> None:
        self._stamps = np.array(saved, dtype=np.int64).reshape(2, -1)


def _synopsis(name: TableName) -> BasicIntervalSynopsis:
    if not name.partition:
        return BasicIntervalSynopsis([key.type for key in name.keys])
    group = tuple(range(len(name.keys)))
    keys = [*name.keys, *(key for key in name.partition if key not in name.keys)]
    return PartitionedSynopsis([key.type for key in keys], group, tuple(keys.index(key) for key in name.partition))


def _accelerator(kind: str, length: int, readings: list[Reading]) -> Accelerator:
    bounded = [reading for reading in readings if not reading.window.unbounded]
    spans = {span for reading in bounded for span in reading.spans}
    return Accelerator(kind, length, spans, {partial for reading in bounded for partial in reading.partials})


def _next_end(bound: BoundReading, as_of: int) -> int | None:
    return bound.group.synopsis.next_end(as_of - bound.reading.window.lag)


def _only(rows: PaneRows, keep: np.ndarray) -> PaneRows:
    mask = pa.array(keep)
    keys = [column.filter(mask) for column in rows.keys]
    lifted = {partial: [column.filter(mask) for column in parts] for partial, parts in rows.lifted.items()}
    return PaneRows(rows.length, rows.ends[keep], keys, lifted, rows.latest[keep])
