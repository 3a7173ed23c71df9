"""Questions over what KEEP stores of queries, on Spark: DuckDB asks what subscribers saw the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash
import sash.storage.epochs
from sash.core.changes import EXP, INSTANT, NEVER, SIGN, TS
from sash.core.time import SECOND, to_micros
from tests.runtime.test_continuous import declare, tuples, write
from tests.support.examples import examples

pytestmark = pytest.mark.spark
KEEP = 5 * SECOND
# One of each route and form; all have a column k and a number n.
QUERIES = {
    "panes": "SELECT k, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY k",
    "joined": "SELECT s.k, COUNT(*) AS n FROM s [RANGE 4 sec SLIDE 2 sec], t [RANGE 4 sec SLIDE 2 sec] "
    "WHERE s.k = t.k GROUP BY s.k",
    "sampled": "SELECT s.k, t.v AS n FROM s [RANGE 2 sec SLIDE 1 sec], t [RANGE 2 sec SLIDE 1 sec] WHERE s.k = t.k",
    "ends": "SELECT Istream(k, v AS n) FROM s [RANGE 2 sec]",
    "selected": "SELECT k, v AS n FROM s [RANGE 2 sec] WHERE v > 1",
    "different": "SELECT DISTINCT k, v AS n FROM s [RANGE 2 sec]",
    "groups": "SELECT k, COUNT(*) AS n FROM s [RANGE 3 sec] GROUP BY k",
    "pairs": "SELECT s.k, t.v AS n FROM s [RANGE 1 sec], t [RANGE 2 sec] WHERE s.k = t.k",
    "longer": "SELECT s.k, t.v AS n FROM s [RANGE 2 sec], t [RANGE 2 sec] WHERE s.k = t.k",
    "taken_back": "SELECT k, v AS n FROM s [RANGE 2 sec] WHERE v > 2",
    "sets": "SELECT k FROM s [WINDOW 4 sec SLIDE 2 sec] INTERSECT SELECT k FROM t [WINDOW 4 sec SLIDE 2 sec]",
}  # fmt: skip
INDEXED = ("panes", "ends", "groups", "longer", "taken_back", "sets")


@dataclass
class Told:
    """The answers that the subscribers of a query saw; an answer as of the same time replaces another."""

    answers: dict[Any, pa.Table] = field(default_factory=dict)

    def take(self, answer: sash.Answer) -> None:
        self.answers[answer.as_of] = answer.table

    def stored(self, now: int) -> pa.Table:
        first = next(iter(self.answers.values()))
        if SIGN not in first.schema.names:
            dated = {to_micros(as_of): table for as_of, table in self.answers.items()}
            return pa.concat_tables(
                table.append_column("as_of", pa.array([as_of] * len(table), pa.int64()).cast(INSTANT))
                for as_of, table in dated.items()
                if as_of > now - KEEP
            )
        return self.changes(now)

    def changes(self, now: int) -> pa.Table:
        """Rows with when they came and left; a negative change takes back the oldest equal row."""
        table = pa.concat_tables(self.answers.values())
        rows = table.drop_columns([TS, EXP, SIGN]).to_pylist()
        times = (table[name].cast(pa.int64()).fill_null(NEVER).to_pylist() for name in (TS, EXP))
        lives: list[tuple[dict[str, Any], int, int, int]] = []
        for row, came, exp, sign in zip(rows, *times, table[SIGN].to_pylist(), strict=True):
            if sign > 0:
                lives.append((row, came, exp, exp))
                continue
            place = next(i for i, (other, _, at, end) in enumerate(lives) if (other, at, end) == (row, exp, exp))
            lives[place] = (row, lives[place][1], exp, came)
        found = [
            {**row, TS: came, EXP: None if end > now else end}
            for row, came, _, end in lives
            if end > now - KEEP and end > came
        ]
        schema = pa.schema([*list(table.schema)[:-3], (TS, pa.int64()), (EXP, pa.int64())])
        told = pa.Table.from_pylist(found, schema)
        times_told = [told[name].cast(INSTANT) for name in (TS, EXP)]
        return told.drop_columns([TS, EXP]).append_column(TS, times_told[0]).append_column(EXP, times_told[1])

    def results(self, now: int) -> pa.Table:
        """Of a stream."""
        table = pa.concat_tables(self.answers.values()).drop_columns([EXP, SIGN])
        return table.filter(pa.compute.greater(table[TS].cast(pa.int64()), now - KEEP))


@pytest.fixture(scope="module")
def asked(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sash.Session, dict[str, Told]]]:
    """The second half comes after a restart, and snapshots come often."""
    directory, told = tmp_path_factory.mktemp("data"), {name: Told() for name in QUERIES}
    parts = {"s": tuples(1), "t": tuples(2)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 2)
        for half in (slice(0, 3), slice(3, 5)):
            for name, each in parts.items():
                write(each[half], directory / name, half.start)
            with sash.connect(spark=spark, checkpoint=directory / "c") as session:
                declare(session, directory)
                for name, text in QUERIES.items():
                    session.sql(f"SET EXECUTION {'nt' if name == 'taken_back' else 'auto'}")
                    session.sql(f"REGISTER QUERY {name} AS {text} KEEP 5 sec").subscribe(told[name].take)
                for name in INDEXED if half.start == 0 else ():
                    session.sql(f"CREATE INDEX ON {name} (k)")
                session.run()
                assert [query.error for query in session.queries.values()] == [None] * len(QUERIES)
                if half.start:
                    yield session, told


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Instants as numbers."""
    columns = [
        each.cast(INSTANT).cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in table.columns
    ]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


