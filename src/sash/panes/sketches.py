"""Sketches by the kind of their partial: summaries of bounded size that merge, for answers with bounds.

Spark's aggregate functions build the sketch of each pane and group; the `datasketches` library reads the same formats
and merges them (Apache DataSketches). Count-min is not among them: its counters are a pane table (see `counters`).

    kind    built by                     answers                   bounds hold
    hll     hll_sketch_agg               APPROX_COUNT_DISTINCT     in 99.7 of 100 cases (three standard deviations)
    kll     kll_sketch_agg_double        APPROX_QUANTILE           in 99 of 100 cases
    items   approx_top_k_accumulate      APPROX_TOP                always

A sketch hashes or compares values of very few types. Rules convert every other type to one of them, such that two
values have the same hash exactly if Spark calls them equal:

    TINYINT .. BIGINT, BOOLEAN     CAST AS BIGINT
    DATE, TIMESTAMP                days or microseconds since 1970: independent of the session's time zone
    FLOAT, DOUBLE                  text of x + 0: -0.0 and 0.0 are one value and so are all NaN
    DECIMAL                        text: the scale is fixed by the type, so equal values have equal text
    STRING, BINARY                 themselves
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

import datasketches as ds
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.value_codes import Codes
from sash.panes.lifted import LiftedColumn
from sash.panes.pane_ring import Column
from sash.plan.expressions import RowExpression

# The forms of an approximate aggregate for WITH BOUNDS.
FORMS = ("estimate", "lower", "upper")

Ints = NDArray[np.int64]


class Sketch(ABC):
    """A summary of values that takes in other summaries. NULL is no value.

    `asked` is the parameter of the question, if any: the p of a quantile, the item whose frequency is wanted.
    It is an error to ask an empty sketch for a quantile.
    """

    # The library's class of the summary.
    library: ClassVar[Any]

    def __init__(self, sketch: Any) -> None:
        self._sketch = sketch

    @classmethod
    @abstractmethod
    def lift(cls, argument: RowExpression) -> tuple[LiftedColumn, ...]:
        """The aggregate function by which Spark builds it."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """A sketch as Spark or `to_bytes` serialised it."""
        return cls(cls.library.deserialize(data))

    @property
    def empty(self) -> bool:
        return bool(self._sketch.is_empty())

    def merge(self, data: bytes) -> None:
        """Take in another sketch. Associative and commutative up to the bounds."""
        self._sketch.merge(self.library.deserialize(data))

    def to_bytes(self) -> bytes:
        return bytes(self._sketch.serialize())

    @abstractmethod
    def estimate(self, asked: Any = None) -> Any: ...

    @abstractmethod
    def bounds(self, asked: Any = None) -> tuple[Any, Any]:
        """Lower and upper, between which the true answer lies (with the probability in the table above)."""


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
    """SQL of a text that stands for the value; `decode` is its inverse."""
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
    """Refuse, when the query is planned, a value that has no hash."""
    if argument is None:
        raise ValueError(f"{name}(*) has no meaning: {name} needs a column")
    if pt.is_nested(argument) or pt.is_duration(argument):
        raise ValueError(f"{name} needs numbers, strings, dates or timestamps")
    return argument


class Unions:
    """One running union per group while a scan goes from pane to pane, the youngest first.

    A group's first sketch stays as it came: only a second one makes a union of it. A union takes in every pane's sketch
    once, and is serialised once per window, if it has changed since the window before.

    Needs: sketches of one kind. Time: a merge per row. Space: a sketch per group.
    """

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
        """The groups' current sketches: an array of its own, whose entries may be shared."""
        for code in self._stale:
            self._bytes[code] = self._open[code].to_bytes()
        self._stale.clear()
        return self._bytes.copy()


LG_REGISTERS = 12
STANDARD_DEVIATIONS = 3


