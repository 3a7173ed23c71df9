"""Expressions over an answer's groups, evaluated on Arrow arrays with Spark's meaning (NULL, NaN, ANSI errors).

`FUNCTIONS` and `LAZY` together are the closed vocabulary: the binder produces no other names. A function of
`FUNCTIONS` computes its arguments over every row; a form of `LAZY` computes each only over the rows that need it,
so that a condition keeps a division by zero away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.core.errors import QueryFailedError
from sash.expr import FUNCTIONS
from sash.expr.casts import cast
from sash.expr.comparisons import equal
from sash.plan.expressions import Call, Expression, Field, Literal

Fields = Mapping[str, pa.Array]


def evaluate(expression: Expression, fields: Fields, rows: int) -> pa.Array:
    """The expression's column over `rows` groups; QueryFailedError where Spark would raise."""
    if isinstance(expression, Field):
        return fields[expression.name]
    if isinstance(expression, Literal):
        return pa.repeat(pa.scalar(expression.value, expression.type), rows)
    if rows > 1 and _is_constant(expression):
        return pa.repeat(evaluate(expression, {}, 1)[0], rows)
    try:
        return cast(_computed(expression, fields, rows), expression.type)
    except (ValueError, ArithmeticError, NotImplementedError) as error:
        raise QueryFailedError(f"{expression}: {str(error).splitlines()[0]}") from None


def _computed(call: Call, fields: Fields, rows: int) -> pa.Array:
    if call.function in LAZY:
        return LAZY[call.function](call, fields, rows)
    arguments = [evaluate(argument, fields, rows) for argument in call.arguments]
    return FUNCTIONS[call.function](call.type, *arguments)


def _is_constant(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return all(_is_constant(argument) for argument in expression.arguments)
    return isinstance(expression, Literal)


# -- some of the rows ---------------------------------------------------------------------------------


def _over(expression: Expression, fields: Fields, places: NDArray[np.int64], rows: int) -> pa.Array:
    """The expression over the rows at some places, as a column of that many rows."""
    if len(places) == rows:
        return evaluate(expression, fields, rows)
    chosen = pa.array(places)
    return evaluate(expression, {name: column.take(chosen) for name, column in fields.items()}, len(places))


class _Choice:
    """A column made from values for some rows at a time; other rows are NULL."""

    def __init__(self, type: pa.DataType, rows: int) -> None:
        self._type = type
        self._parts: list[pa.Array] = []
        self._origin = np.full(rows, -1, dtype=np.int64)
        self._size = 0

    @property
    def undecided(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._origin < 0)

    def decide(self, places: NDArray[np.int64], values: pa.Array) -> None:
        self._parts.append(cast(values, self._type))
        self._origin[places] = np.arange(self._size, self._size + len(places))
        self._size += len(places)

    def column(self) -> pa.Array:
        values = pa.concat_arrays([*self._parts, pa.nulls(0, self._type)])
        return values.take(pa.array(self._origin, mask=self._origin < 0))


def _true(condition: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(cast(condition, pa.bool_()).fill_null(False), dtype=np.bool_)


# -- forms that evaluate only some rows ----------------------------------------------------------------


def _case(call: Call, fields: Fields, rows: int) -> pa.Array:
    """CASE and IF: condition, value, condition, value, ..., default."""
    *pairs, default = call.arguments
    choice = _Choice(call.type, rows)
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        open_places = choice.undecided
        hit = open_places[_true(_over(condition, fields, open_places, rows))]
        choice.decide(hit, _over(value, fields, hit, rows))
    rest = choice.undecided
    choice.decide(rest, _over(default, fields, rest, rows))
    return choice.column()


def _coalesce(call: Call, fields: Fields, rows: int) -> pa.Array:
    choice = _Choice(call.type, rows)
    for argument in call.arguments:
        places = choice.undecided
        if not len(places):
            break
        values = _over(argument, fields, places, rows)
        valid = values.is_valid()
        choice.decide(places[np.asarray(valid, dtype=np.bool_)], values.filter(valid))
    return choice.column()


def _connective(decisive: bool, combine: Callable[[pa.Array, pa.Array], pa.Array]) -> Lazy:
    """AND and OR: the right side is only computed where the left side has not decided."""

    def connect(call: Call, fields: Fields, rows: int) -> pa.Array:
        first, second = call.arguments
        left = evaluate(first, fields, rows)
        open_places = np.flatnonzero(~_true(pc.equal(left, decisive)))
        choice = _Choice(pa.bool_(), rows)
        choice.decide(open_places, _over(second, fields, open_places, rows))
        return combine(left, choice.column())

    return connect


def _nullif(call: Call, fields: Fields, rows: int) -> pa.Array:
    """NULLIF: compares in the common type, but its value is the first argument before any cast."""
    value, other = (evaluate(argument, fields, rows) for argument in call.arguments)
    same = _true(equal(value, other))
    first = call.arguments[0]
    if isinstance(first, Call) and first.function == "cast" and first.arguments[0].type == call.type:
        value = evaluate(first.arguments[0], fields, rows)
    return pc.if_else(pa.array(same), pa.scalar(None, value.type), value)


Lazy = Callable[[Call, Fields, int], pa.Array]
LAZY: dict[str, Lazy] = {
    "and": _connective(False, pc.and_kleene),
    "or": _connective(True, pc.or_kleene),
    "case": _case,
    "if": _case,
    "coalesce": _coalesce,
    "nullif": _nullif,
}
