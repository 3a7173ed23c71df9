"""The tuples of the windows of plans, out of a micro-batch, as one DataFrame: one job for all plans of a stream.

    _leaf   which window of the plan, by its place
    _t      event time in microseconds
    _arrival
    _bucket the bucket of the stage that reads the window; -1 is every bucket
    s0, s1  the window's columns, overlaid by type: the windows of a self-join share them

One scan of the micro-batch serves all windows on its stream: a row that belongs to several is expanded. `counted` lets
Spark count the tuples by pane. `Scan` is one job for all the plans that read a stream; equal windows are read once, and
the job's observations are all that a micro-batch needs when no pane table wants its partials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import expr

from sash.catalog import Stream
from sash.changes.hashing import buckets_of
from sash.changes.stage import ALL, Arrivals, numbers_of_buckets
from sash.plan.continuous import BaseWindow, Node, windows
from sash.plan.stages import EVERYWHERE, StagePlan, Target
from sash.spark.lanes import CORRUPT_COLUMN, NULL_TIMESTAMP_PANE, UNPARSABLE_PANE, event_micros
from sash.spark.sources import type_name


def counted(tuples: DataFrame, late: Sequence[int], length: int, offset: int) -> pa.Table:
    """Counts by panes of some length; tuples of a window before its time in `late` are too late."""
    slots = [name for name in tuples.columns if not name.startswith("_")]
    bounds = " ".join(f"WHEN {place} THEN {time}" for place, time in enumerate(late))
    # The least multiple of the length, from the offset, that is not before the tuple.
    pane = f"_t + pmod({offset} - _t, {length})"
    rows = tuples.selectExpr("_leaf", f"{pane} AS _pane", f"_t < CASE _leaf {bounds} END AS _late", *slots)
    return rows.groupBy("_leaf", "_pane", "_late", *slots).count().toArrow().combine_chunks()


@dataclass(frozen=True)
class LeafReading:
    """The rows and columns of a stream that a window reads, in Spark's SQL."""

    predicate: str | None
    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    bucket: str


