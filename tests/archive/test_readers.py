"""Readers beside a writer: whole states only, and files that stay for as long as somebody reads them."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.archive import Archive
from sash.core.errors import ArchiveError
from tests.archive.model import KINDS, Kind, Record, described, make, table

PER_UPDATE = 30


def wave_of(now: int) -> list[Record]:
    """All records of an update carry its time as their id, and live until the second update after it."""
    return [Record(now, n % 4, now - n % 2, now + 4) for n in range(PER_UPDATE)]


def check_whole(rows: pa.Table, share: int) -> None:
    """All or nothing of the last two updates."""
    found = rows["id"].to_pylist()
    times = sorted(set(found))
    assert len(times) <= 2 and (len(times) < 2 or times[1] - times[0] == 2)
    assert all(found.count(time) == share for time in times)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["the writer's process", "another process"])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[4]], ids=described)
def test_readers_see_whole_states_only(tmp_path: Path, kind: Kind, elsewhere: bool) -> None:
    archive = make(tmp_path, kind)
    archive.update(table(wave_of(100)), 100)
    reader = Archive.open(tmp_path) if elsewhere else archive
    done, seen, errors = threading.Event(), [0], []

    def read() -> None:
        try:
            while not done.is_set() or not seen[0]:
                check_whole(reader.scan(), PER_UPDATE)
                check_whole(reader.probe([0, 1, 2, 3]), PER_UPDATE)
                check_whole(reader.probe([3]), PER_UPDATE // 4)
                seen[0] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for now in range(102, 142, 2):
        archive.update(table(wave_of(now)), now)
        if now == 120:
            layout, g, e = ("wave", 2, 1) if kind[0] == "wave" else (kind[0], 3, 3)
            archive.migrate(g, e, layout=layout)
    done.set()
    for thread in threads:
        thread.join(60)
    assert not errors and seen[0]
    archive.close()


def test_a_state_that_is_held_stays(tmp_path: Path) -> None:
    archive = make(tmp_path, KINDS[0])
    archive.update(table(wave_of(100)), 100)
    with archive.hold() as held:
        for now in range(102, 112, 2):
            archive.update(table(wave_of(now)), now)
        archive.migrate(3, 3)
        rows = pa.concat_tables([pq.read_table(path) for path in held.paths]).filter(held.alive)
        assert set(rows["id"].to_pylist()) == {100} and rows.num_rows == PER_UPDATE
        assert held.now == 100
    assert not any(path.exists() for path in held.paths)
    archive.close()


def test_batches_of_a_scan_are_of_one_state(tmp_path: Path) -> None:
    archive = make(tmp_path, KINDS[0])
    archive.update(table(wave_of(100)), 100)
    batches = archive.scan_batches(columns=["id"])
    first = next(batches)
    for now in range(102, 112, 2):
        archive.update(table(wave_of(now)), now)
    rest = pa.Table.from_batches([first, *batches])
    assert rest["id"].to_pylist() == [100] * PER_UPDATE
    archive.close()


def test_files_that_were_listed_outlive_one_update(tmp_path: Path) -> None:
    archive = make(tmp_path, ("wave", 1, 1, "rebuild"))
    archive.update(table(wave_of(100)), 100)
    listed = archive.files()
    archive.update(table(wave_of(102)), 102)
    assert all(path.exists() for path in listed)
    archive.update(table(wave_of(104)), 104)
    assert not any(path.exists() for path in listed)
    archive.close()


def test_one_writer(tmp_path: Path) -> None:
    archive = make(tmp_path, KINDS[0])
    with pytest.raises(ArchiveError, match="has a writer already"):
        Archive.open(tmp_path, write=True)
    reader = Archive.open(tmp_path)
    with pytest.raises(ArchiveError, match="open for reading"):
        reader.update(table([]), 100)
    archive.close()
    with pytest.raises(ArchiveError, match="open for reading"):
        archive.update(table([]), 100)
    with Archive.open(tmp_path, write=True) as second:
        second.update(table(wave_of(100)), 100)
    assert reader.scan().num_rows == PER_UPDATE
