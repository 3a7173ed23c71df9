"""Pane tables: the queries of a stream with the same grouping expressions read the same panes.

SS1 (thesis 8.3.1): a synopsis with panes of length s serves all queries whose windows, slides and lags are
multiples of s, whatever their aggregates, as long as it stores the data per pane that they need.
CS2: all queries of one basic interval synopsis are computed together in one scan.
Predicates do not separate queries: they become filtered partials of the same rows.

Scheduling groups: the queries that share computation when they are executed together (rules CS1 to CS7).

They read the same data: the same groups of tuples, the same arguments, the same predicate. A basic interval synopsis is
scanned once for all their windows (CS2); from a running or interval one, queries over the same window share (CS1). A
query whose predicate is covered by those of others is executed with them (CS6, CS7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sash.panes.partials import Partial
from sash.panes.readings import KeySet, Reading, TableName


def similar(label: str, reading: Reading, kind: str, related: Mapping[str, str]) -> str:
    """The name of a reading's scheduling group; `related` gives the first of a family of predicates."""
    arguments = sorted({partial.argument.sql for partial in reading.partials if partial.argument is not None})
    of = f" of {', '.join(arguments)}" if arguments else ""
    predicate = reading.partials[0].predicate
    where = "" if predicate is None else f" where {related.get(predicate.sql, predicate.sql)}"
    return f"{label}{of}{where}{'' if kind == 'basic' else f' {reading.spans[0]}'}"


def families(readings: Iterable[Reading]) -> dict[str, str]:
    """Predicates whose synopses are read together, each with the first of all that belong together."""
    family_of: dict[str, set[str]] = {}
    for reading in readings:
        together = {partial.predicate.sql for partial in reading.partials if partial.predicate is not None}
        known = {id(family): family for one in together if (family := family_of.get(one)) is not None}
        # The largest family takes the others in: so nobody moves more than log2 of their number times.
        largest, *others = sorted([together, *known.values()], key=len, reverse=True)
        for family in others:
            largest |= family
            family_of |= dict.fromkeys(family, largest)
        family_of |= dict.fromkeys(together, largest)
    families = {id(family): family for family in family_of.values()}
    firsts = {which: min(family) for which, family in families.items()}
    return {predicate: firsts[id(family)] for predicate, family in family_of.items()}


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
