"""Reads in two steps, under every level. Threads meet at events, never at times."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sash.isolation import ISOLATION_LEVELS, Isolation, isolation
from sash.isolation.levels import RETRIES
from tests.support.threads import PATIENCE, join, start

LOCKLESS = [name for name in ISOLATION_LEVELS if name != "serial"]
LATEST = ["lws", "ttu"]


@dataclass
class Window:
    """A window that is changed in place, with a number that grows with each slide."""

    level: Isolation
    values: list[int] = field(default_factory=lambda: [1, 2, 3])
    version: int = 0
    taken: int = 0

    def slide(self) -> None:
        with self.level.slide():
            self.values[:] = [value + 1 for value in self.values]
            self.version += 1

    def take(self, compute: Callable[[list[int]], int]) -> Copied:
        self.taken += 1
        return Copied(self, list(self.values), self.version, compute)


@dataclass
class Copied:
    window: Window
    values: list[int]
    version: int
    function: Callable[[list[int]], int]

    def compute(self) -> int:
        return self.function(self.values)

    def is_latest(self) -> bool:
        return self.window.version == self.version


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_what_is_taken_is_computed(name: str) -> None:
    window = Window(isolation(name))
    window.slide()
    assert window.level.taking(lambda: window.take(sum)) == 9 and window.taken == 1


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_where_nothing_can_be_taken_nothing_is_computed(name: str) -> None:
    assert isolation(name).taking(lambda: None) is None


@pytest.mark.parametrize("name", LOCKLESS)
def test_a_slide_does_not_wait_for_a_computation(name: str) -> None:
    """And with it, `ws` shows the window as of the start, the others as of the end."""
    window = Window(isolation(name))

    def compute(values: list[int]) -> int:
        if window.taken == 1:
            join(start(window.slide))
        return sum(values)

    assert window.level.taking(lambda: window.take(compute)) == (6 if name == "ws" else 9)
    assert window.taken == (1 if name == "ws" else 2)


def test_under_serial_a_slide_waits() -> None:
    window, slides = Window(isolation("serial")), list[threading.Thread]()

    def compute(values: list[int]) -> int:
        slides.append(start(window.slide))
        while not window.level.waiting:  # type: ignore[attr-defined]
            threading.Event().wait(0)
        assert window.values == values
        return sum(values)

    assert window.level.taking(lambda: window.take(compute)) == 6
    join(*slides)
    assert window.values == [2, 3, 4]


@pytest.mark.parametrize("name", LATEST)
@pytest.mark.parametrize("raises", [False, True])
def test_after_so_many_slides_it_keeps_the_lock(name: str, raises: bool) -> None:
    window, slides = Window(isolation(name)), list[threading.Thread]()

    def compute(values: list[int]) -> int:
        slides.append(start(window.slide))
        if window.taken > RETRIES:
            while not window.level.waiting:  # type: ignore[attr-defined]
                threading.Event().wait(0)
            return sum(values)
        join(slides[-1])
        if raises:
            raise ZeroDivisionError
        return -1

    assert window.level.taking(lambda: window.take(compute)) == 6 + 3 * RETRIES
    join(*slides)
    assert window.taken == RETRIES + 1 and window.values[0] == 2 + RETRIES


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_what_is_raised_on_the_latest_window_is_raised(name: str) -> None:
    window = Window(isolation(name))
    with pytest.raises(ZeroDivisionError):
        window.level.taking(lambda: window.take(lambda values: values[0] // 0))
    with pytest.raises(ValueError, match="nothing to ask"):
        window.level.taking(refuse)
    window.slide()
    assert window.taken == 1 and window.values == [2, 3, 4]


def refuse() -> Copied:
    raise ValueError("nothing to ask")


@pytest.mark.parametrize("name", list(ISOLATION_LEVELS))
def test_who_comes_in_the_middle_of_a_slide_takes_a_whole_window(name: str) -> None:
    window, seen = Window(isolation(name)), list[int | None]()
    with window.level.slide():
        window.values[0] = -100
        reader = start(lambda: seen.append(window.level.taking(lambda: window.take(sum))))
        while not window.level.waiting:  # type: ignore[attr-defined]
            threading.Event().wait(0)
        window.values[0] = 1
    reader.join(PATIENCE)
    assert seen == [6]
