"""The state of one bucket of a plan: buffers by name, and counters. An epoch turns one state into the next.

In files, an epoch writes its new chunks into one file, and a manifest names all live chunks:

    manifest  {"buffers": {"0.live": [[file, offset, length, checksum, partition], ..]}, "counters": {..}}
                                          └► 000042-3.arrow: Arrow streams, one after the other

Chunks never change, so a state is a list of places. A chunk is read once per process as long as it lives.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.buffers import Chunk, ChunkPlace, tuples_of
from sash.core.errors import CheckpointError
from sash.core.faults import around
from sash.storage.files import stream_bytes


@dataclass(frozen=True)
class State:
    """`buffers` are lists of chunks by the name of an operator's input, `counters` numbers that operators gave out.

    `memory` has, by operator, values that operators derived from their buffers to save time. It is never stored. It is
    handed out once, so the operator that takes it may change it. `results`, the number of results of the epoch's join,
    is not stored either: it measures the work. `own` has the additions of one of several tasks on the bucket, which the
    other tasks do not have.
    """

    buffers: Mapping[str, tuple[Chunk, ...]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    results: int = field(default=0, compare=False, repr=False)
    own: Mapping[str, tuple[Chunk, ...]] = field(default_factory=dict)

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

    def recalled(self, name: str) -> Any:
        """The memory of the epoch before, or None: the process has changed, or the epoch is processed again.

        It may belong to another epoch than the buffers do: the caller compares.
        """
        return self._recalled.pop(name, None)

    def remember(self, name: str, memory: Any) -> None:
        self._memory[name] = memory

    def finished(self) -> State:
        buffers = {name: chunks for name, chunks in self._buffers.items() if chunks}
        return State(buffers, self._counters, self._memory, self.results, self._own)


Manifest = dict[str, Any]
# The part of a manifest with the places of each buffer's chunks.
Buffers = dict[str, list[list[Any]]]
# By directory and bucket, the least recently used first: the chunks of its latest state in this process, and the memory
# of operators. A worker does not learn when a plan ends, so it forgets chunks that it has not used for long.
_KNOWN: dict[tuple[str, int], tuple[dict[ChunkPlace, Chunk], dict[str, Any]]] = {}
MOST_KNOWN = 64


def load(directory: Path, bucket: int, manifest: Manifest | None) -> State:
    """The state that a manifest names; None is the empty one."""
    if manifest is None:
        return State()
    known, memory = _KNOWN.get((str(directory), bucket), ({}, {}))
    buffers = {
        name: tuple(_chunk(directory, ChunkPlace(*place), partition, known) for *place, partition in chunks)
        for name, chunks in manifest["buffers"].items()
    }
    _know(directory, bucket, buffers, memory)
    return State(buffers, manifest["counters"], memory)


def store(directory: Path, bucket: int, file: str, state: State, *, durable: bool) -> tuple[State, Manifest]:
    """Write the chunks that have no place yet; returns the state with all its places, and the manifest."""
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
    _KNOWN.get((str(directory), bucket), ({}, {}))[0].update(_places(own))
    return _written(own)


def extend(manifest: Manifest, own: Buffers) -> None:
    """Add the chunks of a task to a bucket's manifest."""
    for name, places in own.items():
        manifest["buffers"].setdefault(name, []).extend(places)


def files_of(manifest: Manifest) -> set[str]:
    """The files that a manifest needs."""
    return {place[0] for chunks in manifest["buffers"].values() for place in chunks}


def forget(directory: Path) -> None:
    """Forget the chunks of a plan that has ended."""
    for key in [key for key in _KNOWN if key[0] == str(directory)]:
        del _KNOWN[key]


def _know(directory: Path, bucket: int, buffers: Mapping[str, tuple[Chunk, ...]], memory: dict[str, Any]) -> None:
    """Keep the chunks of a bucket's latest state, even if it is written elsewhere."""
    _KNOWN.pop((str(directory), bucket), None)
    _KNOWN[str(directory), bucket] = (_places(buffers), memory)
    while len(_KNOWN) > MOST_KNOWN:
        del _KNOWN[next(iter(_KNOWN))]


def _places(buffers: Mapping[str, tuple[Chunk, ...]]) -> dict[ChunkPlace, Chunk]:
    return {chunk.place: chunk for chunks in buffers.values() for chunk in chunks if chunk.place is not None}


def _written(buffers: Mapping[str, tuple[Chunk, ...]]) -> Buffers:
    return {name: [[*_fields(chunk), chunk.partition] for chunk in chunks] for name, chunks in buffers.items()}


def _fields(chunk: Chunk) -> tuple[str, int, int, int]:
    assert chunk.place is not None
    return chunk.place.file, chunk.place.offset, chunk.place.length, chunk.place.checksum


def _placed(chunk: Chunk, file: str, data: bytearray) -> Chunk:
    if chunk.place is not None:
        return chunk
    written = stream_bytes(chunk.to_table())
    place = ChunkPlace(file, len(data), len(written), zlib.crc32(written))
    data += written
    return replace(chunk, place=place)


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


def _chunk(directory: Path, place: ChunkPlace, partition: int, known: dict[ChunkPlace, Chunk]) -> Chunk:
    if place in known:
        return known[place]
    path = directory / place.file
    try:
        with open(path, "rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
    except OSError as error:
        raise CheckpointError(f"the state file {path} cannot be read: {error}") from None
    if len(data) != place.length or zlib.crc32(data) != place.checksum:
        raise CheckpointError(f"the state file {path} is damaged: its checksum is wrong")
    return Chunk(tuples_of(pa.ipc.open_stream(pa.py_buffer(data)).read_all()), partition, place)
