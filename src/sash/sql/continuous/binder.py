"""From a parsed SELECT to the logical plan of a continuous query.

    SELECT .. FROM s [RANGE 5 sec], t [ROWS 10] WHERE s.k = t.k GROUP BY .. HAVING ..
    SELECT .. UNION ALL SELECT .. EXCEPT ALL ON (k) SELECT ..

    Project (SELECT)  <-  Filter (HAVING)  <-  GroupBy  <-  semi and anti joins (EXISTS, IN)  <-  Filter (WHERE)
                      <-  Join  <-  windows, with what concerns one of them alone

The parts have files of their own: FROM (`from_clause`, `sources`, `tables`), WHERE (`where`), joins (`joins`), the rows
that these leave, with tests against sub-queries (`body`), GROUP BY (`groups`), set operations (`sets`, `approx`),
internal windows (`internal`), what becomes of the answer (`outputs`), windows that slide (`slides`). `shape` refuses
what a SELECT may not have.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from sash.catalog import Catalog
from sash.plan.continuous import Filter, Map, Node, streams_of
from sash.plan.expressions import Field
from sash.plan.outputs import Outliving, Snapshots
from sash.sql.binding import select_list
from sash.sql.binding.select_list import SelectEntry
from sash.sql.binding.shape import word_in
from sash.sql.binding.shedding import check_shed_continuous
from sash.sql.continuous.approx import check_approx
from sash.sql.continuous.body import Body
from sash.sql.continuous.from_clause import QueryScope, read_by
from sash.sql.continuous.groups import ContinuousGroups
from sash.sql.continuous.nested import aggregate_of_results, is_aggregate_of_results
from sash.sql.continuous.outputs import refuse_output, windowed_results, with_output, with_sampling
from sash.sql.continuous.sets import bind_set, distinct_rows
from sash.sql.continuous.shape import check_names, check_select, check_unordered, unwrapped
from sash.sql.continuous.slides import common_slide
from sash.sql.expressions.terms import Term
from sash.sql.reading.limits import within_stack
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import extent, output_of
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause


def bind_continuous(select: Select, catalog: Catalog) -> Node:
    """The plan of a continuous query; CqlError at the word that is wrong."""

    def bind(part: Select, window: WindowClause | None = None) -> Node:
        clause = _output(part)
        if query.slide is not None:
            refuse_output(clause, query.script, "a sub-query of one that slides")
        node = with_output(_bind(part, query), clause, query)
        return node if window is None else windowed_results(node, window, query)

    with within_stack(select.script, select.word):
        query = QueryScope(catalog, select.script, bind, slide=common_slide(select, catalog))
        # Without the operator around it, if there is one: places are counted from the word SELECT.
        inner = select if select.output is None else Select(select.tree, select.script, extent(select.tree))
        node, clause = _bind(inner, query), _output(select)
        plan = with_output(node, clause, query) if query.slide is None else with_sampling(node, clause, query)
        query.check_size(read_by(plan), select.word, ": ask for less, in several queries")
        check_approx(plan, select)
        check_shed_continuous(select, streams_of(plan), catalog)
        return plan


def _output(select: Select) -> OutputClause | None:
    """How the answer is given; an aggregate of results has its window inside."""
    clause = output_of(unwrapped(select.tree))
    return None if clause is None or clause.around is not None else clause


def _bind(select: Select, query: QueryScope) -> Node:
    tree = unwrapped(select.tree)
    if tree is not select.tree:
        return _bind(Select(tree, select.script, extent(tree)), query)
    if is_aggregate_of_results(tree):
        return _bind(Select(aggregate_of_results(select), select.script, select.span), query)
    check_unordered(select)
    return bind_set(select, query) if isinstance(tree, exp.SetOperation) else _bind_select(select, query)


def _bind_select(select: Select, query: QueryScope) -> Node:
    tree = check_select(select)
    body = Body(tree, query)
    columns = select_list.entries(tree, body.scope)
    check_names(columns, body.scope)
    keys = select_list.group_keys(tree, body.scope, columns)
    named = {str(key.value).split(".", 1)[1].lower() for key in keys if key.op == "field"}
    having = select_list.having(tree, body.scope, columns, named)
    grouped = tree.args.get("group") is not None or having is not None
    grouped = grouped or any(column.term.has_aggregate for column in columns)
    rows = _groups(body, columns, keys, having, query) if grouped else _plain(body, columns)
    clause = output_of(tree)
    if tree.args.get("distinct") is not None:
        return distinct_rows(rows, query, word_in(select, "DISTINCT"))
    return distinct_rows(rows, query, clause.distinct) if clause is not None and clause.distinct is not None else rows


def _plain(body: Body, columns: list[SelectEntry]) -> Node:
    outputs = tuple((column.name, body.rows.expression(column.term)) for column in columns)
    node, stamps = body.node(), tuple(body.rows.stamps)
    if not body.rows.is_internal:
        return Map(node, outputs)
    return Outliving(Map(node, (*outputs, *((stamp, Field(stamp, pa.int64())) for stamp in stamps))), stamps)


def _groups(body: Body, columns: list[SelectEntry], keys: list[Term], having: Term | None, query: QueryScope) -> Node:
    groups = ContinuousGroups(body.scope, body.rows)
    for key in keys:
        groups.add_key(key)
    outputs = tuple((column.name, groups.translate(column.term)) for column in columns)
    condition = groups.translate(having) if having is not None else None
    node = groups.node(body.node())
    answer = Map(node if condition is None else Filter(node, condition), outputs)
    body.rows.check_groups()
    if not body.rows.is_internal:
        return answer
    return Outliving(answer) if query.slide is None else Snapshots(answer, *query.slide)
