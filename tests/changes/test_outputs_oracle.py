"""Outputs against their definitions at every instant, however the input is cut into micro-batches."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.changes import NEVER
from sash.core.window import FOREVER, MixedWindow, RowWindow, TimeWindow
from sash.plan.continuous import Aggregated, GroupBy, Join, windows
from sash.plan.outputs import ISTREAM, Deltas, Outliving, ResultWindow, Sampled, Snapshots, Stamped
from tests.changes.test_plans_oracle import END, run
from tests.support.examples import examples
from tests.support.plans import INT, outputs, plans, tuples, window
from tests.support.relational import answer, check_net, view

cuts_of = st.lists(st.integers(1, END - 1), max_size=6)


@given(st.data())
@settings(max_examples=examples(150))
def test_deltas_and_samples(data: st.DataObject) -> None:
    plan = data.draw(outputs(), label="plan")
    inputs = [data.draw(tuples, label=each.alias) for each in windows(plan)]
    changes = run(plan, inputs, data.draw(cuts_of, label="cuts"), late=data.draw(st.integers(0, 3)))
    check_net(changes)
    if isinstance(plan, Deltas):
        assert all(sign == 1 and exp == NEVER for _, exp, sign, _ in changes)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"
    assert Counter(changes) == Counter(run(plan, inputs, []))


@given(tuples, cuts_of, st.sampled_from(["count", "sum", "max"]))
def test_an_internal_aggregate_appends_each_new_value(rows: list, cuts: list[int], function: str) -> None:
    groups = GroupBy(window("S", TimeWindow(5)), ("S.a",), (Aggregated("x", function, "S.b", INT),))
    assert Counter(run(Outliving(groups), [rows], cuts)) == Counter(run(Deltas(groups, ISTREAM), [rows], []))


@given(tuples, tuples, cuts_of, st.sampled_from([(), ("S",), ("S", "T")]))
def test_results_of_a_join_end_with_their_external_tuples(
    ones: list, others: list, cuts: list[int], external: tuple[str, ...]
) -> None:
    """Pairs are those of windows that are alive together, whatever is internal."""
    lengths = {"S": 5, "T": 3}
    sides = [window(name, TimeWindow(length)) for name, length in lengths.items()]
    stamped = [
        Stamped(side, f"{side.alias} exp") if side.alias in external and len(external) < 2 else side for side in sides
    ]
    joined = Join(*stamped, (("S.a", "T.a"),))
    plan = joined if len(external) == 2 else Outliving(joined, tuple(f"{name} exp" for name in external))
    expected = Counter()
    for ts, one in ones:
        for at, other in others:
            meet = max(ts, at) < min(ts + lengths["S"], at + lengths["T"])
            if one[0] is not None and one[0] == other[0] and meet:
                ends = {"S": ts + lengths["S"], "T": at + lengths["T"]}
                expected[max(ts, at), min((ends[name] for name in external), default=NEVER), 1, one + other] += 1
    assert Counter(run(plan, [ones, others], cuts)) == +expected


@given(tuples, tuples, cuts_of, st.integers(1, 6))
def test_restored_results_are_seen_at_one_multiple_at_least(
    ones: list, others: list, cuts: list[int], slide: int
) -> None:
    joined = Join(window("S", TimeWindow(5)), window("T", TimeWindow(3)), (("S.a", "T.a"),))
    sampled = Sampled(joined, slide, restore=True)
    expected = Counter()
    for ts, exp, _, row in run(joined, [ones, others], []):
        first = sampled.next_multiple(ts)
        if first < END:
            expected[first, max(sampled.next_multiple(exp), first + slide), 1, row] += 1
    assert Counter(run(sampled, [ones, others], cuts)) == +expected


@given(st.data())
def test_restored_results_of_any_plan(data: st.DataObject) -> None:
    """At a multiple there is the answer, whatever has come since the one before, and nothing that was not there."""
    plan, slide = data.draw(plans(3), label="plan"), data.draw(st.integers(1, 6), label="slide")
    inputs = [data.draw(tuples, label=each.alias) for each in windows(plan)]
    changes = run(Sampled(plan, slide, restore=True), inputs, data.draw(cuts_of, label="cuts"))
    answers = [answer(plan, inputs, now) for now in range(END)]
    for now in range(0, END, slide):
        shown, since = view(changes, now), range(max(0, now - slide + 1), now + 1)
        came = [row for t in since for row in answers[t] - (answers[t - 1] if t else Counter())]
        assert not answers[now] - shown and set(came) <= set(shown) <= {row for t in since for row in answers[t]}


COUNT = Aggregated("n", "count", None, INT)


@given(tuples, cuts_of, st.integers(1, 5), st.integers(1, 6), st.booleans(), st.booleans())
def test_the_last_rows_as_of_multiples_of_a_time(
    rows: list, cuts: list[int], count: int, slide: int, grouped: bool, parted: bool
) -> None:
    """[ROWS n SLIDE d], and with PARTITION BY, against the last rows in the order of time."""
    last = replace(window("S", MixedWindow(count, slide)), partition=("S.a",) if parted else ())
    plan = Sampled(GroupBy(last, ("S.a",), (COUNT,)) if grouped else last, slide)
    changes = run(plan, [rows], cuts)
    for now in range(0, END, slide):
        seen = [row for ts, row in sorted(rows, key=lambda pair: pair[0]) if ts <= now]
        kept = [row for place, row in enumerate(seen) if _younger(seen[place:], row, parted) <= count]
        counts = Counter(row[0] for row in kept)
        expected = Counter(counts.items()) if grouped else Counter(kept)
        assert view(changes, now) == expected, f"at {now}"


def _younger(rows: list, row: tuple, parted: bool) -> int:
    """The place of the first of some rows from the end, among all rows or those of its partition."""
    return sum(not parted or other[0] == row[0] for other in rows)


@given(tuples, cuts_of, st.integers(1, 6), st.booleans())
def test_snapshots_have_every_row_at_every_multiple(rows: list, cuts: list[int], slide: int, grouped: bool) -> None:
    plan = window("S", TimeWindow(5))
    below = GroupBy(plan, ("S.a",), (COUNT,)) if grouped else plan
    offset = slide // 2
    expected = Counter()
    for now in range(offset, END, slide):
        for row, number in answer(below, [rows], now).items():
            expected[now, NEVER, 1, row] += number
    assert Counter(run(Snapshots(below, slide, offset), [rows], cuts)) == expected


@given(st.data())
def test_results_of_a_join_of_three(data: st.DataObject) -> None:
    """What the first two windows have joined is kept as if they were external (thesis, figure 3.3)."""
    lengths = {"S": 5, "T": 3, "U": 4}
    inputs = [data.draw(tuples, label=name) for name in lengths]
    external = data.draw(st.lists(st.sampled_from("STU"), unique=True), label="external")
    sides = [window(name, TimeWindow(length)) for name, length in lengths.items()]
    one, two, three = (Stamped(side, f"{side.alias} exp") if side.alias in external else side for side in sides)
    joined = Join(Join(one, two, (("S.a", "T.a"),)), three, (("T.b", "U.b"),))
    plan = Outliving(joined, tuple(f"{name} exp" for name in external))
    expected = Counter()
    for (s, one_row), (t, two_row), (u, three_row) in itertools.product(*inputs):
        alike = one_row[0] is not None and one_row[0] == two_row[0]
        alike = alike and two_row[1] is not None and two_row[1] == three_row[1]
        ends = {"S": s + lengths["S"], "T": t + lengths["T"], "U": u + lengths["U"]}
        if alike and max(s, t, u) < min(ends.values()):
            exp = min((ends[name] for name in external), default=NEVER)
            expected[max(s, t, u), exp, 1, one_row + two_row + three_row] += 1
    assert Counter(run(plan, inputs, data.draw(cuts_of))) == expected


@given(tuples, tuples, cuts_of, st.integers(1, 4))
def test_windows_on_a_stream_that_never_ends(ones: list, others: list, cuts: list[int], rows: int) -> None:
    """Over [UNBOUNDED] nothing is remembered for Istream, and the rows that a window lets go are still known."""
    results = ResultWindow(Deltas(window("S", TimeWindow(FOREVER)), ISTREAM), RowWindow(rows))
    plan = Join(results, window("T", TimeWindow(4)), (("S.a", "T.a"),))
    changes = run(plan, [ones, others], cuts)
    for now in range(END):
        assert view(changes, now) == answer(plan, [ones, others], now), f"at {now}"


@given(tuples, tuples, cuts_of, st.integers(1, 4))
def test_an_internal_window_of_rows_beside_an_external_one(
    ones: list, others: list, cuts: list[int], rows: int
) -> None:
    """A tuple of the internal window finds partners until the n-th after it comes; the pair lives on without it."""
    joined = Join(Stamped(window("S", TimeWindow(5)), "exp"), window("T", RowWindow(rows)), (("S.a", "T.a"),))
    counted = sorted(others, key=lambda pair: pair[0])
    expected = Counter()
    for place, (at, other) in enumerate(counted):
        out = counted[place + rows][0] if place + rows < len(counted) else NEVER
        for ts, one in ones:
            if one[0] is not None and one[0] == other[0] and max(ts, at) < min(ts + 5, out):
                expected[max(ts, at), ts + 5, 1, one + other] += 1
    assert Counter(run(Outliving(joined, ("exp",)), [ones, others], cuts)) == expected
