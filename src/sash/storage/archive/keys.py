"""Keys that somebody asks for, as values of the key column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash.core.errors import ArchiveError
from sash.storage.archive.spec import Spec
from sash.storage.keys import canonical


def as_keys(keys: Any, spec: Spec) -> pa.Array:
    """Different values of the key's type, without NULL; 0.0 stands for -0.0, too, and one NaN for all."""
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
    # Arrow tells the bit patterns of NaN apart.
    has_nan = pa.types.is_floating(keys.type) and pc.any(pc.is_nan(keys)).as_py()
    return found | pc.field(column).is_nan() if has_nan else found
