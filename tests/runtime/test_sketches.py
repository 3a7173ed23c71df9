"""Estimates through Spark: its sketches per pane, merged per window; the truth is known and lies within the bounds.

One run over one fixed data set answers all queries; the tests look at its answers.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from tests.support.oracle import duck, same_rows
from tests.support.streams import START

pytestmark = pytest.mark.spark

TUPLES = 8_000
# Eighteen seconds of tuples, a gap, and a few more.
STEP = 2_250
AFTER_THE_GAP = START + 60 * SECOND
TYPES = {
    "k": pa.int32(),
    "skewed": pa.int64(),
    "uniform": pa.int32(),
    "s": pa.string(),
    "d": pa.date32(),
    "t": pa.timestamp("us", "UTC"),
    "ntz": pa.timestamp("us"),
    "price": pa.decimal128(12, 2),
    "b": pa.bool_(),
    "x": pa.float64(),
    "nothing": pa.int32(),
}
COLUMNS = [name for name in TYPES if name not in ("k", "nothing")]
# Constants for COUNT_MIN.
POINTS = {
    "skewed": "1",
    "uniform": "17",
    "s": "'word 3'",
    "d": "DATE '2026-01-05'",
    "price": "2.25",
    "b": "TRUE",
    "x": "0.0",
}


def data() -> pa.Table:
    """Values of every type with known skew; every twentieth is NULL. -0.0 and 0.0 are one value, so are all NaN."""
    chance = random.Random(7)
    first = datetime(2026, 1, 1)
    rows = []
    for i in range(TUPLES):
        u = chance.random()
        item = int(min(1 / max(u, 1e-9), 1e6))
        values = (
            chance.choice([1, 2, 3, None]),
            item,
            chance.randrange(5_000),
            f"word {int(12 * u * u)}",
            date(2026, 1, 1) + timedelta(days=chance.randrange(40)),
            (first + timedelta(seconds=int(60 * u))).replace(tzinfo=UTC),
            first + timedelta(seconds=int(60 * u)),
            Decimal(chance.randrange(400)) / 4,
            u < 0.3,
            chance.choice([0.0, -0.0, math.nan, math.inf, chance.randrange(800) / 8]),
            None,
        )
        at = START + 1 + i * STEP if i < TUPLES - 50 else AFTER_THE_GAP + i * STEP
        rows.append((at, *(value if chance.randrange(20) else None for value in values)))
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {name: pa.array(column, type) for (name, type), column in zip(TYPES.items(), columns[1:], strict=True)}
    )
    return table.append_column("_us", pa.array(columns[0], pa.int64()))


WINDOWS = {
    "short": "[WINDOW 8 sec SLIDE 4 sec]",
    "long": "[WINDOW 20 sec SLIDE 4 sec]",
    "rows": "[ROWS 3000 SLIDE 2000]",
}
LENGTHS = {"short": 8 * SECOND, "long": 20 * SECOND}
NUMBERS = ["skewed", "uniform", "price", "x"]
PARTS = (0.01, 0.5, 0.99)


def texts() -> dict[str, str]:
    distinct = ", ".join(f"APPROX_COUNT_DISTINCT({c}) AS {c}" for c in (*COLUMNS, "nothing"))
    quantiles = ", ".join(
        f"APPROX_QUANTILE({c}, {p}) AS {c}_{round(100 * p)}" for c in (*NUMBERS, "nothing") for p in PARTS
    )
    points = ", ".join(f"COUNT_MIN({c}, {value}) AS {c}" for c, value in POINTS.items())
    found = {}
    for name, window in WINDOWS.items():
        found[f"distinct {name}"] = f"SELECT {distinct} FROM s {window} WITH BOUNDS"
        found[f"quantiles {name}"] = f"SELECT {quantiles} FROM s {window} WITH BOUNDS"
    found["distinct by k"] = (
        f"SELECT k, {distinct} FROM s {WINDOWS['short']} WHERE uniform < 2500 GROUP BY k WITH BOUNDS"
    )
    found["quantiles by k"] = f"SELECT k, {quantiles} FROM s {WINDOWS['short']} GROUP BY k"
    found["points"] = f"SELECT {points} FROM s {WINDOWS['short']} WITH BOUNDS"
    found["points by k"] = (
        f"SELECT k, COUNT_MIN(s, 'word 3') AS s FROM s {WINDOWS['short']} WHERE uniform < 2500 GROUP BY k"
    )
    for c in COLUMNS:
        found[f"top {c}"] = f"SELECT APPROX_TOP(5, {c}) FROM s {WINDOWS['short']} WITH BOUNDS"
    found["top by k"] = f"SELECT k, APPROX_TOP(3, s) FROM s {WINDOWS['long']} WHERE uniform < 2500 GROUP BY k"
    found["top rows"] = f"SELECT APPROX_TOP(3, s) FROM s {WINDOWS['rows']}"
    found["top nothing"] = f"SELECT k, APPROX_TOP(3, nothing) FROM s {WINDOWS['short']} GROUP BY k"
    both = "APPROX_COUNT_DISTINCT(s) AS n, APPROX_QUANTILE(uniform, 0.5) AS q"
    found["nowhere"] = f"SELECT {both} FROM s {WINDOWS['short']} WHERE uniform < 0"
    return found


@pytest.fixture(scope="module")
def tuples() -> pa.Table:
    return data()


def frame_of(spark: Any, tuples: pa.Table) -> Any:
    columns = [f"CAST({c} AS TIMESTAMP_NTZ) AS ntz" if c == "ntz" else c for c in TYPES]
    return spark.createDataFrame(tuples).selectExpr("timestamp_micros(_us) AS ts", *columns)


@pytest.fixture(scope="module")
def answers(spark: Any, tuples: pa.Table) -> Iterator[dict[str, list[Answer]]]:
    with sash.connect(spark=spark) as session:
        session.create_stream("s", frame_of(spark, tuples).repartition(3), timestamp="ts")
        queries = {name: session.register(text, name.replace(" ", "_")) for name, text in texts().items()}
        session.run()
        for name, query in queries.items():
            assert query.error is None, (name, query.error)
        yield {name: query.answers() for name, query in queries.items()}


def window(tuples: pa.Table, name: str, answer: Answer) -> str:
    """The tuples of an answer's window, as a sub-query of DuckDB."""
    duck().register("tuples", tuples)
    as_of = to_micros(answer.as_of)
    if name == "rows":
        return f"(SELECT * FROM (SELECT * FROM tuples WHERE _us <= {as_of} ORDER BY _us DESC LIMIT 3000))"
    return f"(SELECT * FROM tuples WHERE _us > {as_of - LENGTHS[name]} AND _us <= {as_of})"


