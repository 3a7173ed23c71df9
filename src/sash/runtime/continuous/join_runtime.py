"""A running group of aggregates over one join: a plan's epochs in, answers from its synopses out.

    epochs ──► the plan of the group ──► results, put together ──► log ──► synopses ──► answers to each query

A group is open until its first epoch: so long every query over its join becomes one of the founders, who decide what
is kept (`join_layout`). They are written down beside the log. From the first epoch on the group stays as it is; who
comes later is one of it if it is answered by what is kept. An entry of the log has what an epoch brought, and who has
come and gone before it, so that a replay gives the same group again. Who is dropped goes at the next epoch.

The groups of aggregates over joins, by their directories: which query may join which, and opening them.

plans/join-DIGEST-N/   group.json: the founders, and what was decided for them     log/, state/: as any plan's
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sash.catalog import Stream
from sash.changes.join_partials import Fold
from sash.core.changes import Changes
from sash.core.errors import CheckpointError
from sash.core.time import Micros, to_datetime
from sash.core.versions import RowVersions
from sash.plan.shared_joins import JoinedAggregate, shared_rows
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Delivery, Query, deliver
from sash.runtime.continuous.beginnings import PlanPanes
from sash.runtime.continuous.join_group import JoinAnswer, JoinGroup
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.continuous.plan_runtime import ChangeListener, EpochInstants, PlanRuntime
from sash.runtime.limits import USUAL, Most
from sash.runtime.records.journal import JOIN, GroupMember, JoinEntry, JoinSnapshot, PlanProgress
from sash.runtime.statistics import Executed
from sash.schedule import Policy
from sash.schedule import policy as policy_named
from sash.sharing.choose_join import JoinLoad
from sash.spark.buckets import BucketedPlan, EpochOutcome
from sash.storage.epochs import EpochLog
from sash.storage.files import damaged, make_directory, read_facts, write_facts


@dataclass(frozen=True)
class Surroundings:
    """What a group asks of its session: whom it answers, how texts become queries, and the policy's name of now."""

    handle: Callable[[str, int], Query | None]
    bind: Callable[[str], JoinedAggregate]
    policy: Callable[[], str]


def layout_of(founders: Sequence[GroupMember], bind: Callable[[str], JoinedAggregate]) -> JoinLayout:
    groups = max(founder.groups for founder in founders)
    return JoinLayout([bind(founder.text) for founder in founders], JoinLoad(groups=groups))


