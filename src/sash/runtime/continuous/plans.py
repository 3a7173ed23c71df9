"""The continuous plans of a session: queries with the same plan share its execution.

A plan runs while a query has it. Its directory is named DIGEST-N: by the plan itself and by the first query that had
it. The name is part of the registration. So after a restart a query finds the state that was stored for it. If this
version of Sash would make the plan differently, a `CheckpointError` says so: the plan does not begin with empty
windows. And a newly registered query never finds the state of a dropped one.

Each route has a kind of query and of runtime, and directories of its own: set operations that an index answers
(set_runtime.py) set-DIGEST-N, groups of aggregates over one join (join_runtime.py) join-DIGEST-N, by the join, and
joins that differ in the lengths of their windows (nested_runtime.py) nested-DIGEST-N, by the plan without them.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.catalog import Route
from sash.changes import bucket_state
from sash.core.errors import SashError
from sash.plan.continuous import UPA, Node, streams_of
from sash.runtime.answers.kept_result import KeptResults
from sash.runtime.continuous.join_runtime import JoinQuery
from sash.runtime.continuous.nested_runtime import NestedJoinQuery
from sash.runtime.continuous.plan_reader import PlanReader
from sash.runtime.continuous.plan_runtime import ContinuousQuery, PlanParts, PlanRuntime
from sash.runtime.continuous.set_runtime import SetQuery
from sash.runtime.limits import PlanLimits
from sash.runtime.observed import ObservedWindows
from sash.runtime.records.stream_queries import StreamQueries
from sash.runtime.spark_pass import Batch
from sash.spark.buckets import BucketedPlan, BucketSettings
from sash.spark.leaves import Leaves, Scan, seems_small
from sash.spark.placement import PlaceChoice
from sash.storage.epochs import EpochLog
from sash.storage.files import make_directory, read_facts, remove, write_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sash.runtime.session_parts import SessionParts

logger = logging.getLogger("sash.runtime")

# The kind of query of each route that continuous plans answer.
KINDS: dict[Route, type[ContinuousQuery]] = {
    Route.CHANGES: ContinuousQuery,
    Route.SETS: SetQuery,
    Route.JOINED_PANES: JoinQuery,
    Route.NESTED_JOINS: NestedJoinQuery,
}


class PlanDirectories:
    """Opens plans in their directories: in the checkpoint, or in a scratch directory while the session lasts."""

    def __init__(self, shared: SessionParts, settings: BucketSettings) -> None:
        self.shared = shared
        self._settings = settings
        self._root = None if shared.checkpoint is None else shared.checkpoint.plans
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def path(self, state: str) -> Path:
        if self._root is not None:
            return self._root / state
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="sash-plans-", ignore_cleanup_errors=True)
        return Path(self._scratch.name) / state

    def parts(self, plan: Node, state: str, strategy: str = UPA) -> PlanParts:
        """The parts that a plan runs with."""
        shared, directory = self.shared, self.path(state)
        make_directory(directory / "state")
        bucketed = self.bucketed(plan, state, strategy)
        streams = [shared.catalog.stream(name) for name in streams_of(plan)]
        log = EpochLog(directory / "log") if self._root is not None else None
        most = PlanLimits(shared.settings.max_rows, shared.settings.max_groups)
        results = KeptResults(shared.handles, lambda query: query.state == state)
        return PlanParts(streams, bucketed, directory / "state", log, shared.tables, most, results)

    def bucketed(self, plan: Node, state: str, strategy: str) -> BucketedPlan:
        """A plan over the buckets of a directory."""
        session, directory, durable = self.shared.spark, self.path(state), self._root is not None
        buckets = _buckets(directory / "plan.json", session.sparkContext.defaultParallelism)
        return BucketedPlan(
            plan, session, directory / "state", buckets, durable=durable, strategy=strategy, settings=self._settings
        )

    def remove(self, state: str) -> None:
        bucket_state.forget(self.path(state) / "state")
        remove(self.path(state))

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()


class Plans:
    """The running plans, by directory."""

    def __init__(self, shared: SessionParts, settings: BucketSettings) -> None:
        self._shared = shared
        self._directories = PlanDirectories(shared, settings)
        self._running: dict[str, PlanRuntime] = {}
        self.is_closed = False
        # After a restart several streams may ask for the same plan first.
        self._lock = threading.RLock()

    def running(self, state: str) -> PlanRuntime | None:
        """The runtime in a directory, if it runs."""
        return self._running.get(state)

    def begins(self, state: str, streams: Sequence[str], *, founded: bool) -> bool:
        """Whether a plan is still to begin; `founded`: by the query that asks, so no checkpoint has more of it."""
        runtime = self._running.get(state)
        return founded if runtime is None else any(map(runtime.is_new_to, streams))

    def attach(self, query: ContinuousQuery, mates: Sequence[ContinuousQuery] = ()) -> PlanRuntime:
        """The runtime of a query's plan: the running one, or a new one that is recovered from its log.

        `mates` have the same plan, the query among them: all of them must be known when the log is read.
        """
        with self._lock:
            runtime = self._running.get(query.state)
            if runtime is None:
                members = [(each, PlanReader(each, self._shared)) for each in mates or [query]]
                runtime = self._running[query.state] = query.open(self._directories, members)
            if not runtime.is_read_by(query.serial):
                query.join(runtime, PlanReader(query, self._shared))
            return runtime

    def admit(self, state: str, query: ContinuousQuery) -> bool:
        """Whether a query becomes one of the queries of a running plan, now.

        Call this before the registration. Otherwise a group could be formed without the query.
        """
        with self._lock:
            admitted = self._running[state].admit(query)
            if admitted is not None:
                self._running[state] = admitted
            return admitted is not None

    def detach(self, state: str, serial: int, *, last: bool) -> None:
        """Remove a dropped query. The `last` one of its plan removes the stored state, even if the plan never ran."""
        remove = partial(self._directories.remove, state)
        with self._lock:
            runtime = self._running.get(state)
            if runtime is None:
                if last:
                    remove()
            elif runtime.leave(serial, remove, last=last):
                del self._running[state]
            else:
                self._running[state] = runtime.without([serial])

    def of(self, queries: list[ContinuousQuery], *, form: bool = True) -> list[PlanRuntime]:
        """The plans of some queries; a plan that was just dropped does not come back.

        `form`: an epoch is about to begin, so groups are formed now.
        """
        with self._lock:
            here = [query for query in queries if self._shared.handle(query.name, query.serial) is not None]
            mates: dict[str, list[ContinuousQuery]] = {}
            for query in here:
                mates.setdefault(query.state, []).append(query)
            plans = list({query.state: self.attach(query, mates[query.state]) for query in here}.values())
            for runtime in plans if form else ():
                runtime.form()
        if any(runtime.is_in_turn for runtime in plans):
            raise SashError("a subscriber cannot advance time while it receives changes; do it afterwards")
        return plans

    def scan(self, plans: Sequence[PlanRuntime], stream: str, rows: DataFrame, epoch: int) -> ScannedTuples | None:
        """Read the tuples of some plans by one job; the result is the tuples and the job's facts about them.

        None if no plan wants tuples, or if the job fails: then each plan reads for itself, which shows whose expression
        it was.
        """
        wanting = [runtime for runtime in plans if runtime.wants_tuples and runtime.wants(stream, epoch)]
        if not wanting:
            return None
        try:
            leaves = [runtime.leaves for runtime in wanting]
            found = Scan(self._shared.catalog.stream(stream), leaves).collect(rows)
        except Exception as error:
            logger.debug("the shared scan of %s failed: %s", stream, error)
            return None
        return dict(zip(leaves, found.tuples, strict=True)), found.facts

    @property
    def observed(self) -> list[ObservedWindows]:
        """What the running plans have seen of their streams."""
        return [runtime.observed for runtime in self.runtimes]

    @property
    def taken_back(self) -> dict[str, float]:
        """The parts of negations' and intersections' results that were taken back in the running plans."""
        return {name: part for runtime in self.runtimes for name, part in runtime.taken_back.items()}

    @property
    def runtimes(self) -> list[PlanRuntime]:
        return list(self._running.values())

    @property
    def is_in_turn(self) -> bool:
        """Whether the calling thread works on a plan: it may be in a subscriber's callback."""
        return any(runtime.is_in_turn for runtime in self.runtimes)

    @property
    def number(self) -> int:
        """How many plans run."""
        return len(self._running)

    def close(self) -> None:
        self.is_closed = True
        self._directories.close()


