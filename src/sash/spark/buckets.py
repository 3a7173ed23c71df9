"""A continuous plan over hash buckets: one state per bucket, one step of all buckets per epoch.

    tuples of the windows ──► exchange by bucket ──► mapInArrow ──► changes          many tuples: on the executors
                        └───► Arrow ──► the same function, in the Sash process ──►   few: a job would cost more
                                           │  ▲
                             state files of this epoch and of the one before

The function is a value with everything it needs: the plan, the manifests of the buckets, the epoch, what this epoch
needs of the tables that are joined. It may run twice (a lost executor, speculation): it reads what the last committed
epoch left and writes files named by this one, so the second run does the same. The driver commits the manifests that
come back. Where an epoch runs is decided epoch by epoch: state files are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sash.core.changes import EXP, SIGN, TS, Changes, together
from sash.core.versions import RowVersions
from sash.operators import Arrivals, Stage
from sash.plan.continuous import Node
from sash.spark.leaves import Layout, Leaves
from sash.state import files
from sash.state.files import Manifest

_REPORT, _BUCKET = "_report", "_bucket"
# With so many tuples an epoch takes about as long in the Sash process as a job with an exchange costs at least.
NEAR = 500_000
# Of a bucket: its number, how many tuples of each window were too late, and its new manifest.
Report = dict[str, Any]


@dataclass(frozen=True)
class Epoch:
    """Instants low <= t < high; `late` are the times before which a window's tuples are too late, by its place."""

    number: int
    low: int
    high: int
    late: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What an epoch gave: changes, the buckets' new manifests, and how many tuples of each window were too late."""

    changes: Changes
    manifests: dict[int, Manifest]
    late: tuple[int, ...]


