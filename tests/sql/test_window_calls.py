"""Windows as Spark, Flink and RisingWave write them: the CQL that they become, and what is refused at its word."""

from __future__ import annotations

import pytest

from sash.catalog import Catalog, Stream
from sash.core.errors import CqlError
from sash.runtime.route import RouteDecision, route
from sash.sql import CreateStream, RegisterQuery, Select, bind, complete, parse
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS
from sash.sql.reading.window_calls import LISTS
from tests.sql.examples import marked

COLUMNS = "(ts TIMESTAMP, src STRING, length INT, other TIMESTAMP)"
STREAMS = {"s": "CLOSED LEFT", "shifted": "CLOSED LEFT OFFSET 2 sec", "usual": "DELAY 2 sec"}


def catalog() -> Catalog:
    known = Catalog()
    for name, clauses in STREAMS.items():
        made = parse(f"CREATE STREAM {name} {COLUMNS} FROM csv OPTIONS (path 'x') TIMESTAMP ts {clauses}")
        assert isinstance(made, CreateStream) and made.schema is not None
        stream = Stream(name, made.schema, "ts", made.delay, offset=made.offset, closed_left=made.closed_left)
        known.add_stream(stream)
    return known


CATALOG = catalog()


def select(text: str) -> Select:
    statement = parse(f"REGISTER QUERY q AS {text}")
    assert isinstance(statement, RegisterQuery)
    return statement.select


def decided(text: str) -> RouteDecision:
    return route(bind(select(text), CATALOG))


