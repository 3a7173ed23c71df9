"""Spark's pass, done by DuckDB: partials of (pane, group) from raw tuples, so that the engine runs without a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.panes.counters import ROWS, CounterKey, counters_of
from sash.panes.lifted import LiftedColumn
from sash.panes.pane_rows import BatchFacts, PaneRows
from sash.panes.partials import Partial
from sash.plan.expressions import RowExpression
from sash.sharing.groups import PaneTable
from tests.support.oracle import duck


def aggregate(stream: Stream, tables: list[PaneTable], tuples: pa.Table) -> BatchFacts:
    """What the pass over one micro-batch brings; `tuples` has an int64 column `_us`: the timestamp, or NULL.

    With tables of row-based windows it also has a column `_n`, the number of each tuple.
    """
    connection = duck()
    connection.register("tuples", tuples)
    ((rows, latest, nulls),) = connection.sql("SELECT count(*), max(_us), count(*) - count(_us) FROM tuples").fetchall()
    lanes = [(i, *lane) for i, table in enumerate(tables) for lane in _lanes(connection, stream, table)]
    return BatchFacts(rows, latest, nulls, 0, lanes)


def _lanes(
    connection: duckdb.DuckDBPyConnection, stream: Stream, table: PaneTable
) -> Iterator[tuple[PaneRows, np.ndarray]]:
    s, o = table.length, 0 if table.name.by_rows else stream.offset
    at = "_n" if table.name.by_rows else "_us"
    past = f"(((({at} - {o}) % {s}) + {s}) % {s})"
    pane = f"{at} - {past} + {s}"
    if table.name.by_rows or not stream.closed_left:
        pane = f"CASE WHEN {past} = 0 THEN {at} ELSE {pane} END"
    columns = [(partial, lifted) for partial in table.partials for lifted in partial.lift()]
    texts = [f"{_text(partial, lifted)} AS c{i}" for i, (partial, lifted) in enumerate(columns)]
    keys = [f"({_counted(key).sql}) AS k{i}" for i, key in enumerate(table.keys)]
    grouping = ", ".join(["pane", *(f"k{i}" for i in range(len(keys)))])
    sql = (
        f"SELECT {grouping}, count(*) AS n, max(_us) AS latest, {', '.join(texts)} FROM "
        f"(SELECT *, {', '.join([f'{pane} AS pane', *keys])} FROM tuples WHERE _us IS NOT NULL) GROUP BY {grouping}"
    )
    by_value = connection.sql(sql).to_arrow_table().combine_chunks()
    for result in _results(connection, by_value, table, grouping):
        key_columns = [_cast(result[f"k{i}"], key.type) for i, key in enumerate(table.keys)]
        lifted: dict[Partial, list[pa.Array]] = {}
        for i, (partial, each) in enumerate(columns):
            lifted.setdefault(partial, []).append(_lifted(result[f"c{i}"], each))
        ends = np.asarray(result["pane"], dtype=np.int64)
        latest = np.asarray(result["latest"], dtype=np.int64)
        yield PaneRows(s, ends, key_columns, lifted, latest), np.asarray(result["n"], dtype=np.int64)


def _results(
    connection: duckdb.DuckDBPyConnection, by_value: pa.Table, table: PaneTable, grouping: str
) -> Iterator[pa.Table]:
    """The groups as they are; or for each row of counters, the counts of values by the counters of the values."""
    places = [place for place, key in enumerate(table.keys) if isinstance(key, CounterKey)]
    if not places:
        yield by_value
        return
    name, type = f"k{places[0]}", _counted(table.keys[places[0]]).type
    of_rows = [counters_of(value) if value.is_valid else None for value in _cast(by_value[name], type)]
    sums = [f"sum({each})::BIGINT AS {each}" for each in by_value.column_names if each == "n" or each.startswith("c")]
    for row in range(ROWS):
        counters = pa.array([None if each is None else each[row] for each in of_rows], pa.int32())
        connection.register("by_value", by_value.drop([name]).append_column(name, counters))
        sql = f"SELECT {grouping}, max(latest) AS latest, {', '.join(sums)} FROM by_value GROUP BY {grouping}"
        yield connection.sql(sql).to_arrow_table().combine_chunks()


def _counted(key: RowExpression) -> RowExpression:
    return key.argument if isinstance(key, CounterKey) else key


def _lifted(column: pa.ChunkedArray, lifted: LiftedColumn) -> pa.Array:
    if _is_python(lifted):
        known = ([value for value in values or [] if value is not None] for values in column.to_pylist())
        type = lifted.type if pa.types.is_struct(lifted.type) and lifted.function in ("min", "max") else pa.float64()
        return pa.array([in_python(lifted, values) for values in known], type)
    if lifted.user is None:
        return _cast(column, _type(lifted))
    collected = [[value for value in values or [] if value is not None] for values in column.to_pylist()]
    return lifted.user(pa.array(collected, pa.list_(lifted.type)))


def _is_python(lifted: LiftedColumn) -> bool:
    """Whether DuckDB would compute something else than Spark: structs have another order, skewness is corrected."""
    is_struct = pa.types.is_struct(lifted.type) and lifted.function != "count"
    return lifted.user is None and (is_struct or lifted.function in ("skewness", "kurtosis"))


def in_python(lifted: LiftedColumn, values: list[Any]) -> Any:
    """An aggregate function of Spark's over values that are not NULL: by its definition."""
    if not values:
        return None
    if lifted.function in ("min", "max"):
        return (min if lifted.function == "min" else max)(values, key=lambda pair: [*map(_ranked, pair.values())])
    columns = [np.array([pair[part] for pair in values]) for part in lifted.parts] or [np.array(values)]
    one, other = columns[0] - columns[0].mean(), columns[-1] - columns[-1].mean()
    if lifted.function == "avg":
        return float(columns[0].mean())
    if lifted.function in ("var_pop", "covar_pop"):
        return float((one * other).mean())
    spread = float((one**2).mean())
    if spread == 0.0:
        return None
    power = 3 if lifted.function == "skewness" else 4
    return float((one**power).mean()) / spread ** (power / 2) - (0.0 if power == 3 else 3.0)


def _ranked(value: Any) -> tuple[int, Any]:
    """NULL before every value, NaN behind every number."""
    return (0, 0) if value is None else (2, 0) if value != value else (1, value)


def _text(partial: Partial, lifted: LiftedColumn) -> str:
    argument = re.sub(r"\b(\d+)L\b", r"\1", lifted.argument)
    if lifted.user is not None or _is_python(lifted):
        lifted = replace(lifted, function="list")
    filtered = "" if partial.predicate is None else f" FILTER (WHERE {partial.predicate.sql})"
    return f"{lifted.function}({argument}){filtered}"


def _type(lifted: LiftedColumn) -> pa.DataType:
    if lifted.function == "count":
        return pa.int64()
    if lifted.function in ("min", "max", "bit_and", "bit_or", "bit_xor"):
        return lifted.type
    if pa.types.is_floating(lifted.type):
        return pa.float64()
    return lifted.type if pa.types.is_decimal(lifted.type) else pa.int64()


def _cast(column: pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return array.cast(type)
