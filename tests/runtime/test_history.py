"""The catalog's history: it keeps appended changes, leaves out undone ones, and notices damage."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.catalog import Catalog, RegisteredQuery, Source, StoredIndex, Stream, Table
from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.runtime.records import catalog_history as histories
from sash.runtime.records.catalog_history import (
    CatalogHistory,
    Change,
    query_change,
    stream_change,
    table_change,
    without_undone,
)
from sash.runtime.records.session_tables import Tables
from sash.runtime.records.table_contents import encoded
from tests.support.faults import DAMAGES, Death, FullDisk, Killed, dying

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
ROWS = pa.schema([("v", pa.int64()), ("ts", pa.int64())])


def stream(name: str, serial: int) -> Stream:
    return Stream(name, SCHEMA, "ts", serial=serial, source=Source("parquet", {"path": "data"}))


class Program:
    """Makes possible changes: names come before they go, and come again under other numbers."""

    def __init__(self) -> None:
        self.streams: set[str] = set()
        self.queries: set[str] = set()
        self.tables: set[str] = set()
        self.serials: dict[str, int] = {}
        self.indexes: set[StoredIndex] = set()
        # The rows of each table, and when they last changed.
        self.rows: dict[str, dict[int, int]] = {}
        self.times: dict[str, int] = {}

    def change(self, word: str, name: str, serial: int) -> Change | None:
        if word == "query":
            self.indexes = {index for index in self.indexes if index.query is None or index.stream != name}
            self.serials[name] = serial
            return self._toggled(self.queries, name, query_change(RegisteredQuery(name, "SELECT", "a", serial=serial)))
        if word == "replaced":
            # A query with indexes is continuous, and is never replaced.
            if name not in self.queries or any(index.query == self.serials[name] for index in self.indexes):
                return None
            self.serials[name], before = serial, self.serials[name]
            return query_change(RegisteredQuery(name, "SELECT", "a", serial=serial, replaced_since=before))
        if word == "stream":
            self.indexes = {index for index in self.indexes if index.query is not None or index.stream != name}
            return self._toggled(self.streams, name, stream_change(stream(name, serial)))
        if word == "table":
            self.rows.pop(name, None)
            return self._toggled(self.tables, name, table_change(Table(name, ROWS, ("v",), serial=serial)))
        if word in ("rows", "deletion") and name in self.tables:
            return self._of_rows(name, serial, delete=word == "deletion")
        if word in ("index", "index of query") and name in (self.streams if word == "index" else self.queries):
            index = StoredIndex(name, "v", "db", None if word == "index" else self.serials[name])
            said = "drop" if index in self.indexes else "create"
            self.indexes ^= {index}
            return {"change": f"{said} index", **vars(index)}
        return None

    def _of_rows(self, name: str, serial: int, *, delete: bool) -> Change | None:
        """Changes of one or two rows; time goes on now and then only, and the changes of a row come in order."""
        keys = [serial % 3] if serial % 5 else [0, 1]
        kept = self.rows.setdefault(name, {})
        keys = [key for key in keys if key in kept] if delete else keys
        if not keys:
            return None
        for key in keys:
            kept.pop(key, None) if delete else kept.update({key: serial})
        at = self.times[name] = max(serial // 6, self.times.get(name, 0))
        columns = {"v": pa.array(keys)} if delete else {"v": pa.array(keys), "ts": pa.array([serial] * len(keys))}
        return {"change": "change table", "name": name, "at": at, "delete": delete, "rows": encoded(pa.table(columns))}

    def _toggled(self, known: set[str], name: str, create: Change) -> Change:
        known ^= {name}
        kind = create["change"].split()[1]
        return create if name in known else {"change": f"drop {kind}", "name": name}


def seen(history: CatalogHistory, oldest: int = 0) -> dict[str, Any]:
    return {
        "version": history.version,
        "streams": history.streams(),
        "indexes": history.indexes(),
        "queries": [history.queries(version) for version in range(oldest, history.version + 1)],
        "tables": contents(history),
    }


def contents(history: CatalogHistory) -> dict[str, Any]:
    """All facts about tables: the versions of rows with their numbers, the first rows, the last changes."""
    known = Tables(Catalog(), history)
    return {
        name: {
            "versions": [
                versions.rows.to_pylist(), versions.begin.tolist(), versions.end.tolist(), versions.number.tolist()
            ],
            "next": each.next_number,
            "first": {key: each.rows_at([place]) for key, place in each.first.items()},
            "last": {key: each.last_change([key]) for key in each.changed},
            "rows": len(each),
        }
        for name, each in known.contents.items()
        for versions in [each.versions]
    }  # fmt: skip


WORDS = st.sampled_from(
    ["query", "query", "query", "replaced", "stream", "table", *["rows"] * 5, "deletion", "index", "index of query"]
)


@given(
    words=st.lists(st.tuples(WORDS, st.sampled_from("ab")), max_size=60),
    behind=st.integers(0, 12),
    every=st.integers(1, 9),
)
def test_a_compacted_history_tells_the_same(words: list[tuple[str, str]], behind: int, every: int) -> None:
    directory = Path(tempfile.mkdtemp())
    plain, program, asked = CatalogHistory(), Program(), [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "COMPACT_EVERY", every)
        patch.setattr("os.fsync", lambda descriptor: None)
        ours = CatalogHistory(directory / "c.jsonl", lambda: asked[0])
        for place, (word, name) in enumerate(words):
            change = program.change(word, name, plain.version + 1)
            if change is None:
                continue
            plain.append(change)
            ours.append(change)
            # As with snapshots: the oldest needed version moves on now and then.
            if place % 5 == 0:
                asked[0] = max(asked[0], plain.version - behind)
            if place % 7 == 0:
                ours = CatalogHistory(directory / "c.jsonl", lambda: asked[0])
            assert seen(ours, asked[0]) == seen(plain, asked[0])
            assert set(ours.indexes()) == program.indexes
        assert seen(CatalogHistory(directory / "c.jsonl"), asked[0]) == seen(plain, asked[0])
    shutil.rmtree(directory)


def test_updates_of_a_row_between_two_micro_batches_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions that no query could see are left out; the other versions keep their numbers."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    path, latest = tmp_path / "c.jsonl", [0]
    history = CatalogHistory(path, lambda: latest[0])
    tables = Tables(Catalog(), history)
    tables.create(Table("t", ROWS, ("v",)))
    for at in range(4):
        for value in range(1_000):
            tables.change("t", "upsert", pa.table({"v": [1, 2], "ts": [value, value]}, schema=ROWS), at, 0)
            latest[0] = history.version
    history.compact()
    # The first versions, and those that each of the four times has left.
    assert len(history.changes) == 1 + 1 + 4 and history.version == 4_001
    again = Tables(Catalog(), CatalogHistory(path))
    assert contents(CatalogHistory(path)) == contents(history)
    assert again.contents["t"].versions.number.tolist() == tables.contents["t"].versions.number.tolist()
    for each in (tables, again):
        each.change("t", "delete", pa.table({"v": [1]}), 9, 0)
        each.change("t", "insert", pa.table({"v": [1], "ts": [5]}, schema=ROWS), 9, 0)
    assert again.contents["t"].versions.number.tolist()[-1] == 8_000
    assert tables.contents["t"].versions.number.tolist()[-1] == 8_000


def test_other_kinds_of_change_stay() -> None:
    changes = [{"change": "create something", "name": "x"}, {"change": "drop something", "name": "x"}]
    assert without_undone(changes) == changes


def test_ten_thousand_changes_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening takes time for the existing queries and the versions that may be needed, not for all changes."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    path, latest = tmp_path / "c.jsonl", [0]
    history = CatalogHistory(path, lambda: latest[0])
    most = 0
    for number in range(5_000):
        query = RegisteredQuery(f"q{number}", "SELECT 1", "s", serial=history.version + 1)
        history.append(query_change(query))
        if number % 100:
            history.append({"change": "drop query", "name": query.name})
        latest[0] = history.version - 20
        most = max(most, len(history.changes))
    assert history.version == 9_950
    # 50 queries that stay, 20 changes that may be asked for, and what has come since it was looked last.
    assert most <= histories.COMPACT_EVERY + 50 + 20 + 1
    again = CatalogHistory(path)
    assert (again.version, again.queries()) == (history.version, history.queries())
    assert len(again.changes) == len(history.changes) and len(again.queries()) == 50


CHANGES: list[Change] = [query_change(RegisteredQuery(name, "SELECT 1", "s", serial=1)) for name in "abc"]
CHANGES.insert(2, {"change": "drop query", "name": "a"})
CHANGES = json.loads(json.dumps(CHANGES))


@pytest.mark.parametrize("half", [False, True], ids=["whole", "by half"])
def test_a_death_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: bool) -> None:
    monkeypatch.setattr(histories, "COMPACT_EVERY", 3)

    def told(path: Path) -> CatalogHistory:
        history = CatalogHistory(path, lambda: 3)
        for place in range(history.version, len(CHANGES)):
            history.append(CHANGES[place])
        return history

    with listening(counting := Death(at=-1)):
        whole = told(tmp_path / "whole")
    assert whole.version == 4 and len(whole.changes) == 2
    for at in range(1, counting.moments + 1):
        path = tmp_path / str(at)
        with pytest.raises(Killed), dying(at, half):
            told(path)
        history = CatalogHistory(path)
        assert set(history.queries()) == set(["", "a", "ab", "b", "bc"][history.version])
        assert told(path).queries() == whole.queries()


@pytest.mark.parametrize("at", [1, 2, 5, 6])
def test_what_cannot_be_written_did_not_happen(tmp_path: Path, at: int) -> None:
    history = CatalogHistory(tmp_path / "c.jsonl")
    history.append(CHANGES[0])

    def go_on() -> None:
        for change in CHANGES[1:]:
            history.append(change)

    with listening(FullDisk(at)), pytest.raises(CheckpointError, match=r"c\.jsonl cannot be written: No space left"):
        go_on()
    assert CatalogHistory(tmp_path / "c.jsonl").changes == history.changes
    history.append(CHANGES[3])
    assert CatalogHistory(tmp_path / "c.jsonl").changes == history.changes


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    """All but a last line without its end, which is a change that never returned."""
    path = tmp_path / "c.jsonl"
    history = CatalogHistory(path)
    for change in CHANGES:
        history.append(change)
    DAMAGES[damage](path)
    if damage == "truncated":
        assert CatalogHistory(path).changes == CHANGES[:3]
        return
    with pytest.raises(CheckpointError, match=r"c\.jsonl is damaged"):
        CatalogHistory(path)


def test_every_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    history = CatalogHistory(path)
    for change in CHANGES:
        history.append(change)
    data = path.read_bytes()
    for place in range(0, len(data), 3):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            found = CatalogHistory(path).changes
        except CheckpointError:
            continue
        # The end of the last line is gone: as a change that never returned.
        assert found == CHANGES or (place == len(data) - 1 and found == CHANGES[:3])
