"""The session over real Spark: users' actions while a stream runs, and their mistakes."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_datetime, to_micros
from sash.runtime.streams.live import IdleWatch
from tests.support.files import placed
from tests.support.streams import START

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32())])


def write(directory: Path, number: int, rows: list[tuple[float | None, int, int]]) -> None:
    """A file of (seconds after START, k, v)."""
    directory.mkdir(exist_ok=True)
    stamps = [None if seconds is None else START + round(seconds * SECOND) for seconds, _, _ in rows]
    table = pa.table([pa.array(stamps, SCHEMA[0].type), [k for _, k, _ in rows], [v for _, _, v in rows]], SCHEMA)
    with placed(directory / f"part-{number:03d}.parquet", number) as path:
        pq.write_table(table, path)


def create(session: sash.Session, directory: Path, clauses: str = "") -> None:
    session.sql(
        f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet "
        f"OPTIONS (path '{directory}', maxFilesPerTrigger '1') TIMESTAMP ts {clauses}"
    )


@pytest.fixture
def session(spark: Any) -> Iterator[sash.Session]:
    with sash.connect(spark=spark, clock=ManualClock()) as opened:
        yield opened


def seconds(answers: list[sash.Answer]) -> list[float]:
    return [(to_micros(answer.as_of) - START) / SECOND for answer in answers]


def ten_files(directory: Path) -> None:
    files(directory, 10)


def files(directory: Path, count: int) -> None:
    """One tuple every half second, four seconds a file."""
    for part in range(count):
        write(directory, part, [(part * 4 + i / 2 + 0.1, i % 2, part) for i in range(8)])


# -- while the stream runs ---------------------------------------------------------------------------------


def test_register_and_drop_while_running(session: sash.Session, tmp_path: Path) -> None:
    ten_files(tmp_path / "data")
    create(session, tmp_path / "data")
    first = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec]", name="first")
    late: list[sash.Query] = []

    def act(answer: sash.Answer) -> None:
        at = seconds([answer])[0]
        if at == 12:
            late.append(session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", name="covered"))
            late.append(session.register("SELECT COUNT(*) AS n FROM s [WINDOW 20 sec SLIDE 2 sec]", name="longer"))
            late.append(session.register("SELECT MAX(v) AS m FROM s [WINDOW 4 sec SLIDE 1 sec]", name="finer"))
        if at == 24:
            first.drop()

    first.subscribe(act)
    session.run()
    covered, longer, finer = late
    # Covered by the synopsis: an answer at once, as of the newest closed pane, complete.
    assert seconds(covered.answers())[0] == 14
    assert covered.answers()[0].complete
    assert covered.answers()[0].table.to_pylist() == [{"n": 4}]
    # Longer history: extended in place, complete when its window is covered, never wrong.
    complete = {at: answer.complete for at, answer in zip(seconds(longer.answers()), longer.answers(), strict=True)}
    assert not complete[14]
    assert complete[40]
    assert [a.table["n"][0].as_py() for a in longer.answers() if a.complete] == [40] * sum(complete.values())
    # A finer SLIDE: finer panes from then on.
    assert {b - a for a, b in zip(seconds(finer.answers()), seconds(finer.answers())[1:], strict=False)} == {1}
    assert finer.latest().complete  # type: ignore[union-attr]
    # Dropped: nothing after the micro-batch in which it was dropped.
    assert max(seconds(first.answers())) <= 28
    assert "first" not in session.queries


def test_a_query_that_fails_fails_alone(session: sash.Session, tmp_path: Path) -> None:
    for part in range(4):
        write(tmp_path / "data", part, [(part * 2 + i / 4 + 0.1, i, 0 if (part, i) == (2, 3) else 5) for i in range(8)])
    create(session, tmp_path / "data")
    good = session.register("SELECT SUM(v) AS t FROM s [WINDOW 2 sec SLIDE 2 sec]", name="good")
    guarded = session.register("SELECT SUM(10 / v) AS t FROM s [WINDOW 2 sec SLIDE 2 sec] WHERE v <> 0", name="guarded")
    bad = session.register("SELECT SUM(10 / v) AS t FROM s [WINDOW 2 sec SLIDE 2 sec]", name="bad")
    key = session.register(
        "SELECT 10 / v AS r, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] GROUP BY 10 / v", name="key"
    )
    where = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] WHERE 10 / v > 1", name="where")
    session.run()
    for query in (bad, key, where):
        assert "DIVIDE_BY_ZERO" in str(query.error)
        assert seconds(query.answers()) == [2]
    assert good.error is None and guarded.error is None
    assert [a.table["t"][0].as_py() for a in good.answers()] == [40, 40, 35, 40]
    assert [a.table["t"][0].as_py() for a in guarded.answers()] == [16.0, 16.0, 14.0, 16.0]


def test_overflow_of_a_windows_sum_fails_that_query(session: sash.Session, tmp_path: Path) -> None:
    for part in range(3):
        write(tmp_path / "data", part, [(part + 0.5, 1, 1)])
    create(session, tmp_path / "data")
    big = f"v * {2**62}"
    wide = session.register(f"SELECT SUM({big}) AS t FROM s [WINDOW 3 sec SLIDE 1 sec]", name="wide")
    narrow = session.register(f"SELECT SUM({big}) AS t FROM s [WINDOW 1 sec SLIDE 1 sec]", name="narrow")
    session.run()
    assert "BIGINT" in str(wide.error)
    assert [a.table["t"][0].as_py() for a in wide.answers()] == [2**62]
    assert [a.table["t"][0].as_py() for a in narrow.answers()] == [2**62] * 3


def test_late_tuples_are_dropped_or_revise(
    session: sash.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "data", 0, [(0.5, 1, 1), (3.5, 1, 1)])
    write(tmp_path / "data", 1, [(1.5, 1, 100), (5.5, 1, 1)])
    text = "SELECT SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec]"
    create(session, tmp_path / "data")
    dropped = session.register(text, name="q")
    with caplog.at_level(logging.WARNING, "sash"):
        session.run()
    assert [a.table["t"][0].as_py() for a in dropped.answers()] == [1, 2, 3]
    assert session.stats()["late_tuples"] == 1
    assert sum("late tuples dropped" in record.message for record in caplog.records) == 1
    with sash.connect(spark=session.spark) as other:
        create(other, tmp_path / "data", "LATE REVISE")
        revised = other.register(text, name="q")
        other.run()
        assert [a.table["t"][0].as_py() for a in revised.answers()] == [1, 102, 103]
        assert other.stats()["late_tuples"] == 1


def test_null_timestamps_and_unparsable_rows_are_counted_and_kept_out(session: sash.Session, tmp_path: Path) -> None:
    directory = tmp_path / "csv"
    directory.mkdir()
    lines = ["2026-01-01 00:00:01,1,2", ",1,2", "2026-01-01 00:00:02,x,2", "nonsense,1,2", "2026-01-01 00:00:03,1,2"]
    (directory / "a.csv").write_text("\n".join(lines) + "\n")
    session.sql(f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM csv OPTIONS (path '{directory}') TIMESTAMP ts")
    query = session.register("SELECT SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 1 sec]", name="q")
    session.run()
    counted = session.stats()["streams"]["s"]
    assert (counted["tuples"], counted["null_timestamps"], counted["unparsable"]) == (5, 1, 2)
    assert query.latest().table.to_pylist() == [{"t": 4, "n": 2}]  # type: ignore[union-attr]


def test_unparsable_rows_do_not_move_the_watermark(session: sash.Session, tmp_path: Path) -> None:
    directory = tmp_path / "json"
    directory.mkdir()
    for number, lines in enumerate(
        [
            ['{"ts": "2026-01-01T00:00:01Z", "v": 1}', '{"ts": "2999-01-01T00:00:00Z", "v": "no number"}'],
            ['{"ts": "2026-01-01T00:00:02Z", "v": 2}'],
        ]
    ):
        (directory / f"{number}.json").write_text("\n".join(lines))
        os.utime(directory / f"{number}.json", (1_600_000_000 + number,) * 2)
    session.sql(
        "CREATE STREAM s (ts TIMESTAMP, v INT) FROM json "
        f"OPTIONS (path '{directory}', maxFilesPerTrigger '1') TIMESTAMP ts"
    )
    query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 1 sec]", name="q")
    session.run()
    counted = session.stats()["streams"]["s"]
    assert (counted["late_tuples"], counted["unparsable"]) == (0, 1)
    assert query.latest().table.to_pylist() == [{"t": 3}]  # type: ignore[union-attr]


def test_literals_reach_spark_as_they_are(session: sash.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark substitutes ${...} in statements: an environment variable must not get into a query that way."""
    monkeypatch.setenv("SASH_SECRET", "leaked")
    texts = ["${env:SASH_SECRET}", "leaked", 'it\'s \\ `quoted` "twice"']
    frame = session.spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i INT, g STRING")
    frame = frame.selectExpr(f"timestamp_seconds({START // SECOND} + i) AS ts", "g")
    session.create_stream("s", frame, timestamp="ts")
    queries = []
    for i, text in enumerate(texts):
        literal = text.replace("\\", "\\\\").replace("'", "\\'")
        queries.append(
            session.register(f"SELECT COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 1 sec] WHERE g = '{literal}'", f"q{i}")
        )
    session.run()
    assert [query.latest().table["n"][0].as_py() for query in queries] == [1, 1, 1]  # type: ignore[union-attr]


