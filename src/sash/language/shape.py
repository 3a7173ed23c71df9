"""What a SELECT may consist of in this version; every other clause is refused at its word."""

from __future__ import annotations

from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.language.dialect import span_of
from sash.language.statements import Select

_KNOWN = frozenset(("expressions", "from_", "where", "group", "having", "order", "limit"))
_NAMED = {
    "distinct": "SELECT DISTINCT",
    "joins": "joins",
    "laterals": "LATERAL VIEW",
    "with_": "common table expressions (WITH)",
    "windows": "named windows (WINDOW w AS ..)",
    "qualify": "QUALIFY",
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
_SETS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
_GROUPINGS = {
    "rollup": "ROLLUP",
    "cube": "CUBE",
    "grouping_sets": "GROUPING SETS",
    "all": "GROUP BY ALL",
    "totals": "TOTALS",
}


def check_shape(select: Select) -> exp.Select:
    """The tree, if it is one plain SELECT over one stream."""
    tree = select.tree
    if type(tree) in _SETS:
        raise NotSupportedError(_SETS[type(tree)], select.script, _word(select, _SETS[type(tree)]))
    if not isinstance(tree, exp.Select):
        raise NotSupportedError("anything but a plain SELECT", select.script, select.span)
    for key, value in tree.args.items():
        if value and key not in _KNOWN:
            what = _NAMED.get(key, f"{key.strip('_').upper()} in a SELECT")
            raise NotSupportedError(what, select.script, _place(select, key, value))
    _check_grouping(tree, select)
    _check_table(tree, select)
    if not tree.expressions:
        raise CqlError("expected columns and aggregates after SELECT", select.script, _head(select))
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
            raise NotSupportedError(what, select.script, _word(select, what.split()[0]))


def _check_table(tree: exp.Select, select: Select) -> None:
    clause = tree.args.get("from_")
    if clause is None:
        raise CqlError(
            "expected FROM and a stream with a window", select.script, Span(select.span.end, select.span.end + 1)
        )
    if not isinstance(clause.this, exp.Table) or not isinstance(clause.this.this, exp.Identifier):
        raise NotSupportedError("sub-queries in FROM", select.script, span_of(clause.this))
    if clause.this.args.get("db"):
        raise CqlError("a stream has one name, without a dot", select.script, span_of(clause.this))


def _place(select: Select, key: str, value: object) -> Span:
    if isinstance(value, list):
        return span_of(value[0])
    return _word(select, {"sample": "TABLESAMPLE", "hint": "/*+"}.get(key, key.strip("_").upper()))


def _word(select: Select, word: str) -> Span:
    """Where a keyword stands; sqlglot does not remember, and the first one outside of quotes is near enough."""
    start = select.text.upper().find(word)
    if start < 0:
        return _head(select)
    return Span(select.span.start + start, select.span.start + start + len(word))


def _head(select: Select) -> Span:
    return Span(select.span.start, select.span.start + len("SELECT"))
