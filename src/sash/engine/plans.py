"""The continuous plans of a session: queries with the same plan share its execution.

A plan runs while a query has it. Its files are named by the plan itself, so after a restart the same query finds them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.catalog import Stream
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, QueryFailedError
from sash.core.time import Micros, to_datetime
from sash.engine.answer import Answer
from sash.engine.observed import Observed
from sash.engine.plan_runtime import Batch, Instants, PlanRuntime
from sash.engine.query import Query
from sash.engine.sampling import Sampler
from sash.engine.tables import Tables
from sash.plan.continuous import Node, streams_of, table_joins
from sash.plan.streams import sampling_of
from sash.state import files
from sash.storage.epochs import EpochLog
from sash.storage.files import write_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sash.engine")


@dataclass(frozen=True)
class ContinuousQuery:
    """A registered query with its plan."""

    name: str
    plan: Node
    serial: int = 0
    execution: str = "upa"

    @property
    def streams(self) -> tuple[str, ...]:
        return streams_of(self.plan)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(columns_of_tables(self.plan))

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.execution} {self.plan!r}".encode()).hexdigest()[:24]


class Plans:
    """`handle` finds the query that a registration became, if it is still there; `root` is the checkpoint's part.

    Epochs of more than `near` tuples run on Spark's executors; `partitions` are those of state buffers.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        stream: Callable[[str], Stream],
        handle: Callable[[str, int], Query | None],
        tables: Tables,
        root: Path | None,
        near: int,
        partitions: int | None,
    ) -> None:
        self._spark = spark
        self._stream = stream
        self._handle = handle
        self._tables = tables
        self._root = root
        self._near = near
        self._partitions = partitions
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._running: dict[str, PlanRuntime] = {}
        # After a restart several streams may be the first to ask for a plan.
        self._lock = threading.RLock()
        self._users: dict[str, dict[int, ContinuousQuery]] = {}
        self._samplers: dict[int, Sampler] = {}

    def attach(self, query: ContinuousQuery) -> PlanRuntime:
        """The runtime of a query's plan: the one that runs already, or a new one, as its log has left it."""
        with self._lock:
            return self._attached(query)

    def _attached(self, query: ContinuousQuery) -> PlanRuntime:
        digest = query.digest
        users = self._users.setdefault(digest, {})
        if query.serial in users:
            return self._running[digest]
        if digest not in self._running:
            users[query.serial] = query
            self._running[digest] = self._open(query)
            self._running[digest].recover()
            self._report_failure(query, self._running[digest].failed)
        else:
            users[query.serial] = query
            rows, now = self._running[digest].rows()
            if len(rows):
                self._give(query, rows, Instants(None, now), delivered=False)
        return self._running[digest]

    def detach(self, query: ContinuousQuery) -> None:
        """A query was dropped. The last one takes its plan's state with it."""
        users = self._users.get(query.digest, {})
        users.pop(query.serial, None)
        self._samplers.pop(query.serial, None)
        if users or query.digest not in self._running:
            return
        del self._running[query.digest]
        directory = self._directory(query.digest)
        files.forget(directory / "state")
        shutil.rmtree(directory, ignore_errors=True)

    def of(self, query: ContinuousQuery) -> PlanRuntime | None:
        return self._running.get(query.digest)

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
        from sash.spark.scan import Scan

        wanting = [runtime for runtime in self._distinct(queries) if runtime.wants(stream, epoch)]
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
        for runtime in self._distinct(queries):
            runtime.begin(stream)

    def finish(self, queries: list[ContinuousQuery], stream: str) -> None:
        for runtime in self._distinct(queries):
            self._guarded(runtime, partial(runtime.finish, stream))

    @property
    def observed(self) -> list[Observed]:
        """What the plans that run have seen of their streams."""
        return [runtime.observed for runtime in list(self._running.values())]

    @property
    def number(self) -> int:
        """How many plans run."""
        return len(self._running)

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()

    def _distinct(self, queries: list[ContinuousQuery]) -> list[PlanRuntime]:
        return list({query.digest: self.attach(query) for query in queries}.values())

    def _open(self, query: ContinuousQuery) -> PlanRuntime:
        from sash.spark.buckets import BucketedPlan

        directory = self._directory(query.digest)
        state = directory / "state"
        state.mkdir(parents=True, exist_ok=True)
        session, durable = self._spark(), self._root is not None
        buckets = _buckets(directory / "plan.json", session.sparkContext.defaultParallelism)
        bucketed = BucketedPlan(
            query.plan,
            session,
            state,
            buckets,
            durable=durable,
            near=self._near,
            strategy=query.execution,
            partitions=self._partitions,
        )
        log = EpochLog(directory / "log") if durable else None
        digest = query.digest

        def deliver(changes: Changes, instants: Instants, delivered: bool) -> None:
            for user in list(self._users.get(digest, {}).values()):
                self._give(user, changes, instants, delivered=delivered)

        streams = [self._stream(name) for name in query.streams]
        read = partial(self._tables.read, columns_of_tables(query.plan))
        return PlanRuntime(query.plan, streams, bucketed, state, log, deliver, read)

    def _directory(self, digest: str) -> Path:
        if self._root is not None:
            return self._root / digest
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="sash-plans-", ignore_cleanup_errors=True)
        return Path(self._scratch.name) / digest

    def _give(self, query: ContinuousQuery, changes: Changes, instants: Instants, *, delivered: bool) -> None:
        for as_of, table in self._answers(query, changes, instants):
            handle = self._handle(query.name, query.serial)
            if handle is None:
                return
            answer = Answer(query.name, to_datetime(as_of), True, True, table)
            handle._remember(answer)
            if not delivered:
                handle._deliver(answer)

    def _answers(
        self, query: ContinuousQuery, changes: Changes, instants: Instants
    ) -> Iterator[tuple[Micros, pa.Table]]:
        """An epoch's changes as one table, or an answer at each multiple of SLIDE."""
        if sampling_of(query.plan) is None:
            if len(changes):
                yield instants.now, changes.to_table()
            return
        sampler = self._samplers.setdefault(query.serial, Sampler(query.plan))
        if instants.low is None:
            sampler.stand(changes)
        else:
            yield from sampler.answers(changes, instants.low, instants.now)

    def _guarded(self, runtime: PlanRuntime, step: Callable[[], None]) -> None:
        """What an expression raises fails the plan's queries; a damaged or unwritable state stops the stream."""
        try:
            step()
        except (OSError, CheckpointError):
            raise
        except Exception as error:
            if "CheckpointError" in str(error):
                raise
            self._fail(runtime, error)

    def _fail(self, runtime: PlanRuntime, error: Exception) -> None:
        from sash.spark.sources import first_line

        why = first_line(error)
        runtime.fail(why)
        for users in self._users.values():
            for user in users.values():
                if self.of(user) is runtime:
                    logger.error("query %s failed: %s", user.name, why)
                    self._report_failure(user, why)

    def _report_failure(self, query: ContinuousQuery, why: str | None) -> None:
        handle = self._handle(query.name, query.serial)
        if why is not None and handle is not None:
            handle.error = QueryFailedError(f"query '{query.name}' failed: {why}")


