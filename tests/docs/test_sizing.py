"""The rule of docs/operations.md about the memory of panes: rows × (4 + 8 × values), about twice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sash.panes.pane_ring import Pane, PaneRing


@pytest.mark.parametrize(
    ("groups", "panes", "values"), [(1_000, 100, 3), (20_000, 60, 3), (100_000, 6, 3), (20_000, 60, 8)]
)
def test_what_a_ring_of_full_panes_takes(groups: int, panes: int, values: int) -> None:
    tracemalloc.start()
    try:
        ring = PaneRing()
        for value in range(values):
            ring.add_column(value, np.int64, 0)
        codes = np.arange(groups, dtype=np.int32)
        for pane in range(3 * panes):
            ring.insert(Pane(pane, pane + 1, codes, {value: np.full(groups, pane) for value in range(values)}))
            ring.expire(pane + 1 - panes)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ring.rows == groups * panes
    assert 1 <= taken / (ring.rows * (4 + 8 * values)) < 2.5
