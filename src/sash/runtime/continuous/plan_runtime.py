"""A running continuous plan: the epochs of its streams in, changes out, state committed by epoch.

    stream S, micro-batch e ──┐
    stream T, micro-batch f ──┴─► take: 1  taken already? skip: Spark replays what it is not sure about
                                        2  the least watermark of the streams says how far time goes
                                        3  Spark's job: buckets step from `low` to `high`, write their state;
                                           what is too much to keep fails the plan
                                        4  hand the changes to the queries that have this plan
                                        5  append to the log: changes, manifests, what was taken from whom

A plan has a log of its own, beside those of its streams. A stream commits a micro-batch after its plans have taken it,
so a crash between the two replays the micro-batch and the plan skips it. A crash before 5 replays the epoch: its
changes may be seen again, state never counts them twice.

Two locks, because subscribers are called in the middle of an epoch and may call any method of their session:

    _turn    one epoch after the other; held while subscribers are called. Only the threads of streams take it.
    _state   what is committed and who reads it; held for a moment, and no callback is called under it.

The order of all locks is: a stream's, a plan's turn, the session's (or the isolation level's), that of all plans
(plans.py), a plan's state. A thread that registers, looks at a view or asks for statistics comes from the session's
lock and goes on to a plan's state; it never waits for a turn, so no callback waits for it in vain.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from sash.catalog import StoredIndex, Stream
from sash.changes import bucket_state
from sash.changes.buffers import changes_of, table_of
from sash.changes.join_partials import Fold
from sash.changes.live_tuples import are_same
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, QueryFailedError
from sash.core.events import report
from sash.core.time import BEGINNING, Micros, to_datetime
from sash.panes.compositions import in_order
from sash.plan.choice import Choice, choose
from sash.plan.continuous import NT, UPA, Node, is_stream, sampling_of, streams_of, table_joins, windows
from sash.plan.estimates import Statistics
from sash.plan.nodes import AnswerOrder
from sash.plan.punctuations import Promise, promised_columns
from sash.plan.reach import reaches
from sash.plan.rewrites import optimise
from sash.runtime.answers.change_view import ChangeView, EndlessView
from sash.runtime.answers.registered_query import Delivery, deliver
from sash.runtime.continuous.beginnings import PlanPanes, StoredBeginning, panes_of
from sash.runtime.continuous.replanning import LOOK_EVERY, MOST_MOVED, Replanner, why_fixed
from sash.runtime.limits import USUAL, PlanLimits, too_many_rows
from sash.runtime.observed import ObservedWindows, RecentRates, parts_taken_back
from sash.runtime.records.journal import (
    PLAN,
    Journal,
    JournalSnapshot,
    PlanEntry,
    PlanProgress,
    PlanReplacement,
    PlanSnapshot,
    StoredResults,
)
from sash.runtime.records.session_tables import Tables
from sash.runtime.spark_pass import Batch, BatchTimes
from sash.sharing.rules import Decision
from sash.spark.buckets import BucketedPlan, EpochOutcome, PlanEpoch
from sash.spark.leaves import Leaves
from sash.spark.spark_faults import first_line, is_of_data
from sash.storage.epochs import EpochLog
from sash.storage.files import remove, sync_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sash.runtime.continuous.join_layout import JoinLayout
    from sash.runtime.continuous.plans import PlanDirectories
    from sash.runtime.route import RouteDecision
    from sash.runtime.statistics import ExecutionRecord
    from sash.schedule import Policy

logger = logging.getLogger("sash.runtime")

_REPLACED = (
    "the plan of query %(query)s was replaced as of %(as_of)s: %(after).0f microseconds per second are expected, not "
    "%(before).0f"
)
_KEPT = "the plan of query %(query)s stays as of %(as_of)s: the rows of a cheaper one have other expiries or roundings"


@dataclass(frozen=True)
class PlanParts:
    """The parts of a running plan: streams, buckets, the directory of their state, its log, the tables it joins.

    Without a log nothing survives. `most` limits what the plan may keep. `results` are those that its queries store.
    """

    streams: Sequence[Stream]
    bucketed: BucketedPlan
    directory: Path
    log: EpochLog | None
    tables: Tables | None = None
    most: PlanLimits = USUAL
    results: StoredResults | None = None


@dataclass(frozen=True, kw_only=True)
class ContinuousQuery:
    """A registered query with its plan; `state` is the name of the plan's directory. `written` is the plan as the user
    has written it.

    This class is the kind of the route CHANGES. The other routes have a subclass each, beside their runtime.
    """

    plan: Node
    written: Node
    execution: str = UPA
    name: str = ""
    serial: int = 0
    text: str = ""
    state: str = ""
    lifetime: Micros | None = None
    order: AnswerOrder | None = None

    # The prefix of this kind's directories.
    prefix: ClassVar[str] = ""
    # Queries with different plans share a runtime, a group. In the other kinds a query that asks the same as a
    # registered query has the same plan, by the same statistics.
    is_grouped: ClassVar[bool] = False
    # A running state admits queries of this kind one by one; of the other kinds, all that have its digest.
    is_admitted: ClassVar[bool] = False

    @classmethod
    def choose(
        cls,
        written: Node,
        known: Statistics,
        execution: str,
        plans: Mapping[str, Node] | None = None,
        lazy: bool | None = None,
    ) -> Choice:
        """The plan, the strategy and the evaluation for a plan as it was written.

        `plans` are the best plans, if they are known; `lazy` is the evaluation that an earlier query has.
        """
        return choose(written, known, execution, plans).evaluated(known, lazy)

    @classmethod
    def of(cls, routed: RouteDecision, known: Statistics, execution: str, plan: Node | None = None) -> ContinuousQuery:
        """The query of a written plan. Without `plan` it gets the plan that `choose` found by the same statistics."""
        plan = plan or optimise(routed.written, known, execution)
        return cls(plan=plan, written=routed.written, execution=execution)

    @property
    def streams(self) -> tuple[str, ...]:
        return streams_of(self.plan)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(columns_of_tables(self.plan))

    @property
    def identity(self) -> str:
        """A text of everything that the stored state depends on: the executed plan, and the strategy."""
        return f"{self.execution} {self.plan!r}"

    @property
    def digest(self) -> str:
        return f"{self.prefix}{hashlib.sha256(self.identity.encode()).hexdigest()[:24]}"

    @property
    def why_fixed(self) -> str | None:
        """Why no other plan ever takes over while this one runs; None: another one may."""
        return why_fixed(self.plan, self.execution)

    def open(
        self, directories: PlanDirectories, members: Sequence[tuple[ContinuousQuery, ChangeListener]]
    ) -> PlanRuntime:
        """The runtime of this query's plan, recovered from its log, with the queries that have the plan."""
        runtime = self._new_runtime(directories)
        for query, reader in members:
            query.join(runtime, reader)
        runtime.load()
        return runtime

    def _new_runtime(self, directories: PlanDirectories) -> PlanRuntime:
        parts = directories.parts(self.plan, self.state, self.execution)
        return PlanRuntime(self.plan, parts, Replanner(self, directories))

    def join(self, runtime: PlanRuntime, reader: ChangeListener) -> None:
        """Become one of the queries of a running plan."""
        runtime.join(self.serial, reader)

    def ordered(self, answer: pa.Table) -> pa.Table:
        """The query's own answer: queries that share the plan may differ in ORDER BY and LIMIT."""
        return answer if self.order is None else in_order(answer, self.order)

    def alone(self) -> JoinLayout | None:
        """The layout of a group with this query alone, if queries are grouped."""
        return None


