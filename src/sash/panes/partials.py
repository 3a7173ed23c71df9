"""Partials: what Spark computes for each pane and group, and how two of them combine.

A partial is lifted by Spark's aggregate functions, stored as one or more int64 or float64 arrays
(its components), combined by a kernel, and lowered to the answer's value by the aggregates that share it
(rule SS1: the same data per interval serves every aggregate that needs it). A sketch is one array of bytes
objects and is combined by its library's union; a program's own aggregate is combined by its own function.

Absent values are stored as the combine's identity. The `count` partial of the same argument, which every aggregate of
that argument shares, says whether there was a value at all. An absent sketch is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.interned import InternedValue
from sash.core.user_aggregate import UserAggregate
from sash.panes.lifted import LiftedColumn
from sash.panes.limbs import split_decimal
from sash.panes.pane_ring import Dtype
from sash.panes.sketches import SKETCHES
from sash.plan.expressions import RowExpression

# The column of k - 1 in a stream with SHED, where a micro-batch keeps one tuple in k (spark/preparation.py).
SHED_COLUMN = "_shed"

# int64, float64 or objects
Component = NDArray[Any]


class Combine(StrEnum):
    ADD = "add"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"
    MOMENTS = "moments"
    UNION = "union"
    FUNCTION = "function"


_COMBINES = {
    "rows": Combine.ADD,
    "count": Combine.ADD,
    "sum": Combine.ADD,
    "shed": Combine.ADD,
    "min": Combine.MIN,
    "max": Combine.MAX,
    "bit_and": Combine.AND,
    "bit_or": Combine.OR,
    "bit_xor": Combine.XOR,
    **dict.fromkeys(("moments", "co_moments", "high_moments"), Combine.MOMENTS),
    **dict.fromkeys(SKETCHES, Combine.UNION),
}
# What Spark computes for moments: of one argument, or of the fields `_0` and `_1` of a pair.
_MOMENTS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "moments": (("avg", ()), ("var_pop", ())),
    "co_moments": (
        *(("avg", ("_0",)), ("avg", ("_1",)), ("var_pop", ("_0",)), ("var_pop", ("_1",))),
        ("covar_pop", ("_0", "_1")),
    ),
    "high_moments": (("avg", ()), ("var_pop", ()), ("skewness", ()), ("kurtosis", ())),
}
PARTIAL_KINDS = _COMBINES.keys()


@dataclass(frozen=True, eq=False)
class Partial(InternedValue):
    """`kind` is one of PARTIAL_KINDS, or the name of the `user`'s aggregate.

    `predicate` is the query's WHERE.
    """

    kind: str
    argument: RowExpression | None = None
    predicate: RowExpression | None = None
    user: UserAggregate | None = field(default=None, repr=False)

    @property
    def signature(self) -> tuple[str, str, str]:
        """The partial in words, for checkpoints."""
        texts = [part.sql if part is not None else "" for part in (self.argument, self.predicate)]
        return (self.kind, texts[0], texts[1])

    @cached_property
    def combine(self) -> Combine:
        return _COMBINES[self.kind] if self.user is None else Combine.FUNCTION

    @property
    def type(self) -> pa.DataType:
        return pa.int64() if self.argument is None else self.argument.type

    @cached_property
    def ranked(self) -> bool:
        """Whether it is a minimum or maximum of values that are no machine numbers: codes into a dictionary."""
        return self.kind in ("min", "max") and not is_machine_number(self.type)

    @cached_property
    def numeric(self) -> bool:
        """Whether its components are plain numbers: all windows of a scan lie in one matrix, and may be lowered so."""
        return not self.ranked and self.combine is not Combine.UNION

    @cached_property
    def dtypes(self) -> tuple[Dtype, ...]:
        if self.user is not None:
            return (np.int64 if self.user.zero.dtype == np.int64 else np.float64,) * len(self.user.zero)
        if self.kind in SKETCHES:
            return (np.object_,)
        if self.combine is Combine.MOMENTS:
            return (np.float64,) * len(_MOMENTS[self.kind])
        if self.kind == "shed":
            return (np.float64,)
        if self.kind == "sum" and pt.is_decimal(self.type):
            return (np.int64,) * 4
        if self.kind == "sum" and pt.is_int64(self.type):
            return (np.int64,) * 2
        return (np.float64,) if self.kind in ("sum", "min", "max") and pt.is_floating(self.type) else (np.int64,)

    def lift(self) -> tuple[LiftedColumn, ...]:
        if self.argument is None:
            return (LiftedColumn("count", "1", pa.int32()),)
        x, type = self.argument.sql, self.type
        if self.user is not None:
            return (LiftedColumn("collect_list", x, type, user=self.user.on_executors),)
        if self.kind in SKETCHES:
            return SKETCHES[self.kind].lift(self.argument)
        if self.combine is Combine.MOMENTS:
            number = (x, type) if pt.is_struct(type) else (f"CAST({x} AS DOUBLE)", pa.float64())
            return tuple(LiftedColumn(name, *number, parts=parts) for name, parts in _MOMENTS[self.kind])
        if self.kind == "shed":
            # Like all sums it is multiplied by k afterwards: k (k - 1) x x.
            return (LiftedColumn("sum", f"{SHED_COLUMN} * CAST({x} AS DOUBLE) * CAST({x} AS DOUBLE)", pa.float64()),)
        if self.kind == "sum" and pt.is_decimal(type):
            return (LiftedColumn("sum", f"CAST({x} AS DECIMAL(38, {type.scale}))", pa.decimal128(38, type.scale)),)
        if self.kind == "sum" and pt.is_int64(type):
            return (
                LiftedColumn("sum", f"(({x}) & 4294967295L)", type),
                LiftedColumn("sum", f"shiftright({x}, 32)", type),
            )
        return (LiftedColumn(self.kind, x, type),)

    def identity(self, component: int = 0) -> Any:
        """What changes nothing when it is combined: an int or a float, None for a sketch.

        Only the components of a program's own aggregate differ in it.
        """
        if self.user is not None:
            return self.user.zero[component].item()
        if self.kind in SKETCHES:
            return None
        if self.kind == "min":
            return float("nan") if self.dtypes[0] is np.float64 else np.iinfo(np.int64).max
        if self.kind == "max":
            return float("-inf") if self.dtypes[0] is np.float64 else np.iinfo(np.int64).min
        return -1 if self.kind == "bit_and" else 0

    @cached_property
    def invertible(self) -> bool:
        """Whether a part can be taken back: of exact sums, and where a program says how."""
        return self.subtractable if self.user is None else self.user.invert is not None

    @cached_property
    def subtractable(self) -> bool:
        """Only exact sums: a float sum would keep the rounding errors of values that were taken back."""
        return self.combine is Combine.ADD and all(dtype is np.int64 for dtype in self.dtypes)

    def invert(self, whole: list[Component], part: list[Component]) -> list[Component]:
        """The rest of a combined partial when a part of it is taken back (Arasu and Widom, 3.2)."""
        if self.combine is Combine.XOR:
            return [all ^ some for all, some in zip(whole, part, strict=True)]
        if not self.subtractable:
            raise ValueError(f"{self.kind.upper()} of {self.type} cannot be taken back")
        return [all - some for all, some in zip(whole, part, strict=True)]

    def store(self, columns: list[pa.Array], counts: NDArray[np.int64] | None) -> list[Component]:
        """The components of freshly lifted columns (not for ranked partials). Moments need the argument's counts."""
        if self.user is not None:
            rows = columns[0].flatten().to_numpy(zero_copy_only=False).reshape(len(columns[0]), -1)
            return [np.array(rows[:, i]) for i in range(len(self.dtypes))]
        if self.kind in SKETCHES:
            return [_sketches(columns[0], self.kind)]
        if self.combine is Combine.MOMENTS:
            assert counts is not None
            return _moments(self.kind, [to_numpy(column, np.float64, 0.0) for column in columns], counts)
        if pt.is_decimal(columns[0].type):
            return [*split_decimal(columns[0])]
        return [to_numpy(c, d, self.identity()) for c, d in zip(columns, self.dtypes, strict=True)]


