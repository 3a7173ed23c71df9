"""Costs and orders of multi-way joins: the examples of the thesis, and properties of the model."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.joins.lazy_join import lost_share
from sash.plan.join_order import (
    MOST_FAST,
    JoinExecution,
    JoinInput,
    augmented,
    by_selectivity,
    cost,
    costs,
    fast_inputs,
    join_size,
    moved_up,
    probing_order,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "joins.json"
EXAMPLES = {e["id"].removeprefix("joins."): e for e in json.loads(GOLDEN.read_text())["examples"]}
TABLES = ["table_5_3", "table_5_5_printed", "table_5_5_lambda1_10", "table_5_6"]
HEURISTICS = ["heuristic.table_5_3", "heuristic.table_5_5_lambda1_10", "heuristic.table_5_6"]


def inputs_of(example: dict[str, Any]) -> list[JoinInput]:
    streams = example["inputs"]["streams"].values()
    return [JoinInput(*(Fraction(stream[name]) for name in ("lambda", "T", "v"))) for stream in streams]


def places(order: str) -> tuple[int, ...]:
    return tuple(int(digit) - 1 for digit in order)


def written(order: tuple[int, ...]) -> str:
    return "".join(str(place + 1) for place in order)


@pytest.mark.parametrize("name", [*TABLES, "table_5_4"])
def test_sizes_of_intermediate_results(name: str) -> None:
    inputs = inputs_of(EXAMPLES[name])
    for joined, size in EXAMPLES[name]["expected"]["phi"].items():
        assert join_size([inputs[place] for place in places(joined)]) == Fraction(size), joined


@pytest.mark.parametrize("name", TABLES)
def test_the_cost_of_every_order(name: str) -> None:
    inputs, expected = inputs_of(EXAMPLES[name]), EXAMPLES[name]["expected"]
    every = {written(order): cost(order, inputs) for order in permutations(range(4))}
    assert every == {order: Fraction(price) for order, price in expected["cost"].items()}
    for order, parts in expected["X"].items():
        assert costs(places(order), inputs) == [Fraction(part) for part in parts]
    assert sorted(order for order in every if every[order] == min(every.values())) == expected["best"]
    assert sorted(order for order in every if every[order] == max(every.values())) == expected["worst"]
    assert sum(every.values()) / len(every) == Fraction(expected["average"])


@pytest.mark.parametrize("name", HEURISTICS)
def test_what_the_heuristics_choose(name: str) -> None:
    inputs, expected = inputs_of(EXAMPLES[name]), EXAMPLES[name]["expected"]
    fast = [int(stream[1:]) - 1 for stream in EXAMPLES[name]["inputs"]["fast"]]
    assert sorted(fast_inputs(inputs)) == fast
    first, chosen = by_selectivity(inputs), augmented(inputs)
    assert written(first) == expected["initial_order"] and cost(first, inputs) == Fraction(expected["initial_cost"])
    assert written(chosen) == expected["augmented_choice"] == written(augmented(inputs, fast))
    assert cost(chosen, inputs) == Fraction(expected["augmented_cost"])
    for order, price in expected["orders_named_in_text"].items():
        assert cost(places(order), inputs) == Fraction(price)
    best = min(cost(order, inputs) for order in permutations(range(4)))
    assert (cost(chosen, inputs) == best) is expected["augmented_is_optimal"]


def test_three_windows() -> None:
    example = EXAMPLES["phi_ijk_formula"]
    inputs = [JoinInput(Fraction(each["size"]), 1, Fraction(each["v"])) for each in example["inputs"].values()]
    expected = example["expected"]
    assert (join_size(inputs[:2]), join_size(inputs)) == (expected["phi_ij"], expected["phi_ijk"])


def test_equal_numbers_of_values() -> None:
    example = EXAMPLES["equal_distinct_values"]
    inputs, expected = inputs_of(example), example["expected"]
    order = by_selectivity(inputs)
    assert written(order) == expected["ascending_size_order"] == expected["best"]
    assert cost(order, inputs) == expected["cost_ascending"] == expected["best_cost"]
    assert cost(order[::-1], inputs) == expected["cost_descending"]
    assert min(cost(every, inputs) for every in permutations(range(4))) == expected["best_cost"]


def test_probing_orders() -> None:
    for order, expected in EXAMPLES["probing_orders"]["expected"].items():
        found = {new: written(probing_order(places(order), int(new) - 1)) for new in order}
        assert found == expected


def test_lost_results() -> None:
    example = EXAMPLES["lost_results"]
    window, interval = Fraction(example["inputs"]["window"]), Fraction(example["inputs"]["delta"])
    assert lost_share(window, interval) == Fraction(example["expected"]["lost_fraction"])
    assert interval / window == Fraction(example["expected"]["results_with_lifetime_below_delta"])
    # An interval longer than all lifetimes leaves a result the chance that an evaluation falls into its life.
    assert lost_share(10, 10) == Fraction(1, 2) and lost_share(10, 20) == Fraction(3, 4)


def test_every_example_is_run() -> None:
    others = {"phi_ijk_formula", "equal_distinct_values", "probing_orders", "lost_results"}
    # The trace is in tests/changes/test_multi_join_algorithms.py.
    assert {*TABLES, "table_5_4", *HEURISTICS, *others, "trace.three_way"} == set(EXAMPLES)


windows = st.builds(
    JoinInput, *(st.integers(1, most).map(Fraction) for most in (20, 50, 100)), st.sampled_from([1, 2, 10])
)
many = st.lists(windows, min_size=1, max_size=5)


@given(many)
def test_the_augmented_order_is_never_dearer(inputs: list[JoinInput]) -> None:
    first, chosen = by_selectivity(inputs), augmented(inputs)
    assert sorted(first) == sorted(chosen) == list(range(len(inputs)))
    assert cost(chosen, inputs) <= cost(first, inputs) and chosen[0] == first[0]
    fast = fast_inputs(inputs)
    assert len(fast) <= MOST_FAST and len(moved_up(first, fast)) <= len(inputs) ** len(fast)


@given(many)
def test_the_size_of_a_join_does_not_depend_on_the_order(inputs: list[JoinInput]) -> None:
    assert len({join_size(order) for order in permutations(inputs)}) == 1


@given(many, st.integers(1, 10))
def test_algorithms_compare_as_they_should(inputs: list[JoinInput], interval: int) -> None:
    """Hash tables and shared probes make it cheaper, expired tuples and restore dearer."""
    order = tuple(range(len(inputs)))
    eager, kept = cost(order, inputs), cost(order, inputs, JoinExecution(interval=interval))
    lazy, restored = (cost(order, inputs, JoinExecution(True, restore, interval)) for restore in (False, True))
    assert eager <= kept and lazy <= restored
    assert float(lazy) <= float(eager) * (1 + 1e-9)
    hashed = [JoinInput(each.rate, each.length, each.values, 20) for each in inputs]
    assert cost(order, hashed) <= eager
