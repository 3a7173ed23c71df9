"""HyperLogLog: how many distinct values (Flajolet et al. 2007; Heule et al. 2013).

2 ** 12 registers: a relative standard error of 1.6%, 2 to 4 kB once there are a few hundred values, and nearly exact
with few bytes below that. Spark and `datasketches` hash whole numbers and UTF-8 alike, and a union does not depend on
the order of its parts.
"""

from __future__ import annotations

from typing import Any, Self

import datasketches as ds
import pyarrow as pa
import pyarrow.types as pt

from sash.panes.lifted import Lifted
from sash.panes.sketches.sketch import as_number, as_text
from sash.plan.expressions import RowExpression

LG_REGISTERS = 12
STANDARD_DEVIATIONS = 3


class Hll:
    """Distinct values, each counted once however often it comes.

    Needs: nothing of the order or the number of duplicates. Time: O(registers) per merge, once both are large.
    Space: at most 2 ** 12 registers of four bits and a header. Reference: Apache DataSketches, HLL.
    """

    def __init__(self, sketch: Any) -> None:
        # A union is made when there is something to merge: most sketches are only read.
        self._sketch = sketch
        self._union: Any = None

    @classmethod
    def lift(cls, argument: RowExpression) -> tuple[Lifted, ...]:
        return (Lifted("hll_sketch_agg", *_hashed(argument), parameters=(str(LG_REGISTERS),)),)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(ds.hll_sketch.deserialize(data))

    @property
    def empty(self) -> bool:
        return bool(self._state.is_empty())

    @property
    def _state(self) -> Any:
        return self._sketch if self._union is None else self._union

    def merge(self, data: bytes) -> None:
        if self._union is None:
            self._union = ds.hll_union(LG_REGISTERS)
            self._union.update(self._sketch)
        self._union.update(ds.hll_sketch.deserialize(data))

    def to_bytes(self) -> bytes:
        sketch = self._sketch if self._union is None else self._union.get_result(ds.HLL_4)
        return bytes(sketch.serialize_compact())

    def estimate(self, asked: None = None) -> float:
        return float(self._state.get_estimate())

    def bounds(self, asked: None = None) -> tuple[float, float]:
        state = self._state
        return float(state.get_lower_bound(STANDARD_DEVIATIONS)), float(state.get_upper_bound(STANDARD_DEVIATIONS))


def _hashed(argument: RowExpression) -> tuple[str, pa.DataType]:
    """The SQL that Spark hashes, and its type. A final byte is added because the sketch passes over empty strings."""
    number = as_number(argument)
    if number is not None:
        return number, pa.int64()
    if pt.is_binary(argument.type) or pt.is_large_binary(argument.type):
        return f"concat({argument.sql}, X'2E')", pa.binary()
    return f"concat({as_text(argument)}, '.')", pa.string()