# The tuples that each plan's windows take of a micro-batch, and the facts about the micro-batch.
ScannedTuples = tuple[dict[Leaves, pa.Table], pa.Table]


class StreamPlans:
    """The plans that read one stream, as its running stream sees them: those of its queries."""

    def __init__(
        self, plans: Plans, stream: str, queries: StreamQueries[ContinuousQuery], placement: PlaceChoice
    ) -> None:
        self._plans = plans
        self._stream = stream
        self._queries = queries
        self._placement = placement

    def at(self, version: int | None = None, *, form: bool = True) -> list[PlanRuntime]:
        """The plans at a version of the catalog, by default the newest."""
        return self._plans.of(self._queries.at(version), form=form)

    def scan_ahead(self, version: int, rows: DataFrame, epoch: int, last: int | None) -> ScannedTuples | None:
        """Scan before the number of rows is known, if they seem few: by the last micro-batch, and by their files."""
        plans = self.at(version)
        if not plans or not self._placement.is_near(1 if last is None else last):
            return None
        return (
            self._plans.scan(plans, self._stream, rows, epoch) if seems_small(rows, unknown=last is not None) else None
        )

    def with_tuples(self, plans: Sequence[PlanRuntime], batch: Batch) -> Batch:
        """The micro-batch with the tuples of all plans, which one job has read, if they are processed here."""
        if batch.tuples or not plans:
            return batch
        if self.are_far(batch.number):
            return replace(batch, is_far=True)
        scanned = self._plans.scan(plans, self._stream, batch.rows, batch.epoch)
        return batch if scanned is None else replace(batch, tuples=scanned[0])

    def are_far(self, number: int) -> bool:
        """Whether the executors process this many tuples."""
        return not self._placement.is_near(number)

    def took(self, batch: Batch, seconds: float) -> None:
        """Take the time of a micro-batch, from its first job on, until all plans have taken it."""
        self._placement.took(batch.number, not batch.is_far, seconds)

    @property
    def is_in_turn(self) -> bool:
        return self._plans.is_in_turn


def _buckets(path: Path, wanted: int) -> int:
    """How many buckets a plan has: the number that it began with, whatever the cluster is now."""
    if path.exists():
        return int(read_facts(path)["buckets"])
    write_facts(path, {"buckets": wanted})
    return wanted
