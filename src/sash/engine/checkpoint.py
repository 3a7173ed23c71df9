"""The checkpoint directory of a session.

sash.json        format of the checkpoint
owner.lock       who writes here (storage/fence.py)
catalog.jsonl    the catalog's history
streams/NAME-N/  epoch log: manifest, entries, snapshots (storage/epochs.py); N tells streams of one name apart
                 window/ has the rows of a stored window that Spark has written (storage/window_files.py)
spark/NAME-N/    Spark's own offsets and commits
unwritten/NAME-N/  answers that wait for a sink (engine/outlet.py)
archives/NAME/   archives that were given no directory of their own (storage/archive)
plans/DIGEST-N/  a continuous plan: its log and its state files (engine/plans.py, engine/plan_runtime.py)
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sash.catalog import Stream
from sash.core.errors import CheckpointError
from sash.engine.history import CatalogHistory
from sash.storage.epochs import EpochLog
from sash.storage.fence import Fence
from sash.storage.files import write_json
from sash.storage.window_files import WindowFiles

FORMAT = 4


class Checkpoint:
    """A checkpoint directory that is ours: checked, fenced, with its catalog read."""

    def __init__(self, directory: str | Path) -> None:
        self._root = Path(directory)
        self._check_directory()
        self._fence = Fence(self._root)
        try:
            self._check_format()
            self.history = CatalogHistory(self._root / "catalog.jsonl")
        except CheckpointError:
            self._fence.release()
            raise

    def _check_directory(self) -> None:
        if self._root.exists() and not self._root.is_dir():
            raise CheckpointError(f"{self._root} is a file; a checkpoint is a directory")
        if self._root.exists() and any(self._root.iterdir()) and not (self._root / "sash.json").exists():
            if {path.name for path in self._root.iterdir()} <= {"owner.lock", ".sash.json.draft"}:
                return
            raise CheckpointError(f"{self._root} is not a checkpoint of Sash and not empty; choose another directory")

    def _check_format(self) -> None:
        path = self._root / "sash.json"
        if not path.exists():
            write_json(path, {"format": FORMAT})
            return
        try:
            written = json.loads(path.read_text()).get("format")
        except (ValueError, AttributeError):
            raise CheckpointError(f"the checkpoint file {path} is damaged") from None
        if written != FORMAT:
            raise CheckpointError(
                f"the checkpoint {self._root} has format {written}, this version of Sash reads format {FORMAT}; "
                "use the version that wrote it, or another directory"
            )

    def log(self, stream: Stream) -> EpochLog:
        return EpochLog(self._root / "streams" / stream.directory)

    def window_files(self, stream: Stream) -> WindowFiles:
        return WindowFiles(self._root / "streams" / stream.directory / "window", durable=True)

    def spark_directory(self, stream: Stream) -> Path:
        return self._root / "spark" / stream.directory

    @property
    def plans(self) -> Path:
        return self._root / "plans"

    @property
    def archives(self) -> Path:
        return self._root / "archives"

    def unwritten(self, query: str, serial: int, sink: str) -> Path:
        """Where answers wait that a sink would not take."""
        return self._root / "unwritten" / f"{query.lower()}-{serial}" / sink

    def forget_unwritten(self, query: str, serial: int) -> None:
        shutil.rmtree(self._root / "unwritten" / f"{query.lower()}-{serial}", ignore_errors=True)

    def forget(self, stream: Stream) -> None:
        """A dropped stream's files are of no use to a later one of the same name."""
        for directory in (self._root / "streams" / stream.directory, self.spark_directory(stream)):
            shutil.rmtree(directory, ignore_errors=True)

    def record_jvm(self, pid: int) -> None:
        self._fence.record_jvm(pid)

    def close(self) -> None:
        self._fence.release()
