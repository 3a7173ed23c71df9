"""Which runtime answers a query is decided once, from its plan and the strategy that its user sets.

Who answers a question is decided once, too: from the question, its stream and the indexes over the stored window.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from sash.catalog import CLUSTER, Catalog, RegisteredQuery, Route, StoredIndex
from sash.core.errors import CqlError
from sash.core.time import SECOND
from sash.plan.continuous import AUTO, NT, UPA
from sash.runtime.compiler import as_select, compile_panes
from sash.runtime.records.catalog_history import CatalogHistory, query_change
from sash.runtime.route import RouteDecision, RowsBehind, decide_registered, question_of, route, route_plan, rows_behind
from sash.sql import bind
from tests.runtime.test_join_group import catalog, plan_of
from tests.support.streams import stream

JOIN = "FROM s [RANGE 4 sec SLIDE 2 sec], t [RANGE 4 sec SLIDE 2 sec] WHERE s.a = t.a"
COLUMN = "SELECT a FROM s [RANGE 4 sec SLIDE 2 sec] {} SELECT a FROM t [RANGE 4 sec SLIDE 2 sec]"


@pytest.mark.parametrize(
    ("text", "free", "set_by_user"),
    [
        (f"SELECT s.b, COUNT(*) AS n {JOIN} GROUP BY s.b", Route.JOINED_PANES, Route.CHANGES),
        (f"SELECT s.b, t.c {JOIN}", Route.CHANGES, Route.CHANGES),
        ("SELECT COUNT(*) AS n FROM s [RANGE 4 sec], t [RANGE 4 sec] WHERE s.a = t.a", Route.CHANGES, Route.CHANGES),
        ("SELECT s.b FROM s [RANGE 4 sec], t [RANGE 4 sec] WHERE s.a = t.a", Route.NESTED_JOINS, Route.CHANGES),
        (COLUMN.format("INTERSECT"), Route.SETS, Route.CHANGES),
        (COLUMN.format("EXCEPT"), Route.SETS, Route.CHANGES),
        # An index answers approximately, and nothing else does.
        (COLUMN.format("APPROX INTERSECT GROUPS 4"), Route.SETS, Route.SETS),
        ("SELECT DISTINCT a FROM s [RANGE 4 sec SLIDE 2 sec]", Route.CHANGES, Route.CHANGES),
    ],
)
def test_the_route_of_a_plan(text: str, free: Route, set_by_user: Route) -> None:
    plan = plan_of(text)
    assert [route_plan(plan, execution).route for execution in (AUTO, UPA, NT)] == [free, free, set_by_user]


@pytest.mark.parametrize("execution", [AUTO, NT])
def test_what_is_recognised_does_not_depend_on_the_strategy(execution: str) -> None:
    """EXPLAIN tells which strategy gives an aggregate over a join a plan of its own."""
    joined = route_plan(plan_of(f"SELECT s.b, COUNT(*) AS n {JOIN} GROUP BY s.b"), execution)
    assert joined.joined is not None and joined.windowed_set is None and joined.lengths is None
    matched = route_plan(plan_of(COLUMN.format("INTERSECT")), execution)
    assert matched.windowed_set is not None and matched.joined is None and matched.lengths is None
    pairs = route_plan(plan_of("SELECT s.b FROM s [RANGE 4 sec], t [RANGE 2 sec] WHERE s.a = t.a"), execution)
    assert pairs.lengths == (4 * SECOND, 2 * SECOND) and pairs.joined is None and pairs.windowed_set is None


def registered(text: str) -> RouteDecision:
    return route(bind(as_select(text), catalog()))


def test_a_registered_query_has_one_plan() -> None:
    found = registered("SELECT b, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY b")
    assert found.route is Route.PANES and found.panes is not None and found.changes is None
    found = registered("SELECT DISTINCT a FROM s [RANGE 4 sec SLIDE 2 sec]")
    assert found.route is Route.CHANGES and found.panes is None and found.changes is not None


def test_a_query_that_no_runtime_answers_is_refused_at_its_word() -> None:
    with pytest.raises(CqlError, match="MEDIAN") as refused:
        registered("SELECT MEDIAN(a) FROM s [RANGE 4 sec]")
    assert (refused.value.line, refused.value.column) == (1, 8)
    known = catalog()
    with pytest.raises(CqlError, match="KEEP 4 sec would make it possible"):
        question_of(as_select("SELECT a FROM s [RANGE 4 sec]"), known, partial(decide_registered, catalog=known))


@pytest.mark.parametrize(
    ("state", "expected"),
    [("", Route.PANES), ("join-d1-3", Route.JOINED_PANES), ("set-d2-3", Route.SETS), ("d3-3", Route.CHANGES)],
)
def test_the_catalog_stores_the_route(state: str, expected: Route, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Catalogs that were written before it was stored have it in the name of the query's directory."""
    query = RegisteredQuery("q", "SELECT 1", "s", streams=("s",) if state else (), state=state, route=expected)
    earlier = {name: value for name, value in query_change(query).items() if name != "route"}
    for change in (query_change(query), earlier):
        path = tmp_path_factory.mktemp("catalog") / "catalog.log"
        CatalogHistory(path).append(change)
        assert CatalogHistory(path).queries() == {"q": query}


