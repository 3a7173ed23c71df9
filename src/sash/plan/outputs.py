"""Operators on a changing relation: relation-to-stream operators, internal windows, windows on results
(thesis 2.1.3, 3.3.2 to 3.4).

    Deltas        Istream, Dstream: rows that are new, or gone, since the instant before
    Outliving     results of internal windows: nothing below takes them back
    ResultWindow  a window over results as they are generated: Wstream, and windows on sub-queries
    Sampled       the relation as of the multiples of SLIDE; LazilySampled is computed only then
    Snapshots     the whole relation at every multiple, as results

The state below an `Outliving` is kept as if its windows were external (3.3.2): only the results do not end with them.
A result that has tuples of external windows, too, ends with the first of these. `Stamped` writes their expiries into
columns, which joins carry along, and `Outliving` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.core.changes import NEVER, UpdatePattern
from sash.core.time import format_duration
from sash.core.window import RowWindow, TimeWindow

if TYPE_CHECKING:
    from sash.plan.continuous import Node

ISTREAM, DSTREAM = "istream", "dstream"
_MONOTONIC = UpdatePattern.MONOTONIC


@dataclass(frozen=True)
class Deltas:
    """Rows that the relation has and had not one time unit before (`istream`), or had and has not (`dstream`).

    By value: a row that expires and is replaced by an equal one at the same instant is no change.
    """

    input: Node
    kind: str
    lifetime = None

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def pattern(self) -> UpdatePattern:
        return _MONOTONIC

    def describe(self) -> str:
        return self.kind.capitalize()


@dataclass(frozen=True)
class Stamped:
    """The input with one more column: when each row expires, in microseconds."""

    input: Node
    column: str

    @cached_property
    def schema(self) -> pa.Schema:
        return self.input.schema.append(pa.field(self.column, pa.int64()))

    @property
    def pattern(self) -> UpdatePattern:
        return self.input.pattern

    @property
    def lifetime(self) -> int | None:
        return self.input.lifetime

    def describe(self) -> str:
        return f"Expiry as {self.column}"


@dataclass(frozen=True)
class Outliving:
    """Every result when it is generated; it ends at the least of the instants in the columns `by`, which end here."""

    input: Node
    by: tuple[str, ...] = ()
    lifetime = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([field for field in self.input.schema if field.name not in self.by])

    @property
    def pattern(self) -> UpdatePattern:
        return UpdatePattern.WEAK if self.by else _MONOTONIC

    def describe(self) -> str:
        return f"Results, until {', '.join(self.by)}" if self.by else "Results, append-only"


@dataclass(frozen=True)
class ResultWindow:
    """The results of the last time units, or the last results, of all or of each value of `partition`."""

    input: Node
    window: TimeWindow | RowWindow
    partition: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def pattern(self) -> UpdatePattern:
        if isinstance(self.window, RowWindow):
            return UpdatePattern.STRICT
        return _MONOTONIC if self.window.unbounded else UpdatePattern.WEAKEST

    @property
    def lifetime(self) -> int | None:
        return self.window.length if self.pattern is UpdatePattern.WEAKEST else None

    def describe(self) -> str:
        by = f" partitioned by {', '.join(self.partition)}" if self.partition else ""
        return f"Window on results {self.window}{by}"


@dataclass(frozen=True)
class Sampled:
    """The input as of the multiples of `slide`: changes in between are seen at the next multiple.

    A row that comes and goes between two multiples is never seen; with `restore` it is seen at the next one (3.3.4).
    """

    input: Node
    slide: int
    offset: int = 0
    restore: bool = False
    lifetime = None

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def pattern(self) -> UpdatePattern:
        inputs = self.input.pattern
        return inputs if inputs is _MONOTONIC else max(inputs, UpdatePattern.WEAK)

    def next_multiple(self, instant: int) -> int:
        """The first multiple that is not before an instant.

        >>> [Sampled(None, 6).next_multiple(t) for t in (11, 12, 13)]
        [12, 12, 18]
        """
        if instant == NEVER:
            return NEVER
        return self.offset - (self.offset - instant) // self.slide * self.slide

    def aligned(self, instant: int) -> int:
        """The first instant that the multiples before another instant have not seen.

        >>> [Sampled(None, 6).aligned(t) for t in (6, 7, 12, 13)]
        [1, 7, 7, 13]
        """
        return self.next_multiple(instant) - self.slide + 1

    def describe(self) -> str:
        restored = ", short-lived results included" if self.restore else ""
        return f"Every {format_duration(self.slide)}{restored}"


@dataclass(frozen=True)
class LazilySampled(Sampled):
    """The same rows, computed at the multiples alone: tuples wait for their multiple, and no result does (5.2.2)."""

    def rests(self, low: int, high: int) -> bool:
        """Whether there is no multiple low <= m < high."""
        return self.next_multiple(low) >= high

    def describe(self) -> str:
        return f"{super().describe()}, computed only then"


@dataclass(frozen=True)
class Snapshots:
    """All rows of the input at every multiple of `slide`, appended: an aggregate over a window that is internal and
    slides has a result at each multiple, also where it is the same as before (3.4)."""

    input: Node
    slide: int
    offset: int = 0
    lifetime = None

    @property
    def schema(self) -> pa.Schema:
        return self.input.schema

    @property
    def pattern(self) -> UpdatePattern:
        return _MONOTONIC

    def describe(self) -> str:
        return f"Results every {format_duration(self.slide)}, append-only"


OutputNode = Deltas | Stamped | Outliving | ResultWindow | Sampled | Snapshots
