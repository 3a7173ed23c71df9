"""One-time questions over stored windows, on Spark: against DuckDB, after a restart, while the stream runs."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_datetime, to_micros
from sash.runtime.asking.on_spark import frame
from sash.runtime.stored.stored_indexes import TIME
from tests.runtime.test_session import create, write
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition

pytestmark = pytest.mark.spark
# What Spark and DuckDB read alike.
ROWS = [
    "SELECT v FROM s [RANGE 10 sec] WHERE k = 1",
    "SELECT k, v FROM s [RANGE 3 sec] x WHERE x.v % 2 = 0 OR x.k IS NULL",
    "SELECT v FROM s [ROWS 7]",
    "SELECT k, v FROM s [PARTITION BY k ROWS 2]",
    "SELECT a.k, a.v, b.v AS w FROM s [RANGE 4 sec] a JOIN s [RANGE 2 sec] b ON a.k = b.k AND a.v < b.v",
    "SELECT a.v FROM s [RANGE 4 sec] a LEFT JOIN s [ROWS 3] b ON a.v = b.v WHERE b.v IS NULL",
    "SELECT k, n.name FROM s [RANGE 5 sec] JOIN names n USING (k)",
    "SELECT k FROM s [RANGE 10 sec] EXCEPT SELECT k FROM s [RANGE 1 sec]",
    "SELECT k FROM s [RANGE 2 sec] INTERSECT SELECT k FROM s [RANGE 12 sec]",
    "SELECT DISTINCT k FROM s [RANGE 12 sec]",
    "SELECT v FROM s [RANGE 5 sec] WHERE v > (SELECT AVG(v) FROM s [RANGE 12 sec])",
    "SELECT v FROM s [RANGE 5 sec] x WHERE EXISTS (SELECT 1 FROM s [RANGE 12 sec] y WHERE y.v = x.v - 20)",
    "SELECT k, COUNT(*) AS n FROM (SELECT k FROM s [RANGE 12 sec] WHERE v > 5) z GROUP BY k",
    "SELECT name FROM names WHERE k > 0",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM s [RANGE 5 sec]",
    "SELECT COUNT(*) AS n, SUM(v) AS t, MIN(v) AS lo FROM s [RANGE 11 sec] WHERE k <> 2",
    "SELECT k, MAX(v) AS hi, COUNT(DISTINCT v) AS n FROM s [RANGE 12 sec] GROUP BY k",
    "SELECT SUM(v) AS t FROM s [ROWS 9]",
]


CLUSTER = "STORED IN CLUSTER"
# Streams that store the same in both places; the rest of a CREATE STREAM .. KEEP.
PLACES = {"near": "", "far": CLUSTER}


def data(directory: Path) -> pa.Table:
    """Five tuples a second for twenty seconds, in two files; some have no timestamp."""
    rows: list[tuple[float | None, int, int]] = [(i / 5 + 0.05, i % 4, i) for i in range(100)]
    for part in range(2):
        write(directory, part, [*rows[part * 50 : part * 50 + 50], (None, 0, -1)])
    stamps = [START + round((seconds or 0) * SECOND) for seconds, _, _ in rows]
    columns = {"_us": stamps, "k": [k for _, k, _ in rows], "v": [v for _, _, v in rows]}
    return pa.table(columns)


def declare(session: sash.Session, name: str, directory: Path, clauses: str) -> None:
    session.sql(
        f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT) FROM parquet "
        f"OPTIONS (path '{directory}', maxFilesPerTrigger '1') TIMESTAMP ts {clauses}"
    )


@pytest.fixture(scope="module")
def asked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sash.Session, Definition]]:
    """A session whose streams read the same files: `s` is asked most, the others store more, elsewhere, or nothing."""
    directory = tmp_path_factory.mktemp("data") / "s"
    table = data(directory)
    names = pa.table({"k": [0, 1, 2], "name": ["zero", "one", "two"]})
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        declare(session, "s", directory, "KEEP 12 sec")
        declare(session, "near", directory, "KEEP 1 min")
        declare(session, "far", directory, f"KEEP 1 min {CLUSTER}")
        declare(session, "bare", directory, "")
        session.register("SELECT k, SUM(v) AS t FROM near [WINDOW 8 sec SLIDE 2 sec] GROUP BY k", name="sums")
        session.register("SELECT COUNT(*) AS n FROM bare [WINDOW 2 sec SLIDE 2 sec]", name="counts")
        session.sql("CREATE TABLE names (k INT PRIMARY KEY, name STRING)")
        session.sql("INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two')")
        session.run()
        yield session, Definition({"s": table, "names": names})


def told(answer: pa.Table) -> tuple[datetime, bool]:
    metadata = answer.schema.metadata
    return datetime.fromisoformat(metadata[b"as_of"].decode()), json.loads(metadata[b"complete"])


def rows_of(answer: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True))


@pytest.mark.parametrize("text", ROWS)
def test_equals_duckdb(asked: tuple[sash.Session, Definition], text: str) -> None:
    session, definition = asked
    answer = session.query(text)
    assert rows_of(answer) == definition.answer(text, START + 20 * SECOND)
    if b"as_of" in answer.schema.metadata:
        assert to_micros(told(answer)[0]) == START + 20 * SECOND


@pytest.mark.parametrize("stream", ["near", "far"])
def test_complete_says_whether_the_whole_window_is_there(asked: tuple[sash.Session, Definition], stream: str) -> None:
    session, _ = asked
    assert told(session.query(f"SELECT v FROM {stream} [WINDOW 20 sec]"))[1]
    assert not told(session.query(f"SELECT v FROM {stream} [WINDOW 21 sec]"))[1]
    assert told(session.query(f"SELECT COUNT(*) AS n FROM {stream} [WINDOW 20 sec]"))[1]
    assert not told(session.query(f"SELECT COUNT(*) AS n FROM {stream} [WINDOW 21 sec]"))[1]
    assert told(session.query(f"SELECT v FROM {stream} [ROWS 100]"))[1]
    assert not told(session.query(f"SELECT v FROM {stream} [ROWS 101]"))[1]


def test_a_synopsis_goes_first_and_agrees(asked: tuple[sash.Session, Definition]) -> None:
    session, _ = asked
    latest = session.queries["sums"].latest()
    assert latest is not None
    text = "SELECT k, SUM(v) AS t FROM near [WINDOW 8 sec] GROUP BY k"
    assert rows_of(session.query(text)) == rows_of(latest.table)
    finer = "SELECT k, SUM(v) AS t FROM near [WINDOW 3 sec] GROUP BY k"
    assert rows_of(session.query(finer)) == rows_of(session.query(f"SELECT k, t FROM ({finer}) x"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT v FROM s [WINDOW 13 sec]", r"stores its rows for 12 sec.*looks back 13 sec: KEEP 13 sec would"),
        ("SELECT COUNT(*) FROM s [WINDOW 13 sec]", r"KEEP 13 sec would make it possible"),
        ("SELECT v FROM s [UNBOUNDED]", r"no \[UNBOUNDED\] window"),
        ("SELECT v FROM s [WINDOW 5 sec SLIDE 1 sec]", "leave out SLIDE"),
        ("SELECT v FROM s", r"no \[UNBOUNDED\] window: give a WINDOW"),
        ("SELECT v FROM r [WINDOW 5 sec]", "unknown stream 'r'"),
        ("SELECT nothing FROM s [WINDOW 5 sec]", "unknown column 'nothing'"),
        ("SELECT v FROM names [WINDOW 5 sec]", "is a table, which has no window"),
        ("SELECT Istream(v) FROM s [WINDOW 5 sec]", "stream of changes"),
        ("SELECT v / 0 FROM s [WINDOW 5 sec]", "by zero"),
    ],
)
def test_refusals_name_the_way_out(asked: tuple[sash.Session, Definition], text: str, reason: str) -> None:
    with pytest.raises(sash.SashError, match=reason):
        asked[0].query(text)


@pytest.mark.parametrize("text", ["SELECT v FROM bare [WINDOW 5 sec]", "SELECT SUM(v) AS t FROM bare [WINDOW 5 sec]"])
def test_without_keep_the_refusal_says_which_would_do(asked: tuple[sash.Session, Definition], text: str) -> None:
    with pytest.raises(sash.SashError, match=r"CREATE STREAM \.\. KEEP 5 sec would make it possible"):
        asked[0].query(text)


def test_keep_is_checked(spark: Any, tmp_path: Path) -> None:
    data(tmp_path / "s")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        with pytest.raises(sash.SashError, match="KEEP must be a multiple of its GRANULE, 1 sec, not 1500 ms"):
            create(session, tmp_path / "s", "KEEP 1500 ms")
        create(session, tmp_path / "s", "KEEP 12 sec")
        with pytest.raises(sash.SashError, match="stored yet"):
            session.query("SELECT v FROM s [WINDOW 5 sec]")


def test_rows_that_cannot_be_parsed_are_not_stored(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.csv").write_text(
        "2024-01-01 00:00:01,1\nnonsense\n2024-01-01 00:00:02,x\n2024-01-01 00:00:03,3\n"
    )
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for name, place in PLACES.items():
            session.sql(
                f"CREATE STREAM {name} (ts TIMESTAMP, v INT) FROM csv OPTIONS (path '{tmp_path / 's'}') "
                f"TIMESTAMP ts KEEP 10 sec {place}"
            )
        session.run()
        for name in PLACES:
            assert rows_of(session.query(f"SELECT v FROM {name} [WINDOW 5 sec]")) == Counter([(1,), (3,)])
            both = session.query(f"SELECT SUM(v) AS t, MEDIAN(v) AS m FROM {name} [WINDOW 5 sec]")
            assert rows_of(both) == Counter([(4, 2.0)])


def test_restart_before_every_micro_batch(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored rows survive, in a snapshot or after it; unneeded files go."""
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 2)
    rows: list[tuple[float | None, int, int]] = [(i / 5 + 0.05, i % 4, i) for i in range(100)]
    for part in range(5):
        write(tmp_path / "s", part, rows[part * 20 : part * 20 + 20])
        with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
            for name, place in PLACES.items():
                declare(session, name, tmp_path / "s", f"KEEP 6 sec {place} DELAY 1 sec")
                if part:
                    before = rows_of(session.query(f"SELECT v FROM {name} [WINDOW 6 sec]"))
                    assert before == Counter((v,) for v in range(max(0, part * 20 - 30), part * 20))
            session.start(trigger="0 seconds")
            while any(each.runtime.statistics.tuples < 20 * (part + 1) for each in session.streams.values()):
                assert not session.wait(0.05)
            session.stop()
            for name in PLACES:
                session.advance(name, START + (part + 1) * 4 * SECOND + 1)
                after = rows_of(session.query(f"SELECT v FROM {name} [WINDOW 6 sec]"))
                assert after == Counter((v,) for v in range(max(0, part * 20 - 10), part * 20 + 20))
    for name in PLACES:
        (directory,) = (tmp_path / "c" / "streams").glob(f"*{name}*")
        assert 2 <= len(list(directory.rglob("entry-*-kept.arrow"))) <= 4
        panes = [path for path in directory.rglob("_pane=*") if path.is_dir()]
        assert len(panes) == (6 if name == "far" else 0), "all that are in the window, and none that has left it"


