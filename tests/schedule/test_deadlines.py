"""The deadline queue: lazy deletion must not show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sash.schedule.task import DeadlineQueue, TaskKey, Urgency


def at(deadline: int) -> Urgency:
    return (deadline, 0, TaskKey("G1", 1))


def test_an_item_that_moves_away_and_back_is_there_once() -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    for deadline in (5, 9, 5):
        queue.set("a", at(deadline))
    assert list(queue.up_to(9)) == ["a"]
    queue.discard("a")
    assert queue.peek() is None and list(queue.up_to(9)) == []


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 9)), max_size=40), st.integers(0, 9))
def test_the_queue_is_a_sorted_dictionary(changes: list[tuple[str, int | None]], limit: int) -> None:
    queue: DeadlineQueue[str] = DeadlineQueue()
    model: dict[str, int] = {}
    for item, deadline in changes:
        if deadline is None:
            queue.discard(item)
            model.pop(item, None)
        else:
            queue.set(item, at(deadline))
            model[item] = deadline
        top = queue.peek()
        assert (None if top is None else top[0][0]) == min(model.values(), default=None)
        assert sorted(queue.up_to(limit)) == sorted(item for item, deadline in model.items() if deadline <= limit)
