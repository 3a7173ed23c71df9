"""The journal: what epochs did, as typed entries, and the one loop that recovers from them.

    commit     BatchEntry, .. ──► facts as JSON, tables as Arrow ──► the epoch log (storage/epochs.py)
    recovery   the epoch log ──► snapshot: load ──► entry: apply ──► entry: apply ──► ..

A log has the entries of one family: of a stream (`STREAM`), of a continuous plan (`PLAN`), of a set operation (`SET`)
or of a group of aggregates over a join (`JOIN`). Each kind of entry and of snapshot is a dataclass in this file. The
fields are the format: a fact has the name of its field and is read by the type of the field, a table has the name in
the field's metadata. No other module knows these names. A change of a field is a change of FORMAT.

Schedulers and the windows of set operations are parts of snapshots and write their own JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, get_args, get_origin, get_type_hints

import pyarrow as pa

from sash.changes.bucket_state import Manifest
from sash.core.time import BEGINNING, Micros
from sash.plan.reach import Reach, complete_from
from sash.runtime.settings import Settings
from sash.runtime.statistics import GroupStatistics, StreamStatistics
from sash.sharing.choose import Prices
from sash.storage.epochs import KEEP_ALL, LASTING, Entry, EpochLog, Intent, Snapshot

# The format of checkpoints. A checkpoint of another format is refused (checkpoint.py).
FORMAT = 6

Facts = dict[str, Any]
E = TypeVar("E")
S = TypeVar("S")
T = TypeVar("T")


class JournalEntry(Protocol):
    def record(self) -> Entry: ...


class JournalSnapshot(Protocol):
    def record(self) -> Snapshot: ...


@dataclass(frozen=True)
class Family(Generic[E, S]):
    """How the entries and the snapshots of one kind of log are read."""

    entry: Callable[[Entry], E]
    snapshot: Callable[[Snapshot], S]


class StoredResults(Protocol):
    """Results that queries have stored from the answers of a log (answers/kept_result.py), by serial number."""

    def save(self) -> dict[str, pa.Table]: ...

    def load(self, saved: Mapping[str, pa.Table]) -> None: ...


class Journal:
    """The journal of a stream or a plan. A session without a checkpoint has no log: its journal does nothing.

    `results` are stored results: entries repeat their answers, and snapshots have what came before.
    """

    def __init__(self, log: EpochLog | None, results: StoredResults | None = None) -> None:
        self._log = log
        self._results = results
        # Whether the results are at least as young as the log's.
        self._is_current = False

    @property
    def is_durable(self) -> bool:
        return self._log is not None

    def intend(self, epoch: int, intent: Intent) -> Intent:
        """What a micro-batch sees: what its first attempt saw, else what is given."""
        return intent if self._log is None else self._log.intend(epoch, intent)

    def intends_more_than(self, epoch: int) -> bool:
        return self._log is not None and self._log.intends_more_than(epoch)

    def append(self, entry: JournalEntry) -> None:
        """Commit an epoch."""
        if self._log is not None:
            self._log.append(entry.record())
            self._is_current = True

    def compact(self, snapshot: Callable[[], JournalSnapshot], edge: Micros = KEEP_ALL) -> Snapshot | None:
        """If there are many entries, replace them by a snapshot and return it; rows that last beyond `edge` stay."""
        if self._log is None or not self._log.wants_snapshot:
            return None
        written = _with_results(snapshot().record(), {} if self._results is None else self._results.save())
        self._log.compact(written, edge)
        return written

    def replay(
        self, family: Family[E, S], load: Callable[[S], None], apply: Callable[[E], None]
    ) -> tuple[Snapshot | None, int]:
        """Load the last snapshot, apply the entries after it, and return the snapshot and the number of entries.

        Stored results are loaded once: who replays again in the same session has them already.
        """
        if self._log is None:
            return None, 0
        snapshot, applied = self._log.snapshot(), 0
        if snapshot is not None:
            snapshot, stored = _without_results(snapshot)
            load(family.snapshot(snapshot))
            if self._results is not None and not self._is_current:
                # Afterwards: a plan that is loaded tells its queries of the rows that stand.
                self._results.load(stored)
        for entry in self._log.entries():
            apply(family.entry(entry))
            applied += 1
        self._is_current = True
        return snapshot, applied


# The serial numbers of the queries whose stored results are the last tables of a snapshot.
_RESULTS = "kept_results"


def _with_results(snapshot: Snapshot, stored: Mapping[str, pa.Table]) -> Snapshot:
    if not stored:
        return snapshot
    state = {**snapshot.state, _RESULTS: list(stored)}
    return replace(snapshot, state=state, tables=[*snapshot.tables, *stored.values()])


def _without_results(snapshot: Snapshot) -> tuple[Snapshot, dict[str, pa.Table]]:
    """The inverse of `_with_results`."""
    serials = snapshot.state.get(_RESULTS, [])
    own = len(snapshot.tables) - len(serials)
    return replace(snapshot, tables=snapshot.tables[:own]), dict(zip(serials, snapshot.tables[own:], strict=True))


# -- fields as facts and tables --------------------------------------------------------------------------

# Metadata of a field whose facts and tables are written among those of the enclosing dataclass.
_FLAT: Mapping[str, Any] = {"flat": True}
# Metadata of tables that are written by their place instead of a name.
_PLACED: Mapping[str, Any] = {"table": None}
# The log writes these fields apart from the facts.
_HEAD = ("epoch", "version")
_NO_TABLES: Mapping[str, pa.Table] = {}


def _table(name: str) -> Mapping[str, Any]:
    """Metadata of a field that is a table: the name of the table in its entry."""
    return {"table": name}


def _facts(value: Any) -> Facts:
    """A dataclass as JSON, without its tables. A field that is None by default is left out if it is None."""
    found: Facts = {}
    for each, held in _held(value):
        if each.metadata == _FLAT:
            found |= _facts(held)
        elif "table" not in each.metadata and each.name not in _HEAD and (held is not None or each.default is not None):
            found[each.name] = _plain(held)
    return found


def _tables(value: Any) -> dict[str, pa.Table]:
    found: dict[str, pa.Table] = {}
    for each, held in _held(value):
        if each.metadata == _FLAT:
            found |= _tables(held)
        elif "table" in each.metadata and held is not None:
            found[each.metadata["table"]] = held
    return found


def _held(value: Any) -> Iterator[tuple[Field[Any], Any]]:
    return ((each, getattr(value, each.name)) for each in fields(value))


def _plain(value: Any) -> Any:
    """A value as JSON. It is a copy: the log writes an entry again with each later one, as it was at its commit."""
    if is_dataclass(value):
        return _facts(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _read(kind: type[T], facts: Facts, tables: Mapping[str, pa.Table] = _NO_TABLES, /, **given: Any) -> T:
    """The inverse of `_facts` and `_tables`. `given` are fields that the caller has read."""
    hints = _hints(kind)  # type: ignore[arg-type]
    for each in fields(kind):  # type: ignore[arg-type]
        if each.name in given:
            continue
        if each.metadata == _FLAT:
            given[each.name] = _read(hints[each.name], facts, tables)
        elif each.metadata.get("table") in tables:
            given[each.name] = tables[each.metadata["table"]]
        elif "table" not in each.metadata and each.name in facts:
            given[each.name] = _typed(hints[each.name], facts[each.name])
    return kind(**given)


_hints = cache(get_type_hints)


def _typed(hint: Any, value: Any) -> Any:
    """A value of JSON as a value of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin is UnionType:
        return _typed(next(part for part in parts if part is not NoneType), value)
    if origin is list:
        return [_typed(parts[0], each) for each in value]
    if origin is dict:
        return {name: _typed(parts[1], each) for name, each in value.items()}
    if origin is tuple:
        return tuple(value)
    if is_dataclass(hint):
        return _read(hint, value)  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, tuple):
        return hint(*(_typed(each, part) for each, part in zip(_hints(hint).values(), value, strict=False)))
    return hint(value) if isinstance(hint, type) and issubclass(hint, StrEnum) else value


