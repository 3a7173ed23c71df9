"""Kafka in and out: messages as tuples, answers as messages, and where Spark's connector comes from.

    message: key, value (bytes), topic, partition, offset, timestamp
                  └── parsed as JSON or CSV ──► the declared columns;  kafka_key, kafka_topic, .. are the others

A value that does not fit the declaration makes a row that could not be parsed, like a bad line of a file: it is counted
and left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from sash.core.errors import SashError, SourceError, nearest
from sash.plan.expressions import quoted
from sash.spark.answer_frames import AnswerRows, as_one_table, frame_of, instants
from sash.spark.lanes import CORRUPT_COLUMN

KAFKA = "kafka"
# The releases for Spark 4 on Maven Central. A connector works with a Spark that is newer than itself.
_RELEASES = ("4.0.0", "4.0.1", "4.1.0", "4.1.1", "4.2.0")


def connector(spark: str) -> str:
    """The newest release of the connector that is not newer than a version of Spark.

    >>> connector("4.3.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    installed = _numbers(spark)
    release = max((each for each in _RELEASES if _numbers(each) <= installed), key=_numbers)
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release}"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


CONNECTOR = connector(pyspark.__version__)
NO_CONNECTOR = (
    "this Spark session has no Kafka connector: connect(packages=['kafka']), or start Spark with "
    f"--packages {CONNECTOR}"
)
_VALUE, _OF_VALUE = "value", "value."
_FORMATS = ("json", "csv")
# The number of a row in its answer, before it becomes part of the key.
_ROW = "_row"
# The columns of a message besides its value; their names in any case.
_OF_MESSAGE = {
    "kafka_key": ("key", pa.string()),
    "kafka_topic": ("topic", pa.string()),
    "kafka_partition": ("partition", pa.int32()),
    "kafka_offset": ("offset", pa.int64()),
    "kafka_timestamp": ("timestamp", pa.timestamp("us", "UTC")),
}


def lacks_connector(format: str, error: BaseException) -> bool:
    return format.lower() == KAFKA and "Failed to find data source" in str(error)


class Messages:
    """How messages become the declared columns. `options` are all options of the source.

    `of_value` are the columns in a message's value; the others are the message's own.
    """

    def __init__(self, options: Mapping[str, str], schema: pa.Schema) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self._format = given.get(_VALUE, "json").lower()
        if self._format not in _FORMATS:
            raise SourceError(
                f"a message's value is json or csv, not '{self._format}'{nearest(self._format, _FORMATS)}; for others "
                "make a DataFrame and use session.create_stream"
            )
        self._parsing = {name[len(_OF_VALUE) :]: value for name, value in options.items() if _is_ours(name)}
        self._parsing.pop("", None)
        self._schema = schema
        self.of_value = pa.schema([field for field in schema if field.name.lower() not in _OF_MESSAGE])
        for field in schema:
            _, type = _OF_MESSAGE.get(field.name.lower(), (None, field.type))
            if field.type != type:
                raise SourceError(f"column '{field.name}' is the message's own, and {type}, not {field.type}")

    def columns(self, frame: DataFrame) -> DataFrame:
        """The columns of a DataFrame of messages, and the column of values that could not be parsed."""
        fields = StructType([*from_arrow_schema(self.of_value).fields, StructField(CORRUPT_COLUMN, StringType())])
        parsed = frame.withColumn("_parsed", self._parse(fields))
        chosen = [self._column(field.name) for field in self._schema]
        return parsed.select(*chosen, F.col("_parsed").getField(CORRUPT_COLUMN).alias(CORRUPT_COLUMN))

    def _parse(self, fields: StructType) -> Column:
        text = F.col("value").cast("string")
        options = {**self._parsing, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_COLUMN}
        if self._format == "json":
            return F.from_json(text, fields, options)
        return F.from_csv(text, fields.toDDL(), options)

    def _column(self, name: str) -> Column:
        if name in self.of_value.names:
            return F.col("_parsed").getField(name).alias(name)
        of_message, type = _OF_MESSAGE[name.lower()]
        column = F.col(of_message)
        return (column.cast("string") if pa.types.is_string(type) else column).alias(name)


def options_of_connector(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those that say how a value is parsed."""
    return {name: value for name, value in options.items() if not _is_ours(name)}


def _is_ours(name: str) -> bool:
    return name.lower() == _VALUE or name.lower().startswith(_OF_VALUE)


def option(options: Mapping[str, str], wanted: str) -> str | None:
    """An option by its name, in any case, as in Spark."""
    return next((value for name, value in options.items() if name.lower() == wanted), None)


class MessageWriter:
    """Answers as messages, one for each row: its columns as JSON, with the query and `as_of`.

    The key is (query, as_of, row), so that a message that comes again has the key of the first; or the value of the
    column that the option `key` names.
    """

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        self._session = session
        self._options = {name: value for name, value in options.items() if name.lower() != "key"}
        self._key = option(options, "key")
        for wanted in ("topic", "kafka.bootstrap.servers"):
            if option(options, wanted) is None:
                raise SashError(
                    f"write_to('kafka') needs {wanted}: "
                    "write_to('kafka', topic='answers', **{'kafka.bootstrap.servers': 'host:9092'})"
                )

    def check(self, names: Sequence[str], by_rows: bool) -> None:
        """Refuse answers with a column that would replace a part of the key."""
        taken = {"query", "as_of", _ROW, *(["rows"] if by_rows else [])}
        for name in names:
            if name.lower() in taken:
                raise SashError(
                    f"write_to('kafka') has a use of its own for the name {name.lower()}, and the answer has a column "
                    f"'{name}': give it another name (AS ..)"
                )
        if self._key is not None and self._key.lower() not in [name.lower() for name in names]:
            raise SashError(f"the answer has no column '{self._key}' for the key{nearest(self._key, names)}")

    def write(self, answers: Sequence[AnswerRows]) -> None:
        """Write checked answers in one job. A single task writes: answers of a query stay in their order."""
        alike: dict[Any, list[AnswerRows]] = {}
        for answer in answers:
            alike.setdefault((answer.table.schema, answer.rows is None), []).append(answer)
        messages = functools.reduce(DataFrame.unionAll, map(self._messages, alike.values()))
        messages.coalesce(1).write.format(KAFKA).options(**self._options).save()

    def _messages(self, answers: Sequence[AnswerRows]) -> DataFrame:
        """The messages of answers with the same columns."""
        identity = {"query": pa.array([each.query for each in answers]), "as_of": instants(answers)}
        if answers[0].rows is not None:
            identity["rows"] = pa.array([each.rows for each in answers])
        table = as_one_table(answers, identity)
        rows = np.concatenate([np.arange(answer.table.num_rows) for answer in answers])
        frame = frame_of(self._session, table.append_column(_ROW, pa.array(rows)))
        key = F.to_json(F.struct(*identity, F.col(_ROW).alias("row")))
        if self._key is not None:
            key = F.col(quoted(self._key)).cast("string")
        fields = [*identity, *(quoted(name) for name in answers[0].table.schema.names)]
        value = F.to_json(F.struct(*fields), {"ignoreNullFields": "false"})
        return frame.select(key.alias("key"), value.alias("value"))
