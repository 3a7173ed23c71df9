"""The continuous plans of a session: queries with the same plan share its execution.

A plan runs while a query has it. Its directory is named DIGEST-N: by the plan itself and by the query that came first
with it. The name is part of the registration. So after a restart a query finds what was stored for it; a plan that
this version of Sash would make differently is noticed (`CheckpointError`) instead of beginning with empty windows; and
a query that is registered anew never finds what a dropped one has left.

Aggregates over one join have different plans and share one nevertheless: that of their group (join_runtime.py), whose
directory is named join-DIGEST-N, by the join. Set operations that an index answers (set_runtime.py) have directories
named set-DIGEST-N.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.catalog import Stream
from sash.changes import bucket_state
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.plan.continuous import UPA, Node, streams_of, table_joins
from sash.plan.set_windows import WindowedSet
from sash.plan.shared_joins import JoinedAggregate
from sash.runtime.answers.registered_query import Query
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.continuous.join_runtime import JoinGroups, JoinRuntime, Surroundings
from sash.runtime.continuous.plan_reader import PlanReader
from sash.runtime.continuous.plan_runtime import Batch, PlanRuntime, no_tables
from sash.runtime.continuous.set_runtime import SetRuntime
from sash.runtime.limits import USUAL, Most
from sash.runtime.observed import Observed
from sash.runtime.records.journal import GroupMember
from sash.runtime.records.session_tables import Tables
from sash.runtime.records.stream_queries import StreamQueries
from sash.storage.epochs import EpochLog
from sash.storage.files import make_directory, read_facts, remove, write_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sash.spark.buckets import BucketedPlan

logger = logging.getLogger("sash.runtime")


# How the directories of groups begin.
_JOIN = "join-"
# How those of set operations begin that an index answers.
_SET = "set-"


@dataclass(frozen=True)
class JoinGroupQuery:
    """What a group needs of its query: `groups` is how many it is expected to have."""

    query: JoinedAggregate
    text: str
    groups: int


@dataclass(frozen=True)
class ContinuousQuery:
    """A registered query with its plan; `state` is the name of the plan's directory."""

    name: str
    plan: Node
    serial: int = 0
    execution: str = "upa"
    state: str = ""
    # Of an aggregate over a join, which is answered from the synopses of a group.
    joined: JoinGroupQuery | None = None
    # Of a set operation that an index answers.
    indexed: WindowedSet | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        return streams_of(self.plan)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(columns_of_tables(self.plan))

    @property
    def digest(self) -> str:
        """Of what the stored state depends on: the plan as it is executed, and the strategy.

        Of a group, who may be one of it; what it stores is checked when it is opened.
        """
        if self.joined is not None:
            shared = f"{self.joined.query.skeleton!r} {self.joined.query.computed!r}"
            return f"{_JOIN}{hashlib.sha256(shared.encode()).hexdigest()[:24]}"
        if self.indexed is not None:
            return f"{_SET}{hashlib.sha256(repr(self.indexed).encode()).hexdigest()[:24]}"
        return hashlib.sha256(f"{self.execution} {self.plan!r}".encode()).hexdigest()[:24]


