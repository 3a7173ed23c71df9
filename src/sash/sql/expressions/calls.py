"""Calls: functions of the allow-list and aggregates, by the name that was written."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span, nearest
from sash.panes.aggregates import AGGREGATES, HOLISTIC
from sash.panes.partials import PARTIAL_KINDS
from sash.sql.expressions import aggregates
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS
from sash.sql.expressions.answer_terms import EVALUATED_BY
from sash.sql.expressions.functions import CASTS, FUNCTIONS, REFUSED, MisfitError, absence, type_call
from sash.sql.expressions.scope import WINDOW_FUNCTIONS, Scope, Typer, type_window_function
from sash.sql.expressions.terms import Term
from sash.sql.reading.places import word_of
from sash.sql.types import is_interval, spark_name

_LATER = """
    try_sum try_avg sum_distinct count_min_sketch
    hll_sketch_agg
"""
# Spark's aggregates that are not supported, each with the nearest one.
_LATER_AGGREGATES: dict[str, str] = {
    **dict.fromkeys(_LATER.split(), ""),
    "approx_top_k": "APPROX_TOP",
}
_STREAM_OPERATORS = ("istream", "dstream", "rstream", "wstream", "istream_restore", "rstream_restore")
_OVER = """
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value counter_diff
"""
_WINDOW_FUNCTIONS = frozenset(_OVER.split())

GROUPING_FUNCTIONS = {"grouping": pa.int8(), "grouping_id": pa.int64()}

# The names that a program may not give to an aggregate of its own.
FUNCTION_NAMES = frozenset(
    (
        *(*FUNCTIONS, *REFUSED, *AGGREGATES, *HOLISTIC, *aggregates.NAMES, *ITEM_FUNCTIONS, *PARTIAL_KINDS),
        *(*_LATER_AGGREGATES, *_STREAM_OPERATORS, *_WINDOW_FUNCTIONS, *WINDOW_FUNCTIONS, *GROUPING_FUNCTIONS),
    )
)


def function_kinds() -> dict[str, str]:
    """What may be called, by name: functions of tuples, some of them also of answers, aggregates, lists of items."""
    both = {name: f"function of tuples{' and answers' if name in EVALUATED_BY else ''}" for name in FUNCTIONS}
    return both | dict.fromkeys(aggregates.NAMES, "aggregate") | dict.fromkeys(ITEM_FUNCTIONS, "list of items")


def type_call_node(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    name, word = node.name.lower(), word_of(node)
    if name in WINDOW_FUNCTIONS:
        return type_window_function(node, scope)
    if name in scope.user:
        return aggregates.type_user_aggregate(node, scope.user[name], scope, typed)
    if name in GROUPING_FUNCTIONS:
        return _type_grouping(node, scope, typed, name)
    if name in aggregates.NAMES:
        return aggregates.type_aggregate(node, scope, typed)
    if name not in FUNCTIONS:
        raise _refusal(node.name, scope, word)
    args = tuple(typed(arg, scope) for arg in node.expressions)
    return type_function(name, args, scope, word)


def _type_grouping(node: exp.Expr, scope: Scope, typed: Typer, name: str) -> Term:
    """GROUPING(k) and GROUPING_ID(k, ..): which keys a grouping set lacks."""
    word = word_of(node)
    scope.check_aggregate(name.upper(), word)
    if not node.expressions or (name == "grouping" and len(node.expressions) > 1):
        keys = "one key of GROUP BY" if name == "grouping" else "keys of GROUP BY"
        raise scope.error(f"{name.upper()} takes {keys}", word)
    inner = scope.without_aggregates(f"cannot stand inside {name.upper()}")
    return Term(name, tuple(typed(each, inner) for each in node.expressions), GROUPING_FUNCTIONS[name], word)


def _refusal(written: str, scope: Scope, word: Span) -> CqlError:
    name = written.lower()
    if name in ITEM_FUNCTIONS:
        scope.check_aggregate(written.upper(), word)
        return scope.error(
            f"{name.upper()} gives one row per item, so it stands by itself in the SELECT list; "
            "compute with its columns in a SELECT around it: FROM (SELECT .. ) a",
            word,
        )
    if name in _LATER_AGGREGATES:
        near = _LATER_AGGREGATES[name]
        return scope.unsupported(f"the aggregate {name.upper()}{f'; {near} comes near' if near else ''}", word)
    if name in _STREAM_OPERATORS:
        return scope.error(f"{name.capitalize()}(..) stands around the whole SELECT list, or around the SELECT", word)
    if name in _WINDOW_FUNCTIONS:
        return scope.error(f"{name.upper()} needs OVER: {name.upper()}(..) OVER (PARTITION BY .. ORDER BY ..)", word)
    if name in REFUSED:
        return scope.error(f"{name.upper()} is refused: {REFUSED[name]}", word)
    missing = absence(name)
    if missing is not None:
        return scope.unsupported(f"{name.upper()}, {missing}", word)
    known = [known.upper() for known in (*FUNCTIONS, *aggregates.NAMES, *ITEM_FUNCTIONS, *scope.user)]
    hint = nearest(name, known).split("; known")[0]  # the list of all of them would help nobody
    return scope.error(f"unknown function '{written}'{hint}", word)


def type_function(name: str, args: tuple[Term, ...], scope: Scope, word: Span) -> Term:
    kinds, result = FUNCTIONS[name]
    for arg in args:
        if is_interval(arg.type) or pt.is_nested(arg.type):
            raise scope.unsupported(f"{spark_name(arg.type)} as an argument of {name.upper()}", arg.span)
    try:
        type, coerced = type_call(name, kinds, result, args)
    except MisfitError as misfit:
        raise scope.error(str(misfit), misfit.span or word) from None
    span = Span(min(word.start, *(arg.span.start for arg in args)), word.end) if args else word
    return Term("cast" if name in CASTS else name, args, type, span, coerced=coerced)
