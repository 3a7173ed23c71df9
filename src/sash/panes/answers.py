"""From a window's merged partials to the rows of an answer: lower, HAVING, ORDER BY, LIMIT, SELECT list.

A query reads one pane table or several (see `readings`). Each reading yields columns by group; with several, their
groups are matched by key values. A composition joins the answers of sub-queries, all as of one time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.core.window import WINDOW_LENGTH, ElasticWindow
from sash.expr.evaluate import evaluate
from sash.expr.value_codes import Codes, KeyDictionary, one_array
from sash.panes.accumulator import Accumulator
from sash.panes.aggregates import HOLISTIC
from sash.panes.aggregates.item_lists import ITEM_LISTS
from sash.panes.filters import SubstreamFilter, substream_filter
from sash.panes.partials import Partial
from sash.panes.readers import Columns, ItemReader, PlainReader, Reader, SharedGroups
from sash.panes.readings import Reading, WindowView
from sash.plan.expressions import Call, Expression, Field
from sash.plan.nodes import AggregateCall, AnswerFilter, AnswerJoin, Limit, Node, Sort, SortKey, Subquery
from sash.plan.periodic import Composition, PeriodicAggregate


def readers_of(query: PeriodicAggregate) -> tuple[Reader, ...]:
    """The readers of one query. The first one's groups are the answer's."""
    if query.items is not None:
        return (ITEM_LISTS[query.items.function](query),)
    plain = tuple(call for call in query.calls if call.function not in HOLISTIC)
    by_item: dict[Any, list[AggregateCall]] = {}
    for call in query.calls:
        if call.function in HOLISTIC:
            by_item.setdefault(call.argument, []).append(call)
    readers: list[Reader] = [PlainReader(query, plain)] if plain or not by_item else []
    return (*readers, *(ItemReader(query, tuple(calls)) for calls in by_item.values()))


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
        return (*self.query.order, *lengths, *keys)

    def answer(self, view: WindowView, found: SharedGroups) -> pa.Table:
        """The answer of a simple query. `found` is shared by the queries that read the same view."""
        return self.finish([self.readers[0].read([view], found)])

    @cached_property
    def filter(self) -> SubstreamFilter | None:
        """The query's HAVING as a substream filter, if a collective index could serve it."""
        plain = self.is_simple and isinstance(self.readers[0], PlainReader)
        return substream_filter(self.query) if plain else None

    def answer_among(self, accumulator: Accumulator, keys: KeyDictionary, codes: Codes) -> pa.Table:
        """The answer when only some groups can be in it; HAVING decides, unless an approximate answer is wanted."""
        (reader,) = self.readers
        assert isinstance(reader, PlainReader)
        read = reader.read_among(accumulator, keys, codes)
        query = self.query
        if query.approximate:
            assert self.filter is not None
            query = replace(query, having=_all_of(self.filter.rest))
        return finish_rows(query, {**read.keys, **read.fields}, read.count, self._order, self._plain)

    def leading(self, columns: Columns) -> Columns:
        """The groups that may be in the answer of a query with one reader, by HAVING and LIMIT."""
        fields, rows = having_only(self.query, {**columns.keys, **columns.fields}, columns.count)
        if self.query.limit is not None and self.query.limit < rows:
            fields, rows = sorted_and_limited(fields, rows, self._order, self.query.limit)
        keys, others = ({name: fields[name] for name in kind} for kind in (columns.keys, columns.fields))
        return Columns(keys, others, rows)

    def finish(self, read: Sequence[Columns]) -> pa.Table:
        """The answer from the columns of all readings, in their order."""
        first, *others = read
        fields = {**first.keys, **first.fields}
        for other in others:
            fields |= _matched(first, other)
        return finish_rows(self.query, fields, first.count, self._order, self._plain)


class PendingTable:
    """The table of a plain answer, which is made when somebody looks at it. Answers over one window share it."""

    def __init__(self, finisher: Finisher, columns: Columns) -> None:
        self._finisher = finisher
        # The columns until somebody looks, then the table.
        self._content: Columns | pa.Table = columns
        # How many values it has at most.
        self.size = columns.most * len(finisher.query.outputs)

    @property
    def num_rows(self) -> int:
        content = self._content
        return content.count if isinstance(content, Columns) else int(content.num_rows)

    @property
    def table(self) -> pa.Table:
        content = self._content
        if isinstance(content, Columns):
            content = self._content = self._finisher.finish([content])
        return content


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
    if plain is not None:
        return pa.Table.from_arrays([fields[name] for name in plain], schema=query.schema)
    columns = [evaluate(output.expression, fields, rows) for output in query.outputs]
    return pa.Table.from_arrays(columns, schema=query.schema)


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
    if order and limit is not None and limit > 0 and rows >= max(SELECTED_FROM, 2 * limit):
        fields, rows = _without_the_last(order[0], fields, rows, limit)
    if order and rows > 1:
        places = _sorted(order, fields, rows)
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


