"""A relation as of the multiples of SLIDE (thesis 3.3.4): time goes in steps.

    ──┬───────────┬───────────┬──►        a row that lives from ts to exp is seen from the first multiple at or
      m    ts     m           m           after ts up to the first at or after exp; if these are one and the same,
           ├──────────────┤exp            it is never seen. With `restore` it is seen at that one multiple.
                  ├═══════════┤

    time    one pass over the changes of an epoch
    space   the changes since the last multiple

A change between two multiples waits for the second. A row may come and go several times in between: of all changes of
one row, known by its ids, only the difference counts.

Under lazy evaluation (plan/lazy_joins.py) epochs end at multiples and nothing waits here. Without restore, windows are
seen as of the multiples before they are joined (`SeenWindowOp`).

In a divided join (operator.py) each task lets its own results wait, and shows a part of the results that waited before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.buffers import Chunk, Fifo
from sash.changes.deltas import appended
from sash.changes.join import Int64s
from sash.changes.lifetimes import in_sequence, lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.changes.stateless import TimeWindowOp
from sash.core.changes import NEVER, Changes
from sash.plan.outputs import Sampled, Snapshots


@dataclass(frozen=True)
class Multiples:
    slide: int
    offset: int

    def after(self, times: Any) -> Int64s:
        """The first multiples that are not before some instants."""
        later = self.offset - (self.offset - times) // self.slide * self.slide
        return np.where(times == NEVER, NEVER, later)


class SampledOp:
    def __init__(self, node: Sampled, path: str, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._multiples, self._restore, self._slide = Multiples(node.slide, node.offset), node.restore, node.slide
        # A chunk has no signs: positive and negative changes wait apart.
        self._names = (f"{path}.come", f"{path}.back")

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        signs = [inputs[0].where(inputs[0].sign == sign) for sign in (1, -1)]
        ready = [self._ready(name, new, state, epoch) for name, new in zip(self._names, signs, strict=True)]
        ready[1] = replace(ready[1], sign=-ready[1].sign)
        return self._seen(in_sequence(ready)).in_order()

    def _ready(self, name: str, new: Changes, state: WorkingState, epoch: Epoch) -> Changes:
        """The changes that the multiples of the epoch show; the others wait. All changes have the sign + here."""
        new = replace(new, sign=np.ones(len(new), dtype=np.int8))
        buffer = Fifo(state.chunks(name))
        # Chunks without a multiple in the epoch stay as they are.
        due = [chunk for chunk in buffer.chunks if self._multiples.after(chunk.tuples.ts.min()) < epoch.high]
        buffer.chunks = [chunk for chunk in buffer.chunks if chunk not in due]
        every = in_sequence([*(chunk.tuples for chunk in due), new])
        ready = self._multiples.after(every.ts) < epoch.high
        if epoch.share.of == 1:
            buffer.add(every.where(~ready))
            state.store(name, buffer.chunks)
            return every.where(ready)
        found_here = np.arange(len(every)) >= len(every) - len(new)
        buffer.add(every.where(~ready & ~found_here))
        state.store(name, buffer.chunks)
        waits = every.where(~ready & found_here)
        if len(waits):
            state.add_own(name, Chunk(waits))
        return every.where(ready & (found_here | epoch.share.part(len(every))))

    def _seen(self, changes: Changes) -> Changes:
        at, exp = self._multiples.after(changes.ts), self._multiples.after(changes.exp)
        shown, short = np.ones(len(at), dtype=np.bool_), np.zeros(len(at), dtype=np.bool_)
        if (changes.sign < 0).any():
            shown, short = _differences(changes, at)
        if self._restore:
            short |= (changes.sign > 0) & (exp <= at)
            exp = np.where(short, at + self._slide, exp)
            shown |= short
        kept = shown & (exp > at)
        found = changes.where(kept)
        return Changes(found.rows, at[kept], exp[kept], found.sign, found.ids[:, : self.width])


class SeenWindowOp:
    """A time-based window as the multiples see it, for algorithm 4 of the thesis; no tuple waits."""

    def __init__(self, window: TimeWindowOp, node: Sampled) -> None:
        self.schema = window.schema
        self.width = window.width
        self._window = window
        self._multiples = Multiples(node.slide, node.offset)

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        tuples = self._window.step(inputs, state, epoch)
        seen = replace(tuples, ts=self._multiples.after(tuples.ts), exp=self._multiples.after(tuples.exp))
        return seen.where(seen.ts < seen.exp)


class SnapshotsOp:
    """Every row at every multiple at which it is alive. It stores the live rows."""

    def __init__(self, node: Snapshots, storing: StoredInput, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._multiples, self._slide = Multiples(node.slide, node.offset), node.slide
        self._storing = storing

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffer = self._storing.open(state)
        alive = lifetimes(buffer, inputs[0])
        first, end = (self._multiples.after(np.array([time])) for time in (epoch.low, epoch.high))
        starts = np.maximum(self._multiples.after(alive.tuples.ts), first)
        ends = np.minimum(self._multiples.after(alive.out), end)
        number = np.maximum(ends - starts, 0) // self._slide
        places = np.repeat(np.arange(len(alive)), number)
        nth = np.arange(len(places)) - np.repeat(np.cumsum(number) - number, number)
        times = starts[places] + nth * self._slide
        order = np.argsort(times, kind="stable")
        alive.settle(buffer, epoch.high - 1)
        self._storing.close(state, buffer)
        rows = alive.tuples.rows.take(pa.array(places[order]))
        return appended(rows, times[order], state, self._storing.name, self.width)


def _differences(changes: Changes, at: Int64s) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which changes make up the difference between a row before and after a multiple, and which came and went.

    The changes of one row alternate: if the first and the last at a multiple are alike, the last is the difference.
    """
    order = np.lexsort((changes.sign, changes.ts, at, *changes.ids.T))
    keys = np.column_stack([changes.ids[order], at[order]])
    same = np.append((keys[1:] == keys[:-1]).all(axis=1), False)
    last = np.flatnonzero(~same)
    first = np.append(0, last[:-1] + 1)
    sign = changes.sign[order]
    shown, short = np.zeros(len(order), dtype=np.bool_), np.zeros(len(order), dtype=np.bool_)
    shown[order[last[sign[first] == sign[last]]]] = True
    short[order[same & (sign > 0)]] = True
    return shown, short
