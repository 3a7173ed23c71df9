"""The window between real threads: recorded histories are judged, and answers compared with the writes.

Threads meet at events, never at times.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from sash.isolation.checker import classify
from sash.isolation.history import History, Recorder, is_slide
from sash.isolation.shared_window import LEVELS, RESTARTS, SharedWindow, WindowRead
from tests.support.threads import PATIENCE, join, start

SLOTS, SLIDES, READERS = 8, 10_000, 8
# A sub-window knows its number and its revision, and what has been inserted into it.
Content = tuple[int, int, tuple[int, ...]]


def window_of(level: str, recorder: Recorder | None = None) -> SharedWindow[Content]:
    contents: list[Content] = [(number, 0, ()) for number in range(SLOTS)]
    return SharedWindow(
        contents, level, insert=lambda old, part: (old[0], old[1] + 1, (*old[2], part)), recorder=recorder
    )


def write(window: SharedWindow[Content], slides: int, may_read: threading.Semaphore) -> None:
    """Slides, and now and then a revision and an insertion; the only writer."""
    for number in range(SLOTS, SLOTS + slides):
        window.slide((number, 0, ()))
        if number % 5 == 0:
            may_read.release(READERS)
        if number % 50 == 0:
            window.revise(number - 3, (number - 3, 1, ()))
        if number % 70 == 0:
            window.insert({number - 1: number})


def read(
    window: SharedWindow[Content], reader: int, may_read: threading.Semaphore, stop: threading.Event
) -> list[tuple[int, WindowRead[object]]]:
    """Windows of every length, some undoing, some more important; until the writer has ended, and once more."""
    answers: list[tuple[int, WindowRead[object]]] = []
    while True:
        may_read.acquire()
        is_last = stop.is_set()
        count = 1 + (reader + len(answers)) % SLOTS
        collected: Counter[object] = Counter()
        does_undo = len(answers) % 3 == 2
        answer = window.read(
            count,
            partial(collect, collected),
            undo=partial(take_back, collected) if does_undo else None,
            priority=reader % 2,
        )
        if does_undo and window.level in ("lws", "ttu"):
            assert answer.attempts == 1 and +collected == Counter(answer.parts)
        answers.append((count, answer))
        if is_last:
            return answers


def collect(collected: Counter[object], content: object) -> object:
    collected[content] += 1
    return content


def take_back(collected: Counter[object], part: object) -> None:
    collected[part] -= 1


@pytest.mark.parametrize("level", LEVELS)
def test_ten_thousand_slides_against_eight_readers(level: str) -> None:
    recorder, stop = Recorder(), threading.Event()
    # Under serial every slide waits for all who read, so they are kept from reading all the time.
    may_read = threading.Semaphore(0 if level == "serial" else 1_000_000)
    window = window_of(level, recorder)
    with ThreadPoolExecutor(READERS) as pool:
        reads = [pool.submit(read, window, reader, may_read, stop) for reader in range(READERS)]
        write(window, SLIDES, may_read)
        stop.set()
        may_read.release(READERS)
        found = [each for future in reads for each in future.result(PATIENCE)]
    verdict = classify(recorder.history)
    assert verdict.serializable and verdict.ws
    assert verdict.lws or level == "ws"
    assert len(found) >= 2 * READERS
    if level == "ttu":
        check_aborts(recorder.history)
    for count, answer in found:
        check_contents(count, answer)
    assert not window.has_reads


def check_aborts(history: History) -> None:
    """One slide aborts no TTU read: between the first read and the abort there are two, or a revision."""
    written: list[str] = []
    begun: dict[str, int] = {}
    for operation in history.operations:
        if operation.kind == "w":
            written.append(operation.transaction)
        elif operation.kind == "r":
            begun.setdefault(operation.transaction, len(written))
        elif operation.kind == "a":
            since = written[begun[operation.transaction] :]
            assert len(since) >= 2 or not is_slide(since[0])


def check_contents(count: int, answer: WindowRead[object]) -> None:
    """The scan has read the state: as many contiguous sub-windows, each in its version."""
    numbers = [version.number for version in answer.state]
    assert numbers == list(range(numbers[-1] - count + 1, numbers[-1] + 1))
    contents = [part for part in answer.parts if isinstance(part, tuple)]
    handed = [part for part in answer.parts if not isinstance(part, tuple)]
    assert [content[0] for content in contents] == numbers
    changes = sum(version.revision - content[1] for version, content in zip(answer.state, contents, strict=True))
    assert changes == len(handed)
    assert answer.attempts <= RESTARTS + 2


@pytest.mark.parametrize("level", ["ws", "lws", "ttu"])
def test_a_slide_does_not_wait_for_a_scan(level: str) -> None:
    window = window_of(level)
    inside, go_on = threading.Event(), threading.Event()

    def scan(content: Content) -> int:
        inside.set()
        assert go_on.wait(PATIENCE)
        return content[0]

    answers: list[WindowRead[int]] = []
    reader = start(lambda: answers.append(window.read(SLOTS, scan)))
    assert inside.wait(PATIENCE)
    join(start(lambda: window.slide((SLOTS, 0, ()))))
    assert not answers
    go_on.set()
    join(reader)
    assert answers[0].parts == list(range(SLOTS) if level == "ws" else range(1, SLOTS + 1))


def test_under_serial_a_slide_waits() -> None:
    window = window_of("serial")
    inside, go_on = threading.Event(), threading.Event()
    log: list[str] = []

    def scan(content: Content) -> None:
        inside.set()
        assert go_on.wait(PATIENCE)
        log.append("scan")

    def slide() -> None:
        window.slide((SLOTS, 0, ()))
        log.append("slide")

    reader = start(lambda: window.read(SLOTS, scan))
    assert inside.wait(PATIENCE)
    writer = start(slide)
    while not window.waiting:
        threading.Event().wait(0)
    go_on.set()
    join(reader, writer)
    assert log == ["scan"] * SLOTS + ["slide"]


@pytest.mark.parametrize("level", ["lws", "ttu"])
def test_slides_wait_for_who_was_aborted_too_often(level: str) -> None:
    """Another thread slides the whole window inside every scan; after `RESTARTS` attempts it has to wait."""
    recorder = Recorder()
    window = window_of(level, recorder)
    slider, restarts = ThreadPoolExecutor(1), list[int]()

    def slide_all() -> None:
        for _ in range(SLOTS):
            window.slide((window.youngest + 1, 0, ()))

    def scan(content: Content) -> int:
        future = slider.submit(slide_all)
        if len(restarts) < RESTARTS:
            future.result(PATIENCE)
        return content[0]

    answer = window.read(SLOTS, scan, restart=lambda: restarts.append(window.youngest))
    slider.shutdown()
    assert answer.attempts == RESTARTS + 1
    assert answer.parts == [version.number for version in answer.state]
    verdict = classify(recorder.history)
    assert verdict.lws and verdict.cps


@pytest.mark.parametrize("level", ["ws", "lws", "ttu"])
def test_a_read_of_higher_priority_goes_first(level: str) -> None:
    window = window_of(level)
    running = threading.Event()
    log: list[str] = []
    others: list[threading.Thread] = []

    def high(content: Content) -> None:
        running.set()
        log.append("high")

    def low(content: Content) -> None:
        log.append("low")
        if not others:
            others.append(start(lambda: window.read(SLOTS, high, priority=1)))
            assert running.wait(PATIENCE)

    window.read(SLOTS, low)
    join(*others)
    assert log == ["low"] + ["high"] * SLOTS + ["low"] * (SLOTS - 1)
