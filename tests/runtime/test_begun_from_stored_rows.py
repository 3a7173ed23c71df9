"""Continuous queries that come later: from their registration on they are those that were there at the start (KEEP)."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from tests.runtime.test_continuous import COLUMNS, QUERIES, tuples, write
from tests.support.windows_in_duckdb import answer_of_changes

pytestmark = pytest.mark.spark

SLIDING = {
    "every": "SELECT s.k, s.v, t.g FROM s [RANGE 3 sec SLIDE 1 sec], t [RANGE 2 sec SLIDE 1 sec] WHERE s.k = t.k",
    "sets_of_one": "SELECT k FROM s [RANGE 3 sec SLIDE 1 sec] INTERSECT SELECT k FROM t [RANGE 2 sec SLIDE 1 sec]",
    "counts": "SELECT COUNT(*) AS n FROM s [RANGE 3 sec SLIDE 1 sec], t [RANGE 2 sec SLIDE 1 sec] WHERE s.k = t.k",
    "by_key": "SELECT s.k, SUM(t.v) AS n FROM s [RANGE 4 sec SLIDE 2 sec], t [RANGE 2 sec SLIDE 2 sec] "
    "WHERE s.k = t.k GROUP BY s.k",
    "restored": "SELECT Rstream_restore(s.v) FROM s [RANGE 2 sec SLIDE 2 sec], t [RANGE 2 sec SLIDE 2 sec] "
    "WHERE s.k = t.k",
}  # fmt: skip
CHANGING = ("selection", "distinct", "join", "self", "three", "anti", "groups", "rows", "last", "whole")
TEXTS = {**{name: QUERIES[name] for name in CHANGING}, **SLIDING}
BEFORE = 3
FROM_STORED = "Begins with the stored rows of s, t, because its streams have begun: "
Log = list[tuple[datetime, bool, Counter[str]]]


@pytest.fixture(scope="module")
def parts() -> dict[str, list[pa.Table]]:
    return {"s": tuples(31, parts=6), "t": tuples(32, parts=6)}


def declare(session: sash.Session, directory: Path, keep: str = "KEEP 1 min") -> None:
    for name in "st":
        (directory / name).mkdir(parents=True, exist_ok=True)
        session.sql(
            f"CREATE STREAM {name} ({COLUMNS}) FROM parquet "
            f"OPTIONS (path '{directory / name}', maxFilesPerTrigger '1') TIMESTAMP ts DELAY 1 sec {keep}"
        )


def bring(parts: dict[str, list[pa.Table]], directory: Path, first: int, last: int) -> None:
    directory.mkdir(exist_ok=True)
    for name, each in parts.items():
        write(each[first:last], directory / name, first)


def answers(query: sash.Query, after: int) -> Log:
    """Those at multiples of SLIDE after a time."""
    return [
        (each.as_of, each.complete, Counter(map(str, each.table.to_pylist())))
        for each in query.answers()
        if each.scheduled and to_micros(each.as_of) > after
    ]


def reached(query: sash.Query) -> int:
    """The time of a query's view."""
    return to_micros(datetime.fromisoformat(query.view().schema.metadata[b"as_of"].decode()))


@pytest.fixture(scope="module")
def early(spark: Any, tmp_path_factory: pytest.TempPathFactory, parts: Any) -> dict[str, pa.Table | Log]:
    """The changes, or the answers, of queries that were there before the first tuple."""
    directory = tmp_path_factory.mktemp("early")
    with sash.connect(spark=spark) as session:
        declare(session, directory)
        queries = {name: session.register(text, name=name) for name, text in TEXTS.items()}
        for first, last in ((0, BEFORE), (BEFORE, 6)):
            bring(parts, directory, first, last)
            session.run()
        assert [query.error for query in queries.values()] == [None] * len(queries)
        return {name: answers(query, 0) if name in SLIDING else query.changes() for name, query in queries.items()}


def check(early: pa.Table | Log, late: sash.Query, since: int, until: int) -> None:
    """From a time on the query is the one that was there at the start."""
    if not isinstance(early, pa.Table):
        expected = [each for each in early if to_micros(each[0]) > since]
        assert expected and answers(late, since) == expected, late.name
        return
    changes = late.changes()
    for now in range(since, until, SECOND // 5):
        assert answer_of_changes(changes, now) == answer_of_changes(early, now), (late.name, now - since)


@pytest.mark.parametrize("keep", ["KEEP 1 min", "KEEP 1 min STORED IN CLUSTER"])
def test_stored_rows_make_up_for_the_past(
    spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]], early: dict[str, Any], keep: str
) -> None:
    texts = TEXTS if "CLUSTER" not in keep else {name: TEXTS[name] for name in ("join", "rows", "counts")}
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, keep)
        bring(parts, tmp_path, 0, BEFORE)
        session.run()
        shown = {name: session.explain(text) for name, text in texts.items()}
        late = {name: session.register(text, name=name) for name, text in texts.items()}
        came = {name: reached(query) for name, query in late.items() if name in CHANGING}
        for name, time in came.items():
            rows = Counter(tuple(row.values()) for row in late[name].view().to_pylist())
            assert rows == answer_of_changes(early[name], time), f"{name}: its view is right at once"
        last = max(came.values())
        assert last == max(to_micros(ts) for each in parts.values() for ts in each[BEFORE - 1]["ts"].to_pylist())
        bring(parts, tmp_path, BEFORE, 6)
        session.run()
        assert [query.error for query in late.values()] == [None] * len(late)
        for name, query in late.items():
            check(early[name], query, came.get(name, last), last + 6 * SECOND)
            assert "complete at once" in shown[name] and "Begins with the stored rows" in shown[name], name


