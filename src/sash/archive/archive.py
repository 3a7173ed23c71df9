"""The archive: records with lifetimes on disk, indexed by key, updated every delta without rewriting everything.

    archive/
      owner.lock                      held by the one process that writes
      manifest.json                   the archive's properties, and the files of its state
      data/000000017-3.parquet        sub-index 3 as the 17th manifest has it; sorted by key

An update writes new files for the sub-indices that it changes, syncs them, and replaces the manifest by one rename.
Files never change. Files that an update replaced are deleted at the start of the next one, or when the last reader of
this process releases them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from sash.archive import inbox, states
from sash.archive.layout import PartitionChoice, choose, rechoose
from sash.archive.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from sash.archive.reader import ArchiveReader
from sash.archive.spec import BUCKET_BYTES, Spec
from sash.archive.states import FOLDER, States, UpdateReport
from sash.archive.upkeep import STRATEGIES, DataFile
from sash.archive.writer import ArrowWriter, DividedRecords, Repartition, Rewrite, Writer
from sash.core.errors import ArchiveError, CheckpointError
from sash.core.faults import around
from sash.core.time import Micros, format_duration, to_datetime
from sash.storage.fence import Fence
from sash.storage.files import make_directory, remove, sync_directory

# The files of an archive in its directory; the manifest first: without it there is no archive.
OWN = (MANIFEST, f".{MANIFEST}.draft", states.FOLDER, inbox.FOLDER, "owner.lock")


def remove_archive(directory: Path) -> None:
    for name in OWN:
        remove(directory / name)
    with contextlib.suppress(OSError), around("remove", directory):
        directory.rmdir()


# The weight of the queries since the last update in the average.
_RECENT = 0.25


class Archive(ArchiveReader):
    """One writer, any number of readers in any number of threads and processes.

    >>> import tempfile
    >>> from sash.archive import with_times
    >>> calls = pa.schema({"customer": pa.int64(), "minutes": pa.int64()})
    >>> archive = Archive.create(tempfile.mkdtemp(), calls, "customer", lifetime=16, every=2, g=2, e=2)
    >>> new = pa.table({"customer": [42, 7, 42], "minutes": [1, 2, 3]})
    >>> archive.update(with_times(new, inserted=[1, 2, 2], expires=[5, 9, 17]), now=2).rows
    3
    >>> archive.probe([42])["minutes"].to_pylist(), archive.probe([42], now=5)["minutes"].to_pylist()
    ([1, 3], [3])
    >>> archive.close()
    """

    def __init__(self, directory: Path, fence: Fence | None) -> None:
        """Use `create` or `open`."""
        super().__init__(States(directory, follows_disk=fence is None))
        self.directory = directory
        self.fence = fence
        self._updating = threading.Lock()
        self._unsure = False

    @classmethod
    def create(
        cls,
        directory: str | Path,
        schema: pa.Schema,
        key: str,
        *,
        lifetime: Micros,
        every: Micros,
        g: int | None = None,
        e: int | None = None,
        layout: str = "round_robin",
        strategy: str | None = None,
        bucket_bytes: int = BUCKET_BYTES,
    ) -> Archive:
        """A new, empty archive, open for writing. Without g and e it is PARTITION AUTO: see `retune`."""
        choice = _choice(g, e, strategy, lifetime // every if every > 0 else 2)
        spec = Spec(
            schema,
            key,
            lifetime,
            every,
            choice.g,
            choice.e,
            layout,
            choice.strategy,
            bucket_bytes=bucket_bytes,
            auto=g is None,
        )
        where = Path(directory)
        fence = _fenced(where)
        try:
            if (where / MANIFEST).exists():
                raise ArchiveError(f"there is an archive in {where} already; open it, or choose another directory")
            make_directory(where / FOLDER)
            write_manifest(where, Manifest(spec))
            sync_directory(where.absolute().parent)
            return cls(where, fence)
        except BaseException:
            fence.release()
            raise

    @classmethod
    def open(cls, directory: str | Path, write: bool = False) -> Archive:
        """Open an existing archive. With `write` we become its writer, and files that a crash left are removed."""
        where = Path(directory)
        read_manifest(where)
        if not write:
            return cls(where, None)
        fence = _fenced(where)
        try:
            archive = cls(where, fence)
            archive._states.check_sizes()
            archive._remove_orphans()
            return archive
        except BaseException:
            fence.release()
            raise

    def close(self) -> None:
        """Let another process write. What was read stays valid."""
        with self._updating:
            if self.fence is not None:
                self.fence.release()
            self.fence = None

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- writing ---------------------------------------------------------------------------------------

    def update(
        self, records: Any, now: Micros, *, note: dict[str, Any] | None = None, writer: Writer | None = None
    ) -> UpdateReport:
        """Insert records and delete those that have expired by `now`; all of it or, if this raises, nothing.

        `records` has the archive's columns and the two times (`with_times`), or the form that `writer` takes. `now` is
        a multiple of the interval and after the last update; skipped intervals are caught up. A record's insertion is
        at or before `now`, its expiry at most LIFETIME later; an expired record is left out and counted. `note` (JSON)
        is kept with the state, so that the caller knows after a crash what was in it: `facts().note`.

        Should the disk fail at the very last step, after the rename, the error comes although the update is in place;
        `facts().updated` tells.
        """
        with self._updating:
            manifest = self._writable()
            self._check_time(now, manifest)
            by = writer or ArrowWriter()
            divided = by.divide(records, manifest.spec, now)
            self._states.discard(manifest.retired)
            following = replace(
                manifest,
                number=manifest.number + 1,
                updated=now,
                queries=self._queries(now, manifest),
                note=manifest.note if note is None else note,
            )
            return self._replace(manifest, following, lambda: self._rewrite(following, divided, by), divided)

    def migrate(
        self,
        g: int,
        e: int,
        *,
        layout: str | None = None,
        strategy: str | None = None,
        auto: bool = False,
        writer: Writer | None = None,
    ) -> UpdateReport:
        """Write all records in another partitioning; readers have the old files meanwhile."""
        with self._updating:
            manifest = self._writable()
            old = manifest.spec
            spec = replace(old, g=g, e=e, layout=layout or old.layout, strategy=strategy or old.strategy, auto=auto)
            self._check(manifest.files)
            self._states.discard(manifest.retired)
            number = manifest.number + 1
            following = replace(manifest, number=number, spec=spec)
            sources = tuple(
                tuple(self._states.folder / file.name for file in manifest.of_sub_index(each))
                for each in range(old.partitions.n)
            )
            move = Repartition(sources, manifest.updated or 0, self._states.folder, _stem(number))
            return self._replace(
                manifest, following, lambda: (writer or ArrowWriter()).repartition(move, spec), DividedRecords({}, 0, 0)
            )

    def advice(self) -> PartitionChoice:
        """The choice of PARTITION AUTO for the current data and the recent queries."""
        manifest = self._states.manifest
        spec, size = manifest.spec, sum(file.bytes for file in manifest.files)
        return rechoose(PartitionChoice(spec.g, spec.e, spec.strategy), size, manifest.queries, spec.partitions.slots)

    def retune(self, writer: Writer | None = None) -> bool:
        """Follow the advice, if the archive is PARTITION AUTO; True if the partitioning changed."""
        spec, choice = self.spec, self.advice()
        if not spec.auto or choice == PartitionChoice(spec.g, spec.e, spec.strategy):
            return False
        self.migrate(choice.g, choice.e, strategy=choice.strategy, auto=True, writer=writer)
        return True

    # -- how -------------------------------------------------------------------------------------------

    def _rewrite(self, following: Manifest, divided: DividedRecords, writer: Writer) -> tuple[DataFile, ...]:
        """The files of the next state: those that stay and those that are written."""
        spec, folder, now = following.spec, self._states.folder, following.updated or 0
        files: list[DataFile] = []
        for number in range(spec.partitions.n):
            part = divided.parts.get(number)
            upkeep = STRATEGIES[spec.strategy](following.of_sub_index(number), part is not None, now, spec.bucket_bytes)
            files += upkeep.kept
            if part is not None or upkeep.sources:
                self._check(upkeep.sources)
                sources = tuple(folder / file.name for file in upkeep.sources)
                stem = f"{_stem(following.number)}-{number}"
                files += writer.write(Rewrite(number, sources, part, now, folder, stem), spec)
        return tuple(files)

    def _replace(
        self, before: Manifest, following: Manifest, write: Callable[[], Sequence[DataFile]], divided: DividedRecords
    ) -> UpdateReport:
        """Write files, then the manifest; if anything fails, the old state stays and the new files go."""
        old = {file.name for file in before.files}
        try:
            files = self._states.sealed(write())
            retired = tuple(sorted(old - {file.name for file in files}))
            following = replace(following, files=files, retired=retired)
            sync_directory(self._states.folder)
            write_manifest(self.directory, following)
        except BaseException:
            # The rename may have taken place: the disk decides.
            self._unsure = True
            self._states.adopt(read_manifest(self.directory))
            self._remove_orphans()
            self._unsure = False
            raise
        self._states.adopt(following)
        written = [file for file in files if file.name not in old]
        changed = {file.sub_index for file in written} | {f.sub_index for f in before.files if f.name in retired}
        return UpdateReport(
            divided.rows, divided.expired, tuple(sorted(changed)), len(written), sum(file.bytes for file in written)
        )

    def _check(self, files: Iterable[DataFile]) -> None:
        """Check files: a damaged file must not be rewritten with a new checksum."""
        try:
            self._states.check(files)
        except FileNotFoundError as error:
            raise ArchiveError(f"the archive has lost its file {error.filename}; restore it from a copy") from None

    def _writable(self) -> Manifest:
        if self.fence is None:
            raise ArchiveError(f"the archive {self.directory} is open for reading; open it with write=True")
        if self._unsure:
            raise ArchiveError(f"the archive {self.directory} could not be read after a failed update; open it again")
        return self._states.manifest

    def _check_time(self, now: Micros, manifest: Manifest) -> None:
        every = manifest.spec.every
        if now % every:
            raise ArchiveError(
                f"an update at {to_datetime(now)} is not at a multiple of UPDATE EVERY {format_duration(every)}; "
                "the last one is `spec.boundary(now)`"
            )
        if manifest.updated is not None and now <= manifest.updated:
            raise ArchiveError(
                f"the archive was updated at {to_datetime(manifest.updated)} already, and {to_datetime(now)} is "
                "not after that"
            )

    def _queries(self, now: Micros, manifest: Manifest) -> float:
        """Recent queries per update."""
        with self._counting:
            asked, self._asked = self._asked, 0
        if manifest.updated is None:
            return float(asked)
        updates = (now - manifest.updated) // manifest.spec.every
        return (1 - _RECENT) * manifest.queries + _RECENT * asked / updates

    def _remove_orphans(self) -> None:
        """Remove files that no manifest names: left by a crash or a failure between a write and its commit."""
        manifest = self._states.manifest
        named = {*(file.name for file in manifest.files), *manifest.retired}
        self._states.discard(tuple(path.name for path in self._states.folder.iterdir() if path.name not in named))


def _stem(number: int) -> str:
    return f"{number:09d}"


def _choice(g: int | None, e: int | None, strategy: str | None, slots: int) -> PartitionChoice:
    """The user's choice, else the choice for an archive without data."""
    chosen = choose(0, 0, slots)
    if g is not None and e is not None:
        return PartitionChoice(g, e, strategy or chosen.strategy)
    if g is not None or e is not None:
        raise ArchiveError("PARTITION needs two numbers, of insertion times and of expiry times; or none, for AUTO")
    if strategy is not None:
        raise ArchiveError(f"PARTITION AUTO chooses between the strategies; leave out '{strategy}', or give numbers")
    return chosen


def _fenced(directory: Path) -> Fence:
    try:
        return Fence(directory)
    except CheckpointError:
        raise ArchiveError(
            f"the archive {directory} has a writer already; close it there, or open it here for reading"
        ) from None
