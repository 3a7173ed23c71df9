"""Which runtime answers a query is decided once, from its plan and the strategy that its user sets."""

from __future__ import annotations

import pytest

from sash.catalog import RegisteredQuery, Route
from sash.plan.continuous import AUTO, NT, UPA
from sash.runtime.records.catalog_history import CatalogHistory, query_change
from sash.runtime.route import route
from tests.runtime.test_join_group import plan_of

JOIN = "FROM s [RANGE 4 sec SLIDE 2 sec], t [RANGE 4 sec SLIDE 2 sec] WHERE s.a = t.a"
COLUMN = "SELECT a FROM s [RANGE 4 sec SLIDE 2 sec] {} SELECT a FROM t [RANGE 4 sec SLIDE 2 sec]"


@pytest.mark.parametrize(
    ("text", "free", "set_by_user"),
    [
        (f"SELECT s.b, COUNT(*) AS n {JOIN} GROUP BY s.b", Route.JOINED_PANES, Route.CHANGES),
        (f"SELECT s.b, t.c {JOIN}", Route.CHANGES, Route.CHANGES),
        ("SELECT COUNT(*) AS n FROM s [RANGE 4 sec], t [RANGE 4 sec] WHERE s.a = t.a", Route.CHANGES, Route.CHANGES),
        (COLUMN.format("INTERSECT"), Route.SETS, Route.CHANGES),
        (COLUMN.format("EXCEPT"), Route.SETS, Route.CHANGES),
        # An index answers approximately, and nothing else does.
        (COLUMN.format("APPROX INTERSECT GROUPS 4"), Route.SETS, Route.SETS),
        ("SELECT DISTINCT a FROM s [RANGE 4 sec SLIDE 2 sec]", Route.CHANGES, Route.CHANGES),
    ],
)
def test_the_route_of_a_plan(text: str, free: Route, set_by_user: Route) -> None:
    plan = plan_of(text)
    assert [route(plan, execution) for execution in (AUTO, UPA, NT)] == [free, free, set_by_user]


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