class JoinRuntime(PlanRuntime):
    """`founders` decide on the layout, whether they are still registered or not."""

    def __init__(
        self,
        founders: Sequence[GroupMember],
        layout: JoinLayout,
        streams: list[Stream],
        bucketed: BucketedPlan,
        directory: Path,
        log: EpochLog | None,
        tables: Callable[[Micros, Micros], Mapping[str, RowVersions]],
        around: Surroundings,
        most: Most = USUAL,
    ) -> None:
        super().__init__(layout.plan, streams, bucketed, directory, log, tables, most)
        self._panes = PlanPanes(layout.cut.length, layout.cut.offset)
        self.founders, self.layout = tuple(founders), layout
        self._around = around
        self._is_formed = False
        # Who is registered for the group; of these, who is in it; who has come and gone since the last commit.
        self._members = {founder.serial: founder for founder in founders}
        self._entered: list[GroupMember] = []
        self._left: list[int] = []
        # The last answer of each query.
        self._last: dict[int, pa.Table] = {}
        self._is_whole = True
        self._group = self._new_group()

    def _new_group(self) -> JoinGroup:
        self._policy = self._around.policy()
        return JoinGroup({}, policy=policy_named(self._policy), layout=self.layout, most_groups=self._most.groups)

    def _use(self, policy: str) -> None:
        """What was answered is replayed by the policy of then, whatever the user wants from now on."""
        if policy != self._policy:
            self._policy = policy
            self._group.use(policy_named(policy))

    # -- who is in the group -------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """No epoch has begun: the group can be founded anew, with one query more or less."""
        return not self._is_formed and self._progress.number == 0

    def form(self) -> None:
        """An epoch is about to begin."""
        self._is_formed = True

    def succeed(self, before: JoinRuntime) -> None:
        """Take the place of an open group that had other founders."""
        self._readers.update(before._readers)
        self._progress.ended = before._progress.ended

    def join_as(self, member: GroupMember, reader: ChangeListener) -> None:
        with self._state:
            self._members.setdefault(member.serial, member)
        self.join(member.serial, reader)
        why = self._group.failed.get(str(member.serial))
        if why is not None:
            reader.fail(str(why), reported=True)

    def _handle_of(self, member: GroupMember) -> Query | None:
        return self._around.handle(member.name, member.serial)

    def _synchronise(self) -> None:
        """Between two epochs queries come and go."""
        with self._state:
            members = dict(self._members)
        inside = {int(serial) for serial in self._group.members}
        for serial, member in members.items():
            is_registered = self._handle_of(member) is not None
            if is_registered and serial not in inside:
                self._enter(member)
                self._entered.append(member)
            elif not is_registered and serial in inside:
                self._leave(serial)
                self._left.append(serial)

    def _enter(self, member: GroupMember) -> None:
        self._group.enter(str(member.serial), self._around.bind(member.text))

    def _leave(self, serial: int) -> None:
        self._group.leave(str(serial))
        self._last.pop(serial, None)
        with self._state:
            self._members.pop(serial, None)

    def is_crowded(self, query: JoinedAggregate) -> bool:
        """Whether the groups of a query were too many to go on with."""
        return self._group.is_crowded(query)

    def _release(self) -> None:
        super()._release()
        self._group = self._new_group()

    # -- answers -------------------------------------------------------------------------------------

    def rows_of(self, serial: int, schema: pa.Schema) -> pa.Table:
        return self._last.get(serial, schema.empty_table())

    def count_of(self, serial: int) -> int:
        return len(self._last.get(serial, ()))

    def _fold(self) -> Fold:
        if not self._is_whole:
            self._load(delivered=None)
            self._is_whole = True
        # Before queries come and go: as it is repeated.
        self._use(self._around.policy())
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
        if self._has_ended(progress):
            yield from self._group.ahead(max(progress.latest.values()), progress.begins)

    def _has_ended(self, progress: PlanProgress) -> bool:
        return bool(progress.latest) and progress.ended == sorted(self.streams)

    def _has_last_words(self, after: PlanProgress) -> bool:
        return self._has_ended(after) and self._group.may_look_ahead(max(after.latest.values()), after.begins)

    def _give(self, answers: Iterable[JoinAnswer], progress: PlanProgress, delivered: bool | None) -> None:
        """To the queries that are still registered; `delivered` as for readers, None where all this is known."""
        failed, told = set(self._group.failed), list[Delivery]()
        for each in answers:
            serial = int(each.query)
            self._last[serial] = each.table
            member = self._members[serial]
            handle = None if delivered is None else self._handle_of(member)
            if handle is None:
                continue
            known = progress.complete_from(each.reaches)
            complete = known is not None and each.as_of >= known
            answer = Answer(member.name, to_datetime(each.as_of), complete, each.scheduled, each.table)
            handle._remember(answer)
            if not delivered:
                told.append((handle, answer))
        deliver(told, by_plan=True)
        for name in self._group.failed.keys() - failed:
            reader = self._readers.get(int(name))
            if reader is not None and delivered is not None:
                reader.fail(str(self._group.failed[name]), reported=delivered)

    def predicted(self, policy: Policy) -> float:
        """What its queries would cost per microsecond under a policy."""
        return self._group.predicted(policy)

    def executed(self) -> Iterator[Executed]:
        """What was executed lately, with the names of the queries."""
        label = f"join of {', '.join(stream.name for stream in self.streams.values())}"
        names = {str(serial): member.name for serial, member in list(self._members.items())}
        for each in self._group.timeline.executed(self._group):
            turns = []
            for turn in each.turns:
                # Who has just come is not known here yet.
                queries = tuple(names[serial] for serial in turn.queries if serial in names)
                turns.append(replace(turn, group=f"{label}, {turn.group}", queries=queries))
            yield replace(each, pane_table=label, turns=tuple(turns))

    # -- commit and recovery -------------------------------------------------------------------------

    def _commit(self, after: PlanProgress, changes: Changes, tables: Sequence[pa.Table] = ()) -> None:
        moved = (self._entered, self._left)
        self._journal.append(JoinEntry(after, *moved, self._policy, self._most.groups, list(tables)))
        self._progress = after
        self._entered, self._left = [], []
        self._journal.compact(self._snapshot)

    def _snapshot(self) -> JoinSnapshot:
        inside = [self._members[int(serial)] for serial in self._group.members]
        return JoinSnapshot(self._progress, self._group.save(), inside, self._policy, self._last)

    def recover(self) -> None:
        """As the log has it. Answers since the last snapshot are remembered, not delivered again."""
        if self._journal.is_durable:
            self._load(delivered=True)
            if self.failed is not None:
                self._release()
            self._remove_files(None, self._progress)

    def _load(self, delivered: bool | None) -> None:
        """The group as of the last commit; `delivered` is None where its answers are remembered already."""
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
        self._use(self._around.policy())
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


