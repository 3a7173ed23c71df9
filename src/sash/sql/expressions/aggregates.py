"""Calls of aggregates: their arguments, and the types of their answers.

Distributive and algebraic aggregates (SUM, AVG, ..) are typed by their own classes. The others are typed by the table
below, so that a query can be bound without knowing how an aggregate is computed. Four give one row per item instead of
one value per group: TOP(k, x [, weight]), FREQUENT(k, x), HISTOGRAM(x), APPROX_TOP(k, x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from sash.sql.expressions.coercion import is_number
from sash.sql.expressions.scope import Scope, Typer
from sash.sql.expressions.terms import Term, cast_to, render, row_expression, shown
from sash.sql.reading.places import span_of, word_of
from sash.sql.types import is_interval, spark_name

SYNONYMS = {
    "mean": "avg",
    "var_samp": "variance",
    "stddev_samp": "stddev",
    "std": "stddev",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "first_value": "first",
    "last_value": "last",
    "percentile": "quantile_cont",
    "percentile_cont": "quantile_cont",
    "array_agg": "collect_list",
    "string_agg": "listagg",
    "approx_percentile": "approx_quantile",
    "percentile_approx": "approx_quantile",
}
# Aggregates whose classes type them, and which continuous queries know.
ALGEBRAIC = (
    *("sum", "count", "avg", "min", "max", "variance", "var_pop", "stddev", "stddev_pop"),
    *("bool_and", "bool_or", "any_value"),
)
_FRACTION, _VALUE = "fraction", "value"
_NUMBER, _CONDITION, _WHOLE = "number", "condition", "whole number"
_NEEDS = {_NUMBER: is_number, _CONDITION: pt.is_boolean, _WHOLE: pt.is_integer}
_ORDERED = "cql_ordered"
_WITHIN_GROUP = ("percentile_cont", "percentile_disc")
# Spark's third argument of an aggregate that has two here.
_THIRD = {
    "percentile": "how often each value counts",
    **dict.fromkeys(("approx_percentile", "percentile_approx"), "its accuracy; APPROX_PERCENTILE(x, p) has its own"),
}
# Statistics of two columns.
_OF_PAIRS = (
    *("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2"),
    *("regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy"),
)


@dataclass(frozen=True)
class AggregateRule:
    """What the language knows of an aggregate.

    `needs`: what its argument must be. `result`: the type of its answer; None: that of its argument. `parameter`: the
    kind of its constant. `instead`: the aggregate that a message suggests. `values`: how many columns it is of;
    `order` is the place of the one by which the others are chosen, the event time if it is not written.
    """

    needs: str = ""
    result: pa.DataType | None = None
    parameter: str = ""
    instead: str = ""
    values: int = 1
    order: int | None = None

    @property
    def arity(self) -> int:
        return self.values + bool(self.parameter)


_RULES: dict[str, AggregateRule] = {
    "count_distinct": AggregateRule(result=pa.int64()),
    **dict.fromkeys(("min_by", "max_by"), AggregateRule(values=2, order=1)),
    **dict.fromkeys(("first", "last"), AggregateRule(order=1)),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), AggregateRule(needs=_WHOLE)),
    **dict.fromkeys(("skewness", "kurtosis"), AggregateRule(needs=_NUMBER, result=pa.float64())),
    **dict.fromkeys(_OF_PAIRS, AggregateRule(needs=_NUMBER, result=pa.float64(), values=2)),
    "regr_count": AggregateRule(needs=_NUMBER, result=pa.int64(), values=2),
    "count_if": AggregateRule(needs=_CONDITION, result=pa.int64()),
    "median": AggregateRule(needs=_NUMBER, result=pa.float64(), instead="QUANTILE({}, 0.5)"),
    "quantile": AggregateRule(parameter=_FRACTION),
    "quantile_cont": AggregateRule(needs=_NUMBER, result=pa.float64(), parameter=_FRACTION, instead="QUANTILE({}, p)"),
    "percentile_disc": AggregateRule(
        needs=_NUMBER, result=pa.float64(), parameter=_FRACTION, instead="QUANTILE({}, p)"
    ),
    "mode": AggregateRule(),
    "approx_count_distinct": AggregateRule(result=pa.int64()),
    "approx_quantile": AggregateRule(
        needs=_NUMBER, result=pa.float64(), parameter=_FRACTION, instead="QUANTILE({}, p)"
    ),
    "count_min": AggregateRule(result=pa.int64(), parameter=_VALUE),
}
APPROXIMATE = ("approx_count_distinct", "approx_quantile", "count_min")
# Aggregates whose answer has all values of a group, and how many arguments they take. Their terms have the value, what
# orders the values, and the constants of the plan.
VALUE_LISTS = {"collect_list": 2, "collect_set": 2, "listagg": 3}
# The names that a query may write.
NAMES = frozenset((*ALGEBRAIC, *SYNONYMS, *_RULES, *VALUE_LISTS)) - {"count_distinct"}


def type_aggregate(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    written, word = node.name.lower(), word_of(node)
    name = SYNONYMS.get(written, written)
    title = written.upper()
    scope.check_aggregate(title, word)
    if name in VALUE_LISTS:
        return _value_list(node, name, scope, typed)
    if any(isinstance(argument, exp.Distinct) for argument in node.expressions):
        return _count_distinct(node, name, scope, typed)
    rule = _RULES.get(name)
    if written in _WITHIN_GROUP and not node.meta.get(_ORDERED):
        raise scope.error(f"write {title}(p) WITHIN GROUP (ORDER BY x)", word)
    arity = rule.arity if rule is not None else 1
    if name in ("first", "last") and len(node.expressions) == 2:
        return _known_alone(node, scope, typed)
    if len(node.expressions) == 3 and written in _THIRD:
        raise scope.unsupported(f"the third argument of {title}, {_THIRD[written]}", span_of(node.expressions[2]))
    if len(node.expressions) != arity:
        plural = "s" if arity > 1 else ""
        raise scope.error(f"{title} takes {arity} argument{plural}, got {len(node.expressions)}", word)
    inner = scope.without_aggregates(f"cannot stand inside {title}")
    first, *others = node.expressions
    argument = None if isinstance(first, exp.Star) else typed(first, inner)
    if rule is None:
        return _old_aggregate(name, title, argument, scope, word, span_of(first))
    argument = _checked(title, argument, rule, scope, span_of(first))
    if name == "count_if":
        return Term("filter", (Term("aggregate", (), pa.int64(), word, "count"), argument), pa.int64(), word, name)
    values, constants = [argument], others[rule.values - 1 :]
    for other in others[: rule.values - 1]:
        value = None if isinstance(other, exp.Star) else typed(other, inner)
        values.append(_checked(title, value, rule, scope, span_of(other)))
    if rule.order == len(values):
        by = {"first": "MIN_BY", "last": "MAX_BY"}[name]
        values.append(scope.columns.event_time(name.upper(), f"{by}(x, y) to say by what", word, scope))
    constant = tuple(_parameter(rule, title, part, argument, inner, typed) for part in constants)
    return Term("aggregate", (*values, *constant), rule.result or argument.type, word, name)


def ignoring_nulls(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """`FIRST(x) IGNORE NULLS` is FIRST(x) of the values that are not NULL; RESPECT NULLS says what is so anyway."""
    called = typed(node.this, scope)
    if called.op != "aggregate" or called.value not in ("first", "last"):
        raise scope.error(f"{node.key[:-5].upper()} NULLS stands behind FIRST(x) and LAST(x)", called.span)
    if isinstance(node, exp.RespectNulls):
        return called
    known = Term("is_not_null", (called.args[0],), pa.bool_(), called.span)
    return Term("filter", (called, known), called.type, called.span)


def within_group(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """`PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)`, and PERCENTILE_DISC."""
    call, order = node.this, node.expression.expressions
    written, word = call.name.lower(), word_of(call)
    if SYNONYMS.get(written, written) == "listagg":
        return _value_list(call, "listagg", scope, typed, order)
    if written not in _WITHIN_GROUP:
        raise scope.unsupported(f"WITHIN GROUP behind {written.upper()}", word)
    if len(call.expressions) != 1 or len(order) != 1:
        raise scope.error(f"write {written.upper()}(p) WITHIN GROUP (ORDER BY x), with one p and one x", word)
    fraction, descending = (
        constants.fraction(call.expressions[0], written.upper(), scope),
        bool(order[0].args.get("desc")),
    )
    if written == "percentile_cont" and descending:
        assert isinstance(fraction.value, int | Decimal)
        fraction = constants.number(f"{1 - fraction.value}", scope, fraction.span)
    alone = call.copy()
    alone.meta[_ORDERED] = True
    alone.set("expressions", [order[0].this.copy(), exp.Literal.number(str(fraction.value))])
    found = type_aggregate(alone, scope, typed)
    if written == "percentile_cont":
        return found
    way = Term("literal", (), pa.bool_(), word, descending)
    return replace(found, args=(*found.args, way))


def _value_list(node: exp.Expr, name: str, scope: Scope, typed: Typer, order: Sequence[exp.Expr] = ()) -> Term:
    """COLLECT_LIST, COLLECT_SET and LISTAGG. A set, or DISTINCT, is in the order of its values."""
    title, word = node.name.upper(), word_of(node)
    scope.check_aggregate(title, word)
    distinct = any(isinstance(each, exp.Distinct) for each in node.expressions)
    written = [
        part for each in node.expressions for part in (each.expressions if isinstance(each, exp.Distinct) else [each])
    ]
    if not 1 <= len(written) <= VALUE_LISTS[name]:
        takes = f"takes a value{', a separator' if name == 'listagg' else ''} and the most elements of its list"
        raise scope.error(f"{title} {takes}, got {len(written)} arguments", word)
    inner = scope.without_aggregates(f"cannot stand inside {title}")
    first, *others = written
    value = None if isinstance(first, exp.Star) else typed(first, inner)
    value = _checked(title, value, AggregateRule(), scope, span_of(first))
    most = [_most_elements(each, title, scope) for each in others[VALUE_LISTS[name] - 2 :]]
    if name != "listagg":
        if distinct or name == "collect_set":
            return Term("aggregate", (value, value, *most), pa.list_(value.type), word, "collect_set")
        time = scope.columns.event_time(title, f"COLLECT_SET({shown(value)})", word, scope)
        return Term("aggregate", (value, time, *most), pa.list_(value.type), word, name)
    if not pt.is_string(value.type):
        raise _misfit(f"{title} needs a STRING", value, scope, value.span, f"write CAST({shown(value)} AS STRING)")
    by, descending = _order_of(order, value, distinct, word, scope, typed)
    flags = (Term("literal", (), pa.bool_(), word, flag) for flag in (distinct, descending))
    separator = _separator(others, title, scope, inner, typed)
    return Term("aggregate", (value, by, separator, *flags, *most), value.type, word, name)


def _order_of(
    order: Sequence[exp.Expr], value: Term, distinct: bool, word: Span, scope: Scope, typed: Typer
) -> tuple[Term, bool]:
    """What orders the values of LISTAGG, and whether it descends: the event time if nothing is written."""
    if not order and distinct:
        return value, False
    if not order:
        return scope.columns.event_time("LISTAGG", "LISTAGG(x, ', ') WITHIN GROUP (ORDER BY x)", word, scope), False
    first, *others = order
    if others:
        raise scope.unsupported("LISTAGG WITHIN GROUP by several keys", span_of(others[0]))
    inner = scope.without_aggregates("cannot stand inside WITHIN GROUP")
    by, descending = (
        _checked("WITHIN GROUP", typed(first.this, inner), AggregateRule(), scope, span_of(first.this)),
        bool(first.args.get("desc")),
    )
    if render(by) == render(value):
        return value, descending
    if distinct:
        raise scope.error(f"LISTAGG(DISTINCT {shown(value)}, ..) can only be ordered by {shown(value)}", by.span)
    if bool(first.args.get("nulls_first")) == descending:
        raise scope.unsupported("other NULLS in WITHIN GROUP than first, or last with DESC", by.span)
    return by, descending


def _separator(written: Sequence[exp.Expr], title: str, scope: Scope, inner: Scope, typed: Typer) -> Term:
    if not written:
        return Term("literal", (), pa.string(), Span(0, 1), "")
    found = typed(written[0], inner)
    if found.op != "literal" or not isinstance(found.value, str):
        raise scope.error(f"{title} needs a constant STRING between the values, for example ', '", found.span)
    return found


def _most_elements(node: exp.Expr, title: str, scope: Scope) -> Term:
    is_whole = isinstance(node, exp.Literal) and node.is_int
    if not is_whole or not 0 < int(node.name) <= constants.MOST_ITEMS:
        wanted = f"a whole constant from 1 to {constants.MOST_ITEMS:,}"
        raise scope.error(f"{title} needs {wanted} as the most elements of a list", span_of(node))
    return constants.whole(int(node.name), scope, span_of(node))


def _known_alone(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    """`FIRST(x, true)`, as Spark writes IGNORE NULLS."""
    value, flag = node.expressions
    if not isinstance(flag, exp.Boolean):
        title = node.name.upper()
        raise scope.error(f"{title} takes TRUE or FALSE as its second argument: {title}(x) IGNORE NULLS", span_of(flag))
    alone = node.copy()
    alone.set("expressions", [value.copy()])
    return ignoring_nulls((exp.IgnoreNulls if flag.this else exp.RespectNulls)(this=alone), scope, typed)


def argument_of(term: Term) -> RowExpression | None:
    """The argument of an aggregate as the plan carries it: several columns as one struct, the one that orders first."""
    rule = _RULES.get(str(term.value))
    if not term.args:
        return None
    if term.value in VALUE_LISTS:
        value, order = map(row_expression, term.args[:2])
        return value if value == order else together((order, value), known=(value,))
    if rule is not None and rule.order is not None:
        order, value = row_expression(term.args[rule.order]), row_expression(term.args[0])
        return together((order, value), known=(order,))
    if rule is not None and rule.values > 1:
        return together([row_expression(_as_double(each)) for each in term.args])
    if term.value == "count_distinct":
        return together([row_expression(each) for each in term.args])
    return row_expression(term.args[0])


def _as_double(term: Term) -> Term:
    return cast_to(term, pa.float64())


def split_filter(term: Term) -> tuple[Term, list[Term]]:
    """An aggregate, and the conditions of its tuples beside those of WHERE."""
    if term.op != "filter":
        return term, []
    aggregate, condition = term.args
    return aggregate, [*condition.args] if condition.op == "and" else [condition]


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


def together(arguments: Sequence[RowExpression], known: Sequence[RowExpression] = ()) -> RowExpression:
    """The arguments of an aggregate as one: several are a struct, which is NULL where one of them (of `known`) is.

    >>> together([RowExpression("x", pa.int64(), ("x",)), RowExpression("y", pa.int64(), ("y",))]).sql
    "CASE WHEN (x) IS NOT NULL AND (y) IS NOT NULL THEN named_struct('_0', x, '_1', y) END"
    """
    if len(arguments) == 1:
        return arguments[0]
    there = " AND ".join(f"({argument.sql}) IS NOT NULL" for argument in known or arguments)
    fields = ", ".join(f"'_{i}', {argument.sql}" for i, argument in enumerate(arguments))
    type = pa.struct([(f"_{i}", argument.type) for i, argument in enumerate(arguments)])
    columns = dict.fromkeys(column for argument in arguments for column in argument.columns)
    return RowExpression(f"CASE WHEN {there} THEN named_struct({fields}) END", type, tuple(columns))


def _count_distinct(node: exp.Expr, name: str, scope: Scope, typed: Typer) -> Term:
    values = [value for argument in node.expressions for value in (argument.expressions or [argument])]
    if name != "count":
        raise scope.unsupported(f"{name.upper()}(DISTINCT ..)", word_of(node))
    inner, rule = scope.without_aggregates("cannot stand inside COUNT"), _RULES["count_distinct"]
    if any(isinstance(value, exp.Star) for value in values):
        raise scope.unsupported("COUNT(DISTINCT *); name the columns", word_of(node))
    arguments = (_checked("COUNT(DISTINCT ..)", typed(value, inner), rule, scope, span_of(value)) for value in values)
    return Term("aggregate", tuple(arguments), pa.int64(), word_of(node), "count_distinct")


def _old_aggregate(name: str, title: str, argument: Term | None, scope: Scope, word: Span, at: Span) -> Term:
    if name == "count" and argument is not None and argument.op == "literal" and argument.value is not None:
        argument = None
    if argument is not None and (name != "count" or is_interval(argument.type)):
        _check_typed(title, argument, scope, at)
    try:
        type = AGGREGATES[name].result_type(argument.type if argument is not None else None)
    except ValueError as reason:
        raise _misfit(str(reason), argument, scope, at) from None
    return Term("aggregate", (argument,) if argument is not None else (), type, word, name)


def _checked(title: str, argument: Term | None, rule: AggregateRule, scope: Scope, at: Span) -> Term:
    if argument is None:
        raise scope.error(f"{title}(*) has no meaning: {title} needs a column", at)
    _check_typed(title, argument, scope, at)
    if rule.needs and not _NEEDS[rule.needs](argument.type):
        ordered = rule.instead and not pt.is_nested(argument.type)
        hint = f"{rule.instead.format(shown(argument))} takes any type with an order" if ordered else ""
        raise _misfit(f"{title} needs a {rule.needs}", argument, scope, at, hint)
    if pt.is_nested(argument.type):
        raise scope.unsupported(f"{title} of {spark_name(argument.type)}", at)
    return argument


def _check_typed(title: str, argument: Term, scope: Scope, at: Span) -> None:
    if pt.is_null(argument.type):
        raise scope.error(f"{title} needs a type: write CAST(NULL AS ..)", at)
    if is_interval(argument.type):
        raise scope.unsupported(f"{title} of intervals", at)


def _parameter(rule: AggregateRule, title: str, node: exp.Expr, argument: Term, scope: Scope, typed: Typer) -> Term:
    if rule.parameter == _FRACTION:
        return constants.fraction(node, title, scope)
    return constants.of_type(typed(node, scope), argument.type, title, scope)


def _misfit(reason: str, argument: Term | None, scope: Scope, at: Span, hint: str = "") -> CqlError:
    given = "" if argument is None else f", but '{shown(argument)}' is {spark_name(argument.type)}"
    return scope.error(f"{reason}{given}{'; ' if hint else ''}{hint}", at)


def parameters(term: Term) -> tuple[Parameter, ...]:
    """The constants of an aggregate as the plan carries them."""
    if term.value in VALUE_LISTS:
        return tuple(map(_as_value, term.args[2:]))
    name = str(term.value).removesuffix("_lower").removesuffix("_upper")
    rule = _RULES.get(name)
    if rule is None or not rule.parameter:
        return ()
    first, *others = term.args[rule.values :]
    return ((_as_fraction if rule.parameter == _FRACTION else _as_value)(first), *map(_as_value, others))


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
