"""Tuples that are too far ahead of all others (MAX JUMP d): a clock that is wrong must not close everybody's panes.

    time ──►   ●●●●●●│●●●  ●●●●●       ●●              ●
                     │            └ d ┘ left out, and so is everything behind
                     └ the stream has come so far, by tuples or by a heartbeat

In the order of time, tuples follow each other without a gap of more than d, from where the stream had come before the
micro-batch: so a backlog of many days is read in one, and one tuple of another century is not. In the first one, which
has nothing to follow, the gap is that behind most of its tuples.

It takes one more action per micro-batch, which reads timestamps and brings one row for each stretch of d with tuples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from sash.catalog import Stream
from sash.core.time import Micros
from sash.spark.lanes import event_micros


@dataclass(frozen=True)
class Stretches:
    """The tuples of a micro-batch by stretches of time: the first and the last of each, and how many there are."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    tuples: NDArray[np.int64]


@dataclass(frozen=True)
class Jumps:
    """The micro-batch without those that have jumped; how many these are, and the time of the first."""

    without: DataFrame
    tuples: int
    first: Micros


def jumps(batch: DataFrame, stream: Stream, reached: Micros | None) -> Jumps | None:
    """What is too far ahead in a micro-batch of a stream that has come so far; None where nothing is."""
    assert stream.max_jump is not None
    micros = event_micros(stream)
    # Also of rows that cannot be parsed: whether Spark can tell depends on the columns that it is asked for.
    timed = batch.selectExpr(f"{micros} AS _t").where("_t IS NOT NULL" if reached is None else f"_t > {reached}L")
    stretches = timed.groupBy(expr(f"_t - pmod(_t, {stream.max_jump}L)"))
    table = stretches.agg(expr("min(_t) AS a"), expr("max(_t) AS b"), expr("count(1) AS n")).toArrow()
    found = Stretches(*(np.asarray(table[name], dtype=np.int64) for name in ("a", "b", "n")))
    edge = last_without_gap(found, stream.max_jump, reached)
    beyond = found.first > edge
    if not beyond.any():
        return None
    kept = batch.where(f"coalesce({micros} <= {edge}L, TRUE)")
    return Jumps(kept, int(found.tuples[beyond].sum()), int(found.first[beyond].min()))


def last_without_gap(found: Stretches, longest: Micros, reached: Micros | None) -> Micros:
    """The time of the last tuple before the gap; none of the stretches is longer than a gap may be."""
    if not len(found.first):
        return 0 if reached is None else reached
    order = np.argsort(found.first)
    first, last, tuples = found.first[order], found.last[order], found.tuples[order]
    before = np.concatenate([[first[0] if reached is None else reached], last[:-1]])
    runs = np.cumsum(first - before > longest)
    followed = int(np.argmax(np.bincount(runs, tuples))) if reached is None else 0
    mine = last[runs <= followed]
    if len(mine):
        return int(mine[-1])
    assert reached is not None
    return reached
