"""What a loss of power leaves: whatever a commit counts on is synced, and so is every directory that names it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sash.archive import with_times
from sash.core.faults import listening
from sash.core.time import SECOND
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.outlet import Outlet
from sash.runtime.records.catalog_history import CatalogHistory
from sash.storage.files import make_directory
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import SCHEMA, stream


class Disk:
    """The durable contents of a disk: files as they were synced, and the names that directories had then."""

    def __init__(self) -> None:
        self._files: set[Path] = set()
        self.names: dict[Path, set[str]] = {}

    def __call__(self, moment: str, path: Path) -> None:
        if moment == "after sync" and path.is_dir():
            self.names[path.resolve()] = {each.name for each in path.iterdir()}
        elif moment == "after sync":
            self._files.add(path)

    def lacks(self, root: Path) -> list[str]:
        """What a loss of power may take."""
        every = [root, *root.rglob("*")]
        unnamed = [path for path in every if path.name not in self.names.get(path.parent, ())]
        files = [path for path in every if path.is_file() and path.stat().st_size]
        unsynced = [path for path in files if not {path, path.with_name(f".{path.name}.draft")} & self._files]
        return [str(path.relative_to(root.parent)) for path in [*unnamed, *unsynced]]


def written_as_by_spark(rows: Any, stream: Any, lifetime: str, after: int | None, place: Path, files: int) -> None:
    place.mkdir()
    times = rows["_us"].to_pylist()
    records = with_times(rows.select(SCHEMA.names), times, [time + 10 * SECOND for time in times])
    pq.write_table(records, place / "part-00000.parquet")
    (place / "_SUCCESS").touch()


class Ill:
    """A sink that takes nothing: answers wait in the checkpoint."""

    name = "ill"
    channel: str | None = None

    def write(self, answers: Sequence[Answer]) -> None:
        raise OSError("not today")


def test_all_that_a_session_has_committed_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sash.spark.archive_frames.write_rows", written_as_by_spark)
    root = tmp_path / "of" / "all"
    with listening(disk := Disk()), SparklessSession(checkpoint=root) as session:
        session.declare(stream(keep=60 * SECOND))
        assert disk.lacks(root) == [] and disk.lacks(root.parent) == []
        query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", name="q")
        session.sql("CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 1 min UPDATE EVERY 10 sec")
        query.outward.add(Outlet("q", Ill(), session.place_for_unwritten(query, "sink"), str))
        assert session.checkpoint is not None
        session.checkpoint.window_files(stream())
        for second in (0.5, 1.5, 2.5):
            session.push("s", tuples((second, 1, 1)))
        assert len(list(root.glob("archives/old/inbox/*/part-*"))) == 3 and list(root.glob("unwritten/*/sink/*.arrow"))
        assert disk.lacks(root) == []


def test_new_directories_are_named_in_those_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with listening(disk := Disk()):
        make_directory(Path("a/b/c"))
        make_directory(Path("a/b/d"))
    assert disk.lacks(tmp_path / "a") == []
    with listening(untouched := Disk()):
        make_directory(tmp_path / "a" / "b")
    assert not untouched.names


def test_a_new_catalog_is_named_with_its_first_change(tmp_path: Path) -> None:
    root = tmp_path / "checkpoint"
    with listening(disk := Disk()):
        make_directory(root)
        CatalogHistory(root / "catalog.jsonl").append({"change": "drop query", "name": "q"})
    assert disk.lacks(root) == []
