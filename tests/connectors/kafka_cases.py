"""What test_kafka.py runs: the broker's address is in SASH_TEST_KAFKA, the connector in Spark."""

from __future__ import annotations

import errno
import json
import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.faults import listening
from sash.core.time import SECOND, to_datetime
from sash.spark.kafka import MessageWriter
from tests.runtime.test_log_events import events
from tests.runtime.test_max_lag import ClockOfTuples
from tests.support.streams import START

pytestmark = pytest.mark.spark
SERVERS = {"kafka.bootstrap.servers": os.environ.get("SASH_TEST_KAFKA", "")}
COLUMNS = "(ts TIMESTAMP, k INT, v INT)"


@pytest.fixture
def topic(spark: Any) -> str:
    name = f"t-{uuid.uuid4().hex}"
    create_topic(spark, name, partitions=2)
    return name


def create_topic(spark: Any, name: str, partitions: int) -> None:
    admin = spark._jvm.org.apache.kafka.clients.admin
    settings = spark._jvm.java.util.HashMap()
    settings.put("bootstrap.servers", SERVERS["kafka.bootstrap.servers"])
    client = admin.AdminClient.create(settings)
    topics = spark._jvm.java.util.ArrayList()
    topics.add(admin.NewTopic(name, partitions, 1))
    client.createTopics(topics).all().get()
    client.close()


def send(spark: Any, topic: str, values: Sequence[str | None], key: Callable[[int], str] = str) -> None:
    """By one task: each partition of the topic has its messages in order."""
    rows = [(key(number), value) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "key STRING, value STRING").coalesce(1)
    frame.write.format("kafka").options(**SERVERS).option("topic", topic).save()