def truths(select: str, source: str, tail: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = duck().sql(f"SELECT {select} FROM {source} {tail}").to_arrow_table().to_pylist()
    return found


# -- distinct values ---------------------------------------------------------------------------------------


def check_distinct(row: dict[str, Any], truth: dict[str, Any]) -> None:
    for column in (*COLUMNS, "nothing"):
        estimate, lower, upper = row[column], row[f"{column}_lower"], row[f"{column}_upper"]
        assert lower <= truth[column] <= upper, (column, truth[column], row)
        assert lower <= estimate <= upper
        if truth[column] <= 100:
            assert estimate == truth[column], column


@pytest.mark.parametrize("name", WINDOWS)
def test_distinct_values(answers: dict[str, list[Answer]], tuples: pa.Table, name: str) -> None:
    select = ", ".join(f"count(DISTINCT {c}) AS {c}" for c in (*COLUMNS, "nothing"))
    assert len(answers[f"distinct {name}"]) >= (5 if name != "rows" else 3)
    large = 0
    for answer in answers[f"distinct {name}"]:
        (row,), (truth,) = answer.table.to_pylist(), truths(select, window(tuples, name, answer))
        check_distinct(row, truth)
        large = max(large, truth["uniform"])
    # The sketches are full, not lists of values.
    assert large > 1_500


def test_distinct_values_by_group(answers: dict[str, list[Answer]], tuples: pa.Table) -> None:
    select = "k, " + ", ".join(f"count(DISTINCT {c}) AS {c}" for c in (*COLUMNS, "nothing"))
    for answer in answers["distinct by k"]:
        found = truths(select, window(tuples, "short", answer), "WHERE uniform < 2500 GROUP BY k")
        expected = {row["k"]: row for row in found}
        assert {row["k"] for row in answer.table.to_pylist()} == expected.keys()
        for row in answer.table.to_pylist():
            check_distinct(row, expected[row["k"]])


# -- quantiles ---------------------------------------------------------------------------------------------


def ranks(values: list[float], value: float) -> tuple[float, float]:
    """The least and the greatest normalised rank of a value among sorted ones."""
    below, same = sum(v < value for v in values), sum(v == value for v in values)
    return below / len(values), (below + same) / len(values)


def check_quantiles(row: dict[str, Any], source: str, condition: str = "") -> None:
    for column in NUMBERS:
        found = truths(f"CAST({column} AS DOUBLE) AS v", source, condition)
        values = [each["v"] for each in found if each["v"] is not None and not math.isnan(each["v"])]
        for p in PARTS:
            name = f"{column}_{round(100 * p)}"
            estimate = row[name]
            if not values:
                assert estimate is None
                continue
            if len(values) <= 200:
                assert estimate == sorted(values)[max(1, math.floor(p * len(values))) - 1]
                continue
            # 1.33% holds in 99 of 100 cases; three times as much always, as far as anyone will see.
            low, high = ranks(values, estimate)
            assert low - 0.04 <= p <= high + 0.04, (name, estimate)
            if f"{name}_lower" in row:
                lower, upper = row[f"{name}_lower"], row[f"{name}_upper"]
                assert lower <= estimate <= upper
                assert ranks(values, lower)[0] - 0.04 <= p <= ranks(values, upper)[1] + 0.04
                assert ranks(values, upper)[0] - ranks(values, lower)[1] <= 0.08
        assert all(row[f"nothing_{round(100 * p)}"] is None for p in PARTS)


@pytest.mark.parametrize("name", WINDOWS)
def test_quantiles(answers: dict[str, list[Answer]], tuples: pa.Table, name: str) -> None:
    for answer in answers[f"quantiles {name}"]:
        (row,) = answer.table.to_pylist()
        check_quantiles(row, window(tuples, name, answer))


def test_quantiles_by_group(answers: dict[str, list[Answer]], tuples: pa.Table) -> None:
    for answer in answers["quantiles by k"]:
        source = window(tuples, "short", answer)
        for row in answer.table.to_pylist():
            check_quantiles(row, source, f"WHERE k IS NOT DISTINCT FROM {'NULL' if row['k'] is None else row['k']}")


# -- point counts ------------------------------------------------------------------------------------------


def test_point_counts(answers: dict[str, list[Answer]], tuples: pa.Table) -> None:
    select = ", ".join(f"count(*) FILTER ({c} = {v}) AS {c}, count({c}) AS n_{c}" for c, v in POINTS.items())
    for answer in answers["points"]:
        (row,), (truth,) = answer.table.to_pylist(), truths(select, window(tuples, "short", answer))
        for column in POINTS:
            assert row[f"{column}_lower"] <= truth[column] <= row[f"{column}_upper"] == row[column], column
            # Few values do not meet in the counters.
            assert row[column] <= truth[column] + 0.001 * truth[f"n_{column}"], column
    for answer in answers["points by k"]:
        found = truths(f"k, {select}", window(tuples, "short", answer), "WHERE uniform < 2500 GROUP BY k")
        expected = {row["k"]: row for row in found}
        assert {row["k"] for row in answer.table.to_pylist()} == expected.keys()
        for row in answer.table.to_pylist():
            truth = expected[row["k"]]
            assert truth["s"] <= row["s"] <= truth["s"] + 0.001 * truth["n_s"]


# -- the most frequent -------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", COLUMNS)
def test_the_most_frequent(answers: dict[str, list[Answer]], tuples: pa.Table, column: str) -> None:
    for answer in answers[f"top {column}"]:
        assert answer.table.schema.field(column).type == TYPES[column]
        found = truths(
            f"{column}, count(*) AS n", window(tuples, "short", answer), f"WHERE {column} IS NOT NULL GROUP BY 1"
        )
        truth = Counter({_plain(row[column]): row["n"] for row in found})
        rows = answer.table.to_pylist()
        assert len(rows) == min(5, len(truth))
        for row in rows:
            assert row["lower"] <= truth[_plain(row[column])] <= row["upper"]
            assert row["lower"] <= row["count"] <= row["upper"]
        assert [row["count"] for row in rows] == sorted((row["count"] for row in rows), reverse=True)
        if len(truth) <= 3_000:
            # All items fit into the sketch: it counts exactly, and equals come in the order of their values.
            best = sorted(truth.values(), reverse=True)[:5]
            assert [row["count"] for row in rows] == best
            assert all(truth[_plain(row[column])] == row["count"] for row in rows)


def _plain(value: Any) -> Any:
    """One NaN and one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def test_the_most_frequent_by_group(answers: dict[str, list[Answer]], tuples: pa.Table) -> None:
    for answer in answers["top by k"]:
        source = f"{window(tuples, 'long', answer)} WHERE uniform < 2500 AND s IS NOT NULL"
        ranked = (
            "SELECT k, s, n FROM (SELECT k, s, count(*) AS n, row_number() OVER "
            f"(PARTITION BY k ORDER BY count(*) DESC, s) AS place FROM {source} GROUP BY k, s) WHERE place <= 3"
        )
        assert same_rows(answer.table.to_pylist(), duck().sql(ranked).to_arrow_table().to_pylist())
    for answer in answers["top rows"]:
        found = truths(
            "s, count(*) AS n",
            window(tuples, "rows", answer),
            "WHERE s IS NOT NULL GROUP BY s ORDER BY n DESC, s LIMIT 3",
        )
        assert [tuple(row.values()) for row in answer.table.to_pylist()] == [tuple(row.values()) for row in found]


# -- nothing -----------------------------------------------------------------------------------------------


def test_empty_windows_and_nothing_but_nulls(answers: dict[str, list[Answer]]) -> None:
    """The gap is reported once: 0 for counts, NULL for quantiles, no rows for items; also if WHERE lets none in."""
    empty = [a for a in answers["distinct short"] if not a.table["uniform_upper"][0].as_py()]
    assert len(empty) == 1
    (row,) = empty[0].table.to_pylist()
    assert set(row.values()) == {0}
    (gap,) = [a for a in answers["quantiles short"] if a.as_of == empty[0].as_of]
    assert set(gap.table.to_pylist()[0].values()) == {None}
    (gap,) = [a for a in answers["points"] if a.as_of == empty[0].as_of]
    assert set(gap.table.to_pylist()[0].values()) == {0}
    for name in ("top s", "distinct by k", "quantiles by k"):
        (gap,) = [a for a in answers[name] if a.as_of == empty[0].as_of]
        assert gap.table.num_rows == 0
    assert all(a.table.num_rows == 0 for a in answers["top nothing"])
    assert all(a.table.to_pylist() == [{"n": 0, "q": None}] for a in answers["nowhere"])


def test_quantiles_are_of_numbers(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        session.create_stream("s", frame_of(spark, data().slice(0, 1)), timestamp="ts")
        for column in ("s", "d", "t", "b"):
            with pytest.raises(sash.SashError, match="APPROX_QUANTILE"):
                session.register(f"SELECT APPROX_QUANTILE({column}, 0.5) AS q FROM s [WINDOW 8 sec SLIDE 4 sec]", "q")
