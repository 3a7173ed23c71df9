"""Optimised plans give the answers of the plans that were written; the cost model decides between rewritings."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import STRATEGIES, Distinct, Filter, Join, Map, Negation, Node, Union, windows
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.expressions import Call, Field, Literal
from sash.plan.rewrites import (
    MOST_ALTERNATIVES,
    alternatives,
    everywhere,
    exchange_joins,
    flatten_union,
    join_left_first,
    join_right_first,
    optimise,
    pull_up_negation,
    push_down_distinct,
    push_down_negation,
    push_down_selections,
    rewritten,
)
from tests.changes.test_plans_oracle import END, run
from tests.support.examples import examples
from tests.support.plans import INT, less, plans, time_windows, tuples, window
from tests.support.relational import answer, view


@given(st.data())
@settings(max_examples=examples(150))
def test_an_optimised_plan_gives_the_same_answers(data: st.DataObject) -> None:
    plan = data.draw(plans(), label="plan")
    given_tuples = {each.alias: data.draw(tuples, label=each.alias) for each in windows(plan)}
    for other in {optimise(plan), *alternatives(plan)[:3]}:
        changes = run(other, [given_tuples[each.alias] for each in windows(other)], [5, 11])
        for now in range(0, END, 2):
            assert view(changes, now) == answer(plan, [given_tuples[each.alias] for each in windows(plan)], now)


@st.composite
def join_trees(draw: st.DrawFn, number: int = 4) -> Node:
    """Joins of windows on one attribute, in any order: the key of a join is any of its side's."""

    def joined(names: list[str]) -> Node:
        if len(names) == 1:
            return window(names[0], draw(time_windows))
        cut = draw(st.integers(1, len(names) - 1))
        keys = tuple(f"{draw(st.sampled_from(part))}.a" for part in (names[:cut], names[cut:]))
        return Join(joined(names[:cut]), joined(names[cut:]), ((keys[0], keys[1]),))

    return joined([f"S{each}" for each in range(draw(st.integers(2, number)))])


@st.composite
def union_trees(draw: st.DrawFn) -> Node:
    names = (f"S{each}" for each in range(100))

    def united(depth: int) -> Node:
        if not depth or draw(st.booleans()):
            return window(next(names), draw(time_windows))
        return Union(tuple(united(depth - 1) for _ in range(draw(st.integers(1, 3)))))

    return united(3)


@given(st.data())
@settings(max_examples=examples(60))
def test_joins_and_unions_in_another_order_give_the_same_answers(data: st.DataObject) -> None:
    plan = data.draw(st.one_of(join_trees(), union_trees()), label="plan")
    found = alternatives(plan)
    given_tuples = {each.alias: data.draw(tuples, label=each.alias) for each in windows(plan)}
    for other in {optimise(plan), data.draw(st.sampled_from(found)), found[-1]}:
        assert other.schema == plan.schema
        changes = run(other, [given_tuples[each.alias] for each in windows(other)], [5, 11])
        for now in range(0, END, 3):
            assert view(changes, now) == answer(plan, [given_tuples[each.alias] for each in windows(plan)], now)


@given(plans(), st.sampled_from(STRATEGIES))
def test_the_optimised_plan_is_never_dearer(plan: Node, strategy: str) -> None:
    pushed = everywhere(push_down_selections, plan)
    known = Statistics(values=3, rate=5)
    assert cost(optimise(plan, known, strategy), known, strategy) <= cost(pushed, known, strategy)


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


def test_three_windows_are_joined_in_every_order() -> None:
    a, b, c = link("A"), link("B"), link("C")
    written = Join(Join(a, b, on("A", "B")), c, on("A", "C"))
    assert join_right_first(written) == Join(a, Join(b, c, on("B", "C")), on("A", "B"))
    back = join_left_first(Join(a, Join(b, c, on("B", "C")), on("A", "B")))
    assert back == Join(Join(a, b, on("A", "B")), c, on("B", "C"))
    exchanged = exchange_joins(written)
    assert isinstance(exchanged, Map) and exchanged.schema == written.schema
    assert exchanged.input == Join(Join(a, c, on("A", "C")), b, on("A", "B"))
    # A projection above makes the reordering projection needless.
    named = Map(written, (("x", Field("C.b", INT)), ("y", Field("A.b", INT))))
    assert Map(exchanged.input, named.outputs) in alternatives(named)


def test_the_cheapest_order_joins_what_gives_few_results_first() -> None:
    a, b, c = link("A"), link("B"), link("C")
    written = Join(Join(a, b, on("A", "B")), c, on("A", "C"))

    def cheapest(known: Statistics) -> Node:
        """Of joins of two: those on one attribute are fused in the end."""
        return min(alternatives(written), key=lambda each: cost(each, known))

    # B is slow: pairs of it are few, whatever stands on the other side.
    first_b = cheapest(Statistics(rates={"a": 1_000, "b": 1, "c": 10}))
    assert first_b == join_right_first(written)
    first_ab = cheapest(Statistics(rates={"a": 1, "b": 10, "c": 1_000}))
    assert first_ab == written
    last_b = cheapest(Statistics(rates={"a": 1, "b": 1_000, "c": 10}))
    assert last_b == exchange_joins(written)


def test_joins_on_different_attributes_keep_their_order() -> None:
    a, b, c = link("A"), link("B"), link("C")
    chain = Join(Join(a, b, on("A", "B")), c, (("B.b", "C.b"),))
    # B and C may be joined first, A and C have nothing in common.
    assert exchange_joins(chain) is None and join_right_first(chain) is not None
    crossed = Join(Join(a, b, on("A", "B")), c, ())
    assert alternatives(crossed) == [crossed]


def test_very_many_orders_are_not_all_tried() -> None:
    plan: Node = link("S0")
    for number in range(1, 7):
        plan = Join(plan, link(f"S{number}"), on("S0", f"S{number}"))
    assert len(alternatives(plan)) == MOST_ALTERNATIVES
    # A plan costs more to price the more windows it has: of six windows 200 plans are priced, of seven 146.
    assert len(rewritten(plan)) == 36 * MOST_ALTERNATIVES // 7**2 == 146


def test_unions_of_unions_are_one() -> None:
    a, b, c = link("A"), link("B"), link("C")
    nested = Union((a, Union((b, c))))
    assert flatten_union(nested) == Union((a, b, c)) == optimise(nested) and flatten_union(Union((a, b))) is None


def test_selections_go_below_joins_and_unions() -> None:
    joined = Join(link("S"), link("T"), on("S", "T"))
    both = Call("and", (less("S.b", 2), less("T.b", 3)), pa.bool_())
    assert optimise(Filter(joined, both)) == Join(
        Filter(link("S"), less("S.b", 2)), Filter(link("T"), less("T.b", 3)), on("S", "T")
    )
    several = Call("and", (less("S.b", 2), less("T.b", 3), less("S.a", 4), less("S.b", 5)), pa.bool_())
    first = Call("and", (less("S.b", 2), less("S.a", 4)), pa.bool_())
    assert optimise(Filter(joined, several)) == Join(
        Filter(link("S"), Call("and", (first, less("S.b", 5)), pa.bool_())),
        Filter(link("T"), less("T.b", 3)),
        on("S", "T"),
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
