"""From a parsed SELECT to a bound one: resolves names, checks types, and refuses every word without a meaning. Each
SELECT is bound once, whatever answers it.

    FROM (`from_clause`)  ->  WHERE  ->  SELECT list, GROUP BY, HAVING, ORDER BY, LIMIT (`select_list`)

WHERE has conditions on the rows themselves, and tests against sub-queries:

    WHERE a.x > 1 AND NOT EXISTS (SELECT .. FROM t [..] WHERE t.v = a.v AND ..) AND b.y IN (SELECT ..)

They are the parts that AND joins at the top: a test inside of OR or NOT would not be a join. A sub-query of a test may
refer to the query around it: its ties are the equalities between columns of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from sash.catalog import Catalog, Stream, Table
from sash.core.errors import CqlError, Span
from sash.core.user_aggregate import UserAggregate
from sash.core.user_function import UserFunction
from sash.sql.binding import select_list
from sash.sql.binding.bound import UNION, BoundQuery, BoundSelect, BoundSet, BoundTest
from sash.sql.binding.completion import complete
from sash.sql.binding.from_clause import FromBinder
from sash.sql.binding.outputs import aggregate_of_results, is_aggregate_of_results
from sash.sql.binding.select_list import SelectEntry, asks_for_items, bind_items, with_bounds
from sash.sql.binding.shape import check_shape, has_only, unwrapped
from sash.sql.binding.shedding import estimates_of
from sash.sql.expressions import aggregates
from sash.sql.expressions.coercion import common_type
from sash.sql.expressions.constants import literal
from sash.sql.expressions.operators import BOOLEAN, compare, conjuncts, negated, require_boolean
from sash.sql.expressions.scope import FromColumns, Scope, SourceColumns
from sash.sql.expressions.terms import AskedQuery, Term, cast_to, sources_in
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.limits import within_stack
from sash.sql.reading.places import extent, span_of
from sash.sql.reading.statements import Select
from sash.sql.types import spark_name

_TIED = "a sub-query is tied to the query around it by equalities, with one side of each: t.k = s.k"


def bind(select: Select, catalog: Catalog) -> BoundQuery:
    """Bind a SELECT; CqlError at a word without a meaning."""
    with within_stack(select.script, select.word):
        select = complete(select, catalog)
        binder = _Binder(catalog, select.script)
        # Without WITH and the operator around it, if there are any: places are counted from the word SELECT.
        inner = Select(select.tree, select.script, extent(select.tree))
        return BoundQuery(select, binder.bind(inner), binder.sources.places)


@dataclass(frozen=True)
class _WrittenTest:
    """A condition against a sub-query that is not bound yet; `value` is the x of `x IN (..)`, None for EXISTS."""

    query: exp.Expr
    node: exp.Expr
    negated: bool
    value: Term | None
    at: Span


class _Binder:
    """Binds all queries of one statement."""

    def __init__(self, catalog: Catalog, script: str) -> None:
        self._script = script
        self._user: Mapping[str, UserAggregate | UserFunction] = {**catalog.aggregates, **catalog.functions}
        self.sources = FromBinder(catalog, script, self._bind_tree)

    def _bind_tree(self, tree: exp.Expr) -> BoundSelect | BoundSet:
        return self.bind(Select(tree, self._script, extent(tree)))

    def bind(self, select: Select) -> BoundSelect | BoundSet:
        tree = unwrapped(select.tree)
        if tree is not select.tree:
            return self._bind_tree(tree)
        if isinstance(tree, exp.Subquery) and has_only(tree, "this", "order", "limit"):
            # The plans refuse the clauses behind the parentheses.
            return replace(self._bind_tree(tree.this), select=select)
        if is_aggregate_of_results(tree):
            return self.bind(Select(aggregate_of_results(select), select.script, select.span))
        return self._set(select, tree) if isinstance(tree, exp.SetOperation) else self._select(select)

    # -- set operations --------------------------------------------------------------------------------

    def _set(self, select: Select, tree: exp.SetOperation) -> BoundSet:
        left, right = (self._bind_tree(unwrapped(side)) for side in (tree.this, tree.expression))
        start = extent(unwrapped(tree.expression)).start
        at = Span(start, start + len("SELECT"))
        if len(left.columns) != len(right.columns):
            reason = f"the first SELECT has {len(left.columns)} column(s), this one {len(right.columns)}"
            raise CqlError(f"{reason}: both must have as many", self._script, at)
        both = zip(left.columns, right.columns, strict=True)
        made = BoundSet(select, tree, left, right, tuple(self._common(one, other, at) for one, other in both))
        if not (tree.args.get("order") or tree.args.get("limit")):
            return made
        scope = Scope(self._script, FromColumns((SourceColumns.of_query(made.columns, UNION, UNION),)))
        columns = [SelectEntry(name, term, select.span) for name, term in scope.columns.visible]
        order = select_list.order(tree, scope, columns, {})
        return replace(made, order=tuple(order), limit=select_list.limit(tree, scope))

    def _common(self, left: tuple[str, pa.DataType], right: tuple[str, pa.DataType], at: Span) -> pa.DataType:
        type = common_type(left[1], right[1])
        if type is None:
            types = f"'{left[0]}' is {spark_name(left[1])} and '{right[0]}' is {spark_name(right[1])}"
            raise CqlError(f"{types}: CAST one of them", self._script, at)
        return type

    # -- one SELECT ------------------------------------------------------------------------------------

    def _select(self, select: Select) -> BoundSelect:
        return self._finished(self._body(select))

    def _finished(self, body: BoundSelect) -> BoundSelect:
        """Bind the clauses behind WHERE."""
        select, tree, scope = body.select, body.tree, body.scope
        if asks_for_items(tree):
            items = bind_items(select, tree, scope)
            return replace(body, entries=items.entries, keys=items.keys, items=items, columns=items.columns)
        scope = replace(scope, ask=self._asking(scope))
        written = select_list.entries(tree, scope)
        estimates = estimates_of(body.sources[0].relation)
        entries = with_bounds(tree, written, scope, estimates) if estimates else written
        grouping = select_list.group_keys(tree, scope, written)
        keys = grouping.keys
        return replace(
            body,
            entries=tuple(entries),
            keys=keys,
            sets=grouping.sets,
            having=select_list.having(tree, scope, entries, keys),
            qualify=select_list.qualify(tree, scope, entries),
            order=tuple(select_list.order(tree, scope, written, select_list.aliases(entries))),
            limit=select_list.limit(tree, scope),
            columns=_columns(entries),
        )

    def _body(self, select: Select, outer: FromColumns | None = None) -> BoundSelect:
        """Bind FROM and WHERE; `outer` are the columns of the query around a test's sub-query."""
        tree = check_shape(select)
        found = self.sources.bind(tree, outer)
        # The scope of WHERE has the names of the query around it, too.
        around = Scope(self._script, found.columns, user=self._user)
        is_over_answers = all(not isinstance(join.source.relation, Stream | Table) for join in found.joins)
        conditions, tests = _split_where(tree, around, self._asking(around) if is_over_answers else None)
        scope, own = _own_scope(around), {join.source.name for join in found.joins}
        ties = [_tie(condition, own, around) for condition in conditions if not sources_in(condition) <= own]
        return BoundSelect(
            select,
            tree,
            found.joins,
            scope,
            tuple(condition for condition in conditions if sources_in(condition) <= own),
            tuple(self._test(test, scope) for test in tests),
            tuple(ties),
        )

    def _asking(self, scope: Scope) -> Callable[[exp.Expr], AskedQuery]:
        """Binds the sub-queries of one SELECT's expressions, each once."""
        known: dict[int, AskedQuery] = {}

        def ask(query: exp.Expr) -> AskedQuery:
            if id(query) not in known:
                _refuse_ties(query, scope)
                known[id(query)] = self._asked(query, self._bind_tree(query))
            return known[id(query)]

        return ask

    def _asked(self, tree: exp.Expr, query: BoundSelect | BoundSet) -> AskedQuery:
        at = extent(tree)
        return AskedQuery(self.sources.name("query", at), self._script[at.start : at.end], query.columns, query)

    # -- tests against sub-queries ---------------------------------------------------------------------

    def _test(self, test: _WrittenTest, scope: Scope) -> BoundTest:
        if not isinstance(test.query, exp.Select) or self._is_grouped(test.query):
            _refuse_ties(test.query, scope)
            query = self._bind_tree(test.query)
            made, asked = BoundTest(query, test.node, test.negated, test.at, tied=False), self._asked(test.query, query)
            if test.value is None:
                return replace(made, condition=_condition("exists_query", (), asked, made))
            _check_one(len(query.columns), test, scope)
            ((name, type),) = query.columns
            other = Term("field", (), type, test.at, f"sub-query.{name}")
            one, other = _compared(test.value, other, scope)
            return replace(made, compared=(one, other), condition=_condition("in_query", (one,), asked, made))
        body = self._body(Select(test.query, self._script, extent(test.query)), scope.columns)
        made = BoundTest(body, test.node, test.negated, test.at)
        # Over answers the sub-query is one too, unless something ties it to the rows around.
        is_free = not body.ties and not any(isinstance(each.relation, Stream | Table) for each in body.sources)
        if test.value is None:
            _check_items(test.query, replace(body.scope, columns=replace(body.scope.columns, outer=scope.columns)))
            if not is_free:
                return made
            anything = SelectEntry("1", literal(1, pa.int32(), test.at), test.at)
            rows = replace(body, entries=(anything,), limit=select_list.limit(test.query, scope))
            asked = self._asked(test.query, replace(rows, columns=_columns([anything])))
            return replace(made, condition=_condition("exists_query", (), asked, made))
        entries = select_list.entries(test.query, body.scope)
        _check_one(len(entries), test, body.scope)
        compared = _compared(test.value, entries[0].term, body.scope)
        made = replace(made, compared=compared)
        if not is_free:
            return made
        asked = self._asked(test.query, self._finished(body))
        return replace(made, condition=_condition("in_query", compared[:1], asked, made))

    def _is_grouped(self, tree: exp.Select) -> bool:
        """Whether the rows are groups, which cannot be tied to the query around."""
        calls = {node.name.lower() for item in tree.expressions for node in item.find_all(exp.Anonymous)}
        is_aggregate = not calls.isdisjoint(aggregates.NAMES | self._user.keys())
        return bool(tree.args.get("group") or tree.args.get("having")) or is_aggregate


