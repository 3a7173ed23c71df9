"""From a parsed SELECT to a logical plan: names resolved, types checked, aggregates collected.

    SELECT outputs FROM stream [window] WHERE predicate GROUP BY keys HAVING .. ORDER BY .. LIMIT .. WITH BOUNDS
    SELECT outputs FROM (SELECT ..) a JOIN (SELECT ..) b USING (k) WHERE condition ORDER BY .. LIMIT ..

The first form aggregates a window's tuples, the second joins the answers of such queries. Each is one function
below that shows the order of its clauses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sash.catalog import Catalog
from sash.core.errors import CqlError, NotSupportedError
from sash.plan.nodes import (
    Aggregate,
    AnswerFilter,
    AnswerJoin,
    Derived,
    Filter,
    Having,
    Limit,
    Output,
    Project,
    Sort,
    SortKey,
    StreamScan,
    Windowed,
)
from sash.sql.binding import select_list
from sash.sql.binding.bounds import with_bounds
from sash.sql.binding.groups import GroupingColumns, row_expression
from sash.sql.binding.item_rows import asks_for_items, bind_items
from sash.sql.binding.joins import Sources, bind_sources
from sash.sql.binding.lookups import LookedUpColumns, Use, found_terms, take_tables
from sash.sql.binding.outputs import refuse_outputs
from sash.sql.binding.shape import check_shape, over_sub_queries, word_in
from sash.sql.binding.shedding import check_shed_items, check_shed_window, check_shedding
from sash.sql.binding.windows import bind_window, check_all_slide, check_together
from sash.sql.expressions.answer_terms import Translator, field_of
from sash.sql.expressions.normal_form import normal_form
from sash.sql.expressions.operators import joined, require_boolean
from sash.sql.expressions.scope import Scope, StreamColumns, stream_of
from sash.sql.expressions.terms import Term
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.limits import within_stack
from sash.sql.reading.places import bounds_at, is_approximate, span_of, word_of
from sash.sql.reading.statements import Select


def bind(select: Select, catalog: Catalog, *, periodic: bool) -> Project:
    """The plan of a periodic (or one-time) query; CqlError at the word that is wrong."""
    refuse_outputs(select, periodic=periodic)
    with within_stack(select.script, select.word):
        if periodic:
            check_all_slide(select.tree, select.script)
        return _Binder(catalog, periodic).bind(select)


@dataclass(frozen=True)
class _Binder:
    catalog: Catalog
    periodic: bool

    def bind(self, select: Select) -> Project:
        select, uses = take_tables(select, self.catalog, periodic=self.periodic)
        tree = check_shape(select)
        return self._bind_answers(select, tree) if over_sub_queries(tree) else self._bind_groups(select, tree, uses)

    def _bind_sub_query(self, select: Select) -> Project:
        select, uses = take_tables(select, self.catalog, periodic=self.periodic)
        tree = check_shape(select)
        if over_sub_queries(tree):
            at = word_of(tree.args["from_"].this)
            raise NotSupportedError("sub-queries inside of sub-queries", select.script, at)
        return self._bind_groups(select, tree, uses)

    def _bind_groups(self, select: Select, tree: exp.Select, uses: tuple[Use, ...]) -> Project:
        """A SELECT over the window of a stream."""
        table = tree.args["from_"].this
        stream = stream_of(table, self.catalog, select.script)
        windowed = bind_window(table, stream, select.script, periodic=self.periodic)
        check_shed_window(stream, windowed, select.script, table)
        windowed = replace(windowed, input=StreamScan(stream.name, tuple(use.lookup for use in uses)))
        alias = table.alias or table.name
        columns = LookedUpColumns(stream, alias, uses, select.script) if uses else StreamColumns(stream, alias)
        return self._bind_columns(select, tree, Scope(select.script, columns), windowed, uses)

    def _bind_columns(
        self, select: Select, tree: exp.Select, scope: Scope, windowed: Windowed, uses: tuple[Use, ...]
    ) -> Project:
        if asks_for_items(tree):
            check_shed_items(scope, tree.expressions)
            return bind_items(select, tree, scope, _filter(tree, scope, windowed, uses))
        written = select_list.entries(tree, scope)
        columns = with_bounds(tree, written, scope)
        source = _filter(tree, scope, windowed, uses)
        groups = GroupingColumns(scope)
        for key in select_list.group_keys(tree, scope, written):
            groups.add_key(key)
        having = select_list.having(tree, scope, columns, {key.name.lower() for key in groups.keys})
        order = select_list.order(tree, scope, written, select_list.aliases(columns))
        asked = [*(column.term for column in columns), *(key.term for key in order)]
        asked += [having] if having is not None else []
        check_shedding(scope, asked)
        if tree.args.get("group") is None and not any(term.has_aggregate for term in asked):
            raise scope.unsupported("a SELECT without aggregates", span_of(tree.expressions[0]))
        outputs = tuple(Output(column.name, groups.translate(column.term)) for column in columns)
        condition = groups.translate(having) if having is not None else None
        keys = tuple(SortKey(groups.translate(key.term), key.descending, key.nulls_first) for key in order)
        aggregate = Aggregate(source, groups.keys, groups.calls)
        filtered = aggregate if condition is None else Having(aggregate, condition, is_approximate(tree.args["having"]))
        return _top(filtered, keys, select_list.limit(tree, scope), outputs)

    def _bind_answers(self, select: Select, tree: exp.Select) -> Project:
        """A SELECT over sub-queries."""
        _refuse_grouping(select, tree)
        sources = bind_sources(tree, select.script, self._bind_sub_query)
        check_together(tree, select.script)
        scope = Scope(select.script, sources.columns)
        columns = select_list.entries(tree, scope)
        order = select_list.order(tree, scope, columns, select_list.aliases(columns))
        answers = Translator(scope, field_of)
        outputs = tuple(Output(column.name, answers.translate(column.term)) for column in columns)
        keys = tuple(SortKey(answers.translate(key.term), key.descending, key.nulls_first) for key in order)
        condition = _condition(tree, scope, sources)
        filtered = sources.plan if condition is None else AnswerFilter(sources.plan, answers.translate(condition))
        return _top(filtered, keys, select_list.limit(tree, scope), outputs)


def _top(
    input: Having | Aggregate | AnswerFilter | AnswerJoin | Derived,
    keys: tuple[SortKey, ...],
    count: int | None,
    outputs: tuple[Output, ...],
) -> Project:
    ordered = Sort(input, keys) if keys else input
    return Project(Limit(ordered, count) if count is not None else ordered, outputs)


def _filter(tree: exp.Select, scope: Scope, input: Windowed, uses: tuple[Use, ...]) -> Filter | Windowed:
    where, conditions = tree.args.get("where"), found_terms(uses)
    if where is not None:
        inner = scope.without_aggregates("cannot stand in WHERE; HAVING tests aggregates")
        conditions.append(require_boolean(type_expression(where.this, inner), "WHERE", scope))
    if not conditions:
        return input
    predicate = joined("and", conditions) if len(conditions) > 1 else conditions[0]
    return Filter(input, replace(row_expression(predicate), terms=normal_form(predicate)))


def _refuse_grouping(select: Select, tree: exp.Select) -> None:
    for key, clause in (("group", "GROUP BY"), ("having", "HAVING")):
        if tree.args.get(key) is not None:
            what = f"{clause} over sub-queries; group and aggregate inside a sub-query"
            raise NotSupportedError(what, select.script, word_in(select, clause))
    at = bounds_at(tree)
    if at is not None:
        raise CqlError("WITH BOUNDS belongs into the sub-query that has the approximate aggregate", select.script, at)


def _condition(tree: exp.Select, scope: Scope, sources: Sources) -> Term | None:
    """What inner joins left over, and WHERE."""
    where = tree.args.get("where")
    conditions = list(sources.conditions)
    if where is not None:
        conditions.append(require_boolean(type_expression(where.this, scope), "WHERE", scope))
    return joined("and", conditions) if conditions else None
