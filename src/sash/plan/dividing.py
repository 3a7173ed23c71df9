"""Which join of a stage may have its results divided among several tasks (operators/share)."""

from __future__ import annotations

from collections.abc import Collection

from sash.core.pattern import UpdatePattern
from sash.plan.continuous import BaseWindow, Filter, Join, Map, Node, NrrJoin, RelationJoin, Union, inputs, path_below
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Outliving, ResultWindow, Sampled, Stamped
from sash.plan.partitioning import takes_rows_singly
from sash.plan.stages import StagePlan

_Passing = Filter | Map | NrrJoin | Outliving | ResultWindow | Sampled


def divided_join(plan: Node, stage: StagePlan, numbering: Collection[str] = ()) -> str | None:
    """The path of the join, if a stage has one that may be divided.

    What is above it must take rows singly: each task passes its own results through. What is below it every task does
    for itself, so there must be little: windows, filters, projections. Nodes at the paths `numbering` number their
    rows one after the other, for which they need all of them.
    """
    node, path = _node_at(plan, stage.path), stage.path
    while isinstance(node, _Passing) and _takes_parts(node) and path not in stage.lower and path not in numbering:
        node, path = node.input, path_below(path, 0)
    if path in stage.lower or not isinstance(node, Join | RelationJoin | MultiJoin):
        return None
    below = [(input, path_below(path, place)) for place, input in enumerate(inputs(node))]
    return path if all(_is_light(*each, stage) for each in below) else None


def _takes_parts(node: _Passing) -> bool:
    """Whether several tasks may each have some of its rows.

    A row that waits for a multiple of SLIDE waits alone, whoever found it; but what takes it back, which another task
    may find, must meet it.
    """
    if isinstance(node, Sampled):
        return node.input.pattern is not UpdatePattern.STRICT
    return takes_rows_singly(node)


def _is_light(node: Node, path: str, stage: StagePlan) -> bool:
    if path in stage.lower or isinstance(node, BaseWindow):
        return True
    below = [(input, path_below(path, place)) for place, input in enumerate(inputs(node))]
    return isinstance(node, Filter | Map | NrrJoin | Stamped | Union) and all(_is_light(*each, stage) for each in below)


def _node_at(node: Node, path: str, here: str = "") -> Node:
    """The node at a path that surely exists."""
    if here == path:
        return node
    ways = [(input, path_below(here, place)) for place, input in enumerate(inputs(node))]
    input, below = next((input, way) for input, way in ways if path.startswith(way))
    return _node_at(input, path, below)
