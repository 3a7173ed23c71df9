"""The checkpoint directory of a session.

sash.json        format of the checkpoint
owner.lock       who writes here (storage/fence.py)
catalog.jsonl    the catalog's history
streams/NAME-N/  epoch log: manifest, entries, snapshots (storage/epochs.py); N tells streams of one name apart
                 window/ has the rows of a stored window that Spark has written (storage/window_files.py),
                 panes/ the panes of tables in the cluster (runtime/periodic/cluster_tables.py)
spark/NAME-N/    Spark's own offsets and commits
unwritten/NAME-N/  answers that wait for a sink (runtime/answers/outlet.py)
archives/NAME/   archives that were given no directory of their own (sash.archive)
plans/DIGEST-N/  a continuous plan: its log and its state files (runtime/continuous/plans.py, plan_runtime.py)
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sash.catalog import Stream
from sash.core.errors import CheckpointError
from sash.runtime.records.catalog_history import CatalogHistory, stream_of
from sash.runtime.records.journal import FORMAT
from sash.storage.epochs import EpochLog
from sash.storage.fence import Fence
from sash.storage.files import damaged, remove, unsealed, write_facts
from sash.storage.window_files import WindowFiles

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local_directory(path: str | Path) -> Path:
    """The directory of a path or of a `file:` address; CheckpointError for any other address.

    >>> local_directory("file:///var/my%20state")
    PosixPath('/var/my state')
    """
    found = _SCHEME.match(str(path))
    if found is None:
        return Path(path)
    address = urlsplit(str(path))
    if address.scheme == "file" and address.netloc in ("", "localhost") and not (address.query or address.fragment):
        return Path(unquote(address.path))
    if address.scheme == "file":
        raise CheckpointError(f"'{path}' names no directory of this machine: write file:///path, with three slashes")
    raise CheckpointError(
        f"a checkpoint is a directory of a file system, and '{path}' is on {found[1]}: give a path, or file:///path, "
        "that this machine and the executors share (a mounted volume, say)"
    )


class Checkpoint:
    """A checkpoint directory that this session owns: checked, fenced, with its catalog read."""

    def __init__(self, directory: str | Path) -> None:
        self._root = local_directory(directory)
        self._check_directory()
        self.fence = Fence(self._root)
        try:
            self._check_format()
            self._logs: dict[str, EpochLog] = {}
            self._catalog = self._root / "catalog.jsonl"
            self.history = CatalogHistory(self._catalog, self._oldest_version)
        except BaseException:
            self.fence.release()
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
            write_facts(path, {"format": FORMAT})
            return
        try:
            text = path.read_bytes()
            found = json.loads(text).get("format")
            if found == FORMAT:
                unsealed(text)
                return
        except (OSError, ValueError, AttributeError) as error:
            raise CheckpointError(f"the checkpoint file {path} is damaged: {error}") from None
        raise CheckpointError(
            f"the checkpoint {self._root} has format {found}, this version of Sash reads format {FORMAT}; "
            "use the version that wrote it, or another directory"
        )

    def log(self, stream: Stream) -> EpochLog:
        directory, spark = self._root / "streams" / stream.directory, self.spark_directory(stream)
        if not (directory / "manifest.json").exists() and any(spark.glob("commits/*")):
            raise CheckpointError(f"the checkpoint lacks {directory}, and Spark has read of stream '{stream.name}'")
        log = EpochLog(directory, partial(self._replays, stream))
        if log.newest_version > self.history.version:
            raise damaged(self._catalog, f"stream '{stream.name}' has seen changes that it has not")
        self._logs[stream.directory] = log
        return log

    def _replays(self, stream: Stream, epoch: int) -> bool:
        """Whether Spark has planned a micro-batch and not noted that it is done: Spark will bring it again."""
        spark = self.spark_directory(stream)
        return (spark / "offsets" / str(epoch)).exists() and not (spark / "commits" / str(epoch)).exists()

    def _oldest_version(self) -> int:
        """The oldest version of the catalog that the recovery of a stream may need."""
        streams = [stream_of(change) for change in self.history.streams().values()]
        logs = [self._logs.get(stream.directory) for stream in streams]
        versions = [0 if log is None or log.oldest_version is None else log.oldest_version for log in logs]
        return min(versions, default=self.history.version)

    def window_files(self, stream: Stream) -> WindowFiles:
        return WindowFiles(self._root / "streams" / stream.directory / "window", durable=True)

    def pane_directory(self, stream: Stream) -> Path:
        """The directory of panes of tables in the cluster."""
        return self._root / "streams" / stream.directory / "panes"

    def spark_directory(self, stream: Stream) -> Path:
        return self._root / "spark" / stream.directory

    @property
    def plans(self) -> Path:
        return self._root / "plans"

    @property
    def archives(self) -> Path:
        return self._root / "archives"

    def unwritten(self, query: str, serial: int, sink: str) -> Path:
        """The directory of answers that a sink would not take."""
        return self._root / "unwritten" / f"{query.lower()}-{serial}" / sink

    def forget_unwritten(self, query: str, serial: int) -> None:
        remove(self._root / "unwritten" / f"{query.lower()}-{serial}")

    def forget(self, stream: Stream) -> None:
        """Remove a dropped stream's files: a later stream of the same name must not find them."""
        self._logs.pop(stream.directory, None)
        for directory in (self._root / "streams" / stream.directory, self.spark_directory(stream)):
            remove(directory)

    def record_jvm(self, pid: int) -> None:
        self.fence.record_jvm(pid)

    def close(self) -> None:
        self.fence.release()
