"""Rewrites of continuous plans: each is a function from a node to an equal one, or None where it does not apply.

    push_down_selections   weakest operators down: fewer tuples reach the state
    pull_up_negation       STRICT operators up: fewer operators see negative tuples (thesis 3.5.3)
    push_down_negation     the other way: a selective negation makes a join smaller
    push_down_distinct     duplicates are gone before they are joined
    join_right_first ..    other orders of joins and unions, see below
    fuse_joins             joins of joins become one, which stores no intermediate results

Pushing selections down and fusing joins are always applied, the others if the cost model says so (`optimise`), and so
is fusing joins over a selection between them. A condition that may raise does not move: below a join it would see
tuples without a partner.

Rewrites of orders lead between plans that join or merge in different orders:

    join_right_first   (A x B) x C  becomes  A x (B x C)
    join_left_first    A x (B x C)  becomes  (A x B) x C
    exchange_joins     (A x B) x C  becomes  (A x C) x B
    flatten_union      Union(Union(A, B), C)  becomes  Union(A, B, C)

A join moves if its keys still have columns to be compared with: on one common attribute always, because equality is
transitive. NULL equals nothing on either side. An exchange changes the order of columns; a projection restores the
order, and is dropped below another projection.

`fuse_joins` makes one join of n inputs out of joins of joins:

    Join(Join(A, B, a = b), C, b = c)     becomes   MultiJoin((A, B, C), a = b = c)
    Join(Join(A, B, a = b), C, b' = c)    becomes   MultiJoin((A, B, C), a = b AND b' = c)

Equality is transitive, so columns fall into classes. A join without a key does not change, nor does a join of two
inputs. Between two joins there may be a projection that only reorders columns, and, with `over_conditions`, a
selection, which then moves above: it sees more rows, but its results are not stored.

If tuples are spread over buckets by a class, the other inputs are copied to every bucket. Keys are ordered by the size
of these copies, the least first: `stages` prefers them in this order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sash.plan.continuous import (
    UPA,
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    Union,
    edges,
    inputs,
    strategy_below,
    with_inputs,
)
from sash.plan.costs import cost
from sash.plan.estimates import Statistics, flow_above
from sash.plan.expressions import Call, Expression, Field, columns_in
from sash.plan.multi_join import MultiJoin

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
    """Flatten nested unions: columns are matched by their places, so it does not matter which input names them."""
    if not isinstance(node, Union) or not any(isinstance(each, Union) for each in node.inputs):
        return None
    parts = (each.inputs if isinstance(each, Union) else (each,) for each in node.inputs)
    return Union(tuple(part for some in parts for part in some))


def drop_permutation(node: Node) -> Node | None:
    """Map(Map(A)) becomes Map(A) if the lower one only reorders columns."""
    if isinstance(node, Map) and isinstance(node.input, Map) and (below := bare(node.input)) is not node.input:
        return Map(below, node.outputs)
    return None


def _moved(keys: Keys, side: Node, equal: dict[str, str]) -> Keys | None:
    """The keys with equal columns of a side in their place; None if a key has no equal there."""
    names = set(side.schema.names)
    found = [(one if one in names else equal.get(one), other) for one, other in keys]
    moved = tuple((one, other) for one, other in found if one is not None)
    return moved if moved and len(moved) == len(keys) else None


def _turned(keys: Iterable[tuple[str, str]]) -> Keys:
    return tuple((other, one) for one, other in keys)


def bare(node: Node) -> Node:
    """The node below a projection that only reorders columns."""
    if not isinstance(node, Map) or sorted(node.schema.names) != sorted(node.input.schema.names):
        return node
    return node.input if all(isinstance(made, Field) and made.name == name for name, made in node.outputs) else node


def _in_order(join: Join, before: Node) -> Node:
    if join.schema.names == before.schema.names:
        return join
    return Map(join, tuple((field.name, Field(field.name, field.type)) for field in before.schema))


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
class _JoinParts:
    """The inputs, the equal columns, those of the upper joins first, and the other conditions."""

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


def _gathered(join: Join, over_conditions: bool) -> _JoinParts:
    left, right = (_side(node, over_conditions) for node in (join.left, join.right))
    equal, conditions = (*join.keys, *left.equal, *right.equal), (*left.conditions, *right.conditions)
    return _JoinParts((*left.inputs, *right.inputs), equal, conditions)


def _side(node: Node, over_conditions: bool) -> _JoinParts:
    """An input of a join: the gathered parts if it is a join, or itself."""
    below, conditions = bare(node), list[Expression]()
    while over_conditions and isinstance(below, Filter):
        conditions.append(below.condition)
        below = bare(below.input)
    if not isinstance(below, Join) or not below.keys:
        return _JoinParts((node,))
    found = _gathered(below, over_conditions)
    return replace(found, conditions=(*found.conditions, *reversed(conditions)))


def _classes(equal: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Classes of columns that are equal to each other, directly or through others.

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
    """A class as a key. If an input has several columns of the class, each further column is one more key, with the
    column of some other input."""
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


Rule = Callable[[Node], Node | None]
# Joins of five windows on one attribute have more than a thousand orders.
MOST_ALTERNATIVES = 200
# Pricing a join of n windows takes n * n steps and more, and everything goes through all columns: of six windows with
# some dozens of columns all alternatives are considered, of more so few that a second is enough.
_MOST_SQUARES = 36 * MOST_ALTERNATIVES
_MOST_PARTS = 500 * MOST_ALTERNATIVES
# A recursion over a chain of ANDs takes a level of Python's stack for each.
_LONGEST_CHAIN = 50
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq", "is_null", "is_not_null", "in")
_SAFE = frozenset((*_COMPARISONS, "and", "or", "not"))


def optimise(plan: Node, statistics: Statistics | None = None, strategy: str = UPA) -> Node:
    """The cheapest of the rewritten plans; of equal ones, the first."""
    return cheapest(rewritten(plan), statistics or Statistics(), strategy)


def rewritten(plan: Node) -> list[Node]:
    """The plans that the rewrites lead to, for any statistics; joins are fused later."""
    pushed = everywhere(push_down_selections, plan)
    return alternatives(pushed, most=_affordable(pushed))


def cheapest(plans: Sequence[Node], known: Statistics, strategy: str) -> Node:
    """The cheapest plan, with joins fused wherever that is right or pays; of equal ones the first."""
    fused = dict.fromkeys(
        fuse_joins(candidate, known, strategy, over_conditions=over) for candidate in plans for over in (True, False)
    )
    return min(fused, key=lambda candidate: cost(candidate, known, strategy)) if len(fused) > 1 else next(iter(fused))


def _affordable(plan: Node) -> int:
    """How many alternatives of a plan are considered, the plan itself included."""
    nodes = [node for _, node in edges(plan)]
    windows = max(1, sum(isinstance(node, BaseWindow) for node in nodes))
    # A key has a place for every input of a fused join.
    keys = windows * sum(len(node.keys) for node in nodes if isinstance(node, Join))
    parts = keys + sum(len(node.schema) + sum(map(_parts, _expressions(node))) for node in nodes)
    return max(1, min(MOST_ALTERNATIVES, _MOST_SQUARES // windows**2, _MOST_PARTS // parts))


def _expressions(node: Node) -> list[Expression]:
    if isinstance(node, Filter):
        return [node.condition]
    return [made for _, made in node.outputs] if isinstance(node, Map) else []


def _parts(expression: Expression) -> int:
    return 1 + sum(map(_parts, getattr(expression, "arguments", ())))


def alternatives(plan: Node, rules: Sequence[Rule] | None = None, most: int = MOST_ALTERNATIVES) -> list[Node]:
    """A plan and the plans that the rules lead to, anywhere in it; of very many, those with the fewest steps."""
    found = {plan: None}
    waiting = deque([plan])
    while waiting and len(found) < most:
        for moved in _moves(waiting.popleft(), RULES if rules is None else rules):
            tidied = everywhere(drop_permutation, moved)
            if tidied not in found:
                found[tidied] = None
                waiting.append(tidied)
            if len(found) == most:
                break
    return list(found)[:most]


def _moves(plan: Node, rules: Sequence[Rule]) -> Iterator[Node]:
    for rule in rules:
        moved = rule(plan)
        if moved is not None:
            yield moved
    below = inputs(plan)
    for place, node in enumerate(below):
        for moved in _moves(node, rules):
            yield with_inputs(plan, (*below[:place], moved, *below[place + 1 :]))


def everywhere(rule: Rule, plan: Node) -> Node:
    """Apply a rule from the answer down, and again to each new node."""
    while (changed := rule(plan)) is not None:
        plan = changed
    return with_inputs(plan, tuple(everywhere(rule, node) for node in inputs(plan)))


# -- selections -----------------------------------------------------------------------------------------


def push_down_selections(node: Node) -> Node | None:
    """Filter(Join(A, B)) with a condition on A alone becomes Join(Filter(A), B); likewise through other operators."""
    if not isinstance(node, Filter):
        return None
    below = node.input
    if isinstance(below, Join):
        return _into_join(node, below)
    if not _is_safe(node.condition):
        return None
    if isinstance(below, Map):
        renamed = _renamed(node.condition, dict(below.outputs))
        return None if renamed is None else Map(Filter(below.input, renamed), below.outputs)
    if isinstance(below, Distinct):
        return Distinct(Filter(below.input, node.condition))
    if isinstance(below, Union):
        return _into_union(node.condition, below)
    if isinstance(below, Negation | Intersection):
        allowed = set(below.left.schema.names) if below.whole else {one for one, _ in below.keys}
        if columns_in(node.condition) <= allowed:
            return replace(below, left=Filter(below.left, node.condition))
    if isinstance(below, GroupBy) and columns_in(node.condition) <= set(below.keys):
        return replace(below, input=Filter(below.input, node.condition))
    return None


def _into_join(node: Filter, join: Join) -> Node | None:
    sides: tuple[list[Expression], list[Expression], list[Expression]] = ([], [], [])
    names = (set(join.left.schema.names), set(join.right.schema.names))
    for condition in conjuncts(node.condition):
        read = columns_in(condition)
        place = next((i for i in (0, 1) if _is_safe(condition) and read <= names[i]), 2)
        sides[place].append(condition)
    if not sides[0] and not sides[1]:
        return None
    left, right = (_filtered(side, part) for side, part in zip((join.left, join.right), sides[:2], strict=True))
    return _filtered(replace(join, left=left, right=right), sides[2])


def _into_union(condition: Expression, union: Union) -> Node:
    parts = []
    for part in union.inputs:
        fields = zip(union.schema.names, part.schema, strict=True)
        renamed = _renamed(condition, {name: Field(field.name, field.type) for name, field in fields})
        assert renamed is not None
        parts.append(Filter(part, renamed))
    return Union(tuple(parts))


def _filtered(node: Node, conditions: list[Expression]) -> Node:
    if not conditions:
        return node
    together = conditions[0]
    if len(conditions) > _LONGEST_CHAIN:
        return Filter(node, Call("and", tuple(conditions), pa.bool_()))
    for condition in conditions[1:]:
        together = Call("and", (together, condition), pa.bool_())
    return Filter(node, together)


def conjuncts(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def _is_safe(expression: Expression) -> bool:
    """Whether it only compares columns and constants, which cannot raise."""
    if not isinstance(expression, Call):
        return True
    return expression.function in _SAFE and all(map(_is_safe, expression.arguments))


def _renamed(expression: Expression, made: Mapping[str, Expression]) -> Expression | None:
    """The expression in terms of columns below; None if one of them is computed."""
    if isinstance(expression, Field):
        found = made[expression.name]
        return found if isinstance(found, Field) else None
    if isinstance(expression, Call):
        parts = [_renamed(argument, made) for argument in expression.arguments]
        known = [part for part in parts if part is not None]
        return replace(expression, arguments=tuple(known)) if len(known) == len(parts) else None
    return expression


# -- negations ------------------------------------------------------------------------------------------


def pull_up_negation(node: Node) -> Node | None:
    """Join(Negation(A, C), B) becomes Negation(Join(A, B), C): the join sees no negative tuples."""
    if not isinstance(node, Join) or not isinstance(node.left, Negation) or not node.left.whole:
        return None
    negation = node.left
    return replace(negation, left=replace(node, left=negation.left))


def push_down_negation(node: Node) -> Node | None:
    """Negation(Join(A, B), C) on columns of A becomes Join(Negation(A, C), B)."""
    if not isinstance(node, Negation) or not isinstance(node.left, Join) or not node.whole:
        return None
    join = node.left
    if not {one for one, _ in node.keys} <= set(join.left.schema.names):
        return None
    return replace(join, left=replace(node, left=join.left))


# -- duplicate elimination ------------------------------------------------------------------------------


def push_down_distinct(node: Node) -> Node | None:
    """Distinct(Join(A, B)) becomes Join(Distinct(A), Distinct(B)): pairs of different tuples are different.

    Only where all columns of the join are kept: without some of them different pairs may look alike.
    """
    if not isinstance(node, Distinct):
        return None
    join = node.input.input if isinstance(node.input, Map) else node.input
    if not isinstance(join, Join) or (isinstance(join.left, Distinct) and isinstance(join.right, Distinct)):
        return None
    if isinstance(node.input, Map):
        kept = [made.name for _, made in node.input.outputs if isinstance(made, Field)]
        if sorted(set(kept)) != sorted(join.schema.names) or len(kept) != len(node.input.outputs):
            return None
    made = replace(join, left=_once(join.left), right=_once(join.right))
    return replace(node.input, input=made) if isinstance(node.input, Map) else made


def _once(node: Node) -> Node:
    return node if isinstance(node, Distinct) else Distinct(node)


# Rules that may pay or not: the cost model decides. An operator decides the order of many joins.
RULES: tuple[Rule, ...] = (
    pull_up_negation,
    push_down_negation,
    push_down_distinct,
    join_right_first,
    join_left_first,
    exchange_joins,
    flatten_union,
)
