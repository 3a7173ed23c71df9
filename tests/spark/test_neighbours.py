"""What goes on beside the stream: in which pool, in how many tasks, and with the stream's own thread left alone."""

from __future__ import annotations

import threading
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import to_datetime
from sash.runtime.answers.answer import Answer
from sash.spark import pools as neighbours
from tests.runtime.test_session import create, files

pytestmark = pytest.mark.spark
POOL = "spark.scheduler.pool"
QUERY = "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k"
QUESTION = "SELECT a.k, COUNT(*) AS n FROM s [WINDOW 10 sec] a JOIN s [WINDOW 10 sec] b ON a.v = b.v GROUP BY a.k"


def pool(spark: Any) -> str | None:
    return spark.sparkContext.getLocalProperty(POOL)


def test_pools_are_those_of_the_file(spark: Any) -> None:
    context = spark.sparkContext._jsc.sc()
    with neighbours.allocation_file(3) as address:
        path = Path(address.removeprefix("file://"))
        pools = {each.get("name"): each for each in ET.parse(path).getroot()}
    assert not path.exists()
    others = {neighbours.QUESTIONS, neighbours.SINKS, neighbours.ARCHIVES}
    assert pools.keys() == {neighbours.STREAM, neighbours.PANES, *others}
    assert [pools[name].findtext("weight") for name in (neighbours.PANES, *sorted(others))] == ["4", "1", "1", "1"]
    assert pools[neighbours.STREAM].findtext("minShare") == "3"
    assert context.getPoolForName(neighbours.STREAM).get().minShare() >= 1, "the session has read such a file"
    assert context.getPoolForName(neighbours.QUESTIONS).get().minShare() == 0


def test_panes_in_the_cluster_have_a_pool_of_their_own(spark: Any) -> None:
    """What a micro-batch waits for; a question over them is a question."""
    with neighbours.in_pool(spark, neighbours.STREAM):
        with neighbours.answering(spark) as beside:
            assert pool(spark) == neighbours.PANES and beside is not spark
        assert pool(spark) == neighbours.STREAM
    with neighbours.answering(spark):
        assert pool(spark) == neighbours.QUESTIONS
    assert pool(spark) is None


def test_a_pool_is_left_as_it_was_found(spark: Any) -> None:
    assert pool(spark) is None
    with neighbours.in_pool(spark, neighbours.QUESTIONS):
        assert pool(spark) == neighbours.QUESTIONS
        with pytest.raises(ValueError, match="no"), neighbours.in_pool(spark, neighbours.SINKS):
            raise ValueError("no")
        assert pool(spark) == neighbours.QUESTIONS
    assert pool(spark) is None
    with neighbours.in_pool(spark, neighbours.STREAM), neighbours.in_pool(spark, neighbours.SINKS):
        assert pool(spark) == neighbours.STREAM, "what the stream waits for is its own"


@pytest.mark.parametrize("live", [True, False])
def test_micro_batches_run_in_the_pool_of_the_stream(spark: Any, tmp_path: Path, live: bool) -> None:
    files(tmp_path / "data", 3)
    seen, asked = [], []
    with sash.connect(spark=spark) as session:
        create(session, tmp_path / "data", "KEEP 10 sec")
        query, enough = session.register(QUERY, name="q"), threading.Event()

        def look(answer: sash.Answer) -> None:
            seen.append(pool(spark))
            asked.append(session.query(QUESTION).num_rows)
            enough.set()

        query.subscribe(look)
        if live:
            session.start(trigger="100 ms")
            enough.wait()
            session.stop()
        else:
            session.run()
        assert not query.subscriber_errors
    # The end of the input, which closes the last panes, is on the thread of run().
    others = set() if live else {None}
    assert seen[0] == neighbours.STREAM and set(seen) == {neighbours.STREAM, *others} and asked
    assert pool(spark) is None


def test_a_question_is_cut_into_small_tasks_and_leaves_nothing_behind(spark: Any) -> None:
    rows = pa.table({"x": list(range(1_000))})
    before = spark.conf.get("spark.sql.shuffle.partitions")
    with neighbours.asking(spark) as beside:
        assert pool(spark) == neighbours.QUESTIONS
        frame = beside.createDataFrame(rows)
        assert frame.rdd.getNumPartitions() >= 8
        frame.createOrReplaceTempView("only_here")
        assert not spark.catalog.tableExists("only_here")
        beside.catalog.dropTempView("only_here")
    with neighbours.asking(spark) as again:
        assert again is beside
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_questions_follow_the_settings_of_the_session(spark: Any) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    with neighbours.asking(other) as beside:
        assert beside.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"


def test_a_sink_has_a_pool_of_its_own_outside_of_micro_batches(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sash.spark import sinks

    seen: list[str | None] = []
    frame_of = sinks.frame_of
    monkeypatch.setattr(sinks, "frame_of", lambda *given: seen.append(pool(spark)) or frame_of(*given))
    sink = sinks.Sink(spark, "json", {"path": str(tmp_path / "out")})
    sink.write([Answer("q", to_datetime(0), True, True, pa.table({"x": [1]}))])
    assert seen == [neighbours.SINKS]
