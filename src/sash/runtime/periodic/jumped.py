"""Tuples that MAX JUMP keeps out of a stream (spark/preparation.py finds them), before anybody reads them."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from sash.catalog import Stream
from sash.core.events import report
from sash.core.time import format_duration, to_datetime
from sash.runtime.records.journal import JumpedTuples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sash.runtime.periodic.stream_runtime import StreamRuntime
    from sash.runtime.spark_pass import SparkPipeline

logger = logging.getLogger("sash.runtime")


NOTHING = JumpedTuples()


def without_jumps(rows: DataFrame, pipeline: SparkPipeline, runtime: StreamRuntime) -> tuple[DataFrame, JumpedTuples]:
    """The rows of a micro-batch that are not too far ahead.

    Which rows are too far ahead depends on the rows and on earlier commits only, so a replay gives the same result.
    """
    if runtime.stream.max_jump is None:
        return rows, NOTHING
    started = time.perf_counter()
    found = pipeline.jumps(rows, runtime.reached)
    runtime.statistics.seconds_in_spark += time.perf_counter() - started
    return (rows, NOTHING) if found is None else (found.without, JumpedTuples(found.tuples, found.first))


def warn_of_jumps(stream: Stream, jumped: JumpedTuples) -> None:
    report(
        logger, logging.WARNING, "tuples.jumped",
        "stream %(stream)s: %(tuples)d tuples, the first of %(first)s, are more than MAX JUMP, %(most)s, ahead of all "
        "others, and left out; if that is their time, session.advance() lets the stream go on there "
        "(said once; stats() counts on)",
        stream=stream.name, tuples=jumped.tuples, first=to_datetime(jumped.first),
        most=format_duration(stream.max_jump or 0),
    )  # fmt: skip
