"""One step of one bucket: from its state before an epoch and the new tuples, to its changes and its state after.

A job is a value with everything that its buckets need: the plan and its stages, the manifests of the buckets, the
epoch, and the rows of joined tables for this epoch. It may run twice (a lost executor, speculation): it reads the files
of the last committed epoch and writes files named by this one, so the second run does the same.

The buckets of all stages are numbered consecutively: stage 1 has the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sash.changes import Arrivals, Bucket, Stage, bucket_state
from sash.changes.bucket_state import Manifest
from sash.changes.join_partials import Fold
from sash.changes.operator import WHOLE, Share
from sash.changes.stage import goes_to, run_stages
from sash.core.changes import Changes
from sash.core.versions import RowVersions
from sash.plan.continuous import Node
from sash.plan.punctuations import Promise
from sash.plan.stages import EVERYWHERE, StagePlan
from sash.spark.leaves import LeafLayout

BUCKET = "_bucket"
# The report of a bucket: its number, the number of its join's results, the number of its state's rows, how many tuples
# of each of the plan's windows were too late and broke a promise, and its new manifest. The first share of a divided
# bucket reports; the others report its number, their own number, the results, and their additions to the state: rows
# and places of chunks.
Report = dict[str, Any]


@dataclass(frozen=True)
class PlanEpoch:
    """Instants low <= t < high; `late` are the times before which a window's tuples are too late, by its place.

    `begins` as in changes/operator.py. `promises` are about the tuples of later epochs.
    """

    number: int
    low: int
    high: int
    late: tuple[int, ...]
    begins: int | None = None
    promises: tuple[Promise, ...] = ()


@dataclass(frozen=True)
class Job:
    """An epoch of a plan; `buckets` is how many each stage has, `shares` those of divided ones, numbered through."""

    plan: Node
    stages: tuple[StagePlan, ...]
    buckets: tuple[int, ...]
    layout: LeafLayout
    directory: str
    epoch: PlanEpoch
    manifests: Mapping[int, Manifest]
    tables: Mapping[str, RowVersions]
    durable: bool
    strategy: str
    partitions: int | None
    shares: Mapping[int, int] = field(default_factory=dict)
    # How the answer's changes are combined before they leave their buckets.
    fold: Fold | None = None

    def run(self, table: pa.Table) -> tuple[Changes, list[Report]]:
        """Run all buckets of all stages in this process, undivided, over the tuples of all windows."""
        stages = [self.stage(place) for place in range(len(self.stages))]
        reports: list[Report] = []
        leaf, buckets = (np.asarray(table[name], dtype=np.int64) for name in ("_leaf", BUCKET))

        def step(place: int, bucket: Bucket, exchanged: Mapping[str, Changes]) -> Changes:
            mine = goes_to(bucket.number, buckets) & np.isin(leaf, list(self.stages[place].windows))
            arrived = table.filter(pa.array(mine))
            changes, report = self.step(stages[place], place, bucket, arrived, exchanged)
            reports.append(report)
            return changes

        return run_stages(self.stages, self.buckets, step), reports

    def tasks(self, place: int) -> list[tuple[Bucket, Share]]:
        """The tasks of the stage at a place: its buckets, or shares of them."""
        first, number = self._first(place), self.buckets[place]
        shares = [self.shares.get(first + bucket, 1) for bucket in range(number)]
        return [(Bucket(bucket, number), Share(share, of)) for bucket, of in enumerate(shares) for share in range(of)]

    def stage(self, place: int) -> Stage:
        return Stage(self.plan, self.partitions, self.strategy, part=self.stages[place])

    def step(
        self, stage: Stage, place: int, bucket: Bucket, table: pa.Table, exchanged: Mapping[str, Changes],
        share: Share = WHOLE,
    ) -> tuple[Changes, Report]:  # fmt: skip
        """Step one bucket of the stage at a place, with its windows' tuples and the changes from the stages below."""
        directory, epoch = Path(self.directory), self.epoch
        number = self._first(place) + bucket.number
        state = bucket_state.load(directory, number, self.manifests.get(number))
        arrivals, late = self._arrivals(stage, place, bucket, table)
        advance = partial(stage.step, state, arrivals, epoch.low, epoch.high, self.tables)
        changes, after = advance(
            exchanged=exchanged, bucket=bucket, share=share, begins=epoch.begins, promises=epoch.promises
        )
        report: Report = {"bucket": number, "results": after.results}
        # Files depend on how a bucket is divided: a lost task of another attempt must not overwrite them.
        divided = f"-{share.number}of{share.of}" if share.of > 1 else ""
        name = f"{epoch.number:09d}-{number}{divided}.arrow"
        if share.number > 0:
            own = bucket_state.store_own(directory, number, name, after, durable=self.durable)
            return changes, {**report, "rows": after.own_tuples, "share": share.number, "own": own}
        _, manifest = bucket_state.store(directory, number, name, after.with_own([after.own]), durable=self.durable)
        broken = self._broken(place, bucket, after.broken, len(late))
        report |= {"rows": after.tuples + after.own_tuples, "late": late, "broken": broken, "manifest": manifest}
        return changes, report

    def _broken(self, at: int, bucket: Bucket, broken: Mapping[int, int], number: int) -> list[int]:
        """How many tuples of each window broke a promise; the first bucket counts those that go to every bucket."""
        counts = {place: bucket.number == 0 or to is not EVERYWHERE for place, to in self.stages[at].windows.items()}
        return [broken.get(place, 0) if counts.get(place) else 0 for place in range(number)]

    def _first(self, place: int) -> int:
        """The number of the first bucket of the stage at a place."""
        return sum(self.buckets[:place])

    def _arrivals(
        self, stage: Stage, at: int, bucket: Bucket, table: pa.Table
    ) -> tuple[dict[int, Arrivals], list[int]]:
        """The tuples of each window in order of arrival, without late ones, and how many are late.

        The first bucket counts the tuples that go to every bucket.
        """
        leaf, ts = (np.asarray(table[name], dtype=np.int64) for name in ("_leaf", "_t"))
        arrival = np.asarray(table["_arrival"], dtype=np.int64)
        found, late = {}, [0] * len(stage.schemas)
        for place, target in self.stages[at].windows.items():
            schema = stage.schemas[place]
            mine = np.flatnonzero(leaf == place)
            if bucket.number == 0 or target is not EVERYWHERE:
                late[place] = int((ts[mine] < self.epoch.late[place]).sum())
            mine = mine[ts[mine] >= self.epoch.late[place]]
            mine = mine[np.argsort(arrival[mine], kind="stable")]
            columns = [table[f"s{slot}"].take(pa.array(mine)) for slot in self.layout.places[place]]
            columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
            found[place] = Arrivals(pa.table(columns, schema=schema), ts[mine])
        return found, late


def manifests_of(reports: Iterable[Report]) -> dict[int, Manifest]:
    """The manifests of all buckets, with the additions of divided ones' shares."""
    every = sorted(reports, key=lambda report: report.get("share", 0))
    found = {report["bucket"]: report["manifest"] for report in every if "manifest" in report}
    for report in every:
        bucket_state.extend(found[report["bucket"]], report.get("own", {}))
    return found
