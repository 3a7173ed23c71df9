"""Isolation levels by name, and the checks that every level must pass."""

from __future__ import annotations

import threading

import pytest

from sash.core.errors import SashError
from sash.isolation import ISOLATION_LEVELS, Optimistic, Serial, isolation
from sash.isolation.shared_window import LEVELS
from tests.support.threads import join, start


def test_every_name_has_a_level() -> None:
    assert isinstance(isolation("serial"), Serial) and tuple(ISOLATION_LEVELS) == LEVELS
    assert all(isinstance(isolation(name), Optimistic) for name in ("ws", "lws", "ttu"))


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
    """`give_way`: the window is whole between two executions; waiting threads read it, then the slide goes on."""
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


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_every_level_reads_whole_windows_while_they_slide(name: str) -> None:
    level, window, stop = isolation(name), [0, 0], threading.Event()
    torn: list[list[int]] = []

    def read() -> None:
        while not stop.is_set():
            seen = level.reading(lambda: [window[0], window[1]])
            if seen[0] != seen[1]:
                torn.append(seen)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(4)]
    for reader in readers:
        reader.start()
    for _ in range(2_000):
        with level.slide():
            window[0] += 1
            level.reading(lambda: None)
            window[1] += 1
            level.give_way()
    stop.set()
    for reader in readers:
        reader.join()
    assert torn == [] and level.reading(lambda: list(window)) == [2_000, 2_000]


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_what_a_reading_raises_on_a_whole_window_is_raised(name: str) -> None:
    level = isolation(name)
    with pytest.raises(ZeroDivisionError):
        level.reading(lambda: 1 // 0)
    with level.slide(), pytest.raises(ZeroDivisionError):
        level.reading(lambda: 1 // 0)
    assert level.reading(lambda: 1) == 1


@pytest.mark.parametrize("name", ISOLATION_LEVELS)
def test_a_slide_that_is_away_lets_others_in_and_comes_back(name: str) -> None:
    level, window, seen = isolation(name), [1], list[int]()

    def read() -> None:
        with level.read():
            seen.append(window[0])

    def slide() -> None:
        with level.slide():
            window[0] += 10

    with level.slide(), level.slide():
        window[0] = 2
        with level.away():
            join(start(read), start(slide))
            assert level.reading(lambda: window[0]) == 12
        window[0] = -1
        late = start(read)
        while not level.waiting:  # type: ignore[attr-defined]
            threading.Event().wait(0)
        window[0] = 3
    join(late)
    assert seen == [2, 3] or seen == [12, 3]


@pytest.mark.parametrize("name", ISOLATION_LEVELS)
def test_who_has_no_window_need_not_be_away(name: str) -> None:
    level = isolation(name)
    with level.away(), level.slide():
        pass
    with level.slide():
        pass
