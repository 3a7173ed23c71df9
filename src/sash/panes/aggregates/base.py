"""The interface of an aggregate, and the merged partials from which it makes an answer's column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.panes.partials import Component, Partial
from sash.plan.expressions import RowExpression

# A merged partial: its components, one entry per group of the answer. Ranked extremes arrive as an Arrow array.
Merged = Mapping[Partial, list[Component] | pa.Array]


class Aggregate(Protocol):
    """A card per aggregate: `distributive`, `algebraic` or `holistic`; subtractable; duplicate-sensitive; exact.

    Its partials combine by their own kernels; those of a subtractable one have an inverse (`Partial.invert`).
    """

    category: str
    subtractable: bool
    duplicate_sensitive: bool
    exact: bool

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        """The answer's type, as Spark types it; ValueError with a reason where the argument will not do."""

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        """The partials it needs for each pane and group."""

    def lower(self, partials: tuple[Partial, ...], merged: Merged) -> pa.Array:
        """The answer's column from merged partials; OverflowError where a sum does not fit."""


def counts(merged: Merged, partial: Partial) -> NDArray[np.int64]:
    column = merged[partial]
    assert isinstance(column, list)
    return np.asarray(column[0], dtype=np.int64)


def components(merged: Merged, partial: Partial) -> list[Component]:
    column = merged[partial]
    assert isinstance(column, list)
    return column


def nullable(values: Component, valid: NDArray[np.bool_], type: pa.DataType) -> pa.Array:
    """An Arrow column with NULL where there was no value."""
    array = pa.array(values, mask=None if valid.all() else ~valid)
    if array.type == type:
        return array
    if pt.is_date32(type):
        return array.cast(pa.int32()).view(type)
    if pt.is_timestamp(type) or pt.is_duration(type):
        return array.view(type)
    return array.cast(type)


def require_number(name: str, argument: pa.DataType | None) -> pa.DataType:
    if argument is None:
        raise ValueError(f"{name}(*) has no meaning: {name} needs a column")
    if not (pt.is_integer(argument) or pt.is_floating(argument) or pt.is_decimal(argument)):
        raise ValueError(f"{name} needs a number")
    return argument
