"""KEEP .. STORED IN CLUSTER: the answers of a window in memory, no rows in the driver, and no file too many."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.errors import CheckpointError
from sash.core.time import SECOND
from sash.storage.window_files import WindowFiles
from tests.runtime.test_session import create, write
from tests.support.faults import DAMAGES
from tests.support.streams import START

pytestmark = pytest.mark.spark
CLUSTER = "STORED IN CLUSTER"
# Windows of `s` whose rows are asked for; rows of one timestamp are in the order in which they came.
WINDOWS = [
    "WINDOW 8 sec",
    "WINDOW 3 sec LAG 2 sec",
    "ROWS 5",
    "ROWS 17 LAG 6",
    "ROWS 1000",
    "PARTITION BY k ROWS 2",
    "PARTITION BY k ROWS 3 LAG 2",
    "NOW",
]
QUESTIONS = [
    *(f"SELECT k, v FROM s [{window}]" for window in WINDOWS),
    "SELECT v FROM s [WINDOW 3 sec LAG 2 sec] WHERE k = 1",
    "SELECT a.v, b.v AS w FROM s [WINDOW 4 sec] a JOIN s [ROWS 6] b ON a.k = b.k",
    "SELECT k, COUNT(*) AS n, MEDIAN(v) AS m, MAX(v) AS hi FROM s [WINDOW 7 sec] GROUP BY k",
    "SELECT SUM(v) AS t FROM s [WINDOW 8 sec LAG 0 sec]",
    "SELECT SUM(v) AS t, COUNT(DISTINCT v) AS d FROM s [ROWS 11]",
    "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 2] GROUP BY k",
    "SELECT TOP(2, k) FROM s [WINDOW 8 sec]",
]
# The rows of all windows by one question, and an aggregate.
AT_ONCE = [
    " UNION ALL ".join(f"SELECT {place} AS place, k, v FROM s [{window}]" for place, window in enumerate(WINDOWS)),
    "SELECT k, COUNT(*) AS n, MEDIAN(v) AS m, MAX(v) AS hi FROM s [WINDOW 7 sec] GROUP BY k",
]


def answers(session: sash.Session, stream: str, questions: Sequence[str]) -> list[Any]:
    found: list[Any] = []
    for text in questions:
        answer = session.query(text.replace(" s [", f" {stream} ["))
        rows = Counter(zip(*(map(repr, column.to_pylist()) for column in answer.columns), strict=True))
        found.append((text, rows, answer.schema.metadata, answer.schema.types))
    return found


def declare(session: sash.Session, name: str, directory: Path, clauses: str) -> None:
    session.sql(
        f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT) FROM parquet "
        f"OPTIONS (path '{directory}', maxFilesPerTrigger '1') TIMESTAMP ts {clauses}"
    )


def panes(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("_pane=*") if path.is_dir())


CLAUSES = {
    "dropping": "DELAY 1 sec",
    "revising": "DELAY 1 sec LATE REVISE CLOSED LEFT",
    "shifted": "LATE REVISE OFFSET 300 ms GRANULE 500 ms",
}


def test_the_answers_of_a_window_in_memory(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of order, late, with equal timestamps, with a restart; both count as many late tuples."""
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 2)
    chance = random.Random(1)
    for parts in (range(3), range(3, 5)):
        for part in parts:
            stamps = [part * 3 + chance.randrange(16) / 4 - (chance.random() < 0.1) * 4 for _ in range(25)]
            rows = [(stamp, chance.randrange(3), part * 100 + i) for i, stamp in enumerate(stamps)]
            write(tmp_path / "data", part, rows)
        with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
            for name, clauses in CLAUSES.items():
                declare(session, f"near_{name}", tmp_path / "data", f"KEEP 8 sec {clauses}")
                declare(session, f"far_{name}", tmp_path / "data", f"KEEP 8 sec {CLUSTER} {clauses}")
            session.start(trigger="0 seconds")
            counted = {name: running.runtime.statistics for name, running in session.streams.items()}
            while any(each.tuples < 25 * parts.stop for each in counted.values()):
                assert not session.wait(0.05)
            session.stop()
            for name, clauses in CLAUSES.items():
                questions = QUESTIONS if name == "dropping" and parts.stop == 5 else AT_ONCE
                assert answers(session, f"near_{name}", questions) == answers(session, f"far_{name}", questions)
                late = [counted[f"{place}_{name}"].late_tuples for place in ("near", "far")]
                assert late[0] == late[1] and (late[0] > 0) == ("REVISE" not in clauses)