SPARK = [
    (
        "SELECT window.end, src, SUM(length) FROM s GROUP BY window(ts, '60 seconds', '5 seconds'), src",
        "SELECT window_end() AS `end`, src, SUM(length) FROM s [WINDOW 1 min SLIDE EXACTLY 5 sec] GROUP BY src",
    ),
    (
        "SELECT COUNT(*) FROM s WHERE length > 3 GROUP BY src, window(ts, '10 seconds')",
        "SELECT COUNT(*) FROM s [WINDOW 10 sec SLIDE EXACTLY 10 sec] WHERE length > 3 GROUP BY src",
    ),
    (
        "SELECT window(ts, '1 minute') AS w, w.end AS e, AVG(length) FROM s p GROUP BY w HAVING AVG(length) > 3",
        (
            "SELECT window_bounds() AS w, window_end() AS e, AVG(length) FROM s [WINDOW 1 min SLIDE EXACTLY 1 min] p"
            "  HAVING COUNT(*) > 0 AND (AVG(length) > 3)"
        ),
    ),
    (
        ("SELECT window(p.ts, '1 min').start AS s, window, MAX(ts) FROM s p GROUP BY window(p.ts, '1 min') ORDER BY s"),
        (
            "SELECT window_start() AS s, window_bounds() AS `window`, MAX(ts) FROM s [WINDOW 1 min SLIDE EXACTLY 1 min] p"  # noqa: E501
            " HAVING COUNT(*) > 0 ORDER BY s"
        ),
    ),
    (
        "SELECT src, window(ts, '90 seconds', '1 minute') AS w, COUNT(*) FROM s GROUP BY 1, 2",
        "SELECT src, window_bounds() AS w, COUNT(*) FROM s [WINDOW 90 sec SLIDE EXACTLY 1 min LAG 30 sec] GROUP BY 1",
    ),
    (
        "SELECT COUNT(*) FROM s GROUP BY window(ts, '5 sec') ORDER BY window LIMIT 3",
        "SELECT COUNT(*) FROM s [WINDOW 5 sec SLIDE EXACTLY 5 sec] HAVING COUNT(*) > 0 ORDER BY window_start() LIMIT 3",
    ),
    (
        "SELECT window.end, SUM(1) FROM s GROUP BY window(ts, '10 seconds', '4 seconds')",
        "SELECT window_end() AS `end`, SUM(1) FROM s [WINDOW 10 sec SLIDE EXACTLY 4 sec LAG 2 sec] HAVING COUNT(*) > 0",
    ),
    (
        "SELECT window.end, COUNT(*) FROM shifted GROUP BY window(ts, INTERVAL '10' SECOND, INTERVAL 4 SECONDS)",
        "SELECT window_end() AS `end`, COUNT(*) FROM shifted [WINDOW 10 sec SLIDE EXACTLY 4 sec] HAVING COUNT(*) > 0",
    ),
    (
        "SELECT COUNT(*) FROM s GROUP BY window(ts, '1 minute 30 seconds', '1 week', '-10 seconds')",
        "SELECT COUNT(*) FROM s [WINDOW 90 sec SLIDE EXACTLY 7 day LAG 604720 sec] HAVING COUNT(*) > 0",
    ),
]
SPARK += [
    (
        "SELECT TOP(3, src) FROM s WHERE length > 3 GROUP BY window(ts, '10 seconds')",
        "SELECT TOP(3, src) FROM s [WINDOW 10 sec SLIDE EXACTLY 10 sec] WHERE length > 3",
    ),
    (
        "SELECT window(ts, '10 sec').end AS e, COUNT(*) AS n FROM s GROUP BY 1",
        "SELECT window_end() AS e, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE EXACTLY 10 sec] HAVING COUNT(*) > 0",
    ),
    (
        "SELECT src, COUNT(*) AS n FROM s GROUP BY window(ts, '10 sec').start, src",
        "SELECT src, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE EXACTLY 10 sec] GROUP BY src",
    ),
    (
        (
            "SELECT date_format(window.end, 'HH:mm') AS e, CAST(window.start AS STRING) AS b, src FROM s "
            "GROUP BY window(ts, '10 sec'), src"
        ),
        (
            "SELECT date_format(window_end(), 'HH:mm') AS e, CAST(window_start() AS STRING) AS b, src "
            "FROM s [WINDOW 10 sec SLIDE EXACTLY 10 sec] GROUP BY src"
        ),
    ),
]
SPARK += [
    (
        "SELECT session_window.end, src, COUNT(*) FROM s GROUP BY session_window(ts, '30 seconds'), src",
        "SELECT window_end() AS `end`, src, COUNT(*) FROM s [SESSION GAP 30 sec MAX 50 min SLIDE 30 sec] GROUP BY src",
    ),
    (
        "SELECT session_window(ts, '1 min') AS w, w.start, MAX(ts) FROM usual GROUP BY w ORDER BY w",
        (
            "SELECT window_bounds() AS w, window_start() AS start, MAX(ts) FROM usual "
            "[SESSION GAP 1 min MAX 100 min SLIDE 1 min] HAVING COUNT(*) > 0 ORDER BY window_start()"
        ),
    ),
]
TABLES = [
    (
        (
            "SELECT window_start, window_end, src, SUM(length) FROM HOP(s, ts, INTERVAL '5' SECOND, INTERVAL '1' "
            "MINUTE) GROUP BY window_start, window_end, src"
        ),
        (
            "SELECT window_start() AS window_start, window_end() AS window_end, src, SUM(length) FROM s [WINDOW 1 "
            "min SLIDE EXACTLY 5 sec] GROUP BY src"
        ),
    ),
    (
        (
            "SELECT window_end AS e, src, COUNT(*) AS n FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND,"
            " INTERVAL '1' MINUTE)) AS t GROUP BY t.window_start, t.window_end, src ORDER BY n"
        ),
        (
            "SELECT window_end() AS e, src, COUNT(*) AS n FROM s [WINDOW 1 min SLIDE EXACTLY 5 sec] AS t GROUP BY src "
            "ORDER BY n"
        ),
    ),
    (
        (
            "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(DATA => TABLE s, TIMECOL => DESCRIPTOR(ts), SIZE => "
            "INTERVAL '10' SECOND, OFFSET => INTERVAL '2' SECOND)) GROUP BY window_start, window_end"
        ),
        (
            "SELECT window_end() AS window_end, COUNT(*) FROM s [WINDOW 10 sec SLIDE EXACTLY 10 sec LAG 8 sec] HAVING "
            "COUNT(*) > 0"
        ),
    ),
    (
        "SELECT n FROM (SELECT COUNT(*) AS n FROM TUMBLE(s, ts, INTERVAL '1 minute') GROUP BY window_end)",
        "SELECT n FROM (SELECT COUNT(*) AS n FROM s [WINDOW 1 min SLIDE EXACTLY 1 min] HAVING COUNT(*) > 0)",
    ),
]


