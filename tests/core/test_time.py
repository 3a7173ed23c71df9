"""Durations, and multiples of a step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.core.time import (
    SECOND,
    UNITS,
    format_duration,
    multiple_after,
    multiple_at_or_after,
    parse_duration,
    to_datetime,
    to_micros,
)

TIMES = st.integers(-(2**53), 2**53)
STEPS = st.integers(1, 10**13)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("10 sec", 10 * SECOND),
        ("1 second", SECOND),
        ("2 MINUTES", 120 * SECOND),
        ("  3hour ", 3 * 3_600 * SECOND),
        ("1 day", 86_400 * SECOND),
        ("250 ms", 250_000),
        ("0.5 ms", 500),
        ("1.5 min", 90 * SECOND),
        ("0.000001 sec", 1),
        ("-2 sec", -2 * SECOND),
        ("-0.5 sec", -SECOND // 2),
        ("0 sec", 0),
        ("90s", 90 * SECOND),
        ("2 hrs", 7_200 * SECOND),
        ("INTERVAL '5' MINUTE", 300 * SECOND),
        ("interval 5m", 300 * SECOND),
        ('INTERVAL "1.5 days"', 129_600 * SECOND),
    ],
)
def test_durations(text: str, micros: int) -> None:
    assert parse_duration(text) == micros


@pytest.mark.parametrize(
    "text",
    [
        *("", "10", "sec", "10 secz", "1 month", "INTERVAL 5", "INTERVAL5 sec", "ten sec"),
        *("1e3 sec", "1 sec 2", "+1 sec", "1. sec", ".5 sec"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as '10 sec'"):
        parse_duration(text)


def test_finer_than_a_microsecond() -> None:
    with pytest.raises(ValueError, match="finer than a microsecond"):
        parse_duration("0.0000001 sec")


@given(st.integers(-(10**6), 10**6), st.sampled_from(sorted(UNITS)))
def test_every_spelling_of_whole_units_comes_back(count: int, unit: str) -> None:
    micros = count * UNITS[unit]
    assert parse_duration(f"{count} {unit}") == micros
    assert parse_duration(format_duration(micros)) == micros


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0 sec"),
        (SECOND, "1 sec"),
        (90 * SECOND, "90 sec"),
        (60 * SECOND, "1 min"),
        (36 * 3_600 * SECOND, "36 hour"),
        (48 * 3_600 * SECOND, "2 day"),
        (1_500_000, "1500 ms"),
        (500, "0.5 ms"),
    ],
)
def test_the_shortest_spelling(micros: int, text: str) -> None:
    assert format_duration(micros) == text


@given(TIMES, STEPS, TIMES)
@example(0, 1, 0)
@example(-1, 10, 3)
def test_multiples(t: int, step: int, offset: int) -> None:
    at, after = multiple_at_or_after(t, step, offset), multiple_after(t, step, offset)
    assert at - step < t <= at and (at - offset) % step == 0
    assert after - step <= t < after and (after - offset) % step == 0
    assert after == multiple_at_or_after(t + 1, step, offset)


@given(st.datetimes(timezones=st.just(UTC)))
def test_datetimes_round_trip(moment: datetime) -> None:
    assert to_datetime(to_micros(moment)) == moment


def test_moments_of_other_zones() -> None:
    assert to_micros(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0
    assert to_micros(datetime(1970, 1, 1, 0, 0, 1)) == SECOND, "a naive one counts as UTC"
    assert to_micros(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
