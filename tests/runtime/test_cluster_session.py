"""STORED IN CLUSTER for queries, over real Spark: files instead of panes, through restarts, for questions too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
import sash.spark.pane_files
import sash.spark.pipeline
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_micros
from sash.storage.window_files import WindowFiles
from tests.runtime.test_session import create, write
from tests.support.oracle import recompute, same_rows
from tests.support.streams import START

pytestmark = pytest.mark.spark
# `{k}` is the key: an expression of its own gives a pane table of its own.
QUERIES = {
    "sums": "SELECT {k} AS k, SUM(v) AS t, COUNT(*) AS n, AVG(v) AS a, STDDEV(v) AS s, MAX(CAST(v AS STRING)) AS m "
    "FROM s [WINDOW 8 sec SLIDE 4 sec] WHERE v % 5 > 0 GROUP BY {k}",
    "leading": "SELECT {k} AS k, SUM(v) AS t, MIN(ts) AS f FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY {k} "
    "HAVING COUNT(*) > 1 ORDER BY t DESC, k LIMIT 3",
    "sketched": "SELECT {k} AS k, APPROX_COUNT_DISTINCT(v) AS d, SUM(CAST(v AS DECIMAL(20, 2))) AS t "
    "FROM s [WINDOW 6 sec SLIDE 2 sec LAG 2 sec] GROUP BY {k}",
    "distinct": "SELECT {k} AS k, COUNT(DISTINCT v) AS d, MEDIAN(v) AS m FROM s [WINDOW 8 sec SLIDE 4 sec] "
    "GROUP BY {k}",
    "top": "SELECT TOP(3, {k}) FROM s [WINDOW 8 sec SLIDE 4 sec]",
}
IN_CLUSTER = "k + 0"


def texts(key: str) -> dict[str, str]:
    return {name: text.format(k=key) for name, text in QUERIES.items()}


def register(session: sash.Session) -> None:
    for name, text in texts("k").items():
        session.sql(f"REGISTER QUERY near_{name} AS {text}")
    for name, text in texts(IN_CLUSTER).items():
        session.sql(f"REGISTER QUERY far_{name} AS {text} STORED IN CLUSTER")


def all_same(session: sash.Session, missing: int = 0) -> None:
    """After a restart answers of before are remembered for panes in this process alone."""
    for name in QUERIES:
        near, far = (session.queries[f"{place}_{name}"].answers() for place in ("near", "far"))
        assert len(near) - missing <= len(far) <= len(near) and far
        by_time = {answer.as_of: answer for answer in near}
        for answer in far:
            other = by_time[answer.as_of]
            assert (answer.complete, answer.scheduled) == (other.complete, other.scheduled)
            assert answer.table.schema.types == other.table.schema.types
            mine, theirs = (table.rename_columns(range_names(table)) for table in (answer.table, other.table))
            assert same_rows(mine.to_pylist(), theirs.to_pylist()), (name, answer.as_of)


def range_names(table: pa.Table) -> list[str]:
    """TOP names its item by the expression."""
    return [str(i) for i in range(table.num_columns)]


def rows_of(parts: range) -> list[list[tuple[float | None, int, int]]]:
    """Three seconds a part, some tuples in the second before."""
    chance, found = random.Random(parts.start), []
    for part in parts:
        stamps = [part * 3 + chance.randrange(24) / 8 - (chance.random() < 0.1) for _ in range(200)]
        found.append([(stamp, chance.randrange(40), chance.randrange(30)) for stamp in stamps])
    return found


def data(directory: Path, parts: range) -> None:
    """A file, and so a micro-batch, of all parts."""
    write(directory, parts.start, [row for rows in rows_of(parts) for row in rows])


def files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("_pane=*/*.parquet"))


def test_the_answers_of_panes_in_this_process(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of order within the delay and late; restarts, of which recovery asks nobody anything."""
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 3)
    for round, parts in enumerate((range(2), range(2, 3))):
        for part, rows in zip(parts, rows_of(parts), strict=True):
            write(tmp_path / "data", part, rows)
        with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
            if not round:
                create(session, tmp_path / "data", "DELAY 1 sec")
                register(session)
            session.run()
            all_same(session, missing=0 if not round else 10_000)
            (stats,) = session.stats()["streams"].values()
            kinds = {table["name"]: table["synopsis"] for table in stats["pane_tables"]}
            assert kinds["(k + 0)"] == kinds["(k + 0, v)"] == "cluster" and kinds["(k)"] != "cluster"
            question = "SELECT {k} AS k, SUM(v) AS t FROM s [WINDOW 4 sec] GROUP BY {k} ORDER BY t DESC, k LIMIT 5"
            near, far = (session.query(question.format(k=key)) for key in ("k", IN_CLUSTER))
            assert near.to_pylist() == far.to_pylist() and near.schema.metadata == far.schema.metadata
            # Panes that no window reaches any more have left the disk.
            kept = {int(path.parent.name.partition("=")[2]) for path in files(tmp_path / "c")}
            assert kept and max(kept) - min(kept) <= 12_000_000
            text = session.explain(QUERIES["sums"].format(k=IN_CLUSTER))
            assert "in the cluster: one job reads all windows that are due" in text
            assert "live, slides do not wait for the job" in text


