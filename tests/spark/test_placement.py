"""Where micro-batches are processed: where they take less time, after few tries of the other place."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.spark.placement import MOST_NEAR, NEAR, PATIENCE, SHORTEST_JOB, TRY, PlaceChoice

NUMBER = 400_000


def run(placement: PlaceChoice, times: int, here: float, there: float, number: int = NUMBER) -> list[bool]:
    """The places of some micro-batches; the first on the executors after a while is slow."""
    places = list[bool]()
    for _ in range(times):
        near = placement.is_near(number)
        starts = 0.0 if near or not places or not places[-1] else 3.0
        placement.took(number, near, here if near else there + starts)
        places.append(near)
    return places


@given(st.floats(0.31, 3.0), st.floats(0.31, 3.0))
def test_nearly_all_are_processed_where_they_take_less_time(here: float, there: float) -> None:
    places = run(PlaceChoice(is_local=True), 2_000, here, there)
    starts = sum(one and not other for one, other in pairwise(places))
    took = sum(here if near else there for near in places) + 3.0 * starts
    assert took <= 1.1 * 2_000 * min(here, there) + 2 * PATIENCE * max(1.0, here / there)


def test_the_place_is_changed_when_costs_change() -> None:
    placement = PlaceChoice(is_local=True)
    assert sum(run(placement, 200, here=2.0, there=1.0)[100:]) <= TRY
    assert sum(run(placement, 400, here=0.5, there=1.0)[300:]) >= 100 - TRY


def test_a_short_micro_batch_has_nothing_to_gain() -> None:
    assert all(run(PlaceChoice(is_local=True), 5_000, here=SHORTEST_JOB, there=0.01))


@pytest.mark.parametrize("first", [NUMBER, MOST_NEAR + 1])
def test_a_cluster_is_tried_if_it_has_worked_before(first: int) -> None:
    placement = PlaceChoice(is_local=False)
    run(placement, 1, here=1.0, there=1.0, number=first)
    assert all(run(placement, 1_000, here=1.0, there=0.5)) == (first == NUMBER)


def test_before_anything_is_measured_the_number_decides() -> None:
    for number in (1, NEAR, NEAR + 1, MOST_NEAR, MOST_NEAR + 1):
        assert PlaceChoice(is_local=True).is_near(number) == (number <= NEAR)


def test_too_many_tuples_never_come_to_the_process() -> None:
    assert not any(run(PlaceChoice(is_local=True), 1_000, here=0.5, there=5.0, number=MOST_NEAR + 1))


@pytest.mark.parametrize("most", [0, 100, NUMBER])
def test_the_users_choice_is_kept(most: int) -> None:
    placement = PlaceChoice(most, is_local=True)
    for number in (0, 1, 100, 101, NUMBER, NUMBER + 1):
        assert set(run(placement, 200, here=9.0, there=1.0, number=number)) == {number <= most}
        assert set(run(placement, 200, here=1.0, there=9.0, number=number)) == {number <= most}
