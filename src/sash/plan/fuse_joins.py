"""Joins of joins become one join of n inputs, which stores no intermediate results.

    Join(Join(A, B, a = b), C, b = c)     becomes   MultiJoin((A, B, C), a = b = c)
    Join(Join(A, B, a = b), C, b' = c)    becomes   MultiJoin((A, B, C), a = b AND b' = c)

What equals an equal is equal, so columns fall into classes. A join without a key stays as it is, and so does a join of
two inputs. Between two joins there may be a projection that only puts columns in order, and, where `over_conditions`
says so, a selection, which is then above: it sees more rows, but its results are not stored.

A class by which tuples are spread over buckets has the other inputs copied to every bucket. Keys are in the order of
how much that would be, the least first: `partitioning` prefers them in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sash.plan.continuous import Filter, Join, Map, Node, inputs, with_inputs
from sash.plan.estimates import Statistics, flow_above
from sash.plan.expressions import Expression, Field
from sash.plan.multi_join import MultiJoin
from sash.plan.reorder import bare
from sash.plan.strategies import UPA, strategy_below

_Key = tuple[str | None, ...]


def fuse_joins(
    plan: Node, statistics: Statistics | None = None, strategy: str = UPA, *, over_conditions: bool = False
) -> Node:
    """The plan with every join of three or more inputs as one node."""
    known = statistics or Statistics()
    found = _fused(plan, known, strategy, over_conditions)
    lower = strategy_below(found, strategy)
    fused = (fuse_joins(node, known, lower, over_conditions=over_conditions) for node in inputs(found))
    return with_inputs(found, tuple(fused))


@dataclass(frozen=True)
class _Gathered:
    """What is joined, which columns are equal, those of the upper joins first, and what else must hold."""

    inputs: tuple[Node, ...]
    equal: tuple[tuple[str, str], ...] = ()
    conditions: tuple[Expression, ...] = ()


def _fused(plan: Node, known: Statistics, strategy: str, over_conditions: bool) -> Node:
    join, names = bare(plan), plan.schema.names
    if not isinstance(join, Join) or not join.keys:
        return plan
    gathered = _gathered(join, over_conditions)
    if len(gathered.inputs) < 3:
        return plan
    sides = tuple(sorted(gathered.inputs, key=lambda node: names.index(node.schema.names[0])))
    copied = [flow_above(node, known, strategy).live for node in sides]
    owners = {name: place for place, side in enumerate(sides) for name in side.schema.names}
    keys = [key for columns in _classes(gathered.equal) for key in _keys(columns, owners, len(sides))]
    keys.sort(key=lambda key: sum(live for name, live in zip(key, copied, strict=True) if name is None))
    fused: Node = MultiJoin(sides, tuple(keys))
    for condition in gathered.conditions:
        fused = Filter(fused, condition)
    if fused.schema.names == names:
        return fused
    return Map(fused, tuple((field.name, Field(field.name, field.type)) for field in plan.schema))


def _gathered(join: Join, over_conditions: bool) -> _Gathered:
    left, right = (_side(node, over_conditions) for node in (join.left, join.right))
    equal, conditions = (*join.keys, *left.equal, *right.equal), (*left.conditions, *right.conditions)
    return _Gathered((*left.inputs, *right.inputs), equal, conditions)


def _side(node: Node, over_conditions: bool) -> _Gathered:
    """An input of a join: what is gathered of the join that it is, or itself."""
    below, conditions = bare(node), list[Expression]()
    while over_conditions and isinstance(below, Filter):
        conditions.append(below.condition)
        below = bare(below.input)
    if not isinstance(below, Join) or not below.keys:
        return _Gathered((node,))
    found = _gathered(below, over_conditions)
    return replace(found, conditions=(*found.conditions, *reversed(conditions)))


def _classes(equal: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Columns that are equal to each other, by way of others if need be.

    >>> _classes([("A.a", "B.a"), ("C.a", "D.a"), ("B.b", "C.b"), ("B.a", "C.a")])
    [['A.a', 'B.a', 'C.a', 'D.a'], ['B.b', 'C.b']]
    """
    # Classes by the number of the pair that began them; the earliest takes in the others that a pair ties to it.
    found: dict[int, list[str]] = {}
    of: dict[str, int] = {}
    for number, pair in enumerate(equal):
        tied = sorted({of[name] for name in pair if name in of}) or [number]
        merged = found.setdefault(tied[0], [])
        merged += [name for other in tied[1:] for name in found.pop(other)]
        merged += [name for name in dict.fromkeys(pair) if name not in of]
        of |= dict.fromkeys(merged if len(tied) > 1 else pair, tied[0])
    return list(found.values())


def _keys(columns: Sequence[str], owners: Mapping[str, int], sides: int) -> list[_Key]:
    """A class as a key. Where an input has several columns of it, each of the others is one more key, with the column
    of some other input."""
    own: list[list[str]] = [[] for _ in range(sides)]
    for name in columns:
        own[owners[name]].append(name)
    first = tuple(names[0] if names else None for names in own)
    found: list[_Key] = [first]
    for place, names in enumerate(own):
        other = next(i for i, name in enumerate(first) if name is not None and i != place)
        found += [
            tuple(extra if i == place else name if i == other else None for i, name in enumerate(first))
            for extra in names[1:]
        ]
    return found