# Opens the runtime of a layout in a directory: founders, layout, directory.
Open = Callable[[Sequence[GroupMember], JoinLayout, Path], JoinRuntime]


class JoinGroups:
    """Of one session; the caller keeps those that run, and holds the lock of all plans."""

    def __init__(self, around: Surroundings, open_: Open) -> None:
        self.around = around
        self._open = open_

    def opened(self, directory: Path, first: GroupMember | None) -> JoinRuntime:
        """As it was left; where nobody has founded it yet, `first` does."""
        path = directory / "group.json"
        if not path.exists() and first is not None and not (directory / "log" / "manifest.json").exists():
            return self._founded(directory, [first], layout_of([first], self.around.bind))
        founders, signature = _read(path)
        layout = layout_of(founders, self.around.bind)
        if layout.signature != signature:
            raise _other_layout(founders)
        runtime = self._open(founders, layout, directory)
        runtime.recover()
        gone = [each.serial for each in founders if self.around.handle(each.name, each.serial) is None]
        return self.without(runtime, directory, gone)

    def with_founder(
        self, runtime: JoinRuntime, directory: Path, member: GroupMember, layout: JoinLayout
    ) -> JoinRuntime:
        """An open group with one more founder, which would keep this then."""
        return self._founded_anew(runtime, directory, [*runtime.founders, member], layout)

    def without(self, runtime: JoinRuntime, directory: Path, gone: Collection[int]) -> JoinRuntime:
        """A group as if queries that are gone had not founded it, while it is open; else what it keeps stays."""
        asked = zip(runtime.founders, runtime.layout.founders, strict=True)
        left = {member: query for member, query in asked if member.serial not in gone}
        if not runtime.is_open or not left or len(left) == len(runtime.founders):
            return runtime
        layout = JoinLayout(list(left.values()), JoinLoad(groups=max(member.groups for member in left)))
        return self._founded_anew(runtime, directory, list(left), layout)

    def _founded_anew(
        self, runtime: JoinRuntime, directory: Path, founders: Sequence[GroupMember], layout: JoinLayout
    ) -> JoinRuntime:
        found = self._founded(directory, founders, layout)
        found.succeed(runtime)
        return found

    def _founded(self, directory: Path, founders: Sequence[GroupMember], layout: JoinLayout) -> JoinRuntime:
        make_directory(directory)
        write_facts(directory / "group.json", {"founders": founders, "layout": layout.signature})
        return self._open(founders, layout, directory)

    def layout_with(self, runtime: JoinRuntime, asked: JoinedAggregate, groups: int) -> JoinLayout | None:
        """What a group would keep with one query more; None if it cannot join."""
        layout = runtime.layout
        if not runtime.is_open:
            can_join = runtime.failed is None and layout.place_of(asked) is not None and not runtime.is_crowded(asked)
            return layout if can_join else None
        founders = [*layout.founders, asked]
        load = JoinLoad(groups=max(groups, layout.load.groups))
        return JoinLayout(founders, load) if shared_rows(founders) is not None else None

    def why_not(self, runtime: JoinRuntime, asked: JoinedAggregate) -> str:
        """In a few words, why a query cannot join a group."""
        if runtime.failed is not None:
            return "their join has failed"
        if runtime.is_open:
            return "one name would stand for two columns"
        if runtime.is_crowded(asked):
            return "their groups were too many"
        return runtime.layout.why_not(asked) or "it can"

    def check(self, runtime: JoinRuntime, asked: JoinedAggregate) -> None:
        if runtime.layout.place_of(asked) is None:
            raise _other_layout(runtime.founders)


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
