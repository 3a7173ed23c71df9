"""Making and opening archives, what they refuse, and what an update costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sash.archive import STRATEGIES, Archive, with_times
from sash.archive.layout import HYSTERESIS, LARGE_FROM_BYTES, MANY_FROM_QUERIES, PartitionChoice, choose, rechoose
from sash.core.errors import ArchiveError
from tests.archive.model import KINDS, Record, make, table

SCHEMA = pa.schema({"customer": pa.int64(), "minutes": pa.int64()})
MINUTE = 60_000_000


def created(directory: Path, **changed: Any) -> Archive:
    options: dict[str, Any] = {"schema": SCHEMA, "key": "customer", "lifetime": 16 * MINUTE, "every": 2 * MINUTE}
    options |= {"g": 2, "e": 2, **changed}
    return Archive.create(directory / "calls", **options)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"key": "costumer"}, "KEY costumer: there is no such column; did you mean 'customer'"),
        ({"lifetime": 15 * MINUTE}, "LIFETIME UP TO 15 min is not a multiple .* take 14 min or 16 min"),
        ({"lifetime": MINUTE}, "is not a multiple of UPDATE EVERY 2 min; take 2 min, or another"),
        ({"lifetime": 0}, "must be positive"),
        ({"lifetime": 5_000 * 1440 * MINUTE}, "at most 3660 day"),
        ({"every": 0}, "UPDATE EVERY 0 sec"),
        ({"g": 1}, "PARTITION 1 x 2: both numbers must be at least 2"),
        ({"e": 0}, "PARTITION 2 x 0"),
        ({"g": 9}, "at most 8 partitions"),
        ({"layout": "wave"}, "take n x 1 or 1 x n"),
        ({"layout": "wave", "g": 0, "e": 1}, "take n x 1 or 1 x n"),
        ({"layout": "roundrobin"}, "there is no layout 'roundrobin'; did you mean 'round_robin'"),
        ({"strategy": "rebuilt"}, "there is no strategy 'rebuilt'; did you mean 'rebuild'"),
        ({"e": None}, "PARTITION needs two numbers"),
        ({"g": None, "e": None, "strategy": "rebuild"}, "PARTITION AUTO chooses"),
        ({"bucket_bytes": 0}, "holds nothing"),
        ({"schema": pa.schema({"customer": pa.list_(pa.int64())})}, "have no order"),
        ({"schema": pa.schema({"customer": pa.month_day_nano_interval()})}, "have no order"),
        ({"schema": pa.schema({"customer": pa.int64(), "_sash_expires": pa.int64()})}, "the archive's own"),
        ({"schema": pa.schema([("customer", pa.int64()), ("a", pa.int64()), ("a", pa.int8())])}, "two columns"),
        ({"schema": pa.schema({"customer": pa.int64(), "u": pa.month_day_nano_interval()})}, "Parquet cannot hold"),
    ],
)
def test_what_cannot_be_made(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        created(tmp_path, **changed)
    assert not (tmp_path / "calls" / "manifest.json").exists()


def test_a_directory_has_one_archive(tmp_path: Path) -> None:
    created(tmp_path).close()
    with pytest.raises(ArchiveError, match="already; open it"):
        created(tmp_path)
    with pytest.raises(ArchiveError, match="is not an archive"):
        Archive.open(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls"]


def test_a_foreign_or_damaged_manifest_is_refused(tmp_path: Path) -> None:
    created(tmp_path).close()
    directory = tmp_path / "calls"
    whole = json.loads((directory / "manifest.json").read_text())
    flipped = {**whole, "archive": {**whole["archive"], "number": 7}}
    for text, message in (
        (json.dumps(whole)[:-40], "damaged"),
        (json.dumps(flipped), "damaged: its checksum is wrong"),
        (json.dumps({**whole, "format": 99}), "has format 99, this version"),
        (json.dumps({"entries": []}), "not the manifest of an archive"),
        ("[]", "not the manifest of an archive"),
        ("\udcff", "damaged"),
    ):
        (directory / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
        for write in (False, True):
            with pytest.raises(ArchiveError, match=message):
                Archive.open(directory, write=write)


def records(inserted: int, expires: int, **columns: Any) -> pa.Table:
    rows = pa.table(columns or {"customer": [1], "minutes": [2]})
    return with_times(rows, [inserted] * rows.num_rows, [expires] * rows.num_rows)


def test_records_that_do_not_fit(tmp_path: Path) -> None:
    archive = created(tmp_path, lifetime=16, every=2)
    archive.update(records(1, 4), 2)
    far = 2**62
    for rows, message in (
        (records(3, 20), "1 records live longer than LIFETIME UP TO"),
        (records(3, far), "live longer"),
        (records(5, 8), "after the update at"),
        (records(3, 8, customer=[1]), "no column 'minutes'"),
        (records(3, 8, customer=[1], minutes=[1], extra=[1]), "no column 'extra'"),
        (records(3, 8, customer=["x"], minutes=[1]), "do not fit"),
        (pa.table({"customer": [1], "minutes": [2]}), "no column '_sash_inserted'"),
        (with_times(pa.table({"customer": [1], "minutes": [2]}), [None], [8]), "'_sash_inserted' is NULL"),  # type: ignore[list-item]
    ):
        with pytest.raises(ArchiveError, match=message):
            archive.update(rows, 4)
    for now, message in ((3, "not at a multiple"), (2, "updated at .* already"), (0, "already")):
        with pytest.raises(ArchiveError, match=message):
            archive.update(records(-1, 9), now)
    assert archive.facts().number == 1 and archive.probe([1]).num_rows == 1
    with pytest.raises(ArchiveError, match="cannot be read as of"):
        archive.scan(now=1)
    with pytest.raises(ArchiveError, match="no column 'minute'; did you mean"):
        archive.scan(["minute"])
    with pytest.raises(ArchiveError, match="KEY customer is of type int64"):
        archive.probe(["x"])
    archive.close()


def test_a_record_may_come_late_and_have_expired(tmp_path: Path) -> None:
    archive = created(tmp_path, lifetime=16, every=2)
    archive.update(records(1, 17), 2)
    done = archive.update(pa.concat_tables([records(3, 19), records(4, 12), records(25, 26), records(20, 36)]), 26)
    assert (done.rows, done.expired) == (1, 3)
    assert archive.scan().num_rows == 1
    archive.close()


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_an_empty_update_writes_a_manifest_only(tmp_path: Path, strategy: str) -> None:
    archive = created(tmp_path, lifetime=16, every=2, strategy=strategy)
    archive.update(records(1, 17), 2)
    files = archive.files()
    for now in (4, 6, 14):
        done = archive.update(SCHEMA_TIMES, now)
        assert (done.rows, done.sub_indices, done.files, done.bytes) == (0, (), 0, 0)
        assert archive.files() == files
    done = archive.update(SCHEMA_TIMES, 18)
    assert (done.files, len(done.sub_indices)) == (0, 1)
    assert archive.files() == [] and archive.scan().num_rows == 0
    archive.close()


SCHEMA_TIMES = with_times(SCHEMA.empty_table(), [], [])


def test_columns_and_filters_of_a_scan(tmp_path: Path) -> None:
    archive = created(tmp_path, lifetime=16, every=2)
    archive.update(records(1, 9, customer=[1, 2, 3], minutes=[10, 20, 30]), 2)
    found = archive.scan(["minutes", "_sash_expires"], pc.field("customer") >= 2)
    assert found["minutes"].to_pylist() == [20, 30]
    assert found["_sash_expires"].cast(pa.int64()).to_pylist() == [9, 9]
    assert archive.probe([2], columns=["minutes"]).to_pydict() == {"minutes": [20]}
    archive.close()


def test_norebuild_keeps_at_most_as_much_that_has_expired_as_is_alive(tmp_path: Path) -> None:
    """Most records live for a moment and a few for long: without reclaiming, the few would keep all of them."""
    archive = make(tmp_path, ("round_robin", 2, 2, "no_rebuild"), bucket_bytes=64)
    for now in range(100, 160, 2):
        # Both expire in slots of one partition, so that they share a file.
        new = [Record(now * 100 + n, n % 4, now, now + (15 if n < 3 else 3)) for n in range(53)]
        archive.update(table(new), now)
        facts = archive.facts()
        assert facts.rows <= 2 * archive.scan().num_rows
    assert facts.files <= 40
    archive.close()


def test_rebuild_has_one_file_and_one_run_per_key_in_a_sub_index(tmp_path: Path) -> None:
    archive = make(tmp_path, KINDS[0], bucket_bytes=64)
    for now in range(100, 120, 2):
        archive.update(table([Record(now * 100 + n, n % 4, now - n % 2, now + 1 + n % 15) for n in range(40)]), now)
    assert all(each.files == 1 for each in archive.facts().sub_indices)
    archive.close()


def test_a_note_is_kept_with_the_state(tmp_path: Path) -> None:
    archive = created(tmp_path, lifetime=16, every=2)
    archive.update(records(1, 9), 2, note={"epoch": 41})
    archive.update(SCHEMA_TIMES, 4)
    archive.close()
    assert Archive.open(tmp_path / "calls").facts().note == {"epoch": 41}


@pytest.mark.parametrize(
    ("size", "queries", "choice"),
    [
        (500e6, 2, PartitionChoice(4, 4, "no_rebuild")),
        (500e6, 1000, PartitionChoice(2, 2, "rebuild")),
        (5e9, 2, PartitionChoice(3, 3, "no_rebuild")),
        (5e9, 1000, PartitionChoice(2, 2, "no_rebuild")),
    ],
)
def test_the_guidelines(size: float, queries: float, choice: PartitionChoice) -> None:
    assert choose(size, queries, 36) == choice == rechoose(PartitionChoice(9, 9, "rebuild"), size, queries, 36)


def test_a_choice_stays_near_a_limit_and_fits_the_slots() -> None:
    current = PartitionChoice(4, 4, "no_rebuild")
    assert rechoose(current, LARGE_FROM_BYTES * 1.5, 1, 36) == current
    assert rechoose(current, LARGE_FROM_BYTES * HYSTERESIS * 1.1, 1, 36) == PartitionChoice(3, 3, "no_rebuild")
    assert rechoose(current, 0, MANY_FROM_QUERIES / 1.5, 36) == current
    assert choose(0, 0, 3) == PartitionChoice(3, 3, "no_rebuild")


def test_partition_auto_follows_the_queries(tmp_path: Path) -> None:
    archive = created(tmp_path, lifetime=16, every=2, g=None, e=None)
    assert (archive.spec.g, archive.spec.e, archive.spec.auto) == (4, 4, True)
    archive.update(records(1, 17), 2)
    assert not archive.retune()
    for now in range(4, 16, 2):
        for _ in range(100):
            archive.probe([1])
        archive.update(SCHEMA_TIMES, now)
    assert archive.facts().queries > 50
    assert archive.retune() and not archive.retune()
    spec = archive.spec
    assert (spec.g, spec.e, spec.strategy, spec.auto) == (2, 2, "rebuild", True)
    assert archive.probe([1]).num_rows == 1
    archive.close()
