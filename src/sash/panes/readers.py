"""Readers: from the scanned windows of one reading to columns by group.

PlainReader  distributive and algebraic aggregates of the query's groups
ItemReader   holistic aggregates of one argument, from the counts of its values; CounterReader, from counters
CoarserReader  one of these over a table of more keys, for grouping sets
SessionReader  plain aggregates of the sessions of each group

Aggregates that answer with one row per item are readers too: `item_lists`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.errors import QueryFailedError
from sash.core.interned import InternedValue
from sash.core.time import SECOND
from sash.core.window import WINDOW_END, WINDOW_LENGTH, WINDOW_START, RowWindow, SessionWindow
from sash.expr.value_codes import Codes, KeyDictionary, one_array
from sash.panes.accumulator import Accumulator, Block
from sash.panes.aggregates import AGGREGATES, HOLISTIC, AggregateFunction, CountMin, Holistic
from sash.panes.aggregates.exact import UserDefined
from sash.panes.counters import counter_key
from sash.panes.items import ItemCounts, ItemOrder, item_order
from sash.panes.partials import Partial
from sash.panes.readings import Reading, TableName, WindowView, key_set
from sash.panes.sessions import SessionView
from sash.plan.expressions import RowExpression
from sash.plan.nodes import AggregateCall
from sash.plan.periodic import PeriodicAggregate

# The type of the edges of windows.
INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class PredicateGroups:
    """The groups with tuples under one predicate (`places` None: all groups), with their key values."""

    count: int
    places: NDArray[np.int64] | None
    keys: list[pa.Array]


# Groups by what tells of their presence: queries that read the same view under the same predicate share them.
SharedGroups = dict[Partial, PredicateGroups]


class Columns:
    """Rows by group: the key columns under the query's names for them, and the fields.

    `is_pending`: the columns are made when somebody looks at them, and making them cannot fail. There are at most
    `most` rows, which is known before somebody looks.
    """

    is_pending = False

    # How many rows there are.
    count: int

    def __init__(self, keys: dict[str, pa.Array], fields: dict[str, pa.Array], count: int) -> None:
        self._keys, self._fields, self.count, self.most = keys, fields, count, count

    @property
    def keys(self) -> dict[str, pa.Array]:
        return self._keys

    @property
    def fields(self) -> dict[str, pa.Array]:
        return self._fields


class SlicedColumns(Columns):
    """Some of the rows of columns, which are cut out when somebody looks at them."""

    is_pending = True

    def __init__(self, keys: dict[str, pa.Array], fields: dict[str, pa.Array], first: int, count: int) -> None:
        super().__init__(keys, fields, count)
        self._first = first

    @property
    def keys(self) -> dict[str, pa.Array]:
        return {name: column.slice(self._first, self.count) for name, column in self._keys.items()}

    @property
    def fields(self) -> dict[str, pa.Array]:
        return {name: column.slice(self._first, self.count) for name, column in self._fields.items()}


class WindowColumns(Columns):
    """The columns of one window of a block: slices of the columns of all its windows."""

    is_pending = True

    def __init__(self, reader: PlainReader, groups: PredicateGroups, lowered: Sequence[pa.Array], window: int) -> None:
        self._reader = reader
        self._groups = groups
        self._lowered = lowered
        self._window = window
        self.count = self.most = groups.count

    @property
    def keys(self) -> dict[str, pa.Array]:
        return self._reader.key_columns(self._groups)

    @property
    def fields(self) -> dict[str, pa.Array]:
        slices = (column.slice(self._window * self.count, self.count) for column in self._lowered)
        return dict(zip((call.name for call in self._reader.calls), slices, strict=True))


class Reader(Protocol):
    @property
    def reading(self) -> Reading: ...

    @property
    def group(self) -> tuple[int, ...]:
        """The places, among the pane table's keys, of the keys that identify the answer's groups."""

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        """The columns of one execution; one view per span of the reading."""


def read_every_length(reader: Reader, views: Sequence[WindowView]) -> Columns:
    """The columns of an elastic window: those of each length, one after the other, with the length in seconds."""
    read = [reader.read([view], {}) for view in views]
    counts = [columns.count for columns in read]
    lengths = np.repeat([view.window.length / SECOND for view in views], counts)
    keys = {WINDOW_LENGTH: pa.array(lengths), **stacked([columns.keys for columns in read])}
    return Columns(keys, stacked([columns.fields for columns in read]), sum(counts))


def stacked(parts: Sequence[dict[str, pa.Array]]) -> dict[str, pa.Array]:
    """The columns of several windows, one window after the other."""
    return {name: one_array(pa.chunked_array([part[name] for part in parts])) for name in parts[0]}


def table_name(query: PeriodicAggregate, *items: Any) -> TableName:
    keys = key_set([*(key.expression for key in query.keys), *items])
    return TableName(keys, isinstance(query.window, RowWindow), key_set(query.partition))


def places_of(query: PeriodicAggregate, table: TableName) -> list[int]:
    """The place of each GROUP BY expression in the pane table's order of keys."""
    order = [key.sql for key in table.keys]
    return [order.index(key.expression.sql) for key in query.keys]


