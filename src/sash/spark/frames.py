"""Arrow tables as DataFrames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def frame_of(session: SparkSession, table: pa.Table, schema: Any = None) -> DataFrame:
    """Spark takes an empty piece of a table for its end, and leaves out what follows: it gets none."""
    whole = pa.Table.from_batches([piece for piece in table.to_batches() if piece.num_rows], table.schema)
    return session.createDataFrame(whole) if schema is None else session.createDataFrame(whole, schema)
