"""How far back answers look: whatever is older makes no difference to them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import Aggregated, GroupBy, Join, Node, Union, is_stream, sampling_of, windows
from sash.plan.outputs import ISTREAM, Deltas, Outliving, ResultWindow, Sampled, Snapshots, Stamped
from sash.plan.reach import Reach, complete_from, pane_of, reaches
from tests.changes.test_plans_oracle import END, run
from tests.support.examples import examples
from tests.support.plans import INT, outputs, plans, tuples, window
from tests.support.relational import Inputs, view

COUNT = Aggregated("n", "count", None, INT)


def shown(plan: Node, inputs: Inputs, multiple: int) -> Counter[object]:
    """The answer at a multiple: all rows, or the new ones."""
    changes = run(plan, inputs, [])
    if is_stream(plan):
        return Counter(row for ts, _, _, row in changes if ts == multiple)
    return Counter(view(changes, multiple))


def check(plan: Node, inputs: Inputs) -> None:
    sampled = sampling_of(plan)
    assert sampled is not None
    needed = {reach.stream: reach.length for reach in reaches(plan)}
    assert set(needed) == {each.stream.lower() for each in windows(plan)}
    for multiple in range(sampled.next_multiple(4), END, 3 * sampled.slide):
        within = []
        for each, given_tuples in zip(windows(plan), inputs, strict=True):
            length = needed[each.stream.lower()]
            within.append([pair for pair in given_tuples if length is None or pair[0] > multiple - length])
        assert shown(plan, within, multiple) == shown(plan, inputs, multiple), f"at {multiple}"


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_what_is_older_makes_no_difference(data: st.DataObject) -> None:
    plan = data.draw(
        outputs().filter(lambda each: not (isinstance(each, Deltas) and not isinstance(each.input, Sampled)))
    )
    check(plan, [data.draw(tuples, label=each.alias) for each in windows(plan)])


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_nor_where_short_lived_results_are_restored(data: st.DataObject) -> None:
    plan = Sampled(data.draw(plans(3), label="plan"), data.draw(st.integers(1, 6), label="slide"), restore=True)
    check(plan, [data.draw(tuples, label=each.alias) for each in windows(plan)])


S, T = window("S", TimeWindow(5)), window("T", TimeWindow(3))
MIXED = Outliving(Join(Stamped(S, "exp"), T, (("S.a", "T.a"),)), ("exp",))
GROUPS = GroupBy(S, ("S.a",), (COUNT,))


@given(tuples, tuples, st.integers(1, 6))
@settings(max_examples=examples(40), deadline=None)
def test_nor_where_results_outlive_their_windows(ones: list, others: list, slide: int) -> None:
    check(Sampled(MIXED, slide), [ones, others])
    check(Sampled(Outliving(Join(S, T, (("S.a", "T.a"),))), slide), [ones, others])
    check(Sampled(ResultWindow(Outliving(GROUPS), TimeWindow(4)), slide), [ones])
    check(Sampled(ResultWindow(Snapshots(GROUPS, slide), TimeWindow(4)), slide), [ones])


def test_lengths_add_up_along_a_path() -> None:
    assert reaches(Sampled(Union((S, T)), 2)) == (Reach("s", 5), Reach("t", 3))
    assert reaches(Deltas(Sampled(S, 2), ISTREAM)) == reaches(Sampled(Deltas(S, ISTREAM), 2)) == (Reach("s", 7),)
    nested = ResultWindow(Deltas(ResultWindow(Outliving(GROUPS), TimeWindow(4)), ISTREAM), TimeWindow(6))
    assert reaches(Sampled(nested, 2)) == (Reach("s", 15),)
    assert reaches(Sampled(MIXED, 2)) == (Reach("s", 10), Reach("t", 8))
    everything = (Reach("s", None),)
    assert reaches(Sampled(window("S", TimeWindow(FOREVER)), 2)) == everything
    assert reaches(Sampled(ResultWindow(Outliving(GROUPS), RowWindow(4)), 2)) == everything
    assert reaches(Sampled(GroupBy(Outliving(S), (), (COUNT,)), 2)) == everything
    assert reaches(Deltas(Sampled(GroupBy(Outliving(S), (), (COUNT,)), 2), ISTREAM)) == everything
    assert pane_of(Union((window("S", TimeWindow(12)), window("T", TimeWindow(8)))), 6) == 2


def test_an_answer_is_complete_when_all_its_windows_are() -> None:
    needed = (Reach("s", 5), Reach("t", 7))
    assert complete_from(needed, {"s": 100, "t": 90}, []) == 105
    assert complete_from(needed, {"s": 100}, ["s"]) is None, "nothing has come from t"
    everything = (Reach("s", None),)
    assert complete_from(everything, {"s": 100}, ["s"]) == 100
    assert complete_from(everything, {"s": 100}, []) is None, "s had begun before"
