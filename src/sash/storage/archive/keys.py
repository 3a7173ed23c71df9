"""Keys that somebody asks for, as values of the key column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash.core.errors import ArchiveError
from sash.storage.archive.spec import Spec


def as_keys(keys: Any, spec: Spec) -> pa.Array:
    """Different values of the key's type, without NULL; 0.0 stands for -0.0, too."""
    kind = spec.key_type
    try:
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        values = keys.cast(kind) if isinstance(keys, pa.Array) else pa.array(keys, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
        raise ArchiveError(f"KEY {spec.key} is of type {kind}: {error}") from None
    distinct = values.drop_null().unique()
    if pa.types.is_floating(kind) and pc.any(pc.equal(distinct, pa.scalar(0, kind))).as_py():
        distinct = pa.concat_arrays([distinct, pa.array([0.0, -0.0], kind)]).unique()
    return distinct


def equals_any(keys: pa.Array, column: str) -> pc.Expression:
    return pc.field(column).isin(keys)
