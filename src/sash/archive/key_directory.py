"""The key directory of a file: which row groups may hold a key.

A file is sorted by key (NULL last), so the first and last key of each row group are two ascending lists, and a binary
search finds the row groups of a key. The lists stand in the footer of the file, under `METADATA`; a file of another
writer (Spark) has none, and there the statistics of the row groups serve, if they can.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sash.expr.value_codes import one_array
from sash.storage.files import stream_bytes

Keys = NDArray[Any]  # of numbers, or of Python objects
METADATA = "sash.archive.directory"


@dataclass(frozen=True)
class KeyDirectory:
    """First and last key of the row groups; later row groups hold NULL only, which no key equals."""

    firsts: Keys
    lasts: Keys

    def groups_of(self, keys: pa.Array) -> list[int]:
        """The row groups that may hold one of the keys (none of them NULL)."""
        wanted = comparable(keys)
        starts = np.searchsorted(self.lasts, wanted, "left")
        ends = np.searchsorted(self.firsts, wanted, "right")
        return _union(starts, ends, len(self.firsts))

    def groups_between(self, low: pa.Array, high: pa.Array) -> list[int]:
        """The row groups that may hold keys from low to high, both included (arrays of one value, or none if open)."""
        start = int(np.searchsorted(self.lasts, comparable(low), "left")[0]) if len(low) else 0
        end = int(np.searchsorted(self.firsts, comparable(high), "right")[0]) if len(high) else len(self.firsts)
        return list(range(start, end))


def _union(starts: NDArray[np.int64], ends: NDArray[np.int64], n: int) -> list[int]:
    """The numbers that are in one of the ranges."""
    steps = np.zeros(n + 1, dtype=np.int64)
    filled = starts < ends
    np.add.at(steps, starts[filled], 1)
    np.add.at(steps, ends[filled], -1)
    return [int(each) for each in np.flatnonzero(np.cumsum(steps)[:n])]


def comparable(keys: pa.Array) -> Keys:
    """Keys as NumPy values in the same order: numbers as they are, times as integers, the rest as Python objects."""
    kind = keys.type
    if pa.types.is_boolean(kind):
        return keys.cast(pa.uint8()).to_numpy(zero_copy_only=False)
    if pa.types.is_temporal(kind):
        return keys.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return keys.to_numpy(zero_copy_only=False)
    values = np.empty(len(keys), dtype=object)
    values[:] = keys.to_pylist()
    return values


def cuts(keys: pa.Array, target: int) -> list[int]:
    """Where to cut sorted keys into row groups of about `target` rows: between two keys, if such a place is near.

    A key with many rows has its own row groups; a key beyond twice the target is cut within.
    """
    if len(keys) == 0:
        return []
    starts = np.concatenate([np.flatnonzero(_differs_from_previous(keys)), [len(keys)]])
    places = [0]
    while places[-1] < len(keys):
        here = places[-1]
        # At least one whole key, and further keys while they fit.
        fitting = starts[np.searchsorted(starts, here + target, "right") - 1]
        following = starts[np.searchsorted(starts, here, "right")]
        place = max(fitting, following) if fitting > here else following
        places.append(int(min(place, here + 2 * target)))
    return places


def _differs_from_previous(keys: pa.Array) -> NDArray[np.bool_]:
    """True where a run of equal keys begins. NULLs are one run; NaN may be many, which only moves a cut."""
    changed = np.ones(len(keys), dtype=np.bool_)
    if len(keys) > 1:
        previous, this = keys.slice(0, len(keys) - 1), keys.slice(1)
        differs = pc.fill_null(pc.not_equal(previous, this), False).to_numpy(zero_copy_only=False)
        null = keys.is_null().to_numpy(zero_copy_only=False)
        changed[1:] = differs | (null[1:] != null[:-1])
    return changed


def describe(keys: pa.Array, places: list[int]) -> dict[str, str]:
    """The directory of sorted keys with cuts at `places`, as metadata for the footer."""
    valid = len(keys) - keys.null_count
    ends = [(start, min(end, valid) - 1) for start, end in pairwise(places) if start < valid]
    firsts = keys.take(pa.array([start for start, _ in ends], pa.int64()))
    lasts = keys.take(pa.array([end for _, end in ends], pa.int64()))
    table = pa.table({"first": firsts, "last": lasts})
    return {METADATA: base64.b64encode(stream_bytes(table)).decode()}


def read_directory(footer: pq.FileMetaData, key: str, kind: pa.DataType) -> KeyDirectory | None:
    """The directory of a file; None if the file has none: then every row group may hold every key."""
    written = (footer.metadata or {}).get(METADATA.encode())
    if written is not None:
        table = pa.ipc.open_stream(base64.b64decode(written)).read_all().combine_chunks()
        return KeyDirectory(*(comparable(one_array(table[name])) for name in ("first", "last")))
    return _from_statistics(footer, key, kind)


def _from_statistics(footer: pq.FileMetaData, key: str, kind: pa.DataType) -> KeyDirectory | None:
    names = [footer.schema.column(number).path for number in range(footer.num_columns)]
    groups = [footer.row_group(number).column(names.index(key)) for number in range(footer.num_row_groups)]
    statistics = [group.statistics for group in groups]
    # NaN is in no statistics.
    if pa.types.is_floating(kind) or not all(each is not None and each.has_min_max for each in statistics):
        return None
    try:
        firsts, lasts = (pa.array([getattr(each, end) for each in statistics], kind) for end in ("min", "max"))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    directory = KeyDirectory(comparable(firsts), comparable(lasts))
    ascending = all(bool((ends[:-1] <= ends[1:]).all()) for ends in (directory.firsts, directory.lasts))
    return directory if ascending else None
