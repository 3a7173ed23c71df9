"""The plan of a continuous query, from the bound query.

    SELECT .. FROM s [RANGE 5 sec], t [ROWS 10] WHERE s.k = t.k GROUP BY .. HAVING ..
    SELECT .. UNION ALL SELECT .. EXCEPT ALL ON (k) SELECT ..

    Project (SELECT)  <-  Filter (HAVING)  <-  GroupBy  <-  semi and anti joins (EXISTS, IN)  <-  Filter (WHERE)
                      <-  Join  <-  windows, with what concerns one of them alone

A test against a sub-query is a semi or an anti join: a tuple counts while a match lives, or while none does. Its keys
are the ties of the sub-query, and for x IN (SELECT y ..) also x and y. NOT IN is SQL's: no tuple passes while the
sub-query has a NULL, and a NULL passes only while the sub-query has nothing at all.

The results of INTERNAL windows (thesis 3.3.2):

    all windows internal (or unbounded)   Outliving <- the SELECT's plan                   append-only
    some of them                          Outliving <- Project <- Join <- Stamped windows  a result ends with the first
                                                                                           of its external tuples

Other files have the sources (`sources`), their joins (`joined_rows`), set operations (`sets`), and the output of the
answer (`outputs`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Stream, Table
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.plan.continuous import Aggregated, Duplicates, Filter, GroupBy, Intersection, Map, Negation, Node, Union
from sash.plan.expressions import Call, Expression, Field, Literal
from sash.plan.nodes import AnswerOrder, SortKey
from sash.plan.outputs import Outliving, Snapshots
from sash.sql.binding.bound import BoundJoin, BoundQuery, BoundSelect, BoundSet, BoundSource, BoundTest, relations_in
from sash.sql.binding.finite import FiniteTerms, with_implied
from sash.sql.binding.join_parts import JoinParts
from sash.sql.binding.joined_rows import Computed, JoinedRows
from sash.sql.binding.lookups import refuse_window
from sash.sql.binding.outputs import refuse_output, windowed_results, with_output, with_sampling
from sash.sql.binding.sets import check_approx, check_set, distinct_rows, plan_set
from sash.sql.binding.shape import word_in
from sash.sql.binding.shedding import check_shed_continuous
from sash.sql.binding.sources import (
    OVER,
    ChangeScope,
    PlanSource,
    QuerySource,
    TableSource,
    WindowSource,
    read_by,
)
from sash.sql.binding.windows import bind_continuous_window, common_slide, has_slide, without_panes
from sash.sql.expressions.aggregates import ALGEBRAIC, is_item_call, split_filter
from sash.sql.expressions.answer_terms import GroupTerms, Translator, unused
from sash.sql.expressions.constants import literal
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import WINDOW_FUNCTIONS, Scope
from sash.sql.expressions.terms import Term, render
from sash.sql.reading.limits import within_stack
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import bounds_at, is_approximate, span_of, word_of
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause
from sash.sql.types import spark_name

_ORDERING = {"order": "ORDER BY", "limit": "LIMIT"}
# The columns that every change has beside those of the answer.
_RESERVED = ("_ts", "_exp", "_sign")
_OFTEN = (
    ": NOT IN has what it tests twice and its sub-query three times, because of NULLs. "
    "Where there are none, write NOT EXISTS (SELECT .. WHERE y = x)"
)
Keys = tuple[tuple[str, str], ...]


def plan_changes(query: BoundQuery) -> Node:
    """The plan of a continuous query; CqlError at a word that it cannot have."""
    select = query.select
    with within_stack(query.script, select.word):
        streams = {name: each for name, each in relations_in(query.body).items() if isinstance(each, Stream)}
        slide = common_slide(select, {name.lower(): stream for name, stream in streams.items()})
        top = query.body if slide is not None and isinstance(query.body, BoundSelect) else None
        planner = _ChangePlanner(ChangeScope(query.script, query.places, slide), top)
        _refuse_window_functions(select)
        node, clause = planner.relation(query.body), _output(query.body)
        plan = with_output(node, clause, planner.scope) if slide is None else with_sampling(node, clause, planner.scope)
        planner.scope.check_size(read_by(plan), select.word, ": ask for less, in several queries")
        check_approx(plan, select)
        check_shed_continuous(select, streams.values())
        return plan


def order_of_answers(query: BoundQuery) -> AnswerOrder | None:
    """ORDER BY and LIMIT of a continuous query that slides; None if its answers have none."""
    body = query.body
    if not isinstance(body, BoundSelect) or (not body.order and body.limit is None):
        return None
    columns = {render(entry.term): Field(entry.name, entry.term.type) for entry in body.entries}

    def leaf(term: Term) -> Field | None:
        found = columns.get(render(term))
        if found is None and term.op in ("column", "field", "aggregate", "filter"):
            reason = "ORDER BY is over the columns of the answer here: add this one to the SELECT list"
            raise body.scope.error(reason, term.span)
        return found

    translator = Translator(body.scope, leaf)
    for key in body.order:
        if pt.is_nested(key.term.type):
            raise body.scope.unsupported(f"ORDER BY of {spark_name(key.term.type)}", key.term.span)
    keys = (SortKey(translator.translate(key.term), key.descending, key.nulls_first) for key in body.order)
    return AnswerOrder(tuple(keys), body.limit)


def _refuse_window_functions(select: Select) -> None:
    for sets in select.tree.find_all(exp.GroupingSets, exp.Rollup, exp.Cube):
        what = "GROUPING SETS, ROLLUP and CUBE but in aggregates of one window with SLIDE"
        raise NotSupportedError(what, select.script, span_of(sets))
    for call in select.tree.find_all(exp.Window):
        way_out = "aggregates of one window with SLIDE, GROUP BY the columns; a sub-query in FROM has them, too"
        what = f"OVER and QUALIFY but over the groups of an answer; {way_out}"
        raise NotSupportedError(what, select.script, word_of(call.this))
    for node in select.tree.find_all(exp.Anonymous):
        if node.name.lower() in WINDOW_FUNCTIONS:
            reason = f"{node.name}() tells the window of an answer from panes: an aggregate of one window with SLIDE"
            way_out = "elsewhere as_of has the time of an answer, and _ts and _exp those of a row"
            raise CqlError(f"{reason}; {way_out}", select.script, word_of(node))


def _output(body: BoundSelect | BoundSet) -> OutputClause | None:
    """How the answer is given; an aggregate of results has its window inside."""
    clause = body.output
    return None if clause is None or clause.around is not None else clause


@dataclass(frozen=True)
class _Match:
    """A test with the plan of its sub-query: its keys are terms of the query around it and columns of that plan."""

    test: BoundTest
    right: Node
    keys: tuple[tuple[Term, str], ...]
    value: tuple[Term, str] | None = None


class _ChangeGroups(GroupTerms[Aggregated]):
    """GROUP BY: keys and aggregates as columns of the rows below.

        Filter (HAVING) <- GroupBy p.src: SUM(p.length) <- Window packets p

    Keys and arguments over one window are that window's own columns. Over joined rows a Map computes those that are no
    plain column. `without` names the place of aggregates that only panes compute.
    """

    def __init__(self, scope: Scope, rows: JoinedRows, without: str) -> None:
        super().__init__(scope, OVER)
        self._rows, self._without = rows, without
        self._inputs: dict[str, Computed] = {}
        self._at: dict[str, Span] = {}

    def add_key(self, term: Term) -> None:
        self._keys[render(term)] = Field(self._input(term), term.type)

    def node(self, input: Node, copies: Expression | None = None) -> Node:
        """The groups of rows of which there are `copies`."""
        inputs, calls = dict(self._inputs.values()), tuple(self._calls.values())
        if copies is not None:
            calls = tuple(self._multiplied(call, copies, inputs) for call in calls)
        computed = any(not (isinstance(made, Field) and made.name == name) for name, made in inputs.items())
        below = Map(input, tuple(inputs.items())) if computed else input
        keys = dict.fromkeys(key.name for key in self._keys.values())
        groups = GroupBy(below, tuple(keys), calls)
        if keys or copies is None:
            return groups
        # A sum over nothing is NULL, a number is 0.
        return Map(groups, tuple((call.name, _or_zero(call)) for call in self._calls.values()))

    def _multiplied(self, call: Aggregated, copies: Expression, inputs: dict[str, Expression]) -> Aggregated:
        """The aggregate of rows that stand for several each: a number becomes a sum."""
        if call.function in _BY_VALUE:
            return call
        value = None if call.argument is None else inputs[call.argument]
        if call.function == "count":
            known = None if value is None else Call("is_not_null", (value,), pa.bool_())
            made = copies if known is None else Call("if", (known, copies, Literal(0, call.type)), call.type)
        elif call.function == "sum" and value is not None and not pt.is_decimal(call.type):
            made = _times(Call("cast", (value,), call.type), copies, call.type)
        else:
            what = f"{call.function.upper()} over a join of [UNBOUNDED], which counts tuples instead of keeping them"
            raise self._scope.unsupported(
                f"{what}; COUNT, MIN, MAX and SUM of INTs and DOUBLEs may", self._at[call.name]
            )
        name = unused(f"{call.name} of copies", inputs)
        inputs[name] = made
        return Aggregated(call.name, "sum", name, call.type)

    def _input(self, term: Term) -> str:
        """The input column of a key or an argument."""
        sql = render(term)
        if sql not in self._inputs:
            made = self._rows.expression(term)
            name = made.name if isinstance(made, Field) else unused(sql, [name for name, _ in self._inputs.values()])
            self._inputs[sql] = (name, made)
        return self._inputs[sql][0]

    def _call(self, term: Term, sql: str) -> Aggregated:
        aggregate, conditions = split_filter(term)
        if conditions:
            aggregate = _among(aggregate, joined("and", conditions))
        function = str(aggregate.value)
        if function not in ALGEBRAIC:
            title = "COUNT(DISTINCT ..)" if function == "count_distinct" else function.upper()
            raise self._scope.unsupported(f"{title} {self._without}", term.span)
        argument = self._input(aggregate.args[0]) if aggregate.args else None
        name = self._unused(sql)
        self._at[name] = term.span
        return Aggregated(name, function, argument, term.type)


# Aggregates for which it does not matter how often a value is there.
_BY_VALUE = ("min", "max", "bool_and", "bool_or", "any_value")


def _or_zero(call: Aggregated) -> Expression:
    made = Field(call.name, call.type)
    return Call("coalesce", (made, Literal(0, call.type)), call.type) if call.function == "count" else made


def _times(one: Expression, copies: Expression, type: pa.DataType) -> Call:
    return Call("multiply", (one, Call("cast", (copies,), type)), type)


def _product(copies: Sequence[Expression]) -> Expression | None:
    """How often a joined row is there, if its sources say how often each of their rows is."""
    return reduce(lambda one, other: Call("multiply", (one, other), pa.int64()), copies) if copies else None


def _among(aggregate: Term, condition: Term) -> Term:
    """The aggregate of the tuples that fulfil a condition: of the others its argument is NULL, which does not count."""
    value = aggregate.args[0] if aggregate.args else literal(1, pa.int32(), condition.span)
    nothing = literal(None, pa.null(), condition.span)
    coerced = (pa.bool_(), value.type, value.type)
    argument = Term("case", (condition, value, nothing), value.type, condition.span, coerced=coerced)
    return replace(aggregate, args=(argument, *aggregate.args[1:]))


class _ChangePlanner:
    """Makes the plans of all SELECTs of one query; the answers of `ordered` are put in order (`order_of_answers`)."""

    def __init__(self, scope: ChangeScope, ordered: BoundSelect | None = None) -> None:
        self.scope = scope
        self._ordered = ordered

    def relation(self, body: BoundSelect | BoundSet) -> Node:
        """The plan of a query without its output clause."""
        if body is not self._ordered or body.select.tree is not body.tree:
            _check_unordered(body.select)
        if isinstance(body, BoundSelect):
            return self._select(body)
        check_set(body)
        return plan_set(body, (self._sub_query(body.left), self._sub_query(body.right)), self.scope)

    def _sub_query(self, body: BoundSelect | BoundSet, window: WindowClause | None = None) -> Node:
        """The plan of a query inside of this one; `window` is over its results."""
        clause = _output(body)
        if self.scope.slide is not None:
            refuse_output(clause, self.scope.script, "a sub-query of one that slides")
        node = with_output(self.relation(body), clause, self.scope)
        return node if window is None else windowed_results(node, window, self.scope)

    def _select(self, body: BoundSelect) -> Node:
        _check_select(body)
        if body is not self._ordered:
            _check_unordered(body.select)
        clause = body.output
        word = word_in(body.select, "DISTINCT") if body.is_distinct else None if clause is None else clause.distinct
        # A window that is alone is not remembered: its rows are what comes out.
        is_remembered = len(body.sources) > 1 or bool(body.tests)
        once = word is not None and not body.is_grouped
        counted = len(body.sources) > 1 and not once and (body.is_grouped or not body.tests)
        rows = self._rows(body, once=once and is_remembered, counted=counted)
        matches = [self._match(test) for test in body.tests]
        _check_names(body)
        made = self._groups(body, rows, matches) if body.is_grouped else self._plain(body, rows, matches)
        return made if word is None else distinct_rows(made, self.scope, word, finite=_has_finite_rows(body))

    def _plain(self, body: BoundSelect, rows: JoinedRows, matches: list[_Match]) -> Node:
        outputs = tuple((entry.name, rows.expression(entry.term)) for entry in body.entries)
        node, stamps = self._tested(rows, matches), tuple(rows.stamps)
        if (copies := _product(rows.copies)) is not None:
            rows.check_copies()
            name = unused("copies", [name for name, _ in outputs])
            return Duplicates(Map(node, (*outputs, (name, copies))), name)
        if not rows.is_internal:
            return Map(node, outputs)
        return Outliving(Map(node, (*outputs, *((stamp, Field(stamp, pa.int64())) for stamp in stamps))), stamps)

    def _groups(self, body: BoundSelect, rows: JoinedRows, matches: list[_Match]) -> Node:
        groups = _ChangeGroups(body.scope, rows, without_panes(slides=self.scope.slide is not None))
        for key in body.keys:
            groups.add_key(key)
        outputs = tuple((entry.name, groups.translate(entry.term)) for entry in body.entries)
        condition = groups.translate(body.having) if body.having is not None else None
        tested = self._tested(rows, matches)
        node = groups.node(tested, _product(rows.copies))
        answer = Map(node if condition is None else Filter(node, condition), outputs)
        rows.check_groups()
        if not rows.is_internal:
            return answer
        return Outliving(answer) if self.scope.slide is None else Snapshots(answer, *self.scope.slide)

    # -- FROM and WHERE --------------------------------------------------------------------------------

    def _rows(self, body: BoundSelect, *, once: bool, counted: bool = False) -> JoinedRows:
        sources = {source.name: self._source(source, body) for source in body.sources}
        for join in body.joins[1:]:
            _check_join(join, self.scope.script)
        places, parts = {source.name: source.word for source in body.sources}, JoinParts(body.joins)
        # Outer joins remember tuples, not values.
        once, counted = once and not parts.last, counted and not parts.last
        rows = JoinedRows(sources, places, body.scope, self.scope, parts, once=once, counted=counted)
        for join in body.joins if parts.last else ():
            for condition in () if join.is_outer else join.conditions:
                rows.require(condition, parts.number(join.source.name))
        conditions = body.conditions if parts.last else _conditions(body)
        if rows.are_values or rows.are_counted:
            unbounded = {name for name, each in sources.items() if isinstance(each, WindowSource) and each.is_unbounded}
            conditions = with_implied(conditions, unbounded)
        for condition in conditions:
            rows.require(condition, parts.last)
        return rows

    def _source(self, source: BoundSource, body: BoundSelect) -> PlanSource:
        relation, script = source.relation, self.scope.script
        if isinstance(relation, Table):
            refuse_window(source, script)
            return TableSource(source.name, relation)
        if isinstance(relation, Stream):
            slides = self.scope.slide is not None
            window, partition = bind_continuous_window(source.node, relation, script, slides=slides)
            internal = source.window is not None and source.window.internal_at is not None
            return WindowSource(source.name, relation, window, partition, internal=internal)
        return QuerySource(source.name, self._sub_query(relation, source.window), body.scope)

    # -- tests -----------------------------------------------------------------------------------------

    def _match(self, test: BoundTest) -> _Match:
        query = test.query
        refuse_output(query.output, self.scope.script, f"the sub-query of {test.title}")
        if not test.tied:
            return self._against_answer(test)
        assert isinstance(query, BoundSelect)
        _check_select(query)
        _check_unordered(query.select)
        rows = self._rows(query, once=True)
        matches = [self._match(inner) for inner in query.tests]
        value = (test.compared[0], rows.column(test.compared[1])) if test.compared is not None else None
        keys = tuple((outer, rows.column(inner)) for outer, inner in query.ties)
        return _Match(test, self._tested(rows, matches), keys, value)

    def _against_answer(self, test: BoundTest) -> _Match:
        """A test against a sub-query that is a query of its own."""
        right = self._sub_query(test.query)
        if test.compared is None:
            return _Match(test, right, ())
        x, y = test.compared
        (column,) = right.schema
        if y.type != column.type:
            right = Map(right, ((column.name, Call("cast", (Field(column.name, column.type),), y.type)),))
        return _Match(test, right, (), (x, column.name))

    def _tested(self, rows: JoinedRows, matches: list[_Match]) -> Node:
        """The rows that pass all tests; call this once, after all columns were requested."""
        values = [_keys(rows, [match.value] if match.value is not None else []) for match in matches]
        keys = [_keys(rows, match.keys) for match in matches]
        node = rows.node()
        for asked in zip(matches, keys, values, strict=True):
            node = self._one_test(node, *asked)
        return node

    def _one_test(self, node: Node, match: _Match, keys: Keys, value: Keys) -> Node:
        for side in (node, match.right):
            self.scope.refuse_internal(side, match.test.title, "results that stay would no longer pass the test")
            self.scope.check_bounded(side, match.test.title)
        if not match.test.negated:
            return Intersection(node, match.right, _together(value, keys), whole=True)
        if not value:
            return Negation(node, match.right, keys, whole=True)
        self.scope.check_size(2 * read_by(node) + 3 * read_by(match.right), match.test.at, _OFTEN)
        return _not_in(node, match.right, keys, value)


def _conditions(body: BoundSelect) -> list[Term]:
    """What all rows fulfil."""
    return [*(each for join in body.joins if not join.is_outer for each in join.conditions), *body.conditions]


def _has_finite_rows(body: BoundSelect) -> bool:
    tables = [source.name for source in body.sources if isinstance(source.relation, Table)]
    known = FiniteTerms(_conditions(body), tables)
    return all(entry.term in known for entry in body.entries)


def _keys(rows: JoinedRows, keys: Collection[tuple[Term, str]]) -> Keys:
    return tuple(dict.fromkeys((rows.column(term), column) for term, column in keys))


def _not_in(node: Node, right: Node, keys: Keys, value: Keys) -> Node:
    """Rows with a known x, while no y equals it and none is NULL; and rows with x NULL, while there is no y."""
    ((x, y),) = value
    known, unknown = Filter(node, _is("is_not_null", node, x)), Filter(node, _is("is_null", node, x))
    unmatched = Negation(known, right, _together(value, keys), whole=True)
    certain = Negation(unmatched, Filter(right, _is("is_null", right, y)), keys, whole=True)
    return Union((certain, Negation(unknown, right, keys, whole=True)))


def _together(value: Keys, keys: Keys) -> Keys:
    return tuple(dict.fromkeys((*value, *keys)))


def _is(function: str, node: Node, column: str) -> Expression:
    return Call(function, (Field(column, node.schema.field(column).type),), pa.bool_())


# -- the clauses of a continuous SELECT ------------------------------------------------------------------


def _check_select(body: BoundSelect) -> None:
    for term in body.asked:
        way_out = "aggregate one window with SLIDE, and compare in HAVING or in a SELECT around"
        raise body.scope.unsupported(f"sub-queries in an expression of a continuous query; {way_out}", term.span)
    select, tree, without = body.select, body.tree, without_panes(slides=has_slide(body.select))
    distinct, having = tree.args.get("distinct"), tree.args.get("having")
    if distinct is not None and distinct.args.get("on") is not None:
        raise NotSupportedError("DISTINCT ON", select.script, word_in(select, "DISTINCT"))
    item = next((node.unalias() for node in tree.expressions if is_item_call(node.unalias())), None)
    if item is not None:
        raise NotSupportedError(f"{item.name.upper()} {without}", select.script, word_of(item))
    if (bounds := bounds_at(tree)) is not None:
        raise NotSupportedError(f"WITH BOUNDS {without}", select.script, bounds)
    if having is not None and is_approximate(having):
        raise NotSupportedError(f"HAVING APPROX {without}", select.script, word_in(select, "APPROX"))


def _check_unordered(select: Select) -> None:
    for key, clause in _ORDERING.items():
        if select.tree.args.get(key) is not None:
            reason = f"a change stream has no order: leave out {clause}; query.view() is a table that can be sorted"
            reason += "; with SLIDE in all windows every answer has an order"
            if has_slide(select):
                reason = f"{clause} is of whole answers: write it behind the outermost SELECT"
                reason += ", and a set operation into its FROM: SELECT * FROM (..) a ORDER BY .. LIMIT .."
            raise CqlError(reason, select.script, word_in(select, clause))


def _check_names(body: BoundSelect) -> None:
    for entry in body.entries:
        if entry.name.lower() in _RESERVED:
            reason = f"'{entry.name}' is a column that every change has: give this one another name (AS ..)"
            raise body.scope.error(reason, entry.span)


def _check_join(join: BoundJoin, script: str) -> None:
    assert join.node is not None
    if join.is_unconditional:
        reason = "JOIN needs USING (..) or ON ..; CROSS JOIN leaves the condition to WHERE"
        raise CqlError(reason, script, word_of(join.node))
