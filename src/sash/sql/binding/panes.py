"""The plan of a query that panes answer, from the bound query.

    SELECT outputs FROM stream [window] WHERE predicate GROUP BY keys HAVING .. ORDER BY .. LIMIT .. WITH BOUNDS
    SELECT outputs FROM (SELECT ..) a JOIN (SELECT ..) b USING (k) WHERE condition QUALIFY .. ORDER BY .. LIMIT ..

The first form aggregates a window's tuples, the second joins the answers of such queries, all as of one time, from left
to right. Equalities between the sides become the join's keys; other parts of an inner join's ON become a condition on
the joined rows. Outer joins keep rows by their keys alone.

Window functions make the first form one of the second: its groups are a sub-query under the stream's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.user_aggregate import UserAggregate
from sash.core.window import WINDOW_COLUMNS, WINDOW_LENGTH, ElasticWindow, RowWindow, SessionWindow
from sash.panes.aggregates import HOLISTIC
from sash.plan.expressions import Call, Expression, Field, Literal, RowExpression
from sash.plan.nodes import (
    Aggregate,
    AggregateCall,
    AnswerFilter,
    AnswerJoin,
    AnswerProbe,
    AnswerRows,
    AnswerUnion,
    AnswerWindow,
    Having,
    Items,
    Key,
    Limit,
    Output,
    OverCall,
    Project,
    Sort,
    SortKey,
    StreamScan,
    StreamWindow,
    Subquery,
    WindowFilter,
)
from sash.sql.binding.bound import UNION, BoundJoin, BoundQuery, BoundSelect, BoundSet, BoundSource, relations_in
from sash.sql.binding.lookups import bind_lookups, check_tables
from sash.sql.binding.outputs import refuse_outputs
from sash.sql.binding.select_list import ItemRows, refuse_star
from sash.sql.binding.sets import check_set
from sash.sql.binding.shape import SETS, word_in
from sash.sql.binding.shedding import check_shed_items, check_shed_window, check_shedding
from sash.sql.binding.windows import bind_window, check_all_slide, check_together
from sash.sql.expressions.aggregates import argument_of, parameters, split_filter, together
from sash.sql.expressions.answer_terms import GroupTerms, Translator, field_of
from sash.sql.expressions.calls import GROUPING_FUNCTIONS
from sash.sql.expressions.normal_form import normal_form
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import FromColumns, Scope
from sash.sql.expressions.terms import (
    AskedQuery,
    OverShape,
    Term,
    asked_in,
    column_of,
    over_tuples,
    render,
    row_expression,
    sources_in,
)
from sash.sql.reading.limits import within_stack
from sash.sql.reading.places import bounds_at, is_approximate, span_of, word_of, word_of_operation
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
        if isinstance(body, BoundSet) and body.is_union:
            return self._union(body)
        return self._select(self._checked(body))

    def _union(self, body: BoundSet) -> Project:
        """The rows of both answers, in their common types, under the names of the first."""
        script, word = body.select.script, word_of_operation(body.tree)
        check_set(body)
        if len(relations_in(body)) > 1:
            raise NotSupportedError("UNION of answers of several streams", script, word)
        check_together(body.select)
        distinct = bool(body.tree.args.get("distinct"))
        nested = next((type for type in body.types if distinct and pt.is_nested(type)), None)
        if nested is not None:
            raise NotSupportedError(f"DISTINCT of {spark_name(nested)}", script, word)
        sides = (self.plan(side) for side in (body.left, body.right))
        rows = AnswerUnion(tuple(Subquery(UNION, _in_types(side, body.columns)) for side in sides), distinct)
        translator = Translator(Scope(script, FromColumns()), field_of)
        keys = tuple(SortKey(translator.translate(key.term), key.descending, key.nulls_first) for key in body.order)
        outputs = tuple(Output(name, Field(f"{UNION}.{name}", type)) for name, type in body.columns)
        return _top(rows, keys, body.limit, outputs)

    def _select(self, select: BoundSelect) -> Project:
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
        if isinstance(windowed.window, SessionWindow):
            _check_sessions(body, stream)
        _refuse_tests(body)
        tables = bind_lookups(body, stream)
        windowed = replace(windowed, input=StreamScan(stream.name, tables.lookups))
        rows = partial(over_tuples, names=tables.names)
        conditions = [rows(condition) for condition in tables.conditions]
        source = _filter(windowed, conditions, scope)
        for node in tree.expressions:
            refuse_star(node, scope)
        if body.items is not None:
            check_shed_items(stream, scope, tree.expressions)
            return _items(body.items, scope, source, rows, windowed)
        groups = GroupingColumns(scope, windowed, conditions=conditions, has_sets=bool(body.sets))
        if isinstance(windowed.window, ElasticWindow):
            groups.add_lengths()
        for key in body.keys:
            groups.add_key(rows(key))
        body = _with_terms(body, rows)
        having = [body.having] if body.having is not None else []
        asked = [*(entry.term for entry in body.entries), *(key.term for key in body.order), *having]
        check_shedding(stream, scope, asked)
        if tree.args.get("group") is None and not any(term.has_aggregate for term in asked):
            tuples = f"; {'OVER is over groups: ' if body.has_windows else ''}GROUP BY the columns"
            raise scope.unsupported(f"a SELECT without aggregates{tuples}", span_of(tree.expressions[0]))
        if body.asked:
            check_together(body.select)
        if not body.has_windows and not body.sets and not body.asked:
            outputs = _outputs(body, groups.translate)
            condition = _having(body, groups)
            keys = _sort_keys(body, groups.translate)
            return _top(groups.node(source, condition), keys, body.limit, outputs)
        fields: dict[str, Expression] = {field.name: field for field in groups.key_fields}

        def field_of_group(term: Term) -> Field | None:
            field = groups.leaf(term)
            if field is None:
                return None
            fields[field.name] = field
            return Field(f"{name}.{field.name}", field.type)

        name, columns = body.sources[0].name, AnswerColumns(scope, field_of_group, self._asked)
        before, behind = _split_having(body)
        made = _ranked(body, columns, columns.translate(joined("and", behind)) if behind else None)
        if not body.sets:
            condition = _having(replace(body, having=joined("and", before) if before else None), groups)
            inner = tuple(Output(each, field) for each, field in fields.items())
            return made(Subquery(name, Project(groups.node(source, condition), inner)))
        texts = [render(rows(key)) for key in body.keys]
        sets = (groups.set_node(source, [texts[place] for place in each], fields) for each in body.sets)
        return made(AnswerUnion(tuple(Subquery(name, each) for each in sets)))

    # -- answers of sub-queries ------------------------------------------------------------------------

    def _answers(self, body: BoundSelect) -> Project:
        """A SELECT over sub-queries."""
        scope = body.scope
        _refuse_grouping(body)
        _refuse_aggregates(body)
        tests = _tested(body)
        made: Subquery | AnswerJoin = self._derived(body.sources[0])
        conditions = list[Term]()
        for join in body.joins[1:]:
            right = self._derived(join.source)
            pairs, others = _join_keys(join, conditions, scope)
            made = AnswerJoin(made, right, join.kind if pairs else "cross", pairs)
            conditions += others
        check_together(body.select)
        conditions += [*body.conditions, *tests]
        columns = AnswerColumns(scope, field_of, self._asked)
        return _ranked(body, columns, columns.translate(joined("and", conditions)) if conditions else None)(made)

    def _derived(self, source: BoundSource) -> Subquery:
        assert isinstance(source.relation, BoundSelect | BoundSet)
        return Subquery(source.name, self.plan(source.relation))

    def _asked(self, asked: AskedQuery) -> Subquery:
        assert isinstance(asked.body, BoundSelect | BoundSet)
        return Subquery(asked.name, self.plan(asked.body))


def _in_types(plan: Project, columns: Sequence[tuple[str, pa.DataType]]) -> Project:
    outputs = zip(columns, (output.expression for output in plan.outputs), strict=True)
    made = (Output(name, each if each.type == type else Call("cast", (each,), type)) for (name, type), each in outputs)
    return replace(plan, outputs=tuple(made))


def _check_lengths(body: BoundSelect) -> None:
    """Check that `window_length` stands where groups are known: it is a key of every group, and no tuple has it."""
    if body.items is not None:
        call = body.items.call.function.upper()
        what = f"{call} over windows of several lengths; give each length its own query"
        raise body.scope.unsupported(what, word_in(body.select, call))
    having = [body.having] if body.having is not None else []
    asked = [*(entry.term for entry in body.entries), *having, *(key.term for key in body.order)]
    aggregated = [part for term in asked for part in term.walk() if part.op in ("aggregate", "filter")]
    inside = {
        "in WHERE; HAVING tests it": body.conditions,
        "inside an aggregate; multiply the aggregate by it": aggregated,
        "inside a key; GROUP BY has it by itself": [key for key in body.keys if not _is_length(key)],
    }
    for where, terms in inside.items():
        for part in (part for term in terms for part in term.walk() if _is_length(part)):
            raise body.scope.error(f"no tuple has {WINDOW_LENGTH}, so it cannot stand {where}", part.span)


# What is kept for each session in place of all its values.
_ESTIMATES = {"count_distinct": "APPROX_COUNT_DISTINCT"} | dict.fromkeys(
    ("median", "quantile", "quantile_cont", "percentile_disc"), "APPROX_QUANTILE"
)


def _check_sessions(body: BoundSelect, stream: Stream) -> None:
    """Check that panes have the aggregates of each session: those that a row by the keys of GROUP BY has."""
    if stream.shed is not None:
        reason = f"'{stream.name}' may drop tuples (SHED), and without one of its tuples a session is two"
        raise body.scope.error(f"{reason}: leave out SHED, or use [WINDOW d]", span_of(body.sources[0].node))
    if body.items is not None:
        call = body.items.call.function.upper()
        way_out = "GROUP BY the item, and its sessions are listed"
        raise body.scope.unsupported(f"{call} over sessions; {way_out}", word_in(body.select, call))
    if body.sets:
        what = "GROUPING SETS, ROLLUP and CUBE over sessions; give each set its own query"
        raise body.scope.unsupported(what, word_in(body.select, "GROUP BY"))
    conditions = [condition for condition in (body.having, body.qualify) if condition is not None]
    asked = [*(entry.term for entry in body.entries), *conditions, *(key.term for key in body.order)]
    for term in (part for each in asked for part in each.walk() if part.op == "aggregate"):
        if str(term.value) in HOLISTIC:
            name = "COUNT(DISTINCT ..)" if term.value == "count_distinct" else str(term.value).upper()
            estimate = _ESTIMATES.get(str(term.value))
            way_out = f"{estimate} is kept for each session" if estimate else "use [WINDOW d], which keeps every value"
            raise body.scope.unsupported(f"{name} over sessions; {way_out}", term.span)


def _is_length(term: Term) -> bool:
    return term.op == "field" and column_of(term) == WINDOW_LENGTH


def _tested(body: BoundSelect) -> list[Term]:
    """The tests of WHERE over answers; one that is tied to the rows has no answer of its own."""
    if any(test.condition is None for test in body.tests):
        _refuse_tests(body)
    return [test.condition for test in body.tests if test.condition is not None]


def _split_having(body: BoundSelect) -> tuple[list[Term], list[Term]]:
    """The conditions of groups alone, and those that need more: sub-queries, or the keys that a grouping set lacks."""
    having = body.having
    parts = [] if having is None else [*having.args] if having.op == "and" else [having]
    behind = [part for part in parts if body.sets or asked_in(part)]
    if behind and is_approximate(body.tree.args["having"]) and not body.sets:
        raise body.scope.error("HAVING APPROX with a sub-query: leave out APPROX", behind[0].span)
    return [part for part in parts if part not in behind], behind


def _refuse_tests(body: BoundSelect) -> None:
    for test in body.tests:
        if test.compared is None:
            raise body.scope.unsupported("sub-queries (EXISTS)", word_of(test.node))
        raise body.scope.unsupported("sub-queries (IN)", span_of(test.node))


def _with_terms(body: BoundSelect, change: Callable[[Term], Term]) -> BoundSelect:
    """The SELECT with other terms behind GROUP BY."""
    return replace(
        body,
        entries=tuple(replace(entry, term=change(entry.term)) for entry in body.entries),
        order=tuple(replace(key, term=change(key.term)) for key in body.order),
        having=change(body.having) if body.having is not None else None,
        qualify=change(body.qualify) if body.qualify is not None else None,
    )


def _outputs(body: BoundSelect, translate: Callable[[Term], Expression]) -> tuple[Output, ...]:
    return tuple(Output(entry.name, translate(entry.term)) for entry in body.entries)


def _sort_keys(body: BoundSelect, translate: Callable[[Term], Expression]) -> tuple[SortKey, ...]:
    return tuple(SortKey(translate(key.term), key.descending, key.nulls_first) for key in body.order)


def _having(body: BoundSelect, groups: GroupingColumns) -> tuple[Expression, bool] | None:
    """The condition of HAVING, and whether it is HAVING APPROX."""
    if body.having is None:
        return None
    return groups.translate(body.having), is_approximate(body.tree.args["having"])


def _ranked(
    body: BoundSelect, columns: AnswerColumns, where: Expression | None
) -> Callable[[AnswerJoin | AnswerUnion | Subquery], Project]:
    """The plan above the rows of an answer: sub-queries in expressions, conditions, window functions, QUALIFY, and the
    other clauses.
    """
    outputs, keys = _outputs(body, columns.translate), _sort_keys(body, columns.translate)
    condition = columns.translate(body.qualify) if body.qualify is not None else None

    def above(made: AnswerJoin | AnswerUnion | Subquery) -> Project:
        probed = columns.probed(made)
        rows = probed if where is None else AnswerFilter(probed, where)
        if not columns.calls:
            return _top(rows, keys, body.limit, outputs)
        numbered = AnswerWindow(rows, columns.calls)
        return _top(numbered if condition is None else AnswerFilter(numbered, condition), keys, body.limit, outputs)

    return above


def _top(
    input: Having | Aggregate | AnswerRows,
    keys: tuple[SortKey, ...],
    count: int | None,
    outputs: tuple[Output, ...],
) -> Project:
    ordered = Sort(input, keys) if keys else input
    return Project(Limit(ordered, count) if count is not None else ordered, outputs)


def _filter(input: StreamWindow, conditions: list[Term], scope: Scope) -> WindowFilter | StreamWindow:
    if not conditions:
        return input
    return WindowFilter(input, _predicate(conditions, scope))


def _predicate(conditions: list[Term], scope: Scope) -> RowExpression:
    predicate = joined("and", conditions)
    return replace(_of_tuples(predicate, row_expression(predicate), scope), terms=normal_form(predicate))


def _of_tuples(term: Term, expression: RowExpression, scope: Scope) -> RowExpression:
    """The expression of a term over tuples, of which none has a window of its own."""
    if not WINDOW_COLUMNS.isdisjoint(expression.columns):
        part = next(part for part in term.walk() if part.op == "column" and part.value in WINDOW_COLUMNS)
        where = "leave it out of WHERE, GROUP BY and aggregates; SELECT, HAVING and ORDER BY may have it"
        raise scope.error(f"{part.value} is of the window, and of no tuple: {where}", part.span)
    return expression


def _items(
    items: ItemRows, scope: Scope, source: WindowFilter | StreamWindow, rows: partial[Term], windowed: StreamWindow
) -> Project:
    """Project <- Items <- Aggregate(keys: the group's, then the item; calls: the item's count or weight)"""
    call, groups = items.call, GroupingColumns(scope, windowed, reserved=items.bounds)
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


class AnswerColumns:
    """The window functions and sub-queries of one query's expressions, as the columns that they become.

    `field_of` gives the fields of its rows, `plan_of` the plan of a sub-query.
    """

    def __init__(
        self, scope: Scope, field_of: Callable[[Term], Field | None], plan_of: Callable[[AskedQuery], Subquery]
    ) -> None:
        self._scope, self._field_of, self._plan_of = scope, field_of, plan_of
        self._calls: dict[str, OverCall] = {}
        self._probes: dict[str, tuple[Term, Expression | None]] = {}
        self._translator = Translator(scope, self._leaf)

    @property
    def calls(self) -> tuple[OverCall, ...]:
        return tuple(self._calls.values())

    def translate(self, term: Term) -> Expression:
        return self._translator.translate(term)

    def probed(self, rows: AnswerJoin | AnswerUnion | Subquery) -> AnswerProbe | AnswerJoin | AnswerUnion | Subquery:
        """The rows with the columns of all sub-queries."""
        made: AnswerProbe | AnswerJoin | AnswerUnion | Subquery = rows
        for name, (term, value) in self._probes.items():
            made = self._probe(made, name, term, value)
        return made

    def _probe(
        self, rows: AnswerProbe | AnswerJoin | AnswerUnion | Subquery, name: str, term: Term, value: Expression | None
    ) -> AnswerProbe:
        asked = term.value
        assert isinstance(asked, AskedQuery)
        query, text = self._plan_of(asked), f"({' '.join(asked.text.split())})"
        if term.op == "exists_query":
            return AnswerProbe(rows, query, name, "exists", text=text)
        ((column, type),) = asked.columns
        of: Expression = Field(f"{asked.name}.{column}", type)
        if value is None:
            return AnswerProbe(rows, query, name, "value", of, text=text)
        of = of if type == value.type else Call("cast", (of,), value.type)
        return AnswerProbe(rows, query, name, "in", of, value, text)

    def _leaf(self, term: Term) -> Field | None:
        if isinstance(term.value, AskedQuery):
            return self._asked(term)
        if term.op != "over":
            return self._field_of(term)
        sql = render(term)
        if sql not in self._calls:
            self._calls[sql] = self._call(term, sql)
        return Field(sql, term.type)

    def _asked(self, term: Term) -> Field:
        over = next((part for part in term.walk() if part.op == "over"), None)
        if over is not None:
            raise self._scope.unsupported("OVER before IN (SELECT ..); number the rows inside a sub-query", over.span)
        sql = render(term)
        if sql not in self._probes:
            self._probes[sql] = term, self.translate(term.args[0]) if term.args else None
        return Field(sql, term.type)

    def _call(self, term: Term, sql: str) -> OverCall:
        shape = term.value
        assert isinstance(shape, OverShape)
        arguments, partition, order = (tuple(map(self.translate, terms)) for terms in shape.split(term.args))
        keys = tuple(SortKey(key, *way) for key, way in zip(order, shape.order, strict=True))
        return OverCall(sql, shape.function, arguments, partition, keys, shape.frame, term.type)


class GroupingColumns(GroupTerms[AggregateCall]):
    """The Aggregate node of one query while it is built: its keys, and the calls met so far.

    `reserved` are names that nodes above give to columns of their own, `conditions` those of WHERE.
    """

    def __init__(
        self, scope: Scope, windowed: StreamWindow, reserved: Iterable[str] = (), conditions: Iterable[Term] = (),
        *, has_sets: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(scope)
        self._windowed = windowed
        self._reserved, self._conditions = (*reserved, *WINDOW_COLUMNS), tuple(conditions)
        self._key_nodes: dict[str, Key] = {}
        self._has_sets = has_sets
        self._groupings: dict[str, Term] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self._key_nodes.values())

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self._calls.values())

    @property
    def key_fields(self) -> list[Field]:
        """The fields that tell the groups apart, lengths of windows among them."""
        return list(self._keys.values())

    def node(self, source: WindowFilter | StreamWindow, having: tuple[Expression, bool] | None) -> Having | Aggregate:
        """The groups, when all terms are translated and all calls known."""
        aggregate = Aggregate(source, self.keys, self.calls)
        return aggregate if having is None else Having(aggregate, *having)

    def add_lengths(self) -> None:
        """The lengths of an elastic window are a key of every group that panes do not have."""
        lengths = Term("column", (), pa.float64(), Span(0, 1), WINDOW_LENGTH)
        self._keys[render(lengths)] = Field(WINDOW_LENGTH, lengths.type)

    def add_key(self, term: Term) -> None:
        sql = render(term)
        if sql not in self._keys:
            name = self._unused(str(term.value) if term.op == "column" else sql, self._reserved)
            self._keys[sql] = Field(name, term.type)
            self._key_nodes[sql] = Key(name, _of_tuples(term, row_expression(term), self._scope))

    def leaf(self, term: Term) -> Field | None:
        """The columns of the window are those of every group."""
        if term.op in GROUPING_FUNCTIONS:
            return self._grouping(term)
        if term.op != "column" or term.value not in WINDOW_COLUMNS:
            return super().leaf(term)
        if isinstance(self._windowed.window, RowWindow):
            reason = f"{term.value} is a time, and a window of ROWS counts tuples"
            raise self._scope.error(f"{reason}: the answer's as_of is the time of the last one", term.span)
        return Field(str(term.value), term.type)

    def _grouping(self, term: Term) -> Field:
        """GROUPING(k) is known of each grouping set."""
        unknown = next((arg for arg in term.args if render(arg) not in self._key_nodes), None)
        if not self._has_sets or unknown is not None:
            reason = f"{term.op.upper()} tells of a key of GROUPING SETS, ROLLUP or CUBE whether a set lacks it"
            raise self._scope.error(f"{reason}: give it a key of theirs", (unknown or term).span)
        self._groupings[render(term)] = term
        return Field(render(term), term.type)

    def set_node(
        self, source: WindowFilter | StreamWindow, keys: list[str], fields: Mapping[str, Expression]
    ) -> Project:
        """One grouping set, read from the pane table of all keys; it has no row where it has no tuples.

        The keys that the set lacks are NULL.
        """
        lacking = {key.name: key for sql, key in self._key_nodes.items() if sql not in keys}
        present = AggregateCall(self._unused("COUNT(*)"), "count", None, pa.int64())
        calls = self.calls if lacking.keys() != {key.name for key in self.keys} else (*self.calls, present)
        own = tuple(key for sql, key in self._key_nodes.items() if sql in keys)
        aggregate = Aggregate(source, own, calls, self.keys if lacking else ())
        some = Call("gt", (Field(present.name, pa.int64()), Literal(0, pa.int64())), pa.bool_())
        node = Having(aggregate, some) if len(calls) > len(self.calls) else aggregate
        outputs = [
            Output(name, self._grouped(name, field, keys) if name in self._groupings or name in lacking else field)
            for name, field in fields.items()
        ]
        return Project(node, tuple(outputs))

    def _grouped(self, name: str, field: Expression, keys: list[str]) -> Literal:
        """What a grouping set says of its keys: NULL for one that it lacks, and GROUPING."""
        if name not in self._groupings:
            return Literal(None, field.type)
        bits = ["01"[render(arg) not in keys] for arg in self._groupings[name].args]
        return Literal(int("".join(bits), 2), field.type)

    def _call(self, term: Term, sql: str) -> AggregateCall:
        name = self._unused(sql, self._reserved)
        aggregate, conditions = split_filter(term)
        call = self._aggregate(name, aggregate)
        if not conditions:
            return call
        condition = row_expression(joined("and", conditions))
        return replace(call, condition=condition, filtered=_predicate([*self._conditions, *conditions], self._scope))

    def _aggregate(self, name: str, term: Term) -> AggregateCall:
        if isinstance(user := self._scope.user.get(str(term.value)), UserAggregate):
            arguments = together([_of_tuples(arg, row_expression(arg), self._scope) for arg in term.args])
            return AggregateCall(name, user.name, arguments, term.type, user=user)
        argument = argument_of(term)
        if argument is not None:
            _of_tuples(term, argument, self._scope)
        return AggregateCall(name, str(term.value), argument, term.type, parameters(term))
