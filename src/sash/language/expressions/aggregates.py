"""Aggregates that give one value per group: what they take, and the types of their answers.

Distributive and algebraic ones (SUM, AVG, ..) are typed by their own classes. The others are typed by the table below,
so that a query can be bound without knowing how an aggregate is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span
from sash.language.expressions import constants
from sash.language.expressions.coercion import is_interval, is_number
from sash.language.expressions.scope import Scope, Typer
from sash.language.expressions.terms import Term, render
from sash.language.reading.places import span_of, word_of
from sash.language.types import spark_name
from sash.plan.nodes import Parameter
from sash.synopses.aggregates import AGGREGATES

SYNONYMS = {"mean": "avg", "var_samp": "variance", "stddev_samp": "stddev", "std": "stddev"}
ALGEBRAIC = ("sum", "count", "avg", "min", "max", "variance", "var_pop", "stddev", "stddev_pop")
_FRACTION, _VALUE = "fraction", "value"


@dataclass(frozen=True)
class AggregateRule:
    """Whether it wants numbers, its answer's type (None: that of its argument), and the kind of its constant."""

    numbers: bool = False
    result: pa.DataType | None = None
    parameter: str = ""
    instead: str = ""

    @property
    def arity(self) -> int:
        return 2 if self.parameter else 1


_RULES: dict[str, AggregateRule] = {
    "count_distinct": AggregateRule(result=pa.int64()),
    "median": AggregateRule(numbers=True, result=pa.float64(), instead="QUANTILE({}, 0.5)"),
    "quantile": AggregateRule(parameter=_FRACTION),
    "quantile_cont": AggregateRule(numbers=True, result=pa.float64(), parameter=_FRACTION, instead="QUANTILE({}, p)"),
    "mode": AggregateRule(),
    "approx_count_distinct": AggregateRule(result=pa.int64()),
    "approx_quantile": AggregateRule(numbers=True, result=pa.float64(), parameter=_FRACTION, instead="QUANTILE({}, p)"),
    "count_min": AggregateRule(result=pa.int64(), parameter=_VALUE),
}
APPROXIMATE = ("approx_count_distinct", "approx_quantile", "count_min")
# The names that a query may write.
NAMES = frozenset((*ALGEBRAIC, *SYNONYMS, *_RULES)) - {"count_distinct"}


def type_aggregate(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    written, word = node.name.lower(), word_of(node)
    name = SYNONYMS.get(written, written)
    scope.check_aggregate(name.upper(), word)
    if any(isinstance(argument, exp.Distinct) for argument in node.expressions):
        return _count_distinct(node, name, scope, typed)
    rule = _RULES.get(name)
    arity = rule.arity if rule is not None else 1
    if len(node.expressions) != arity:
        plural = "s" if arity > 1 else ""
        raise scope.error(f"{name.upper()} takes {arity} argument{plural}, got {len(node.expressions)}", word)
    inner = scope.without_aggregates(f"cannot stand inside {name.upper()}")
    first, *others = node.expressions
    argument = None if isinstance(first, exp.Star) else typed(first, inner)
    if rule is None:
        return _old_aggregate(name, argument, scope, word, span_of(first))
    argument = _checked(name, argument, rule, scope, span_of(first))
    constant = tuple(_parameter(name, part, argument, inner, typed) for part in others)
    return Term("aggregate", (argument, *constant), rule.result or argument.type, word, name)


def _count_distinct(node: exp.Expr, name: str, scope: Scope, typed: Typer) -> Term:
    values = [value for argument in node.expressions for value in (argument.expressions or [argument])]
    if name != "count":
        raise scope.unsupported(f"{name.upper()}(DISTINCT ..)", word_of(node))
    if len(values) != 1 or isinstance(values[0], exp.Star):
        raise scope.unsupported("COUNT(DISTINCT ..) of several columns", word_of(node))
    inner = scope.without_aggregates("cannot stand inside COUNT")
    argument = _checked("count_distinct", typed(values[0], inner), _RULES["count_distinct"], scope, span_of(values[0]))
    return Term("aggregate", (argument,), pa.int64(), word_of(node), "count_distinct")


def _old_aggregate(name: str, argument: Term | None, scope: Scope, word: Span, at: Span) -> Term:
    if name == "count" and argument is not None and argument.op == "literal" and argument.value is not None:
        argument = None
    if argument is not None and (name != "count" or is_interval(argument.type)):
        _check_typed(_title(name), argument, scope, at)
    try:
        type = AGGREGATES[name].result_type(argument.type if argument is not None else None)
    except ValueError as reason:
        raise _misfit(str(reason), argument, scope, at) from None
    return Term("aggregate", (argument,) if argument is not None else (), type, word, name)


def _checked(name: str, argument: Term | None, rule: AggregateRule, scope: Scope, at: Span) -> Term:
    title = _title(name)
    if argument is None:
        raise scope.error(f"{title}(*) has no meaning: {title} needs a column", at)
    _check_typed(title, argument, scope, at)
    if rule.numbers and not is_number(argument.type):
        ordered = not pt.is_nested(argument.type)
        hint = f"{rule.instead.format(render(argument))} takes any type with an order" if ordered else ""
        raise _misfit(f"{title} needs a number", argument, scope, at, hint)
    if pt.is_nested(argument.type):
        raise scope.unsupported(f"{title} of {spark_name(argument.type)}", at)
    return argument


def _check_typed(title: str, argument: Term, scope: Scope, at: Span) -> None:
    if pt.is_null(argument.type):
        raise scope.error(f"{title} needs a type: write CAST(NULL AS ..)", at)
    if is_interval(argument.type):
        raise scope.unsupported(f"{title} of intervals", at)


def _title(name: str) -> str:
    return "COUNT(DISTINCT ..)" if name == "count_distinct" else name.upper()


def _parameter(name: str, node: exp.Expr, argument: Term, scope: Scope, typed: Typer) -> Term:
    if _RULES[name].parameter == _FRACTION:
        return constants.fraction(node, name.upper(), scope)
    return constants.of_type(typed(node, scope), argument.type, name.upper(), scope)


def _misfit(reason: str, argument: Term | None, scope: Scope, at: Span, hint: str = "") -> CqlError:
    given = "" if argument is None else f", but '{render(argument)}' is {spark_name(argument.type)}"
    return scope.error(f"{reason}{given}{'; ' if hint else ''}{hint}", at)


def parameters(term: Term) -> tuple[Parameter, ...]:
    """The constants of an aggregate as the plan carries them."""
    name = str(term.value).removesuffix("_lower").removesuffix("_upper")
    rule = _RULES.get(name)
    if rule is None or not rule.parameter:
        return ()
    as_parameter: Callable[[Term], Parameter] = _as_fraction if rule.parameter == _FRACTION else _as_value
    return tuple(as_parameter(constant) for constant in term.args[1:])


def _as_fraction(constant: Term) -> Fraction:
    assert isinstance(constant.value, int | Decimal)
    return Fraction(constant.value)


def _as_value(constant: Term) -> Parameter:
    assert isinstance(constant.value, bool | int | float | str | bytes | date | Decimal)
    return constant.value
