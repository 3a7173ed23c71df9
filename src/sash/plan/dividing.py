"""Which join of a stage may have its results divided among several tasks (operators/share)."""

from __future__ import annotations

from sash.plan.continuous import BaseWindow, Filter, Join, Map, Node, NrrJoin, RelationJoin, Union, inputs, path_below
from sash.plan.multi_join import MultiJoin
from sash.plan.stages import StagePlan


def divided_join(plan: Node, stage: StagePlan) -> str | None:
    """The path of the join, if a stage has one that may be divided.

    What is above it must take rows singly and keep nothing: each task passes its own results through. What is below it
    every task does for itself, so there must be little: windows, filters, projections.
    """
    node, path = _node_at(plan, stage.path), stage.path
    while isinstance(node, Filter | Map | NrrJoin) and path not in stage.lower:
        node, path = node.input, path_below(path, 0)
    if path in stage.lower or not isinstance(node, Join | RelationJoin | MultiJoin):
        return None
    below = [(input, path_below(path, place)) for place, input in enumerate(inputs(node))]
    return path if all(_is_light(*each, stage) for each in below) else None


def _is_light(node: Node, path: str, stage: StagePlan) -> bool:
    if path in stage.lower or isinstance(node, BaseWindow):
        return True
    below = [(input, path_below(path, place)) for place, input in enumerate(inputs(node))]
    return isinstance(node, Filter | Map | NrrJoin | Union) and all(_is_light(*each, stage) for each in below)


def _node_at(node: Node, path: str, here: str = "") -> Node:
    """The node at a path that surely exists."""
    if here == path:
        return node
    ways = [(input, path_below(here, place)) for place, input in enumerate(inputs(node))]
    input, below = next((input, way) for input, way in ways if path.startswith(way))
    return _node_at(input, path, below)
