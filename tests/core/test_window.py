"""Time windows and the panes they share."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.core.window import TimeWindow, pane_length

WINDOWS = st.builds(TimeWindow, st.integers(1, 600), st.none() | st.integers(1, 600), st.integers(0, 60))


@given(st.lists(WINDOWS, min_size=1, max_size=6))
def test_pane_length_is_the_longest_that_cuts_no_window(windows: list[TimeWindow]) -> None:
    length = pane_length(windows)
    edges = [edge for w in windows for edge in (w.length, w.slide or w.length, w.lag)]
    assert all(edge % length == 0 for edge in edges)
    assert not any(all(edge % longer == 0 for edge in edges) for longer in range(length + 1, 601))


@given(st.lists(WINDOWS, min_size=1, max_size=4), WINDOWS)
def test_a_further_window_cuts_panes_finer_or_leaves_them(windows: list[TimeWindow], more: TimeWindow) -> None:
    assert pane_length([*windows, more]) == math.gcd(pane_length(windows), more.resolution)


def test_what_a_window_says_of_itself() -> None:
    window = TimeWindow(600 * SECOND, 120 * SECOND, 30 * SECOND, exactly=True)
    assert str(window) == "[WINDOW 10 min SLIDE EXACTLY 2 min LAG 30 sec]"
    assert window.reach == 630 * SECOND
    assert window.resolution == 30 * SECOND
    assert str(TimeWindow(SECOND)) == "[WINDOW 1 sec]"
