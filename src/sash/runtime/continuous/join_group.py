"""Aggregates over one join, answered together: one join, one synopsis or few, any windows (thesis 8.3.2).

    S [longest] ─┐                        put together by panes
    T [longest] ─┴─► join ─► results ─► (first, second, group): partials ─► synopses ─► q1 (7, 8)  every 1 min
                     one plan            on executors                                    q2 (3, 3)  every 2 min ...

The join is a continuous plan as any other (`plan`). `rows` puts the changes of an epoch together, bucket by bucket, and
`absorb` takes them in. `advance` closes the panes that the watermark has passed, one after the other. At the end of
each pane it gives the answers that the scheduler finds due: all of them share one scan of a synopsis (CS5).

Queries come and go; the group keeps the same synopses (`join_layout`). If the results have more groups than the limit,
the queries by these groups fail, the group keeps nothing more for them, and the other queries go on.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sash.changes.join_partials import Fold
from sash.core.changes import Changes, EmptyOnce
from sash.core.errors import QueryFailedError
from sash.core.time import Micros, multiple_at_or_after, to_datetime
from sash.panes.answers import Finisher
from sash.panes.joins import WindowPair
from sash.panes.partials import Partial
from sash.panes.readers import SharedGroups
from sash.panes.readings import TableName, WindowView
from sash.plan.continuous import Node
from sash.plan.reach import Reach
from sash.plan.shared_joins import JoinedAggregate
from sash.runtime.continuous.join_layout import JoinLayout, JoinPlace
from sash.runtime.limits import too_many_results
from sash.runtime.records.journal import SavedJoinGroup
from sash.runtime.settings import DEFAULT_MAX_GROUPS
from sash.runtime.statistics import Timeline
from sash.schedule import LocalScheduler, Policy, PredictedQuery, ScheduledTask, predicted_cost
from sash.schedule.policies import Conservative
from sash.sharing.choose import Load, post_cost
from sash.sharing.choose_join import JoinChoice, JoinLoad, read_cost


@dataclass(frozen=True)
class JoinAnswer:
    query: str
    as_of: Micros
    table: pa.Table
    reaches: tuple[Reach, ...] = ()
    scheduled: bool = True


@dataclass
class _RunningQuery:
    """One query while it runs."""

    name: str
    query: JoinedAggregate
    place: JoinPlace
    finisher: Finisher
    empty: EmptyOnce = field(default_factory=EmptyOnce)
    # Whether the query may have something to say without new results.
    is_awake: bool = True
    # The last time for which it was answered ahead, at the end of all streams.
    told: Micros | None = None


class JoinGroup:
    """Queries of one skeleton (see `sash.plan.shared_joins`), at first its founders. Not safe for several threads."""

    def __init__(
        self,
        founders: Mapping[str, JoinedAggregate],
        load: JoinLoad | None = None,
        policy: Policy | None = None,
        layout: JoinLayout | None = None,
        most_groups: int = DEFAULT_MAX_GROUPS,
    ) -> None:
        self.layout = layout or JoinLayout(list(founders.values()), load)
        self.cut = self.layout.cut
        self._asked: dict[str, _RunningQuery] = {}
        self._synopses = self.layout.synopses()
        # The end of the youngest closed pane; None before the first results.
        self._now: Micros | None = None
        self._policy = policy or Conservative()
        self._scheduler = LocalScheduler(self._policy)
        self.timeline = Timeline()
        # By this time every query has read the last results.
        self._looked_at: Micros = 0
        self.failed: dict[str, QueryFailedError] = {}
        self.most_groups = most_groups
        # Tables with too many groups: nothing is kept for them.
        self._crowded: set[TableName] = set()
        for name, query in founders.items():
            self.enter(name, query)

    @property
    def plan(self) -> Node:
        return self.layout.plan

    @property
    def choices(self) -> dict[TableName, JoinChoice]:
        """Which synopses answer, by key set, and why."""
        return {name: table.choice for name, table in self.layout.tables.items()}

    # -- queries come and go -------------------------------------------------------------------------

    @property
    def members(self) -> list[str]:
        return list(self._asked)

    def enter(self, name: str, query: JoinedAggregate) -> None:
        """Add a query that the layout answers; while the group runs, from the next pane on."""
        place = self.layout.place_of(query)
        if place is None:
            raise ValueError(f"the group does not keep what query '{name}' needs")
        each = self._asked[name] = _RunningQuery(name, query, place, Finisher(query.query))
        if self._now is not None:
            self._schedule(each, self._now + self.cut.length)

    def leave(self, name: str) -> None:
        del self._asked[name]
        self.failed.pop(name, None)
        if self._now is not None:
            self._scheduler.remove(name, self._now)

    def use(self, policy: Policy) -> None:
        """Schedule by another policy from now on."""
        self._policy = policy
        self._scheduler = LocalScheduler.restore(self._scheduler.snapshot(), policy)

    # -- results come --------------------------------------------------------------------------------

    @property
    def fold(self) -> Fold:
        """How results are combined, in every bucket."""
        return self.layout.fold

    def rows(self, changes: Changes) -> list[pa.Table]:
        """An epoch's results, combined. The method reads nothing that results of other buckets change."""
        return self.fold.tables(changes)

    def absorb(self, tables: Sequence[pa.Table]) -> None:
        """Take in the tables that `rows` made of some buckets' results."""
        for (name, synopses), brought in zip(self._synopses.items(), self.fold.read(tables), strict=True):
            for synopsis in synopses if name not in self._crowded else ():
                synopsis.absorb(brought)
        self._fail_crowded()

    def _fail_crowded(self) -> None:
        for name, synopses in self._synopses.items():
            known = max((synopsis.groups for synopsis in synopses), default=0)
            if known <= self.most_groups:
                continue
            groups = max(synopsis.live_groups() for synopsis in synopses)
            if groups > self.most_groups:
                self._crowd(name, too_many_results(groups, name.label, self.most_groups))

    def _crowd(self, name: TableName, why: str) -> None:
        self._crowded.add(name)
        self._synopses[name] = self.layout.synopses()[name]
        for each in self._asked.values():
            if each.place.table == name and each.name not in self.failed:
                self.failed[each.name] = QueryFailedError(why)
                each.is_awake = False

    def is_crowded(self, query: JoinedAggregate) -> bool:
        """Whether a query would read a table that is not kept any more."""
        place = self.layout.place_of(query)
        return place is not None and place.table in self._crowded

    # -- time goes on --------------------------------------------------------------------------------

    def advance(self, now: Micros, begins: Micros | None) -> Iterator[JoinAnswer]:
        """Give all answers that are due up to a time by which all results have come, in order of time.

        The first tuple of the streams comes after `begins`.
        """
        while (end := self._next_end(begins)) is not None and end <= now:
            self._wake(end)
            self._now = end
            for synopses in self._synopses.values():
                for synopsis in synopses:
                    synopsis.close(end)
            yield from self._answers(end)

    def ahead(self, latest: Micros, begins: Micros | None) -> Iterator[JoinAnswer]:
        """At the end of all streams, answer each query as of its next multiple, as if nothing more came.

        The group itself does not move, so later tuples are not late; but no answer comes twice.
        """
        if not self.may_look_ahead(latest, begins):
            return
        ends = self._ends(latest)
        # An execution that is only tried is not recorded.
        apart = {id(self.layout): self.layout, id(self._policy): self._policy, id(self.timeline): Timeline()}
        future = copy.deepcopy(self, apart)
        for answer in future.advance(max(ends.values()), begins):
            if answer.as_of <= ends[answer.query]:
                self._asked[answer.query].told = answer.as_of
                yield answer
        self.failed |= future.failed

    def may_look_ahead(self, latest: Micros, begins: Micros | None) -> bool:
        """Whether some query may have something to say between now and its next multiple."""
        end = self._next_end(begins)
        return end is not None and any(
            end <= until and (each.told is None or each.told < until)
            for each, until in zip(self._asked.values(), self._ends(latest).values(), strict=True)
        )

    def _ends(self, latest: Micros) -> dict[str, Micros]:
        """The multiple that answers with the youngest tuple, for each query."""
        return {
            each.name: multiple_at_or_after(latest, each.query.slide, self.cut.offset) for each in self._asked.values()
        }

    def _next_end(self, begins: Micros | None) -> Micros | None:
        """When the next pane ends; if all queries rest, the end of the pane with the next results."""
        is_awake = any(each.is_awake for each in self._asked.values())
        if self._now is not None and (self._now < self._looked_at or is_awake):
            return self._now + self.cut.length
        if self._now is not None or begins is None:
            return self._next_results()
        return multiple_at_or_after(begins + 1, self.cut.length, self.cut.offset)

    def _next_results(self) -> Micros | None:
        panes = [synopsis.next_pane for synopses in self._synopses.values() for synopsis in synopses]
        known = [pane * self.cut.length + self.cut.offset % self.cut.length for pane in panes if pane is not None]
        return min(known, default=None)

    def _wake(self, end: Micros) -> None:
        """Let schedules begin with this pane: before the first pane, and after panes in which every query rested."""
        if self._now is None:
            for each in self._asked.values():
                self._schedule(each, end)
        elif end > self._now + self.cut.length:
            for task in self._scheduler.tasks():
                self._scheduler.postpone(task, end)
        if end == self._next_results():
            self._looked_at = max((self._scheduler.deadline_of(name) for name in self._asked), default=end)

    def _schedule(self, each: _RunningQuery, first: Micros) -> None:
        job = self._job(each)
        self._scheduler.add(
            each.name,
            job.group,
            job.slide,
            now=first - 1,
            offset=self.cut.offset,
            exactly=job.exactly,
            access=job.access,
            post=job.post,
        )

    def predicted(self, policy: Policy) -> float:
        """The cost of these queries per microsecond under a policy, by the analytic model."""
        return predicted_cost([self._job(each) for each in list(self._asked.values())], policy)

    def _job(self, each: _RunningQuery) -> PredictedQuery:
        place, load = each.place, self.layout.load
        post = post_cost([each.query.query], Load(self.cut.length, load.groups))
        access = read_cost(place.part, place.pair, load)
        return PredictedQuery(place.group, each.query.slide, each.query.exactly, access, post)

    def _answers(self, end: Micros) -> Iterator[JoinAnswer]:
        executions = list[ScheduledTask]()
        while (execution := self._scheduler.decide(end)) is not None:
            self._scheduler.done(execution)
            executions.append(execution)
        started = time.perf_counter()
        answers = list(self._found({name for each in executions for name in each.members}, end))
        if answers:
            took = time.perf_counter() - started
            self.timeline.note(executions, to_datetime(end), took, [[each.query for each in answers]])
        yield from answers

    def _found(self, due: set[str], end: Micros) -> Iterator[JoinAnswer]:
        asked = [each for each in self._asked.values() if each.name in due - self.failed.keys()]
        for name, synopses in self._synopses.items():
            for number, synopsis in enumerate(synopses):
                readers = [each for each in asked if (each.place.table, each.place.number) == (name, number)]
                needs: dict[WindowPair, list[Partial]] = {}
                for each in readers:
                    pair = each.place.pair
                    needs[pair] = list(dict.fromkeys([*needs.get(pair, ()), *each.finisher.partials]))
                for pair, view in synopsis.views(needs):
                    yield from self._of_view([each for each in readers if each.place.pair == pair], view, end)

    def _of_view(self, readers: list[_RunningQuery], view: WindowView, end: Micros) -> Iterator[JoinAnswer]:
        """The answers of the queries that read a view."""
        found: SharedGroups = {}
        for each in readers:
            try:
                table = each.finisher.answer(view, found)
            except QueryFailedError as error:
                self.failed[each.name] = error
                each.is_awake = False
                continue
            if each.empty.tells(table.num_rows) and (each.told is None or end > each.told):
                scheduled = self.is_scheduled(each.query.slide, end)
                yield JoinAnswer(each.name, end, table, each.query.reaches, scheduled)
            each.is_awake = not (each.empty.rests and view.is_empty)

    def wake(self) -> None:
        """Nobody was told of the answers so far: the next one counts as the first, even if it is empty."""
        for each in self._asked.values():
            each.empty, each.is_awake = EmptyOnce(), each.name not in self.failed

    # -- for its timeline ------------------------------------------------------------------------------

    label, by_rows = "join", False

    def answered_by(self, members: Iterable[str]) -> list[str]:
        return [name for name in members if name in self._asked]

    def is_scheduled(self, slide: Micros, end: Micros) -> bool:
        return (end - self.cut.offset) % slide == 0

    # -- recovery ------------------------------------------------------------------------------------

    def save(self) -> SavedJoinGroup:
        """The group's state for a checkpoint: a few numbers, and a table per synopsis."""
        synopses = [synopsis for each in self._synopses.values() for synopsis in each]
        return SavedJoinGroup(
            now=self._now,
            looked_at=self._looked_at,
            queries={each.name: (each.empty.rests, each.is_awake, each.told) for each in self._asked.values()},
            schedule=self._scheduler.snapshot(),
            panes=[synopsis.now for synopsis in synopses],
            failed={name: str(error) for name, error in self.failed.items()},
            crowded=[place for place, name in enumerate(self._synopses) if name in self._crowded],
            tables=[synopsis.to_table() for synopsis in synopses],
        )

    def load(self, saved: SavedJoinGroup) -> None:
        """The inverse of `save`, into an empty group of the same layout and the same queries."""
        self._now, self._looked_at = saved.now, saved.looked_at
        for each in self._asked.values():
            each.empty.rests, each.is_awake, each.told = saved.queries[each.name]
        self._scheduler = LocalScheduler.restore(saved.schedule, self._policy)
        self.failed = {name: QueryFailedError(text) for name, text in saved.failed.items()}
        names = list(self._synopses)
        self._crowded = {names[place] for place in saved.crowded}
        synopses = (synopsis for each in self._synopses.values() for synopsis in each)
        for synopsis, table, pane in zip(synopses, saved.tables, saved.panes, strict=True):
            synopsis.load(table, pane)
