"""Orders of joins and unions: rewrites between plans that differ in what is put together first.

    join_right_first   (A x B) x C  becomes  A x (B x C)
    join_left_first    A x (B x C)  becomes  (A x B) x C
    exchange_joins     (A x B) x C  becomes  (A x C) x B
    flatten_union      Union(Union(A, B), C)  becomes  Union(A, B, C)

A join moves where its keys still have something to be compared with: on one common attribute always, since what equals
an equal is equal. NULL equals nothing on either side. Exchanging changes the order of columns; a projection puts them
back, and is dropped where another one stands above it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.plan.continuous import Join, Map, Node, Union
from sash.plan.expressions import Field

Keys = tuple[tuple[str, str], ...]


def join_right_first(node: Node) -> Node | None:
    if not isinstance(node, Join) or not isinstance(inner := bare(node.left), Join):
        return None
    keys = _moved(node.keys, inner.right, dict(inner.keys))
    if keys is None:
        return None
    return _in_order(Join(inner.left, Join(inner.right, node.right, keys), inner.keys), node)


def join_left_first(node: Node) -> Node | None:
    if not isinstance(node, Join) or not isinstance(inner := bare(node.right), Join):
        return None
    keys = _moved(_turned(node.keys), inner.left, {other: one for one, other in inner.keys})
    if keys is None:
        return None
    return _in_order(Join(Join(node.left, inner.left, _turned(keys)), inner.right, inner.keys), node)


def exchange_joins(node: Node) -> Node | None:
    if not isinstance(node, Join) or not isinstance(inner := bare(node.left), Join):
        return None
    keys = _moved(node.keys, inner.left, {other: one for one, other in inner.keys})
    if keys is None:
        return None
    return _in_order(Join(Join(inner.left, node.right, keys), inner.right, inner.keys), node)


def flatten_union(node: Node) -> Node | None:
    """Columns of unions are matched by their places, so it does not matter which input names them."""
    if not isinstance(node, Union) or not any(isinstance(each, Union) for each in node.inputs):
        return None
    parts = (each.inputs if isinstance(each, Union) else (each,) for each in node.inputs)
    return Union(tuple(part for some in parts for part in some))


def drop_permutation(node: Node) -> Node | None:
    """Map(Map(A)) becomes Map(A) where the lower one only puts columns in order."""
    if isinstance(node, Map) and isinstance(node.input, Map) and (below := bare(node.input)) is not node.input:
        return Map(below, node.outputs)
    return None


def _moved(keys: Keys, side: Node, equal: dict[str, str]) -> Keys | None:
    """The keys with columns of a side in place of those that equal them; None where one has no equal there."""
    names = set(side.schema.names)
    found = [(one if one in names else equal.get(one), other) for one, other in keys]
    moved = tuple((one, other) for one, other in found if one is not None)
    return moved if moved and len(moved) == len(keys) else None


def _turned(keys: Iterable[tuple[str, str]]) -> Keys:
    return tuple((other, one) for one, other in keys)


def bare(node: Node) -> Node:
    """The node below a projection that only changes the order of its columns."""
    if not isinstance(node, Map) or sorted(node.schema.names) != sorted(node.input.schema.names):
        return node
    return node.input if all(isinstance(made, Field) and made.name == name for name, made in node.outputs) else node


def _in_order(join: Join, before: Node) -> Node:
    if join.schema.names == before.schema.names:
        return join
    return Map(join, tuple((field.name, Field(field.name, field.type)) for field in before.schema))