TREE, DB = StoredIndex("s", "k", "tree"), StoredIndex("s", "k", "db")


def route_of(text: str, *indexes: StoredIndex, keep: int | None = 9, keep_in: str = "memory") -> RowsBehind:
    declared = replace(stream(keep=None if keep is None else keep * SECOND), keep_in=keep_in)
    catalog = Catalog()
    catalog.add_stream(declared)
    return rows_behind(compile_panes(bind(as_select(text), catalog), one_time=True), declared, indexes)


@pytest.mark.parametrize(
    ("text", "irreversible"),
    [
        ("SELECT SUM(v) AS t FROM s [WINDOW 9 sec] WHERE k = 3", None),
        ("SELECT g, MAX(v) AS m FROM s [WINDOW 4 sec] GROUP BY g", "MAX(v)"),
    ],
)
def test_the_process_answers_what_machine_numbers_hold(text: str, irreversible: str | None) -> None:
    assert route_of(text, TREE) == RowsBehind(irreversible=irreversible)


@pytest.mark.parametrize(
    ("text", "keep_in", "why"),
    [
        ("SELECT SUM(v + 1) AS t FROM s [WINDOW 9 sec]", "memory", "v + 1 is no column"),
        ("SELECT COUNT(*) AS n FROM s [ROWS 5]", "memory", "a window of rows is counted by Spark"),
        ("SELECT SUM(v) AS t FROM s [WINDOW 9 sec]", CLUSTER, "its rows are in the cluster"),
    ],
)
def test_spark_answers_the_rest(text: str, keep_in: str, why: str) -> None:
    assert route_of(text, keep_in=keep_in) == RowsBehind(why_spark=why)


@pytest.mark.parametrize(
    ("text", "indexes", "expected"),
    [
        ("SELECT COUNT(DISTINCT k) AS d FROM s [WINDOW 9 sec]", [DB, TREE], TREE),
        ("SELECT COUNT(DISTINCT k) AS d FROM s [WINDOW 9 sec]", [DB], None),
        ("SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 9 sec]", [TREE], None),
        ("SELECT COUNT(DISTINCT k) AS d FROM s [WINDOW 8 sec]", [TREE], None),
        ("SELECT COUNT(DISTINCT k) AS d FROM s [WINDOW 9 sec] WHERE v > 1", [TREE], None),
        ("SELECT g, COUNT(DISTINCT k) AS d FROM s [WINDOW 9 sec] GROUP BY g", [TREE], None),
    ],
)  # fmt: skip
def test_an_index_has_the_counts_of_the_whole_window(
    text: str, indexes: list[StoredIndex], expected: StoredIndex | None
) -> None:
    found = route_of(text, *indexes)
    assert found.index == expected and found.why_spark is None


@pytest.mark.parametrize(
    ("text", "keep", "way_out"),
    [
        ("SELECT SUM(v) AS t FROM s [WINDOW 9 sec]", None, "KEEP 9 sec would make it possible"),
        ("SELECT SUM(v) AS t FROM s [WINDOW 10 sec]", 9, "KEEP 10 sec would make it possible"),
        ("SELECT SUM(v) AS t FROM s [UNBOUNDED]", 9, "give a WINDOW"),
    ],
)
def test_only_panes_can_answer_what_is_not_stored(text: str, keep: int | None, way_out: str) -> None:
    found = route_of(text, keep=keep)
    assert found.refusal is not None and found.refusal.endswith(way_out)
