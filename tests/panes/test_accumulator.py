"""Ranked values: minima and maxima of values that are no machine numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.accumulator import Accumulator, RankedValues
from sash.panes.partials import Partial
from tests.panes.raw import column, greatest, least
from tests.support.examples import examples

IDENTITY = 2**63 - 1


def test_ranks_follow_the_values_not_the_order_of_arrival() -> None:
    ranked = RankedValues(pa.string())
    first = ranked.store(pa.array(["m", None, "z"]), IDENTITY)
    second = ranked.store(pa.array(["a", "m"]), IDENTITY)
    assert first[1] == IDENTITY
    ranks = ranked.ranks(np.concatenate([first, second]), IDENTITY)
    assert ranks[1] == IDENTITY and ranks[3] < ranks[0] == ranks[4] < ranks[2]
    assert ranked.values(ranks, IDENTITY).to_pylist() == ["m", None, "z", "a", "m"]
    assert ranked.codes(ranks, IDENTITY).tolist() == [*first, *second]


def test_ranks_after_compaction_are_those_of_the_new_dictionary() -> None:
    """As many values as before, but others."""
    ranked = RankedValues(pa.string())
    old = ranked.store(pa.array(["a", "b", "y", "z"]), IDENTITY)
    ranked.ranks(old, IDENTITY)
    remap = ranked.compact(np.array([False, False, True, True]))
    kept = remap[old[2:]]
    fresh = ranked.store(pa.array(["q", "zz"]), IDENTITY)
    codes = np.concatenate([kept, fresh])
    assert ranked.values(ranked.ranks(codes, IDENTITY), IDENTITY).to_pylist() == ["y", "z", "q", "zz"]
    assert np.argsort(ranked.ranks(codes, IDENTITY)).tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (pa.string(), st.text(max_size=2)),
        (pa.binary(), st.binary(max_size=2)),
        (pa.bool_(), st.booleans()),
        (pa.decimal128(5, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 100)),
    ],
    ids=str,
)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_extremes_by_rank(type: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.none() | values), max_size=12))
    for kind, choose in (("min", least), ("max", greatest)):
        partial = Partial(kind, column("x", type))
        ranked = {partial: RankedValues(type)}
        accumulator = Accumulator(3, [partial], ranked)
        for code, value in rows:
            # as panes are merged: what was stored, then one row more, which may bring a new value
            (before,) = accumulator.stored(partial)
            added = ranked[partial].store(pa.array([value], type), int(partial.identity()))
            accumulator = Accumulator(3, [partial], ranked)
            for codes, stored in ((np.arange(3, dtype=np.int32), before), (np.array([code], dtype=np.int32), added)):
                accumulator.fold([partial], codes, {(partial, 0): stored}.__getitem__)
        merged = accumulator.merged(partial, None)
        assert isinstance(merged, pa.Array)
        for code in range(3):
            known = [value for group, value in rows if group == code and value is not None]
            assert merged[code].as_py() == choose(known)
