"""Hybrid plans: the optimum against an exhaustive search, and how near the search comes to the optimum."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.schedule import SubGroupCost, cost_per_time, plan_periods
from tests.schedule.partitions import cost_by_the_minute, partitions, set_partitions
from tests.support.examples import examples

# Periods whose least common multiple can still be walked through.
SLIDES = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 20])
COSTS = st.builds(
    SubGroupCost, SLIDES, st.integers(0, 40), st.just(0) | st.sampled_from([0.5, 1.0, 7.25]), exactly=st.booleans()
)
GROUPS = st.lists(COSTS, max_size=5)

Workload = Callable[[random.Random, int], list[SubGroupCost]]


def is_partition(subgroups: list[SubGroupCost], periods: list[int]) -> bool:
    """Every period is the SLIDE of one of its sub-groups, none waits longer than SLIDE, EXACTLY is not moved."""
    pairs = list(zip(subgroups, periods, strict=True))
    stays = {period for each, period in pairs if period == each.slide}
    return set(periods) == stays and all(
        period == each.slide if each.exactly else period <= each.slide for each, period in pairs
    )


def moved(subgroups: list[SubGroupCost], periods: list[int]) -> int:
    return sum(each.slide != period for each, period in zip(subgroups, periods, strict=True))


def typical(rng: random.Random, count: int) -> list[SubGroupCost]:
    """The papers' workload (section 8.5.1): windows of 20 to 100, SLIDE up to half of them."""
    slides = rng.sample(range(1, 51), count)
    return [SubGroupCost(slide, rng.randint(max(20, 2 * slide), 100) - 1) for slide in slides]


def with_post_processing(rng: random.Random, count: int) -> list[SubGroupCost]:
    return [
        SubGroupCost(each.slide, each.access, 20 * rng.random(), rng.random() < 0.2) for each in typical(rng, count)
    ]


def large_primes(rng: random.Random, count: int) -> list[SubGroupCost]:
    primes = [number for number in range(1_000, 3_000) if all(number % factor for factor in range(2, 55))]
    return [SubGroupCost(slide, rng.randint(20, 100)) for slide in rng.sample(primes, count)]


def seconds_to_days(rng: random.Random, count: int) -> list[SubGroupCost]:
    units = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400]
    slides = rng.sample(sorted({unit * factor for unit in units for factor in (1, 2, 3, 7, 11)}), count)
    return [SubGroupCost(slide * 1_000_000, rng.uniform(1, 50) * slide**0.5) for slide in slides]


WORKLOADS: list[Workload] = [typical, with_post_processing, large_primes, seconds_to_days]


def test_the_reference_considers_all_partitions() -> None:
    assert [sum(1 for _ in set_partitions(count)) for count in range(6)] == [1, 1, 2, 5, 15, 52]


@given(GROUPS, st.data())
def test_the_cost_is_the_sum_over_the_multiple(subgroups: list[SubGroupCost], data: st.DataObject) -> None:
    periods = [data.draw(st.integers(1, each.slide)) for each in subgroups]
    assert cost_per_time(subgroups, periods) == cost_by_the_minute(subgroups, periods)


@settings(deadline=None)
@given(GROUPS)
def test_plans_are_optimal_and_move_the_fewest(subgroups: list[SubGroupCost]) -> None:
    costs = {tuple(periods): cost_by_the_minute(subgroups, periods) for periods in partitions(subgroups)}
    least = min(costs.values())
    periods = plan_periods(subgroups)
    assert is_partition(subgroups, periods) and costs[tuple(periods)] == least
    assert moved(subgroups, periods) == min(
        moved(subgroups, list(each)) for each, cost in costs.items() if cost == least
    )


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(COSTS, min_size=6, max_size=8))
def test_larger_plans_are_optimal(subgroups: list[SubGroupCost]) -> None:
    least = min(cost_per_time(subgroups, periods) for periods in partitions(subgroups))
    assert cost_per_time(subgroups, plan_periods(subgroups)) == least


@settings(deadline=None)
@given(st.lists(COSTS, max_size=12), st.randoms(use_true_random=False), st.sampled_from([0, 8]))
def test_a_plan_is_a_partition_that_does_not_depend_on_order_or_unit(
    subgroups: list[SubGroupCost], rng: random.Random, exact: int
) -> None:
    periods = plan_periods(subgroups, exact)
    assert is_partition(subgroups, periods)
    assert periods == plan_periods(subgroups, exact)
    order = rng.sample(range(len(subgroups)), len(subgroups))
    shuffled = plan_periods([subgroups[place] for place in order], exact)
    assert sorted(zip(map(repr, subgroups), periods, strict=True)) == sorted(
        (repr(subgroups[place]), period) for place, period in zip(order, shuffled, strict=True)
    )
    finer = [SubGroupCost(each.slide * 1_000_000, each.access, each.post, each.exactly) for each in subgroups]
    assert plan_periods(finer, exact) == [period * 1_000_000 for period in periods]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_search_comes_near_the_optimum(workload: Workload) -> None:
    rng, gaps = random.Random(8), []
    for count in (9, 10, 9, 10, 9, 10, 12):
        subgroups = workload(rng, count)
        optimum = cost_per_time(subgroups, plan_periods(subgroups, exact=count))
        gaps.append(float(cost_per_time(subgroups, plan_periods(subgroups, exact=0)) / optimum) - 1)
    assert min(gaps) >= 0
    assert sum(gaps) / len(gaps) < 0.01 and max(gaps) < 0.1


@pytest.mark.parametrize("workload", WORKLOADS)
def test_fifty_sub_groups_never_cost_more_than_moving_nobody_or_everybody(workload: Workload) -> None:
    subgroups = workload(random.Random(50), 50)
    periods = plan_periods(subgroups)
    assert is_partition(subgroups, periods)
    shortest = min(each.slide for each in subgroups)
    nobody = [each.slide for each in subgroups]
    everybody = [each.slide if each.exactly else shortest for each in subgroups]
    assert cost_per_time(subgroups, periods) < cost_per_time(subgroups, nobody)
    assert cost_per_time(subgroups, periods) <= cost_per_time(subgroups, everybody)


def test_without_costs_nobody_is_moved() -> None:
    assert plan_periods([SubGroupCost(slide, 0.0) for slide in range(1, 20)]) == list(range(1, 20))


def test_a_period_that_is_always_covered_needs_no_move() -> None:
    assert plan_periods([SubGroupCost(2, 30), SubGroupCost(4, 10)]) == [2, 4]


def test_a_block_may_form_around_the_slide_of_the_cheapest() -> None:
    """At 6 it meets the sub-group of 3 always, though nobody but the smallest has that SLIDE."""
    assert plan_periods([SubGroupCost(7, 100), SubGroupCost(3, 50), SubGroupCost(6, 10)]) == [6, 3, 6]


def test_others_may_come_to_an_exactly_sub_group_but_it_goes_nowhere() -> None:
    ordinary = [SubGroupCost(2, 9), SubGroupCost(3, 14)]
    assert plan_periods(ordinary) == [2, 2]
    assert plan_periods([SubGroupCost(2, 9, exactly=True), ordinary[1]]) == [2, 2]
    assert plan_periods([ordinary[0], SubGroupCost(3, 14, exactly=True)]) == [2, 3]


def test_post_processing_is_never_shared() -> None:
    assert plan_periods([SubGroupCost(2, 9), SubGroupCost(3, 14, post=10)]) == [2, 3]
