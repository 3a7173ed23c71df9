"""A plan's stages on the executors: one Spark job, with an exchange by bucket below each stage.

    tuples of the windows of stage 1 ──► exchange ──► mapInArrow: stage 1 ──┐ pieces
    tuples of the windows of stage 2 ───────────────────────────────────────┴──► exchange ──► mapInArrow: stage 2 ──►

The rows of an exchange are tuples of windows as in `leaves`, or pieces of the stages below. A piece is one row with
Arrow streams as its bytes, so Spark moves the changes of a task without looking at them row by row:

    _stage   the place of the stage whose changes, or whose fold's tables, these are; `REPORT`: the report of a bucket
    _bucket  where the piece goes; `ALL` is every bucket
    _task    which task wrote the piece, and `_number` its place among the task's pieces: they restore the order
    _piece   Arrow streams, one after the other; or the JSON of a report

Stages pass the reports of stages below on. The last stage gives the answer's pieces. A divided bucket has several
tasks, each of which gets all its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sash.changes import Stage
from sash.changes.buffers import changes_of, table_of
from sash.changes.join_partials import Fold
from sash.changes.join_partials import together as folds_together
from sash.changes.stage import ALL, answer, consumers, targets_of
from sash.core.changes import Changes, together
from sash.spark.steps import BUCKET, Job, Report
from sash.storage.files import stream_bytes

REPORT = -1
_STAGE, _PIECE = "_stage", "_piece"
PIECES = pa.schema(
    [
        (_STAGE, pa.int32()),
        (BUCKET, pa.int32()),
        ("_task", pa.int32()),
        ("_number", pa.int32()),
        (_PIECE, pa.binary()),
    ]
)
# Spark keeps a row in one piece of memory, so many changes are several pieces.
MOST_BYTES = 16 * 2**20


class Piece(NamedTuple):
    """A row of `PIECES`."""

    stage: int
    bucket: int
    task: int
    number: int
    data: bytes | pa.Buffer

    @property
    def tables(self) -> list[pa.Table]:
        source, found = pa.BufferReader(self.data), []
        while source.tell() < source.size():
            found.append(pa.ipc.open_stream(source).read_all())
        return found

    @property
    def report(self) -> Report:
        found: Report = json.loads(bytes(self.data))
        return found


def written(pieces: Iterable[Piece]) -> pa.RecordBatch:
    *places, data = list(zip(*pieces, strict=True)) or [()] * len(PIECES)
    columns = zip([*places, list(map(bytes, data))], PIECES.types, strict=True)
    return pa.record_batch([pa.array(column, type) for column, type in columns], PIECES)


def read(rows: pa.Table) -> list[Piece]:
    """The pieces among some rows, in order."""
    rows = rows.select(PIECES.names).filter(rows[_PIECE].is_valid())
    places = zip(*(rows[name].to_pylist() for name in PIECES.names[:-1]), strict=True)
    data = [value.as_buffer() for chunk in rows[_PIECE].chunks for value in chunk]
    found = [Piece._make((*place, piece)) for place, piece in zip(places, data, strict=True)]
    return sorted(found, key=lambda piece: (piece.stage, piece.task, piece.number))


def packed(tables: Iterable[pa.Table]) -> bytes:
    return b"".join(map(stream_bytes, tables))


def pieces_of(changes: Changes, stage: int, bucket: int, task: int, first: int, most: int = MOST_BYTES) -> list[Piece]:
    """Changes that go to one bucket; `first` is the number of the first piece, `most` the bytes of a piece."""
    table = table_of(changes)
    rows = max(1, most * table.num_rows // max(1, table.nbytes))
    parts = [table.slice(begin, rows) for begin in range(0, table.num_rows, rows)]
    return [Piece(stage, bucket, task, first + place, stream_bytes(part)) for place, part in enumerate(parts)]


def changes_in(pieces: Iterable[Piece], schema: pa.Schema, width: int = 0) -> Changes:
    """All changes in some pieces, in order of their instants, and then of the pieces."""
    found = (changes_of(table) for piece in pieces for table in piece.tables)
    return together([Changes.none(schema, width), *found])


def tables_in(pieces: Iterable[Piece], fold: Fold, schema: pa.Schema) -> list[pa.Table]:
    """The fold's tables of all buckets; empty tables if there are none."""
    return folds_together([piece.tables for piece in pieces] or [fold.tables(Changes.none(schema))])


