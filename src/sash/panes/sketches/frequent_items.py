"""Frequent items (Misra and Gries 1982; Anderson et al. 2017): which values come most often, and how often.

A map of at most 3072 items. When it is full, a count that half of the items do not exceed is taken from all: the sum
of what was taken is the error, at most 0.09% of all values. The true count of an item is never below `lower` and never
above `upper`. Spark's `approx_top_k_accumulate` writes the same format for texts, with its own count of NULLs behind
it, which is not read; other types travel as texts (`base.as_text`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Self

import datasketches as ds
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.panes.lifted import Lifted
from sash.panes.sketches.sketch import as_text
from sash.plan.expressions import RowExpression

LG_MAP = 12
# A map of 2 ** LG_MAP places is used up to three quarters. Spark asks for this number and computes the other.
MOST_ITEMS = 3 << (LG_MAP - 2)

Ints = NDArray[np.int64]
# Items, estimated counts, lower and upper bounds; the most frequent first, of equals the least item.
Top = tuple[pa.Array, Ints, Ints, Ints]


class FrequentStrings:
    """Counts of the most frequent texts.

    Needs: no order. Time: amortised O(1) per value, O(items) per merge. Space: at most 3072 items.
    Reference: Apache DataSketches, Frequent Items.
    """

    def __init__(self, sketch: Any) -> None:
        self._sketch = sketch

    @classmethod
    def lift(cls, argument: RowExpression) -> tuple[Lifted, ...]:
        return (Lifted("approx_top_k_accumulate", as_text(argument), pa.string(), (str(MOST_ITEMS),), "sketch"),)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(ds.frequent_strings_sketch.deserialize(data))

    @property
    def empty(self) -> bool:
        return bool(self._sketch.is_empty())

    def merge(self, data: bytes) -> None:
        self._sketch.merge(ds.frequent_strings_sketch.deserialize(data))

    def to_bytes(self) -> bytes:
        return bytes(self._sketch.serialize())

    def estimate(self, asked: str | None = None) -> int:
        return int(self._sketch.get_estimate(asked))

    def bounds(self, asked: str | None = None) -> tuple[int, int]:
        return int(self._sketch.get_lower_bound(asked)), int(self._sketch.get_upper_bound(asked))

    def rows(self) -> list[tuple[str, int, int, int]]:
        """Every item that the sketch still knows: text, estimate, lower, upper."""
        return list(self._sketch.get_frequent_items(ds.NO_FALSE_NEGATIVES, 0))


def top_of(data: bytes | None, type: pa.DataType, k: int) -> Top:
    """The k most frequent items of a merged sketch, as values of a type."""
    rows = FrequentStrings.from_bytes(data).rows() if data is not None else []
    return _first(decode([row[0] for row in rows], type), np.array([row[1:] for row in rows], np.int64), k)


def _first(items: pa.Array, figures: Ints, k: int) -> Top:
    figures = figures.reshape(-1, 3)
    table = pa.table({"item": items, "estimate": figures[:, 0]})
    order = pc.sort_indices(table, sort_keys=[("estimate", "descending"), ("item", "ascending")])[:k]
    chosen = figures[np.asarray(order, dtype=np.int64)]
    return items.take(order), chosen[:, 0], chosen[:, 1], chosen[:, 2]


def decode(texts: list[str], type: pa.DataType) -> pa.Array:
    """The values behind texts that `base.as_text` made.

    >>> decode(["18262"], pa.date32()).to_pylist()
    [datetime.date(2020, 1, 1)]
    """
    if pt.is_string(type) or pt.is_large_string(type):
        return pa.array(texts, type)
    if pt.is_floating(type):
        return pa.array([float(text) for text in texts], pa.float64()).cast(type)
    if pt.is_decimal(type):
        return pa.array([Decimal(text) for text in texts], type)
    if pt.is_binary(type) or pt.is_large_binary(type):
        return pa.array([bytes.fromhex(text) for text in texts], type)
    numbers = pa.array([int(text) for text in texts], pa.int64())
    return numbers.cast(pa.int32()).cast(type) if pt.is_date32(type) else numbers.cast(type)
