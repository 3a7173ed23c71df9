"""Rule SS1: aggregates that need the same partial read one pane table and one partial; EXPLAIN names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sash.cli import app
from sash.core.time import SECOND
from sash.runtime.compiler import CompiledQuery
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.settings import DEFAULT_POLICY, Settings
from sash.sharing.groups import PaneTable
from tests.support.feed import Feed, answers_of, compiled
from tests.support.oracle import same_rows
from tests.support.streams import START, stream, to_table

WINDOW = "[WINDOW 20 sec SLIDE 10 sec]"


def tables(*texts: str) -> list[PaneTable]:
    """The pane tables of the next pass for some queries."""
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({f"q{i}": text.format(w=WINDOW) for i, text in enumerate(texts)}, feed.declared))
    return feed.runtime.tables() + feed.runtime.tables(by_rows=True)


def contents(table: PaneTable) -> tuple[str, list[str]]:
    texts = [f"{partial.kind}({partial.argument or ''})" for partial in table.partials]
    conditions = [f" where {partial.predicate}" if partial.predicate else "" for partial in table.partials]
    return table.label, sorted(map(str.__add__, texts, conditions))


BY_SUM = [
    "SELECT TOP(3, k, SUM(v)) FROM s {w}",
    "SELECT k, SUM(v) AS t FROM s {w} GROUP BY k",
    "SELECT k, AVG(v) AS m FROM s {w} GROUP BY k",
]
BY_COUNTERS = "SELECT COUNT_MIN(v, 3) AS n FROM s {w}"
BY_VALUE = [
    "SELECT MEDIAN(v) AS m FROM s {w}",
    "SELECT COUNT(DISTINCT v) AS d FROM s {w}",
    "SELECT HISTOGRAM(v) FROM s {w}",
    "SELECT TOP(5, v) FROM s {w}",
    "SELECT QUANTILE(v, 0.1) AS q, QUANTILE_CONT(v, 0.9) AS c, MODE(v) AS m FROM s {w}",
    "SELECT FREQUENT(2, v) FROM s {w}",
    "SELECT MODE(v) AS m, COUNT_MIN(v, 3) AS n FROM s {w}",
    "SELECT v, COUNT(*) AS n FROM s {w} GROUP BY v",
]


def test_a_sum_is_one_partial_of_one_table() -> None:
    """TOP by SUM(y), SUM(y) GROUP BY x and AVG(y) GROUP BY x; COUNT(y) tells whether there was a value."""
    (table,) = tables(*BY_SUM)
    assert contents(table) == ("(k)", ["count(v)", "rows()", "sum(v)"])


@pytest.mark.parametrize("text", BY_SUM)
def test_each_of_them_alone_needs_the_same(text: str) -> None:
    assert tables(text) == tables(*BY_SUM)


def test_the_counts_of_values_are_one_partial_of_one_table() -> None:
    """Every holistic aggregate reads how often each value occurs."""
    (table,) = tables(*BY_VALUE)
    assert contents(table) == ("(v)", ["rows()"])


@pytest.mark.parametrize("text", [text for text in BY_VALUE if "FREQUENT" not in text])
def test_each_holistic_aggregate_alone_needs_the_same(text: str) -> None:
    assert tables(text) == tables(*BY_VALUE)


def test_frequent_alone_needs_no_more_than_lists() -> None:
    (table,) = tables("SELECT FREQUENT(2, v) FROM s {w}")
    assert contents(table) == ("(v), the 2 most frequent v of every 10 sec", ["rows()"])


@pytest.mark.parametrize(("longest", "listed"), [("20 sec", 0), ("10 sec", 1)])
def test_frequent_reads_counts_that_are_kept_for_another_as_far_back(longest: str, listed: int) -> None:
    found = tables("SELECT FREQUENT(2, v) FROM s {w}", f"SELECT TOP(2, v) FROM s [WINDOW {longest} SLIDE 10 sec]")
    assert [table.name.lists is not None for table in found] == [False, *[True] * listed]


def test_count_min_alone_needs_no_more_than_counters() -> None:
    (table,) = tables("SELECT COUNT_MIN(v, 3) AS n FROM s {w}", "SELECT COUNT_MIN(v, 4) AS n FROM s {w}")
    assert contents(table) == ("(20000 counters of v)", ["rows()"])
    (table,) = tables("SELECT COUNT_MIN(v, 3) AS n FROM s [PARTITION BY k ROWS 5 SLIDE 5]")
    assert contents(table) == ("(v) in rows per k", ["rows()"])


@pytest.mark.parametrize(
    ("other", "counters"),
    [
        ("SELECT MEDIAN(v) AS m FROM s {w}", False),
        ("SELECT TOP(1, v) FROM s [UNBOUNDED SLIDE 10 sec]", False),
        ("SELECT MEDIAN(v) AS m FROM s [WINDOW 10 sec SLIDE 10 sec]", True),
        ("SELECT MEDIAN(v) AS m FROM s {w} WHERE k > 1", True),
        ("SELECT MEDIAN(w) AS m FROM s {w}", True),
        ("SELECT FREQUENT(2, v) FROM s {w}", True),
        ("SELECT COUNT_MIN(v, 4) AS m FROM s {w}", True),
    ],
)
def test_count_min_reads_counts_that_are_kept_for_another_as_far_back(other: str, counters: bool) -> None:
    mine, theirs = compiled({"q": BY_COUNTERS.format(w=WINDOW), "o": other.format(w=WINDOW)}, stream())
    assert mine.counters and mine.beside(lambda: [theirs]).counters == counters
    feed = Feed(stream())
    feed.runtime.synchronise([mine.beside(lambda: [theirs]), theirs])
    labels = [table.label for table in feed.runtime.tables()]
    assert any("counters of v" in label for label in labels) == counters


def test_keys_have_no_order() -> None:
    """MEDIAN(v) by k and MEDIAN(k) by v count the same pairs."""
    (table,) = tables(
        "SELECT k, MEDIAN(v) AS m FROM s {w} GROUP BY k",
        "SELECT v, TOP(1, k) FROM s {w} GROUP BY v",
        "SELECT v, COUNT(DISTINCT k) AS d FROM s {w} GROUP BY v",
        "SELECT k, v, COUNT(*) AS n FROM s {w} GROUP BY k, v",
        "SELECT K, HISTOGRAM(`v`) FROM s {w} GROUP BY 1",
    )
    assert contents(table) == ("(k, v)", ["rows()"])


def test_plain_and_holistic_aggregates_of_one_query_read_two_tables() -> None:
    found = tables("SELECT k, SUM(v) AS t, COUNT(DISTINCT v) AS d, MEDIAN(v) AS m FROM s {w} GROUP BY k")
    assert [contents(table) for table in found] == [("(k)", ["count(v)", "rows()", "sum(v)"]), ("(k, v)", ["rows()"])]


def test_an_aggregate_of_a_key_reads_the_table_of_the_groups() -> None:
    (table,) = tables("SELECT k, COUNT(DISTINCT k) AS one, MEDIAN(k) AS m, COUNT(*) AS n FROM s {w} GROUP BY k")
    assert contents(table) == ("(k)", ["rows()"])


def test_predicates_are_partials_of_their_own_in_the_same_table() -> None:
    (table,) = tables(
        "SELECT MEDIAN(v) AS m FROM s {w} WHERE k = 1",
        "SELECT COUNT(DISTINCT v) AS d FROM s {w} WHERE (K) = 1",
        "SELECT HISTOGRAM(v) FROM s {w}",
    )
    assert contents(table) == ("(v)", ["rows()", "rows() where k = 1"])


def test_windows_do_not_separate_queries() -> None:
    (table,) = tables(
        "SELECT MEDIAN(v) AS m FROM s [WINDOW 20 sec SLIDE 10 sec]",
        "SELECT HISTOGRAM(v) FROM s [WINDOW 1 hour SLIDE 15 sec LAG 45 sec]",
        "SELECT TOP(2, v) FROM s [UNBOUNDED SLIDE 30 sec]",
    )
    assert table.length == 5 * SECOND and contents(table) == ("(v)", ["rows()"])


def test_rows_and_partitions_do() -> None:
    """Panes of rows are others than panes of time; the last rows of partitions are others than the last rows."""
    found = tables(
        "SELECT MEDIAN(v) AS m FROM s {w}",
        "SELECT MEDIAN(v) AS m FROM s [ROWS 20 SLIDE 10]",
        "SELECT HISTOGRAM(v) FROM s [ROWS 5 SLIDE 5]",
        "SELECT MEDIAN(v) AS m FROM s [PARTITION BY k ROWS 20 SLIDE 10]",
        "SELECT HISTOGRAM(v) FROM s [PARTITION BY k ROWS 5 SLIDE 5]",
    )
    assert [(table.label, table.length) for table in found] == [
        ("(v)", 10 * SECOND),
        ("(v) in rows", 5),
        ("(v) in rows per k", 1),
    ]


def test_several_windows_of_one_query_share_with_each_other() -> None:
    (table,) = tables(
        "SELECT a.d - b.d AS more FROM (SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 30 sec SLIDE 10 sec]) a "
        "CROSS JOIN (SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 10 sec SLIDE 10 sec LAG 20 sec]) b"
    )
    assert contents(table) == ("(v)", ["rows()"])


def test_a_sketch_is_shared_by_its_estimate_and_its_bounds() -> None:
    (table,) = tables(
        "SELECT APPROX_COUNT_DISTINCT(v) AS d FROM s {w} WITH BOUNDS",
        "SELECT APPROX_COUNT_DISTINCT(v) AS d, APPROX_QUANTILE(v, 0.5) AS q FROM s {w}",
        "SELECT APPROX_QUANTILE(v, 0.9) AS q FROM s {w}",
        "SELECT APPROX_TOP(3, v) FROM s {w} WITH BOUNDS",
        "SELECT APPROX_TOP(9, v) FROM s {w}",
    )
    assert contents(table) == ("()", ["hll(v)", "items(v)", "kll(v)", "rows()"])


def test_what_nobody_reads_any_more_is_forgotten() -> None:
    feed = Feed(stream())
    queries = compiled({f"q{i}": text.format(w=WINDOW) for i, text in enumerate(BY_SUM)}, feed.declared)
    feed.runtime.synchronise(queries)
    for left in (queries[1:], queries[2:]):
        feed.runtime.synchronise(left)
        assert [contents(table) for table in feed.runtime.tables()] == [("(k)", ["count(v)", "rows()", "sum(v)"])]
    feed.runtime.synchronise([])
    assert feed.runtime.tables() == []


def test_sharing_changes_no_answer() -> None:
    texts = {f"q{i}": text.format(w=WINDOW) for i, text in enumerate(BY_SUM + BY_VALUE)}
    rows = [(START + i * SECOND // 3, i % 4, "a", i % 7 if i % 5 else None, None, None) for i in range(200)]
    parts = [to_table(rows[:90]), to_table(rows[90:])]
    together = answers_of(stream(), texts, parts)
    for name, text in texts.items():
        alone = answers_of(stream(), {name: text}, parts)[name]
        assert [(a.as_of, a.complete) for a in alone] == [(a.as_of, a.complete) for a in together[name]]
        for ours, theirs in zip(together[name], alone, strict=True):
            assert same_rows(ours.table.to_pylist(), theirs.table.to_pylist()), text


def test_one_pass_brings_everything() -> None:
    """Each table is one lane: the whole set of queries above is read from two."""
    assert [contents(table) for table in tables(*BY_SUM, *BY_VALUE)] == [
        ("(k)", ["count(v)", "rows()", "sum(v)"]),
        ("(v)", ["rows()"]),
    ]


# -- EXPLAIN -----------------------------------------------------------------------------------------------


CREATE = "CREATE STREAM s (ts TIMESTAMP, k INT, v INT, x DOUBLE) FROM parquet OPTIONS (path 'none') TIMESTAMP ts;"


def explained(tmp_path: Path, **texts: str) -> dict[str, list[str]]:
    """The lines of EXPLAIN for each query, with the others as its neighbours."""
    script = tmp_path / "script.sql"
    script.write_text("\n".join([CREATE, *(f"REGISTER QUERY {name} AS {text};" for name, text in texts.items())]))
    result = CliRunner().invoke(app, ["explain", str(script)])
    assert result.exit_code == 0, result.output
    sections: dict[str, list[str]] = {}
    for block in result.stdout.strip().split("\n\n"):
        first, *lines = block.splitlines()
        sections[first.split(":")[0]] = lines
    return sections


def line(lines: list[str], start: str) -> str:
    (found,) = [text for text in lines if text.strip().startswith(start)]
    return found.strip()


def test_explain_names_the_sharing_of_sums(tmp_path: Path) -> None:
    top, sums, means = (text.format(w=WINDOW) for text in BY_SUM)
    found = explained(tmp_path, top=top, sums=sums, means=means)
    assert line(found["top"], "Pane table") == "Pane table s by (k): panes of 10 sec, one pass on Spark"
    assert line(found["top"], "sum(v)") == "sum(v): shared with sums, means"
    assert line(found["means"], "sum(v)") == "sum(v): shared with top, sums"
    assert line(found["sums"], "count(v)") == "count(v): shared with top, means"
    group = "Schedule: policy hybrid-late-pending, group (k) of v, sub-group SLIDE 10 sec, with top, means"
    assert line(found["sums"], "Schedule") == group


def test_explain_names_the_sharing_of_counts(tmp_path: Path) -> None:
    median, distinct, histogram, *_ = (text.format(w=WINDOW) for text in BY_VALUE)
    found = explained(tmp_path, median=median, distinct=distinct, histogram=histogram)
    for name, others in (("median", "distinct, histogram"), ("histogram", "median, distinct")):
        assert line(found[name], "Pane table") == "Pane table s by (v): panes of 10 sec, one pass on Spark"
        assert line(found[name], "rows") == f"rows: shared with {others}"
        assert line(found[name], "read by").startswith(f"read by {others} too")


def test_explain_tells_what_is_new(tmp_path: Path) -> None:
    found = explained(
        tmp_path,
        a=f"SELECT k, SUM(v) AS t FROM s {WINDOW} GROUP BY k",
        b=f"SELECT k, SUM(v) AS t, MAX(v) AS m FROM s {WINDOW} WHERE x > 1 GROUP BY k",
    )
    assert line(found["b"], "max(v) where") == "max(v) where x > 1: new"
    assert line(found["b"], "sum(v) where") == "sum(v) where x > 1: new"
    assert line(found["b"], "read by").startswith("read by a too")


def test_explain_says_which_synopsis_and_why(tmp_path: Path) -> None:
    """The same choice as the engine makes."""
    texts = {
        "long_sum": "SELECT SUM(v) AS t FROM s [WINDOW 600 sec SLIDE 1 sec]",
        "long_max": "SELECT k, MAX(v) AS t FROM s [WINDOW 600 sec SLIDE 1 sec] GROUP BY k",
        "short": "SELECT k, v, SUM(x) AS t FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k, v",
        "rows": "SELECT SUM(v) AS t FROM s [ROWS 600 SLIDE 1]",
    }
    found = explained(tmp_path, **texts)
    expected = {"long_sum": "running", "long_max": "landmark", "short": "basic", "rows": "running"}
    for name, kind in expected.items():
        assert line(found[name], "Synopsis").startswith(f"Synopsis: {kind}"), name
        assert line(found[name], "because")
        feed = Feed(stream())
        feed.runtime.synchronise(compiled({name: texts[name]}, feed.declared))
        (group,) = feed.runtime.groups.values()
        assert group.choices.choice.kind == kind
        assert group.choices.choice.reason in line(found[name], "because")


@pytest.mark.parametrize("kind", ["BASIC", "RUNNING", "INTERVAL", "LANDMARK"])
def test_explain_says_what_the_query_insists_on(tmp_path: Path, kind: str) -> None:
    found = explained(tmp_path, q=f"SELECT SUM(v) AS t FROM s [WINDOW 600 sec SLIDE 1 sec] SYNOPSIS {kind}")
    assert line(found["q"], "Synopsis").startswith(f"Synopsis: {kind.lower()}")


def test_explain_says_that_another_query_needs_the_synopsis_that_answers(tmp_path: Path) -> None:
    text = "SELECT k, MAX(v) AS t FROM s [WINDOW 5 sec SLIDE 1 sec] GROUP BY k"
    found = explained(tmp_path, wished=f"{text} SYNOPSIS INTERVAL", other=f"{text} HAVING MAX(v) > 1")
    assert line(found["wished"], "because") == "because the query asks for it"
    assert line(found["other"], "Synopsis").startswith("Synopsis: interval")
    assert line(found["other"], "because") == "because another query or a substream filter needs it"


def test_explain_of_an_unbounded_window_speaks_of_its_own_synopsis(tmp_path: Path) -> None:
    """Beside long windows that are looked up, an unbounded one is still put together from the panes."""
    found = explained(
        tmp_path,
        ever="SELECT k, SUM(v) AS t FROM s [UNBOUNDED SLIDE 1 sec] GROUP BY k",
        long="SELECT k, SUM(v) AS t FROM s [WINDOW 600 sec SLIDE 1 sec] GROUP BY k",
    )
    assert line(found["long"], "Synopsis").startswith("Synopsis: running")
    assert line(found["ever"], "Synopsis").startswith("Synopsis: basic interval")


def test_explain_of_partitions_and_sub_queries(tmp_path: Path) -> None:
    found: dict[str, Any] = explained(
        tmp_path,
        last="SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 5 SLIDE 5] GROUP BY k",
        several="SELECT a.d - b.d AS more FROM (SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 30 sec SLIDE 10 sec]) a "
        "CROSS JOIN (SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 10 sec SLIDE 10 sec LAG 20 sec]) b",
    )
    assert "the last 5 of each partition" in line(found["last"], "Synopsis")
    # One table, named once, though two windows read it.
    assert line(found["several"], "Pane table") == "Pane table s by (v): panes of 10 sec, one pass on Spark"


def test_explain_says_which_rules_decided_and_why(tmp_path: Path) -> None:
    window = "[WINDOW 10 sec SLIDE 5 sec]"
    found = explained(
        tmp_path,
        ones=f"SELECT SUM(v) AS t FROM s {window} WHERE k = 1",
        twos=f"SELECT SUM(v) AS t FROM s {window} WHERE k = 2",
        both=f"SELECT AVG(v) AS m FROM s {window} WHERE k IN (1, 2)",
        longer="SELECT SUM(v) AS t FROM s [WINDOW 20 sec SLIDE 5 sec] WHERE k = 1",
        slower="SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 15 sec] WHERE k = 1",
    )
    assert (
        line(found["ones"], "state of SUM") == "state of SUM of v: not shared (SS1): no query before it keeps its data"
    )
    assert line(found["both"], "rows where").endswith(
        "not stored, combined as (k = 1) + (k = 2) (SS4): "
        "values per pane and group: 2 read in addition, 1e+03 written for its own synopsis"
    )
    sums = "the answer is SUM of v where k = 1 + SUM of v where k = 2"
    assert line(found["both"], "state of SUM") == f"state of SUM of v: shared (SS4): {sums}"
    assert line(found["both"], "computed together").startswith("computed together: shared (CS7): while ones and twos")
    assert line(found["longer"], "state of SUM").startswith("state of SUM of v: shared (SS1)")
    assert line(found["longer"], "panes are kept") == "panes are kept longer for it: 20 sec instead of 10 sec"
    assert line(found["slower"], "output") == "output: shared (CS8): ones is the same query and computed every 5 sec"
    schedule = "answered with ones, every 5 sec (CS8); without ones, every 15 sec"
    assert line(found["slower"], "Schedule") == f"Schedule: policy hybrid-late-pending, {schedule}"


def explained_beside(query: CompiledQuery, others: list[CompiledQuery], policy: str, groups: int = 0) -> str:
    """EXPLAIN of a query that would come to others, whose panes have so many groups, all of them in each pane."""
    feed = Feed(stream(), Settings(policy))
    feed.runtime.synchronise(others)
    for second in range(3 if groups else 0):
        feed.push(to_table([(START + (second + 1) * SECOND, i, "a", i, None, 1.0) for i in range(groups)]))
    return explain(query, tried(feed.runtime, others, query))


def test_explain_says_who_is_moved_and_what_that_saves() -> None:
    """Hybrid, as in the papers: SLIDE 3 is executed with SLIDE 2, SLIDE 5 with its much longer window is not."""
    texts = {
        "two": "SELECT k, v, MAX(x) AS m FROM s [WINDOW 60 min SLIDE 2 sec] GROUP BY k, v",
        "three": "SELECT k, v, MAX(x) AS m FROM s [WINDOW 70 min SLIDE 3 sec] GROUP BY k, v",
        "five": "SELECT k, v, MAX(x) AS m FROM s [WINDOW 200 min SLIDE 5 sec] GROUP BY k, v",
    }
    two, three, five = compiled(texts, stream(), synopsis="basic")
    hybrid, conservative = (
        explained_beside(three, [two, five], policy, 10_000) for policy in ("hybrid", "conservative")
    )
    assert "  executed every 2 sec; moved: SLIDE 3 sec every 2 sec; cost " in hybrid
    assert "  3 sub-groups, each at its own SLIDE" in conservative


def test_explain_of_identical_queries_without_aggregates(tmp_path: Path) -> None:
    keys = "SELECT k FROM s [WINDOW 10 sec SLIDE {} sec] GROUP BY k"
    found = explained(tmp_path, often=keys.format(5), seldom=keys.format(10))
    assert "answered with often, every 5 sec (CS8)" in line(found["seldom"], "Schedule")


def test_explain_without_sharing_speaks_of_nobodys_output() -> None:
    texts = {f"q{slide}": f"SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE {slide} sec]" for slide in (5, 9)}
    often, seldom = compiled(texts, stream())
    assert "CS8" not in explained_beside(seldom, [often], "no-sharing")
    assert "CS8" in explained_beside(seldom, [often], DEFAULT_POLICY)
