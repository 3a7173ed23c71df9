"""Archives in a session, on Spark: against a list of all rows, after a restart, on a disk that fails."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.archive import EXPIRES, Archive, with_times
from sash.archive.wanted_keys import KeyValues
from sash.core.changes import EXP, INSTANT, SIGN, TS
from sash.core.clock import ManualClock
from sash.core.errors import ArchiveError, CatalogError, CqlError
from sash.core.time import SECOND, to_datetime, to_micros
from sash.runtime.stored import archive_feed
from sash.runtime.stored.archive_feed import ArchiveFeed
from tests.runtime.test_session import create, write
from tests.support.log import events
from tests.support.streams import START
from tests.support.threads import PATIENCE, join, start

pytestmark = pytest.mark.spark
CREATE = "CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec"


def rows_of(part: int) -> list[tuple[float | None, int, int]]:
    """Four seconds, five tuples in each."""
    return [(part * 4 + i / 5 + 0.05, i % 4, part * 20 + i) for i in range(20)]


def write_parts(directory: Path, *parts: int) -> None:
    for part in parts:
        write(directory, part, rows_of(part))


def stamped(parts: range) -> list[tuple[int, int, int]]:
    """All rows with their times in microseconds."""
    return [(START + round((t or 0) * SECOND), k, v) for part in parts for t, k, v in rows_of(part)]


def alive(parts: range, now: int, lifetime: int = 12) -> list[tuple[int, int]]:
    """(k, v) of all tuples that have come by a time and not expired."""
    return sorted((k, v) for t, k, v in stamped(parts) if t <= now < t + lifetime * SECOND)


def found(session: sash.Session, where: str = "", archive: str = "old") -> tuple[list[tuple[int, int]], int]:
    """(k, v) of what an archive has, and as of when."""
    table = session.query(f"SELECT k, v FROM {archive} {where}")
    as_of = to_micros(datetime.fromisoformat(table.schema.metadata[b"as_of"].decode()))
    return sorted((row["k"], row["v"]) for row in table.to_pylist()), as_of


@pytest.fixture
def session(spark: Any, tmp_path: Path) -> Iterator[sash.Session]:
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", clock=ManualClock()) as opened:
        yield opened


# The archives that share one run: their sources, and all clauses after that.
ARCHIVES = {
    "old": "s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec",
    "by_time": "s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec PARTITION 3 x 2 CHRONOLOGICAL",
    "in_place": "s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec PARTITION 2 x 4 NOREBUILD",
    "elsewhere": "s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec PARTITION 2 x 3 IN '{place}'",
    "by_column": "s KEY k LIFETIME k UP TO 2 sec UPDATE EVERY 1 sec",
    "joined": "pairs KEY k LIFETIME UP TO 6 sec UPDATE EVERY 2 sec",
    "answered": "sums KEY k LIFETIME UP TO 8 sec UPDATE EVERY 2 sec",
    "ended": "short KEY k LIFETIME UP TO 60 sec UPDATE EVERY 2 sec",
    "of_rows": "rows KEY k LIFETIME UP TO 60 sec UPDATE EVERY 2 sec",
}
QUERIES = {
    "pairs": "SELECT a.k, b.v FROM s [RANGE 3 sec] a, s [RANGE 5 sec] b WHERE a.k = b.k AND a.v < b.v",
    "sums": "SELECT k, SUM(v) AS v FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k",
    "counts": "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec]",
    "rows": "SELECT COUNT(*) AS k, SUM(v) AS v FROM ties [ROWS 2 SLIDE 1]",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def filled(spark: Any, place: Path) -> Iterator[sash.Session]:
    """One run over five parts, with every kind of archive; tests only ask."""
    write_parts(place / "s", *range(5))
    write(place / "ties", 0, [(float(second), k, 10 * second + k) for second in range(1, 9) for k in range(3)])
    with sash.connect(spark=spark, checkpoint=place / "checkpoint", clock=ManualClock()) as session:
        create(session, place / "s", "KEEP 4 sec")
        session.sql(
            f"CREATE STREAM ties (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{place / 'ties'}') "
            "TIMESTAMP ts"
        )
        session.sql("CREATE TABLE names (k INT PRIMARY KEY, name STRING)")
        session.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
        for name, text in QUERIES.items():
            session.register(text, name=name)
        text = "SELECT k, SUM(v) AS v FROM s [WINDOW 2 sec SLIDE 2 sec] GROUP BY k"
        session.register(text, name="short", lifetime="8 sec")
        for name, clauses in ARCHIVES.items():
            session.sql(f"CREATE ARCHIVE {name} FROM {clauses.format(place=place / 'here')}")
        session.run()
        yield session


@pytest.mark.parametrize("archive", ["old", "by_time", "in_place"])
def test_what_is_alive_is_found_by_scans_and_by_probes(filled: sash.Session, archive: str) -> None:
    rows, as_of = found(filled, archive=archive)
    assert rows == alive(range(5), as_of) and len(rows) > 50
    assert found(filled, "WHERE k = 3", archive)[0] == [row for row in rows if row[0] == 3]
    assert found(filled, "WHERE k IN (1, 2) AND v > 70", archive)[0] == [
        row for row in rows if row[0] in (1, 2) and row[1] > 70
    ]
    assert found(filled, "WHERE k = 99", archive)[0] == []


@pytest.mark.parametrize("by_spark", [False, True], ids=["by this process", "by Spark"])
@pytest.mark.parametrize(
    ("where", "low", "high"),
    [("k BETWEEN 1 AND 2", 1, 2), ("k > 1", 2, 3), ("2 >= k AND k >= 0 AND v > 0", 0, 2), ("k < 0", 0, -1)],
)
def test_a_range_of_keys_is_probed(
    filled: sash.Session, monkeypatch: pytest.MonkeyPatch, where: str, low: int, high: int, by_spark: bool
) -> None:
    if by_spark:
        monkeypatch.setattr(archive_feed, "SPARK_FROM_BYTES", 0)
    for archive in ("old", "in_place"):
        rows, _ = found(filled, archive=archive)
        assert found(filled, f"WHERE {where}", archive)[0] == [
            (k, v) for k, v in rows if low <= k <= high and (v > 0 or "v > 0" not in where)
        ]
        assert ("Spark reads these files" if by_spark else "probed: k ") in filled.explain(
            f"SELECT v FROM {archive} WHERE {where}"
        )


def test_an_archive_goes_on_after_a_restart(spark: Any, tmp_path: Path) -> None:
    write_parts(tmp_path / "s", 0, 1)
    for parts in (2, 3, 4):
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", clock=ManualClock()) as session:
            if parts != 3:
                create(session, tmp_path / "s")
                session.sql(CREATE)
            session.run()
            rows, as_of = found(session)
            assert rows == alive(range(parts), as_of)
        write_parts(tmp_path / "s", parts)


def feed_of(session: sash.Session) -> ArchiveFeed:
    """The feed of the only archive that stream s fills."""
    (feed,) = session.streams["s"].feeds
    return feed


def test_files_are_plain_parquet_in_the_place_that_was_asked_for(filled: sash.Session, place: Path) -> None:
    archive = Archive.open(place / "here")
    updated = archive.facts().updated
    assert updated is not None and updated > START
    rows = sorted((row["k"], row["v"]) for path in archive.files() for row in pq.read_table(path).to_pylist())
    assert set(alive(range(5), updated)) <= set(rows)


def test_lifetimes_of_a_column_up_to_the_bound(filled: sash.Session) -> None:
    rows, as_of = found(filled, archive="by_column")
    assert rows == sorted((k, v) for t, k, v in stamped(range(5)) if t <= as_of < t + min(2, k) * SECOND)
    # A second of the one, and the bound's two of the others.
    assert Counter(k for k, _ in rows) == {1: 1, 2: 3, 3: 3}


def test_results_of_a_join_live_until_they_expire(filled: sash.Session) -> None:
    rows, _ = found(filled, archive="joined")
    expected = sorted((row["k"], row["v"]) for row in filled.queries["pairs"].view().to_pylist())
    assert rows == expected and len(rows) > 20
    assert found(filled, "WHERE k = 2", "joined")[0] == [row for row in expected if row[0] == 2]


def test_answers_of_a_periodic_query(filled: sash.Session) -> None:
    rows, as_of = found(filled, archive="answered")
    times = [(answer, to_micros(answer.as_of)) for answer in filled.queries["sums"].answers()]
    living = [answer for answer, time in times if time <= as_of < time + 8 * SECOND]
    assert len(living) > 2
    assert filled.query("SELECT DISTINCT as_of FROM answered").num_rows == len(living)
    assert rows == sorted((row["k"], row["v"]) for answer in living for row in answer.table.to_pylist())


def test_a_query_that_ends_leaves_its_archive(filled: sash.Session) -> None:
    assert "short" not in filled.queries and len(filled.queries["counts"].answers()) > 8
    assert len(found(filled, archive="ended")[0]) > 8


def test_answers_of_row_based_windows_that_have_one_time(filled: sash.Session) -> None:
    answers = filled.queries["rows"].answers()
    told = sorted((row["k"], row["v"]) for answer in answers for row in answer.table.to_pylist())
    last = max(answer.as_of for answer in answers)
    waiting = [(row["k"], row["v"]) for a in answers if a.as_of == last for row in a.table.to_pylist()]
    # More answers may come at the last time: they are seen when time has gone on.
    assert len(waiting) > 1 and sorted([*found(filled, archive="of_rows")[0], *waiting]) == told


def test_explain_says_whether_it_is_probed(filled: sash.Session) -> None:
    assert "probed: k = 2" in filled.explain("SELECT v FROM elsewhere WHERE k = 2")
    assert "probed: k BETWEEN 2 AND 4, in " in filled.explain("SELECT v FROM elsewhere WHERE k > 1 AND k < 5")
    assert "in 0 of 6 row groups, 0 of 6 files" in filled.explain("SELECT v FROM elsewhere WHERE k > 90")
    scanned = filled.explain("SELECT k, COUNT(*) FROM elsewhere GROUP BY k")
    assert "scanned" in scanned and "2 x 3 sub-indices (round robin, rebuild)" in scanned
    assert EXPIRES not in filled.query("SELECT * FROM elsewhere").column_names
    assert filled.sql("DESCRIBE elsewhere")["column"].to_pylist() == ["ts", "k", "v"]


def test_an_archive_is_joined_with_a_window_and_a_table(filled: sash.Session) -> None:
    text = (
        "SELECT n.name, COUNT(*) AS n FROM old o JOIN names n ON o.k = n.k "
        "WHERE o.v NOT IN (SELECT v FROM s [WINDOW 2 sec]) GROUP BY n.name ORDER BY n.name"
    )
    rows, as_of = found(filled)
    # The window ends with a whole sub-window, the archive with the last tuple.
    end = -(-as_of // SECOND) * SECOND
    young = {v for t, _, v in stamped(range(5)) if end - 2 * SECOND < t}
    counts = [sum(1 for k, v in rows if k == wanted and v not in young) for wanted in (1, 2)]
    assert [row["n"] for row in filled.query(text).to_pylist()] == counts


def test_sparks_writer_is_used_for_what_is_large(
    session: sash.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its files in every layout see tests/spark/test_archive.py."""
    monkeypatch.setattr(archive_feed, "SPARK_FROM_BYTES", 0)
    write_parts(tmp_path / "s", 0, 1)
    create(session, tmp_path / "s")
    session.sql(f"{CREATE} PARTITION 2 x 2 CHRONOLOGICAL")
    session.run()
    rows, as_of = found(session)
    assert rows == alive(range(2), as_of)
    session.sql("ALTER ARCHIVE old PARTITION 2 x 3 NOREBUILD")
    assert found(session) == (rows, as_of)
    assert found(session, "WHERE k = 1")[0] == [row for row in rows if row[0] == 1]
    files = feed_of(session).archive.files()
    assert files and all(b"org.apache.spark.version" in pq.read_schema(path).metadata for path in files)


