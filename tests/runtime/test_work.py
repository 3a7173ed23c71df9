"""What sharing saves against one Spark job per query, counted by hand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sash.core.window import TimeWindow
from sash.runtime.explaining.report import open_rows, streams_read
from sash.runtime.work import Work, WorkMeter, saved
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

# A hundred tuples of four groups within one second: (0, 1] is one pane.
HUNDRED = tuples(*((0.01 * (i + 1), i % 4, i) for i in range(100)))
MINUTE = "SELECT k, SUM(v) AS t FROM s [WINDOW 60 sec SLIDE 5 sec]{} GROUP BY k"
TEN = "SELECT k, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 5 sec]{} GROUP BY k"


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    with SparklessSession() as opened:
        opened.declare(stream())
        yield opened


def work(session: SparklessSession) -> tuple[dict[str, Any], dict[str, Any]]:
    found = session.stats()["work"]
    return found["shared"], found["separate"]


def registered(session: SparklessSession, *texts: str) -> None:
    for text in texts:
        session.register(text, name=f"q{len(session.queries)}")


def test_two_windows_over_a_hundred_tuples(session: SparklessSession) -> None:
    registered(session, MINUTE.format(""), TEN.format(""))
    session.push("s", HUNDRED)
    shared, separate = work(session)
    assert (shared["passes"], separate["passes"]) == (1, 2)
    assert (shared["tuples_read"], separate["tuples_read"]) == (100, 200)
    assert (shared["rows_expanded"], separate["rows_expanded"]) == (100, 100 * 12 + 100 * 2)
    # Four groups in one pane: four rows of partials are merged.
    assert (shared["rows_aggregated"], separate["rows_aggregated"]) == (104, 1400)
    assert session.stats()["work_saved"] == 1 - (100 + 100 + 104) / (200 + 1400 + 1400)


def test_state_is_rows_of_panes_against_open_windows(session: SparklessSession) -> None:
    registered(session, MINUTE.format(""), TEN.format(" WHERE k < 3"))
    session.push("s", HUNDRED)
    assert [each["state_rows"] for each in work(session)] == [4, 0], "no pane is closed"
    session.push("s", tuples((6, 0, 1)))
    assert [each["state_rows"] for each in work(session)] == [4 + 1, 4 * 12 + 3 * 2]
    session.push("s", tuples((11, 3, 1)))
    # Of the windows of a minute, the youngest has seen only k = 0; and so have those of ten seconds under k < 3.
    assert [each["state_rows"] for each in work(session)] == [4 + 1 + 1, (1 + 11 * 4) + (1 + 3)]


def test_a_condition_lets_fewer_tuples_through(session: SparklessSession) -> None:
    registered(session, MINUTE.format(" WHERE k = 1"), TEN.format(" WHERE v < 10"), TEN.format(""))
    session.push("s", HUNDRED)
    shared, separate = work(session)
    assert separate["tuples_read"] == 300, "a job reads a tuple before it looks at the condition"
    assert separate["rows_expanded"] == separate["rows_aggregated"] == 25 * 12 + 10 * 2 + 100 * 2
    assert shared["rows_expanded"] == 100


def test_a_condition_that_is_combined_from_others() -> None:
    with SparklessSession(share_predicates="always") as session:
        session.declare(stream())
        parts = [TEN.format(f" WHERE k = {k}") for k in (1, 2)]
        registered(session, *parts, TEN.format(" WHERE k = 1 OR k = 2"))
        session.push("s", HUNDRED)
        session.push("s", tuples((6, 0, 1)))
        (table,) = session.stats()["streams"]["s"]["pane_tables"]
        assert list(table["covered"]) == ["q2"]
        _, separate = work(session)
        assert separate["rows_expanded"] == (25 + 25 + 50) * 2
        assert separate["state_rows"] == (1 + 1 + 1) * 2, "the union has at least the groups of one part"


def test_queries_count_while_they_are_registered(session: SparklessSession) -> None:
    registered(session, MINUTE.format(""))
    session.push("s", HUNDRED)
    registered(session, *[TEN.format("")] * 3)
    session.push("s", tuples((2, 0, 1), (3, 0, 1)))
    session.drop_query("q0")
    session.push("s", tuples((4, 0, 1)))
    _, separate = work(session)
    assert separate["tuples_read"] == 100 + 2 * 4 + 3
    assert separate["rows_expanded"] == 100 * 12 + 2 * (12 + 3 * 2) + 3 * 2
    assert separate["passes"] == 3


def test_tables_are_lanes(session: SparklessSession) -> None:
    registered(session, MINUTE.format(""), "SELECT g, SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY g")
    session.push("s", HUNDRED)
    shared, _ = work(session)
    assert shared["rows_expanded"] == 2 * 100 and shared["rows_aggregated"] == 2 * 100 + 4 + 3


def test_executions(session: SparklessSession) -> None:
    registered(session, MINUTE.format(""), TEN.format(""))
    session.push("s", HUNDRED)
    session.push("s", tuples((5.5, 0, 1)))
    shared, separate = work(session)
    assert (shared["executions"], separate["executions"]) == (1, 2), "one scan for both, as of the fifth second"


def test_rows_are_counted_by_their_own_pass(session: SparklessSession) -> None:
    registered(session, "SELECT COUNT(*) AS n FROM s [ROWS 10 SLIDE 5]", TEN.format(""))
    session.push("s", HUNDRED)
    session.push("s", tuples((6, 0, 1)))
    shared, separate = work(session)
    # The watermark has passed a hundred tuples, which are read once more to number them.
    assert shared["tuples_read"] == 101 + 100 and separate["tuples_read"] == 101 + 100
    assert separate["rows_expanded"] == 101 * 2 + 100 * 2


def test_continuous_queries_of_one_plan_are_one() -> None:
    meter = WorkMeter()
    meter.take_plans(1_000, [2, 1])
    assert meter.separate == Work(3_000, 3_000, 3_000) and meter.shared == Work(1_000, 2_000, 2_000)
    assert streams_read({"plan": "p7", "streams": ["s", "t"]}) == ["s", "t"]
    assert streams_read({"stream": "s"}) == ["s"] and streams_read({}) == [], "a failed query reads nothing"


def test_nothing_is_saved_of_nothing() -> None:
    assert saved(Work(), Work()) == 0.0


def test_a_stream_that_nobody_queries_counts_for_nothing(session: SparklessSession) -> None:
    session.push("s", HUNDRED)
    shared, separate = work(session)
    assert not any(shared.values()) and not any(separate.values())


def test_a_window_of_very_many_slides_is_counted_by_its_groups() -> None:
    seen = np.array([0, 10**6, 2 * 10**6])
    assert open_rows(seen, TimeWindow(10**12, 1), now=2 * 10**6) == 3 * 10**12 - 3 * 10**6
