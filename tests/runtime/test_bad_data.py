"""Data that nobody expected: it is counted, or fails the query that cannot have it, and never the stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.errors import SashError, SourceError
from sash.core.time import LATEST, SECOND
from sash.runtime.streams.running_stream import RunningStream
from tests.runtime.test_session import create, write
from tests.support.log import events
from tests.support.streams import START

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: Any) -> Iterator[sash.Session]:
    with sash.connect(spark=spark, clock=ManualClock()) as opened:
        yield opened


def last(query: sash.Query) -> list[dict[str, Any]]:
    answer = query.latest()
    assert query.error is None and answer is not None
    return answer.table.to_pylist()


def parquet(directory: Path, number: int, table: pa.Table) -> None:
    directory.mkdir(exist_ok=True)
    path = directory / f"part-{number:03d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_600_000_000 + number,) * 2)


# -- times ----------------------------------------------------------------------------------------------


def test_a_time_that_no_calendar_shows_counts_as_none(session: sash.Session, tmp_path: Path) -> None:
    """Python's datetime ends with the year 9999, Spark's timestamps 285,000 years later."""
    far = [LATEST + 1, 400_000_000_000 * SECOND, 2**63 - 1, -(2**63) + 1]
    write(tmp_path / "data", 0, [(0.5, 1, 1)])
    stamps = pa.array([*far, START + SECOND], pa.timestamp("us", "UTC"))
    parquet(
        tmp_path / "data",
        1,
        pa.table({"ts": stamps, "k": pa.array([1] * 5, pa.int32()), "v": pa.array([1] * 5, pa.int32())}),
    )
    write(tmp_path / "data", 2, [(2.5, 1, 1)])
    create(session, tmp_path / "data", "KEEP 1 min")
    queries = [
        session.register(f"SELECT COUNT(*) AS n FROM s {window}", name=f"q{number}")
        for number, window in enumerate(["[WINDOW 10 sec SLIDE 1 sec]", "[ROWS 10 SLIDE 1]"])
    ]
    view = session.register("SELECT v FROM s [RANGE 10 sec]", name="view")
    session.run()
    assert [last(query) for query in queries] == [[{"n": 3}]] * 2 and len(view.view()) == 3
    assert len(session.query("SELECT v FROM s [WINDOW 1 min]")) == 3
    counted = session.stats()["streams"]["s"]
    assert (counted["tuples"], counted["null_timestamps"], counted["late_tuples"]) == (7, 4, 0)
    with pytest.raises(SashError, match="advance goes to a time between"):
        session.advance("s", 2**62)


def test_a_clock_that_goes_back_is_late_and_moves_nothing(session: sash.Session, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(100.5, 1, 1)])
    write(tmp_path / "data", 1, [(0.5, 1, 1), (1.5, 1, 1)])
    write(tmp_path / "data", 2, [(101.5, 1, 1)])
    create(session, tmp_path / "data")
    query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 1 sec]", name="q")
    session.run()
    assert last(query) == [{"n": 2}] and session.stats()["late_tuples"] == 2
    stamps = [answer.as_of for answer in query.answers()]
    assert stamps == sorted(stamps)


def test_times_without_a_zone_are_those_of_the_session_and_windows_are_in_utc(spark: Any, tmp_path: Path) -> None:
    """In Berlin, 29 March 2026 has no 02:30, and 25 October has two."""
    (tmp_path / "csv").mkdir()
    lines = ["2026-03-29 01:59:59", "2026-03-29 03:00:01", "2026-10-25 01:59:59", "2026-10-25 02:30:00"]
    (tmp_path / "csv" / "a.csv").write_text("\n".join(f"{line},1" for line in lines) + "\n")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with sash.connect(spark=spark, clock=ManualClock()) as session:
            for name, type in (("zoned", "TIMESTAMP"), ("plain", "TIMESTAMP_NTZ")):
                session.sql(
                    f"CREATE STREAM {name} (ts {type}, v INT) FROM csv OPTIONS (path '{tmp_path / 'csv'}') TIMESTAMP ts"
                )
                session.register(f"SELECT COUNT(*) AS n FROM {name} [WINDOW 10 sec SLIDE 10 sec]", name=f"q_{name}")
            session.run()
            found = {
                name: [
                    (answer.as_of.strftime("%m-%d %H:%M:%S"), answer.table["n"][0].as_py())
                    for answer in query.answers()
                ]
                for name, query in session.queries.items()
            }
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    zoned = [each for each in found["q_zoned"] if each[1]]
    assert zoned == [("03-29 01:00:00", 1), ("03-29 01:00:10", 1), ("10-25 00:00:00", 1), ("10-25 00:30:00", 1)]
    plain = [each for each in found["q_plain"] if each[1]]
    assert plain == [("03-29 02:00:00", 1), ("03-29 03:00:10", 1), ("10-25 02:00:00", 1), ("10-25 02:30:00", 1)]


# -- values ---------------------------------------------------------------------------------------------


def test_numbers_that_are_none_as_spark_has_them(spark: Any, session: sash.Session) -> None:
    values = ["NaN", "-NaN", "Infinity", "-Infinity", "0.0", "-0.0", "1.5", None]
    rows = [(f"2026-01-01 00:00:0{1 + i % 5}", value, str(value)) for i, value in enumerate(values * 2)]
    frame = spark.createDataFrame(rows, "at STRING, text STRING, g STRING").selectExpr(
        "CAST(at AS TIMESTAMP) AS ts", "CAST(replace(text, '-NaN', 'NaN') AS DOUBLE) AS x", "g"
    )
    session.create_stream("f", frame, timestamp="ts")
    calls = "COUNT(x) AS n, SUM(x) AS t, AVG(x) AS a, MIN(x) AS lo, MAX(x) AS hi, COUNT(DISTINCT x) AS d"
    window = "f [WINDOW 10 sec SLIDE 10 sec]"
    by_key = session.register(f"SELECT x, COUNT(*) AS n FROM {window} GROUP BY x ORDER BY x", name="keys")
    by_group = session.register(f"SELECT g, {calls} FROM {window} GROUP BY g ORDER BY g", name="values")
    session.run()
    frame.createOrReplaceTempView("bad_numbers")
    for query, text in (
        (by_key, "SELECT x, COUNT(*) AS n FROM bad_numbers GROUP BY x ORDER BY x"),
        (by_group, f"SELECT g, {calls} FROM bad_numbers GROUP BY g ORDER BY g"),
    ):
        assert repr(last(query)) == repr(spark.sql(text).toArrow().to_pylist())


def test_a_string_of_ten_megabytes_is_a_group_like_others(session: sash.Session, tmp_path: Path) -> None:
    texts = ["x" * 10_000_000, "x" * 9_999_999 + "y", "x"]
    stamps = pa.array([START + i * SECOND for i in range(1, 7)], pa.timestamp("us", "UTC"))
    parquet(tmp_path / "data", 0, pa.table({"ts": stamps, "g": texts * 2}))
    session.sql(
        f"CREATE STREAM s (ts TIMESTAMP, g STRING) FROM parquet OPTIONS (path '{tmp_path / 'data'}') TIMESTAMP ts"
    )
    query = session.register(
        "SELECT g, COUNT(*) AS n, MAX(g) AS most FROM s [WINDOW 10 sec SLIDE 10 sec] GROUP BY g", name="q"
    )
    session.run()
    assert sorted((len(row["g"]), row["n"], row["most"] == row["g"]) for row in last(query)) == [
        (1, 2, True),
        (10_000_000, 2, True),
        (10_000_000, 2, True),
    ]


# -- files that change ----------------------------------------------------------------------------------


def test_a_column_that_a_file_lacks_is_null(session: sash.Session, tmp_path: Path) -> None:
    write(tmp_path / "data", 0, [(0.5, 1, 1)])
    stamps = pa.array([START + SECOND], pa.timestamp("us", "UTC"))
    parquet(tmp_path / "data", 1, pa.table({"ts": stamps, "extra": ["x"], "k": pa.array([1], pa.int32())}))
    create(session, tmp_path / "data")
    query = session.register("SELECT COUNT(*) AS n, COUNT(v) AS v FROM s [WINDOW 10 sec SLIDE 1 sec]", name="q")
    session.run()
    assert last(query) == [{"n": 2, "v": 1}]


def test_a_column_of_another_type_stops_the_stream_with_the_files_name(session: sash.Session, tmp_path: Path) -> None:
    """Spark cannot read the file; none of its rows count, and with another file in its place the stream goes on."""
    write(tmp_path / "data", 0, [(0.5, 1, 1)])
    stamps = pa.array([START + SECOND], pa.timestamp("us", "UTC"))
    parquet(tmp_path / "data", 1, pa.table({"ts": stamps, "k": ["one"], "v": pa.array([1], pa.int32())}))
    create(session, tmp_path / "data")
    query = session.register("SELECT SUM(k) AS t FROM s [WINDOW 10 sec SLIDE 1 sec]", name="q")
    with pytest.raises(SourceError, match="stream 's'") as caught:
        session.run()
    assert "part-001.parquet" in str(caught.value)
    assert query.error is None and session.stats()["tuples"] == 1
    write(tmp_path / "data", 1, [(1.5, 1, 1)])
    session.run()
    assert last(query) == [{"t": 2}]


@pytest.mark.parametrize("is_back", [True, False])
def test_a_file_that_vanishes_before_it_is_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_back: bool
) -> None:
    """Spark has planned its micro-batch. The stream stops and names it; the next start has it again, or not."""
    data, gone = tmp_path / "data", tmp_path / "gone"
    for part in range(3):
        write(data, part, [(part + 0.5, 1, 10**part)])
    file, take = data / "part-001.parquet", RunningStream.on_batch

    def vanishing(running: RunningStream, version: Any, rows: Any, epoch: int) -> None:
        if epoch == 1 and not gone.exists():
            file.rename(gone)
        take(running, version, rows, epoch)

    monkeypatch.setattr(RunningStream, "on_batch", vanishing)
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        create(session, data)
        query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 10 sec]", name="q")
        with pytest.raises(SourceError, match=r"part-001.parquet; put it back before the next start"):
            session.run()
        assert query.error is None and session.stats()["tuples"] == 1
    if is_back:
        gone.rename(file)
        gone.touch()
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        session.run()
        assert last(session.queries["q"]) == [{"t": 111 if is_back else 101}]


def test_a_file_that_vanishes_after_it_was_read_changes_nothing(session: sash.Session, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(data, 0, [(0.5, 1, 1)])
    create(session, data)
    query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 20 sec SLIDE 10 sec]", name="q")
    session.run()
    (data / "part-000.parquet").unlink()
    write(data, 1, [(11.5, 1, 10)])
    session.run()
    assert last(query) == [{"t": 11}]


@pytest.mark.parametrize("days", [6, 8])
def test_files_of_a_clock_that_was_wrong(session: sash.Session, tmp_path: Path, days: int) -> None:
    """By default Spark leaves out files that are more than a week older than the newest one."""
    data = tmp_path / "data"
    write(data, 0, [(0.5, 1, 1)])
    ahead = 1_600_000_000 + days * 86_400
    os.utime(data / "part-000.parquet", (ahead, ahead))
    create(session, data)
    session.sql(
        f"CREATE STREAM t (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{data}', maxFileAge '10000d') "
        "TIMESTAMP ts"
    )
    text = "SELECT SUM(v) AS t FROM {} [WINDOW 20 sec SLIDE 10 sec]"
    queries = [session.register(text.format(name), name=f"q_{name}") for name in "st"]
    session.run()
    write(data, 1, [(11.5, 1, 10)])
    session.run()
    assert [last(query) for query in queries] == [[{"t": 11 if days < 7 else 1}], [{"t": 11}]]


def test_a_directory_that_goes_and_comes_back(
    session: sash.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark takes a live stream's missing directory for one without new files: Sash says that it has gone."""
    data = tmp_path / "data"
    write(data, 0, [(0.5, 1, 1)])
    create(session, data)
    query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 10 sec]", name="q")
    statistics = session.streams["s"].runtime.statistics

    def until(condition: Callable[[], bool]) -> None:
        while not condition():
            assert not session.wait(0.05)

    def told() -> list[str]:
        return [event["how"] for event in events(caplog) if event["event"] == "source.moved"]

    session.start("1 sec")
    until(lambda: statistics.tuples == 1)
    data.rename(tmp_path / "gone")
    until(lambda: told() == ["has gone; no tuples come until it is back"])
    write(data, 1, [(1.5, 1, 10)])
    until(lambda: statistics.tuples == 2 and told()[1:] == ["is back"])
    session.stop()
    session.run()
    assert last(query) == [{"t": 11}]


