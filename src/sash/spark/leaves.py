"""The tuples of a plan's windows, out of a micro-batch, as one DataFrame.

    _leaf   which window of the plan, by its place
    _t      event time in microseconds
    _arrival, _bucket
    s0, s1  the window's columns, overlaid by type: the windows of a self-join share them

One scan of the micro-batch serves all windows on its stream: a row that belongs to several is expanded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, monotonically_increasing_id

from sash.catalog import Stream
from sash.plan.continuous import BaseWindow, Node, windows
from sash.plan.partitioning import Spread, spread
from sash.spark.lanes import CORRUPT_COLUMN, event_micros
from sash.spark.sources import type_name


@dataclass(frozen=True)
class Layout:
    """Where the columns of each window lie: `slots` are the overlaid columns' types, `places` each window's slots."""

    slots: tuple[pa.DataType, ...]
    places: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, plan: Node) -> Layout:
        slots: list[pa.DataType] = []
        places = []
        for window in windows(plan):
            taken: Counter[pa.DataType] = Counter()
            mine = []
            for field in window.schema:
                same = [place for place, type in enumerate(slots) if type == field.type]
                if len(same) == taken[field.type]:
                    same.append(len(slots))
                    slots.append(field.type)
                mine.append(same[taken[field.type]])
                taken[field.type] += 1
            places.append(tuple(mine))
        return cls(tuple(slots), tuple(places))


class Leaves:
    """Rows of a plan's windows from the micro-batches of its streams."""

    def __init__(self, plan: Node, buckets: int) -> None:
        self.layout = Layout.of(plan)
        self._windows = windows(plan)
        self._spread: Spread | None = spread(plan)
        self.buckets = buckets if self._spread is not None else 1

    def of(self, batch: DataFrame, stream: Stream) -> DataFrame:
        """The tuples of the windows on a stream."""
        mine = [
            (place, window)
            for place, window in enumerate(self._windows)
            if window.stream.lower() == stream.name.lower()
        ]
        frame = batch.withColumn("_t", expr(event_micros(stream))).withColumn("_arrival", monotonically_increasing_id())
        frame = frame.where("_t IS NOT NULL")
        if CORRUPT_COLUMN in frame.columns:
            frame = frame.where(f"{CORRUPT_COLUMN} IS NULL")
        if len(mine) == 1:
            place, window = mine[0]
            frame = frame if window.predicate is None else frame.where(window.predicate.sql)
            frame = frame.selectExpr("*", f"{place} AS _leaf")
        else:
            chosen = ", ".join(
                str(place) if window.predicate is None else f"IF({window.predicate.sql}, {place}, NULL)"
                for place, window in mine
            )
            frame = frame.selectExpr("*", f"explode(filter(array({chosen}), leaf -> leaf IS NOT NULL)) AS _leaf")
        return frame.selectExpr("_leaf", "_t", "_arrival", self._bucket(mine), *self._slots(mine))

    def _bucket(self, mine: Sequence[tuple[int, BaseWindow]]) -> str:
        if self._spread is None:
            return "0 AS _bucket"
        keys = []
        for place, window in mine:
            column = next(column for column in window.columns if column.name == self._spread[place])
            keys.append(f"WHEN {place} THEN CAST(pmod(xxhash64({column.expression.sql}), {self.buckets}) AS INT)")
        return f"CASE _leaf {' '.join(keys)} END AS _bucket"

    def _slots(self, mine: Sequence[tuple[int, BaseWindow]]) -> list[str]:
        """A window's expressions are only evaluated for its own tuples: another's may raise."""
        made = []
        for slot, type in enumerate(self.layout.slots):
            cases = []
            for place, window in mine:
                for column, at in zip(window.columns, self.layout.places[place], strict=True):
                    if at == slot:
                        cases.append(f"WHEN {place} THEN {column.expression.sql}")
            value = f"CASE _leaf {' '.join(cases)} END" if cases else "NULL"
            made.append(f"CAST({value} AS {type_name(type)}) AS s{slot}")
        return made
