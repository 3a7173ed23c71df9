"""Timestamps as text, by the letters of Spark's patterns: `yyyy-MM-dd HH:mm:ss`. In UTC, for the years 1 to 9999.

A pattern is cut into fields and texts; each field is a column of strings, and Arrow joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PART = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'\[\]{}#]+)")
_MONTHS = ["January", "February", "March", "April", "May", "June", "July"]
_MONTHS += ["August", "September", "October", "November", "December"]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_DEFAULT = "yyyy-MM-dd HH:mm:ss"
_Field = Callable[[pa.Array], pa.Array]


def _number(compute: _Field, width: int) -> _Field:
    return lambda moments: pc.utf8_lpad(compute(moments).cast(pa.string()), width, "0")


def _named(compute: _Field, names: list[str]) -> _Field:
    return lambda moments: pa.array(names).take(compute(moments))


def _micros(moments: pa.Array) -> pa.Array:
    micros = np.asarray(moments.view(pa.int64()).fill_null(0)) % 1_000_000
    return pa.array(micros, mask=np.asarray(moments.is_null()))


def _fraction(digits: int) -> _Field:
    def field(moments: pa.Array) -> pa.Array:
        return pc.utf8_slice_codeunits(pc.utf8_rpad(_number(_micros, 6)(moments), 9, "0"), 0, digits)

    return field


def _half_day(moments: pa.Array) -> pa.Array:
    """1 to 12."""
    hours = (np.asarray(pc.hour(moments).fill_null(0)) + 11) % 12 + 1
    return pa.array(hours, mask=np.asarray(moments.is_null()))


def _century(moments: pa.Array) -> pa.Array:
    years = np.asarray(pc.year(moments).fill_null(0)) % 100
    return pa.array(years, mask=np.asarray(moments.is_null()))


def _month(moments: pa.Array) -> pa.Array:
    """0 to 11."""
    return pc.subtract(pc.month(moments), 1)


def _numbers(letter: str, compute: _Field, widths: int) -> dict[str, _Field]:
    return {letter * width: _number(compute, width) for width in range(1, widths + 1)}


def _constantly(text: str) -> _Field:
    return lambda moments: pc.if_else(moments.is_null(), pa.scalar(None, pa.string()), text)


_FIELDS: dict[str, _Field] = {
    "y": _number(pc.year, 1),
    "yy": _number(_century, 2),
    "yyyy": _number(pc.year, 4),
    **_numbers("M", pc.month, 2),
    "MMM": _named(_month, [name[:3] for name in _MONTHS]),
    "MMMM": _named(_month, _MONTHS),
    **_numbers("d", pc.day, 2),
    "D": _number(pc.day_of_year, 1),
    "DDD": _number(pc.day_of_year, 3),
    **dict.fromkeys(("E", "EE", "EEE"), _named(pc.day_of_week, [name[:3] for name in _DAYS])),
    "EEEE": _named(pc.day_of_week, _DAYS),
    **_numbers("H", pc.hour, 2),
    **_numbers("h", _half_day, 2),
    "a": lambda moments: pc.if_else(pc.less(pc.hour(moments), 12), "AM", "PM"),
    **_numbers("m", pc.minute, 2),
    **_numbers("s", pc.second, 2),
    **{"S" * digits: _fraction(digits) for digits in range(1, 10)},
    **_numbers("Q", pc.quarter, 2),
    **dict.fromkeys(("X", "XX", "XXX"), _constantly("Z")),
}


@lru_cache(maxsize=256)
def fields_of(pattern: str) -> tuple[_Field, ...]:
    """The parts of a pattern; ValueError at letters that are no field here.

    >>> len(fields_of("yyyy-MM-dd'T'HH"))
    7
    >>> fields_of("yyyy-ww")
    Traceback (most recent call last):
    ValueError: 'ww' in a pattern of times
    """
    found, place = list[_Field](), 0
    while place < len(pattern):
        part = _PART.match(pattern, place)
        written = "" if part is None else part[2] or ""
        if part is None or (written and written not in _FIELDS):
            raise ValueError(f"'{written or pattern[place]}' in a pattern of times")
        quoted = "'" if part[0] == "''" else (part[1] or "").replace("''", "'")
        found.append(_FIELDS[written] if written else _constantly(part[4] or quoted))
        place = part.end()
    return tuple(found)


def written(moments: pa.Array, pattern: str = _DEFAULT) -> pa.Array:
    """Timestamps as text; NULL where there is none."""
    years = pc.min_max(pc.year(moments)).as_py()
    if years["min"] is not None and not (years["min"] >= 1 and years["max"] <= 9999):
        raise ValueError("a timestamp is outside of the years 1 to 9999, and is not written as text")
    parts = [field(moments) for field in fields_of(pattern)]
    return pc.binary_join_element_wise(*parts, "") if parts else _constantly("")(moments)


def cast_to_text(moments: pa.Array) -> pa.Array:
    """As CAST writes a timestamp: with as many digits of the second as there are."""
    fraction = pc.utf8_rtrim(_fraction(6)(moments), "0")
    behind = pc.if_else(pc.equal(fraction, ""), "", pc.binary_join_element_wise(".", fraction, ""))
    return pc.binary_join_element_wise(written(moments), behind, "")


def check_constants(function: str, constants: tuple[str | None, ...]) -> None:
    """Check the pattern, if there is one; ValueError at letters that are no field here."""
    for pattern in constants:
        if pattern is not None:
            fields_of(pattern)


def _date_format(type: pa.DataType, moments: pa.Array, pattern: pa.Array) -> pa.Array:
    """The pattern is one constant: the binder sees to it."""
    text = pattern[0].as_py() if len(pattern) else None
    return pa.nulls(len(moments), type) if text is None else written(moments, text)


def _from_unixtime(type: pa.DataType, seconds: pa.Array, pattern: pa.Array | None = None) -> pa.Array:
    try:
        moments = pc.multiply_checked(seconds, 1_000_000).view(pa.timestamp("us"))
    except pa.ArrowInvalid:
        raise ValueError("a time is outside of the years 1 to 9999") from None
    return written(moments) if pattern is None else _date_format(type, moments, pattern)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {"date_format": _date_format, "from_unixtime": _from_unixtime}
