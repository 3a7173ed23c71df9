"""The state of one bucket of a plan: buffers by name, and counters. An epoch turns one state into the next.

In files, an epoch writes what is new into one file, and a manifest names all live chunks:

    manifest  {"buffers": {"0.live": [[file, offset, length, checksum, partition, dropped], ..]}, "counters": {..}}
                                          └► 000042-3.arrow: Arrow streams, one after the other,
    dropped   [[file, offset, length, checksum], ..]
                  └► 000043-3.arrow: numbers of rows that the chunk has lost since

What is written never changes, so a state is a list of places. A process remembers the chunks of the buckets that it
had last, by their places: it reads what other processes have written since. A place has the epoch and the checksum, so
an outdated process, or another attempt at an epoch, gets the state of the manifest. Files are the truth.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.buffers import NO_ROWS, Chunk, ChunkPlace, DroppedRows, tuples_of
from sash.core.errors import CheckpointError
from sash.core.faults import around
from sash.storage.files import stream_bytes


@dataclass(frozen=True)
class State:
    """`buffers` are lists of chunks by the name of an operator's input, `counters` what operators gave out or counted.

    `memory` has, by operator, values that operators derived from their buffers to save time. It is never stored. It is
    handed out once, so the operator that takes it may change it. `results`, the number of results of the epoch's join,
    is not stored either: it measures the work; nor is `broken`, by window the number of tuples that broke a promise.
    `own` has the additions of one of several tasks on the bucket, which the other tasks do not have.
    """

    buffers: Mapping[str, tuple[Chunk, ...]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    results: int = field(default=0, compare=False, repr=False)
    own: Mapping[str, tuple[Chunk, ...]] = field(default_factory=dict)
    broken: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)

    def chunks(self, name: str) -> tuple[Chunk, ...]:
        return self.buffers.get(name, ())

    def with_own(self, parts: Iterable[Mapping[str, tuple[Chunk, ...]]]) -> State:
        """The state with the additions of tasks."""
        buffers = dict(self.buffers)
        for own in parts:
            for name, chunks in own.items():
                buffers[name] = (*buffers.get(name, ()), *chunks)
        return replace(self, buffers=buffers, own={})

    @property
    def tuples(self) -> int:
        return _number(self.buffers)

    @property
    def own_tuples(self) -> int:
        return _number(self.own)


def _number(buffers: Mapping[str, tuple[Chunk, ...]]) -> int:
    return sum(len(chunk) for chunks in buffers.values() for chunk in chunks)


class WorkingState:
    """A state while an epoch works on it: operators replace their buffers, the old state stays as it was.

    It belongs to one of several buckets, whose numbers may meet in another stage.
    """

    def __init__(self, state: State, bucket: int = 0, buckets: int = 1) -> None:
        self._buffers = dict(state.buffers)
        self._counters = dict(state.counters)
        self._recalled = state.memory
        self._memory: dict[str, Any] = {}
        self._own: dict[str, tuple[Chunk, ...]] = {}
        self.results = 0
        self.broken: dict[int, int] = {}
        self._bucket = bucket
        self._buckets = buckets

    def chunks(self, name: str) -> tuple[Chunk, ...]:
        return self._buffers.get(name, ())

    def store(self, name: str, chunks: list[Chunk]) -> None:
        self._buffers[name] = tuple(chunks)

    def add_own(self, name: str, chunk: Chunk) -> None:
        """Add to a buffer to which every task on the bucket adds its results."""
        self._own[name] = (*self._own.get(name, ()), chunk)

    def numbers(self, name: str, more: int) -> NDArray[np.int64]:
        """Give out `more` numbers, in order, that neither an epoch before nor another bucket gives out.

        >>> WorkingState(State(), bucket=2, buckets=5).numbers("0", 3).tolist()
        [2, 7, 12]
        """
        first = self._counters.get(name, 0)
        self._counters[name] = first + more
        return np.arange(first, first + more) * self._buckets + self._bucket

    def count(self, name: str) -> int:
        return self._counters.get(name, 0)

    def add(self, name: str, more: int) -> None:
        if more:
            self._counters[name] = self.count(name) + more

    def recalled(self, name: str) -> Any:
        """The memory of the epoch before, or None: the process has changed, or the epoch is processed again.

        It may belong to another epoch than the buffers do: the caller compares.
        """
        return self._recalled.pop(name, None)

    def remember(self, name: str, memory: Any) -> None:
        self._memory[name] = memory

    def finished(self) -> State:
        buffers = {name: chunks for name, chunks in self._buffers.items() if chunks}
        return State(buffers, self._counters, self._memory, self.results, self._own, self.broken)


Manifest = dict[str, Any]
# The part of a manifest with the places of each buffer's chunks.
Buffers = dict[str, list[list[Any]]]


class WarmState(NamedTuple):
    """The chunks of a bucket's latest state in this process, and the memory of operators; `nbytes` of both."""

    chunks: dict[ChunkPlace, Chunk]
    memory: dict[str, Any]
    nbytes: int = 0