@dataclass(frozen=True)
class LeafLayout:
    """Where the columns of each window lie: `slots` are the overlaid columns' types, `places` each window's slots."""

    slots: tuple[pa.DataType, ...]
    places: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, types: Sequence[Sequence[pa.DataType]]) -> LeafLayout:
        """For windows with columns of these types."""
        slots: list[pa.DataType] = []
        places = []
        for columns in types:
            taken: Counter[pa.DataType] = Counter()
            mine = []
            for type in columns:
                same = [place for place, known in enumerate(slots) if known == type]
                if len(same) == taken[type]:
                    same.append(len(slots))
                    slots.append(type)
                mine.append(same[taken[type]])
                taken[type] += 1
            places.append(tuple(mine))
        return cls(tuple(slots), tuple(places))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the tuples."""
        fixed = [("_leaf", pa.int32()), ("_t", pa.int64()), ("_arrival", pa.int64()), ("_bucket", pa.int32())]
        return pa.schema([*fixed, *((f"s{slot}", type) for slot, type in enumerate(self.slots))])


class Leaves:
    """Rows of a plan's windows from the micro-batches of its streams, with their buckets in the stages that read them.

    `buckets` is the number of buckets of a stage that may be spread; `numbers` is the number for each stage.
    """

    def __init__(self, plan: Node, stages: Sequence[StagePlan], buckets: int) -> None:
        self._windows = windows(plan)
        self.layout = LeafLayout.of([window.schema.types for window in self._windows])
        self.numbers = numbers_of_buckets(stages, buckets)
        self._spread = {
            place: (target, number)
            for stage, number in zip(stages, self.numbers, strict=True)
            for place, target in stage.windows.items()
        }

    @property
    def buckets(self) -> int:
        return max(self.numbers)

    def of(self, batch: DataFrame, stream: Stream) -> DataFrame:
        """The tuples of the windows on a stream."""
        return overlaid(timed(batch, stream), self.readings(stream), self.layout)

    def readings(self, stream: Stream) -> dict[int, LeafReading]:
        """The windows on a stream, by their places."""
        return {
            place: LeafReading(
                None if window.predicate is None else window.predicate.sql,
                tuple(column.expression.sql for column in window.columns),
                tuple(window.schema.types),
                self._bucket(place, window),
            )
            for place, window in enumerate(self._windows)
            if window.stream.lower() == stream.name.lower()
        }

    def table(self, arrived: Mapping[int, Arrivals]) -> pa.Table:
        """Tuples that are in this process, by the places of their windows, as a micro-batch brings them."""
        return pa.concat_tables([self._rows_of(place, tuples) for place, tuples in sorted(arrived.items())])

    def _rows_of(self, place: int, tuples: Arrivals) -> pa.Table:
        number, (target, buckets) = len(tuples.ts), self._spread[place]
        if isinstance(target, str):
            bucket = buckets_of(tuples.rows[target], buckets)
        else:
            bucket = np.full(number, _undivided(target, buckets))
        slots = dict(zip(self.layout.places[place], tuples.rows.columns, strict=True))
        columns = {
            "_leaf": pa.array(np.full(number, place, dtype=np.int32)),
            "_t": pa.array(tuples.ts),
            "_arrival": pa.array(np.arange(number)),
            "_bucket": pa.array(bucket.astype(np.int32)),
        }
        empty = ((slot, pa.nulls(number, type)) for slot, type in enumerate(self.layout.slots))
        return pa.table({**columns, **{f"s{slot}": slots.get(slot, nothing) for slot, nothing in empty}})

    def _bucket(self, place: int, window: BaseWindow) -> str:
        target, buckets = self._spread[place]
        if not isinstance(target, str):
            return str(_undivided(target, buckets))
        column = next(column for column in window.columns if column.name == target)
        key = f"CAST({column.expression.sql} AS {type_name(column.type)})"
        return f"CAST(pmod(xxhash64({key}), {buckets}) AS INT)"


def _undivided(target: Target, buckets: int) -> int:
    """The bucket of tuples that no column spreads."""
    return ALL if target is EVERYWHERE and buckets > 1 else 0


def timed(batch: DataFrame, stream: Stream) -> DataFrame:
    """The rows of a micro-batch with their event times and their order."""
    return batch.selectExpr("*", f"{event_micros(stream)} AS _t", "monotonically_increasing_id() AS _arrival")


def overlaid(rows: DataFrame, readings: Mapping[int, LeafReading], layout: LeafLayout) -> DataFrame:
    """The tuples of some windows of a layout, by their places, out of timed rows."""
    readable = ["_t IS NOT NULL", *([f"{CORRUPT_COLUMN} IS NULL"] if CORRUPT_COLUMN in rows.columns else [])]
    predicates = [f"({reading.predicate})" for reading in readings.values() if reading.predicate is not None]
    # A row of no window is not expanded.
    wanted = [f"({' OR '.join(predicates)})"] if len(predicates) == len(readings) else []
    frame = rows.where(" AND ".join([*readable, *wanted]))
    if len(readings) == 1:
        (place,) = readings
        frame = frame.selectExpr("*", f"{place} AS _leaf")
    else:
        chosen = ", ".join(
            str(place) if reading.predicate is None else f"IF({reading.predicate}, {place}, NULL)"
            for place, reading in readings.items()
        )
        frame = frame.selectExpr("*", f"stack({len(readings)}, {chosen}) AS _leaf").where("_leaf IS NOT NULL")
    bucket = _by_leaf({place: reading.bucket for place, reading in readings.items()})
    return frame.selectExpr("_leaf", "_t", "_arrival", f"{bucket} AS _bucket", *_slots(readings, layout))


def _slots(readings: Mapping[int, LeafReading], layout: LeafLayout) -> list[str]:
    made = []
    for slot, type in enumerate(layout.slots):
        texts = {}
        for place, reading in readings.items():
            if slot in layout.places[place]:
                texts[place] = reading.columns[layout.places[place].index(slot)]
        made.append(f"CAST({_by_leaf(texts)} AS {type_name(type)}) AS s{slot}")
    return made


def _by_leaf(texts: Mapping[int, str]) -> str:
    """Evaluate a window's expressions for its own tuples only: those of other windows may raise."""
    cases = " ".join(f"WHEN {place} THEN {text}" for place, text in texts.items())
    return f"CASE _leaf {cases} END" if texts else "NULL"


