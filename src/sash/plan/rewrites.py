"""Rewrites of continuous plans: each is a function from a node to an equal one, or None where it does not apply.

    push_down_selections   weakest operators down: fewer tuples reach what is stored
    pull_up_negation       STRICT operators up: fewer operators see negative tuples (thesis 3.5.3)
    push_down_negation     the other way: a selective negation makes a join smaller
    push_down_distinct     duplicates are gone before they are joined
    orders of joins and unions: see reorder.py
    fuse_joins             joins of joins become one, which stores no intermediate results

Pushing selections down and fusing joins are always taken, the others where the cost model says so (`optimise`), and
so is fusing joins over a selection between them. A condition that may raise stays where it is: below a join it would
see tuples that have no partner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from sash.plan.continuous import (
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
    with_inputs,
)
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.expressions import Call, Expression, Field
from sash.plan.fuse_joins import fuse_joins
from sash.plan.reorder import drop_permutation, exchange_joins, flatten_union, join_left_first, join_right_first
from sash.plan.strategies import UPA

Rule = Callable[[Node], Node | None]
# Joins of five windows on one attribute have more than a thousand orders.
MOST_ALTERNATIVES = 200
# The price of a join of n windows takes n * n steps and more to find, and everything goes through all columns: of six
# windows with some dozens of columns all alternatives are considered, of more so few that a second is enough.
_MOST_SQUARES = 36 * MOST_ALTERNATIVES
_MOST_PARTS = 500 * MOST_ALTERNATIVES
# Whatever goes through a chain of ANDs takes a level of Python's stack for each.
_LONGEST_CHAIN = 50
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq", "is_null", "is_not_null", "in")
_SAFE = frozenset((*_COMPARISONS, "and", "or", "not"))


def optimise(plan: Node, statistics: Statistics | None = None, strategy: str = UPA) -> Node:
    """The cheapest of the plans that the rewrites lead to; of equal ones, the first that was written."""
    return cheapest(rewritten(plan), statistics or Statistics(), strategy)


def rewritten(plan: Node) -> list[Node]:
    """The plans that the rewrites lead to, whatever is known of the streams; joins are yet to be fused."""
    pushed = everywhere(push_down_selections, plan)
    return alternatives(pushed, most=_affordable(pushed))


def cheapest(plans: Sequence[Node], known: Statistics, strategy: str) -> Node:
    """With joins fused, wherever that is right or pays; of equal ones the first."""
    fused = dict.fromkeys(
        fuse_joins(candidate, known, strategy, over_conditions=over) for candidate in plans for over in (True, False)
    )
    return min(fused, key=lambda candidate: cost(candidate, known, strategy)) if len(fused) > 1 else next(iter(fused))


def _affordable(plan: Node) -> int:
    """How many alternatives of a plan are considered, the plan itself included."""
    nodes = [node for _, node in edges(plan)]
    windows = max(1, sum(isinstance(node, BaseWindow) for node in nodes))
    # A key has a place for every input of a join that is fused.
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
    """A plan and what the rules lead to, wherever in it they apply; of very many, those with the fewest steps."""
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
    """Apply a rule from the answer down, again wherever it made something new."""
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


def columns_in(expression: Expression) -> set[str]:
    if isinstance(expression, Field):
        return {expression.name}
    return {name for part in getattr(expression, "arguments", ()) for name in columns_in(part)}


def _is_safe(expression: Expression) -> bool:
    """Whether it is comparisons of columns and constants, which cannot raise."""
    if not isinstance(expression, Call):
        return True
    return expression.function in _SAFE and all(map(_is_safe, expression.arguments))


def _renamed(expression: Expression, made: Mapping[str, Expression]) -> Expression | None:
    """The expression in terms of columns below; None where one of them is computed."""
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


# What may pay or not: the cost model decides. The order of many joins is an operator's business of its own.
RULES: tuple[Rule, ...] = (
    pull_up_negation,
    push_down_negation,
    push_down_distinct,
    join_right_first,
    join_left_first,
    exchange_joins,
    flatten_union,
)
