"""Joins of two windows that differ only in the lengths of the windows: the state of the longest serves all of them.

    S [RANGE 10 min], T [RANGE 5 min]      s ├──────────────────┤       a pair lives while both of its tuples do,
                                             t    ├─────────┤           from max(ts) to min(ts + length)
    S [RANGE  4 min], T [RANGE 2 min]      s ├───────┤                  in shorter windows it appears at the same time,
                                             t    ├───┤                 and ends earlier

The pairs of shorter windows are pairs of the longer ones. If both windows are shorter by the same length, their pairs
end earlier by that length. Otherwise rows carry the expiries of their two tuples (`with_expiries`).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Filter, Join, Map, Node, edges, inputs, windows, with_inputs
from sash.plan.expressions import Field
from sash.plan.outputs import Stamped

Lengths = tuple[int, int]
# The columns with the expiries of a pair's tuples.
EXPIRIES = ("_first_exp", "_second_exp")


def lengths_of(plan: Node) -> Lengths | None:
    """The lengths of the windows of a join whose rows are its pairs; None for any other plan."""
    nodes = [node for _, node in edges(plan)]
    if sum(isinstance(node, Join) for node in nodes) != 1 or not all(_is_stateless(node) for node in nodes):
        return None
    if any(name in EXPIRIES for node in nodes for name in node.schema.names):
        return None
    first, second = windows(plan)
    return first.window.length, second.window.length


def _is_stateless(node: Node) -> bool:
    if isinstance(node, BaseWindow):
        return type(node.window) is TimeWindow and not (node.window.unbounded or node.internal or node.window.slide)
    return isinstance(node, Filter | Map | Join)


def with_lengths(plan: Node, lengths: Lengths) -> Node:
    """The same join of windows of other lengths."""
    left = iter(lengths)

    def replaced(node: Node) -> Node:
        if isinstance(node, BaseWindow):
            return replace(node, window=replace(node.window, length=next(left)))
        return with_inputs(node, tuple(map(replaced, inputs(node))))

    return replaced(plan)


def with_expiries(plan: Node) -> Node:
    """The same join, whose rows have two columns more: the expiries of their tuples."""
    if isinstance(plan, Join):
        return replace(plan, left=Stamped(plan.left, EXPIRIES[0]), right=Stamped(plan.right, EXPIRIES[1]))
    (below,) = map(with_expiries, inputs(plan))
    if isinstance(plan, Map):
        return Map(below, (*plan.outputs, *((name, Field(name, pa.int64())) for name in EXPIRIES)))
    return with_inputs(plan, (below,))


def is_even(longer: Lengths, shorter: Lengths) -> bool:
    """Whether both windows are shorter by the same length.

    >>> is_even((10, 5), (8, 3)), is_even((10, 5), (8, 5))
    (True, False)
    """
    return longer[0] - shorter[0] == longer[1] - shorter[1]


def longest(every: list[Lengths]) -> Lengths:
    return max(first for first, _ in every), max(second for _, second in every)
