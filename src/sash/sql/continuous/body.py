"""FROM and WHERE of one SELECT, with its tests against sub-queries.

    [NOT] EXISTS (SELECT .. FROM t [..] WHERE t.v = s.v AND ..)        x [NOT] IN (SELECT y FROM t [..] WHERE ..)

A test is a semi or an anti join: a tuple counts while a match lives, or while none does. Its keys are the equalities
between columns of the sub-query and of the query around it, and for IN the one between x and y. NOT IN is SQL's: no
tuple passes while the sub-query has a NULL, and a NULL passes only while the sub-query has nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sash.plan.continuous import Filter, Intersection, Map, Negation, Node, Union
from sash.plan.expressions import Call, Expression, Field
from sash.sql.binding import select_list
from sash.sql.continuous.from_clause import QueryScope, bind_from, read_by
from sash.sql.continuous.internal import refuse_internal
from sash.sql.continuous.joins import BoundRows
from sash.sql.continuous.outputs import refuse_output
from sash.sql.continuous.shape import check_select
from sash.sql.continuous.sources import aliases_in, cast_to
from sash.sql.continuous.where import Test, own_scope, split_where
from sash.sql.expressions import aggregates
from sash.sql.expressions.operators import compare
from sash.sql.expressions.scope import Scope, WindowColumns
from sash.sql.expressions.terms import Term
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.places import extent, output_of, span_of
from sash.sql.reading.statements import Select

_TIED = "a sub-query is tied to the query around it by equalities, with one side of each: t.k = s.k"
_OFTEN = (
    ": NOT IN has what it tests twice and its sub-query three times, because of NULLs. "
    "Where there are none, write NOT EXISTS (SELECT .. WHERE y = x)"
)
Keys = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Match:
    """A test whose sub-query is bound: its keys are terms of the query around it and columns of the sub-query."""

    test: Test
    right: Node
    keys: tuple[tuple[Term, str], ...]
    value: tuple[Term, str] | None = None


class Body:
    """What FROM and WHERE leave of one SELECT, while it is bound. `ties` are a sub-query's equalities with the query
    around it: a term out there, and one in here."""

    def __init__(self, tree: exp.Select, query: QueryScope, outer: WindowColumns | None = None) -> None:
        found = bind_from(tree, query, outer)
        # `correlated` has the names of the query around it, too.
        self.correlated = scope = Scope(query.script, found.columns)
        conditions, tests = split_where(tree, scope)
        self.scope = own_scope(scope)
        self.rows = BoundRows(found, query)
        self.ties = list[tuple[Term, Term]]()
        for condition in conditions:
            if aliases_in(condition) <= set(found.sources):
                self.rows.require(condition)
            else:
                self.ties.append(_tie(condition, found.sources, scope))
        self._query = query
        self._matches = [_bind_test(test, self.scope, query) for test in tests]

    def node(self) -> Node:
        """To be called once, when all columns were asked of the rows."""
        values = [self._keys([match.value] if match.value is not None else []) for match in self._matches]
        keys = [self._keys(match.keys) for match in self._matches]
        node = self.rows.node()
        for asked in zip(self._matches, keys, values, strict=True):
            node = self._tested(node, *asked)
        return node

    def _keys(self, keys: Collection[tuple[Term, str]]) -> Keys:
        return tuple(dict.fromkeys((self.rows.column(term), column) for term, column in keys))

    def _tested(self, node: Node, match: Match, keys: Keys, value: Keys) -> Node:
        for side in (node, match.right):
            refuse_internal(side, self._query, match.test.title, "results that stay would no longer pass the test")
            self._query.check_bounded(side, match.test.title)
        if not match.test.negated:
            return Intersection(node, match.right, _together(value, keys), whole=True)
        if not value:
            return Negation(node, match.right, keys, whole=True)
        self._query.check_size(2 * read_by(node) + 3 * read_by(match.right), match.test.at, _OFTEN)
        return _not_in(node, match.right, keys, value)


def _not_in(node: Node, right: Node, keys: Keys, value: Keys) -> Node:
    """Rows whose x is known, while no y is like it and none is NULL; and those whose x is NULL, while there is no y."""
    ((x, y),) = value
    known, unknown = Filter(node, _is("is_not_null", node, x)), Filter(node, _is("is_null", node, x))
    unmatched = Negation(known, right, _together(value, keys), whole=True)
    certain = Negation(unmatched, Filter(right, _is("is_null", right, y)), keys, whole=True)
    return Union((certain, Negation(unknown, right, keys, whole=True)))


def _together(value: Keys, keys: Keys) -> Keys:
    return tuple(dict.fromkeys((*value, *keys)))


def _is(function: str, node: Node, column: str) -> Expression:
    return Call(function, (Field(column, node.schema.field(column).type),), pa.bool_())


def _tie(condition: Term, own: Collection[str], scope: Scope) -> tuple[Term, Term]:
    """An equality as (the term of the query around, the sub-query's own)."""
    if condition.op == "eq":
        one, other = (cast_to(arg, type) for arg, type in zip(condition.args, condition.coerced, strict=True))
        for outer, inner in ((one, other), (other, one)):
            inside, outside = aliases_in(inner), aliases_in(outer)
            if inside and outside and inside <= set(own) and not outside & set(own):
                return outer, inner
    if not aliases_in(condition) & set(own):
        raise scope.error("this speaks of the query around the sub-query alone: write it out there", condition.span)
    raise scope.error(_TIED, condition.span)


def _bind_test(test: Test, scope: Scope, query: QueryScope) -> Match:
    tree = test.query
    refuse_output(output_of(tree), query.script, f"the sub-query of {test.title}")
    if not isinstance(tree, exp.Select) or _is_grouped(tree):
        _refuse_ties(tree, scope)
        return _against_answer(test, query.sub_query(tree), scope)
    select = Select(tree, query.script, extent(tree))
    check_select(select)
    assert isinstance(scope.columns, WindowColumns)
    body = Body(tree, query, outer=scope.columns)
    value = _value(test, tree, body) if test.value is not None else None
    if value is None:
        _check_items(tree, body.correlated)
    keys = tuple((outer, body.rows.column(inner)) for outer, inner in body.ties)
    return Match(test, body.node(), keys, value)


def _is_grouped(tree: exp.Select) -> bool:
    """Whether its rows are groups, which cannot be tied to the query around."""
    calls = (node.name.lower() for item in tree.expressions for node in item.find_all(exp.Anonymous))
    return bool(tree.args.get("group") or tree.args.get("having")) or any(name in aggregates.NAMES for name in calls)


def _refuse_ties(tree: exp.Expr, scope: Scope) -> None:
    own = {table.alias_or_name.lower() for table in tree.find_all(exp.Table, exp.Subquery)}
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and scope.columns.has(qualifier.name) and qualifier.name.lower() not in own:
            reason = "a sub-query with groups or set operations cannot speak of the query around it"
            raise scope.error(f"{reason}: compare with its answer, x IN (SELECT k .. GROUP BY k)", span_of(column))


def _against_answer(test: Test, right: Node, scope: Scope) -> Match:
    """A test against a sub-query that is bound as a query of its own."""
    if test.value is None:
        return Match(test, right, ())
    _check_one(len(right.schema), test, scope)
    (column,) = right.schema
    other = Term("field", (), column.type, test.at, f"sub-query.{column.name}")
    x, y = _compared(test.value, other, scope)
    if y.type != column.type:
        made = Call("cast", (Field(column.name, column.type),), y.type)
        right = Map(right, ((column.name, made),))
    return Match(test, right, (), (x, column.name))


def _value(test: Test, tree: exp.Select, body: Body) -> tuple[Term, str]:
    """x of `x IN (SELECT y ..)` and the column that y is, both in their common type."""
    assert test.value is not None
    columns = select_list.entries(tree, body.scope)
    _check_one(len(columns), test, body.scope)
    x, y = _compared(test.value, columns[0].term, body.scope)
    return x, body.rows.column(y)


def _compared(x: Term, y: Term, scope: Scope) -> tuple[Term, Term]:
    equality = compare("eq", x, y, scope)
    one, other = (cast_to(term, type) for term, type in zip((x, y), equality.coerced, strict=True))
    return one, other


def _check_one(count: int, test: Test, scope: Scope) -> None:
    if count != 1:
        raise scope.error(f"{test.title} compares with a sub-query of one column, this one has {count}", test.at)


def _check_items(tree: exp.Select, scope: Scope) -> None:
    """What EXISTS selects does not matter, but its names must exist, here or in the query around."""
    for item in tree.expressions:
        if not item.is_star:
            type_expression(item.unalias(), scope)
