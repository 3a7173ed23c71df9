"""How much a source gives to one micro-batch at most: an option that Spark reads when a query starts."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from sash.catalog import Source

_BYTES, _OFFSETS = "maxBytesPerTrigger", "maxOffsetsPerTrigger"
_OPTIONS = {**dict.fromkeys(("parquet", "orc", "json", "csv", "text", "xml", "avro"), _BYTES), "kafka": _OFFSETS}
_OWN = {"maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger"}


def limit_option(source: Source | None) -> str | None:
    """The option that limits a source; None: it has none that is known here, or the user has set a limit."""
    if source is None or _OWN & {name.lower() for name in source.options}:
        return None
    return _OPTIONS.get(source.format.lower())


def limited(source: Source, most: int | None) -> Source:
    option = limit_option(source)
    return source if option is None or most is None else replace(source, options={**source.options, option: str(most)})


def units_in(source: Source | None, batch: DataFrame, rows: int) -> int:
    """How much a micro-batch of some rows has, in what the source's limit counts; 0 where there is none."""
    option = limit_option(source)
    if option is None:
        return 0
    return _bytes_of(batch) if option == _BYTES else rows


def _bytes_of(batch: DataFrame) -> int:
    """The size of its files; of anything else Spark says something huge."""
    size = int(batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    return size if size < 2**62 else 0
