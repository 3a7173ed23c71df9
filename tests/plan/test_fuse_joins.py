"""Which joins become one: those on a common attribute, of one column or several."""

from __future__ import annotations

import pytest

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import Filter, Join, Node
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.fuse_joins import fuse_joins
from sash.plan.multi_join import MultiJoin
from sash.plan.rewrites import optimise
from sash.plan.stages import StagePlan, stages
from tests.support.plans import less, window


def link(name: str) -> Node:
    return window(name, TimeWindow(10 * SECOND))


A, B, C, D = (link(name) for name in "ABCD")
AB = Join(A, B, (("A.a", "B.a"),))


@pytest.mark.parametrize("tied", ["A.a", "B.a"])
def test_a_join_of_a_join_on_the_same_attribute(tied: str) -> None:
    fused = fuse_joins(Join(AB, C, ((tied, "C.b"),)))
    assert fused == MultiJoin((A, B, C), (("A.a", "B.a", "C.b"),))
    assert fused.schema == Join(AB, C, ((tied, "C.b"),)).schema and fused.describe() == "Join of 3 on A.a = B.a = C.b"


def test_all_equalities_may_be_written() -> None:
    assert fuse_joins(Join(AB, C, (("A.a", "C.a"), ("B.a", "C.a")))) == MultiJoin((A, B, C), (("A.a", "B.a", "C.a"),))


def test_joins_on_both_sides() -> None:
    other = Join(C, D, (("C.b", "D.a"),))
    assert fuse_joins(Join(AB, other, (("B.a", "C.b"),))) == MultiJoin((A, B, C, D), (("A.a", "B.a", "C.b", "D.a"),))


def test_attributes_of_two_columns() -> None:
    both = Join(A, B, (("A.a", "B.a"), ("A.b", "B.b")))
    fused = fuse_joins(Join(both, C, (("B.b", "C.a"), ("A.a", "C.b"))))
    assert fused == MultiJoin((A, B, C), (("A.b", "B.b", "C.a"), ("A.a", "B.a", "C.b")))
    # One of two columns, or one more, is another attribute.
    for keys in ((("A.a", "C.a"),), (("A.a", "C.a"), ("A.b", "C.a")), (("A.a", "C.a"), ("A.a", "C.b"))):
        assert fuse_joins(Join(both, C, keys)) == Join(both, C, keys)


def test_what_stays_as_it_is() -> None:
    for plan in (AB, Join(AB, C, (("A.b", "C.a"),)), Join(AB, C, ()), Join(Join(A, B, ()), C, (("A.a", "C.a"),))):
        assert fuse_joins(plan) == plan


def test_below_something_else() -> None:
    joined = Join(AB, C, (("A.a", "C.a"),))
    apart = Filter(Join(joined, D, (("C.b", "D.a"),)), less("A.b", 3))
    assert fuse_joins(apart) == Filter(Join(fuse_joins(joined), D, (("C.b", "D.a"),)), less("A.b", 3))


def test_the_optimiser_fuses_and_the_model_agrees() -> None:
    written = Join(AB, C, (("A.a", "C.a"),))
    fused = optimise(written)
    assert fused == fuse_joins(written) and cost(fused, Statistics()) < cost(written, Statistics())
    # A selection on one window is below it by then.
    filtered = optimise(Filter(written, less("B.b", 2)))
    assert filtered == MultiJoin((A, Filter(B, less("B.b", 2)), C), (("A.a", "B.a", "C.a"),))


def test_buckets() -> None:
    """All windows by the attribute, in one stage."""
    assert stages(fuse_joins(Join(AB, C, (("A.a", "C.b"),)))) == (StagePlan("", {0: "A.a", 1: "B.a", 2: "C.b"}),)
