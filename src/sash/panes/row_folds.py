"""Partials of rows in memory, folded sub-window by sub-window, and taken back where that is exact.

The kernels are those of Spark's partials, and the readers are those of registered queries: so both give one answer.
Rows are grouped by bare columns only, and aggregates need components of machine numbers; `why_not_folded` names the
obstacle.

Counts and sums of whole numbers and decimals have an inverse. A sum of floating-point numbers would keep the rounding
errors of rows that were taken back, and the value below an extreme is not known. `irreversible` names such a partial,
and a question that has one begins again instead.

Groups of sub-windows wait until they are as many as those of the window; then all are merged. So every group is looked
up a few times, however many sub-windows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sash.expr.row_predicates import row_predicate
from sash.expr.value_codes import KeyDictionary, encode_alone
from sash.panes.accumulator import Accumulator, Slot
from sash.panes.partials import Component, Partial
from sash.panes.readings import Reading, WindowView
from sash.plan.expressions import RowExpression

_KINDS = ("rows", "count", "sum", "min", "max")
# Fewer waiting groups than this are merged only at the end.
LEAST_WAITING = 4_096
_LOW = np.int64(0xFFFFFFFF)


def why_not_folded(reading: Reading, schema: pa.Schema) -> str | None:
    """Why a reading needs Spark, in words; None if it does not."""
    if reading.table.by_rows:
        return "a window of rows is counted by Spark"
    if len(reading.spans) != 1:
        return "it reads several windows"
    for key in reading.table.keys:
        if not _is_plain(key, schema):
            return f"{key} is no column"
    for partial in reading.partials:
        if partial.kind not in _KINDS or partial.ranked or _is_other_decimal(partial):
            return f"{_words(partial)} is none of COUNT, SUM, AVG and of MIN and MAX of numbers and times"
        if partial.argument is not None and not _is_plain(partial.argument, schema):
            return f"{partial.argument} is no column"
    wheres = dict.fromkeys(partial.predicate for partial in reading.partials)
    if len(wheres) > 1:
        return "it has a FILTER"
    for where in wheres:
        if where is not None and row_predicate(where, schema) is None:
            return f"WHERE {where} does more than compare columns with constants"
    return None


def irreversible(reading: Reading) -> str | None:
    """A partial that cannot be taken back, in words."""
    return next((_words(partial) for partial in reading.partials if not partial.subtractable), None)


def _words(partial: Partial) -> str:
    return f"{partial.kind.upper()}({partial.argument or '*'})"


def _is_plain(expression: RowExpression, schema: pa.Schema) -> bool:
    return expression.column is not None and expression.column in schema.names


def _is_other_decimal(partial: Partial) -> bool:
    return pt.is_decimal(partial.type) and not pt.is_decimal128(partial.type)


@dataclass(frozen=True)
class _Groups:
    """Some rows by group: key values, and the components of each partial."""

    keys: list[pa.Array]
    columns: dict[Slot, Component]
    count: int


class RowFold:
    """The groups of one reading over rows that come and go.

    Needs: a reading for which `why_not_folded` finds nothing; to take rows back, one that is not `irreversible`.
    Time: one pass of a kernel per component over the rows. Space: the groups, twice.
    """

    def __init__(self, reading: Reading, schema: pa.Schema) -> None:
        self._reading = reading
        self._names = [str(key.column) for key in reading.table.keys]
        # The WHERE of the query, which all its partials share.
        (where,) = {partial.predicate for partial in reading.partials}
        self._where = None if where is None else row_predicate(where, schema)
        arguments = (partial.argument for partial in reading.partials)
        columns = {*self._names, *(str(each.column) for each in arguments if each is not None)}
        self._columns = [name for name in schema.names if name in columns]
        self._keys = KeyDictionary([key.type for key in reading.table.keys])
        self._folded = Accumulator(len(self._keys), reading.partials, {})
        self._waiting: list[_Groups] = []
        self._waits = 0

    def add(self, rows: pa.Table) -> None:
        self._wait(self._groups(rows))

    def add_counts(self, values: pa.Array, counts: Component) -> None:
        """Add the groups of a reading that counts the rows of each value, from existing counts."""
        (partial,) = self._reading.partials
        self._wait(_Groups([values], {(partial, 0): counts}, len(values)))

    def take_back(self, rows: pa.Table) -> None:
        """Take back rows that were added before; ValueError if that is not exact."""
        groups = self._groups(rows)
        inverse: dict[Slot, Component] = {}
        for partial in self._reading.partials:
            part = [groups.columns[partial, i] for i in range(len(partial.dtypes))]
            for i, component in enumerate(partial.invert([np.zeros_like(each) for each in part], part)):
                inverse[partial, i] = component
        self._wait(replace(groups, columns=inverse))

    def view(self) -> WindowView:
        """The window as readers of a synopsis get it. A group is gone when all its rows were taken back."""
        self._put_together()
        (window,) = self._reading.spans
        since: dict[Partial, int | None] = dict.fromkeys(self._reading.partials)
        return WindowView(window, self._folded, self._keys, 0, since, lambda _: self._folded)

    def _groups(self, rows: pa.Table) -> _Groups:
        """The groups of these rows alone."""
        kept = None if self._where is None else self._where.kept(rows)
        size = len(rows) if kept is None else kept.true_count
        columns = {name: rows[name].combine_chunks() for name in self._columns}
        if kept is not None:
            columns = {name: column.filter(kept) for name, column in columns.items()}
        codes, keys = encode_alone([columns[name] for name in self._names], size)
        count = len(keys[0]) if keys else 1
        folded = Accumulator(count, self._reading.partials, {})
        folded.fold(self._reading.partials, codes, _components(self._reading.partials, columns, size))
        return _Groups(keys, folded.slots, count)

    def _wait(self, groups: _Groups) -> None:
        self._waiting.append(groups)
        self._waits += groups.count
        if self._waits > max(LEAST_WAITING, len(self._keys)):
            self._put_together()

    def _put_together(self) -> None:
        waiting, self._waiting = self._waiting, []
        rows, self._waits = self._waits, 0
        if not waiting:
            return
        keys = [pa.concat_arrays(parts) for parts in zip(*(each.keys for each in waiting), strict=True)]
        codes = self._keys.encode(keys, rows)
        folded = Accumulator(len(self._keys), self._reading.partials, {})
        for slot, component in self._folded.slots.items():
            folded.slots[slot][: len(component)] = component

        def column(slot: Slot) -> Component:
            return np.concatenate([each.columns[slot] for each in waiting])

        folded.fold(self._reading.partials, codes, column)
        self._folded = folded


def _components(
    partials: tuple[Partial, ...], columns: Mapping[str, pa.Array], size: int
) -> Callable[[Slot], Component]:
    """The components of single rows: each is what a group of one row would have."""
    found: dict[Slot, Component] = {}
    for partial in partials:
        for i, component in enumerate(_of_rows(partial, columns, size)):
            found[partial, i] = component
    return found.__getitem__


def _of_rows(partial: Partial, columns: Mapping[str, pa.Array], size: int) -> list[Component]:
    if partial.argument is None:
        return [np.ones(size, dtype=np.int64)]
    values = columns[str(partial.argument.column)]
    if partial.kind == "count":
        return [np.asarray(values.is_valid()).astype(np.int64)]
    if partial.kind == "sum" and pt.is_int64(values.type):
        whole = np.asarray(values.fill_null(0) if values.null_count else values)
        return [whole & _LOW, whole >> np.int64(32)]
    return partial.store([values], None)
