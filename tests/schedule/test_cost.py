"""The analytic cost where the papers' examples do not reach: nothing to scan, and panes that do not divide a window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sash.schedule import intervals_scanned, joint_cost, separate_cost

WINDOWS = st.lists(st.integers(1, 100), max_size=8)


def test_no_queries_cost_nothing() -> None:
    assert (intervals_scanned([], 1), joint_cost([], 1), separate_cost([], 1)) == (0, 0, 0)


def test_a_part_of_an_interval_is_scanned_whole() -> None:
    assert intervals_scanned([7], s=2) == 4


@given(WINDOWS, st.integers(1, 10))
def test_sharing_never_costs_more(windows: list[int], s: int) -> None:
    assert separate_cost(windows, s) >= joint_cost(windows, s)
    assert joint_cost(windows, s) == max((joint_cost([window], s) for window in windows), default=0)
