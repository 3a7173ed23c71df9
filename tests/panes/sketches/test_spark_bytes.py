"""The bytes that Spark's functions write, read and merged here: few tests, because they need a JVM."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from sash.panes.counters import counter_key, counters_of, keys_of_rows
from sash.panes.partials import Partial
from sash.panes.sketches import SKETCHES, Hll, Kll, top_of
from sash.plan.expressions import RowExpression
from tests.panes.sketches.build import hll_of, merged

pytestmark = pytest.mark.spark
N = RowExpression("n", pa.int64(), ("n",))
S = RowExpression("s", pa.string(), ("s",))


def lifted(spark: Any, rows: str, grouping: str, **asked: Partial) -> pa.Table:
    """One column per partial, as the pass has them."""
    columns = [f"{partial.lift()[0].sql(condition='p')} AS {name}" for name, partial in asked.items()]
    return spark.sql(f"SELECT {grouping} AS g, {', '.join(columns)} FROM ({rows}) GROUP BY 1 ORDER BY 1").toArrow()


def test_panes_from_spark_are_merged_here(spark: Any) -> None:
    """9,000 distinct numbers under p in ten panes, skewed in `s`; the last pane has rows, but none under p."""
    rows = (
        "SELECT id % 11 AS pane, id % 9000 AS n, 'ä' || CAST(log2(1 + id % 1021) AS INT) AS s, id % 11 < 10 AS p "
        "FROM range(99000)"
    )
    table = lifted(spark, rows, "pane", h=Partial("hll", N), k=Partial("kll", N), i=Partial("items", S))
    stored = {
        name: Partial(kind, x).store([table[name].combine_chunks()], None)[0]
        for name, kind, x in (("h", "hll", N), ("k", "kll", N), ("i", "items", S))
    }
    assert all(column[10] is None and all(column[:10]) for column in stored.values())
    hll, kll, items = (merged(SKETCHES[k], stored[n]) for n, k in (("h", "hll"), ("k", "kll"), ("i", "items")))
    assert hll is not None and kll is not None and items is not None
    lower, upper = Hll.from_bytes(hll).bounds()
    assert lower <= 9_000 <= upper
    again = merged(Hll, [hll, hll_of(range(9_000))])
    assert again is not None
    assert Hll.from_bytes(again).estimate() == Hll.from_bytes(hll).estimate(), "both sides hash alike"
    for p in (Fraction(1, 10), Fraction(1, 2), Fraction(99, 100)):
        assert abs(Kll.from_bytes(kll).estimate(p) - p * 9_000) < 3 * 0.0133 * 9_000
    kept = [i for i in range(99_000) if i % 11 < 10]
    true = Counter(f"ä{(1 + i % 1021).bit_length() - 1}" for i in kept)
    found, estimates, *_ = top_of(items, pa.string(), 4)
    assert list(zip(found.to_pylist(), estimates.tolist(), strict=True)) == true.most_common(4)


DISTINCT = {
    "TINYINT": (pa.int8(), ["1", "2"]),
    "BOOLEAN": (pa.bool_(), ["true", "false"]),
    "DOUBLE": (pa.float64(), ["'0.0'", "'-0.0'", "'NaN'", "'NaN'", "'-Infinity'", "0.1"]),
    "FLOAT": (pa.float32(), ["0.5", "'-0.0'", "0"]),
    "DECIMAL(10, 2)": (pa.decimal128(10, 2), ["1.5", "1.50", "-0.01"]),
    "DATE": (pa.date32(), ["'2020-01-01'", "'1960-01-01'"]),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), ["'2020-01-01 00:00:00.000001'", "'1960-01-01'"]),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), ["'2020-01-01 00:00:00.000001'", "'1960-01-01'"]),
    "STRING": (pa.string(), ["''", "'a'", "'A'"]),
    "BINARY": (pa.binary(), ["''", "'a'"]),
}


def test_every_type_is_counted_as_spark_counts_it(spark: Any) -> None:
    """-0.0 is 0.0, NaN is NaN, an empty string is a value, NULL is none; and items come back as they were."""
    for name, (type, values) in DISTINCT.items():
        x = RowExpression("x", type, ("x",))
        rows = " UNION ALL ".join(f"SELECT CAST({value} AS {name}) AS x, true AS p" for value in [*values, "NULL"])
        table = lifted(spark, rows, "1", h=Partial("hll", x), i=Partial("items", x))
        exact = spark.sql(f"SELECT x, count(1) AS n FROM ({rows}) WHERE x IS NOT NULL GROUP BY x").toArrow()
        assert round(Hll.from_bytes(table["h"][0].as_py()).estimate()) == len(exact), name
        items, counts, *_ = top_of(table["i"][0].as_py(), type, 10)
        ours = Counter(dict(zip(map(str, items.to_pylist()), counts.tolist(), strict=True)))
        assert ours == Counter(dict(zip(map(str, exact["x"].to_pylist()), exact["n"].to_pylist(), strict=True))), name


COUNTED = {
    **DISTINCT,
    "DECIMAL(38, 3)": (pa.decimal128(38, 3), ["0", "-0.128", "0.127", "-0.129", "12345678901234567890123456789.5"]),
    "BIGINT": (pa.int64(), ["-1", "0", "9223372036854775807", "-9223372036854775808"]),
    "STRING": (pa.string(), [f"repeat('ä{i}', {i})" for i in range(30)]),
    "BINARY": (pa.binary(), [f"unhex(repeat('F{i % 10}', {i}))" for i in range(70)]),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_value_has_the_counters_that_spark_counts_in(spark: Any, name: str) -> None:
    """NULL has none."""
    type, values = COUNTED[name]
    (first,), (second,) = keys_of_rows([counter_key(RowExpression("x", type, ("x",)))])
    rows = " UNION ALL ".join(f"SELECT CAST({value} AS {name}) AS x" for value in [*values, "NULL"])
    table = spark.sql(f"SELECT x, {first.sql} AS a, {second.sql} AS b FROM ({rows})").toArrow()
    found = [scalar.cast(type) for scalar in table["x"]]
    expected = [counters_of(scalar) if scalar.is_valid else (None, None) for scalar in found]
    assert list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)) == expected


def test_quantiles_of_decimals_and_nan(spark: Any) -> None:
    """NaN is no number."""
    for name, type, values in (
        ("DECIMAL(10, 2)", pa.decimal128(10, 2), ["0.25", "4"]),
        ("DOUBLE", pa.float64(), ["0.25", "4", "'NaN'"]),
    ):
        x = RowExpression("x", type, ("x",))
        rows = " UNION ALL ".join(f"SELECT CAST({value} AS {name}) AS x, true AS p" for value in [*values, "NULL"])
        data = lifted(spark, rows, "1", k=Partial("kll", x))["k"][0].as_py()
        assert [Kll.from_bytes(data).estimate(Fraction(p)) for p in (0, 1)] == [0.25, 4.0], name