def _condition(op: str, values: tuple[Term, ...], asked: AskedQuery, test: BoundTest) -> Term:
    found = Term(op, values, BOOLEAN, test.at, asked)
    return negated(found) if test.negated else found


def _columns(entries: Collection[SelectEntry]) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((entry.name, entry.term.type) for entry in entries)


def _split_where(
    tree: exp.Select, scope: Scope, ask: Callable[[exp.Expr], AskedQuery] | None
) -> tuple[list[Term], list[_WrittenTest]]:
    """The conditions of WHERE, and its tests; aggregates stand in neither."""
    where = tree.args.get("where")
    inner = replace(scope.without_aggregates("cannot stand in WHERE; HAVING tests aggregates"), ask=ask)
    conditions: list[Term] = []
    tests: list[_WrittenTest] = []
    for part in conjuncts(where.this) if where is not None else []:
        test = _written_test(part, inner)
        if test is not None:
            tests.append(test)
            continue
        _refuse_inside(part, scope)
        condition = require_boolean(type_expression(part, inner), "WHERE", inner)
        conditions.extend(condition.args if condition.op == "and" else (condition,))
    return conditions, tests


def _own_scope(scope: Scope) -> Scope:
    """The scope without the query around it: only WHERE, and the SELECT list of EXISTS, may refer to that."""
    return replace(scope, columns=replace(scope.columns, outer=None))