def test_any_thread_may_ask_while_the_stream_runs(spark: Any, tmp_path: Path) -> None:
    """Every answer is a window as it was at its time: tuples of five to a second, none missing, none twice."""
    for part in range(6):
        write(tmp_path / "s", part, [(part + i / 5 + 0.05, i % 4, part * 5 + i) for i in range(5)])
    problems: list[str] = []
    done = threading.Event()

    def look(session: sash.Session, name: str) -> None:
        while True:
            is_last = done.is_set()
            try:
                answer = session.query(f"SELECT v FROM {name} [WINDOW 4 sec]")
            except sash.SashError as error:
                if is_last or "stored yet" not in str(error):
                    problems.append(str(error))
            else:
                last = (to_micros(told(answer)[0]) - START) // SECOND * 5
                if rows_of(answer) != Counter((v,) for v in range(max(0, last - 20), last)):
                    problems.append(f"as of {last}: {sorted(answer['v'].to_pylist())}")
            if is_last:
                return

    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for name, place in PLACES.items():
            declare(session, name, tmp_path / "s", f"KEEP 5 sec {place}")
        threads = [threading.Thread(target=look, args=(session, name)) for name in PLACES]
        for thread in threads:
            thread.start()
        try:
            session.run()
        finally:
            done.set()
        for thread in threads:
            thread.join()
    assert problems == []


