"""Functions of dates and timestamps, in UTC. Dates come as dates, timestamps as timestamps: the binder casts them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.expr.comparisons import plain
from sash.expr.decimals import from_unscaled

# By the words of DATE_TRUNC: Arrow's units.
_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "month"),
    **dict.fromkeys(("DAY", "DD"), "day"),
    **{unit.upper(): unit for unit in ("quarter", "week", "hour", "minute", "second", "millisecond", "microsecond")},
}
_LONG_UNITS = [word for word, unit in _UNITS.items() if unit in ("year", "quarter", "month", "week")]


def _date_trunc(type: pa.DataType, unit: pa.Array, moment: pa.Array) -> pa.Array:
    """NULL for an unknown unit, as in Spark."""
    found = pa.nulls(len(moment), type)
    for word in unit.unique().to_pylist():
        if word is not None and word.upper() in _UNITS:
            floor = pc.floor_temporal(moment, unit=_UNITS[word.upper()])
            found = pc.if_else(pc.fill_null(pc.equal(unit, word), False), floor, found)
    return found


def _trunc(type: pa.DataType, date: pa.Array, unit: pa.Array) -> pa.Array:
    """Like DATE_TRUNC, of dates, from weeks on."""
    known = pc.is_in(pc.utf8_upper(unit), pa.array(_LONG_UNITS))
    return _date_trunc(type, pc.if_else(known, unit, pa.scalar(None, pa.string())), date)


def _add_days(sign: int, type: pa.DataType, date: pa.Array, days: pa.Array) -> pa.Array:
    return pc.add(date.view(pa.int32()), pc.multiply(days, pa.scalar(sign, pa.int32()))).view(type)


def _in_months(date: pa.Array) -> tuple[NDArray[np.datetime64], NDArray[np.datetime64]]:
    days = np.asarray(date.view(pa.int32()).fill_null(0)).astype("M8[D]")
    return days, days.astype("M8[M]")


def _as_dates(days: NDArray[np.datetime64], missing: pa.Array) -> pa.Array:
    return pa.array(days.astype(np.int64).astype(np.int32), mask=np.asarray(missing)).view(pa.date32())


def _add_months(type: pa.DataType, date: pa.Array, months: pa.Array) -> pa.Array:
    """The same day of another month, or its last one."""
    days, month = _in_months(date)
    first = (month + np.asarray(months.fill_null(0)).astype("m8[M]")).astype("M8[M]")
    last = (first + 1).astype("M8[D]") - 1
    found = np.minimum(first.astype("M8[D]") + (days - month.astype("M8[D]")), last)
    return _as_dates(found, pc.or_(date.is_null(), months.is_null()))


def _last_day(type: pa.DataType, date: pa.Array) -> pa.Array:
    _, month = _in_months(date)
    return _as_dates((month + 1).astype("M8[D]") - 1, date.is_null())


def _units_since_epoch(micros: int) -> Callable[..., pa.Array]:
    """Whole units, towards the past."""

    def count(type: pa.DataType, moment: pa.Array) -> pa.Array:
        return pa.array(np.asarray(moment.view(pa.int64()).fill_null(0)) // micros, mask=np.asarray(moment.is_null()))

    return count


def _unix_timestamp(type: pa.DataType, moment: pa.Array) -> pa.Array:
    """Whole seconds, towards the epoch."""
    return pc.divide(moment.view(pa.int64()), 1_000_000)


def _second_part(type: pa.DataType, moment: pa.Array) -> pa.Array:
    """The seconds of the minute with their fraction."""
    micros = np.asarray(moment.view(pa.int64()).fill_null(0)) % 60_000_000
    return from_unscaled(pa.array(micros, mask=np.asarray(moment.is_null())).to_pylist(), type)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "year": plain(pc.year),
    "quarter": plain(pc.quarter),
    "month": plain(pc.month),
    "day": plain(pc.day),
    "dayofyear": plain(pc.day_of_year),
    "dayofweek": plain(partial(pc.day_of_week, count_from_zero=False, week_start=7)),
    "weekday": plain(pc.day_of_week),
    "weekofyear": plain(pc.iso_week),
    "hour": plain(pc.hour),
    "minute": plain(pc.minute),
    "second": plain(pc.second),
    "datediff": plain(lambda end, start: pc.subtract(end.cast(pa.int32()), start.cast(pa.int32()))),
    "date_trunc": _date_trunc,
    "trunc": _trunc,
    "date_add": partial(_add_days, 1),
    "date_sub": partial(_add_days, -1),
    "add_months": _add_months,
    "last_day": _last_day,
    "unix_date": plain(lambda date: date.view(pa.int32())),
    "date_from_unix_date": plain(lambda days: days.view(pa.date32())),
    "unix_seconds": _units_since_epoch(1_000_000),
    "unix_millis": _units_since_epoch(1_000),
    "unix_micros": _units_since_epoch(1),
    "unix_timestamp": _unix_timestamp,
    "second_part": _second_part,
}