@pytest.mark.parametrize(("text", "cql"), [*SPARK, *TABLES])
def test_a_call_becomes_a_window(text: str, cql: str) -> None:
    assert complete(select(text), CATALOG).cql.split() == cql.split()
    assert decided(text) == decided(cql)


@pytest.mark.parametrize(
    ("text", "cql"),
    [
        ("SELECT MAX(length) FROM usual", "SELECT MAX(length) FROM usual [UNBOUNDED]"),
        ("SELECT src FROM usual u WHERE length > 3", "SELECT src FROM usual [UNBOUNDED] u WHERE length > 3"),
        ("SELECT COUNT(*) FROM usual [RANGE 300]", "SELECT COUNT(*) FROM usual [RANGE 300 sec]"),
        (
            "SELECT COUNT(*) FROM usual [RANGE 300 SLIDE 60 LAG 5]",
            "SELECT COUNT(*) FROM usual [RANGE 5 min SLIDE 1 min LAG 5 sec]",
        ),
        (
            "SELECT n FROM (SELECT COUNT(*) AS n FROM usual [RANGE 9 sec])",
            "SELECT n FROM (SELECT COUNT(*) AS n FROM usual [RANGE 9 sec]) subquery",
        ),
    ],
)
def test_what_the_papers_leave_out(text: str, cql: str) -> None:
    assert decided(text) == decided(cql)
    if "[" not in text:
        assert complete(select(text), CATALOG).cql == cql
    assert complete(select(cql), CATALOG).cql == cql


