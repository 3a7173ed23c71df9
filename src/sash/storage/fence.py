"""One owner per checkpoint: a second process is refused, and a new owner waits for a process that is still dying.

Two kinds of late writer are fenced off:
- another Python process: the `owner.lock` file is held with an advisory lock, which the system drops when
  the process dies, however it dies;
- the JVM of a killed process, which lives on for up to a second and may still write Spark's own files:
  its process id and start time are in the lock file, and the next owner waits until that process is gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, TextIO

from sash.core.errors import CheckpointError
from sash.core.faults import around
from sash.storage.files import make_directory, written

PATIENCE_SECONDS = 30.0
_RECORD_BYTES = 128


class Fence:
    """Ownership of a checkpoint directory, from construction to `release` or the death of the process."""

    def __init__(self, directory: Path) -> None:
        make_directory(directory)
        self._path = directory / "owner.lock"
        self._file = _opened(self._path)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.drop()
            raise CheckpointError(
                f"the checkpoint {directory} is in use by another session; close it, or choose another directory"
            ) from None
        try:
            self._wait_for_the_dying(directory)
            self._write({"pid": os.getpid()})
        except BaseException:
            self.drop()
            raise

    def _wait_for_the_dying(self, directory: Path) -> None:
        previous = self._read()
        jvm, started = previous.get("jvm", 0), previous.get("jvm_started")
        if started is None or previous.get("pid") == os.getpid():
            return
        deadline = time.monotonic() + PATIENCE_SECONDS
        while process_start(jvm) == started:
            if time.monotonic() > deadline:
                raise CheckpointError(f"process {jvm} still writes the checkpoint {directory}; end it first")
            time.sleep(0.05)

    def _read(self) -> dict[str, Any]:
        self._file.seek(0)
        try:
            owner = json.loads(self._file.read())
        except ValueError:
            return {}
        return owner if isinstance(owner, dict) else {}

    def record_jvm(self, pid: int) -> None:
        """Name the JVM that writes into the checkpoint on our behalf."""
        self._write({"pid": os.getpid(), "jvm": pid, "jvm_started": process_start(pid)})

    def _write(self, owner: dict[str, object]) -> None:
        # Overwritten in one call and never truncated: a process that is killed here leaves a readable record.
        text = json.dumps(owner).ljust(_RECORD_BYTES)
        with written(self._path):
            with around("write", self._path):
                os.pwrite(self._file.fileno(), text.encode(), 0)
                os.ftruncate(self._file.fileno(), len(text))
            with around("sync", self._path):
                os.fsync(self._file.fileno())

    def release(self) -> None:
        """Give the checkpoint up in good order: the next owner does not wait."""
        if self._file.closed:
            return
        try:
            self._write({})
        finally:
            # Also on a full disk.
            self.drop()

    def drop(self) -> None:
        """Drop the lock and keep the record, as the system does when a process dies: the next owner reads it."""
        self._file.close()


def _opened(path: Path) -> TextIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")


def process_start(pid: int) -> str | None:
    """The system's start time of a process: distinguishes it from a later process with the same number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]
