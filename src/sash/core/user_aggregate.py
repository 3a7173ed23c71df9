"""An aggregate that a program makes of its own Python functions (`Session.create_aggregate`).

    values of a pane and group ──lift──► a partial: k numbers ──combine──► partials of windows ──lower──► values
    Arrow, on Spark's executors          columns of the pane table         NumPy, all groups at once, in this process

The partials of n groups are an array of k rows and n columns, all int64 or all float64, as `zero` is. `combine` is
associative and commutative, and `zero` is its identity; `invert(whole, part)` takes a part back. NULL is no value: no
function sees one, and none is called for a group without values, whose answer is NULL.

A function that raises fails the queries that need its result, and nothing else: see `combined_or_failed`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.errors import QueryFailedError, SashError
from sash.core.user_function import can_take, on_one_line

Numbers = NDArray[Any]

_MOST_NUMBERS = 1_024


@dataclass(frozen=True, eq=False)
class UserLift:
    """The part of an aggregate that goes to the executors."""

    name: str
    zero: Numbers
    function: Callable[..., Any]

    def __call__(self, lists: pa.Array) -> pa.Array:
        """The partial of each list of values, as a list of k numbers. Structs are the values of several arguments.

        >>> lift = UserLift("spread", np.array([0.0, 0.0]), lambda x: [pc.min(x), pc.max(x)])
        >>> lift(pa.array([[3.0, 1.0], []])).to_pylist()
        [[1.0, 3.0], [0.0, 0.0]]
        """
        values = lists.flatten()
        columns = values.flatten() if pt.is_struct(values.type) else [values]
        sizes = np.asarray(pc.list_value_length(lists), dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        partials = np.tile(self.zero, (len(lists), 1))
        for i in np.flatnonzero(sizes).tolist():
            partials[i] = self._partial([column.slice(starts[i], sizes[i]) for column in columns])
        offsets = np.arange(len(lists) + 1, dtype=np.int32) * len(self.zero)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(partials.ravel()))

    def _partial(self, columns: list[pa.Array]) -> Numbers:
        try:
            found = self.function(*columns)
            parts = [found] if isinstance(found, pa.Scalar) or np.ndim(found) == 0 else list(found)
            numbers = np.asarray([part.as_py() if isinstance(part, pa.Scalar) else part for part in parts])
            return _of_shape(numbers, self.zero.shape, self.zero.dtype)
        except Exception as error:
            raise _failure("lift", self.name, error) from error


@dataclass(frozen=True, eq=False)
class UserAggregate:
    """Equal only to itself: the same functions under another name are another aggregate.

    `failures` are the partials, by their signatures, of which `combine` or `invert` has raised.
    """

    name: str
    zero: Numbers
    lift: Callable[..., Any]
    combine: Callable[[Numbers, Numbers], Any]
    lower: Callable[[Numbers], Any]
    returns: pa.DataType
    invert: Callable[[Numbers, Numbers], Any] | None = None
    failures: dict[Hashable, str] = field(default_factory=dict)

    @cached_property
    def on_executors(self) -> UserLift:
        return UserLift(self.name, self.zero, self.lift)

    def takes(self, arguments: int) -> bool:
        """Whether `lift` can be called with so many columns."""
        return can_take(self.lift, arguments)

    def combined_or_failed(self, key: Hashable, one: Numbers, other: Numbers) -> Numbers:
        """Both combined. If that raises, the partial of this key has failed: nobody gets an answer from it again."""
        return self._or_failed(key, "combine", self.combine, one, other)

    def inverted_or_failed(self, key: Hashable, whole: Numbers, part: Numbers) -> Numbers:
        assert self.invert is not None
        return self._or_failed(key, "invert", self.invert, whole, part)

    def _or_failed(
        self, key: Hashable, word: str, function: Callable[[Numbers, Numbers], Any], one: Numbers, other: Numbers
    ) -> Numbers:
        if key in self.failures or not one.size:
            return one
        try:
            # The function may change its arguments.
            return _of_shape(np.asarray(function(one.copy(), other.copy())), one.shape, self.zero.dtype)
        except Exception as error:
            self.failures[key] = str(_failure(word, self.name, error))
            return one

    def lowered(self, key: Hashable, partials: Numbers) -> pa.Array:
        """The values of these groups; QueryFailedError if a function has raised."""
        if key in self.failures:
            raise QueryFailedError(self.failures[key])
        try:
            found = self.lower(partials.copy()) if partials.size else []
            if isinstance(found, pa.ChunkedArray):
                found = found.combine_chunks()
            if not isinstance(found, pa.Array):
                found = pa.array(list(found) if np.ndim(found) > 1 else found, self.returns)
            if len(found) != partials.shape[1]:
                raise ValueError(f"{len(found)} values for {partials.shape[1]} groups")
            return found.cast(self.returns)
        except Exception as error:
            raise _failure("lower", self.name, error) from error


def _of_shape(found: Numbers, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Numbers:
    if found.shape != shape:
        raise ValueError(f"numbers of shape {found.shape} where {shape} is needed")
    return found.astype(dtype, casting="same_kind", copy=False)


def _failure(word: str, name: str, error: Exception) -> QueryFailedError:
    return QueryFailedError(f"{word} of the aggregate '{name}' raised {on_one_line(error)}")


def checked_zero(name: str, zero: Any) -> Numbers:
    """The partial of no values: one number or several."""
    numbers = np.atleast_1d(np.asarray(zero))
    if numbers.ndim != 1 or not 1 <= len(numbers) <= _MOST_NUMBERS or numbers.dtype.kind not in "if":
        raise SashError(
            f"the zero of the aggregate '{name}' is a number or a list of 1 to {_MOST_NUMBERS:,} numbers, not {zero!r}"
        )
    return numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.float64)
