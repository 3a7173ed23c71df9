"""Statements and scripts: their parsed forms, and where their errors point."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.catalog import Source
from sash.core.errors import CqlError, NotSupportedError
from sash.sql import (
    CreateStream,
    Describe,
    Drop,
    Explain,
    RegisterQuery,
    SelectStatement,
    SetExecution,
    Show,
    bind,
    has_slide,
    parse,
    parse_script,
    plan_panes,
    windows_of,
)
from tests.sql.examples import CATALOG, marked

SCRIPT = """
-- the stream; not the last of its kind
CREATE STREAM packets (ts TIMESTAMP, src INT, protocol STRING, length BIGINT, price DECIMAL(10,2))
  FROM parquet OPTIONS (path 'data/packets', maxFilesPerTrigger '2')
  TIMESTAMP TS DELAY 2 sec GRANULE 500 ms OFFSET 5 hours CLOSED LEFT LATE REVISE IDLE AFTER 1 min KEEP 10 min;
/* a query; with a semicolon in a comment */
REGISTER QUERY big_talkers AS
  SELECT src, SUM(length) AS bytes FROM packets [WINDOW 10 min SLIDE 2 min]
  WHERE protocol = 'T;P' GROUP BY src
  LIFETIME 8 hours PRIORITY 5;
