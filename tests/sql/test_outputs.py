"""How continuous queries are answered: relation-to-stream operators, internal windows, windows on results."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from sash.core.errors import CqlError, NotSupportedError
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import BaseWindow, Join, edges, windows
from sash.plan.expressions import Field, columns_in
from sash.plan.multi_join import MultiJoin
from sash.plan.nodes import AnswerOrder
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Sampled, Stamped
from sash.plan.rewrites import optimise
from sash.runtime.route import is_continuous
from sash.sql import SelectStatement, bind, order_of_answers, parse, plan_panes
from tests.changes.test_golden_traces import EXAMPLES
from tests.sql.examples import CATALOG, check_continuous_error, continuous_plan, explained, marked

SEC = 1_000_000
JOIN = "FROM packets [RANGE 5 sec] a, packets [RANGE 9 sec] b WHERE a.src = b.dst"
SLIDING = "FROM packets [RANGE 60 sec SLIDE 10 sec] a, packets [RANGE 90 sec SLIDE 10 sec] b WHERE a.src = b.dst"


# -- Istream, Dstream, Rstream ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Istream(a.src, b.port AS p) FROM packets [RANGE 5 sec] a, packets [RANGE 9 sec] b WHERE a.src = b.dst",
        f"Istream(SELECT a.src, b.port AS p {JOIN})",
        f"SELECT ISTREAM(a.src, b.port p) {JOIN}",
    ],
)
def test_istream_stands_around_the_list_or_the_select(text: str) -> None:
    plan = continuous_plan(text)
    assert plan == Deltas(continuous_plan(f"SELECT a.src, b.port AS p {JOIN}"), "istream")
    assert explained(text)[0] == "Istream  -> MON"


def test_dstream_and_star() -> None:
    assert continuous_plan("SELECT Dstream(*) FROM odd [RANGE 5 sec]") == Deltas(
        continuous_plan("SELECT * FROM odd [RANGE 5 sec]"), "dstream"
    )
    assert explained("SELECT Dstream(src, COUNT(*) AS n) FROM packets [ROWS 5] GROUP BY src")[0] == "Dstream  -> MON"


def test_rstream_is_the_relation_itself() -> None:
    assert continuous_plan("SELECT Rstream(*) FROM odd [ROWS 5]") == continuous_plan("SELECT * FROM odd [ROWS 5]")
    assert continuous_plan("SELECT Rstream(DISTINCT src) FROM packets [RANGE 5 sec]") == continuous_plan(
        "SELECT DISTINCT src FROM packets [RANGE 5 sec]"
    )


def test_an_output_of_set_operations() -> None:
    plan = continuous_plan("Istream(SELECT src FROM packets [NOW] UNION SELECT dst FROM packets [NOW])")
    assert isinstance(plan, Deltas) and plan.schema.names == ["src"]


def test_columns_may_have_the_names_of_operators() -> None:
    assert continuous_plan("SELECT src AS istream, dst AS restore FROM packets [NOW]").schema.names == [
        "istream",
        "restore",
    ]


def test_the_results_of_a_sub_query_may_be_a_stream() -> None:
    plan = continuous_plan("SELECT a.src FROM (SELECT Istream(DISTINCT src) FROM packets [ROWS 5]) [RANGE 5 sec] a")
    shown = explained("SELECT a.src FROM (SELECT Istream(src) FROM packets [ROWS 5]) a")
    assert [line.strip() for line in shown[2:4]] == ["Istream  -> MON", "Project packets.src AS src  -> STR"]
    assert plan.pattern.label == "WKS"


# -- Wstream ----------------------------------------------------------------------------------------------------


def test_wstream() -> None:
    plan = continuous_plan(f"SELECT Wstream(a.src)[ROWS 10] {JOIN}")
    assert plan == ResultWindow(Outliving(continuous_plan(f"SELECT a.src {JOIN}")), RowWindow(10))
    plan = continuous_plan(f"Wstream(SELECT a.src {JOIN})[RANGE 1 min]")
    assert isinstance(plan, ResultWindow) and plan.window == TimeWindow(60 * SEC) and plan.pattern.label == "WKS"
    plan = continuous_plan(f"SELECT Wstream(a.src)[PARTITION BY Src ROWS 2] {JOIN}")
    assert isinstance(plan, ResultWindow) and plan.partition == ("src",)


def test_wstream_over_results_that_never_end_anyway() -> None:
    plan = continuous_plan("SELECT Wstream(src)[ROWS 10] FROM packets [UNBOUNDED]")
    assert plan == ResultWindow(continuous_plan("SELECT src FROM packets [UNBOUNDED]"), RowWindow(10))


# -- INTERNAL ---------------------------------------------------------------------------------------------------


def test_results_of_internal_windows_are_appended() -> None:
    assert explained("SELECT src, COUNT(*) AS n FROM packets [ROWS 5 INTERNAL] GROUP BY src HAVING n > 1") == [
        "Results, append-only  -> MON",
        "  Project packets.src AS src, COUNT(*) AS n  -> STR",
        "    Filter gt(COUNT(*), 1)  -> STR",
        "      GroupBy packets.src: COUNT(*)  -> STR",
        "        Window packets [ROWS 5 INTERNAL]  -> STR",
    ]


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("[RANGE 5 sec INTERNAL]", TimeWindow(5 * SEC)),
        ("[ROWS 5 internal]", RowWindow(5)),
        ("[UNBOUNDED INTERNAL]", TimeWindow(FOREVER)),
        ("[NOW INTERNAL]", TimeWindow(1)),
        ("[PARTITION BY src ROWS 5 INTERNAL]", RowWindow(5)),
    ],
)
def test_internal_windows(clause: str, window: TimeWindow | RowWindow) -> None:
    plan = continuous_plan(f"SELECT src, SUM(dst) AS t FROM packets {clause} GROUP BY src")
    (base,) = windows(plan)
    assert base.internal and base.window == window and isinstance(plan, Outliving) and plan.pattern.label == "MON"


def test_a_join_of_external_and_internal_windows_ends_with_the_external_tuples() -> None:
    assert explained(
        "SELECT a.src, b.dst FROM packets [RANGE 5 sec] a, packets [RANGE 9 sec INTERNAL] b WHERE a.src = b.src"
    ) == [
        "Results, until a expires  -> WK",
        "  Project a.src AS src, b.dst AS dst, a expires  -> WK",
        "    Join on a.src = b.src  -> WK",
        "      Expiry as a expires  -> WKS",
        "        Window packets a [WINDOW 5 sec]  -> WKS",
        "      Window packets b [WINDOW 9 sec INTERNAL]  -> WKS",
    ]


@pytest.mark.parametrize("attribute", ["src", "dst"])
def test_joins_of_three_with_internal_windows_are_one_join(attribute: str) -> None:
    """On one attribute and along a chain: what such a plan gives is compared with the definition elsewhere."""
    plan = optimise(
        continuous_plan(
            "SELECT a.src, c.dst FROM packets [RANGE 5 sec] a, packets [RANGE 9 sec INTERNAL] b, packets [NOW] c "
            f"WHERE a.src = b.src AND b.{attribute} = c.{attribute}"
        )
    )
    (join,) = [node for _, node in edges(plan) if isinstance(node, Join | MultiJoin)]
    assert isinstance(join, MultiJoin) and join.is_common == (attribute == "src")
    assert [type(each) for each in join.inputs] == [Stamped, BaseWindow, Stamped]
    assert isinstance(plan, Outliving) and set(plan.by) == {"a expires", "c expires"}


@pytest.mark.parametrize("external", range(5))
def test_patterns_of_joins(external: int) -> None:
    kinds = ["[RANGE 9 sec]"] * external + ["[RANGE 9 sec INTERNAL]"] * (4 - external)
    sources = ", ".join(f"packets {kind} s{place}" for place, kind in enumerate(kinds))
    plan = continuous_plan(
        f"SELECT s0.src FROM {sources} WHERE s0.src = s1.src AND s1.src = s2.src AND s2.src = s3.src"
    )
    assert plan.pattern.label == EXAMPLES["classify.join_external_count"]["expected"]["class_by_definition"][external]


VALIDITY = {
    "internal windows under join": "SELECT a.src FROM packets [NOW INTERNAL] a, packets [NOW INTERNAL] b"
    " WHERE a.src = b.src",
    "internal windows under aggregation": "SELECT COUNT(*) AS n FROM packets [NOW INTERNAL]",
    "internal windows under distinct": "SELECT DISTINCT src FROM packets [NOW INTERNAL]",
    "internal windows under negation": "SELECT src FROM packets [NOW INTERNAL] EXCEPT SELECT src FROM packets [NOW]",
}


@pytest.mark.parametrize("name", VALIDITY)
def test_where_internal_windows_may_be(name: str) -> None:
    example = EXAMPLES["plan.validity"]
    if example["expected"]["allowed"][example["inputs"]["plans"].index(name)]:
        assert continuous_plan(VALIDITY[name]).pattern.label == "MON"
    else:
        with pytest.raises(CqlError, match="over an INTERNAL window is refused"):
            continuous_plan(VALIDITY[name])


# -- windows on sub-queries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(length) AS x FROM packets [RANGE 6 sec INTERNAL]",
        "SELECT Istream(src AS x) FROM packets [RANGE 6 sec]",
        "SELECT src AS x FROM packets [UNBOUNDED] WHERE src > 1",
        "SELECT a.src AS x FROM packets [NOW INTERNAL] a, packets [ROWS 5 INTERNAL] b WHERE a.src = b.src",
    ],
)
def test_windows_over_append_only_results(query: str) -> None:
    plan = continuous_plan(f"SELECT SUM(a.x) AS total FROM ({query}) [ROWS 10] a")
    (found,) = [
        line.strip()
        for line in explained(f"SELECT SUM(a.x) AS total FROM ({query}) a [ROWS 10]")
        if "on results" in line
    ]
    assert found == "Window on results [ROWS 10]  -> STR" and plan.pattern.label == "STR"
    assert continuous_plan(f"SELECT DISTINCT x FROM ({query}) [RANGE 1 min] a").pattern.label == "WK"


# -- SLIDE ------------------------------------------------------------------------------------------------------


def test_the_last_rows_as_of_multiples_of_a_time() -> None:
    text = "SELECT src, COUNT(*) AS n FROM packets [PARTITION BY src ROWS 5 SLIDE EXACTLY 10 sec] p GROUP BY src"
    lines = explained(text)
    assert lines[0] == "Every 10 sec  -> STR"
    assert lines[-1].strip().startswith("Window packets p [ROWS 5 SLIDE EXACTLY 10 sec] partitioned by p.src")


def test_a_join_that_slides_is_answered_at_the_multiples() -> None:
    plan = continuous_plan(f"SELECT a.src {SLIDING}")
    assert isinstance(plan, Sampled) and (plan.slide, plan.offset, plan.restore) == (10 * SEC, 0, False)
    assert explained(f"SELECT a.src {SLIDING}")[0] == "Every 10 sec  -> WK"
    restored = continuous_plan(f"SELECT Rstream-restore(a.src) {SLIDING}")
    assert isinstance(restored, Sampled) and restored.restore and restored.input == plan.input
    assert continuous_plan(f"Rstream_restore(SELECT a.src {SLIDING})") == restored
    assert continuous_plan(f"SELECT Istream(a.src) {SLIDING}") == Deltas(plan, "istream")
    assert continuous_plan(f"SELECT Dstream(a.src) {SLIDING}") == Deltas(plan, "dstream")
    assert continuous_plan(f"SELECT Istream-restore(a.src) {SLIDING}") == Sampled(
        Deltas(plan.input, "istream"), 10 * SEC
    )


PLANS = [
    f"SELECT a.src {SLIDING}",
    "SELECT src FROM packets [RANGE 60 sec SLIDE 10 sec]",
    "SELECT DISTINCT src FROM packets [RANGE 60 sec SLIDE 10 sec]",
    "SELECT Rstream(DISTINCT src) FROM packets [RANGE 60 sec SLIDE 10 sec]",
    "SELECT Istream(COUNT(*) AS n) FROM packets [RANGE 60 sec SLIDE 10 sec]",
    (
        "SELECT COUNT(*) AS n FROM packets [RANGE 60 sec SLIDE 10 sec] WHERE src IN"
        " (SELECT dst FROM packets [RANGE 60 sec SLIDE 10 sec])"
    ),
    "SELECT src FROM packets [RANGE 60 sec SLIDE 10 sec] EXCEPT SELECT dst FROM packets [RANGE 60 sec SLIDE 10 sec]",
    "SELECT n FROM (SELECT DISTINCT src AS n FROM packets [RANGE 60 sec SLIDE 10 sec]) a",
    "SELECT MAX(n) AS m FROM (SELECT src, COUNT(*) AS n FROM packets [RANGE 60 sec SLIDE 10 sec] GROUP BY src) a",
    (
        "SELECT a.n FROM (SELECT COUNT(*) AS n FROM packets [RANGE 60 sec SLIDE 10 sec]) a"
        " JOIN (SELECT COUNT(*) AS n FROM trades [RANGE 60 sec SLIDE 10 sec]) b USING (n)"
    ),
]
PANES = [
    "SELECT COUNT(*) AS n FROM packets [RANGE 60 sec SLIDE 10 sec]",
    "SELECT Rstream(COUNT(*) AS n) FROM packets [RANGE 60 sec SLIDE 10 sec]",
    "SELECT TOP(3, src) FROM packets [RANGE 60 sec SLIDE 10 sec] WHERE port IN (80, 443)",
    "SELECT src FROM packets [RANGE 60 sec SLIDE 10 sec] GROUP BY src",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM packets [RANGE 60 sec SLIDE 10 sec]) a",
    "SELECT n FROM (SELECT n FROM (SELECT COUNT(*) AS n FROM packets [RANGE 60 sec SLIDE 10 sec]) a) b",
]


@pytest.mark.parametrize(("text", "plan"), [*((text, True) for text in PLANS), *((text, False) for text in PANES)])
def test_what_panes_cannot_answer_is_a_plan(text: str, plan: bool) -> None:
    statement = parse(text)
    assert isinstance(statement, SelectStatement) and is_continuous(bind(statement.select, CATALOG)) is plan
    if plan:
        assert continuous_plan(text)
    else:
        assert plan_panes(bind(statement.select, CATALOG), periodic=True)


# -- refusals ---------------------------------------------------------------------------------------------------

ERRORS = [
    ("Istream(«SELECT» FROM packets [NOW])", "expected columns and aggregates after SELECT"),
    ("Istream(SELECT src FROM packets [NOW] «ORDER BY» src)", "a change stream has no order"),
    (f"SELECT a.src {SLIDING} UNION ALL SELECT 1 AS n {SLIDING} «LIMIT» 3", "LIMIT is of whole answers: write it"),
    (f"SELECT * FROM (SELECT a.src {SLIDING} «LIMIT» 3) c", "behind the outermost SELECT, and a set operation into"),
    ("SELECT a.src FROM packets [NOW] a, packets [NOW] b WHERE a.src = b.src «LIMIT» 3", "every answer has an order"),
    ("SELECT src, «Istream»(src) FROM packets [NOW]", "Istream(..) stands around the whole SELECT list"),
    ("SELECT «Istream»(src), dst FROM packets [NOW]", "Istream(..) stands around the whole SELECT list"),
    ("SELECT src FROM packets [NOW] WHERE «istream»(src) > 1", "Istream(..) stands around"),
    ("SELECT «Istream-restore»(src) FROM packets [NOW]", "without SLIDE nothing is lost that could be restored"),
    ("SELECT «Rstream_restore»(*) FROM packets [NOW]", "write Rstream, or add SLIDE to all windows"),
    ("SELECT «Wstream-restore»(*)[ROWS 5] FROM packets [NOW]", "Wstream_restore cannot be"),
    ("SELECT «Dstream_restore»(*) FROM packets [NOW]", "restore brings back results that came and went"),
    (
        "SELECT «Wstream»(a.src)[ROWS 5] FROM packets [NOW] a LEFT JOIN packets [NOW] b USING (src)",
        "Wstream over an outer join is refused: in a window over its results there could be rows without a match",
    ),
    ("SELECT «Wstream»(*) FROM packets [NOW]", "Wstream needs a window: Wstream(*)[ROWS 10]"),
    ("SELECT Istream(*) «[»ROWS 5] FROM packets [NOW]", "only Wstream has a window behind it"),
    ("SELECT Wstream(src)«[UNBOUNDED]» FROM packets [NOW]", "an output window has an end"),
    ("SELECT Wstream(src)[RANGE 5 sec SLIDE «5 sec»] FROM packets [NOW]", "follows every result: leave out SLIDE"),
    ("SELECT Wstream(src)[PARTITION BY «srcs» ROWS 5] FROM packets [NOW]", "unknown column 'srcs'; did you mean"),
    ("SELECT DISTINCT «Wstream»(src)[ROWS 5] FROM packets [NOW]", "Wstream over DISTINCT is refused"),
    ("SELECT «Wstream»(DISTINCT src)[ROWS 5] FROM packets [NOW]", "there could be the same row twice"),
    ("«Wstream»(SELECT src FROM packets [NOW] EXCEPT ALL SELECT dst FROM packets [NOW])[ROWS 5]", "got a match"),
    (
        "SELECT «Wstream»(src)[ROWS 5] FROM packets [NOW] WHERE src NOT IN (SELECT dst FROM packets [NOW])",
        "Wstream over NOT EXISTS, NOT IN or EXCEPT is refused",
    ),
    ("SELECT «Dstream»(src) FROM packets [UNBOUNDED]", "the results of this query never end"),
    ("SELECT «Dstream»(COUNT(*) AS n) FROM packets [NOW INTERNAL]", "the results of this query never end"),
    ("SELECT DISTINCT src FROM packets «[NOW INTERNAL]»", "DISTINCT over an INTERNAL window is refused"),
    ("SELECT src FROM packets «[NOW INTERNAL]» UNION SELECT dst FROM packets [NOW]", "DISTINCT over an INTERNAL"),
    (
        "SELECT src FROM packets «[NOW INTERNAL]» WHERE NOT EXISTS (SELECT 1 FROM packets [NOW])",
        "NOT EXISTS over an INTERNAL window is refused: results that stay would no longer pass",
    ),
    ("SELECT src FROM packets [NOW] WHERE src IN (SELECT dst FROM packets «[NOW INTERNAL]»)", "IN over an INTERNAL"),
    ("SELECT src FROM packets [NOW] WHERE src IN (SELECT «Istream»(dst) FROM packets [NOW])", "cannot stand in the"),
    ("SELECT src FROM packets [NOW] WHERE EXISTS (SELECT «Dstream»(*) FROM packets [NOW])", "cannot stand in the"),
    (
        "SELECT COUNT(*) AS n FROM «packets» [NOW] a, packets [NOW INTERNAL] b WHERE a.src = b.src",
        "groups over INTERNAL and external windows are refused",
    ),
    (
        "SELECT x FROM (SELECT SUM(src) AS x FROM packets [RANGE 6 sec]) «[ROWS 10]» a",
        "nothing but its latest value, which cannot be windowed: make its window INTERNAL",
    ),
    ("SELECT x FROM (SELECT src AS x FROM packets [RANGE 6 sec]) a «[ROWS 10]»", "end with their windows: make these"),
    ("SELECT x FROM (SELECT src AS x FROM packets [UNBOUNDED]) [ROWS 5 LAG «5»] a", "leave out LAG"),
    (
        "SELECT a.x FROM (SELECT Istream(src AS x) FROM packets «[NOW]») a, packets [NOW] b WHERE a.x = b.src",
        "a join over append-only results would have to remember all of them",
    ),
    ("SELECT DISTINCT x FROM (SELECT Istream(src AS x) FROM packets «[NOW]») a", "DISTINCT over append-only results"),
    ("SELECT a.src " + SLIDING.replace("90 sec SLIDE 10 sec", "90 sec SLIDE «5 sec»"), "slide together"),
    (
        "SELECT src FROM packets [ROWS 5 SLIDE «2»]",
        "SLIDE of a row-based window counts tuples: give SLIDE a time, [ROWS 5 SLIDE 1 sec], or leave it out",
    ),
    ("SELECT COUNT(*) FROM packets [ROWS 5 SLIDE «1500 ms»]", "SLIDE 1500 ms is not a multiple of the granule"),
    ("SELECT COUNT(*) FROM packets [ROWS 5 SLIDE «0 sec»]", "a SLIDE must be greater than zero"),
    ("SELECT COUNT(*) FROM packets [ROWS 5 SLIDE 1 sec «LAG» 2]", "leave out LAG, or count tuples in SLIDE"),
    (
        "SELECT DISTINCT src FROM packets [RANGE 9 sec SLIDE 3 sec] WHERE src IN (SELECT dst FROM packets «[NOW]»)",
        "the windows of a query slide, all of them, or none does",
    ),
    (
        "SELECT x FROM (SELECT «Istream»(src AS x) FROM packets [RANGE 9 sec SLIDE 3 sec]) a",
        "cannot stand in a sub-query of one that slides",
    ),
]  # fmt: skip
LATER = [
    ("SELECT «Istream»(tags) FROM packets [NOW]", "Istream of ARRAY<STRING> (column 'tags')"),
    ("SELECT Wstream(src)[ROWS 5 «INTERNAL»] FROM packets [NOW]", "INTERNAL windows on results"),
    (f"SELECT «Wstream»(a.src)[ROWS 5] {SLIDING}", "Wstream(..) over windows that slide"),
    ("SELECT src FROM packets [RANGE 9 sec SLIDE 3 sec LAG «3 sec»]", "LAG beside joins"),
    (f"SELECT «MEDIAN»(a.src) {SLIDING}", "MEDIAN in a query that panes cannot answer"),
    (f"SELECT «TOP»(3, a.src) {SLIDING}", "TOP in a query that panes cannot answer"),
    ("SELECT «MEDIAN»(src) FROM packets [ROWS 5 SLIDE 1 sec]", "MEDIAN in a query that panes cannot answer"),
    (
        "SELECT a.src FROM «packets» [ROWS 5] a, packets [NOW INTERNAL] b WHERE a.src = b.src",
        "INTERNAL windows beside rows that may be taken back",
    ),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    check_continuous_error(text, reason)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    assert isinstance(check_continuous_error(text, what), NotSupportedError)


ONCE = [
    ("SELECT «Istream»(COUNT(*)) FROM packets [RANGE 9 sec]", "a one-time query has none"),
    ("SELECT COUNT(*) FROM packets [RANGE 9 sec «INTERNAL»]", "INTERNAL belongs to continuous queries"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM packets [NOW]) «[ROWS 5]» a", "is over its results as they come"),
]


@pytest.mark.parametrize(("text", "reason"), ONCE)
def test_a_question_that_is_answered_once_has_no_changes(text: str, reason: str) -> None:
    statement = parse(text.replace("«", "").replace("»", ""))
    assert isinstance(statement, SelectStatement)
    with pytest.raises(CqlError) as caught:
        plan_panes(bind(statement.select, CATALOG), periodic=False)
    assert reason in caught.value.reason and caught.value.span is not None
    assert caught.value.span.start == text.index("«") and caught.value.span.end == text.index("»") - 1


# -- aggregates of results --------------------------------------------------------------------------------------


def ordered(text: str) -> AnswerOrder | None:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    return order_of_answers(bind(statement.select, CATALOG))


def test_the_order_of_answers_is_over_their_columns() -> None:
    found = ordered(
        f"SELECT a.src, COUNT(*) AS n {SLIDING} GROUP BY a.src ORDER BY 2 DESC, COUNT(*) + a.src, n LIMIT 3"
    )
    n, src = Field("n", pa.int64()), Field("src", pa.int32())
    assert found is not None and found.limit == 3
    assert [str(key) for key in found.keys] == ["n DESC", "add(n, cast(src)) ASC", "n ASC"]
    assert found.keys[0].expression == n and columns_in(found.keys[1].expression) == {n.name, src.name}
    assert ordered(f"SELECT a.src {SLIDING}") is None
    (key,) = (ordered(f"SELECT a.src AS b, b.dst AS a {SLIDING} ORDER BY a NULLS LAST") or AnswerOrder()).keys
    assert (str(key.expression), key.nulls_first) == ("a", False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"SELECT a.src {SLIDING} ORDER BY «b.dst»", "over the columns of the answer here: add this one to the SELECT"),
        (f"SELECT a.src {SLIDING} GROUP BY a.src ORDER BY 1 + «MAX»(b.dst)", "add this one to the SELECT list"),
        (f"SELECT a.tags {SLIDING} ORDER BY «tags»", "ORDER BY of ARRAY<STRING>"),
    ],
)
def test_orders_that_answers_cannot_have(text: str, reason: str) -> None:
    plain, start, end = marked(text)
    with pytest.raises(CqlError, match=re.escape(reason)) as caught:
        ordered(plain)
    assert (caught.value.span.start, caught.value.span.end) == (start, end)


def test_an_aggregate_of_results_is_a_nested_query() -> None:
    simple = "SELECT SUM(Wstream(SUM(length))[ROWS 10]) AS total FROM packets [RANGE 6 sec SLIDE 6 sec] WHERE ok"
    nested = (
        "SELECT SUM(x) AS total FROM (SELECT SUM(length) AS x FROM packets [RANGE 6 sec SLIDE 6 sec INTERNAL] WHERE ok)"
        " [ROWS 10] wstream"
    )
    assert continuous_plan(simple) == continuous_plan(nested)
    assert [line.strip().partition("  ->")[0] for line in explained(simple)] == [
        "Every 6 sec", "Project SUM(wstream.x) AS total", "GroupBy (): SUM(wstream.x)", "Project x AS wstream.x",
        "Window on results [ROWS 10]", "Results every 6 sec, append-only", "Project SUM(packets.length) AS x",
        "GroupBy (): SUM(packets.length)", "Window packets [WINDOW 6 sec SLIDE 6 sec INTERNAL] where ok",
    ]  # fmt: skip
    continuous = "SELECT MAX(Wstream(COUNT(*))[RANGE 1 min]) FROM packets [RANGE 6 sec]"
    assert continuous_plan(continuous).schema.names == ["max_of_results"]


AGGREGATES = [
    ("SELECT «MEDIAN»(Wstream(SUM(length))[ROWS 10]) FROM packets [NOW]", "MEDIAN in a continuous query"),
    ("SELECT «SUMM»(Wstream(SUM(length))[ROWS 10]) FROM packets [NOW]", "unknown function 'SUMM'"),
    ("SELECT SUM(Wstream(«lenth»)[ROWS 10]) FROM packets [NOW]", "unknown column 'lenth'"),
    ("SELECT SUM(«Wstream»(length)[ROWS 10]), src FROM packets [NOW]", "stands around the whole SELECT list"),
    ("SELECT SUM(Wstream(SUM(src))[ROWS 10]) FROM packets [NOW] «GROUP BY» dst", "GROUP BY beside an aggregate of"),
]


@pytest.mark.parametrize(("text", "reason"), AGGREGATES)
def test_errors_in_aggregates_of_results(text: str, reason: str) -> None:
    check_continuous_error(text, reason)
