"""Calls: functions of the allow-list and aggregates, by the name that was written."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span, nearest
from sash.core.user_function import UserFunction
from sash.panes.aggregates import AGGREGATES, HOLISTIC
from sash.panes.partials import PARTIAL_KINDS
from sash.sql.expressions import aggregates
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS
from sash.sql.expressions.answer_terms import EVALUATED_BY
from sash.sql.expressions.functions import CASTS, FUNCTIONS, REFUSED, MisfitError, absence, type_call
from sash.sql.expressions.scope import WINDOW_FUNCTIONS, Scope, Typer, type_window_function
from sash.sql.expressions.terms import Term, asked_in
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

# The operations that cannot fail; what fails of a program's function is part of its result.
_SAFE = """
    field literal user_function try_cast try_add try_subtract try_multiply try_divide
    upper lower trim length concat coalesce nvl ifnull nullif case if in between
    eq ne lt le gt ge null_safe_eq and or not is_null is_not_null
"""
_NO_ERRORS = frozenset(_SAFE.split())

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
    user = scope.user.get(name)
    if isinstance(user, UserFunction):
        return _type_user_function(node, user, scope, typed)
    if user is not None:
        return aggregates.type_user_aggregate(node, user, scope, typed)
    if name in GROUPING_FUNCTIONS:
        return _type_grouping(node, scope, typed, name)
    if name in aggregates.NAMES:
        return aggregates.type_aggregate(node, scope, typed)
    if name not in FUNCTIONS:
        raise _refusal(node.name, scope, word)
    args = tuple(typed(arg, scope) for arg in node.expressions)
    return type_function(name, args, scope, word)


def _type_user_function(node: exp.Expr, user: UserFunction, scope: Scope, typed: Typer) -> Term:
    """A function that the program has made: Spark calls it for each tuple."""
    word, title = word_of(node), user.name.upper()
    if any(isinstance(argument, exp.Star | exp.Distinct) for argument in node.expressions):
        raise scope.error(f"{title} needs columns: neither * nor DISTINCT", word)
    if not node.expressions or not user.takes(len(node.expressions)):
        given = f"{len(node.expressions)} argument{'s' * (len(node.expressions) != 1)}"
        raise scope.error(f"{title} cannot be called with {given}: its Python function takes others", word)
    arguments = tuple(typed(argument, scope) for argument in node.expressions)
    for argument in arguments:
        if pt.is_null(argument.type):
            raise scope.error(f"{title} needs a type: write CAST(NULL AS ..)", argument.span)
        if is_interval(argument.type) or pt.is_nested(argument.type):
            raise scope.unsupported(f"{spark_name(argument.type)} as an argument of {title}", argument.span)
        if not argument.has_aggregate and not asked_in(argument) and not _never_raises(argument):
            reason = (
                f"an argument of {title} may raise an error, and {title} is called for tuples that WHERE leaves out"
            )
            raise scope.error(
                f"{reason}, too: compute it inside {title}, or by TRY_CAST, try_divide and their like", argument.span
            )
    return Term("user_function", arguments, user.returns, word, user.name)


def _never_raises(term: Term) -> bool:
    """Whether evaluating a term cannot fail, on any tuple."""
    # Spark casts arguments to the types that it needs; only a text may be no value of such a type.
    pairs = zip(term.args, term.coerced, strict=False)
    casts = term.op != "try_cast" and any(pt.is_string(arg.type) and not pt.is_string(to) for arg, to in pairs)
    return term.op in _NO_ERRORS and not casts and all(map(_never_raises, term.args))


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
