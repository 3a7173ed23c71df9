"""Shares of a join's results: together they are the results of the undivided bucket, whatever the plan around it."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.changes.operator import Share
from sash.core.changes import NEVER
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import (
    STRATEGIES,
    Aggregated,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Negation,
    Node,
    NrrJoin,
    RelationJoin,
    Union,
    windows,
)
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import ISTREAM, Deltas, Outliving, ResultWindow, Sampled, Snapshots, Stamped
from sash.plan.stages import StagePlan, divided_join, stages
from tests.changes.test_multi_join import changes_of, joins, nested, some_tuples
from tests.changes.test_plans_oracle import END
from tests.changes.test_plans_oracle import run as run_in_one_stage
from tests.changes.test_stages_oracle import CUT, InBuckets, run
from tests.support.examples import examples
from tests.support.plans import (
    INT,
    TABLES,
    dense_tuples,
    dense_updates,
    less,
    named,
    plans,
    tuples,
    versions,
    window,
    with_table,
)
from tests.support.relational import answer, view

some_shares = st.integers(2, 4)
any_cuts = st.lists(st.integers(1, END - 1), max_size=6)
_tuple = st.tuples(st.integers(0, 2), st.booleans(), st.booleans())


@given(st.lists(st.lists(_tuple, max_size=7), min_size=2, max_size=4), some_shares)
def test_every_combination_belongs_to_one_share(given_inputs: list[list[tuple[int, bool, bool]]], of: int) -> None:
    codes = [np.array([code for code, _, _ in each], dtype=np.int64) for each in given_inputs]
    touched, has = ([np.array([one[i] for one in each], dtype=np.bool_) for each in given_inputs] for i in (1, 2))
    taken = [Share(number, of).taken(codes, touched, has) for number in range(of)]
    for chosen in product(*(range(len(each)) for each in given_inputs)):
        whose = [all(own[at] for own, at in zip(masks, chosen, strict=True)) for masks in taken]
        wanted = all(own[at] for own, at in zip(has, chosen, strict=True))
        alike = len({int(own[at]) for own, at in zip(codes, chosen, strict=True)}) == 1
        if wanted and alike:
            assert sum(whose) == 1
        elif not wanted:
            assert not any(whose)


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_shares_are_about_equal_whatever_the_pattern(every: int) -> None:
    """A value that each n-th tuple has, in one input; the other has it once."""
    one = np.where(np.arange(24_000) % every == 0, 7, 1_000 + np.arange(24_000))
    codes = [one, np.array([7] + [5] * 50_000)]
    whole = [np.ones(len(each), dtype=np.bool_) for each in codes]
    for of in (2, 3, 4):
        sizes = [int((Share(n, of).taken(codes, whole, whole)[0] & (one == 7)).sum()) for n in range(of)]
        assert sum(sizes) == 24_000 // every and max(sizes) < 1.1 * sum(sizes) / of


def test_few_new_tuples_do_not_decide_who_is_divided() -> None:
    """Three new ones meet very many old ones: dividing the three would not help."""
    codes = [np.zeros(9_003, dtype=np.int64), np.zeros(8_000, dtype=np.int64)]
    touched = [np.arange(9_003) >= 9_000, np.zeros(8_000, dtype=np.bool_)]
    whole = [np.ones(len(each), dtype=np.bool_) for each in codes]
    assert _sizes(codes, touched, whole) == [[9_003, 4_000]] * 2
    touched[1][0] = True
    assert _sizes(codes, touched, whole) == [[4_500, 8_000]] * 2


def _sizes(codes: list[Any], touched: list[Any], whole: list[Any]) -> list[list[int]]:
    """How many tuples of each input the halves take, to the nearest hundred where they are divided."""
    halves = [Share(number, 2).taken(codes, touched, whole) for number in range(2)]
    return [[len(mask) if mask.all() else round(int(mask.sum()), -2) for mask in masks] for masks in halves]


# -- whole stages --------------------------------------------------------------------------------------

S, T, U = (window(name, TimeWindow(4)) for name in "STU")
ROWS, LAST = window("R", RowWindow(3)), window("L", RowWindow(2), ("a",))
ON_A = (("S.a", "T.a"),)
DIVISIBLE: dict[str, Node] = {
    "two": Join(S, T, ON_A),
    "two_columns": Join(S, T, (("S.a", "T.a"), ("S.b", "T.b"))),
    "everything": Join(S, T, ()),
    "unbounded": Join(window("S", TimeWindow(FOREVER)), T, ON_A),
    "rows": Join(ROWS, T, (("R.a", "T.a"),)),
    "rows_of_both": Join(ROWS, LAST, (("R.a", "L.a"),)),
    "operators_around": named(
        Filter(Join(Filter(S, less("S.b", 1)), named(Union((T, U)), "V"), (("S.a", "V.a"),)), less("V.b", 1)), "W"
    ),
    "many": named(Filter(MultiJoin((S, T, U), (("S.a", "T.a", "U.a"),)), less("U.b", 1)), "W"),
    "many_with_rows": MultiJoin((S, ROWS, named(LAST, "V")), (("S.a", "R.a", "V.a"),)),
    "relation": with_table(RelationJoin, S, "S.a", "x"),
    "looked_up": with_table(NrrJoin, Join(S, T, ON_A), "S.a", "x"),
    "stamped": Outliving(named(Filter(Join(Stamped(S, "one"), Stamped(T, "other"), ON_A), less("S.b", 1)), "W")),
    "outlives_one": Outliving(Join(Stamped(S, "one"), T, ON_A), ("one",)),
    "rows_outlived": Outliving(Join(ROWS, T, (("R.a", "T.a"),))),
    "results_for_a_while": ResultWindow(Outliving(Join(S, T, ON_A)), TimeWindow(3)),
    "every": Sampled(Join(S, T, ON_A), 3),
    "every_with_operators": Sampled(named(Filter(Join(S, T, ON_A), less("T.b", 1)), "W"), 5, 1),
    "every_short_lived": Sampled(Join(S, T, ON_A), 4, restore=True),
    "every_of_many": Sampled(MultiJoin((S, T, U), (("S.a", "T.a", "U.a"),)), 2),
    "every_outlived": Sampled(Outliving(Join(Stamped(S, "one"), T, ON_A), ("one",)), 3),
    "every_looked_up": Sampled(with_table(NrrJoin, Join(S, T, ON_A), "S.a", "x"), 3),
}
REFUSED: dict[str, Node] = {
    "groups_above": GroupBy(Join(S, T, ON_A), ("S.a",), (Aggregated("n", "count", None, INT),)),
    "distinct_above": Distinct(Join(S, T, ON_A)),
    "union_above": Union((named(Join(S, T, ON_A), "V"), U)),
    "join_below": Join(Join(S, T, ON_A), U, (("S.a", "U.a"),)),
    "negation_below": Join(Negation(S, T, ON_A, whole=True), U, (("S.a", "U.a"),)),
    "no_join": Negation(S, T, ON_A, whole=True),
    # What takes a row back must meet it, and another task may have found it.
    "every_of_rows": Sampled(Join(ROWS, T, (("R.a", "T.a"),)), 3),
    "every_of_relation": Sampled(with_table(RelationJoin, S, "S.a", "x"), 3),
    "last_results": ResultWindow(Outliving(Join(S, T, ON_A)), RowWindow(3)),
    "snapshots": Snapshots(Join(S, T, ON_A), 3),
    "new": Deltas(Join(S, T, ON_A), ISTREAM),
}  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", DIVISIBLE)
@given(st.data())
@settings(max_examples=examples(12))
def test_shares_give_the_changes_of_the_whole(name: str, strategy: str, data: st.DataObject) -> None:
    plan, of = DIVISIBLE[name], data.draw(st.integers(1, 4), label="shares")
    assert divided_join(plan, StagePlan("")) is not None
    inputs = [data.draw(st.one_of(dense_tuples, tuples), label=each.alias) for each in windows(plan)]
    tables = {table.name: versions(data.draw(dense_updates, label=table.name)) for table in TABLES.values()}
    cuts, buckets = data.draw(any_cuts, label="cuts"), data.draw(st.integers(1, 3), label="buckets")
    divided = run(plan, inputs, cuts, buckets, strategy=strategy, tables=tables, shares=of)
    assert Counter(divided) == Counter(run_in_one_stage(plan, inputs, cuts, strategy=strategy, tables=tables))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(60))
def test_shares_in_random_plans(strategy: str, data: st.DataObject) -> None:
    """Also in stages below others, and with negative tuples from the stages below."""
    plan = data.draw(st.one_of(plans(7), st.sampled_from(list(CUT.values()))), label="plan")
    inputs = [data.draw(st.one_of(dense_tuples, tuples), label=each.alias) for each in windows(plan)]
    cuts, of = data.draw(any_cuts, label="cuts"), data.draw(some_shares, label="shares")
    event(f"divided: {InBuckets(plan, 2, strategy, of).divided}")
    divided = run(plan, inputs, cuts, 2, strategy=strategy, shares=of)
    assert Counter(divided) == Counter(run_in_one_stage(plan, inputs, cuts, strategy=strategy))


def test_both_stages_of_a_chain_are_divisible() -> None:
    lower, upper = stages(CUT["chain"])
    assert (divided_join(CUT["chain"], lower), divided_join(CUT["chain"], upper)) == ("0", "")


def test_results_that_get_numbers_of_their_own_are_not_divided() -> None:
    """Which of several equal rows a negation lets go must be known: then all of them are counted in one task."""
    results = named(Outliving(Join(S, T, ON_A)), "W")
    for whole in (True, False):
        plan = Negation(results, U, (("W.a", "U.a"), ("W.b", "U.b")), whole=whole)
        assert Stage(plan, part=StagePlan("0")).is_divisible == whole


def test_results_that_are_compared_with_others_are_not_divided() -> None:
    """A group's row that is replaced by an equal one is no result: both must be in one task."""
    count = GroupBy(S, ("S.a",), (Aggregated("n", "count", None, INT),))
    for compared, below in ((False, S), (True, count)):
        plan = Outliving(Join(below, T, ON_A))
        assert Stage(plan, part=StagePlan("", {1: "T.a"}, {"00": "S.a"})).is_divisible != compared


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(25))
def test_shares_of_samples_give_the_definitions_answer(strategy: str, data: st.DataObject) -> None:
    """Also for results that wait for the next multiple, whichever task has found them."""
    lengths, slide = [data.draw(st.integers(1, 7)) for _ in "ST"], data.draw(st.integers(1, 6), label="slide")
    one, other = (window(name, TimeWindow(length)) for name, length in zip("ST", lengths, strict=True))
    joined = named(Filter(Join(one, other, ON_A), less("T.b", 1)), "W", "S.b", "T.a")
    plan = Sampled(joined, slide, data.draw(st.integers(0, slide - 1), label="offset"))
    inputs = [data.draw(st.one_of(dense_tuples, tuples), label=each.alias) for each in windows(plan)]
    cuts, of = data.draw(any_cuts, label="cuts"), data.draw(some_shares, label="shares")
    changes = run(plan, inputs, cuts, 2, strategy=strategy, shares=of)
    assert InBuckets(plan, 2, strategy, of).divided
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"


