"""A plan's stages on the executors: one Spark job, with an exchange by bucket below each stage.

    tuples of the windows of stage 1 ──► exchange ──► mapInArrow: stage 1 ──┐
    tuples of the windows of stage 2 ───────────────────────────────────────┴──► exchange ──► mapInArrow: stage 2 ──►

The rows of an exchange have one layout: tuples of windows as in `leaves`; changes of the stages below, with their
source bucket and their place there, which restore the order; and the reports of buckets, which the stages above pass
on. The last stage gives the answer's changes, and all reports. A divided bucket has several tasks, each of which gets
all its rows.

Results of a join that the buckets have combined travel as one row per bucket, with its tables as files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sash.changes import Stage
from sash.changes.join_partials import Fold, together
from sash.changes.stage import ALL, answer, consumers, targets_of
from sash.core.changes import EXP, SIGN, TS, Changes
from sash.spark.answer_frames import frame_of
from sash.spark.leaves import LeafLayout
from sash.spark.steps import BUCKET, Job, Report
from sash.storage.files import stream_bytes

FOLDED = "_folded"


def packed(tables: Sequence[pa.Table]) -> pa.Array:
    """A row of a list of files."""
    return pa.array([[stream_bytes(table) for table in tables]], pa.list_(pa.binary()))


def unpacked(column: pa.ChunkedArray, fold: Fold, schema: pa.Schema) -> list[pa.Table]:
    """The tables of all buckets, combined; empty tables if there are none."""
    rows = [[pa.ipc.open_stream(file).read_all() for file in files] for files in column.to_pylist()]
    return together(rows or [fold.tables(Changes.none(schema))])


_REPORT, _FROM = "_report", "_from"
_SCHEMA_FOLDED = pa.schema([(FOLDED, pa.list_(pa.binary())), (_REPORT, pa.string())])


def run_on_executors(
    session: SparkSession, job: Job, tuples: DataFrame
) -> tuple[Changes | list[pa.Table], list[Report]]:
    """Run all stages of an epoch: the changes of the answer, or the fold's tables, and the reports of all buckets."""
    wire = Wire.of(job)
    frames: dict[str, DataFrame] = {}
    for place, (stage, buckets) in enumerate(zip(job.stages, job.buckets, strict=True)):
        marks, tasks = marks_of(job.layout, buckets), job.tasks(place)
        leaves = ", ".join(map(str, stage.windows))
        own = [tuples if len(job.stages) == 1 else tuples.where(f"_leaf IN ({leaves})")] if leaves else []
        marked = frame_of(session, marks, from_arrow_schema(marks.schema))
        parts = [marked, *own, *(frames.pop(path) for path in stage.lower)]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
        if stage.copies and buckets > 1:
            frame = _in_every_bucket(frame, buckets)
        if len(tasks) > buckets:
            frame = _copied(frame, [share.of for _, share in tasks if share.number == 0])
        frame = frame.repartitionById(len(tasks), BUCKET) if len(tasks) > 1 else frame.repartition(1)
        task = _Task(job, wire, place)
        frames[stage.path] = frame.mapInArrow(task, from_arrow_schema(task.schema))
    table = frames[""].toArrow()
    reported = table[_REPORT].is_valid()
    reports = [json.loads(text) for text in table[_REPORT].filter(reported).to_pylist()]
    if job.fold is not None:
        return unpacked(table[FOLDED].filter(pc.invert(reported)), job.fold, job.plan.schema), reports
    found = _answer_of(table.filter(pc.invert(reported)), job.plan.schema)
    return answer(found, len(job.tasks(len(job.stages) - 1))), reports


def _in_every_bucket(frame: DataFrame, buckets: int) -> DataFrame:
    """Repeat rows that go to all buckets, once for each."""
    others = [name for name in frame.columns if name != BUCKET]
    numbers = f"IF({BUCKET} = {ALL}, sequence(0, {buckets - 1}), array({BUCKET}))"
    return frame.selectExpr(*others, f"explode({numbers}) AS {BUCKET}")


