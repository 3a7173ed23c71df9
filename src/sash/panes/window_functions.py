"""Window functions over the rows of an answer: ROW_NUMBER, LAG, SUM .. OVER (PARTITION BY .. ORDER BY ..).

The rows are sorted once for each PARTITION BY and ORDER BY. All functions over them are positions in this order:

    partition   a a a a b b     first   0 0 0 0 4 4     the first row of the partition
    ORDER BY    1 3 3 7 2 2     past    4 4 4 4 6 6     the row behind its last
                                same    0 1 1 3 4 4     the first row that is equal in order
    rows        0 1 2 3 4 5     beyond  1 3 3 4 6 6     the row behind the last that is equal in order

RANK is same - first + 1, LAG(x) is x at row - 1 if that is not before first. An aggregate is the running one of its
partition at the end of the frame. Sums of whole numbers and decimals are exact: differences of sums of their limbs.

Rows that are equal in order are numbered in the order of all their columns: a replay repeats the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.evaluate import evaluate
from sash.expr.value_codes import encode_alone, value_ranks
from sash.panes.aggregates import AGGREGATES
from sash.panes.answers import sorted_places
from sash.panes.limbs import split_decimal
from sash.panes.partials import Component, Partial
from sash.plan.expressions import Expression, Field, Literal, RowExpression
from sash.plan.nodes import AnswerWindow, OverCall, SortKey

Fields = dict[str, pa.Array]
Places = NDArray[np.int64]
_PARTITION = "partition"


def with_window_functions(node: AnswerWindow, fields: Fields, rows: int) -> Fields:
    """The columns of the rows, and one for each call."""
    found, orders = dict(fields), dict[Any, _OrderedRows]()
    for call in node.calls:
        key = (call.partition, call.order)
        if key not in orders:
            orders[key] = _ordered(call, fields, rows)
        ordered = orders[key]
        arguments = [evaluate(argument, fields, rows).take(ordered.places) for argument in call.arguments]
        values = FUNCTIONS[call.function](call, ordered, arguments)
        found[call.name] = values.take(ordered.back)
    return found


def all_columns(fields: Fields) -> tuple[SortKey, ...]:
    """Keys that decide between rows whatever else they have in common."""
    return tuple(SortKey(Field(name, each.type)) for name, each in fields.items() if not pt.is_nested(each.type))


def _ordered(call: OverCall, fields: Fields, rows: int) -> _OrderedRows:
    partition, _ = encode_alone([evaluate(each, fields, rows) for each in call.partition], rows)
    equal, _ = encode_alone([evaluate(key.expression, fields, rows) for key in call.order], rows)
    numbered = {**fields, _PARTITION: pa.array(partition)}
    keys = (SortKey(Field(_PARTITION, pa.int32())), *call.order, *all_columns(fields))
    places = sorted_places(keys, numbered, rows)
    taken = np.asarray(places, dtype=np.int64)
    begins = _begins(partition[taken])
    return _OrderedRows(places, begins, begins | _begins(equal[taken]))


def _begins(codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a row has another code than the one before it."""
    begins = np.ones(len(codes), dtype=np.bool_)
    begins[1:] = codes[1:] != codes[:-1]
    return begins


@dataclass(frozen=True)
class _OrderedRows:
    """Rows in the order of their partitions; `begins` marks the first of a partition, `differs` of equal rows."""

    places: pa.Array
    begins: NDArray[np.bool_]
    differs: NDArray[np.bool_]

    @cached_property
    def back(self) -> pa.Array:
        """The place of each row in this order."""
        back = np.empty(len(self.begins), dtype=np.int64)
        back[np.asarray(self.places)] = self.rows
        return pa.array(back)

    @cached_property
    def rows(self) -> Places:
        return np.arange(len(self.begins))

    @cached_property
    def first(self) -> Places:
        return _last_mark(self.begins)

    @cached_property
    def past(self) -> Places:
        return _next_mark(self.begins)

    @cached_property
    def same(self) -> Places:
        return _last_mark(self.differs)

    @cached_property
    def beyond(self) -> Places:
        return _next_mark(self.differs)

    def ends(self, frame: str) -> Places:
        """The row behind the frame of each row."""
        return {"rows": self.rows + 1, "range": self.beyond, "all": self.past}[frame]


def _last_mark(marks: NDArray[np.bool_]) -> Places:
    """The last marked row up to each row."""
    return np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))


def _next_mark(marks: NDArray[np.bool_]) -> Places:
    """The next marked row behind each row, or the number of rows."""
    starts = np.append(np.flatnonzero(marks), len(marks))
    return starts[np.cumsum(marks)]


