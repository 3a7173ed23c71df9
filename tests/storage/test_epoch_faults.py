"""The epoch log under faults: a death at every moment, damaged files, many small files that last.

The state is the list of all rows that ever came; whatever a recovery starts from, it must end with the same list.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.storage.epochs import LASTING, Entry, EpochLog, Intent, Snapshot
from sash.storage.files import FAN_IN, TOP_LEVEL
from tests.support.examples import examples
from tests.support.faults import DAMAGES, Death, FullDisk, Killed, dying
from tests.support.log import events

NEVER = -1


@pytest.fixture(scope="module", autouse=True)
def no_syncs() -> Iterator[None]:
    """They cost time, and change nothing for who only loses its process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


def batch(epoch: int, lasts: int | None = None) -> Entry:
    rows = pa.table({"n": [epoch, -epoch]})
    tables = {"batch": rows} if lasts is None else {"batch": rows, LASTING: rows}
    return Entry("batch", epoch, 1 + epoch // 3, {"epoch": epoch, "lasts": lasts}, tables)


def recovered(log: EpochLog) -> list[int]:
    snapshot = log.snapshot()
    found = [] if snapshot is None else list(snapshot.state["epochs"])
    assert snapshot is None or snapshot.tables[0]["n"].to_pylist() == found
    for entry in log.entries():
        assert entry.tables["batch"].equals(batch(entry.epoch).tables["batch"])
        found.append(entry.epoch)
    assert log.committed == (found[-1] if found else -1)
    return found


def compact(log: EpochLog, edge: int = -(2**62)) -> None:
    found = recovered(log)
    log.compact(Snapshot(found[-1], 1 + found[-1] // 3, {"epochs": found}, [pa.table({"n": found})]), edge)


def told(directory: Path, story: list[str]) -> EpochLog:
    log = EpochLog(directory)
    for step in story:
        tell(log, step)
    return log


def tell(log: EpochLog, step: str) -> None:
    if step == "batch":
        epoch = log.committed + 1
        log.intend(epoch, Intent(1 + epoch // 3))
        log.append(batch(epoch))
    elif step == "compact" and log.committed >= 0:
        compact(log)


STORY = ["batch", "batch", "compact", "batch", "compact", "batch", "batch", "compact", "batch"]


@pytest.mark.parametrize("half", [False, True], ids=["whole", "by half"])
def test_a_death_at_every_moment(tmp_path: Path, half: bool) -> None:
    with listening(counting := Death(at=NEVER)):
        told(tmp_path / "whole", STORY)
    assert {moment.split()[1] for moment in counting.seen} == {"make", "write", "sync", "rename", "remove"}
    for at in range(1, counting.moments + 1):
        directory = tmp_path / str(at)
        with pytest.raises(Killed), dying(at, half):
            told(directory, STORY)
        log = EpochLog(directory)
        found = recovered(log)
        assert found == list(range(len(found)))
        # The remaining files are needed: the directory equals that of a log that did the same without dying.
        assert not list(directory.glob("*.draft"))
        while log.committed < 5:
            tell(log, "batch")
            compact(log)
        assert recovered(EpochLog(directory)) == [0, 1, 2, 3, 4, 5]


def test_a_death_while_a_dead_process_is_cleaned_up_after(tmp_path: Path) -> None:
    """Recovery writes and removes, too."""
    for first in range(40, 90, 7):
        for second in range(1, 4):
            directory = tmp_path / f"{first}-{second}"
            with pytest.raises(Killed), dying(first):
                told(directory, STORY)
            before = recovered(EpochLog(directory)) if second == 1 else None
            try:
                with dying(second):
                    EpochLog(directory)
            except Killed:
                pass
            after = recovered(EpochLog(directory))
            assert before is None or after == before


@pytest.mark.parametrize("at", range(1, 80, 3))
def test_a_full_disk(tmp_path: Path, at: int) -> None:
    disk = FullDisk(at)
    with listening(disk), pytest.raises(CheckpointError, match=r"cannot be written: No space left on device"):
        told(tmp_path, [*STORY, *STORY])
    found = recovered(EpochLog(tmp_path))
    assert found == list(range(len(found))) and disk.has_struck
    assert recovered(told(tmp_path, ["batch", "compact"])) == list(range(len(found) + 1))


@settings(max_examples=examples(60))
@given(
    story=st.lists(st.sampled_from(["batch", "batch", "compact", "open"]), min_size=1, max_size=14),
    damage=st.sampled_from(list(DAMAGES.values())),
    part=st.sampled_from(["snapshot", "entry", "previous", "manifest", "intent"]),
)
def test_what_is_damaged_is_gone_back_behind_or_refused(
    story: list[str], damage: Callable[[Path], None], part: str
) -> None:
    directory = Path(tempfile.mkdtemp())
    log = EpochLog(directory)
    for step in story:
        if step == "open":
            log = EpochLog(directory)
        tell(log, step)
    expected = recovered(log)
    hit = sorted(directory.glob(f"{part}*"))
    if hit:
        damage(hit[-1])
    files = set(directory.iterdir())
    refused = attempted(directory, expected)
    if part == "snapshot" or not hit:
        assert refused is None
    elif refused is None:
        # An entry that a snapshot has made superfluous, and what is behind that snapshot, nobody misses; a first
        # intent, and the manifest of nothing, are made again.
        assert part in ("entry", "previous") or (damage is Path.unlink and (part == "intent" or not expected))
    else:
        assert hit[-1].name in refused
    assert set(directory.iterdir()) >= files, "damage must not cost what is not damaged"
    if part == "snapshot" and expected:
        # A new snapshot makes up for it.
        log = EpochLog(directory)
        compact(log)
        assert recovered(EpochLog(directory)) == expected
    shutil.rmtree(directory)


def attempted(directory: Path, expected: list[int]) -> str | None:
    """Why a log is refused, if it is; otherwise it has the expected contents."""
    try:
        log = EpochLog(directory)
        found = recovered(log)
        log.intend(log.committed, Intent(1))
    except CheckpointError as error:
        return str(error)
    assert found == expected
    return None


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_going_back_is_said(tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture) -> None:
    told(tmp_path, ["batch", "batch", "compact", "batch", "compact", "batch"])
    damage(tmp_path / "snapshot-000000005-0.arrow")
    with caplog.at_level(logging.WARNING):
        assert recovered(EpochLog(tmp_path)) == [0, 1, 2, 3]
    assert "snapshot-000000005-0.arrow is damaged" in caplog.text
    assert "goes back to the snapshot of epoch 1 and applies 1 more" in caplog.text
    (event,) = events(caplog)
    assert "snapshot-000000005-0.arrow is damaged" in event.pop("why")
    back = {"source": "the snapshot of epoch 1", "entries": 1}
    assert event == {"event": "snapshot.damaged", "log": str(tmp_path), **back}


def test_going_back_to_the_beginning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told(tmp_path, ["batch", "batch", "compact", "batch"])
    (tmp_path / "snapshot-000000003-0.arrow").unlink()
    assert recovered(EpochLog(tmp_path)) == [0, 1, 2]
    assert "goes back to the beginning and applies 2 more" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("before", [["batch"], ["batch", "compact"], []], ids=["entry", "snapshot", "nothing"])
def test_a_torn_last_entry_is_taken_back_if_spark_replays_it(
    tmp_path: Path, damage: Callable[[Path], None], before: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = told(tmp_path, [*before, "batch"])
    last = log.committed
    damage(sorted(tmp_path.glob("entry-*"))[-1])
    with pytest.raises(CheckpointError, match=r"entry-.* is damaged"):
        recovered(EpochLog(tmp_path))
    with pytest.raises(CheckpointError, match=r"entry-.* is damaged"):
        recovered(EpochLog(tmp_path, lambda epoch: epoch == last + 1))
    log = EpochLog(tmp_path, lambda epoch: epoch == last)
    assert recovered(log) == list(range(last)) and f"micro-batch {last} is taken back" in caplog.text
    (event,) = events(caplog)
    assert event.pop("why") and event == {"event": "batch.taken_back", "log": str(tmp_path), "epoch": last}
    # The replay sees the queries that the first attempt saw.
    assert log.intend(last, Intent(99)) == Intent(1 + last // 3)
    tell(log, "batch")
    assert recovered(EpochLog(tmp_path)) == list(range(last + 1))


def test_an_entry_before_the_last_is_never_taken_back(tmp_path: Path) -> None:
    told(tmp_path, ["batch", "batch"])
    (tmp_path / "entry-000000001-batch.arrow").unlink()
    with pytest.raises(CheckpointError, match="entry-000000001"):
        recovered(EpochLog(tmp_path, lambda epoch: True))


def test_no_recovery_asks_for_an_older_version(tmp_path: Path) -> None:
    log = EpochLog(tmp_path)
    assert log.oldest_version is None
    for step in [*STORY, *STORY, *STORY]:
        tell(log, step)
        again = EpochLog(tmp_path)
        asked = [again.snapshot(), *again.entries()]
        if log.oldest_version is not None:
            assert min(each.version for each in asked if each is not None) >= log.oldest_version
        for path in list(tmp_path.glob("snapshot-*"))[-1:]:
            kept = path.read_bytes()
            path.write_bytes(b"")
            back = EpochLog(tmp_path)
            asked = [back.snapshot(), *back.entries()]
            assert log.oldest_version is not None
            assert min(each.version for each in asked if each is not None) >= log.oldest_version
            path.write_bytes(kept)


# -- tables that last ------------------------------------------------------------------------------------


def lasting(log: EpochLog) -> list[int]:
    snapshot = log.snapshot()
    tables = [] if snapshot is None else list(snapshot.lasting)
    tables += [entry.tables[LASTING] for entry in log.entries()]
    return [n for table in tables for n in table["n"].to_pylist()[::2]]


@settings(max_examples=examples(20))
@given(
    length=st.integers(1, 120), every=st.integers(1, 9), window=st.sampled_from([3, 20, 50, 1_000]), spoil=st.booleans()
)
def test_rows_that_last_come_back_in_order(length: int, every: int, window: int, spoil: bool) -> None:
    """The last `window` of them at least; also from the snapshot before, if the last is spoilt."""
    directory = Path(tempfile.mkdtemp())
    log = EpochLog(directory)
    for epoch in range(length):
        log.append(batch(epoch, lasts=epoch))
        if epoch % every == every - 1:
            compact(log, edge=epoch - window)
    if spoil:
        for path in sorted(directory.glob("snapshot-*"))[-1:]:
            path.unlink()
    found = lasting(EpochLog(directory))
    assert found == list(range(length - len(found), length))
    assert len(found) >= min(length, window)
    shutil.rmtree(directory)


def test_many_small_files_become_few(tmp_path: Path) -> None:
    """Names in the manifest, which is written with every micro-batch, grow with the logarithm of the kept files."""
    log, most = EpochLog(tmp_path), 0
    for epoch in range(1_200):
        log.append(batch(epoch, lasts=epoch))
        if epoch % 16 == 15:
            compact(log, edge=-1)
        most = max(most, len(list(tmp_path.glob("*.arrow"))))
    assert lasting(EpochLog(tmp_path)) == list(range(1_200))
    # Twice: those of the snapshot before stay as long as it does.
    assert most < 2 * (TOP_LEVEL * FAN_IN + 2 * 16)


def test_a_damaged_file_that_lasts_stops_no_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = EpochLog(tmp_path)
    for epoch in range(FAN_IN):
        log.append(batch(epoch, lasts=epoch))
    (tmp_path / "entry-000000002-kept.arrow").unlink()
    found = list(range(FAN_IN))
    log.compact(Snapshot(FAN_IN - 1, 1, {"epochs": found}, [pa.table({"n": found})]))
    assert "entry-000000002-kept.arrow is damaged" in caplog.text
    (event,) = events(caplog)
    assert event.pop("why") and event == {"event": "files.unmerged", "files": FAN_IN}
    with pytest.raises(CheckpointError, match=r"entry-000000002-kept\.arrow is damaged"):
        lasting(EpochLog(tmp_path))
