"""Answers and changes to Spark's sinks: one job for all that a micro-batch has for a path, or for Kafka.

Formats with a path get a directory per answer, `as_of=MICROSECONDS` (of windows of rows, in it `rows=NUMBER`), which is
written anew when an answer comes again after a crash; readers see `as_of` as a partition column. Parquet without
options, on a file system of this machine, is written by Arrow; there several queries may share a path, with a column
`query`. Kafka gets a message for each row (kafka.py). Other formats are appended to, with a column `as_of`: there an
answer that comes again is written again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from sash.core.errors import SashError, nearest
from sash.core.time import to_micros
from sash.spark.answer_frames import AnswerRows, as_one_table, frame_of, instants
from sash.spark.kafka import KAFKA, NO_CONNECTOR, MessageWriter, lacks_connector, option
from sash.spark.pools import SINKS, activate, in_pool
from sash.spark.spark_faults import first_line
from sash.storage.files import drafted, remove

_FILES = ("parquet", "orc", "json", "csv", "text", "avro")
_KNOWN = (*_FILES, "jdbc", "kafka", "delta", "iceberg", "console", "noop")
_NUMBER = "_sash_number"
_PART = "part-0.parquet"
# One file for all queries of a path.
_SHARED = "shared"
# As many threads write files as there are cores: a hundred would mostly wait for each other.
_WRITING = ThreadPoolExecutor(os.cpu_count() or 2, "sash-files")
_PLAIN = (
    pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
    pa.types.is_string, pa.types.is_binary, pa.types.is_date32, pa.types.is_timestamp,
)  # fmt: skip


class Sink:
    """`options` are those of Spark's writer. `name` is for people, `digest` tells it from others."""

    def __init__(self, session: SparkSession, format: str, options: Mapping[str, str]) -> None:
        self._session = session
        self._format = format
        self._options = {name: value for name, value in options.items() if name.lower() not in ("path", _SHARED)}
        self._path = option(options, "path")
        self._is_shared = _is_true(option(options, _SHARED))
        self.name = format if self._path is None else f"{format} {self._path}"
        # The place of the answers' directories, which no other sink may write.
        self.place = None if self._path is None else os.path.normpath(self._path)
        self.digest = hashlib.sha256(json.dumps([format.lower(), sorted(options.items())]).encode()).hexdigest()[:16]
        check_format(session, format)
        self._messages = MessageWriter(session, options) if format.lower() == KAFKA else None
        self.channel = None if self._messages is None else self.digest
        if format.lower() in _FILES and self._path is None:
            raise SashError(f"write_to('{format}') needs a path: write_to('{format}', path='out')")
        if self._is_shared and self._local is None:
            raise SashError(
                "queries share a path only as Parquet files on a file system of this machine, without other options: "
                "write_to('parquet', path='out', shared='true')"
            )
        if self._is_shared:
            # However the path is spelt, one thread writes to it.
            self.channel = self.place = str(self._local)

    @functools.cached_property
    def _local(self) -> Path | None:
        """The directory in which Arrow writes Parquet files; None: Spark writes."""
        if self._format.lower() != "parquet" or self._path is None or self._options:
            return None
        return _local_path(self._session, self._path)

    def check(self, names: Sequence[str], by_rows: bool) -> None:
        """Refuse answers with these columns, if they cannot be written; `by_rows`: of row-based windows."""
        if self._messages is not None:
            self._messages.check(names, by_rows)
            return
        # Readers take the directories for columns.
        added = ["as_of", *(["rows"] if by_rows and self._path is not None else [])]
        added += ["query"] if self._is_shared else []
        if by_rows and self._is_shared:
            raise SashError("a query over a window of rows needs a path of its own: leave out shared")
        for name in added:
            if name in [each.lower() for each in names]:
                raise SashError(
                    f"the sink adds a column {name}, and the query has one already: give it another name (AS ..)"
                )

    def write(self, answers: Sequence[AnswerRows]) -> None:
        """Write answers in order: of this sink's query, or of all queries of the channel."""
        told = [answer for answer in answers if answer.table.num_rows]
        for names, by_rows in {(tuple(each.table.schema.names), each.rows is not None) for each in told}:
            self.check(names, by_rows)
        if self._local is not None and (self._is_shared or all(_is_plain(each.table.schema) for each in told)):
            _WRITING.submit(self._write_here, self._local, told).result()
        elif told:
            with in_pool(self._session, SINKS):
                self._write(told)

    def _write_here(self, root: Path, told: Sequence[AnswerRows]) -> None:
        """Write Parquet files by Arrow: most of the time is the file system's. Spark takes ten times as long."""
        alike: dict[Any, list[AnswerRows]] = {}
        for each in told:
            alike.setdefault((each.as_of, each.rows), []).append(each)
        for (as_of, rows), mine in alike.items():
            place = Path(f"{root}/as_of={to_micros(as_of)}" + ("" if rows is None else f"/rows={rows}"))
            try:
                os.makedirs(place)
                before = []
            except FileExistsError:
                before = os.listdir(place)
            # The last one counts if an answer comes twice.
            table = _of_queries(mine, place if _PART in before else None) if self._is_shared else mine[-1].table
            # Readers skip the draft, whose name begins with a dot.
            with drafted(place / _PART, durable=False) as file:
                pq.write_table(table, file)
            for name in before:
                if name != _PART and not (place / name).is_dir():
                    remove(place / name)

    def _write(self, told: list[AnswerRows]) -> None:
        if self._messages is not None:
            self._messages.write(told)
        elif self._path is None:
            stamped = as_one_table(told, {"as_of": instants(told)})
            writer = frame_of(self._session, stamped).write.format(self._format).mode("append")
            writer.options(**self._options).save()
        else:
            self._write_files(self._path, told)

    def _write_files(self, path: str, told: list[AnswerRows]) -> None:
        keys = {"as_of": instants(told).cast(pa.int64())}
        if told[0].rows is not None:
            keys["rows"] = pa.array([each.rows for each in told])
        stamped = as_one_table(told, keys)
        numbered = stamped.append_column(_NUMBER, pa.array(range(stamped.num_rows)))
        # Rows stay in their order: Spark would sort them by directory, and give those of one directory any order.
        frame = frame_of(self._session, numbered).coalesce(1).sortWithinPartitions(*keys, _NUMBER).drop(_NUMBER)
        writer = frame.write.format(self._format).partitionBy(*keys).mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").options(**self._options).save(path)


