"""Processor time of joins under SLIDE by the engine's own operators, eager and lazy (thesis 5.2.2, algorithm 4).

Streams of `RATE` tuples per second with `VALUES` join values, windows of `LENGTH` seconds, `EPOCHS` micro-batches per
second, one answer per second. Both ways give as many results.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.errors import SashError
from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Join, Node
from sash.plan.expressions import RowExpression
from sash.plan.lazy_joins import lazily
from sash.plan.outputs import Sampled
from sash.plan.rewrites import fuse_joins

RATE, VALUES, LENGTH, EPOCHS = 1_000, 1_000, 10, 10


def plans(inputs: int) -> dict[str, Node]:
    """The plans of a join of some windows, by the way in which they are evaluated."""
    first, *others = [_window(f"s{place}") for place in range(inputs)]
    join: Node = first
    for other in others:
        join = Join(join, other, ((f"{first.alias}.k", f"{other.alias}.k"),))
    eager = Sampled(fuse_joins(join), SECOND)
    lazy = lazily(eager)
    assert lazy is not None, "joins of windows are evaluated lazily"
    return {"eager": eager, "lazy": lazy}


def _window(name: str) -> BaseWindow:
    columns = (Column(f"{name}.k", RowExpression("k", pa.int64(), ("k",))),)
    return BaseWindow(name, name, TimeWindow(LENGTH * SECOND), columns)


def evaluate(plan: Node, inputs: int, seconds: int) -> tuple[float, int]:
    """Seconds of processor time, once the windows are full, and the results of these seconds of the streams."""
    chance, stage, state, span = np.random.default_rng(3), Stage(plan), State(), SECOND // EPOCHS
    spent, found, number = 0.0, 0, RATE // EPOCHS
    for epoch in range((LENGTH + seconds) * EPOCHS):
        low, arrived = epoch * span + 1, dict[int, Arrivals]()
        for place in range(inputs):
            keys = pa.array(chance.integers(0, VALUES, number))
            ts = np.sort(chance.integers(low, low + span, number))
            arrived[place] = Arrivals(pa.table([keys], schema=stage.schemas[place]), ts)
        begun = time.process_time()
        changes, state = stage.step(state, arrived, low, low + span)
        if epoch >= LENGTH * EPOCHS:
            spent, found = spent + time.process_time() - begun, found + len(changes)
    return spent, found


def compare(seconds: int) -> list[dict[str, Any]]:
    """Milliseconds of processor time per second of the streams, for joins of two windows and of three."""
    cells = []
    for inputs in (2, 3):
        every = dict[str, tuple[float, int]]()
        for name, plan in plans(inputs).items():
            # The kernels are compiled by a first run.
            evaluate(plan, inputs, 1)
            every[name] = evaluate(plan, inputs, seconds)
        results = {found for _, found in every.values()}
        if len(results) > 1:
            raise SashError(f"the evaluations differ in their results: {sorted(results)}")
        cells += [
            {"inputs": inputs, "evaluation": name, "ms_per_second": 1_000 * spent / seconds, "results": found}
            for name, (spent, found) in every.items()
        ]
    return cells
