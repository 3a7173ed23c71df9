"""Calls: functions of the allow-list and aggregates, by the name that was written."""

from __future__ import annotations

import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span, nearest
from sash.panes.aggregates import AGGREGATES, HOLISTIC
from sash.panes.partials import PARTIAL_KINDS
from sash.sql.expressions import aggregates
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS
from sash.sql.expressions.coercion import is_interval
from sash.sql.expressions.functions import FUNCTIONS, REFUSED, MisfitError, type_call
from sash.sql.expressions.scope import Scope, Typer
from sash.sql.expressions.terms import Term
from sash.sql.reading.places import word_of
from sash.sql.types import spark_name

_LATER = """
    any_value first last first_value last_value collect_list collect_set array_agg corr covar_pop covar_samp
    bool_and bool_or every some any count_if max_by min_by skewness kurtosis bit_and bit_or bit_xor listagg
    string_agg try_sum try_avg grouping grouping_id sum_distinct regr_slope regr_count count_min_sketch
    hll_sketch_agg
"""
# Spark's aggregates that are not supported, each with the nearest one.
_LATER_AGGREGATES: dict[str, str] = {
    **dict.fromkeys(_LATER.split(), ""),
    "percentile": "QUANTILE_CONT",
    "percentile_cont": "QUANTILE_CONT",
    "percentile_disc": "QUANTILE",
    "percentile_approx": "APPROX_QUANTILE",
    "approx_percentile": "APPROX_QUANTILE",
    "approx_top_k": "APPROX_TOP",
}
_STREAM_OPERATORS = ("istream", "dstream", "rstream", "wstream", "istream_restore", "rstream_restore")
_OVER = """
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value
"""
_WINDOW_FUNCTIONS = frozenset(_OVER.split())

# The names that a program may not give to an aggregate of its own.
FUNCTION_NAMES = frozenset(
    (
        *(*FUNCTIONS, *REFUSED, *AGGREGATES, *HOLISTIC, *aggregates.NAMES, *ITEM_FUNCTIONS, *PARTIAL_KINDS),
        *(*_LATER_AGGREGATES, *_STREAM_OPERATORS, *_WINDOW_FUNCTIONS),
    )
)


def type_call_node(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    name, word = node.name.lower(), word_of(node)
    if name in scope.user:
        return aggregates.type_user_aggregate(node, scope.user[name], scope, typed)
    if name in aggregates.NAMES:
        return aggregates.type_aggregate(node, scope, typed)
    if name not in FUNCTIONS:
        raise _refusal(node.name, scope, word)
    args = tuple(typed(arg, scope) for arg in node.expressions)
    return type_function(name, args, scope, word)


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
        return scope.unsupported("window functions (OVER)", word)
    if name in REFUSED:
        return scope.error(f"{name.upper()} is refused: {REFUSED[name]}", word)
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
    return Term(name, args, type, span, coerced=coerced)