@dataclass(frozen=True)
class Admission:
    """Whether a query may use the state of other queries, or `why_not`.

    `rule`: by which sharing rule. `layout`: what a group of queries keeps with the query.
    """

    allowed: bool
    why_not: str | None = None
    rule: Decision | None = None
    layout: JoinLayout | None = None


@dataclass(frozen=True)
class EpochInstants:
    """The instants of some changes, the last one included; `low` is None for rows that stand already.

    Answers are complete from `complete_from` on, if that is known. The first tuple comes after `begins`.
    """

    low: Micros | None
    now: Micros
    complete_from: Micros | None = None
    begins: Micros | None = None


class ChangeListener(Protocol):
    """A query that has the plan. `lifetime` is how long the query lives, in event time; None: until it is dropped."""

    @property
    def lifetime(self) -> Micros | None: ...

    def take(self, changes: Changes, instants: EpochInstants) -> list[Delivery]: ...

    def answer(self, as_of: Micros, table: pa.Table, *, complete: bool) -> list[Delivery]: ...

    def fail(self, why: str, *, reported: bool) -> None: ...

    def end(self) -> None: ...


def columns_of_tables(plan: Node) -> dict[str, list[str]]:
    """The columns that a plan needs of each table that it joins."""
    found: dict[str, list[str]] = {}
    for node in table_joins(plan):
        known = found.setdefault(node.table.name, [])
        known += [column for _, column in node.columns if column not in known]
    return found


