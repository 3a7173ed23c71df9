"""Spark's pass, done by DuckDB: partials of (pane, group) from raw tuples, so that the engine runs without a JVM."""

from __future__ import annotations

import re
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.panes.lifted import LiftedColumn
from sash.panes.pane_rows import BatchFacts, PaneRows
from sash.panes.partials import Partial
from sash.sharing.groups import PaneTable
from tests.support.oracle import duck


def aggregate(stream: Stream, tables: list[PaneTable], tuples: pa.Table) -> BatchFacts:
    """What the pass over one micro-batch brings; `tuples` has an int64 column `_us`: the timestamp, or NULL.

    With tables of row-based windows it also has a column `_n`, the number of each tuple.
    """
    connection = duck()
    connection.register("tuples", tuples)
    ((rows, latest, nulls),) = connection.sql("SELECT count(*), max(_us), count(*) - count(_us) FROM tuples").fetchall()
    lanes = [(i, *_pane_rows(connection, stream, table)) for i, table in enumerate(tables)]
    return BatchFacts(rows, latest, nulls, 0, lanes)


def _pane_rows(connection: duckdb.DuckDBPyConnection, stream: Stream, table: PaneTable) -> tuple[PaneRows, np.ndarray]:
    s, o = table.length, 0 if table.name.by_rows else stream.offset
    at = "_n" if table.name.by_rows else "_us"
    past = f"(((({at} - {o}) % {s}) + {s}) % {s})"
    pane = f"{at} - {past} + {s}"
    if table.name.by_rows or not stream.closed_left:
        pane = f"CASE WHEN {past} = 0 THEN {at} ELSE {pane} END"
    columns = [(partial, lifted) for partial in table.partials for lifted in partial.lift()]
    texts = [f"{_text(partial, lifted)} AS c{i}" for i, (partial, lifted) in enumerate(columns)]
    keys = [f"({key.sql}) AS k{i}" for i, key in enumerate(table.keys)]
    grouping = ", ".join(["pane", *(f"k{i}" for i in range(len(keys)))])
    sql = (
        f"SELECT {grouping}, count(*) AS n, max(_us) AS latest, {', '.join(texts)} FROM "
        f"(SELECT *, {', '.join([f'{pane} AS pane', *keys])} FROM tuples WHERE _us IS NOT NULL) GROUP BY {grouping}"
    )
    result = connection.sql(sql).to_arrow_table().combine_chunks()
    key_columns = [_cast(result[f"k{i}"], key.type) for i, key in enumerate(table.keys)]
    lifted: dict[Partial, list[pa.Array]] = {}
    for i, (partial, each) in enumerate(columns):
        lifted.setdefault(partial, []).append(_lifted(result[f"c{i}"], each))
    ends = np.asarray(result["pane"], dtype=np.int64)
    latest = np.asarray(result["latest"], dtype=np.int64)
    return PaneRows(s, ends, key_columns, lifted, latest), np.asarray(result["n"], dtype=np.int64)


def _lifted(column: pa.ChunkedArray, lifted: LiftedColumn) -> pa.Array:
    if lifted.user is None:
        return _cast(column, _type(lifted))
    collected = [[value for value in values or [] if value is not None] for values in column.to_pylist()]
    return lifted.user(pa.array(collected, pa.list_(lifted.type)))


def _text(partial: Partial, lifted: LiftedColumn) -> str:
    argument = re.sub(r"\b(\d+)L\b", r"\1", lifted.argument)
    if lifted.user is not None:
        lifted = replace(lifted, function="list")
    filtered = "" if partial.predicate is None else f" FILTER (WHERE {partial.predicate.sql})"
    return f"{lifted.function}({argument}){filtered}"


def _type(lifted: LiftedColumn) -> pa.DataType:
    if lifted.function == "count":
        return pa.int64()
    if lifted.function in ("min", "max"):
        return lifted.type
    if pa.types.is_floating(lifted.type):
        return pa.float64()
    return lifted.type if pa.types.is_decimal(lifted.type) else pa.int64()


def _cast(column: pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return array.cast(type)
