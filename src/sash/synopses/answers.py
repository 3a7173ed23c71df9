"""From a window's merged partials to the rows of an answer: lower, HAVING, ORDER BY, LIMIT, SELECT list."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.core.errors import QueryFailedError
from sash.plan.expressions import Field
from sash.plan.nodes import AggregateCall, SortKey
from sash.plan.periodic import PeriodicAggregate, key_set
from sash.storage.keys import KeyDictionary
from sash.synopses.accumulator import Accumulator
from sash.synopses.aggregates import AGGREGATES
from sash.synopses.basic_interval import WindowView
from sash.synopses.evaluate import evaluate
from sash.synopses.partials import Partial


@dataclass(frozen=True)
class Groups:
    """Which groups have tuples under one predicate (`places` None: all of them), with their key values."""

    count: int
    places: NDArray[np.int64] | None
    keys: list[pa.Array]


@dataclass(frozen=True)
class Finisher:
    """Everything about one query's answer that does not change from one execution to the next."""

    query: PeriodicAggregate
    lifted: tuple[tuple[Partial, ...], ...] = field(init=False)
    presence: Partial = field(init=False)

    def __post_init__(self) -> None:
        calls, where = self.query.calls, self.query.predicate
        lifted = tuple(AGGREGATES[call.function].lift(call.argument, where) for call in calls)
        object.__setattr__(self, "lifted", lifted)
        object.__setattr__(self, "presence", Partial("rows", None, where))

    @cached_property
    def partials(self) -> list[Partial]:
        """All partials that an answer reads; the number of rows tells which groups are there at all."""
        return list(dict.fromkeys([self.presence, *(partial for parts in self.lifted for partial in parts)]))

    @cached_property
    def _places(self) -> list[int]:
        """Where each GROUP BY expression stands in the pane table's own order of keys."""
        order = [key.sql for key in key_set(self.query)]
        return [order.index(key.expression.sql) for key in self.query.keys]

    @cached_property
    def _plain(self) -> list[str] | None:
        """The SELECT list's field names when it is nothing but fields: the common case, spared the evaluator."""
        fields = [output.expression for output in self.query.outputs]
        return [f.name for f in fields if isinstance(f, Field)] if all(isinstance(f, Field) for f in fields) else None

    @cached_property
    def _order(self) -> tuple[SortKey, ...]:
        """ORDER BY; with LIMIT the keys decide between equals, so that the answer does not depend on history."""
        if self.query.limit is None:
            return self.query.order
        keys = (SortKey(Field(key.name, key.expression.type)) for key in self.query.keys)
        return (*self.query.order, *keys)

    def answer(self, view: WindowView, found: dict[Partial, Groups]) -> pa.Table:
        """The answer over a window. `found` is shared by the queries that read the same view."""
        accumulator = view.accumulator_for(self.partials)
        groups = found.get(self.presence) if accumulator is view.accumulator else None
        if groups is None:
            groups = _present(accumulator, view.keys, self.presence, bool(self.query.keys))
            if accumulator is view.accumulator:
                found[self.presence] = groups
        fields = {key.name: groups.keys[place] for key, place in zip(self.query.keys, self._places, strict=True)}
        for call, parts in zip(self.query.calls, self.lifted, strict=True):
            column = _shared(call.function, parts, accumulator) if groups.places is None else None
            fields[call.name] = _lowered(call, parts, accumulator, groups.places) if column is None else column
        return self._finish(fields, groups.count)

    def _finish(self, fields: dict[str, pa.Array], rows: int) -> pa.Table:
        query = self.query
        if query.having is not None:
            keep = evaluate(query.having, fields, rows).fill_null(False)
            fields = {name: column.filter(keep) for name, column in fields.items()}
            rows = pc.sum(keep.cast(pa.int64())).as_py() or 0
        order = self._order
        if order and rows > 1:
            places = _sorted(order, fields, rows)
            fields = {name: column.take(places) for name, column in fields.items()}
        if query.limit is not None and query.limit < rows:
            rows = query.limit
            fields = {name: column.slice(0, rows) for name, column in fields.items()}
        if self._plain is not None:
            return pa.Table.from_arrays([fields[name] for name in self._plain], schema=query.schema)
        columns = [evaluate(output.expression, fields, rows) for output in query.outputs]
        return pa.Table.from_arrays(columns, schema=query.schema)


def _lowered(
    call: AggregateCall, parts: tuple[Partial, ...], accumulator: Accumulator, places: NDArray[np.int64] | None
) -> pa.Array:
    """An aggregate's column over some groups of one window."""
    try:
        merged = {partial: accumulator.merged(partial, places) for partial in parts}
        return AGGREGATES[call.function].lower(parts, merged)
    except OverflowError as error:
        raise QueryFailedError(f"{call}: {error}") from None


def _shared(function: str, parts: tuple[Partial, ...], accumulator: Accumulator) -> pa.Array | None:
    """An aggregate's column over all groups, as a slice of the column that was lowered for all windows at once.

    None where that is not possible: values that go through a dictionary, or an overflow in some window, which must
    fail only the queries over that window.
    """
    block = accumulator.block
    if block is None or any(partial.ranked for partial in parts):
        return None
    key = (function, parts)
    if key not in block.lowered:
        windows = min(len(block.slots[partial, 0]) for partial in parts)
        try:
            block.lowered[key] = AGGREGATES[function].lower(parts, {p: block.flat(p, windows) for p in parts})
        except OverflowError:
            block.lowered[key] = None
    column, first = block.lowered[key], accumulator.window * block.groups
    return None if column is None or first >= len(column) else column.slice(first, block.groups)


def _present(accumulator: Accumulator, keys: KeyDictionary, presence: Partial, grouped: bool) -> Groups:
    if not grouped:
        return Groups(1, None, [])
    block = accumulator.block
    if block is not None and block.is_full(presence, accumulator.window):
        return Groups(block.groups, None, keys.decode_all())
    there = accumulator.slots[presence, 0] > 0
    if there.all():
        return Groups(len(there), None, keys.decode_all())
    places = np.flatnonzero(there)
    return Groups(len(places), places, keys.decode(places))


def _sorted(keys: tuple[SortKey, ...], fields: dict[str, pa.Array], rows: int) -> pa.Array:
    """Row positions in ORDER BY's order. Sorting by each key in turn, the last first, is stable."""
    order = pa.array(np.arange(rows))
    for key in reversed(keys):
        column = evaluate(key.expression, fields, rows).take(order)
        direction = "descending" if key.descending else "ascending"
        keyed = pa.table({"place": _places(column, key), "value": column})
        order = order.take(pc.sort_indices(keyed, sort_keys=[("place", "ascending"), ("value", direction)]))
    return order


def _places(column: pa.Array, key: SortKey) -> pa.Array:
    """Where a value stands before it is compared: NULLs first or last, NaN greater than any number."""
    places = np.ones(len(column), dtype=np.int8)
    if pa.types.is_floating(column.type):
        places[np.asarray(pc.is_nan(column).fill_null(False))] = 0 if key.descending else 2
    places[np.asarray(column.is_null())] = -1 if key.nulls_first else 3
    return pa.array(places)
