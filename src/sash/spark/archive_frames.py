"""Archives and Spark: a stream's rows on their way into an archive, an archive's rows as a DataFrame, and a writer.

SparkWriter does what ArrowWriter does (archive/writer.py) with jobs: for batches that this process should not
hold, and on a cluster, whose executors see the archive's directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from sash.archive import EXPIRES, INSERTED, DataFile, DividedRecords, Repartition, Rewrite, Spec
from sash.archive.layout import SCATTER_FACTOR, SCATTER_MASK, SCATTER_SHIFT
from sash.archive.writer import describe_file
from sash.catalog import Stream
from sash.core.errors import ArchiveError
from sash.core.time import Micros, format_duration
from sash.plan.expressions import quoted
from sash.spark.lanes import CORRUPT_COLUMN
from sash.spark.leaves import timed
from sash.spark.sources import type_name
from sash.spark.stored_rows import literal, local
from sash.storage.files import remove, rename, sync_directory, sync_file

_PLACE = "_sash_place"
# Spark's default, INT96, has no statistics, and other readers may not know it any more.
_TIMES = ("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def archive_session(spark: SparkSession) -> SparkSession:
    """A session on the same Spark that writes Parquet in the archives' form; the user's settings do not change."""
    session = spark.newSession()
    session.conf.set(*_TIMES)
    return session


def write_rows(batch: DataFrame, stream: Stream, lifetime: str, after: Micros | None, place: Path, files: int) -> None:
    """Write the rows of a micro-batch that are not too late for an archive, with their two times, to Parquet files.

    `lifetime` is an SQL expression of microseconds.
    """
    rows = timed(batch, stream)
    if CORRUPT_COLUMN in rows.columns:
        rows = rows.where(f"{CORRUPT_COLUMN} IS NULL")
    if after is not None:
        rows = rows.where(f"_t > {after}L")
    columns = [quoted(name) for name in stream.schema.names]
    times = [f"timestamp_micros(_t) AS {INSERTED}", f"timestamp_micros(_t + {lifetime}) AS {EXPIRES}"]
    with _times_as_others_know_them(batch.sparkSession):
        found = rows.where("_t IS NOT NULL").selectExpr(*columns, *times).coalesce(files)
        found.write.mode("overwrite").parquet(local(place))


@contextmanager
def _times_as_others_know_them(session: SparkSession) -> Iterator[None]:
    """A micro-batch has its own session; rows that are read once have the user's, whose setting is restored."""
    name, wanted = _TIMES
    before = session.conf.get(name, "INT96")
    session.conf.set(name, wanted)
    try:
        yield
    finally:
        session.conf.set(name, before or "INT96")


def lifetime_sql(column: str | None, type: pa.DataType | None, bound: Micros) -> str:
    """Each row's lifetime in microseconds: from a column of seconds or of intervals, between 0 and the bound."""
    if column is None or type is None:
        return f"{bound}L"
    name = quoted(column)
    said = f"{name} * 1000000D"
    if pa.types.is_duration(type):
        said = f"(unix_micros(timestamp_micros(0) + {name}))"
    return f"CAST(coalesce(greatest(0D, least(CAST({bound} AS DOUBLE), {said})), {bound}) AS BIGINT)"


def read_files(spark: SparkSession, paths: Sequence[Path], spec: Spec) -> DataFrame:
    """The rows of an archive's files, with the archive's own two columns."""
    schema = ", ".join(f"{quoted(field.name)} {type_name(field.type)}" for field in spec.stored)
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*[literal(local(path)) for path in paths])


def inserted_between(rows: DataFrame, since: Micros | None, until: Micros) -> DataFrame:
    by = rows.where(f"{INSERTED} <= timestamp_micros({until}L)")
    return by if since is None else by.where(f"{INSERTED} > timestamp_micros({since}L)")


def alive(rows: DataFrame, now: Micros) -> DataFrame:
    return rows.where(f"{EXPIRES} > timestamp_micros({now}L)")


