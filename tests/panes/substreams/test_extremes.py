"""MAX and MIN filters against a look at every value: exactly the same keys."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.substreams import ExtremeIndex
from tests.panes.substreams.histories import COMPARISONS, KEYS, Update, apply, updates, window
from tests.support.examples import examples

INTS = st.integers(-9, 9)
FLOATS = st.one_of(st.floats(), st.integers(-3, 3).map(float))
LIMITS = st.sampled_from([-(2**63), -(2**63) + 1, 0, 2**63 - 2, 2**63 - 1])
LENGTHS = st.integers(1, 40)


def rank(number: Any) -> tuple[bool, Any]:
    """NaN is the greatest number."""
    return (True, 0) if isinstance(number, float) and math.isnan(number) else (False, number)


def exact(kind: str, history: list[Any], tau: int, length: int, comparison: str, v: Any) -> list[int]:
    extreme = max if kind == "max" else min
    found = window(history, tau, length)
    return sorted(key for key, xs in found.items() if COMPARISONS[comparison](rank(extreme(xs, key=rank)), rank(v)))


def check(index: ExtremeIndex, history: list[Any], tau: int, length: int, v: Any) -> None:
    for comparison in COMPARISONS:
        expected = exact(index.kind, history, tau, length, comparison, v)
        assert index.lookup(tau, length, comparison, v).tolist() == expected


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("values", [INTS, FLOATS, LIMITS], ids=["whole", "float", "limits"])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_answers_are_exact(kind: str, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    dtype = np.float64 if values is FLOATS else np.int64
    index, history, time = ExtremeIndex(kind, dtype), [], 0
    for later, rows in data.draw(updates(values, 40)):
        time += later
        apply(index, time, rows, dtype)
        history += [(time, key, value) for key, value in rows]
        if data.draw(st.booleans()):
            check(index, history, time + data.draw(st.integers(0, 3)), data.draw(LENGTHS), data.draw(values))


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("v", [2.5, Fraction(-5, 2), 1e30, -1e30, math.inf, -math.inf, math.nan, 2**63, -(2**63) - 1])
def test_any_number_will_do_as_a_threshold(kind: str, v: Any) -> None:
    index, history = ExtremeIndex(kind), [(1, key, value) for key, value in enumerate([-(2**63), -3, -2, 2, 3])]
    apply(index, 1, [(key, value) for _, key, value in history])
    check(index, history, 1, 1, v)


@given(steps=updates(INTS), more=updates(INTS, 5), length=st.integers(1, 20), v=INTS)
@settings(max_examples=examples(40))
def test_forgetting(steps: list[Update], more: list[Update], length: int, v: int) -> None:
    index, history, time = ExtremeIndex("max"), [], 0
    for later, rows in steps:
        time += later
        apply(index, time, rows)
        history += [(time, key, value) for key, value in rows]
    index.forget(time - length)
    for later, rows in more:
        check(index, history, time, length, v)
        time += later
        # Some keys come more than once for a pane.
        rows = [(key % (KEYS - 2), value) for key, value in rows]
        apply(index, time, rows)
        history += [(time, key, value) for key, value in rows]
        index.forget(time - length)
    check(index, history, time, length, v)


def test_it_stores_what_the_windows_need() -> None:
    """A row is in as many base-intervals as fit into what is remembered, and is gone afterwards."""
    index = ExtremeIndex("max")
    for time in range(1, 200):
        index.update(time, np.arange(10), np.arange(10))
        index.forget(time - 16)
        assert index.rows <= 10 * 16 * 5
    index.forget(300)
    assert index.rows == 0
    index.update(301, np.arange(3), np.arange(3))
    assert index.lookup(301, 1, ">", 1).tolist() == [2] and index.lookup(301, 1, "<", 1).tolist() == [0]


def test_updates_that_are_errors() -> None:
    index, key = ExtremeIndex("min"), np.array([0])
    index.update(5, key, np.array([1]))
    index.update(5, np.array([], dtype=np.int64), np.array([]))
    with pytest.raises(ValueError, match="in the order of time"):
        index.update(4, key, np.array([1]))
    with pytest.raises(TypeError, match="values are int64, not float64"):
        index.update(6, key, np.array([0.5]))
    with pytest.raises(ValueError, match="a key below 0"):
        index.update(6, -key - 1, np.array([1]))
    with pytest.raises(ValueError, match="1 keys with 2 values"):
        index.update(6, key, np.array([1, 2]))
    with pytest.raises(ValueError, match="unknown comparison: ="):
        index.lookup(6, 1, "=", 3)
    with pytest.raises(ValueError, match="serves max or min, not avg"):
        ExtremeIndex("avg")


def test_what_it_refuses() -> None:
    refuse = ExtremeIndex.refuse
    assert refuse("max", pa.int32()) is None and refuse("MIN", pa.float64()) is None
    assert refuse("max", pa.timestamp("us")) is None
    assert "compares machine numbers, and string is none" in (refuse("max", pa.string()) or "")
    assert "MAX and MIN of a column, not SUM" in (refuse("sum", pa.int32()) or "")
