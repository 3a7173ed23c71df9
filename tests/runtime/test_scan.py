"""One job per micro-batch for all the continuous queries of a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.spark.leaves import Scan
from sash.spark.pipeline import Pipeline
from tests.runtime.test_continuous import QUERIES, declare, tuples, write

pytestmark = pytest.mark.spark


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    calls: list[str] = []
    action = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        calls.append(name)
        return action(*arguments)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_continuous_queries_share_one_job(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tuples(3), tmp_path / "s")
    passes, scans = counted(monkeypatch, Pipeline, "aggregate"), counted(monkeypatch, Scan, "collect")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        for name in ("selection", "distinct", "self", "groups"):
            session.register(QUERIES[name], name=name)
        session.run()
    assert (len(passes), len(scans)) == (0, 5)


def test_pane_tables_have_their_own_job(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tuples(3), tmp_path / "s")
    passes, scans = counted(monkeypatch, Pipeline, "aggregate"), counted(monkeypatch, Scan, "collect")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        session.register(QUERIES["distinct"], name="distinct")
        session.register("SELECT COUNT(*) FROM s [RANGE 2 sec SLIDE 1 sec]", name="periodic")
        session.run()
    assert (len(passes), len(scans)) == (5, 5)


def test_bad_rows_are_counted_as_ever(spark: Any, tmp_path: Path) -> None:
    rows = [{"ts": f"2026-01-01T00:00:0{i}Z", "k": i % 2} for i in range(6)]
    rows[2]["ts"] = None
    lines = [*map(json.dumps, rows), "{not json", '{"ts": "yesterday", "k": 1}']
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "one.json").write_text("\n".join(lines))
    found = []
    for text in ("SELECT DISTINCT k FROM s [RANGE 3 sec]", "SELECT COUNT(*) FROM s [RANGE 3 sec SLIDE 1 sec]"):
        with sash.connect(spark=spark) as session:
            session.sql(
                f"CREATE STREAM s (ts TIMESTAMP, k INT) FROM json OPTIONS (path '{tmp_path / 's'}') TIMESTAMP ts"
            )
            session.register(text, name="q")
            session.run()
            counted = session.stats()["streams"]["s"]
            found.append([counted[name] for name in ("tuples", "null_timestamps", "unparsable", "late_tuples")])
    assert found == [[8, 1, 2, 0]] * 2


def test_a_plan_that_fails_takes_no_other_along(spark: Any, tmp_path: Path) -> None:
    write(tuples(3), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        bad = session.register("SELECT 1 / (v - 7) AS q FROM s [RANGE 3 sec]", name="bad")
        good = session.register(QUERIES["distinct"], name="good")
        session.run()
        assert bad.error is not None and good.error is None
        assert good.changes().num_rows > 10
