"""CREATE STREAM .. FROM pcap: a capture is asked like any stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sash
from sash.cli import app
from sash.core.clock import ManualClock
from tests.support.captures import RAW, START, classic, ipv4, tcp, udp

pytestmark = pytest.mark.spark

TALKERS = "SELECT TOP(2, src, SUM(length)) FROM p [WINDOW 10 sec SLIDE 5 sec]"


@pytest.fixture
def session(spark: Any) -> Iterator[sash.Session]:
    with sash.connect(spark=spark, clock=ManualClock()) as opened:
        yield opened


def packets(first: int, last: int) -> list[tuple[int, bytes]]:
    """One a second: from 10.0.0.1 every second time, from 10.0.0.2 and 10.0.0.3 every fourth."""
    found = []
    for second in range(first, last):
        host = 1 if second % 2 else 2 + second // 2 % 2
        body = tcp(1_000 + second, 443) if host == 1 else udp(53, second)
        found.append((START + second * 1_000_000, ipv4(f"10.0.0.{host}", "10.0.0.9", 6 if host == 1 else 17, body)))
    return found


def last(query: sash.Query) -> list[dict[str, Any]]:
    answer = query.latest()
    assert query.error is None and answer is not None
    return answer.table.to_pylist()


def test_a_script_over_a_capture_gives_the_top_talkers(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "trace.pcap").write_bytes(classic(packets(1, 21), RAW))
    script = tmp_path / "talkers.sql"
    script.write_text(
        f"CREATE STREAM p FROM pcap OPTIONS (path '{tmp_path}/*.pcap');\nREGISTER QUERY talkers AS {TALKERS};"
    )
    result = CliRunner().invoke(app, ["run", str(script), "--until-drained", "--json"])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line)["rows"] for line in result.stdout.splitlines()]
    assert rows[-1] == [{"src": "10.0.0.1", "weight": 200}, {"src": "10.0.0.2", "weight": 84}]


def test_a_capture_is_followed_while_it_grows(spark: Any, tmp_path: Path) -> None:
    """Over a restart, too, and with a packet that is half there when the first session ends."""
    path, whole = tmp_path / "trace.pcap", classic(packets(1, 41), RAW)
    text = "SELECT COUNT(*) AS n, COUNT(tcp_flags) AS tcp FROM p [WINDOW 1 hour SLIDE 1 sec]"
    cut = whole.index(packets(20, 21)[0][1]) + 3
    for size in (cut, len(whole)):
        path.write_bytes(whole[:size])
        with sash.connect(spark=spark, checkpoint=tmp_path / "state", clock=ManualClock()) as session:
            session.sql(f"CREATE STREAM p FROM pcap OPTIONS (path '{path}') TIMESTAMP ts")
            query = session.register(text, name="q")
            session.run()
            assert session.stats()["late_tuples"] == 0
            assert last(query) == [{"n": 19 if size == cut else 40, "tcp": 10 if size == cut else 20}]


def test_live_what_is_appended_comes_with_the_next_micro_batch(session: sash.Session, tmp_path: Path) -> None:
    path, whole = tmp_path / "trace.pcap", classic(packets(1, 21), RAW)
    half = whole.index(packets(11, 12)[0][1]) - 16
    path.write_bytes(whole[:half])
    session.sql(f"CREATE STREAM p FROM pcap OPTIONS (path '{path}')")
    query = session.register("SELECT COUNT(*) AS n FROM p [WINDOW 1 hour SLIDE 1 sec]", name="q")
    session.start(trigger="0 seconds")
    for tuples in (10, 20):
        while session.stats()["tuples"] < tuples:
            assert not session.wait(0.05)
        with open(path, "ab") as file:
            file.write(whole[half:] if tuples == 10 else b"")
    session.stop()
    assert last(query) == [{"n": 19}], "the last pane is open"


def test_a_micro_batch_has_as_many_files_as_it_may_and_some_columns_are_enough(
    session: sash.Session, tmp_path: Path
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.pcap").write_bytes(classic(packets(number * 10, number * 10 + 10), RAW))
    session.sql(
        f"CREATE STREAM p (dst_port INT, ts TIMESTAMP) FROM pcap OPTIONS (path '{tmp_path}', MaxFilesPerTrigger '2') "
        "TIMESTAMP ts"
    )
    query = session.register("SELECT COUNT(*) AS n, MAX(dst_port) AS port FROM p [WINDOW 1 hour SLIDE 1 hour]", "q")
    session.run()
    assert session.stats()["streams"]["p"]["micro_batches"] == 2 and last(query) == [{"n": 29, "port": 443}]


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ("", "", "FROM pcap needs a path"),
        ("", "OPTIONS (path 'nowhere.pcap')", "there is no capture file /.*/nowhere.pcap"),
        ("", "OPTIONS (path '*.pcap', maxFilesPerTrigger 'two')", "maxFilesPerTrigger is a number of files, not 'two'"),
        ("(ts TIMESTAMP, sorce STRING)", "OPTIONS (path '*.pcap')", "no column 'sorce'; did you mean"),
        ("(ts TIMESTAMP, src INT)", "OPTIONS (path '*.pcap')", "column 'src' of a capture is string, not int32"),
    ],
)
def test_what_cannot_work_is_said_at_once(session: sash.Session, columns: str, options: str, reason: str) -> None:
    with pytest.raises(sash.SourceError, match=reason):
        session.sql(f"CREATE STREAM p {columns} FROM pcap {options} TIMESTAMP ts")


def test_a_broken_capture_stops_the_stream_with_its_name_and_the_byte(session: sash.Session, tmp_path: Path) -> None:
    good = classic(packets(1, 11), RAW)
    (tmp_path / "trace.pcap").write_bytes(good + b"\xff" * 100)
    session.sql(f"CREATE STREAM p FROM pcap OPTIONS (path '{tmp_path}')")
    session.register(TALKERS, name="q")
    with pytest.raises(sash.SourceError, match=rf"stream 'p' .*trace\.pcap is broken at byte {len(good)}: a packet of"):
        session.run()


def test_spark_reads_captures_as_a_table_too(spark: Any, tmp_path: Path) -> None:
    from sash.spark.pcap.source import PcapSource

    for number in range(3):
        (tmp_path / f"{number}.pcap").write_bytes(classic(packets(number * 10, number * 10 + 10), RAW))
    spark.dataSource.register(PcapSource)
    frame = spark.read.format("pcap").load(str(tmp_path))
    assert frame.count() == 30 and frame.where("protocol = 'TCP'").count() == 15
    assert spark.read.format("pcap").load(str(tmp_path / "none-*")).count() == 0


def test_other_sources_need_their_columns_and_their_event_time(session: sash.Session) -> None:
    with pytest.raises(sash.SourceError, match=r"a stream from csv needs its columns: CREATE STREAM name \(ts"):
        session.sql("CREATE STREAM s FROM csv OPTIONS (path 'x') TIMESTAMP ts")
    with pytest.raises(sash.CqlError, match="expected TIMESTAMP and the column that carries event time"):
        session.sql("CREATE STREAM s FROM rate")
