"""The one pass over a micro-batch, as Spark SQL text, and its result split by pane tables.

Every row is assigned to a pane of every pane table and aggregated there. One pane table is one *lane*; with more than
one lane each row is expanded once per lane by Spark's Expand operator (UNPIVOT), and the lanes' keys, arguments and
predicates are overlaid in the same columns, so that the aggregation's generated code stays small however many tables
there are. Row-based windows have a pass of their own, over tuples that were numbered before (`_n`).

A lane's predicates are bits of its mask; `sum(length) WHERE protocol = 6` is `sum(x0) FILTER (mask & 1)`. Generated
code with more than about twenty filtered aggregates falls off a cliff, so a pane table with more predicates is split
into several lanes of at most MOST_PREDICATES; the synopsis merges them again. A table of counters has a lane for each
row of them. An argument that may raise (a division, a cast) is only evaluated where the query's predicate holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.catalog import Stream
from sash.core.time import EARLIEST, LATEST, Micros
from sash.core.user_aggregate import UserLift
from sash.panes.counters import keys_of_rows
from sash.panes.lifted import LiftedColumn
from sash.panes.pane_rows import BatchFacts, PaneRows
from sash.panes.partials import SHED_COLUMN, Partial
from sash.plan.expressions import RowExpression, quoted
from sash.sharing.groups import PaneTable

MOST_PREDICATES = 20
CORRUPT_COLUMN = "_corrupt_record"
# Panes for rows that belong to no pane: they are counted and left out.
NULL_TIMESTAMP_PANE: Micros = -(2**63) + 1
UNPARSABLE_PANE: Micros = -(2**63) + 2

TypeName = Callable[[pa.DataType], str]


@dataclass(frozen=True)
class Lane:
    """A pane table, or the part of it that concerns some of its predicates, or a row of its counters."""

    table: int
    keys: tuple[RowExpression, ...]
    length: int
    predicates: tuple[RowExpression, ...]
    partials: tuple[Partial, ...]
    guard: str | None


@dataclass(frozen=True)
class Slot:
    """One aggregate of the pass: a function of an overlaid argument column (None: of 1) under a bit of the mask.

    `user` then makes partials of the values that it has collected.
    """

    function: str
    argument: str | None
    bit: int | None
    parameters: tuple[str, ...] = ()
    field: str = ""
    user: UserLift | None = None
    parts: tuple[str, ...] = ()

    def sql(self) -> str:
        condition = "" if self.bit is None else f"(_mask & {1 << self.bit}L) != 0"
        lifted = LiftedColumn(
            self.function, self.argument or "1", pa.int64(), self.parameters, self.field, parts=self.parts
        )
        return lifted.sql(condition=condition)


def lanes_of(tables: list[PaneTable]) -> list[Lane]:
    lanes: list[Lane] = []
    for number, table in enumerate(tables):
        by_predicate: dict[RowExpression | None, list[Partial]] = {}
        for partial in table.partials:
            by_predicate.setdefault(partial.predicate, []).append(partial)
        free = by_predicate.pop(None, [])
        predicates = [predicate for predicate in by_predicate if predicate is not None]
        guard = None if free else " OR ".join(f"({predicate.sql})" for predicate in predicates) or None
        for start in range(0, max(1, len(predicates)), MOST_PREDICATES):
            chosen = tuple(predicates[start : start + MOST_PREDICATES])
            partials = [*(free if start == 0 else []), *(p for chosen_one in chosen for p in by_predicate[chosen_one])]
            rows = keys_of_rows(table.keys)
            lanes += [Lane(number, keys, table.length, chosen, tuple(partials), guard) for keys in rows]
    return lanes


class PassProgram:
    """The text of the pass for some pane tables, and the way from its result back to them."""

    def __init__(
        self,
        stream: Stream,
        tables: list[PaneTable],
        view: str,
        type_name: TypeName,
        corrupt: bool = False,
        numbered: bool = False,
    ) -> None:
        self.tables = tables
        self._view = view
        self._numbered = numbered
        # SHED .. WHERE: tuples of one group may have different factors, and the pass does not add these up.
        self.is_weighted = stream.shed_first is not None
        self.lanes = lanes_of(tables) or [Lane(-1, (), stream.granule, (), (), None)]
        self._stream = stream
        self._corrupt = corrupt
        self._type_name = type_name
        self._slots: dict[Slot, str] = {}
        self._columns: dict[str, str] = {}
        self._lane_columns = [self._lay_out(lane) for lane in self.lanes]
        self.sql = self._text()

    # -- laying lanes over each other ---------------------------------------------------------------

    def _lay_out(self, lane: Lane) -> dict[str, str]:
        """The lane's own expression for each overlaid column."""
        mine = {"_pane": self._pane(lane.length)}
        for key in lane.keys:
            text = key.sql
            if lane.guard is not None and not is_column(key):
                text = f"CASE WHEN {lane.guard} THEN {text} END"
            mine[self._column("_k", key.type, mine)] = text
        for partial in lane.partials:
            for lifted in partial.lift():
                self._slots.setdefault(self._slot(lane, partial, lifted, mine), f"_a{len(self._slots)}")
        if lane.predicates:
            bits = [f"(CASE WHEN {p.sql} THEN {1 << i}L ELSE 0L END)" for i, p in enumerate(lane.predicates)]
            mine["_mask"] = " | ".join(bits)
            self._columns["_mask"] = "BIGINT"
        return mine

    def _slot(self, lane: Lane, partial: Partial, lifted: LiftedColumn, mine: dict[str, str]) -> Slot:
        text, bit, rest = lifted.argument, None, (lifted.parameters, lifted.field, lifted.user, lifted.parts)
        if partial.predicate is not None:
            if partial.argument is None or is_column(partial.argument):
                bit = lane.predicates.index(partial.predicate)
            else:
                text = f"CASE WHEN {partial.predicate.sql} THEN {text} END"
        if partial.argument is None:
            return Slot(lifted.function, None, bit, *rest)
        for name, known in mine.items():
            if known == text and name.startswith("_x"):
                return Slot(lifted.function, name, bit, *rest)
        name = self._column("_x", lifted.type, mine)
        mine[name] = text
        return Slot(lifted.function, name, bit, *rest)

    def _column(self, prefix: str, type: pa.DataType, mine: dict[str, str]) -> str:
        """The first overlaid column of this type that the lane has not used yet."""
        type_name = self._type_name(type)
        for name, known in self._columns.items():
            if known == type_name and name.startswith(prefix) and name not in mine:
                return name
        name = f"{prefix}{len(self._columns)}"
        self._columns[name] = type_name
        return name

    def _pane(self, length: int) -> str:
        """The end of the row's pane."""
        if self._numbered:
            return f"_n + pmod(-_n, {length}L)"
        end = pane_end(self._stream, length)
        unparsable = f"WHEN _bad THEN {UNPARSABLE_PANE}L " if self._corrupt else ""
        return f"CASE {unparsable}WHEN _t IS NULL THEN {NULL_TIMESTAMP_PANE}L ELSE {end} END"

    # -- the text ------------------------------------------------------------------------------------

    def _text(self) -> str:
        keys = [name for name in self._columns if name.startswith("_k")]
        slots = [f"{slot.sql()} AS {name}" for slot, name in self._slots.items()]
        rows = self._single() if len(self.lanes) == 1 else self._unpivoted()
        grouping = ", ".join(["_lane", "_pane", *self._factor, *keys])
        return (
            f"SELECT {', '.join([grouping, 'count(1) AS _rows', 'max(_t) AS _latest', *slots])} "
            f"FROM ({rows}) GROUP BY {grouping}"
        )

    @property
    def _factor(self) -> list[str]:
        return [SHED_COLUMN] if self.is_weighted else []

    def _source(self) -> str:
        if self._numbered:
            return f"SELECT * FROM {self._view}"
        micros = event_micros(self._stream)
        bad = f", {CORRUPT_COLUMN} IS NOT NULL AS _bad" if self._corrupt else ""
        return f"SELECT *, {micros} AS _t{bad} FROM {self._view}"

    def _single(self) -> str:
        mine = self._lane_columns[0]
        columns = [*self._factor, *(f"{text} AS {name}" for name, text in mine.items())]
        return f"SELECT 0 AS _lane, _t, {', '.join(columns)} FROM ({self._source()})"

    def _unpivoted(self) -> str:
        types = {"_lane": "INT", "_pane": "BIGINT", **self._columns}
        lanes = [{"_lane": str(number), **mine} for number, mine in enumerate(self._lane_columns)]
        # Columns that mean the same in every lane are computed once per row.
        shared = {name: text for name, text in lanes[0].items() if all(lane.get(name) == text for lane in lanes)}
        names = [name for name in types if name not in shared]
        flat, parts = ["_t", *self._factor, *(f"{text} AS {name}" for name, text in shared.items())], []
        for number, lane in enumerate(lanes):
            flat += [f"{lane.get(name, f'CAST(NULL AS {types[name]})')} AS {name}_{number}" for name in names]
            parts.append(f"({', '.join(f'{name}_{number}' for name in names)}) AS `{number}`")
        inner = f"SELECT {', '.join(flat)} FROM ({self._source()})"
        return (
            f"SELECT {', '.join(['_t', *self._factor, *types])} FROM ({inner}) "
            f"UNPIVOT INCLUDE NULLS (({', '.join(names)}) FOR _name IN ({', '.join(parts)}))"
        )

    @property
    def additive_columns(self) -> list[str]:
        """The result's columns that add up: twice the tuples would make them twice as large."""
        return ["_rows", *(name for slot, name in self._slots.items() if slot.function in ("count", "sum"))]

    @property
    def user_lifts(self) -> dict[str, UserLift]:
        """The result's columns of collected values, and what makes partials of them."""
        return {name: slot.user for slot, name in self._slots.items() if slot.user is not None}

    # -- back from the result ------------------------------------------------------------------------

    @cached_property
    def partial_columns(self) -> list[dict[Partial, list[str]]]:
        """For each lane, the result's columns that hold its partials."""
        lanes = enumerate(self.lanes)
        return [{partial: self.value_columns(number, partial) for partial in lane.partials} for number, lane in lanes]

    def key_columns(self, lane: int) -> list[str]:
        return [name for name in self._lane_columns[lane] if name.startswith("_k")]

    def value_columns(self, lane: int, partial: Partial) -> list[str]:
        """The result's columns that hold a partial of a lane."""
        mine = dict(self._lane_columns[lane])
        return [self._slots[self._slot(self.lanes[lane], partial, lifted, mine)] for lifted in partial.lift()]


