"""The journal: every kind of entry and snapshot is read as it was written, and replayed in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash.storage.epochs
from sash.runtime.records.journal import (
    JOIN,
    PLAN,
    SET,
    STREAM,
    BatchEntry,
    Beginning,
    ClusterChanges,
    EndEntry,
    Family,
    GroupMember,
    GroupService,
    HeartbeatEntry,
    JoinEntry,
    JoinSnapshot,
    Journal,
    JumpedTuples,
    PlanEntry,
    PlanProgress,
    PlanSnapshot,
    ReplayedSettings,
    SavedJoinGroup,
    SavedPaneGroup,
    SavedQuery,
    SavedRuntime,
    SavedWindow,
    SetEntry,
    SetSnapshot,
    StreamSnapshot,
)
from sash.runtime.settings import Settings
from sash.runtime.statistics import GroupStatistics, StreamStatistics
from sash.sharing.choose import Prices
from sash.storage.epochs import EpochLog, Intent


def table(number: int) -> pa.Table:
    return pa.table({"n": [number]})


SETTINGS = ReplayedSettings.of(Settings(policy="conservative", max_rows=7))
ALL: dict[str, Any] = {"epoch": 3, "version": 2, "settings": SETTINGS, "failed": {"4": "why"}}
PLAIN = BatchEntry(**ALL, partials=table(0), prices={}, missed=0, one_in=1, jumped=JumpedTuples())
BATCH = BatchEntry(
    **ALL,
    cluster=ClusterChanges(["d"], {"q": (5, "why")}, table(1), table(2)),
    counted=table(3),
    pending=table(4),
    partials=table(5),
    prices={"k": Prices(2.0, 0.5)},
    missed=6,
    one_in=2,
    jumped=JumpedTuples(7, 8),
    services=[[GroupService(0, 9, early=True)], [GroupService(1, 10, step="slide", number=2)]],
    kept=table(6),
    lasts=11,
    input=(12, 0.5),
)
GROUP = SavedPaneGroup(
    [["k"], False, []], True, 2, None, 4, 5, None, [[1], [2]], [(1, 6)], [["sum", "v", 0]], ["q"], {"repaid": 0},
    Prices(1.0, 3.0), [0.0, 1.0], GroupStatistics(executions=3),
)  # fmt: skip
QUERY = SavedQuery(None, True, 5, 1, [None, 3], [None, [["v > 3"], [], False]])
RUNTIME = SavedRuntime(9, None, 5, 1, {"q": QUERY}, StreamStatistics(tuples=4), [GROUP], [table(7)])
WINDOW = SavedWindow(1, None, None, -5)
# The rows of the stored window are those of the entries before.
SNAPSHOT = StreamSnapshot(3, 2, SETTINGS, {"4": "why"}, ["5"], RUNTIME, (2.0, 0.5), WINDOW, table(8), [BATCH.kept])
PROGRESS = PlanProgress(
    5, 2, {"s": 1}, {"s": 4}, {"s": 6}, ["t"], {"0": {"files": ["a"]}}, 3, {"s": 3}, None, {"s": Beginning(1, None)}
)
FAILED = PlanProgress(failed="why")
MEMBER = GroupMember(7, "q", "SELECT", 3)
JOINED = SavedJoinGroup(None, 0, {"7": (True, False, None)}, {"repaid": 1}, [3], {}, [0], [table(1), table(2)])
FAMILIES: dict[str, tuple[Family[Any, Any], Any, list[Any]]] = {
    "stream": (STREAM, SNAPSHOT, [BATCH, PLAIN, HeartbeatEntry(**ALL, watermark=9), EndEntry(**ALL, pending=table(1))]),
    "plan": (PLAN, PlanSnapshot(PROGRESS, table(1)), [PlanEntry(PROGRESS, table(2)), PlanEntry(FAILED)]),
    "set": (
        SET,
        SetSnapshot(PROGRESS, {"now": 3}, [table(1), table(2)], table(3)),
        [SetEntry(PROGRESS, table(4)), SetEntry(FAILED)],
    ),
    "join": (
        JOIN,
        JoinSnapshot(PROGRESS, JOINED, [MEMBER], "hybrid", {7: table(3)}),
        [JoinEntry(PROGRESS, [MEMBER], [3], "hybrid", 9, [table(n) for n in range(12)])],
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_was_written_is_replayed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family, snapshot, entries = FAMILIES[name]
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", len(entries))
    journal = Journal(EpochLog(tmp_path))
    for entry in entries:
        journal.append(entry)
    assert replayed(tmp_path, family) == ([], entries)
    assert journal.compact(lambda: snapshot) == snapshot.record()
    assert journal.compact(lambda: snapshot) is None, "there are no entries since the last one"
    journal.append(entries[0])
    assert replayed(tmp_path, family) == ([snapshot], entries[:1])


def replayed(directory: Path, family: Family[Any, Any]) -> tuple[list[Any], list[Any]]:
    """What another process loads and applies."""
    loaded: list[Any] = []
    applied: list[Any] = []
    snapshot, entries = Journal(EpochLog(directory)).replay(family, loaded.append, applied.append)
    assert (snapshot is not None, entries) == (bool(loaded), len(applied))
    return loaded, applied


def test_what_is_written_stays_as_it_was(tmp_path: Path) -> None:
    """A later commit writes the manifest again, with all entries."""
    failed, journal = {"4": "why"}, Journal(EpochLog(tmp_path))
    journal.append(EndEntry(**{**ALL, "failed": failed}))
    failed["5"] = "later"
    journal.append(EndEntry(**ALL))
    _, (first, _) = replayed(tmp_path, STREAM)
    assert first.failed == {"4": "why"}


def test_without_a_log_nothing_is_written() -> None:
    journal = Journal(None)
    journal.append(BATCH)
    assert journal.intend(3, Intent(5)) == Intent(5) and not journal.is_durable
    assert journal.compact(lambda: SNAPSHOT) is None
    assert journal.replay(STREAM, pytest.fail, pytest.fail) == (None, 0)


class Results:
    """Stored results of queries, by serial number."""

    def __init__(self, held: dict[str, pa.Table]) -> None:
        self.held = held

    def save(self) -> dict[str, pa.Table]:
        return self.held

    def load(self, saved: Mapping[str, pa.Table]) -> None:
        self.held = {serial: part.replace_schema_metadata(None) for serial, part in saved.items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_snapshots_have_the_stored_results_of_queries(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are loaded once, after the state, and change nothing of it."""
    family, snapshot, entries = FAMILIES[name]
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", len(entries))
    journal = Journal(EpochLog(tmp_path), Results({"12": table(3), "5": table(4)}))
    for entry in entries:
        journal.append(entry)
    journal.compact(lambda: snapshot)
    assert replayed(tmp_path, family) == ([snapshot], [])
    results, loaded = Results({}), list[Any]()
    again = Journal(EpochLog(tmp_path), results)
    again.replay(family, lambda found: loaded.append((found, dict(results.held))), pytest.fail)
    assert loaded == [(snapshot, {})] and results.held == {"12": table(3), "5": table(4)}
    results.held = {"12": table(9)}
    again.replay(family, loaded.append, pytest.fail)
    assert results.held == {"12": table(9)}, "who replays again in the same session has them already"