def test_a_full_disk_leaves_the_old_state_and_is_tried_again(
    session: sash.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    session.sql(CREATE)
    session.run()
    before = session.sql("SHOW ARCHIVES").to_pylist()[0]

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(Archive, "update", full)
        write_parts(tmp_path / "s", 1)
        session.run()
        told = session.sql("SHOW ARCHIVES").to_pylist()[0]
        assert told["updated"] == before["updated"] and "No space left" in told["error"]
        assert "tried again" in caplog.text
        rows, as_of = found(session)
        assert rows == alive(range(2), as_of)
    write_parts(tmp_path / "s", 2)
    session.run()
    rows, as_of = found(session)
    assert rows == alive(range(3), as_of)
    assert session.sql("SHOW ARCHIVES").to_pylist()[0]["error"] is None


def test_a_dropped_archive_leaves_nothing(session: sash.Session, tmp_path: Path) -> None:
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    session.sql(CREATE)
    session.run()
    assert (tmp_path / "checkpoint" / "archives" / "old").exists()
    session.sql("DROP ARCHIVE old")
    assert not (tmp_path / "checkpoint" / "archives" / "old").exists()
    with pytest.raises(CqlError, match="unknown stream 'old'"):
        session.query("SELECT * FROM old")
    session.sql(CREATE)


@pytest.fixture(scope="module")
def empty(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sash.Session]:
    """No archive, and nothing has run."""
    place = tmp_path_factory.mktemp("refused")
    write_parts(place / "s", 0)
    with sash.connect(spark=spark, checkpoint=place / "checkpoint", clock=ManualClock()) as session:
        create(session, place / "s")
        session.register("SELECT k, COUNT(*) AS n FROM s [RANGE 3 sec] GROUP BY k", name="groups")
        session.register("SELECT k FROM s [RANGE 20 sec]", name="long")
        session.sql("SET EXECUTION nt")
        session.register("SELECT k FROM s [RANGE 3 sec]", name="negative")
        yield session


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CREATE.replace("KEY k", "KEY kk"), "unknown column 'kk'"),
        (CREATE.replace("FROM s", "FROM t"), "unknown stream or query 't'"),
        (CREATE.replace("EVERY 2", "EVERY 5"), "not a multiple of UPDATE EVERY"),
        (f"{CREATE} PARTITION 9 x 2", "at most 6 partitions"),
        (CREATE.replace("LIFETIME UP", "LIFETIME ts UP"), "a number of seconds or an interval"),
        (CREATE.replace("FROM s", "FROM groups"), "taken back before they expire"),
        (CREATE.replace("FROM s", "FROM long"), "LIFETIME UP TO 20 sec or more"),
        (CREATE.replace("FROM s", "FROM negative"), "SET EXECUTION upa"),
        (CREATE.replace("ARCHIVE old", "ARCHIVE s"), "'s' is a stream already"),
        ("ALTER ARCHIVE older PARTITION 2 x 2", "unknown archive 'older'"),
        ("DROP ARCHIVE older", "unknown archive 'older'"),
    ],
)
def test_what_is_refused(empty: sash.Session, text: str, reason: str) -> None:
    with pytest.raises((CqlError, CatalogError, ArchiveError), match=reason):
        empty.sql(text)
    assert not empty.sql("SHOW ARCHIVES").num_rows


