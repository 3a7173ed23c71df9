"""Statements about what is there, or may be: IF EXISTS, SHOW, DESCRIBE EXTENDED, comments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.core.time import SECOND
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

TOTALS = "SELECT k, SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k"


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    with SparklessSession() as opened:
        opened.declare(stream(keep=60 * SECOND))
        yield opened


def facts(session: sash.Session, text: str) -> dict[str, str]:
    return dict(zip(*session.sql(text).to_pydict().values(), strict=True))  # type: ignore[union-attr]


def test_what_is_not_there_is_dropped_if_it_exists(session: SparklessSession) -> None:
    for kind in ("QUERY", "STREAM", "TABLE", "ARCHIVE"):
        assert session.sql(f"DROP {kind} IF EXISTS nothing") is None
        with pytest.raises(sash.CatalogError, match=f"unknown {kind.lower()} 'nothing'"):
            session.sql(f"DROP {kind} nothing")
    assert session.sql("DROP INDEX IF EXISTS ON nothing (v)") is None
    assert session.sql("DROP INDEX IF EXISTS ON s (v)") is None


def test_what_is_there_is_not_made_again(session: SparklessSession) -> None:
    query = session.sql(f"REGISTER QUERY q AS {TOTALS}")
    assert session.sql("REGISTER QUERY IF NOT EXISTS Q AS SELECT COUNT(*) AS n FROM s [NOW]") is query
    assert session.sql("CREATE STREAM IF NOT EXISTS S FROM rate TIMESTAMP timestamp") is None
    for _ in range(2):
        session.sql("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY)")
        session.sql("CREATE INDEX IF NOT EXISTS ON s (v)")
        session.sql("CREATE INDEX IF NOT EXISTS ON s (v) USING hash")
    assert session.sql("SHOW INDEXES")["kind"].to_pylist() == ["db", "hash"]  # type: ignore[index,union-attr]
    session.sql("DROP INDEX IF EXISTS ON s (v) USING tree")
    session.sql("DROP INDEX IF EXISTS ON s (v)")
    session.sql("DROP TABLE IF EXISTS T")
    session.sql("DROP QUERY IF EXISTS q")
    with pytest.raises(sash.CatalogError, match="'s' is a stream already; choose another name for the table"):
        session.sql("CREATE TABLE IF NOT EXISTS s (k INT PRIMARY KEY)")
    assert [len(session.sql(f"SHOW {what}")) for what in ("QUERIES", "TABLES", "INDEXES")] == [0, 0, 0]  # type: ignore[arg-type]


def test_if_exists_does_not_drop_what_is_used(session: SparklessSession) -> None:
    session.sql(f"REGISTER QUERY q AS {TOTALS}")
    with pytest.raises(sash.CatalogError, match="read by q"):
        session.sql("DROP STREAM IF EXISTS s")


def test_streams_and_functions_are_shown(session: SparklessSession) -> None:
    session.sql(f"REGISTER QUERY q AS {TOTALS}")
    assert session.sql("SHOW STREAMS").to_pylist() == [  # type: ignore[union-attr]
        {
            "name": "s",
            "source": "DataFrame",
            "timestamp": "ts",
            "delay": "0 sec",
            "granule": "1 sec",
            "keep": "1 min",
            "state": "running",
            "queries": 1,
        }
    ]
    assert session.sql("SHOW FUNCTIONS LIKE 'DATE_t*|top|quantile'").to_pylist() == [  # type: ignore[union-attr]
        {"name": "date_trunc", "kind": "function of tuples and answers"},
        {"name": "quantile", "kind": "aggregate"},
        {"name": "top", "kind": "list of items"},
    ]
    assert len(session.sql("SHOW FUNCTIONS")) > 150  # type: ignore[arg-type]
    assert len(session.sql("SHOW FUNCTIONS LIKE 'rand*'")) == 0  # type: ignore[arg-type]


def test_a_query_is_described(session: SparklessSession) -> None:
    session.sql(f"REGISTER QUERY q AS {TOTALS} COMMENT 'for the door'")
    session.push("s", tuples((1, 0, 5), (2, 1, 7), (11, 0, 1)))
    assert facts(session, "DESCRIBE q")["comment"] == "for the door"
    assert session.sql("SHOW QUERIES")["comment"].to_pylist() == ["for the door"]  # type: ignore[index,union-attr]
    found = facts(session, "DESCRIBE EXTENDED q")
    assert (found["query"], found["route"], found["state"]) == (TOTALS, "panes", "registered")
    assert "Aggregate SUM(v) BY k" in found["plan"] and found["synopsis"].startswith("basic interval, 2 panes")
    assert found["schedule"].startswith("policy conservative")
    assert "{'k': 0, 't': 5}" in found["last answer"]
    assert found["last answer as of"] == "2023-11-14T22:13:30+00:00"
    with pytest.raises(sash.CatalogError, match="unknown query 's'"):
        session.sql("DESCRIBE EXTENDED s")


@pytest.mark.spark
def test_queries_of_other_routes_are_described(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sash")
    texts = {
        "changes": "SELECT DISTINCT k FROM s [RANGE 10 sec]",
        "joined panes": "SELECT COUNT(*) AS n FROM s [RANGE 5 sec SLIDE 5 sec] a JOIN s [RANGE 9 sec SLIDE 5 sec] b "
        "ON a.k = b.k",
        "sets": "SELECT k FROM s [RANGE 5 sec SLIDE 5 sec] INTERSECT SELECT k FROM s [RANGE 9 sec SLIDE 5 sec]",
    }
    with sash.connect(spark=spark) as session:
        session.sql(f"CREATE STREAM s (ts TIMESTAMP, k INT) FROM parquet OPTIONS (path '{tmp_path}') TIMESTAMP ts")
        for place, (route, text) in enumerate(texts.items()):
            session.register(text, f"q{place}")
            found = facts(session, f"DESCRIBE EXTENDED q{place}")
            assert (found["route"], found["state"], found["query"]) == (route, "registered", text)
            sections = "\n".join(list(found.values())[list(found).index("state") :])
            assert "[WINDOW 5 sec" in sections or "buckets by s.k" in sections
            assert "last answer" not in found
        assert "is read as" not in caplog.text
        session.register("SELECT MAX(k) AS m FROM s", "m")
        assert "query m is read as SELECT MAX(k) AS m FROM s [UNBOUNDED]" in caplog.text


@pytest.mark.spark
def test_a_continuous_query_is_explained_as_it_is_registered(spark: Any, tmp_path: Path) -> None:
    """Whatever SET EXECUTION says since then; under another name, or with another text, it would be as said now."""
    text = "SELECT DISTINCT k FROM s [RANGE 10 sec]"
    with sash.connect(spark=spark) as session:
        session.sql(f"CREATE STREAM s (ts TIMESTAMP, k INT) FROM parquet OPTIONS (path '{tmp_path}') TIMESTAMP ts")
        session.sql("SET EXECUTION direct")
        session.sql(f"REGISTER QUERY q AS {text}")
        session.sql("SET EXECUTION nt")
        assert "Execution: direct" in session.explain(f"REGISTER QUERY q AS {text}")
        assert facts(session, "DESCRIBE EXTENDED q")["execution"].startswith("direct")
        assert "Execution: nt" in session.explain(f"REGISTER QUERY p AS {text}")
        assert "Execution: nt" in session.explain(f"REGISTER QUERY q AS {text.replace('10', '9')}")


def test_a_query_without_a_window_says_how_it_is_read(session: SparklessSession) -> None:
    first, *_ = str(session.sql("EXPLAIN SELECT MAX(v) AS m FROM s")).split("\n")
    assert first == "Read as: SELECT MAX(v) AS m FROM s [UNBOUNDED]"
    assert "Read as" not in str(session.sql("EXPLAIN SELECT MAX(v) AS m FROM s [UNBOUNDED]"))


def test_a_comment_survives_a_restart(tmp_path: Path) -> None:
    for comment, error in (("for the door", None), ("for the door", None), ("other", "its comment is for the door")):
        with SparklessSession(checkpoint=tmp_path / "c") as session:
            session.declare(stream())
            if error is None:
                assert session.register(TOTALS, "q", comment=comment).comment == comment
            else:
                with pytest.raises(sash.CatalogError, match=error):
                    session.register(TOTALS, "q", comment=comment)