INDEXED = [
    "SELECT v FROM s [WINDOW 10 sec] WHERE k = 3 ORDER BY v",
    "SELECT v FROM s [WINDOW 4 sec] x WHERE (x.k = 2 AND v > 50) ORDER BY v",
    "SELECT v FROM s [WINDOW 12 sec] WHERE v IN (41, 90, 91, 7) ORDER BY v",
    "SELECT v FROM s [WINDOW 12 sec] WHERE 91 = v",
    "SELECT v FROM s [WINDOW 12 sec] WHERE v = 91.5",
    "SELECT v FROM s [WINDOW 12 sec] WHERE v = '91'",
    "SELECT v FROM s [WINDOW 12 sec] WHERE v = 99999999999",
    "SELECT v FROM s [WINDOW 12 sec] WHERE v = 91 OR k = 1 ORDER BY v",
    "SELECT a.v, b.v AS w FROM s [WINDOW 12 sec] a LEFT JOIN s [WINDOW 5 sec] b ON a.v = b.v WHERE a.v = 91",
    "SELECT a.v FROM s [WINDOW 12 sec] a LEFT JOIN s [WINDOW 5 sec] b ON a.v = b.v AND b.v = 95 WHERE a.k = 0",
    "SELECT a.v, b.v AS w FROM s [WINDOW 12 sec] a RIGHT JOIN s [WINDOW 5 sec] b ON a.v = b.v WHERE a.v = 91",
    "SELECT v FROM s [WINDOW 5 sec] WHERE v = 91 UNION ALL SELECT v FROM s [WINDOW 12 sec] WHERE v = 45",
    "SELECT (SELECT MAX(k) FROM s [WINDOW 12 sec] WHERE v = 91) AS k, COUNT(*) AS n FROM s [WINDOW 5 sec] WHERE k = 1",
    "SELECT v FROM s [ROWS 5] WHERE v = 97",
    "SELECT a.v, b.v AS w FROM s [WINDOW 12 sec] a JOIN s [WINDOW 12 sec] b ON a.v = b.v WHERE a.k = 1 AND b.v = 93",
    "SELECT a.v, b.k FROM s [ROWS 3] a LEFT JOIN s [WINDOW 12 sec] b ON a.v = b.v ORDER BY a.v",
    "SELECT a.k, b.v FROM s [WINDOW 5 sec] a RIGHT JOIN s [ROWS 4] b USING (v) ORDER BY b.v",
    "SELECT k, v FROM s [WINDOW 12 sec] ORDER BY v DESC LIMIT 3",
    "SELECT * FROM s [WINDOW 7 sec LAG 2 sec] ORDER BY v LIMIT 3 OFFSET 2",
    "SELECT -v AS v FROM s [WINDOW 12 sec] ORDER BY v LIMIT 3",
    "SELECT * FROM s [WINDOW 12 sec] ORDER BY v DESC",
    "SELECT k + v AS n, *, k AS kk FROM s [WINDOW 7 sec LAG 2 sec] WHERE v % 3 < 2 ORDER BY s.k, v DESC",
    "SELECT ts FROM s [WINDOW 12 sec] WHERE k = 1 AND v > 50 ORDER BY v",
    "SELECT v AS k, k AS v FROM s [WINDOW 12 sec] ORDER BY k",
    "SELECT v FROM s [WINDOW 12 sec] WHERE v < 0 ORDER BY k",
    "SELECT MEDIAN(v) AS m FROM s [WINDOW 12 sec]",
    "SELECT COUNT(DISTINCT v) AS n FROM s [WINDOW 12 sec]",
    "SELECT TOP(3, k) FROM s [WINDOW 12 sec]",
    "SELECT HISTOGRAM(k) FROM s [WINDOW 12 sec]",
    "SELECT QUANTILE(v, 0.9) AS q, MODE(v) AS m FROM s [WINDOW 12 sec]",
    "SELECT MEDIAN(v) AS m FROM s [WINDOW 11 sec]",
    "SELECT MEDIAN(v) AS m FROM s [WINDOW 12 sec] WHERE k = 1",
]
# One for each way in which an index serves.
WAYS = [
    "SELECT v FROM s [WINDOW 12 sec] WHERE v IN (41, 90, 91, 7) ORDER BY v",
    "SELECT a.v, b.k FROM s [ROWS 3] a LEFT JOIN s [WINDOW 12 sec] b ON a.v = b.v ORDER BY a.v",
    "SELECT k, v FROM s [WINDOW 12 sec] ORDER BY v DESC LIMIT 3",
    "SELECT k + v AS n, *, k AS kk FROM s [WINDOW 7 sec LAG 2 sec] WHERE v % 3 < 2 ORDER BY s.k, v DESC",
    "SELECT QUANTILE(v, 0.9) AS q, MODE(v) AS m FROM s [WINDOW 12 sec]",
]


