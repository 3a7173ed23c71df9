"""Which synopses a pane group keeps: the panes themselves, and what is built over them for its readings."""

from __future__ import annotations

from collections.abc import Iterable

from sash.engine.periodic.active import ActiveQuery, BoundReading
from sash.engine.periodic.filters import Filters
from sash.sharing.choose import CLUSTER, Choice, Load, choose
from sash.synopses.accelerator import Accelerator
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.partitioned import PartitionedSynopsis
from sash.synopses.readings import Reading, TableName


def synopsis_for(name: TableName) -> BasicIntervalSynopsis:
    """An empty one for the panes of a table."""
    if not name.partition:
        return BasicIntervalSynopsis([key.type for key in name.keys])
    group = tuple(range(len(name.keys)))
    keys = [*name.keys, *(key for key in name.partition if key not in name.keys)]
    return PartitionedSynopsis([key.type for key in keys], group, tuple(keys.index(key) for key in name.partition))


def chosen(
    readings: Iterable[BoundReading], filters: Filters, queries: Iterable[ActiveQuery], load: Load, length: int
) -> tuple[Choice, list[Accelerator]]:
    """What answers the readings that insist on nothing, and all that is wanted over panes of a length."""
    if load.in_cluster:
        return Choice(CLUSTER, ""), []
    by_kind: dict[str, list[Reading]] = {}
    for bound in readings:
        by_kind.setdefault(bound.synopsis or "auto", []).append(bound.stored)
    auto = by_kind.pop("auto", [])
    choice = choose(auto, load)
    by_kind.setdefault(choice.kind, []).extend(auto)
    by_kind.pop("basic", None)
    # Before the table has moved to the cluster, and where it cannot: by its panes.
    by_kind.pop(CLUSTER, None)
    for kind, more in filters.choose(queries, load).items():
        by_kind.setdefault(kind, []).extend(more)
    return choice, [_accelerator(kind, length, wanted) for kind, wanted in by_kind.items() if wanted]


def _accelerator(kind: str, length: int, readings: list[Reading]) -> Accelerator:
    bounded = [reading for reading in readings if not reading.window.unbounded]
    spans = {span for reading in bounded for span in reading.spans}
    return Accelerator(kind, length, spans, {partial for reading in bounded for partial in reading.partials})