def _written_test(node: exp.Expr, scope: Scope) -> _WrittenTest | None:
    inner, negated = node, False
    while isinstance(inner, exp.Not):
        inner, negated = inner.this.unnest(), not negated
    query = _query_of(inner)
    if query is None:
        return None
    negated ^= bool(inner.args.get("negate"))
    value = type_expression(inner.this, _own_scope(scope)) if isinstance(inner, exp.In) else None
    return _WrittenTest(query, inner, negated, value, _word(inner, query, scope))


def _query_of(node: exp.Expr) -> exp.Expr | None:
    """The sub-query of EXISTS or IN, without its parentheses."""
    query = node.args.get("query") if isinstance(node, exp.In) else node.this if isinstance(node, exp.Exists) else None
    return query.unnest() if isinstance(query, exp.Subquery) else query


def _refuse_inside(node: exp.Expr, scope: Scope) -> None:
    for part in node.find_all(exp.Exists, exp.In):
        query = _query_of(part)
        if query is not None:
            word = "IN" if isinstance(part, exp.In) else "EXISTS"
            reason = f"{word} (SELECT ..) is a condition of its own, joined to the others of WHERE by AND"
            raise scope.error(reason, _word(part, query, scope))


def _word(node: exp.Expr, query: exp.Expr, scope: Scope) -> Span:
    """The word IN or EXISTS, which sqlglot does not remember: the last one before the sub-query."""
    word = "IN" if isinstance(node, exp.In) else "EXISTS"
    start = scope.script.upper().rfind(word, 0, extent(query).start)
    return Span(start, start + len(word))