# -- streams ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayedSettings:
    """The settings that decide what is stored and who is answered. Recovery applies an entry with its settings."""

    policy: str
    share_predicates: str
    max_groups: int
    max_rows: int
    cluster_groups: int

    @classmethod
    def of(cls, now: Settings) -> ReplayedSettings:
        return cls(now.policy, now.share_predicates, now.max_groups, now.max_rows, now.cluster_groups)

    def over(self, now: Settings) -> Settings:
        """The current settings, with these in their place."""
        return replace(now, **vars(self))


class JumpedTuples(NamedTuple):
    """How many tuples MAX JUMP has kept out of a micro-batch, and the time of the first."""

    tuples: int = 0
    first: Micros = 0


NONE_JUMPED = JumpedTuples()


class ServiceStep(StrEnum):
    """A whole service, or one whose executions fly, or flights that begin again (periodic/flight.py).

    In a log of an earlier version: FLY, a single flight whatever departs; or one step of an execution beside slides
    (periodic/beside.py).
    """

    WHOLE = "whole"
    DEPART = "depart"
    AGAIN = "again"
    FLY = "fly"
    BEGIN = "begin"
    SLIDE = "slide"
    COMMIT = "commit"


class GroupService(NamedTuple):
    """The group of panes at `place` was brought to a position and served there, `early` if before its deadline.

    `number`: which execution beside slides was committed.
    """

    place: int
    position: int
    early: bool = False
    step: ServiceStep = ServiceStep.WHOLE
    number: int = -1