def test_a_source_with_its_own_columns_starts_and_starts_again(session: sash.Session, tmp_path: Path) -> None:
    for attempt in range(2):
        with sash.connect(spark=session.spark, checkpoint=tmp_path / "c") as opened:
            opened.sql("CREATE STREAM r FROM rate OPTIONS (rowsPerSecond '1000') TIMESTAMP timestamp")
            query = opened.register("SELECT COUNT(*) AS n FROM r [WINDOW 1 sec SLIDE 1 sec]", name="q")
            before = opened.stats()["tuples"]
            assert (before > 0) == (attempt > 0)
            opened.start(trigger="0 seconds")
            while opened.stats()["tuples"] < before + 60:
                assert not opened.wait(0.05)
            opened.stop()
            assert query.error is None


def test_gaps_answer_once_and_rest(session: sash.Session, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(0.5, 1, 1), (1.5, 1, 1)])
    write(tmp_path / "data", 1, [(1_000_000.5, 1, 1)])
    create(session, tmp_path / "data")
    query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE 1 sec]", name="q")
    session.run()
    counts = {at: a.table["n"][0].as_py() for at, a in zip(seconds(query.answers()), query.answers(), strict=True)}
    assert counts == {1: 1, 2: 2, 3: 2, 4: 1, 5: 0, 1_000_001: 1}


