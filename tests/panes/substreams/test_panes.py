"""Numbers of panes: the order of time, windows, what was forgotten."""

from __future__ import annotations

import pytest

from sash.panes.substreams.pane_numbers import PaneTimes


def test_time_goes_forward() -> None:
    panes = PaneTimes()
    assert [panes.number(time) for time in (3, 3, 7, 20)] == [1, 1, 2, 3]
    with pytest.raises(ValueError, match="in the order of time: 19 after 20"):
        panes.number(19)


def test_a_window_has_the_panes_that_end_after_its_edge() -> None:
    """(tau - length, tau]: a pane that ends on the edge is outside."""
    panes = PaneTimes([3, 7, 20])
    assert [panes.last_outside(20, length) for length in (1, 13, 14, 17, 18)] == [2, 2, 1, 1, 0]
    assert panes.last_outside(40, 5) == 3
    with pytest.raises(ValueError, match="windows end now: 19"):
        panes.last_outside(19, 5)


def test_what_was_forgotten_is_not_answered() -> None:
    panes = PaneTimes([3, 7, 20])
    panes.forget(7)
    panes.forget(5)
    assert [panes.times, panes.forgotten, panes.newest] == [[20], 2, 3]
    assert panes.last_outside(20, 13) == 2
    with pytest.raises(ValueError, match="reaches into what was forgotten"):
        panes.last_outside(20, 14)
    assert panes.number(21) == 4


def test_numbers_start_again() -> None:
    panes = PaneTimes([3, 7, 20])
    panes.forget(7)
    assert panes.renumber() == 2
    assert [panes.last_outside(20, 1), panes.number(30), panes.last_outside(30, 10)] == [0, 2, 1]
