"""Raw tuples, what Spark's pass would make of them, and the slow obvious answers.

A tuple is (timestamp, {column: value}); arguments and predicates are bare columns, so that no SQL has to be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sash.core.window import TimeWindow
from sash.panes.aggregates import AGGREGATES
from sash.panes.answers import Finisher
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.lifted import LiftedColumn
from sash.panes.pane_rows import PaneRows
from sash.panes.partials import Partial
from sash.plan.expressions import Field, RowExpression
from sash.plan.nodes import AggregateCall, Key, Output
from sash.plan.periodic import PeriodicAggregate


class SparkOverflowError(Exception):
    """A pane's own sum of decimals has more than 38 digits: Spark's pass raises, before Sash sees anything."""


Row = dict[str, Any]
Tuple = tuple[int, Row]


def column(name: str, type: pa.DataType) -> RowExpression:
    return RowExpression(name, type, (name,))


# -- Spark's pass -------------------------------------------------------------------------------------


def lift_rows(tuples: Iterable[Tuple], length: int, keys: list[RowExpression], partials: list[Partial]) -> PaneRows:
    """One row per (pane, group) of some tuples, as one pass over a micro-batch gives them."""
    groups: dict[tuple[int, tuple[Any, ...]], list[Row]] = {}
    for ts, row in tuples:
        key = tuple(canonical(row[key.sql]) for key in keys)
        groups.setdefault((-(-ts // length) * length, key), []).append(row)
    ends = np.array([end for end, _ in groups], dtype=np.int64)
    key_columns = [
        pa.array([math.nan if key[i] == "NaN" else key[i] for _, key in groups], expression.type)
        for i, expression in enumerate(keys)
    ]
    lifted = {
        partial: [
            pa.array([_aggregate(each, partial, rows) for rows in groups.values()], _type(each))
            for each in partial.lift()
        ]
        for partial in partials
    }
    return PaneRows(length, ends, key_columns, lifted)


def canonical(value: Any) -> Any:
    """NaN as a key of a Python dictionary."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _type(lifted: LiftedColumn) -> pa.DataType:
    if lifted.function == "count":
        return pa.int64()
    if lifted.function == "sum" and pt.is_integer(lifted.type):
        return pa.int64()
    return pa.float64() if lifted.function == "sum" and pt.is_floating(lifted.type) else lifted.type


def _aggregate(lifted: LiftedColumn, partial: Partial, rows: list[Row]) -> Any:
    kept = [row for row in rows if partial.predicate is None or row[partial.predicate.sql]]
    if partial.argument is None:
        return len(kept)
    values = [row[partial.argument.sql] for row in kept if row[partial.argument.sql] is not None]
    return _FUNCTIONS[lifted.function]([_converted(lifted.argument, value) for value in values])


def _converted(text: str, value: Any) -> Any:
    if text.endswith("AS DOUBLE)"):
        return float(value)
    if text.endswith("& 4294967295L)"):
        return value & 0xFFFFFFFF
    return value >> 32 if text.startswith("shiftright(") else value


def _sum(values: list[Any]) -> Any:
    with localcontext() as context:
        context.prec = 60
        total = values[0] if values else None
        for value in values[1:]:
            total += value
        if isinstance(total, Decimal) and total.adjusted() - total.as_tuple().exponent > 37:  # type: ignore[operator]
            raise SparkOverflowError
        return total


def _mean(values: list[float]) -> float | None:
    if not values:
        return None
    return float_sum(values) / len(values)


def _variance(values: list[float]) -> float | None:
    if not values:
        return None
    return float(exact_squares(values) / len(values)) if all(map(math.isfinite, values)) else math.nan


def least(values: list[Any]) -> Any:
    return min(values, key=_rank, default=None)


def greatest(values: list[Any]) -> Any:
    return max(values, key=_rank, default=None)


def _rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


_FUNCTIONS = {"count": len, "sum": _sum, "min": least, "max": greatest, "avg": _mean, "var_pop": _variance}


# -- answers from scratch -----------------------------------------------------------------------------


def exact_squares(values: list[Any]) -> Fraction:
    """The sum of squared deviations from the mean."""
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers) / len(numbers)
    return sum(((x - mean) ** 2 for x in numbers), Fraction(0))


def recompute(function: str, type: pa.DataType | None, values: list[Any]) -> Any:
    """An aggregate over raw values; None is NULL, and OverflowError is raised where the result's type is too small."""
    if function == "count":
        return len(values) if type is None else sum(value is not None for value in values)
    assert type is not None
    known = [value for value in values if value is not None]
    if function in ("min", "bool_and", "any_value"):
        return least(known)
    if function in ("max", "bool_or"):
        return greatest(known)
    if not known:
        return None
    if function == "sum":
        return _recompute_sum(known, type)
    if function in ("avg", "mean"):
        return _recompute_average(known, type)
    return _recompute_deviation(function, known)


def _recompute_sum(values: list[Any], type: pa.DataType) -> Any:
    if pt.is_floating(type):
        return float_sum(values)
    total = sum(map(Fraction, values))
    if pt.is_decimal(type):
        return to_decimal(total, min(38, type.precision + 10), type.scale)
    if not -(2**63) <= total < 2**63:
        raise OverflowError
    return int(total)