@dataclass(frozen=True)
class _Job:
    """What an executor needs for its buckets."""

    plan: Node
    layout: Layout
    directory: str
    epoch: Epoch
    manifests: Mapping[int, Manifest]
    tables: Mapping[str, RowVersions]
    durable: bool
    strategy: str
    partitions: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On an executor: the buckets of one partition."""
        arrived = [batch for batch in batches if batch.num_rows]
        if arrived:
            for changes, report in self.run(pa.Table.from_batches(arrived)):
                yield from _with_report(changes, json.dumps(report)).to_batches()

    def run(self, table: pa.Table) -> Iterator[tuple[Changes, Report]]:
        """Each bucket that occurs in a table, with its changes and its report."""
        buckets = np.asarray(table[_BUCKET], dtype=np.int64)
        stage = Stage(self.plan, self.partitions, self.strategy)
        for bucket in np.unique(buckets).tolist():
            yield self._step(stage, bucket, table.filter(pa.array(buckets == bucket)))

    def _step(self, stage: Stage, bucket: int, table: pa.Table) -> tuple[Changes, Report]:
        directory, epoch = Path(self.directory), self.epoch
        state = files.load(directory, bucket, self.manifests.get(bucket))
        arrivals, late = self._arrivals(stage, table)
        changes, after = stage.step(state, arrivals, epoch.low, epoch.high, self.tables)
        name = f"{epoch.number:09d}-{bucket}.arrow"
        _, manifest = files.store(directory, bucket, name, after, durable=self.durable)
        return changes, {"bucket": bucket, "late": late, "manifest": manifest}

    def _arrivals(self, stage: Stage, table: pa.Table) -> tuple[dict[int, Arrivals], list[int]]:
        """The tuples of each window in order of arrival, without those that are too late, and how many these are."""
        leaf, ts = (np.asarray(table[name], dtype=np.int64) for name in ("_leaf", "_t"))
        arrival = np.asarray(table["_arrival"], dtype=np.int64)
        found, late = {}, list[int]()
        for place, schema in enumerate(stage.schemas):
            mine = np.flatnonzero(leaf == place)
            late.append(int((ts[mine] < self.epoch.late[place]).sum()))
            mine = mine[ts[mine] >= self.epoch.late[place]]
            mine = mine[np.argsort(arrival[mine], kind="stable")]
            columns = [table[f"s{slot}"].take(pa.array(mine)) for slot in self.layout.places[place]]
            columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
            found[place] = Arrivals(pa.table(columns, schema=schema), ts[mine])
        return found, late


class BucketedPlan:
    """Runs the epochs of one plan. `directory` must be the same place for the driver and all executors.

    Epochs of more than `near` tuples run on the executors.
    """

    def __init__(
        self,
        plan: Node,
        session: SparkSession,
        directory: Path,
        buckets: int,
        *,
        durable: bool,
        near: int = NEAR,
        strategy: str = "upa",
        partitions: int | None = None,
    ) -> None:
        self._plan = plan
        self._session = session
        self._directory = directory
        self._durable = durable
        self._near = near
        self._strategy = strategy
        self._partitions = partitions
        self.leaves = Leaves(plan, buckets)

    def step(
        self,
        tuples: DataFrame | pa.Table | None,
        number: int,
        epoch: Epoch,
        manifests: Mapping[int, Manifest],
        tables: Mapping[str, RowVersions],
    ) -> Outcome:
        """One epoch, over about `number` tuples; the state of the epoch before stays as it is.

        Tuples that are here already are processed here.
        """
        place = str(self._directory)
        job = _Job(
            self._plan,
            self.leaves.layout,
            place,
            epoch,
            dict(manifests),
            dict(tables),
            self._durable,
            self._strategy,
            self._partitions,
        )
        if isinstance(tuples, DataFrame):
            return self._there(job, tuples) if number > self._near else self._here(job, tuples.toArrow())
        return self._here(job, tuples)

    def _here(self, job: _Job, tuples: pa.Table | None) -> Outcome:
        marks = self._marks()
        arrived = marks if tuples is None else pa.concat_tables([marks, tuples.cast(marks.schema)])
        found = list(job.run(arrived))
        changes = together(changes for changes, _ in found) if found else Changes.none(self._plan.schema)
        return _outcome(changes, [report for _, report in found])

    def _there(self, job: _Job, tuples: DataFrame) -> Outcome:
        frame = self._session.createDataFrame(self._marks()).unionByName(tuples)
        frame = frame.repartitionById(self.leaves.buckets, _BUCKET) if self.leaves.buckets > 1 else frame.repartition(1)
        schema = from_arrow_schema(_with_report(Changes.none(self._plan.schema), "").schema)
        table = frame.mapInArrow(job, schema).toArrow()
        reported = table[_REPORT].is_valid()
        reports = [json.loads(text) for text in table[_REPORT].filter(reported).to_pylist()]
        return _outcome(_changes(table.filter(pc.invert(reported)), self._plan.schema), reports)

    def _marks(self) -> pa.Table:
        """A row per bucket, so that every bucket's time advances: also of those that get no tuple."""
        buckets = self.leaves.buckets
        columns = {
            "_leaf": pa.array([-1] * buckets, pa.int32()),
            "_t": pa.array([0] * buckets, pa.int64()),
            "_arrival": pa.array([0] * buckets, pa.int64()),
            _BUCKET: pa.array(range(buckets), pa.int32()),
        }
        empty = {f"s{slot}": pa.nulls(buckets, type) for slot, type in enumerate(self.leaves.layout.slots)}
        return pa.table({**columns, **empty})


def _with_report(changes: Changes, report: str) -> pa.Table:
    """The changes, and a last row with the bucket's report."""
    number = len(changes)
    columns = {f"c{place}": column for place, column in enumerate(changes.rows.columns)}
    table = pa.table(
        {
            **columns,
            TS: pa.array(changes.ts),
            EXP: pa.array(changes.exp),
            SIGN: pa.array(changes.sign),
            _REPORT: pa.nulls(number, pa.string()),
        }
    )
    last = pa.table({name: [report if name == _REPORT else None] for name in table.schema.names}, schema=table.schema)
    return pa.concat_tables([table, last]).combine_chunks()


def _changes(rows: pa.Table, schema: pa.Schema) -> Changes:
    """What `_with_report` wrote."""
    ts, exp = (np.asarray(rows[name], dtype=np.int64) for name in (TS, EXP))
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=False)]
    ids = np.zeros((len(ts), 0), dtype=np.int64)
    return Changes(pa.table(columns, schema=schema), ts, exp, np.asarray(rows[SIGN], dtype=np.int8), ids).in_order()


def _outcome(changes: Changes, reports: list[Report]) -> Outcome:
    manifests = {report["bucket"]: report["manifest"] for report in reports}
    late = tuple(map(sum, zip(*(report["late"] for report in reports), strict=True)))
    return Outcome(changes, manifests, late)