@given(dense_tuples, dense_tuples, any_cuts, some_shares)
def test_shares_of_results_with_their_expiries(ones: list[Any], others: list[Any], cuts: list[int], of: int) -> None:
    """Every pair once, with the expiries of both of its tuples, as aggregates over a join read them."""
    plan = Outliving(Join(Stamped(S, "one"), Stamped(T, "other"), ON_A))
    expected = Counter(
        (max(ts, at), NEVER, 1, (*one, ts + 4, *other, at + 4))
        for (ts, one), (at, other) in product(ones, others)
        if one[0] == other[0] and max(ts, at) < min(ts, at) + 4
    )
    assert Counter(run(plan, [ones, others], cuts, 2, shares=of)) == expected


def test_what_waits_is_added_by_every_share() -> None:
    """And shown by every share: the work of a multiple is divided as that of the join is."""
    plan, number, of = Sampled(Join(S, T, ON_A), 8), 40, 4
    rows = [pa.table([pa.array([1] * number, INT)] * 2, schema=each.schema) for each in windows(plan)]
    arrived = {place: Arrivals(each, np.full(number, 5)) for place, each in enumerate(rows)}
    stage, shares = Stage(plan), [Share(share, of) for share in range(of)]
    first = [stage.step(State(), arrived, 0, 7, share=share)[1] for share in shares]
    waits = [sum(len(chunk) for chunks in each.own.values() for chunk in chunks) for each in first]
    assert sum(waits) == number**2 and min(waits) > 300
    state = first[0].with_own(each.own for each in first)
    assert not state.own and state.tuples == number**2 + 2 * number
    shown = [len(stage.step(state, {}, 7, 9, share=share)[0]) for share in shares]
    assert sum(shown) == number**2 and min(shown) > 300


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_divided(name: str) -> None:
    plan = REFUSED[name]
    assert divided_join(plan, StagePlan("")) is None
    arrived = {
        place: Arrivals(each.schema.empty_table(), np.zeros(0, dtype=np.int64))
        for place, each in enumerate(windows(plan))
    }
    with pytest.raises(AssertionError, match="need all changes"):
        Stage(plan).step(State(), arrived, 0, 1, share=Share(0, 2))


