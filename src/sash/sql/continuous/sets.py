"""UNION, EXCEPT and INTERSECT of continuous queries.

    UNION ALL          all rows of both             UNION          each row once
    EXCEPT ALL         v1 - v2 times                EXCEPT         each row once, while the second has none like it
    INTERSECT ALL      the lesser of v1 and v2      INTERSECT      each row once, while the second has one like it
    EXCEPT ALL ON (k)  v1 - v2 rows per key k: the thesis' negation (2.2.2), of whole rows
    APPROX INTERSECT   ranges of values, of which each value of INTERSECT is in one: only with SLIDE

Columns are matched by position, brought to their common type and named as in the first query. NULL is like NULL.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError, Span, nearest
from sash.plan.continuous import Distinct, Intersection, Map, Negation, Node, Union
from sash.plan.expressions import Call, Expression, Field
from sash.plan.set_windows import GroupedIntersection
from sash.sql.continuous.approx import bind_approx
from sash.sql.continuous.from_clause import QueryScope
from sash.sql.continuous.internal import refuse_internal
from sash.sql.continuous.shape import check_unordered, unwrapped
from sash.sql.expressions.coercion import common_type
from sash.sql.reading.places import extent, keys_of, span_of, word_of_operation
from sash.sql.reading.statements import Select
from sash.sql.types import spark_name

_WORDS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
_UNDERSTOOD = ("this", "expression", "distinct", "order", "limit")


def bind_set(select: Select, query: QueryScope) -> Node:
    tree = select.tree
    word, distinct = _WORDS[type(tree)], bool(tree.args.get("distinct"))
    _check_clauses(select, word)
    left, right = _sides(tree, query)
    groups = bind_approx(tree, left, query)
    if word == "UNION":
        both = Union((*(left.inputs if isinstance(left, Union) else (left,)), right))
        return distinct_rows(both, query, at(tree)) if distinct else both
    title = f"{word}{'' if distinct else ' ALL'}"
    keys = _keys(tree, left, right, query.script)
    _check_comparable(left, keys, title, query.script, at(tree))
    for side in (left, right):
        refuse_internal(side, query, title, "results that stay would no longer be what it promises")
        query.check_bounded(side, title)
    first = distinct_rows(left, query, at(tree)) if distinct else left
    if groups is not None:
        return GroupedIntersection(first, right, keys, whole=True, null_safe=True, groups=groups)
    kind = Negation if word == "EXCEPT" else Intersection
    return kind(first, right, keys, whole=distinct, null_safe=True)


def distinct_rows(node: Node, query: QueryScope, at: Span) -> Distinct:
    nested = next((column for column in node.schema if pt.is_nested(column.type)), None)
    if nested is not None:
        what = f"DISTINCT of {spark_name(nested.type)} (column '{nested.name}')"
        raise NotSupportedError(what, query.script, at)
    refuse_internal(node, query, "DISTINCT", "results that stay would become duplicates")
    return Distinct(query.check_bounded(node, "DISTINCT"))


def at(operation: exp.Expr) -> Span:
    return word_of_operation(operation)


def _check_clauses(select: Select, word: str) -> None:
    tree = select.tree
    check_unordered(select)
    for key, value in tree.args.items():
        if value and key not in _UNDERSTOOD:
            what = f"{word} {'BY NAME' if key == 'by_name' else key.strip('_').upper()}"
            raise NotSupportedError(what, select.script, at(tree))
    keys = keys_of(tree)
    if keys and (word != "EXCEPT" or tree.args.get("distinct")):
        raise CqlError(f"ON (..) belongs to EXCEPT ALL, not to {word}", select.script, span_of(keys[0]))


def _sides(tree: exp.Expr, query: QueryScope) -> tuple[Node, Node]:
    """Both queries, with columns of the same types."""
    left, right = (query.sub_query(unwrapped(side)) for side in (tree.this, tree.expression))
    head = Span(extent(unwrapped(tree.expression)).start, extent(unwrapped(tree.expression)).start + len("SELECT"))
    if len(left.schema) != len(right.schema):
        reason = f"the first SELECT has {len(left.schema)} column(s), this one {len(right.schema)}"
        raise CqlError(f"{reason}: both must have as many", query.script, head)
    types = [_common(one, other, query.script, head) for one, other in zip(left.schema, right.schema, strict=True)]
    return _cast(left, types), _cast(right, types)


def _common(left: pa.Field, right: pa.Field, script: str, at: Span) -> pa.DataType:
    type = common_type(left.type, right.type)
    if type is None:
        types = f"'{left.name}' is {spark_name(left.type)} and '{right.name}' is {spark_name(right.type)}"
        raise CqlError(f"{types}: CAST one of them", script, at)
    return type


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