def test_with_and_without_indexes_and_after_a_restart(spark: Any, tmp_path: Path) -> None:
    data(tmp_path / "s")
    made = [("v", "db"), ("v", "tree"), ("k", "aux"), ("k", "hash")]
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "s", "KEEP 12 sec")
        session.sql("CREATE INDEX ON s (ts) USING list")
        session.run()
        without = [session.query(text) for text in INDEXED]
        for column, kind in made:
            session.sql(f"CREATE INDEX ON s ({column}) USING {kind}")
        session.sql("DROP INDEX ON s (ts)")
        assert [session.query(text) for text in INDEXED] == without
        assert "found by the db index on v, which has" in session.explain("SELECT k FROM s [WINDOW 5 sec] WHERE v = 91")
        assert "the first 3 rows, and those" in session.explain("SELECT v FROM s [WINDOW 5 sec] ORDER BY v LIMIT 3")
        assert "Spark does not sort" in session.explain("SELECT v FROM s [WINDOW 5 sec] WHERE k > 1 ORDER BY v")
        assert "has 4 values, too few" in session.explain("SELECT v FROM s [WINDOW 5 sec] WHERE k = 1")
        assert "Instead of the rows: the tree index" in session.explain("SELECT MEDIAN(v) AS m FROM s [WINDOW 12 sec]")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        shown = session.sql("SHOW INDEXES")
        assert isinstance(shown, pa.Table)
        assert [(row["column"], row["kind"]) for row in shown.to_pylist()] == made
        session.sql("CREATE INDEX ON s (v) USING db")
        with pytest.raises(sash.SashError, match="already"):
            session.sql("CREATE INDEX ON s (v) USING db")
        assert [session.query(text) for text in WAYS] == [without[INDEXED.index(text)] for text in WAYS]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE INDEX ON z (v)", "unknown stream 'z'"),
        ("CREATE INDEX ON s (z)", "unknown column 'z'"),
        ("CREATE INDEX ON s (v, k)", "an index has one"),
        ("CREATE INDEX ON s (v) USING trie", "unknown index 'trie'.*tree"),
        ("DROP INDEX ON s (v)", "no such index"),
    ],
)
def test_indexes_are_checked(asked: tuple[sash.Session, Definition], text: str, reason: str) -> None:
    with pytest.raises(sash.SashError, match=reason):
        asked[0].sql(text)


