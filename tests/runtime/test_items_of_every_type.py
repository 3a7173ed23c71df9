"""Holistic aggregates and item lists of dates, timestamps, decimals, booleans, floats and bytes, against DuckDB."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sash.catalog import Stream
from sash.core.time import SECOND, to_micros
from tests.support.feed import answers_of
from tests.support.oracle import duck, same_rows
from tests.support.streams import START

TYPES = {
    "k": pa.int32(),
    "tiny": pa.int8(),
    "big": pa.int64(),
    "d": pa.date32(),
    "t": pa.timestamp("us", "UTC"),
    "ntz": pa.timestamp("us"),
    "price": pa.decimal128(10, 2),
    "wide": pa.decimal128(38, 6),
    "b": pa.bool_(),
    "x": pa.float64(),
    "f": pa.float32(),
    "s": pa.string(),
    "bytes": pa.binary(),
}
ITEMS = [name for name in TYPES if name != "k"]
NUMBERS = ["tiny", "big", "price", "x", "f"]


def declared() -> Stream:
    return Stream("s", pa.schema([("ts", pa.timestamp("us", "UTC")), *TYPES.items()]), "ts")


def value(name: str, n: int) -> Any:
    """Of every type a few values, among them the awkward ones."""
    moment = datetime(2026, 1, 1) + timedelta(microseconds=n)
    values: dict[str, Any] = {
        "tiny": n - 3,
        "big": [2**62, -(2**62), 2**53 + 1, 2**53, 0, 7][n],
        "d": date(1969, 12, 29) + timedelta(days=n),
        "t": moment.replace(tzinfo=UTC),
        "ntz": moment,
        "price": Decimal(n - 2) / 4,
        "wide": Decimal(10) ** 29 + Decimal(n) / 8,
        "b": n % 2 == 0,
        "x": [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-300][n],
        "f": n / 8,
        "s": ["", "a", "A", "ä", "ab", " a"][n],
        "bytes": [b"", b"\x00", b"\x00\x00", b"\xff", b"a", b"ab"][n],
    }
    return values[name]


@pytest.fixture(scope="module")
def tuples() -> pa.Table:
    chance = random.Random(5)
    columns: dict[str, list[Any]] = {
        "ts": [START + i * SECOND // 8 for i in range(160)],
        "k": [],
        **{i: [] for i in ITEMS},
    }
    for _ in range(160):
        columns["k"].append(chance.choice([1, 2, None]))
        for name in ITEMS:
            columns[name].append(value(name, min(5, int(chance.expovariate(0.6)))) if chance.randrange(9) else None)
    table = pa.table([pa.array(columns[field.name], field.type) for field in declared().schema], declared().schema)
    return table.append_column("_us", table["ts"].cast(pa.int64()))


def check(tuples: pa.Table, ours: str, theirs: str, ordered: bool = False) -> None:
    """Every answer of a query over 6 seconds; in DuckDB's words `{t}` stands for the window's tuples."""
    parts = [tuples.slice(0, 50), tuples.slice(50, 60), tuples.slice(110)]
    answers = answers_of(declared(), {"q": ours.format(w="[WINDOW 6 sec SLIDE 2 sec]")}, parts)["q"]
    assert len(answers) >= 9
    duck().register("tuples", tuples)
    for answer in answers:
        as_of = to_micros(answer.as_of)
        window = f"(SELECT * FROM tuples WHERE _us > {as_of - 6 * SECOND} AND _us <= {as_of})"
        expected = duck().sql(theirs.format(t=window)).to_arrow_table().to_pylist()
        assert same_rows(answer.table.to_pylist(), expected, ordered), (ours, answer.as_of, answer.table, expected)


@pytest.mark.parametrize("item", ITEMS)
def test_distinct_values_and_modes(tuples: pa.Table, item: str) -> None:
    check(
        tuples,
        f"SELECT k, COUNT(DISTINCT {item}) AS d, COUNT(*) AS n FROM s {{w}} GROUP BY k",
        f"SELECT k, count(DISTINCT {item}), count(*) FROM {{t}} GROUP BY k",
    )
    mode = f"SELECT {item} FROM {{t}} WHERE {item} IS NOT NULL GROUP BY {item} ORDER BY count(*) DESC, {item} LIMIT 1"
    check(tuples, f"SELECT MODE({item}) AS m FROM s {{w}}", mode)


@pytest.mark.parametrize("item", ITEMS)
def test_lists_of_items(tuples: pa.Table, item: str) -> None:
    """Equals come in the order of their values, which is Spark's: FALSE before TRUE, NaN last, text by its bytes."""
    counts = f"SELECT {item}, count(*) AS n FROM {{t}} WHERE {item} IS NOT NULL GROUP BY {item}"
    check(tuples, f"SELECT TOP(3, {item}) FROM s {{w}}", f"{counts} ORDER BY n DESC, {item} LIMIT 3", ordered=True)
    check(tuples, f"SELECT HISTOGRAM({item}) FROM s {{w}}", f"{counts} ORDER BY {item}", ordered=True)
    # One sub-window, and more places on its list than there are values: exact counts.
    check(tuples, f"SELECT FREQUENT(99, {item}) FROM s {{w}}", f"{counts} ORDER BY n DESC, {item}", ordered=True)


@pytest.mark.parametrize("weight", ["tiny", "price", "wide", "f"])
def test_lists_by_weight(tuples: pa.Table, weight: str) -> None:
    check(
        tuples,
        f"SELECT TOP(2, d, SUM({weight})) FROM s {{w}}",
        f"SELECT d, sum({weight}) AS w FROM {{t}} WHERE d IS NOT NULL GROUP BY d ORDER BY w DESC NULLS LAST, d LIMIT 2",
        ordered=True,
    )


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize(("p", "n", "d"), [("0", 0, 1), ("0.7", 7, 10), ("1", 1, 1)])
def test_quantiles(tuples: pa.Table, item: str, p: str, n: int, d: int) -> None:
    nth = f"list_sort(list({item}) FILTER (WHERE {item} IS NOT NULL))[greatest(1, count({item}) * {n} // {d})]"
    check(tuples, f"SELECT QUANTILE({item}, {p}) AS q FROM s {{w}}", f"SELECT {nth} FROM {{t}}")


@pytest.mark.parametrize("item", [name for name in NUMBERS if name != "x"])
def test_interpolated_quantiles(tuples: pa.Table, item: str) -> None:
    check(
        tuples,
        f"SELECT k, MEDIAN({item}) AS m, QUANTILE_CONT({item}, 0.9) AS q FROM s {{w}} GROUP BY k",
        f"SELECT k, quantile_cont({item}::DOUBLE, 0.5), quantile_cont({item}::DOUBLE, 0.9) FROM {{t}} GROUP BY k",
    )


@pytest.mark.parametrize("item", ITEMS)
def test_an_answer_has_the_type_of_its_column(tuples: pa.Table, item: str) -> None:
    texts = {
        "top": f"SELECT TOP(3, {item}) FROM s [WINDOW 6 sec SLIDE 2 sec]",
        "quantile": f"SELECT QUANTILE({item}, 0.5) AS {item} FROM s [WINDOW 6 sec SLIDE 2 sec]",
        "group": f"SELECT {item}, COUNT(*) AS n FROM s [ROWS 50 SLIDE 20] GROUP BY {item}",
    }
    for answers in answers_of(declared(), texts, [tuples]).values():
        assert answers
        assert {answer.table.schema.field(item).type for answer in answers} == {TYPES[item]}
