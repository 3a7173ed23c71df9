"""Arrow tables as DataFrames, and the answers of a micro-batch as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sash.core.changes import INSTANT


def frame_of(session: SparkSession, table: pa.Table, schema: Any = None) -> DataFrame:
    """A DataFrame of a table. Spark takes an empty chunk for the table's end, so empty chunks are removed."""
    whole = pa.Table.from_batches([piece for piece in table.to_batches() if piece.num_rows], table.schema)
    return session.createDataFrame(whole) if schema is None else session.createDataFrame(whole, schema)


class AnswerRows(Protocol):
    """An answer; `rows` distinguishes answers of row-based windows with the same `as_of`."""

    @property
    def query(self) -> str: ...
    @property
    def as_of(self) -> datetime: ...
    @property
    def table(self) -> pa.Table: ...
    @property
    def rows(self) -> int | None: ...


def instants(answers: Sequence[AnswerRows]) -> pa.Array:
    return pa.array([answer.as_of for answer in answers], INSTANT)


def as_one_table(answers: Sequence[AnswerRows], facts: Mapping[str, pa.Array]) -> pa.Table:
    """The rows of all answers, in order, with the facts of each answer as further columns."""
    whole = pa.concat_tables([answer.table for answer in answers])
    of = np.repeat(np.arange(len(answers)), [answer.table.num_rows for answer in answers])
    for name, values in facts.items():
        whole = whole.append_column(name, values.take(pa.array(of)))
    return whole
