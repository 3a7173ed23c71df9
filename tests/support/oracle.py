"""The slow, obvious way: a window's answer recomputed from the raw tuples in DuckDB.

The same SELECT list, WHERE, GROUP BY, HAVING and ORDER BY run over the tuples of (t - w, t]: only the window clause
is translated. Queries in tests keep to the SQL that Spark and DuckDB read alike.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

WINDOW = re.compile(r"\[[^\]]*\]")


def recompute(
    text: str, tuples: pa.Table, as_of: int, length: int, lag: int = 0, closed_left: bool = False
) -> list[dict[str, Any]]:
    """The rows of `text` over the window as of a time; `tuples` has an int64 column `_us`, the timestamp."""
    newest, oldest = as_of - lag, as_of - lag - length
    bounds = f"_us >= {oldest} AND _us < {newest}" if closed_left else f"_us > {oldest} AND _us <= {newest}"
    plain = WINDOW.sub("", text, count=1)
    plain = re.sub(r"\bFROM\s+\w+", f"FROM (SELECT * FROM tuples WHERE {bounds})", plain, count=1)
    connection = duck()
    connection.register("tuples", tuples)
    found: list[dict[str, Any]] = connection.sql(plain).to_arrow_table().to_pylist()
    return found


@cache
def duck() -> duckdb.DuckDBPyConnection:
    """One DuckDB for all comparisons, with the few Spark functions that the pass uses."""
    connection = duckdb.connect()
    connection.sql("SET TimeZone = 'UTC'")
    connection.sql("SET threads = 1")
    connection.sql("CREATE MACRO shiftright(x, n) AS x >> n")
    connection.sql("CREATE MACRO named_struct(n0, x0, n1, x1) AS struct_pack(_0 := x0, _1 := x1)")
    return connection


def same_rows(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], ordered: bool = False) -> bool:
    """Equal as multisets of rows (or as lists), numbers within rounding. Column names are not compared."""
    left, right = ([tuple(row.values()) for row in rows] for rows in (ours, theirs))
    if len(left) != len(right):
        return False
    if not ordered:
        left, right = sorted(left, key=_sortable), sorted(right, key=_sortable)
    return all(same_value(a, b) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))


def _sortable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_placed(value) for value in row)


def _placed(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, "")
    if isinstance(value, float) and math.isnan(value):
        return (2, "")
    return (1, round(float(value), 6)) if isinstance(value, int | float) else (3, str(value))


def same_value(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)