def test_what_an_archive_reads_stays(session: sash.Session, tmp_path: Path) -> None:
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    query = session.register("SELECT k FROM s [RANGE 3 sec]", name="q")
    session.sql(CREATE)
    session.sql(CREATE.replace("ARCHIVE old FROM s", "ARCHIVE older FROM q"))
    with pytest.raises(CatalogError, match="fills the archive older"):
        session.drop_query("q")
    assert [each["sink"] for each in query.sinks()] == ["archive older"]
    session.sql("DROP ARCHIVE older")
    assert query.sinks() == []
    session.drop_query("q")
    with pytest.raises(CatalogError, match="fills the archive old;"):
        session.drop_stream("s")
    with pytest.raises(CqlError, match="is an archive, which is asked once"):
        session.register("SELECT COUNT(*) AS n FROM old [WINDOW 3 sec SLIDE 1 sec]", name="no")


def test_one_writer(session: sash.Session, spark: Any, tmp_path: Path) -> None:
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    session.sql(f"{CREATE} IN '{tmp_path / 'here'}'")
    with sash.connect(spark=spark, clock=ManualClock()) as other:
        create(other, tmp_path / "s")
        with pytest.raises(ArchiveError, match="has a writer already"):
            other.sql(f"{CREATE} IN '{tmp_path / 'here'}'")


