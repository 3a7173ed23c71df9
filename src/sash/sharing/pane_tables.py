"""Pane tables: the queries of a stream with the same grouping expressions read the same panes.

SS1 (thesis 8.3.1): a synopsis with panes of length s serves all queries whose windows, slides and lags are
multiples of s, whatever their aggregates, as long as it stores the data per pane that they need.
CS2: all queries of one basic interval synopsis are computed together in one scan.
Predicates do not separate queries: they become filtered partials of the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.synopses.partials import Partial
from sash.synopses.readings import KeySet, TableName


@dataclass(frozen=True)
class PaneTable:
    """What Spark computes for one grouping: for every pane and group, these partials, in canonical order."""

    name: TableName
    length: int
    partials: tuple[Partial, ...]

    @property
    def label(self) -> str:
        return self.name.label

    @property
    def keys(self) -> KeySet:
        """The keys of the pass: those of the groups, then those that only PARTITION BY names."""
        return (*self.name.keys, *(key for key in self.name.partition if key not in self.name.keys))


def pane_table(name: TableName, length: int, partials: Iterable[Partial]) -> PaneTable:
    """The table that some readings ask for; sorted, so that the same queries give the same pass."""
    return PaneTable(name, length, tuple(sorted(set(partials), key=lambda partial: partial.signature)))
