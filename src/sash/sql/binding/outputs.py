"""How a continuous query gives its answer: Istream, Dstream, Rstream, Wstream, and windows on sub-queries.

    Istream, Dstream   Deltas <- plan                       Rstream   the plan itself: a relation, kept up to date
    Wstream            ResultWindow <- Outliving <- plan    (SELECT ..) [ROWS 10] a   ResultWindow <- the SELECT's plan

Where windows slide, the answer is given at the multiples of SLIDE:

    Rstream            Sampled <- plan                      Istream           Deltas <- Sampled <- plan
    Rstream_restore    Sampled, restoring <- plan           Istream_restore   Sampled <- Deltas <- plan
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.types as pt
from sqlglot import exp

from sash.core.changes import UpdatePattern
from sash.core.errors import NEEDS_REGISTRATION, CqlError, NotSupportedError, nearest
from sash.plan.continuous import Distinct, GroupBy, Intersection, Negation, Node, edges
from sash.plan.outputs import DSTREAM, ISTREAM, Deltas, Outliving, ResultWindow, Sampled
from sash.sql.binding.sources import ChangeScope
from sash.sql.reading.cursor import Name
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import output_of, window_clause
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause
from sash.sql.types import spark_name

_MONOTONIC = UpdatePattern.MONOTONIC
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
