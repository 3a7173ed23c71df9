"""From a parsed SELECT whose windows do not slide to the logical plan of a continuous query.

    SELECT .. FROM s [RANGE 5 sec], t [ROWS 10] WHERE s.k = t.k GROUP BY .. HAVING ..
    SELECT .. UNION ALL SELECT .. EXCEPT ALL ON (k) SELECT ..

    Project (SELECT)  <-  Filter (HAVING)  <-  GroupBy  <-  semi and anti joins (EXISTS, IN)  <-  Filter (WHERE)
                      <-  Join  <-  windows, with what concerns one of them alone

The parts have files of their own: FROM (`continuous_from`, `continuous_sources`), WHERE (`continuous_where`), joins
(`continuous_joins`), the rows that these leave, with tests against sub-queries (`continuous_body`), GROUP BY
(`continuous_groups`), and set operations (`continuous_sets`). `continuous_shape` refuses what a SELECT may not have.
"""

from __future__ import annotations

from sqlglot import exp

from sash.catalog import Catalog
from sash.core.errors import CqlError, Span
from sash.language import select_list
from sash.language.continuous_body import Body
from sash.language.continuous_from import Query
from sash.language.continuous_groups import ContinuousGroups
from sash.language.continuous_sets import bind_set, distinct_rows
from sash.language.continuous_shape import check_names, check_select, check_unordered, unwrapped
from sash.language.places import extent
from sash.language.select_list import Entry
from sash.language.shape import word_in
from sash.language.statements import Select
from sash.language.terms import Term
from sash.plan.continuous import Filter, Map, Node


def bind_continuous(select: Select, catalog: Catalog) -> Node:
    """The plan of a continuous query; CqlError at the word that is wrong."""

    def bind(part: Select) -> Node:
        return _bind(part, query)

    query = Query(catalog, select.script, bind)
    try:
        return bind(select)
    except RecursionError:
        raise CqlError("nested too deeply", select.script, Span(select.span.start, select.span.start + 6)) from None


def _bind(select: Select, query: Query) -> Node:
    tree = unwrapped(select.tree)
    if tree is not select.tree:
        return _bind(Select(tree, select.script, extent(tree)), query)
    check_unordered(select)
    return bind_set(select, query) if isinstance(tree, exp.SetOperation) else _bind_select(select, query)


def _bind_select(select: Select, query: Query) -> Node:
    tree = check_select(select)
    body = Body(tree, query)
    columns = select_list.entries(tree, body.scope)
    check_names(columns, body.scope)
    keys = select_list.group_keys(tree, body.scope, columns)
    named = {str(key.value).split(".", 1)[1].lower() for key in keys if key.op == "field"}
    having = select_list.having(tree, body.scope, columns, named)
    grouped = tree.args.get("group") is not None or having is not None
    grouped = grouped or any(column.term.has_aggregate for column in columns)
    rows = _groups(body, columns, keys, having) if grouped else _plain(body, columns)
    return distinct_rows(rows, query, word_in(select, "DISTINCT")) if tree.args.get("distinct") is not None else rows


def _plain(body: Body, columns: list[Entry]) -> Map:
    outputs = tuple((column.name, body.rows.expression(column.term)) for column in columns)
    return Map(body.node(), outputs)


def _groups(body: Body, columns: list[Entry], keys: list[Term], having: Term | None) -> Map:
    groups = ContinuousGroups(body.scope, body.rows)
    for key in keys:
        groups.add_key(key)
    outputs = tuple((column.name, groups.translate(column.term)) for column in columns)
    condition = groups.translate(having) if having is not None else None
    node = groups.node(body.node())
    return Map(node if condition is None else Filter(node, condition), outputs)
