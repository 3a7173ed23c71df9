"""Serial isolation between threads. Threads meet at events, never at times."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import pytest

from sash.isolation import Serial
from tests.support.threads import PATIENCE, join, start

Transaction = Callable[[], AbstractContextManager[None]]


def until_waiting(level: Serial, count: int) -> None:
    """Return when this many transactions wait: spins, since nobody signals that a thread has begun to wait."""
    while level.waiting < count:
        threading.Event().wait(0)


@pytest.mark.parametrize("outer", ["slide", "read"])
@pytest.mark.parametrize("inner", ["slide", "read"])
def test_one_transaction_at_a_time(outer: str, inner: str) -> None:
    level = Serial()
    log: list[str] = []

    def other() -> None:
        with getattr(level, inner)():
            log.append("other")

    with getattr(level, outer)():
        thread = start(other)
        until_waiting(level, 1)
        log.append("first")
    join(thread)
    assert log == ["first", "other"]


def test_no_read_sees_a_half_slid_window() -> None:
    level = Serial()
    window = [0, 0]
    torn: list[list[int]] = []

    def slide() -> None:
        for _ in range(200):
            with level.slide():
                window[0] += 1
                window[1] += 1

    def read() -> None:
        for _ in range(200):
            with level.read():
                if window[0] != window[1]:
                    torn.append(list(window))

    join(*[start(work) for work in (slide, read, slide, read)])
    assert torn == [] and window == [400, 400]


def test_a_thread_may_enter_again() -> None:
    level = Serial()
    entered = threading.Event()
    with level.slide():
        with level.read(), level.slide():
            pass
        thread = start(lambda: enter_and_set(level.read, entered))
        until_waiting(level, 1)
        assert not entered.is_set()
    join(thread)
    assert entered.is_set()


def enter_and_set(transaction: Transaction, entered: threading.Event) -> None:
    with transaction():
        entered.set()


def test_first_come_first_served() -> None:
    level = Serial()
    served: list[str] = []

    def work(name: str, transaction: Transaction) -> None:
        with transaction():
            served.append(name)

    threads = []
    with level.slide():
        for count, (name, transaction) in enumerate(
            [("read 1", level.read), ("slide 1", level.slide), ("read 2", level.read), ("slide 2", level.slide)], 1
        ):
            threads.append(start(partial(work, name, transaction)))
            until_waiting(level, count)
    join(*threads)
    assert served == ["read 1", "slide 1", "read 2", "slide 2"]


def test_whoever_comes_back_queues_behind_those_who_wait() -> None:
    level = Serial()
    served: list[str] = []

    def slide() -> None:
        with level.slide():
            served.append("slide")

    with level.read():
        thread = start(slide)
        until_waiting(level, 1)
    with level.read():  # a reader in a loop cannot overtake the slide
        served.append("read")
    join(thread)
    assert served == ["slide", "read"]


def test_an_exception_releases_the_window() -> None:
    level = Serial()
    with pytest.raises(ZeroDivisionError), level.slide(), level.read():
        raise ZeroDivisionError
    entered = threading.Event()
    join(start(lambda: enter_and_set(level.read, entered)))
    assert entered.is_set()


class Interrupted(BaseException):
    """Stands for KeyboardInterrupt."""


class InterruptedEvent(threading.Event):
    """An event whose waiter is interrupted, before or after it was set."""

    def __init__(self, first: Callable[[], None]) -> None:
        super().__init__()
        self._first = first

    def wait(self, timeout: float | None = None) -> bool:
        self._first()
        raise Interrupted


@pytest.mark.parametrize("handed_over", [False, True])
def test_whoever_is_interrupted_while_waiting_leaves_the_queue(
    handed_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = Serial()
    held, release, released = threading.Event(), threading.Event(), threading.Event()

    def holder() -> None:
        with level.slide():
            held.set()
            release.wait(PATIENCE)
        released.set()

    def let_go() -> None:
        release.set()
        released.wait(PATIENCE)

    thread = start(holder)
    held.wait(PATIENCE)
    make_event = threading.Event
    monkeypatch.setattr(
        "sash.isolation.levels.threading.Event", lambda: InterruptedEvent(let_go if handed_over else lambda: None)
    )
    with pytest.raises(Interrupted), level.read():
        pass
    monkeypatch.setattr("sash.isolation.levels.threading.Event", make_event)
    release.set()
    join(thread)
    assert level.waiting == 0
    entered = threading.Event()
    join(start(lambda: enter_and_set(level.read, entered)))
    assert entered.is_set()
