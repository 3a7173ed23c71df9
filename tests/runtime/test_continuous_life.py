"""The life of continuous queries: they come and go, share plans, wait for all their streams, fail alone, go on."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.registered_query import deliver
from tests.runtime.test_continuous import COLUMNS, QUERIES, declare, tuples, with_numbers, write
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition, answer_of_changes

pytestmark = pytest.mark.spark
SOME = ("join", "anti", "distinct", "groups", "last")


def table(*rows: tuple[float, int, int]) -> pa.Table:
    """(second, k, v) as tuples of a stream."""
    stamps = pa.array([START + int(second * SECOND) for second, _, _ in rows], pa.timestamp("us", "UTC"))
    ks, vs = (pa.array([row[i] for row in rows], pa.int32()) for i in (1, 2))
    return pa.table({"ts": stamps, "k": ks, "g": pa.nulls(len(rows), pa.string()), "v": vs})


def rows(changes: pa.Table) -> list[tuple[Any, ...]]:
    """(second, sign, values ..) of each change."""
    found = []
    for row in changes.to_pylist():
        ts, sign = row.pop("_ts"), row.pop("_sign")
        row.pop("_exp")
        found.append(((int(ts.timestamp() * SECOND) - START) / SECOND, sign, *row.values()))
    return found


def as_of(view: pa.Table) -> int:
    return to_micros(datetime.fromisoformat(view.schema.metadata[b"as_of"].decode()))


def static(session: sash.Session, spark: Any, name: str, *tuples_: tuple[float, int, int], **options: str) -> None:
    session.create_stream(name, spark.createDataFrame(table(*tuples_).to_pandas(), COLUMNS), timestamp="ts", **options)


def test_restarts_lose_and_repeat_nothing(spark: Any, tmp_path: Path) -> None:
    parts = {"s": tuples(5, parts=4), "t": tuples(6, parts=4)}
    collected: dict[str, list[Any]] = {name: [] for name in SOME}
    for first, last in ((0, 2), (2, 3), (3, 4)):
        for name, each in parts.items():
            write(each[first:last], tmp_path / name, first)
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
            declare(session, tmp_path)
            for name in SOME:
                query = session.register(QUERIES[name], name=name)
                query.subscribe(lambda answer, name=name: collected[name].append(answer.table))
            session.run()
            views = {name: session.queries[name].view() for name in SOME}
    definition = Definition({name: with_numbers(each) for name, each in parts.items()})
    both_have_come_to = min(max(with_numbers(each)["_us"].to_pylist()) for each in parts.values())
    for name in SOME:
        changes = pa.concat_tables(collected[name])
        for now in range(START, both_have_come_to, 900_000):
            assert answer_of_changes(changes, now) == definition.answer(QUERIES[name], now), (name, now)
        rows = Counter(tuple(row.values()) for row in views[name].to_pylist())
        assert rows == answer_of_changes(changes, as_of(views[name])), name


def test_queries_with_the_same_plan_share_it(spark: Any) -> None:
    text = "SELECT DISTINCT k FROM s [RANGE 5 sec]"
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0), (1, 2, 0), (2, 1, 0))
        one = session.register(text, name="one")
        other = session.register(text.lower().replace("range 5 sec", "RANGE 5 sec"), name="other")
        session.run()
        assert session.stats()["plans"] == 1
        assert one.changes() == other.changes() and one.changes().num_rows == 2
        # One that comes later begins with what the plan holds.
        later = session.register(text, name="later")
        assert Counter(later.changes()["k"].to_pylist()) == Counter([1, 2])
        assert later.view() == one.view()
        one.drop()
        assert other.view().num_rows == 2
        other.drop()
        later.drop()
        assert session.stats()["plans"] == 0


def test_three_ways_to_execute_a_plan(spark: Any, tmp_path: Path) -> None:
    """Negative tuples, and lists that are gone through, give the view that update patterns give."""
    for name, seed in (("s", 7), ("t", 8)):
        write(tuples(seed, parts=2), tmp_path / name)
    with sash.connect(spark=spark, execution="direct") as session:
        declare(session, tmp_path)
        queries = {}
        for strategy in ("direct", "nt", "upa"):
            session.sql(f"SET EXECUTION {strategy}")
            for name in ("join", "distinct", "anti"):
                queries[name, strategy] = session.register(QUERIES[name], name=f"{name}_{strategy}")
        session.run()
        assert session.stats()["plans"] == 9
        for name in ("join", "distinct", "anti"):
            views = [queries[name, strategy].view() for strategy in ("upa", "nt", "direct")]
            counted = [Counter(map(str, view.to_pylist())) for view in views]
            assert counted[0] == counted[1] == counted[2]
        announced = queries["join", "nt"].changes()
        assert announced["_exp"].null_count == announced.num_rows and -1 in announced["_sign"].to_pylist()
        assert set(queries["join", "upa"].changes()["_sign"].to_pylist()) == {1}
    with pytest.raises(sash.SashError, match="unknown execution 'fast'; one of upa, nt, direct"):
        sash.connect(spark=spark, execution="fast")


def test_time_goes_as_far_as_the_slowest_stream(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 1), (4, 1, 2))
        static(session, spark, "t", (1, 1, 3), (9, 2, 4))
        text = "SELECT s.v AS a, t.v AS b FROM s [RANGE 6 sec], t [RANGE 6 sec] WHERE s.k = t.k"
        query = session.register(text, name="q")
        anti = session.register(
            "SELECT v FROM s [RANGE 6 sec] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 2 sec] WHERE t.k = s.k)", name="a"
        )
        session.run()
        assert rows(query.changes()) == [(1.0, 1, 1, 3), (4.0, 1, 2, 3)]
        # What t's tuple of second 1 hid appears when it leaves, before anything else comes.
        assert rows(anti.changes()) == [(0.0, 1, 1), (1.0, -1, 1), (3.0, 1, 1), (4.0, 1, 2)]


def test_a_heartbeat_lets_results_expire_and_appear(spark: Any, tmp_path: Path) -> None:
    for name, part in (("s", table((0, 1, 1))), ("t", table((1, 1, 2)))):
        write([part], tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        text = "SELECT v FROM s [RANGE 9 sec] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 2 sec] WHERE t.k = s.k)"
        query = session.register(text, name="q")
        session.run()
        assert rows(query.changes()) == [(0.0, 1, 1), (1.0, -1, 1)] and query.view().num_rows == 0
        session.advance("s", START + 5 * SECOND)
        session.advance("t", START + 5 * SECOND)
        assert rows(query.changes())[2:] == [(3.0, 1, 1)] and query.view()["v"].to_pylist() == [1]
        session.advance("s", START + 10 * SECOND)
        session.advance("t", START + 10 * SECOND)
        assert query.view().num_rows == 0 and len(rows(query.changes())) == 3


def test_answers_and_changes_go_to_spark_sinks(spark: Any, tmp_path: Path) -> None:
    write(tuples(9, parts=2), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        changing = session.register("SELECT DISTINCT k FROM s [RANGE 1 sec]", name="changing")
        periodic = session.register("SELECT k, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k", name="n")
        with pytest.raises(sash.SashError, match="'n' has no answer yet"):
            periodic.dataframe()
        for query in (changing, periodic):
            query.write_to("parquet", path=str(tmp_path / query.name))
        session.run()
        for query in (changing, periodic):
            read = spark.read.parquet(str(tmp_path / query.name))
            expected = Counter(
                (*row.values(), to_micros(answer.as_of))
                for answer in query.answers()
                for row in answer.table.to_pylist()
            )
            names = query.answers()[0].table.schema.names
            written = read.select(*names, "as_of").toArrow().to_pylist()
            assert Counter(tuple(row.values()) for row in written) == expected
            assert query.dataframe().count() == sum(expected.values()) and query.subscriber_errors == 0
        # An answer that comes again replaces itself.
        again, rows = changing.answers()[0], changing.changes().num_rows
        deliver([(changing.outward, again)])
        assert spark.read.parquet(str(tmp_path / "changing")).count() == rows


def test_queries_come_and_go_while_the_stream_runs(spark: Any, tmp_path: Path) -> None:
    """Nobody is restarted: the other query's changes go on, and the stream's Spark query stays the same."""
    parts = tuples(10, parts=3)
    write(parts[:1], tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        first = session.register("SELECT DISTINCT k FROM s [RANGE 3 sec]", name="first")
        seen = Waiting(first)
        session.start(trigger="100 ms")
        running = [query.id for query in spark.streams.active]
        seen.wait_for(parts[0])
        later = session.register("SELECT k, COUNT(*) AS n FROM s [RANGE 3 sec] GROUP BY k", name="later")
        also = Waiting(later)
        write(parts[1:2], tmp_path / "s", 1)
        seen.wait_for(parts[1])
        also.wait_for(parts[1])
        first.drop()
        write(parts[2:], tmp_path / "s", 2)
        also.wait_for(parts[2])
        assert [query.id for query in spark.streams.active] == running
        session.stop()
        # One that comes while the stream runs begins with empty windows.
        assert later.changes()["_ts"].to_pylist()[0] >= min(parts[1]["ts"].to_pylist())
        assert max(each.as_of for each in first.answers()) < min(parts[2]["ts"].to_pylist())


class Waiting:
    """Waits until a query has been told of a micro-batch, by the times of its answers."""

    def __init__(self, query: sash.Query) -> None:
        self._told, self._latest = threading.Condition(), datetime.min.replace(tzinfo=UTC)
        query.subscribe(self._take)

    def _take(self, answer: sash.Answer) -> None:
        with self._told:
            self._latest = answer.as_of
            self._told.notify_all()

    def wait_for(self, part: pa.Table) -> None:
        """Up to the watermark that the part brings: a second before its last tuple."""
        wanted = max(part["ts"].to_pylist()) - timedelta(seconds=1, microseconds=1)
        with self._told:
            assert self._told.wait_for(lambda: self._latest >= wanted, timeout=60)


def test_a_failing_expression_fails_its_own_query(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0), (1, 2, 5))
        bad = session.register("SELECT DISTINCT k DIV v AS d FROM s [RANGE 5 sec]", name="bad")
        worse = session.register("SELECT a.k DIV b.v AS d FROM s [NOW] a, s [NOW] b WHERE a.k = b.k", name="worse")
        good = session.register("SELECT DISTINCT k FROM s [RANGE 5 sec]", name="good")
        periodic = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec]", name="periodic")
        session.run()
        assert good.error is None and good.changes().num_rows == 2 and periodic.latest() is not None
        for query in (bad, worse):
            assert query.error is not None and "zero" in str(query.error).lower(), query.error
            assert query.changes().num_rows == 0


def test_an_expression_that_fails_when_time_goes_on_fails_its_own_query(spark: Any, tmp_path: Path) -> None:
    """Nothing is processed before the end of input; and a restart knows that the query has failed."""
    big = 2**31 - 1
    with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
        static(session, spark, "s", (1, 1, big), (2, 1, big), (3, 1, 0), delay="100 sec")
        bad = session.register(
            "SELECT a.v DIV b.v AS d FROM s [RANGE 5 sec] a, s [RANGE 5 sec] b WHERE a.k = b.k", name="bad"
        )
        good = session.register("SELECT COUNT(*) AS n FROM s [RANGE 5 sec] GROUP BY k", name="good")
        periodic = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec]", name="periodic")
        session.run()
        assert bad.error is not None and "zero" in str(bad.error).lower()
        assert good.error is None and good.changes().num_rows > 0 and periodic.latest() is not None
    with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
        static(session, spark, "s", (1, 1, big), (2, 1, big), (3, 1, 0), delay="100 sec")
        assert session.queries["good"].view().num_rows == 1
        assert session.queries["bad"].changes().num_rows == 0
        assert session.queries["bad"].error is not None and session.queries["good"].error is None


def test_the_changes_of_a_dropped_query_stay_readable(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0), (1, 2, 5))
        query = session.register("SELECT DISTINCT k FROM s [RANGE 5 sec]", name="q")
        session.run()
        before = query.changes()
        query.drop()
        assert query.changes() == before and before.num_rows == 2
        with pytest.raises(sash.SashError, match="needs a path"):
            query.write_to("parquet")


def test_late_tuples_are_counted_and_left_out(spark: Any, tmp_path: Path) -> None:
    write([table((0, 1, 1), (9, 1, 2)), table((2, 1, 3), (10, 1, 4), (20, 1, 5))], tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        query = session.register("SELECT v FROM s [RANGE 3 sec]", name="q")
        session.run()
        assert query.changes()["v"].to_pylist() == [1, 2, 4, 5]
        assert session.stats()["queries"]["q"]["late_tuples"] == 1


def test_what_a_periodic_query_does_not_have(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0))
        query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec]", name="q")
        for asked in (query.changes, query.view):
            with pytest.raises(sash.SashError, match="'q' is periodic"):
                asked()
        with pytest.raises(sash.SashError, match="no synopsis"):
            session.register("SELECT k FROM s [RANGE 5 sec]", name="c", synopsis="running")
        assert "c" not in session.queries


def test_a_stream_that_a_continuous_query_reads_is_not_dropped(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0))
        static(session, spark, "t", (0, 1, 0))
        session.register("SELECT s.k FROM s [NOW], t [NOW] WHERE s.k = t.k", name="q")
        with pytest.raises(sash.CatalogError, match="'t' is read by q"):
            session.drop_stream("t")


def test_heartbeats_of_several_streams_come_in_any_order(spark: Any, tmp_path: Path) -> None:
    """The stream that is ahead waits for the other; nobody has to repeat its watermark."""
    with sash.connect(spark=spark) as session:
        for name in "st":
            write([table((1, 1, 0))], tmp_path / name)
        declare(session, tmp_path)
        query = session.register(QUERIES["anti"], name="anti")
        session.run()
        session.start("1 hour")
        session.advance("s", START + 50 * SECOND)
        for name, second, both in (("t", 40, 40), ("t", 60, 50), ("s", 70, 60)):
            session.advance(name, START + second * SECOND)
            assert as_of(query.view()) == START + both * SECOND - 1
        session.stop()


def test_a_dropped_query_does_not_show_another_ones_rows(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0), (1, 2, 0))
        old = session.register("SELECT DISTINCT k FROM s [RANGE 5 sec]", name="q")
        session.run()
        session.drop_query("q")
        session.register("SELECT k, v FROM s [RANGE 5 sec]", name="q")
        with pytest.raises(sash.SashError, match="'q' has been dropped"):
            old.view()
        assert old.changes().num_rows == 2


def test_changes_are_there_right_after_a_restart(spark: Any, tmp_path: Path) -> None:
    write(tuples(3, parts=2), tmp_path / "s")
    found = []
    for _ in range(2):
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
            declare(session, tmp_path, "s")
            query = session.register(QUERIES["distinct"], name="distinct")
            if not found:
                session.run()
            found.append((query.latest(), query.changes()))
    assert found[0][1].num_rows > 10 and found[1][1] == found[0][1]
    assert found[1][0] is not None


def test_a_query_that_nobody_asked_for_keeps_its_plan(spark: Any, tmp_path: Path) -> None:
    """After a restart one of two queries with the same plan is dropped; the other goes on with the state."""
    parts, text = tuples(3), QUERIES["distinct"]
    for first in (0, 1):
        write(parts[first : first + 1], tmp_path / "s", first)
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
            declare(session, tmp_path, "s")
            if first:
                session.queries["one"].view()
                session.drop_query("one")
            else:
                session.register(text, name="one")
                session.register(text, name="other")
            session.run()
            seen = session.queries["other"].view()
    definition = Definition({"s": with_numbers(parts[:2]), "t": with_numbers(parts[:1])})
    assert Counter(tuple(row.values()) for row in seen.to_pylist()) == definition.answer(text, as_of(seen))


def test_a_session_is_not_closed_from_inside_a_plan(spark: Any, tmp_path: Path) -> None:
    """Neither while its streams run nor while a heartbeat moves its time."""
    for name, part in (("s", table((0, 1, 1))), ("t", table((1, 1, 2)))):
        write([part], tmp_path / name)
    said: list[str] = []
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        text = "SELECT v FROM s [RANGE 9 sec] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 2 sec] WHERE t.k = s.k)"
        query = session.register(text, name="anti")

        def told(_: sash.Answer) -> None:
            try:
                session.close()
            except sash.SashError as error:
                said.append(str(error))

        query.subscribe(told)
        session.run()
        while_run = len(said)
        for name in "st":
            session.advance(name, START + 5 * SECOND)
    assert 0 < while_run < len(said) and all("from inside a subscriber" in text for text in said)


def test_a_heartbeat_needs_a_time(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        static(session, spark, "s", (0, 1, 0))
        with pytest.raises(sash.SashError, match="'soon'"):
            session.advance("s", "soon")  # type: ignore[arg-type]