def test_heartbeat_and_idleness_close_panes(session: sash.Session, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(0.5, 1, 1), (1.5, 1, 1)])
    create(session, tmp_path / "data", "IDLE AFTER 5 sec")
    query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 1 sec SLIDE 1 sec]", name="q")
    session.start(trigger="0 seconds")
    running = session.streams["s"]
    while seconds(query.answers()) != [1]:
        assert not session.wait(0.05)
    session.advance("s", to_datetime(START + 2 * SECOND + 1))
    assert seconds(query.answers()) == [1, 2]
    clock = ManualClock()
    watch = IdleWatch([running], clock, pytest.fail)
    write(tmp_path / "data", 1, [(7.5, 1, 1)])
    while running.runtime.statistics.tuples < 3:
        assert not session.wait(0.05)
    watch.look()
    assert seconds(query.answers())[-1] < 8
    clock.advance(6)
    watch.look()
    assert seconds(query.answers())[-1] == 8
    session.stop()


def test_live_registration_one_time_queries_and_slides_together(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 5)
    create(session, tmp_path / "data")
    base = session.register("SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY k", name="base")
    errors: list[BaseException] = []
    stop = threading.Event()

    def hammer(worker: int) -> None:
        for i in range(10_000):
            if stop.is_set():
                return
            try:
                query = session.register(
                    f"SELECT k, SUM(v + {i}) AS t FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k", f"w{worker}_{i}"
                )
                if base.latest() is not None:
                    total = session.query("SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec] GROUP BY k")
                    assert sum(total["n"].to_pylist()) in range(9)
                session.stats()
                query.drop()
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(2)]
    session.start(trigger="0 seconds")
    for thread in threads:
        thread.start()
    while session.streams["s"].runtime.statistics.tuples < 40:
        assert not session.wait(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    session.stop()
    assert errors == []
    assert seconds(base.answers()) == [float(t) for t in range(1, 20)]


def test_lifetime_ends_a_query(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 4)
    create(session, tmp_path / "data")
    other = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", name="other")
    short = session.sql(
        "REGISTER QUERY short AS SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] LIFETIME 10 sec"
    )
    session.run()
    assert seconds(short.answers()) == [2, 4, 6, 8, 10]  # type: ignore[union-attr]
    assert "short" not in session.queries
    assert seconds(other.answers())[-1] == 16


def test_one_time_queries(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 3)
    create(session, tmp_path / "data")
    session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k", name="q")
    with pytest.raises(sash.SashError, match="nothing to ask"):
        session.query("SELECT k, SUM(v) AS t FROM s [WINDOW 4 sec] GROUP BY k")
    session.run()
    table = session.query("SELECT k, SUM(v) AS t, AVG(v) AS m FROM s [WINDOW 4 sec] GROUP BY k")
    assert sorted(table.to_pylist(), key=str) == [{"k": 0, "t": 8, "m": 2.0}, {"k": 1, "t": 8, "m": 2.0}]
    assert table.schema.metadata[b"as_of"] == to_datetime(START + 12 * SECOND).isoformat().encode()
    with pytest.raises(sash.SashError, match="looks back 1 min"):
        session.query("SELECT k, SUM(v) AS t FROM s [WINDOW 1 min] GROUP BY k")
    with pytest.raises(sash.SashError, match="multiples of 2 sec"):
        session.query("SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec] GROUP BY k")
    with pytest.raises(sash.SashError, match=r"no synopsis of stream 's' holds MAX\(v\)"):
        session.query("SELECT MAX(v) AS m FROM s [WINDOW 4 sec]")


def test_static_frame_is_one_micro_batch_and_nothing_in_it_is_late(session: sash.Session) -> None:
    frame = session.spark.createDataFrame([(30, 1), (10, 2), (20, 3)], "t INT, v INT")
    frame = frame.selectExpr(f"timestamp_seconds({START // SECOND} + t) AS ts", "v")
    session.create_stream("s", frame, timestamp="ts")
    query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 10 sec]", name="q")
    session.run()
    assert [(at, a.table["t"][0].as_py()) for at, a in zip(seconds(query.answers()), query.answers(), strict=True)] == [
        (10, 2),
        (20, 3),
        (30, 1),
    ]
    session.run()
    assert len(query.answers()) == 3


