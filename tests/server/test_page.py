"""What the views draw, without a browser: the options of charts, the rows of tables, the marks of the editor."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sash.core.errors import CqlError, SashError, Span
from sash.runtime.answers.answer import Answer
from sash.server.page import answer_view, editor, page_charts, queries_view, schedule_view, sharing_view
from sash.server.page.frame import shown_rows, table_columns

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said(second: int, **columns: list[Any]) -> Answer:
    return Answer("q", NOON + timedelta(seconds=second), True, True, pa.table(columns))


# -- answer --------------------------------------------------------------------------------------------


def test_lines_are_those_of_the_largest_groups_now() -> None:
    answers = [said(0, k=["a", "b"], n=[5, 1]), said(1, k=["b", "c"], n=[2, 9]), said(2, k=["c", "b"], n=[8, 3])]
    found = answer_view.series(answers, ["k"], "n")
    assert list(found) == ["c", "b", "a"]
    assert [value for _, value in found["c"]] == [None, 9, 8] and [value for _, value in found["b"]] == [1, 2, 3]
    many = [said(0, k=["old"], n=[99]), said(1, k=list("abcdefghij"), n=list(range(10)))]
    assert list(answer_view.series(many, ["k"], "n")) == list("jihgfedc")


def test_what_an_alert_said_before_is_drawn() -> None:
    answers = [said(0, k=[], n=[]), said(1, k=["a"], n=[7]), said(2, k=[], n=[])]
    (line,) = page_charts.lines(answer_view.series(answers, ["k"], "n"))["series"]
    before, point, after = line["data"]
    assert point["value"][1] == 7 and point["symbol"] == "circle" and line["symbol"] == "none"
    assert before[1] is None and after[1] is None


def test_windows_that_are_not_full_are_dashed() -> None:
    ramp = [replace(said(second, n=[second]), complete=second > 2) for second in range(1, 6)]
    whole, dashed = page_charts.lines(answer_view.series(ramp, [], "n"))["series"]
    assert [value for _, value in whole["data"]] == [None, None, 3, 4, 5]
    assert [value for _, value in dashed["data"]] == [1, 2, 3, None, None], "up to where the other one begins"
    assert dashed["lineStyle"] == {"type": "dashed"} and dashed["name"] == whole["name"]
    (alone,) = page_charts.lines(answer_view.series(ramp[:1], [], "n"))["series"][1]["data"]
    assert alone["symbol"] == "emptyCircle"


def test_numbers_without_groups_are_one_line() -> None:
    found = answer_view.series([said(0, n=[4]), said(1, n=[6])], [], "n")
    assert found == {"all": [(NOON, 4), (NOON + timedelta(seconds=1), 6)]}


def test_pages_of_a_table() -> None:
    table = pa.table({"v": list(range(60)), "l": [[each] for each in range(60)]})
    page = {"page": 3, "rowsPerPage": 25, "sortBy": None, "descending": False}
    where, rows = answer_view.page_of(table, page)
    assert where == page and [row["v"] for row in rows] == list(range(50, 60))
    _, rows = answer_view.page_of(table, page | {"page": 1, "sortBy": "v", "descending": True})
    assert [row["v"] for row in rows] == list(range(59, 34, -1))
    _, rows = answer_view.page_of(table, page | {"page": 1, "sortBy": "l"})
    assert [row["v"] for row in rows] == list(range(25)), "lists have no order"
    where, rows = answer_view.page_of(table.slice(0, 30), page)
    assert where["page"] == 2 and len(rows) == 5, "it has become shorter"
    assert answer_view.page_of(table.slice(0, 0), page) == (page | {"page": 1}, [])


def test_bars_are_ordered_and_leave_nothing_known_out() -> None:
    table = pa.table({"src": [1, 2, 3], "port": [80, 80, 443], "t": [5, None, 9]})
    assert answer_view.largest(table, ["src", "port"], "t") == {"3 · 443": 9, "1 · 80": 5}


# -- sharing -------------------------------------------------------------------------------------------


def stats() -> dict[str, Any]:
    task = {"group": "(src) of length", "period": "2 sec", "queries": ["a", "b"]}
    table = {
        "keys": ["src"], "pane": "1 sec", "synopsis": "running", "panes": 3, "groups": 7, "queries": ["a", "b"],
        "tasks": [task], "joint_cost": 25, "separate_cost": 100, "windows_per_tuple": 35,
    }  # fmt: skip
    return {
        "streams": {"packets": {"pane_tables": [table], "tuples": 1_000}},
        "queries": {"a": {"stream": "packets"}, "b": {"stream": "packets"}},
        "plans": 0, "joint_executions": 4, "executions": 5, "work_saved": 0.75,
    }  # fmt: skip


def test_queries_share_the_nodes_on_their_way() -> None:
    found = sharing_view.paths(stats())
    (series,) = sharing_view.picture(found)["series"]
    assert [node["depth"] for node in series["data"]] == [0, 1, 2, 3, 4, 4]
    assert len({node["name"] for node in series["data"]}) == 6
    assert [link["value"] for link in series["links"]] == [2, 2, 2, 1, 1]


def test_what_sharing_saves_in_a_sentence() -> None:
    assert sharing_view.summary(stats()) == (
        "75% less work than one Spark job per query: rows read, expanded and aggregated. "
        "2 queries over 1 stream: 1 pass over each micro-batch instead of 2, 1 pane table, "
        "4 of 5 executions answered several queries at once."
    )
    assert sharing_view.summary({**stats(), "queries": {}}) == "No query is registered yet."


def test_queries_that_share_the_pass_alone_are_not_told_that_nothing_is_saved() -> None:
    known = stats() | {"joint_executions": 0, "work_saved": 0.0}
    assert (
        sharing_view.summary(known)
        == "2 queries over 1 stream: 1 pass over each micro-batch instead of 2, 1 pane table."
    )
    table = known["streams"]["packets"]["pane_tables"][0] | {"joint_cost": 100}
    assert sharing_view.table_row("packets", table)["saved"] == "–"


def test_a_query_of_two_pane_tables_is_scheduled_in_both() -> None:
    known = stats()
    (first,) = known["streams"]["packets"]["pane_tables"]
    second = first | {"keys": [], "queries": ["b"], "tasks": []}
    known["streams"]["packets"]["pane_tables"].append(second)
    assert {path.together for path in sharing_view.paths(known)} == {"every 2 sec · (src) of length"}


def test_columns_of_tables_have_the_names_that_queries_give_them() -> None:
    known = stats()
    (table,) = known["streams"]["packets"]["pane_tables"]
    table |= {"keys": ["`services(port).service`"]}
    table["tasks"][0] |= {"group": "(`services(port).service`) where `services(port)`"}
    path = sharing_view.paths(known)[0]
    assert (path.table, path.synopsis) == ("services.service · panes of 1 sec", "running · services.service")
    assert path.together == "every 2 sec · (services.service) where found in services"


def test_continuous_queries_that_ask_the_same_have_one_plan() -> None:
    known = stats()
    known["queries"] |= {name: {"plan": "p7", "streams": ["packets"], "slide": None} for name in ("c", "d")}
    known["queries"]["e"] = {"plan": "p9", "streams": ["packets", "other"], "slide": "5 sec"}
    found = [path for path in sharing_view.paths(known) if path.together in ("always", "every 5 sec")]
    assert [(path.stream, path.synopsis, path.query) for path in found] == [
        ("packets", "plan 1", "c"), ("packets", "plan 1", "d"), ("packets", "plan 2", "e"), ("other", "plan 2", "e"),
    ]  # fmt: skip


def test_changes_are_no_line() -> None:
    change = said(1, v=[1], _sign=[1])
    query: Any = SimpleNamespace(columns=lambda: ([], ["v"]), is_list=False)
    assert answer_view.natural_form(query, change) == answer_view.TABLE
    assert answer_view.natural_form(query, said(1, v=[1])) == answer_view.LINE
    top: Any = SimpleNamespace(columns=lambda: (["src"], ["count"]), is_list=True)
    assert answer_view.natural_form(top, said(1, src=[1], count=[2])) == answer_view.BARS


def test_a_query_that_nobody_schedules_yet_says_so() -> None:
    waiting = stats()
    waiting["streams"]["packets"]["pane_tables"][0]["tasks"] = []
    assert {path.together for path in sharing_view.paths(waiting)} == {"not scheduled yet"}


# -- schedule ------------------------------------------------------------------------------------------


def executed(second: int, *turns: tuple[str, str, str]) -> dict[str, Any]:
    words = [{"group": g, "slide": s, "state": state, "queries": ("q" + s,)} for g, s, state in turns]
    return {"as_of": NOON + timedelta(seconds=second), "turns": words}


def test_a_timeline_joins_what_ran_together() -> None:
    options = schedule_view.timeline(
        [
            executed(2, ("g", "2 sec", "on time")),
            executed(4, ("g", "2 sec", "on time"), ("g", "10 sec", "early")),
            executed(5, ("h", "5 sec", "late")),
        ]
    )
    assert options["yAxis"]["data"] == ["SLIDE 2 sec · g", "SLIDE 10 sec · g", "SLIDE 5 sec · h"]
    joined, *marks = options["series"]
    at = page_charts.milliseconds(NOON + timedelta(seconds=4))
    assert joined["data"] == [[at, 0], [at, 1], [at, "-"]]
    assert {each["name"]: len(each["data"]) for each in marks} == {"on time": 2, "early": 1, "late": 1}
    assert marks[1]["data"] == [{"value": [at, 1], "name": "q10 sec"}]


def test_a_timeline_shows_the_newest_moments_only() -> None:
    options = schedule_view.timeline([executed(i, ("g", "1 sec", "on time")) for i in range(100)])
    assert len(options["series"][1]["data"]) == 40


def test_no_chart_makes_html_of_data() -> None:
    drawn = [
        page_charts.lines({"a": []}),
        page_charts.bars({"a": 1}, "n"),
        page_charts.flow([], []),
        schedule_view.timeline([]),
    ]
    assert {options["tooltip"]["renderMode"] for options in drawn} == {"richText"}


# -- the editor ----------------------------------------------------------------------------------------


def test_the_wrong_word_is_marked() -> None:
    text = "SELECT lenght FROM s [WINDOW 1 min]"
    marks = editor.decorations(text, CqlError("unknown column", text, Span(7, 13)))
    wrong = [mark for mark in marks if mark["class"] == "sash-error"]
    assert [text[mark["from"] : mark["to"]] for mark in wrong] == ["lenght"]
    assert "WINDOW" in {text[mark["from"] : mark["to"]] for mark in marks}


@pytest.mark.parametrize(("text", "span"), [("SELECT 1 FROM", Span(13, 14)), ("x", Span(5, 9)), ("x", Span(0, 0))])
def test_a_mark_stays_within_the_text(text: str, span: Span) -> None:
    (mark,) = [each for each in editor.decorations(text, CqlError("?", text, span)) if each["class"] == "sash-error"]
    assert 0 <= mark["from"] < mark["to"] <= len(text)


def test_an_empty_text_has_no_marks() -> None:
    assert editor.decorations("", CqlError("nothing", "", Span(0, 1))) == []


def test_a_plain_select_needs_a_name() -> None:
    service: Any = SimpleNamespace(check_room=lambda replaced: None)
    with pytest.raises(SashError, match="give the query a name, or write REGISTER QUERY"):
        editor.register(service, "SELECT COUNT(*) AS n FROM s [WINDOW 1 min SLIDE 1 sec]", " ")


# -- rows ----------------------------------------------------------------------------------------------


def test_rows_for_a_browser() -> None:
    table = pa.table({"n": [2**60, 1], "x": [float("inf"), 0.5], "d": [Decimal("1.5"), None], "at": [NOON, NOON]})
    assert shown_rows(table, 1) == [{"n": "1152921504606846976", "x": "∞", "d": 1.5, "at": "2026-01-01 12:00:00+00:00"}]
    assert [column["align"] for column in table_columns(table.schema)] == ["right", "right", "right", "left"]


def test_a_query_in_the_list() -> None:
    last = said(1, k=["a", "b"], n=[3, 2])
    query = SimpleNamespace(name="q", latest=lambda: last, is_continuous=False, answered=2, error=None)
    session: Any = SimpleNamespace(queries={"q": query})
    facts = {
        "windows": ["10 sec"], "slide": "2 sec", "exactly": True, "sub_group": "(k) of n", "period": "2 sec",
        "lateness": 0.5,
    }  # fmt: skip
    assert queries_view.rows(session, {"queries": {"q": facts}}) == [
        {
            "name": "q", "window": "10 sec", "slide": "exactly 2 sec", "together": "(k) of n, every 2 sec",
            "answers": 2, "as_of": "12:00:01", "last": "k a, n 3  (+1)", "lateness": 0.5, "mark": "",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(("failure", "mark"), [(SashError("too many groups"), "failed"), (None, "cannot write")])
def test_a_query_that_has_failed_is_marked(failure: SashError | None, mark: str) -> None:
    query = SimpleNamespace(
        name="q", text="", latest=lambda: None, answered=0, error=SashError("too many groups\nSELECT"), failure=failure
    )
    session: Any = SimpleNamespace(queries={"q": query})
    (row,) = queries_view.rows(session, {})
    assert (row["mark"], row["last"]) == (mark, "too many groups")