def _moments(kind: str, columns: list[Component], n: NDArray[np.int64]) -> list[Component]:
    """Sums of powers and products of deviations, from Spark's variances, skewness and so on."""
    if kind == "co_moments":
        return [*columns[:2], *(column * n for column in columns[2:])]
    mean, variance, *higher = columns
    if not higher:
        return [mean, variance * n]
    # Of values that are all equal Spark knows no skewness; their powers are 0.
    skewness, kurtosis = higher
    spread = variance != 0.0
    with np.errstate(all="ignore"):
        cubes, fourths = skewness * variance**1.5 * n, (kurtosis + 3.0) * variance**2 * n
    return [mean, variance * n, np.where(spread, cubes, 0.0), np.where(spread, fourths, 0.0)]


def _sketches(column: pa.Array, kind: str) -> Component:
    """A sketch of no values, which Spark makes of NULLs, is stored as None."""
    stored: Component = np.full(len(column), None, dtype=np.object_)
    for i, data in enumerate(column.to_pylist()):
        if data is not None and not SKETCHES[kind].from_bytes(data).empty:
            stored[i] = data
    return stored


def is_machine_number(type: pa.DataType) -> bool:
    """Whether a type's order and equality are those of an int64 or a float64."""
    return (
        pt.is_integer(type)
        or pt.is_floating(type)
        or pt.is_date32(type)
        or pt.is_timestamp(type)
        or pt.is_duration(type)
    )


def to_numpy(array: pa.Array, dtype: Dtype, missing: int | float) -> Component:
    """An Arrow column as a fresh int64 or float64 array, nulls replaced."""
    if pt.is_date32(array.type):
        array = array.view(pa.int32())
    elif pt.is_timestamp(array.type) or pt.is_duration(array.type):
        array = array.view(pa.int64())
    array = array.cast(pa.int64() if dtype is np.int64 else pa.float64())
    return np.array(array.fill_null(missing) if array.null_count else array, dtype=dtype)
