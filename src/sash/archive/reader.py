"""Reading an archive: probes by key, scans, and states to hold for other readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sash.archive.file_reader import Groups, read_matching, scan_batches
from sash.archive.spec import Spec
from sash.archive.states import Facts, HeldState, States, facts_of
from sash.core.errors import ArchiveError, nearest
from sash.core.time import Micros
from sash.expr.value_codes import canonical


def as_keys(keys: Any, spec: Spec) -> pa.Array:
    """Distinct values of the key's type, without NULL; 0.0 stands for -0.0, too, and one NaN for all."""
    kind = spec.key_type
    try:
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        values = keys.cast(kind) if isinstance(keys, pa.Array) else pa.array(keys, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise ArchiveError(f"KEY {spec.key} is of type {kind}: {error}") from None
    distinct = canonical(values.drop_null()).unique()
    if pa.types.is_floating(kind) and pc.any(pc.equal(distinct, pa.scalar(0, kind))).as_py():
        distinct = pa.concat_arrays([distinct, pa.array([0.0, -0.0], kind)]).unique()
    return distinct


def equals_any(keys: pa.Array, column: str) -> pc.Expression:
    found = pc.field(column).isin(keys)
    # Arrow distinguishes the bit patterns of NaN.
    has_nan = pa.types.is_floating(keys.type) and pc.any(pc.is_nan(keys)).as_py()
    return found | pc.field(column).is_nan() if has_nan else found


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
        wanted = as_keys(keys, self.spec)
        condition = equals_any(wanted, self.spec.key)
        return self._probe(lambda directory: directory.groups_of(wanted), condition, now, columns)

    def probe_between(
        self, low: Any, high: Any, now: Micros | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The records with a key from low to high, both included; as `probe` otherwise."""
        first, last = (as_keys([end], self.spec).slice(0, 1) for end in (low, high))
        if len(first) == 0 or len(last) == 0:
            return self._probe(lambda directory: [], pc.scalar(False), now, columns)
        condition = (pc.field(self.spec.key) >= first[0]) & (pc.field(self.spec.key) <= last[0])
        return self._probe(lambda directory: directory.groups_between(first, last), condition, now, columns)

    def _probe(
        self, groups: Groups, condition: pc.Expression, now: Micros | None, columns: Sequence[str] | None
    ) -> pa.Table:
        names = self._columns(columns)

        def read(held: HeldState) -> pa.Table:
            spec, footers = held.manifest.spec, self._states.footers
            return read_matching(held.paths, spec, footers, groups, held.alive & condition, names)

        return self._read(now, read)

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
    def hold(self, now: Micros | None = None) -> Iterator[HeldState]:
        """A state for other readers, such as Spark: its files (`paths`) stay until the end of the `with`.

        The files may hold rows that have expired: read them with `held.alive`, that is `_sash_expires > held.now`.
        """
        self._count()
        with self._states.hold(now) as held:
            try:
                self._states.check(held.files)
            except FileNotFoundError as error:
                raise ArchiveError(f"the archive has lost a file: {error}") from None
            yield held

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
        """Read one whole state. If another process writes, files may go meanwhile: then read the next state."""
        self._count()
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