# -- ranks ---------------------------------------------------------------------------------------------


def _row_number(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    return pa.array(at.rows - at.first + 1, pa.int32())


def _rank(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    return pa.array(at.same - at.first + 1, pa.int32())


def _dense_rank(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    different = np.cumsum(at.differs)
    return pa.array(different - different[at.first] + 1, pa.int32())


def _percent_rank(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    return pa.array((at.same - at.first) / np.maximum(at.past - at.first - 1, 1))


def _cume_dist(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    return pa.array((at.beyond - at.first) / (at.past - at.first))


def _ntile(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    """The first parts have one row more where they cannot all be equal."""
    least, more = np.divmod(at.past - at.first, _whole(call.arguments[0]))
    row = at.rows - at.first
    larger = more * (least + 1)
    tile = np.where(row < larger, row // (least + 1), more + (row - larger) // np.maximum(least, 1))
    return pa.array(tile + 1, pa.int32())


def _shifted(direction: int) -> Function:
    """LAG and LEAD: the value some rows before or after, or the default."""

    def shift(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
        values, _, default = arguments
        found = at.rows + direction * _whole(call.arguments[1])
        inside = (found >= at.first) & (found < at.past)
        # The defaults follow the values.
        both = pa.concat_arrays([values, default])
        return both.take(pa.array(np.where(inside, found, at.rows + len(values))))

    return shift


def _whole(argument: Expression) -> int:
    assert isinstance(argument, Literal) and isinstance(argument.value, int)
    return argument.value


# -- aggregates ----------------------------------------------------------------------------------------


def _count(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    return pa.array(_counted(call, at, arguments))


def _counted(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> Places:
    there = np.asarray(arguments[0].is_valid()) if arguments else np.ones(len(at.rows), dtype=np.bool_)
    return _differences(there, at, call.frame)


def _differences(numbers: NDArray[Any], at: _OrderedRows, frame: str) -> Places:
    """Sums of whole numbers over frames: what is before the frame's end without what is before the partition."""
    sums = np.append(0, np.cumsum(numbers, dtype=np.int64))
    return sums[at.ends(frame)] - sums[at.first]


def _sum(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    """SUM and AVG, lowered as those of groups are."""
    (values,) = arguments
    argument = RowExpression("x", values.type)
    total, count = Partial("sum", argument), Partial("count", argument)
    merged = {total: _sums(values, at, call.frame), count: [_counted(call, at, arguments)]}
    return AGGREGATES[call.function].lower((total, count), merged)


def _sums(values: pa.Array, at: _OrderedRows, frame: str) -> list[Component]:
    if pt.is_floating(values.type):
        running = np.empty(len(values))
        _kernel_running_sum(np.asarray(values.cast(pa.float64()).fill_null(0.0)), at.begins, running)
        return [running[at.ends(frame) - 1]]
    if pt.is_decimal(values.type):
        limbs = split_decimal(values.cast(pa.decimal128(38, values.type.scale)))
    else:
        numbers = np.asarray(values.cast(pa.int64()).fill_null(0))
        is_long = pt.is_int64(values.type)
        limbs = [numbers & np.int64(0xFFFFFFFF), numbers >> np.int64(32)] if is_long else [numbers]
    return [_differences(limb, at, frame) for limb in limbs]


@numba.njit(cache=True, nogil=True)
def _kernel_running_sum(values: Any, begins: Any, running: Any) -> None:
    total = 0.0
    for i in range(values.size):
        total = values[i] if begins[i] else total + values[i]
        running[i] = total


def _extreme(call: OverCall, at: _OrderedRows, arguments: list[pa.Array]) -> pa.Array:
    """MIN and MAX by the ranks of values, the greatest so far: partitions follow each other, so ranks only grow."""
    (values,) = arguments
    ranks, is_null = value_ranks(values)
    size = len(ranks) + 1
    if call.function == "min":
        ranks = size - 2 - ranks
    codes = np.where(is_null, 0, ranks + 1) + np.cumsum(at.begins) * (size + 1)
    greatest = codes == np.maximum.accumulate(codes)
    return values.take(pa.array(_last_mark(greatest)[at.ends(call.frame) - 1]))


Function = Callable[[OverCall, _OrderedRows, list[pa.Array]], pa.Array]
FUNCTIONS: Mapping[str, Function] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
    "lag": _shifted(-1),
    "lead": _shifted(1),
    "count": _count,
    "sum": _sum,
    "avg": _sum,
    "min": _extreme,
    "max": _extreme,
}
