"""The keys that a probe wants: some values, or a range. Each finds row groups in a key directory, and tests rows.

Values compare as in Spark: NULL is in no list and no range, NaN is one value above all numbers, 0.0 equals -0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash.archive.key_directory import KeyDirectory
from sash.archive.spec import Spec
from sash.core.errors import ArchiveError
from sash.expr.value_codes import canonical


@dataclass(frozen=True)
class KeyValues:
    """Distinct values of the key's type, without NULL."""

    column: str
    values: pa.Array

    @classmethod
    def of(cls, keys: Any, spec: Spec) -> KeyValues:
        distinct = canonical(_as_keys(keys, spec).drop_null()).unique()
        kind = distinct.type
        if pa.types.is_floating(kind) and pc.any(pc.equal(distinct, pa.scalar(0, kind))).as_py():
            distinct = pa.concat_arrays([distinct, pa.array([0.0, -0.0], kind)]).unique()
        return cls(spec.key, distinct)

    def groups(self, directory: KeyDirectory) -> list[int]:
        return directory.groups_of(self.values)

    @property
    def condition(self) -> pc.Expression:
        found = pc.field(self.column).isin(self.values)
        # Arrow distinguishes the bit patterns of NaN.
        return found | pc.field(self.column).is_nan() if _has_nan(self.values) else found


@dataclass(frozen=True)
class KeyRange:
    """Keys from `low` to `high`, both included: arrays of one value, or of none where the range is open."""

    column: str
    low: pa.Array
    high: pa.Array

    @classmethod
    def of(cls, low: Any, high: Any, spec: Spec) -> KeyRange:
        """None leaves an end open."""
        return cls(spec.key, *(_as_keys([] if end is None else [end], spec) for end in (low, high)))

    def groups(self, directory: KeyDirectory) -> list[int]:
        return directory.groups_between(self.low, self.high)

    @property
    def condition(self) -> pc.Expression:
        key = pc.field(self.column)
        found = key.is_valid()
        if _has_nan(self.low):
            found = found & key.is_nan()
        elif len(self.low):
            above = key >= self.low[0]
            found = found & (above | key.is_nan() if pa.types.is_floating(self.low.type) else above)
        if len(self.high) and not _has_nan(self.high):
            found = found & (key <= self.high[0])
        return found


WantedKeys = KeyValues | KeyRange


def _as_keys(keys: Any, spec: Spec) -> pa.Array:
    kind = spec.key_type
    try:
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        return keys.cast(kind) if isinstance(keys, pa.Array) else pa.array(keys, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise ArchiveError(f"KEY {spec.key} is of type {kind}: {error}") from None


def _has_nan(keys: pa.Array) -> bool:
    return pa.types.is_floating(keys.type) and bool(pc.any(pc.is_nan(keys)).as_py())
