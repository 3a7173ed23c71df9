"""The order of probing along a graph of attributes."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from sash.plan.join_order import GraphInput, connected_order, written_order


@st.composite
def connected(draw: st.DrawFn) -> list[GraphInput]:
    """Each input after the first shares an attribute with one before it, and may share more."""
    number = draw(st.integers(2, 6))
    having: list[set[int]] = [set() for _ in range(number)]
    for place in range(1, number):
        having[place].add(place)
        having[draw(st.integers(0, place - 1))].add(place)
    for place, attribute in draw(
        st.lists(st.tuples(st.integers(0, number - 1), st.integers(1, number - 1)), max_size=3)
    ):
        having[place].add(attribute)
    values = st.integers(1, 50)
    return [GraphInput(draw(st.integers(1, 1_000)), {each: draw(values) for each in sorted(own)}) for own in having]


@given(connected(), st.data())
def test_every_step_is_connected_and_none_would_leave_fewer(inputs: list[GraphInput], data: st.DataObject) -> None:
    of = data.draw(st.integers(0, len(inputs) - 1))
    order = connected_order(inputs, of)
    assert order[0] == of and sorted(order) == list(range(len(inputs)))
    for step in range(1, len(order)):
        before = [inputs[place] for place in order[:step]]

        def found(place: int, before: list[GraphInput] = before) -> float | None:
            """Tuples that a combination finds in an input; None where nothing connects them."""
            shared = [each for each in inputs[place].values if any(each in other.values for other in before)]
            least = {each: min(other.values[each] for other in before if each in other.values) for each in shared}
            return (
                inputs[place].size / prod(max(least[each], inputs[place].values[each]) for each in shared)
                if shared
                else None
            )

        taken = found(order[step])
        assert taken is not None
        assert all(other is None or taken <= other for other in map(found, order[step:]))


@given(connected(), st.data())
def test_the_written_order_takes_the_first_that_is_connected(inputs: list[GraphInput], data: st.DataObject) -> None:
    of = data.draw(st.integers(0, len(inputs) - 1))
    order = written_order(inputs, of)
    assert order[0] == of and sorted(order) == list(range(len(inputs)))
    for step in range(1, len(order)):
        reached = {attribute for place in order[:step] for attribute in inputs[place].values}
        assert order[step] == min(place for place in order[step:] if reached & inputs[place].values.keys())


def test_of_equal_ones_the_first() -> None:
    star = [GraphInput(10, {0: 5, 1: 5, 2: 5}), *(GraphInput(10, {place: 5}) for place in range(3))]
    assert connected_order(star, 0) == (0, 1, 2, 3) and connected_order(star, 2) == (2, 0, 1, 3)
