"""The runtime of one stream: watermark, groups, and what a micro-batch does to them.

Everything here is a function of the micro-batches, the heartbeats and the queries: no clock, no I/O, no Spark.
Recovery relies on that: applying the same entries again gives the same state and the same answers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sash.catalog import Stream
from sash.core.errors import QueryFailedError
from sash.core.time import Micros
from sash.core.window import pane_length
from sash.engine.active import ActiveQuery, BoundReading, Outcome
from sash.engine.answer import Answer
from sash.engine.compiler import CompiledQuery
from sash.engine.executor import Execution
from sash.engine.group import PaneGroup
from sash.engine.statistics import StreamStatistics
from sash.scheduling import Policy
from sash.sharing.pane_tables import PaneTable
from sash.synopses.basic_interval import BatchFacts
from sash.synopses.readings import TableName

logger = logging.getLogger("sash.engine")

# A pane table with more rows than this part of the tuples it summarises saves nothing.
_REDUCTION = 0.5
_ENOUGH_TO_JUDGE = 1_000


@dataclass
class Progress:
    """Answers in the order of time, and queries that failed or ended on the way.

    `serials` tells which query each name meant: one of the same name may have come since.
    """

    serials: dict[str, int] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)


@dataclass(frozen=True)
class Numbered:
    """The partials of the tuples that a watermark has passed, by their numbers, and how many still wait for theirs."""

    facts: BatchFacts
    waiting: int


class StreamRuntime:
    """One stream: its watermark and its groups of queries, by pane table."""

    def __init__(self, stream: Stream, policy: Policy, precision: int = 8) -> None:
        """`precision` is the parameter p of collective indexes (Arasu and Widom, 4.1.2)."""
        self.stream = stream
        self._policy = policy
        self._precision = precision
        self.groups: dict[TableName, PaneGroup] = {}
        self.active: dict[str, ActiveQuery] = {}
        self.latest: Micros | None = None
        self.watermark: Micros | None = None
        # How many tuples row-based windows have counted, and how many wait to be.
        self.counted = 0
        self.waiting = 0
        self.statistics = StreamStatistics()
        self.unreduced: dict[str, float] = {}
        self._warned_late = False

    # -- queries ---------------------------------------------------------------------------------------

    def synchronise(self, wanted: Iterable[CompiledQuery]) -> None:
        """Make the running queries those that the catalog has now. Takes effect for the next micro-batch."""
        queries = {query.name: query for query in wanted}
        gone = [name for name in self.active if self.active[name].compiled is not queries.get(name)]
        for name in gone:
            self._forget(name)
        grouped = set(self.groups)
        come = [self._bring_in(query) for name, query in queries.items() if name not in self.active]
        if gone or come:
            self._cut()
        for active in come:
            for bound in active.readings:
                bound.group.require(bound, self._position(bound.group))
            active.home.schedule(active)
        for table in self.groups.keys() - grouped:
            self._catch_up(self.groups[table])

    def _bring_in(self, query: CompiledQuery) -> ActiveQuery:
        active = self.active[query.name] = self._bound(query)
        for number, bound in enumerate(active.readings):
            bound.group.add_reader(query.name, number, bound)
        active.home.queries[query.name] = active
        return active

    def _bound(self, query: CompiledQuery) -> ActiveQuery:
        readings = []
        for reading in query.readings:
            if reading.table not in self.groups:
                self.groups[reading.table] = PaneGroup(reading.table, self.stream, self._policy, self._precision)
            readings.append(BoundReading(reading, self.groups[reading.table], query.synopsis))
        return ActiveQuery(query, readings)

    def _position(self, group: PaneGroup) -> int | None:
        """Up to where a group's unit has been seen: the greatest timestamp, or the number of tuples counted.

        None before the stream has begun: nothing has been missed then.
        """
        return self.counted if group.name.by_rows and self.latest is not None else self.latest

    def _catch_up(self, group: PaneGroup) -> None:
        """A group that comes late: what is before the watermark is closed to it."""
        if group.name.by_rows:
            group.now = group.closed_by(self.counted) if self.counted else None
        elif self.watermark is not None:
            group.now = group.closed_by(self.watermark)

    def remove(self, name: str) -> None:
        if name in self.active:
            self._forget(name)
            self._cut()

    def _forget(self, name: str) -> None:
        for group in self.active.pop(name).groups:
            group.remove_readers(name)
            if not group.readers:
                del self.groups[group.name]

    def _cut(self) -> None:
        """Panes are as long as they can be; groups that one query reads together are cut alike."""
        for groups in self._linked():
            windows = [bound.reading.window for group in groups for bound in group.readers.values()]
            length = pane_length(windows)
            for group in groups:
                # Each tuple counts where windows are those of partitions.
                group.cut(1 if group.name.partition else length, self._position(group))
                group.choose()

    def _linked(self) -> list[list[PaneGroup]]:
        """The groups, put together where some query reads several of them."""
        together = {name: {name} for name in self.groups}
        for active in self.active.values():
            names = {group.name for group in active.groups}
            joined = set().union(*(together[name] for name in names))
            for name in joined:
                together[name] = joined
        sets = {id(names): names for names in together.values()}
        return [[self.groups[name] for name in names] for names in sets.values()]

    def ordered(self) -> list[PaneGroup]:
        """The groups in the order of their names: the same queries give the same pass, whatever came before."""
        return [self.groups[name] for name in sorted(self.groups, key=lambda name: name.order)]

    def tables(self, by_rows: bool = False) -> list[PaneTable]:
        """The pane tables of the next pass, over time or over counted tuples."""
        return [group.table for group in self.ordered() if group.name.by_rows == by_rows]

    def covers(self, query: CompiledQuery) -> ActiveQuery | None:
        """The query bound to groups whose synopses store everything that it reads, if there are such."""
        groups = [self.groups.get(reading.table) for reading in query.readings]
        for group, reading in zip(groups, query.readings, strict=True):
            if group is None or any(partial not in group.synopsis.since for partial in reading.partials):
                return None
        return self._bound(query)

    # -- data ------------------------------------------------------------------------------------------

    def apply(self, batch: BatchFacts, numbered: Numbered | None = None) -> Progress:
        """A micro-batch: absorb its partials, move the watermark, close panes, run what is due.

        `numbered` is for row-based windows: what the new watermark has passed.
        """
        self._count(batch)
        late, unnumbered = self._absorb(batch, by_rows=False), 0
        if numbered is not None:
            came = batch.rows - batch.null_timestamps - batch.unparsable
            unnumbered = came + self.waiting - numbered.facts.rows - numbered.waiting
        self._report_late(late, unnumbered)
        if batch.latest is None:
            return Progress()
        self.latest = batch.latest if self.latest is None else max(self.latest, batch.latest)
        return self.advance(self.latest - self.stream.delay, numbered)

    def next_watermark(self, batch: BatchFacts) -> Micros | None:
        """The watermark that a micro-batch will bring."""
        seen = [time for time in (batch.latest, self.latest) if time is not None]
        reached = [max(seen) - self.stream.delay] if seen else []
        return max([*reached, *([self.watermark] if self.watermark is not None else [])], default=None)

    def _absorb(self, batch: BatchFacts, by_rows: bool) -> int:
        groups = [group for group in self.ordered() if group.name.by_rows == by_rows]
        late = [0]
        for number, rows, counts in batch.lanes:
            late.append(groups[number].absorb(rows, counts))
        self._judge_reduction(groups, batch)
        return max(late)

    def advance(self, watermark: Micros, numbered: Numbered | None = None) -> Progress:
        """The watermark, or a heartbeat, has come to a time."""
        self._take_numbered(numbered)
        if self.watermark is None or watermark > self.watermark:
            self.watermark = watermark
        elif numbered is None:
            return Progress()
        return self._advance(
            {
                group.name: group.closed_by(self.counted if group.name.by_rows else self.watermark)
                for group in self.groups.values()
            }
        )

    def finish(self, numbered: Numbered | None = None) -> Progress:
        """End of input, or idleness: nothing more is expected in the panes that are open."""
        self._take_numbered(numbered)
        if self.latest is None:
            return Progress()
        self.watermark = self.latest if self.watermark is None else max(self.latest, self.watermark)
        return self._advance(
            {
                group.name: group.closed_by(self.counted) if group.name.by_rows else group.ends_after(self.latest)
                for group in self.groups.values()
            }
        )

    def _take_numbered(self, numbered: Numbered | None) -> None:
        self.waiting = 0 if numbered is None else numbered.waiting
        if numbered is not None:
            self._absorb(numbered.facts, by_rows=True)
            self.counted += numbered.facts.rows

    def _advance(self, targets: dict[TableName, int]) -> Progress:
        """Time goes on in all groups together, so that a query finds every group it reads as of its own time."""
        progress = Progress()
        for by_rows in (False, True):
            groups = [group for group in self.ordered() if group.name.by_rows == by_rows]
            while True:
                dues = [(due, group) for group in groups if (due := group.next_due(targets[group.name])) is not None]
                if not dues:
                    break
                earliest = min(due for due, _ in dues)
                for due, group in dues:
                    if due == earliest:
                        self._step(group, due, targets[group.name], progress)
            for group in groups:
                group.catch_up(targets[group.name], progress.outcome)
        progress.answers.sort(key=lambda answer: answer.as_of)
        for name in (*progress.outcome.failed, *progress.outcome.ended):
            self.remove(name)
        return progress

    def _step(self, group: PaneGroup, due: int, target: int, progress: Progress) -> None:
        for execution in group.step(due, progress.outcome):
            awake = group.awake(execution)
            progress.answers.extend(self._answers(awake, execution.as_of, progress.outcome))
            for name in progress.outcome.failed:
                group.unschedule(name)
            group.scheduler.done(execution)
            if not awake:
                group.rest(execution, target)

    # -- answering -------------------------------------------------------------------------------------

    def _answers(self, queries: list[ActiveQuery], as_of: int, outcome: Outcome) -> Iterator[Answer]:
        if not queries:
            return
        home = queries[0].home
        home.statistics.executed([active.compiled.windows for active in queries], home.length)
        moment = home.moment(as_of)
        for active, table in Execution(queries, as_of, outcome).tables():
            first, *others = active.readings
            complete = first.is_complete(as_of) and all(bound.is_complete(as_of) for bound in others)
            scheduled = home.is_scheduled(active.compiled.slide, as_of)
            yield Answer(active.name, moment, complete, scheduled, table, as_of if home.name.by_rows else None)

    def probe(self, active: ActiveQuery) -> Answer | None:
        """A single answer as of the youngest closed pane, for one-time queries and for a query that has just come."""
        as_of = newest_common(active)
        if as_of is None:
            return None
        for bound in active.readings:
            bound.valid_from = bound.group.valid_from(bound)
        outcome = Outcome()
        for answer in self._answers([active], as_of, outcome):
            return answer
        raise QueryFailedError(next(iter(outcome.failed.values())))

    # -- counting --------------------------------------------------------------------------------------

    def _count(self, batch: BatchFacts) -> None:
        self.statistics.micro_batches += 1
        self.statistics.tuples += batch.rows
        self.statistics.null_timestamps += batch.null_timestamps
        self.statistics.unparsable += batch.unparsable

    def _report_late(self, late: int, unnumbered: int) -> None:
        """Tuples too late for their panes, which LATE REVISE merges, and too late to be numbered, which it cannot."""
        self.statistics.late_tuples += max(late, unnumbered)
        dropped = unnumbered if self.stream.late_revise else max(late, unnumbered)
        if not dropped or self._warned_late:
            return
        self._warned_late = True
        once = "row-based windows number tuples once and for all"
        remedy = once if unnumbered >= late else "LATE REVISE merges them"
        logger.warning(
            "stream %s: late tuples dropped (%d); a longer DELAY waits for them, %s (said once; stats() counts on)",
            self.stream.name,
            dropped,
            remedy,
        )

    def _judge_reduction(self, groups: list[PaneGroup], batch: BatchFacts) -> None:
        """Report, once, a set of groups that has nearly as many groups as there are tuples."""
        if batch.rows < _ENOUGH_TO_JUDGE:
            return
        for number, group in enumerate(groups):
            if group.name.partition:
                # Single rows are what it keeps.
                continue
            largest = max((len(rows.ends) for table, rows, _ in batch.lanes if table == number), default=0)
            ratio = largest / batch.rows
            if ratio > _REDUCTION and group.label not in self.unreduced:
                logger.warning(
                    "stream %s: grouping by %s leaves %.0f%% of the tuples as groups; pre-aggregation saves little",
                    self.stream.name,
                    group.label,
                    100 * ratio,
                )
            if ratio > _REDUCTION or group.label in self.unreduced:
                self.unreduced[group.label] = ratio


def newest_common(active: ActiveQuery) -> int | None:
    """The youngest time up to which all groups that a query reads have closed their panes, if there is one."""
    ends = [group.now for group in active.groups if group.has_closed]
    return min(end for end in ends if end is not None) if len(ends) == len(active.groups) else None