@dataclass(frozen=True)
class ClusterChanges:
    """The effect of an epoch on pane tables in the cluster.

    `moved` are the directories of tables that have moved there, and `moved_files` their files. `pane_files` are the
    files that the micro-batch has written. `failed_there` has queries that failed in a job: as of when, and why.
    `lists` has, by directory, the short lists of panes that close, and the ends of the panes.
    """

    moved: list[str] = field(default_factory=list)
    failed_there: dict[str, tuple[Micros, str]] = field(default_factory=dict)
    moved_files: pa.Table | None = field(default=None, metadata=_table("moved"))
    pane_files: pa.Table | None = field(default=None, metadata=_table("panes"))
    lists: pa.Table | None = field(default=None, metadata=_table("lists"))


@dataclass(frozen=True, kw_only=True)
class StreamEntry:
    """The fields of every entry of a stream; `epoch` is the last micro-batch.

    `failed` has queries, by serial number, whose expressions have failed in Spark, and why. For row-based windows,
    `counted` are the partials of tuples that got their numbers, and `pending` the tuples that have no number yet.
    First flights of the groups at the places `landed` have landed: a place comes once for each of its flights.
    `has_lists`: queries that came with the entry may read short lists; earlier versions of Sash had none.
    """

    kind: ClassVar[str]
    epoch: int
    version: int
    settings: ReplayedSettings
    failed: dict[str, str]
    has_lists: bool = False
    cluster: ClusterChanges = field(default_factory=ClusterChanges, metadata=_FLAT)
    counted: pa.Table | None = field(default=None, metadata=_table("counted"))
    pending: pa.Table | None = field(default=None, metadata=_table("pending"))
    landed: list[int] | None = None

    def record(self) -> Entry:
        return Entry(self.kind, self.epoch, self.version, _facts(self), _tables(self))

    @staticmethod
    def read(entry: Entry) -> StreamEntry:
        kind = next(each for each in (BatchEntry, HeartbeatEntry, EndEntry, LandingEntry) if each.kind == entry.kind)
        return _read(kind, entry.facts, entry.tables, epoch=entry.epoch, version=entry.version)


@dataclass(frozen=True, kw_only=True)
class BatchEntry(StreamEntry):
    """A micro-batch. `partials` is the result of the pass, `prices` has groups of panes that change theirs, by label.

    `missed` tuples came too late for continuous plans or for the stored window. SHED kept one tuple of `one_in`.
    `services` is what a hurried advance did, over time and over tuples; None stands for an unhurried advance. `kept`
    has the rows for the stored window, which needs them until `lasts`. `input` has the units of the source in the
    micro-batch and the seconds that the micro-batch took, if somebody measures them.
    """

    kind = "batch"
    partials: pa.Table = field(metadata=_table("batch"))
    prices: dict[str, Prices]
    missed: int
    one_in: int
    jumped: JumpedTuples
    services: list[list[GroupService]] | None = None
    kept: pa.Table | None = field(default=None, metadata=_table(LASTING))
    lasts: Micros | None = None
    input: tuple[int, float] | None = None