def aggregate_of(call: AggregateCall) -> AggregateFunction:
    if call.user is not None:
        return UserDefined(call.user)
    found: Any = AGGREGATES[call.function]
    bound: AggregateFunction = found.bind(*call.parameters) if call.parameters else found
    return bound


def holistic_of(call: AggregateCall) -> Holistic | None:
    """The aggregate with its constants, if it is one of items."""
    found = HOLISTIC.get(call.function)
    return found if found is None else found.bind(*call.parameters)


@dataclass(frozen=True, eq=False)
class LoweredAggregate(InternedValue):
    """An aggregate with its partials."""

    aggregate: AggregateFunction
    parts: tuple[Partial, ...]

    @cached_property
    def numeric(self) -> bool:
        return all(partial.numeric for partial in self.parts)


@dataclass(frozen=True)
class _CallReader:
    query: PeriodicAggregate
    calls: tuple[AggregateCall, ...]

    @cached_property
    def presence(self) -> Partial:
        """The number of rows: a group without rows is absent."""
        return Partial("rows", None, self.query.predicate)


class PlainReader(_CallReader):
    @cached_property
    def subtracts(self) -> bool:
        """Whether windows may be taken as differences of sums. Computing the aggregates then cannot fail."""
        exact = all(partial.subtractable and len(partial.dtypes) == 1 for partial in self.reading.partials)
        sums = [call.argument for call in self.calls if call.function != "count" and call.argument is not None]
        is_whole = all(pa.types.is_integer(argument.type) for argument in sums)
        return exact and is_whole and not self.reading.window.unbounded

    @cached_property
    def bound(self) -> list[tuple[AggregateCall, LoweredAggregate]]:
        bound = [(call, aggregate_of(call)) for call in self.calls]
        where = self.query.predicate
        return [(call, LoweredAggregate(each, each.lift(call.argument, call.where(where)))) for call, each in bound]

    @cached_property
    def reading(self) -> Reading:
        partials = dict.fromkeys(
            [self.presence, *(partial for _, lowering in self.bound for partial in lowering.parts)]
        )
        sensitive = any(call.function not in ("min", "max") for call in self.calls)
        return Reading(table_name(self.query), self.query.window, tuple(partials), sensitive=sensitive)

    @cached_property
    def _places(self) -> list[int]:
        return places_of(self.query, self.reading.table)

    @property
    def group(self) -> tuple[int, ...]:
        return tuple(range(len(self.reading.table.keys)))

    @cached_property
    def _shared_by(self) -> tuple[InternedValue, ...]:
        """Readers of one block that agree on this share the columns of all its windows."""
        return (self.presence, *(lowering for _, lowering in self.bound))

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        accumulator = view.accumulator_for(self.reading.partials)
        if (block := accumulator.block) is not None:
            full, groups, lowered = block.memo.get(self._shared_by) or self._share(block, view.keys)
            if full[accumulator.window]:
                return WindowColumns(self, groups, lowered, accumulator.window)
        groups = found.get(self.presence) if accumulator is view.accumulator else None
        if groups is None:
            groups = _present(accumulator, view.keys, self.presence, bool(self.query.keys))
            if accumulator is view.accumulator:
                found[self.presence] = groups
        fields = {
            call.name: lowered_column(call, lowering, accumulator, groups.places) for call, lowering in self.bound
        }
        return Columns(self.key_columns(groups), fields, groups.count)

    def _share(self, block: Block, keys: KeyDictionary) -> tuple[list[bool], PredicateGroups, list[pa.Array]]:
        """Which windows of a block have all groups and all columns; the groups, and the columns over all windows."""
        columns = [shared_column(lowering, block) for _, lowering in self.bound]
        lowered = [column for column in columns if column is not None]
        windows = len(block.slots[self.presence, 0])
        whole = 0 if len(lowered) < len(columns) or not block.groups else windows
        whole = min([whole, *(len(column) // block.groups for column in lowered if block.groups)])
        full = block.full(self.presence) if self.query.keys else [True] * windows
        groups = PredicateGroups(block.groups, None, keys.decode_all() if self.query.keys else [])
        shared = block.memo[self._shared_by] = [*full[:whole], *[False] * (windows - whole)], groups, lowered
        return shared

    def key_columns(self, groups: PredicateGroups) -> dict[str, pa.Array]:
        return {key.name: groups.keys[place] for key, place in zip(self.query.keys, self._places, strict=True)}

    def read_among(self, accumulator: Accumulator, keys: KeyDictionary, codes: Codes) -> Columns:
        """The columns of some groups alone; the accumulator has these groups in their order."""
        values = keys.decode(codes)
        names = {key.name: values[place] for key, place in zip(self.query.keys, self._places, strict=True)}
        fields = {call.name: lowered_column(call, lowering, accumulator, None) for call, lowering in self.bound}
        return Columns(names, fields, len(codes))


def lowered_column(
    call: AggregateCall, lowering: LoweredAggregate, accumulator: Accumulator, places: NDArray[np.int64] | None
) -> pa.Array:
    """An aggregate's column over some groups of one window."""
    try:
        return lowering.aggregate.lower(
            lowering.parts, {partial: accumulator.merged(partial, places) for partial in lowering.parts}
        )
    except OverflowError as error:
        raise QueryFailedError(f"{call}: {error}") from None


def shared_column(lowering: LoweredAggregate, block: Block) -> pa.Array | None:
    """An aggregate's column over all groups of all windows of a block, one window after the other.

    None if that is not possible: values in a dictionary, sketches, or an overflow in some window, which must fail only
    the queries over that window.
    """
    parts = lowering.parts
    if not lowering.numeric:
        return None
    if lowering not in block.memo:
        windows = min(len(block.slots[partial, 0]) for partial in parts)
        try:
            block.memo[lowering] = lowering.aggregate.lower(parts, {p: block.flat(p, windows) for p in parts})
        except (OverflowError, pa.ArrowInvalid, QueryFailedError):
            # Arrow's error is an extreme that some window does not have, because it came later than its count.
            block.memo[lowering] = None
    return block.memo[lowering]


def _present(accumulator: Accumulator, keys: KeyDictionary, presence: Partial, grouped: bool) -> PredicateGroups:
    if not grouped:
        return PredicateGroups(1, None, [])
    there = accumulator.slots[presence, 0] > 0
    if there.all():
        return PredicateGroups(len(there), None, keys.decode_all())
    places = np.flatnonzero(there)
    return PredicateGroups(len(places), places, keys.decode(places))


class ItemReader(_CallReader):
    """`calls` are holistic aggregates of one argument, the item, under one condition."""

    @property
    def argument(self) -> RowExpression:
        argument = self.calls[0].argument
        assert argument is not None, "no holistic aggregate is of *"
        return argument

    @property
    def item(self) -> RowExpression:
        return self.argument

    @cached_property
    def reading(self) -> Reading:
        partials = tuple(dict.fromkeys((self.presence, self.counted)))
        return Reading(table_name(self.query, self.item), self.query.window, partials)

    @cached_property
    def counted(self) -> Partial:
        """The number of rows that the aggregates are of: those of the group, or those that a FILTER leaves."""
        return Partial("rows", None, self.calls[0].where(self.query.predicate))

    @cached_property
    def _bound(self) -> list[tuple[AggregateCall, Holistic]]:
        return [(call, found) for call in self.calls if (found := holistic_of(call)) is not None]

    @cached_property
    def _item(self) -> int:
        return self.reading.table.keys.index(self.item)

    @cached_property
    def group(self) -> tuple[int, ...]:
        """The places of the query's keys, each once, in the table's order."""
        return tuple(sorted(set(places_of(self.query, self.reading.table))))

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        accumulator = view.accumulator_for(self.reading.partials)
        order = item_order(view.keys, self._item, self.group)
        items, window = self._counts(accumulator, order, self.counted)
        lowered = [(call, *self._column(call, aggregate, items, accumulator)) for call, aggregate in self._bound]
        if not self.query.keys:
            return SlicedColumns({}, {call.name: column.slice(first, 1) for call, column, first in lowered}, 0, 1)
        there = items if self.counted is self.presence else self._counts(accumulator, order, self.presence)[0]
        present = np.flatnonzero(there.rows[window] > 0)
        values, wanted = order.groups.decode(present), places_of(self.query, self.reading.table)
        keys = {k.name: values[self.group.index(place)] for k, place in zip(self.query.keys, wanted, strict=True)}
        fields = {call.name: column.take(pa.array(present + first)) for call, column, first in lowered}
        return Columns(keys, fields, len(present))

    def _counts(self, accumulator: Accumulator, order: ItemOrder, rows: Partial) -> tuple[ItemCounts, int]:
        """The counts of all windows that were scanned together, and the row of this one."""
        block = accumulator.block
        if block is None:
            return ItemCounts(accumulator.slots[rows, 0][np.newaxis, :], order), 0
        key = (rows, self._item, self.group)
        if key not in block.memo:
            block.memo[key] = ItemCounts(block.slots[rows, 0], order)
        return block.memo[key], accumulator.window

    def _column(
        self, call: AggregateCall, aggregate: Holistic, items: ItemCounts, accumulator: Accumulator
    ) -> tuple[pa.Array, int]:
        """The column of this window, or of all that were scanned together, and where this one begins."""
        block = accumulator.block
        if block is None:
            return _lowered_items(call, aggregate, items), 0
        window, alone = accumulator.window, aggregate.by_window
        key = (aggregate, self.counted, self._item, self.group, window if alone else None)
        if key not in block.memo:
            block.memo[key] = _lowered_items(call, aggregate, items.only(window) if alone else items)
        return block.memo[key], 0 if alone else window * items.groups


def _lowered_items(call: AggregateCall, aggregate: Holistic, items: ItemCounts) -> pa.Array:
    try:
        return aggregate.lower_items(items)
    except OverflowError as error:
        raise QueryFailedError(f"{call.name}: {error}") from None


class CounterReader(ItemReader):
    """`calls` are COUNT_MIN of one argument: the items are counters of its values."""

    @property
    def item(self) -> RowExpression:
        return counter_key(self.argument)

    @cached_property
    def _bound(self) -> list[tuple[AggregateCall, Holistic]]:
        bound = [(call, holistic_of(call)) for call in self.calls]
        return [(call, each.by_counters(self.argument.type)) for call, each in bound if isinstance(each, CountMin)]


@dataclass(frozen=True)
class CoarserReader:
    """Reads from a pane table of more keys: its groups are merged before aggregates are lowered.

    `inner` is the reader of the query's own keys; `finest` are those of the table.
    """

    inner: PlainReader | ItemReader
    finest: tuple[RowExpression, ...]

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return self.inner.calls

    @cached_property
    def reading(self) -> Reading:
        own = self.inner.reading
        return replace(own, table=replace(own.table, keys=key_set([*self.finest, *own.table.keys])))

    @cached_property
    def _places(self) -> list[int]:
        return [self.reading.table.keys.index(key) for key in self.inner.reading.table.keys]

    @property
    def group(self) -> tuple[int, ...]:
        return tuple(self._places[place] for place in self.inner.group)

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        accumulator, groups = view.accumulator_for(self.reading.partials), view.keys.decode_all()
        keys = KeyDictionary([key.type for key in self.inner.reading.table.keys])
        codes = keys.encode([groups[place] for place in self._places], len(view.keys))
        merged = accumulator.regrouped(self.reading.partials, codes, len(keys))
        since: dict[Partial, int | None] = dict.fromkeys(self.reading.partials)
        coarser = WindowView(view.window, merged, keys, view.oldest, since, lambda _: merged)
        return self.inner.read([coarser], {})


@dataclass(frozen=True)
class SessionReader:
    """One row per session: the aggregates of `inner`, and when the session's window begins and ends.

    Beside their partials, panes keep the first and the last time of each group.
    """

    inner: PlainReader

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return self.inner.calls

    @property
    def presence(self) -> Partial:
        return self.inner.presence

    @cached_property
    def first(self) -> Partial:
        return self._extreme("min")

    @cached_property
    def last(self) -> Partial:
        return self._extreme("max")

    def _extreme(self, kind: str) -> Partial:
        query = self.inner.query
        assert query.time is not None
        return Partial(kind, query.time, query.predicate)

    @cached_property
    def reading(self) -> Reading:
        own = self.inner.reading
        return replace(own, partials=tuple(dict.fromkeys((*own.partials, self.first, self.last))), sensitive=True)

    @property
    def window(self) -> SessionWindow:
        window = self.inner.query.window
        assert isinstance(window, SessionWindow)
        return window

    @property
    def group(self) -> tuple[int, ...]:
        return self.inner.group

    def read(self, views: Sequence[WindowView], found: SharedGroups) -> Columns:
        (view,) = views
        assert isinstance(view, SessionView)
        read = self.inner.read_among(view.accumulator, view.keys, view.sessions.groups)
        times = {WINDOW_START: view.sessions.starts, WINDOW_END: view.sessions.ends}
        edges = {name: pa.array(each).cast(INSTANT) for name, each in times.items()}
        return Columns({**read.keys, **edges}, read.fields, read.count)
