"""A stream runtime's state for a snapshot (records/journal.py), with one Arrow table per group for its panes.

Rows of panes are stored with their key values, not with dictionary codes (panes/pane_rows.py).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.errors import CheckpointError
from sash.core.time import format_duration
from sash.panes.covered import CoveredPredicate
from sash.panes.pane_store import FILES
from sash.panes.readings import TableName
from sash.plan.expressions import RowExpression
from sash.runtime.compiler import compile_query
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.flight import Flight
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.records.journal import SavedFlight, SavedPaneGroup, SavedQuery, SavedRuntime


def save(runtime: StreamRuntime) -> SavedRuntime:
    """The runtime's state; the queries themselves are in the catalog."""
    groups = list(runtime.groups.values())
    return SavedRuntime(
        latest=runtime.latest,
        watermark=runtime.watermark,
        counted=runtime.counted,
        waiting=runtime.waiting,
        queries={name: _saved_query(active) for name, active in runtime.active.items()},
        statistics=runtime.statistics,
        groups=[_saved_group(group) for group in groups],
        tables=[group.panes.to_table() for group in groups],
    )


def _saved_query(active: ActiveQuery) -> SavedQuery:
    return SavedQuery(
        ends_at=active.ends_at,
        resting=active.empty.rests,
        answered=active.answered,
        lateness=active.lateness,
        valid_from=[bound.valid_from for bound in active.readings],
        covered=[_saved_cover(bound.covered) for bound in active.readings],
        by_lists=active.home.name.lists is not None,
    )


def _saved_group(group: PaneGroup) -> SavedPaneGroup:
    return SavedPaneGroup(
        name=_saved_name(group.name),
        in_cluster=group.in_cluster,
        length=group.clock.length,
        now=group.clock.now,
        origin=group.clock.origin,
        retained_from=group.clock.retained_from,
        history_from=group.history_from,
        stamps=group.clock.stamps.save(),
        coarse=list(group.clock.coarse),
        since=group.panes.save_since(),
        leaders=sorted(group.schedule.leaders),
        scheduler=group.schedule.local.snapshot(),
        prices=group.schedule.prices,
        judgement=group.choices.save(),
        statistics=group.statistics,
        flights=[flight.save() for flight in group.flights],
        open_files=group.panes.save_files(),
        ends=list(group.panes.ends),
    )


def _saved_cover(covered: CoveredPredicate | None) -> list[Any] | None:
    if covered is None:
        return None
    parts = [[each.sql for each in side] for side in (covered.added, covered.subtracted)]
    return [*parts, covered.overlaps]


def _cover(saved: list[Any] | None, stream: Stream) -> CoveredPredicate | None:
    if saved is None:
        return None
    added, subtracted = (tuple(_predicate(sql, stream) for sql in side) for side in saved[:2])
    return CoveredPredicate(added, subtracted, saved[2])


def _predicate(sql: str, stream: Stream) -> RowExpression:
    """A WHERE from its text, with the terms that may cover later queries."""
    catalog = Catalog()
    catalog.add_stream(stream)
    every = format_duration(stream.granule)
    text = f"SELECT COUNT(*) AS n FROM {stream.name} [WINDOW {every} SLIDE {every}] WHERE {sql}"
    (leaf,) = compile_query(RegisteredQuery("", text, stream.name), catalog).leaves
    if leaf.predicate is None or leaf.predicate.sql != sql:
        raise CheckpointError(f"the checkpoint of stream '{stream.name}' has a condition that cannot be read: {sql}")
    return leaf.predicate


def _saved_name(name: TableName) -> list[object]:
    saved: list[object] = [[key.sql for key in name.keys], name.by_rows, [key.sql for key in name.partition]]
    return saved if name.lists is None else [*saved, list(name.lists.values)]


def load(runtime: StreamRuntime, saved: SavedRuntime) -> None:
    """Put a snapshot's state into an empty runtime with the same queries."""
    runtime.latest, runtime.watermark = saved.latest, saved.watermark
    runtime.counted, runtime.waiting = saved.counted, saved.waiting
    runtime.statistics = replace(saved.statistics)
    for name, active in runtime.active.items():
        for bound, cover in zip(active.readings, saved.queries[name].covered, strict=True):
            bound.become_covered(_cover(cover, runtime.stream), "as it was before the restart")
    by_name = {json.dumps(_saved_name(name)): group for name, group in runtime.groups.items()}
    for each, table in zip(saved.groups, saved.tables, strict=True):
        group = by_name.get(json.dumps(each.name))
        if group is None:
            raise CheckpointError(f"the checkpoint of stream '{runtime.stream.name}' has panes that no query reads")
        _load_group(group, each, table)
    for name, active in runtime.active.items():
        _load_query(active, saved.queries[name])
    for each in saved.groups:
        group = by_name[json.dumps(each.name)]
        under_way = each.flights if each.flight is None else [each.flight]
        group.flights = [_flight(group, flight, runtime) for flight in under_way]


def _flight(group: PaneGroup, saved: SavedFlight, runtime: StreamRuntime) -> Flight:
    joint = JointQueries([runtime.active[name] for name in saved.queries], group.schedule.leader)
    return Flight(group, [joint], saved.as_of, later=saved.later)


def _load_query(active: ActiveQuery, saved: SavedQuery) -> None:
    active.ends_at, active.empty.rests = saved.ends_at, saved.resting
    active.note_answer(saved.answered, saved.lateness)
    for bound, since in zip(active.readings, saved.valid_from, strict=True):
        bound.valid_from = since


def _load_group(group: PaneGroup, saved: SavedPaneGroup, table: pa.Table) -> None:
    group.clock.length, group.clock.now, group.clock.origin = saved.length, saved.now, saved.origin
    group.clock.retained_from, group.history_from = saved.retained_from, saved.history_from
    group.clock.stamps.load(saved.stamps)
    group.clock.coarse = list(saved.coarse)
    if saved.in_cluster:
        group.move_to_cluster(pa.Table.from_pylist(saved.open_files, FILES))
    group.store_what_is_read()
    group.panes.ends = tuple(saved.ends)
    group.panes.load(table, saved.since)
    group.schedule.prices = saved.prices
    if group.clock.origin is not None:
        group.schedule.restore(
            saved.scheduler, saved.leaders, group.queries.values(), group.clock.position, bool(group.clock.coarse)
        )
    group.restore_choices(saved.judgement)
    group.statistics = replace(saved.statistics)