# The size of files. Tuples of this many bytes fit into the Sash process, whatever their windows select.
_FEW_BYTES = 32 * 2**20


def seems_small(batch: DataFrame, *, unknown: bool) -> bool:
    """Whether the files that Spark knows are small; `unknown` is the answer for other sources."""
    try:
        size = int(batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    except Exception:
        return unknown
    return size <= _FEW_BYTES if size < 2**62 else unknown


@dataclass(frozen=True)
class ScanResult:
    """`tuples` in the layout of each plan; `facts` as the pass over no pane tables would give them."""

    tuples: list[pa.Table]
    facts: pa.Table


class Scan:
    """The windows that some plans have on a stream."""

    def __init__(self, stream: Stream, plans: Sequence[Leaves]) -> None:
        self._stream = stream
        self._plans = plans
        self._wanted = [plan.readings(stream) for plan in plans]
        unlike = dict.fromkeys(reading for wanted in self._wanted for reading in wanted.values())
        self._readings = dict(enumerate(unlike))
        self._places = {reading: place for place, reading in self._readings.items()}
        self._layout = LeafLayout.of([reading.types for reading in unlike])

    def collect(self, batch: DataFrame) -> ScanResult:
        seen = Observation()
        rows = timed(batch, self._stream).observe(seen, *map(expr, _facts(CORRUPT_COLUMN in batch.columns)))
        table = overlaid(rows, self._readings, self._layout).toArrow()
        return ScanResult([self._of(number, table) for number in range(len(self._plans))], _as_pass(seen.get))

    def _of(self, number: int, table: pa.Table) -> pa.Table:
        """The tuples of one plan, its windows by its own places."""
        wanted, layout = self._wanted[number], self._plans[number].layout
        if layout == self._layout and wanted == self._readings:
            return table
        parts = []
        for place, reading in wanted.items():
            known = self._places[reading]
            rows = table.filter(pc.equal(table["_leaf"], known))
            columns = {name: rows[name] for name in ("_t", "_arrival", "_bucket")}
            columns["_leaf"] = pa.chunked_array([pa.repeat(pa.scalar(place, pa.int32()), len(rows))])
            slots = dict(zip(layout.places[place], self._layout.places[known], strict=True))
            for slot, type in enumerate(layout.slots):
                columns[f"s{slot}"] = rows[f"s{slots[slot]}"] if slot in slots else pa.nulls(len(rows), type)
            names = ["_leaf", "_t", "_arrival", "_bucket", *(f"s{slot}" for slot in range(len(layout.slots)))]
            parts.append(pa.table({name: columns[name] for name in names}))
        return pa.concat_tables(parts, promote_options="permissive")


def _facts(corrupt: bool) -> list[str]:
    """Few and short expressions: Spark interprets them, row by row."""
    bad = f"{CORRUPT_COLUMN} IS NOT NULL"
    time = f"IF({bad}, NULL, _t)" if corrupt else "_t"
    counted = [f"count({time}) AS good", f"min({time}) AS earliest", f"max({time}) AS latest", "count(1) AS every"]
    return [*counted, f"count_if({bad}) AS bad"] if corrupt else counted


def _as_pass(seen: dict[str, int]) -> pa.Table:
    """All good rows as one group, in a pane that ends with the first of them."""
    bad = seen.get("bad", 0)
    counts = [seen["good"], seen["every"] - seen["good"] - bad, bad]
    pane = seen["earliest"] if seen["good"] else 0
    columns = {
        "_lane": pa.array([0, 0, 0], pa.int32()),
        "_pane": pa.array([pane, NULL_TIMESTAMP_PANE, UNPARSABLE_PANE], pa.int64()),
        "_rows": pa.array(counts, pa.int64()),
        "_latest": pa.array([seen["latest"], None, None], pa.int64()),
    }
    return pa.table(columns)
