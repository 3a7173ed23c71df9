"""The collector of cyclic garbage runs less often while a session is open, and as before when none is."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from sash.core import collection
from sash.core.collection import YOUNGEST, relax, restore
from sash.core.errors import SashError
from tests.support.sparkless_session import SparklessSession


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without the sessions that other tests have open."""
    monkeypatch.setattr(collection, "_sessions", 0)
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_last_session_restores_the_thresholds() -> None:
    with SparklessSession():
        assert gc.get_threshold() == (YOUNGEST, 10, 10)
        other = SparklessSession()
        other.close()
        other.close()
        assert gc.get_threshold() == (YOUNGEST, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (2 * YOUNGEST, 5, 5)], ids=["disabled", "slower"])
def test_a_slower_collector_stays_slower(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    relax()
    assert gc.get_threshold() == chosen
    restore()
    assert gc.get_threshold() == chosen


def test_a_session_that_does_not_open_changes_nothing() -> None:
    with pytest.raises(SashError):
        SparklessSession(max_lag="nonsense")
    assert gc.get_threshold() == (700, 10, 10)


def test_what_a_program_sets_meanwhile_stays() -> None:
    relax()
    gc.set_threshold(1_000, 10, 10)
    restore()
    assert gc.get_threshold() == (1_000, 10, 10)
