"""Pairs of windows over the two inputs of a join, and where a join's results stand for them.

A result of tuples that came a1 and a2 panes ago is in the join of windows of n1 and n2 panes while a1 < n1 and a2 < n2.
With equal windows only the older tuple counts: the result leaves when max(a1, a2) = n. So results that leave together
are put together, and one value per interval answers all windows (n, n): the intervals are those of expiry (8.3.2).

Windows whose lengths differ by c, all of them by the same c, are no harder: with the ages (a1 - c, a2) the windows are
(n1 - c, n2), which are equal. This `shift` makes the intervals those of expiry from (n2 + c, n2).

    difference n1 - n2     -2   -1    0    1    2
    band (0, 0)                       x                one value per interval: the thesis' BIJ, IJ, RJ
    band (-1, 1)                 x    x    x           three values: the generalized ones, SS3 in so far as it holds
    band (-2, 2)            x    x    x    x    x      a table in two dimensions: expiry, and who is older by how much
    band (1, 1)                            x           one value again, with a shift of 1

What more than one difference needs is the `lead`: by how many panes the first tuple is older than the second, after the
shift. A pair whose windows differ by d from the shift asks no more of a lead than whether it reaches d, so leads beyond
the band's ends are cut off there, and a band of k differences has k values per interval.

Join results on their way into a synopsis: put together by the panes of their two tuples, and by group.

    result (ts 121, ts 135, group x, value 41)     panes of 10     ─►     (130, 140), x: count 1, max 41

Which pane each tuple came in is all that windows of whole panes ask. What is inserted per pane is few rows, however
many results the join has: Spark computes them in the job that joins, as it computes the partials of panes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.expr.value_codes import Codes
from sash.panes.accumulator import RankedValues, Slot
from sash.panes.partials import Combine, Component, Partial


@dataclass(frozen=True)
class JoinRows:
    """What one micro-batch brings: rows of (first tuple's pane, second tuple's pane, group), in no order.

    Panes are given by their ends. The younger of a row's panes is the one in which its results were generated.
    `columns` are the components of the partials; of ranked extremes, the values.
    """

    length: int
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    keys: list[pa.Array]
    columns: Mapping[Slot, Component | pa.Array]

    def __len__(self) -> int:
        return len(self.first)

    def to_table(self, partials: Sequence[Partial]) -> pa.Table:
        """As it travels and is logged."""
        columns: dict[str, pa.Array] = {"first": pa.array(self.first), "second": pa.array(self.second)}
        columns |= {f"key{i}": column for i, column in enumerate(self.keys)}
        for number, partial in enumerate(partials):
            for i in range(len(partial.dtypes)):
                columns[f"value{number}_{i}"] = _written(partial, self.columns[partial, i])
        return pa.table(columns)

    @classmethod
    def of_table(cls, table: pa.Table, keys: int, partials: Sequence[Partial], length: int) -> JoinRows:
        """The inverse of `to_table`; tables of several buckets may have been put one after the other."""
        table = table.combine_chunks()
        first, second = (np.array(table[name], dtype=np.int64) for name in ("first", "second"))
        columns = {
            (partial, i): _read(partial, _array(table[f"value{number}_{i}"]), dtype)
            for number, partial in enumerate(partials)
            for i, dtype in enumerate(partial.dtypes)
        }
        return cls(length, first, second, [_array(table[f"key{i}"]) for i in range(keys)], columns)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _written(partial: Partial, column: Component | pa.Array) -> pa.Array:
    return pa.array(column, pa.large_binary()) if partial.combine is Combine.UNION else pa.array(column)


def _read(partial: Partial, column: pa.Array, dtype: type) -> Component | pa.Array:
    if partial.ranked:
        return column
    if partial.combine is Combine.UNION:
        sketches: Component = np.full(len(column), None, dtype=np.object_)
        sketches[:] = column.to_pylist()
        return sketches
    return np.array(column, dtype=dtype)


@dataclass(frozen=True)
class Cells:
    """Rows with codes for groups and components of partials. Panes are numbered."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    codes: Codes
    columns: Mapping[Slot, Component]

    def take(self, places: NDArray[np.int64]) -> Cells:
        columns = {slot: column[places] for slot, column in self.columns.items()}
        return Cells(self.first[places], self.second[places], self.codes[places], columns)