def _of_queries(answers: Sequence[AnswerRows], place: Path | None) -> pa.Table:
    """Answers of several queries as of one time, and the answers of other queries that the directory has already."""
    alike: dict[pa.Schema, list[AnswerRows]] = {}
    for each in {answer.query: answer for answer in answers}.values():
        alike.setdefault(each.table.schema, []).append(each)
    parts = [as_one_table(mine, {"query": pa.array([each.query for each in mine])}) for mine in alike.values()]
    if place is not None:
        known = pq.ParquetFile(place / _PART).read()
        written = pa.array({each.query for each in answers})
        parts.insert(0, known.filter(pc.invert(pc.is_in(known["query"], written))))
    return pa.concat_tables(parts, promote_options="default")


def _is_true(value: object) -> bool:
    """Whether an option is true."""
    if str(value).lower() not in ("true", "false", "none"):
        raise SashError(f"shared is 'true' or 'false', not '{value}'")
    return str(value).lower() == "true"


def _is_plain(schema: pa.Schema) -> bool:
    """Whether Arrow writes the same Parquet as Spark; not for intervals and nested types."""
    return all(any(is_plain(field.type) for is_plain in _PLAIN) for field in schema)


def _local_path(session: SparkSession, path: str) -> Path | None:
    """A path on this machine's file system; None if Spark would use another one."""
    java: Any = session
    found = java._jvm.org.apache.hadoop.fs.Path(path)
    system = found.getFileSystem(java._jsc.hadoopConfiguration())
    return Path(system.makeQualified(found).toUri().getPath()).resolve() if system.getScheme() == "file" else None


def check_format(session: SparkSession, format: str) -> None:
    """Check a format: Spark looks it up only at the first write, too late for a wrong word."""
    java: Any = session
    # Spark looks up the user's own formats there.
    activate(session)
    try:
        finder = java._jvm.org.apache.spark.sql.execution.datasources.DataSource
        finder.lookupDataSource(format, java._jsparkSession.sessionState().conf())
    except Py4JJavaError:
        raise SashError(f"Spark knows no format '{format}' to write to{nearest(format, _KNOWN)}") from None
    except CapturedException as error:
        if lacks_connector(format, error):
            raise SashError(NO_CONNECTOR) from None
        raise SashError(f"Spark cannot write to '{format}': {first_line(error)}") from None


def to_frame(session: SparkSession, answers: Sequence[AnswerRows]) -> DataFrame:
    """Answers one after the other, with a column `as_of`."""
    return frame_of(session, as_one_table(answers, {"as_of": instants(answers)}))
