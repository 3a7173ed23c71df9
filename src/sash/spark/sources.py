"""Opening streams: any Spark streaming source by name, or the user's own DataFrame; limits of a micro-batch."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from sash.catalog import Source
from sash.core.errors import SourceError
from sash.spark.kafka import KAFKA, NO_CONNECTOR, Messages, lacks_connector, options_of_connector
from sash.spark.lanes import CORRUPT_COLUMN
from sash.spark.pcap.source import prepare_captures
from sash.spark.spark_faults import first_line

_BYTES, _OFFSETS = "maxBytesPerTrigger", "maxOffsetsPerTrigger"
_OPTIONS = {**dict.fromkeys(("parquet", "orc", "json", "csv", "text", "xml", "avro"), _BYTES), "kafka": _OFFSETS}
_OWN = {"maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger"}


def limit_option(source: Source | None) -> str | None:
    """The option that limits a source; None: no option is known, or the user has set a limit."""
    if source is None or _OWN & {name.lower() for name in source.options}:
        return None
    return _OPTIONS.get(source.format.lower())


def limited(source: Source, most: int | None) -> Source:
    option = limit_option(source)
    return source if option is None or most is None else replace(source, options={**source.options, option: str(most)})


def units_in(source: Source | None, batch: DataFrame, rows: int) -> int:
    """The size of a micro-batch in the unit of the source's limit; 0 without a limit."""
    option = limit_option(source)
    if option is None:
        return 0
    return _bytes_of(batch) if option == _BYTES else rows


def _bytes_of(batch: DataFrame) -> int:
    """The size of its files; for other sources Spark gives a huge number."""
    size = int(batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    return size if size < 2**62 else 0


# Text formats that distinguish an unparsed row from one whose columns are NULL.
_REPORTS_CORRUPT = {"csv", "json", "xml"}
# Formats without a schema, or with one that Spark would have to read all files for.
_NEEDS_COLUMNS = {*_REPORTS_CORRUPT, "parquet", "orc", "avro"}


def type_name(type: pa.DataType) -> str:
    """Spark's name of an Arrow type."""
    return from_arrow_type(type).simpleString()


def open_source(spark: SparkSession, source: Source, schema: pa.Schema | None) -> DataFrame:
    """A streaming DataFrame of the declared columns, with the corrupt-record column where the format has one."""
    options, format = dict(source.options), source.format.lower()
    if schema is None and format in _NEEDS_COLUMNS:
        raise SourceError(
            f"a stream from {format} needs its columns: CREATE STREAM name (ts TIMESTAMP, ..) FROM {format} .."
        )
    if format == "pcap":
        options = prepare_captures(spark, options, schema)
    messages = Messages(options, schema) if format == KAFKA and schema is not None else None
    if messages is not None:
        options = options_of_connector(options)
    reader = spark.readStream.format(source.format).options(**options)
    if schema is not None and messages is None:
        fields = list(spark_schema(schema).fields)
        if format in _REPORTS_CORRUPT:
            fields.append(StructField(CORRUPT_COLUMN, StringType()))
            reader = reader.option("columnNameOfCorruptRecord", CORRUPT_COLUMN)
        reader = reader.schema(StructType(fields))
    try:
        frame = reader.load()
        return frame if messages is None else messages.columns(frame)
    except Exception as error:
        if lacks_connector(format, error):
            raise SourceError(NO_CONNECTOR) from None
        raise SourceError(f"cannot open the source '{source.format}': {first_line(error)}") from error


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema)


def schema_of(frame: DataFrame) -> pa.Schema:
    """A DataFrame's columns as Arrow types, timestamps in UTC; without the corrupt-record column."""
    fields = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([pa.field(field.name, field.type) for field in fields if field.name != CORRUPT_COLUMN])


def has_corrupt_column(frame: DataFrame) -> bool:
    return CORRUPT_COLUMN in frame.columns
