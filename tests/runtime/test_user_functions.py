"""Functions of a program's own over tuples, wherever Spark evaluates expressions, against the same ones in Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import sash
from sash.core.errors import CatalogError, CheckpointError, CqlError, QueryFailedError, SashError

pytestmark = pytest.mark.spark

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [(BEGIN + timedelta(seconds=i), "abc"[i % 3], i % 7 if i % 11 else None) for i in range(60)]
DECLARE = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) FROM csv OPTIONS (path '{}') TIMESTAMP ts KEEP 1 hour"


def inverse(x: int | None) -> float | None:
    return None if x is None else 12 / x


def doubled(x: pd.Series) -> pd.Series:
    return x + x


def label(k: str, v: int | None) -> str:
    return f"{k}{'none' if v is None else 'odd' if v % 2 else 'even'}"


def raising(x: int) -> int:
    raise ValueError("no such\nthing")


def create(session: sash.Session) -> None:
    session.create_function("Inverse", inverse, "DOUBLE")
    session.create_function("doubled", doubled, pa.string())
    session.create_function("label", label, "STRING")
    session.create_function("raising", raising, "INT")
    session.create_function("whole", lambda x: x // 1, "BIGINT")


def write(place: Path, first: int = 0, last: int = 60) -> Path:
    place.mkdir(exist_ok=True)
    lines = (f"{ts.replace(tzinfo=None)},{k},{'' if v is None else v}" for ts, k, v in ROWS[first:last])
    (place / f"{first}.csv").write_text("\n".join(lines))
    return place


@pytest.fixture
def session(spark: Any, tmp_path: Path) -> Any:
    with sash.connect(spark=spark) as session:
        create(session)
        session.sql(DECLARE.format(write(tmp_path / "rows")))
        yield session


WINDOW = "[WINDOW 20 sec SLIDE 20 sec]"


def test_functions_stand_where_spark_evaluates(session: sash.Session) -> None:
    texts = {
        "keys": f"SELECT LABEL(k, v) AS l, SUM(INVERSE(v)) AS t FROM s {WINDOW} WHERE v <> 0 GROUP BY LABEL(k, v)",
        "where": f"SELECT COUNT(*) AS n FROM s {WINDOW} WHERE DOUBLED(k) = 'aa'",
        "nested": f"SELECT DOUBLED(LABEL(k, v)) AS d, COUNT(*) AS n FROM s {WINDOW} GROUP BY DOUBLED(LABEL(k, v))",
        "rows": "SELECT SUM(INVERSE(v)) AS t FROM s [ROWS 7 SLIDE 60] WHERE v > 1",
        "tried": f"SELECT MAX(INVERSE(try_divide(12, v))) AS m FROM s {WINDOW} WHERE v = 5",
        "changes": "SELECT ts, DOUBLED(k) AS d FROM s [RANGE 5 sec] WHERE v > 0 AND INVERSE(v) > 2",
        "groups": "SELECT DOUBLED(k) AS d, COUNT(*) AS n FROM s [RANGE 9 sec] GROUP BY DOUBLED(k)",
    }
    queries = {name: session.register(text, name) for name, text in texts.items()}
    session.run()
    assert [query.error for query in queries.values()] == [None] * len(texts)
    for answer in queries["keys"].answers():
        expected: dict[str, float] = {}
        for ts, k, v in ROWS:
            if v and answer.as_of - timedelta(seconds=20) < ts <= answer.as_of:
                expected[label(k, v)] = expected.get(label(k, v), 0) + 12 / v
        assert {row["l"]: row["t"] for row in answer.table.to_pylist()} == pytest.approx(expected)
    wanted = [
        sum(k == "a" for ts, k, _ in ROWS if answer.as_of - timedelta(seconds=20) < ts <= answer.as_of)
        for answer in queries["where"].answers()
    ]
    assert [answer.table["n"][0].as_py() for answer in queries["where"].answers()] == wanted and sum(wanted) == 20
    assert {len(row["d"]) for row in queries["nested"].latest().table.to_pylist()} <= {8, 10}
    assert queries["tried"].latest().table["m"][0].as_py() == pytest.approx(5.0)
    last = [v for _, _, v in ROWS[-7:] if v is not None and v > 1]
    assert queries["rows"].latest().table["t"][0].as_py() == pytest.approx(sum(12 / v for v in last))
    shown = {(row["ts"], row["d"]) for row in queries["changes"].view().to_pylist()}
    assert shown == {(ts, k + k) for ts, k, v in ROWS[-5:] if v and 12 / v > 2}
    assert {row["d"]: row["n"] for row in queries["groups"].view().to_pylist()} == {"aa": 3, "bb": 3, "cc": 3}


def within(seconds: int, asked: pa.Table) -> list[Any]:
    as_of = datetime.fromisoformat(asked.schema.metadata[b"as_of"].decode())
    return [row for row in ROWS if as_of - timedelta(seconds=seconds) < row[0] <= as_of]


def test_stored_rows_are_asked(session: sash.Session) -> None:
    session.register(f"SELECT COUNT(*) AS n FROM s {WINDOW}", "any")
    session.run()
    asked = session.query("SELECT SUM(INVERSE(v)) AS t FROM s [WINDOW 30 sec] WHERE v > 1")
    last = [v for _, _, v in within(30, asked) if v is not None and v > 1]
    assert asked["t"][0].as_py() == pytest.approx(sum(12 / v for v in last))
    text = "SELECT LABEL(k, v), ts FROM s [WINDOW 4 sec] WHERE DOUBLED(DOUBLED(k)) <> 'aaaa' ORDER BY ts"
    rows = session.query(text)
    assert rows.column_names == ["label(k, v)", "ts"]
    assert rows[0].to_pylist() == [label(k, v) for _, k, v in within(4, rows) if k != "a"]
    with pytest.raises(SashError, match="function 'raising' raised ValueError: no such thing"):
        session.query("SELECT RAISING(v) AS r FROM s [WINDOW 4 sec]")
    with pytest.raises(CqlError, match="INVERSE cannot be called with 2 arguments"):
        session.query("SELECT INVERSE(v, v) AS r FROM s [WINDOW 4 sec]")


def test_a_function_that_raises_fails_its_queries_alone(session: sash.Session) -> None:
    texts = {
        "zero": f"SELECT SUM(INVERSE(v)) AS t FROM s {WINDOW}",
        "raising": f"SELECT k, COUNT(*) AS n FROM s {WINDOW} WHERE RAISING(v) = 1 GROUP BY k",
        "changes": "SELECT RAISING(v) AS r FROM s [RANGE 5 sec]",
        # Its WHERE leaves out the tuples for which the function raises, also inside of another one.
        "inside": f"SELECT DOUBLED(LABEL(k, WHOLE(INVERSE(v)))) AS d FROM s {WINDOW} WHERE v <> 0 GROUP BY 1",
        "careful": f"SELECT SUM(INVERSE(v)) AS t FROM s {WINDOW} WHERE v <> 0",
        "other": f"SELECT COUNT(*) AS n FROM s {WINDOW}",
    }
    queries = {name: session.register(text, name) for name, text in texts.items()}
    session.run()
    failed = {name: str(query.error) for name, query in queries.items() if query.error is not None}
    assert failed.keys() == {"zero", "raising", "changes"}
    assert "function 'inverse' raised ZeroDivisionError: division by zero" in failed["zero"]
    assert all("function 'raising' raised ValueError: no such thing" in failed[name] for name in ("raising", "changes"))
    assert isinstance(queries["zero"].error, QueryFailedError)
    assert [answer.table["n"][0].as_py() for answer in queries["other"].answers()] == [1, 20, 20, 19]
    assert len(queries["careful"].answers()) == len(queries["inside"].answers()) == 4


def test_a_function_comes_while_the_stream_runs(session: sash.Session, tmp_path: Path) -> None:
    session.register(f"SELECT COUNT(*) AS n FROM s {WINDOW}", "any")
    session.start(trigger="0 sec")
    session.create_function("tripled", lambda k: k * 3, "STRING")
    later = session.register(
        "SELECT TRIPLED(k) AS t, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 5 sec] GROUP BY TRIPLED(k)", "later"
    )
    session.stop()
    session.run()
    assert later.error is None
    assert {row["t"] for row in later.latest().table.to_pylist()} <= {"aaa", "bbb", "ccc"}


def test_explain_shows_calls_as_they_were_written(session: sash.Session) -> None:
    text = f"SELECT LABEL(k, v) AS l, SUM(INVERSE(v)) AS t FROM s {WINDOW} GROUP BY LABEL(k, v)"
    told = session.explain(text)
    assert "sum(inverse(v))" in told and "_sash_" not in told
    kinds = session.sql("SHOW FUNCTIONS LIKE 'inv*'").to_pylist()
    assert kinds == [{"name": "inverse", "kind": "function of the program"}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"SELECT SUM(INVERSE(v, 1)) AS t FROM s {WINDOW}", "INVERSE cannot be called with 2 arguments"),
        (f"SELECT SUM(INVERSE()) AS t FROM s {WINDOW}", "INVERSE cannot be called with 0 arguments"),
        (f"SELECT SUM(INVERSE(*)) AS t FROM s {WINDOW}", "neither [*] nor DISTINCT"),
        (f"SELECT SUM(INVERSE(10 / v)) AS t FROM s {WINDOW} WHERE v <> 0", "may raise an error.*TRY_CAST"),
        (f"SELECT COUNT(*) AS n FROM s {WINDOW} WHERE DOUBLED(CAST(k AS INT)) = 'a'", "may raise an error"),
        (f"SELECT SUM(INVERSE(NULL)) AS t FROM s {WINDOW}", "INVERSE needs a type"),
        (f"SELECT SUM(DOUBLED(k)) AS t FROM s {WINDOW}", "SUM needs a number, but .* is STRING"),
        (f"SELECT SUM(INVERSE(SUM(v))) AS t FROM s {WINDOW}", "SUM cannot stand inside"),
        (f"SELECT INVERSE(SUM(v)) AS t FROM s {WINDOW}", "INVERSE over an answer; call it on tuples"),
        (f"SELECT k FROM s {WINDOW} GROUP BY k HAVING DOUBLED(k) > 'b'", "DOUBLED over an answer"),
        (f"SELECT k FROM s {WINDOW} GROUP BY k HAVING INVERSE((SELECT MAX(v) FROM s {WINDOW})) > 2", "INVERSE over an"),
        (f"SELECT COUNT(*) FROM s {WINDOW} WHERE INVERSE(v)", "WHERE needs a BOOLEAN|condition"),
        (
            "SELECT a.ts FROM s [RANGE 1 sec] a JOIN s [RANGE 1 sec] b ON a.k = b.k AND LABEL(a.k, b.v) = 'x'",
            "LABEL over",
        ),
    ],
)
def test_wrong_calls_are_refused_at_the_word(session: sash.Session, text: str, why: str) -> None:
    with pytest.raises(CqlError, match=why):
        session.register(text, "q")


def test_wrong_definitions_are_refused(session: sash.Session) -> None:
    from pyspark.sql.functions import udf

    for name in ("sum", "upper", "corr", "inverse", "a b", "1a", ""):
        with pytest.raises(CatalogError):
            session.create_function(name, inverse, "INT")
    for type in ("WORD", "ARRAY<INT>", "", None, pa.null()):
        with pytest.raises(SashError, match="the type of function 'mine'"):
            session.create_function("mine", inverse, type)  # type: ignore[arg-type]
    for function in (5, udf(inverse, "double")):
        with pytest.raises(SashError, match="the function 'mine' is to be"):
            session.create_function("mine", function, "INT")  # type: ignore[arg-type]
    with pytest.raises(SashError, match="cannot be sent to Spark's executors"):
        session.create_function("mine", lambda x: session.queries, "INT")
    with sash.connect() as other, pytest.raises(CatalogError, match="another session of this process has a function"):
        other.create_function("inverse", inverse, "INT")
    with pytest.raises(CatalogError, match="function 'inverse' exists already"):
        session.create_aggregate("inverse", 0, len, max, min)


def test_a_restart_asks_for_the_functions_first(spark: Any, tmp_path: Path) -> None:
    texts = {
        "periodic": "SELECT DOUBLED(k) AS d, COUNT(*) AS n FROM s [WINDOW 20 sec SLIDE 10 sec] GROUP BY DOUBLED(k)",
        "changes": "SELECT DOUBLED(k) AS d, COUNT(*) AS n FROM s [RANGE 20 sec] GROUP BY DOUBLED(k)",
    }

    def told(query: sash.Query) -> list[Any]:
        return sorted(map(str, query.latest().table.to_pylist()))

    rows, checkpoint = write(tmp_path / "rows", 0, 30), tmp_path / "checkpoint"
    for part in ("first", "second"):
        with sash.connect(spark=spark, checkpoint=checkpoint) as session:
            if part == "second":
                write(rows, 30, 60)
                with pytest.raises(
                    CheckpointError, match=r"calls the function 'doubled'.*create_function\('doubled', "
                ):
                    session.run()
            create(session)
            if part == "first":
                session.sql(DECLARE.format(rows))
                for name, text in texts.items():
                    session.register(text, name)
            session.run()
            found = told(session.queries["periodic"]), sorted(map(str, session.queries["changes"].view().to_pylist()))
    with sash.connect(spark=spark) as session:
        create(session)
        session.sql(DECLARE.format(rows))
        queries = [session.register(text, name) for name, text in texts.items()]
        session.run()
        assert found == (told(queries[0]), sorted(map(str, queries[1].view().to_pylist())))
