"""One attempt to read, as the window's critical sections use it."""

from __future__ import annotations

from sash.isolation.reading import SlotReading, SlotSubWindow, Version


def sub_window(number: int, revision: int = 0) -> SlotSubWindow:
    return SlotSubWindow(Version(number, revision), f"s{number}")


def test_what_happens_after_a_step_belongs_to_the_next_one() -> None:
    """The reader works on a step without a lock, while writers go on."""
    reading = SlotReading("Q1", [sub_window(number) for number in range(3)], lambda number: number, undoes=True)
    first = reading.take(sub_window(reading.next_number()))
    assert reading.inserted(sub_window(0, 1), "part") and reading.slid(3)
    assert first == ([], [(0, "s0")], False)
    second = reading.take(sub_window(reading.next_number()))
    assert reading.inserted(sub_window(1, 1), "part")
    # The part for 0 has left with it.
    assert second == ([0], [(1, "s1")], False)
    third = reading.take(sub_window(reading.next_number()))
    assert third == ([], [(1, "part"), (2, "s2")], False)
    assert reading.take(sub_window(reading.next_number())) == ([], [(3, "s3")], True)


def test_a_conflict_without_undo_is_an_abort() -> None:
    reading = SlotReading("Q1", [sub_window(number) for number in range(2)], lambda number: number, undoes=False)
    reading.take(sub_window(reading.next_number()))
    assert not reading.revised(1) and not reading.is_aborted
    assert reading.revised(0) and reading.is_aborted