def _copied(frame: DataFrame, shares: list[int]) -> DataFrame:
    """Rows once for each share of their bucket, with the number of the task instead of the bucket's."""
    after = list(accumulate(shares))
    first = f"element_at(array({', '.join(map(str, [0, *after[:-1]]))}), {BUCKET} + 1)"
    last = f"element_at(array({', '.join(str(end - 1) for end in after)}), {BUCKET} + 1)"
    if _REPORT in frame.columns:
        # Reports are passed on once.
        last = f"IF({_REPORT} IS NULL, {last}, {first})"
    others = [name for name in frame.columns if name != BUCKET]
    return frame.selectExpr(*others, f"explode(sequence({first}, {last})) AS {BUCKET}")


def marks_of(layout: LeafLayout, buckets: int) -> pa.Table:
    """A row per bucket, so that time advances in every bucket, also without a tuple."""
    columns = {
        "_leaf": pa.array([-1] * buckets, pa.int32()),
        "_t": pa.array([0] * buckets, pa.int64()),
        "_arrival": pa.array([0] * buckets, pa.int64()),
        BUCKET: pa.array(range(buckets), pa.int32()),
    }
    empty = {f"s{slot}": pa.nulls(buckets, type) for slot, type in enumerate(layout.slots)}
    return pa.table({**columns, **empty})


@dataclass(frozen=True)
class Wire:
    """The layout of changes in the rows of an exchange.

    `leaves` gives each stage a number beside the windows, `layout` the places of its columns; `ids` is the greatest
    number of ids of a row.
    """

    layout: LeafLayout
    leaves: Mapping[str, int]
    ids: int

    @classmethod
    def of(cls, job: Job) -> Wire:
        stage = job.stage(0)
        lower = [each.path for each in job.stages[:-1]]
        leaves = {path: len(stage.schemas) + place for place, path in enumerate(lower)}
        layout = LeafLayout.of([schema.types for schema in (*stage.schemas, *map(stage.schema_of, lower))])
        return cls(layout, leaves, max(map(stage.width_of, lower), default=0))

    @property
    def schema(self) -> pa.Schema:
        fields: list[tuple[str, pa.DataType]] = [
            ("_leaf", pa.int32()), ("_t", pa.int64()), ("_arrival", pa.int64()), (BUCKET, pa.int32()),
            (EXP, pa.int64()), (SIGN, pa.int8()), (_FROM, pa.int32()),
        ]  # fmt: skip
        fields += [(f"_id{place}", pa.int64()) for place in range(self.ids)]
        fields += [(f"s{slot}", type) for slot, type in enumerate(self.layout.slots)]
        return pa.schema([*fields, (_REPORT, pa.string())])

    def written(self, changes: Changes, path: str, task: int, targets: Any) -> pa.Table:
        """Changes of a bucket, or of a share of it, in the stage at a path, as rows."""
        number, leaf = len(changes), self.leaves[path]
        columns = {
            "_leaf": np.full(number, leaf), "_t": changes.ts, "_arrival": np.arange(number), BUCKET: targets,
            EXP: changes.exp, SIGN: changes.sign, _FROM: np.full(number, task),
        }  # fmt: skip
        columns |= {f"_id{place}": changes.ids[:, place] for place in range(changes.ids.shape[1])}
        columns |= dict(zip((f"s{slot}" for slot in self.layout.places[leaf]), changes.rows.columns, strict=True))
        return _table(columns, self.schema, number)

    def read(self, table: pa.Table, path: str, schema: pa.Schema, width: int) -> Changes:
        """The changes in some rows that all tasks of the stage at a path have written."""
        leaf = self.leaves[path]
        mine = np.flatnonzero(np.asarray(table["_leaf"], dtype=np.int64) == leaf)
        place, task = (np.asarray(table[name].fill_null(0), dtype=np.int64) for name in ("_arrival", _FROM))
        mine = mine[np.lexsort((place[mine], task[mine]))]
        rows = table.take(pa.array(mine))
        slots = [rows[f"s{slot}"] for slot in self.layout.places[leaf]]
        columns = [column.cast(field.type) for column, field in zip(slots, schema, strict=True)]
        ts, exp = (np.asarray(rows[name], dtype=np.int64) for name in ("_t", EXP))
        ids = [np.asarray(rows[f"_id{each}"], dtype=np.int64) for each in range(width)]
        stacked = np.stack(ids, axis=1) if ids else np.zeros((len(mine), 0), dtype=np.int64)
        sign = np.asarray(rows[SIGN], dtype=np.int8)
        return Changes(pa.table(columns, schema=schema), ts, exp, sign, stacked).in_order()


