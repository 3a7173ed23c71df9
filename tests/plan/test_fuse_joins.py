"""Which joins become one: those on a common attribute, of one column or several, and those along a graph of several."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import Filter, Join, Map, Node, windows
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.expressions import Call, Field
from sash.plan.multi_join import MultiJoin
from sash.plan.rewrites import exchange_joins, fuse_joins, join_right_first, optimise
from sash.plan.stages import EVERYWHERE, StagePlan, stages
from tests.support.plans import INT, less, window


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
    # One of two columns is an attribute that all have; the other one is not.
    assert keys_of(Join(both, C, (("A.a", "C.a"),))) == [("A.a", "B.a", "C.a"), ("A.b", "B.b", None)]


def test_several_columns_of_one_input_that_are_equal() -> None:
    """Each is a key of its own: by way of another input."""
    both = Join(A, B, (("A.a", "B.a"), ("A.b", "B.b")))
    assert keys_of(Join(AB, C, (("A.a", "C.a"), ("A.a", "C.b")))) == [("A.a", "B.a", "C.a"), ("A.a", None, "C.b")]
    every = keys_of(Join(both, C, (("A.a", "C.a"), ("A.b", "C.a"))))
    assert every == [("A.a", "B.a", "C.a"), ("A.b", "B.a", None), ("A.a", "B.b", None)]


def keys_of(plan: Node) -> list[tuple[str | None, ...]]:
    found = fuse_joins(plan)
    assert isinstance(found, MultiJoin) and found.schema == plan.schema
    return list(found.keys)


def test_chains_stars_and_cycles() -> None:
    chain = Join(AB, C, (("B.b", "C.a"),))
    assert fuse_joins(chain) == MultiJoin((A, B, C), ((None, "B.b", "C.a"), ("A.a", "B.a", None)))
    assert fuse_joins(chain).describe() == "Join of 3 on B.b = C.a AND A.a = B.a"
    star = Join(Join(AB, C, (("A.b", "C.a"),)), D, (("A.a", "D.b"),))
    assert keys_of(star) == [("A.a", "B.a", None, "D.b"), ("A.b", None, "C.a", None)]
    cycle = Join(AB, C, (("B.b", "C.a"), ("A.b", "C.b")))
    assert keys_of(cycle) == [(None, "B.b", "C.a"), ("A.b", None, "C.b"), ("A.a", "B.a", None)]


def test_keys_that_have_little_copied_come_first() -> None:
    chain = Join(AB, C, (("B.b", "C.a"),))
    for rates, copied in (({"c": 1.0}, "C"), ({"a": 1.0}, "A")):
        found = fuse_joins(chain, Statistics(rates=rates))
        targets = stages(found)[0].windows
        assert [node.alias for place, node in enumerate(windows(found)) if targets[place] is EVERYWHERE] == [copied]


def test_what_stays_as_it_is() -> None:
    for plan in (AB, Join(AB, C, ()), Join(Join(A, B, ()), C, (("A.a", "C.a"),))):
        assert fuse_joins(plan) == plan


def test_columns_in_another_order() -> None:
    """However joins were reordered, one join of the inputs as they were written comes out."""
    for key in ("A.a", "B.a"):
        written = Join(AB, C, ((key, "C.b"),))
        for rule in (exchange_joins, join_right_first):
            assert fuse_joins(rule(written)) == fuse_joins(written)
    turned = Join(Join(A, C, (("A.a", "C.a"),)), B, (("A.b", "B.b"),))
    mixed = ("C.b", "A.a", "B.a", "A.b", "B.b", "C.a")
    permuted = Join(Map(turned, tuple((name, Field(name, INT)) for name in mixed)), D, (("A.a", "D.a"),))
    fused = fuse_joins(permuted)
    assert isinstance(fused, Map) and isinstance(fused.input, MultiJoin) and fused.schema == permuted.schema


def test_conditions_between_joins() -> None:
    differ = Call("ne", (Field("A.b", INT), Field("B.b", INT)), pa.bool_())
    between = Join(Filter(AB, differ), C, (("B.b", "C.a"),))
    assert fuse_joins(between) == between
    above = fuse_joins(between, over_conditions=True)
    assert above == Filter(fuse_joins(Join(AB, C, (("B.b", "C.a"),))), differ)
    # The cheaper form is taken. With many values of B.b few pairs have a result; those that have none are not stored.
    many = Statistics(distinct={"b.b": 1e5, "c.a": 1e5})
    assert [optimise(between, known) for known in (Statistics(), many)] == [between, above]


def test_below_something_else() -> None:
    joined = Join(AB, C, (("A.a", "C.a"),))
    apart = Filter(Join(joined, D, (("C.b", "D.a"),)), less("A.b", 3))
    assert fuse_joins(apart) == Filter(fuse_joins(Join(joined, D, (("C.b", "D.a"),))), less("A.b", 3))
    crossed = Filter(Join(joined, D, ()), less("A.b", 3))
    assert fuse_joins(crossed) == Filter(Join(fuse_joins(joined), D, ()), less("A.b", 3))


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
