"""Calls of aggregates: their arguments, and the types of their answers.

Distributive and algebraic aggregates (SUM, AVG, ..) are typed by their own classes. The others are typed by the table
below, so that a query can be bound without knowing how an aggregate is computed. Four give one row per item instead of
one value per group: TOP(k, x [, weight]), FREQUENT(k, x), HISTOGRAM(x), APPROX_TOP(k, x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, Span
from sash.core.user_aggregate import UserAggregate
from sash.panes.aggregates import AGGREGATES
from sash.plan.expressions import RowExpression
from sash.plan.nodes import Parameter
from sash.sql.expressions import constants
from sash.sql.expressions.coercion import is_interval, is_number
from sash.sql.expressions.scope import Scope, Typer
from sash.sql.expressions.terms import Term, render, shown
from sash.sql.reading.places import span_of, word_of
from sash.sql.types import spark_name

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


def type_user_aggregate(node: exp.Expr, user: UserAggregate, scope: Scope, typed: Typer) -> Term:
    """An aggregate that the program has made: of one column or several."""
    word, title = word_of(node), user.name.upper()
    scope.check_aggregate(title, word)
    if any(isinstance(argument, exp.Star | exp.Distinct) for argument in node.expressions):
        raise scope.error(f"{title} needs columns: neither * nor DISTINCT", word)
    if not node.expressions or not user.takes(len(node.expressions)):
        given = f"{len(node.expressions)} argument{'s' * (len(node.expressions) != 1)}"
        raise scope.error(f"{title} cannot be called with {given}: its lift takes other columns", word)
    inner = scope.without_aggregates(f"cannot stand inside {title}")
    arguments = tuple(typed(argument, inner) for argument in node.expressions)
    for argument in arguments:
        _check_typed(title, argument, scope, argument.span)
        if pt.is_nested(argument.type):
            raise scope.unsupported(f"{title} of {spark_name(argument.type)}", argument.span)
    return Term("aggregate", arguments, user.returns, word, user.name)


def together(arguments: Sequence[RowExpression]) -> RowExpression:
    """The arguments of an aggregate as one: several are a struct, which is NULL where one of them is.

    >>> together([RowExpression("x", pa.int64(), ("x",)), RowExpression("y", pa.int64(), ("y",))]).sql
    "CASE WHEN (x) IS NOT NULL AND (y) IS NOT NULL THEN named_struct('_0', x, '_1', y) END"
    """
    if len(arguments) == 1:
        return arguments[0]
    known = " AND ".join(f"({argument.sql}) IS NOT NULL" for argument in arguments)
    fields = ", ".join(f"'_{i}', {argument.sql}" for i, argument in enumerate(arguments))
    type = pa.struct([(f"_{i}", argument.type) for i, argument in enumerate(arguments)])
    columns = dict.fromkeys(column for argument in arguments for column in argument.columns)
    return RowExpression(f"CASE WHEN {known} THEN named_struct({fields}) END", type, tuple(columns))


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
        hint = f"{rule.instead.format(shown(argument))} takes any type with an order" if ordered else ""
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
    given = "" if argument is None else f", but '{shown(argument)}' is {spark_name(argument.type)}"
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


# Whether the first argument is k, and whether there may be a weight.
ITEM_FUNCTIONS: dict[str, tuple[bool, bool]] = {
    "top": (True, True),
    "frequent": (True, False),
    "histogram": (False, False),
    "approx_top": (True, False),
}
# The functions whose counts are estimates with bounds.
ESTIMATES = ("frequent", "approx_top")


@dataclass(frozen=True)
class ItemCall:
    """`weight` is the aggregate by which items are ranked: their count, or a sum."""

    function: str
    count: int | None
    item: Term
    item_node: exp.Expr
    weight: Term

    @property
    def weight_name(self) -> str:
        return "count" if self.weight.value == "count" else "weight"


def is_item_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ITEM_FUNCTIONS


def type_item_call(node: exp.Expr, scope: Scope, typed: Typer) -> ItemCall:
    function, title = node.name.lower(), node.name.upper()
    takes_count, takes_weight = ITEM_FUNCTIONS[function]
    scope.check_aggregate(title, word_of(node))
    wanted = ["a count k"] * takes_count + ["an item"]
    if not len(wanted) <= len(node.expressions) <= len(wanted) + takes_weight:
        optional = ", and a weight such as SUM(y)" if takes_weight else ""
        got = f"got {len(node.expressions)} argument{'s' * (len(node.expressions) != 1)}"
        raise scope.error(f"{title} takes {' and '.join(wanted)}{optional}; {got}", word_of(node))
    arguments = list(node.expressions)
    count = constants.positive_whole(arguments.pop(0), title, scope) if takes_count else None
    item = _item(arguments[0], title, scope, typed)
    by_count = Term("aggregate", (item,), pa.int64(), word_of(node), "count")
    weight = _weight(arguments[1], by_count, title, scope, typed) if len(arguments) == 2 else by_count
    return ItemCall(function, count, item, arguments[0], weight)


def _item(node: exp.Expr, title: str, scope: Scope, typed: Typer) -> Term:
    if isinstance(node, exp.Star):
        raise scope.error(f"{title} needs a column or an expression as its item", span_of(node))
    item = typed(node, scope.without_aggregates(f"cannot stand inside {title}"))
    if pt.is_nested(item.type) or pt.is_null(item.type) or is_interval(item.type):
        raise scope.unsupported(f"{title} of {spark_name(item.type)}", span_of(node))
    return item


def _weight(node: exp.Expr, by_count: Term, title: str, scope: Scope, typed: Typer) -> Term:
    """The weight SUM(y); COUNT(*) and COUNT of the item mean the same as no weight."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("sum", "count"):
        weight = type_aggregate(node, scope, typed)
        if weight.value == "sum":
            return weight
        if weight.value == "count" and (not weight.args or render(weight) == render(by_count)):
            return by_count
    raise scope.unsupported(f"{title} by another weight than SUM(..) or COUNT(*)", word_of(node))
