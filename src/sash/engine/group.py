"""A group: the queries of one pane table, with their synopsis and their local scheduler.

    micro-batch ─► absorb ─► open panes ─► advance(target):
                                             next deadline t ─► close panes up to t ─► decide ─► one scan ─► answers
                                             ... until no deadline <= target; then close up to target, expire

`now` is the end of the youngest closed pane: the time as of which the synopsis answers. `origin` is where the
stream's data begin. All times are the group's own multiples of the pane length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.core.errors import QueryFailedError
from sash.core.time import Micros, multiple_after, multiple_at_or_after, to_datetime
from sash.core.window import TimeWindow, pane_length
from sash.engine.answer import Answer
from sash.engine.compiler import CompiledQuery
from sash.engine.statistics import GroupStatistics
from sash.plan.periodic import Shape
from sash.scheduling import Execution, LocalScheduler, Policy
from sash.sharing.pane_tables import KeySet, PaneTable, key_label, pane_table
from sash.synopses.answers import Groups
from sash.synopses.basic_interval import BasicIntervalSynopsis, PaneRows
from sash.synopses.partials import Partial


@dataclass
class ActiveQuery:
    """A query in its group: since when its data are all there, until when it lives, whether it rests."""

    compiled: CompiledQuery
    valid_from: Micros | None = None
    ends_at: Micros | None = None
    resting: bool = False
    lateness: int = 0
    window: TimeWindow = field(init=False)
    span: TimeWindow = field(init=False)

    def __post_init__(self) -> None:
        self.window = self.compiled.periodic.window
        self.span = TimeWindow(self.window.length, None, self.window.lag)


@dataclass
class Outcome:
    """What advancing a group produced besides answers."""

    failed: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)


class PeriodicGroup:
    """The queries of one pane table. `advance` is where panes close and answers come from."""

    def __init__(self, keys: KeySet, stream: Stream, policy: Policy) -> None:
        self.keys = keys
        self._stream = stream
        self.synopsis = BasicIntervalSynopsis([key.type for key in keys])
        self.scheduler = LocalScheduler(policy)
        self.queries: dict[str, ActiveQuery] = {}
        self.scheduled: set[str] = set()
        self.length: Micros = stream.granule
        self.reach: Micros = 0
        self.now: Micros | None = None
        self.origin: Micros | None = None
        self.retained_from: Micros | None = None
        # Panes of these lengths were cut until these times; a finer window is valid only after them.
        self.coarse: list[tuple[Micros, Micros]] = []
        self.statistics = GroupStatistics()

    # -- which queries ---------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        return key_label(self.keys)

    @property
    def table(self) -> PaneTable:
        return pane_table(self.keys, [active.compiled.periodic for active in self.queries.values()])

    def add(self, compiled: CompiledQuery, latest: Micros | None) -> None:
        """Take a query in; `latest` is the greatest timestamp seen before it came."""
        active = self.queries[compiled.name] = ActiveQuery(compiled)
        self._cut_finer_or_coarser(latest)
        since = None if latest is None else self.ends_after(latest)
        self.synopsis.require(compiled.finisher.partials, since)
        if self.origin is None:
            return
        active.valid_from = self.valid_from(active)
        self._schedule(active, self.now if self.now is not None else self.origin)

    def remove(self, name: str) -> None:
        del self.queries[name]
        self._unschedule(name)
        self.synopsis.release({p for active in self.queries.values() for p in active.compiled.finisher.partials})
        if self.queries:
            self._cut_finer_or_coarser(None)

    def _cut_finer_or_coarser(self, latest: Micros | None) -> None:
        """Panes have the greatest common length from now on; what is stored stays as it is."""
        self.reach = max(active.window.reach for active in self.queries.values())
        length = pane_length(active.window for active in self.queries.values())
        if length != self.length and latest is not None and self.origin is not None:
            self.coarse.append((self.length, self.ends_after(latest)))
        self.length = length

    def valid_from(self, active: ActiveQuery) -> Micros | None:
        """Since when every tuple of the query's windows is in panes that its edges do not cut."""
        starts = [self.synopsis.since[partial] for partial in active.compiled.finisher.partials]
        edges = [until for length, until in self.coarse if active.window.resolution % length]
        return max([start for start in (*starts, *edges) if start is not None], default=None)

    def _schedule(self, active: ActiveQuery, after: Micros) -> None:
        window = active.window
        assert window.slide is not None
        if active.compiled.lifetime is not None and active.ends_at is None:
            active.ends_at = after + active.compiled.lifetime
        self.scheduler.add(
            active.compiled.name,
            self.label,
            window.slide,
            now=after,
            offset=self._stream.offset,
            exactly=window.exactly,
            priority=active.compiled.priority,
            window=window.length,
        )

        self.scheduled.add(active.compiled.name)

    def _unschedule(self, name: str) -> bool:
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
        if not tuples:
            self.synopsis.absorb(rows)
        elif self._stream.late_revise:
            assert self.now is not None
            self.synopsis.absorb(rows, closed_until=self.now)
        else:
            self.synopsis.absorb(_only(rows, ~late))
        return tuples

    def _begin(self, origin: Micros) -> None:
        self.origin = self.retained_from = origin
        for active in self.queries.values():
            active.valid_from = self.valid_from(active)
            self._schedule(active, origin)

    # -- advancing -------------------------------------------------------------------------------------

    def closed_by(self, watermark: Micros) -> Micros:
        """The end of the youngest pane that a watermark closes."""
        offset = self._stream.offset
        if self._stream.closed_left:
            return multiple_after(watermark, self.length, offset) - self.length
        return multiple_at_or_after(watermark, self.length, offset) - self.length

    def ends_after(self, latest: Micros) -> Micros:
        """The end of the pane that holds a timestamp."""
        offset = self._stream.offset
        ahead = multiple_after if self._stream.closed_left else multiple_at_or_after
        return ahead(latest, self.length, offset)

    def advance(self, target: Micros, outcome: Outcome) -> Iterator[Answer]:
        """Close panes up to a time in order, running what is due after each."""
        if self.now is not None and target <= self.now:
            return
        if self.origin is None:
            self.now = target
            return
        while (due := self.scheduler.next_due(target)) is not None:
            self.synopsis.close(due)
            self.now = due
            self._end_lifetimes(outcome)
            while (execution := self.scheduler.decide(due)) is not None:
                yield from self._execute(execution, target, outcome)
            self._expire()
        self.synopsis.close(target)
        self.now = target
        self._end_lifetimes(outcome)
        self._expire()

    def _expire(self) -> None:
        assert self.now is not None and self.retained_from is not None
        edge = self.now - self.reach
        if edge > self.retained_from:
            self.synopsis.expire(edge)
            self.retained_from = edge
            self.coarse = [(length, until) for length, until in self.coarse if until > edge]

    def _end_lifetimes(self, outcome: Outcome) -> None:
        assert self.now is not None
        over = [name for name, q in self.queries.items() if q.ends_at is not None and q.ends_at < self.now]
        for name in over:
            if self._unschedule(name):
                outcome.ended.append(name)

    def _execute(self, execution: Execution, target: Micros, outcome: Outcome) -> Iterator[Answer]:
        awake = []
        for due in execution.tasks:
            if not due.on_time:
                for name in due.task.members:
                    self.queries[name].lateness += due.latency(self.length)
        for active in map(self.queries.__getitem__, execution.members):
            empty = self.synopsis.is_empty(active.span, execution.as_of)
            if not (empty and active.resting):
                awake.append(active)
            active.resting = empty
        yield from self._answers(awake, execution.as_of, outcome)
        self.scheduler.done(execution)
        if not awake:
            self._rest(execution, target)

    def _rest(self, execution: Execution, target: Micros) -> None:
        """A gap without tuples: sleep until some window reaches the next pane that has some, or past what is known."""
        for due in execution.tasks:
            lags = {self.queries[name].window.lag for name in due.task.members}
            ends = {lag: self.synopsis.next_end(execution.as_of - lag) for lag in lags}
            wakes = [end + lag for lag, end in ends.items() if end is not None]
            self.scheduler.postpone(due.task, min([*wakes, target + 1]))

    # -- answering -------------------------------------------------------------------------------------

    def _answers(self, queries: list[ActiveQuery], as_of: Micros, outcome: Outcome) -> Iterator[Answer]:
        """All of them in one scan from the youngest pane to the oldest (rule CS2)."""
        if not queries:
            return
        self.statistics.executed([active.window for active in queries], self.length)
        by_window: dict[TimeWindow, list[ActiveQuery]] = {}
        for active in queries:
            by_window.setdefault(active.span, []).append(active)
        needs = {window: _partials(members) for window, members in by_window.items()}
        moment, ready = to_datetime(as_of), dict[str, Answer]()
        for view in self.synopsis.scan(needs, as_of):
            found, tables = dict[Partial, Groups](), dict[Shape, pa.Table]()
            for active in by_window[view.window]:
                try:
                    table = tables.get(active.compiled.periodic.shape)
                    if table is None:
                        table = active.compiled.finisher.answer(view, found)
                        tables[active.compiled.periodic.shape] = table
                    ready[active.compiled.name] = self._answer(active, table, as_of, moment)
                except (QueryFailedError, pa.ArrowException, ArithmeticError, ValueError) as error:
                    outcome.failed[active.compiled.name] = str(error)
                    self._unschedule(active.compiled.name)
        yield from (ready[active.compiled.name] for active in queries if active.compiled.name in ready)

    def _answer(self, active: ActiveQuery, table: pa.Table, as_of: Micros, moment: datetime) -> Answer:
        window = active.window
        scheduled = window.slide is not None and (as_of - self._stream.offset) % window.slide == 0
        complete = self.is_complete(active, as_of - window.reach)
        return Answer(active.compiled.name, moment, complete, scheduled, table)

    def is_complete(self, active: ActiveQuery, edge: Micros) -> bool:
        assert self.retained_from is not None
        known_from = self.retained_from if active.valid_from is None else max(self.retained_from, active.valid_from)
        return edge >= known_from

    def cuts(self, window: TimeWindow) -> bool:
        """Some stored pane lies across an edge of a window as of now: the window cannot be put together."""
        edges = [] if self.now is None else [self.now - window.lag, self.now - window.reach]
        return any(self.synopsis.straddles(edge) for edge in edges)

    def answer_now(self, active: ActiveQuery) -> Answer | None:
        """A single answer as of the youngest closed pane, for one-time queries and for a query that has just come."""
        if self.now is None or self.origin is None:
            return None
        outcome = Outcome()
        for answer in self._answers([active], self.now, outcome):
            return answer
        raise QueryFailedError(next(iter(outcome.failed.values())))


def _partials(queries: list[ActiveQuery]) -> list[Partial]:
    return list(dict.fromkeys(partial for active in queries for partial in active.compiled.finisher.partials))


def _only(rows: PaneRows, keep: np.ndarray) -> PaneRows:
    mask = pa.array(keep)
    keys = [column.filter(mask) for column in rows.keys]
    lifted = {partial: [column.filter(mask) for column in parts] for partial, parts in rows.lifted.items()}
    return PaneRows(rows.length, rows.ends[keep], keys, lifted)
