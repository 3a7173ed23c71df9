"""A running group of aggregates over one join: a plan's epochs in, answers from its synopses out.

    epochs ──► the plan of the group ──► results, combined ──────► log ──► synopses ──► answers to each query

A group is open until its first epoch. Until then every query over its join becomes one of the founders, who decide what
the group keeps (`join_layout`), and an open group that gains or loses a founder is founded anew. From the first epoch
on the group stays the same; a later query joins it if the kept synopses answer the query. An entry of the log has the
results of an epoch, and the queries that came and went before it, so that a replay gives the same group again. A
dropped query leaves at the next epoch.

plans/join-DIGEST-N/   group.json: the founders, and their layout     log/, state/: as any plan's
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from sash.changes.join_partials import Fold
from sash.core.changes import Changes
from sash.core.errors import CheckpointError
from sash.core.time import Micros, to_datetime
from sash.plan.choice import Choice, choose
from sash.plan.continuous import UPA, Map, Node
from sash.plan.estimates import Statistics, values_of
from sash.plan.rewrites import optimise
from sash.plan.shared_joins import JoinedAggregate, shared_rows
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Delivery, Query, deliver
from sash.runtime.compiler import as_select
from sash.runtime.continuous.beginnings import PlanPanes
from sash.runtime.continuous.join_group import JoinAnswer, JoinGroup
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.continuous.plan_runtime import (
    Admission,
    ChangeListener,
    ContinuousQuery,
    EpochInstants,
    PlanParts,
    PlanRuntime,
)
from sash.runtime.records.journal import JOIN, GroupMember, JoinEntry, JoinSnapshot, PlanProgress
from sash.runtime.route import RouteDecision, route
from sash.runtime.statistics import ExecutionRecord
from sash.schedule import Policy
from sash.schedule import policy as policy_named
from sash.sharing.choose_join import JoinLoad
from sash.spark.buckets import EpochOutcome
from sash.sql import bind
from sash.storage.files import damaged, make_directory, read_facts, write_facts

if TYPE_CHECKING:
    from sash.runtime.continuous.plans import PlanDirectories


@dataclass(frozen=True, kw_only=True)
class JoinQuery(ContinuousQuery):
    """The kind of the route JOINED_PANES; `groups` is how many the query is expected to have.

    Queries with different plans share a group, so a query keeps its own statistics.
    """

    asked: JoinedAggregate
    groups: int

    prefix: ClassVar[str] = "join-"
    is_grouped: ClassVar[bool] = True
    is_admitted: ClassVar[bool] = True

    @classmethod
    def choose(
        cls,
        written: Node,
        known: Statistics,
        execution: str,
        plans: Mapping[str, Node] | None = None,
        lazy: bool | None = None,
    ) -> Choice:
        return choose(written, known, UPA, plans)

    @classmethod
    def of(cls, routed: RouteDecision, known: Statistics, execution: str, plan: Node | None = None) -> JoinQuery:
        asked = routed.joined
        assert asked is not None
        names = [key.expression.sql for key in asked.query.keys]
        groups = round(values_of(Map(asked.join, asked.columns), names, known)) if names else 1
        plan = plan or optimise(routed.written, known, execution)
        return cls(plan=plan, written=routed.written, execution=execution, asked=asked, groups=groups)

    @property
    def identity(self) -> str:
        """Queries with an equal identity may share a group. Opening the group checks what it stores."""
        return f"{self.asked.skeleton!r} {self.asked.computed!r}"

    @property
    def member(self) -> GroupMember:
        return GroupMember(self.serial, self.name, self.text, self.groups)

    def open(
        self, directories: PlanDirectories, members: Sequence[tuple[ContinuousQuery, ChangeListener]]
    ) -> JoinRuntime:
        """Open the group. It finds its queries by itself, also members that are not registered any more."""
        place = GroupPlace(directories, self.state)
        for query, _ in members:
            place.meet(query)
        return place.opened(self.member)

    def join(self, runtime: PlanRuntime, reader: ChangeListener) -> None:
        assert isinstance(runtime, JoinRuntime)
        runtime.join_as(self, reader)

    def alone(self) -> JoinLayout:
        return JoinLayout([self.asked], JoinLoad(groups=self.groups))


@dataclass(frozen=True)
class GroupPlace:
    """The place of a group: the name of its directory, among those of its session.

    `asked` has the aggregates of the registered queries, so only the texts of dropped queries are bound again.
    """

    directories: PlanDirectories
    state: str
    asked: dict[GroupMember, JoinedAggregate] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.directories.path(self.state)

    @property
    def policy(self) -> str:
        """The name of the current scheduling policy."""
        return self.directories.shared.settings.policy

    def meet(self, query: ContinuousQuery) -> None:
        """A query of this group is registered."""
        assert isinstance(query, JoinQuery)
        self.asked[query.member] = query.asked

    def asked_by(self, member: GroupMember) -> JoinedAggregate:
        found = self.asked.get(member) or route(bind(as_select(member.text), self.directories.shared.catalog)).joined
        assert found is not None
        return found

    def handle(self, member: GroupMember) -> Query | None:
        """The user's handle of a query, while the query is registered."""
        return self.directories.shared.handle(member.name, member.serial)

    def layout_of(self, founders: Sequence[GroupMember]) -> JoinLayout:
        groups = max(founder.groups for founder in founders)
        return JoinLayout([self.asked_by(founder) for founder in founders], JoinLoad(groups=groups))

    def runtime(self, founders: Sequence[GroupMember], layout: JoinLayout) -> JoinRuntime:
        return JoinRuntime(founders, layout, self.directories.parts(layout.plan, self.state), self)

    def founded(self, founders: Sequence[GroupMember], layout: JoinLayout) -> JoinRuntime:
        """A new group, with its founders written into its directory."""
        make_directory(self.directory)
        write_facts(self.directory / "group.json", {"founders": founders, "layout": layout.signature})
        return self.runtime(founders, layout)

    def opened(self, first: GroupMember | None = None) -> JoinRuntime:
        """The group as its log left it. If nobody has founded it, `first` does."""
        path = self.directory / "group.json"
        if not path.exists() and first is not None and not (self.directory / "log" / "manifest.json").exists():
            return self.founded([first], self.layout_of([first]))
        founders, signature = _read(path)
        layout = self.layout_of(founders)
        if layout.signature != signature:
            raise _other_layout(founders)
        runtime = self.runtime(founders, layout)
        runtime.load()
        return runtime.without([each.serial for each in founders if self.handle(each) is None])


