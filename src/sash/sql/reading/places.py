"""Facts that the parser stores in the nodes of sqlglot's tree: the places of words, and CQL's own clauses."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sash.core.errors import Span
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.window_clause import WindowClause

_WINDOW, _BOUNDS, _APPROXIMATE, _END = "cql_window", "cql_bounds", "cql_approximate", "cql_end"
_WORD, _KEYS, _OUTPUT = "cql_word", "cql_keys", "cql_output"
_APPROX_AT, _GROUPS, _EDITS = "cql_approx_at", "cql_groups", "cql_edits"
_NAMED = "cql_named"


@dataclass(frozen=True)
class TextEdit:
    """A text in the place of what was written, in the CQL that a query of another system became."""

    span: Span
    text: str


def set_window(table: exp.Expr, clause: WindowClause | None) -> None:
    table.meta[_WINDOW] = clause


def window_clause(table: exp.Expr) -> WindowClause | None:
    """The window behind a stream's name, or behind a sub-query."""
    return table.meta.get(_WINDOW)


def set_output(node: exp.Expr, clause: OutputClause | None) -> None:
    node.meta[_OUTPUT] = clause


def output_of(query: exp.Expr) -> OutputClause | None:
    """The operator around a whole query, or around a SELECT list: then it is remembered in the list's first entry."""
    around = query.meta.get(_OUTPUT)
    if around is None and isinstance(query, exp.Select) and query.expressions:
        around = query.expressions[0].meta.get(_OUTPUT)
    return around


def set_bounds(select: exp.Expr, at: Span) -> None:
    select.meta[_BOUNDS] = at


def bounds_at(select: exp.Expr) -> Span | None:
    """Where WITH BOUNDS stands at the end of a SELECT."""
    return select.meta.get(_BOUNDS)


def set_approximate(having: exp.Expr) -> None:
    having.meta[_APPROXIMATE] = True


def is_approximate(having: exp.Expr) -> bool:
    """Whether it is HAVING APPROX."""
    return bool(having.meta.get(_APPROXIMATE))


def set_end(query: exp.Expr, end: int) -> None:
    query.meta.setdefault(_END, end)


def extent(query: exp.Expr) -> Span:
    """A whole query, from its first to its last character."""
    marked = span_of(query)
    return Span(query.meta.get("start", marked.start), query.meta.get(_END, marked.end))


def set_word(operation: exp.Expr, at: Span) -> None:
    operation.meta[_WORD] = at


def word_of_operation(operation: exp.Expr) -> Span:
    """Where UNION, EXCEPT or INTERSECT stands."""
    return operation.meta[_WORD]


def set_keys(operation: exp.Expr, keys: list[exp.Expr]) -> None:
    operation.meta[_KEYS] = keys


def keys_of(operation: exp.Expr) -> list[exp.Expr]:
    """The columns of ON (k, ..) behind a set operation; none where it compares whole rows."""
    return operation.meta.get(_KEYS) or []


def set_approx(operation: exp.Expr, at: Span | None) -> None:
    operation.meta[_APPROX_AT] = at


def approx_at(operation: exp.Expr) -> Span | None:
    """Where APPROX stands before a set operation's word."""
    return operation.meta.get(_APPROX_AT)


def set_groups(query: exp.Expr, number: exp.Expr | None) -> None:
    query.meta[_GROUPS] = number


def groups_of(query: exp.Expr) -> exp.Expr | None:
    """The n of GROUPS n, behind a set operation's word."""
    return query.meta.get(_GROUPS)


def set_edits(query: exp.Expr, edits: tuple[TextEdit, ...]) -> None:
    query.meta[_EDITS] = edits


def edits_of(query: exp.Expr) -> tuple[TextEdit, ...]:
    """What became of the text of a statement, where its tree was rewritten."""
    return query.meta.get(_EDITS) or ()


def set_named(query: exp.Expr, at: Span) -> None:
    """A query of WITH in the place of its name: its text is elsewhere."""
    query.meta.update({_NAMED: True, "start": at.start, "end": at.end - 1})


def span_of(node: exp.Expr) -> Span:
    """From the first to the last word that the parser marked in a tree."""
    parts = node.walk(prune=lambda part: bool(part.meta.get(_NAMED)))
    places = [(part.meta["start"], part.meta["end"] + 1) for part in parts if "start" in part.meta]
    if not places:
        return Span(0, 1)
    return Span(min(start for start, _ in places), max(end for _, end in places))


def word_of(node: exp.Expr) -> Span:
    """The node's own word, for example a function's name; else its whole extent."""
    if "start" in node.meta:
        return Span(node.meta["start"], node.meta["end"] + 1)
    return span_of(node)
