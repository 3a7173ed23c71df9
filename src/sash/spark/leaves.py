"""The tuples of a plan's windows, out of a micro-batch, as one DataFrame.

    _leaf   which window of the plan, by its place
    _t      event time in microseconds
    _arrival
    _bucket the bucket of the stage that reads the window; -1 is every bucket
    s0, s1  the window's columns, overlaid by type: the windows of a self-join share them

One scan of the micro-batch serves all windows on its stream: a row that belongs to several is expanded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from sash.catalog import Stream
from sash.operators.exchange import ALL, numbers_of_buckets
from sash.plan.continuous import BaseWindow, Node, windows
from sash.plan.stages import EVERYWHERE, StagePlan
from sash.spark.lanes import CORRUPT_COLUMN, event_micros
from sash.spark.sources import type_name


@dataclass(frozen=True)
class LeafReading:
    """What a window reads of its stream's rows, in Spark's SQL."""

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


class Leaves:
    """Rows of a plan's windows from the micro-batches of its streams, with their buckets in the stages that read them.

    `buckets` is how many a stage has that may be spread; `numbers` how many each of them has.
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

    def _bucket(self, place: int, window: BaseWindow) -> str:
        target, buckets = self._spread[place]
        if not isinstance(target, str):
            return str(ALL if target is EVERYWHERE and buckets > 1 else 0)
        column = next(column for column in window.columns if column.name == target)
        key = f"CAST({column.expression.sql} AS {type_name(column.type)})"
        return f"CAST(pmod(xxhash64({key}), {buckets}) AS INT)"


def timed(batch: DataFrame, stream: Stream) -> DataFrame:
    """The rows of a micro-batch with their event times and their order."""
    return batch.selectExpr("*", f"{event_micros(stream)} AS _t", "monotonically_increasing_id() AS _arrival")


def overlaid(rows: DataFrame, readings: Mapping[int, LeafReading], layout: LeafLayout) -> DataFrame:
    """The tuples of some windows of a layout, by their places, out of timed rows."""
    readable = ["_t IS NOT NULL", *([f"{CORRUPT_COLUMN} IS NULL"] if CORRUPT_COLUMN in rows.columns else [])]
    predicates = [f"({reading.predicate})" for reading in readings.values() if reading.predicate is not None]
    # A row that no window wants is not expanded.
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
    """A window's expressions are only evaluated for its own tuples: another's may raise."""
    cases = " ".join(f"WHEN {place} THEN {text}" for place, text in texts.items())
    return f"CASE _leaf {cases} END" if texts else "NULL"
