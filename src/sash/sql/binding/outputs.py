"""How a continuous query gives its answer: Istream, Dstream, Rstream, Wstream, and windows on sub-queries.

    Istream, Dstream   Deltas <- plan                       Rstream   the plan itself: a relation, kept up to date
    Wstream            ResultWindow <- Outliving <- plan    (SELECT ..) [ROWS 10] a   ResultWindow <- the SELECT's plan

Where windows slide, the answer is given at the multiples of SLIDE:

    Rstream            Sampled <- plan                      Istream           Deltas <- Sampled <- plan
    Rstream_restore    Sampled, restoring <- plan           Istream_restore   Sampled <- Deltas <- plan

An aggregate over a window of results needs no sub-query in the text. The first is bound as the second, where the
windows below are internal:

    SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM s [RANGE 6 sec SLIDE 6 sec]
    SELECT SUM(x) FROM (SELECT SUM(a) AS x FROM s [RANGE 6 sec SLIDE 6 sec INTERNAL]) [ROWS 10] wstream
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow.types as pt
from sqlglot import exp

from sash.core.changes import UpdatePattern
from sash.core.errors import NEEDS_REGISTRATION, CqlError, NotSupportedError, nearest
from sash.plan.continuous import (
    Distinct,
    GroupBy,
    Intersection,
    LeftRelationJoin,
    Negation,
    Node,
    OuterJoin,
    edges,
)
from sash.plan.outputs import DSTREAM, ISTREAM, Deltas, Outliving, ResultWindow, Sampled
from sash.sql.binding.shape import word_in
from sash.sql.binding.sources import ChangeScope
from sash.sql.reading.cursor import Name
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import output_of, set_output, set_window, window_clause
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause
from sash.sql.types import spark_name

_MONOTONIC = UpdatePattern.MONOTONIC
_RESULT, _RESULTS = "x", "wstream"
_LATEST = (
    "an aggregate over an external window has nothing but its latest value, which cannot be windowed: "
    "make its window INTERNAL, [RANGE 6 sec INTERNAL]"
)
_ENDING = (
    "the results of this sub-query end with their windows: make these INTERNAL, [RANGE 1 min INTERNAL], "
    "or write SELECT Istream(..)"
)


def with_output(node: Node, clause: OutputClause | None, query: ChangeScope) -> Node:
    """The plan of a query from the plan of its relation."""
    if clause is None or clause.kind == "rstream":
        _refuse_restore(clause, query)
        return node
    if clause.kind == "wstream":
        return _windowed_output(node, clause, query)
    _refuse_restore(clause, query)
    return _deltas(node, clause, query)


def with_sampling(node: Node, clause: OutputClause | None, query: ChangeScope) -> Node:
    """The same at the multiples of SLIDE."""
    assert query.slide is not None
    slide, offset = query.slide
    if clause is None or clause.kind == "rstream":
        return Sampled(node, slide, offset, clause is not None and clause.restore)
    if clause.kind == "wstream":
        what = "Wstream(..) over windows that slide; leave out SLIDE, and the output window follows every result"
        raise NotSupportedError(what, query.script, clause.at)
    if clause.restore or node.pattern is _MONOTONIC:
        return Sampled(_deltas(node, clause, query), slide, offset)
    return _deltas(Sampled(node, slide, offset), clause, query)


def _refuse_restore(clause: OutputClause | None, query: ChangeScope) -> None:
    if clause is not None and clause.restore:
        reason = "without SLIDE nothing is lost that could be restored"
        way_out = f"write {clause.kind.capitalize()}, or add SLIDE to all windows"
        raise CqlError(f"{reason}: {way_out}", query.script, clause.at)


def _deltas(node: Node, clause: OutputClause, query: ChangeScope) -> Node:
    nested = next((column for column in node.schema if pt.is_nested(column.type)), None)
    if nested is not None:
        what = f"{clause.title} of {spark_name(nested.type)} (column '{nested.name}')"
        raise NotSupportedError(what, query.script, clause.at)
    if clause.kind == DSTREAM and node.pattern is _MONOTONIC:
        reason = "the results of this query never end, and Dstream would have nothing to say: write Istream"
        raise CqlError(reason, query.script, clause.at)
    return Deltas(node, ISTREAM if clause.kind == "istream" else DSTREAM)


def _windowed_output(node: Node, clause: OutputClause, query: ChangeScope) -> Node:
    assert clause.window is not None
    if clause.window.window.unbounded:
        raise CqlError("an output window has an end: Istream(*) gives every result", query.script, clause.window.span)
    for operator, why in _unwindowable(node):
        reason = f"Wstream over {operator} is refused: in a window over its results there could be {why}"
        raise CqlError(reason, query.script, clause.at)
    results = node if node.pattern is _MONOTONIC else Outliving(node)
    return _over(results, clause.window, query)


def _unwindowable(node: Node) -> Iterator[tuple[str, str]]:
    for _, part in edges(node):
        if isinstance(part, Distinct):
            yield "DISTINCT", "the same row twice"
        if isinstance(part, Negation | Intersection):
            negated = isinstance(part, Negation)
            word = "NOT EXISTS, NOT IN or EXCEPT" if negated else "EXISTS, IN or INTERSECT"
            yield word, f"rows that have {'got a' if negated else 'lost their'} match meanwhile"
        if isinstance(part, OuterJoin | LeftRelationJoin):
            yield "an outer join", "rows without a match that have got one meanwhile"


def windowed_results(node: Node, clause: WindowClause, query: ChangeScope) -> Node:
    """A window behind a sub-query: over the stream of its results, which must not end by themselves (thesis 3.4)."""
    if node.pattern is not _MONOTONIC:
        grouped = any(isinstance(part, GroupBy) for _, part in edges(node))
        raise CqlError(_LATEST if grouped else _ENDING, query.script, clause.span)
    return node if clause.window.unbounded else _over(node, clause, query)


def _over(node: Node, clause: WindowClause, query: ChangeScope) -> ResultWindow:
    at = clause.slide_at or clause.lag_at
    if at is not None:
        word = "SLIDE" if clause.slide_at is not None else "LAG"
        raise CqlError(f"a window on results follows every result: leave out {word}", query.script, at)
    if clause.internal_at is not None:
        raise NotSupportedError("INTERNAL windows on results", query.script, clause.internal_at)
    columns = dict.fromkeys(_column(node, name, query) for name in clause.partition)
    return ResultWindow(node, clause.window, tuple(columns))


def _column(node: Node, name: Name, query: ChangeScope) -> str:
    found = next((column for column in node.schema if column.name.lower() == name.text.lower()), None)
    if found is None:
        raise CqlError(f"unknown column '{name.text}'{nearest(name.text, node.schema.names)}", query.script, name.span)
    if pt.is_nested(found.type):
        raise NotSupportedError(f"PARTITION BY of {spark_name(found.type)}", query.script, name.span)
    return str(found.name)


def refuse_output(clause: OutputClause | None, script: str, where: str) -> None:
    """Refuse an output clause: Rstream(..) is the relation itself; every other operator makes a stream of it."""
    if clause is not None and (clause.kind != "rstream" or clause.restore):
        raise CqlError(f"{clause.title}(..) cannot stand in {where}: there is no answer to give", script, clause.at)


def is_own(clause: OutputClause | None) -> bool:
    """Whether it is Rstream(..), the output of a periodic query and a question anyway."""
    return clause is not None and (clause.kind != "rstream" or clause.restore or clause.distinct is not None)


def refuse_outputs(select: Select, *, periodic: bool) -> None:
    """Refuse output clauses in queries that panes answer, and in questions: there only Rstream has a meaning."""
    queries = [select.tree, *select.tree.find_all(exp.Select, exp.Subquery)]
    for query in queries:
        clause = output_of(query)
        if clause is not None and is_own(clause):
            where = "a query that is answered from panes" if periodic else "a one-time query"
            reason = f"{clause.title}(..) speaks of changes, and {where} has none: REGISTER QUERY a continuous one"
            raise CqlError(reason, select.script, clause.at, NEEDS_REGISTRATION)
    for query in queries:
        window = window_clause(query) if isinstance(query, exp.Subquery) else None
        if window is not None:
            reason = "a window on a sub-query is over its results as they come: REGISTER QUERY a continuous query"
            raise CqlError(reason, select.script, window.span, NEEDS_REGISTRATION)


def is_aggregate_of_results(tree: exp.Expr) -> bool:
    clause = output_of(tree)
    return clause is not None and clause.around is not None


def aggregate_of_results(select: Select) -> exp.Select:
    """The nested query for such an aggregate."""
    clause = select.output
    assert clause is not None and clause.around is not None
    for key, word in (("group", "GROUP BY"), ("having", "HAVING")):
        if select.tree.args.get(key) is not None:
            what = f"{word} beside an aggregate of results; write the sub-query, (SELECT .. INTERNAL]) [ROWS 10] a"
            raise NotSupportedError(what, select.script, word_in(select, word))
    inner = select.tree.copy()
    first = inner.expressions[0]
    set_output(first, None)
    inner.set("expressions", [exp.alias_(first.unalias().copy(), _RESULT), *inner.expressions[1:]])
    for table in inner.find_all(exp.Table):
        window = window_clause(table)
        if window is not None:
            set_window(table, replace(window, internal_at=clause.at))
    sub_query = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_RESULTS)))
    sub_query.meta.update(_place_of(clause))
    set_window(sub_query, clause.window)
    return exp.Select(expressions=[_aggregate_of_column(clause)], from_=exp.From(this=sub_query))


def _aggregate_of_column(clause: OutputClause) -> exp.Expr:
    assert clause.around is not None
    function = clause.around.function
    column = exp.Column(this=exp.to_identifier(_RESULT))
    call = exp.Anonymous(this=function.text, expressions=[column])
    for node in (column, call):
        node.meta.update(start=function.span.start, end=function.span.end - 1)
    alias = clause.around.alias or f"{function.text.lower()}_of_results"
    return exp.Alias(this=call, alias=exp.to_identifier(alias))


def _place_of(clause: OutputClause) -> dict[str, int]:
    return {"start": clause.at.start, "end": clause.at.end - 1}
