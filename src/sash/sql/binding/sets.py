"""UNION, EXCEPT and INTERSECT of continuous queries.

    UNION ALL          all rows of both             UNION          each row once
    EXCEPT ALL         v1 - v2 times                EXCEPT         each row once, while the second has none like it
    INTERSECT ALL      the lesser of v1 and v2      INTERSECT      each row once, while the second has one like it
    EXCEPT ALL ON (k)  v1 - v2 rows per key k: the thesis' negation (2.2.2), of whole rows
    APPROX INTERSECT   ranges of values, of which each value of INTERSECT is in one: only with SLIDE

    SELECT src FROM a [WINDOW 9 min SLIDE 1 min] APPROX INTERSECT GROUPS 50 SELECT src FROM b [WINDOW 5 min SLIDE 1 min]

A G-INDEX answers approximate operations, and nothing else does: over one column of a type with groups, of two
time-based windows, at the multiples of SLIDE. Everything else is refused.

Columns are matched by position, brought to their common type and named as in the first query. NULL is like NULL.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.plan.continuous import Distinct, Intersection, Map, Negation, Node, Union, edges
from sash.plan.expressions import Call, Expression, Field
from sash.plan.set_windows import GroupedIntersection, windowed_set
from sash.sql.binding.bound import BoundSet
from sash.sql.binding.shape import SETS
from sash.sql.binding.sources import ChangeScope
from sash.sql.reading.places import approx_at, groups_of, keys_of, span_of, word_of_operation
from sash.sql.reading.statements import Select
from sash.sql.types import spark_name

DEFAULT_GROUPS = 100
MOST_GROUPS = 100_000
# Longer decimals are more than whole numbers of 64 bits.
_MOST_DIGITS = 18
_UNDERSTOOD = ("this", "expression", "distinct", "order", "limit")


def plan_set(bound: BoundSet, sides: tuple[Node, Node], query: ChangeScope) -> Node:
    """The plan of a set operation from the plans of its two queries."""
    tree = bound.tree
    word, distinct = SETS[type(tree)], bool(tree.args.get("distinct"))
    left, right = (_cast(side, list(bound.types)) for side in sides)
    groups = _approximate(tree, left, query)
    if word == "UNION":
        both = Union((*(left.inputs if isinstance(left, Union) else (left,)), right))
        return distinct_rows(both, query, word_of_operation(tree)) if distinct else both
    title = f"{word}{'' if distinct else ' ALL'}"
    keys = _keys(tree, left, right, query.script)
    _check_comparable(left, keys, title, query.script, word_of_operation(tree))
    for side in (left, right):
        query.refuse_internal(side, title, "results that stay would no longer be what it promises")
        query.check_bounded(side, title)
    first = distinct_rows(left, query, word_of_operation(tree)) if distinct else left
    if groups is not None:
        return GroupedIntersection(first, right, keys, whole=True, null_safe=True, groups=groups)
    kind = Negation if word == "EXCEPT" else Intersection
    return kind(first, right, keys, whole=distinct, null_safe=True)


def distinct_rows(node: Node, query: ChangeScope, at: Span, *, finite: bool = False) -> Distinct:
    """Each row once; `finite`: there are finitely many different ones."""
    nested = next((column for column in node.schema if pt.is_nested(column.type)), None)
    if nested is not None:
        what = f"DISTINCT of {spark_name(nested.type)} (column '{nested.name}')"
        raise NotSupportedError(what, query.script, at)
    query.refuse_internal(node, "DISTINCT", "results that stay would become duplicates")
    return Distinct(node if finite else query.check_bounded(node, "DISTINCT"))


def check_set(bound: BoundSet) -> None:
    """Refuse the clauses that a set operation does not have."""
    select, tree, word = bound.select, bound.tree, SETS[type(bound.tree)]
    for key, value in tree.args.items():
        if value and key not in _UNDERSTOOD:
            what = f"{word} {'BY NAME' if key == 'by_name' else key.strip('_').upper()}"
            raise NotSupportedError(what, select.script, word_of_operation(tree))
    keys = keys_of(tree)
    if keys and (word != "EXCEPT" or tree.args.get("distinct")):
        raise CqlError(f"ON (..) belongs to EXCEPT ALL, not to {word}", select.script, span_of(keys[0]))


def _cast(node: Node, types: list[pa.DataType]) -> Node:
    if [column.type for column in node.schema] == types:
        return node
    outputs = ((column.name, _in_type(column, type)) for column, type in zip(node.schema, types, strict=True))
    return Map(node, tuple(outputs))


def _in_type(column: pa.Field, type: pa.DataType) -> Expression:
    plain = Field(column.name, column.type)
    return plain if column.type == type else Call("cast", (plain,), type)


def _keys(tree: exp.Expr, left: Node, right: Node, script: str) -> tuple[tuple[str, str], ...]:
    """All columns pairwise, or those of ON, which both queries have."""
    names = keys_of(tree)
    if not names:
        return tuple(zip(left.schema.names, right.schema.names, strict=True))
    pairs = ((_column(left, name, script), _column(right, name, script)) for name in names)
    return tuple(dict.fromkeys(pairs))


def _column(node: Node, name: exp.Expr, script: str) -> str:
    found = next((column for column in node.schema.names if column.lower() == name.name.lower()), None)
    if found is None:
        hint = nearest(name.name, node.schema.names)
        raise CqlError(f"ON names columns that both queries have, not '{name.name}'{hint}", script, span_of(name))
    return found


def _check_comparable(node: Node, keys: tuple[tuple[str, str], ...], title: str, script: str, at: Span) -> None:
    nested = next((name for name, _ in keys if pt.is_nested(node.schema.field(name).type)), None)
    if nested is not None:
        type = spark_name(node.schema.field(nested).type)
        raise NotSupportedError(f"{title} of {type} (column '{nested}')", script, at)


def _approximate(tree: exp.Expr, left: Node, query: ChangeScope) -> int | None:
    """How many groups a set operation may have if it is approximate; None if it is exact."""
    at, groups = approx_at(tree), groups_of(tree)
    if at is None:
        if groups is not None:
            raise CqlError("GROUPS belongs to APPROX INTERSECT", query.script, span_of(groups))
        return None
    if not isinstance(tree, exp.Intersect) or not tree.args.get("distinct"):
        reason = "APPROX goes with INTERSECT alone, of sets: only there all values that count are in the ranges"
        raise CqlError(reason, query.script, at)
    if query.slide is None:
        reason = "APPROX INTERSECT is answered at the multiples of SLIDE: add it to both windows"
        raise CqlError(f"{reason}, [WINDOW 10 min SLIDE 1 min]", query.script, at)
    _check_column(left, query.script, at)
    return DEFAULT_GROUPS if groups is None else _number(groups, query.script)


def _number(groups: exp.Expr, script: str) -> int:
    if isinstance(groups, exp.Literal) and groups.is_int and 2 <= int(groups.name) <= MOST_GROUPS:
        return int(groups.name)
    raise CqlError(f"GROUPS takes a whole number from 2 to {MOST_GROUPS:,}", script, span_of(groups))


def _check_column(node: Node, script: str, at: Span) -> None:
    if len(node.schema) != 1:
        raise CqlError(f"APPROX INTERSECT is of one column, not of {len(node.schema)}", script, at)
    (column,) = node.schema
    if not has_groups(column.type):
        needed = "whole numbers, dates, timestamps or decimals of up to 18 digits"
        reason = f"of {spark_name(column.type)} (column '{column.name}') there are no ranges with a next value each"
        raise CqlError(f"APPROX INTERSECT needs {needed}: {reason}", script, at)


def has_groups(type: pa.DataType) -> bool:
    """The types of which a G-INDEX has groups (rows/value_groups.py)."""
    if pt.is_decimal(type):
        return type.precision <= _MOST_DIGITS
    return pt.is_integer(type) or pt.is_boolean(type) or pt.is_date(type) or pt.is_timestamp(type)


def check_approx(plan: Node, select: Select) -> None:
    """Refuse APPROX if no index answers the plan: no operator does."""
    grouped = any(isinstance(node, GroupedIntersection) for _, node in edges(plan))
    if not grouped or windowed_set(plan) is not None:
        return
    at = next(at for node in select.tree.walk() if (at := approx_at(node)) is not None)
    what = "APPROX INTERSECT inside of another query, or of anything but one column of each of two time-based windows"
    raise NotSupportedError(what, select.script, at)
