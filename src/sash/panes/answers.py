"""From a window's merged partials to the rows of an answer: lower, HAVING, ORDER BY, LIMIT, SELECT list.

A query reads one pane table or several (see `readings`). Each reading yields columns by group; with several, their
groups are matched by key values. `compositions` makes answers of several answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.time import SECOND, Micros
from sash.core.window import (
    WINDOW_BOUNDS,
    WINDOW_END,
    WINDOW_LENGTH,
    WINDOW_START,
    ElasticWindow,
    LandmarkWindow,
    SessionWindow,
    Window,
)
from sash.expr.evaluate import evaluate
from sash.expr.value_codes import Codes, KeyDictionary
from sash.panes.accumulator import Accumulator
from sash.panes.aggregates import HOLISTIC, CountMin
from sash.panes.aggregates.item_lists import ITEM_LISTS
from sash.panes.filters import SubstreamFilter, substream_filter
from sash.panes.partials import Partial
from sash.panes.readers import (
    INSTANT,
    CoarserReader,
    Columns,
    CounterReader,
    ItemReader,
    PlainReader,
    Reader,
    SessionReader,
    SharedGroups,
    stacked,
)
from sash.panes.readings import Reading, WindowView
from sash.plan.expressions import Call, Expression, Field
from sash.plan.nodes import AggregateCall, SortKey
from sash.plan.periodic import PeriodicAggregate


def readers_of(query: PeriodicAggregate) -> tuple[Reader, ...]:
    """The readers of one query. The first one's groups are the answer's."""
    if query.finest:
        finest = tuple(key.expression for key in query.finest)
        return tuple(CoarserReader(each, finest) for each in _plain_readers(replace(query, finest=())))
    if isinstance(query.window, SessionWindow):
        return (SessionReader(PlainReader(query, query.calls)),)
    if query.items is not None:
        return (ITEM_LISTS[query.items.function](query),)
    return _plain_readers(query)


def _plain_readers(query: PeriodicAggregate) -> tuple[PlainReader | ItemReader, ...]:
    plain = tuple(call for call in query.calls if call.function not in HOLISTIC)
    by_item: dict[Any, list[AggregateCall]] = {}
    for call in query.calls:
        if call.function in HOLISTIC:
            by_item.setdefault((call.argument, call.filtered), []).append(call)
    readers: list[PlainReader | ItemReader] = [PlainReader(query, plain)] if plain or not by_item else []
    return (*readers, *(_item_reader(query, tuple(calls)) for calls in by_item.values()))


def _item_reader(query: PeriodicAggregate, calls: tuple[AggregateCall, ...]) -> ItemReader:
    """Counters suffice COUNT_MIN, unless the counts of all values are there for another aggregate.

    A window of a partition has single tuples, which have single values.
    """
    counts = not query.counters or query.partition
    if counts or not all(isinstance(HOLISTIC[call.function], CountMin) for call in calls):
        return ItemReader(query, calls)
    return CounterReader(query, calls)


@dataclass(frozen=True)
class Finisher:
    """Everything about one query's answer that does not change from one execution to the next."""

    query: PeriodicAggregate

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        return readers_of(self.query)

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        return tuple(reader.reading for reader in self.readers)

    @cached_property
    def partials(self) -> list[Partial]:
        """All partials of the first reading, which for most queries is the only one."""
        return list(self.readings[0].partials)

    @cached_property
    def is_simple(self) -> bool:
        """One pane table, one window: the answer is made as soon as that window has been scanned."""
        is_elastic = isinstance(self.query.window, ElasticWindow)
        return len(self.readings) == 1 and len(self.readings[0].spans) == 1 and not is_elastic

    @cached_property
    def is_plain(self) -> bool:
        """The answer has the columns of its groups as they are."""
        is_whole = self.query.having is None and self.query.limit is None and not self._order
        return self.is_simple and self._plain is not None and is_whole

    @cached_property
    def width(self) -> int:
        """The number of columns of its answers."""
        return len(self.query.outputs)

    @cached_property
    def _plain(self) -> list[str] | None:
        """The SELECT list's field names if it has only fields: this common case needs no evaluator."""
        fields = [output.expression for output in self.query.outputs]
        return [f.name for f in fields if isinstance(f, Field)] if all(isinstance(f, Field) for f in fields) else None

    @cached_property
    def _order(self) -> tuple[SortKey, ...]:
        """ORDER BY; with LIMIT, the keys break ties, so that the answer does not depend on history."""
        if self.query.limit is None:
            return self.query.order
        keys = [SortKey(Field(key.name, key.expression.type)) for key in self.query.keys]
        lengths = [SortKey(Field(WINDOW_LENGTH, pa.float64()))] if isinstance(self.query.window, ElasticWindow) else []
        starts = [SortKey(Field(WINDOW_START, INSTANT))] if isinstance(self.query.window, SessionWindow) else []
        return (*self.query.order, *lengths, *keys, *starts)

    def answer(self, view: WindowView, found: SharedGroups, now: Micros = 0) -> pa.Table:
        """The answer of a simple query. `found` is shared by the queries that read the same view."""
        return self.finish([self.readers[0].read([view], found)], now)

    @cached_property
    def filter(self) -> SubstreamFilter | None:
        """The query's HAVING as a substream filter, if a collective index could serve it."""
        plain = self.is_simple and isinstance(self.readers[0], PlainReader)
        return substream_filter(self.query) if plain else None

    def answer_among(self, accumulator: Accumulator, keys: KeyDictionary, codes: Codes, now: Micros) -> pa.Table:
        """The answer when only some groups can be in it; HAVING decides, unless an approximate answer is wanted."""
        (reader,) = self.readers
        assert isinstance(reader, PlainReader)
        read = reader.read_among(accumulator, keys, codes)
        query = self.query
        if query.approximate:
            assert self.filter is not None
            query = replace(query, having=_all_of(self.filter.rest))
        fields = self._with_window({**read.keys, **read.fields}, read.count, now)
        return finish_rows(query, fields, read.count, self._order, self._plain)

    def leading(self, columns: Columns, now: Micros) -> Columns:
        """The groups that may be in the answer of a query with one reader, by HAVING and LIMIT."""
        fields = self._with_window({**columns.keys, **columns.fields}, columns.count, now)
        fields, rows = having_only(self.query, fields, columns.count)
        if self.query.limit is not None and self.query.limit < rows:
            fields, rows = sorted_and_limited(fields, rows, self._order, self.query.limit)
        keys, others = ({name: fields[name] for name in kind} for kind in (columns.keys, columns.fields))
        return Columns(keys, others, rows)

    def finish(self, read: Sequence[Columns], now: Micros) -> pa.Table:
        """The answer as of a time, from the columns of all readings, in their order."""
        first, *others = read
        fields = {**first.keys, **first.fields}
        for other in others:
            fields |= _matched(first, other)
        fields = self._with_window(fields, first.count, now)
        return finish_rows(self.query, fields, first.count, self._order, self._plain)

    def finish_windows(self, read: Sequence[tuple[Finisher, Columns]], now: Micros) -> list[pa.Table]:
        """The answers of simple queries of this one's shape, each over a window of its own, as slices of one table.

        What is done once for all windows is most of what an answer costs. An expression that fails, fails all of them.
        """
        query, rows = self.query, [columns.count for _, columns in read]
        fields = stacked([each._with_window({**own.keys, **own.fields}, own.count, now) for each, own in read])
        fields[_NUMBER] = pa.array(np.repeat(np.arange(len(read)), rows))
        fields, left = having_only(query, fields, sum(rows))
        if query.limit is not None:
            fields, left = _without_the_last(self._order, fields, _cuts(fields, len(read)), query.limit)
        if self._order:
            fields, left = sorted_and_limited(fields, left, (SortKey(Field(_NUMBER, pa.int64())), *self._order), None)
        cuts = _cuts(fields, len(read))
        if query.limit is not None:
            kept = np.concatenate([np.arange(low, min(high, low + query.limit)) for low, high in pairwise(cuts)])
            fields, left = {name: column.take(pa.array(kept)) for name, column in fields.items()}, len(kept)
            cuts = _cuts(fields, len(read))
        table = _selected(query, fields, left, self._plain)
        return [table.slice(low, high - low) for low, high in pairwise(cuts)]

    def _with_window(self, fields: dict[str, pa.Array], rows: int, now: Micros) -> dict[str, pa.Array]:
        """The columns of the groups, and those of the window that the query reads."""
        if not self.query.window_columns:
            return fields
        if isinstance(self.query.window, SessionWindow):
            return {**fields, WINDOW_BOUNDS: _bounds(fields[WINDOW_START], fields[WINDOW_END])}
        return {**fields, **_edges(self.query.window, fields, rows, now)}


