"""Looking up some groups alone gives what looking up all of them gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.panes.partials import Combine
from tests.panes.intervals.cases import SYNOPSES


@pytest.mark.parametrize("name", list(SYNOPSES))
@given(st.data())
def test_some_groups(name: str, data: st.DataObject) -> None:
    combine = Combine.ADD if name == "running" else data.draw(st.sampled_from([Combine.ADD, Combine.MIN, Combine.MAX]))
    capacity, groups = 9, 5
    synopsis = SYNOPSES[name](capacity, groups, combine, np.int64, range(1, capacity + 1))
    rows = data.draw(st.lists(st.lists(st.integers(-9, 9), min_size=groups, max_size=groups), min_size=1, max_size=20))
    synopsis.extend(np.array(rows, dtype=np.int64))
    left = data.draw(st.integers(synopsis.oldest, synopsis.length))
    right = data.draw(st.integers(left, synopsis.length))
    chosen = np.array(data.draw(st.lists(st.integers(0, groups - 1), unique=True)), dtype=np.int32)
    assert synopsis.lookup_groups(left, right, chosen).tolist() == synopsis.lookup(left, right)[chosen].tolist()


def test_inactive_intervals_are_refused() -> None:
    for name in ("running", "interval"):
        synopsis = SYNOPSES[name](4, 2, Combine.ADD, np.int64)
        synopsis.extend(np.ones((9, 2), dtype=np.int64))
        with pytest.raises(ValueError, match="is not active"):
            synopsis.lookup_groups(2, 9, np.array([0]))
