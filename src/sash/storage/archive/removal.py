"""An archive that is dropped: its own files go, and what else is in the directory stays."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from sash.storage.archive import inbox, states
from sash.storage.archive.manifest import MANIFEST

# What a directory has of an archive; the manifest first: without it there is none.
OWN = (MANIFEST, f".{MANIFEST}.draft", states.FOLDER, inbox.FOLDER, "owner.lock")


def remove_archive(directory: Path) -> None:
    for name in OWN:
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()
