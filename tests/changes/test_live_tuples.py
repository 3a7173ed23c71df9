"""A plan that is replaced between two micro-batches gives the changes of the plan that is not, in several buckets."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, bucket_state
from sash.changes.live_tuples import NotHeldError, are_same, held_windows
from sash.core.window import FOREVER, TimeWindow
from sash.plan.continuous import (
    Aggregated,
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    Union,
    edges,
    sampling_of,
    windows,
)
from sash.plan.expressions import Call, Field
from sash.plan.lazy_joins import eagerly, evaluation_of, lazily
from sash.plan.outputs import ISTREAM, Deltas, Sampled
from sash.plan.rewrites import fuse_joins, rewritten
from sash.runtime.answers.change_view import ChangeView
from sash.spark.buckets import BucketedPlan, PlanEpoch
from tests.support.examples import examples
from tests.support.plans import (
    INT,
    dense_tuples,
    less,
    named,
    plans,
    row_windows,
    time_windows,
    tuples,
    window,
    with_table,
)
from tests.support.relational import answer, check_net, listed, view

END = 32
Row = tuple[object, ...]
Given = Mapping[str, Sequence[tuple[int, Row]]]
Told = list[Counter[tuple[int, int, int, Row]]]


@dataclass(frozen=True)
class Replacing:
    """After the micro-batch at a place `by` is tried as the plan."""

    place: int
    by: Node


def opened(plan: Node, directory: str, strategy: str) -> BucketedPlan:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=3))
    return BucketedPlan(plan, session, Path(directory), 3, durable=False, strategy=strategy)


def arrived(plan: Node, given_tuples: Given, first: int, last: int) -> dict[int, Arrivals]:
    found = {}
    for place, each in enumerate(windows(plan)):
        batch = [(ts, row) for ts, row in given_tuples[each.alias] if first <= ts < last]
        columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(each.schema)]
        found[place] = Arrivals(
            pa.table(columns, schema=each.schema), np.array([ts for ts, _ in batch], dtype=np.int64)
        )
    return found


def run(
    plan: Node, given_tuples: Given, cuts: list[int], strategy: str, late: int = 0, replacing: Replacing | None = None
) -> tuple[Told, bool]:
    """The changes of each micro-batch, whose tuples are up to `late` ahead of its watermark; was the plan replaced?

    Under SLIDE the epoch before a replacement ends at a multiple.
    """
    told, replaced, low, seen, shown = list[Any](), False, 0, 0, ChangeView(plan.schema)
    sampling = sampling_of(plan)
    with tempfile.TemporaryDirectory() as directory:
        running, manifests = opened(plan, directory, strategy), dict[int, bucket_state.Manifest]()
        for number, high in enumerate([*sorted(set(cuts)), END]):
            last = END if high == END else high + late
            is_moment = replacing is not None and replacing.place == number
            if sampling is not None and is_moment:
                is_moment, high = sampling.aligned(high) > low, max(sampling.aligned(high), low)
            table = running.leaves.table(arrived(plan, given_tuples, seen, last))
            epoch = PlanEpoch(2 * number, low, high, (low,) * len(windows(plan)))
            outcome = running.step(table, epoch, manifests, {})
            low, seen, manifests = high, last, outcome.manifests
            shown.add(outcome.changes, low - 1)
            told.append(Counter(listed(outcome.changes)))
            check_net(listed(outcome.changes))
            if replacing is not None and is_moment:
                other = opened(replacing.by, directory, strategy)
                begun, rows = (
                    other.begun(running.live_tuples(manifests, low), 2 * number + 1, low),
                    ChangeView(plan.schema),
                )
                rows.add(begun.changes, low - 1)
                until = low - 1 if sampling is None else sampling.next_multiple(low)
                standing = [each.rows(low - 1) for each in (rows, shown)]
                replaced = are_same(*(each.where(each.exp > until) for each in standing))
                if replaced:
                    plan, running, manifests = replacing.by, other, begun.manifests
        bucket_state.forget(Path(directory))
    return told, replaced


def others(plan: Node) -> list[Node]:
    """All plans that the optimiser may choose instead."""
    return list(
        dict.fromkeys(fuse_joins(each, over_conditions=over) for each in rewritten(plan) for over in (True, False))
    )


def sampled(draw: st.DrawFn, plan: Node) -> Sampled:
    slide = draw(st.integers(1, 4))
    return Sampled(plan, slide, draw(st.integers(0, slide - 1)), draw(st.booleans()))


def evaluated(draw: st.DrawFn, plan: Node) -> Node:
    """By every micro-batch, or at the multiples alone."""
    lazy = lazily(plan)
    return plan if lazy is None or draw(st.booleans()) else lazy


def may_show_another(plan: Node) -> bool:
    """Whether its answer has expiries of duplicates, which depend on the plan."""
    return any(isinstance(node, Distinct) for _, node in edges(plan))


A, B, C = "ABC"


@st.composite
def joins(draw: st.DrawFn) -> Node:
    """A join of two windows with a third one joined, negated or intersected, and something above."""
    kinds = [draw(st.one_of(time_windows, time_windows, row_windows)) for _ in range(3)]
    one, other, third = (window(name, kind) for name, kind in zip("ABC", kinds, strict=True))
    core: Node = Join(one, other, (("A.a", "B.a"),))
    if draw(st.booleans()):
        core = Filter(core, Call("lt", (Field("A.b", INT), Field("B.b", INT)), pa.bool_()))
    form = draw(st.sampled_from(["join", "star", "cycle", "negation", "intersection", "alone"]))
    if form == "join":
        core = Join(core, third, (("B.a", "C.a"),))
    elif form == "star":
        core = Join(core, third, (("B.b", "C.a"),))
    elif form == "cycle":
        core = Join(core, third, (("A.b", "C.a"), ("B.b", "C.b")))
    elif form != "alone":
        third = BaseWindow(third.stream, third.alias, third.window, third.columns[:1])
        core = (Negation if form == "negation" else Intersection)(core, third, (("A.a", "C.a"),), whole=True)
    if draw(st.booleans()):
        core = Filter(core, less("A.b", 2))
    top = draw(st.sampled_from(["nothing", "distinct", "group", "count", "map"]))
    if top == "distinct":
        return Distinct(core)
    if top in ("group", "count"):
        argument = "B.b" if top == "group" else None
        return GroupBy(core, ("A.b",), (Aggregated("n", "sum" if argument else "count", argument, INT),))
    return named(core, "m", "A.b", "B.b") if top == "map" else core


def check(
    written: Node, plan: Node, other: Node, given_tuples: Given, cuts: list[int], place: int, strategy: str, late: int
) -> bool:
    """Whether another plan of a written one took over, without a difference."""
    expected, _ = run(plan, given_tuples, cuts, strategy, late)
    told, replaced = run(plan, given_tuples, cuts, strategy, late, Replacing(place, other))
    if not may_show_another(plan):
        assert replaced and told == expected
    changes = [change for each in told for change in each.elements()]
    for now in range(END):
        rows = [given_tuples[each.alias] for each in windows(written)]
        assert view(changes, now) == answer(written, rows, now)
    return replaced


@pytest.mark.parametrize("strategy", ["upa", "nt"])
@given(st.data())
@settings(max_examples=examples(300))
def test_another_plan_of_the_query_goes_on_with_its_changes(strategy: str, data: st.DataObject) -> None:
    written = data.draw(joins())
    plan, other = (data.draw(st.sampled_from(others(written))) for _ in range(2))
    given_tuples = {each.alias: data.draw(tuples, label=each.alias) for each in windows(plan)}
    widths = {each.alias: len(each.columns) for each in windows(plan)}
    given_tuples = {name: [(ts, row[: widths[name]]) for ts, row in every] for name, every in given_tuples.items()}
    cuts = data.draw(st.lists(st.integers(1, END - 1), min_size=1, max_size=5))
    place = data.draw(st.integers(0, len(set(cuts)) - 1))
    check(written, plan, other, given_tuples, cuts, place, strategy, data.draw(st.integers(0, 4)))


@pytest.mark.parametrize("strategy", ["upa", "nt"])
@given(st.data())
@settings(max_examples=examples(300))
def test_any_plan_that_holds_its_tuples_can_be_moved(strategy: str, data: st.DataObject) -> None:
    plan = data.draw(plans())
    try:
        held_windows(plan, strategy)
    except NotHeldError:
        return
    other = data.draw(st.sampled_from([plan, *others(plan)]))
    given_tuples = {each.alias: data.draw(tuples, label=each.alias) for each in windows(plan)}
    check(
        plan,
        plan,
        other,
        given_tuples,
        [5, 11, 16],
        data.draw(st.integers(0, 2)),
        strategy,
        data.draw(st.integers(0, 4)),
    )


@pytest.mark.parametrize("strategy", ["upa", "nt"])
@given(st.data())
@settings(max_examples=examples(400))
def test_plans_under_slide_move_at_their_multiples(strategy: str, data: st.DataObject) -> None:
    """Eager or lazy, with short-lived results or without, into another order or the other evaluation."""
    written = sampled(data.draw, data.draw(joins(), label="joins"))
    assume(not (written.restore and may_show_another(written)))
    plan, other = (evaluated(data.draw, data.draw(st.sampled_from(others(written)))) for _ in range(2))
    given_tuples = {each.alias: data.draw(st.one_of(tuples, dense_tuples), label=each.alias) for each in windows(plan)}
    widths = {each.alias: len(each.columns) for each in windows(plan)}
    given_tuples = {name: [(ts, row[: widths[name]]) for ts, row in rows] for name, rows in given_tuples.items()}
    cuts = data.draw(st.lists(st.integers(1, END - 1), min_size=1, max_size=5))
    place, late = data.draw(st.integers(0, len(set(cuts)) - 1)), data.draw(st.integers(0, 4))
    expected, _ = run(eagerly(plan), given_tuples, cuts, strategy, late)
    told, replaced = run(plan, given_tuples, cuts, strategy, late, Replacing(place, other))
    changes, undisturbed = (list(sum(each, Counter()).elements()) for each in (told, expected))
    for now in range(END):
        assert view(changes, now) == view(undisturbed, now)
        if not written.restore:
            rows = [given_tuples[each.alias] for each in windows(written)]
            assert view(changes, now) == answer(written, rows, now)
    event(f"replaced: {replaced}, lazy: {evaluation_of(plan) is not None} to {evaluation_of(other) is not None}")
    ends = sorted(set(cuts))
    low = ends[place - 1] if place else 0
    assert replaced or may_show_another(plan) or written.aligned(ends[place]) <= low


def test_tuples_that_a_lazy_plan_stores_as_multiples_see_them() -> None:
    """At 8 they are seen from 8 to 16, and at 9 from 12 to 16: no time of arrival is an expiry less the length."""
    join = Sampled(Join(window(A, TimeWindow(5)), window(B, TimeWindow(5)), (("A.a", "B.a"),)), 4)
    lazy = lazily(join)
    assert lazy is not None
    given_tuples = {A: [(5, (0, 0)), (8, (0, 0)), (9, (0, 1))], B: [(8, (0, 3)), (11, (0, 4))]}
    expected, _ = run(join, given_tuples, [10, 14], "upa")
    for place in (0, 1):
        for other in (join, lazy):
            told, replaced = run(lazy, given_tuples, [10, 14], "upa", 0, Replacing(place, other))
            assert replaced and sum(told, Counter()) == sum(expected, Counter())


def test_a_union_of_joins_moves() -> None:
    """Each join keeps its tuples; what a union stores itself is of no known window."""
    sides = [window(name, TimeWindow(length)) for name, length in ((A, 7), (B, 5), (C, 6), ("D", 4))]
    one, other = (Join(*pair, ((f"{pair[0].alias}.a", f"{pair[1].alias}.a"),)) for pair in (sides[:2], sides[2:]))
    union = Distinct(named(Union((named(one, "m"), named(other, "n"))), "u"))
    given_tuples = {A: [(1, (0, 0)), (9, (1, 1))], B: [(2, (0, 3)), (8, (1, 2))], C: [(3, (0, 0))], "D": [(5, (0, 1))]}
    assert check(union, union, union, given_tuples, [6, 10], 0, "upa", 0)


ONE, OTHER = window(A, TimeWindow(7)), window(B, TimeWindow(5))
BELOW = Join(Distinct(ONE), Distinct(OTHER), (("A.a", "B.a"),))
ABOVE = Distinct(Join(ONE, OTHER, (("A.a", "B.a"),)))


def test_duplicates_that_are_eliminated_above_a_join_instead_of_below() -> None:
    given_tuples = {A: [(1, (0, 0)), (4, (0, 0)), (9, (1, 1))], B: [(2, (0, 3)), (5, (0, 3)), (8, (1, 2))]}
    assert check(ABOVE, BELOW, ABOVE, given_tuples, [6, 10], 0, "upa", 0)


def test_the_plan_goes_on_if_its_rows_would_have_other_expiries() -> None:
    """The shown pair expires at 7. Below the join, the duplicate that came at 6 would be shown instead."""
    given_tuples = {A: [(0, (0, 0)), (1, (0, 0)), (6, (0, 0))], B: [(2, (0, 3)), (6, (0, 3))]}
    assert not check(ABOVE, ABOVE, BELOW, given_tuples, [8], 0, "upa", 0)


FIXED = {
    "window A is UNBOUNDED": Join(window(A, TimeWindow(FOREVER)), OTHER, (("A.a", "B.a"),)),
    "the rows of table nrr that tuples have found are not kept": Distinct(with_table(NrrJoin, ONE, "A.a", "n")),
    "its answer depends on earlier answers": Deltas(ONE, ISTREAM),
    "which results of DISTINCT are short-lived depends on the plan": Sampled(ABOVE, 4, restore=True),
    "no operator keeps all columns of the tuples in window B": Negation(ONE, OTHER, (("A.a", "B.a"),), whole=True),
    "no operator keeps all columns of the tuples in window A$": Map(ONE, (("a", Field("A.a", INT)),)),
    "no operator keeps all columns of the tuples in window A": Distinct(Union((ONE, named(OTHER, A)))),
    "it reads one window twice": Join(ONE, ONE, (("A.a", "A.a"),)),
}


@pytest.mark.parametrize("reason", FIXED)
def test_a_plan_that_does_not_hold_its_tuples_says_why(reason: str) -> None:
    with pytest.raises(NotHeldError, match=reason):
        held_windows(FIXED[reason], "upa")