class Plans:
    """`handle` finds the query that a registration became, if it is still there; `root` is the checkpoint's part.

    Epochs of more than `near` tuples run on Spark's executors, where a bucket of a join with more than `share_results`
    may be divided; `partitions` are those of state buffers. A plan that keeps more than `most` fails.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        stream: Callable[[str], Stream],
        handle: Callable[[str, int], Query | None],
        tables: Tables,
        root: Path | None,
        near: int,
        share_results: int,
        partitions: int | None,
        bind: Callable[[str], JoinedAggregate],
        policy: Callable[[], str],
        most: Most = USUAL,
    ) -> None:
        self._spark = spark
        self._stream = stream
        self._handle = handle
        self._tables = tables
        self._root = root
        self._near = near
        self._share_results = share_results
        self._partitions = partitions
        self._most = most
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._running: dict[str, PlanRuntime] = {}
        self._is_closed = False
        self._groups = JoinGroups(Surroundings(handle, bind, policy), self._open_group)
        # After a restart several streams may be the first to ask for a plan.
        self._lock = threading.RLock()

    def is_running(self, state: str) -> bool:
        return state in self._running

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def attach(self, query: ContinuousQuery, mates: Sequence[ContinuousQuery] = ()) -> PlanRuntime:
        """The runtime of a query's plan: the one that runs already, or a new one, as its log has left it.

        `mates` have the same plan, the query among them: all of them must be there when the log is read.
        """
        with self._lock:
            return self._attached(query, mates or [query])

    def _attached(self, query: ContinuousQuery, mates: Sequence[ContinuousQuery]) -> PlanRuntime:
        runtime = self._running.get(query.state)
        if runtime is not None and runtime.is_read_by(query.serial):
            return runtime
        if query.joined is not None:
            return self._attached_to_group(query, query.joined)
        if runtime is not None:
            runtime.join(query.serial, self._reader(query))
            return runtime
        runtime = self._open(query)
        for each in mates:
            runtime.join(each.serial, self._reader(each))
        runtime.recover()
        self._running[query.state] = runtime
        return runtime

    def _reader(self, query: ContinuousQuery) -> PlanReader:
        return PlanReader(query.name, query.plan, partial(self._handle, query.name, query.serial))

    # -- groups of aggregates over a join ----------------------------------------------------------------

    def _attached_to_group(self, query: ContinuousQuery, joined: JoinGroupQuery) -> JoinRuntime:
        runtime = self._group(query.state, _member(query))
        self._groups.check(runtime, joined.query)
        runtime.join_as(_member(query), self._reader(query))
        return runtime

    def _group(self, state: str, first: GroupMember | None = None) -> JoinRuntime:
        runtime = self._running.get(state)
        if runtime is None:
            runtime = self._running[state] = self._groups.opened(self._directory(state), first)
        assert isinstance(runtime, JoinRuntime)
        return runtime

    def layout_with(self, state: str, joined: JoinGroupQuery) -> JoinLayout | None:
        """What a group would keep with one query more; None if it cannot be one of it."""
        with self._lock:
            return self._groups.layout_with(self._group(state), joined.query, joined.groups)

    def why_not(self, state: str, joined: JoinGroupQuery) -> str:
        """Why a query cannot be one of a group."""
        with self._lock:
            return self._groups.why_not(self._group(state), joined.query)

    def admit(self, state: str, query: ContinuousQuery) -> bool:
        """Whether a query is one of a group from now on: before it is registered, lest the group be formed without."""
        assert query.joined is not None
        with self._lock:
            runtime, layout = self._group(state), self.layout_with(state, query.joined)
            if layout is not None and runtime.is_open:
                directory = self._directory(state)
                self._running[state] = self._groups.with_founder(runtime, directory, _member(query), layout)
            return layout is not None

    def detach(self, state: str, serial: int, *, last: bool) -> None:
        """A query was dropped. The `last` one of its plan takes the stored state with it, also if it never ran here."""
        remove = partial(_remove, self._directory(state))
        with self._lock:
            runtime = self._running.get(state)
            if runtime is None:
                if last:
                    remove()
            elif runtime.leave(serial, remove, last=last):
                del self._running[state]
            elif isinstance(runtime, JoinRuntime):
                self._running[state] = self._groups.without(runtime, self._directory(state), [serial])

    def take(self, queries: list[ContinuousQuery], stream: str, batch: Batch) -> int:
        """Give a stream's micro-batch to the plans of some queries. A plan that fails takes its own queries along.

        Gives how many tuples came too late, by the plan that misses the most.
        """
        if not batch.tuples and self.is_near(batch.number):
            scanned = self.scan(queries, stream, batch.rows, batch.epoch)
            batch = batch if scanned is None else replace(batch, tuples=scanned[0])
        plans = self._distinct(queries)
        for runtime in plans:
            self._guarded(runtime, partial(runtime.take, stream, batch))
        return max((runtime.missed(stream) for runtime in plans), default=0)

    def is_near(self, number: int) -> bool:
        """So many tuples are processed in the Sash process."""
        return number <= self._near

    def scan(
        self, queries: list[ContinuousQuery], stream: str, rows: DataFrame, epoch: int
    ) -> tuple[dict[PlanRuntime, pa.Table], pa.Table] | None:
        """The tuples of all plans by one job, and what it has seen on the way.

        None if nobody wants them, or if the job fails: then each plan reads for itself, and it turns out whose
        expression it was.
        """
        from sash.spark.leaves import Scan

        every = [runtime for runtime in self._distinct(queries) if runtime.wants_tuples]
        wanting = [runtime for runtime in every if runtime.wants(stream, epoch)]
        if not wanting:
            return None
        try:
            found = Scan(self._stream(stream), [runtime.leaves for runtime in wanting]).collect(rows)
        except Exception as error:
            logger.debug("the shared scan of %s failed: %s", stream, error)
            return None
        return dict(zip(wanting, found.tuples, strict=True)), found.facts

    def advance(self, queries: list[ContinuousQuery], stream: str, watermark: Micros) -> None:
        for runtime in self._distinct(queries):
            self._guarded(runtime, partial(runtime.advance, stream, watermark))

    def begin(self, queries: list[ContinuousQuery], stream: str) -> None:
        for runtime in self._distinct(queries, form=False):
            runtime.begin(stream)

    def finish(self, queries: list[ContinuousQuery], stream: str) -> None:
        for runtime in self._distinct(queries):
            self._guarded(runtime, partial(runtime.finish, stream))

    @property
    def observed(self) -> list[Observed]:
        """What the plans that run have seen of their streams."""
        return [runtime.observed for runtime in list(self._running.values())]

    @property
    def joins(self) -> list[JoinRuntime]:
        """The groups of aggregates over a join."""
        return [runtime for runtime in list(self._running.values()) if isinstance(runtime, JoinRuntime)]

    @property
    def is_in_turn(self) -> bool:
        return any(runtime.is_in_turn for runtime in list(self._running.values()))

    @property
    def number(self) -> int:
        """How many plans run."""
        return len(self._running)

    def close(self) -> None:
        self._is_closed = True
        if self._scratch is not None:
            self._scratch.cleanup()

    def _distinct(self, queries: list[ContinuousQuery], *, form: bool = True) -> list[PlanRuntime]:
        """The plans of some queries; one that was dropped a moment ago does not come back.

        Groups are formed now, if an epoch is about to begin.
        """
        with self._lock:
            here = [query for query in queries if self._handle(query.name, query.serial) is not None]
            mates: dict[str, list[ContinuousQuery]] = {}
            for query in here:
                mates.setdefault(query.state, []).append(query)
            plans = list({query.state: self.attach(query, mates[query.state]) for query in here}.values())
            for group in plans:
                if form and isinstance(group, JoinRuntime):
                    group.form()
        if any(runtime.is_in_turn for runtime in plans):
            raise SashError("a subscriber cannot let time go on under the changes that it is told of; do it afterwards")
        return plans

    def _open(self, query: ContinuousQuery) -> PlanRuntime:
        directory = self._directory(query.state)
        streams = [self._stream(name) for name in query.streams]
        if query.indexed is not None:
            bucketed, log = self._opened(query.indexed.tuples, directory, query.execution)
            return SetRuntime(query.indexed, query.plan, streams, bucketed, directory / "state", log, self._most)
        bucketed, log = self._opened(query.plan, directory, query.execution)
        read = partial(self._tables.read, columns_of_tables(query.plan))
        return PlanRuntime(query.plan, streams, bucketed, directory / "state", log, read, self._most)

    def _open_group(self, founders: Sequence[GroupMember], layout: JoinLayout, directory: Path) -> JoinRuntime:
        bucketed, log = self._opened(layout.plan, directory, UPA)
        streams = [self._stream(name) for name in streams_of(layout.plan)]
        around = self._groups.around
        return JoinRuntime(founders, layout, streams, bucketed, directory / "state", log, no_tables, around, self._most)

    def _opened(self, plan: Node, directory: Path, strategy: str) -> tuple[BucketedPlan, EpochLog | None]:
        from sash.spark.buckets import BucketedPlan

        state = directory / "state"
        make_directory(state)
        session, durable = self._spark(), self._root is not None
        buckets = _buckets(directory / "plan.json", session.sparkContext.defaultParallelism)
        bucketed = BucketedPlan(
            plan,
            session,
            state,
            buckets,
            durable=durable,
            near=self._near,
            share_results=self._share_results,
            strategy=strategy,
            partitions=self._partitions,
        )
        return bucketed, EpochLog(directory / "log") if durable else None

    def _directory(self, state: str) -> Path:
        if self._root is not None:
            return self._root / state
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="sash-plans-", ignore_cleanup_errors=True)
        return Path(self._scratch.name) / state

    def _guarded(self, runtime: PlanRuntime, step: Callable[[], None]) -> None:
        """What an expression raises fails the plan's queries; a lost worker or an unwritable state stops the stream."""
        from sash.spark.spark_faults import first_line, is_of_data

        try:
            step()
        except Exception as error:
            if not is_of_data(error):
                raise
            runtime.fail(first_line(error))


