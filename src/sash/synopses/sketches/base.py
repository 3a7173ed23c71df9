"""The interface of a sketch, and the SQL that makes its values comparable.

A sketch hashes or compares values of very few types. These rules bring every other type to one of them, such that
two values get the same hash exactly if Spark calls them equal:

    TINYINT .. BIGINT, BOOLEAN     CAST AS BIGINT
    DATE, TIMESTAMP                days or microseconds since 1970: independent of the session's time zone
    FLOAT, DOUBLE                  text of x + 0: -0.0 and 0.0 are one value and so are all NaN
    DECIMAL                        text: the scale is fixed by the type, so equal values have equal text
    STRING, BINARY                 themselves
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.types as pt

from sash.plan.expressions import RowExpression
from sash.synopses.lifted import Lifted

# What WITH BOUNDS may ask of an approximate aggregate.
FORMS = ("estimate", "lower", "upper")


class Sketch(Protocol):
    """A summary of values that takes in other summaries. NULL is no value.

    `asked` is what the sketch is asked about, if anything: the p of a quantile, the item whose frequency is wanted.
    It is an error to ask an empty sketch for a quantile.
    """

    @property
    def empty(self) -> bool: ...

    @classmethod
    def lift(cls, argument: RowExpression) -> tuple[Lifted, ...]:
        """The aggregate function by which Spark builds it."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A sketch as Spark or `to_bytes` serialised it."""

    def merge(self, data: bytes) -> None:
        """Take in another sketch. Associative and commutative up to the bounds."""

    def to_bytes(self) -> bytes: ...

    def estimate(self, asked: Any = None) -> Any: ...

    def bounds(self, asked: Any = None) -> tuple[Any, Any]:
        """Lower and upper, between which the true answer lies (how surely: see the package)."""


def as_number(argument: RowExpression) -> str | None:
    """SQL of a whole number that stands for the value; None for types that have none."""
    x, type = argument.sql, argument.type
    if pt.is_integer(type) or pt.is_boolean(type):
        return f"CAST({x} AS BIGINT)"
    if pt.is_date32(type):
        return f"CAST(unix_date({x}) AS BIGINT)"
    if pt.is_timestamp(type) and type.tz is None:
        return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {x})"
    return f"unix_micros({x})" if pt.is_timestamp(type) else None


def as_text(argument: RowExpression) -> str:
    """SQL of a text that stands for the value; `items.decode` is its inverse."""
    x, type = argument.sql, argument.type
    if pt.is_string(type) or pt.is_large_string(type):
        return x
    if pt.is_floating(type):
        return f"CAST(({x}) + 0D AS STRING)"
    if pt.is_binary(type) or pt.is_large_binary(type):
        return f"hex({x})"
    number = as_number(argument)
    return f"CAST({number if number is not None else x} AS STRING)"


def require_value(name: str, argument: pa.DataType | None) -> pa.DataType:
    """Refuse, when the query is planned, what has no hash."""
    if argument is None:
        raise ValueError(f"{name}(*) has no meaning: {name} needs a column")
    if pt.is_nested(argument) or pt.is_duration(argument):
        raise ValueError(f"{name} needs numbers, strings, dates or timestamps")
    return argument
