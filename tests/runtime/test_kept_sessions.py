"""KEEP behind a query, in sessions without Spark: statements, restarts, indexes, what is said about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash.storage.epochs
from sash.catalog import KeptForm
from sash.core.errors import CatalogError, CqlError, SashError
from sash.core.time import SECOND
from sash.runtime.answers.answer import Answer
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

TOTALS = "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k"
ROWS = "SELECT k, COUNT(*) AS n FROM s [ROWS 5 SLIDE 3] GROUP BY k"
KEEP = 9 * SECOND


def story(step: int) -> Any:
    """Two seconds and a half of tuples, and then now and then a gap."""
    begin = 2.5 * step + 7 * (step // 4)
    return tuples(*((begin + i / 4, i % 3, (i + step) % 9) for i in range(10)))


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    with SparklessSession() as made:
        made.declare(stream())
        yield made


def kept_rows(session: SparklessSession, name: str) -> Counter[tuple[Any, ...]]:
    kept = session.queries[name].outward.kept_result
    assert kept is not None
    return Counter(tuple(row.values()) for row in kept.rows().rows.to_pylist())


def lately(answers: list[Answer]) -> Counter[tuple[Any, ...]]:
    """The rows that subscribers saw in the last nine seconds."""
    now = max(answer.as_of for answer in answers)
    told = [each for each in answers if (now - each.as_of).total_seconds() * SECOND < KEEP]
    return Counter((*row.values(), each.as_of) for each in told for row in each.table.to_pylist())


@pytest.mark.parametrize("every", [1, 3, 100])
def test_a_restart_before_each_micro_batch_changes_nothing(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", every)
    texts, answers = {"totals": TOTALS, "rows": ROWS}, dict[str, list[Answer]](totals=[], rows=[])
    for step in range(10):
        with SparklessSession(checkpoint=tmp_path) as session:
            session.declare(stream())
            for name, text in texts.items():
                query = session.register(text, name=name, keep="9 sec")
                query.subscribe(answers[name].append)
            if step == 0:
                session.sql("CREATE INDEX ON totals (k)")
            for name, told in answers.items():
                assert not told or kept_rows(session, name) == lately(told), name
            session.push("s", story(step))
            for name, told in answers.items():
                assert not told or kept_rows(session, name) == lately(told), name
            shown = session.sql("SHOW INDEXES")
            assert isinstance(shown, pa.Table) and shown.num_rows == 1
            assert shown["values"].to_pylist() == [min(3, len(kept_rows(session, "totals")))]
    assert all(len(told) > 8 and len(lately(told)) < sum(each.num_rows for each in told) for told in answers.values())


def test_a_replaced_query_keeps_its_stored_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 3)
    answers: list[Answer] = []
    for step in range(8):
        with SparklessSession(checkpoint=tmp_path) as session:
            session.declare(stream())
            text = TOTALS if step < 3 else TOTALS.replace("GROUP BY", "WHERE k > 0 GROUP BY")
            query = session.register(text, name="q", keep="9 sec", replace=step == 3)
            query.subscribe(answers.append)
            session.push("s", story(step))
            assert kept_rows(session, "q") == lately(answers)
    with SparklessSession(checkpoint=tmp_path) as session:
        session.declare(stream())
        with pytest.raises(CatalogError, match=r"store its results for another time \(KEEP\)"):
            session.register(TOTALS, name="q", keep="10 sec", replace=True)
        with pytest.raises(CatalogError, match=r"writes to its stored results \(KEEP\), and its answers"):
            session.register(TOTALS.replace(" AS n", " AS m"), name="q", keep="9 sec", replace=True)
        session.declare(replace(stream(), name="t"))
        with pytest.raises(
            CatalogError, match=r"stores results of stream s \(KEEP\): register the text under another name"
        ):
            session.register(text.replace("FROM s", "FROM t"), name="q", keep="9 sec", replace=True)
        session.sql("ALTER QUERY q SET (PRIORITY 3)")
        assert kept_rows(session, "q") == lately(answers)


def test_what_is_said_about_it(session: SparklessSession) -> None:
    text = f"REGISTER QUERY q AS {TOTALS} KEEP 10 min COMMENT 'all' LIFETIME 1 hour"
    explained = session.explain(text)
    assert "Keep: the rows of its answers of the last 10 min are stored in memory, for questions FROM q" in explained
    query = session.sql(text)
    session.register(TOTALS, name="plain")
    session.push("s", story(0))
    stats = session.stats()["queries"]
    assert stats["q"]["kept_rows"] == sum(each.num_rows for each in session.queries["q"].answers()) > 0
    assert stats["q"]["kept_bytes"] > 0 and "kept_rows" not in stats["plain"]
    assert 'sash_query_kept_rows{query="q"} ' in session.metrics()
    described = session.sql("DESCRIBE q")
    assert isinstance(described, pa.Table) and {"fact": "keep", "value": "10 min"} in described.to_pylist()
    extended = session.sql("DESCRIBE EXTENDED q")
    assert isinstance(extended, pa.Table) and "are stored in memory" in str(extended.to_pylist())
    asked = session.explain("SELECT n FROM q WHERE k = 1")
    assert "query q, the rows of its answers of the last 10 min (WKS: the oldest rows leave an index first)" in asked
    assert "CREATE INDEX ON q (k) would find the rows" in asked
    session.sql("CREATE INDEX ON q (k)")
    session.sql("CREATE INDEX ON q (as_of) USING bw")
    assert "k = 1: found by the db index on k, which has 3 values" in session.explain("SELECT n FROM q WHERE k = 1")
    session.sql("DROP INDEX ON q (k)")
    assert "looked for in every row" in session.explain("SELECT n FROM q WHERE k = 1")
    session.drop_query("q")
    assert session.queries.get("q") is None and query is not None
    with pytest.raises(SashError, match="unknown stream 'q'"):
        session.sql("CREATE INDEX ON q (k)")


def test_registered_otherwise_it_is_another_query(tmp_path: Path) -> None:
    for keep, refused in (("9 sec", None), (None, "its keep is 9 sec there and none here"), ("9 sec", None)):
        with SparklessSession(checkpoint=tmp_path) as session:
            session.declare(stream())
            if refused is None:
                session.register(TOTALS, name="q", keep=keep)
                registered = session.catalog.query("q")
                assert (registered.keep, registered.kept_form) == (9 * SECOND, KeptForm.ANSWERS)
            else:
                with pytest.raises(CatalogError, match=refused):
                    session.register(TOTALS, name="q", keep=keep)


REFUSED: list[tuple[Callable[[SparklessSession], Any], str]] = [
    (lambda session: session.register(TOTALS, name="q", keep="0 sec"), "keep is more than zero, not 0"),
    (lambda session: session.register(TOTALS, name="q", keep="soon"), "keep: "),
    (lambda session: session.sql(f"REGISTER QUERY q AS {TOTALS} KEEP 0 sec"), "KEEP must be greater than zero"),
    (lambda session: session.sql(f"{TOTALS} KEEP 5 sec"), r"KEEP stands behind REGISTER QUERY .* register\(.., keep="),
    (
        lambda session: session.register(TOTALS.replace("total", "_ts"), name="q", keep="1 sec"),
        "column '_ts' of its answers has a name that KEEP uses itself: rename it by AS",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "why"), REFUSED)
def test_what_is_refused(call: Callable[[SparklessSession], Any], why: str, session: SparklessSession) -> None:
    with pytest.raises(SashError, match=why):
        call(session)
    assert session.queries == {}


def test_too_many_rows_are_told_to_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    with SparklessSession(max_rows=20) as session:
        session.declare(stream())
        session.register(TOTALS, name="q", keep="1 min")
        for step in range(8):
            session.push("s", story(step))
        kept = session.queries["q"].outward.kept_result
        assert kept is not None and session.queries["q"].error is None
        with pytest.raises(SashError, match=r"KEEP stored 2\d rows of its results, and max_rows is 20"):
            kept.rows()
        assert "result.overfull" in [getattr(record, "sash", {}).get("event") for record in caplog.records]


def test_a_column_may_be_called_keep(session: SparklessSession) -> None:
    query = session.sql(
        "REGISTER QUERY q AS SELECT k AS keep, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] "
        "GROUP BY k ORDER BY keep DESC LIMIT 2 KEEP 5 sec PRIORITY 2"
    )
    assert session.catalog.query("q").keep == 5 * SECOND and query is not None


def test_the_place_of_a_mistake(session: SparklessSession) -> None:
    text = f"REGISTER QUERY q AS {TOTALS} KEEP 5 sec KEEP 6 sec"
    with pytest.raises(CqlError, match="once each"):
        session.sql(text)
