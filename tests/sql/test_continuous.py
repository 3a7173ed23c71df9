"""Continuous queries over one window: which part computes what, names, groups, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sash.catalog import Catalog, Stream
from sash.core.errors import CqlError, NotSupportedError
from sash.core.window import FOREVER, RowWindow, TimeWindow, Window
from sash.plan.continuous import Aggregated, BaseWindow, Column, Filter, GroupBy, Map, windows
from sash.plan.expressions import Call, Field, Literal, RowExpression
from sash.runtime.route import is_continuous
from sash.sql import SelectStatement, bind, parse, plan_panes
from tests.sql.examples import CATALOG, check_continuous_error, continuous_plan, explained, marked

SEC = 1_000_000
BOOL, INT, STRING, LONG = pa.bool_(), pa.int32(), pa.string(), pa.int64()


def test_what_concerns_the_window_alone_is_sparks() -> None:
    """The whole plan, node by node."""
    src = Column("packets.src", RowExpression("src", INT, ("src",)))
    upper = Column("packets.UPPER(protocol)", RowExpression("UPPER(protocol)", STRING, ("protocol",)))
    predicate = RowExpression("length > 10 AND ok", BOOL, ("length", "ok"))
    base = BaseWindow("packets", "packets", TimeWindow(5 * SEC), (src, upper), predicate)
    query = (
        "SELECT src, UPPER(protocol) AS p, 1 AS one, SRC AS again FROM packets [RANGE 5 sec] WHERE length > 10 AND ok"
    )
    assert continuous_plan(query) == Map(
        base,
        (
            ("src", Field("packets.src", INT)),
            ("p", Field("packets.UPPER(protocol)", STRING)),
            ("one", Literal(1, INT)),
            ("again", Field("packets.src", INT)),
        ),
    )


def test_a_condition_stays_above_a_row_based_window() -> None:
    """It is a column of the window, and it guards what could fail on other rows."""
    shares = Column("t.shares", RowExpression("shares", INT, ("shares",)))
    guarded = RowExpression("CASE WHEN shares <> 0 THEN 1 / shares END", pa.float64(), ("shares",))
    test = Column("t.shares <> 0", RowExpression("shares <> 0", BOOL, ("shares",)))
    keys = [Column(f"t.{name}", RowExpression(name, STRING, (name,))) for name in ("symbol", "exchange")]
    columns = (*keys, Column("t.1 / shares", guarded), shares, test)
    base = BaseWindow("trades", "t", RowWindow(5), columns, None, ("t.symbol", "t.exchange"))
    query = "SELECT 1 / shares AS x, shares FROM trades [PARTITION BY Symbol, exchange ROWS 5] t WHERE shares <> 0"
    assert continuous_plan(query) == Map(
        Filter(base, Field("t.shares <> 0", BOOL)),
        (("x", Field("t.1 / shares", pa.float64())), ("shares", Field("t.shares", INT))),
    )


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("[RANGE 5 sec]", TimeWindow(5 * SEC)),
        ("[WINDOW 1 min] AS p", TimeWindow(60 * SEC)),
        ("[UNBOUNDED]", TimeWindow(FOREVER)),
        ("[NOW]", TimeWindow(1)),
        ("[now] p", TimeWindow(1)),
        ("[ROWS 7]", RowWindow(7)),
    ],
)
def test_windows(clause: str, window: Window) -> None:
    (base,) = windows(continuous_plan(f"SELECT src FROM packets {clause}"))
    assert base.window == window and type(base.window) is type(window)


PLANS = [
    (
        "SELECT *, x AS y FROM (SELECT x, weight FROM odd [ROWS 5] WHERE approx) a",
        [
            "Project a.x AS x, a.weight AS weight, a.x AS y  -> STR",
            "  Project x AS a.x, weight AS a.weight  -> STR",
            "    Project odd.x AS x, odd.weight AS weight  -> STR",
            "      Filter odd.approx  -> STR",
            "        Window odd [ROWS 5]  -> STR",
        ],
    ),
    (
        "SELECT P.`a b`, p.`a b` + 1 AS c FROM Packets [UNBOUNDED] p WHERE p.src = 1 AND (dst = 2 AND src = 1)",
        [
            "Project p.a b AS a b, p.`a b` + 1 AS c  -> MON",
            "  Window packets p [UNBOUNDED] where src = 1 AND dst = 2  -> MON",
        ],
    ),
    (
        "SELECT src FROM packets [ROWS 5] WHERE NULL",
        [
            "Project packets.src AS src  -> STR",
            "  Filter packets.CAST(NULL AS BOOLEAN)  -> STR",
            "    Window packets [ROWS 5]  -> STR",
        ],
    ),
    (
        "SELECT DATE_TRUNC('day', ts) AS d FROM packets [RANGE 5 sec] WHERE FALSE",
        [
            "Project packets.DATE_TRUNC('day', ts) AS d  -> WKS",
            "  Window packets [WINDOW 5 sec] where FALSE  -> WKS",
        ],
    ),
    (
        "SELECT DISTINCT src, dst FROM packets [RANGE 5 sec]",
        [
            "Distinct  -> WK",
            "  Project packets.src AS src, packets.dst AS dst  -> WKS",
            "    Window packets [WINDOW 5 sec]  -> WKS",
        ],
    ),
    (
        "SELECT src, COUNT(*) AS n, SUM(length + 1) FROM packets [UNBOUNDED] WHERE ok GROUP BY src HAVING n > 3",
        [
            "Project packets.src AS src, COUNT(*) AS n, SUM(packets.length + 1) AS sum(length + 1)  -> STR",
            "  Filter gt(COUNT(*), 3)  -> STR",
            "    GroupBy packets.src: COUNT(*), SUM(packets.length + 1)  -> STR",
            "      Window packets [UNBOUNDED] where ok  -> MON",
        ],
    ),
    (
        "SELECT src % 2 AS k, src % 2 + MAX(length) AS m FROM packets [ROWS 3] p WHERE ok GROUP BY k HAVING k > 0",
        [
            "Project p.src % 2 AS k, add(p.src % 2, MAX(p.length)) AS m  -> STR",
            "  Filter gt(p.src % 2, 0)  -> STR",
            "    GroupBy p.src % 2: MAX(p.length)  -> STR",
            "      Filter p.ok  -> STR",
            "        Window packets p [ROWS 3]  -> STR",
        ],
    ),
    (
        "SELECT DISTINCT COUNT(*) FROM packets [NOW] GROUP BY src, dst",
        [
            "Distinct  -> STR",
            "  Project COUNT(*) AS count(1)  -> STR",
            "    GroupBy packets.src, packets.dst: COUNT(*)  -> STR",
            "      Window packets [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        "SELECT SUM(1) FROM packets [RANGE 1 sec]",
        [
            "Project SUM(1) AS sum(1)  -> STR",
            "  GroupBy (): SUM(1)  -> STR",
            "    Project 1  -> WKS",
            "      Window packets [WINDOW 1 sec]  -> WKS",
        ],
    ),
]


@pytest.mark.parametrize(("query", "expected"), PLANS)
def test_plan(query: str, expected: list[str]) -> None:
    assert explained(query) == expected


def test_aggregates_have_the_types_of_periodic_queries() -> None:
    plan = continuous_plan("SELECT src, COUNT(*) n, SUM(price), VAR_SAMP(length) FROM packets [ROWS 9] GROUP BY src")
    assert isinstance(plan, Map) and isinstance(plan.input, GroupBy)
    assert plan.input.keys == ("packets.src",)
    assert plan.input.calls == (
        Aggregated("COUNT(*)", "count", None, LONG),
        Aggregated("SUM(packets.price)", "sum", "packets.price", pa.decimal128(20, 2)),
        Aggregated("VARIANCE(packets.length)", "variance", "packets.length", pa.float64()),
    )
    assert plan.schema.names == ["src", "n", "sum(price)", "variance(length)"]


def test_a_window_has_only_the_columns_that_are_used() -> None:
    (base,) = windows(continuous_plan("SELECT COUNT(*) FROM packets [RANGE 5 sec] WHERE src > 1"))
    assert [column.expression.sql for column in base.columns] == ["1"]
    (base,) = windows(continuous_plan("SELECT MAX(src) FROM packets [RANGE 5 sec] GROUP BY dst"))
    assert [column.name for column in base.columns] == ["packets.dst", "packets.src"]


def test_names_are_unique_though_a_column_looks_like_an_expression() -> None:
    known = Catalog()
    known.add_stream(Stream("s", pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", INT), ("x + 1", INT)]), "ts"))
    plan = continuous_plan("SELECT `x + 1` AS a, x + 1 AS b FROM s [NOW]", known)
    assert isinstance(plan, Map)
    assert plan.outputs == (("a", Field("s.x + 1", INT)), ("b", Field("s.x + 1'", INT)))


def test_a_long_condition() -> None:
    (base,) = windows(
        continuous_plan("SELECT src FROM packets [NOW] WHERE " + " AND ".join(f"src <> {i}" for i in range(900)))
    )
    assert base.predicate is not None and base.predicate.sql.endswith("src <> 899")


def test_which_queries_are_continuous() -> None:
    def continuous(text: str) -> bool:
        statement = parse(text)
        assert isinstance(statement, SelectStatement)
        return is_continuous(bind(statement.select, CATALOG))

    assert continuous("SELECT src FROM packets [NOW]")
    assert continuous("SELECT a.src FROM packets [NOW] a, (SELECT src FROM packets [ROWS 3]) b WHERE a.src = b.src")
    assert continuous("SELECT src FROM packets [NOW] UNION ALL SELECT src FROM packets")
    assert continuous("SELECT src FROM packets")
    assert not continuous("SELECT COUNT(*) FROM packets [ROWS 3 SLIDE 1]")
    assert not continuous("SELECT COUNT(*) FROM packets [ROWS 3 SLIDE 1] WHERE src IN (1, 2)")


def test_columns_are_called_by_the_alias_or_by_the_stream() -> None:
    """In a continuous query as in any other, while a query around has no such alias."""
    by_alias, by_stream = (continuous_plan(f"SELECT {name}.src FROM packets [NOW] p") for name in ("p", "packets"))
    assert by_alias == by_stream
    inside = "SELECT 1 FROM packets [NOW] o WHERE o.src = packets.src"
    assert "packets.src" in str(continuous_plan(f"SELECT dst FROM packets [NOW] WHERE EXISTS ({inside})"))


MIXED = [
    "SELECT a.src FROM packets [ROWS 3 SLIDE 1] a, packets «[NOW]» b WHERE a.src = b.src",
    "SELECT COUNT(*) AS n FROM packets [ROWS 3 SLIDE 1] UNION ALL SELECT 1 AS n FROM packets «[ROWS 5]»",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM odd «[ROWS 3]») a, (SELECT MAX(x) AS m FROM odd [ROWS 3 SLIDE 1]) b",
]


@pytest.mark.parametrize("text", MIXED)
def test_windows_with_and_without_slide_do_not_mix(text: str) -> None:
    statement, start, end = marked(text)
    parsed = parse(statement)
    assert isinstance(parsed, SelectStatement)
    with pytest.raises(CqlError, match=r"slide, all of them, or none does: add SLIDE here, as in \[ROWS 3") as caught:
        plan_panes(bind(parsed.select, CATALOG), periodic=True)
    assert caught.value.span is not None and (caught.value.span.start, caught.value.span.end) == (start, end)


ERRORS = [
    (
        "SELECT p.src FROM packets [NOW] a, «packets p» WHERE a.src = p.src",
        "'packets' needs a window: write packets [WINDOW 10 min]",
    ),
    ("SELECT src FROM «packet» [NOW]", "unknown stream 'packet'; did you mean 'packets'?"),
    ("SELECT «x» FROM packets [NOW]", "unknown column 'x'"),
    ("SELECT «trades».src FROM packets [NOW] p", "unknown stream 'trades'; known: p"),
    ("SELECT src FROM packets [RANGE 5 sec LAG «1 sec»]", "LAG needs SLIDE"),
    ("SELECT src FROM packets [ROWS 5 LAG «0»]", "LAG needs SLIDE"),
    ("SELECT src FROM packets [RANGE «5500 ms»]", "is not a multiple of the granule of 'packets', 1 sec"),
    ("SELECT src FROM packets [PARTITION BY «srcs» ROWS 5]", "unknown column 'srcs'; did you mean 'src'?"),
    ("SELECT src FROM packets [NOW] «ORDER BY» src", "a change stream has no order: leave out ORDER BY; query.view()"),
    ("SELECT src FROM packets [NOW] «LIMIT» 3", "a change stream has no order: leave out LIMIT"),
    ("(SELECT src FROM packets [NOW]) «LIMIT» 3", "a change stream has no order"),
    ("SELECT «http.*» FROM logs [NOW]", "make a column of it before the stream is made: df.selectExpr('*', 'http.*')"),
    ("SELECT src, dst AS «SRC» FROM packets [NOW]", "two columns of the answer are named 'SRC' and 'src'"),
    ("SELECT src AS «_ts» FROM packets [NOW]", "'_ts' is a column that every change has"),
    ("SELECT src AS «_SIGN» FROM packets [NOW]", "'_SIGN' is a column that every change has"),
    ("SELECT COUNT(*) AS «_exp» FROM packets [NOW]", "'_exp' is a column that every change has"),
    ("SELECT src, «dst» FROM packets [NOW] GROUP BY src", "'dst' is neither in GROUP BY nor inside an aggregate"),
    ("SELECT «*» FROM packets [NOW] GROUP BY src", "'ts' is neither in GROUP BY"),
    ("SELECT COUNT(*) FROM packets [NOW] HAVING «src» > 1", "'src' is neither in GROUP BY"),
    ("SELECT src FROM packets [NOW] WHERE «SUM»(src) > 1", "SUM cannot stand in WHERE; HAVING tests aggregates"),
    ("SELECT src FROM packets [NOW] WHERE ok AND «src»", "WHERE needs a condition, but got INT"),
    ("SELECT DISTINCT src FROM packets «[UNBOUNDED]»", "DISTINCT over [UNBOUNDED] would have to remember"),
    ("«SELECT» FROM packets [NOW]", "expected columns and aggregates after SELECT"),
    (
        "SELECT src FROM packets [SINCE «'2026-01-01'»]",
        "aggregate it with SLIDE, or give a WINDOW, and WHERE ts > TIMESTAMP '2026-01-01 00:00:00'",
    ),
    (
        "SELECT window_length, COUNT(*) FROM packets [WINDOW 1 TO «5 min» STEP 1 min]",
        "windows of several lengths are answered from panes, which have aggregates of one window: aggregate it with",
    ),
    ("SELECT COUNT(*) FROM packets [SINCE «midnight»]", "aggregate it with SLIDE, or give a WINDOW of 1 day"),
    (
        "SELECT DISTINCT src FROM packets [FROM «'2026-01-01'» TO '2026-01-02' SLIDE 1 min]",
        "FROM is answered from panes, which have aggregates of one window: give a WINDOW, and WHERE ts >",
    ),
]
ADD_SLIDE = "in a continuous query; add SLIDE to the window"
LATER = [
    ("SELECT «MEDIAN»(src) FROM packets [NOW]", f"MEDIAN {ADD_SLIDE}"),
    ("SELECT MAX(src) + «QUANTILE»(src, 0.5) FROM packets [NOW]", f"QUANTILE {ADD_SLIDE}"),
    ("SELECT «COUNT»(DISTINCT src) FROM packets [NOW]", f"COUNT(DISTINCT ..) {ADD_SLIDE}"),
    ("SELECT «APPROX_COUNT_DISTINCT»(src) FROM packets [NOW]", f"APPROX_COUNT_DISTINCT {ADD_SLIDE}"),
    ("SELECT «TOP»(3, src) FROM packets [NOW]", f"TOP {ADD_SLIDE}"),
    ("SELECT dst, «histogram»(src) AS h FROM packets [NOW] GROUP BY dst", f"HISTOGRAM {ADD_SLIDE}"),
    ("SELECT APPROX_COUNT_DISTINCT(src) AS n FROM packets [NOW] «WITH BOUNDS»", f"WITH BOUNDS {ADD_SLIDE}"),
    ("SELECT COUNT(*) FROM packets [NOW] HAVING «APPROX» COUNT(*) > 3", f"HAVING APPROX {ADD_SLIDE}"),
    ("SELECT «DISTINCT» tags FROM packets [NOW]", "DISTINCT of ARRAY<STRING> (column 'tags')"),
    ("SELECT «DISTINCT» ON (src) src FROM packets [NOW]", "DISTINCT ON"),
    ("SELECT COUNT(*) FROM packets [NOW] GROUP BY «tags»", "GROUP BY of ARRAY<STRING>"),
    ("SELECT «MD5»(protocol), COUNT(*) FROM packets [NOW] GROUP BY protocol", "function MD5 over joined windows"),
    ("SELECT src FROM packets [NOW] «p(a»)", "names for columns behind an alias"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_continuous_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_continuous_error(text, what), NotSupportedError)


def test_a_stream_must_be_in_order_and_final() -> None:
    known, schema = Catalog(), pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", INT)])
    known.add_stream(Stream("halfopen", schema, "ts", closed_left=True))
    known.add_stream(Stream("revised", schema, "ts", late_revise=True))
    check_continuous_error("SELECT x FROM «halfopen» [NOW]", "'halfopen' is CLOSED LEFT", known)
    check_continuous_error("SELECT x FROM «revised» [NOW]", "'revised' is LATE REVISE", known)


def test_nested_too_deeply() -> None:
    text = "SELECT src FROM packets [NOW]"
    for _ in range(400):
        text = f"SELECT a.src FROM ({text}) a"
    with pytest.raises(CqlError, match="nested too deeply"):
        continuous_plan(text)


def test_having_is_a_filter_on_the_groups() -> None:
    plan = continuous_plan("SELECT src FROM packets [NOW] GROUP BY src HAVING COUNT(*) > 1")
    assert isinstance(plan, Map) and isinstance(plan.input, Filter)
    assert plan.input.condition == Call("gt", (Field("COUNT(*)", LONG), Literal(1, LONG)), BOOL)


def test_star_has_all_columns_of_the_stream_in_order() -> None:
    plan = continuous_plan("SELECT * FROM odd [NOW]")
    (base,) = windows(plan)
    assert plan.schema.names == ["ts", "x", "count", "weight", "lower", "approx"]
    assert base.schema.names == [f"odd.{name}" for name in plan.schema.names]


def test_bounded_memory_as_the_survey_has_it() -> None:
    """What needs unbounded memory is refused, and nothing else."""
    golden = Path(__file__).parents[1] / "golden" / "update_patterns.json"
    examples = json.loads(golden.read_text())["examples"]
    example = next(each for each in examples if each["id"] == "update_patterns.memory.bounded")
    joined = "FROM packets [UNBOUNDED] s, packets [UNBOUNDED] t WHERE s.src = t.dst"
    texts = [
        f"SELECT {{}} s.src {joined} AND s.src > 10 AND t.dst < 20",
        f"SELECT {{}} s.src {joined}",
        "SELECT {} src FROM packets [UNBOUNDED] WHERE src > 10",
        (
            "SELECT {} s.src FROM packets [UNBOUNDED] s, packets [UNBOUNDED] t"
            " WHERE s.dst < t.src AND s.src > 10 AND s.src < 20"
        ),
    ]
    for distinct, key in (("", "bounded_with_duplicates"), ("DISTINCT", "bounded_without_duplicates")):
        assert [_binds(text.format(distinct)) for text in texts] == example["expected"][key]


WHOLE = "packets [UNBOUNDED]"
FINITE = [
    f"SELECT DISTINCT src, ok FROM {WHOLE} WHERE src BETWEEN 1 AND 9",
    f"SELECT DISTINCT src FROM {WHOLE} WHERE 1 < src AND src <= 9",
    f"SELECT DISTINCT protocol FROM {WHOLE} WHERE protocol IN ('tcp', 'udp')",
    f"SELECT DISTINCT day FROM {WHOLE} WHERE day BETWEEN DATE'2026-01-01' AND DATE'2026-12-31'",
    f"SELECT DISTINCT src % 10 AS d, CASE WHEN length > 9 THEN 'long' ELSE 'short' END AS l FROM {WHOLE}",
    f"SELECT DISTINCT src FROM {WHOLE} WHERE src > '1' AND src < '9'",
    f"SELECT DISTINCT src + dst AS both FROM {WHOLE} WHERE src IN (1, 2) AND dst = 3",
    f"SELECT DISTINCT dst FROM {WHOLE} WHERE dst = src AND src IN (1, 2)",
    f"SELECT DISTINCT a.port, p.name FROM {WHOLE} a JOIN ports p ON a.port = p.port",
    f"SELECT DISTINCT a.src, c.city FROM {WHOLE} a JOIN customers c ON a.src = c.id WHERE c.id IN (1, 2)",
    f"SELECT length FROM packets [NOW] a WHERE EXISTS (SELECT 1 FROM {WHOLE} b WHERE b.dst = a.src AND b.dst = 1)",
    f"SELECT src FROM packets [NOW] WHERE src NOT IN (SELECT dst FROM {WHOLE} WHERE dst IN (1, 2))",
    f"SELECT DISTINCT src FROM {WHOLE} WHERE src IN (1, 2) UNION SELECT DISTINCT dst FROM {WHOLE} WHERE dst IN (1, 2)",
    f"SELECT a.src FROM {WHOLE} a JOIN packets [NOW] b ON a.src = b.src WHERE a.src IN (1, 2)",
    f"SELECT COUNT(*) AS n FROM {WHOLE} a JOIN packets [NOW] b ON a.src = b.src WHERE a.src IN (1, 2)",
    f"SELECT x FROM (SELECT a.src AS x FROM {WHOLE} a JOIN {WHOLE} b USING (src) WHERE a.src = 1) [ROWS 9] r",
    f"SELECT DISTINCT a.src FROM {WHOLE} a, packets [NOW] b WHERE a.src = b.src AND a.src = 1 AND a.ratio <= b.dst",
    f"SELECT DISTINCT 1 FROM {WHOLE} a, packets [NOW] b, {WHOLE} c WHERE a.src = b.src AND b.src = c.src AND c.src = 5",
]
ENDLESS = [
    "SELECT DISTINCT src FROM packets «[UNBOUNDED]» WHERE src > 9 AND src <> 12",
    "SELECT DISTINCT src FROM packets «[UNBOUNDED]» WHERE src IN (1, 2) OR ok",
    "SELECT DISTINCT ratio FROM packets «[UNBOUNDED]» WHERE ratio BETWEEN 0 AND 1",
    "SELECT DISTINCT src, dst FROM packets «[UNBOUNDED]» WHERE src IN (1, 2)",
    # Strings that are compared as numbers: '5', '05', '005'.
    "SELECT DISTINCT protocol FROM packets «[UNBOUNDED]» WHERE protocol = 5",
    "SELECT DISTINCT protocol FROM packets «[UNBOUNDED]» WHERE protocol IN (5, 6)",
    "SELECT DISTINCT protocol FROM packets «[UNBOUNDED]» WHERE protocol = src AND src IN (1, 2)",
    "SELECT DISTINCT src FROM packets «[UNBOUNDED]» WHERE protocol > '1' AND protocol < '2' AND src = protocol",
    "SELECT DISTINCT a.src FROM packets «[UNBOUNDED]» a JOIN packets [NOW] b ON a.src = b.src WHERE b.dst IN (1, 2)",
    "SELECT DISTINCT a.src FROM packets «[UNBOUNDED]» a JOIN packets [NOW] b ON a.src = b.src AND a.dst > b.dst",
    "SELECT a.src, a.dst FROM packets «[UNBOUNDED]» a JOIN packets [NOW] b USING (src) WHERE a.src IN (1, 2)",
    "SELECT src FROM packets «[UNBOUNDED]» WHERE src = 1 AND src IN (SELECT src FROM packets [NOW])",
    # One value decides in one inequality only, and only if nothing else reads its column.
    f"SELECT DISTINCT 1 FROM packets «[UNBOUNDED]» a, {WHOLE} b WHERE a.src = 1 AND a.dst < b.dst AND a.port < b.port",
    f"SELECT DISTINCT a.src, a.dst FROM packets «[UNBOUNDED]» a, {WHOLE} b WHERE a.src = 1 AND a.dst < b.dst",
    (
        f"SELECT DISTINCT 1 FROM packets «[UNBOUNDED]» a, {WHOLE} b"
        " WHERE b.src = 1 AND b.dst = 2 AND a.port > b.src AND a.port < b.dst"
    ),
    f"SELECT DISTINCT a.src FROM packets «[UNBOUNDED]» a, {WHOLE} b WHERE a.src = 1 AND a.dst <> b.dst",
    f"SELECT DISTINCT a.src FROM packets «[UNBOUNDED]» a, {WHOLE} b WHERE a.src = 1 AND a.protocol < b.dst",
    f"SELECT a.src FROM packets «[UNBOUNDED]» a, {WHOLE} b WHERE a.src = b.src AND a.src = 1 AND a.dst < b.dst",
    "SELECT DISTINCT ok FROM packets «[UNBOUNDED]» a JOIN odd [NOW] b ON a.ok = b.approx JOIN ports p USING (port)",
    "SELECT DISTINCT a.src, c.city FROM packets «[UNBOUNDED]» a JOIN customers c ON a.src = c.id",
    "SELECT AVG(a.dst) AS m FROM packets «[UNBOUNDED]» a JOIN packets [NOW] b USING (src) WHERE a.src IN (1, 2)",
]


@pytest.mark.parametrize("text", FINITE)
def test_a_whole_stream_is_remembered_where_it_has_finitely_many_values(text: str) -> None:
    assert _binds(text)


@pytest.mark.parametrize("text", ENDLESS)
def test_a_stream_without_an_end_is_not_remembered(text: str) -> None:
    check_continuous_error(text, "[UNBOUNDED] would have to remember the whole stream")


def test_each_side_of_a_join_is_limited_by_conditions_on_the_other() -> None:
    joined = f"{WHOLE} a JOIN {WHOLE} b ON a.src = b.dst"
    assert explained(f"SELECT DISTINCT a.src FROM {joined} WHERE a.src > 10 AND b.dst < 20")[2:] == [
        "    Join on a.src = b.dst  -> MON",
        "      Distinct  -> MON",
        "        Window packets a [UNBOUNDED] where src > 10 AND src < 20  -> MON",
        "      Distinct  -> MON",
        "        Window packets b [UNBOUNDED] where dst < 20 AND dst > 10  -> MON",
    ]


def test_a_join_that_keeps_duplicates_counts_them() -> None:
    text = f"SELECT a.src FROM {WHOLE} a JOIN {WHOLE} b ON a.src = b.dst WHERE a.src IN (1, 2)"
    assert explained(text) == [
        "Each as often as copies  -> MON",
        "  Project a.src AS src, multiply(a.copies, b.copies) AS copies  -> STR",
        "    Join on a.src = b.dst  -> STR",
        "      Values a.src: COUNT(*)  -> STR",
        "        Window packets a [UNBOUNDED] where src IN (1, 2)  -> MON",
        "      Values b.dst: COUNT(*)  -> STR",
        "        Window packets b [UNBOUNDED] where dst IN (1, 2)  -> MON",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT «AVG»(b.dst) AS m FROM {} a, packets [NOW] b WHERE a.src = b.src AND a.src = 1", "AVG over a join of"),
        ("SELECT «SUM»(b.price) FROM {} a, packets [NOW] b WHERE a.src = b.src AND a.src = 1", "INTs and DOUBLEs may"),
        ("SELECT a.src FROM {} a, «packets» [ROWS 9] b WHERE a.src = b.src AND a.src = 1", "what may be taken back"),
        ("SELECT DISTINCT x FROM (SELECT a.src AS x FROM packets «[UNBOUNDED]» a JOIN {} b USING (src) WHERE src=1) r",
         "append-only results would have to remember all of them"),
    ],
)  # fmt: skip
def test_what_counted_values_do_not_answer(text: str, why: str) -> None:
    check_continuous_error(text.format(WHOLE), why)


def _binds(text: str) -> bool:
    try:
        continuous_plan(text)
    except CqlError:
        return False
    return True