def lines(directory: Path, seconds: int) -> None:
    write(directory, 0, [(second + 0.5, second % 2, second) for second in range(seconds)])


def test_several_streams_are_asked_as_of_one_time(spark: Any, tmp_path: Path) -> None:
    """Two streams, one of which is behind: as of the least time while both go on, as of the greatest at the end."""
    lines(tmp_path / "long", 20)
    lines(tmp_path / "short", 12)
    text = "SELECT a.v, b.v AS w FROM {} [WINDOW 10 sec] a LEFT JOIN {} [WINDOW 5 sec] b ON a.v = b.v"
    pairs = [("near_long", "near_short"), ("near_long", "far_short"), ("far_long", "far_short")]
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for name in {name for pair in pairs for name in pair}:
            place, length = name.split("_")
            declare(session, name, tmp_path / length, f"KEEP 1 min {PLACES[place]}")
        session.run()
        for pair in pairs:
            ended = session.query(text.format(*pair))
            assert told(ended) == (to_datetime(START + 20 * SECOND), True), pair
            assert rows_of(ended) == Counter((v, None) for v in range(10, 20)), pair
        for running in session.streams.values():
            assert running.stored_window is not None
            running.stored_window.has_ended = False
        for pair in pairs:
            going = session.query(text.format(*pair))
            assert told(going) == (to_datetime(START + 12 * SECOND), True), pair
            assert rows_of(going) == Counter((v, v if v >= 7 else None) for v in range(2, 12)), pair
            assert len(session.query(f"{text.format(*pair)} WHERE a.v = 8")) == 1


