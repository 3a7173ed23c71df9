"""Sub-queries in expressions of periodic queries: what goes wrong fails its query alone; restarts, routes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.catalog import Catalog, Route
from sash.core.errors import QueryFailedError
from sash.runtime.compiler import as_select
from sash.runtime.route import route
from sash.sql import bind
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

LONG = "s [WINDOW 10 sec SLIDE 5 sec]"
SHORT = "s [WINDOW 5 sec SLIDE 5 sec]"
MANY = f"SELECT k, COUNT(*) AS n FROM {SHORT} GROUP BY k HAVING COUNT(*) >= (SELECT COUNT(*) FROM {LONG} GROUP BY k)"
SOME = f"SELECT k, SUM(v) AS t FROM {SHORT} GROUP BY k HAVING SUM(v) > (SELECT AVG(v) FROM {LONG}) ORDER BY k"


def test_a_value_of_two_rows_fails_its_query_alone() -> None:
    with SparklessSession() as session:
        session.declare(stream())
        wrong, right = session.register(MANY, "wrong"), session.register(SOME, "right")
        session.push("s", tuples((1, 0, 2), (3, 0, 4), (6, 0, 8)))
        assert wrong.error is None and wrong.latest().table.to_pylist() == [{"k": 0, "n": 2}]
        session.push("s", tuples((7, 1, 2), (12, 1, 2), (21, 1, 2)))
        assert right.error is None and len(right.answers()) == 4
        assert isinstance(wrong.error, QueryFailedError)
        why = r"\(SELECT COUNT\(\*\) FROM s \[.*\] GROUP BY k\) has 2 rows, and a value is one row: aggregate without"
        with pytest.raises(QueryFailedError, match=why):
            raise wrong.error


def test_a_restart_goes_on(tmp_path: Path) -> None:
    parts = [tuples((1, 0, 2), (3, 1, 40), (6, 0, 8)), tuples((7, 1, 2), (12, 1, 9), (14, 0, 50), (16, 0, 1))]
    with SparklessSession() as whole:
        whole.declare(stream())
        query = whole.register(SOME, "q")
        for part in parts:
            whole.push("s", part)
        expected = [answer.table.to_pylist() for answer in query.answers()]
    with SparklessSession(checkpoint=tmp_path) as before:
        before.declare(stream())
        assert before.register(SOME, "q")
        before.push("s", parts[0])
    with SparklessSession(checkpoint=tmp_path) as after:
        after.declare(stream())
        after.epochs["s"] = 1
        after.push("s", parts[1])
        found = [answer.table.to_pylist() for answer in after.queries["q"].answers()]
    assert len(expected) == 3 and found == expected[len(expected) - len(found) :] and len(found) >= 2


IN_ANSWER = f"SELECT k FROM (SELECT k, COUNT(*) AS n FROM {SHORT} GROUP BY k) a WHERE "
TIED = f"EXISTS (SELECT 1 FROM (SELECT k AS i FROM {LONG} GROUP BY k) b WHERE b.i = a.k)"
OF_TUPLES = f"SELECT k, COUNT(*) AS n FROM {SHORT} WHERE k IN (SELECT k FROM {LONG} GROUP BY k) GROUP BY k"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SOME, Route.PANES),
        (f"{IN_ANSWER} k IN (SELECT k FROM {LONG} GROUP BY k)", Route.PANES),
        (f"{IN_ANSWER} {TIED}", Route.CHANGES),
        (OF_TUPLES, Route.CHANGES),
        (f"SELECT k FROM {SHORT} GROUP BY k UNION SELECT k + 1 FROM {LONG} GROUP BY k + 1", Route.PANES),
        (f"SELECT k FROM {SHORT} UNION ALL SELECT k FROM {LONG} GROUP BY k", Route.CHANGES),
    ],
)
def test_routes(text: str, expected: Route) -> None:
    """What is tied to the rows around it, or tests tuples, is kept up to date as before."""
    catalog = Catalog()
    catalog.add_stream(stream())
    assert route(bind(as_select(text), catalog)).route is expected


def test_a_question_reads_the_panes() -> None:
    with SparklessSession() as session:
        session.declare(stream())
        query = session.register(SOME, "q")
        session.push("s", tuples((1, 0, 2), (3, 1, 40), (6, 0, 8)))
        asked = session.query(SOME.replace(" SLIDE 5 sec", ""))
        assert asked.to_pylist() == query.latest().table.to_pylist() == [{"k": 1, "t": 40}]
