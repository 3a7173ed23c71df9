"""The plan of a query that panes answer, from the bound query.

    SELECT outputs FROM stream [window] WHERE predicate GROUP BY keys HAVING .. ORDER BY .. LIMIT .. WITH BOUNDS
    SELECT outputs FROM (SELECT ..) a JOIN (SELECT ..) b USING (k) WHERE condition ORDER BY .. LIMIT ..

The first form aggregates a window's tuples, the second joins the answers of such queries, all as of one time, from left
to right. Equalities between the sides become the join's keys; other parts of an inner join's ON become a condition on
the joined rows. Outer joins keep rows by their keys alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.window import WINDOW_LENGTH, ElasticWindow
from sash.plan.expressions import Field
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    AnswerFilter,
    AnswerJoin,
    Having,
    Items,
    Key,
    Limit,
    Output,
    Project,
    Sort,
    SortKey,
    StreamScan,
    StreamWindow,
    Subquery,
    WindowFilter,
)
from sash.sql.binding.bound import BoundJoin, BoundQuery, BoundSelect, BoundSet, BoundSource
from sash.sql.binding.items import ItemRows
from sash.sql.binding.lookups import bind_lookups, check_tables
from sash.sql.binding.outputs import refuse_outputs
from sash.sql.binding.select_list import refuse_star
from sash.sql.binding.shape import SETS, word_in
from sash.sql.binding.shedding import check_shed_items, check_shed_window, check_shedding
from sash.sql.binding.windows import bind_window, check_all_slide, check_together
from sash.sql.expressions.aggregates import parameters, together
from sash.sql.expressions.answer_terms import GroupTerms, Translator, field_of
from sash.sql.expressions.normal_form import normal_form
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, column_of, over_tuples, render, row_expression, sources_in
from sash.sql.reading.limits import within_stack
from sash.sql.reading.places import bounds_at, is_approximate, span_of, word_of
from sash.sql.types import spark_name

_STREAM_JOINS = "joins of streams; put each window into a sub-query: FROM (SELECT .. GROUP BY ..) a JOIN (SELECT ..) b"


def plan_panes(query: BoundQuery, *, periodic: bool) -> Project:
    """The plan of a periodic query, or of a question; CqlError at a word that panes cannot answer."""
    refuse_outputs(query.select, periodic=periodic)
    with within_stack(query.script, query.select.word):
        if periodic:
            check_all_slide(query.select)
        return _PanePlanner(periodic).plan(query.body)


@dataclass(frozen=True)
class _PanePlanner:
    periodic: bool

    def plan(self, body: BoundSelect | BoundSet) -> Project:
        select = self._checked(body)
        stream = select.sources[0].relation
        return self._groups(select, stream) if isinstance(stream, Stream) else self._answers(select)

    def _checked(self, body: BoundSelect | BoundSet) -> BoundSelect:
        """The query, if it is one SELECT over a stream, or over sub-queries."""
        script = body.select.script
        if isinstance(body, BoundSet):
            word = SETS[type(body.tree)]
            raise NotSupportedError(word, script, word_in(body.select, word))
        if isinstance(body.select.tree, exp.Subquery):
            raise NotSupportedError("anything but a plain SELECT", script, body.select.span)
        check_tables(body, periodic=self.periodic)
        if body.is_distinct:
            raise NotSupportedError("SELECT DISTINCT", script, word_in(body.select, "DISTINCT"))
        streams = [source for source in body.sources if isinstance(source.relation, Stream)]
        queries = [source for source in body.sources if isinstance(source.relation, BoundSelect | BoundSet)]
        if streams and len(streams) + len(queries) > 1:
            raise NotSupportedError(_STREAM_JOINS, script, streams[-1].word)
        return body

    # -- one stream ------------------------------------------------------------------------------------

    def _groups(self, body: BoundSelect, stream: Stream) -> Project:
        """A SELECT over the window of a stream."""
        tree, scope, table = body.tree, body.scope, body.sources[0].node
        windowed = bind_window(table, stream, scope.script, periodic=self.periodic)
        check_shed_window(stream, windowed, scope.script, table)
        if isinstance(windowed.window, ElasticWindow):
            _check_lengths(body)
        _refuse_tests(body)
        tables = bind_lookups(body, stream)
        windowed = replace(windowed, input=StreamScan(stream.name, tables.lookups))
        rows = partial(over_tuples, names=tables.names)
        source = _filter(windowed, [rows(condition) for condition in tables.conditions])
        for node in tree.expressions:
            refuse_star(node, scope)
        if body.items is not None:
            check_shed_items(stream, scope, tree.expressions)
            return _items(body.items, scope, source, rows)
        groups = GroupingColumns(scope)
        if isinstance(windowed.window, ElasticWindow):
            groups.add_lengths()
        for key in body.keys:
            groups.add_key(rows(key))
        having = rows(body.having) if body.having is not None else None
        entries = [(entry.name, rows(entry.term)) for entry in body.entries]
        order = [replace(key, term=rows(key.term)) for key in body.order]
        asked = [*(term for _, term in entries), *(key.term for key in order), *([having] if having else [])]
        check_shedding(stream, scope, asked)
        if tree.args.get("group") is None and not any(term.has_aggregate for term in asked):
            raise scope.unsupported("a SELECT without aggregates", span_of(tree.expressions[0]))
        outputs = tuple(Output(name, groups.translate(term)) for name, term in entries)
        condition = groups.translate(having) if having is not None else None
        keys = tuple(SortKey(groups.translate(key.term), key.descending, key.nulls_first) for key in order)
        aggregate = Aggregate(source, groups.keys, groups.calls)
        filtered = aggregate if condition is None else Having(aggregate, condition, is_approximate(tree.args["having"]))
        return _top(filtered, keys, body.limit, outputs)

    # -- answers of sub-queries ------------------------------------------------------------------------

    def _answers(self, body: BoundSelect) -> Project:
        """A SELECT over sub-queries."""
        scope = body.scope
        _refuse_grouping(body)
        _refuse_aggregates(body)
        _refuse_tests(body)
        made: Subquery | AnswerJoin = self._derived(body.sources[0])
        conditions = list[Term]()
        for join in body.joins[1:]:
            right = self._derived(join.source)
            pairs, others = _join_keys(join, conditions, scope)
            made = AnswerJoin(made, right, join.kind if pairs else "cross", pairs)
            conditions += others
        check_together(body.select)
        conditions += body.conditions
        answers = Translator(scope, field_of)
        outputs = tuple(Output(entry.name, answers.translate(entry.term)) for entry in body.entries)
        keys = tuple(SortKey(answers.translate(key.term), key.descending, key.nulls_first) for key in body.order)
        filtered = AnswerFilter(made, answers.translate(joined("and", conditions))) if conditions else made
        return _top(filtered, keys, body.limit, outputs)

    def _derived(self, source: BoundSource) -> Subquery:
        assert isinstance(source.relation, BoundSelect | BoundSet)
        inner = self._checked(source.relation)
        if not isinstance(inner.sources[0].relation, Stream):
            what = "sub-queries inside of sub-queries"
            raise NotSupportedError(what, inner.scope.script, inner.sources[0].word)
        return Subquery(source.name, self._groups(inner, inner.sources[0].relation))


def _check_lengths(body: BoundSelect) -> None:
    """Check that `window_length` stands where groups are known: it is a key of every group, and no tuple has it."""
    if body.items is not None:
        call = body.items.call.function.upper()
        what = f"{call} over windows of several lengths; give each length its own query"
        raise body.scope.unsupported(what, word_in(body.select, call))
    having = [body.having] if body.having is not None else []
    asked = [*(entry.term for entry in body.entries), *having, *(key.term for key in body.order)]
    aggregated = [part for term in asked for part in term.walk() if part.op == "aggregate"]
    inside = {
        "in WHERE; HAVING tests it": body.conditions,
        "inside an aggregate; multiply the aggregate by it": aggregated,
        "inside a key; GROUP BY has it by itself": [key for key in body.keys if not _is_length(key)],
    }
    for where, terms in inside.items():
        for part in (part for term in terms for part in term.walk() if _is_length(part)):
            raise body.scope.error(f"no tuple has {WINDOW_LENGTH}, so it cannot stand {where}", part.span)


def _is_length(term: Term) -> bool:
    return term.op == "field" and column_of(term) == WINDOW_LENGTH


def _refuse_tests(body: BoundSelect) -> None:
    for test in body.tests:
        if test.compared is None:
            raise body.scope.unsupported("sub-queries (EXISTS)", word_of(test.node))
        raise body.scope.unsupported("sub-queries (IN)", span_of(test.node))


def _top(
    input: Having | Aggregate | AnswerFilter | AnswerJoin | Subquery,
    keys: tuple[SortKey, ...],
    count: int | None,
    outputs: tuple[Output, ...],
) -> Project:
    ordered = Sort(input, keys) if keys else input
    return Project(Limit(ordered, count) if count is not None else ordered, outputs)


def _filter(input: StreamWindow, conditions: list[Term]) -> WindowFilter | StreamWindow:
    if not conditions:
        return input
    predicate = joined("and", conditions)
    return WindowFilter(input, replace(row_expression(predicate), terms=normal_form(predicate)))


def _items(items: ItemRows, scope: Scope, source: WindowFilter | StreamWindow, rows: partial[Term]) -> Project:
    """Project <- Items <- Aggregate(keys: the group's, then the item; calls: the item's count or weight)"""
    call, groups = items.call, GroupingColumns(scope, reserved=items.bounds)
    for key in items.keys:
        groups.add_key(rows(key))
    keys = {
        place: Output(entry.name, groups.translate(rows(entry.term)))
        for place, entry in enumerate(items.entries)
        if place != items.item
    }
    item = rows(call.item)
    groups.add_key(item)
    own = [Output(items.entries[items.item].name, groups.translate(item))]
    own += [Output(call.weight_name, groups.translate(rows(call.weight)))]
    own += [Output(name, Field(name, pa.int64())) for name in items.bounds]
    outputs = [
        output for place in range(len(items.entries)) for output in (own if place == items.item else [keys[place]])
    ]
    aggregate = Aggregate(source, groups.keys, groups.calls)
    return Project(Items(aggregate, call.function, call.count, bool(items.bounds)), tuple(outputs))


def _refuse_grouping(body: BoundSelect) -> None:
    for key, clause in (("group", "GROUP BY"), ("having", "HAVING")):
        if body.tree.args.get(key) is not None:
            what = f"{clause} over sub-queries; group and aggregate inside a sub-query"
            raise NotSupportedError(what, body.scope.script, word_in(body.select, clause))
    at = bounds_at(body.tree)
    if at is not None:
        reason = "WITH BOUNDS belongs into the sub-query that has the approximate aggregate"
        raise CqlError(reason, body.scope.script, at)


def _refuse_aggregates(body: BoundSelect) -> None:
    terms = (*(entry.term for entry in body.entries), *(key.term for key in body.order))
    for term in (part for each in terms for part in each.walk() if part.op == "aggregate"):
        name = body.items.call.function if body.items is not None else str(term.value)
        what = f"the aggregate {name.upper()} over sub-queries; aggregate inside a sub-query"
        raise body.scope.unsupported(what, term.span)


def _join_keys(join: BoundJoin, before: Sequence[Term], scope: Scope) -> tuple[tuple[tuple[str, str], ...], list[Term]]:
    """The equalities between the sides of a join, and the rest of ON; `before` is the rest of earlier joins."""
    assert join.node is not None
    at = word_of(join.node)
    if join.kind in ("right", "full") and before:
        what = f"a {join.kind.upper()} JOIN behind a JOIN whose ON is more than equalities between its sides"
        raise scope.unsupported(what, at)
    if join.is_unconditional:
        raise scope.error("JOIN needs USING (..) or ON ..; CROSS JOIN pairs every row with every row", at)
    keys, others = list[tuple[str, str]](), list[Term]()
    for part in join.conditions:
        sides = _sides(part, join.source.name)
        if sides is None:
            others.append(part)
            continue
        _check_key(*sides, scope.script, part.span)
        keys.append((str(sides[0].value), str(sides[1].value)))
    if others and join.kind != "inner":
        what = f"{join.kind.upper()} JOIN ON anything but equalities between its sides"
        raise scope.unsupported(what, others[0].span)
    return tuple(dict.fromkeys(keys)), others


def _sides(condition: Term, right: str) -> tuple[Term, Term] | None:
    """`a.x = b.y` as (left, right), whichever way around it was written; None for any other condition."""
    if condition.op != "eq" or any(term.op != "field" for term in condition.args):
        return None
    one, other = condition.args
    is_right = [sources_in(term) == {right} for term in (one, other)]
    return (one, other) if is_right == [False, True] else (other, one) if is_right == [True, False] else None


def _check_key(left: Term, right: Term, script: str, at: Span) -> None:
    if left.type != right.type:
        types = f"{left.value} is {spark_name(left.type)} and {right.value} is {spark_name(right.type)}"
        raise CqlError(f"JOIN needs equal types, but {types}: CAST one inside its sub-query", script, at)
    if pt.is_null(left.type):
        raise CqlError(f"JOIN needs a type: write CAST(NULL AS ..) for {left.value}", script, at)


class GroupingColumns(GroupTerms[AggregateCall]):
    """The Aggregate node of one query while it is built: its keys, and the calls met so far.

    `reserved` are names that nodes above give to columns of their own.
    """

    def __init__(self, scope: Scope, reserved: Iterable[str] = ()) -> None:
        super().__init__(scope)
        self._reserved = tuple(reserved)
        self._key_nodes: dict[str, Key] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self._key_nodes.values())

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self._calls.values())

    def add_lengths(self) -> None:
        """The lengths of an elastic window are a key of every group that panes do not have."""
        lengths = Term("column", (), pa.float64(), Span(0, 1), WINDOW_LENGTH)
        self._keys[render(lengths)] = Field(WINDOW_LENGTH, lengths.type)

    def add_key(self, term: Term) -> None:
        sql = render(term)
        if sql not in self._keys:
            name = self._unused(str(term.value) if term.op == "column" else sql, self._reserved)
            self._keys[sql] = Field(name, term.type)
            self._key_nodes[sql] = Key(name, row_expression(term))

    def _call(self, term: Term, sql: str) -> AggregateCall:
        name = self._unused(sql, self._reserved)
        if (user := self._scope.user.get(str(term.value))) is not None:
            return AggregateCall(name, user.name, together([*map(row_expression, term.args)]), term.type, user=user)
        argument = row_expression(term.args[0]) if term.args else None
        return AggregateCall(name, str(term.value), argument, term.type, parameters(term))
