"""Calls: functions of the allow-list and aggregates, by the name that was written."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span, nearest
from sash.language.coercion import is_interval
from sash.language.dialect import span_of, word_of
from sash.language.function_rules import MisfitError, type_call
from sash.language.functions import FUNCTIONS, REFUSED
from sash.language.scope import Scope
from sash.language.terms import Term, render
from sash.language.types import spark_name
from sash.synopses.aggregates import AGGREGATES

_SYNONYMS = {"mean": "avg", "var_samp": "variance", "stddev_samp": "stddev", "std": "stddev"}
_LATER = """
    median quantile top frequent histogram approx_count_distinct approx_quantile approx_top mode count_min
    percentile percentile_approx approx_percentile percentile_cont percentile_disc any_value first last
    first_value last_value collect_list collect_set array_agg corr covar_pop covar_samp bool_and bool_or every
    some any count_if max_by min_by skewness kurtosis bit_and bit_or bit_xor listagg string_agg try_sum try_avg
    grouping grouping_id sum_distinct regr_slope regr_count count_min_sketch hll_sketch_agg
"""
_LATER_AGGREGATES = frozenset(_LATER.split())
_OVER = """
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value
"""
_WINDOW_FUNCTIONS = frozenset(_OVER.split())
Typer = Callable[[exp.Expr, Scope], Term]


def type_call_node(node: exp.Expr, scope: Scope, type_expression: Typer) -> Term:
    name, word = node.name.lower(), word_of(node)
    if name in AGGREGATES or name in _SYNONYMS:
        return _aggregate(node, scope, type_expression)
    if name in _LATER_AGGREGATES:
        raise scope.unsupported(f"the aggregate {name.upper()}", word)
    if name in _WINDOW_FUNCTIONS:
        raise scope.unsupported("window functions (OVER)", word)
    if name in REFUSED:
        raise scope.error(f"{name.upper()} is refused: {REFUSED[name]}", word)
    if name not in FUNCTIONS:
        known = [known.upper() for known in (*FUNCTIONS, *AGGREGATES)]
        raise scope.error(f"unknown function '{node.name}'{_hint(name, known)}", word)
    args = tuple(type_expression(arg, scope) for arg in node.expressions)
    return type_function(name, args, scope, word)


def _hint(name: str, known: list[str]) -> str:
    """The nearest name; the list of all of them would help nobody."""
    return nearest(name, known).split("; known")[0]


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


def _aggregate(node: exp.Expr, scope: Scope, type_expression: Typer) -> Term:
    written, word = node.name.lower(), word_of(node)
    name = _SYNONYMS.get(written, written)
    if scope.no_aggregates:
        raise scope.error(f"the aggregate {name.upper()} {scope.no_aggregates}", word)
    _refuse_modifiers(node, scope)
    if len(node.expressions) != 1:
        raise scope.error(f"{name.upper()} takes 1 argument, got {len(node.expressions)}", word)
    inner = scope.without_aggregates(f"cannot stand inside {name.upper()}")
    argument = None if _is_star(node.expressions[0]) else type_expression(node.expressions[0], inner)
    if name == "count" and argument is not None and argument.op == "literal" and argument.value is not None:
        argument = None
    return _typed_aggregate(name, argument, scope, word, span_of(node.expressions[0]))


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star)


def _refuse_modifiers(node: exp.Expr, scope: Scope) -> None:
    for arg in node.expressions:
        if isinstance(arg, exp.Distinct):
            raise scope.unsupported(f"{node.name.upper()}(DISTINCT ..)", word_of(node))


def _typed_aggregate(name: str, argument: Term | None, scope: Scope, word: Span, at: Span) -> Term:
    if argument is not None and pt.is_null(argument.type) and name != "count":
        raise scope.error(f"{name.upper()} needs a type: write CAST(NULL AS ..)", at)
    if argument is not None and is_interval(argument.type):
        raise scope.unsupported(f"{name.upper()} of intervals", at)
    try:
        type = AGGREGATES[name].result_type(argument.type if argument is not None else None)
    except ValueError as reason:
        raise _misfit(str(reason), argument, scope, at) from None
    return Term("aggregate", (argument,) if argument is not None else (), type, word, name)


def _misfit(reason: str, argument: Term | None, scope: Scope, at: Span) -> CqlError:
    given = "" if argument is None else f", but '{render(argument)}' is {spark_name(argument.type)}"
    return scope.error(f"{reason}{given}", at)
