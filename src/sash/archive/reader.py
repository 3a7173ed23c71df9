"""Reading an archive: probes by key or by a range of keys, scans, and states to hold for other readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sash.archive.file_reader import ProbeSize, matching_groups, read_matching, scan_batches, size_of
from sash.archive.spec import Spec
from sash.archive.states import Facts, HeldState, States, facts_of
from sash.archive.wanted_keys import KeyRange, KeyValues, WantedKeys
from sash.core.errors import ArchiveError, nearest
from sash.core.time import Micros

_T = TypeVar("_T")


class ArchiveReader:
    """Every answer is of one whole state, however many updates come meanwhile. For any thread."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._counting = threading.Lock()
        self._asked = 0

    @property
    def spec(self) -> Spec:
        return self._states.manifest.spec

    def probe(self, keys: Any, now: Micros | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The records with one of the keys that are alive at `now` (by default at the last update), in no order.

        `keys` is a sequence or an Arrow array. NULL equals nothing, as in SQL; NaN is one value. `columns` may name
        the archive's own columns as well.
        """
        return self.probe_keys(KeyValues.of(keys, self.spec), now, columns)

    def probe_between(
        self, low: Any, high: Any, now: Micros | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The records with a key from low to high, both included, None for an open end; as `probe` otherwise."""
        return self.probe_keys(KeyRange.of(low, high, self.spec), now, columns)

    def probe_keys(
        self, wanted: WantedKeys, now: Micros | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        names = self._columns(columns)

        def read(held: HeldState) -> pa.Table:
            spec, footers = held.manifest.spec, self._states.footers
            groups = matching_groups(held.paths, footers, wanted)
            return read_matching(groups, spec, footers, held.alive & wanted.condition, names)

        return self._read(now, read)

    def probe_size(self, wanted: WantedKeys, now: Micros | None = None) -> ProbeSize:
        """What a probe would read, without reading it. It does not count as a question."""
        footers = self._states.footers
        return self._whole(now, lambda held: size_of(matching_groups(held.paths, footers, wanted), footers))

    def scan(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, now: Micros | None = None
    ) -> pa.Table:
        """All live records, or those that an Arrow expression keeps."""
        names = self._columns(columns)
        schema = pa.schema([self.spec.stored.field(name) for name in names])

        def read(held: HeldState) -> pa.Table:
            self._states.check(held.files)
            condition = held.alive if filter is None else held.alive & filter
            return pa.Table.from_batches(scan_batches(held.paths, held.manifest.spec, condition, names), schema)

        return self._read(now, read)

    def scan_batches(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, now: Micros | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As `scan`, a batch at a time; the state is held until the last. Use it up, or close it."""
        with self.hold(now) as held:
            condition = held.alive if filter is None else held.alive & filter
            yield from scan_batches(held.paths, held.manifest.spec, condition, self._columns(columns))

    @contextmanager
    def hold(self, now: Micros | None = None, wanted: WantedKeys | None = None) -> Iterator[HeldState]:
        """A state for other readers, such as Spark: its files (`paths`) stay until the end of the `with`.

        The files may hold rows that have expired: read them with `held.alive`, that is `_sash_expires > held.now`.
        Files without any row group for the `wanted` keys are left out.
        """
        self._count()
        with self._states.hold(now) as held:
            try:
                state = held if wanted is None else self._with_keys(held, wanted)
                self._states.check(state.files)
            except FileNotFoundError as error:
                raise ArchiveError(f"the archive has lost a file: {error}") from None
            yield state

    def _with_keys(self, held: HeldState, wanted: WantedKeys) -> HeldState:
        groups = matching_groups(held.paths, self._states.footers, wanted)
        kept = [(path, file) for path, file in zip(held.paths, held.files, strict=True) if groups[path]]
        return replace(held, paths=tuple(path for path, _ in kept), files=tuple(file for _, file in kept))

    def files(self, now: Micros | None = None) -> list[Path]:
        """The files of the current state. They stay until the second update from now; see `hold`."""
        with self._states.hold(now) as held:
            return list(held.paths)

    def facts(self) -> Facts:
        return facts_of(self._states.manifest)

    def _count(self) -> None:
        with self._counting:
            self._asked += 1

    def _read(self, now: Micros | None, read: Callable[[HeldState], _T]) -> _T:
        self._count()
        return self._whole(now, read)

    def _whole(self, now: Micros | None, read: Callable[[HeldState], _T]) -> _T:
        """Read one whole state. If another process writes, files may go meanwhile: then read the next state."""
        missed = None
        while True:
            with self._states.hold(now) as held:
                try:
                    return read(held)
                except FileNotFoundError as error:
                    if held.manifest.number == missed:
                        raise ArchiveError(f"the archive has lost a file: {error}") from None
                    missed = held.manifest.number

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        spec = self.spec
        if columns is None:
            return list(spec.schema.names)
        for name in columns:
            if name not in spec.stored.names:
                raise ArchiveError(f"the archive has no column '{name}'{nearest(name, spec.schema.names)}")
        return list(columns)
