"""Spark's pass, done by NumPy: as cheap as a pass can be, where what comes after it is counted a thousand times.

A micro-batch is a dictionary of columns, `_us` (event time) among them. Its partials have the layout of Spark's result
(sash/spark/lanes.py), so that everything behind the pass does, and logs, what it does with Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.catalog import Stream
from sash.panes.pane_rows import BatchFacts
from sash.panes.partials import Partial
from sash.sharing.groups import PaneTable
from sash.spark.lanes import PassProgram, split
from sash.spark.sources import type_name

Ints = NDArray[np.int64]
Columns = dict[str, Ints]


class NumpyPipeline:
    """A `SparkPass` for COUNT, SUM, MIN and MAX of columns of whole numbers, of windows of time, without NULLs.

    WHERE compares a column with a number.
    """

    is_streaming, is_local = True, False

    def __init__(self, declared: Stream) -> None:
        self._declared = declared
        self._known: tuple[list[PaneTable], PassProgram] | None = None

    def _program_for(self, tables: list[PaneTable]) -> PassProgram:
        if self._known is None or self._known[0] != tables:
            self._known = (tables, PassProgram(self._declared, tables, "batch", type_name))
        return self._known[1]

    def aggregate(self, batch: Columns, tables: list[PaneTable]) -> pa.Table:
        program = self._program_for(tables)
        lanes = [_partials(program, number, batch) for number in range(len(program.lanes))]
        return pa.concat_tables(lanes, promote_options="default").combine_chunks()

    def facts(self, result: pa.Table, tables: list[PaneTable]) -> BatchFacts:
        return split(self._program_for(tables), result)

    def aggregate_numbered(self, *arguments: Any) -> tuple[None, None]:
        raise NotImplementedError("windows of rows: tests/support/without_spark.py has them")

    def numbered_facts(self, result: pa.Table | None, tables: list[PaneTable]) -> None:
        assert result is None

    def rows_to_keep(self, *arguments: Any) -> pa.Table:
        raise NotImplementedError("stored windows: tests/support/without_spark.py has them")


def _partials(program: PassProgram, number: int, batch: Columns) -> pa.Table:
    """What one lane brings: a row for each pane and group."""
    lane, stamps = program.lanes[number], batch["_us"]
    ends = -(-stamps // lane.length) * lane.length
    by = np.stack([ends, *(batch[key.sql] for key in lane.keys)])
    groups, places = np.unique(by, axis=1, return_inverse=True)
    places = places.reshape(-1)
    counts = np.bincount(places)
    columns = {"_lane": np.full(len(counts), number), "_pane": groups[0], "_rows": counts}
    columns["_latest"] = _extreme(np.maximum, stamps, places, len(counts))
    keys = zip(program.key_columns(number), lane.keys, groups[1:], strict=True)
    columns |= {name: pa.array(values, key.type) for name, key, values in keys}
    for partial in lane.partials:
        (name,) = program.value_columns(number, partial)
        columns[name] = _lifted(partial, batch, places, len(counts))
    return pa.table(columns)


def _lifted(partial: Partial, batch: Columns, places: Ints, number: int) -> Ints:
    if partial.predicate is not None:
        passed = _passed(partial.predicate.sql, batch)
        batch, places = {name: column[passed] for name, column in batch.items()}, places[passed]
    if partial.argument is None or partial.kind == "count":
        return np.bincount(places, minlength=number)
    values = batch[partial.argument.sql]
    if partial.kind == "sum":
        return np.bincount(places, weights=values, minlength=number).astype(np.int64)
    return _extreme({"max": np.maximum, "min": np.minimum}[partial.kind], values, places, number)


def _passed(condition: str, batch: Columns) -> NDArray[np.bool_]:
    column, comparison, number = condition.split()
    return {"=": np.equal, ">": np.greater, "<": np.less}[comparison](batch[column], int(number))


def _extreme(which: np.ufunc, values: Ints, places: Ints, number: int) -> Ints:
    found = np.full(number, np.iinfo(np.int64).min if which is np.maximum else np.iinfo(np.int64).max)
    which.at(found, places, values)
    return found