def test_questions_beside_updates_see_whole_states(session: sash.Session, tmp_path: Path) -> None:
    write_parts(tmp_path / "s", *range(5))
    create(session, tmp_path / "s")
    session.sql(f"{CREATE} PARTITION 2 x 2")
    feed = feed_of(session)
    seen, whole, stop = list[tuple[list[tuple[int, int]], int]](), list[bool](), threading.Event()
    asked = threading.Condition()

    def ask() -> None:
        while not stop.is_set():
            rows, now = feed.probe(KeyValues("k", pa.array([0, 1, 2, 3], pa.int32())))
            with asked:
                if now is not None:
                    seen.append((sorted(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True)), now))
                asked.notify_all()
        whole.append(True)

    def advance(now: int, *, original: Any = feed.advance, **options: Any) -> None:
        """Two questions may be on their way: the third one from here on has been asked after the update."""
        original(now, **options)
        with asked:
            enough = len(seen) + 3
            assert asked.wait_for(lambda: len(seen) >= enough, PATIENCE)

    feed.advance = advance  # type: ignore[method-assign]
    threads = [start(ask), start(ask)]
    session.run()
    stop.set()
    join(*threads)
    assert whole == [True, True], "a question failed"
    assert len({now for _, now in seen}) > 3
    assert all(rows == alive(range(5), now) for rows, now in seen)


