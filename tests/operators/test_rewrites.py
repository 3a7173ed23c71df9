"""Optimised plans give the answers of the plans that were written; the cost model decides between rewritings."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import Distinct, Filter, Join, Map, Negation, Node, Union, windows
from sash.plan.costs import Statistics, cost
from sash.plan.expressions import Call, Field, Literal
from sash.plan.rewrites import alternatives, optimise, pull_up_negation, push_down_distinct, push_down_negation
from tests.operators.test_plans_oracle import END, run
from tests.support.plans import INT, less, plans, tuples, window
from tests.support.relational import answer, view


@given(st.data())
@settings(max_examples=150)
def test_an_optimised_plan_gives_the_same_answers(data: st.DataObject) -> None:
    plan = data.draw(plans(), label="plan")
    given_tuples = {each.alias: data.draw(tuples, label=each.alias) for each in windows(plan)}
    for other in {optimise(plan), *alternatives(plan)[:3]}:
        changes = run(other, [given_tuples[each.alias] for each in windows(other)], [5, 11])
        for now in range(0, END, 2):
            assert view(changes, now) == answer(plan, [given_tuples[each.alias] for each in windows(plan)], now)


def link(name: str) -> Node:
    return window(name, TimeWindow(10 * SECOND))


def on(left: str, right: str) -> tuple[tuple[str, str], ...]:
    return ((f"{left}.a", f"{right}.a"),)


# Figure 3.5: the same query with the negation above the join, and below it.
ABOVE = Negation(Join(link("S1"), link("S2"), on("S1", "S2")), link("S3"), on("S1", "S3"), whole=True)
BELOW = Join(Negation(link("S1"), link("S3"), on("S1", "S3"), whole=True), link("S2"), on("S1", "S2"))


def test_the_two_plans_of_figure_3_5_lead_to_each_other() -> None:
    assert pull_up_negation(BELOW) == ABOVE and push_down_negation(ABOVE) == BELOW
    assert set(alternatives(ABOVE)) == set(alternatives(BELOW)) == {ABOVE, BELOW}
    assert pull_up_negation(ABOVE) is None and push_down_negation(BELOW) is None


def test_the_cost_model_decides_both_ways() -> None:
    # Few results: one operator with negative tuples is cheaper than two.
    rare = Statistics(values=1_000_000, passes_negation=0.9)
    assert optimise(ABOVE, rare) == optimise(BELOW, rare) == ABOVE
    # Many results, of which the negation leaves little: it is better to have them never.
    many = Statistics(values=100, passes_negation=0.01)
    assert optimise(ABOVE, many) == optimise(BELOW, many) == BELOW
    assert cost(BELOW, many) < cost(ABOVE, many) and cost(ABOVE, rare) < cost(BELOW, rare)


def test_a_negation_by_counts_is_not_moved() -> None:
    """v1 - v2 of pairs is not v1 - v2 of tuples."""
    counted = Negation(Join(link("S1"), link("S2"), on("S1", "S2")), link("S3"), on("S1", "S3"))
    assert push_down_negation(counted) is None and alternatives(counted) == [counted]


def test_duplicates_are_eliminated_before_a_join_where_that_pays() -> None:
    joined = Join(link("S"), link("T"), on("S", "T"))
    below = Join(Distinct(link("S")), Distinct(link("T")), on("S", "T"))
    assert push_down_distinct(Distinct(joined)) == below and push_down_distinct(below) is None
    crowded = Statistics(values=10)
    assert cost(below, crowded) < cost(Distinct(joined), crowded) and optimise(Distinct(joined), crowded) == below
    # Without all columns of the pairs, different ones may look alike.
    assert push_down_distinct(Distinct(Map(joined, (("x", Field("S.a", INT)),)))) is None


def test_selections_go_below_joins_and_unions() -> None:
    joined = Join(link("S"), link("T"), on("S", "T"))
    both = Call("and", (less("S.b", 2), less("T.b", 3)), pa.bool_())
    assert optimise(Filter(joined, both)) == Join(
        Filter(link("S"), less("S.b", 2)), Filter(link("T"), less("T.b", 3)), on("S", "T")
    )
    united = Filter(Union((link("S"), link("T"))), less("S.b", 2))
    assert optimise(united) == Union((Filter(link("S"), less("S.b", 2)), Filter(link("T"), less("T.b", 2))))
    named = Filter(Map(link("S"), (("x", Field("S.b", INT)),)), less("x", 2))
    assert optimise(named) == Map(Filter(link("S"), less("S.b", 2)), (("x", Field("S.b", INT)),))


def test_a_condition_that_may_raise_stays_above_the_join() -> None:
    joined = Join(link("S"), link("T"), on("S", "T"))
    half = Call("divide", (Literal(1, INT), Field("S.b", INT)), pa.float64())
    risky = Filter(joined, Call("lt", (half, Literal(1.0, pa.float64())), pa.bool_()))
    assert optimise(risky) == risky