def time_of(table: pa.Table) -> int:
    return to_micros(datetime.fromisoformat(table.schema.metadata[b"as_of"].decode()))


def questions(columns: list[str]) -> st.SearchStrategy[str]:
    """A question about {q}: WHERE by values, by the youngest time, or none; all rows, groups, or one row."""
    time, number = columns[-1], "n" if "n" in columns else "k"
    term = st.one_of(
        st.builds("k = {}".format, st.integers(-1, 4)),
        st.builds("k IN ({}, {})".format, st.integers(0, 3), st.integers(0, 3)),
        st.builds(f"{number} {{}} {{}}".format, st.sampled_from(["<", ">=", "<>"]), st.integers(0, 6)),
        st.sampled_from(["k IS NULL", f"{time} IS NULL", f"{time} = (SELECT MAX({time}) FROM {{q}})"]),
    )
    condition = st.one_of(
        st.just(""),
        st.builds(" WHERE {}".format, term),
        st.builds(" WHERE {} {} {}".format, term, st.sampled_from(["AND", "OR"]), term),
    )
    lists = [
        ("*", ""), (f"k, {time}", ""), (f"k, COUNT(*) AS c, MAX({number}) AS m", " GROUP BY k"),
        (f"{time}, COUNT(DISTINCT k) AS c", f" GROUP BY {time}"), (f"COUNT(*) AS c, MIN({time}) AS f", ""),
    ]  # fmt: skip
    return st.builds("SELECT {0[0]} FROM {{q}}{1}{0[1]}".format, st.sampled_from(lists), condition)


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_questions_find_what_subscribers_saw(
    name: str, data: st.DataObject, asked: tuple[sash.Session, dict[str, Told]]
) -> None:
    session, told = asked
    everything = session.query(f"SELECT * FROM {name}")
    now = time_of(everything)
    expected = told[name].results(now) if name == "ends" else told[name].stored(now)
    assert rows_of(everything) == rows_of(expected) and everything.schema.names == expected.schema.names
    assert len(everything) > 5 and everything.schema.metadata[b"complete"] == b"true"
    text = data.draw(questions(expected.schema.names), label="question")
    with duckdb.connect(config={"threads": 1}) as other:
        other.execute("SET TimeZone = 'UTC'")
        other.register("answers", expected)
        assert rows_of(session.query(text.format(q=name))) == rows_of(
            other.sql(text.format(q="answers")).to_arrow_table()
        )


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_finds_rows_of_all_answers(name: str, asked: tuple[sash.Session, dict[str, Told]]) -> None:
    session, _ = asked
    question = f"SELECT * FROM {name} WHERE k = 1"
    found = session.query(question)
    every = session.query(f"SELECT * FROM {name}")
    assert rows_of(found) == rows_of(every.filter(pa.compute.equal(every["k"], 1))) and len(found) > 2
    assert "k = 1: found by the db index on k" in session.explain(question)
    text = "of its answers of the last 5 sec" if name in ("panes", "sets") else "the last 5 sec"
    assert text in session.explain(question)


def test_the_rows_that_are_there_are_those_of_the_view(asked: tuple[sash.Session, dict[str, Told]]) -> None:
    session, _ = asked
    for name in ("selected", "different", "groups", "pairs", "longer", "taken_back"):
        there = session.query(f"SELECT k, n FROM {name} WHERE _exp IS NULL")
        assert rows_of(there) == rows_of(session.queries[name].view()), name


def test_the_time_of_a_row_has_no_index(asked: tuple[sash.Session, dict[str, Told]]) -> None:
    with pytest.raises(sash.CqlError, match="'_ts' is the time of a row and no column of query 'groups'"):
        asked[0].sql("CREATE INDEX ON groups (_ts)")
