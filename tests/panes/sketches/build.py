"""Sketches of raw values, as Spark's pass makes them of a pane's rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import datasketches as ds
import numpy as np

from sash.panes.sketches import LG_MAP, LG_REGISTERS, K, Sketch


def hll_of(values: Iterable[Any]) -> bytes:
    """Whole numbers as they are, anything else as text with a final point, as `Hll.lift` asks Spark."""
    sketch = ds.hll_sketch(LG_REGISTERS, ds.HLL_8)
    for value in values:
        if value is not None:
            sketch.update(value if isinstance(value, int) else f"{value}.")
    return bytes(sketch.serialize_updatable())


def kll_of(values: Iterable[Any]) -> bytes:
    sketch = ds.kll_doubles_sketch(K)
    sketch.update(np.array([value for value in values if value is not None], dtype=np.float64))
    return bytes(sketch.serialize())


def items_of(values: Iterable[Any]) -> bytes:
    """With Spark's count of NULLs behind it."""
    sketch, nulls = ds.frequent_strings_sketch(LG_MAP), 0
    for value in values:
        if value is None:
            nulls += 1
        else:
            sketch.update(str(value))
    return bytes(sketch.serialize()) + nulls.to_bytes(8, "big")


BUILD = {"hll": hll_of, "kll": kll_of, "items": items_of}


def merged(kind: type[Sketch], sketches: Iterable[bytes | None]) -> bytes | None:
    """The union of serialised sketches; None if there is none among them."""
    known = [data for data in sketches if data is not None]
    return reduce(lambda left, right: _union(kind, left, right), known) if known else None


def _union(kind: type[Sketch], left: bytes, right: bytes) -> bytes:
    sketch = kind.from_bytes(left)
    sketch.merge(right)
    return sketch.to_bytes()