def test_fewer_stored_rows_make_up_for_a_part_of_it(
    spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]], early: dict[str, Any]
) -> None:
    """And the query's status says from when on its answers are complete."""
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "KEEP 2 sec")
        bring(parts, tmp_path, 0, BEFORE)
        session.run()
        shown = {name: session.explain(text) for name, text in TEXTS.items()}
        late = {name: session.register(text, name=name) for name, text in TEXTS.items()}
        told = {name: facts["complete_from"] for name, facts in session.stats()["queries"].items()}
        came = reached(late["join"])
        bring(parts, tmp_path, BEFORE, 6)
        session.run()
        when = {name: to_micros(datetime.fromisoformat(text)) for name, text in told.items() if text is not None}
        assert {"rows", "last", "whole", "three"} == TEXTS.keys() - when.keys(), "they have no bound of time"
        assert all("never complete" in shown[name] for name in TEXTS.keys() - when.keys())
        assert {name for name, time in when.items() if time > came} >= {"join", "distinct", "groups", "counts"}
        for name, time in when.items():
            check(early[name], late[name], max(time, came), came + 6 * SECOND)
            described = dict(zip(*session.sql(f"DESCRIBE {name}").to_pydict().values(), strict=True))
            assert described["complete from"] == told[name]
            if time > came:
                assert f"{FROM_STORED}complete as of {told[name]} at the earliest" in shown[name] or name in CHANGING


def test_a_registration_says_when_the_query_will_be_complete(
    spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sash.runtime")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "")
        session.register(TEXTS["anti"], name="before")
        bring(parts, tmp_path, 0, BEFORE)
        session.run()
        query = session.register(TEXTS["join"], name="late")
        told = session.stats()["queries"]["late"]["complete_from"]
        said = [each.getMessage() for each in caplog.records if "is registered" in each.getMessage()]
        beginning = f"begins with empty windows, because its streams have begun: complete as of {told} at the earliest"
        assert said == ["query before is registered over s, t", f"query late is registered over s, t; it {beginning}"]
        assert query.view().num_rows == 0 and f"B{beginning[1:]}" in session.explain(
            TEXTS["join"].replace("s.v,", "s.v + 1,")
        )


# -- while a micro-batch is in flight, and after a crash -------------------------------------------------


def later_run(
    spark: Any, directory: Path, checkpoint: Path | None, parts: dict[str, list[pa.Table]], names: tuple[str, ...]
) -> dict[str, sash.Query]:
    """The second run, of a session that goes on from a checkpoint; its queries are not registered again."""
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        declare(session, directory)
        bring(parts, directory, BEFORE, 6)
        session.run()
        return {name: session.queries[name] for name in names}


CRASHED = ("join", "groups", "counts", "every", "sets_of_one")


def test_a_crash_after_the_registration_changes_nothing(
    spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]], early: dict[str, Any]
) -> None:
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
        declare(session, tmp_path / "data")
        bring(parts, tmp_path / "data", 0, BEFORE)
        session.run()
        for name in CRASHED:
            session.register(TEXTS[name], name=name)
        came = reached(session.queries["join"])
        shutil.copytree(tmp_path / "checkpoint", tmp_path / "crashed")
    late = later_run(spark, tmp_path / "data", tmp_path / "crashed", parts, CRASHED)
    for name, query in late.items():
        check(early[name], query, came, came + 6 * SECOND)


def test_a_query_that_comes_in_a_micro_batch_begins_with_the_next_one(
    spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]], early: dict[str, Any]
) -> None:
    """And so it does if the process dies before that: the replayed micro-batch knows nothing of the query."""
    seen: list[sash.Answer] = []
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
        declare(session, tmp_path / "data")
        bring(parts, tmp_path / "data", 0, BEFORE)

        def register(answer: sash.Answer) -> None:
            if "join" not in session.queries:
                for name in CRASHED:
                    session.register(TEXTS[name], name=name).subscribe(seen.append)
                shutil.copytree(tmp_path / "checkpoint", tmp_path / "crashed")

        session.register("SELECT k FROM s [RANGE 1 sec]", name="first").subscribe(register)
        session.run()
        bring(parts, tmp_path / "data", BEFORE, 6)
        session.run()
        whole = {name: session.queries[name] for name in CRASHED}
        assert {name: query.error for name, query in whole.items()} == dict.fromkeys(CRASHED)
        told = pa.concat_tables([each.table for each in seen if each.query == "join"])
        assert told == whole["join"].changes(), "a subscriber is told of the rows that stand"
        came = min(to_micros(each.as_of) for each in seen if each.query == "join")
    late = later_run(spark, tmp_path / "data", tmp_path / "crashed", parts, CRASHED)
    for queries in (whole, late):
        for name, query in queries.items():
            check(early[name], query, came, came + 6 * SECOND)


def test_a_life_begins_with_the_stored_rows(spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]]) -> None:
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        bring(parts, tmp_path, 0, BEFORE)
        session.run()
        late = session.register(TEXTS["selection"], name="late", lifetime="3 sec")
        came = reached(late)
        bring(parts, tmp_path, BEFORE, 6)
        session.run()
        assert "late" not in session.queries
        times = [to_micros(ts) for ts in late.changes()["_ts"].to_pylist()]
        assert came + 2 * SECOND < max(times) <= came + 3 * SECOND
