"""A continuous plan over hash buckets: one state per bucket, one step of all buckets per epoch.

    tuples of the windows ──► exchange by bucket ──► mapInArrow ──► changes          many tuples: on the executors
                        └───► Arrow ──► the same function, in the Sash process ──►   few: a job would cost more

The function (`steps`) is a value with everything it needs, and may run twice. The driver commits the manifests that
come back. Each epoch decides where it runs, and how many tasks share the results of a bucket (`Shares`): state files
are the same, and a replayed epoch gives the same changes, however it is divided.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sash.changes import Arrivals, Stage, bucket_state
from sash.changes.bucket_state import Manifest
from sash.changes.join_partials import Fold
from sash.changes.live_tuples import held_windows, live_tuples
from sash.core.changes import Changes
from sash.core.versions import RowVersions
from sash.plan.continuous import BaseWindow, Node, windows
from sash.plan.lazy_joins import evaluation_of
from sash.plan.punctuations import promised_columns
from sash.plan.stages import stages
from sash.spark.exchange import run_on_executors
from sash.spark.leaves import Leaves
from sash.spark.steps import Job, PlanEpoch, Report, manifests_of

__all__ = ["BucketSettings", "BucketedPlan", "EpochOutcome", "PlanEpoch"]

# A bucket of fewer results than this is not divided: every share repeats the exchange of the bucket's tuples and the
# reading of its state, which would cost more.
LEAST_RESULTS = 100_000
# A bucket is divided when its results are this many times a core's part.
_HOT = 1.5


class Shares:
    """Remembers the results of buckets; `stages` has, for each stage, how many buckets it has and if it is divisible.

    With several streams many an epoch gives nothing, so earlier results fade, by half in an epoch.

    >>> shares = Shares([(2, True), (2, False)], cores=4, least=100)
    >>> shares.saw([(0, 900), (1, 100), (2, 1_000), (3, 0)])
    >>> shares.now()
    {0: 4}
    """

    def __init__(self, stages: Sequence[tuple[int, bool]], cores: int, least: int = LEAST_RESULTS) -> None:
        self._stages = stages
        self._cores = cores
        self._least = least
        self._results: dict[int, float] = {}

    def saw(self, results: Iterable[tuple[int, int]]) -> None:
        """Take the numbers of results of an epoch's buckets; a divided bucket has a number for each share."""
        latest = Counter[int]()
        for bucket, number in results:
            latest[bucket] += number
        self._results = {bucket: max(number, self._results.get(bucket, 0) / 2) for bucket, number in latest.items()}

    def now(self) -> dict[int, int]:
        """The divided buckets, numbered over all stages, with the number of shares of each."""
        found, first = dict[int, int](), 0
        for number, divisible in self._stages:
            buckets = range(first, first + number)
            first += number
            if divisible:
                found |= self._divided({bucket: self._results.get(bucket, 0) for bucket in buckets})
        return found

    def _divided(self, results: Mapping[int, float]) -> dict[int, int]:
        fair = sum(results.values()) / self._cores
        hot = {bucket for bucket, number in results.items() if number > max(self._least, _HOT * fair)}
        return {bucket: min(self._cores, math.ceil(results[bucket] / fair)) for bucket in sorted(hot)}


logger = logging.getLogger("sash.spark")


@dataclass(frozen=True)
class EpochOutcome:
    """The result of an epoch: changes, the buckets' new manifests, and how many tuples of each window were too late.

    `broken` is how many tuples of each window broke a promise. `folded` are the tables of combined changes, if the
    caller wants them; `rows` is the number of rows in the state of all buckets.
    """

    changes: Changes
    manifests: dict[int, Manifest]
    late: tuple[int, ...]
    folded: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    broken: tuple[int, ...] = ()


@dataclass(frozen=True)
class BucketSettings:
    """On the executors, a bucket with more than `share_results` results is divided, if it exceeds a core's part.

    `partitions` is the number of partitions of a state buffer.
    """

    share_results: int = LEAST_RESULTS
    partitions: int | None = None


