"""Questions that a session folds itself, on Spark: the answers of a pass, whatever the types, and while it slides."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_micros
from sash.panes.row_folds import RowFold
from sash.runtime import route
from sash.runtime.stored.stored_indexes import TIME
from tests.runtime.test_stored_questions import told
from tests.support.oracle import same_rows
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import START, stream
from tests.support.threads import join, start

COLUMNS = "ts TIMESTAMP, k INT, g STRING, w BIGINT, d DECIMAL(12, 2), x DOUBLE, f FLOAT, b BOOLEAN, day DATE"
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int32()),
        ("g", pa.string()),
        ("w", pa.int64()),
        ("d", pa.decimal128(12, 2)),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
    ]
)
TEXTS = [
    "SELECT COUNT(*) AS n, COUNT(x) AS nx, SUM(k) AS tk, SUM(w) AS tw, SUM(d) AS td, AVG(k) AS ak FROM s {w}",
    "SELECT AVG(w) AS aw, AVG(d) AS ad, MIN(ts) AS first, MAX(day) AS day, MIN(k) AS lo, MAX(w) AS hi FROM s {w}",
    "SELECT SUM(x) AS tx, MIN(x) AS lo, MAX(x) AS hi, MAX(f) AS hf, SUM(f) AS tf FROM s {w} WHERE x < 100",
    "SELECT g, b, COUNT(*) AS n, SUM(d) AS t FROM s {w} GROUP BY g, b",
    "SELECT x, COUNT(*) AS n FROM s {w} GROUP BY x",
    "SELECT f, SUM(w) AS t FROM s {w} WHERE f > 0.5 GROUP BY f",
    "SELECT d, COUNT(*) AS n FROM s {w} WHERE d >= 1.505 OR d IS NULL GROUP BY d",
    "SELECT day, COUNT(*) AS n FROM s {w} WHERE day > DATE '2024-01-02' AND NOT b GROUP BY day",
    "SELECT k, COUNT(*) AS n FROM s {w} WHERE g IN ('a', 'ä') AND k <> 2 GROUP BY k HAVING COUNT(*) > 1 ORDER BY k",
    "SELECT k, SUM(w) / COUNT(*) AS mean FROM s {w} WHERE w BETWEEN -5 AND 1000 OR x > 1.5E0 GROUP BY k ORDER BY k",
    "SELECT g, COUNT(DISTINCT k) AS n, MEDIAN(w) AS m, MAX(k) AS hi FROM s {w} GROUP BY g",
    "SELECT TOP(3, g, SUM(k)) FROM s {w}",
    "SELECT b, HISTOGRAM(g) FROM s {w} WHERE k >= 0 GROUP BY b",
    "SELECT FREQUENT(3, g) FROM s {w}",
    "SELECT k, COUNT(*) AS n FROM s {w} GROUP BY k ORDER BY n DESC LIMIT 3",
    "SELECT COUNT(*) AS n FROM s {w} WHERE ts > TIMESTAMP '2023-11-14 22:13:25+00:00' AND k > 1.5",
    "SELECT COUNT(*) AS n, SUM(k) AS t FROM s {w} WHERE k = 77",
    "SELECT g, SUM(k) AS t FROM s {w} WHERE k = 77 GROUP BY g",
]  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Ten seconds of eight tuples, with NULLs, NaN, both zeros and numbers at the ends of their types."""
    random = Random(5)
    pick = {
        "k": [None, -1, 0, 1, 2, 3, 2**31 - 1],
        "g": [None, "", "a", "b", "ä"],
        "w": [None, 0, 7, -(2**58), 2**58, 999],
        "d": [None, Decimal("0.00"), Decimal("1.50"), Decimal("1.51"), Decimal("-9999999999.99")],
        "x": [None, 0.0, -0.0, 1.5, float("nan"), 2.25],
        "f": [None, 0.5, 0.75, float("nan")],
        "b": [None, True, False],
    }
    drawn = [{name: random.choice(values) for name, values in pick.items()} for _ in range(80)]
    days = [None, *(19_722 + offset for offset in range(4))]
    stamps = [START + number * SECOND // 8 + 1 for number in range(80)]
    return [{"ts": at, **each, "day": random.choice(days)} for at, each in zip(stamps, drawn, strict=True)]


@pytest.fixture(scope="module")
def session(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sash.Session]:
    path = tmp_path_factory.mktemp("data")
    columns = {name: [row[name] for row in rows()] for name in SCHEMA.names}
    table = pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    pq.write_table(table, path / "part.parquet")
    with sash.connect(spark=spark, clock=ManualClock()) as session:
        session.sql(f"CREATE STREAM s ({COLUMNS}) FROM parquet OPTIONS (path '{path}') TIMESTAMP ts KEEP 8 sec")
        session.run()
        yield session


# All stored rows, and for some questions a part of them.
ASKED = [text.format(w="[WINDOW 8 sec]") for text in TEXTS] + [text.format(w="[WINDOW 3 sec]") for text in TEXTS[::4]]


@pytest.mark.spark
@pytest.mark.parametrize("asked", ASKED)
def test_the_answer_of_a_pass(session: sash.Session, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sub-window by sub-window over the stored rows" in session.explain(asked)
    folded = session.query(asked)
    monkeypatch.setattr(route, "what_takes_spark", lambda query, stream: "as if it took Spark")
    by_pass = session.query(asked)
    assert folded.schema == by_pass.schema and told(folded) == told(by_pass)
    assert same_rows(folded.to_pylist(), by_pass.to_pylist(), "ORDER BY" in asked)


@pytest.mark.spark
def test_an_error_of_a_question_is_that_of_a_pass(session: sash.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("SELECT SUM(w) / COUNT(DISTINCT b) AS q FROM s [WINDOW 3 sec] WHERE b IS NULL",):
        errors = []
        for _ in range(2):
            with pytest.raises(sash.QueryFailedError) as raised:
                session.query(text)
            errors.append(str(raised.value))
            monkeypatch.setattr(route, "what_takes_spark", lambda query, stream: "as if it took Spark")
        assert errors[0] == errors[1]


@pytest.mark.parametrize("isolation", ["lws", "ttu"])
@pytest.mark.parametrize(
    ("aggregate", "is_reversible"), [("SUM(v)", True), ("COUNT(*)", True), ("MAX(v)", False), ("SUM(x)", False)]
)
def test_a_session_takes_back_what_has_left(
    isolation: str, aggregate: str, is_reversible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six of eight sub-windows are folded when the stream goes on by seven seconds."""

    def rows_of(numbers: range) -> pa.Table:
        return tuples(*((number + 0.5, k, number) for number in numbers for k in (0, 1, 1)))

    folds, add = [0], RowFold.add
    with SparklessSession(clock=ManualClock(), isolation=isolation) as session:
        session.declare(stream(keep=8 * SECOND))
        session.push("s", rows_of(range(9)))
        kept = session.streams["s"].stored_window
        assert kept is not None

        def slide() -> None:
            rows = rows_of(range(9, 16))
            kept.take(rows.drop_columns(["_us"]).append_column(TIME, rows["_us"]), START + 16 * SECOND + 1)

        def watched(fold: RowFold, rows: pa.Table) -> None:
            add(fold, rows)
            folds[0] += 1
            if folds[0] == 6:
                join(start(slide))

        monkeypatch.setattr(RowFold, "add", watched)
        answer = session.query(f"SELECT k, {aggregate} AS a FROM s [WINDOW 8 sec] GROUP BY k ORDER BY k")
        counts = session.stats()["streams"]["s"]
    assert to_micros(told(answer)[0]) == START + 16 * SECOND, "as of its end"
    inside = range(8, 16)
    each = {"SUM(v)": sum(inside), "COUNT(*)": 8, "MAX(v)": 15, "SUM(x)": sum(inside) / 4}[aggregate]
    assert answer.to_pylist() == [{"k": 0, "a": each}, {"k": 1, "a": each if aggregate == "MAX(v)" else 2 * each}]
    assert (counts["read_restarts"] == 0, counts["read_undone"] > 0) == (is_reversible, is_reversible)
    assert counts["stored_reads"] == 1