def stored_columns(
    rows: JoinRows, partials: Sequence[Partial], ranked: Mapping[Partial, RankedValues]
) -> dict[Slot, Component]:
    """The components as a synopsis keeps them: values of ranked extremes have codes of its own."""
    found: dict[Slot, Component] = {}
    for partial in partials:
        if partial.ranked:
            found[partial, 0] = ranked[partial].store(rows.columns[partial, 0], int(partial.identity()))
            continue
        for i in range(len(partial.dtypes)):
            found[partial, i] = np.asarray(rows.columns[partial, i])
    return found


Ages = NDArray[np.int64]


class WindowPair(NamedTuple):
    """The lengths of a join's windows in panes."""

    first: int
    second: int

    @property
    def difference(self) -> int:
        return self.first - self.second


@dataclass(frozen=True)
class Band:
    """The differences between two windows that a synopsis can answer, from `low` to `high`."""

    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"a band from {self.low} to {self.high} has no difference in it")

    @classmethod
    def of(cls, pairs: Iterable[WindowPair]) -> Band:
        """The narrowest band that answers some pairs.

        >>> Band.of([WindowPair(7, 8), WindowPair(8, 8)])
        Band(low=-1, high=0)
        """
        differences = [pair.difference for pair in pairs]
        return cls(min(differences), max(differences))

    @property
    def shift(self) -> int:
        """The difference that is answered from one value alone: equal windows where the band has them."""
        return min(max(0, self.low), self.high)

    @property
    def above(self) -> int:
        """How many leads of the first tuple are told apart."""
        return self.high - self.shift

    @property
    def below(self) -> int:
        return self.shift - self.low

    @property
    def values(self) -> int:
        """Per interval: all results, and those of each lead."""
        return 1 + self.above + self.below

    def __contains__(self, pair: WindowPair) -> bool:
        return self.low <= pair.difference <= self.high

    def shifted(self, pair: WindowPair) -> WindowPair:
        return WindowPair(pair.first - self.shift, pair.second)

    def capacity(self, pairs: Iterable[WindowPair]) -> int:
        """How many intervals answer these pairs.

        >>> Band(1, 1).capacity([WindowPair(8, 7)]), Band(0, 1).capacity([WindowPair(8, 7)])
        (7, 8)
        """
        return max(max(self.shifted(pair)) for pair in pairs)

    def place(self, first_ages: Ages, second_ages: Ages) -> tuple[Ages, Ages]:
        """The ages of results' intervals, and their leads; both of a result with some ages of its tuples."""
        shifted = first_ages - self.shift
        return np.maximum(shifted, second_ages), np.clip(shifted - second_ages, -self.below, self.above)

    def reading(self, pair: WindowPair) -> PairReading:
        """What answers a pair: the youngest intervals whole, and of the next ones results with certain leads.

        >>> Band(-1, 1).reading(WindowPair(8, 7))
        PairReading(whole=7, next=1, side=1, least=1)
        """
        first, second = self.shifted(pair)
        shorter, longer = sorted((first, second))
        # Windows that are shorter than the shift: the leads that they ask for begin higher up.
        whole = max(shorter, 0)
        return PairReading(whole, longer - whole, int(np.sign(first - second)), whole - shorter + 1)

    def why_not(self, pair: WindowPair, capacity: int) -> str | None:
        """Why a synopsis with this band cannot answer a pair, or None if it can."""
        joined = f"a join of windows of {pair.first} and {pair.second} panes"
        if min(pair) < 1:
            return f"{joined}: a window has one pane at least"
        if pair not in self:
            kept = f"by {self.low}" if self.low == self.high else f"by {self.low} to {self.high}"
            return f"{joined}: the synopsis keeps apart what windows that differ {kept} need"
        if max(self.shifted(pair)) > capacity:
            return f"{joined}: the synopsis keeps {capacity} intervals"
        return None


class PairReading(NamedTuple):
    """So many of the youngest intervals whole, and results of the `next` ones that lead by enough on one side.

    `side` is 1 where the first tuple has to be older, -1 where the second has. The least lead is `least` in the first
    of these intervals, and one more in each that follows.
    """

    whole: int
    next: int
    side: int
    least: int
