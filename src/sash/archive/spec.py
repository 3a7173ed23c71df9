"""The properties of an archive: its columns and key, the bound on lifetimes, the update interval, its partitioning.

Fixed when the archive is made (`Archive.migrate` may change the partitioning) and kept in its manifest.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.archive.layout import LAYOUTS, WAVE, ArchiveLayout
from sash.archive.upkeep import STRATEGIES
from sash.core.changes import INSTANT
from sash.core.errors import ArchiveError, nearest
from sash.core.time import LONGEST, Micros, format_duration

# The prefix of columns that every file has besides those of the archive; no user's column may have it.
RESERVED = "_sash_"
INSERTED, EXPIRES = "_sash_inserted", "_sash_expires"
# About as much as one seek should fetch: a row group of a file, and the bucket that NOREBUILD fills before the next.
BUCKET_BYTES = 1 << 18


@dataclass(frozen=True)
class Spec:
    """Durations in microseconds. `auto`: Sash may change the partitioning."""

    schema: pa.Schema
    key: str
    lifetime: Micros
    every: Micros
    g: int
    e: int
    layout: str
    strategy: str
    bucket_bytes: int = BUCKET_BYTES
    auto: bool = False

    def __post_init__(self) -> None:
        _check_columns(self.schema, self.key)
        _check_durations(self.lifetime, self.every)
        _check_choice("layout", self.layout, LAYOUTS)
        _check_choice("strategy", self.strategy, STRATEGIES)
        _check_partitions(self)
        if self.bucket_bytes < 1:
            raise ArchiveError(f"a bucket of {self.bucket_bytes} bytes holds nothing; take {BUCKET_BYTES}")

    @property
    def partitions(self) -> ArchiveLayout:
        return LAYOUTS[self.layout](self.lifetime, self.every, self.g, self.e)

    @property
    def stored(self) -> pa.Schema:
        """The columns of the files: the archive's, then the two of its own."""
        return pa.schema([*self.schema, pa.field(INSERTED, INSTANT, False), pa.field(EXPIRES, INSTANT, False)])

    @property
    def key_type(self) -> pa.DataType:
        return self.schema.field(self.key).type

    def boundary(self, t: Micros) -> Micros:
        """The last time at or before `t` at which an update is due."""
        return t // self.every * self.every

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "schema": base64.b64encode(self.schema.serialize()).decode()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Spec:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields["schema"])))
        return cls(**{**fields, "schema": schema})


def _check_columns(schema: pa.Schema, key: str) -> None:
    for name in schema.names:
        if name.lower().startswith(RESERVED):
            raise ArchiveError(
                f"a column of an archive cannot be called '{name}': names that begin with "
                f"'{RESERVED}' are the archive's own; rename it"
            )
        if schema.names.count(name) > 1:
            raise ArchiveError(f"two columns are called '{name}'; rename one")
    if key not in schema.names:
        raise ArchiveError(f"KEY {key}: there is no such column{nearest(key, schema.names)}")
    kind = schema.field(key).type
    if not _has_order(kind):
        raise ArchiveError(
            f"KEY {key}: values of type {kind} have no order; choose a column of numbers, "
            "strings, bytes, dates or times"
        )
    try:
        pq.write_table(schema.empty_table(), pa.BufferOutputStream())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise ArchiveError(f"Parquet cannot hold these columns: {error}; cast or leave out the column") from None


def _has_order(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
        return False
    try:
        pc.sort_indices(pa.nulls(2, kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


def _check_durations(lifetime: Micros, every: Micros) -> None:
    if every <= 0:
        raise ArchiveError(f"UPDATE EVERY {format_duration(every)}: the interval must be positive")
    if not 0 < lifetime <= LONGEST:
        raise ArchiveError(
            f"LIFETIME UP TO {format_duration(lifetime)}: it must be positive, and at most {format_duration(LONGEST)}"
        )
    if lifetime % every:
        below = lifetime // every * every
        nearby = " or ".join(format_duration(each) for each in (below, below + every) if each)
        raise ArchiveError(
            f"LIFETIME UP TO {format_duration(lifetime)} is not a multiple of UPDATE EVERY "
            f"{format_duration(every)}; take {nearby}, or another interval"
        )


def _check_choice(what: str, word: str, known: Any) -> None:
    if word not in known:
        raise ArchiveError(f"there is no {what} '{word}'{nearest(word, known)}")


def _check_partitions(spec: Spec) -> None:
    written, slots = f"PARTITION {spec.g} x {spec.e}", spec.lifetime // spec.every
    if spec.layout == WAVE:
        if spec.g < 1 or spec.e < 1 or min(spec.g, spec.e) != 1:
            raise ArchiveError(f"{written}: a wave index is partitioned by one time only; take n x 1 or 1 x n")
    elif spec.g < 2 or spec.e < 2:
        raise ArchiveError(f"{written}: both numbers must be at least 2; take 2 x 2 or more")
    if spec.g > slots or spec.e > slots:
        raise ArchiveError(
            f"{written}: there are {slots} updates in a lifetime, so that at most {slots} partitions of each "
            "kind are ever filled; take fewer, or update more often"
        )