# -- too many groups ------------------------------------------------------------------------------------


def test_too_many_groups_fail_their_query_alone(spark: Any, tmp_path: Path) -> None:
    for part in range(3):
        write(tmp_path / "data", part, [(part + i / 10 + 0.05, part * 4 + i, i % 2) for i in range(8)])
    text = "SELECT k, COUNT(*) AS n FROM s [WINDOW {} SLIDE 1 sec] GROUP BY k"
    for restart in (False, True):
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", max_groups=12) as session:
            create(session, tmp_path / "data")
            if not restart:
                session.register("SELECT v, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY v", name="few")
                session.register(text.format("4 sec"), name="many")
                session.register("SELECT MEDIAN(k) AS m FROM s [WINDOW 4 sec SLIDE 1 sec]", name="values")
                session.register("SELECT COUNT(*) AS n FROM s [ROWS 5 SLIDE 5]", name="rows")
            session.run()
            few, many, values, rows = (session.queries[name] for name in ("few", "many", "values", "rows"))
            assert few.error is None and rows.error is None
            for query in (many, values):
                assert f"query '{query.name}' failed: it has 16 groups by (k)" in str(query.error)
                assert "max_groups is 12" in str(query.error)
            assert [row["n"] for row in few.answers()[-1].table.sort_by("v").to_pylist()] == [12, 12]
            assert len(session.stats()["streams"]["s"]["pane_tables"]) == 2


def test_groups_that_have_left_the_window_do_not_count(spark: Any, tmp_path: Path) -> None:
    for part in range(4):
        write(tmp_path / "data", part, [(part + i / 10 + 0.05, part * 8 + i, 1) for i in range(8)])
    with sash.connect(spark=spark, max_groups=30) as session:
        create(session, tmp_path / "data")
        query = session.register("SELECT k, COUNT(*) AS n FROM s [WINDOW 1 sec SLIDE 1 sec] GROUP BY k", name="q")
        session.run()
        assert query.error is None and query.answered == 4
    with pytest.raises(SashError, match="max_groups must be 1 or more"):
        sash.connect(spark=spark, max_groups=0)
