"""What a question says of its windows: constants, equalities, the first rows in an order, the order of all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.catalog import Catalog, Stream, Table
from sash.sql import LeadingRows, Link, OrderTerm, SelectStatement, StoredQuestion, StoredReading, bind_stored, parse

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32()), ("w", pa.int64())])
OTHER = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("u", pa.int32())])


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    found.add_stream(Stream("s", SCHEMA, "ts", keep=10_000_000))
    found.add_stream(Stream("t", OTHER, "ts", keep=10_000_000))
    found.add_table(Table("names", pa.schema([("k", pa.int32()), ("name", pa.string())]), ("k",)))
    return found


def question(text: str, catalog: Catalog, mark: str = "") -> StoredQuestion:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    return bind_stored(statement.select, catalog, mark)


def readings(text: str, catalog: Catalog) -> list[StoredReading]:
    return list(question(text, catalog).windows.values())


A, B = "s [WINDOW 5 sec] a", "t [WINDOW 5 sec] b"


@pytest.mark.parametrize(
    ("text", "of_a", "of_b"),
    [
        (f"{A}, {B} WHERE a.k = b.k", True, True),
        (f"{A} JOIN {B} ON a.k = b.k", True, True),
        (f"{A} JOIN {B} ON (a.k = b.k AND a.v < 3)", True, True),
        (f"{A} CROSS JOIN {B} WHERE v < 3 AND b.k = a.K", True, True),
        (f"{A} JOIN {B} USING (k)", True, True),
        (f"{A} LEFT JOIN {B} ON a.k = b.k", False, True),
        (f"{A} LEFT OUTER JOIN {B} USING (k)", False, True),
        (f"{A} RIGHT JOIN {B} ON b.k = a.k", True, False),
        (f"{A} FULL JOIN {B} ON b.k = a.k", False, False),
        (f"{A} FULL JOIN {B} ON b.u = 1 WHERE b.k = a.k", True, True),
        (f"{A} JOIN {B} ON a.k = b.k OR a.v = 1", False, False),
        (f"{A} JOIN {B} ON NOT a.k = b.k", False, False),
        (f"{A} JOIN {B} ON a.k <=> b.k", False, False),
        (f"{A} JOIN {B} ON a.k = b.k + 1", False, False),
        (f"{A} LEFT SEMI JOIN {B} ON a.k = b.k", False, False),
        (f"{A} LEFT ANTI JOIN {B} ON a.k = b.k", False, False),
        (f"s [ROWS 5] a JOIN {B} ON a.k = b.k", False, True),
        (f"{A} JOIN t [NOW] b ON a.k = b.k", True, False),
        (f"{A} JOIN t [WINDOW 5 sec] b (x, k, y) ON a.k = b.k", False, False),
    ],
)
def test_equalities_link_windows_where_rows_must_match(text: str, of_a: bool, of_b: bool, catalog: Catalog) -> None:
    first, second = readings(f"SELECT a.v FROM {text}", catalog)
    assert first.links == ((Link("k", "_window_1", "k"),) if of_a else ())
    assert second.links == ((Link("k", "_window_0", "k"),) if of_b else ())


def test_names_without_a_qualifier_belong_where_they_are_alone(catalog: Catalog) -> None:
    first, second = readings(f"SELECT v FROM {A}, {B} WHERE v = u AND v = 3 AND u IN (1, 2)", catalog)
    assert (first.links, second.links) == ((Link("v", "_window_1", "u"),), (Link("u", "_window_0", "v"),))
    assert (list(map(str, first.sought)), list(map(str, second.sought))) == (["v = 3"], ["u IN (1, 2)"])
    for text in ("k = 3", "a.k = 3 OR b.k = 3", "k = u"):
        first, second = readings(f"SELECT v FROM {A}, {B} WHERE {text}", catalog)
        assert first.sought == second.sought == () and first.links == second.links == ()
    (only,) = readings(f"SELECT v FROM {A} JOIN (SELECT k AS v2 FROM names) n ON a.k = n.v2 WHERE v = 3", catalog)
    assert only.sought == ()


def test_types_that_spark_would_cast_do_not_link(catalog: Catalog) -> None:
    first, second = readings(f"SELECT a.v FROM {A} JOIN {B} ON a.w = b.k", catalog)
    assert first.links == second.links == ()


def test_tables_and_outer_queries_are_no_windows_to_probe_with(catalog: Catalog) -> None:
    (only,) = readings(f"SELECT a.v FROM {A} JOIN names n ON a.k = n.k", catalog)
    assert only.links == ()
    text = f"SELECT a.v FROM {A} WHERE EXISTS (SELECT 1 FROM {B} WHERE a.k = b.k AND b.u = 1)"
    first, second = readings(text, catalog)
    assert first.links == second.links == ()
    assert list(map(str, second.sought)) == ["u = 1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", LeadingRows("k", 3)),
        ("v FROM s [WINDOW 5 sec] ORDER BY k DESC, v LIMIT 3 OFFSET 2", LeadingRows("k", 5, True, False)),
        ("v FROM s [WINDOW 5 sec] ORDER BY k DESC NULLS FIRST LIMIT 3", LeadingRows("k", 3, True, True)),
        ("v FROM s [WINDOW 5 sec] ORDER BY k NULLS LAST LIMIT 3", LeadingRows("k", 3, False, False)),
        ("* FROM s [WINDOW 5 sec] x ORDER BY x.K LIMIT 0", LeadingRows("k", 0)),
        ("v AS k FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", LeadingRows("v", 3)),
        ("-v AS k FROM s [WINDOW 5 sec] x ORDER BY x.k LIMIT 3", LeadingRows("k", 3)),
        ("upper('a') AS u FROM s [WINDOW 5 sec] x ORDER BY k LIMIT 3", LeadingRows("k", 3)),
        ("-v AS k FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("v AS k, k FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("*, v AS k FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY k + 1 LIMIT 3", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY 1 LIMIT 3", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY k", None),
        ("v FROM s [WINDOW 5 sec] LIMIT 3", None),
        ("v FROM s [ROWS 5] ORDER BY k LIMIT 3", None),
        ("v FROM s [WINDOW 5 sec] WHERE v > 3 ORDER BY k LIMIT 3", None),
        ("DISTINCT k FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("k FROM s [WINDOW 5 sec] GROUP BY k ORDER BY k LIMIT 3", None),
        ("k, row_number() OVER (ORDER BY v) AS n FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("k, (SELECT MAX(u) FROM t [ROWS 1]) AS m FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("MAX(k) AS k FROM s [WINDOW 5 sec] x, names ORDER BY k LIMIT 3", None),
        ("x.k FROM s [WINDOW 5 sec] x, names ORDER BY x.k LIMIT 3", None),
    ],
)
def test_order_by_with_a_limit_leaves_the_first_rows(text: str, expected: LeadingRows | None, catalog: Catalog) -> None:
    assert readings(f"SELECT {text}", catalog)[0].leading == expected


def test_a_limit_in_a_sub_query_is_of_its_own_window(catalog: Catalog) -> None:
    inner, outer = f"SELECT v FROM {A} ORDER BY k LIMIT 2", f"SELECT u FROM {B}"
    first, second = readings(f"SELECT z.v FROM ({inner}) z UNION ALL {outer}", catalog)
    assert (first.leading, second.leading) == (LeadingRows("k", 2), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v FROM s [WINDOW 5 sec] ORDER BY k", [OrderTerm("k")]),
        ("* FROM s [WINDOW 5 sec] x ORDER BY x.K DESC, ts", [OrderTerm("k", True, False), OrderTerm("ts")]),
        ("v FROM s [WINDOW 5 sec] WHERE w > 3 AND v = 1 ORDER BY k NULLS LAST", [OrderTerm("k", False, False)]),
        ("v AS k FROM s [WINDOW 5 sec] ORDER BY k, w DESC NULLS FIRST", [OrderTerm("v"), OrderTerm("w", True, True)]),
        ("-v AS k FROM s [WINDOW 5 sec] x ORDER BY x.k", [OrderTerm("k")]),
        ("v FROM s [ROWS 5] ORDER BY k", [OrderTerm("k")]),
        ("-v AS k FROM s [WINDOW 5 sec] ORDER BY w, k", None),
        ("*, v AS k FROM s [WINDOW 5 sec] ORDER BY k", None),
        ("v AS k, k FROM s [WINDOW 5 sec] ORDER BY k", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY k, v + 1", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY 1", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY k LIMIT 3", None),
        ("v FROM s [WINDOW 5 sec] ORDER BY k OFFSET 3", None),
        ("v FROM s [WINDOW 5 sec]", None),
        ("DISTINCT k FROM s [WINDOW 5 sec] ORDER BY k", None),
        ("k FROM s [WINDOW 5 sec] GROUP BY k ORDER BY k", None),
        ("k, SUM(v) OVER () AS n FROM s [WINDOW 5 sec] ORDER BY k", None),
        ("v FROM s [WINDOW 5 sec] WHERE k IN (SELECT u FROM t [ROWS 1]) ORDER BY k", None),
        ("v FROM s [WINDOW 5 sec] WHERE k IN (SELECT k FROM names) ORDER BY k", None),
        ("v FROM s [WINDOW 5 sec] UNION ALL SELECT u AS v FROM t [WINDOW 5 sec] ORDER BY v", None),
        ("v FROM s [WINDOW 5 sec] x JOIN names ON x.k = names.k ORDER BY v", None),
        ("v FROM (SELECT v FROM s [WINDOW 5 sec]) z ORDER BY v", None),
        ("v FROM s [WINDOW 5 sec] AS x (t, v, k, w) ORDER BY v", None),
        ("k FROM names ORDER BY k", None),
    ],
)
def test_order_by_names_columns_of_the_only_window(
    text: str, expected: list[OrderTerm] | None, catalog: Catalog
) -> None:
    sorting = question(f"SELECT {text}", catalog).sorting
    assert (None if sorting is None else list(sorting.terms)) == expected


def test_without_order_by_the_answer_has_places(catalog: Catalog) -> None:
    sorting = question(
        "SELECT *, v + 1 AS n FROM s [WINDOW 5 sec] WHERE k > 2 ORDER BY k DESC, v", catalog, "_7"
    ).sorting
    assert sorting is not None
    assert sorting.sql == "SELECT *, v + 1 AS n, _place_7 FROM _window_0_7 AS s WHERE k > 2"
    assert (sorting.place, str(sorting)) == ("_place_7", "ORDER BY k DESC, v")
