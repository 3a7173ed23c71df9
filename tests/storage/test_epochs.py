"""The epoch log: append, compact, recover; a crash at any write leaves the old state or the new one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.core.errors import CheckpointError
from sash.storage import epochs, files
from sash.storage.epochs import SNAPSHOT_EVERY, Entry, EpochLog, Intent, Snapshot
from tests.support.faults import DAMAGES


def table(n: int) -> pa.Table:
    return pa.table({"pane": pa.array([n, n + 1], pa.int64()), "sum": [0.5, float(n)]})


def batch(epoch: int, version: int = 1) -> Entry:
    return Entry("batch", epoch, version, {"rows": 10 * epoch}, {"batch": table(epoch)})


def snapshot(epoch: int) -> Snapshot:
    return Snapshot(epoch, 2, {"latest": 2**61, "groups": [["k", None]]}, [table(epoch), table(-epoch)])


def shown(log: EpochLog) -> dict[str, Any]:
    """Everything that a recovery would see."""
    saved = log.snapshot()
    return {
        "committed": log.committed,
        "snapshot": saved and (saved.epoch, saved.version, saved.state, [t.to_pydict() for t in saved.tables]),
        "entries": [
            (e.kind, e.epoch, e.version, e.facts, {name: table.to_pydict() for name, table in e.tables.items()})
            for e in log.entries()
        ],
    }


def arrow_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.suffix == ".arrow")


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    log = EpochLog(tmp_path / "streams" / "s")
    assert shown(log) == {"committed": -1, "snapshot": None, "entries": []}
    assert not log.wants_snapshot


def test_entries_come_back_in_order(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    log.append(batch(0))
    log.append(Entry("heartbeat", 0, 1, {"watermark": 2**61 + 1}))
    log.append(batch(1))
    log.append(Entry("end", 1, 1, {}))
    again = EpochLog(tmp_path)
    assert shown(again) == shown(log)
    assert [entry.kind for entry in again.entries()] == ["batch", "heartbeat", "batch", "end"]
    assert again.committed == 1
    assert next(again.entries()).tables == {"batch": table(0)}


def test_compaction_replaces_entries_by_the_snapshot(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    for epoch in range(SNAPSHOT_EVERY):
        assert not log.wants_snapshot
        log.append(batch(epoch))
    assert log.wants_snapshot
    log.compact(snapshot(SNAPSHOT_EVERY - 1))
    assert not log.wants_snapshot
    log.append(batch(SNAPSHOT_EVERY))
    again = EpochLog(tmp_path)
    assert shown(again) == shown(log)
    assert again.committed == SNAPSHOT_EVERY
    assert shown(again)["snapshot"][2] == {"latest": 2**61, "groups": [["k", None]]}
    # The snapshot, one entry; and the entries before it, to go back to.
    assert len(arrow_files(tmp_path)) == 3 + SNAPSHOT_EVERY
    again.compact(snapshot(SNAPSHOT_EVERY))
    assert len(arrow_files(tmp_path)) == 2 + 3
    again.compact(snapshot(SNAPSHOT_EVERY))
    assert len(arrow_files(tmp_path)) == 2 + 2


def test_a_snapshot_without_tables(tmp_path: Path) -> None:
    EpochLog(tmp_path).compact(Snapshot(3, 1, {}, []))
    assert EpochLog(tmp_path).snapshot() == Snapshot(3, 1, {}, [])


def test_an_intent_keeps_the_version_of_the_first_attempt(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    assert log.intend(0, Intent(4)).version == 4
    # the query set changed before the replay; the replay must not see it
    assert EpochLog(tmp_path).intend(0, Intent(7)).version == 4
    assert log.intend(1, Intent(7)).version == 7
    assert EpochLog(tmp_path).intend(1, Intent(8)).version == 7
    assert log.intend(2, Intent(7, 1_000)) == EpochLog(tmp_path).intend(2, Intent(8, 2_000)) == Intent(7, 1_000)


def test_an_intent_of_an_older_version_has_no_arrival(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    files.write_facts(tmp_path / "intent.json", {"epoch": 0, "version": 4})
    assert log.intend(0, Intent(7, 1_000)) == Intent(4)


def test_orphans_are_removed_and_nothing_else(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    log.append(batch(0))
    log.intend(1, Intent(1))
    files.write_table(tmp_path / "entry-000000002-batch.arrow", table(9))
    (tmp_path / ".manifest.json.draft").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    EpochLog(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"manifest.json", "intent.json", "entry-000000001-batch.arrow", "notes.txt"}


class CrashError(Exception):
    pass


@pytest.mark.parametrize("action", ["append", "compact"])
@pytest.mark.parametrize("half", [False, True], ids=["before", "half-way"])
def test_a_crash_at_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, half: bool) -> None:
    def prepared(directory: Path) -> EpochLog:
        log = EpochLog(directory)
        log.append(batch(0))
        log.append(batch(1))
        return log

    def change(log: EpochLog) -> None:
        log.append(batch(2)) if action == "append" else log.compact(snapshot(1))

    finished = prepared(tmp_path / "whole")
    old = shown(finished)
    change(finished)
    new = shown(finished)
    write = files.write_bytes
    for survive in range(10):
        log = prepared(tmp_path / f"{survive}")
        remaining = survive

        def dying(path: Path, data: bytes | memoryview) -> None:
            nonlocal remaining
            if remaining == 0:
                if half:
                    path.with_name(f".{path.name}.draft").write_bytes(bytes(data)[: len(data) // 2])
                raise CrashError
            remaining -= 1
            write(path, data)

        monkeypatch.setattr(files, "write_bytes", dying)
        try:
            change(log)
        except CrashError:
            assert shown(EpochLog(tmp_path / f"{survive}")) == old
        else:
            assert shown(EpochLog(tmp_path / f"{survive}")) == new
            assert survive == (2 if action == "append" else 4)
            return
        finally:
            monkeypatch.setattr(files, "write_bytes", write)
        # the same change goes through afterwards
        change(EpochLog(tmp_path / f"{survive}"))
        assert shown(EpochLog(tmp_path / f"{survive}")) == new
    pytest.fail("more writes than expected")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize(
    "names",
    [
        ["entry-000000003-batch.arrow"],
        ["snapshot-000000002-0.arrow", "entry-000000001-batch.arrow"],
        ["snapshot-000000002-0.arrow", "previous-000000002.json"],
    ],
    ids=["entry", "snapshot and what is before it", "snapshot and the way back"],
)
def test_damaged_tables(tmp_path: Path, damage: Callable[[Path], None], names: list[str]) -> None:
    """A snapshot alone is gone back behind: test_epoch_faults.py."""
    log = EpochLog(tmp_path)
    log.append(batch(0))
    log.compact(snapshot(0))
    log.append(batch(1))
    for name in names:
        damage(tmp_path / name)
    with pytest.raises(CheckpointError, match=f"{names[-1]} is damaged"):
        shown(EpochLog(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"number": 1}', "\x80"])
def test_damaged_manifests(tmp_path: Path, text: str) -> None:
    EpochLog(tmp_path).append(batch(0))
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        EpochLog(tmp_path)
    assert arrow_files(tmp_path) == ["entry-000000001-batch.arrow"], "a damaged manifest must not cost the data"


def test_damaged_intents(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    log.intend(0, Intent(1))
    (tmp_path / "intent.json").write_text('{"epoch": 0}')
    with pytest.raises(CheckpointError, match=r"intent\.json is damaged"):
        log.intend(0, Intent(1))


def test_the_manifest_names_its_files_with_checksums(tmp_path: Path) -> None:
    EpochLog(tmp_path).append(batch(0))
    (record,) = json.loads((tmp_path / "manifest.json").read_text())["entries"]
    assert record["files"]["batch"][0] == "entry-000000001-batch.arrow" and isinstance(record["files"]["batch"][1], int)
    assert epochs.SNAPSHOT_EVERY > 1