class StreamPlans:
    """The plans that read one stream, as its running stream sees them; `queries_at` gives them at a version."""

    def __init__(self, plans: Plans, stream: str, queries_at: Callable[[int | None], list[ContinuousQuery]]) -> None:
        self._plans = plans
        self._stream = stream
        self._queries_at = queries_at

    def scan_ahead(
        self, version: int, rows: DataFrame, epoch: int, last: int | None
    ) -> tuple[dict[PlanRuntime, pa.Table], pa.Table] | None:
        """Before it is known how many rows there are, if they seem few: by the last time's, and by their files."""
        from sash.spark.scan import seems_small

        if not self._plans.is_near(1 if last is None else last) or not seems_small(rows, unknown=last is not None):
            return None
        return self._plans.scan(self._queries_at(version), self._stream, rows, epoch)

    def take(self, version: int, batch: Batch) -> int:
        return self._plans.take(self._queries_at(version), self._stream, batch)

    def advance(self, watermark: Micros) -> None:
        self._plans.advance(self._queries_at(None), self._stream, watermark)

    def begin(self) -> None:
        self._plans.begin(self._queries_at(None), self._stream)

    def finish(self) -> None:
        self._plans.finish(self._queries_at(None), self._stream)


def columns_of_tables(plan: Node) -> dict[str, list[str]]:
    """The columns that a plan needs of each table that it joins."""
    found: dict[str, list[str]] = {}
    for node in table_joins(plan):
        known = found.setdefault(node.table.name, [])
        known += [column for _, column in node.columns if column not in known]
    return found


def _buckets(path: Path, wanted: int) -> int:
    """How many buckets a plan has: what it began with, whatever the cluster is now."""
    if path.exists():
        return int(json.loads(path.read_text())["buckets"])
    write_json(path, {"buckets": wanted})
    return wanted
