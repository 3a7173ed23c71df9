"""Outputs of continuous queries on Spark: streams of changes, internal windows, answers at multiples of SLIDE."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
import sash.storage.epochs
from sash.core.changes import EXP, SIGN, TS
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_micros
from tests.runtime.test_continuous import declare, tuples, with_numbers, write
from tests.runtime.test_session import create
from tests.runtime.test_session import write as write_rows
from tests.support.relational import Row
from tests.support.streams import START
from tests.support.windows_in_duckdb import Definition

pytestmark = pytest.mark.spark
JOIN = "SELECT s.k, s.v, t.g FROM s [RANGE 3 sec], t [RANGE 2 sec] WHERE s.k = t.k"
SLIDING = JOIN.replace("3 sec", "3 sec SLIDE 1 sec").replace("2 sec", "2 sec SLIDE 1 sec")
COUNTS = "SELECT k, COUNT(*) AS n FROM s [ROWS 7] GROUP BY k"
QUERIES = {
    "istream": f"Istream({JOIN})",
    "dstream": JOIN.replace("SELECT s.k, s.v, t.g", "SELECT Dstream(s.k, s.v, t.g)"),
    "every": SLIDING,
    "new": f"Istream({SLIDING})",
    "restored": f"Istream-restore({SLIDING})",
    "counts": COUNTS,
    "internal": COUNTS.replace("ROWS 7", "ROWS 7 INTERNAL"),
    "latest": f"Wstream({JOIN})[ROWS 5]",
    "of_results": "SELECT SUM(n) AS t FROM (SELECT Istream(*) FROM (SELECT k, COUNT(*) AS n FROM s [RANGE 2 sec]"
    " GROUP BY k) x) [RANGE 2 sec] a",
    "distinct": "SELECT DISTINCT g FROM s [RANGE 1 sec SLIDE 2 sec]",
    "mixed": COUNTS.replace("ROWS 7", "ROWS 7 SLIDE 2 sec"),
    "mixed_last": "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 2 SLIDE EXACTLY 1 sec] WHERE v > 2 GROUP BY k",
    "chunks": "SELECT SUM(Wstream(SUM(v))[ROWS 3]) AS t FROM s [RANGE 1 sec SLIDE 1 sec]",
}


def rows_of(table: pa.Table) -> Counter[Row]:
    kept = table.drop_columns([name for name in (TS, EXP, SIGN) if name in table.schema.names])
    return Counter(zip(*(column.to_pylist() for column in kept.columns), strict=True))


@pytest.fixture(scope="module")
def parts() -> dict[str, list[pa.Table]]:
    return {"s": tuples(3), "t": tuples(4)}


@pytest.fixture(scope="module")
def definition(parts: dict[str, list[pa.Table]]) -> Definition:
    return Definition({name: with_numbers(each) for name, each in parts.items()})


@pytest.fixture(scope="module")
def session(spark: Any, parts: dict[str, list[pa.Table]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("data")
    for name, each in parts.items():
        write(each, directory / name)
    with sash.connect(spark=spark) as found:
        declare(found, directory)
        queries = [found.register(text, name=name) for name, text in QUERIES.items()]
        found.run()
        assert [query.error for query in queries] == [None] * len(queries)
        yield found


def instants(parts: dict[str, list[pa.Table]]) -> list[int]:
    """All times at which the join's relation may change, up to the last that both streams have reached."""
    found = {
        ts + after
        for name, length in (("s", 3), ("t", 2))
        for ts in with_numbers(parts[name])["_us"].to_pylist()
        for after in (0, length * SECOND)
    }
    return sorted(found)


def deltas(parts: Any, definition: Definition, kind: str) -> list[tuple[int, Counter[Row]]]:
    before, found = Counter[Row](), []
    for now in instants(parts):
        after = definition.answer(JOIN, now)
        found.append((now, after - before if kind == "istream" else before - after))
        before = after
    return [(now, rows) for now, rows in found if rows]


@pytest.mark.parametrize("kind", ["istream", "dstream"])
def test_deltas_are_those_of_the_definition(kind: str, session: Any, parts: Any, definition: Definition) -> None:
    changes = session.queries[kind].changes()
    assert set(changes[SIGN].to_pylist()) == {1} and changes[EXP].null_count == changes.num_rows > 20
    last = max(max(with_numbers(each)["_us"].to_pylist()) for each in parts.values())
    expected = [(now, rows) for now, rows in deltas(parts, definition, kind) if now <= last]
    times = changes[TS].cast(pa.int64())
    found = [(now, rows_of(changes.filter(pa.compute.equal(times, now)))) for now in sorted(set(times.to_pylist()))]
    assert found == expected
    with pytest.raises(sash.SashError, match="stream of results that never end"):
        session.queries[kind].view()