class StreamPlans:
    """The plans that read one stream, as its running stream sees them: those of its queries."""

    def __init__(self, plans: Plans, stream: str, queries: StreamQueries[ContinuousQuery]) -> None:
        self._plans = plans
        self._stream = stream
        self._queries = queries

    def scan_ahead(
        self, version: int, rows: DataFrame, epoch: int, last: int | None
    ) -> tuple[dict[PlanRuntime, pa.Table], pa.Table] | None:
        """Before it is known how many rows there are, if they seem few: by the last time's, and by their files."""
        from sash.spark.leaves import seems_small

        if not self._plans.is_near(1 if last is None else last) or not seems_small(rows, unknown=last is not None):
            return None
        return self._plans.scan(self._queries.at(version), self._stream, rows, epoch)

    def take(self, version: int, batch: Batch) -> int:
        return self._plans.take(self._queries.at(version), self._stream, batch)

    def advance(self, watermark: Micros) -> None:
        self._plans.advance(self._queries.at(None), self._stream, watermark)

    @property
    def is_in_turn(self) -> bool:
        """The calling thread works on some plan: it is in a subscriber's callback, say."""
        return self._plans.is_in_turn

    def begin(self) -> None:
        self._plans.begin(self._queries.at(None), self._stream)

    def finish(self) -> None:
        self._plans.finish(self._queries.at(None), self._stream)


def columns_of_tables(plan: Node) -> dict[str, list[str]]:
    """The columns that a plan needs of each table that it joins."""
    found: dict[str, list[str]] = {}
    for node in table_joins(plan):
        known = found.setdefault(node.table.name, [])
        known += [column for _, column in node.columns if column not in known]
    return found


def _member(query: ContinuousQuery) -> GroupMember:
    assert query.joined is not None
    return GroupMember(query.serial, query.name, query.joined.text, query.joined.groups)


def _remove(directory: Path) -> None:
    bucket_state.forget(directory / "state")
    remove(directory)


def _buckets(path: Path, wanted: int) -> int:
    """How many buckets a plan has: what it began with, whatever the cluster is now."""
    if path.exists():
        return int(read_facts(path)["buckets"])
    write_facts(path, {"buckets": wanted})
    return wanted
