"""INTERNAL windows in joins of three, on one attribute and along a chain, in one operator and as joins of two.

By definition a result is found while its tuples are in their windows together, whatever is internal. It then ends with
the first of its external tuples, or never.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.changes import NEVER
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import STRATEGIES, BaseWindow, Node, edges, windows
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Outliving, Stamped
from sash.plan.rewrites import alternatives, fuse_joins, optimise
from tests.changes.test_multi_join import any_cuts
from tests.changes.test_plans_oracle import run as run_in_one_stage
from tests.changes.test_stages_oracle import run
from tests.support.examples import examples
from tests.support.graphs import nested
from tests.support.plans import dense_tuples, row_windows, time_windows, tuples, window
from tests.support.relational import Inputs

NAMES = ("S", "T", "U")
FORMS = {
    "one attribute": [((0, 1), ("S.a", "T.a")), ((1, 2), ("T.a", "U.a"))],
    "chain": [((0, 1), ("S.a", "T.a")), ((1, 2), ("T.b", "U.b"))],
}
Changes = Counter[tuple[int, int, int, tuple[object, ...]]]


@st.composite
def joins(draw: st.DrawFn, form: str) -> Outliving:
    """Some windows are internal, at least one; these may be of rows. The others write their expiries into columns."""
    internal = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    sides: list[Node] = []
    for name in NAMES:
        if name in internal:
            sides.append(replace(window(name, draw(st.one_of(time_windows, row_windows))), internal=True))
        else:
            sides.append(Stamped(window(name, draw(time_windows)), f"{name} expires"))
    stamps = tuple(f"{name} expires" for name in NAMES if name not in internal)
    return Outliving(nested(sides, FORMS[form]), stamps)


def lives(node: BaseWindow, given_tuples: list) -> list[tuple[int, int, tuple[object, ...]]]:
    """When each tuple comes into its window, when it is gone, and its row."""
    counted = sorted(given_tuples, key=lambda pair: pair[0])
    if not isinstance(node.window, RowWindow):
        return [(ts, ts + node.window.length, row) for ts, row in counted]
    later = counted[node.window.length :]
    return [(ts, later[place][0] if place < len(later) else NEVER, row) for place, (ts, row) in enumerate(counted)]


def definition(plan: Outliving, form: str, inputs: Inputs) -> Changes:
    """Every combination is gone through."""
    bases, found = windows(plan), Counter()
    for members in itertools.product(*(lives(base, own) for base, own in zip(bases, inputs, strict=True))):
        rows = {f"{name}.{column}": value for name, (*_, row) in zip(NAMES, members, strict=True)
                for column, value in zip("ab", row, strict=True)}  # fmt: skip
        alike = all(rows[one] is not None and rows[one] == rows[other] for _, (one, other) in FORMS[form])
        start = max(ts for ts, *_ in members)
        if alike and start < min(gone for _, gone, _ in members):
            ends = (gone for base, (_, gone, _) in zip(bases, members, strict=True) if not base.internal)
            found[start, min(ends, default=NEVER), 1, tuple(rows.values())] += 1
    return found


def is_fused(plan: Node) -> bool:
    return any(isinstance(node, MultiJoin) and len(node.inputs) == 3 for _, node in edges(plan))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=examples(30))
def test_results_end_with_their_external_tuples(form: str, strategy: str, data: st.DataObject) -> None:
    written = data.draw(joins(form), label="plan")
    inputs = [data.draw(st.one_of(tuples, dense_tuples), label=each.alias) for each in windows(written)]
    fused = fuse_joins(written)
    assert is_fused(fused) and not is_fused(written) and fused.schema == written.schema
    expected, cuts = definition(written, form, inputs), data.draw(any_cuts, label="cuts")
    late = data.draw(st.integers(0, 3), label="late")
    for plan in (fused, written):
        assert Counter(run_in_one_stage(plan, inputs, cuts, late=late, strategy=strategy)) == expected
    for buckets, shares in ((1, 2), (2, 1), (3, 2)):
        assert Counter(run(fused, inputs, cuts, buckets, late=late, strategy=strategy, shares=shares)) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", FORMS)
def test_a_tuple_that_pushes_out_one_like_it_gives_a_result_of_its_own(form: str, strategy: str) -> None:
    """The first result is taken back when an equal one appears, and both stay until the tuple of S expires."""
    sides = [
        Stamped(window("S", TimeWindow(6)), "S expires"),
        replace(window("T", RowWindow(1)), internal=True),
        replace(window("U", TimeWindow(6)), internal=True),
    ]
    plan = fuse_joins(Outliving(nested(sides, FORMS[form]), ("S expires",)))
    inputs = [[(1, (1, 1))], [(3, (1, 1)), (4, (1, 1))], [(2, (1, 1))]]
    assert is_fused(plan)
    for cuts in ([], [4], [3, 4, 5]):
        found = run_in_one_stage(plan, inputs, cuts, strategy=strategy)
        assert sorted(found) == [(at, 7, 1, (1,) * 6) for at in (3, 4)]


@pytest.mark.parametrize("form", FORMS)
@given(st.data())
@settings(max_examples=examples(30))
def test_optimised_plans_give_the_same_results(form: str, data: st.DataObject) -> None:
    written = data.draw(joins(form), label="plan")
    given_tuples = {name: data.draw(st.one_of(tuples, dense_tuples), label=name) for name in NAMES}
    expected = definition(written, form, [given_tuples[name] for name in NAMES])
    best = optimise(written)
    assert is_fused(best)
    for plan in {best, data.draw(st.sampled_from(alternatives(written)), label="alternative")}:
        inputs = [given_tuples[each.alias] for each in windows(plan)]
        assert plan.schema == written.schema and Counter(run_in_one_stage(plan, inputs, [5, 11])) == expected