HOP = "HOP(s, ts, INTERVAL '5' SECOND, INTERVAL '60' SECOND)"
_PARTS = "aggregate each window in a sub-query, FROM (SELECT .. GROUP BY ..) a JOIN"
ERRORS = [
    ("SELECT DISTINCT src FROM «s» GROUP BY window(ts, '10 sec'), src", _PARTS),
    ("SELECT a.src FROM «s» a JOIN s b ON a.src = b.src GROUP BY window(a.ts, '10 sec'), a.src", _PARTS),
    ("SELECT COUNT(*) FROM «s» [WINDOW 10 sec]", "add SLIDE to the window, or ask a second stream of the same source"),
    (
        "SELECT COUNT(*) FROM s WHERE src IN (SELECT src FROM s «[WINDOW 9 sec]») GROUP BY window(ts, '9 sec')",
        "add SLIDE here, as in [WINDOW 9 sec SLIDE EXACTLY 9 sec]",
    ),
    (
        "SELECT COUNT(*) FROM usual GROUP BY «window»(ts, '10 seconds')",
        "TIMESTAMP ts DELAY 2 sec CLOSED LEFT",
    ),
    ("SELECT COUNT(*) FROM s GROUP BY window(«other», '10 seconds')", "are of its TIMESTAMP, 'ts', and not of"),
    ("SELECT COUNT(*) FROM s GROUP BY «window»(upper(src), '10 seconds')", "its TIMESTAMP column by itself"),
    ("SELECT COUNT(*) FROM s GROUP BY «window»(ts)", "(time, length, slide, start)"),
    ("SELECT COUNT(*) FROM s GROUP BY window(ts, «'ten'»)", "a length such as '5 seconds'"),
    ("SELECT COUNT(*) FROM s GROUP BY window(ts, «'1 month'»)", "a length such as '5 seconds'"),
    ("SELECT COUNT(*) FROM s GROUP BY window(ts, «'0 seconds'»)", "must be greater than zero"),
    ("SELECT COUNT(*) FROM s GROUP BY «window»(ts, '10 seconds', '1500 ms')", "1500 ms is not a multiple"),
    ("SELECT COUNT(*) FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY «window»(ts, '5 sec')", "has a window already"),
    ("SELECT «window»(ts, '5 sec'), src FROM s", "stands in GROUP BY"),
    ("SELECT 1 FROM s GROUP BY window(ts, '5 sec'), «window»(ts, '9 sec')", "two windows in one SELECT"),
    ("SELECT COUNT(*) FROM (SELECT * FROM s) GROUP BY «window»(ts, '5 sec')", "inside of a sub-query"),
    ("SELECT COUNT(*) FROM s GROUP BY «session_window»(ts, '5 minutes', '1 minute')", "has the arguments (time, gap)"),
    ("SELECT COUNT(*) FROM s GROUP BY session_window(ts, «'0 seconds'»)", "a GAP must be greater than zero"),
    ("SELECT COUNT(*) FROM s GROUP BY session_window(«other», '5 minutes')", "are of its TIMESTAMP, 'ts', and not of"),
    ("SELECT src FROM s GROUP BY session_window(ts, '5 sec'), «window»(ts, '5 sec')", "two windows in one SELECT"),
    ("SELECT «session_window»(ts, '5 sec'), src FROM s", "SESSION_WINDOW(..) stands in GROUP BY"),
    ("SELECT COUNT(*) FROM s GROUP BY «session_window»(ts, '1500 ms')", "GAP 1500 ms is not a multiple"),
    ("SELECT «window_time»(window), COUNT(*) FROM s GROUP BY window(ts, '5 sec')", "window_end() is the end"),
    ("SELECT COUNT(*) FROM s GROUP BY «HOP»(ts, INTERVAL 5 SECONDS)", "HOP in GROUP BY is refused: write FROM"),
    (
        "SELECT «TUMBLE_END»(ts, INTERVAL 1 HOUR), COUNT(*) FROM s",
        "window_start() and window_end() are its edges",
    ),
    ("SELECT COUNT(*) FROM «HOP»(s, ts, INTERVAL 5 SECONDS) GROUP BY window_end", "HOP lacks its SIZE"),
    ("SELECT COUNT(*) FROM TABLE(«TUMBLE»(TABLE s, DESCRIPTOR(ts)))", "TUMBLE lacks its SIZE"),
    ("SELECT COUNT(*) FROM TABLE(«CUMULATE»(TABLE s, DESCRIPTOR(ts)))", "[SINCE midnight SLIDE 10 min]"),
    ("SELECT COUNT(*) FROM TABLE(«SESSION»(TABLE s, DESCRIPTOR(ts)))", "write FROM packets [SESSION GAP 30 sec]"),
    ("SELECT src FROM «HOP»(s, ts, INTERVAL '5' SECOND, INTERVAL '60' SECOND)", "needs GROUP BY window_start"),
    (
        f"SELECT a.src FROM «HOP»{HOP[3:]} a, {HOP} b",
        "aggregate each window in a sub-query",
    ),
    (f"SELECT «window_time», COUNT(*) FROM {HOP} GROUP BY window_start", "window_end() is the end"),
    ("SELECT COUNT(*) FROM «range»(10)", "table functions"),
    ("SELECT COUNT(*) FROM s [WINDOW 5 sec SLIDE 5 sec] WHERE «window_end»() > ts", "and of no tuple: leave it"),
    ("SELECT SUM(length) FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY «window_end»()", "and of no tuple: leave it"),
    ("SELECT «window_end»(w), COUNT(*) FROM s [ROWS 5 SLIDE 5] w", "the answer's as_of is the time of the last"),
    ("SELECT window_end(«w»), COUNT(*) FROM s [WINDOW 5 sec SLIDE 5 sec]", "'w' is no stream of this FROM"),
    ("SELECT «window_end»(1), COUNT(*) FROM s [WINDOW 5 sec SLIDE 5 sec]", "the alias or the name of a stream"),
    ("SELECT «window_end»(), length FROM usual [RANGE 5 sec]", "elsewhere as_of has the time of an answer"),
    (
        "SELECT «window_end»() FROM (SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec])",
        "inside the sub-query",
    ),
    ("SELECT COUNT(*) FROM usual [WINDOW «300»]", "WINDOW is a duration in a time-based window"),
]


def test_lists_of_items_have_no_rows_over_an_empty_window() -> None:
    assert set(LISTS) == ITEM_FUNCTIONS.keys()


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_what_is_refused_at_its_word(text: str, reason: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(CqlError) as caught:
        decided(statement)
    error, before = caught.value, len("REGISTER QUERY q AS ")
    assert reason in error.reason and error.span is not None
    assert (error.span.start - before, error.span.end - before) == (start, end)
