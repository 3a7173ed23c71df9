"""Isolation levels by name, and the checks that every level must pass."""

from __future__ import annotations

import threading

import pytest

from sash.core.errors import SashError
from sash.transactions import ISOLATION_LEVELS, Serial, isolation


def test_serial_is_built() -> None:
    assert isinstance(isolation("serial"), Serial) and set(ISOLATION_LEVELS) == {"serial"}


@pytest.mark.parametrize("name", ["ws", "lws", "ttu"])
def test_a_level_that_is_known_but_not_built(name: str) -> None:
    with pytest.raises(SashError) as error:
        isolation(name)
    assert str(error.value) == f"not supported yet: isolation '{name}'; available: serial"


def test_an_unknown_level_names_the_nearest() -> None:
    with pytest.raises(SashError, match="unknown isolation 'seriel'; did you mean 'serial'"):
        isolation("seriel")


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_every_level_lets_one_thread_slide_and_then_read(name: str) -> None:
    level = isolation(name)
    window = [1, 2, 3]
    with level.slide():
        window[:] = [2, 3, 4]
    with level.read():
        assert window == [2, 3, 4]


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_every_level_lets_those_that_wait_read_in_the_middle_of_a_slide(name: str) -> None:
    """`give_way`: the window is whole between two executions; who waits reads it, then the slide goes on."""
    level, window, seen = isolation(name), [1, 2, 3], list[list[int]]()

    def read() -> None:
        with level.read():
            seen.append(list(window))

    with level.slide():
        level.give_way()
        window[:] = [2, 3, 4]
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        while not seen:
            level.give_way()
        window[:] = [3, 4, 5]
    reader.join()
    with level.read():
        assert window == [3, 4, 5] and seen == [[2, 3, 4]]