def _recompute_average(values: list[Any], type: pa.DataType) -> Any:
    if pt.is_floating(type):
        return float_sum(values) / len(values)
    mean = sum(map(Fraction, values)) / len(values)
    return (
        to_decimal(mean, min(38, type.precision + 4), min(38, type.scale + 4)) if pt.is_decimal(type) else float(mean)
    )


def _recompute_deviation(function: str, values: list[Any]) -> float | None:
    degrees = len(values) if function.endswith("_pop") else len(values) - 1
    if degrees == 0:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    variance = exact_squares(values) / degrees
    return math.sqrt(variance) if function.startswith("stddev") else float(variance)


def float_sum(values: list[float]) -> float:
    """Exact but for one rounding; infinities and NaN as IEEE adds them."""
    if all(map(math.isfinite, values)):
        return math.fsum(values)
    return sum(value for value in values if not math.isfinite(value))


def to_decimal(number: Fraction | int, precision: int, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec, context.rounding = 200, ROUND_HALF_UP
        exact = Fraction(number)
        quotient = Decimal(exact.numerator) / Decimal(exact.denominator)
        rounded = quotient.quantize(Decimal(1).scaleb(-scale))
        if abs(rounded) >= Decimal(10) ** (precision - scale):
            raise OverflowError
        return rounded


def same(ours: Any, theirs: Any, scale: float = 0.0) -> bool:
    """Equal, floats within rounding of numbers as large as `scale`."""
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12 * scale)
    return type(ours) is type(theirs) and bool(ours == theirs)


# -- queries ------------------------------------------------------------------------------------------

N, F, S, M = (
    column("n", pa.int64()),
    column("f", pa.float64()),
    column("s", pa.string()),
    column("m", pa.decimal128(10, 2)),
)
K, G, P = column("k", pa.string()), column("g", pa.float64()), column("p", pa.bool_())


def query(
    keys: tuple[RowExpression, ...],
    calls: list[tuple[str, RowExpression | None]],
    window: TimeWindow,
    predicate: RowExpression | None = None,
    **clauses: Any,
) -> PeriodicAggregate:
    """SELECT keys, calls .. GROUP BY keys, with clauses by their names in PeriodicAggregate."""
    named = tuple(Key(key.sql, key) for key in keys)
    asked = tuple(
        AggregateCall(f"{function}({x or '*'})", function, x, AGGREGATES[function].result_type(x.type if x else None))
        for function, x in calls
    )
    fields = [Field(key.name, key.expression.type) for key in named] + [Field(call.name, call.type) for call in asked]
    plain = {"having": None, "order": (), "limit": None, "outputs": tuple(Output(f.name, f) for f in fields)}
    return PeriodicAggregate(
        stream="stream", window=window, predicate=predicate, keys=named, calls=asked, **{**plain, **clauses}
    )


def expected_rows(query: PeriodicAggregate, rows: list[Row]) -> dict[tuple[Any, ...], list[Any]]:
    """The answer from scratch, by key: HAVING, ORDER BY and LIMIT left out."""
    groups: dict[tuple[Any, ...], list[Row]] = {} if query.keys else {(): []}
    for row in rows:
        if query.predicate is None or row[query.predicate.sql]:
            groups.setdefault(tuple(canonical(row[key.expression.sql]) for key in query.keys), []).append(row)
    return {
        key: [
            recompute(
                call.function,
                call.argument.type if call.argument else None,
                [row[call.argument.sql] if call.argument else None for row in members],
            )
            for call in query.calls
        ]
        for key, members in groups.items()
    }


def check_answer(query: PeriodicAggregate, answer: pa.Table, rows: list[Row]) -> None:
    wide = len(query.keys)
    ours = {
        tuple(map(canonical, row[:wide])): list(row[wide:]) for row in zip(*answer.to_pydict().values(), strict=True)
    }
    theirs = expected_rows(query, rows)
    assert len(answer) == len(ours) and ours.keys() == theirs.keys(), (ours, theirs)
    for key, values in ours.items():
        assert all(same(a, b, 1e4) for a, b in zip(values, theirs[key], strict=True)), (key, values, theirs[key])


def row(**values: Any) -> Row:
    return {"k": None, "g": None, "n": None, "f": None, "s": None, "m": None, "p": None, **values}


def answer(synopsis: BasicIntervalSynopsis, asked: PeriodicAggregate, now: int) -> list[dict[str, Any]]:
    finisher = Finisher(asked)
    (view,) = synopsis.scan({asked.window: finisher.partials}, now)
    return finisher.answer(view, {}).to_pylist()


def filled(asked: PeriodicAggregate, tuples: list[Tuple], length: int = 1) -> BasicIntervalSynopsis:
    keys = [key.expression for key in asked.keys]
    synopsis = BasicIntervalSynopsis([key.type for key in keys])
    synopsis.require(Finisher(asked).partials, None)
    synopsis.absorb(lift_rows(tuples, length, keys, Finisher(asked).partials))
    return synopsis
