"""INTERSECT and EXCEPT of two windows that slide: which plans a set-valued index answers.

    SELECT src FROM a [WINDOW 10 min SLIDE 1 min] INTERSECT SELECT src FROM b [WINDOW 5 min SLIDE 1 min]

    Sampled <- Intersection <- Distinct <- Project <- Window a, 10 min
                          ^--------------- Project <- Window b, 5 min

A query asks of each window which values of one column it has. So it is enough to count each value in each window,
whatever the tuples are (Golab, Garg and Özsu 2003, 7.2.3). All other set operations run as plans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Distinct, Filter, Intersection, Map, Negation, Node, Union
from sash.plan.outputs import Sampled

# The ends of a range of values, both included: the columns of an approximate answer.
LOW, HIGH = "low", "high"


@dataclass(frozen=True)
class GroupedIntersection(Intersection):
    """Ranges of values, at most `groups`; every value that both inputs have is in one of them.

    No operator computes it: it is answered from a G-INDEX, or refused when it is bound.
    """

    groups: int = 0

    @cached_property
    def schema(self) -> pa.Schema:
        (column,) = self.left.schema
        return pa.schema([(LOW, column.type), (HIGH, column.type)])

    def describe(self) -> str:
        return f"{super().describe()}, as ranges in at most {self.groups} groups"


@dataclass(frozen=True)
class Side:
    """A window with one column, and the projections and selections of this column above it."""

    window: BaseWindow
    steps: tuple[Map | Filter, ...] = ()

    @property
    def length(self) -> int:
        return self.window.window.length


@dataclass(frozen=True)
class WindowedSet:
    """One query. `groups` is None if the answer is exact."""

    sides: tuple[Side, Side]
    negated: bool
    schema: pa.Schema
    type: pa.DataType
    slide: int
    offset: int
    groups: int | None = None

    @property
    def pane(self) -> int:
        """The length of the sub-windows."""
        return math.gcd(self.slide, *(side.length for side in self.sides))

    @property
    def tuples(self) -> Union:
        """The tuples of both windows, the first one's and the second one's."""
        return Union(tuple(side.window for side in self.sides))


def windowed_set(plan: Node) -> WindowedSet | None:
    """The set operation of a plan, if a set-valued index can answer it; None otherwise."""
    if not isinstance(plan, Sampled) or plan.restore:
        return None
    matched = plan.input
    if not isinstance(matched, Negation | Intersection) or not (matched.whole and matched.null_safe):
        return None
    if not isinstance(matched.left, Distinct) or len(matched.left.schema) != 1:
        return None
    left, right = _side(matched.left), _side(matched.right)
    if left is None or right is None:
        return None
    return WindowedSet(
        (left, right),
        isinstance(matched, Negation),
        matched.schema,
        matched.left.schema.field(0).type,
        plan.slide,
        plan.offset,
        matched.groups if isinstance(matched, GroupedIntersection) else None,
    )


def _side(node: Node) -> Side | None:
    """A side with one column: the same value gives the same result, whichever tuple has it."""
    steps: list[Map | Filter] = []
    while isinstance(node, Map | Filter | Distinct):
        if not isinstance(node, Distinct):
            steps.append(node)
        node = node.input
    if not isinstance(node, BaseWindow) or len(node.columns) != 1 or node.internal or node.partition:
        return None
    is_plain = isinstance(node.window, TimeWindow) and not node.window.unbounded
    return Side(node, tuple(reversed(steps))) if is_plain else None
