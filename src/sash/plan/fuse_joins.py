"""Joins of joins on one common attribute become one join of n inputs, which stores no intermediate results.

    Join(Join(A, B, a = b), C, b = c)   becomes   MultiJoin((A, B, C), a = b = c)

An attribute may have several columns. A join whose keys are not those of the joins below it stays as it is, and so
does a join of two inputs. The others always gain: a tuple finds exactly those with its value, so that without stored
pairs no more combinations are gone through than there are results.
"""

from __future__ import annotations

from sash.plan.continuous import Join, Node, inputs, with_inputs
from sash.plan.multi_join import MultiJoin


def fuse_joins(plan: Node) -> Node:
    """The plan with every join of three or more inputs on one attribute as one node."""
    fused = _fused(plan) if isinstance(plan, Join) else None
    found: Node = plan if fused is None or len(fused.inputs) < 3 else fused
    return with_inputs(found, tuple(fuse_joins(node) for node in inputs(found)))


def _fused(join: Join) -> MultiJoin | None:
    """A join with those below it that have the same attribute; None where it has no key."""
    if not join.keys:
        return None
    sides = [_side(node, join, place) for place, node in enumerate((join.left, join.right))]
    columns = [_columns(side, [pair[place] for pair in join.keys]) for place, side in enumerate(sides)]
    pairs = dict.fromkeys(zip(*columns, strict=True))
    keys = tuple((*sides[0].keys[one], *sides[1].keys[other]) for one, other in pairs)
    return MultiJoin((*sides[0].inputs, *sides[1].inputs), keys)


def _side(node: Node, join: Join, place: int) -> MultiJoin:
    """One input of a join: the inputs of the join that it is, if that has the same attribute, else itself."""
    names = [pair[place] for pair in join.keys]
    below = _fused(node) if isinstance(node, Join) else None
    if below is not None:
        others = [pair[1 - place] for pair in join.keys]
        columns = _columns(below, names)
        # Each column of the attribute below is compared, and with one column of the other side.
        one_each = len(set(zip(columns, others, strict=True))) == len(set(columns)) == len(set(others))
        if -1 not in columns and len(set(columns)) == len(below.keys) and one_each:
            return below
    return MultiJoin((node,), tuple((name,) for name in dict.fromkeys(names)))


def _columns(side: MultiJoin, names: list[str]) -> list[int]:
    """Which column of the attribute each name belongs to; -1 for none."""
    return [next((i for i, column in enumerate(side.keys) if name in column), -1) for name in names]
