"""The clauses of a SELECT, whatever answers it; every other clause is refused at its word.

Clauses that only some plans have are refused where the plan is made (`panes`, `changes`).
"""

from __future__ import annotations

from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.sql.reading.places import extent, span_of
from sash.sql.reading.statements import Select

_CLAUSES = "expressions from_ joins where group having qualify order limit distinct"
_KNOWN = frozenset(_CLAUSES.split())
_NAMED = {
    "laterals": "LATERAL VIEW",
    "windows": "named windows (WINDOW w AS ..)",
    "offset": "OFFSET in a SELECT",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "hint": "hints",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "into": "SELECT INTO",
    "kind": "SELECT AS STRUCT",
}
SETS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
_GROUPINGS = {
    "rollup": "ROLLUP behind WITH; write GROUP BY ROLLUP(a, b)",
    "cube": "CUBE behind WITH; write GROUP BY CUBE(a, b)",
    "all": "GROUP BY ALL",
    "totals": "TOTALS",
}


def unwrapped(tree: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it, unless they carry clauses of their own."""
    while isinstance(tree, exp.Subquery) and has_only(tree, "this"):
        tree = tree.this
    return tree


def has_only(tree: exp.Expr, *clauses: str) -> bool:
    return all(key in clauses for key, value in tree.args.items() if value)


def check_shape(select: Select) -> exp.Select:
    """The tree, if it is one plain SELECT over streams, tables and sub-queries."""
    tree = select.tree
    if not isinstance(tree, exp.Select):
        raise NotSupportedError("anything but a plain SELECT", select.script, select.span)
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            what = _NAMED.get(key, f"{key.strip('_').upper()} in a SELECT")
            raise NotSupportedError(what, select.script, _place(select, key, value))
    _check_grouping(tree, select)
    _check_tables(tree, select)
    if not tree.expressions:
        raise CqlError("expected columns and aggregates after SELECT", select.script, head(select))
    return tree


def _check_grouping(tree: exp.Select, select: Select) -> None:
    group, order = tree.args.get("group"), tree.args.get("order")
    end = Span(select.span.end, select.span.end + 1)
    if order is not None and not order.expressions:
        raise CqlError("expected expressions after ORDER BY", select.script, end)
    if group is not None and not any(group.args.values()):
        raise CqlError("expected columns or expressions after GROUP BY", select.script, end)
    for key, what in _GROUPINGS.items():
        if group is not None and group.args.get(key):
            raise NotSupportedError(what, select.script, word_in(select, what.split()[0]))


def _check_tables(tree: exp.Select, select: Select) -> None:
    clause, joins = tree.args.get("from_"), tree.args.get("joins") or []
    if clause is None:
        raise CqlError(
            "expected FROM and a stream with a window", select.script, Span(select.span.end, select.span.end + 1)
        )
    for table in (clause.this, *(join.this for join in joins)):
        _check_table(table, select)


def _check_table(table: exp.Expr, select: Select) -> None:
    if isinstance(table, exp.Subquery):
        return
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise NotSupportedError("anything but a stream or a sub-query in FROM", select.script, span_of(table))
    if table.args.get("db"):
        raise CqlError("a stream has one name, without a dot", select.script, span_of(table))


def _place(select: Select, key: str, value: object) -> Span:
    if isinstance(value, list):
        return span_of(value[0])
    return word_in(select, {"sample": "TABLESAMPLE", "hint": "/*+"}.get(key, key.strip("_").upper()))


def word_in(select: Select, word: str) -> Span:
    """The place of a keyword; sqlglot does not store it, and the first one outside of sub-queries is near enough."""
    text = select.text.upper()
    for query in select.tree.find_all(exp.Select):
        if query is not select.tree and query.parent_select is select.tree:
            inner, begin = extent(query), select.span.start
            if inner.start < begin:
                # A query of WITH, which was written before this one.
                continue
            text = text[: inner.start - begin] + " " * (inner.end - inner.start) + text[inner.end - begin :]
    start = text.find(word)
    if start < 0:
        return head(select)
    return Span(select.span.start + start, select.span.start + start + len(word))


def head(select: Select) -> Span:
    return Span(select.span.start, select.span.start + len("SELECT"))