class JoinRuntime(PlanRuntime):
    """`founders` decide on the layout, whether they are still registered or not."""

    def __init__(
        self, founders: Sequence[GroupMember], layout: JoinLayout, parts: PlanParts, place: GroupPlace
    ) -> None:
        super().__init__(layout.plan, parts)
        self._panes = PlanPanes(layout.cut.length, layout.cut.offset)
        self.founders, self.layout = tuple(founders), layout
        self._place = place
        self._is_formed = False
        # The members that are registered; those that are in the group; those that came and went since the last commit.
        self._members = {founder.serial: founder for founder in founders}
        self._entered: list[GroupMember] = []
        self._left: list[int] = []
        # The last answer of each query.
        self._last: dict[int, pa.Table] = {}
        self._is_whole = True
        self._group = self._new_group()

    def _new_group(self) -> JoinGroup:
        self._policy = self._place.policy
        return JoinGroup({}, policy=policy_named(self._policy), layout=self.layout, most_groups=self._most.groups)

    def _use(self, policy: str) -> None:
        """Use a policy. A replay uses the policy of the logged epoch, whatever the user has chosen since."""
        if policy != self._policy:
            self._policy = policy
            self._group.use(policy_named(policy))

    # -- members of the group ------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether no epoch has begun: the group can be founded anew, with one query more or less."""
        return not self._is_formed and self._progress.number == 0

    def form(self) -> None:
        """An epoch is about to begin."""
        self._is_formed = True

    def admission(self, query: ContinuousQuery) -> Admission:
        assert isinstance(query, JoinQuery)
        layout = self._layout_with(query)
        return Admission(layout is not None, self._why_not(query) if layout is None else None, layout=layout)

    def admit(self, query: ContinuousQuery) -> JoinRuntime | None:
        """An open group is founded anew, with the query; a running group is as it was."""
        assert isinstance(query, JoinQuery)
        layout = self._layout_with(query)
        if layout is None or not self.is_open:
            return None if layout is None else self
        return self._founded_anew([*self.founders, query.member], layout)

    def without(self, gone: Sequence[int]) -> JoinRuntime:
        """An open group without the dropped founders; a running group keeps its synopses."""
        asked = zip(self.founders, self.layout.founders, strict=True)
        left = {member: query for member, query in asked if member.serial not in gone}
        if not self.is_open or not left or len(left) == len(self.founders):
            return self
        layout = JoinLayout(list(left.values()), JoinLoad(groups=max(member.groups for member in left)))
        return self._founded_anew(list(left), layout)

    def _founded_anew(self, founders: Sequence[GroupMember], layout: JoinLayout) -> JoinRuntime:
        found = self._place.founded(founders, layout)
        found._readers.update(self._readers)
        found._progress.ended = self._progress.ended
        return found

    def _layout_with(self, query: JoinQuery) -> JoinLayout | None:
        """The layout of the group with one query more; None if the query cannot join."""
        layout = self.layout
        if not self.is_open:
            return layout if self._why_not(query) is None else None
        founders = [*layout.founders, query.asked]
        load = JoinLoad(groups=max(query.groups, layout.load.groups))
        return JoinLayout(founders, load) if shared_rows(founders) is not None else None

    def _why_not(self, query: JoinQuery) -> str | None:
        """In a few words, why a query cannot join a running group; None if it can."""
        if self.failed is not None:
            return "their join has failed"
        if self.is_open:
            return "one name would stand for two columns"
        if self._group.is_crowded(query.asked):
            return "their groups were too many"
        return self.layout.why_not(query.asked)

    def join_as(self, query: JoinQuery, reader: ChangeListener) -> None:
        if self.layout.place_of(query.asked) is None:
            raise _other_layout(self.founders)
        self._place.meet(query)
        with self._state:
            self._members.setdefault(query.serial, query.member)
        self.join(query.serial, reader)
        why = self._group.failed.get(str(query.serial))
        if why is not None:
            reader.fail(str(why), reported=True)

    def _synchronise(self) -> None:
        """Between two epochs, let queries come and go."""
        with self._state:
            members = dict(self._members)
        inside = {int(serial) for serial in self._group.members}
        for serial, member in members.items():
            is_registered = self._place.handle(member) is not None
            if is_registered and serial not in inside:
                self._enter(member)
                self._entered.append(member)
            elif not is_registered and serial in inside:
                self._leave(serial)
                self._left.append(serial)

    def _enter(self, member: GroupMember) -> None:
        self._group.enter(str(member.serial), self._place.asked_by(member))

    def _leave(self, serial: int) -> None:
        self._group.leave(str(serial))
        self._last.pop(serial, None)
        with self._state:
            member = self._members.pop(serial, None)
        if member is not None:
            self._place.asked.pop(member, None)

    def _release(self) -> None:
        super()._release()
        self._group = self._new_group()

    # -- answers -------------------------------------------------------------------------------------

    def answer(self, query: ContinuousQuery) -> pa.Table:
        return self._last.get(query.serial, query.plan.schema.empty_table())

    def complete_from(self, query: ContinuousQuery) -> Micros | None:
        assert isinstance(query, JoinQuery)
        return self._progress.complete_from(query.asked.reaches)

    def count_of(self, serial: int) -> int:
        return len(self._last.get(serial, ()))

    def _fold(self) -> Fold:
        if not self._is_whole:
            self._load(delivered=None)
            self._is_whole = True
        # Before queries come and go, in the same order as in a replay.
        self._use(self._place.policy)
        self._synchronise()
        return self._group.fold

    def _tell_and_commit(self, outcome: EpochOutcome, instants: EpochInstants, after: PlanProgress) -> None:
        self._is_whole = False
        tables = outcome.folded if any(map(len, outcome.folded)) else []
        self._give(self._answers(tables, after), after, delivered=False)
        with self._state:
            self._commit(after, outcome.changes, tables)
        self._is_whole = True

    def _answers(self, tables: Sequence[pa.Table], progress: PlanProgress) -> Iterator[JoinAnswer]:
        if tables:
            self._group.absorb(tables)
        yield from self._group.advance(progress.low - 1, progress.begins)
        if progress.is_quiet(progress.low - 1):
            self._group.wake()
        if self._has_ended(progress):
            yield from self._group.ahead(max(progress.latest.values()), progress.begins)

    def _has_ended(self, progress: PlanProgress) -> bool:
        return bool(progress.latest) and progress.ended == sorted(self.streams)

    def _has_last_words(self, after: PlanProgress) -> bool:
        return self._has_ended(after) and self._group.may_look_ahead(max(after.latest.values()), after.begins)

    def _give(self, answers: Iterable[JoinAnswer], progress: PlanProgress, delivered: bool | None) -> None:
        """Give answers to registered queries; `delivered` as for readers, None if they have the answers already."""
        failed, told = set(self._group.failed), list[Delivery]()
        for each in answers:
            serial = int(each.query)
            if progress.is_over(serial, each.as_of):
                continue
            self._last[serial] = each.table
            is_news = delivered is not None and not progress.is_quiet(each.as_of)
            handle = self._place.handle(self._members[serial]) if is_news else None
            if handle is not None:
                known = progress.complete_from(each.reaches)
                complete, as_of = known is not None and each.as_of >= known, to_datetime(each.as_of)
                told.append((handle.outward, Answer(handle.name, as_of, complete, each.scheduled, each.table)))
        deliver(told, by_plan=True, again=bool(delivered))
        for name in self._group.failed.keys() - failed:
            reader = self._readers.get(int(name))
            if reader is not None and delivered is not None:
                reader.fail(str(self._group.failed[name]), reported=delivered)

    def predicted(self, policy: Policy) -> float:
        """The cost of its queries per microsecond under a policy."""
        return self._group.predicted(policy)

    def executed(self) -> Iterator[ExecutionRecord]:
        """The latest executions, with the names of the queries."""
        label = f"join of {', '.join(stream.name for stream in self.streams.values())}"
        names = {str(serial): member.name for serial, member in list(self._members.items())}
        for each in self._group.timeline.executed(self._group):
            turns = []
            for turn in each.turns:
                # A query that has just come is not known here yet.
                queries = tuple(names[serial] for serial in turn.queries if serial in names)
                turns.append(replace(turn, group=f"{label}, {turn.group}", queries=queries))
            yield replace(each, pane_table=label, turns=tuple(turns))

    # -- commit and recovery -------------------------------------------------------------------------

    def _commit(self, after: PlanProgress, changes: Changes, tables: Sequence[pa.Table] = ()) -> None:
        moved = (self._entered, self._left)
        self._journal.append(JoinEntry(after, *moved, self._policy, self._most.groups, list(tables)))
        self._progress = after
        self._entered, self._left = [], []
        self._journal.compact(self.save)

    def save(self) -> JoinSnapshot:
        inside = [self._members[int(serial)] for serial in self._group.members]
        return JoinSnapshot(self._progress, self._group.save(), inside, self._policy, self._last)

    def load(self) -> None:
        """Recover from the log. Answers since the last snapshot are remembered, not delivered again."""
        if self._journal.is_durable:
            self._load(delivered=True)
            if self.failed is not None:
                self._release()
            self._remove_files(None, self._progress)

    def _load(self, delivered: bool | None) -> None:
        """Load the group as of the last commit; `delivered` is None if its queries have the answers already."""
        if not self._journal.is_durable:
            raise CheckpointError("an epoch of a join broke off, and there is no checkpoint to go back to")
        self._group, self._entered, self._left = self._new_group(), [], []

        def apply(entry: JoinEntry) -> None:
            self._use(entry.policy)
            self._group.most_groups = entry.most_groups
            self._progress = entry.progress
            for serial in entry.left:
                self._leave(serial)
            self._enter_all(entry.entered)
            self._give(self._answers(entry.partials, entry.progress), entry.progress, delivered)

        self._journal.replay(JOIN, self._restore, apply)
        self._use(self._place.policy)
        self._group.most_groups = self._most.groups

    def _restore(self, snapshot: JoinSnapshot) -> None:
        self._progress = snapshot.progress
        self._enter_all(snapshot.members)
        self._use(snapshot.policy)
        self._group.load(snapshot.group)
        self._last = dict(snapshot.last)

    def _enter_all(self, members: Iterable[GroupMember]) -> None:
        for member in members:
            self._members.setdefault(member.serial, member)
            self._enter(member)


def _read(path: Path) -> tuple[list[GroupMember], str]:
    try:
        value = read_facts(path)
        return [GroupMember(*founder) for founder in value["founders"]], str(value["layout"])
    except (KeyError, TypeError) as error:
        raise damaged(path, error) from None


def _other_layout(founders: Sequence[GroupMember]) -> CheckpointError:
    names = ", ".join(founder.name for founder in founders)
    return CheckpointError(
        f"what is stored for the aggregates over a join that {names} began is of another plan than this version of "
        "Sash makes of them; go on with the version that wrote the checkpoint, or DROP the queries over this join and "
        "register them again: they then begin with empty windows"
    )
