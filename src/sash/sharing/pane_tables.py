"""Pane tables: the queries of a stream with the same grouping expressions read the same panes.

SS1 (thesis 8.3.1): a synopsis with panes of length s serves all queries whose windows, slides and lags are
multiples of s, whatever their aggregates, as long as it stores the data per pane that they need.
CS2: all queries of one basic interval synopsis are computed together in one scan.
Predicates do not separate queries: they become filtered partials of the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sash.core.time import Micros
from sash.core.window import pane_length
from sash.plan.expressions import RowExpression
from sash.plan.periodic import PeriodicAggregate
from sash.synopses.answers import Finisher
from sash.synopses.partials import Partial

KeySet = tuple[RowExpression, ...]


@dataclass(frozen=True)
class PaneTable:
    """What Spark computes for one key set: for every pane and group, these partials."""

    keys: KeySet
    length: Micros
    partials: tuple[Partial, ...]

    @property
    def label(self) -> str:
        return key_label(self.keys)


def key_label(keys: KeySet) -> str:
    """How a key set is written for people."""
    return f"({', '.join(key.sql for key in keys)})"


def pane_table(keys: KeySet, queries: list[PeriodicAggregate]) -> PaneTable:
    """The table that serves some queries; its partials are in a fixed order, so that the same queries give the same."""
    partials = {partial for query in queries for partial in Finisher(query).partials}
    ordered = tuple(sorted(partials, key=lambda partial: partial.signature))
    return PaneTable(keys, pane_length(query.window for query in queries), ordered)
