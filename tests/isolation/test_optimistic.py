"""Reads without a lock. Threads meet at events, never at times."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sash.isolation.levels import RETRIES, Optimistic

PATIENCE = 30.0  # a test that hangs fails after this; no assertion depends on it


def in_another_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def sliding(level: Optimistic, window: list[int]) -> Callable[[], None]:
    def slide() -> None:
        with level.slide():
            window[:] = [each + 1 for each in window]

    return slide


def test_a_slide_that_comes_between_makes_it_read_again() -> None:
    level, window, seen = Optimistic(), [1, 2, 3], list[list[int]]()

    def function() -> list[int]:
        seen.append(list(window))
        if len(seen) == 1:
            in_another_thread(sliding(level, window))
        return list(window)

    assert level.reading(function) == [2, 3, 4] and seen == [[1, 2, 3], [2, 3, 4]]


def test_what_is_raised_on_a_changing_window_is_forgotten() -> None:
    level, window = Optimistic(), [0]

    def function() -> int:
        if window[0] == 0:
            in_another_thread(sliding(level, window))
            raise ZeroDivisionError
        return window[0]

    assert level.reading(function) == 1


@pytest.mark.parametrize("raises", [False, True])
def test_after_so_many_slides_it_takes_the_lock(raises: bool) -> None:
    level, window, calls, late = Optimistic(), [0], 0, list[threading.Thread]()

    def function() -> int:
        nonlocal calls
        calls += 1
        if calls <= RETRIES:
            in_another_thread(sliding(level, window))
            if raises:
                raise ZeroDivisionError
        else:
            late.append(threading.Thread(target=sliding(level, window), daemon=True))
            late[0].start()
            while not level.waiting:
                threading.Event().wait(0)
        return window[0]

    assert level.reading(function) == RETRIES and calls == RETRIES + 1
    late[0].join(PATIENCE)
    assert window == [RETRIES + 1]


def test_who_finds_a_slide_under_way_waits_for_its_end() -> None:
    level, window, seen = Optimistic(), [1], list[int]()
    with level.slide():
        window[0] = -1
        reader = threading.Thread(target=lambda: seen.append(level.reading(lambda: window[0])), daemon=True)
        reader.start()
        while not level.waiting:
            threading.Event().wait(0)
        assert not seen
        window[0] = 2
    reader.join(PATIENCE)
    assert seen == [2]


def test_a_read_across_a_slide_that_gave_way_is_repeated() -> None:
    """It began where the slide gave way, and the slide went on."""
    level, window, seen = Optimistic(), [1], list[int]()
    began, go_on = threading.Event(), threading.Event()

    def function() -> int:
        value = window[0]
        began.set()
        assert go_on.wait(PATIENCE)
        return value

    reader = threading.Thread(target=lambda: seen.append(level.reading(function)), daemon=True)
    with level.slide():
        reader.start()
        while not began.is_set():
            level.give_way()
        window[0] = 2
        go_on.set()
    reader.join(PATIENCE)
    assert seen == [2]


def test_slides_inside_slides_are_one() -> None:
    level, window = Optimistic(), [1]
    with level.slide():
        with level.slide(), level.read():
            window[0] = 2
        assert level.reading(lambda: window[0]) == 2
        reader = threading.Thread(target=lambda: level.reading(lambda: window[0]), daemon=True)
        reader.start()
        while not level.waiting:
            threading.Event().wait(0)
    reader.join(PATIENCE)
    with pytest.raises(ZeroDivisionError), level.slide():
        raise ZeroDivisionError
    assert level.reading(lambda: window[0]) == 2
    level.give_way()