@dataclass
class SparkWriter:
    """Records are DataFrames of an `archive_session`, with the archive's columns and the two times.

    Spark caches divided records until the end of the `with`.
    """

    spark: SparkSession
    _divided: list[DataFrame] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._divided:
            self._divided.pop().unpersist()

    def divide(self, records: DataFrame, spec: Spec, now: Micros) -> DividedRecords:
        bound = f"timestampadd(MICROSECOND, {spec.lifetime}L, {INSERTED})"
        placed = records.withColumn(_PLACE, f.expr(place_sql(spec))).persist(StorageLevel.MEMORY_AND_DISK)
        self._divided.append(placed)
        found = placed.groupBy(_PLACE).agg(
            f.count("*").alias("rows"),
            f.expr(f"count_if({EXPIRES} <= timestamp_micros({now}L))").alias("expired"),
            f.expr(f"count_if({EXPIRES} > {bound})").alias("beyond"),
            f.expr(f"count_if({INSERTED} > timestamp_micros({now}L))").alias("early"),
        )
        counts = found.toArrow().to_pylist()
        if beyond := sum(each["beyond"] for each in counts):
            raise ArchiveError(
                f"{beyond} records live longer than LIFETIME UP TO {format_duration(spec.lifetime)}; "
                "make the archive with a longer lifetime, or shorten theirs"
            )
        if sum(each["early"] for each in counts):
            raise ArchiveError("records are from after the update; keep them for a later one")
        living = alive(placed, now)
        parts = {
            each[_PLACE]: living.where(f"{_PLACE} = {each[_PLACE]}").drop(_PLACE)
            for each in counts
            if each["rows"] > each["expired"]
        }
        expired = sum(each["expired"] for each in counts)
        return DividedRecords(parts, sum(each["rows"] for each in counts) - expired, expired)

    def write(self, rewrite: Rewrite, spec: Spec) -> list[DataFile]:
        rows = alive(read_files(self.spark, rewrite.sources, spec), rewrite.now)
        if rewrite.added is not None:
            rows = rows.unionByName(rewrite.added)
        return self._written(rows, spec, rewrite.folder, rewrite.stem, rewrite.sub_index)

    def repartition(self, move: Repartition, spec: Spec) -> list[DataFile]:
        sources = [path for paths in move.sources for path in paths]
        rows = alive(read_files(self.spark, sources, spec), move.now).withColumn(_PLACE, f.expr(place_sql(spec)))
        places = [each[_PLACE] for each in rows.select(_PLACE).distinct().collect()]
        written = [
            self._written(
                rows.where(f"{_PLACE} = {place}").drop(_PLACE), spec, move.folder, f"{move.stem}-{place}", place
            )
            for place in sorted(places)
        ]
        return reduce(lambda some, more: some + more, written, [])

    def _written(self, rows: DataFrame, spec: Spec, folder: Path, stem: str, place: int) -> list[DataFile]:
        """Write rows sorted by key: first into a directory of Spark's, then move the files out of it."""
        draft = folder / f".{stem}.draft"
        ordered = rows.orderBy(f.col(quoted(spec.key)).asc_nulls_last(), f.col(EXPIRES))
        try:
            ordered.write.option("parquet.block.size", spec.bucket_bytes).mode("overwrite").parquet(local(draft))
            return [
                moved
                for number, part in enumerate(sorted(draft.glob("part-*.parquet")))
                if (moved := _moved(part, folder / f"{stem}-{number}.parquet", place)) is not None
            ]
        finally:
            remove(draft)


def _moved(part: Path, path: Path, place: int) -> DataFile | None:
    """Move a file of Spark's to its place and sync it; None if it has no rows."""
    times = pq.read_table(part, columns=[EXPIRES])[EXPIRES]
    if not len(times):
        return None
    sync_file(part)
    rename(part, path)
    sync_directory(path.parent)
    expires = np.asarray(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    return describe_file(path.name, place, path.stat().st_size, expires)


def place_sql(spec: Spec) -> str:
    """`Layout.place` as Spark SQL."""
    return f"CAST({_partition_sql(INSERTED, spec, spec.g)} * {spec.e} + {_partition_sql(EXPIRES, spec, spec.e)} AS INT)"


def _partition_sql(column: str, spec: Spec, partitions: int) -> str:
    before = f"(unix_micros({column}) - 1L)"
    slot = f"(({before} - pmod({before}, {spec.every}L)) DIV {spec.every}L)"
    if spec.layout == "round_robin":
        return f"pmod({slot}, {partitions}L)"
    if spec.layout == "random":
        turn = f"(({slot} - pmod({slot}, {partitions}L)) DIV {partitions}L)"
        return f"pmod({slot} + {_scattered_sql(turn)}, {partitions}L)"
    slots = spec.lifetime // spec.every
    return f"(pmod({slot}, {slots}L) * {partitions}L DIV {slots}L)"


def _scattered_sql(number: str) -> str:
    """`scattered` of archive/layout.py as Spark SQL."""
    found = f"({number} & {SCATTER_MASK}L)"
    for _ in range(2):
        found = f"(((shiftright({found}, {SCATTER_SHIFT}) ^ {found}) * {SCATTER_FACTOR}L) & {SCATTER_MASK}L)"
    return f"(shiftright({found}, {SCATTER_SHIFT}) ^ {found})"
