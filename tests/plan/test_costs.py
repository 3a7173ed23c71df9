"""The cost model: what each strategy costs a plan, and when negative tuples are worth it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.changes import UpdatePattern
from sash.core.time import SECOND
from sash.core.window import RowWindow, TimeWindow
from sash.plan.choice import choose
from sash.plan.continuous import (
    STRATEGIES,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Map,
    Negation,
    Node,
    edges,
    executed_pattern,
)
from sash.plan.costs import PRICES, PlanWork, cost, work
from sash.plan.estimates import Statistics, condition_on, origin, values_of
from sash.plan.expressions import Field
from sash.plan.outputs import ISTREAM, Deltas
from tests.support.plans import INT, less, plans, window

KNOWN = Statistics()
ON = (("S.a", "T.a"),)


def link(name: str, seconds: int) -> Node:
    return window(name, TimeWindow(seconds * SECOND))


def negation(seconds: int, *, whole: bool = True) -> Node:
    return Negation(link("S", seconds), link("T", seconds), ON, whole=whole)


def join(seconds: int) -> Node:
    return Join(link("S", seconds), link("T", seconds), ON)


@pytest.mark.parametrize("whole", [True, False])
def test_negative_tuples_are_worth_it_for_a_negation_of_large_windows(whole: bool) -> None:
    picked = [choose(negation(seconds, whole=whole), KNOWN).strategy for seconds in (1, 10, 1_000, 10_000)]
    assert picked == ["upa", "upa", "nt", "nt"]


def test_it_is_the_sorting_by_expiry_that_they_spare() -> None:
    upa, nt = (work(negation(1_000), KNOWN, strategy) for strategy in ("upa", "nt"))
    assert upa.sorted == pytest.approx(2 * nt.sorted)
    assert nt.tuples > upa.tuples and nt.searched > upa.searched and nt.kept > upa.kept == 0
    spared = PRICES.sorted * (upa.sorted - nt.sorted)
    assert cost(negation(1_000), KNOWN, "upa") - spared < cost(negation(1_000), KNOWN, "nt")


def test_a_window_of_few_tuples_is_small_however_long() -> None:
    assert choose(negation(10_000), Statistics(rates={"s": 0.1, "t": 0.1})).strategy == "upa"
    # Few tuples of a large stream need be sorted; all of it would have to be announced.
    few = Negation(Filter(link("S", 1_000), less("S.b", 1)), link("T", 1_000), ON, whole=True)
    assert choose(few, Statistics(selectivities={str(less("S.b", 1)).lower(): 0.01})).strategy == "upa"


@pytest.mark.parametrize("plan", [join(10_000), Distinct(link("S", 10_000))])
def test_what_takes_nothing_back_is_never_announced(plan: Node) -> None:
    assert plan.pattern is UpdatePattern.WEAK
    found = choose(plan, KNOWN)
    assert found.candidates == ("upa",) and found.strategy == "upa" and set(found.prices) == set(STRATEGIES)
    assert found.prices["upa"] < found.prices["nt"]


def test_a_stream_of_results_has_no_expiries_to_lose() -> None:
    assert choose(Deltas(negation(10_000), ISTREAM), KNOWN).strategy == "nt"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_may_be_insisted_on(strategy: str) -> None:
    assert choose(negation(10_000), KNOWN, strategy).strategy == strategy
    assert choose(join(10), KNOWN, strategy).strategy == strategy


@given(plans(), st.sampled_from(STRATEGIES), st.floats(1, 1e6))
def test_every_plan_has_a_price_and_more_tuples_cost_more(plan: Node, strategy: str, rate: float) -> None:
    known = Statistics(rate=rate)
    price = cost(plan, known, strategy)
    assert 0 < price < float("inf")
    assert cost(plan, replace(known, rate=2 * rate), strategy) > price
    assert all(amount >= 0 for amount in work(plan, known, strategy).amounts)


@given(plans())
def test_the_choice_is_the_cheapest_of_its_candidates(plan: Node) -> None:
    found = choose(plan, KNOWN)
    assert found.prices[found.strategy] == min(found.prices[each] for each in found.candidates)
    assert found.prices[found.strategy] == cost(found.plan, KNOWN, found.strategy)


@given(plans())
def test_only_negative_tuples_change_patterns(plan: Node) -> None:
    for _, node in edges(plan):
        assert executed_pattern(node, "upa") is executed_pattern(node, "direct") is node.pattern
        assert executed_pattern(node, "nt") in (UpdatePattern.STRICT, UpdatePattern.MONOTONIC)


def test_a_row_based_window_announces_whatever_the_strategy() -> None:
    plan = Negation(window("S", RowWindow(100)), link("T", 1), ON, whole=True)
    # Its left side is never sorted by expiry; its right one is announced under nt alone.
    upa, nt = (work(plan, KNOWN, strategy) for strategy in ("upa", "nt"))
    assert upa.sorted == nt.sorted and choose(plan, KNOWN).strategy == "upa"


def test_measured_values_make_a_join_smaller_or_larger() -> None:
    many, few = (Statistics(distinct={"s.a": count, "t.a": count}) for count in (100_000, 10))
    assert cost(join(10), many) < cost(join(10), KNOWN) < cost(join(10), few)
    assert work(join(10), many).tuples < work(join(10), few).tuples


def test_columns_are_followed_to_their_streams() -> None:
    renamed = Map(join(10), (("x", Field("S.b", INT)), ("y", Field("T.a", INT))))
    assert origin(renamed, "x") == "s.b" and origin(renamed, "y") == "t.a"
    assert values_of(renamed, ("x", "y"), Statistics(distinct={"s.b": 3, "t.a": 5})) == 15
    assert values_of(renamed, ("x", "y"), Statistics(distinct={"s.b": 3})) == Statistics().values
    assert origin(GroupBy(renamed, ("x",), ()), "x") == "s.b"


def test_a_condition_that_spark_evaluates_is_known_by_stream_and_text() -> None:
    from sash.plan.expressions import RowExpression

    leaf = replace(window("S", TimeWindow(SECOND)), predicate=RowExpression("b > 1", pa.bool_(), ("b",)))
    known = Statistics(selectivities={condition_on("S", "B > 1"): 0.1})
    assert work(leaf, known).tuples == pytest.approx(0.2 * work(leaf, Statistics()).tuples)


def test_work_adds_up() -> None:
    assert PlanWork(tuples=1, chunks=2) + PlanWork(chunks=3, kept=4) == PlanWork(tuples=1, chunks=5, kept=4)