def test_after_a_restart_an_archive_shows_what_it_showed(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "s", 0, [row for part in range(4) for row in rows_of(part)])
    seen = []
    for place in ("checkpoint", "moved"):
        with sash.connect(spark=spark, checkpoint=tmp_path / place, clock=ManualClock()) as session:
            if place == "checkpoint":
                create(session, tmp_path / "s")
                session.register("SELECT k, SUM(v) AS v FROM s [WINDOW 3 sec SLIDE 3 sec] GROUP BY k", name="sums")
                session.sql("CREATE ARCHIVE old FROM sums KEY k LIFETIME UP TO 60 sec UPDATE EVERY 20 sec")
                session.run()
            seen.append(found(session))
        if place == "checkpoint":
            (tmp_path / "checkpoint").rename(tmp_path / "moved")
    assert seen[0] == seen[1] and len(seen[0][0]) > 8


def test_an_archive_that_is_gone_stops_no_session(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_parts(tmp_path / "s", 0)
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", clock=ManualClock()) as session:
        create(session, tmp_path / "s")
        session.sql(f"{CREATE} IN '{tmp_path / 'here'}'")
        session.run()
    (tmp_path / "here" / "manifest.json").write_text("{}")
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", clock=ManualClock()) as session:
        assert [event["archive"] for event in events(caplog) if event["event"] == "archive.unopened"] == ["old"]
        for act in (lambda: session.query("SELECT k FROM old"), session.run):
            with pytest.raises(ArchiveError, match=r"cannot be opened.*DROP ARCHIVE old"):
                act()
        session.sql("DROP ARCHIVE old")
        session.sql(f"{CREATE} IN '{tmp_path / 'here'}'")


def test_what_else_is_in_a_directory_stays(session: sash.Session, tmp_path: Path) -> None:
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    place = tmp_path / "here [1]"
    session.sql(f"{CREATE} IN '{place}'")
    session.run()
    assert found(session)[0]
    (place / "notes.txt").write_text("mine")
    session.sql("DROP ARCHIVE old")
    assert [path.name for path in place.iterdir()] == ["notes.txt"]
    with pytest.raises(ArchiveError, match="not empty"):
        session.sql(f"{CREATE} IN '{place}'")


def test_an_update_that_fails_is_tried_once_per_interval(
    session: sash.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    session.sql(CREATE)
    session.run()
    feed, tries = feed_of(session), []
    monkeypatch.setattr(Archive, "update", lambda *args, **kwargs: tries.append(1) or 1 / 0)
    for now in (feed.now + 5 * SECOND, feed.now + 5 * SECOND + 1, feed.now + 5 * SECOND + 2, feed.now + 9 * SECOND):
        feed.advance(now)
    assert len(tries) == 2


def test_an_archive_beside_the_program(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_parts(tmp_path / "s", 0)
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        create(session, tmp_path / "s")
        session.sql(CREATE)
        session.run()
        rows, as_of = found(session)
        assert rows == alive(range(1), as_of) and (tmp_path / "sash-archives" / "old").exists()
        session.sql("DROP ARCHIVE old")


def test_results_that_come_again_in_another_division(session: sash.Session, tmp_path: Path) -> None:
    """A delivery of an epoch that was never committed; then the same results, in two parts."""
    write_parts(tmp_path / "s", 0)
    create(session, tmp_path / "s")
    query = session.register("SELECT k, v FROM s [RANGE 10 sec]", name="q")
    session.sql("CREATE ARCHIVE old FROM q KEY k LIFETIME UP TO 10 sec UPDATE EVERY 2 sec")
    (outlet,) = query.outward.outlets
    feed: ArchiveFeed = outlet.writer.feed

    def changes(*seconds: int) -> pa.Table:
        ts = pa.array([START + second * SECOND for second in seconds]).cast(INSTANT)
        exp = pa.array([START + (second + 10) * SECOND for second in seconds]).cast(INSTANT)
        numbers = pa.array(seconds, pa.int32())
        return pa.table({"k": numbers, "v": numbers, TS: ts, EXP: exp, SIGN: pa.array([1] * len(seconds), pa.int8())})

    feed.take_changes(to_datetime(START + 2 * SECOND), changes(1))
    feed.inbox.put(START + 3 * SECOND, with_times_of(changes(3, 4, 5, 8)))
    again = ArchiveFeed(feed.declared, feed.archive, lambda: session.spark)
    again.take_changes(to_datetime(START + 4 * SECOND), changes(3, 4))
    again.take_changes(to_datetime(START + 9 * SECOND), changes(5, 8, 9))
    rows, _ = again.probe(KeyValues("k", pa.array(range(10), pa.int32())))
    assert sorted(rows["v"].to_pylist()) == [1, 3, 4, 5, 8, 9]


def with_times_of(changes: pa.Table) -> pa.Table:
    inserted, expires = (changes[name].cast(pa.int64()).to_pylist() for name in (TS, EXP))
    return with_times(changes.select(["k", "v"]), inserted, expires)