def run_on_executors(
    session: SparkSession, job: Job, tuples: DataFrame
) -> tuple[Changes | list[pa.Table], list[Report]]:
    """Run all stages of an epoch: the changes of the answer, or the fold's tables, and the reports of all buckets."""
    frames: dict[str, DataFrame] = {}
    for place, (stage, buckets) in enumerate(zip(job.stages, job.buckets, strict=True)):
        tasks = job.tasks(place)
        leaves = ", ".join(map(str, stage.windows))
        own = [tuples if len(job.stages) == 1 else tuples.where(f"_leaf IN ({leaves})")] if leaves else []
        parts = [_marks(session, buckets), *own, *(frames.pop(path) for path in stage.lower)]
        frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
        if stage.copies and buckets > 1:
            frame = _in_every_bucket(frame, buckets)
        if len(tasks) > buckets:
            frame = _copied(frame, [share.of for _, share in tasks if share.number == 0])
        frame = frame.repartitionById(len(tasks), BUCKET) if len(tasks) > 1 else frame.repartition(1)
        frames[stage.path] = frame.mapInArrow(_Task(job, place), from_arrow_schema(PIECES))
    pieces = read(frames[""].toArrow())
    reports = [piece.report for piece in pieces if piece.stage == REPORT]
    found = [piece for piece in pieces if piece.stage != REPORT]
    if job.fold is not None:
        return tables_in(found, job.fold, job.plan.schema), reports
    return answer(changes_in(found, job.plan.schema), len(job.tasks(len(job.stages) - 1))), reports


def _marks(session: SparkSession, buckets: int) -> DataFrame:
    """A row per bucket, so that time advances in every bucket, also without a tuple."""
    columns = ("-1 AS _leaf", "0L AS _t", "0L AS _arrival", f"CAST(id AS INT) AS {BUCKET}")
    return session.range(0, buckets, 1, 1).selectExpr(*columns)


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
    if _STAGE in frame.columns:
        # Reports are passed on once.
        last = f"IF({_STAGE} <=> {REPORT}, {first}, {last})"
    others = [name for name in frame.columns if name != BUCKET]
    return frame.selectExpr(*others, f"explode(sequence({first}, {last})) AS {BUCKET}")


@dataclass(frozen=True)
class _Task:
    """An executor's work for its buckets of the stage at a place."""

    job: Job
    place: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = [batch for batch in batches if batch.num_rows]
        if not arrived:
            return
        table, pieces = pa.Table.from_batches(arrived), list[Piece]()
        if _PIECE in table.schema.names:
            pieces = read(table)
            table = table.filter(table[_PIECE].is_null())
            yield written(piece for piece in pieces if piece.stage == REPORT)
        stage, tasks = self.job.stage(self.place), np.asarray(table[BUCKET], dtype=np.int64)
        for number in np.unique(tasks).tolist():
            mine = [piece for piece in pieces if piece.bucket == number and piece.stage != REPORT]
            yield written(self._run(stage, number, table.filter(pa.array(tasks == number)), mine))

    def _run(self, stage: Stage, number: int, table: pa.Table, pieces: list[Piece]) -> list[Piece]:
        job, (bucket, share) = self.job, self.job.tasks(self.place)[number]
        places = {each.path: place for place, each in enumerate(job.stages)}
        exchanged = {
            path: changes_in(
                (piece for piece in pieces if piece.stage == places[path]), stage.schema_of(path), stage.width_of(path)
            )
            for path in job.stages[self.place].lower
        }
        changes, report = job.step(stage, self.place, bucket, table, exchanged, share)
        found = [Piece(REPORT, 0, number, 0, json.dumps(report).encode())]
        path = job.stages[self.place].path
        if path:
            upper = consumers(job.stages)[path]
            targets = targets_of(changes, job.stages[upper].lower[path], job.buckets[upper])
            for target in np.unique(targets).tolist():
                found += pieces_of(changes.where(targets == target), self.place, target, number, len(found))
        elif job.fold is not None:
            found.append(Piece(self.place, 0, number, 1, packed(job.fold.tables(changes))))
        else:
            found += pieces_of(changes, self.place, 0, number, 1)
        return found