def test_a_time_inside_of_a_sub_window(spark: Any, tmp_path: Path) -> None:
    """Asked with another stream, as of that one's time: some rows of the youngest sub-window count, others do not."""
    write(tmp_path / "long", 0, [(i / 3, i % 3, i) for i in range(60)])
    write(tmp_path / "short", 0, [(second + 0.5, second % 2, second) for second in range(12)])
    complete = ["ROWS 7", "ROWS 30 LAG 3", "ROWS 36", "NOW", "WINDOW 5 sec"]
    others = ["ROWS 37", "ROWS 500", "PARTITION BY k ROWS 4", "WINDOW 10 sec LAG 5 sec", "WINDOW 15 sec"]
    declared = [("near", "long", "GRANULE 5 sec KEEP 20 sec"), ("far", "long", f"GRANULE 5 sec KEEP 20 sec {CLUSTER}"),
                ("other", "short", "KEEP 20 sec")]  # fmt: skip
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for name, data, clauses in declared:
            declare(session, name, tmp_path / data, clauses)
        session.run()
        for running in session.streams.values():
            assert running.stored_window is not None
            running.stored_window.has_ended = False
        # Those of which the whole is there are asked for at once: the answer says so for all of them together.
        for windows in [complete, *([window] for window in others)]:
            near, far = (
                session.query(
                    " UNION ALL ".join(
                        f"SELECT {place} AS place, a.k, a.v, b.v AS w "
                        f"FROM {name} [{window}] a LEFT JOIN other [WINDOW 12 sec] b ON a.v = b.v"
                        for place, window in enumerate(windows)
                    )
                )
                for name in ("near", "far")
            )
            assert Counter(map(repr, near.to_pylist())) == Counter(map(repr, far.to_pylist())), windows
            assert near.schema.metadata == far.schema.metadata, windows
            assert near.schema.metadata[b"complete"] == b"true" or len(windows) == 1, windows
            assert set(near["place"].to_pylist()) == set(range(len(windows))) and max(near["v"].to_pylist()) <= 36
        # An index in memory is not probed with values that are in files.
        text = "SELECT a.v FROM far [WINDOW 15 sec] a JOIN near [WINDOW 10 sec] b ON a.v = b.v WHERE a.k = 1"
        before = session.query(text)
        session.sql("CREATE INDEX ON near (v)")
        assert sorted(session.query(text)["v"].to_pylist()) == sorted(before["v"].to_pylist()) != []


@pytest.fixture
def twenty_seconds(tmp_path: Path) -> Path:
    """Five tuples a second, ten seconds a file."""
    for part in range(2):
        write(tmp_path / "data", part, [(i / 5 + 0.05, i % 4, i) for i in range(part * 50, part * 50 + 50)])
    return tmp_path / "data"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sessions without a checkpoint keep their files while they last."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def test_no_row_comes_to_the_driver(
    spark: Any, twenty_seconds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred tuples are stored and asked about: only partials and answers come to the driver."""
    collected: list[int] = []
    frames = type(spark.range(1))
    for name in ("toArrow", "collect"):
        collect = getattr(frames, name)

        def counted(frame: Any, collect: Any = collect) -> Any:
            found = collect(frame)
            collected.append(len(found))
            return found

        monkeypatch.setattr(frames, name, counted)
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        create(session, twenty_seconds, f"KEEP 20 sec {CLUSTER}")
        session.run()
        assert collected and max(collected) < 20
        collected.clear()
        for text in (
            "SELECT COUNT(*) AS n FROM s [WINDOW 20 sec]",
            "SELECT k, SUM(v) AS t FROM s [WINDOW 20 sec] GROUP BY k",
            "SELECT COUNT(*) AS n FROM s [WINDOW 20 sec] a JOIN s [WINDOW 20 sec] b ON a.v = b.v",
            "SELECT COUNT(*) AS n FROM (SELECT v FROM s [ROWS 90]) x",
        ):
            assert session.query(text).num_rows in (1, 4)
        assert collected and max(collected) <= 24
        kept = session.streams["s"].stored_window
        assert kept is not None and kept.count(kept.read(None).rows) == 100  # type: ignore[union-attr]


def test_files_go_when_they_have_left_the_window_and_all_of_them_at_the_end(
    spark: Any, twenty_seconds: Path, scratch: Path
) -> None:
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        create(session, twenty_seconds, f"KEEP 6 sec {CLUSTER}")
        session.run()
        ends = [START + second * SECOND for second in range(15, 21)]
        assert panes(scratch) == [f"_pane={end}" for end in ends]
        session.advance("s", START + 23 * SECOND + 1)
        assert panes(scratch) == [f"_pane={end}" for end in ends[3:]]
        session.advance("s", START + 60 * SECOND)
        assert panes(scratch) == [] and session.query("SELECT v FROM s [WINDOW 6 sec]").num_rows == 0
        assert session.query("SELECT v FROM s [ROWS 5]").num_rows == 0
        assert session.query("SELECT v FROM s [NOW]").num_rows == 0
    assert list(scratch.rglob("*.parquet")) == []


def test_a_slow_question_keeps_its_files(
    spark: Any, twenty_seconds: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window slides between the moment at which a question takes its files and that at which Spark reads them."""
    from sash.runtime.asking.on_spark import FramesOfFiles

    with sash.connect(spark=spark, isolation="ws", clock=ManualClock()) as session:
        create(session, twenty_seconds, f"KEEP 6 sec {CLUSTER}")
        session.run()
        frames = FramesOfFiles.window

        def slowly(*args: Any) -> Any:
            session.advance("s", START + 60 * SECOND)
            assert len(panes(scratch)) == 6
            return frames(*args)

        monkeypatch.setattr(FramesOfFiles, "window", slowly)
        answer = session.query("SELECT v FROM s [WINDOW 6 sec]")
        assert sorted(answer["v"].to_pylist()) == list(range(70, 100))
        assert panes(scratch) == []


