"""Strings as numbers, booleans or moments: Spark's spellings, None for anything else.

White space and control characters around a value do not count. A time without a date, which Spark reads with
today's date, is no timestamp here: an answer must not depend on the day on which it is computed.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

_AROUND = "".join(map(chr, [*range(0x21), 0x7F]))
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_INFINITE = re.compile(r"([+-]?)(inf|infinity)", re.IGNORECASE)
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_TIME = re.compile(r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?\s*(.*)", re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2}))?(?::?([0-9]{2}))?")
_DAY, _SECOND = 86_400_000_000, 1_000_000


def whole(text: str) -> int | None:
    text = text.strip(_AROUND)
    return int(text) if _WHOLE.fullmatch(text) and len(text) < 40 else None


def double(text: str) -> float | None:
    """
    >>> double(" 1e3 "), double("-Infinity"), double("1d"), double("1,5")
    (1000.0, -inf, 1.0, None)
    """
    text = text.strip(_AROUND)
    infinite = _INFINITE.fullmatch(text)
    if infinite:
        return -math.inf if infinite[1] == "-" else math.inf
    if text.lower() == "nan":
        return math.nan
    number = text[:-1] if text[-1:] in ("d", "D", "f", "F") else text
    if _DECIMAL.fullmatch(number):
        return float(number)
    if _HEXADECIMAL.fullmatch(number):
        return float.fromhex(number)
    return None


def decimal(text: str) -> Decimal | None:
    text = text.strip(_AROUND)
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def boolean(text: str) -> bool | None:
    word = text.strip(_AROUND).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def date(text: str) -> int | None:
    """Days since the epoch; text behind a space or T is ignored.

    >>> date("1970-02"), date(" 1970-1-2 x"), date("1970-02-30")
    (31, 1, None)
    """
    text = text.strip(_AROUND)
    match = _DATE.match(text)
    if match is None:
        return None
    rest = text[match.end() :]
    if rest and (match[4] is None or rest[0] not in " T"):
        return None
    return _days(match)


def _days(match: re.Match[str]) -> int | None:
    year = int(match[2]) * (-1 if match[1] == "-" else 1)
    month, day = int(match[3] or 1), int(match[4] or 1)
    return days_since_epoch(year, month, day)


def days_since_epoch(year: int, month: int, day: int) -> int | None:
    """In the proleptic Gregorian calendar, years of any size.

    >>> days_since_epoch(2000, 3, 1), days_since_epoch(0, 2, 30)
    (11017, None)
    """
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not (1 <= month <= 12 and 1 <= day <= lengths[month - 1]):
        return None
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + sum(lengths[: month - 1]) + day - 719_163


def timestamp(text: str, *, zoned: bool) -> int | None:
    """Microseconds since the epoch. Without a zone the time is UTC; a type without time zone drops it.

    >>> timestamp("1970-01-01 00:00:01.5", zoned=True), timestamp("1970-01-01T02:00+02:00", zoned=True)
    (1500000, 0)
    """
    text = text.strip(_AROUND)
    match = _DATE.match(text)
    days = _days(match) if match else None
    if match is None or days is None:
        return None
    rest = text[match.end() :]
    if not rest:
        return days * _DAY
    if match[4] is None or rest[0] not in " T":
        return None
    return _moment(days, rest[1:], zoned)


def _moment(days: int, time: str, zoned: bool) -> int | None:
    match = _TIME.fullmatch(time)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    micros = ((hour * 60 + minute) * 60 + second) * _SECOND + int(((match[4] or "") + "000000")[:6])
    offset = _offset(match[5], days, micros) if match[5] else 0
    if offset is None:
        return None
    return days * _DAY + micros - (offset if zoned else 0)


def _offset(zone: str, days: int, micros: int) -> int | None:
    """A time zone's distance from UTC at a local time, in microseconds."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match:
        hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
        if hours > 18 or minutes > 59 or seconds > 59:
            return None
        return ((hours * 60 + minutes) * 60 + seconds) * _SECOND * (-1 if match[1] == "-" else 1)
    try:
        local = datetime.fromordinal(days + 719_163) + timedelta(microseconds=micros)
        distance = local.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except (ValueError, OverflowError, OSError, LookupError):
        return None
    return None if distance is None else distance // timedelta(microseconds=1)