def test_a_table_that_has_become_large_goes_there(spark: Any, tmp_path: Path) -> None:
    """As tests/runtime/test_cluster_panes.py has it, with real files, which a later session finds."""
    for parts in (range(2), range(2, 4)):
        data(tmp_path / "data", parts)
    text = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 3 sec] GROUP BY k"
    tuples = pq.read_table(tmp_path / "data")
    tuples = tuples.append_column("_us", tuples["ts"].cast(pa.int64()))
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock(), cluster_groups=20) as one:
        create(one, tmp_path / "data", "DELAY 2 sec")
        query = one.register(text, name="q")
        few = one.register(text.replace("SELECT k", "SELECT k % 10 AS k").replace("BY k", "BY k % 10"), name="few")
        one.run()
        (stats,) = one.stats()["streams"].values()
        kinds = {table["name"]: table["synopsis"] for table in stats["pane_tables"]}
        assert kinds.pop("(k)") == "cluster" and list(kinds.values()) == ["basic"]
        for asked in (query, few):
            assert len(asked.answers()) > 3
            for answer in asked.answers():
                expected = recompute(asked.text, tuples, to_micros(answer.as_of), 6 * SECOND)
                assert same_rows(answer.table.to_pylist(), expected), (asked.name, answer.as_of)
    assert files(tmp_path / "c")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock(), cluster_groups=20) as one:
        assert one.query("SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec] GROUP BY k").num_rows > 20


def test_a_dropped_query_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    data(tmp_path / "data", range(2))
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        text = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 3 sec] GROUP BY k"
        query = session.register(text, name="q", synopsis="cluster")
        session.register("SELECT COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 3 sec]", name="other")
        session.run()
        assert files(tmp_path / "c") and query.answers()
        query.drop()
        data(tmp_path / "data", range(2, 3))
        session.run()
        assert not files(tmp_path / "c")


def test_a_question_keeps_its_files(spark: Any, tmp_path: Path) -> None:
    """They are there until it has been answered, though the window has gone on."""
    data(tmp_path / "data", range(2))
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 3 sec] GROUP BY k", "q", synopsis="cluster")
        session.run()
        (group,) = session.streams["s"].runtime.ordered()
        frozen, before = group.panes.frozen({}, START), files(tmp_path / "c")
        session.advance("s", START + 3600 * SECOND)
        assert files(tmp_path / "c") == before
        assert group.panes.panes == 0
        del frozen
        with next(iter(session.streams["s"].cluster.files.values())).reading():
            pass
        assert not files(tmp_path / "c")


@pytest.fixture(scope="module")
def idle(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sash.Session]:
    """No part of it runs."""
    path = tmp_path_factory.mktemp("idle")
    data(path, range(1))
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for name, clause in {"s": "", "shedding": "SHED RANDOM 0.5"}.items():
            session.sql(
                f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT) FROM parquet "
                f"OPTIONS (path '{path}') TIMESTAMP ts {clause}"
            )
        yield session


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("SELECT k, COUNT(*) AS n FROM s [ROWS 5 SLIDE 1] GROUP BY k STORED IN CLUSTER", "windows of time"),
        ("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 1 sec] STORED IN CLUSTER", "this query has one"),
        ("SELECT k, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 1 sec] GROUP BY k STORED IN MEMORY", "STORED"),
        ("SELECT k FROM s [WINDOW 5 sec] STORED IN CLUSTER", "continuous query has no synopsis"),
        (
            "SELECT k, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 1 sec] GROUP BY k SYNOPSIS RUNNING STORED IN CLUSTER",
            "not both",
        ),
        (
            "SELECT k, COUNT(*) AS n FROM shedding [WINDOW 5 sec SLIDE 1 sec] GROUP BY k STORED IN CLUSTER",
            "may SHED load",
        ),
    ],
)
def test_refusals(idle: sash.Session, statement: str, why: str) -> None:
    with pytest.raises(sash.SashError, match=why):
        idle.sql(f"REGISTER QUERY q AS {statement}")


def test_a_damaged_file_is_refused_by_its_name(spark: Any, tmp_path: Path) -> None:
    """Its length is looked at when a session opens, its checksum before it is read."""
    data(tmp_path / "data", range(2))
    question = "SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec] GROUP BY k"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        session.register(question.replace("]", " SLIDE 3 sec]"), name="q", synopsis="cluster")
        session.run()
        assert session.query(question).num_rows
    (path, *_) = files(tmp_path / "c")
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    session = sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock())
    with session, pytest.raises(sash.SashError, match=f"{path.name}.*checksum"):
        session.query(question)
    path.write_bytes(whole[:-1])
    with pytest.raises(sash.SashError, match=f"{path.name}.*bytes"):
        sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock())


