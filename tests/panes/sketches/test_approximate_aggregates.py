"""From merged sketches to an answer's column, in the three forms."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.expr.value_codes import KeyDictionary
from sash.panes.aggregates.approximate import ApproxCountDistinct, ApproxQuantile, CountMin
from sash.panes.counters import ROWS, counters_of
from sash.panes.items import ItemCounts, item_order
from sash.panes.partials import Partial
from sash.panes.sketches import FORMS
from tests.panes.raw import N, P, column
from tests.panes.sketches.build import hll_of, kll_of

LONG = Decimal("123456789012345678901234567890.25")


def lowered(aggregate: Any, argument: Any, sketches: list[bytes | None]) -> list[Any]:
    partials = aggregate.lift(argument, None)
    answer = aggregate.lower(partials, {partials[0]: [np.array(sketches, dtype=object)]})
    assert answer.type == aggregate.result_type(argument.type)
    return answer.to_pylist()


def test_the_forms_share_one_partial() -> None:
    for aggregate, kind in ((ApproxCountDistinct(), "hll"), (ApproxQuantile().bind(Fraction(9, 10)), "kll")):
        lifts = {replace(aggregate, form=form).lift(N, P) for form in FORMS}
        assert lifts == {(Partial(kind, N, P),)}
        assert not any(partial.subtractable for partial in aggregate.lift(N, P))
        assert len({replace(aggregate, form=form) for form in FORMS} | {aggregate}) == 3


def test_distinct_values() -> None:
    sketches = [hll_of(range(3)), None, hll_of(range(20_000))]
    lower, estimate, upper = (
        lowered(ApproxCountDistinct(form), N, sketches) for form in ("lower", "estimate", "upper")
    )
    assert estimate[:2] == [3, 0] and lower[:2] == [3, 0] and upper[1] == 0 and upper[0] in (3, 4)
    assert 18_500 < lower[2] < estimate[2] < upper[2] < 21_500
    assert lower[2] <= 20_000 <= upper[2]


@pytest.mark.parametrize("type", [pa.int8(), pa.int64(), pa.float32(), pa.decimal128(5, 2)], ids=str)
def test_quantiles_are_doubles(type: pa.DataType) -> None:
    second = ApproxQuantile().bind(Fraction(2, 3))
    for form in FORMS:
        assert lowered(replace(second, form=form), column("x", type), [None, kll_of([-7, 3, 5])]) == [None, 3.0]
    assert lowered(second.bind(Fraction(1)), column("x", type), [kll_of([1, math.inf])]) == [math.inf]


def test_quantiles_with_bounds() -> None:
    sketch = kll_of(range(100_000))
    ninth = ApproxQuantile().bind(Fraction(9, 10))
    lower, estimate, upper = (
        lowered(replace(ninth, form=form), N, [sketch])[0] for form in ("lower", "estimate", "upper")
    )
    assert lower < estimate < upper and abs(estimate - 90_000) < 4_000 and upper - lower < 8_000


@pytest.mark.parametrize(
    ("aggregate", "type", "why"),
    [
        (ApproxCountDistinct(), None, "needs a column"),
        (ApproxCountDistinct(), pa.list_(pa.int8()), "needs numbers, strings"),
        (ApproxQuantile(), pa.string(), "needs a number"),
        (ApproxQuantile(), pa.date32(), "needs a number"),
        (ApproxQuantile(), None, "needs a column"),
        (CountMin(), None, "needs a column"),
    ],
)
def test_what_is_refused(aggregate: Any, type: pa.DataType | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        aggregate.result_type(type)


def test_a_fraction_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        ApproxQuantile().bind(Fraction(3, 2))


@pytest.mark.parametrize(
    ("items", "value"),
    [
        (pa.array(["a", "b", None]), "b"),
        (pa.array([1, 2, None]), 2),
        (pa.array([0.5, 1.5, None]), Fraction(3, 2)),
        (pa.array([0.5, 2.0, None]), 2),
        (pa.array([Decimal("0.50"), Decimal("1.50"), None], pa.decimal128(5, 2)), Fraction(3, 2)),
        (pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None]), dt.date(2020, 1, 2)),
        (pa.array([b"a", b"b", None]), b"b"),
        (pa.array([0.5, -0.0, None]), 0),
        (pa.array([0.5, math.nan, None]), math.nan),
        (pa.array([False, True, None]), True),
        (pa.array([LONG + 1, LONG, None], pa.decimal128(38, 2)), Fraction(LONG)),
    ],
    ids=str,
)
def test_how_often_a_value_occurs(items: pa.Array, value: object) -> None:
    """From the counts of all values, and from the counts of two counters for each value."""
    asked = CountMin().bind(value)
    assert asked.result_type(items.type) == pa.int64() and hash(asked) == hash(CountMin(value))
    counts = np.array([7, 4, 100])
    for form in FORMS:
        exact = replace(asked, form=form)
        assert exact.lower_items(item_counts(items, counts)).to_pylist() == [4]
        counters = [counters_of(item) if item.is_valid else (None,) * ROWS for item in items]
        rows = pa.array([row for each in counters for row in each], pa.int32())
        estimate = exact.by_counters(items.type).lower_items(item_counts(rows, np.repeat(counts, ROWS)))
        assert estimate.to_pylist() == [4]


def item_counts(items: pa.Array, counts: np.ndarray) -> ItemCounts:
    """One window of one group; NULLs are one item."""
    keys = KeyDictionary([items.type])
    codes = keys.encode([items], len(items))
    return ItemCounts(np.bincount(codes, counts).astype(np.int64)[np.newaxis], item_order(keys, 0, ()))