def test_a_dropped_stream_leaves_nothing(spark: Any, twenty_seconds: Path, tmp_path: Path, scratch: Path) -> None:
    for checkpoint in (None, tmp_path / "c"):
        with sash.connect(spark=spark, checkpoint=checkpoint, clock=ManualClock()) as session:
            create(session, twenty_seconds, f"KEEP 6 sec {CLUSTER}")
            session.run()
            assert len(panes(tmp_path)) == 6
            session.sql("DROP STREAM s")
            assert panes(tmp_path) == []
            if checkpoint:
                create(session, twenty_seconds, f"KEEP 3 sec {CLUSTER}")
                session.run()
                assert session.query("SELECT v FROM s [WINDOW 3 sec]").num_rows == 15


def test_what_a_crash_leaves_is_removed_and_what_is_missing_is_told(
    spark: Any, twenty_seconds: Path, tmp_path: Path
) -> None:
    """In a checkpoint whose path would be a pattern to some."""
    checkpoint = tmp_path / "c [x] {a,b} ä %20 *?"

    def connect() -> sash.Session:
        return sash.connect(spark=spark, checkpoint=checkpoint, clock=ManualClock())

    with connect() as session:
        create(session, twenty_seconds, f"KEEP 6 sec {CLUSTER}")
        session.run()
        assert session.query("SELECT v FROM s [WINDOW 6 sec]").num_rows == 30
    (window,) = (checkpoint / "streams").glob("*/window")
    (known,) = window.glob(f"*/_pane={START + 19 * SECOND}")
    (file,) = known.glob("*.parquet")
    orphan = WindowFiles(window).place(99) / known.name
    orphan.mkdir(parents=True)
    (orphan / file.name).write_bytes(file.read_bytes())
    with connect() as session:
        assert not orphan.parent.exists()
        assert session.query("SELECT v FROM s [WINDOW 6 sec]").num_rows == 30
    file.unlink()
    with pytest.raises(sash.SashError, match=r"checkpoint file .*\.parquet is missing"):
        connect()