def test_answers_at_the_multiples(session: Any, definition: Definition) -> None:
    distinct, chunks = "SELECT DISTINCT g FROM s [RANGE 1 sec]", "SELECT SUM(v) FROM s [RANGE 3 sec]"
    last = "SELECT k, SUM(v) FROM s [PARTITION BY k ROWS 2] WHERE v > 2 GROUP BY k"
    sliding = [("every", JOIN, 1), ("distinct", distinct, 2), ("chunks", chunks, 1)]
    for name, text, slide in [*sliding, ("mixed", COUNTS, 2), ("mixed_last", last, 1)]:
        answers = session.queries[name].answers()
        assert len(answers) > 3
        times = [to_micros(answer.as_of) for answer in answers]
        assert all(time % (slide * SECOND) == 0 for time in times)
        assert times == list(range(times[0], times[-1] + 1, slide * SECOND))
        for answer, now in zip(answers, times, strict=True):
            assert rows_of(answer.table) == definition.answer(text, now), now
    with pytest.raises(sash.SashError, match="answered at the multiples of its SLIDE"):
        session.queries["every"].changes()


def test_new_results_at_the_multiples(session: Any, parts: Any, definition: Definition) -> None:
    news = {to_micros(answer.as_of): rows_of(answer.table) for answer in session.queries["new"].answers()}
    for now, rows in news.items():
        assert rows == definition.answer(JOIN, now) - definition.answer(JOIN, now - SECOND)
    expected: dict[int, Counter[Row]] = {}
    for now, rows in deltas(parts, definition, "istream"):
        expected.setdefault(-(-now // SECOND) * SECOND, Counter()).update(rows)
    restored = {to_micros(answer.as_of): rows_of(answer.table) for answer in session.queries["restored"].answers()}
    assert restored == expected and len(restored) > 5
    assert restored.keys() >= news.keys() and sum(map(Counter.total, restored.values())) > sum(
        map(Counter.total, news.values())
    )


def test_internal_windows_append_what_external_ones_replace(session: Any) -> None:
    internal, external = (session.queries[name].changes() for name in ("internal", "counts"))
    assert internal.drop_columns([EXP]) == external.filter(pa.compute.greater(external[SIGN], 0)).drop_columns([EXP])


def test_a_window_on_the_output(session: Any) -> None:
    results = session.queries["istream"].changes()
    assert session.queries["latest"].view().num_rows == 5
    youngest = results.sort_by(TS).slice(results.num_rows - 5)
    assert rows_of(session.queries["latest"].view())[tuple(youngest.select(["k", "v", "g"]).to_pylist()[-1].values())]


def test_a_restart_changes_no_answer(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that live for one micro-batch, against one that lives for all."""
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 2)
    texts = {
        "every": "SELECT DISTINCT a.k, b.v FROM s [RANGE 4 sec SLIDE 2 sec] a, s [RANGE 3 sec SLIDE 2 sec] b"
        " WHERE a.k = b.v",
        "restored": "SELECT Rstream-restore(k, v) FROM s [RANGE 1 sec SLIDE 3 sec]",
        "new": "SELECT Istream(DISTINCT k) FROM s [RANGE 1 sec SLIDE 2 sec]",
    }
    seen: dict[str, list[sash.Answer]] = {"whole": [], "pieces": []}
    for name, lives in (("whole", [range(4)]), ("pieces", [range(step, step + 1) for step in range(4)])):
        write_rows(tmp_path / name, -1, [])
        for steps in lives:
            with sash.connect(spark=spark, checkpoint=tmp_path / f"c-{name}", clock=ManualClock()) as session:
                create(session, tmp_path / name, "DELAY 1 sec")
                for query, text in texts.items():
                    session.register(text, name=query).subscribe(seen[name].append)
                for step in steps:
                    rows = [(step * 4 + i / 2 + 0.1, i % 3, (i + step) % 4) for i in range(8 if step % 2 else 3)]
                    write_rows(tmp_path / name, step, rows)
                    session.start(trigger="0 seconds")
                    total = sum(8 if done % 2 else 3 for done in range(step + 1))
                    while session.streams["s"].runtime.statistics.tuples < total:
                        assert not session.wait(0.05)
                    session.stop()
    listed = {
        name: [(a.query, a.as_of, rows_of(a.table)) for a in sorted(answers, key=lambda a: (a.query, a.as_of))]
        for name, answers in seen.items()
    }
    assert listed["pieces"] == listed["whole"] and {query for query, *_ in listed["whole"]} == set(texts)
    assert all(as_of > datetime(2020, 1, 1, tzinfo=UTC) for _, as_of, _ in listed["whole"])


NOTHING = {
    "aggregate": "SELECT k, COUNT(*) AS n FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100 GROUP BY k",
    "rows": "SELECT k FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100",
    "join": "SELECT * FROM s [RANGE 4 sec SLIDE 2 sec] a, s [RANGE 4 sec SLIDE 2 sec] b WHERE a.k = b.v",
    "distinct": "SELECT DISTINCT k FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100",
    "tested": "SELECT k FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v IN (SELECT k FROM s [RANGE 4 sec SLIDE 2 sec] b)",
    "indexed": "SELECT k FROM s [RANGE 4 sec SLIDE 2 sec] INTERSECT SELECT v FROM s [RANGE 4 sec SLIDE 2 sec]",
    "set": "SELECT k, v FROM s [RANGE 4 sec SLIDE 2 sec] EXCEPT SELECT k, v FROM s [RANGE 4 sec SLIDE 2 sec]",
    "stream": "SELECT Istream(k) FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100",
    "groups": "SELECT a.k, COUNT(*) AS n FROM s [RANGE 4 sec SLIDE 2 sec] a, s [RANGE 4 sec SLIDE 2 sec] b"
    " WHERE a.k = b.v GROUP BY a.k",
    "total": "SELECT COUNT(*) AS n FROM s [RANGE 4 sec SLIDE 2 sec] a, s [RANGE 4 sec SLIDE 2 sec] b WHERE a.k = b.v",
    "total_of_plan": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100) a",
    "passes": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100) a"
    " HAVING COUNT(*) < 2",
    "fails": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM s [RANGE 4 sec SLIDE 2 sec] WHERE v > 100) a"
    " HAVING COUNT(*) > 0",
}


def test_every_kind_of_query_answers_at_the_first_multiple(spark: Any, tmp_path: Path) -> None:
    """Also with nothing to say, and that once; an aggregate without GROUP BY has a row over nothing.

    So does a query that comes later, to a plan that others have, and after a restart.
    """

    def answers_of(session: sash.Session) -> dict[str, list[tuple[float, list[dict[str, Any]]]]]:
        return {
            name: [((to_micros(each.as_of) - START) / SECOND, each.table.to_pylist()) for each in query.answers()]
            for name, query in session.queries.items()
        }

    write_rows(tmp_path / "rows", 0, [(second + 0.5, second, second + 50) for second in range(3, 8)])
    with sash.connect(spark=spark, policy="conservative", checkpoint=tmp_path / "state") as session:
        create(session, tmp_path / "rows")
        for name, text in NOTHING.items():
            session.register(text, name=name)
        session.run()
        answers = answers_of(session)
        for name, text in NOTHING.items():
            session.register(text, name=f"{name}_later")
        write_rows(tmp_path / "rows", 1, [(second + 0.5, second, second + 50) for second in range(8, 10)])
        session.run()
        answers_after = answers_of(session)
    with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
        restarted = answers_of(session)
        write_rows(tmp_path / "rows", 2, [(10.5, 10, 60)])
        session.run()
        at_end = answers_of(session)
    # Panes answer while tuples are in the window, whatever WHERE says.
    assert answers.pop("aggregate") == [(4, []), (6, []), (8, [])]
    for name in ("total", "total_of_plan", "passes"):
        assert answers.pop(name) == [(multiple, [{"n": 0}]) for multiple in (4, 6, 8)], name
    assert answers == {name: [(4, [])] for name in answers}
    for name in NOTHING:
        later, others = answers_after[f"{name}_later"], answers_after[name]
        if name in answers:
            # A join that others have is answered at once, as of the last multiple.
            assert (later, others) == ([(8 if name == "groups" else 10, [])], answers[name]), name
        else:
            assert later[-1] == others[-1] and later[-1][0] == 10, name
    for name, after in answers_after.items():
        assert restarted[name] and restarted[name] == after[-len(restarted[name]) :], name
        assert name.removesuffix("_later") not in answers or at_end[name] == restarted[name], name