class PlanRuntime:
    """The runtime of one plan, with all the queries that have it: its readers, by their serial numbers."""

    # Whether Spark brings the tuples of small epochs to the Sash process.
    wants_tuples = True

    def __init__(self, plan: Node, parts: PlanParts, replanner: Replanner | None = None) -> None:
        self._adopt(plan, parts.bucketed)
        self.streams = {stream.name.lower(): stream for stream in parts.streams}
        self.view = EndlessView(plan.schema) if is_stream(plan) else ChangeView(plan.schema)
        self._sampling = sampling_of(plan)
        self._panes = PlanPanes() if self._sampling is None else panes_of(plan, self._sampling)
        self._reaches = reaches(plan)
        self._directory = parts.directory
        self._journal = Journal(parts.log, parts.results)
        self._tables, self._columns = parts.tables, columns_of_tables(plan)
        self._most = parts.most
        self._progress = PlanProgress()
        self._turn = threading.Lock()
        self._state = threading.Lock()
        self._readers: dict[int, ChangeListener] = {}
        # The stream's thread that has the turn and owns the files; and the work for when it leaves.
        self._worker: int | None = None
        self._afterwards: Callable[[], None] | None = None
        self._gone = False
        self._replanner = replanner
        self._recent = RecentRates(self.streams)
        # How many rows the state had after the last epoch.
        self._rows = 0

    def _adopt(self, plan: Node, bucketed: BucketedPlan) -> None:
        """Run a plan from now on."""
        self.plan = plan
        self._bucketed = bucketed
        self._windows = windows(plan)
        self.observed = ObservedWindows(self._windows, self.leaves.layout.places)

    @property
    def now(self) -> Micros:
        """The last instant that the answer includes."""
        return self._progress.low - 1

    @property
    def manifests(self) -> Mapping[str, bucket_state.Manifest]:
        """The state files of each bucket, as of the last commit."""
        return self._progress.manifests

    @property
    def late(self) -> int:
        return self._progress.late

    @property
    def replaced(self) -> PlanReplacement | None:
        """Since when, and why, another plan than the registered one runs."""
        return self._progress.replaced

    @property
    def broken(self) -> int:
        """How many tuples broke a promise."""
        return self._progress.broken

    @property
    def failed(self) -> str | None:
        return self._progress.failed

    @property
    def leaves(self) -> Leaves:
        return self._bucketed.leaves

    @property
    def buckets(self) -> int:
        return self.leaves.buckets

    @property
    def taken_back(self) -> dict[str, float]:
        """The parts of matched tuples that were taken back before they expired; not if every expiry is announced."""
        if self._bucketed.strategy == NT:
            return {}
        return parts_taken_back(self.plan, (manifest["counters"] for manifest in self.manifests.values()))

    def rows(self) -> tuple[Changes, Micros]:
        """The rows of the answer, and their instant."""
        with self._state:
            return self.view.rows(self.now), self.now

    def rows_of(self, serial: int) -> tuple[Changes, Micros]:
        """The rows of a query's answer, and their instant."""
        return self.rows()

    # -- indexes of the answer, which its queries share ------------------------------------------------

    def rows_having(self, index: StoredIndex, values: pa.Array) -> tuple[Changes, Micros]:
        """The rows of the answer with one of these values in an index's column, and their instant."""
        with self._state:
            return self.view.having(index, values, self.now), self.now

    def index_values(self, index: StoredIndex) -> int:
        """About how many different values an index has; it is made if it is not there."""
        with self._state:
            return len(self.view.index(index).directory)

    def drop_index(self, index: StoredIndex) -> None:
        with self._state:
            self.view.release(index)

    # -- readers ---------------------------------------------------------------------------------------

    @property
    def readers(self) -> int:
        return len(self._readers)

    def is_read_by(self, serial: int) -> bool:
        return serial in self._readers

    def answer(self, query: ContinuousQuery) -> pa.Table:
        """The rows of a query's answer as of now."""
        return self.rows()[0].rows

    def count_of(self, serial: int) -> int:
        """How many rows the answer of a query has."""
        with self._state:
            return self.view.count(self.now)

    def _present(self) -> dict[int, ChangeListener]:
        """The readers of this moment."""
        with self._state:
            return dict(self._readers)

    def join(self, serial: int, reader: ChangeListener) -> None:
        """Add a query: it gets the rows that stand, and every change after them."""
        with self._state:
            self._readers[serial] = reader
            self._stand({serial})
        if self.failed is not None:
            reader.fail(self.failed, reported=True)

    def admission(self, query: ContinuousQuery) -> Admission:
        """Whether a query may become one of the queries of this plan."""
        return Admission(True)

    def admit(self, query: ContinuousQuery) -> PlanRuntime | None:
        """The runtime that has the query from now on, though the query is not registered yet; None: not allowed."""
        return self if self.admission(query).allowed else None

    def leave(self, serial: int, afterwards: Callable[[], None], *, last: bool) -> bool:
        """Remove a query. The `last` one ends the plan: True, and `afterwards` runs when nobody works on the plan.

        Other queries may be registered that have not asked for the plan yet.
        """
        with self._state:
            self._readers.pop(serial, None)
            self.view.release(*self.view.indexes_of(serial))
            if self._readers or not last:
                return False
            self._gone = True
            if self._worker is not None:
                self._afterwards = afterwards
                return True
        afterwards()
        return True

    def without(self, gone: Sequence[int]) -> PlanRuntime:
        """The runtime that goes on when some queries are dropped: the same one."""
        return self

    def predicted(self, policy: Policy) -> float:
        """The cost of its executions per microsecond under a scheduling policy: none, if nothing is scheduled."""
        return 0.0

    def executed(self) -> Iterator[ExecutionRecord]:
        """The latest scheduled executions, with the names of the queries."""
        return iter(())

    def form(self) -> None:
        """An epoch is about to begin."""

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        with self._turn:
            with self._state:
                self._worker = threading.get_ident()
            try:
                yield
            finally:
                with self._state:
                    self._worker = None
                if self._afterwards is not None:
                    self._afterwards()

    @property
    def is_in_turn(self) -> bool:
        """Whether the calling thread works on the plan: it may be in a subscriber's callback."""
        return self._worker == threading.get_ident()

    @property
    def _rests(self) -> bool:
        return self._gone or self.failed is not None

    # -- time and tuples -------------------------------------------------------------------------------

    @contextmanager
    def _epoch(self) -> Iterator[None]:
        """An error of an expression fails the plan's queries; a lost worker or unwritable state stops the stream."""
        try:
            with self._in_turn():
                yield
        except Exception as error:
            if not is_of_data(error):
                raise
            self.fail(first_line(error))

    def take(self, batch: Batch) -> int:
        """Take a stream's micro-batch. Tuples wait until the least watermark of all streams has passed them."""
        name = batch.stream.lower()
        with self._epoch():
            if self.wants(name, batch.epoch):
                after = self._moved(name, batch.seen.latest, batch.watermark)
                after.taken[name] = batch.epoch
                self._note_beginning(name, batch.seen, after)
                self._recent.take(name, batch.number, batch.seen.latest)
                tuples = batch.tuples.get(self.leaves)
                if tuples is None:
                    tuples = self.leaves.of(batch.rows, self.streams[name])
                else:
                    self.observed.take(name, tuples, batch.number)
                self._step(tuples, after, far=batch.is_far)
                self._reconsider()
        return 0 if self.failed is not None else self._progress.missed.get(name, 0)

    def is_new_to(self, stream: str) -> bool:
        """Whether time has not begun for the plan, and the plan has taken nothing of a stream."""
        p, name = self._progress, stream.lower()
        return not self._rests and p.low == BEGINNING and name not in p.taken and name not in p.begun

    def open(self, stream: str, stored: StoredBeginning) -> None:
        """Begin with the stored rows of a stream, as if the plan had taken its micro-batches."""
        with self._epoch():
            if self.is_new_to(stream):
                name = stream.lower()
                after = self._moved(name, stored.latest, stored.watermark)
                after.taken[name], after.quiet = stored.epoch, BEGINNING
                after.begun[name] = self._panes.stored(stored.earliest, stored.missed)
                self._step(self.leaves.of(stored.rows, self.streams[name]), after, far=stored.are_far)

    def oldest_needed(self, stream: str, time: Micros | None) -> Micros | None:
        """At which time a stream begins to matter for the answer at a time and after; None: from the beginning on."""
        lengths = [reach.length for reach in self._reaches if reach.stream == stream.lower()]
        known = [length for length in lengths if length is not None]
        if time is None or len(known) < len(lengths):
            return None
        # With SLIDE the answer is that of the last multiple.
        return time - max(known) - (1 if self._sampling is None else self._sampling.slide)

    def complete_from(self, query: ContinuousQuery) -> Micros | None:
        """From when on a query's answers are complete; None while that is not known."""
        return self._progress.complete_from(self._reaches)

    def _note_beginning(self, name: str, seen: BatchTimes, after: PlanProgress) -> None:
        """Note since when the plan has all tuples of a stream: it lacks the tuples before its first micro-batch."""
        if name in after.begun:
            late = max(self._progress.low, self._progress.watermarks.get(name, BEGINNING))
            after.begun[name] = self._panes.noted(after.begun[name], seen, late)
        else:
            after.begun[name] = self._panes.begun(seen)

    def wants(self, stream: str, epoch: int) -> bool:
        """Whether the plan goes on and has not taken this micro-batch of a stream yet."""
        return not self._rests and epoch > self._progress.taken.get(stream.lower(), -1)

    def advance(self, stream: str, watermark: Micros) -> None:
        """A heartbeat: no tuple of this stream with an earlier time is to come."""
        with self._epoch():
            self._go_on(self._moved(stream.lower(), None, watermark))

    def punctuate(self, stream: str, column: str, value: pa.Array) -> None:
        """A promise: no further tuple of this stream has this value in this column. It is committed as an epoch is."""
        name = stream.lower()
        columns = [(each.stream, each.column) for window in self._windows for each in promised_columns(window, "")]
        if (name, column.lower()) not in [(of.lower(), each.lower()) for of, each in columns]:
            return
        with self._epoch():
            if not self._rests:
                promise = Promise(stream, column, value, self._progress.latest.get(name, BEGINNING))
                self._step(None, self._moved(name, None, None), promises=(promise,))

    def begin(self, stream: str) -> None:
        """A stream runs (again): the plan waits for its tuples."""
        with self._in_turn():
            self._progress.ended = [name for name in self._progress.ended if name != stream.lower()]

    def finish(self, stream: str) -> None:
        """A stream has ended, or is idle: the others do not wait for it, and its own last instant is over."""
        with self._epoch():
            name = stream.lower()
            after = self._moved(name, None, None)
            after.ended = sorted({*after.ended, name})
            self._go_on(after, last_words=self._has_last_words(after))

    def _go_on(self, after: PlanProgress, *, last_words: bool = False) -> None:
        """Go as far as all streams let time go; the state remembers this stream's watermark until the others follow."""
        if not self._rests and (last_words or self._reached(after) > self._progress.low):
            self._step(None, after)
        else:
            self._progress.ended, self._progress.watermarks = after.ended, after.watermarks

    def _has_last_words(self, after: PlanProgress) -> bool:
        """Whether there is an answer though time stands still."""
        return False

    def _moved(self, name: str, latest: Micros | None, watermark: Micros | None) -> PlanProgress:
        p = self._progress
        after = p.following()
        for times, time in ((after.latest, latest), (after.watermarks, watermark)):
            if time is not None:
                times[name] = max(time, times.get(name, BEGINNING))
        if latest is not None and latest > p.latest.get(name, BEGINNING):
            after.ended = [other for other in after.ended if other != name]
        return after

    def _reached(self, progress: PlanProgress) -> Micros:
        """How far time may go: the least of the running streams; if none runs, the end of all, or a heartbeat."""
        going = [name for name in self.streams if name not in progress.ended]
        if going:
            return max(progress.low, min(progress.watermarks.get(name, BEGINNING) for name in going))
        ends = [self._last_instant(latest) + 1 for latest in progress.latest.values()]
        return max([progress.low, *ends, *progress.watermarks.values()])

    def _goes_to(self, after: PlanProgress) -> Micros:
        """The end of an epoch. The first epoch that time moves in makes up for the past, if there are stored rows.

        Under SLIDE a plan may be replaced at a multiple only: an epoch before a look ends at one, if it has one.
        """
        high = self._reached(after)
        if self._sampling is not None and self._is_to_look:
            multiple = self._sampling.aligned(high)
            high = multiple if multiple > self._progress.low else high
        if after.quiet is not None and self._progress.low == BEGINNING:
            after.quiet = high - 1
        return high

    def _last_instant(self, latest: Micros) -> Micros:
        """The end of all: the youngest tuple's instant, or the multiple whose answer includes it."""
        return latest if self._sampling is None else self._sampling.next_multiple(latest)

    def _step(
        self,
        tuples: DataFrame | pa.Table | None,
        after: PlanProgress,
        *,
        far: bool = False,
        promises: tuple[Promise, ...] = (),
    ) -> None:
        before = self._progress
        high = self._goes_to(after)
        late = self._late_before
        manifests = {int(bucket): manifest for bucket, manifest in before.manifests.items()}
        tables = self._tables.read(self._columns, before.low, high) if self._tables is not None else {}
        begins = None if self._sampling is None else after.begins
        epoch = PlanEpoch(after.number, before.low, high, late, begins, promises)
        outcome = self._bucketed.step(tuples, epoch, manifests, tables, self._fold(), far=far)
        self._rows = outcome.rows
        self._check_size(outcome, high - 1)
        after.manifests = {str(bucket): manifest for bucket, manifest in outcome.manifests.items()}
        self._check_written(_files_of(after) - _files_of(before))
        if self._journal.is_durable:
            # The commit names files that buckets have renamed into place.
            sync_directory(self._directory)
        after.low = high
        self._count_late(outcome.late, after)
        self._count_broken(outcome.broken, after)
        self._note_lives(after)
        self._tell_and_commit(outcome, self._instants(before.low, after), after)
        self._remove_files(before, after)
        self._end_lives()

    # -- another plan ----------------------------------------------------------------------------------

    @property
    def _is_to_look(self) -> bool:
        """Whether it is time to measure, and to price other plans."""
        wanted = self._replanner is not None and self._replanner.is_wanted
        return wanted and not self._rests and self._recent.batches >= LOOK_EVERY and self.why_fixed is None

    @property
    def why_fixed(self) -> str | None:
        """Why no other plan takes over now; None: another one may."""
        fixed = why_fixed(self.plan, self._bucketed.strategy)
        if fixed is None and self._bucketed.is_promised(self.manifests.values()):
            return "another plan would not know the promises of punctuate()"
        if fixed is None and self._rows > MOST_MOVED:
            return f"its state has {self._rows:,} rows, and {MOST_MOVED:,} at most are moved"
        return fixed

    def _reconsider(self) -> None:
        """Between two micro-batches, replace the plan if another one is expected to cost much less."""
        replanner, low = self._replanner, self._progress.low
        if replanner is None or not self._is_to_look:
            return
        if self._sampling is not None and self._sampling.aligned(low) != low:
            return
        rates, observed = self._recent.rates, self.observed
        if rates and observed.has_seen_all and low > BEGINNING:
            part = observed.selectivities(self.streams, recent=True)
            known = Statistics(rates, part, observed.distinct(self.streams), self._recent.epochs)
            found = replanner.replacement(self.plan, known, self._progress)
            if found is not None:
                self._replace(found, replanner)
        self._recent.begin_anew()
        self.observed.begin_anew()

    def _replace(self, found: PlanReplacement, replanner: Replanner) -> None:
        """Move the live tuples into the state of another plan. An entry commits it; before that nothing has happened.

        The rows that then stand must be those of the answer, else this plan goes on (changes/live_tuples.py).
        """
        (plan, bucketed), now = replanner.opened(found), self.now
        before, after = self._progress, self._progress.following()
        manifests = {int(bucket): manifest for bucket, manifest in before.manifests.items()}
        outcome = bucketed.begun(self._bucketed.live_tuples(manifests, before.low), after.number, before.low)
        after.manifests = {str(bucket): manifest for bucket, manifest in outcome.manifests.items()}
        after.replaced = found
        begun = ChangeView(plan.schema)
        begun.add(outcome.changes, now)
        # Under SLIDE rows that end with the next multiple end by themselves.
        until = now if self._sampling is None else self._sampling.next_multiple(before.low)
        standing = [rows.where(rows.exp > until) for rows in (begun.rows(now), self.rows()[0])]
        fields: dict[str, Any] = {"query": replanner.query.name, "as_of": to_datetime(now)}
        if not are_same(*standing):
            bucket_state.forget(self._directory)
            self._remove_files(after, before)
            report(logger, logging.INFO, "plan.kept", _KEPT, **fields)
            return
        self._check_written(_files_of(after))
        if self._journal.is_durable:
            sync_directory(self._directory)
        with self._state:
            self._commit(after, Changes.none(plan.schema))
            self._adopt(plan, bucketed)
        self._remove_files(before, after)
        report(logger, logging.INFO, "plan.replaced", _REPLACED, **fields, before=found.before, after=found.after)

    # -- lives -----------------------------------------------------------------------------------------

    def _note_lives(self, after: PlanProgress) -> None:
        """A life begins at the plan's time when the query comes, or with the first tuple."""
        begin: Micros | None = self.now
        if self._progress.low == BEGINNING:
            begin = after.begins if after.quiet is None else after.quiet
        if begin is None or after.low == BEGINNING:
            return
        present = self._present()
        for serial, reader in present.items():
            if reader.lifetime is not None:
                after.lives.setdefault(str(serial), begin + reader.lifetime)
        # Queries that were dropped have no end to be remembered.
        after.lives = {serial: end for serial, end in after.lives.items() if int(serial) in present or end >= after.low}

    def _end_lives(self) -> None:
        """Drop the queries whose lives are over. If that breaks off, the next epoch does it."""
        for serial, reader in self._present().items():
            if self._progress.is_over(serial, self.now + 1):
                reader.end()

    def _alive(
        self, readers: Mapping[int, ChangeListener], changes: Changes, instants: EpochInstants, progress: PlanProgress
    ) -> Iterator[Delivery]:
        """The answers of some queries for an epoch, each up to the end of the query's life."""
        for serial, reader in readers.items():
            end = progress.lives.get(str(serial), instants.now)
            if instants.low is None or end >= instants.now:
                yield from reader.take(changes, instants)
            elif end >= instants.low:
                yield from reader.take(changes.where(changes.ts <= end), replace(instants, now=end))

    def _check_size(self, outcome: EpochOutcome, now: Micros) -> None:
        """Check the limits before any query gets the epoch; the answer is counted only if it may be too large."""
        if outcome.rows + len(self.view) + len(outcome.changes) <= self._most.rows:
            return
        rows = outcome.rows + self.view.size_with(outcome.changes, now)
        if rows > self._most.rows:
            raise QueryFailedError(too_many_rows(rows, self._most.rows))

    def _check_written(self, names: set[str]) -> None:
        """Check, before the commit, that the files exist. Executors that do not see the directory write elsewhere."""
        if not all((self._directory / name).exists() for name in names):
            over = " and ".join(f"'{stream.name}'" for stream in self.streams.values())
            raise CheckpointError(
                f"executors have written the state of a continuous query over {over} to files that are not here: "
                "connect with a checkpoint on a file system that they share"
            )

    @property
    def _late_before(self) -> tuple[Micros, ...]:
        """The times before which tuples of each window come too late."""
        p = self._progress
        return tuple(max(p.low, p.watermarks.get(window.stream.lower(), BEGINNING)) for window in self._windows)

    def _instants(self, low: Micros, progress: PlanProgress) -> EpochInstants:
        """From an instant up to the plan's time."""
        return EpochInstants(low, progress.low - 1, progress.complete_from(self._reaches), progress.begins)

    def _fold(self) -> Fold | None:
        """How changes are combined before they leave their buckets; read before each epoch."""
        return None

    def _tell_and_commit(self, outcome: EpochOutcome, instants: EpochInstants, after: PlanProgress) -> None:
        """Tell all queries before the commit. A query that comes meanwhile gets the rows of the epoch before, too."""
        told, changes = set[int](), outcome.changes
        if after.quiet is not None and self._progress.low == BEGINNING:
            instants, changes = EpochInstants(None, instants.now), self._standing(changes, instants.now)
        while True:
            with self._state:
                untold = {serial: reader for serial, reader in self._readers.items() if serial not in told}
                if not untold:
                    has_answered = self._has_answered(instants)
                    after.answered = sorted(told if has_answered else self._told(self._progress) & told)
                    self._commit(after, changes)
                    return
            deliver(list(self._alive(untold, changes, instants, after)), by_plan=True)
            told.update(untold)

    def _standing(self, changes: Changes, now: Micros) -> Changes:
        """The rows that stand after the first changes of all."""
        view = type(self.view)(self.plan.schema)
        view.add(changes, now)
        return view.rows(now)

    def _count_late(self, late: tuple[int, ...], after: PlanProgress) -> None:
        """Count a stream's late tuples by the window that misses most: in a self-join windows miss the same ones."""
        for name, most in self._by_stream(late).items():
            if after.taken.get(name) != self._progress.taken.get(name):
                after.missed[name] = most
                after.late += most

    def _count_broken(self, broken: tuple[int, ...], after: PlanProgress) -> None:
        """Count tuples that broke a promise, likewise; the first ones are reported."""
        for name, most in self._by_stream(broken).items():
            if most and not after.broken:
                report(
                    logger, logging.WARNING, "promises.broken",
                    "stream %(stream)s: tuples with values that were promised not to come again are left out of a "
                    "continuous query (%(tuples)d); call punctuate() after the last of them "
                    "(said once; stats() counts on)",
                    stream=self.streams[name].name, tuples=most,
                )  # fmt: skip
            after.broken += most

    def _by_stream(self, numbers: tuple[int, ...]) -> dict[str, int]:
        """The greatest number of a stream's windows."""
        counted = zip(numbers, self._windows, strict=True)
        found = dict.fromkeys(self.streams, 0)
        for number, window in counted:
            found[window.stream.lower()] = max(number, found[window.stream.lower()])
        return found

    def fail(self, why: str) -> None:
        """Fail the plan and drop its state: one of its own expressions raised, or it keeps too much."""
        with self._in_turn():
            after = self._moved("", None, None)
            after.failed, after.manifests = why, {}
            with self._state:
                self._commit(after, Changes.none(self.plan.schema))
                readers = list(self._readers.values())
            self._release()
            for reader in readers:
                reader.fail(why, reported=False)

    def _release(self) -> None:
        """Drop the state of a failed plan; its view can still be read."""
        bucket_state.forget(self._directory)
        self._remove_files(None, self._progress)

    # -- commit and recovery ---------------------------------------------------------------------------

    def _commit(self, after: PlanProgress, changes: Changes) -> None:
        self._journal.append(PlanEntry(after.since(self._progress), table_of(changes) if len(changes) else None))
        self._progress = after
        self.view.add(changes, self.now)
        self._journal.compact(self.save)

    def save(self) -> JournalSnapshot:
        return PlanSnapshot(self._progress, table_of(self.view.rows(self.now)))

    def load(self) -> None:
        """Recover from the log. Changes since the last snapshot are remembered, not delivered again.

        Each query gets its own earlier answers, and the rows that stood before them.
        """
        if not self._journal.is_durable:
            return
        self._journal.replay(PLAN, self._load_view, self._repeat)
        if self._progress.replaced is not None and self._replanner is not None:
            self._adopt(*self._replanner.opened(self._progress.replaced))
        self._stand(self._readers.keys() - self._told(self._progress))
        self._remove_files(None, self._progress)
        if self.failed is not None:
            for reader in self._readers.values():
                reader.fail(self.failed, reported=True)

    def _load_view(self, snapshot: PlanSnapshot) -> None:
        self._progress, rows = snapshot.progress, changes_of(snapshot.rows)
        self.view.add(rows, self.now)
        self._remind(self._told(self._progress), rows, EpochInstants(None, self.now, begins=self._progress.begins))

    def _repeat(self, entry: PlanEntry) -> None:
        before, after = self._progress, entry.progress.after(self._progress)
        self._stand(self._told(after) - self._told(before))
        self._progress = after
        changes = Changes.none(self.plan.schema) if entry.changes is None else changes_of(entry.changes)
        self.view.add(changes, self.now)
        self._remind(self._told(after), changes, self._instants(before.low, after))

    def _has_answered(self, instants: EpochInstants) -> bool:
        """Whether an epoch has an answer: with SLIDE, whether it includes a multiple."""
        if self._sampling is None:
            return True
        if instants.low is None:
            return False
        begins = instants.begins
        return begins is not None and self._sampling.next_multiple(max(instants.low, begins + 1)) <= instants.now

    def _told(self, progress: PlanProgress) -> Set[int]:
        """The queries that have had an answer; all of them, if an earlier checkpoint does not say."""
        if progress.answered is None:
            return set(self._readers) if progress.number else set()
        return set(progress.answered)

    def _stand(self, serials: Set[int]) -> None:
        """Give the rows that stand to queries that have come."""
        rows = self.view.rows(self.now)
        if len(rows):
            self._remind(serials, rows, EpochInstants(None, self.now))

    def _remind(self, serials: Iterable[int], changes: Changes, instants: EpochInstants) -> None:
        readers = {serial: self._readers[serial] for serial in serials if serial in self._readers}
        deliver(list(self._alive(readers, changes, instants, self._progress)), again=True)

    def _remove_files(self, before: PlanProgress | None, after: PlanProgress) -> None:
        """Remove state files that no manifest names: those of expired chunks, and those that a crash left."""
        needed = _files_of(after)
        if before is None:
            gone = [path for path in self._directory.iterdir() if path.name not in needed]
        else:
            gone = [self._directory / name for name in _files_of(before) - needed]
        for path in gone:
            remove(path)


def _files_of(progress: PlanProgress) -> set[str]:
    """The state files that the manifests name."""
    return {name for manifest in progress.manifests.values() for name in bucket_state.files_of(manifest)}
