"""The keys that a question requires of an archive: against DuckDB, which evaluates the same WHERE over every key."""

from __future__ import annotations

from datetime import UTC, date, datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.archive import Spec
from sash.archive.wanted_keys import KeyRange
from sash.catalog import Catalog, DeclaredArchive, Table
from sash.sql import SelectStatement, SoughtRange, SoughtValues, bind_stored, parse
from tests.support.examples import examples

TYPES = {
    "whole": pa.int32(),
    "real": pa.float64(),
    "short": pa.float32(),
    "text": pa.string(),
    "day": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(9, 2),
}


def keys_of(where: str, key: str = "whole", source: str = "a") -> SoughtValues | SoughtRange | None:
    catalog = Catalog()
    schema = pa.schema({**TYPES, "v": pa.int64()})
    catalog.add_archive(DeclaredArchive("a", "s", schema, key, 60, 2))
    catalog.add_table(Table("names", pa.schema([("k", pa.int32()), ("name", pa.string())]), ("k",)))
    statement = parse(f"SELECT a.v FROM {source} WHERE {where}")
    assert isinstance(statement, SelectStatement)
    (reading,) = bind_stored(statement.select, catalog).archives.values()
    return reading.keys


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("whole BETWEEN 3 AND 7", "whole BETWEEN 3 AND 7"),
        ("whole > 3 AND whole < 7", "whole BETWEEN 4 AND 6"),
        ("3 < whole AND 7 >= WHOLE AND v = 1", "whole BETWEEN 4 AND 7"),
        ("whole >= -3 AND whole > 1 AND (whole <= 9 AND a.whole <= 8)", "whole BETWEEN 2 AND 8"),
        ("whole >= 3", "whole >= 3"),
        ("whole < v AND whole < 3", "whole <= 2"),
        ("whole BETWEEN v AND 7", "whole <= 7"),
        ("whole > 3 AND whole = 5", "whole = 5"),
        ("whole > 3 AND whole IN (5, 6)", "whole IN (5, 6)"),
        ("real > -1.5 AND real <= 2e1", "real BETWEEN -1.5 AND 20.0"),
        ("text > 'a'", "text >= 'a'"),
        ("day < DATE '2024-02-29'", "day <= '2024-02-29'"),
        ("time >= TIMESTAMP '2024-02-29 12:00:00'", "time >= '2024-02-29 12:00:00+00:00'"),
    ],
)
def test_comparisons_with_constants_are_one_range(where: str, expected: str) -> None:
    assert str(keys_of(where, expected.split()[0])) == expected


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("whole > 3 OR v = 1", "whole"),
        ("NOT whole > 3", "whole"),
        ("whole NOT BETWEEN 3 AND 7", "whole"),
        ("whole + 1 > 3", "whole"),
        ("whole <> 3", "whole"),
        ("whole > 1.5", "whole"),
        ("whole > '3'", "whole"),
        ("whole < 9999999999", "whole"),
        ("whole > 2147483647", "whole"),
        ("v > 3", "whole"),
        ("text > 3", "text"),
        ("real > '3'", "real"),
        ("day < DATE '2024-02-30'", "day"),
        ("day < '2024-02-29'", "day"),
        ("time > DATE '2024-02-29'", "time"),
        ("time > TIMESTAMP '2024'", "time"),
        ("price > 3.25", "price"),
    ],
)
def test_other_conditions_are_left_to_a_scan(where: str, key: str) -> None:
    assert keys_of(where, key) is None


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
def test_a_range_holds_whatever_the_join(join: str) -> None:
    """A condition of WHERE drops rows with other keys, and rows that a join fills with NULLs."""
    assert keys_of("whole < 3", source=f"a {join} names n ON n.k = a.whole") == SoughtRange("whole", None, 2)
    assert keys_of("n.k < 3", source=f"a {join} names n ON n.k = a.whole") is None


VALUES: dict[str, list[object]] = {
    "whole": [-(2**31), -2, -1, 0, 1, 2, 2**31 - 1, None],
    "real": [float("-inf"), -1.5, -0.0, 0.0, 0.1, 2.0, float("inf"), float("nan"), None],
    "short": [-1.5, -0.0, 0.1, 0.3, 2.0, 3e38, float("nan"), None],
    "text": ["", "A", "a", "ab", "b", "ä", "\U0001f600", None],
    "day": [date(1969, 12, 31), date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1), None],
    "time": [datetime(2024, 2, 29, 12, 0, 0, n, tzinfo=UTC) for n in (0, 1)] + [datetime(2024, 3, 1, tzinfo=UTC), None],
}
CONSTANTS = {
    "whole": ["-2147483648", "-2", "-1", "0", "1", "2", "2147483647", "9999999999"],
    "real": ["-1.5", "0", "0.1", "-0.0", "2", "1e308"],
    "short": ["-1.5", "0", "0.1", "0.3", "2", "1e39"],
    "text": ["''", "'a'", "'ab'", "'ä'", "'z'"],
    "day": ["DATE '2024-02-28'", "DATE '2024-02-29'"],
    "time": ["TIMESTAMP '2024-02-29 12:00:00'", "TIMESTAMP '2024-03-01 00:00:00'"],
}


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, str]:
    key = draw(st.sampled_from(sorted(CONSTANTS)))
    constants = st.sampled_from(CONSTANTS[key])
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        form = draw(st.sampled_from(["{k} < {a}", "{k} <= {a}", "{a} < {k}", "{a} <= {k}", "{k} BETWEEN {a} AND {b}"]))
        terms.append(form.format(k=key, a=draw(constants), b=draw(constants)))
    return key, " AND ".join(terms)


@given(chosen=conditions())
@settings(max_examples=examples(600))
def test_no_row_of_the_answer_is_left_out(chosen: tuple[str, str]) -> None:
    key, where = chosen
    rows = pa.table({key: pa.array(VALUES[key], TYPES[key]), "n": range(len(VALUES[key]))})
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("a", rows)
        # Spark compares floats as doubles, and reads TIMESTAMP as an instant.
        asked = where.replace("TIMESTAMP '", "TIMESTAMPTZ '").replace(key, f"{key}::DOUBLE" if key == "short" else key)
        answer = connection.sql(f"SELECT n FROM a WHERE {asked}").fetchall()
    sought = keys_of(where, key)
    if sought is None:
        return
    assert isinstance(sought, SoughtRange)
    spec = Spec(pa.schema({key: TYPES[key]}), key, 60, 2, 2, 2, "round_robin", "rebuild")
    found = rows.filter(KeyRange.of(sought.low, sought.high, spec).condition)["n"].to_pylist()
    assert {n for (n,) in answer} <= set(found)
    # Ends that are not included cost the rows that have them, and integers nothing; the limits of a type are no ends.
    beside = [rows[key][n].as_py() for n in found if (n,) not in answer]
    if key == "whole" and not any(limit in where for limit in ("2147483648", "2147483647", "9999999999")):
        assert not beside
    elif key not in ("whole", "short"):
        assert set(beside) <= {sought.low, sought.high}