def _edges(window: Window, fields: dict[str, pa.Array], rows: int, now: Micros) -> dict[str, pa.Array]:
    """When the window of each group begins and ends; an unbounded window has no start."""
    ends = np.full(rows, window.end(now))
    starts = np.full(rows, 0 if window.unbounded and not isinstance(window, LandmarkWindow) else window.start(now))
    if isinstance(window, ElasticWindow):
        starts = ends - (np.asarray(fields[WINDOW_LENGTH]) * SECOND).round().astype(np.int64)
    nothing = np.full(rows, window.unbounded and not isinstance(window, LandmarkWindow))
    end, start = pa.array(ends).cast(INSTANT), pa.array(starts, mask=nothing).cast(INSTANT)
    return {WINDOW_START: start, WINDOW_END: end, WINDOW_BOUNDS: _bounds(start, end)}


def _bounds(start: pa.Array, end: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([start, end], ["start", "end"])


class PendingTable:
    """The table of a plain answer, which is made when somebody looks at it. Answers over one window share it."""

    __slots__ = ("_columns", "_finisher", "_now", "_table", "size")

    def __init__(self, finisher: Finisher, columns: Columns, now: Micros) -> None:
        self._finisher = finisher
        self._now = now
        # The columns until somebody looks, then the table.
        self._columns: Columns | None = columns
        self._table: pa.Table | None = None
        # How many values it has at most.
        self.size = columns.most * finisher.width

    @property
    def num_rows(self) -> int:
        columns = self._columns
        return columns.count if columns is not None else int(self.table.num_rows)

    @property
    def table(self) -> pa.Table:
        columns = self._columns
        if columns is not None:
            # Another thread may look at the same time, so the table is set before the columns are dropped.
            self._table, self._columns = self._finisher.finish([columns], self._now), None
        return self._table


def _all_of(conditions: tuple[Expression, ...]) -> Expression | None:
    """The AND of conditions; None if there are none."""
    if not conditions:
        return None
    first, *others = conditions
    for other in others:
        first = Call("and", (first, other), pa.bool_())
    return first


def finish_rows(
    query: PeriodicAggregate,
    fields: dict[str, pa.Array],
    rows: int,
    order: tuple[SortKey, ...],
    plain: list[str] | None,
) -> pa.Table:
    fields, rows = having_only(query, fields, rows)
    fields, rows = sorted_and_limited(fields, rows, order, query.limit)
    return _selected(query, fields, rows, plain)


def _selected(query: PeriodicAggregate, fields: dict[str, pa.Array], rows: int, plain: list[str] | None) -> pa.Table:
    """The SELECT list."""
    if plain is not None:
        return pa.Table.from_arrays([fields[name] for name in plain], schema=query.schema)
    columns = [evaluate(output.expression, fields, rows) for output in query.outputs]
    return pa.Table.from_arrays(columns, schema=query.schema)


# The number of a row's window, beside the columns of several windows.
_NUMBER = "(number)"


def _cuts(fields: dict[str, pa.Array], windows: int) -> list[int]:
    """Where each window's rows begin, and where the last one's end."""
    cuts: list[int] = np.searchsorted(fields[_NUMBER].to_numpy(), np.arange(windows + 1)).tolist()
    return cuts


def having_only(query: PeriodicAggregate, fields: dict[str, pa.Array], rows: int) -> tuple[dict[str, pa.Array], int]:
    if query.having is None:
        return fields, rows
    keep = evaluate(query.having, fields, rows).fill_null(False)
    return {name: column.filter(keep) for name, column in fields.items()}, pc.sum(keep.cast(pa.int64())).as_py() or 0


# From this many rows on, selecting the rows of a LIMIT before sorting them costs less than sorting all.
SELECTED_FROM = 2_000


def sorted_and_limited(
    fields: dict[str, pa.Array], rows: int, order: tuple[SortKey, ...], limit: int | None
) -> tuple[dict[str, pa.Array], int]:
    if limit is not None:
        fields, rows = _without_the_last(order, fields, [0, rows], limit)
    if order and rows > 1:
        places = sorted_places(order, fields, rows)
        fields = {name: column.take(places) for name, column in fields.items()}
    if limit is not None and limit < rows:
        rows = limit
        fields = {name: column.slice(0, rows) for name, column in fields.items()}
    return fields, rows


def _matched(first: Columns, other: Columns) -> dict[str, pa.Array]:
    """Another reading's columns in the order of the first one's groups; both have the same groups."""
    if not first.keys:
        return other.fields
    keys = KeyDictionary([column.type for column in first.keys.values()])
    keys.encode(list(first.keys.values()))
    here = keys.encode([first.keys[name] for name in first.keys])
    there = keys.encode([other.keys[name] for name in first.keys])
    places = np.full(len(keys), -1, dtype=np.int64)
    places[there] = np.arange(len(there))
    order = places[here]
    taken = pa.array(order, mask=order < 0)
    return {name: column.take(taken) for name, column in other.fields.items()}


def sorted_places(keys: tuple[SortKey, ...], fields: dict[str, pa.Array], rows: int) -> pa.Array:
    """Row positions in ORDER BY's order; equal rows keep their order."""
    columns, order = {}, []
    for number, key in enumerate(keys):
        column = evaluate(key.expression, fields, rows)
        if column.null_count or pt.is_floating(column.type):
            columns[f"place{number}"] = pa.array(_places(column, key))
            order.append((f"place{number}", "ascending"))
        columns[f"value{number}"] = column
        order.append((f"value{number}", "descending" if key.descending else "ascending"))
    return pc.sort_indices(pa.table(columns), sort_keys=order)


def _without_the_last(
    order: tuple[SortKey, ...], fields: dict[str, pa.Array], cuts: Sequence[int], limit: int
) -> tuple[dict[str, pa.Array], int]:
    """Leave out rows that `limit` others of their window precede by the first key of ORDER BY.

    Selecting costs less than sorting. Each window's rows are those between two cuts.
    """
    rows = cuts[-1]
    if not order or limit < 1 or rows < max(SELECTED_FROM, 2 * limit * (len(cuts) - 1)):
        return fields, rows
    column = evaluate(order[0].expression, fields, rows)
    if not (pt.is_integer(column.type) or pt.is_floating(column.type) or pt.is_timestamp(column.type)):
        return fields, rows
    places, values = _places(column, order[0]), _numbers(column)
    windows = ((places[low:high], values[low:high]) for low, high in pairwise(cuts))
    kept = np.concatenate([_leading(*each, order[0].descending, limit) for each in windows])
    found = pa.array(np.flatnonzero(kept))
    return {name: column.take(found) for name, column in fields.items()}, len(found)


def _leading(places: NDArray[np.int8], values: NDArray[Any], descending: bool, limit: int) -> NDArray[np.bool_]:
    """The rows of one window that fewer than `limit` others precede."""
    if len(places) <= limit:
        return np.ones(len(places), dtype=np.bool_)
    # The rows of lower places are in the answer, and fewer than `limit`; those of greater places are not.
    place = np.partition(places, limit - 1)[limit - 1]
    kept, among = places < place, places == place
    if place == _VALUES:
        candidates, wanted = values[among], limit - np.count_nonzero(kept)
        wanted = len(candidates) - wanted if descending else wanted - 1
        bound = np.partition(candidates, wanted)[wanted]
        among &= values >= bound if descending else values <= bound
    return np.asarray(kept | among)


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Numbers in the order of a column's values; any number for NULL."""
    if pt.is_timestamp(column.type):
        column = column.view(pa.int64())
    return np.asarray(column.fill_null(0) if column.null_count else column)


# The place of values that are compared.
_VALUES = 1


def _places(column: pa.Array, key: SortKey) -> NDArray[np.int8]:
    """The place of a value before comparison: NULLs first or last, NaN greater than any number."""
    places = np.full(len(column), _VALUES, dtype=np.int8)
    if pt.is_floating(column.type):
        places[np.asarray(pc.is_nan(column).fill_null(False))] = 0 if key.descending else 2
    if column.null_count:
        places[np.asarray(column.is_null())] = -1 if key.nulls_first else 3
    return places
