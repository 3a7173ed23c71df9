"""A group: one pane table with its panes, the readings it serves, and the schedule of its queries.

    micro-batch ─► absorb ─► open panes ─► move_to(t): close panes up to t ─► take ─► joint execution ─► answers
                                           expire: drop what no window reaches any more

Time counts microseconds or tuples. Of the store of its panes a group asks facts alone: whether the rows are in files,
and whether a job reads them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.core.window import LandmarkWindow, SessionWindow, Window
from sash.isolation.history import PaneRecorder
from sash.panes.cluster_panes import ClusterPanes
from sash.panes.pane_rows import PaneRows
from sash.panes.pane_store import PaneStore
from sash.panes.readings import TableName
from sash.runtime.answers.answer import AnswerBatch
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome, BoundReading, Membership
from sash.runtime.periodic.choices import Choices, synopsis_for
from sash.runtime.periodic.group_schedule import Schedule, SchedulePlace
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.pace import Calibration
from sash.runtime.periodic.pane_clock import PaneClock
from sash.runtime.settings import Settings
from sash.runtime.statistics import GroupStatistics, Timeline
from sash.schedule import ScheduledTask
from sash.sharing.choose import CLUSTER, Prices, post_cost
from sash.sharing.groups import PaneTable, StateSharing, pane_table, share_state
from sash.sharing.rules import SCANNED, Computation

if TYPE_CHECKING:
    from sash.runtime.periodic.flight import Flight


class PaneGroup:
    """The readings of one pane table, and the queries that are scheduled by it."""

    def __init__(self, name: TableName, stream: Stream, settings: Settings) -> None:
        self.name = name
        self.clock = PaneClock(stream, name.by_rows)
        self._late_revise = stream.late_revise
        self.panes: PaneStore = synopsis_for(name)
        # A stream that sheds load scales only the partials that come to this process.
        self._can_move = bool(name.keys) and not name.by_rows and stream.shed is None
        self.schedule = Schedule(settings.make_policy(), self.clock.offset, self._place)
        self.members = Membership(name)
        # The queries that are scheduled here, including those that wait for the data to begin.
        self.queries: dict[str, ActiveQuery] = {}
        # Since when UNBOUNDED and landmark windows have everything; None: from the origin.
        self.history_from: int | None = None
        # The other groups that some query reads together with this one.
        self.links: list[PaneGroup] = []
        self.statistics = GroupStatistics()
        self.timeline = Timeline()
        self.settings = settings
        self.choices = Choices(name, self.clock.length, settings.filter_precision)
        self.calibration = Calibration()
        # How many executions have begun and are not committed (see `beside`): until then the tasks do not change.
        self.under_way = 0
        # The executions in the cluster that the group does not wait for, and the seconds that the last one took.
        self.flights: list[Flight] = []
        self.flight_seconds = 0.0
        # Records slides and reads, for tests and for measurements.
        self.recorder: PaneRecorder | None = None
        self._is_trial = False

    def trial(self) -> PaneGroup:
        """A copy in which queries are registered to see the decisions about them; nothing is stored for them.

        The copy shares its readings and its panes with this group, and changes none of them.
        """
        other = copy.copy(self)
        other.clock, other.panes = copy.copy(self.clock), copy.copy(self.panes)
        if self.name.lists is not None:
            # EXPLAIN reads delta from the lists, while others slide.
            other.panes = self.panes.frozen({}, self.clock.position)
        other.clock.coarse, other.links, other.flights, other._is_trial = [], [], [], True
        other.members, other.queries = self.members.trial(), dict(self.queries)
        other.choices = self.choices.trial()
        other.schedule = self.schedule.trial(other._place)
        return other

    # -- which queries ---------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def by_rows(self) -> bool:
        return self.name.by_rows

    @property
    def table(self) -> PaneTable:
        """What the pass brings for this table: everything, or, for a table in the cluster, the tuples of its panes."""
        return pane_table(TableName(()), self.clock.length, ()) if self.in_cluster else self.full_table

    @property
    def full_table(self) -> PaneTable:
        return self.members.table(self.clock.length)

    # -- where its panes are ---------------------------------------------------------------------------

    @property
    def in_cluster(self) -> bool:
        """Whether the rows of a micro-batch stay in the cluster, as files."""
        return self.panes.filed is not None

    @property
    def _may_move(self) -> bool:
        """Whether the panes can be in the cluster: windows without end would keep every file."""
        return self._can_move and not self.members.keeps_history

    @property
    def insisting(self) -> list[str]:
        """The queries STORED IN CLUSTER, if the panes can be there."""
        readers = self.members.readers.items() if self._may_move else ()
        return list(dict.fromkeys(name for (name, _), bound in readers if bound.synopsis == CLUSTER))

    @property
    def wants_cluster(self) -> bool:
        """Whether some query is STORED IN CLUSTER."""
        return bool(self.insisting)

    @property
    def is_too_large(self) -> bool:
        """Whether it has more groups than this process should keep, and could go to the cluster."""
        return self._may_move and self.panes.groups_beyond(self.settings.cluster_groups) > 0

    @property
    def belongs_there(self) -> bool:
        """Whether the group goes to the cluster by itself. The open counts of short lists have no bound."""
        return self.is_too_large or (self._may_move and self.name.lists is not None)

    def crowded_out(self, may_move: bool) -> dict[str, str]:
        """The queries that fail because there are too many groups, with the reason: all queries, or none.

        All its queries have the same groups. A group that may move, and is too large, goes to the cluster before the
        next micro-batch instead.
        """
        most = self.settings.max_groups
        groups = self.panes.groups_beyond(most)
        if not groups or (may_move and self.is_too_large):
            return {}
        why = (
            f"it has {groups:,} groups by {self.label} in its windows, and max_groups is {most:,}: group by something "
            "coarser, take a shorter window, an estimate (APPROX_TOP, APPROX_COUNT_DISTINCT) where every value counts, "
            "or STORED IN CLUSTER, or connect(max_groups=..) with more if there is memory"
        )
        return {name: why for name, _ in self.members.readers}

    def move_to_cluster(self, files: pa.Table) -> PaneStore:
        """Keep only names of files from now on, for open panes at least; these files have the panes already."""
        if self.name.lists is None:
            before = self.panes
            self.panes = ClusterPanes(before.key_types, version=before.version + 1)
            self.panes.since, self.panes.reach, self.panes.ends = before.since, before.reach, before.ends
            self.choices.drop_filters()
        self.panes.load_files(files)
        return self.panes

    # -- its readings ----------------------------------------------------------------------------------

    def add_reader(self, name: str, number: int, bound: BoundReading) -> None:
        if bound.reading.window.unbounded and not self.members.keeps_history:
            self.history_from = self.clock.gone_until
        bound.share(self._shared(bound, self.settings.share_predicates))
        bound.kept = self.members.reach
        self.members.add(name, number, bound)
        self.panes.reach = self.members.reach

    def _shared(self, bound: BoundReading, mode: str) -> StateSharing:
        """What the rules decide about a reading that comes now."""
        load = self.choices.load
        if load.pane != self.clock.length:
            load = replace(load, pane=self.clock.length)
        return share_state(bound.reading, bound.query.needs[bound.number], self.members.partials, load, mode)

    def offer(self, query: CompiledQuery, number: int) -> BoundReading | None:
        """A query's reading bound to stored partials, its own or combined ones; None if something is missing."""
        bound = BoundReading(query, number, self)
        bound.share(self._shared(bound, self.settings.share_in_questions))
        return bound if bound.sharing.is_whole else None

    def store_what_is_read(self) -> None:
        """After a restart, give the readings the covers that they had before."""
        self.members.restore()
        self.panes.release(set(self.members.partials))
        self.panes.require(list(self.members.partials), None)

    def cut(self, length: int, latest: int | None) -> None:
        """Give panes this length from now on; stored panes keep theirs."""
        longer = length > self.clock.length
        self.clock.cut(length, latest)
        if longer and self.clock.origin is not None:
            self.schedule.local.fit(length, self.clock.offset, self.clock.position)
        self._fit_policy()

    def _fit_policy(self) -> None:
        """While windows contain panes of several lengths, execute queries only at their own multiples.

        At other times the edge of a window may lie inside a pane that was cut before a finer query came.
        """
        if self.clock.origin is not None and self.schedule.is_plain != bool(self.clock.coarse) and not self.under_way:
            self.schedule.stay_plain(bool(self.clock.coarse), self.clock.position)

    def choose(self) -> None:
        """Choose the synopses for the current readings."""
        self.choices.judge(self.panes, self.clock.length, self.members.readers.values())
        self._build()
        if self.clock.origin is not None:
            self.schedule.reconsider(self.clock.position)

    def _build(self) -> None:
        self.choices.build(self.panes, self.clock.length, self.members.readers.values(), self.queries.values())

    def use(self, settings: Settings) -> None:
        """Other settings from now on."""
        changed, self.settings = settings.policy != self.settings.policy, settings
        if changed:
            self.schedule.use(settings.make_policy(), self.clock.position)

    def require(self, bound: BoundReading, latest: int | None) -> None:
        """Store what a reading needs; `latest` is the greatest timestamp (or number of tuples) before it came."""
        if self._is_trial:
            return
        since = None if latest is None else self.clock.ends_after(latest)
        self.panes.require(bound.stored.partials, since)
        bound.valid_from = self.valid_from(bound)

    def remove_readers(self, names: Iterable[str], others_follow: bool = False) -> None:
        """Remove queries. Where others take their places, what is stored stays until `let_go`."""
        gone = dict.fromkeys(names)
        self.flights = [flight for flight in self.flights if flight.forget(gone)]
        self.members.remove(gone)
        if not others_follow:
            self.let_go()
        for name in gone:
            self.queries.pop(name, None)
            self.unschedule(name)

    def let_go(self) -> None:
        """Forget what no present reader needs."""
        self.members.let_go()
        self.panes.reach = self.members.reach
        if not self._is_trial:
            if self.members.uncover(self.panes):
                for group in (self, *self.links):
                    group.schedule.forget_joint()
            self.panes.release(set(self.members.partials))

    def valid_from(self, bound: BoundReading) -> int | None:
        """Since when every tuple of the reading's windows is in panes that its edges do not cut."""
        window, since = bound.reading.window, self.panes.since
        starts = {since[partial] for partial in bound.stored.partials}
        if self.clock.coarse:
            starts.add(self.clock.fits_from(window.resolution))
        if window.unbounded:
            starts.add(self.history_from)
        starts.discard(None)
        return max(starts, default=None)  # type: ignore[type-var]

    def enter(self, active: ActiveQuery) -> None:
        """Schedule a query, from the origin of the data on. A paused one is not scheduled, and its LIFETIME goes on."""
        if active.compiled.paused:
            self.schedule.watch(active)
            return
        self.queries[active.name] = active
        if self.clock.origin is None:
            return
        compiled = active.compiled
        if compiled.lifetime is not None and active.ends_at is None and not self.name.by_rows:
            active.ends_at = self.clock.position + compiled.lifetime
        self.schedule.add(active, max(self.clock.origin, self.clock.position))

    def unschedule(self, name: str) -> bool:
        return self.schedule.remove(name, None if self.clock.origin is None else self.clock.position)

    def _place(self, active: ActiveQuery) -> SchedulePlace:
        """What a query is computed from, and its cost, by the current synopses."""
        bound = self._bound(active)
        place = self.choices.place(bound.stored, self.panes)
        access = sum([self._access(bound) for bound in active.readings])
        post = post_cost(active.compiled.leaves, self.choices.load)
        computation = Computation(
            active.name,
            place.group,
            place.data,
            place.kind,
            bound.reading.spans[0],
            bound.stored.partials,
            combined=bound.covered is not None,
            divides=place.kind not in SCANNED and any(need.is_average for need in bound.needs),
        )
        return SchedulePlace(computation, access, post)

    def _bound(self, active: ActiveQuery) -> BoundReading:
        """A query's first reading of this group, or, in a trial, of the group that is tried."""
        first = active.readings[0]
        if first.group.name is self.name:
            return first
        return next(bound for bound in active.readings if bound.group.name is self.name)

    def _access(self, bound: BoundReading) -> float:
        group = self if bound.group.name is self.name else bound.group
        return group.choices.place(bound.stored, group.panes).access

    def reprice(self, prices: Prices) -> None:
        """Plan anew with other prices."""
        self.schedule.prices = prices
        if self.clock.origin is not None:
            self.schedule.reconsider(self.clock.position)

    # -- filling ---------------------------------------------------------------------------------------

    def absorb(self, rows: PaneRows, counts: np.ndarray) -> int:
        """Take a micro-batch's rows in; the result is how many tuples were late."""
        if not len(rows.ends):
            return 0
        late = rows.ends <= self.clock.now if self.clock.now is not None else np.zeros(len(rows.ends), dtype=bool)
        tuples = int(counts[late].sum())
        if self.clock.origin is None:
            if late.all():
                return tuples
            self._begin(int(rows.ends[~late].min()) - rows.length)
        else:
            earliest = int(rows.ends[~late].min(initial=self.clock.origin + rows.length) - rows.length)
            if earliest < self.clock.origin:
                # Out of order, but not late: no pane has closed since the origin, so the data begin earlier.
                self._begin(earliest)
        if self.name.by_rows:
            self.clock.stamps.note(rows)
        if not tuples:
            self.panes.absorb(rows)
        elif self._late_revise:
            assert self.clock.now is not None
            self.panes.absorb(rows, closed_until=self.clock.now)
            if self.recorder is not None:
                self.recorder.revised(set(rows.ends[late].tolist()))
        else:
            self.panes.absorb(rows.only(~late))
        return tuples

    def _begin(self, origin: int) -> None:
        self.clock.begin(origin)
        for bound in self.members.readers.values():
            bound.valid_from = self.valid_from(bound)
        for active in self.queries.values():
            self.unschedule(active.name)
        for active in list(self.queries.values()):
            self.enter(active)

    # -- advancing -------------------------------------------------------------------------------------

    def next_due(self, target: int) -> int | None:
        """When the next execution is due by a time: at the end of a pane. A late execution is due now."""
        if self.clock.origin is None:
            return None
        due = self.schedule.local.next_due(max(target, self.clock.position))
        if due is None:
            return None
        # A deadline that was set when panes were shorter may lie inside one.
        due = max(self.clock.position, self.clock.end_from(due))
        return due if due <= max(target, self.clock.position) else None

    def move_to(self, position: int, outcome: AdvanceOutcome) -> None:
        """Close panes up to a time at which something is due, and check whether the choices still fit the panes.

        Check only then: the schedule must not depend on where a micro-batch ends.
        """
        self._close(position, outcome)
        if not self.under_way and self.choices.look_again(self.panes):
            self.choose()

    @property
    def reads_cluster(self) -> bool:
        """Whether its queries may read panes that are in the cluster."""
        return any(group.panes.is_read_by_job for group in (self, *self.links))

    def begin_again(self) -> None:
        """Answer the queries of outdated flights as of the newest pane."""
        for flight in self.flights:
            if flight.is_outdated:
                flight.begin_again()

    def land(self, outcome: AdvanceOutcome) -> list[AnswerBatch]:
        """Take the answers of its first flight; files that only the flight needed may go."""
        answers, failed = self.flights[0].land()
        del self.flights[0]
        for name in failed:
            self.unschedule(name)
        outcome.failed |= failed
        self._end_lifetimes(outcome)
        for group in (self, *self.links):
            if group.clock.origin is not None:
                group.expire()
        return answers

    def take(self, early: bool, one_by_one: bool) -> list[ScheduledTask]:
        """The tasks to execute at this position."""
        return self.schedule.take(self.clock.position, early, one_by_one)

    @property
    def is_stale(self) -> bool:
        """Whether panes have come since the last answer of a query that may be answered before it is due."""
        rests = self.flights or not self.clock.has_closed
        return not rests and self.schedule.local.decide_early(self.clock.position) is not None

    def catch_up(self, target: int, outcome: AdvanceOutcome) -> None:
        """Close panes up to a time, whatever is due."""
        if self.clock.now is not None and target <= self.clock.now:
            return
        if self.clock.origin is None:
            self.clock.now = target
            return
        self._close(target, outcome)

    def _close(self, position: int, outcome: AdvanceOutcome) -> None:
        self.panes.close(position)
        if self.recorder is not None:
            self.recorder.slid(position)
        if self.clock.now is None or position > self.clock.now:
            self.clock.now = position
        self._end_lifetimes(outcome)
        self.expire()

    def expire(self) -> None:
        """Forget the panes that no window reaches any more, here or through a query that reads several tables."""
        assert self.clock.retained_from is not None
        asked = min(group.oldest_asked for group in (self, *self.links))
        edge = asked - self.panes.reach
        if edge <= self.clock.retained_from:
            return
        if self.members.keeps_history:
            self._merge(edge, asked)
        else:
            self.panes.expire(edge)
        self.clock.forget(edge)
        self._fit_policy()

    def _merge(self, edge: int, asked: int) -> None:
        """Merge panes before an edge, up to the edges of landmark windows; forget what none of these windows has."""
        landmarks = self.members.landmarks
        starts = [window.start(asked) for window in landmarks]
        self.panes.merge(edge, {*starts, *(fixed for window in landmarks for fixed in window.fixed_edges)})
        known_from, oldest = self.clock.origin if self.history_from is None else self.history_from, min([edge, *starts])
        assert known_from is not None
        if not self.members.keeps_everything and oldest > known_from:
            self.panes.expire(oldest)
            self.history_from = oldest

    @property
    def oldest_asked(self) -> int:
        """The oldest time as of which a query still needs an answer: a late SLIDE EXACTLY query's own, a flight's."""
        late = self.schedule.local.late_exactly(self.clock.position)
        asked = self.clock.position if late is None else late
        return min(asked, *(flight.as_of for flight in self.flights)) if self.flights else asked

    def end(self) -> None:
        """The input has ended: no session goes on beyond the newest pane."""
        if not self.by_rows and self.clock.has_closed and self.clock.position not in self.panes.ends:
            self.panes.ends = (*self.panes.ends[-1:], self.clock.position)

    def _end_lifetimes(self, outcome: AdvanceOutcome) -> None:
        flying = {name for flight in self.flights for name in flight.queries} if self.flights else ()
        for name in self.schedule.ended(self.clock.event_time(self.clock.position)):
            if name not in flying and self.unschedule(name):
                outcome.ended.append(name)

    def awake(self, execution: ScheduledTask) -> list[JointQueries]:
        """The queries of an execution that have an answer, task by task."""
        as_of, now, pane = execution.as_of, self.clock.position, self.clock.length
        joint = self.schedule.joint(execution)
        if self.panes.ends:
            some = (each.only([active for active in each.queries if not active.is_told(as_of)]) for each in joint)
            joint = [each for each in some if each is not None]
        return [found for each in joint if (found := each.awake(as_of, now, pane)) is not None]

    def note_execution(self, joint: Sequence[JointQueries]) -> None:
        """Count queries that are executed together."""
        queries, together, apart = 0, 0, 0
        for each in joint:
            longest, alone = each.costs(self.clock.length)
            queries, together, apart = queries + len(each.queries), max(together, longest), apart + alone
        self.statistics.executed(queries, together, apart)

    def rest(self, execution: ScheduledTask, target: int) -> None:
        """In a gap without tuples, sleep until a window ends, or reaches the next pane with tuples, or unknown ones."""
        for due in execution.tasks:
            queries = [self.queries[name] for name in due.task.members if name in self.queries]
            if any(active.is_told(execution.as_of) for active in queries):
                continue
            bound = [each for active in queries for each in active.readings]
            ends = [(b.reading.window.lag, _next_end(b, execution.as_of)) for b in bound]
            wakes = [end + lag for lag, end in ends if end is not None]
            wakes += [until for active in queries if (until := active.compiled.until) is not None]
            self.schedule.local.postpone(due.task, min([*wakes, target + 1]))

    def filtered(self, active: ActiveQuery, now: int) -> pa.Table | None:
        """A query's answer by its substream filter, where an index serves it."""
        # Panes of several lengths may lie across a window's edge, and an index counts whole panes, as of the newest
        # one.
        late = self.clock.now is not None and now < self.clock.now
        return None if self.clock.coarse or late else self.choices.filters.answer(active, self.panes, now)

    # -- which answers it can give ---------------------------------------------------------------------

    def is_complete(self, bound: BoundReading, now: int) -> bool:
        window, clock = bound.reading.window, self.clock
        if clock.coarse and clock.cuts(window.end(now)):
            # Its youngest tuples may be in a pane that is open.
            return False
        if isinstance(window, LandmarkWindow):
            return self.keeps(window, now) and window.start(now) >= max(
                time for time in (clock.origin, bound.valid_from) if time is not None
            )
        if isinstance(window, SessionWindow) and bound.valid_from is None and clock.gone_until is None:
            # No session began before the stream.
            return True
        if window.unbounded or self.name.partition:
            # A partition with few rows is complete if its rows were counted from the beginning.
            return bound.valid_from is None
        if clock.coarse and clock.cuts(window.start(now)):
            return False
        return self._has_all_after(window.start(now), bound.valid_from)

    def is_whole(self, edge: int, since: int | None) -> bool:
        """Whether surely all windows are complete that begin at an edge or later, and are valid since a time."""
        start = self.whole_from
        return start is not None and edge >= start and (since is None or edge >= since)

    @property
    def whole_from(self) -> int | None:
        """Since when all panes are there; None if that does not tell which windows are complete."""
        clock = self.clock
        is_plain = clock.origin is not None and not (clock.coarse or self.name.partition)
        return clock.retained_from if is_plain else None

    def _has_all_after(self, edge: int, since: int | None) -> bool:
        assert self.clock.retained_from is not None
        return edge >= self.clock.retained_from and (since is None or edge >= since)

    def keeps(self, window: LandmarkWindow, now: int) -> bool:
        """Whether all panes of a landmark window are there, and none lies across its edges."""
        known_from = self.history_from if self.members.keeps_history else self.clock.gone_until
        return (known_from is None or window.start(now) >= known_from) and not self.cuts(window, now)

    def answered_by(self, members: Iterable[str]) -> list[str]:
        """The queries that a task of these members answers, without queries that have ended meanwhile."""
        return self.schedule.answered_by(name for name in members if name in self.schedule.queries)

    def is_scheduled(self, slide: int | None, now: int) -> bool:
        """Whether a position is one of a query's own multiples of SLIDE."""
        return self.clock.is_multiple(slide, now)

    def cuts(self, window: Window, now: int) -> bool:
        """Whether a stored pane lies across an edge of a window as of a time: then the window has no answer."""
        return any(self.panes.straddles(edge) for edge in (window.end(now), window.start(now)))

    def restore_choices(self, saved: list[float]) -> None:
        """After a restart, base choices on the saved load."""
        self.choices.restore(saved, self.panes)
        self._build()


def _next_end(bound: BoundReading, as_of: int) -> int | None:
    return bound.group.panes.next_end(as_of - bound.reading.window.lag)
