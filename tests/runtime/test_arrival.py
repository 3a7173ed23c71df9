"""TIMESTAMP ARRIVAL: tuples have the time of their micro-batch's arrival, which a replay after a crash repeats."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sash
from sash.catalog import Stream
from sash.core.clock import ManualClock
from sash.core.errors import CatalogError, CheckpointError
from sash.core.time import SECOND, UNITS, to_datetime, to_micros
from sash.runtime.commands.declare import check_same, checked
from sash.runtime.records.catalog_history import stream_change, stream_of
from sash.runtime.session import Session
from sash.storage.epochs import EpochLog, Intent
from tests.support.examples import examples
from tests.support.faults import Death, survived
from tests.support.oracle import recompute, same_rows
from tests.support.sparkless_session import SparklessSession
from tests.support.without_spark import World, story_told

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])
DECLARED = checked(Stream("s", SCHEMA, "arrival", keep=UNITS["day"]))
QUERIES = {
    "sums": "SELECT k, SUM(v) AS t, MAX(arrival) AS newest FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
    "counts": "SELECT COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE 1 sec]",
    "rows": "SELECT COUNT(*) AS n, SUM(v) AS t FROM s [ROWS 3 SLIDE 2]",
}


class Ticking(ManualClock):
    """Every look at the time of day finds another one; a negative step is a clock that was set back."""

    def __init__(self, steps: list[int]) -> None:
        super().__init__()
        self._steps, self._looks, self._instant = steps, 0, 1_700_000_000 * SECOND

    def instant(self) -> int:
        self._instant += self._steps[self._looks % len(self._steps)]
        self._looks += 1
        return self._instant


ROWS = st.lists(st.tuples(st.sampled_from([1, 2, None]), st.integers(-5, 9)), max_size=4)


def table(rows: list[tuple[int | None, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], []]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ROWS, min_size=1, max_size=6),
    st.lists(st.sampled_from([0, 400_000, SECOND, 7 * SECOND, -3 * SECOND]), min_size=1, max_size=5),
    st.lists(st.integers(1, 60), max_size=3),
)
def test_answers_are_those_of_the_recorded_times(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Any], steps: list[int], deaths: list[int]
) -> None:
    """However often the process dies: every attempt at a micro-batch has the same time, a repeated answer is the same,
    and the stored tuples explain every answer.
    """
    intend, seen = EpochLog.intend, list[tuple[int, Intent]]()

    def recorded(log: EpochLog, epoch: int, intent: Intent) -> Intent:
        seen.append((epoch, intend(log, epoch, intent)))
        return seen[-1][1]

    story = [(QUERIES if epoch == 0 else {}, [], table(rows)) for epoch, rows in enumerate(batches)]
    world = World(tmp_path_factory.mktemp("arrival") / "c", clock=Ticking(steps))
    with patch.object(EpochLog, "intend", recorded):
        story_told(DECLARED, story, world, *(survived(Death(at)) for at in deaths))
    attempts = sorted(set(seen))
    # Nobody has the time of an empty micro-batch.
    times = [intent.arrival for epoch, intent in attempts if batches[epoch]]
    assert len(attempts) == len(batches) and times == sorted(times)
    stored = pa.Table.from_pylist(world.kept, DECLARED.schema) if world.kept else DECLARED.schema.empty_table()
    assert sorted(map(repr, stored.drop_columns(["arrival"]).to_pylist())) == sorted(
        repr(row) for rows in batches for row in table(rows).to_pylist()
    )
    stamped = stored.append_column("_us", stored["arrival"].cast(pa.int64()))
    for (name, (as_of, number)), rows in world.told.items():
        if number is None:
            length = 10 if name == "sums" else 3
            assert same_rows(rows, recompute(QUERIES[name], stamped, to_micros(as_of), length * SECOND))


def stamps(session: Session) -> list[tuple[datetime, int]]:
    return [(answer.as_of, answer.table["n"][0].as_py()) for answer in session.queries["q"].answers()]


def test_a_micro_batch_has_one_time_and_time_goes_on() -> None:
    clock = Ticking([0, 5 * SECOND, -60 * SECOND, 70 * SECOND])
    start = 1_700_000_000 * SECOND
    with SparklessSession(clock=clock) as session:
        session.declare(Stream("s", SCHEMA, "ARRIVAL"))
        session.register("SELECT COUNT(*) AS n FROM s [UNBOUNDED SLIDE 5 sec]", "q")
        for rows in ([(1, 1), (2, 2)], [(1, 1)], [(1, 1)], [(1, 1)]):
            session.push("s", table(rows))
        # The third micro-batch came after the clock was set back: it has the time of the second.
        assert stamps(session)[:2] == [(to_datetime(start), 2), (to_datetime(start + 5 * SECOND), 4)]
        assert session.stats()["streams"]["s"]["late_tuples"] == 0


def test_the_column_of_arrival() -> None:
    assert DECLARED.implicit and DECLARED.timestamp == "arrival" and DECLARED.schema.names == ["k", "v", "arrival"]
    assert DECLARED.declared == SCHEMA and stream_of(stream_change(DECLARED)) == DECLARED
    assert checked(DECLARED) == DECLARED
    older = {name: value for name, value in stream_change(DECLARED).items() if name != "implicit"}
    assert not stream_of(older).implicit


def test_a_column_of_this_name_is_meant_itself() -> None:
    own = checked(Stream("s", SCHEMA.append(pa.field("Arrival", pa.timestamp("us", "UTC"))), "ARRIVAL"))
    assert not own.implicit and own.timestamp == "Arrival" and own.declared == own.schema
    with pytest.raises(CheckpointError, match="has timestamp Arrival here and arrival in the checkpoint"):
        check_same(own, DECLARED)


@pytest.mark.parametrize(("clause", "word"), [({"delay": SECOND}, "DELAY"), ({"max_jump": SECOND}, "MAX JUMP")])
def test_clauses_for_tuples_out_of_order(clause: dict[str, int], word: str) -> None:
    with pytest.raises(CatalogError, match=f"tuples arrive in order, and {word} is for others; leave it out"):
        checked(Stream("s", SCHEMA, "arrival", **clause))


@pytest.mark.parametrize(
    "text",
    [
        "EXPLAIN SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 2 sec]",
        "EXPLAIN SELECT SUM(v) AS t FROM s [WINDOW 10 sec]",
        "REGISTER QUERY q AS SELECT a.k FROM s [RANGE 10 sec] a JOIN s [RANGE 2 sec] b USING (v)",
        "EXPLAIN SELECT a.k FROM s [WINDOW 10 sec] a JOIN s [WINDOW 2 sec] b USING (v)",
        "EXPLAIN SELECT RANK() OVER (ORDER BY v) AS r FROM s [WINDOW 10 sec]",
    ],
    ids=["panes", "asked panes", "continuous", "both", "stored rows"],
)
def test_explain_says_where_time_comes_from(text: str) -> None:
    line = "Time: of arrival, one for each micro-batch, in the column arrival of s"
    with SparklessSession() as session:
        session.declare(DECLARED)
        told = str(session.explain(text)).splitlines()
        # A question that may be registered as well has two explanations.
        assert told.count(line) == 1 + told.count("REGISTER QUERY .. AS would make it continuous:")


@pytest.mark.spark
def test_on_spark(spark: Any, tmp_path: Path) -> None:
    """By SQL and by Python, through panes, rows, a continuous query, stored rows, and a restart."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("a,1\nb,2\n")
    before = to_micros(datetime.now().astimezone())
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        source = f"csv OPTIONS (path '{tmp_path / 'in'}')"
        session.sql(f"CREATE STREAM s (k STRING, v INT) FROM {source} TIMESTAMP ARRIVAL KEEP 1 hour")
        session.register("SELECT COUNT(*) AS n, MIN(arrival) AS first FROM s [UNBOUNDED SLIDE 1 sec]", "q")
        session.register("SELECT k FROM s [ROWS 1]", "last")
        session.run()
        answer = session.queries["q"].answers()[-1].table.to_pylist()[0]
        first = to_micros(answer["first"])
        assert answer["n"] == 2 and before <= first <= to_micros(datetime.now().astimezone())
        stored = session.query("SELECT k, arrival FROM s [WINDOW 10 min] ORDER BY k").to_pylist()
        assert [(row["k"], to_micros(row["arrival"])) for row in stored] == [("a", first), ("b", first)]
        assert session.queries["last"].view().num_rows == 1
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        stored = session.query("SELECT COUNT(*) AS n, MAX(arrival) AS newest FROM s [WINDOW 10 min]").to_pylist()
        assert stored[0]["n"] == 2 and to_micros(stored[0]["newest"]) == first
    with sash.connect(spark=spark) as session:
        session.create_stream("t", spark.createDataFrame([("a", 1)], "k STRING, v INT"), timestamp="arrival")
        session.register("SELECT COUNT(*) AS n FROM t [WINDOW 10 sec SLIDE 10 sec]", "q")
        session.run()
        assert session.queries["q"].answers()[-1].table["n"].to_pylist() == [1]
