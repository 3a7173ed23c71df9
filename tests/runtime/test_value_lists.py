"""COLLECT_LIST, COLLECT_SET and LISTAGG: how long lists may become, what they share, and lists in composed answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sash.core.errors import QueryFailedError
from sash.core.time import SECOND
from sash.panes.aggregates.holistic import MOST_ELEMENTS
from tests.support.feed import compiled
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import SCHEMA, START, stream

W = "[WINDOW {} sec SLIDE 5 sec]"


def many(seconds: range, each: int) -> pa.Table:
    """So many tuples in every second, of two groups; `v` differs in a group and second."""
    ts = np.repeat([START + second * SECOND for second in seconds], each)
    v = np.tile(np.arange(each), len(seconds))
    columns = [
        pa.array(ts).cast(SCHEMA.field("ts").type),
        pa.array(v % 2),
        pa.array([None] * len(v)),
        *[pa.array(v)] * 3,
    ]
    table = pa.table([column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return table.append_column("_us", pa.array(ts))


def test_a_list_that_is_too_long_fails_its_query_alone() -> None:
    """Queries over other windows of the same panes go on, and one that gives a number has its first values."""
    most = MOST_ELEMENTS // 8
    with SparklessSession() as session:
        session.declare(stream())
        text = "SELECT k, {} AS l FROM s {} GROUP BY k"
        asked = {
            "long": ("COLLECT_LIST(v)", 20),
            "short": ("COLLECT_LIST(v)", 5),
            "first": ("COLLECT_LIST(v, 12000)", 20),
            "set": ("COLLECT_SET(v)", 20),
            "text": ("LISTAGG(CAST(v AS STRING), ',')", 20),
            "median": ("MEDIAN(v)", 20),
        }
        queries = {
            name: session.register(text.format(call, W.format(length)), name) for name, (call, length) in asked.items()
        }
        session.push("s", many(range(1, 22), most))
        assert {name for name, query in queries.items() if query.error is not None} == {"long", "text"}
        with pytest.raises(
            QueryFailedError,
            match=r"COLLECT_LIST\(v\): a group has 12,500 values, .* at most 10,000 .*with 12500 as the last",
        ):
            raise queries["long"].error  # type: ignore[misc]
        assert "WITHIN GROUP (ORDER BY ts): a group has 12,500 values" in str(queries["text"].error)
        of_second = list(range(0, most, 2))
        rows = {name: query.latest().table.to_pylist()[0] for name, query in queries.items() if query.error is None}
        assert rows["short"]["l"] == of_second * 5
        assert rows["first"]["l"] == (of_second * 20)[:12_000]
        assert rows["set"]["l"] == of_second


def test_a_set_reads_the_counts_of_other_aggregates() -> None:
    """COUNT(DISTINCT), MEDIAN, COLLECT_SET and a list in the order of its values have one pane table."""
    text = (
        "SELECT k, COUNT(DISTINCT g) AS d, MODE(g) AS m, COLLECT_SET(g) AS s, LISTAGG(g) WITHIN GROUP (ORDER BY g) AS "
        "l, ARRAY_AGG(DISTINCT g, 2) AS a FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY k"
    )
    (query,) = compiled({"q": text}, stream())
    assert [reading.table.label for reading in query.readings] == ["(g, k)"]


def test_lists_in_answers_of_answers() -> None:
    """Joined, numbered and cut."""
    inner = "SELECT k, {} AS l FROM s [WINDOW {} sec SLIDE 5 sec] GROUP BY k"
    joined = (
        f"FROM ({inner.format('COLLECT_LIST(v)', 5)}) a FULL JOIN ({inner.format('COLLECT_SET(g)', 10)}) b USING (k)"
    )
    with SparklessSession() as session:
        session.declare(stream())
        both = session.register(f"SELECT k, a.l AS x, b.l AS y {joined} ORDER BY k LIMIT 2", "both")
        numbered = session.register(
            f"{inner.format('COLLECT_LIST(v)', 10).replace(' AS l', ' AS l, RANK() OVER (ORDER BY COUNT(*)) AS r')}",
            "r",
        )
        either = session.register(inner.format("CASE WHEN COUNT(*) > 1 THEN COLLECT_LIST(v) END", 10), "either")
        session.push("s", tuples((1, 0, 7), (2, 0, 3), (6, 1, 9), (7, 1, 5), (8, 2, 4), (11, 0, 1)))
        assert both.latest().table.to_pylist() == [{"k": 0, "x": None, "y": ["a"]}, {"k": 1, "x": [9, 5], "y": ["b"]}]
        assert [(row["k"], row["l"], row["r"]) for row in numbered.latest().table.to_pylist()] == [
            (0, [7, 3], 2),
            (1, [9, 5], 2),
            (2, [4], 1),
        ]
        assert [row["l"] for row in either.latest().table.to_pylist()] == [[7, 3], [9, 5], None]


def test_a_question_reads_panes_or_stored_rows() -> None:
    rows = tuples((4, 0, 5), (5, 1, 7), (6, 0, 9), (6, 0, 2), (7, 0, 1), (8, 1, 1), (9, 5, 5))
    text = "SELECT k, {} AS l, {} AS a FROM s [WINDOW 5 sec{}] GROUP BY k"
    both = [
        (("COLLECT_LIST(v)", "LISTAGG(g, '-')"), [(0, [5, 2, 9, 1], "a-a-a-a"), (1, [7, 1], "b-b")]),
        (("COLLECT_SET(v)", "COLLECT_LIST(DISTINCT v, 1)"), [(0, [1, 2, 5, 9], [1]), (1, [1, 7], [1])]),
    ]
    for calls, truth in both:
        with SparklessSession() as session:
            session.declare(stream(keep=10 * SECOND))
            if "-" in calls[1]:
                session.register(text.format(*calls, " SLIDE 1 sec"), "q")
            session.push("s", rows)
            answer = session.query(text.format(*calls, "")).sort_by("k").to_pylist()
            assert [tuple(row.values()) for row in answer] == truth


def test_explain_tells_how_long_a_list_may_become() -> None:
    with SparklessSession() as session:
        session.declare(stream())
        text = session.explain("SELECT COLLECT_LIST(v) AS l, COLLECT_SET(g, 3) AS s FROM s [WINDOW 5 sec SLIDE 5 sec]")
        assert (
            "  COLLECT_LIST(v): all values of a group; more than 10,000 are an error of the query" in text.splitlines()
        )
        assert "  COLLECT_SET(g, 3): the first 3 of a group" in text.splitlines()