class BucketedPlan:
    """Runs the epochs of one plan. `directory` must be the same place for the driver and all executors."""

    def __init__(
        self,
        plan: Node,
        session: SparkSession,
        directory: Path,
        buckets: int,
        *,
        durable: bool,
        strategy: str = "upa",
        settings: BucketSettings | None = None,
    ) -> None:
        self._plan = plan
        self._session = session
        self._directory = directory
        self._durable = durable
        self._settings = settings = settings or BucketSettings()
        self.strategy = strategy
        self._stages = stages(plan)
        self._lazy = evaluation_of(plan)
        self.leaves = Leaves(plan, self._stages, buckets)
        divisible = [Stage(plan, settings.partitions, strategy, part=stage).is_divisible for stage in self._stages]
        stages_of = list(zip(self.leaves.numbers, divisible, strict=True))
        self._shares = Shares(stages_of, session.sparkContext.defaultParallelism, settings.share_results)

    def step(
        self,
        tuples: DataFrame | pa.Table | None,
        epoch: PlanEpoch,
        manifests: Mapping[int, Manifest],
        tables: Mapping[str, RowVersions],
        fold: Fold | None = None,
        *,
        far: bool = False,
    ) -> EpochOutcome:
        """One epoch; the state of the epoch before stays as it is. `far` tuples are processed on the executors.

        With `fold` the result has no changes, but the fold's tables.
        """
        place = str(self._directory)
        job = Job(
            self._plan,
            self._stages,
            self.leaves.numbers,
            self.leaves.layout,
            place,
            epoch,
            dict(manifests),
            dict(tables),
            self._durable,
            self.strategy,
            self._settings.partitions,
            self._shares.now(),
            fold,
        )
        if isinstance(tuples, DataFrame):
            return self._there(job, tuples) if far else self._here(job, tuples.toArrow())
        return self._here(job, tuples)

    def is_promised(self, manifests: Iterable[Manifest]) -> bool:
        """Whether promises are in the state: another plan would not know them, and what they close is not kept."""
        held = held_windows(self._plan, self.strategy)
        names = {column.buffer for each in held for column in promised_columns(each.window, each.path)}
        return any(names & manifest["buffers"].keys() for manifest in manifests)

    def live_tuples(self, manifests: Mapping[int, Manifest], high: int) -> dict[BaseWindow, Arrivals]:
        """The tuples of the windows that live at `high` and those that wait, out of the state of all buckets."""
        held = held_windows(self._plan, self.strategy)
        states = {
            bucket: bucket_state.load(self._directory, bucket, manifest) for bucket, manifest in manifests.items()
        }
        return live_tuples(held, self._stages, states, high)

    def begun(self, arrived: Mapping[BaseWindow, Arrivals], number: int, high: int) -> EpochOutcome:
        """Begin with some tuples, in this process: their changes before `high`, and the state after them."""
        by_place = {place: arrived[window] for place, window in enumerate(windows(self._plan))}
        low = min([high, *(int(each.ts.min()) for each in by_place.values() if len(each.ts))])
        return self.step(self.leaves.table(by_place), PlanEpoch(number, low, high, (low,) * len(by_place)), {}, {})

    def _here(self, job: Job, tuples: pa.Table | None) -> EpochOutcome:
        schema = self.leaves.layout.schema
        arrived = schema.empty_table() if tuples is None else tuples.cast(schema)
        changes, reports = job.run(arrived)
        return self._outcome(job.epoch, changes if job.fold is None else job.fold.tables(changes), reports)

    def _there(self, job: Job, tuples: DataFrame) -> EpochOutcome:
        if job.shares:
            logger.debug("epoch %d: buckets and their shares: %s", job.epoch.number, dict(job.shares))
        return self._outcome(job.epoch, *run_on_executors(self._session, job, tuples))

    def _outcome(self, epoch: PlanEpoch, found: Changes | list[pa.Table], reports: list[Report]) -> EpochOutcome:
        # Between the multiples of a lazy plan there are no results, which says nothing about the next multiple.
        if self._lazy is None or not self._lazy.rests(epoch.low, epoch.high):
            self._shares.saw((report["bucket"], report["results"]) for report in reports)
        whole = [report for report in reports if "manifest" in report]
        manifests = manifests_of(reports)
        late = tuple(map(sum, zip(*(report["late"] for report in whole), strict=True)))
        rows = sum(report["rows"] for report in reports)
        broken = tuple(map(sum, zip(*(report["broken"] for report in whole), strict=True)))
        if isinstance(found, Changes):
            return EpochOutcome(found, manifests, late, rows=rows, broken=broken)
        return EpochOutcome(Changes.none(self._plan.schema), manifests, late, found, rows, broken)
