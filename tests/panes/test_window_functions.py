"""Window functions over the rows of an answer, compared with DuckDB."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, Stream
from sash.core.errors import QueryFailedError
from sash.panes.compositions import compose
from sash.plan.periodic import Composition, flatten
from sash.sql import SelectStatement, bind, parse, plan_panes
from tests.support.examples import examples
from tests.support.oracle import same_rows

STREAM = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        *(("k", pa.int32()), ("g", pa.string()), ("v", pa.int32())),
        *(("w", pa.int64()), ("x", pa.float64()), ("d", pa.decimal128(10, 2)), ("day", pa.date32())),
    ]
)
NAMES = [name for name in STREAM.names if name != "ts"]
ROWS = pa.schema([STREAM.field(name) for name in NAMES])
LEAF = f"(SELECT {', '.join(NAMES)} FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY {', '.join(NAMES)}) a"


def planned(text: str) -> Composition:
    catalog = Catalog()
    catalog.add_stream(Stream("s", STREAM, "ts"))
    statement = parse(text.replace("$a", LEAF))
    assert isinstance(statement, SelectStatement)
    query = flatten(plan_panes(bind(statement.select, catalog), periodic=True))
    assert isinstance(query, Composition)
    return query


def answer(text: str, rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = compose(planned(text), [rows]).to_pylist()
    return found


def by_duckdb(text: str, rows: pa.Table) -> list[dict[str, Any]]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    connection.register("a", rows)
    found: list[dict[str, Any]] = connection.sql(text.replace("$a", "a")).to_arrow_table().to_pylist()
    return found


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, ROWS)


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


_floats = st.sampled_from([0.0, 1.5, -2.25, 1e18, float("nan"), float("inf")])
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "k": _maybe(st.integers(0, 2)),
            "g": _maybe(st.sampled_from(["a", "b", "é"])),
            "v": _maybe(st.integers(-3, 3)),
            "w": _maybe(st.integers(-(2**61), 2**61)),
            "x": _maybe(_floats),
            "d": _maybe(st.decimals(-999, 999, places=2)),
            "day": _maybe(st.dates()),
        }
    ),
    max_size=12,
)
# Of whatever order rows have that are equal in order, these say the same.
RANKS = ["RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()"]
AGGREGATED = [
    *("COUNT(*)", "COUNT(1)"),
    # The average of decimals is a double to DuckDB.
    *("SUM(v)", "SUM(w)", "SUM(d)", "AVG(v)", "AVG(w)"),
    *(f"{name}({column})" for name in ("MIN", "MAX", "COUNT") for column in NAMES),
]
NUMBERED = [
    *("ROW_NUMBER()", "NTILE(1)", "NTILE(3)", "NTILE(5)", "NTILE(100)"),
    *("LAG(v)", "LEAD(g, 2)", "LAG(w, 0)", "LEAD(x, 1, -1)", "LAG(d, -1)", "LAG(v, 2, k + 7)", "LEAD(day, 20)"),
]
_partition = st.sampled_from(["", "PARTITION BY k ", "PARTITION BY g, k ", "PARTITION BY x ", "PARTITION BY v % 2 "])
_key = st.sampled_from(["k", "g", "v", "w", "x", "d", "day", "-v", "COALESCE(v, 0)"])
_way = st.sampled_from(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
# All columns: no rows are equal in order.
_ALL = "k, g, v, w, x, d, day"
_FRAMES = ["", " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"]
_FRAMES += [f" {kind} BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING" for kind in ("ROWS", "RANGE")]


def check(calls: list[str], over: str, rows: list[dict[str, Any]]) -> None:
    """All functions at once, over the same rows."""
    listed = ", ".join(f"{call} OVER ({over}) AS f{number}" for number, call in enumerate(calls))
    text = f"SELECT *, {listed} FROM $a"
    assert same_rows(answer(text, table(rows)), by_duckdb(text, table(rows)))


@settings(max_examples=examples(100), deadline=None)
@given(rows=_rows, partition=_partition, key=_key, way=_way, frame=st.sampled_from(_FRAMES))
def test_what_equal_rows_share(rows: list[dict[str, Any]], partition: str, key: str, way: str, frame: str) -> None:
    check(RANKS, f"{partition}ORDER BY {key}{way}", rows)
    check(AGGREGATED, f"{partition}ORDER BY {key}{way}{frame}", rows)


@settings(max_examples=examples(100), deadline=None)
@given(rows=_rows, partition=_partition, key=_key, way=_way)
def test_what_numbers_rows(rows: list[dict[str, Any]], partition: str, key: str, way: str) -> None:
    check(NUMBERED, f"{partition}ORDER BY {key}{way}, {_ALL}", rows)
    check(AGGREGATED, f"{partition}ORDER BY {key}{way}, {_ALL} ROWS UNBOUNDED PRECEDING", rows)


@settings(max_examples=examples(50), deadline=None)
@given(rows=_rows, partition=_partition)
def test_whole_partitions(rows: list[dict[str, Any]], partition: str) -> None:
    check(AGGREGATED, partition, rows)


_finite = st.lists(st.fixed_dictionaries({"k": st.integers(0, 3), "x": _maybe(st.floats(-1e6, 1e6))}), max_size=20)


@settings(max_examples=examples(60), deadline=None)
@given(rows=_finite, function=st.sampled_from(["SUM", "AVG"]))
def test_sums_of_floats_do_not_reach_into_other_partitions(rows: list[dict[str, Any]], function: str) -> None:
    """A huge number, an infinity or a NaN of one partition is not in the sums of the next."""
    odd = [{"k": -1, "x": 1e300}, {"k": 4, "x": float("inf")}, {"k": 5, "x": float("nan")}]
    text = f"SELECT k, {function}(x) OVER (PARTITION BY k ORDER BY x) AS s FROM $a"
    given_rows = table([{**dict.fromkeys(NAMES), **row} for row in (*rows, *odd)])
    assert same_rows(answer(text, given_rows), by_duckdb(text, given_rows))


def small(*rows: tuple[int | None, int | None]) -> pa.Table:
    return table([{**dict.fromkeys(NAMES), "k": k, "v": v} for k, v in rows])


def test_equal_rows_are_numbered_alike_however_they_come() -> None:
    """A replay has the groups in another order."""
    rows = [(1, 5), (1, 5), (2, 5), (None, 5)]
    text = "SELECT k, ROW_NUMBER() OVER (ORDER BY v) AS n, LAG(k) OVER (ORDER BY v) AS before FROM $a"
    found = {
        tuple(sorted((tuple(row.values()) for row in answer(text, small(*some))), key=lambda row: row[1]))
        for some in itertools.permutations(rows)
    }
    assert found == {((None, 1, None), (1, 2, None), (1, 3, 1), (2, 4, 1))}


def test_qualify_comes_before_order_and_limit() -> None:
    text = "SELECT k, v FROM $a WHERE v > 0 QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) <= 2"
    rows = small((1, 1), (1, 2), (1, 3), (2, 4), (2, -5), (3, None))
    assert [tuple(row.values()) for row in answer(f"{text} ORDER BY v", rows)] == [(1, 2), (1, 3), (2, 4)]
    assert [tuple(row.values()) for row in answer(f"{text} ORDER BY v LIMIT 1", rows)] == [(1, 2)]


def test_the_first_rows_of_each_group_as_flink_writes_them() -> None:
    inner = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS place FROM $a"
    rows = small((1, 1), (1, 2), (2, 4))
    found = answer(f"SELECT k, v FROM ({inner}) b WHERE place <= 1 ORDER BY k", rows)
    assert [tuple(row.values()) for row in found] == [(1, 2), (2, 4)]


def test_functions_in_expressions_and_in_order() -> None:
    text = "SELECT k, v / SUM(v) OVER () AS part, v - LAG(v, 1, 0) OVER (ORDER BY v) AS more FROM $a"
    found = answer(f"{text} ORDER BY RANK() OVER (ORDER BY v DESC), part", small((1, 1), (2, 3), (3, 4)))
    assert [tuple(row.values()) for row in found] == [(3, 0.5, 1), (2, 0.375, 2), (1, 0.125, 1)]


def test_a_sum_that_does_not_fit_fails_the_query() -> None:
    rows = table([{**dict.fromkeys(NAMES), "w": 2**62}] * 2)
    assert answer("SELECT SUM(w) OVER (ORDER BY w ROWS UNBOUNDED PRECEDING) AS s FROM $a LIMIT 0", table([])) == []
    with pytest.raises((OverflowError, QueryFailedError), match="does not fit into BIGINT"):
        answer("SELECT SUM(w) OVER () AS s FROM $a", rows)


def test_decimals_have_the_digits_of_sums_and_averages() -> None:
    rows = table([{**dict.fromkeys(NAMES), "d": Decimal(text)} for text in ("0.01", "0.02", "0.02")])
    (row, *_) = answer("SELECT SUM(d) OVER () AS s, AVG(d) OVER () AS a FROM $a", rows)
    assert row == {"s": Decimal("0.05"), "a": Decimal("0.016667")}
    schema = planned("SELECT SUM(d) OVER () AS s, AVG(d) OVER () AS a FROM $a").schema
    assert schema.types == [pa.decimal128(20, 2), pa.decimal128(14, 6)]


def test_rows_are_sorted_once_for_functions_over_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from sash.panes import window_functions

    sorts = []
    plain = window_functions.sorted_places
    monkeypatch.setattr(window_functions, "sorted_places", lambda *given: sorts.append(1) or plain(*given))
    over = "OVER (PARTITION BY k ORDER BY v)"
    text = f"SELECT RANK() {over} AS a, SUM(v) {over} AS b, LAG(v) {over} AS c, COUNT(*) OVER () AS d FROM $a"
    assert len(answer(text, small((1, 1), (2, 3)))) == 2 and len(sorts) == 2