def _tie(condition: Term, own: Collection[str], scope: Scope) -> tuple[Term, Term]:
    """An equality as (the outer query's term, the sub-query's own)."""
    if condition.op == "eq":
        one, other = (cast_to(arg, type) for arg, type in zip(condition.args, condition.coerced, strict=True))
        for outer, inner in ((one, other), (other, one)):
            inside, outside = sources_in(inner), sources_in(outer)
            if inside and outside and inside <= set(own) and not outside & set(own):
                return outer, inner
    if not sources_in(condition) & set(own):
        raise scope.error("this speaks of the query around the sub-query alone: write it out there", condition.span)
    raise scope.error(_TIED, condition.span)


def _refuse_ties(tree: exp.Expr, scope: Scope) -> None:
    own = {table.alias_or_name.lower() for table in tree.find_all(exp.Table, exp.Subquery)}
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("table")
        if qualifier is not None and scope.columns.has(qualifier.name) and qualifier.name.lower() not in own:
            reason = "a sub-query with groups or set operations cannot speak of the query around it"
            raise scope.error(f"{reason}: compare with its answer, x IN (SELECT k .. GROUP BY k)", span_of(column))


def _compared(x: Term, y: Term, scope: Scope) -> tuple[Term, Term]:
    equality = compare("eq", x, y, scope)
    one, other = (cast_to(term, type) for term, type in zip((x, y), equality.coerced, strict=True))
    return one, other


def _check_one(count: int, test: _WrittenTest, scope: Scope) -> None:
    if count != 1:
        title = f"{'NOT ' if test.negated else ''}IN"
        raise scope.error(f"{title} compares with a sub-query of one column, this one has {count}", test.at)


def _check_items(tree: exp.Select, scope: Scope) -> None:
    """Check the names that EXISTS selects: they do not matter, but must exist, here or in the query around."""
    for item in tree.expressions:
        if not item.is_star:
            type_expression(item.unalias(), scope)
