"""CREATE, ALTER, DROP and SHOW of archives."""

import pytest

from sash.core.errors import CqlError
from sash.core.time import SECOND
from sash.sql import AlterArchive, CreateArchive, Drop, Partitioning, Show, parse

MINUTE = 60 * SECOND
CALLS = "CREATE ARCHIVE calls FROM recent_calls KEY customer LIFETIME UP TO 16 min UPDATE EVERY 2 min"


def created(text: str) -> CreateArchive:
    statement = parse(text)
    assert isinstance(statement, CreateArchive)
    return statement


def test_all_clauses() -> None:
    found = created(f"{CALLS} PARTITION 4 x 8 CHRONOLOGICAL NOREBUILD IN 'calls.archive'")
    assert (found.name.text, found.source.text, found.key.text) == ("calls", "recent_calls", "customer")
    assert (found.lifetime, found.every, found.lifetime_column) == (16 * MINUTE, 2 * MINUTE, None)
    assert found.partitioning == Partitioning(4, 8, "chronological", rebuild=False)
    assert found.directory == "calls.archive"


def test_sash_chooses_what_is_not_said() -> None:
    assert created(CALLS).partitioning.is_auto
    assert created(f"{CALLS} PARTITION AUTO").partitioning.is_auto
    assert created(CALLS).directory is None
    assert created(f"{CALLS} PARTITION 2 x 2").partitioning == Partitioning(2, 2)
    assert created(f"{CALLS} PARTITION 2 x 2 RANDOM").partitioning == Partitioning(2, 2, "random")


@pytest.mark.parametrize("written", ["4 x 16", "4x16", "4 X 16", "4 x 16 ROUND ROBIN", "4 x 16 ROUND ROBIN REBUILD"])
def test_partitions_however_they_are_spaced(written: str) -> None:
    assert created(f"{CALLS} PARTITION {written}").partitioning == Partitioning(4, 16)


def test_clauses_come_in_any_order_and_lifetimes_from_a_column() -> None:
    found = created("create archive a from s update every 5 sec lifetime life up to 10 sec key k")
    assert found.lifetime_column is not None and found.lifetime_column.text == "life"
    assert (found.every, found.lifetime) == (5 * SECOND, 10 * SECOND)


def test_alter_drop_and_show() -> None:
    altered = parse("ALTER ARCHIVE calls PARTITION 2 x 3 NOREBUILD")
    assert isinstance(altered, AlterArchive)
    assert altered.partitioning == Partitioning(2, 3, rebuild=False)
    assert parse("DROP ARCHIVE calls") == Drop("archive", "calls")
    assert parse("SHOW ARCHIVES") == Show("archives")


@pytest.mark.parametrize(
    ("text", "reason", "word"),
    [
        (CALLS.replace("KEY customer ", ""), "expected KEY", ""),
        (CALLS.replace("LIFETIME UP TO 16 min ", ""), "expected LIFETIME UP TO", ""),
        (CALLS.replace("UPDATE EVERY 2 min", ""), "expected UPDATE EVERY", ""),
        (CALLS.replace("EVERY ", ""), "expected EVERY", "2"),
        (CALLS.replace("UP TO", "OF"), "expected UP TO", "16"),
        (f"{CALLS} PARTITION 1 x 4", "at least 2 x 2", "1"),
        (f"{CALLS} PARTITION 4 x 1", "at least 2 x 2", "4"),
        (f"{CALLS} PARTITION 4", "such as 4 x 4", "4"),
        (f"{CALLS} PARTITION", "such as 4 x 4", ""),
        (f"{CALLS} PARTITION 2 x 2 ROUND", "expected ROBIN", ""),
        (f"{CALLS} PARTITION 2 x 2 REBUILD NOREBUILD", "PARTITION, IN, got 'NOREBUILD' (line", "NOREBUILD"),
        (f"{CALLS} KEY other", "KEY is given twice", "KEY"),
        (f"{CALLS} IN calls", "in quotes", "calls"),
        (CALLS.replace("2 min", "0 min"), "greater than zero", "0 min"),
        ("ALTER ARCHIVE calls KEY x", "expected PARTITION", "KEY"),
        ("ALTER STREAM calls", "expected ARCHIVE", "STREAM"),
    ],
)
def test_refusals_point_at_the_word(text: str, reason: str, word: str) -> None:
    with pytest.raises(CqlError) as caught:
        parse(text)
    assert reason in str(caught.value)
    if word:
        assert text[caught.value.span.start : caught.value.span.end] == word