def test_unreduced_groups_are_reported(session: sash.Session, caplog: pytest.LogCaptureFixture) -> None:
    frame = session.spark.range(5_000).selectExpr(f"timestamp_seconds({START // SECOND} + id div 1000) AS ts", "id")
    session.create_stream("s", frame, timestamp="ts")
    session.register("SELECT id, COUNT(*) AS n FROM s [WINDOW 1 sec SLIDE 1 sec] GROUP BY id", name="q")
    with caplog.at_level(logging.WARNING, "sash"):
        session.run()
    assert session.stats()["streams"]["s"]["unreduced"] == {"(id)": 1.0}
    assert any("saves little" in record.message for record in caplog.records)
    assert "panes save little" in session.explain(
        "SELECT id, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY id"
    )


# -- bad input ---------------------------------------------------------------------------------------------


def test_a_subscriber_that_raises_is_reported_and_others_are_served(
    session: sash.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files(tmp_path / "data", 3)
    create(session, tmp_path / "data")
    query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
    seen: list[sash.Answer] = []

    def raises(answer: sash.Answer) -> None:
        raise RuntimeError("boom")

    query.subscribe(raises)
    query.subscribe(seen.append)
    with caplog.at_level(logging.ERROR, "sash"):
        session.run()
    assert len(seen) == 3
    assert session.stats()["queries"]["q"]["subscriber_errors"] == 3
    assert any("subscriber of query q raised" in record.message for record in caplog.records)


def test_a_subscriber_may_stop_the_session(session: sash.Session, tmp_path: Path) -> None:
    ten_files(tmp_path / "data")
    create(session, tmp_path / "data")
    query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
    refused: list[str] = []

    def stop(answer: sash.Answer) -> None:
        try:
            session.close()
        except sash.SashError as error:
            refused.append(str(error))
        session.stop()

    query.subscribe(stop)
    session.start(trigger="0 seconds")
    assert session.wait()
    assert refused
    assert len(query.answers()) < 10


def test_a_query_of_the_same_name_gets_nothing_of_the_old_one(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 5)
    create(session, tmp_path / "data")
    old = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", name="q")
    new: list[sash.Query] = []

    def act(answer: sash.Answer) -> None:
        if seconds([answer])[0] == 9:
            old.drop()
            new.append(session.register("SELECT MAX(v) AS m FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q"))

    old.subscribe(act)
    session.run()
    assert all(answer.table.column_names == ["m"] for answer in new[0].answers())
    assert new[0].latest() is not None


def test_a_source_that_is_not_there_or_disappears(session: sash.Session, tmp_path: Path) -> None:
    with pytest.raises(sash.SourceError, match="cannot open the source 'parquet'"):
        create(session, tmp_path / "nowhere")
    with pytest.raises(sash.SourceError, match="cannot open the source 'nonsense'"):
        session.sql("CREATE STREAM s (ts TIMESTAMP) FROM nonsense OPTIONS (path 'x') TIMESTAMP ts")
    files(tmp_path / "data", 1)
    create(session, tmp_path / "data")
    session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(sash.SourceError, match="PATH_NOT_FOUND"):
        session.run()


def test_mistakes_disturb_nothing_that_runs(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 2)
    create(session, tmp_path / "data")
    good = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="good")
    wrong = [
        "SELECT COUNT(*) FROM s [WINDOW 4 sec SLIDE",
        "SELECT COUNT(*) FROM nowhere [WINDOW 4 sec SLIDE 4 sec]",
        "SELECT SUM(nothing) FROM s [WINDOW 4 sec SLIDE 4 sec]",
        "SELECT FROBNICATE(v), COUNT(*) FROM s [WINDOW 4 sec SLIDE 4 sec] GROUP BY 1",
        "SELECT COUNT(*) FROM s [WINDOW 1500 ms SLIDE 1 sec]",
        "SELECT COUNT(*) FROM s [WINDOW 0 sec SLIDE 1 sec]",
        "SELECT COUNT(*) FROM s [WINDOW -4 sec SLIDE 1 sec]",
        "SELECT COUNT(*) FROM s [WINDOW 900000 days SLIDE 1 sec]",
        "SELECT COUNT(*) FROM s [WINDOW 4 sec SLIDE 1500 ms]",
        "SELECT COUNT(*) FROM s [WINDOW 4 sec SLIDE 0 sec]",
        "SELECT COUNT(*) FROM s [WINDOW 4 sec SLIDE -1 sec]",
        "SELECT COUNT(*) FROM s [WINDOW 4 sec SLIDE 900000 days]",
        "SELECT SUM(CAST(v AS STRING)) FROM s [WINDOW 4 sec SLIDE 4 sec]",
    ]

    def act(answer: sash.Answer) -> None:
        for text in wrong:
            with pytest.raises(sash.SashError):
                session.register(text, name="bad")
        with pytest.raises(sash.CatalogError, match="registered already"):
            session.register("SELECT COUNT(*) FROM s [WINDOW 4 sec SLIDE 4 sec]", name="GOOD")
        with pytest.raises(sash.CatalogError, match="did you mean 'good'"):
            session.sql("DROP QUERY goood")

    good.subscribe(act)
    session.run()
    assert good.subscriber_errors == 0
    assert seconds(good.answers()) == [float(t) for t in range(4, 9, 4)]