def pane_end(stream: Stream, length: int) -> str:
    """The end of the pane of time `_t`: the least multiple >= _t, or > _t where windows are closed on the left."""
    if stream.closed_left:
        return f"_t - pmod(_t - {stream.offset}L, {length}L) + {length}L"
    return f"_t + pmod({stream.offset}L - _t, {length}L)"


def event_micros(stream: Stream) -> str:
    """A row's timestamp in microseconds since the epoch; NULL for a time that cannot be shown (the year 12345)."""
    stamp = quoted(stream.timestamp)
    micros = f"unix_micros({stamp})"
    if stream.schema.field(stream.timestamp).type.tz is None:
        micros = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {stamp})"
    return f"CASE WHEN {micros} BETWEEN {EARLIEST}L AND {LATEST}L THEN {micros} END"


def is_column(expression: RowExpression) -> bool:
    """A bare column: evaluating it cannot raise."""
    return expression.column is not None


def split(program: PassProgram, result: pa.Table) -> BatchFacts:
    number_of = np.asarray(result["_lane"], dtype=np.int64)
    panes = np.asarray(result["_pane"], dtype=np.int64)
    counts = np.asarray(result["_rows"], dtype=np.int64)
    latest = np.asarray(result["_latest"].fill_null(NULL_TIMESTAMP_PANE), dtype=np.int64)
    first = number_of == 0
    timed = (panes > UNPARSABLE_PANE) & (latest > NULL_TIMESTAMP_PANE)
    lanes = []
    for number, lane in enumerate(program.lanes):
        if lane.table < 0:
            continue
        mine = (number_of == number) & (panes > UNPARSABLE_PANE)
        names = program.partial_columns[number]
        wanted = {*program.key_columns(number), *(name for columns in names.values() for name in columns)}
        rows = result if mine.all() else result.select(sorted(wanted)).filter(pa.array(mine))
        keys = [_column(rows, name) for name in program.key_columns(number)]
        lifted = {p: [_column(rows, name) for name in columns] for p, columns in names.items()}
        lanes.append((lane.table, PaneRows(lane.length, panes[mine], keys, lifted, latest[mine]), counts[mine]))
    return BatchFacts(
        rows=int(counts[first].sum()),
        latest=pc.max(result["_latest"].filter(pa.array(panes > UNPARSABLE_PANE))).as_py(),
        null_timestamps=int(counts[first & (panes == NULL_TIMESTAMP_PANE)].sum()),
        unparsable=int(counts[first & (panes == UNPARSABLE_PANE)].sum()),
        lanes=lanes,
        earliest=int(panes[timed].min()) if timed.any() else None,
        shed=_shed(result, counts, first) if program.is_weighted else None,
    )


def _shed(result: pa.Table, counts: np.ndarray, first: np.ndarray) -> int:
    """About how many tuples were dropped: of k of them that count, one is there."""
    factors = np.asarray(result[SHED_COLUMN], dtype=np.int64)
    return int((counts * factors // (factors + 1))[first].sum())


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp("us", "UTC"))
    return array
