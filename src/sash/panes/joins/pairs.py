"""Pairs of windows over the two inputs of a join, and the place of a join's results for them.

A result of tuples that came a1 and a2 panes ago is in the join of windows of n1 and n2 panes while a1 < n1 and a2 < n2.
With equal windows only the older tuple counts: results that leave together are combined, and one value per interval of
expiry answers all windows (n, n) (8.3.2). Windows whose lengths all differ by the same c are no harder: with the ages
(a1 - c, a2) they are equal (`shift`).

More than one difference needs the `lead`: by how many panes the first tuple is older than the second, after the shift.
A pair whose windows differ by d from the shift asks whether a lead reaches d, so leads beyond the band's ends are cut
off there, and a band of k differences has k values per interval.

Results are combined by the panes of their two tuples, and by group, before they enter a synopsis: windows of whole
panes need no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.expr.value_codes import Codes, one_array
from sash.panes.accumulator import RankedValues, Slot
from sash.panes.pane_rows import from_column
from sash.panes.partials import Combine, Component, Partial


@dataclass(frozen=True)
class JoinRows:
    """The rows of one micro-batch: (first tuple's pane, second tuple's pane, group), in no order.

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
        """The rows as a table, for the log."""
        columns: dict[str, pa.Array] = {"first": pa.array(self.first), "second": pa.array(self.second)}
        columns |= {f"key{i}": column for i, column in enumerate(self.keys)}
        for number, partial in enumerate(partials):
            for i in range(len(partial.dtypes)):
                type = pa.large_binary() if partial.combine is Combine.UNION else None
                columns[f"value{number}_{i}"] = pa.array(self.columns[partial, i], type)
        return pa.table(columns)

    @classmethod
    def of_table(cls, table: pa.Table, keys: int, partials: Sequence[Partial], length: int) -> JoinRows:
        """The inverse of `to_table`; the table may be a concatenation of several buckets' tables."""
        table = table.combine_chunks()
        first, second = (np.array(table[name], dtype=np.int64) for name in ("first", "second"))
        columns = {
            (partial, i): column if partial.ranked else from_column(partial, column, {})
            for number, partial in enumerate(partials)
            for i in range(len(partial.dtypes))
            for column in [one_array(table[f"value{number}_{i}"])]
        }
        return cls(length, first, second, [one_array(table[f"key{i}"]) for i in range(keys)], columns)


@dataclass(frozen=True)
class Cells:
    """Rows with codes for groups and components of partials, each placed by two numbers.

    While results wait for their pane, `x` and `y` are the panes of their two tuples. In `JoinPanes` they are the
    interval and the lead.
    """

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    codes: Codes
    columns: Mapping[Slot, Component]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Cells:
        columns = {slot: column[chosen] for slot, column in self.columns.items()}
        return Cells(self.x[chosen], self.y[chosen], self.codes[chosen], columns)

    def where(self, wanted: NDArray[np.bool_]) -> Cells:
        return self if wanted.all() else self.take(wanted)


def stored_columns(
    rows: JoinRows, partials: Sequence[Partial], ranked: Mapping[Partial, RankedValues]
) -> dict[Slot, Component]:
    """The components in a synopsis' form: values of ranked extremes get the synopsis' own codes."""
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

    @property
    def words(self) -> str:
        return f"{self.first} and {self.second} panes"


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
        """The difference that one value alone answers: equal windows if the band has them."""
        return min(max(0, self.low), self.high)

    @property
    def above(self) -> int:
        """How many leads of the first tuple are distinguished."""
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
        """The ages of results' intervals, and their leads, from the ages of their tuples."""
        shifted = first_ages - self.shift
        return np.maximum(shifted, second_ages), np.clip(shifted - second_ages, -self.below, self.above)

    def reading(self, pair: WindowPair) -> PairReading:
        """How a pair is answered: the youngest intervals whole, and of the next ones results with certain leads.

        >>> Band(-1, 1).reading(WindowPair(8, 7))
        PairReading(whole=7, next=1, side=1, least=1)
        """
        first, second = self.shifted(pair)
        shorter, longer = sorted((first, second))
        # Windows are shorter than the shift: their leads begin higher up.
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
    """The `whole` youngest intervals, and the results of the `next` ones that lead by enough on one side.

    `side` is 1 where the first tuple has to be older, -1 where the second has. The least lead is `least` in the first
    of these intervals, and one more in each that follows.
    """

    whole: int
    next: int
    side: int
    least: int