@dataclass(frozen=True)
class _Task:
    """An executor's work for its buckets of the stage at a place."""

    job: Job
    wire: Wire
    place: int

    @property
    def schema(self) -> pa.Schema:
        if self._path:
            return self.wire.schema
        return _SCHEMA_FOLDED if self.job.fold is not None else _schema_of_answer(self.job.plan.schema)

    @property
    def _path(self) -> str:
        return self.job.stages[self.place].path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = [batch for batch in batches if batch.num_rows]
        if not arrived:
            return
        table = pa.Table.from_batches(arrived)
        if _REPORT in table.schema.names:
            reported = table[_REPORT].is_valid()
            yield from self._passed_on(table[_REPORT].filter(reported).to_pylist()).to_batches()
            table = table.filter(pc.invert(reported))
        stage, tasks = self.job.stage(self.place), np.asarray(table[BUCKET], dtype=np.int64)
        for number in np.unique(tasks).tolist():
            for part in self._run(stage, number, table.filter(pa.array(tasks == number))):
                yield from part.combine_chunks().to_batches()

    def _run(self, stage: Stage, number: int, table: pa.Table) -> Iterator[pa.Table]:
        job, (bucket, share) = self.job, self.job.tasks(self.place)[number]
        exchanged = {
            path: self.wire.read(table, path, stage.schema_of(path), stage.width_of(path))
            for path in job.stages[self.place].lower
        }
        changes, report = job.step(stage, self.place, bucket, table, exchanged, share)
        yield self._passed_on([json.dumps(report)])
        if not self._path and job.fold is not None:
            yield _table({FOLDED: packed(job.fold.tables(changes))}, self.schema, 1)
        elif not self._path:
            yield _written_answer(changes)
        else:
            upper = consumers(job.stages)[self._path]
            targets = targets_of(changes, job.stages[upper].lower[self._path], job.buckets[upper])
            yield self.wire.written(changes, self._path, number, targets)

    def _passed_on(self, reports: list[str]) -> pa.Table:
        """Reports as rows of their own; they go to the first bucket of the next stage."""
        columns: dict[str, Any] = {_REPORT: reports}
        if self._path:
            columns[BUCKET] = np.zeros(len(reports))
        return _table(columns, self.schema, len(reports))


def _schema_of_answer(schema: pa.Schema) -> pa.Schema:
    columns = [(f"c{place}", field.type) for place, field in enumerate(schema)]
    return pa.schema([*columns, (TS, pa.int64()), (EXP, pa.int64()), (SIGN, pa.int8()), (_REPORT, pa.string())])


def _written_answer(changes: Changes) -> pa.Table:
    columns: dict[str, Any] = {f"c{place}": column for place, column in enumerate(changes.rows.columns)}
    columns |= {TS: changes.ts, EXP: changes.exp, SIGN: changes.sign}
    return _table(columns, _schema_of_answer(changes.rows.schema), len(changes))


def _answer_of(rows: pa.Table, schema: pa.Schema) -> Changes:
    """The inverse of `_written_answer`."""
    ts, exp = (np.asarray(rows[name], dtype=np.int64) for name in (TS, EXP))
    columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=False)]
    ids = np.zeros((len(ts), 0), dtype=np.int64)
    return Changes(pa.table(columns, schema=schema), ts, exp, np.asarray(rows[SIGN], dtype=np.int8), ids).in_order()


def _table(columns: Mapping[str, Any], schema: pa.Schema, number: int) -> pa.Table:
    """Some columns of a schema; the others are NULL."""
    made = []
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            made.append(pa.nulls(number, field.type))
        else:
            made.append(column if isinstance(column, pa.ChunkedArray | pa.Array) else pa.array(column, field.type))
    return pa.table(made, schema=schema)