def test_slide_longer_than_window_is_explained(session: sash.Session, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(i / 2 + 0.1, 0, 1) for i in range(80)])
    create(session, tmp_path / "data")
    text = "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 10 sec]"
    assert "8 sec of every 10 sec are in no answer" in session.explain(text)
    query = session.register(text, name="q")
    session.run()
    assert [a.table["n"][0].as_py() for a in query.answers()] == [4, 4, 4, 4]


def test_checkpoints_of_others_are_refused(session: sash.Session, tmp_path: Path) -> None:
    spark = session.spark
    files(tmp_path / "data", 2)
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as first:
        create(first, tmp_path / "data")
        first.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
        first.run()
        answers = first.queries["q"].answers()
        with pytest.raises(sash.CheckpointError, match="in use by another session"):
            sash.connect(spark=spark, checkpoint=tmp_path / "c")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as again:
        # The same declarations are taken as they are; other ones are refused.
        with pytest.raises(sash.CheckpointError, match="granule"):
            create(again, tmp_path / "data", "GRANULE 2 sec")
        create(again, tmp_path / "data")
        query = again.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
        again.run()
        assert [a.as_of for a in query.answers()] == [a.as_of for a in answers]
    (tmp_path / "c" / "sash.json").write_text('{"format": 99}')
    with pytest.raises(sash.CheckpointError, match="format 99"):
        sash.connect(spark=spark, checkpoint=tmp_path / "c")
    with pytest.raises(sash.CheckpointError, match="not a checkpoint of Sash"):
        sash.connect(spark=spark, checkpoint=tmp_path / "data")