@dataclass(frozen=True, kw_only=True)
class HeartbeatEntry(StreamEntry):
    """No tuple before `watermark` is to come."""

    kind = "heartbeat"
    watermark: Micros


@dataclass(frozen=True, kw_only=True)
class EndEntry(StreamEntry):
    """The end of input, or IDLE AFTER. `is_end`: of input, which is the end of all sessions."""

    kind = "end"
    is_end: bool = False


@dataclass(frozen=True, kw_only=True)
class LandingEntry(StreamEntry):
    """Flights have landed between two micro-batches; nothing else happened."""

    kind = "landing"


@dataclass(frozen=True)
class SavedQuery:
    """A periodic query. `valid_from` and `covered` have an item per reading; a cover is written as its conditions.

    `by_lists`: it reads short lists instead of all counts.
    """

    ends_at: Micros | None
    resting: bool
    answered: int | None
    lateness: int
    valid_from: list[int | None]
    covered: list[list[Any] | None]
    by_lists: bool = False


@dataclass(frozen=True)
class SavedFlight:
    """An execution that has not landed. `later` has the files, by group, that have come since for its panes."""

    as_of: int
    queries: list[str]
    later: dict[str, list[str]]


@dataclass(frozen=True)
class SavedPaneGroup:
    """A group of panes. Its panes are a table of the snapshot (panes/pane_rows.py).

    `open_files` are rows of FILES (panes/cluster_panes.py), if the open panes of short lists are in files. Earlier
    versions had one `flight`.
    """

    name: list[object]
    in_cluster: bool
    length: int
    now: int | None
    origin: int | None
    retained_from: int | None
    history_from: int | None
    stamps: list[list[int]]
    coarse: list[tuple[int, int]]
    since: list[list[object]]
    leaders: list[str]
    scheduler: Facts
    prices: Prices
    judgement: list[float]
    statistics: GroupStatistics
    flight: SavedFlight | None = None
    flights: list[SavedFlight] = field(default_factory=list)
    open_files: list[dict[str, Any]] = field(default_factory=list)
    ends: list[Micros] = field(default_factory=list)


@dataclass(frozen=True)
class SavedRuntime:
    """The runtime of a stream's periodic queries (periodic/stream_snapshot.py), with a table of panes per group."""

    latest: Micros | None
    watermark: Micros | None
    counted: int
    waiting: int
    queries: dict[str, SavedQuery]
    statistics: StreamStatistics
    groups: list[SavedPaneGroup]
    tables: list[pa.Table] = field(metadata=_PLACED)


@dataclass(frozen=True)
class SavedWindow:
    """A stored window (stored/stored_window.py). The log keeps its rows as entries brought them (`BatchEntry.kept`)."""

    now: Micros | None
    since: Micros | None
    gave_up_at: int | None
    lost: Micros


@dataclass(frozen=True)
class StreamSnapshot:
    """`failed` and `ended` have queries by serial number. `rows` are the stored window's, once the snapshot is read."""

    epoch: int
    version: int
    settings: ReplayedSettings
    failed: dict[str, str]
    ended: list[str]
    runtime: SavedRuntime = field(metadata=_FLAT)
    input: tuple[float, float]
    kept: SavedWindow | None = None
    pending: pa.Table | None = field(default=None, metadata=_table("pending"))
    rows: list[pa.Table] = field(default_factory=list, metadata=_PLACED)

    def record(self) -> Snapshot:
        waiting = [] if self.pending is None else [self.pending]
        state = {**_facts(self), "pending": bool(waiting)}
        return Snapshot(self.epoch, self.version, state, [*self.runtime.tables, *waiting])

    @classmethod
    def read(cls, found: Snapshot) -> StreamSnapshot:
        tables = list(found.tables)
        pending = tables.pop() if found.state["pending"] else None
        runtime = _read(SavedRuntime, found.state, tables=tables)
        return _read(
            cls,
            found.state,
            epoch=found.epoch,
            version=found.version,
            runtime=runtime,
            pending=pending,
            rows=found.lasting,
        )


STREAM: Family[StreamEntry, StreamSnapshot] = Family(StreamEntry.read, StreamSnapshot.read)


# -- continuous plans ------------------------------------------------------------------------------------