def test_an_epoch_says_how_many_results_its_join_gave() -> None:
    """Those of the join, not what a filter above leaves of them; shares add up."""
    plan, number = Filter(Join(S, T, ON_A), less("S.b", 0)), 40
    rows = [pa.table([pa.array([1] * number, INT)] * 2, schema=each.schema) for each in windows(plan)]
    arrived = {place: Arrivals(each, np.ones(number, dtype=np.int64)) for place, each in enumerate(rows)}
    steps = [Stage(plan).step(State(), arrived, 0, 9, share=Share(share, 3)) for share in range(3)]
    found = [(len(changes), after.results) for changes, after in steps]
    assert sum(results for _, results in found) == number**2
    assert all(not changes and 400 < results < 700 for changes, results in found)


# -- the join of n inputs ------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=examples(120))
def test_shares_of_a_join_of_many(data: st.DataObject) -> None:
    """Windows of time and rows, and other plans below, so that negative tuples come at any time."""
    node = data.draw(joins(windows_only=False), label="join")
    inputs = [data.draw(st.one_of(some_tuples, tuples), label=each.alias) for each in windows(nested(node))]
    cuts, of = data.draw(any_cuts, label="cuts"), data.draw(some_shares, label="shares")
    assert Counter(changes_of(node, inputs, cuts, of)) == Counter(changes_of(node, inputs, cuts))
