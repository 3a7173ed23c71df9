"""Scheduling groups: their names, and families of predicates."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.window import TimeWindow
from sash.panes.partials import Partial
from sash.panes.readings import Reading, TableName
from sash.plan.expressions import RowExpression
from sash.sharing.groups import families, same_data
from sash.sharing.rules import SCANNED, Computation, compute_together, scheduling_group

LENGTH = RowExpression("length", pa.int32())


def where(text: str) -> RowExpression:
    return RowExpression(text, pa.bool_())


def reading(*predicates: str, window: int = 10) -> Reading:
    chosen = [where(text) for text in predicates] or [None]
    partials = [Partial(kind, argument, p) for p in chosen for kind, argument in (("rows", None), ("sum", LENGTH))]
    return Reading(TableName(()), TimeWindow(window, 2), tuple(partials))


def test_no_predicate_no_family() -> None:
    assert families([reading()]) == {}


def test_predicates_that_are_read_together_are_one_family_also_by_way_of_others() -> None:
    found = families([reading("a", "b"), reading("d", "e"), reading("b", "c"), reading("c", "d")])
    assert found == dict.fromkeys("abcde", "a")
    assert families([reading("a", "b"), reading("x", "y")]) == {"a": "a", "b": "a", "x": "x", "y": "x"}


@pytest.mark.parametrize("kind", ["basic", "cluster", "running", "interval", "landmark"])
@pytest.mark.parametrize(("mine", "other"), [(10, 10), (10, 20)])
def test_queries_have_one_group_exactly_if_the_rules_execute_them_together(kind: str, mine: int, other: int) -> None:
    """CS1 and CS2: whether another window is another group."""
    spans = [reading(window=window).spans for window in (mine, other)]
    both = [Computation("q", scheduling_group("(src)", kind, some), "(src)", kind, some[0]) for some in spans]
    decision = compute_together(both[0], both[1:])
    assert decision.allowed is (both[0].group == both[1].group) is (kind in SCANNED or mine == other)
    assert decision.rule == ("CS2" if kind in SCANNED else "CS1")


def test_other_data_are_another_group() -> None:
    plain = same_data("(src)", reading(), {})
    assert plain == scheduling_group(plain, "basic", reading().spans) == "(src) of length"
    assert same_data("(src)", reading("a"), {}) == "(src) of length where a"
    assert same_data("(src)", reading("b"), {"b": "a"}) == "(src) of length where a"