class Beginning(NamedTuple):
    """For one stream and one plan: where the plan's tuples begin, and up to where earlier ones were missed."""

    origin: Micros | None = None
    missed: Micros | None = None

    @property
    def since(self) -> Micros | None:
        """From when on all tuples are here; None before the first tuple."""
        return self.origin if self.origin is None or self.missed is None else max(self.origin, self.missed)


@dataclass(frozen=True)
class PlanReplacement:
    """Another plan, which runs after an epoch: its digest, and the text and the numbers that it is made of again.

    It replaced the plan before at an event time, because it was expected to cost less: microseconds per second. It is
    the replacement with this number.
    """

    after_epoch: int
    at: Micros
    digest: str
    text: str
    measurements: list[tuple[str, str, float]]
    before: float
    after: float
    number: int = 1


@dataclass
class PlanProgress:
    """What a plan has taken of each stream, and how far its time has gone; a commit writes it."""

    low: Micros = BEGINNING
    number: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, Micros] = field(default_factory=dict)
    latest: dict[str, Micros] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    late: int = 0
    # How many tuples of each stream's last micro-batch came too late: a replay asks again.
    missed: dict[str, int] = field(default_factory=dict)
    failed: str | None = None
    # Since when the plan has the tuples of each stream.
    begun: dict[str, Beginning] = field(default_factory=dict)
    # The serial numbers of queries that have had an answer. An entry has them only if they differ from the entry
    # before; earlier checkpoints do not have them.
    answered: list[int] | None = None
    # When the lives of queries with a LIFETIME end, by their serial numbers.
    lives: dict[str, Micros] = field(default_factory=dict)
    # How many tuples broke a promise.
    broken: int = 0
    # The plan began with stored rows. Up to this time it made up for the past, which no query is told of.
    quiet: Micros | None = None
    # Of joins that share a state: the lengths of its windows, and whether its rows carry expiries.
    windows: list[int] | None = None
    expiries: bool = False
    # The plan that runs instead of the registered one. An entry has it only if it is the first with this plan.
    replaced: PlanReplacement | None = None

    def since(self, before: PlanProgress) -> PlanProgress:
        """The part of the progress that an entry writes after another one."""
        return replace(
            self,
            answered=None if self.answered == before.answered else self.answered,
            replaced=None if self.replaced == before.replaced else self.replaced,
        )

    def after(self, before: PlanProgress) -> PlanProgress:
        """The inverse of `since`."""
        answered = before.answered if self.answered is None else self.answered
        return replace(self, answered=answered, replaced=self.replaced or before.replaced)

    def following(self) -> PlanProgress:
        """A copy for the next epoch, which the epoch changes."""
        return replace(
            self,
            number=self.number + 1,
            taken=dict(self.taken),
            watermarks=dict(self.watermarks),
            latest=dict(self.latest),
            ended=list(self.ended),
            missed=dict(self.missed),
            begun=dict(self.begun),
            lives=dict(self.lives),
        )

    def complete_from(self, needed: Iterable[Reach]) -> Micros | None:
        """The first time as of which answers with this reach are complete."""
        since = {name: each.since for name, each in self.begun.items() if each.since is not None}
        return complete_from(needed, since, [name for name, each in self.begun.items() if each.missed is None])

    def is_quiet(self, as_of: Micros) -> bool:
        """Whether an answer is of the time before its queries came."""
        return self.quiet is not None and as_of <= self.quiet

    def is_over(self, serial: int, instant: Micros) -> bool:
        """Whether an instant is after the life of a query."""
        return instant > self.lives.get(str(serial), instant)

    @property
    def begins(self) -> Micros | None:
        """The first tuple of all streams comes after this; None before there is one."""
        return min((each.origin for each in self.begun.values() if each.origin is not None), default=None)


@dataclass(frozen=True)
class PlanEntry:
    """An epoch of a plan: the changes of its answer."""

    progress: PlanProgress = field(metadata=_FLAT)
    changes: pa.Table | None = field(default=None, metadata=_table("changes"))

    def record(self) -> Entry:
        return Entry("batch", self.progress.number, 0, _facts(self), _tables(self))

    @classmethod
    def read(cls, entry: Entry) -> PlanEntry:
        return _read(cls, entry.facts, entry.tables)


