"""Answers and changes to Spark's sinks, each once per (query, as_of).

Formats with a path get a directory per answer, `as_of=MICROSECONDS` (of windows of rows, in it `rows=NUMBER`), which is
written anew when an answer comes again after a crash; readers see `as_of` as a partition column. Kafka gets a message
for each row (kafka.py). Other formats are appended to, with a column `as_of`: there an answer that comes again is
written again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from sash.core.changes import INSTANT
from sash.core.errors import SashError, nearest
from sash.core.time import to_micros
from sash.spark.faults import first_line
from sash.spark.frames import frame_of
from sash.spark.kafka import KAFKA, NO_CONNECTOR, MessageWriter, lacks_connector, option
from sash.spark.neighbours import SINKS, in_pool

_FILES = ("parquet", "orc", "json", "csv", "text", "avro")
_KNOWN = (*_FILES, "jdbc", "kafka", "delta", "iceberg", "console", "noop")


class Sink:
    """`options` are those of Spark's writer. `name` is for people, `digest` tells it from others."""

    def __init__(self, session: SparkSession, format: str, options: Mapping[str, str], query: str = "") -> None:
        self._session = session
        self._format = format
        self._options = {name: value for name, value in options.items() if name.lower() != "path"}
        self._path = option(options, "path")
        self.name = format if self._path is None else f"{format} {self._path}"
        # Where answers have directories, which nobody else may write.
        self.place = None if self._path is None else os.path.normpath(self._path)
        self.digest = hashlib.sha256(json.dumps([format.lower(), sorted(options.items())]).encode()).hexdigest()[:16]
        _check_format(session, format)
        self._messages = MessageWriter(session, query, options) if format.lower() == KAFKA else None
        if format.lower() in _FILES and self._path is None:
            raise SashError(f"write_to('{format}') needs a path: write_to('{format}', path='out')")

    def check(self, names: Sequence[str], by_rows: bool) -> None:
        """Refuse answers with these columns, if they cannot be written; `by_rows`: of row-based windows."""
        if self._messages is not None:
            self._messages.check(names, by_rows)
            return
        # Directories are columns to whoever reads them.
        added = ["as_of", *(["rows"] if by_rows and self._path is not None else [])]
        for name in added:
            if name in [each.lower() for each in names]:
                raise SashError(
                    f"the sink adds a column {name}, and the query has one already: give it another name (AS ..)"
                )

    def write(self, as_of: datetime, table: pa.Table, rows: int | None) -> None:
        """An answer as of a time; `rows` tells apart those of row-based windows that have the same one."""
        if not table.num_rows:
            return
        self.check(table.schema.names, rows is not None)
        with in_pool(self._session, SINKS):
            self._write(as_of, table, rows)

    def _write(self, as_of: datetime, table: pa.Table, rows: int | None) -> None:
        if self._messages is not None:
            self._messages.write(as_of, table, rows)
            return
        if self._path is None:
            stamped = table.append_column("as_of", pa.array([as_of] * table.num_rows, INSTANT))
            writer = frame_of(self._session, stamped).write.format(self._format).mode("append")
            writer.options(**self._options).save()
            return
        place = f"{self._path}/as_of={to_micros(as_of)}" + ("" if rows is None else f"/rows={rows}")
        writer = frame_of(self._session, table).coalesce(1).write.format(self._format).mode("overwrite")
        writer.options(**self._options).save(place)


def _check_format(session: SparkSession, format: str) -> None:
    """Spark looks a format up when it first writes: too late for a word that is wrong."""
    java: Any = session
    try:
        finder = java._jvm.org.apache.spark.sql.execution.datasources.DataSource
        finder.lookupDataSource(format, java._jsparkSession.sessionState().conf())
    except Py4JJavaError:
        raise SashError(f"Spark knows no format '{format}' to write to{nearest(format, _KNOWN)}") from None
    except CapturedException as error:
        if lacks_connector(format, error):
            raise SashError(NO_CONNECTOR) from None
        raise SashError(f"Spark cannot write to '{format}': {first_line(error)}") from None


def to_frame(session: SparkSession, tables: list[tuple[datetime, pa.Table]], schema: pa.Schema) -> DataFrame:
    """Answers one after the other, with a column `as_of`."""
    stamped = [table.append_column("as_of", pa.array([as_of] * table.num_rows, INSTANT)) for as_of, table in tables]
    return frame_of(session, pa.concat_tables([schema.append(pa.field("as_of", INSTANT)).empty_table(), *stamped]))
