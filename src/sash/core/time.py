"""Event time: int64 microseconds since the epoch (UTC), durations in microseconds, multiples of a step."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

Micros = int

SECOND: Micros = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

UNITS: dict[str, Micros] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * SECOND),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600 * SECOND),
    **dict.fromkeys(("d", "day", "days"), 86_400 * SECOND),
}
_SPELT = (("day", UNITS["day"]), ("hour", UNITS["hour"]), ("min", UNITS["min"]), ("sec", SECOND), ("ms", 1_000))
# Longer than any stream is kept, and far from where int64 microseconds overflow.
LONGEST: Micros = 3_660 * UNITS["day"]

# Before all event times, and far enough from the least int64 for arithmetic.
BEGINNING: Micros = -(2**62)
# Event times that Python's datetime can show, also a longest window later. Spark's own go on for 290,000 years.
EARLIEST: Micros = -62_135_596_800 * SECOND
LATEST: Micros = 253_402_300_799 * SECOND - LONGEST


# The word of an interval, and quotes around its number, or around its number and unit.
_INTERVAL = re.compile(r"\s*INTERVAL\b\s*(?:(['\"])(.*?)\1)?", re.IGNORECASE)


def parse_duration(text: str) -> Micros:
    """`10 min`, also as an INTERVAL, in microseconds; ValueError with the reason otherwise.

    >>> parse_duration("1.5 sec"), parse_duration("INTERVAL '5' MINUTE")
    (1500000, 300000000)
    """
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", _INTERVAL.sub(r"\2 ", text, count=1))
    if match is None or match[2].lower() not in UNITS:
        raise ValueError(f"expected a duration such as '10 sec', got '{text}' (units: {unit_list()})")
    whole, _, fraction = match[1].lstrip("-").partition(".")
    unit = UNITS[match[2].lower()]
    numerator, denominator = int(whole + fraction) * unit, 10 ** len(fraction)
    if numerator % denominator:
        raise ValueError(f"'{text}' is finer than a microsecond")
    return -(numerator // denominator) if match[1].startswith("-") else numerator // denominator


def format_duration(micros: Micros) -> str:
    """The shortest exact spelling.

    >>> format_duration(90_000_000), format_duration(7_200_000_000), format_duration(1_234_567)
    ('90 sec', '2 hour', '1234.567 ms')
    """
    for name, unit in _SPELT:
        if micros % unit == 0 and micros:
            return f"{micros // unit} {name}"
    return f"{micros // 1000}.{micros % 1000:03d}".rstrip("0") + " ms" if micros else "0 sec"


def unit_list() -> str:
    """
    >>> unit_list()
    'ms/millisecond, s/sec/second, m/min/minute, h/hr/hour, d/day, or a plural'
    """
    singular = [(name, unit) for name, unit in UNITS.items() if f"{name}s" in UNITS or len(name) < 3]
    names = ("/".join(name for name, each in singular if each == unit) for unit in dict.fromkeys(UNITS.values()))
    return f"{', '.join(names)}, or a plural"


def to_datetime(micros: Micros) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def format_instant(micros: Micros) -> str:
    """
    >>> format_instant(0), format_instant(1_500_000)
    ('1970-01-01 00:00:00', '1970-01-01 00:00:01.500000')
    """
    return to_datetime(micros).replace(tzinfo=None).isoformat(" ")


def to_micros(moment: datetime) -> Micros:
    """An aware datetime (a naive one counts as UTC) in microseconds."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1)


def multiple_at_or_after(t: Micros, step: Micros, offset: Micros = 0) -> Micros:
    """The least offset + k * step that is >= t."""
    return -((offset - t) // step) * step + offset


def multiple_after(t: Micros, step: Micros, offset: Micros = 0) -> Micros:
    """The least offset + k * step that is > t."""
    return ((t - offset) // step + 1) * step + offset