@dataclass(frozen=True)
class PlanSnapshot:
    """The rows that stand in the answer of a plan."""

    progress: PlanProgress = field(metadata=_FLAT)
    rows: pa.Table = field(metadata=_PLACED)

    def record(self) -> Snapshot:
        return Snapshot(self.progress.number, 0, _facts(self), [self.rows])

    @classmethod
    def read(cls, found: Snapshot) -> PlanSnapshot:
        return _read(cls, found.state, rows=found.tables[0])


@dataclass(frozen=True)
class SetEntry:
    """An epoch of a set operation: the values of its panes, counted."""

    progress: PlanProgress = field(metadata=_FLAT)
    counts: pa.Table | None = field(default=None, metadata=_table("counts"))

    def record(self) -> Entry:
        return Entry("batch", self.progress.number, 0, _facts(self), _tables(self))

    @classmethod
    def read(cls, entry: Entry) -> SetEntry:
        return _read(cls, entry.facts, entry.tables)


@dataclass(frozen=True)
class SetSnapshot:
    """The windows of a set operation with their tables (changes/set_counts.py), and its last answer."""

    progress: PlanProgress
    sets: Facts
    stored: list[pa.Table] = field(metadata=_PLACED)
    last: pa.Table = field(metadata=_PLACED)

    def record(self) -> Snapshot:
        return Snapshot(self.progress.number, 0, _facts(self), [*self.stored, self.last])

    @classmethod
    def read(cls, found: Snapshot) -> SetSnapshot:
        return _read(cls, found.state, stored=found.tables[:-1], last=found.tables[-1])


class GroupMember(NamedTuple):
    """A query of a group in its file; `groups` is the expected number of groups."""

    serial: int
    name: str
    text: str
    groups: int = 1


@dataclass(frozen=True)
class JoinEntry:
    """An epoch of a group: the results of the join, and the queries that came (`entered`) and went (`left`) before it.

    `policy` and `most_groups` are the settings of the epoch.
    """

    progress: PlanProgress
    entered: list[GroupMember]
    left: list[int]
    policy: str
    most_groups: int
    partials: list[pa.Table] = field(metadata=_PLACED)

    def record(self) -> Entry:
        tables = {str(place): table for place, table in enumerate(self.partials)}
        return Entry("batch", self.progress.number, 0, _facts(self), tables)

    @classmethod
    def read(cls, entry: Entry) -> JoinEntry:
        return _read(cls, entry.facts, partials=[entry.tables[name] for name in sorted(entry.tables, key=int)])


@dataclass(frozen=True)
class SavedJoinGroup:
    """The synopses of a group, with their tables (continuous/join_group.py).

    `queries` has, by serial number, whether a query rests, whether it is awake, and as of when it was answered ahead.
    `crowded` are the places of synopses that had too many groups.
    """

    now: Micros | None
    looked_at: Micros
    queries: dict[str, tuple[bool, bool, Micros | None]]
    schedule: Facts
    panes: list[Micros | None]
    failed: dict[str, str]
    crowded: list[int]
    tables: list[pa.Table] = field(metadata=_PLACED)


@dataclass(frozen=True)
class JoinSnapshot:
    """A group with its members, and the last answer of each query by serial number."""

    progress: PlanProgress
    group: SavedJoinGroup
    members: list[GroupMember]
    policy: str
    last: dict[int, pa.Table] = field(metadata=_PLACED)

    def record(self) -> Snapshot:
        state = {**_facts(self), "last": list(self.last)}
        return Snapshot(self.progress.number, 0, state, [*self.group.tables, *self.last.values()])

    @classmethod
    def read(cls, found: Snapshot) -> JoinSnapshot:
        serials, synopses = found.state["last"], len(found.tables) - len(found.state["last"])
        group = _read(SavedJoinGroup, found.state["group"], tables=found.tables[:synopses])
        return _read(cls, found.state, group=group, last=dict(zip(serials, found.tables[synopses:], strict=True)))


PLAN: Family[PlanEntry, PlanSnapshot] = Family(PlanEntry.read, PlanSnapshot.read)
SET: Family[SetEntry, SetSnapshot] = Family(SetEntry.read, SetSnapshot.read)
JOIN: Family[JoinEntry, JoinSnapshot] = Family(JoinEntry.read, JoinSnapshot.read)
