"""Questions over stored windows: what goes on to Spark, and what does not."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import parse_one

from sash.catalog import Catalog, Stream, Table
from sash.core.errors import CqlError
from sash.sql import Select, SelectStatement, StoredQuestion, bind_stored, parse

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32())])


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    found.add_stream(Stream("s", SCHEMA, "ts", keep=10_000_000))
    found.add_stream(Stream("t", SCHEMA, "ts"))
    found.add_table(Table("names", pa.schema([("k", pa.int32()), ("name", pa.string())]), ("k",)))
    return found


def select(text: str) -> Select:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    return statement.select


def bound(text: str, catalog: Catalog) -> StoredQuestion:
    return bind_stored(select(text), catalog)


def test_windows_become_views_under_their_own_names(catalog: Catalog) -> None:
    text = "SELECT s.v, x.v AS w FROM s [WINDOW 5 sec], t [ROWS 3 LAG 1] x, names WHERE s.k = x.k"
    question = bound(text, catalog)
    joined = "_window_0 AS s CROSS JOIN _window_1 AS x CROSS JOIN _table_0 AS names"
    assert question.sql == f"SELECT s.v, x.v AS w FROM {joined} WHERE s.k = x.k"
    assert [(each.stream.name, str(each.window)) for each in question.windows.values()] == [
        ("s", "[WINDOW 5 sec]"),
        ("t", "[ROWS 3 LAG 1]"),
    ]
    assert [each.reach for each in question.windows.values()] == [5_000_000, None]
    assert [table.name for table in question.tables.values()] == ["names"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM s [WINDOW 5 sec] JOIN names n ON s.k = n.k", "ts v name s_k n_k"),
        ("SELECT * FROM s [WINDOW 5 sec] JOIN names n USING (k)", "*"),
        ("SELECT * FROM s [WINDOW 5 sec] a JOIN t [WINDOW 5 sec] b USING (k)", "k a_ts a_v b_ts b_v"),
        ("SELECT b.*, a.v FROM s [WINDOW 5 sec] a JOIN t [WINDOW 5 sec] b USING (k)", "ts k b_v v"),
        ("SELECT a.* FROM s [WINDOW 5 sec] a JOIN t [WINDOW 5 sec] b USING (k)", "a.*"),
        ("SELECT * FROM s [WINDOW 5 sec] a LEFT SEMI JOIN t [WINDOW 5 sec] b USING (k)", "*"),
    ],
)
def test_columns_of_one_name_under_a_star_get_prefixes(text: str, columns: str, catalog: Catalog) -> None:
    listed = parse_one(bound(text, catalog).sql, dialect="spark").expressions
    assert sorted(each.alias_or_name if "*" not in each.sql() else each.sql() for each in listed) == sorted(
        columns.split()
    )


def test_the_tree_is_left_as_it_was(catalog: Catalog) -> None:
    asked = select("SELECT v FROM s [WINDOW 5 sec] WHERE v IN (SELECT v FROM s [WINDOW 2 sec])")
    assert bind_stored(asked, catalog, "x") == bind_stored(asked, catalog, "x")


def test_strings_mean_what_they_say(catalog: Catalog) -> None:
    """Spark replaces ${..} in the text of a query, by its settings and by the environment."""
    question = bound(r"SELECT '${env:HOME}' AS a, 'it\'s \\' AS b FROM s [WINDOW 5 sec]", catalog)
    assert question.sql == r"SELECT '\u0024{env:HOME}' AS a, 'it\'s \\' AS b FROM _window_0 AS s"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT upper('a; DROP TABLE x -- ') AS u, 'it''s' AS q FROM s [WINDOW 5 sec]",
        "SELECT CASE WHEN v > 1 THEN 'a' ELSE 'b' END AS c, CAST(v AS STRING) AS d FROM s [WINDOW 5 sec]",
        "SELECT v FROM s [WINDOW 5 sec] WHERE v BETWEEN 1 AND 2 OR v IN (1, 2) OR NOT v LIKE '1%' OR v IS NULL",
        "SELECT k, COUNT(*) FROM (SELECT DISTINCT k FROM s [WINDOW 5 sec]) x GROUP BY k HAVING COUNT(*) > 0",
        "SELECT lag(v) OVER (PARTITION BY k ORDER BY ts) AS before FROM s [WINDOW 5 sec] ORDER BY ts LIMIT 3",
        "SELECT v FROM s [WINDOW 5 sec] UNION ALL SELECT v FROM s [WINDOW 2 sec] ORDER BY v",
        "SELECT ts + INTERVAL 1 DAY AS tomorrow, EXTRACT(HOUR FROM ts) AS h FROM s [WINDOW 5 sec]",
    ],
)
def test_what_is_on_the_lists_passes(text: str, catalog: Catalog) -> None:
    assert bound(text, catalog).windows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT v FROM parquet.`/tmp/x`", "by itself"),
        ("SELECT v FROM spark_catalog.default.x", "by itself"),
        ("SELECT v FROM `/tmp/x`", "unknown stream"),
        ("SELECT v FROM global_temp.x", "by itself"),
        ("SELECT reflect('java.lang.System', 'exit', 1) AS x FROM s [WINDOW 5 sec]", "REFLECT is refused"),
        ("SELECT java_method('java.lang.System', 'exit', 1) AS x FROM s [WINDOW 5 sec]", "refused"),
        ("SELECT input_file_name() AS x FROM s [WINDOW 5 sec]", "refused"),
        ("SELECT current_user() AS x FROM s [WINDOW 5 sec]", "refused"),
        ("SELECT current_user AS x FROM s [WINDOW 5 sec]", "refused"),
        ("SELECT v FROM s [WINDOW 5 sec] WHERE v > rand()", "RAND is refused"),
        ("SELECT now() AS x FROM s [WINDOW 5 sec]", "NOW is refused"),
        ("SELECT from_avro(v) AS x FROM s [WINDOW 5 sec]", "FROM_AVRO is refused: it reaches outside the stream"),
        ("SELECT explode(v) AS x FROM s [WINDOW 5 sec]", "EXPLODE, which makes several rows of one"),
        ("SELECT QUANTILE(a.v, 0.5) FROM s [WINDOW 5 sec] a, s [WINDOW 2 sec] b", "over one window by itself"),
        ("SELECT v FROM s [WINDOW 5 sec] TABLESAMPLE (10 PERCENT)", "not supported yet"),
        ("SELECT v FROM s [WINDOW 5 sec] LATERAL VIEW explode(v) x AS y", "not supported yet"),
        ("SELECT v FROM (SELECT v FROM s [WINDOW 5 sec]) [ROWS 3] x", "a window on a sub-query"),
        ("SELECT mine.upper('x') AS u FROM s [WINDOW 5 sec]", "not supported yet"),
        ("SELECT system.session.upper('x') AS u FROM s [WINDOW 5 sec]", "not supported yet"),
        ("SELECT v AS `${env:HOME}` FROM s [WINDOW 5 sec]", "which Spark would replace"),
        ("SELECT `current_user` AS u FROM s [WINDOW 5 sec]", "CURRENT_USER is refused"),
        ("SELECT v FROM s [WINDOW 5 sec] APPROX INTERSECT SELECT v FROM s [WINDOW 2 sec]", "APPROX, in a one-time"),
        ("SELECT v FROM s [WINDOW 5 sec] INTERSECT GROUPS 3 SELECT v FROM s [WINDOW 2 sec]", "GROUPS belongs to"),
        ("SELECT system.session.x AS u FROM s [WINDOW 5 sec]", "written as name, or as alias.name"),
        ("SELECT HOP(ts, 5) AS h, COUNT(*) FROM s [WINDOW 5 sec] GROUP BY 1", "[WINDOW 10 sec SLIDE 5 sec]"),
        ("SELECT FIRST(v) OVER (ORDER BY ts) FROM s [WINDOW 5 sec]", "FIRST is answered over one window by itself"),
        ("SELECT y.v FROM s [WINDOW 5 sec] x", "unknown stream or alias 'y'"),
        ("SELECT vv FROM s [WINDOW 5 sec] x", "unknown column 'vv'"),
        ("SELECT /*+ BROADCAST(s) */ v FROM s [WINDOW 5 sec]", "not supported yet"),
        ("SELECT v FROM s [WINDOW 5 sec] EXCEPT ALL ON (v) SELECT v FROM s [WINDOW 2 sec]", "EXCEPT ALL ON"),
        ("SELECT v FROM s [WINDOW 5 sec INTERNAL]", "INTERNAL belongs to continuous queries"),
        ("SELECT v FROM s [WINDOW 1500 ms]", "not a multiple of the granule"),
        ("SELECT v FROM s [PARTITION BY z ROWS 2]", "unknown column 'z'"),
        ("SELECT v FROM s [WINDOW 1 TO 5 sec STEP 1 sec]", "windows of several lengths are answered from panes"),
        ("SELECT v FROM s [FROM '2026-01-01' TO '2026-01-02']", "AND ts <= TIMESTAMP '2026-01-02 00:00:00'"),
    ],
)
def test_everything_else_is_refused_at_its_word(text: str, reason: str, catalog: Catalog) -> None:
    with pytest.raises(CqlError, match=reason) as caught:
        bound(text, catalog)
    assert caught.value.span is not None
