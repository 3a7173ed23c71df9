"""LIFETIME of queries that run as plans: they end to the instant, and those that share their plan or join go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from sash.core.changes import TS
from sash.core.time import SECOND, to_micros
from tests.runtime.test_continuous import declare, tuples, write

pytestmark = pytest.mark.spark

JOIN = "SELECT s.k, s.v, t.g FROM s [RANGE 3 sec], t [RANGE 2 sec] WHERE s.k = t.k"
SLIDING = JOIN.replace(" sec]", " sec SLIDE 1 sec]")
# One of each route: changes, samples of them, sets, panes of a join.
QUERIES = {
    "pairs": JOIN,
    "every": SLIDING,
    "sets": "SELECT k FROM s [RANGE 3 sec SLIDE 1 sec] INTERSECT SELECT k FROM t [RANGE 2 sec SLIDE 1 sec]",
    "counts": SLIDING.replace("s.k, s.v, t.g", "COUNT(*) AS n"),
}
LIFE = 5


@pytest.fixture
def parts() -> dict[str, list[pa.Table]]:
    return {"s": tuples(21, parts=6), "t": tuples(22, parts=6)}


def listed(query: sash.Query) -> list[tuple[Any, ...]]:
    return [(each.as_of, each.complete, each.table.to_pylist()) for each in query.answers()]


def begin(parts: dict[str, list[pa.Table]], panes: bool) -> int:
    """A life begins right before the first tuple, or with its pane."""
    first = min(to_micros(ts) for each in parts.values() for ts in each[0]["ts"].to_pylist())
    return -(-first // SECOND) * SECOND - SECOND if panes else first - 1


def test_lives_end_to_the_instant(spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]]) -> None:
    for name, each in parts.items():
        write(each, tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        for_ever = {name: session.register(text, name=name) for name, text in QUERIES.items()}
        mortal = {
            name: session.register(text, name=f"{name}_mortal", lifetime=f"{LIFE} sec")
            for name, text in QUERIES.items()
        }
        session.run()
        assert [query.error for query in (*for_ever.values(), *mortal.values())] == [None] * 8
        assert {*session.queries} == {*QUERIES}
        end = begin(parts, panes=False) + LIFE * SECOND
        whole = pa.concat_tables([each.table for each in for_ever["pairs"].answers()])
        ended = pa.concat_tables([each.table for each in mortal["pairs"].answers()])
        assert ended == whole.filter(pc.less_equal(whole[TS].cast(pa.int64()), end))
        assert 0 < ended.num_rows < whole.num_rows
        end = begin(parts, panes=True) + LIFE * SECOND
        for name in ("every", "sets", "counts"):
            living = [each for each in listed(for_ever[name]) if to_micros(each[0]) <= end]
            assert listed(mortal[name]) == living and 2 < len(living) < len(listed(for_ever[name])), name


def test_a_life_goes_on_after_a_restart(spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]]) -> None:
    seen: dict[str, list[sash.Answer]] = {"whole": [], "pieces": []}
    for name, lives in (("whole", [6]), ("pieces", [1, 1, 4])):
        (tmp_path / name).mkdir()
        done = 0
        for micro_batches in lives:
            for stream, each in parts.items():
                write(each[done : done + micro_batches], tmp_path / name / stream, done)
            done += micro_batches
            with sash.connect(spark=spark, checkpoint=tmp_path / name / "checkpoint") as session:
                declare(session, tmp_path / name)
                for query, text in QUERIES.items():
                    session.register(text, name=query, lifetime=f"{LIFE} sec").subscribe(seen[name].append)
                session.start(trigger="0 seconds")
                while any(stream.runtime.statistics.tuples < 14 * done for stream in session.streams.values()):
                    assert not session.wait(0.05)
                session.stop()
                assert not session.queries or done < 6
    # Micro-batches of two streams meet as they like: changes are compared row by row.
    answers = {
        name: sorted(
            (each.query, "" if each.query == "pairs" else str(each.as_of), str(row))
            for each in told
            for row in each.table.to_pylist()
        )
        for name, told in seen.items()
    }
    assert answers["pieces"] == answers["whole"] != []


def test_a_life_begins_when_the_query_comes(spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]]) -> None:
    for name, each in parts.items():
        write(each[:3], tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        whole = session.register(JOIN, name="whole")
        session.run()
        came = max(to_micros(each.as_of) for each in whole.answers())
        later = session.register(JOIN, name="later", lifetime="3 sec")
        before = len(later.answers())
        for name, each in parts.items():
            write(each[3:], tmp_path / name, 3)
        session.run()
        told = [each.table for each in later.answers()[before:]]
        times = [ts for each in told for ts in each[TS].cast(pa.int64()).to_pylist()]
        assert times and came < min(times) and max(times) <= came + 3 * SECOND and "later" not in session.queries
        rows = pa.concat_tables([each.table for each in whole.answers()])
        ts = rows[TS].cast(pa.int64())
        assert len(times) == rows.filter(pc.and_(pc.greater(ts, came), pc.less_equal(ts, came + 3 * SECOND))).num_rows


def test_explain_says_when_a_query_that_comes_later_will_be_complete(
    spark: Any, tmp_path: Path, parts: dict[str, list[pa.Table]]
) -> None:
    for name, each in parts.items():
        write(each[:2], tmp_path / name)
    texts = {name: text for name, text in QUERIES.items() if name != "pairs"}
    texts["endless"] = "SELECT k, v FROM s [UNBOUNDED SLIDE 1 sec]"
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        assert all("Begins with empty windows" not in session.explain(text) for text in QUERIES.values())
        session.register(texts["every"], name="before")
        session.run()
        assert "Begins with empty windows" not in session.explain(texts["every"]), "it shares the plan"
        texts["every"] = texts["every"].replace("RANGE 3", "RANGE 4")
        shown = {name: session.explain(text) for name, text in texts.items()}
        assert "Begins with empty windows, because its streams have begun: never complete" in shown.pop("endless")
        queries = {name: session.register(text, name=name) for name, text in texts.items() if name in shown}
        for name, each in parts.items():
            write(each[2:], tmp_path / name, 2)
        session.run()
        for name, query in queries.items():
            first = next(each.as_of for each in query.answers() if each.complete)
            assert f"complete as of {first.isoformat()} at the earliest" in shown[name], name
