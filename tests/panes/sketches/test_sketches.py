"""Each sketch: errors within its bounds, merging in any order, emptiness, what it hashes."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.sketches import (
    SKETCHES,
    FrequentStrings,
    Hll,
    Kll,
    as_number,
    as_text,
    decode,
    require_value,
    top_of,
)
from sash.plan.expressions import RowExpression
from tests.panes.sketches.build import BUILD, hll_of, items_of, kll_of, merged
from tests.support.examples import examples

RANDOM = np.random.default_rng(5)
DATA: dict[str, list[int]] = {
    "uniform": RANDOM.integers(0, 40_000, 30_000).tolist(),
    "skewed": np.minimum(RANDOM.zipf(1.3, 30_000), 10**6).tolist(),
    "few": [1, 1, 2, 3, 3, 3],
}
QUANTILES = [Fraction(n, 20) for n in range(21)]


def split(values: list[int], parts: int = 7) -> list[list[int]]:
    """Panes of different sizes, one of them empty."""
    cuts = sorted(np.random.default_rng(len(values)).integers(0, len(values), parts).tolist())
    return [values[a:b] for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)] + [[]]


def whole(kind: str, values: list[Any]) -> Any:
    data = merged(SKETCHES[kind], [BUILD[kind](part) for part in split(values)])
    assert data is not None
    return SKETCHES[kind].from_bytes(data)


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_distinct_values(name: str) -> None:
    """Hashes are fixed, so that this holds always or never."""
    sketch, true = whole("hll", DATA[name]), len(set(DATA[name]))
    lower, upper = sketch.bounds()
    assert lower <= true <= upper and lower <= sketch.estimate() <= upper
    assert upper - lower <= max(1.0, 0.11 * true)


@pytest.mark.parametrize("name", DATA)
def test_quantiles(name: str) -> None:
    """Coins are tossed: three times the error that is exceeded once in a hundred times is never seen."""
    sketch, ordered = whole("kll", DATA[name]), sorted(DATA[name])
    n, error = len(ordered), 3 * 0.0133 if len(ordered) > 200 else 0.0
    for p in QUANTILES:
        lower, upper = sketch.bounds(p)
        assert lower <= sketch.estimate(p) <= upper
        first, last = (
            ordered[min(n - 1, max(0, int(max(1, p * n // 1) - 1 + shift * n)))] for shift in (-error, error)
        )
        assert first <= sketch.estimate(p) <= last
        assert lower <= last and upper >= first


@pytest.mark.parametrize("name", DATA)
def test_frequent_items(name: str) -> None:
    sketch, true = whole("items", DATA[name]), Counter(map(str, DATA[name]))
    for item, count in true.most_common(50):
        lower, upper = sketch.bounds(item)
        assert lower <= count <= upper and lower <= sketch.estimate(item) <= upper
        assert upper - lower <= 0.0009 * len(DATA[name]) + 1
    heavy = {item for item, count in true.items() if count > 0.002 * len(DATA[name])}
    assert heavy <= {row[0] for row in sketch.rows()}, "a frequent item is never missed"


# -- merging ------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 30), max_size=9), min_size=1, max_size=6), st.randoms())
@settings(max_examples=examples(40))
def test_merging_in_any_order_and_grouping(panes: list[list[int]], random: Any) -> None:
    """Below the size at which something is lost, all answers are equal."""
    values = [value for pane in panes for value in pane]
    mixed = random.sample(panes, len(panes))
    cut = random.randint(0, len(panes))
    for kind, sketch in SKETCHES.items():
        made = [BUILD[kind](pane) for pane in mixed]
        flat = merged(sketch, made)
        nested = merged(sketch, [merged(sketch, made[:cut]), merged(sketch, made[cut:])])
        assert flat is not None and nested is not None
        left, right = sketch.from_bytes(flat), sketch.from_bytes(nested)
        assert left.empty == right.empty == (not values)
        if not values:
            continue
        asked: list[Any] = {"hll": [None], "kll": QUANTILES, "items": ["0", "7", "30"]}[kind]
        for each in asked:
            assert left.estimate(each) == right.estimate(each)
            assert left.bounds(each) == right.bounds(each)


def test_large_hll_unions_do_not_depend_on_the_order() -> None:
    made = [hll_of(part) for part in split(DATA["uniform"])]
    flat, nested = merged(Hll, made), merged(Hll, [merged(Hll, made[3:]), merged(Hll, made[:3][::-1])])
    assert flat is not None and nested is not None
    assert Hll.from_bytes(flat).estimate() == Hll.from_bytes(nested).estimate()


@pytest.mark.parametrize("kind", SKETCHES)
def test_bytes_come_back(kind: str) -> None:
    sketch = whole(kind, DATA["skewed"])
    again = SKETCHES[kind].from_bytes(sketch.to_bytes())
    asked = {"hll": None, "kll": Fraction(1, 3), "items": "1"}[kind]
    assert again.estimate(asked) == sketch.estimate(asked) and again.bounds(asked) == sketch.bounds(asked)
    assert merged(SKETCHES[kind], []) is merged(SKETCHES[kind], [None, None]) is None
    assert SKETCHES[kind].from_bytes(BUILD[kind]([None])).empty


def test_kll_is_exact_for_few_values_and_has_no_nan() -> None:
    sketch = Kll.from_bytes(kll_of([float(n) for n in range(1, 11)] + [float("nan")]))
    found = {p: sketch.estimate(p) for p in (Fraction(0), Fraction(1, 20), Fraction(7, 10), Fraction(1))}
    assert list(found.values()) == [1.0, 1.0, 7.0, 10.0]
    assert sketch.bounds(Fraction(7, 10)) == (7.0, 7.0)


def test_int_and_bool_hash_alike_but_text_does_not() -> None:
    assert Hll.from_bytes(hll_of([1, True, 2, "1", "", ""])).estimate() == pytest.approx(4.0, abs=1e-4)


# -- frequent items as values -------------------------------------------------------------------------


def test_top_of_a_sketch_breaks_ties_by_value() -> None:
    data = items_of([10, 9, 10, 9, 8, 7, 7, 7, None])
    items, *figures = top_of(data, pa.int32(), 3)
    assert items.type == pa.int32() and items.to_pylist() == [7, 9, 10]
    assert [figure.tolist() for figure in figures] == [[3, 2, 2]] * 3
    empty, *_ = top_of(None, pa.date32(), 3)
    assert empty.type == pa.date32() and len(empty) == 0


def test_top_of_a_full_sketch_is_within_its_bounds() -> None:
    true = Counter(DATA["skewed"])
    items, estimates, lower, upper = top_of(whole("items", DATA["skewed"]).to_bytes(), pa.int64(), 5)
    assert items.to_pylist() == [item for item, _ in true.most_common(5)]
    assert all(a <= true[i] <= b for i, a, b in zip(items.to_pylist(), lower, upper, strict=True))
    assert (np.diff(estimates) <= 0).all()


VALUES: list[tuple[pa.DataType, list[Any], list[str]]] = [
    (pa.string(), ["", "ä"], ["", "ä"]),
    (pa.int8(), [-3], ["-3"]),
    (pa.bool_(), [True, False], ["1", "0"]),
    (pa.float64(), [0.1, float("inf"), 1e300], ["0.1", "Infinity", "1.0E300"]),
    (pa.float32(), [0.5], ["0.5"]),
    (pa.decimal128(10, 2), [Decimal("-1.50")], ["-1.50"]),
    (pa.date32(), [dt.date(1969, 12, 31)], ["-1"]),
    (pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 1)], ["1000000"]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)], ["1000000"]),
    (pa.binary(), [b"\x00\xff"], ["00FF"]),
]


@pytest.mark.parametrize(("type", "values", "texts"), VALUES, ids=lambda each: str(each) if each else "")
def test_texts_are_decoded(type: pa.DataType, values: list[Any], texts: list[str]) -> None:
    assert decode(texts, type).equals(pa.array(values, type))


@pytest.mark.parametrize(
    ("type", "number", "text"),
    [
        (pa.int8(), "CAST(x AS BIGINT)", "CAST(CAST(x AS BIGINT) AS STRING)"),
        (pa.bool_(), "CAST(x AS BIGINT)", "CAST(CAST(x AS BIGINT) AS STRING)"),
        (pa.date32(), "CAST(unix_date(x) AS BIGINT)", "CAST(CAST(unix_date(x) AS BIGINT) AS STRING)"),
        (pa.timestamp("us", "UTC"), "unix_micros(x)", "CAST(unix_micros(x) AS STRING)"),
        (pa.float32(), None, "CAST((x) + 0D AS STRING)"),
        (pa.decimal128(10, 2), None, "CAST(x AS STRING)"),
        (pa.string(), None, "x"),
        (pa.binary(), None, "hex(x)"),
    ],
    ids=str,
)
def test_what_is_hashed(type: pa.DataType, number: str | None, text: str) -> None:
    x = RowExpression("x", type, ("x",))
    assert as_number(x) == number and as_text(x) == text


def test_the_calls_that_spark_is_asked_for() -> None:
    n, s = (RowExpression(name, type, (name,)) for name, type in (("n", pa.int32()), ("s", pa.string())))
    assert [each.sql() for each in Hll.lift(n) + Hll.lift(s) + Kll.lift(n) + FrequentStrings.lift(s)] == [
        "hll_sketch_agg(CAST(n AS BIGINT), 12)",
        "hll_sketch_agg(concat(s, '.'), 12)",
        "kll_sketch_agg_double(CAST(n AS DOUBLE), 200)",
        "(approx_top_k_accumulate(s, 3072)).sketch",
    ]
    (lifted,) = FrequentStrings.lift(s)
    assert lifted.sql("_x1", "p") == "(approx_top_k_accumulate(_x1, 3072) FILTER (WHERE p)).sketch"


@pytest.mark.parametrize("type", [None, pa.list_(pa.int32()), pa.duration("us")], ids=str)
def test_what_has_no_hash_is_refused(type: pa.DataType | None) -> None:
    with pytest.raises(ValueError, match=r"APPROX_TOP"):
        require_value("APPROX_TOP", type)
