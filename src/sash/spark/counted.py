"""The tuples of a plan's windows, counted by Spark: how often each tuple is in each pane.

    _leaf   which window of the plan, by its place
    _pane   the end of the pane
    _late   whether the tuples came too late
    s0, ..  the window's columns, where `leaves` has put them
    count

Whoever only asks which tuples there are, and how often, need not see them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame


def counted(tuples: DataFrame, late: Sequence[int], length: int, offset: int) -> pa.Table:
    """By panes of some length; `late` are the times before which a window's tuples are too late, by its place."""
    slots = [name for name in tuples.columns if not name.startswith("_")]
    bounds = " ".join(f"WHEN {place} THEN {time}" for place, time in enumerate(late))
    # The least multiple of the length, from the offset, that is not before the tuple.
    pane = f"_t + pmod({offset} - _t, {length})"
    rows = tuples.selectExpr("_leaf", f"{pane} AS _pane", f"_t < CASE _leaf {bounds} END AS _late", *slots)
    return rows.groupBy("_leaf", "_pane", "_late", *slots).count().toArrow().combine_chunks()
