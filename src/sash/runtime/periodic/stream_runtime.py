"""The runtime of one stream: its watermark, its groups, and the effect of a micro-batch on them.

Everything here is a function of the micro-batches, the heartbeats, the queries and, live, the pace: no I/O, no Spark.
Recovery relies on that: applying the same entries again gives the same state and the same answers. The decisions of a
pace go into the log (`Progress.services`); measured times are for statistics and prices only.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter

import pyarrow as pa

from sash.catalog import Stream
from sash.core.errors import QueryFailedError
from sash.core.events import report
from sash.core.time import Micros, format_duration, multiple_at_or_after, to_datetime
from sash.core.window import FOREVER, LandmarkWindow, SessionWindow, pane_length
from sash.panes.pane_rows import BatchFacts
from sash.panes.readings import Reading, TableName
from sash.runtime.answers.answer import Answer, AnswerBatch
from sash.runtime.compiler import CompiledQuery
from sash.runtime.observed import RateMeter
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome, BoundReading
from sash.runtime.periodic.advance import Advance, ServiceResult
from sash.runtime.periodic.beside import BesideAgain
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.flight import Flight, Launch, recorded_reads
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.pace import UNHURRIED, Pace
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.records.journal import NONE_JUMPED, GroupService, JumpedTuples
from sash.runtime.settings import Settings
from sash.runtime.statistics import StreamStatistics
from sash.runtime.work import Covers, WorkMeter
from sash.schedule import SharedTime
from sash.sharing.choose import Prices
from sash.sharing.groups import PaneTable

logger = logging.getLogger("sash.runtime")

# A pane table with more rows than this part of its tuples saves nothing.
_REDUCTION = 0.5
_ENOUGH_TO_JUDGE = 1_000


@dataclass
class Progress:
    """Answers in the order of time, those of a task together, and queries that failed or ended on the way.

    `serials` gives the serial number behind each name: a later query may have the same name.
    """

    serials: dict[str, int] = field(default_factory=dict)
    batches: list[AnswerBatch] = field(default_factory=list)
    outcome: AdvanceOutcome = field(default_factory=AdvanceOutcome)
    # The services of a hurried advance, over time and over tuples; None for an unhurried one.
    services: list[list[GroupService]] | None = None

    @property
    def answers(self) -> list[Answer]:
        return [answer for batch in self.batches for answer in batch.answers]


@dataclass(frozen=True)
class NumberedPartials:
    """The partials of the tuples that a watermark has passed, by their numbers, and how many tuples still wait."""

    facts: BatchFacts
    waiting: int


class StreamRuntime:
    """One stream: its watermark and its groups of queries, by pane table."""

    def __init__(
        self,
        stream: Stream,
        settings: Settings,
        pause: Callable[[], None] = lambda: None,
        flies: bool = False,
        restarts: bool = False,
    ) -> None:
        """`pause` is called between executions: others may read the windows.

        `flies`: a hurried advance does not wait for executions over panes in the cluster; `restarts`: they begin again
        when their window slides.
        """
        self.stream = stream
        self.settings = settings
        self._pause = pause
        self.flies, self.restarts = flies, restarts
        self._shares = SharedTime()
        self._advancing = False
        # Whether a group that has become too large goes to the cluster.
        self.may_move = False
        # Whether a FREQUENT that comes now may read short lists; earlier versions of Sash had none.
        self.has_lists = True
        # While a snapshot is loaded: whether each query of the snapshot reads short lists.
        self.lists_before: dict[str, bool] = {}
        self.groups: dict[TableName, PaneGroup] = {}
        # The groups in the order of their names, until one comes or goes.
        self._ordered: list[PaneGroup] | None = None
        self.active: dict[str, ActiveQuery] = {}
        self.latest: Micros | None = None
        self.watermark: Micros | None = None
        # How many tuples row-based windows have counted, and how many tuples wait.
        self.counted = 0
        self.waiting = 0
        self.statistics = StreamStatistics()
        self.work = WorkMeter()
        self.meter = RateMeter()
        self.unreduced: dict[str, float] = {}
        self._warned_late = False
        self._warned_jumped = False

    def use(self, settings: Settings) -> None:
        """Other settings from now on."""
        if settings == self.settings:
            return
        self.settings = settings
        for group in self.groups.values():
            group.use(settings)

    def trial(self, tables: Iterable[TableName]) -> StreamRuntime:
        """A runtime with copies of some groups, for trials with other queries."""
        other = StreamRuntime(self.stream, self.settings, flies=self.flies, restarts=self.restarts)
        known = {name: self.groups.get(name) or PaneGroup(name, self.stream, self.settings) for name in tables}
        other.groups = {name: group.trial() for name, group in known.items()}
        readers = {name for group in other.groups.values() for name, _ in group.members.readers}
        other.active = {name: self.active[name] for name in readers}
        other.has_lists, other.may_move = self.has_lists, self.may_move
        other.unreduced = dict(self.unreduced)
        return other

    # -- queries ---------------------------------------------------------------------------------------

    def synchronise(self, wanted: Iterable[CompiledQuery]) -> None:
        """Run exactly the queries that the catalog has now. Takes effect for the next micro-batch."""
        queries = {query.name: query for query in wanted}
        gone = [name for name, active in self.active.items() if active.compiled is not queries.get(name)]
        come = [query for name, query in queries.items() if name in gone or name not in self.active]
        self.change(gone, come)

    def change(self, gone: Collection[str], come: Sequence[CompiledQuery]) -> None:
        """Remove some queries and add others. Only the groups that they read are touched.

        What is stored for a query stays for the one that takes its place.
        """
        if not gone and not come:
            return
        replaced = self._replaced(come)
        touched = self._forget([name for name in gone if name not in replaced])
        replaced_tables = self._forget(replaced, others_follow=True)
        touched |= replaced_tables
        before = set(self.groups)
        listed = {query.name for query in come if self.why_counted(query) is None}
        exact = [reading for query in come if query.name not in listed for reading in query.readings] if listed else []
        entered = []
        for query in come:
            by_lists = query.name in listed and self._reads_lists(query, exact)
            entered.append(self._bring_in(query, self.lists_before.get(query.name, by_lists)))
        self._let_go(replaced_tables)
        self._cut(touched.union(*({group.name for group in active.groups} for active in entered)))
        for active in entered:
            for bound in active.readings:
                bound.group.require(bound, self._position(bound.group))
            if active.name in replaced:
                active.go_on_from(replaced[active.name])
            active.home.enter(active)
        for table in self.groups.keys() - before:
            self._catch_up(self.groups[table])

    def _replaced(self, come: Iterable[CompiledQuery]) -> dict[str, ActiveQuery]:
        """The queries that run and whose places others take."""
        pairs = [(self.active[query.name], query) for query in come if query.name in self.active]
        return {before.name: before for before, query in pairs if query.replaces(before.compiled)}

    def _bring_in(self, query: CompiledQuery, by_lists: bool) -> ActiveQuery:
        active = self.active[query.name] = self._bound(query, by_lists)
        for number, bound in enumerate(active.readings):
            bound.group.add_reader(query.name, number, bound)
        if not query.paused:
            active.home.queries[query.name] = active
        self.work.change(query, 1)
        return active

    def why_counted(self, query: CompiledQuery) -> str | None:
        """Why a query needs the counts of all items, whatever other queries need; None: short lists would do."""
        first, *others = query.readings
        if first.sub_window is None or (others and any(reading.sub_window is None for reading in others)):
            return "its aggregates need them"
        if others:
            return "the query reads several windows"
        if first.lists is None:
            return "a sub-window is no pane, because of PARTITION BY or LAG"
        if self.stream.late_revise:
            return "LATE REVISE adds to closed sub-windows"
        return None if self.has_lists else "the query comes from an earlier version"

    def _reads_lists(self, query: CompiledQuery, exact: Sequence[Reading]) -> bool:
        """Whether a query that could read short lists does so. `exact` are the readings of others that come with it.

        If all counts are kept for somebody else, as far back, the query reads those.
        """
        (mine,), group = query.readings, self.groups.get(query.readings[0].table)
        kept = [bound.reading for bound in group.members.readers.values()] if group is not None else []
        others = [*kept, *(reading for reading in exact if reading.table is mine.table)]
        return not any(other.window.unbounded or other.window.reach >= mine.window.reach for other in others)

    def _bound(self, query: CompiledQuery, by_lists: bool = False) -> ActiveQuery:
        readings = []
        for number, reading in enumerate(query.readings):
            table = reading.lists if by_lists and reading.lists is not None else reading.table
            if table not in self.groups:
                self.groups[table] = PaneGroup(table, self.stream, self.settings)
                self._ordered = None
            readings.append(BoundReading(query, number, self.groups[table]))
        return ActiveQuery(query, readings)

    def answer_alone(
        self, query: CompiledQuery, since: int, now: int, facts: Callable[[list[PaneTable]], BatchFacts]
    ) -> pa.Table:
        """The answer of a one-time query over rows at hand, those from `since` to `now`; `facts` aggregates them.

        For a runtime without other queries: nothing is scheduled, nothing stays.
        """
        active = self._bound(query)
        for number, bound in enumerate(active.readings):
            bound.group.add_reader(query.name, number, bound)
        by_rows = active.home.name.by_rows
        length = math.gcd(pane_length(query.windows), now - (0 if by_rows else self.stream.offset))
        for group in active.groups:
            group.cut(1 if group.name.partition else length, None)
            group.choose()
            group.clock.begin(since)
        for bound in active.readings:
            bound.group.require(bound, None)
        self._absorb(facts(self.tables(by_rows)), by_rows)
        for group in active.groups:
            group.catch_up(now, AdvanceOutcome())
        answer = self.probe(active)
        assert answer is not None
        return answer.table

    def _position(self, group: PaneGroup) -> int | None:
        """How far a group's unit has been read: the greatest timestamp, or the number of tuples counted.

        None before the stream has begun: then nothing has been missed.
        """
        return self.counted if group.name.by_rows and self.latest is not None else self.latest

    def _catch_up(self, group: PaneGroup) -> None:
        """Bring a new group to the watermark: the panes before it are closed to the group."""
        if group.name.by_rows:
            group.clock.now = group.clock.closed_by(self.counted) if self.counted else None
        elif self.watermark is not None:
            group.clock.now = group.clock.closed_by(self.watermark)

    def _forget(self, names: Iterable[str], others_follow: bool = False) -> set[TableName]:
        """Remove queries that run; the result is the pane tables that they read."""
        left: dict[TableName, dict[str, None]] = {}
        for active in [self.active.pop(name) for name in names if name in self.active]:
            self.work.change(active.compiled, -1)
            for group in active.groups:
                left.setdefault(group.name, {})[active.name] = None
        for table, readers in left.items():
            self.groups[table].remove_readers(readers, others_follow)
        if not others_follow:
            self._drop_unread(left)
        return set(left)

    def _let_go(self, tables: Iterable[TableName]) -> None:
        """Forget what was stored for queries whose places others have taken, unless these read it."""
        for table in tables:
            self.groups[table].let_go()
        self._drop_unread(tables)

    def _drop_unread(self, tables: Iterable[TableName]) -> None:
        for group in [self.groups[table] for table in tables]:
            if not group.members.readers:
                del self.groups[group.name]
                self._ordered = None
                self._shares.forget(group.label)

    def _cut(self, touched: set[TableName]) -> None:
        """Make panes as long as possible; groups that one query reads together are cut alike.

        Only where readers came or went: adding a query must not cost as much as all queries.
        """
        for groups in self._linked(touched):
            windows = [bound.reading.window for group in groups for bound in group.members.readers.values()]
            length = pane_length(windows)
            for group in groups:
                # A partition's window may begin at any tuple, so its panes are single tuples.
                group.links = [other for other in groups if other is not group]
                group.cut(1 if group.name.partition else length, self._position(group))
                group.choose()

    def _linked(self, touched: Iterable[TableName]) -> Iterator[list[PaneGroup]]:
        """The groups of some tables, in components: together with the groups that queries read with them."""
        left = {name for name in touched if name in self.groups}
        while left:
            together, ahead = dict[TableName, PaneGroup](), [left.pop()]
            while ahead:
                group = self.groups[ahead.pop()]
                together[group.name] = group
                readings = (self.active[reader].readings for reader, _ in group.members.readers)
                ahead += {bound.group.name for each in readings for bound in each} - together.keys()
            left -= together.keys()
            yield list(together.values())

    def ordered(self) -> list[PaneGroup]:
        """The groups in the order of their names: the same queries give the same pass, whatever came before."""
        if self._ordered is None:
            self._ordered = [self.groups[name] for name in sorted(self.groups, key=lambda name: name.order)]
        return self._ordered

    def all_groups(self) -> list[PaneGroup]:
        """The groups in the order in which they came."""
        return list(self.groups.values())

    def tables(self, by_rows: bool = False) -> list[PaneTable]:
        """The pane tables of the next pass, over time or over counted tuples."""
        return [group.table for group in self.ordered() if group.name.by_rows == by_rows]

    def covers(self, query: CompiledQuery) -> ActiveQuery | None:
        """The query bound to groups whose synopses store everything that it reads; None if there are none."""
        offered = [self.offer(query, number) for number in range(len(query.readings))]
        readings = [bound for bound in offered if bound is not None]
        return ActiveQuery(query, readings) if len(readings) == len(offered) else None

    def offer(self, query: CompiledQuery, number: int) -> BoundReading | None:
        """A query's reading bound to the group that stores everything that it needs, if there is one.

        Of short lists and the counts of all items, lists come first, unless they do not reach as far back.
        """
        reading = query.readings[number]
        groups = [self.groups[table] for table in (reading.lists, reading.table) if table in self.groups]
        groups.sort(key=lambda group: group.members.reach < reading.window.reach)
        return next((bound for group in groups if (bound := group.offer(query, number)) is not None), None)

    def incomplete_until(self, query: CompiledQuery) -> int | None:
        """When a query, if it came now, would give its first complete answer; FOREVER: never.

        None: stored panes make its answers complete, as far as the stream itself goes back. Over row-based windows it
        is a number of tuples.
        """
        ends = [self._missed_until(query, number) for number in range(len(query.readings))]
        until = max((end for end in ends if end is not None), default=None)
        if until is None or until == FOREVER:
            return until
        assert query.slide is not None
        return multiple_at_or_after(until, query.slide, 0 if query.readings[0].table.by_rows else self.stream.offset)

    def _missed_until(self, query: CompiledQuery, number: int) -> int | None:
        """Until when a reading has no answer with everything; the answers are at multiples of SLIDE."""
        reading, bound = query.readings[number], self.offer(query, number)
        latest = self.counted if reading.table.by_rows else self.latest
        if self.latest is None or latest is None:
            return None
        since = self._known_from(reading, bound, latest)
        if since is None:
            return None
        if isinstance(reading.window, LandmarkWindow):
            until = reading.window.first_from(since)
        else:
            endless = reading.window.unbounded or bool(reading.table.partition)
            until = FOREVER if endless else since + reading.window.reach
        return until if until > (latest if bound is None else bound.group.clock.position) else None

    def _known_from(self, reading: Reading, bound: BoundReading | None, latest: int) -> int | None:
        """Since when a group has everything for a reading that comes now; None: since the beginning."""
        window, group = reading.window, self.groups.get(reading.table) if bound is None else bound.group
        known: list[int | None] = (
            [latest + self.stream.closed_left] if bound is None else [bound.group.valid_from(bound)]
        )
        if group is not None:
            known.append(group.clock.fits_from(window.resolution))
            if window.resolution % group.clock.length:
                known.append(group.clock.ends_after(latest))
            if not (group.name.partition or (window.unbounded and group.members.keeps_history)):
                known.append(group.clock.gone_until)
        return max((time for time in known if time is not None), default=None)

    def closes(self, group: PaneGroup, watermark: Micros | None) -> int | None:
        """Up to where a watermark, or the end of input (None), closes the panes of a group over time."""
        if watermark is None:
            return None if self.latest is None else group.clock.ends_after(self.latest)
        return group.clock.closed_by(watermark if self.watermark is None else max(watermark, self.watermark))

    def is_between(self, query: CompiledQuery) -> bool:
        """Whether the groups that a query reads are moving and not all as of one time: then the query must wait."""
        return self._advancing and len({reading.table for reading in query.readings}) > 1

    # -- data ------------------------------------------------------------------------------------------

    def apply(
        self,
        batch: BatchFacts,
        numbered: NumberedPartials | None = None,
        pace: Pace = UNHURRIED,
        missed: int = 0,
        one_in: int = 1,
        jumped: JumpedTuples = NONE_JUMPED,
    ) -> Progress:
        """A micro-batch: absorb its partials, move the watermark, close panes, run what is due.

        `numbered` is for row-based windows: the tuples that the new watermark has passed. `missed` tuples came too late
        for continuous plans. SHED kept one tuple of `one_in`, and the facts are scaled. `jumped` tuples were too far
        ahead and are not in the facts.
        """
        self._count(batch)
        self._report_jumped(jumped)
        shed = batch.rows - batch.rows // one_in if batch.shed is None else batch.shed
        self.statistics.shed_tuples += shed if one_in > 1 else 0
        late, unnumbered = self._absorb(batch, by_rows=False), 0
        if numbered is not None:
            came = batch.rows - batch.null_timestamps - batch.unparsable
            unnumbered = came + self.waiting - numbered.facts.rows - numbered.waiting
        self._report_late(late, unnumbered, missed)
        if batch.latest is None:
            return Progress()
        self.latest = batch.latest if self.latest is None else max(self.latest, batch.latest)
        return self.advance(self.latest - self.stream.delay, numbered, pace)

    @property
    def reached(self) -> Micros | None:
        """How far the stream has come, by its tuples or by a heartbeat."""
        return max((time for time in (self.latest, self.watermark) if time is not None), default=None)

    def next_watermark(self, batch: BatchFacts) -> Micros | None:
        """The watermark that a micro-batch will bring."""
        seen = [time for time in (batch.latest, self.latest) if time is not None]
        reached = [max(seen) - self.stream.delay] if seen else []
        return max([*reached, *([self.watermark] if self.watermark is not None else [])], default=None)

    def _absorb(self, batch: BatchFacts, by_rows: bool) -> int:
        groups = [group for group in self.ordered() if group.name.by_rows == by_rows]
        late = [0]
        self.work.take(batch, by_rows, self._covers)
        for number, rows, counts in batch.lanes:
            late.append(groups[number].absorb(rows, counts))
        self._judge_reduction(groups, batch)
        return max(late)

    def advance(self, watermark: Micros, numbered: NumberedPartials | None = None, pace: Pace = UNHURRIED) -> Progress:
        """Move the watermark, or a heartbeat, to a time."""
        failed = self._take_numbered(numbered)
        if self.watermark is None or watermark > self.watermark:
            self.watermark = watermark
        elif numbered is None and pace.services is None and not self._must_restart(pace):
            return Progress(outcome=AdvanceOutcome(failed))
        targets = {
            group.name: group.clock.closed_by(self.counted if group.name.by_rows else self.watermark)
            for group in self.groups.values()
        }
        return self._advance(targets, pace, failed)

    def finish(self, numbered: NumberedPartials | None = None, *, is_end: bool = False) -> Progress:
        """End of input, or idleness: no more tuples are expected in the open panes.

        `is_end`: nothing comes any more, and open sessions have ended.
        """
        failed = self._take_numbered(numbered)
        if self.latest is None:
            return Progress()
        self.watermark = self.latest if self.watermark is None else max(self.latest, self.watermark)
        clocks = {group.name: group.clock for group in self.groups.values()}
        targets = {
            name: clock.closed_by(self.counted) if clock.by_rows else clock.ends_after(self.latest)
            for name, clock in clocks.items()
        }
        progress = self._advance(targets, UNHURRIED, failed)
        if is_end:
            self._end_sessions(progress)
        return progress

    def _end_sessions(self, progress: Progress) -> None:
        """Answer for the sessions that are open at the end of input."""
        before = {group.name: group.panes.ends for group in self.groups.values()}
        for group in self.groups.values():
            group.end()
        for active in self.active.values():
            sessions = [
                bound.reading.window.last_of(bound.group.panes.ends[-1])
                for bound in active.readings
                if isinstance(bound.reading.window, SessionWindow)
                and bound.group.panes.ends != before[bound.group.name]
            ]
            if sessions and not active.compiled.paused:
                batches = self._answers([JointQueries([active])], sessions[0], progress.outcome)
                progress.batches += [batch for batch in batches if any(each.table.num_rows for each in batch.answers)]
        self.change([*progress.outcome.failed], ())

    def _take_numbered(self, numbered: NumberedPartials | None) -> dict[str, str]:
        """Take the rest of a micro-batch; the result is the queries with too many groups, and why."""
        self.waiting = 0 if numbered is None else numbered.waiting
        if numbered is not None:
            self._absorb(numbered.facts, by_rows=True)
            self.counted += numbered.facts.rows
        failed = {name: why for group in self.ordered() for name, why in group.crowded_out(self.may_move).items()}
        self.change(failed, ())
        return failed

    def _advance(self, targets: dict[TableName, int], pace: Pace, failed: dict[str, str]) -> Progress:
        """Move time in all groups together, so that a query finds every group that it reads as of its own time."""
        progress, self._advancing = Progress(outcome=AdvanceOutcome(failed)), True
        try:
            advances = [self._move(targets, by_rows, pace, progress) for by_rows in (False, True)]
        finally:
            self._advancing = False
        if any(advance.hurried for advance in advances):
            progress.services = [advance.services for advance in advances]
        progress.batches.sort(key=attrgetter("as_of"))
        self.change([*progress.outcome.failed, *progress.outcome.ended], ())
        return progress

    def _move(self, targets: dict[TableName, int], by_rows: bool, pace: Pace, progress: Progress) -> Advance:
        groups = [group for group in self.ordered() if group.name.by_rows == by_rows]
        for group in groups:
            self._shares.set_weight(group.label, group.schedule.weight)
        execute = functools.partial(self.execute, pace.hurries)
        ends = [targets[group.name] for group in groups]
        kind = Advance if pace.services is None else BesideAgain
        advance = kind(groups, ends, execute, progress.outcome, self._pause, self.flies, self.restarts)
        if pace.services is not None:
            advance.repeat(pace.services[by_rows])
        else:
            advance.go(pace, self._shares)
            if self.settings.refresh_when_idle:
                advance.refresh(pace, self._shares)
        progress.batches += advance.answers
        return advance

    # -- executions beside micro-batches ---------------------------------------------------------------

    @property
    def flights(self) -> list[Flight]:
        return [flight for group in self.ordered() for flight in group.flights]

    def _must_restart(self, pace: Pace) -> bool:
        return self.restarts and pace.hurries and any(flight.is_outdated for flight in self.flights)

    def start_flights(self, launch: Launch) -> None:
        for group in self.ordered():
            jobs = [job for flight in group.flights if (job := flight.start()) is not None]
            if jobs:
                launch(jobs)

    def landing(self) -> list[int]:
        """The places of the groups whose flights can land, once for each flight; the flights of a group in order."""
        groups = enumerate(self.ordered())
        return [place for place, group in groups for _ in takewhile(attrgetter("is_done"), group.flights)]

    def land(self, places: Iterable[int]) -> Progress:
        """Land the next flights of some groups. Their outcome takes effect when it is concluded."""
        progress = Progress()
        for place in places:
            progress.batches += self.ordered()[place].land(progress.outcome)
        return progress

    def conclude(self, landed: Progress, progress: Progress) -> Progress:
        """All that an epoch gave: its landed flights, and its advance."""
        progress.batches[:] = sorted([*landed.batches, *progress.batches], key=attrgetter("as_of"))
        progress.outcome.failed |= landed.outcome.failed
        progress.outcome.ended += landed.outcome.ended
        self.change([*landed.outcome.failed, *landed.outcome.ended], ())
        return progress

    # -- answering -------------------------------------------------------------------------------------

    def execute(self, measured: bool, joint: list[JointQueries], as_of: int, served: ServiceResult) -> float:
        """Answer queries of one group as of one time."""
        group, started = joint[0].home, time.perf_counter()
        if group.recorder is not None:
            for recorder, name in recorded_reads((active for each in joint for active in each.queries), as_of):
                recorder.did("c", name)
        served.answers += self._answers(joint, as_of, served.outcome)
        took = time.perf_counter() - started
        if measured:
            group.calibration.observe(group.schedule.expected(joint), took)
        return took

    def drifted_prices(self) -> dict[str, Prices]:
        """Measured prices, by group, where they are far from the planned ones."""
        pairs = [(group.label, group.calibration.drifted_from(group.schedule.prices)) for group in self.ordered()]
        return {label: prices for label, prices in pairs if prices is not None}

    def model_prices(self) -> dict[str, Prices]:
        """The prices of the model, for groups that have others: `run()` does not use measured prices."""
        return {group.label: Prices() for group in self.ordered() if group.schedule.prices != Prices()}

    def reprice(self, prices: dict[str, Prices]) -> None:
        """Plan some groups anew with other prices."""
        for group in self.ordered():
            if group.label in prices:
                group.reprice(prices[group.label])

    def _answers(self, joint: list[JointQueries], as_of: int, outcome: AdvanceOutcome) -> list[AnswerBatch]:
        joint[0].home.note_execution(joint)
        return JointAnswers(joint, as_of, outcome).answers()

    def probe(self, active: ActiveQuery) -> Answer | None:
        """A single answer as of the youngest closed pane, for one-time queries and for new queries."""
        as_of = newest_common(active)
        if as_of is None:
            return None
        for bound in active.readings:
            bound.valid_from = bound.group.valid_from(bound)
        outcome = AdvanceOutcome()
        (batch,) = self._answers([JointQueries([active])], as_of, outcome)
        for answer in batch.answers:
            return answer
        raise QueryFailedError(next(iter(outcome.failed.values())))

    # -- counting --------------------------------------------------------------------------------------

    def _count(self, batch: BatchFacts) -> None:
        self.statistics.micro_batches += 1
        self.meter.take(batch.rows, batch.latest)
        self.statistics.tuples += batch.rows
        self.statistics.null_timestamps += batch.null_timestamps
        self.statistics.unparsable += batch.unparsable

    def _covers(self) -> Covers:
        """The conditions whose partials are combined from those of others."""
        readers = [bound for group in self.groups.values() for bound in group.members.readers.values()]
        return {bound.reading.partials[0].predicate: bound.covered for bound in readers if bound.covered is not None}

    def _report_jumped(self, jumped: JumpedTuples) -> None:
        self.statistics.tuples += jumped.tuples
        self.statistics.jumped_tuples += jumped.tuples
        if not jumped.tuples or self._warned_jumped:
            return
        self._warned_jumped = True
        warn_of_jumps(self.stream, jumped)

    def _report_late(self, late: int, unnumbered: int, missed: int) -> None:
        """Report late tuples: for panes, which LATE REVISE merges; for numbers, which it cannot revise; for plans."""
        self.statistics.late_tuples += max(late, unnumbered, missed)
        dropped = unnumbered if self.stream.late_revise else max(late, unnumbered, missed)
        if not dropped or self._warned_late:
            return
        self._warned_late = True
        remedy = "LATE REVISE merges them"
        if unnumbered >= max(late, missed):
            remedy = "row-based windows number tuples once and for all"
        elif missed >= late:
            remedy = "continuous queries do not go back in time"
        report(
            logger, logging.WARNING, "tuples.late",
            "stream %(stream)s: late tuples dropped (%(tuples)d); a longer DELAY waits for them, %(remedy)s "
            "(said once; stats() counts on)",
            stream=self.stream.name, tuples=dropped, remedy=remedy,
        )  # fmt: skip

    def _judge_reduction(self, groups: list[PaneGroup], batch: BatchFacts) -> None:
        """Report, once, a set of keys with nearly as many groups as there are tuples."""
        if batch.rows < _ENOUGH_TO_JUDGE:
            return
        for number, group in enumerate(groups):
            if group.name.partition:
                # This table keeps single rows by design.
                continue
            largest = max((len(rows.ends) for table, rows, _ in batch.lanes if table == number), default=0)
            ratio = largest / batch.rows
            if ratio > _REDUCTION and group.label not in self.unreduced:
                report(
                    logger, logging.WARNING, "groups.unreduced",
                    "stream %(stream)s: grouping by %(groups)s leaves %(percent).0f%% of the tuples as groups; "
                    "pre-aggregation saves little",
                    stream=self.stream.name, groups=group.label, percent=100 * ratio,
                )  # fmt: skip
            if ratio > _REDUCTION or group.label in self.unreduced:
                self.unreduced[group.label] = ratio


def newest_common(active: ActiveQuery) -> int | None:
    """The youngest time up to which all groups that a query reads have closed their panes, if there is one."""
    ends = [group.clock.now for group in active.groups if group.clock.has_closed]
    return min(end for end in ends if end is not None) if len(ends) == len(active.groups) else None


def warn_of_jumps(stream: Stream, jumped: JumpedTuples) -> None:
    report(
        logger, logging.WARNING, "tuples.jumped",
        "stream %(stream)s: %(tuples)d tuples, the first of %(first)s, are more than MAX JUMP, %(most)s, ahead of all "
        "others, and left out; if that is their time, session.advance() lets the stream go on there "
        "(said once; stats() counts on)",
        stream=stream.name, tuples=jumped.tuples, first=to_datetime(jumped.first),
        most=format_duration(stream.max_jump or 0),
    )  # fmt: skip
