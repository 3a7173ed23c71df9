"""The threads' window in one thread: changes between two reads are made inside the scan.

So interleavings are chosen by the test, and the outcome is compared with the algorithms by the book and with a plain
list that is slid and changed alongside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.isolation.schedule import ORDERS, Scheduler
from sash.core.errors import SashError
from sash.isolation.checker import classify
from sash.isolation.history import Recorder
from sash.isolation.shared_window import LEVELS, RESTARTS, SharedWindow

# A sub-window is a tuple of tuples' names; a part that is inserted is one name.
Content = tuple[str, ...]
Event = tuple[str, int]
EVENTS = st.tuples(st.sampled_from(["slide", "slide", "revise", "insert", "slide and insert"]), st.integers(0, 4))


class Watched:
    """A window, the plain list that it must agree with, and the changes to come."""

    def __init__(self, slots: int, level: str, script: list[list[Event]]) -> None:
        self.recorder = Recorder()
        self.plain: list[Content] = [(f"t{number}",) for number in range(slots)]
        self.window = SharedWindow(self.plain, level, insert=lambda old, part: (*old, part), recorder=self.recorder)
        self._script: Iterator[list[Event]] = iter(script)
        self._made = 0
        self.at_last_scan: list[Content] = []

    def scan(self, content: Content | str) -> Content:
        """Sub-windows let the next events happen; handed parts come before the sub-window of the same step."""
        if isinstance(content, str):
            return (content,)
        self.at_last_scan = list(self.plain)
        for event in next(self._script, []):
            self.happen(*event)
        return content

    def happen(self, kind: str, age: int) -> None:
        window, slots = self.window, len(self.plain)
        self._made += 1
        new = f"{kind[0]}{self._made}"
        if kind == "insert":
            at = age % slots
            window.insert({window.youngest - at: new})
            self.plain[-1 - at] += (new,)
        elif kind == "revise":
            at = age % slots
            window.revise(window.youngest - at, (new,))
            self.plain[-1 - at] = (new,)
        elif kind == "slide" or slots == 1:
            assert window.slide((new,)) == self.plain.pop(0)
            self.plain.append((new,))
        else:
            at = age % (slots - 1)
            assert window.slide((new,), inserts={window.youngest - at: f"i{self._made}"}) == self.plain[0]
            self.plain[-1 - at] += (f"i{self._made}",)
            self.plain = [*self.plain[1:], (new,)]


def flat(contents: list[Content]) -> list[str]:
    return [name for content in contents for name in content]


SCRIPTS = st.lists(st.lists(EVENTS, max_size=2), max_size=30)


@given(st.integers(1, 5), st.sampled_from(["ws", "lws", "ttu"]), SCRIPTS, st.booleans(), st.data())
def test_an_answer_is_the_window_as_its_level_says(
    slots: int, level: str, script: list[list[Event]], undoes: bool, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, slots))
    watched = Watched(slots, level, script)
    before = list(watched.plain)
    collected: Counter[str] = Counter()

    def scan(content: Content) -> Content:
        part = watched.scan(content)
        collected.update(part)
        return part

    undo = collected.subtract if undoes else None
    answer = watched.window.read(count, scan, undo=undo, restart=collected.clear)
    state = before if level == "ws" else watched.at_last_scan
    assert sorted(flat(answer.parts)) == sorted(flat(state[-count:]))
    assert +collected == Counter(flat(state[-count:])), "undone, or thrown away and begun again"
    assert answer.attempts == 1 or not undoes
    verdict = classify(watched.recorder.history)
    assert verdict.ws and verdict.serializable and (level == "ws" or verdict.lws)
    numbers = [version.number for version in answer.state]
    assert numbers == list(range(numbers[0], numbers[0] + count))


@given(st.integers(1, 5), st.sampled_from(ORDERS), SCRIPTS, st.booleans(), st.data())
def test_operations_are_those_of_the_algorithms(
    slots: int, level: str, script: list[list[Event]], undoes: bool, data: st.DataObject
) -> None:
    """The same history, operation by operation, restarts included."""
    count = data.draw(st.integers(1, slots))
    watched = Watched(slots, level, script)
    watched.window.read(count, watched.scan, undo=(lambda _: None) if undoes else None)
    assert str(watched.recorder.history) == by_the_book(slots, level, script, count, undoes)


def by_the_book(slots: int, order: str, script: list[list[Event]], count: int, undoes: bool) -> str:
    scheduler, events, attempt = Scheduler(slots, order), iter(script), 0
    while True:
        attempt += 1
        scheduler.start(f"Q{attempt}", count, undoes=undoes)
        while scheduler.running:
            scheduler.step()
            is_over = not scheduler.running
            for kind, age in next(events, []):
                happen_by_the_book(scheduler, kind, age)
            if is_over:
                return str(scheduler.history)


def happen_by_the_book(scheduler: Scheduler, kind: str, age: int) -> None:
    slots, youngest = scheduler.slots, scheduler.youngest
    if kind == "insert":
        scheduler.insert([(youngest - age % slots) % slots])
    elif kind == "revise":
        scheduler.revise((youngest - age % slots) % slots)
    elif kind == "slide" or slots == 1:
        scheduler.slide()
    else:
        scheduler.slide(inserts=[(youngest - age % (slots - 1)) % slots])


@given(st.integers(1, 6), st.data())
def test_one_slide_during_a_ttu_read_aborts_nothing(slots: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, slots))
    script: list[list[Event]] = [[] for _ in range(data.draw(st.integers(0, count - 1)))]
    watched = Watched(slots, "ttu", [*script, [("slide", 0)]])
    assert watched.window.read(count, watched.scan).attempts == 1


@pytest.mark.parametrize("level", LEVELS)
def test_reads_inside_reads(level: str) -> None:
    """Several queries at once, in the middle of one another."""
    recorder = Recorder()
    window = SharedWindow(range(4), level, recorder=recorder)

    def outer(content: int) -> int:
        answer = window.read(2, lambda inner: inner, priority=content % 2)
        return content if answer.parts == [2, 3] else -1

    assert window.read(3, outer, priority=1).parts == [1, 2, 3]
    verdict = classify(recorder.history)
    assert verdict.lws and verdict.cps


@pytest.mark.parametrize("level", ["lws", "ttu"])
def test_who_is_aborted_too_often_gets_precedence(level: str) -> None:
    """Its own thread may write still, and is not waited for."""
    watched = Watched(3, level, [[("slide", 0)] * 3] * (3 * RESTARTS))
    answer = watched.window.read(3, watched.scan)
    assert answer.attempts > RESTARTS
    assert not watched.window.has_reads


@pytest.mark.parametrize("level", LEVELS)
def test_a_scan_that_raises_leaves_nothing_behind(level: str) -> None:
    recorder = Recorder()
    window = SharedWindow([1, 0, 1], level, recorder=recorder)
    with pytest.raises(ZeroDivisionError):
        window.read(3, lambda content: 1 // content)
    assert window.slide(1) == 1 and window.slide(1) == 0
    assert window.read(3, lambda content: 1 // content).parts == [1, 1, 1]
    assert not window.has_reads and classify(recorder.history).lws


@pytest.mark.parametrize("level", LEVELS)
def test_versions_count_changes(level: str) -> None:
    window = SharedWindow([(), ()], level, insert=lambda old, part: (*old, part))
    window.insert({0: "a", 1: "b"})
    window.revise(1, ("c",))
    assert window.read(2, list).state == [(0, 1), (1, 2)]
    assert window.slide((), inserts={1: "d"}) == ("a",)
    answer = window.read(2, list)
    assert answer.parts == [["c", "d"], []] and answer.state == [(1, 3), (2, 0)] and window.youngest == 2


def test_what_came_while_it_was_read_is_counted() -> None:
    """Of four sub-windows t3 and t2 are read, then two slides and an insertion come: t0 and t1 were never read."""
    script: list[list[Event]] = [[], [("slide", 0), ("slide", 0), ("insert", 3)]]
    watched = Watched(4, "ttu", script)
    answer = watched.window.read(4, watched.scan)
    assert answer.parts == [("t2",), ("i3",), ("t3",), ("s1",), ("s2",)]
    assert (answer.attempts, answer.undone, answer.inserted) == (1, 0, 3)
    again = Watched(4, "ttu", [[], [("slide", 0)] * 3])
    answer = again.window.read(4, again.scan, undo=lambda _: None)
    assert (answer.attempts, answer.undone, answer.inserted) == (1, 1, 3)
    assert again.window.read(4, again.scan).inserted == 0


def refusals() -> list[tuple[Callable[[SharedWindow[int]], object], str]]:
    return [
        (lambda window: window.read(0, abs), "has no 0 youngest"),
        (lambda window: window.read(4, abs), "has no 4 youngest"),
        (lambda window: window.revise(3, 0), "no sub-window 3: the window has 0 to 2"),
        (lambda window: window.revise(-1, 0), "no sub-window -1"),
        (lambda window: window.insert({1: 5}), "takes no insertions"),
        (lambda window: window.slide(9, inserts={0: 5}), "leaves with this slide"),
        (lambda window: SharedWindow([]), "at least one sub-window"),
        (lambda window: SharedWindow([1], level="tttu"), "did you mean 'ttu'"),
    ]


@pytest.mark.parametrize(("call", "message"), refusals())
def test_what_is_refused(call: Callable[[SharedWindow[int]], object], message: str) -> None:
    with pytest.raises(SashError, match=message):
        call(SharedWindow([0, 1, 2]))


def test_a_recorder_belongs_to_one_window() -> None:
    recorder = Recorder()
    SharedWindow([0], recorder=recorder)
    with pytest.raises(SashError, match="one window"):
        SharedWindow([0], recorder=recorder)
