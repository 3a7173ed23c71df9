"""Results of registered queries that are indexed and asked: against the definition, shared, after a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import to_micros
from tests.runtime.test_continuous import QUERIES, declare, tuples, with_numbers, write
from tests.support.windows_in_duckdb import Definition

pytestmark = pytest.mark.spark
# Of each update pattern, and the column that is indexed.
INDEXED = {"selection": "w", "distinct": "g", "join": "k", "except": "k", "groups": "n", "last": "k"}
# One of each route, and a relation under SLIDE.
SLIDING = {
    "panes": "SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY k",
    "joined": "SELECT s.k, COUNT(*) AS n FROM s [RANGE 4 sec SLIDE 2 sec], t [RANGE 4 sec SLIDE 2 sec] "
    "WHERE s.k = t.k GROUP BY s.k",
    "sets": "SELECT k FROM s [WINDOW 4 sec SLIDE 2 sec] INTERSECT SELECT k FROM t [WINDOW 4 sec SLIDE 2 sec]",
    "sampled": "SELECT s.k, t.v FROM s [RANGE 4 sec SLIDE 2 sec], t [RANGE 4 sec SLIDE 2 sec] WHERE s.k = t.k",
}


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def as_of(table: pa.Table) -> int:
    return to_micros(datetime.fromisoformat(table.schema.metadata[b"as_of"].decode()))


@pytest.fixture(scope="module")
def asked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sash.Session, Definition]]:
    directory, parts = tmp_path_factory.mktemp("data"), {"s": tuples(1), "t": tuples(2)}
    for name, each in parts.items():
        write(each, directory / name)
    with sash.connect(spark=spark) as session:
        declare(session, directory, files=2)
        session.sql(
            f"CREATE STREAM kept (ts TIMESTAMP, k INT) FROM parquet OPTIONS (path '{directory / 's'}') "
            "TIMESTAMP ts KEEP 1 min"
        )
        for name in INDEXED:
            session.register(QUERIES[name], name=f"{name}-rows")
        session.sql("SET EXECUTION nt")
        session.register(QUERIES["selection"], name="announced")
        session.sql("SET EXECUTION auto")
        session.register(QUERIES["last"], name="last")
        for name, text in {**SLIDING, "ends": "SELECT Istream(k) FROM s [RANGE 2 sec]"}.items():
            session.register(text, name=name)
        session.sql("CREATE INDEX ON announced (w) USING bw")
        session.run()
        yield session, Definition({name: with_numbers(each) for name, each in parts.items()})


@pytest.mark.parametrize("name", [*INDEXED, "announced"])
def test_questions_find_the_definitions_rows_with_and_without_an_index(
    name: str, asked: tuple[sash.Session, Definition]
) -> None:
    session, definition = asked
    column, query = INDEXED.get(name, "w"), f"{name}-rows" if name in INDEXED else name
    view = session.queries[query].view()
    expected = definition.answer(QUERIES.get(name, QUERIES["selection"]), as_of(view))
    place = view.schema.names.index(column)
    wanted = sorted({row[place] for row in expected if row[place] is not None})[:3]
    texts = {
        f"SELECT * FROM `{query}` WHERE {column} IN ({', '.join(map(repr, wanted))})": wanted,
        f"SELECT * FROM `{query}` x WHERE x.{column} = {wanted[-1]!r}": wanted[-1:],
    }
    for made in (False, True):
        if made and name in INDEXED:
            session.sql(f"CREATE INDEX ON `{query}` ({column})")
        for text, values in texts.items():
            answer = session.query(text)
            assert rows_of(answer) == {row: n for row, n in expected.items() if row[place] in values} and values
            assert as_of(answer) == as_of(view)
            found = "found by the" if made or name not in INDEXED else "looked for in every row; CREATE INDEX ON"
            assert found in session.explain(text)
    assert rows_of(session.query(f"SELECT * FROM `{query}`")) == expected


@pytest.mark.parametrize("name", SLIDING)
def test_queries_under_slide_are_asked_for_their_present_answer(
    name: str, asked: tuple[sash.Session, Definition]
) -> None:
    session, _ = asked
    latest = session.queries[name].latest()
    assert latest is not None and latest.num_rows > 1
    assert rows_of(session.query(f"SELECT * FROM {name}")) == rows_of(latest.table)
    found = session.query(f"SELECT COUNT(*) AS n FROM {name} WHERE k = 1")
    assert found["n"].to_pylist() == [sum(row["k"] == 1 for row in latest.table.to_pylist())]
    said = {"panes": "as of the newest pane", "sampled": "the rows of its view"}.get(name, "its last answer")
    assert said in session.explain(f"SELECT * FROM {name}")


def test_a_result_is_a_relation_like_others(asked: tuple[sash.Session, Definition]) -> None:
    """In joins with a stored window and with itself, in sub-queries, under groups."""
    session, _ = asked
    view = session.queries["last"].view().to_pylist()
    groups = session.query("SELECT k, COUNT(*) AS n FROM last GROUP BY k")
    assert rows_of(groups) == Counter(Counter(row["k"] for row in view).items())
    both = session.query("SELECT a.v, b.v AS w FROM last a JOIN last b ON a.k = b.k WHERE a.k = 2")
    twos = [row["v"] for row in view if row["k"] == 2]
    assert rows_of(both) == Counter((v, w) for v in twos for w in twos)
    kept = session.query("SELECT DISTINCT k FROM kept [WINDOW 1 min] WHERE k IN (SELECT k FROM last)")
    assert {row["k"] for row in kept.to_pylist()} == {row["k"] for row in view} - {None}


_NOT_KEPT = (
    "leave out SLIDE, or store its answers by REGISTER QUERY .. KEEP 10 min, or CREATE ARCHIVE .. FROM panes KEY k"
)


@pytest.mark.parametrize(
    ("text", "reason", "word"),
    [
        ("CREATE INDEX ON nowhere (k)", "unknown stream 'nowhere'", "nowhere"),
        ("CREATE INDEX ON last (z)", "unknown column 'z'", "z"),
        ("CREATE INDEX ON last (v) USING tree", "leave out USING tree", "v"),
        ("CREATE INDEX ON panes (k)", _NOT_KEPT, "panes"),
        ("CREATE INDEX ON joined (k)", "each answer of query 'joined' is made anew", "joined"),
        ("CREATE INDEX ON ends (k)", "CREATE ARCHIVE .. FROM ends keeps results", "ends"),
        ("DROP INDEX ON last (g)", "unknown column 'g'", "g"),
        ("SELECT * FROM ends", "a stream of results that never end", "ends"),
        ("SELECT * FROM last [WINDOW 5 sec]", "'last' is a query, which has no window: leave it out", "[WINDOW 5 sec]"),
        ("SELECT z FROM last", "unknown column 'z'", "z"),
        ("REGISTER QUERY more AS SELECT k FROM last", "'last' is a query, which is asked once", "last"),
    ],
)  # fmt: skip
def test_refusals_name_the_word_and_the_way_out(
    text: str, reason: str, word: str, asked: tuple[sash.Session, Definition]
) -> None:
    with pytest.raises(sash.CqlError) as caught:
        asked[0].sql(text)
    assert reason in str(caught.value) and text[caught.value.span.start : caught.value.span.end] == word


def test_an_index_survives_a_restart_and_goes_with_its_query(spark: Any, tmp_path: Path) -> None:
    """Two queries share a plan, its view and its index."""
    parts = tuples(3)
    text, question = QUERIES["last"], "SELECT k, v FROM one WHERE k = 2"
    write(parts[:3], tmp_path / "s")

    def matching(session: sash.Session, name: str) -> Counter[tuple[Any, ...]]:
        return rows_of(pa.Table.from_pylist([row for row in session.queries[name].view().to_pylist() if row["k"] == 2]))

    def shown(session: sash.Session) -> list[tuple[Any, ...]]:
        table = session.sql("SHOW INDEXES")
        assert isinstance(table, pa.Table)
        return [tuple(row.values()) for row in table.to_pylist()]

    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        declare(session, tmp_path, "s")
        for name in ("one", "two"):
            session.register(text, name=name)
            session.sql(f"CREATE INDEX ON {name} (k)")
        with pytest.raises(sash.CatalogError, match=r"there is a db index on one \(k\) already"):
            session.sql("CREATE INDEX ON One (K) USING db")
        session.run()
        before, there = session.query(question), shown(session)
        assert rows_of(before) == matching(session, "one") and before.num_rows > 0
        assert [row[:3] for row in there] == [("one", "k", "db"), ("two", "k", "db")] and there[0][3] == 4
    write(parts[3:], tmp_path / "s", 3)
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        assert shown(session) == there
        session.sql("CREATE INDEX ON one (k)")
        assert rows_of(session.query(question)) == rows_of(before)
        session.run()
        assert rows_of(session.query(question)) == matching(session, "one") != rows_of(before)
        session.sql("DROP QUERY one")
        with pytest.raises(sash.CqlError, match="unknown stream 'one'"):
            session.query(question)
        assert [row[0] for row in shown(session)] == ["two"]
        assert "found by the db index" in session.explain("SELECT v FROM two WHERE k = 2")
        assert rows_of(session.query("SELECT * FROM two WHERE k = 2")) == matching(session, "two")
        session.sql("DROP INDEX ON two (k)")
        assert rows_of(session.query("SELECT * FROM two WHERE k = 2")) == matching(session, "two")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        assert shown(session) == []
        assert rows_of(session.query("SELECT * FROM two WHERE k = 2")) == matching(session, "two")


def test_streams_of_the_program_must_be_open_again(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame(tuples(4)[0].select(["ts", "k"]))
    text = "SELECT k FROM s [RANGE 1 min]"
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        session.create_stream("s", frame, timestamp="ts")
        session.register(text, name="q")
        session.sql("CREATE INDEX ON q (k)")
        session.run()
        before = session.query("SELECT k FROM q WHERE k = 1")
    with sash.connect(spark=spark, checkpoint=tmp_path / "c") as session:
        with pytest.raises(sash.CqlError, match="query 'q' reads stream 's', which is not open again"):
            session.query("SELECT k FROM q WHERE k = 1")
        shown = session.sql("SHOW INDEXES")
        assert isinstance(shown, pa.Table) and shown["values"].to_pylist() == [0]
        session.create_stream("s", frame, timestamp="ts")
        assert session.query("SELECT k FROM q WHERE k = 1") == before and before.num_rows > 0


def test_a_failed_query_is_not_asked(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        session.create_stream("s", spark.createDataFrame(tuples(5)[0].select(["ts", "v"])), timestamp="ts")
        session.register("SELECT 1 / (v - v) AS x FROM s [RANGE 1 min]", name="q")
        session.run()
        with pytest.raises(sash.SashError, match="query 'q' has failed: "):
            session.query("SELECT * FROM q")