def test_a_query_that_failed_has_failed_after_a_restart(spark: Any, tmp_path: Path) -> None:
    """In the pass, or there. Recovery asks nobody: that it failed, and when, is in the log. Its neighbours go on."""
    data(tmp_path / "data", range(2))
    window = "FROM s [WINDOW 3 sec SLIDE 3 sec] GROUP BY"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        text = f"SELECT k + 1 AS j, SUM(9223372036854775807L - v) AS t {window} k + 1"
        bad = session.register(text, name="bad", synopsis="cluster")
        worse = session.register(f"SELECT k, SUM(1 / (v - 5)) AS t {window} k", name="worse")
        session.sql(f"REGISTER QUERY good AS SELECT k, SUM(v) AS t {window} k PRIORITY 2 STORED IN CLUSTER")
        session.run()
        assert bad.error is not None and "BIGINT" in str(bad.error)
        assert worse.error is not None and "zero" in str(worse.error).lower()
        before = len(session.queries["good"].answers())
    data(tmp_path / "data", range(2, 4))
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        assert {name for name, query in session.queries.items() if query.error is not None} == {"bad", "worse"}
        session.run()
        assert before and session.queries["good"].answers() and not session.queries["bad"].answers()


def test_an_inquiry_that_fails_is_asked_part_by_part(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data", range(2))
    asked: list[int] = []

    def ask(spark: Any, inquiry: Any, paths: Any, rows: int) -> Any:
        asked.append(len(inquiry.parts))
        if any(part.finisher.query.limit is None for part in inquiry.parts):
            raise RuntimeError("the answer is too large")
        return honest(spark, inquiry, paths, rows)

    honest = sash.spark.pane_files.ask_panes
    monkeypatch.setattr(sash.spark.pane_files, "ask_panes", ask)
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        window = "FROM s [WINDOW 3 sec SLIDE 3 sec] GROUP BY k"
        session.register(f"SELECT k, SUM(v) AS t {window}", name="large", synopsis="cluster")
        session.register(f"SELECT k, SUM(v) AS t {window} ORDER BY t DESC, k LIMIT 2", name="small", synopsis="cluster")
        session.run()
        assert "too large" in str(session.queries["large"].error) and session.queries["small"].error is None
        assert all(len(answer.table) == 2 for answer in session.queries["small"].answers())
        assert asked[:3] == [2, 1, 1] and set(asked[3:]) == {1}


def test_windows_without_end_and_panes_in_the_cluster(idle: sash.Session) -> None:
    endless = "SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 1 sec] GROUP BY k"
    ended = "SELECT k, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 1 sec] GROUP BY k"
    first = idle.register(ended, name="ended", synopsis="cluster")
    with pytest.raises(sash.SashError, match=r"panes by \(k\).*stored in the cluster.*UNBOUNDED"):
        idle.register(endless, name="endless")
    first.drop()
    second = idle.register(endless, name="endless")
    with pytest.raises(sash.SashError, match=r"UNBOUNDED windows read the panes by \(k\)"):
        idle.register(ended, name="ended", synopsis="cluster")
    second.drop()


def test_executors_that_write_elsewhere(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster whose executors do not see the directory: nothing is lost silently."""
    data(tmp_path / "data", range(2))
    monkeypatch.setattr(sash.spark.pipeline, "write_panes", lambda rows, program, place: place.mkdir())
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec SLIDE 3 sec] GROUP BY k", "q", synopsis="cluster")
        with pytest.raises(sash.SashError, match="files that are not here"):
            session.run()


def test_what_moves_is_written_before_anything_changes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(tmp_path / "data", range(2))
    text = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 3 sec] GROUP BY k"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "data")
        session.register(text, name="q")
        session.register(text.replace("SELECT k", "SELECT k + 0 AS k").replace("BY k", "BY k + 0"), name="control")
        session.run()
        session.register(text.replace("6 sec", "3 sec"), name="far", synopsis="cluster")
        data(tmp_path / "data", range(2, 4))
        with monkeypatch.context() as patched:

            def full(*_: Any, **__: Any) -> None:
                raise OSError(28, "No space left on device")

            patched.setattr("sash.runtime.periodic.cluster_tables.pq.write_table", full)
            with pytest.raises(sash.SashError, match="No space left"):
                session.run()
        session.run()
        (stats,) = session.stats()["streams"].values()
        kinds = {table["name"]: table["synopsis"] for table in stats["pane_tables"]}
        assert kinds["(k)"] == "cluster" != kinds["(k + 0)"]
        mine, theirs = (session.queries[name].answers() for name in ("q", "control"))
        assert len(mine) == len(theirs)
        for answer, other in zip(mine, theirs, strict=True):
            assert (answer.as_of, answer.complete) == (other.as_of, other.complete)
            assert same_rows(answer.table.to_pylist(), other.table.to_pylist())


def test_files_are_retained_by_name(tmp_path: Path) -> None:
    window = WindowFiles(tmp_path)
    names = [f"epoch-{i:09d}/_pane={i}/part.parquet" for i in range(3)]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    window.retain(names)
    with window.reading():
        window.retain(names[1:])
        assert (tmp_path / names[0]).exists()
    assert not (tmp_path / names[0]).exists() and (tmp_path / names[1]).exists()