# By directory and bucket, the least recently used first. A worker does not learn when a plan ends, so it forgets chunks
# that it has not used for long.
_KNOWN: dict[tuple[str, int], WarmState] = {}
MOST_KNOWN = 64
# The workers of all cores take at most a quarter of the machine's memory.
MOST_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (4 * (os.cpu_count() or 1))


def load(directory: Path, bucket: int, manifest: Manifest | None) -> State:
    """The state that a manifest names; None is the empty one."""
    if manifest is None:
        return State()
    known = _KNOWN.get((str(directory), bucket), WarmState({}, {}))
    buffers = {
        name: tuple(_chunk(directory, entry, known.chunks) for entry in chunks)
        for name, chunks in manifest["buffers"].items()
    }
    _know(directory, bucket, buffers, known.memory)
    return State(buffers, manifest["counters"], known.memory)


def store(directory: Path, bucket: int, file: str, state: State, *, durable: bool) -> tuple[State, Manifest]:
    """Write what has no place yet; returns the state with all its places, and the manifest."""
    data = bytearray()
    buffers = {name: tuple(_placed(chunk, file, data) for chunk in chunks) for name, chunks in state.buffers.items()}
    if data:
        _write(directory / file, data, durable)
    _know(directory, bucket, buffers, state.memory)
    return replace(state, buffers=buffers), {"buffers": _written(buffers), "counters": dict(state.counters)}


def store_own(directory: Path, bucket: int, file: str, state: State, *, durable: bool) -> Buffers:
    """Write only the additions of one of several tasks on a bucket; for `extend`."""
    data = bytearray()
    own = {name: tuple(_placed(chunk, file, data) for chunk in chunks) for name, chunks in state.own.items()}
    if data:
        _write(directory / file, data, durable)
    _KNOWN.get((str(directory), bucket), WarmState({}, {})).chunks.update(_places(own))
    return _written(own)


def extend(manifest: Manifest, own: Buffers) -> None:
    """Add the chunks of a task to a bucket's manifest."""
    for name, places in own.items():
        manifest["buffers"].setdefault(name, []).extend(places)


def files_of(manifest: Manifest) -> set[str]:
    """The files that a manifest needs."""
    entries = [entry for chunks in manifest["buffers"].values() for entry in chunks]
    return {place[0] for entry in entries for place in (entry, *_dropped(entry))}


def forget(directory: Path) -> None:
    """Forget the chunks of a plan that has ended."""
    for key in [key for key in _KNOWN if key[0] == str(directory)]:
        del _KNOWN[key]


def _know(directory: Path, bucket: int, buffers: Mapping[str, tuple[Chunk, ...]], memory: dict[str, Any]) -> None:
    """Keep the chunks of a bucket's latest state, even if it is written elsewhere."""
    chunks = _places(buffers)
    nbytes = sum(chunk.nbytes for chunk in chunks.values()) + sum(
        getattr(each, "nbytes", 0) for each in memory.values()
    )
    _KNOWN.pop((str(directory), bucket), None)
    _KNOWN[str(directory), bucket] = WarmState(chunks, memory, nbytes)
    while len(_KNOWN) > MOST_KNOWN or (len(_KNOWN) > 1 and sum(each.nbytes for each in _KNOWN.values()) > MOST_BYTES):
        del _KNOWN[next(iter(_KNOWN))]