show queries; DESCRIBE big_talkers; EXPLAIN SELECT COUNT(*) FROM packets [RANGE 1 min];
DROP QUERY big_talkers; DROP STREAM packets; SELECT MAX(length) FROM packets [WINDOW 5 min];;
"""


def test_script() -> None:
    create, register, show, describe, explain, drop_query, drop_stream, select = parse_script(SCRIPT)
    assert create == CreateStream(
        name="packets",
        schema=pa.schema(
            [
                ("ts", pa.timestamp("us", tz="UTC")),
                ("src", pa.int32()),
                ("protocol", pa.string()),
                ("length", pa.int64()),
                ("price", pa.decimal128(10, 2)),
            ]
        ),
        timestamp="ts",
        source=Source("parquet", {"path": "data/packets", "maxFilesPerTrigger": "2"}),
        delay=2_000_000,
        granule=500_000,
        offset=5 * 3_600_000_000,
        closed_left=True,
        late_revise=True,
        idle_after=60_000_000,
        keep=600_000_000,
    )
    assert isinstance(register, RegisterQuery)
    assert (register.name, register.priority, register.lifetime) == ("big_talkers", 5, 8 * 3_600_000_000)
    assert register.text.startswith("SELECT src") and register.text.endswith("GROUP BY src")
    assert (show, describe) == (Show("queries"), Describe("big_talkers"))
    assert isinstance(explain, Explain) and explain.select.text.startswith("SELECT COUNT(*)")
    assert (drop_query, drop_stream) == (Drop("query", "big_talkers"), Drop("stream", "packets"))
    assert isinstance(select, SelectStatement)


def test_columns_may_be_left_out() -> None:
    statement = parse("CREATE STREAM r FROM rate OPTIONS (rowsPerSecond = '5', a.b 'c') TIMESTAMP timestamp")
    assert isinstance(statement, CreateStream)
    assert (statement.schema, statement.timestamp) == (None, "timestamp")
    assert statement.source.options == {"rowsPerSecond": "5", "a.b": "c"}


def test_timestamps_of_arrival() -> None:
    statement = parse("CREATE STREAM s (x INT) FROM rate TIMESTAMP Arrival LATE REVISE")
    assert isinstance(statement, CreateStream) and (statement.timestamp, statement.schema.names) == ("arrival", ["x"])
    own = parse("CREATE STREAM s (Arrival TIMESTAMP) FROM rate TIMESTAMP ARRIVAL DELAY 2 sec")
    assert isinstance(own, CreateStream) and (own.timestamp, own.delay) == ("Arrival", 2_000_000)


def test_clauses_after_a_query_in_any_order() -> None:
    statement = parse("REGISTER QUERY q AS SELECT priority FROM packets [WINDOW 1 min] PRIORITY -2 LIFETIME 1 day")
    assert isinstance(statement, RegisterQuery)
    assert (statement.priority, statement.lifetime, statement.keep) == (-2, 86_400_000_000, None)
    assert statement.text.endswith("1 min]")
    statement = parse("REGISTER QUERY q AS SELECT k AS keep FROM s [WINDOW 1 min] GROUP BY keep KEEP 2 sec PRIORITY 1")
    assert isinstance(statement, RegisterQuery) and statement.text.endswith("BY keep")
    assert (statement.priority, statement.keep) == (1, 2_000_000)


@pytest.mark.parametrize(
    ("clauses", "synopsis", "priority"),
    [
        ("", None, 0),
        ("SYNOPSIS AUTO", None, 0),
        ("synopsis Basic", "basic", 0),
        ("SYNOPSIS RUNNING PRIORITY 3", "running", 3),
        ("PRIORITY -3 SYNOPSIS INTERVAL", "interval", -3),
        ("LIFETIME 1 day SYNOPSIS LANDMARK PRIORITY 1", "landmark", 1),
        ("WITH BOUNDS SYNOPSIS BASIC", "basic", 0),
        ("KEEP 10 min SYNOPSIS BASIC", "basic", 0),
    ],
)
def test_the_synopsis_of_a_query(clauses: str, synopsis: str | None, priority: int) -> None:
    statement = parse(f"REGISTER QUERY q AS SELECT COUNT(*) FROM packets [WINDOW 1 min SLIDE 1 min] {clauses}")
    assert isinstance(statement, RegisterQuery)
    assert (statement.synopsis, statement.priority) == (synopsis, priority)
    assert statement.text.endswith("BOUNDS" if "BOUNDS" in clauses else "1 min]")


@pytest.mark.parametrize("hour", ["1 h", "60m", "60 mins", "1hr", "1 hrs", "3600s", "3600 secs", "1h"])
def test_units(hour: str) -> None:
    for text in (f"[WINDOW {hour} SLIDE {hour} LAG {hour}] LIFETIME {hour}", f"[ROWS 5 SLIDE {hour}] LIFETIME {hour}"):
        statement = parse(f"REGISTER QUERY q AS SELECT COUNT(*) FROM packets {text}")
        assert isinstance(statement, RegisterQuery)
        assert statement.lifetime == windows_of(statement.select)[0][1].window.slide == 3_600_000_000


@pytest.mark.parametrize(
    "minutes",
    ["INTERVAL '5' MINUTE", "INTERVAL 5 MINUTES", "interval '5 minutes'", 'INTERVAL "300" SECONDS', "INTERVAL 5m"],
)
def test_intervals(minutes: str) -> None:
    create = parse(f"CREATE STREAM s FROM rate TIMESTAMP ts DELAY {minutes} KEEP {minutes}")
    assert isinstance(create, CreateStream)
    assert (create.delay, create.keep) == (300_000_000, 300_000_000)
    register = parse(
        f"REGISTER QUERY q AS SELECT COUNT(*) FROM s [WINDOW {minutes} SLIDE {minutes}] LIFETIME {minutes} PRIORITY 1"
    )
    assert isinstance(register, RegisterQuery)
    assert (register.lifetime, register.priority) == (300_000_000, 1)
    ((_, clause),) = windows_of(register.select)
    window = clause.window
    assert (window.length, window.slide) == (300_000_000, 300_000_000)


IF_EXISTS = [
    "DROP QUERY IF EXISTS q",
    "DROP STREAM IF EXISTS s",
    "DROP TABLE IF EXISTS t",
    "DROP ARCHIVE IF EXISTS a",
    "DROP INDEX IF EXISTS ON s (v)",
    "REGISTER QUERY IF NOT EXISTS q AS SELECT COUNT(*) FROM s [WINDOW 1m SLIDE 1m]",
    "CREATE STREAM IF NOT EXISTS s FROM rate TIMESTAMP timestamp",
    "CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, v STRING)",
    "CREATE NONRETROACTIVE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, v STRING)",
    "CREATE INDEX IF NOT EXISTS ON s (v) USING hash",
    "CREATE ARCHIVE IF NOT EXISTS a FROM s KEY v LIFETIME UP TO 1 d UPDATE EVERY 1 h",
]


@pytest.mark.parametrize("text", IF_EXISTS)
def test_statements_for_what_may_be_there(text: str) -> None:
    words = "IF NOT EXISTS" if "NOT EX" in text else "IF EXISTS"
    changed, plain = parse(text), parse(text.replace(f"{words} ", ""))
    field = words.lower().replace(" ", "_")
    assert (getattr(changed, field), getattr(plain, field)) == (True, False)
    assert type(changed) is type(plain)


def test_comments_on_queries() -> None:
    text = "SELECT comment, COUNT(*) FROM s [WINDOW 1m SLIDE 1m] WHERE comment = 'x' GROUP BY comment"
    statement = parse(rf"REGISTER QUERY q AS {text} COMMENT 'for \'us\'' PRIORITY 2")
    assert isinstance(statement, RegisterQuery)
    assert (statement.comment, statement.priority, statement.text) == ("for 'us'", 2, text)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW STREAMS", Show("streams")),
        ("SHOW FUNCTIONS", Show("functions")),
        ("SHOW FUNCTIONS LIKE 'date*|*_diff'", Show("functions", "date*|*_diff")),
        ("DESCRIBE EXTENDED q", Describe("q", extended=True)),
        ("DESC extended", Describe("extended")),
    ],
)
def test_what_is_shown(text: str, statement: Show | Describe) -> None:
    assert parse(text) == statement


@pytest.mark.parametrize(
    "end",
    ["GROUP BY synopsis", "ORDER BY synopsis DESC", "ORDER BY priority - 3, synopsis ASC", "HAVING synopsis IS NULL"],
)
def test_columns_may_be_named_as_the_clauses_are(end: str) -> None:
    statement = parse(f"REGISTER QUERY q AS SELECT synopsis, lifetime FROM packets [WINDOW 1 min] {end}")
    assert isinstance(statement, RegisterQuery)
    assert statement.text.endswith(end) and statement.synopsis is None


@pytest.mark.parametrize(
    ("source", "slides"),
    [
        ("s [WINDOW 1 min]", False),
        ("s [WINDOW 1 min SLIDE 1 min]", True),
        ("s [ROWS 5]", False),
        ("s [ROWS 5 SLIDE 1]", True),
        ("s [PARTITION BY k ROWS 5 SLIDE EXACTLY 1]", True),
        ("s [UNBOUNDED LAG 1 sec]", False),
        ("s [UNBOUNDED SLIDE 1 sec]", True),
        ("(SELECT COUNT(*) AS n FROM s [ROWS 5]) a", False),
        ("(SELECT COUNT(*) AS n FROM s [ROWS 5 SLIDE 1]) a, (SELECT COUNT(*) AS m FROM s [ROWS 5 SLIDE 1]) b", True),
    ],
)
def test_whether_a_query_slides(source: str, slides: bool) -> None:
    statement = parse(f"SELECT COUNT(*) FROM {source}")
    assert isinstance(statement, SelectStatement)
    assert has_slide(statement.select) is slides


def test_an_error_found_by_the_binder_shows_the_line_of_the_script() -> None:
    _, register = parse_script("SHOW QUERIES;\nREGISTER QUERY q AS SELECT\n  SUM(lenght) FROM packets [WINDOW 1 min]")
    assert isinstance(register, RegisterQuery)
    with pytest.raises(CqlError, match="did you mean 'length'") as caught:
        plan_panes(bind(register.select, CATALOG), periodic=False)
    assert (caught.value.line, caught.value.column) == (3, 7)


@pytest.mark.parametrize("text", ["", "SHOW QUERIES; SHOW QUERIES", "-- nothing"])
def test_parse_wants_one_statement(text: str) -> None:
    with pytest.raises(CqlError, match="expected one statement"):
        parse(text)


CREATE = "CREATE STREAM s (ts TIMESTAMP, x INT) FROM rate TIMESTAMP ts "
ERRORS = [
    ("«SELCT» 1", "did you mean 'SELECT'"),
    ("CREATE «STREEM» s", "expected STREAM"),
    ("CREATE STREAM s (ts «TIMESTMP») FROM rate TIMESTAMP ts", "TIMESTMP"),
    ("CREATE STREAM s (ts TIMESTAMP, «ts» INT) FROM rate TIMESTAMP ts", "declared twice"),
    ("CREATE STREAM s (ts TIMESTAMP) «TIMESTAMP» ts", "expected FROM"),
    ("CREATE STREAM s (ts TIMESTAMP) FROM rate TIMESTAMP «tss»", "did you mean 'ts'"),
    ("CREATE STREAM s (ts TIMESTAMP, x INT) FROM rate TIMESTAMP «x»", "not a TIMESTAMP"),
    ("CREATE STREAM s (ts TIMESTAMP) FROM rate« »", "expected TIMESTAMP"),
    ("CREATE STREAM s (x INT) FROM rate TIMESTAMP ARRIVAL «DELAY» 2 sec", "tuples arrive in order, and DELAY is for"),
    (
        "CREATE STREAM s (x INT) FROM rate «MAX» JUMP 1 day TIMESTAMP ARRIVAL",
        "and MAX JUMP is for others: leave it",
    ),
    ("CREATE STREAM s (arrival INT) FROM rate TIMESTAMP «ARRIVAL»", "'arrival' is not a TIMESTAMP"),
    ("CREATE STREAM s (ts TIMESTAMP) FROM rate OPTIONS (path «x») TIMESTAMP ts", "in quotes"),
    (CREATE + "GRANULE «0 sec»", "greater than zero"),
    (CREATE + "DELAY «-1 sec»", "must not be negative"),
    (CREATE + "DELAY «1 parsec»", "units: ms/millisecond, s/sec/second, m/min/minute, h/hr/hour, d/day"),
    (CREATE + "DELAY «soon»", "such as '10 sec'"),
    (CREATE + "DELAY 1 sec «DELAY» 2 sec", "given twice"),
    (CREATE + "«GRANULES» 1 sec", "did you mean 'GRANULE'"),
    (CREATE + "CLOSED «RIGHT»", "expected LEFT"),
    (CREATE + "KEEP 1 hour STORED «ON» DISK", "expected IN"),
    (CREATE + "KEEP 1 hour STORED IN «DISK»", "expected MEMORY or CLUSTER after STORED IN, got 'DISK'"),
    (CREATE + "«STORED» IN CLUSTER", "expected one of"),
    ("DROP «VIEW» t", "expected QUERY, STREAM, TABLE, INDEX or ARCHIVE"),
    ("DROP QUERY a «b»", "expected the end"),
    ("CREATE INDEX «i»", "expected ON and a stream with KEEP"),
    ("CREATE INDEX ON s (v) USING «trie»", "unknown index 'trie'"),
    ("CREATE INDEX ON s (v) USING «g»", "a G-INDEX knows ranges of values, and no question asks for ranges"),
    ("DROP INDEX ON s (v) «now»", "expected the end of the statement"),
    ("SHOW «VIEWS»", "expected one of QUERIES, STREAMS, TABLES, INDEXES, ARCHIVES, FUNCTIONS after SHOW"),
    ("SHOW FUNCTIONS LIKE «date»", "expected a pattern such as 'date*' in quotes"),
    ("DROP QUERY IF «NOT» EXISTS q", "expected the end of the statement"),
    ("CREATE STREAM IF «EXISTS» s", "expected FROM"),
    ("REGISTER QUERY IF «NOT» q AS SELECT 1", "expected AS"),
    ("REGISTER QUERY q AS SELECT 1 FROM s COMMENT 'a' «COMMENT» 'b'", "once each"),
    (CREATE + "DELAY «INTERVAL 1 MONTH»", "units: ms/millisecond, s/sec/second, m/min/minute, h/hr/hour, d/day"),
    (CREATE + "DELAY «INTERVAL '1:30' MINUTE» TO SECOND", "such as '10 sec', got 'INTERVAL '1:30' MINUTE'"),
    (CREATE + "DELAY INTERVAL «soon»", "such as '10 sec'"),
    (CREATE + "DELAY «10l»", "units: ms/millisecond, s/sec/second, m/min/minute, h/hr/hour, d/day"),
    ("REGISTER QUERY q «SELECT» 1", "expected AS"),
    ("REGISTER QUERY q AS «DROP» QUERY r", "expected SELECT"),
    ("REGISTER QUERY q AS SELECT 1 FROM s [WINDOW 1 min] LIFETIME «0 sec»", "greater than zero"),
    ("REGISTER QUERY q AS SELECT 1 FROM s [WINDOW 1 min] SYNOPSIS «FAST»", "AUTO, BASIC, RUNNING, INTERVAL, LANDMARK"),
    ("REGISTER QUERY q AS SELECT 1 FROM s SYNOPSIS AUTO «SYNOPSIS» BASIC", "once each"),
    ("REGISTER QUERY q AS SELECT 1 FROM s KEEP 1 min «KEEP» 1 min", "once each"),
    ("REGISTER QUERY q AS SELECT 1 FROM s KEEP «0 sec»", "greater than zero"),
    ("REGISTER QUERY q AS SELECT 1 FROM s LIFETIME 1 day «PRIO» 1", "expected LIFETIME, PRIORITY, SYNOPSIS"),
    ("SELECT 1 FROM s [WINDOW 1 min] «LIFETIME» 1 day", "stands behind REGISTER QUERY name AS SELECT"),
    ("SELECT 1 FROM s [WINDOW 1 min] «KEEP» 1 day", "give register(.., keep=..)"),
    ("EXPLAIN SELECT 1 FROM s [WINDOW 1 min] «STORED» IN CLUSTER", "synopsis='cluster'"),
    ("SELECT a b «c» FROM s PRIORITY 5", "unexpected word"),
    ("SELECT n FROM («packets» [WINDOW 1 min]) a", "expected SELECT after ("),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM s [ROWS 1]) a, (SELECT COUNT( n «FROM» s) b", "expected )"),
    ("SELECT COUNT(*) FROM s [WINDOW «ten» min]", "window's length"),
    ("SELECT COUNT(*) FROM s [WINDOW 10 min «SLID» 2 min]", "expected SLIDE, LAG or ]"),
    ("SELECT COUNT(*) FROM s [WINDOW 1 min SLIDE «0 min»]", "greater than zero"),
    ("SELECT COUNT(*) FROM s [WINDOW «5000 days»]", "absurdly long"),
    ("SELECT COUNT(*) FROM s [«WINDO» 1 min]", "expected WINDOW"),
    ("SELECT COUNT(*) FROM s [NOW «SLIDE» 1 min]", "expected ] after NOW"),
    ("SELECT COUNT(*), «FROM» s [WINDOW 1 min]", "after the comma"),
    ("SELECT (1 «FROM» s", "expected )"),
    ("SELECT a b «c» FROM s", "unexpected word"),
    ("SELECT COUNT(*) FROM s WHERE x = «'»a", "never closed"),
    ("SELECT «/*» 'b' COUNT(*) FROM s", "never closed"),
]
LATER = [
    ("INSERT INTO t «SELECT» 1", "INSERT .. SELECT"),
    ("WITH «RECURSIVE» x AS (SELECT 1) SELECT 1", "RECURSIVE"),
    ("SELECT n FROM «VALUES» (1)", "VALUES in FROM"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(CqlError) as caught:
        parse(statement)
    assert reason in caught.value.reason
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (start, end)


@pytest.mark.parametrize(("text", "what"), LATER)
def test_what_comes_later_says_so(text: str, what: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(NotSupportedError, match="not supported yet") as caught:
        parse(statement)
    assert what in caught.value.reason
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (start, end)


@pytest.mark.parametrize("strategy", ["upa", "nt", "direct", "auto"])
def test_set_execution(strategy: str) -> None:
    assert parse(f"set execution {strategy.title()}") == SetExecution(strategy)


def test_an_unknown_execution_is_refused() -> None:
    with pytest.raises(CqlError, match="expected one of upa, nt, direct, auto after SET EXECUTION, got 'fast'"):
        parse("SET EXECUTION fast")