def test_every_type_comes_back_as_it_was(spark: Any) -> None:
    columns = [
        "TIMESTAMP'2024-01-01 00:00:00.5' AS ts", "true AS b", "CAST(1 AS TINYINT) AS i1", "CAST(2 AS SMALLINT) AS i2",
        "3 AS i4", "4L AS i8", "CAST('NaN' AS FLOAT) AS f", "-0.0D AS d", "12.345BD AS dec", "'ü' AS s", "X'00FF' AS x",
        "DATE'0001-01-01' AS day", "TIMESTAMP'0001-01-01 00:00:00.000001' AS old",
        "TIMESTAMP_NTZ'1500-01-01 00:00:00.000001' AS ntz", "array(1, NULL) AS a", "map('k', 1) AS m",
        "named_struct('p', 1, 'q', 'r') AS st", "CAST(NULL AS INT) AS none", "1 AS `a b`", "2 AS `Ü.,;{}()=`",
    ]  # fmt: skip
    frame = spark.sql(f"SELECT {', '.join(columns)}")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for place in ("memory", "cluster"):
            session.create_stream(f"in_{place}", frame, timestamp="ts", keep="5 sec", keep_in=place)
        session.run()
        found = [session.query(f"SELECT * FROM in_{place} [WINDOW 5 sec]") for place in ("memory", "cluster")]
    assert found[0].schema.equals(found[1].schema)
    assert repr(found[0].to_pylist()) == repr(found[1].to_pylist()) and len(found[0]) == 1


def test_it_is_said_where_the_window_is(spark: Any, twenty_seconds: Path, tmp_path: Path) -> None:
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, twenty_seconds, f"KEEP 6 sec {CLUSTER}")
        explained = session.explain("SELECT v FROM s [WINDOW 5 sec] WHERE k = 1")
        assert "of the stored 6 sec in sub-windows of 1 sec, in the cluster" in explained
        assert "looked for by Spark in every file" in explained and "CREATE INDEX" not in explained
        assert "KEEP 6 sec STORED IN CLUSTER" in session.explain("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec]")
        with pytest.raises(sash.SashError, match="stored in the cluster, and indexes live in memory"):
            session.sql("CREATE INDEX ON s (v)")
    with (
        sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session,
        pytest.raises(sash.SashError, match="keep_in memory here and cluster in the checkpoint"),
    ):
        create(session, twenty_seconds, "KEEP 6 sec STORED IN MEMORY")


def test_where_to_keep_is_checked(spark: Any) -> None:
    frame = spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00.5' AS ts")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        with pytest.raises(sash.SashError, match="in memory or cluster, not in disk"):
            session.create_stream("n", frame, timestamp="ts", keep="5 sec", keep_in="disk")
        with pytest.raises(sash.SashError, match="nothing is stored in the cluster without KEEP"):
            session.create_stream("n", frame, timestamp="ts", keep_in="cluster")


def test_executors_elsewhere_need_a_directory_that_they_see(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sash.spark.pipeline.is_local", lambda session: False)
    frame = spark.sql("SELECT TIMESTAMP'2024-01-01 00:00:00.5' AS ts, 1 AS v")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        with pytest.raises(sash.SashError, match="a directory that all executors see"):
            session.create_stream("n", frame, timestamp="ts", keep="5 sec", keep_in="cluster")
        session.create_stream("n", frame, timestamp="ts", keep="5 sec")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        session.create_stream("n", frame, timestamp="ts", keep="5 sec", keep_in="cluster")
        session.run()
        assert session.query("SELECT v FROM n [WINDOW 5 sec]")["v"] == pa.chunked_array([pa.array([1], pa.int32())])


def test_a_damaged_file_is_refused_by_its_name(spark: Any, tmp_path: Path) -> None:
    """By its checksum when it is read, and the stream goes on; by its size when the session opens."""
    write(tmp_path / "data", 0, [(i / 4, i % 3, i) for i in range(16)])

    def connect() -> sash.Session:
        return sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock())

    with connect() as session:
        create(session, tmp_path / "data", f"KEEP 8 sec {CLUSTER}")
        session.run()
    broken = sorted((tmp_path / "c").rglob("_pane=*/*.parquet"))[0]
    sound = broken.read_bytes()
    DAMAGES["flipped"](broken)
    with connect() as session:
        assert len(session.query("SELECT v FROM s [WINDOW 1 sec]")) == 3
        with pytest.raises(CheckpointError, match=rf"{broken.name} is damaged: its checksum is wrong"):
            session.query("SELECT v FROM s [WINDOW 8 sec]")
        with pytest.raises(CheckpointError, match="its checksum is wrong"):
            session.query("SELECT SUM(v) AS t FROM s [WINDOW 8 sec]")
        write(tmp_path / "data", 1, [(4.5, 1, 100)])
        session.run()
        assert session.query("SELECT v FROM s [ROWS 1]").to_pylist() == [{"v": 100}]
    broken.write_bytes(sound)
    DAMAGES["truncated"](broken)
    with pytest.raises(CheckpointError, match=rf"{broken.name} is damaged: it has .* bytes instead of"):
        connect()
