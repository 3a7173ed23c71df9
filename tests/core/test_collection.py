"""The collector of garbage is held off for as long as somebody wants that, and left as the program has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from sash.core.collection import held_off


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.enable()


def test_nothing_is_collected_until_the_last_one_has_left() -> None:
    with held_off():
        assert not gc.isenabled()
        with pytest.raises(ZeroDivisionError), held_off():
            _ = 1 / 0
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_program_that_has_disabled_the_collector_keeps_it_so() -> None:
    gc.disable()
    with held_off():
        assert not gc.isenabled()
    assert not gc.isenabled()