def test_a_frame_stream_of_a_checkpoint_must_be_created_again(session: sash.Session, tmp_path: Path) -> None:
    spark = session.spark
    frame = spark.range(10).selectExpr(f"timestamp_seconds({START // SECOND} + id) AS ts", "id")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as first:
        first.create_stream("f", frame, timestamp="ts")
        first.register("SELECT COUNT(*) AS n FROM f [WINDOW 4 sec SLIDE 4 sec]", name="q")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as again:
        with pytest.raises(sash.CheckpointError, match="knows the stream f"):
            again.run()
        with pytest.raises(sash.CheckpointError, match="other columns"):
            again.create_stream("f", frame.drop("id"), timestamp="ts")
        again.create_stream("f", frame, timestamp="ts")
        again.run()
        assert again.queries["q"].latest().complete  # type: ignore[union-attr]


def test_columns_whose_names_sash_uses_are_refused(session: sash.Session) -> None:
    frame = session.spark.range(1).selectExpr("timestamp_seconds(id) AS ts", "id AS _Mask")
    with pytest.raises(sash.CatalogError, match="'_Mask' of stream 's' has a name that Sash uses"):
        session.create_stream("s", frame, timestamp="ts")


def test_statements_about_what_is_there(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 1)
    create(session, tmp_path / "data")
    session.sql("REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec] PRIORITY 5")
    assert session.sql("SHOW QUERIES")["name"].to_pylist() == ["q"]  # type: ignore[index,union-attr]
    assert ("priority", "5") in zip(*session.sql("DESCRIBE q").to_pydict().values(), strict=True)  # type: ignore[union-attr]
    assert session.sql("DESCRIBE s")["column"].to_pylist() == ["ts", "k", "v"]  # type: ignore[index,union-attr]
    with pytest.raises(sash.CatalogError, match="read by q"):
        session.sql("DROP STREAM s")
    session.sql("DROP QUERY q")
    session.sql("DROP STREAM s")
    with pytest.raises(sash.SashError, match="nothing to run"):
        session.run()


@pytest.mark.parametrize("kept", [False, True])
def test_a_stream_created_again_begins_anew(session: sash.Session, tmp_path: Path, kept: bool) -> None:
    files(tmp_path / "old", 2)
    write(tmp_path / "new", 0, [(0.5, 1, 1), (1.5, 1, 1)])
    with sash.connect(spark=session.spark, checkpoint=tmp_path / "c" if kept else None) as opened:
        for directory, last in (("old", 8), ("new", 2)):
            create(opened, tmp_path / directory)
            query = opened.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", name="q")
            opened.run()
            assert seconds(query.answers())[-1] == last
            opened.sql("DROP QUERY q")
            opened.sql("DROP STREAM s")


def test_a_restored_stream_may_change_options_but_not_its_place(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 4)
    files(tmp_path / "other", 1)
    spark, columns = session.spark, "(ts TIMESTAMP, k INT, v INT) FROM parquet"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as first:
        create(first, tmp_path / "data")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as again:
        with pytest.raises(sash.CheckpointError, match="is read from parquet path"):
            create(again, tmp_path / "other")
        again.sql(
            f"CREATE STREAM s {columns} OPTIONS (path '{tmp_path / 'data'}', maxFilesPerTrigger '2') TIMESTAMP ts"
        )
        again.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]", name="q")
        again.run()
        assert again.stats()["streams"]["s"]["micro_batches"] == 2


def test_explain_of_a_question_says_whether_it_is_answered(session: sash.Session, tmp_path: Path) -> None:
    files(tmp_path / "data", 1)
    create(session, tmp_path / "data")
    session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k", name="q")
    answered = session.explain("SELECT k, AVG(v) AS m FROM s [WINDOW 5 sec] GROUP BY k")
    assert "One-time: answered from pane table s by (k), panes of 5 sec" in answered
    assert "refused, pane table s by (k) keeps 10 sec in panes of 5 sec" in session.explain(
        "SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec] GROUP BY k"
    )
    assert "keeps max(v)" in session.explain("SELECT k, MAX(v) AS t FROM s [WINDOW 5 sec] GROUP BY k")


def test_a_closed_session_is_not_kept_alive_by_the_jvm(spark: Any, tmp_path: Path) -> None:
    files(tmp_path / "data", 1)
    session = sash.connect(spark=spark)
    create(session, tmp_path / "data")
    session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 4 sec]", name="q")
    session.run()
    session.close()
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None
