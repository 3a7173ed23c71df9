"""An archive that is dropped: its own files go, and what else is in the directory stays."""

from __future__ import annotations

import contextlib
from pathlib import Path

from sash.core.faults import around
from sash.storage.archive import inbox, states
from sash.storage.archive.manifest import MANIFEST
from sash.storage.files import remove

# What a directory has of an archive; the manifest first: without it there is none.
OWN = (MANIFEST, f".{MANIFEST}.draft", states.FOLDER, inbox.FOLDER, "owner.lock")


def remove_archive(directory: Path) -> None:
    for name in OWN:
        remove(directory / name)
    with contextlib.suppress(OSError), around("remove", directory):
        directory.rmdir()