class Hll(Sketch):
    """HyperLogLog: how many distinct values there are (Flajolet et al. 2007; Heule et al. 2013).

    2 ** 12 registers: a relative standard error of 1.6%, 2 to 4 kB once there are a few hundred values, and nearly
    exact with few bytes below that. Spark and `datasketches` hash whole numbers and UTF-8 alike, and a union does not
    depend on the order of its parts.

    Needs: nothing of the order or the number of duplicates. Time: O(registers) per merge, once both are large.
    Space: at most 2 ** 12 registers of four bits and a header.
    """

    library = ds.hll_sketch
    # A union is made for the first merge: most sketches are only read.
    _union: Any = None

    @classmethod
    def lift(cls, argument: RowExpression) -> tuple[LiftedColumn, ...]:
        return (LiftedColumn("hll_sketch_agg", *_hashed(argument), parameters=(str(LG_REGISTERS),)),)

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


K = 200


class Kll(Sketch):
    """KLL (Karnin, Lang and Liberty 2016): the value at position max(1, floor(p n)) of n sorted ones, as QUANTILE.

    With k = 200 the rank of the answer is off by at most 1.33% of the values in 99 of 100 cases; up to 200 values the
    answer is exact. Values travel as doubles: whole numbers beyond 2 ** 53 and long decimals lose their last digits.
    NaN is no number to a KLL sketch and is left out. A full sketch is halved by tossing coins, in Spark and here: two
    runs over the same data may give different answers within the bounds.

    Needs: numbers. Time: O(k log n) per merge, amortised less. Space: about 3 k numbers, slowly growing with n.
    """

    library = ds.kll_doubles_sketch

    @classmethod
    def lift(cls, argument: RowExpression) -> tuple[LiftedColumn, ...]:
        return (LiftedColumn("kll_sketch_agg_double", f"CAST({argument.sql} AS DOUBLE)", pa.float64(), (str(K),)),)

    def estimate(self, asked: Fraction | None = None) -> float:
        return self._at(self._rank(asked))

    def bounds(self, asked: Fraction | None = None) -> tuple[float, float]:
        rank = self._rank(asked)
        error = self._sketch.normalized_rank_error(False) if self._sketch.is_estimation_mode() else 0.0
        return self._at(rank - error), self._at(rank + error)

    def _rank(self, p: Fraction | None) -> float:
        """Half a position before the wanted one, so that no rounding leads to its neighbour."""
        assert p is not None
        n = int(self._sketch.n)
        return (max(1, p.numerator * n // p.denominator) - 0.5) / n

    def _at(self, rank: float) -> float:
        # The extremes are kept apart from the samples, and are exact.
        if rank <= 0.0:
            return float(self._sketch.get_min_value())
        if rank >= 1.0:
            return float(self._sketch.get_max_value())
        return float(self._sketch.get_quantile(rank, True))


LG_MAP = 12
# A map of 2 ** LG_MAP places is used up to three quarters. Spark asks for this number and computes the other.
MOST_ITEMS = 3 << (LG_MAP - 2)

# Items, estimated counts, lower and upper bounds; the most frequent first, of equals the least item.
Top = tuple[pa.Array, Ints, Ints, Ints]


class FrequentStrings(Sketch):
    """Which texts come most often, and how often (Misra and Gries 1982; Anderson et al. 2017).

    A map of at most 3072 items. When it is full, a count that half of the items do not exceed is taken from all: the
    sum of what was taken is the error, at most 0.09% of all values. The true count of an item is never below `lower`
    and never above `upper`. Spark's `approx_top_k_accumulate` writes the same format for texts, with its own count of
    NULLs behind it, which is not read; other types travel as texts (`as_text`).

    Needs: no order. Time: amortised O(1) per value, O(items) per merge. Space: at most 3072 items.
    """

    library = ds.frequent_strings_sketch

    @classmethod
    def lift(cls, argument: RowExpression) -> tuple[LiftedColumn, ...]:
        return (LiftedColumn("approx_top_k_accumulate", as_text(argument), pa.string(), (str(MOST_ITEMS),), "sketch"),)

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
    """The values behind texts that `as_text` made.

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


SKETCHES: dict[str, type[Sketch]] = {"hll": Hll, "kll": Kll, "items": FrequentStrings}
