"""A function of tuples that a program makes of its own Python function (`Session.create_function`).

Spark's executors call it for every tuple of a micro-batch, in batches of Arrow. An exception must not end the pass,
because all queries share the pass, and a query's WHERE may leave the tuple out. So each tuple has a value or an error,
and the text of the pass raises the error where it needs the value: then the query fails, as after a division by zero.
If an argument is an error, the result is the same error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

# The fields of a result.
VALUE, ERROR = "value", "error"


def can_take(function: Callable[..., Any], arguments: int) -> bool:
    """Whether a program's function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:
        # A function in C may not tell.
        return True
    return True


def on_one_line(error: Exception) -> str:
    """The class and the message of an exception: Spark's errors of workers are read line by line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


@dataclass(frozen=True, eq=False)
class UserFunction:
    """Equal only to itself. If `takes_series`, the function gets columns of pandas, else the values of a tuple."""

    name: str
    function: Callable[..., Any]
    returns: pa.DataType
    takes_series: bool = False

    @classmethod
    def of(cls, name: str, function: Callable[..., Any], returns: pa.DataType) -> UserFunction:
        """A function with a Series among its type hints takes Series."""
        return cls(name, function, returns, any(map(_is_series, _hints(function).values())))

    @property
    def result_type(self) -> pa.StructType:
        return pa.struct([(VALUE, self.returns), (ERROR, pa.string())])

    def takes(self, arguments: int) -> bool:
        """Whether the function can be called with so many arguments."""
        return can_take(self.function, arguments)

    def __call__(self, *columns: pa.Array) -> pa.StructArray:
        """The result of each tuple.

        >>> inverse = UserFunction("inverse", lambda x: None if x is None else 1 / x, pa.float64())
        >>> [each["error"] or each["value"] for each in inverse(pa.array([4, 0, None])).to_pylist()]
        [0.25, "function 'inverse' raised ZeroDivisionError: division by zero", None]
        """
        errors = [column.field(ERROR) for column in columns if _is_result(column.type)]
        values = [column.field(VALUE) if _is_result(column.type) else column for column in columns]
        if not errors:
            return self._results(values)
        error = pc.coalesce(*errors)
        good = pc.indices_nonzero(error.is_null())
        results = self._results([column.take(good) for column in values])
        places = pa.array(np.cumsum(error.is_null()) - 1, pa.int64(), mask=np.asarray(error.is_valid()))
        parts = results.field(VALUE).take(places), pc.coalesce(error, results.field(ERROR).take(places))
        return pa.StructArray.from_arrays(parts, fields=list(self.result_type))

    def _results(self, columns: Sequence[pa.Array]) -> pa.StructArray:
        parts = self._series(columns) if self.takes_series else self._values(columns)
        return pa.concat_arrays([self._result(*part) for part in parts] or [pa.array([], self.result_type)])

    def _result(self, values: pa.Array, error: str | None = None) -> pa.Array:
        errors = pa.array([error] * len(values), pa.string())
        return pa.StructArray.from_arrays([values, errors], fields=list(self.result_type))

    def _values(self, columns: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        rows, found, parts = zip(*(column.to_pylist() for column in columns), strict=True), list[Any](), list[Any]()
        for row in rows:
            try:
                found.append(self.function(*row))
            except Exception as error:
                parts += [*self._converted(found), self._failed(error)]
                found = []
        return [*parts, *self._converted(found)]

    def _converted(self, found: list[Any]) -> list[tuple[Any, ...]]:
        """What the function has returned, in its type; a value of another type is an error of its tuple."""
        try:
            return [(pa.array(found, self.returns),)]
        except Exception as error:
            return self._halved(found, error, self._converted)

    def _series(self, columns: Sequence[pa.Array]) -> list[tuple[Any, ...]]:
        size = len(columns[0])
        try:
            found = pa.array(self.function(*(column.to_pandas() for column in columns)), self.returns, from_pandas=True)
            if len(found) != size:
                raise ValueError(f"{len(found)} values for {size} tuples")
            return [(found,)]
        except Exception as error:
            rows = list(range(size))
            return self._halved(rows, error, lambda half: self._series([each.take(pa.array(half)) for each in columns]))

    def _halved(
        self, items: list[Any], error: Exception, each: Callable[[list[Any]], list[tuple[Any, ...]]]
    ) -> list[tuple[Any, ...]]:
        """Find the tuples at fault: those of the halves."""
        if len(items) < 2:
            return [self._failed(error)] * len(items)
        return [*each(items[: len(items) // 2]), *each(items[len(items) // 2 :])]

    def _failed(self, error: Exception) -> tuple[Any, ...]:
        return pa.nulls(1, self.returns), f"function '{self.name}' raised {on_one_line(error)}"


def _is_result(type: pa.DataType) -> bool:
    return pt.is_struct(type) and [type.field(place).name for place in range(type.num_fields)] == [VALUE, ERROR]


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:
        return dict(getattr(function, "__annotations__", {}))


def _is_series(hint: Any) -> bool:
    if isinstance(hint, str):
        return hint.split(".")[-1] == "Series"
    return getattr(hint, "__name__", "") == "Series" and str(getattr(hint, "__module__", "")).startswith("pandas")