def _places(buffers: Mapping[str, tuple[Chunk, ...]]) -> dict[ChunkPlace, Chunk]:
    return {chunk.place: chunk for chunks in buffers.values() for chunk in chunks if chunk.place is not None}


def _written(buffers: Mapping[str, tuple[Chunk, ...]]) -> Buffers:
    return {name: [_entry(chunk) for chunk in chunks] for name, chunks in buffers.items()}


def _entry(chunk: Chunk) -> list[Any]:
    assert chunk.place is not None
    dropped = [list(astuple(part)) for part in chunk.dropped.parts]
    return [*astuple(chunk.place), chunk.partition, *([dropped] if dropped else [])]


def _dropped(entry: list[Any]) -> list[list[Any]]:
    """The places of the rows that a chunk has lost; chunks of earlier versions have lost none."""
    return entry[5] if len(entry) > 5 else []


def _placed(chunk: Chunk, file: str, data: bytearray) -> Chunk:
    """The chunk with a place for all of it. What has none is appended to the data of a file."""
    if chunk.place is None:
        return replace(chunk, place=_append(data, stream_bytes(chunk.to_table()), file))
    rows, parts = chunk.dropped.rows, list(chunk.dropped.parts)
    new = len(rows) - sum(map(_rows_in, parts))
    if not new:
        return chunk
    # Each part is at least twice the next one: there are few, and a row is written a few times.
    while parts and _rows_in(parts[-1]) < 2 * new:
        new += _rows_in(parts.pop())
    parts.append(_append(data, rows[len(rows) - new :].astype(_ROW).tobytes(), file))
    return replace(chunk, dropped=DroppedRows(rows, tuple(parts)))


_ROW = np.dtype("<i4")


def _rows_in(part: ChunkPlace) -> int:
    return part.length // _ROW.itemsize


def _append(data: bytearray, written: bytes, file: str) -> ChunkPlace:
    place = ChunkPlace(file, len(data), len(written), zlib.crc32(written))
    data += written
    return place


def _write(path: Path, data: bytearray, durable: bool) -> None:
    """Another attempt at the same epoch may write the same file: the last rename counts, and the bytes are equal."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with open(draft, "wb") as file:
            with around("write", draft):
                file.write(data)
                file.flush()
            if durable:
                with around("sync", draft):
                    os.fsync(file.fileno())
        with around("rename", path):
            os.replace(draft, path)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the directory of the state file {path} is not there: it was removed, or executors do not see it; connect "
            "with a checkpoint on a file system that they share"
        ) from error
    except OSError as error:
        raise CheckpointError(f"the state file {path} cannot be written: {error.strerror or error}") from error


def _chunk(directory: Path, entry: list[Any], known: Mapping[ChunkPlace, Chunk]) -> Chunk:
    """The chunk of a manifest's entry, if it is known as of another epoch, without what it has lost since then."""
    place, partition = ChunkPlace(*entry[:4]), entry[4]
    parts = tuple(ChunkPlace(*part) for part in _dropped(entry))
    chunk = known.get(place)
    if chunk is not None and chunk.dropped.parts == parts:
        return chunk
    rows = np.concatenate([NO_ROWS.rows, *(np.frombuffer(_read(directory, part), dtype=_ROW) for part in parts)])
    if chunk is None or not np.isin(chunk.dropped.rows, rows).all():
        # What was never committed may have dropped more.
        chunk = Chunk(tuples_of(pa.ipc.open_stream(pa.py_buffer(_read(directory, place))).read_all()))
    return Chunk(chunk.tuples.where(~np.isin(chunk.numbers(), rows)), partition, place, DroppedRows(rows, parts))


def _read(directory: Path, place: ChunkPlace) -> bytes:
    path = directory / place.file
    try:
        with open(path, "rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
    except OSError as error:
        raise CheckpointError(f"the state file {path} cannot be read: {error}") from None
    if len(data) != place.length or zlib.crc32(data) != place.checksum:
        raise CheckpointError(f"the state file {path} is damaged: its checksum is wrong")
    return data
