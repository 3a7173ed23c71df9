"""An epoch of a window join of two inputs, by the operator with its Numba kernel and by Arrow's hash join.

Both get the same stored and new tuples and give the same results: each pair with a new tuple once, with the time at
which it appears and the one at which it expires, in order of appearance. Arrow joins new tuples of the left with all of
the right, and old ones of the left with the new ones of the right, and leaves out pairs that were never alive together;
it may use all cores, the kernel uses one. The operator also keeps its state for the next epoch, which Arrow's side need
not do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.changes.bucket_state import State, WorkingState
from sash.changes.join import WindowJoinOp
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import Changes, UpdatePattern

# Tuples stored and new on either side, and join values; windows are as long as all that is stored takes to come.
SIZES = ((1_000, 100), (10_000, 1_000), (100_000, 10_000), (1_000_000, 50_000))
PARTNERS = 5
SIDES = ("l", "r")


@dataclass(frozen=True)
class Case:
    """The stored and the new tuples of either side; instants are numbers of tuples."""

    stored: list[Changes]
    new: list[Changes]
    epoch: Epoch

    @classmethod
    def of(cls, stored: int, new: int, seed: int = 0) -> Case:
        chance, low = np.random.default_rng(seed), stored
        values = max(1, stored // PARTNERS)
        parts: list[list[Changes]] = [[], []]
        for name in SIDES:
            for part, (first, last) in zip(parts, ((0, stored), (stored, stored + new)), strict=True):
                ts = np.arange(first, last, dtype=np.int64)
                columns = {f"{name}.k": chance.integers(0, values, len(ts)), f"{name}.v": ts}
                ones, ids = np.ones(len(ts), dtype=np.int8), np.zeros((len(ts), 0), dtype=np.int64)
                part.append(Changes(pa.table(columns), ts, ts + stored, ones, ids))
        return cls(parts[0], parts[1], Epoch(low, stored + new))


def by_operator(case: Case) -> Callable[[], Changes]:
    """One step, from a state that stays as it is."""
    sides = (StoredInput("l", UpdatePattern.WEAKEST, 1), StoredInput("r", UpdatePattern.WEAKEST, 1))
    schema = pa.schema([field for part in case.new for field in part.rows.schema])
    operator = WindowJoinOp(schema, (("l.k", "r.k"),), sides, width=0)
    filled = WorkingState(State())
    for side, tuples in zip(sides, case.stored, strict=True):
        buffer = side.open(filled)
        buffer.add(tuples)
        side.close(filled, buffer)
    state = filled.finished()
    return lambda: operator.step(case.new, WorkingState(state), case.epoch)


def by_arrow(case: Case) -> Callable[[], pa.Table]:
    stored, new = ([_table(part, name) for part, name in zip(parts, SIDES, strict=True)]
                   for parts in (case.stored, case.new))  # fmt: skip

    def step() -> pa.Table:
        all_right = pa.concat_tables([stored[1], new[1]])
        pairs = [left.join(right, "l.k", "r.k", join_type="inner", coalesce_keys=False)
                 for left, right in ((new[0], all_right), (stored[0], new[1]))]  # fmt: skip
        found = pa.concat_tables([pair.select(pairs[0].column_names) for pair in pairs])
        start = pc.max_element_wise(found["l.ts"], found["r.ts"])
        exp = pc.min_element_wise(found["l.exp"], found["r.exp"])
        rows = found.select(["l.k", "l.v", "r.k", "r.v"]).append_column("_ts", start).append_column("_exp", exp)
        return rows.filter(pc.less(start, exp)).sort_by("_ts")

    return step


def _table(part: Changes, name: str) -> pa.Table:
    times = pa.table({f"{name}.ts": part.ts, f"{name}.exp": part.exp})
    return pa.table([*part.rows.columns, *times.columns], names=[*part.rows.column_names, *times.column_names])


def compare(repeats: int, sizes: tuple[tuple[int, int], ...] = SIZES) -> list[dict[str, Any]]:
    """Medians of wall and processor time in milliseconds, by turns."""
    cells = []
    for stored, new in sizes:
        case = Case.of(stored, new)
        steps: dict[str, Callable[[], Changes | pa.Table]] = {"numba": by_operator(case), "arrow": by_arrow(case)}
        results = {name: len(step()) for name, step in steps.items()}
        assert len(set(results.values())) == 1, results
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in steps}
        for _ in range(repeats):
            for name, step in steps.items():
                begun = time.perf_counter(), time.process_time()
                step()
                times[name].append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
        for name, taken in times.items():
            wall, processor = (1e3 * float(np.median(each)) for each in zip(*taken, strict=True))
            cells.append({"by": name, "stored": stored, "new": new, "results": results[name], "ms": wall,
                          "processor_ms": processor})  # fmt: skip
    return cells
