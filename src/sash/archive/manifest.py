"""The manifest: the archive's properties, and the files of its state. Replaced as a whole, by one rename.

    {"format": 1, "checksum": crc32 of the text of "archive", "archive": {..}}

A file belongs to the archive when the manifest names it, and not before. `retired` names the files that the last update
replaced: they stay until the next one, for readers of other processes that still have the earlier manifest.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sash.archive.spec import Spec
from sash.archive.upkeep import DataFile
from sash.core.errors import ArchiveError
from sash.core.time import Micros
from sash.storage.files import write_json

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """`updated` is the time of the last update, None before the first; `number` counts the manifests.

    `queries` is the recent number of probes and scans between two updates; `note` is the caller's own.
    """

    spec: Spec
    number: int = 0
    updated: Micros | None = None
    files: tuple[DataFile, ...] = ()
    retired: tuple[str, ...] = ()
    queries: float = 0.0
    note: dict[str, Any] = field(default_factory=dict)

    def of_sub_index(self, number: int) -> list[DataFile]:
        return [file for file in self.files if file.sub_index == number]


def write_manifest(directory: Path, manifest: Manifest) -> None:
    body = {**vars(manifest), "spec": manifest.spec.to_json(), "files": [asdict(file) for file in manifest.files]}
    text = _canonical(body)
    write_json(directory / MANIFEST, {"format": FORMAT, "checksum": zlib.crc32(text), "archive": json.loads(text)})


def read_manifest(directory: Path) -> Manifest:
    path = directory / MANIFEST
    try:
        whole = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ArchiveError(f"{directory} is not an archive: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from None
    if not isinstance(whole, dict) or not {"format", "checksum", "archive"} <= set(whole):
        raise ArchiveError(f"{path} is not the manifest of an archive; choose another directory")
    if whole["format"] != FORMAT:
        raise ArchiveError(
            f"the archive {directory} has format {whole['format']!r}, this version of Sash reads format {FORMAT}; "
            "use the version that wrote it, or make the archive anew"
        )
    body = whole["archive"]
    if zlib.crc32(_canonical(body)) != whole["checksum"]:
        raise _damaged(path, "its checksum is wrong")
    files = tuple(DataFile(**file) for file in body["files"])
    return Manifest(**{**body, "spec": Spec.from_json(body["spec"]), "files": files, "retired": tuple(body["retired"])})


def _canonical(body: Any) -> bytes:
    return json.dumps(body, sort_keys=True).encode()


def _damaged(path: Path, reason: object) -> ArchiveError:
    return ArchiveError(f"the manifest {path} is damaged: {reason}; restore it from a copy, or make the archive anew")
