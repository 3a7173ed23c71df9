"""One job over a micro-batch for all the plans that read its stream: each gets the tuples of its windows, as Arrow.

    micro-batch ──► event time ──► observed: rows, latest time, bad rows ──► every window's tuples ──► Arrow
                                                                          windows that are alike: once

What is observed on the way is all that a micro-batch needs when no pane table wants partials of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation
from pyspark.sql.functions import expr

from sash.catalog import Stream
from sash.spark.lanes import CORRUPT_COLUMN, NULL_TIMESTAMP_PANE, UNPARSABLE_PANE
from sash.spark.leaves import LeafLayout, Leaves, overlaid, timed

# In files. Tuples of so many bytes fit into the Sash process, whatever their windows select.
_FEW_BYTES = 32 * 2**20


def seems_small(batch: DataFrame, *, unknown: bool) -> bool:
    """By the size of its files that Spark knows; `unknown` is the answer for other sources."""
    try:
        size = int(batch._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    except Exception:
        return unknown
    return size <= _FEW_BYTES if size < 2**62 else unknown


@dataclass(frozen=True)
class Scanned:
    """`tuples` in the layout of each plan; `facts` is what the pass over no pane tables would have given."""

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

    def collect(self, batch: DataFrame) -> Scanned:
        seen = Observation()
        rows = timed(batch, self._stream).observe(seen, *map(expr, _facts(CORRUPT_COLUMN in batch.columns)))
        table = overlaid(rows, self._readings, self._layout).toArrow()
        return Scanned([self._of(number, table) for number in range(len(self._plans))], _as_pass(seen.get))

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
    """Few and short: Spark interprets them, row by row."""
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