def test_names_of_a_window_may_be_given_anew(asked: tuple[sash.Session, Definition]) -> None:
    plain = "SELECT v FROM s [WINDOW 5 sec] WHERE k = 1"
    renamed = "SELECT k FROM s [WINDOW 5 sec] AS x (t, v, k) WHERE x.v = 1"
    assert rows_of(asked[0].query(plain)) == rows_of(asked[0].query(renamed))


def test_rows_that_are_stored_go_before_a_synopsis_that_came_later(spark: Any, tmp_path: Path) -> None:
    lines(tmp_path / "s", 8)
    text = "SELECT COUNT(*) AS n FROM {} [WINDOW 8 sec]"
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for name, place in PLACES.items():
            declare(session, name, tmp_path / "s", f"KEEP 1 min {place}")
        session.run()
        for name in PLACES:
            answer = session.query(text.format(name))
            assert (answer["n"].to_pylist(), told(answer)[1]) == ([8], True)
            session.register(f"SELECT COUNT(*) AS n FROM {name} [WINDOW 8 sec SLIDE 1 sec]", name=f"late_{name}")
        write(tmp_path / "s", 1, [(8.5, 0, 8), (9.5, 0, 9)])
        session.run()
        for name in PLACES:
            answer = session.query(text.format(name))
            assert (answer["n"].to_pylist(), told(answer)[1]) == ([8], True)


def test_a_partition_is_never_complete(asked: tuple[sash.Session, Definition]) -> None:
    assert not told(asked[0].query("SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 2] GROUP BY k"))[1]
    assert not told(asked[0].query("SELECT k, v FROM s [PARTITION BY k ROWS 2]"))[1]


def test_an_index_of_a_checkpoint_may_be_dropped_and_made_again(spark: Any, tmp_path: Path) -> None:
    lines(tmp_path / "s", 3)
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        create(session, tmp_path / "s", "KEEP 1 min")
        session.sql("CREATE INDEX ON s (v)")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c", clock=ManualClock()) as session:
        session.sql("DROP INDEX ON s (v)")
        session.sql("CREATE INDEX ON s (v)")
        shown = session.sql("SHOW INDEXES")
        assert isinstance(shown, pa.Table) and shown["column"].to_pylist() == ["v"]


def test_timestamps_without_a_zone_stay_so(spark: Any) -> None:
    frame = spark.sql("SELECT TIMESTAMP_NTZ'2024-01-01 00:00:00.5' AS ts, 1 AS v")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        for place in ("memory", "cluster"):
            session.create_stream(f"in_{place}", frame, timestamp="ts", keep="5 sec", keep_in=place)
        session.run()
        for place in ("memory", "cluster"):
            answer = session.query(f"SELECT ts FROM in_{place} [WINDOW 5 sec]")
            assert answer.schema.field("ts").type == pa.timestamp("us") and len(answer) == 1


def test_rows_behind_an_empty_piece_get_to_spark(spark: Any) -> None:
    some = pa.table({"v": [1, 2, 3], TIME: [0, 0, 0]})
    pieces = pa.concat_tables([some.slice(0, 0), some, some.slice(0, 0), some])
    assert frame(spark, pieces).toArrow()["v"].to_pylist() == [1, 2, 3, 1, 2, 3]