def _sorted(keys: tuple[SortKey, ...], fields: dict[str, pa.Array], rows: int) -> pa.Array:
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
    key: SortKey, fields: dict[str, pa.Array], rows: int, limit: int
) -> tuple[dict[str, pa.Array], int]:
    """Leave out rows that `limit` others precede by the first key of ORDER BY: selecting costs less than sorting."""
    column = evaluate(key.expression, fields, rows)
    if not (pt.is_integer(column.type) or pt.is_floating(column.type) or pt.is_timestamp(column.type)):
        return fields, rows
    places = _places(column, key)
    # The rows of lower places are in the answer, and fewer than `limit`; those of greater places are not.
    place = np.partition(places, limit - 1)[limit - 1]
    kept, among = places < place, places == place
    if place == _VALUES:
        values = _numbers(column)
        candidates, wanted = values[among], limit - np.count_nonzero(kept)
        wanted = len(candidates) - wanted if key.descending else wanted - 1
        bound = np.partition(candidates, wanted)[wanted]
        among &= values >= bound if key.descending else values <= bound
    found = pa.array(np.flatnonzero(kept | among))
    return {name: column.take(found) for name, column in fields.items()}, len(found)


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


_KINDS = {"inner": "inner", "left": "left outer", "right": "right outer", "full": "full outer"}


def compose(query: Composition, tables: list[pa.Table]) -> pa.Table:
    """The answer; `tables` are the answers of the leaves, in their order."""
    plan = query.plan
    joined = _joined(plan.input, iter(tables))
    columns = [evaluate(output.expression, _fields(joined), joined.num_rows) for output in plan.outputs]
    return pa.Table.from_arrays(columns, schema=query.schema)


def _joined(node: Node, tables: Iterator[pa.Table]) -> pa.Table:
    if isinstance(node, Subquery):
        table = next(tables)
        return table.rename_columns([f"{node.alias}.{name}" for name in table.column_names])
    if isinstance(node, AnswerJoin):
        left = _joined(node.left, tables)
        return _join(node, left, _joined(node.right, tables))
    assert isinstance(node, AnswerFilter | Sort | Limit)
    table = _joined(node.input, tables)
    if isinstance(node, AnswerFilter):
        return table.filter(evaluate(node.condition, _fields(table), table.num_rows).fill_null(False))
    if isinstance(node, Sort):
        fields, _ = sorted_and_limited(_fields(table), table.num_rows, node.keys, None)
        return pa.table(fields)
    return _limited(node, table)


def _limited(node: Limit, table: pa.Table) -> pa.Table:
    """Cut to LIMIT. Every column breaks ties, so that the result does not depend on the order of arrival."""
    fields = [Field(name, column.type) for name, column in zip(table.column_names, table.columns, strict=True)]
    order = (*(node.input.keys if isinstance(node.input, Sort) else ()), *(SortKey(field) for field in fields))
    chosen, _ = sorted_and_limited(_fields(table), table.num_rows, order, node.count)
    return pa.table(chosen)


def _join(node: AnswerJoin, left: pa.Table, right: pa.Table) -> pa.Table:
    if node.kind == "cross":
        rows = np.repeat(np.arange(left.num_rows), right.num_rows)
        others = np.tile(np.arange(right.num_rows), left.num_rows)
        return pa.table({**_fields(left.take(pa.array(rows))), **_fields(right.take(pa.array(others)))})
    mine, theirs = [key for key, _ in node.keys], [key for _, key in node.keys]
    # One thread: the same tables give the same order of rows.
    return left.join(right, mine, theirs, _KINDS[node.kind], coalesce_keys=False, use_threads=False)


def _fields(table: pa.Table) -> dict[str, pa.Array]:
    return {name: one_array(column) for name, column in zip(table.column_names, table.columns, strict=True)}
