"""The interface of a sketch, and the SQL that makes its values comparable.

A sketch hashes or compares values of very few types. These rules bring every other type to one of them, such that
two values get the same hash exactly if Spark calls them equal:

    TINYINT .. BIGINT, BOOLEAN     CAST AS BIGINT
    DATE, TIMESTAMP                days or microseconds since 1970: independent of the session's time zone
    FLOAT, DOUBLE                  text of x + 0: -0.0 and 0.0 are one value and so are all NaN
    DECIMAL                        text: the scale is fixed by the type, so equal values have equal text
    STRING, BINARY                 themselves

One running union per group while a scan goes from pane to pane.

    rows of panes    (group, sketch's bytes or None), the youngest pane first
    bytes            a group's first sketch stays as it came: only a second one makes a union of it
    open             the unions, each of which takes in every pane's sketch once
    stale            groups whose union has changed since it was last serialised

so that windows cost one merge per pane and group together, and one serialisation per window for the groups that have
changed since the window before; groups that have not share the same bytes.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sash.expr.value_codes import Codes
from sash.panes.lifted import Lifted
from sash.panes.pane_ring import Column
from sash.plan.expressions import RowExpression

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


class Unions:
    """Needs: sketches of one kind. Time: a merge per row. Space: a sketch per group."""

    def __init__(self, kind: type[Sketch], groups: int) -> None:
        self._kind = kind
        self._bytes: Column = np.full(groups, None, dtype=np.object_)
        self._open: dict[int, Sketch] = {}
        self._stale: set[int] = set()

    def add(self, codes: Codes, sketches: Column) -> None:
        """Take in each row's sketch; None is no sketch."""
        for code, data in zip(codes.tolist(), sketches.tolist(), strict=True):
            if data is None:
                continue
            if code not in self._open:
                if self._bytes[code] is None:
                    self._bytes[code] = data
                    continue
                self._open[code] = self._kind.from_bytes(self._bytes[code])
            self._open[code].merge(data)
            self._stale.add(code)

    def values(self) -> Column:
        """The groups' sketches now: an array of its own, whose entries may be shared."""
        for code in self._stale:
            self._bytes[code] = self._open[code].to_bytes()
        self._stale.clear()
        return self._bytes.copy()