def moment(second: float) -> str:
    return to_datetime(START + int(second * SECOND)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def message(second: float, k: Any, v: Any, **more: Any) -> str:
    return json.dumps({"ts": moment(second), "k": k, "v": v, **more})


def received(spark: Any, topic: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    frame = spark.read.format("kafka").options(**SERVERS).option("subscribe", topic).load()
    rows = frame.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value").collect()
    return [(json.loads(row.key), json.loads(row.value)) for row in rows]


def declare(session: sash.Session, topic: str, columns: str = COLUMNS, more: str = "", timestamp: str = "ts") -> None:
    options = f"kafka.bootstrap.servers '{SERVERS['kafka.bootstrap.servers']}', subscribe '{topic}'"
    options += f", startingOffsets 'earliest' {more}"
    session.sql(f"CREATE STREAM s {columns} FROM kafka OPTIONS ({options}) TIMESTAMP {timestamp}")


def last(query: sash.Query) -> list[dict[str, Any]]:
    answer = query.latest()
    assert query.error is None and answer is not None
    return answer.table.to_pylist()


def test_json_becomes_columns_and_what_does_not_is_counted(spark: Any, topic: str) -> None:
    good = [message(i / 10, i % 2, i) for i in range(1, 41)]
    # Another type, no JSON, cut off; then fields that came later, one that is gone, and a message without a value.
    bad = [message(1, "one", 1), "what is this", good[0][:20]]
    drifted = [message(4, 1, 100, colour="red"), json.dumps({"ts": moment(4), "k": 1}), None]
    send(spark, topic, [*good, *bad, *drifted])
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        declare(session, topic)
        query = session.register(
            "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [WINDOW 10 sec SLIDE 1 sec] GROUP BY k ORDER BY k",
            name="q",
        )
        session.run()
        assert last(query) == [
            {"k": 0, "n": 20, "total": sum(range(2, 41, 2))},
            {"k": 1, "n": 22, "total": sum(range(1, 41, 2)) + 100},
        ]
        counted = session.stats()["streams"]["s"]
        assert (counted["unparsable"], counted["null_timestamps"]) == (3, 1)


def test_csv_and_what_the_message_itself_has(spark: Any, topic: str) -> None:
    send(spark, topic, ["1;2.5", "3;4", "no number;1"], key=lambda number: f"key {number}")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        columns = "(a INT, b DOUBLE, kafka_key STRING, kafka_offset BIGINT, kafka_timestamp TIMESTAMP)"
        declare(session, topic, columns, ", value 'csv', value.sep ';'", "kafka_timestamp KEEP 1 hour")
        session.run()
        rows = session.query("SELECT a, b, kafka_key FROM s [WINDOW 1 hour] ORDER BY a").to_pylist()
        assert rows == [{"a": 1, "b": 2.5, "kafka_key": "key 0"}, {"a": 3, "b": 4.0, "kafka_key": "key 1"}]
        assert session.stats()["streams"]["s"]["unparsable"] == 1


def test_without_columns_a_message_is_as_spark_has_it(spark: Any, topic: str) -> None:
    send(spark, topic, ["abc"])
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        declare(session, topic, "", "", "timestamp")
        query = session.register("SELECT COUNT(value) AS n FROM s [WINDOW 1 min SLIDE 1 min]", name="q")
        session.run()
        assert last(query) == [{"n": 1}]


def test_what_cannot_work_is_said_at_once(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        with pytest.raises(sash.SourceError, match=r"a message's value is json or csv, not 'avro'.*create_stream"):
            declare(session, "t", more=", value 'avro'")
        with pytest.raises(sash.SourceError, match="column 'kafka_offset' is the message's own, and int64, not int32"):
            declare(session, "t", "(ts TIMESTAMP, kafka_offset INT)")


def test_nothing_is_lost_or_doubled_over_a_restart(spark: Any, topic: str, tmp_path: Path) -> None:
    text = "SELECT COUNT(*) AS n, SUM(v) AS total FROM s [WINDOW 1 hour SLIDE 1 sec]"
    for part in range(3):
        send(spark, topic, [message(part * 10 + i / 10, 0, part * 100 + i) for i in range(1, 101)])
        with sash.connect(spark=spark, checkpoint=tmp_path / "state", clock=ManualClock()) as session:
            declare(session, topic, more=", maxOffsetsPerTrigger '30'", timestamp="ts DELAY 1 min")
            query = session.register(text, name="q")
            session.run()
            count = (part + 1) * 100
            assert last(query) == [{"n": count, "total": count * (count + 1) // 2}]
            assert session.stats()["late_tuples"] == 0


def test_a_micro_batch_that_was_not_committed_comes_again(spark: Any, topic: str, tmp_path: Path) -> None:
    """Its tuples count once. Its answers may have been sent before: under each key they are the same."""
    out, commits = f"{topic}-out", Counter[str]()
    send(spark, topic, [message(i / 10, 0, i) for i in range(1, 101)])

    def no_third_commit(moment: str, path: Path) -> None:
        if path.name == "manifest.json" and moment == "before rename":
            commits.update([moment])
            if commits[moment] == 3:
                raise OSError(errno.ENOSPC, "no space left")

    for breaks in (True, False):
        with sash.connect(spark=spark, checkpoint=tmp_path / "state", clock=ManualClock()) as session:
            declare(session, topic, more=", maxOffsetsPerTrigger '20'", timestamp="ts DELAY 2 sec")
            query = session.register("SELECT COUNT(*) AS n, SUM(v) AS t FROM s [WINDOW 1 hour SLIDE 1 sec]", name="q")
            query.write_to("kafka", topic=out, **SERVERS)
            if breaks:
                with listening(no_third_commit), pytest.raises(sash.CheckpointError, match="no space left"):
                    session.run()
            else:
                session.run()
                assert last(query) == [{"n": 100, "t": 5050}] and session.stats()["late_tuples"] == 0
    messages: dict[str, dict[str, Any]] = {}
    for key, value in received(spark, out):
        known = messages.setdefault(json.dumps(key), value)
        assert known == value
    assert [value["n"] for value in sorted(messages.values(), key=lambda value: value["as_of"])][-1] == 100
    assert len(messages) == 10


def test_answers_are_messages_with_a_key_of_their_own(spark: Any, topic: str, tmp_path: Path) -> None:
    out = f"{topic}-out"
    send(spark, topic, [message(i, i % 2, i) for i in range(1, 11)])
    with sash.connect(spark=spark, checkpoint=tmp_path / "state", clock=ManualClock()) as session:
        declare(session, topic)
        query = session.register(
            "SELECT k, SUM(v) AS total, NULLIF(k, 1) AS `a b` FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY k ORDER BY k",
            name="sums",
        )
        query.write_to("kafka", topic=out, **SERVERS)
        session.run()
        assert query.error is None and query.sinks()[0]["written"] == query.answered
    found = {(key["as_of"], key["row"]): (key["query"], value) for key, value in received(spark, out)}
    times = [moment(second).replace("000000", "000") for second in (5, 10)]
    rows = [{"k": 0, "total": 6, "a b": 0}, {"k": 1, "total": 9, "a b": None}]
    rows += [{"k": 0, "total": 24, "a b": 0}, {"k": 1, "total": 16, "a b": None}]
    assert found == {
        (times[place // 2], place % 2): ("sums", {"query": "sums", "as_of": times[place // 2], **row})
        for place, row in enumerate(rows)
    }


def test_queries_with_the_same_options_are_written_together_and_in_order(
    spark: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic of one partition has the answers of each query as they came, from one job for each micro-batch."""
    out, writes, write = f"{topic}-out", list[int](), MessageWriter.write
    create_topic(spark, out, partitions=1)
    for part in range(2):
        send(spark, topic, [message(5 * part + i / 2, i % 2, i) for i in range(1, 11)])
    monkeypatch.setattr(
        MessageWriter, "write", lambda writer, answers: (writes.append(len(answers)), write(writer, answers))
    )
    texts = {
        "one": "SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec SLIDE 1 sec] GROUP BY k ORDER BY k",
        "two": "SELECT k, SUM(v) AS t FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY k ORDER BY k",
        "other": "SELECT COUNT(*) AS n FROM s [ROWS 4 SLIDE 2]",
    }
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        declare(session, topic, more=", maxOffsetsPerTrigger '10'", timestamp="ts DELAY 5 sec")
        queries = {name: session.register(text, name=name) for name, text in texts.items()}
        for query in queries.values():
            query.write_to("kafka", topic=out, **SERVERS)
        session.run()
        batches = session.stats()["streams"]["s"]["micro_batches"]
        told = {
            name: [row for answer in query.answers() for row in answer.table.to_pylist()]
            for name, query in queries.items()
        }
    assert len(writes) <= batches + 1 < sum(writes), "the end of the stream is one more"
    found: dict[str, list[Any]] = {name: [] for name in texts}
    for _, value in received(spark, out):
        found[value["query"]].append({name: value[name] for name in value if name not in ("query", "as_of", "rows")})
    assert found == told


def test_a_column_as_the_key(spark: Any, topic: str) -> None:
    out = f"{topic}-out"
    send(spark, topic, [message(i, i % 2, i) for i in range(1, 11)])
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        declare(session, topic)
        query = session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY k", name="q")
        with pytest.raises(sash.SashError, match=r"write_to\('kafka'\) needs topic"):
            query.write_to("kafka", **SERVERS)
        query.write_to("kafka", topic=out, key="k", **SERVERS)
        session.run()
        assert query.error is None
    assert Counter(key for key, _ in received(spark, out)) == Counter({0: 2, 1: 2})


def test_answers_wait_while_no_broker_takes_them(spark: Any, topic: str, tmp_path: Path) -> None:
    send(spark, topic, [message(i, 0, i) for i in range(1, 6)])
    with sash.connect(spark=spark, checkpoint=tmp_path / "state", clock=ManualClock()) as session:
        declare(session, topic)
        query = session.register("SELECT SUM(v) AS t FROM s [WINDOW 5 sec SLIDE 5 sec]", name="q")
        away = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "500"}
        query.write_to("kafka", topic=topic, **away)
        session.run()
        assert "cannot write to kafka" in str(query.error) and query.sinks()[0]["waiting"] == query.answered == 1


def test_max_lag_limits_offsets_and_follows(
    spark: Any, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ClockOfTuples()
    options = {"spark": spark, "checkpoint": tmp_path / "state", "clock": clock, "max_lag": "10 sec"}
    send(spark, topic, [message(i / 10, 0, i) for i in range(1, 21)])
    with caplog.at_level(logging.INFO, "sash"), sash.connect(**options) as session:
        declare(session, topic, timestamp="ts DELAY 1 hour")
        session.register("SELECT COUNT(*) AS n, SUM(v) AS total FROM s [WINDOW 1 hour SLIDE 1 sec]", name="q")
        clock.follow(session)
        statistics = session.streams["s"].runtime.statistics
        session.start(trigger="0 seconds")
        for until in (20, 140):
            while statistics.tuples < until:
                assert not session.wait(0.05)
            if until == 20:
                send(spark, topic, [message(2 + i / 10, 0, 20 + i) for i in range(1, 121)])
        session.stop()
        assert session.stats()["streams"]["s"]["input_limit"] == 10
    # A tuple takes a second: of the second lot, no micro-batch takes more than ten.
    assert clock.batches[0] <= 20 and max(clock.batches[-12:]) <= 10 and sum(clock.batches) == 140
    changes = [event for event in events(caplog) if event["event"] == "limit.changed"]
    assert changes and all(change["option"] == "maxOffsetsPerTrigger" for change in changes)
    with sash.connect(**options) as session:
        session.run()
        assert last(session.queries["q"]) == [{"n": 140, "total": 140 * 141 // 2}]
        assert session.stats()["streams"]["s"]["tuples"] == 140
