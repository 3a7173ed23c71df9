"""The values that the pass collects for a program's own aggregates, made into partials by its Python functions.

    the pass: collect_list(x) by (pane, group) ──► Arrow UDF on the executors: lift ──► k numbers ──► this process

Spark does not mix Python aggregates with its own in one aggregation. So the pass collects, and a scalar function over
its result lifts: all aggregates stay in one pass and one action. A pane's values of a group must fit into memory of an
executor, as they would for a Python aggregate of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import ArrayType, DataType, DoubleType, LongType

from sash.core.errors import SashError
from sash.core.user_aggregate import UserAggregate, UserLift


def with_partials(frame: DataFrame, lifts: Mapping[str, UserLift]) -> DataFrame:
    """The frame with partials in the place of the collected values of these columns."""
    if not lifts:
        return frame
    return frame.select(
        *(_lifted(frame[name], lifts[name]).alias(name) if name in lifts else name for name in frame.columns)
    )


def _lifted(column: Column, lift: UserLift) -> Column:
    number: DataType = LongType() if lift.zero.dtype.kind == "i" else DoubleType()

    def partials(lists: pa.Array) -> pa.Array:
        return lift(lists)

    made: Column = arrow_udf(partials, ArrayType(number))(column)
    return made


def check_sendable(aggregate: UserAggregate) -> None:
    """Refuse functions that cannot be sent to executors, before a stream depends on them."""
    functions = (aggregate.lift, aggregate.combine, aggregate.lower, aggregate.invert)
    try:
        CloudPickleSerializer().dumps(functions)  # type: ignore[no-untyped-call]
    except Exception as error:
        reason = f"the functions of the aggregate '{aggregate.name}' cannot be sent to Spark's executors: {error}"
        raise SashError(reason) from error
