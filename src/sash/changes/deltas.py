"""Istream and Dstream (CQL; thesis 2.1.3): rows of a relation that are new since one time unit before, or gone.

DuplicatesOp gives the new rows of a relation that says itself how often it has each row.

    needs   any update pattern
    time    one pass over the live rows per epoch
    space   the live rows: natural expiries count as well as negative tuples

The difference of a row's multiplicities after and before an instant says how many of it are new or gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sash.changes.bucket_state import WorkingState
from sash.changes.join import Int64s
from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import Lifetimes, lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import NEVER, Changes, UpdatePattern
from sash.plan.outputs import ISTREAM


def net(changes: Changes) -> Changes:
    """Changes without pairs that cancel each other."""
    if not (changes.sign < 0).any():
        return changes
    doubtful = np.flatnonzero(
        np.isin(changes.ts, np.intersect1d(changes.ts[changes.sign < 0], changes.ts[changes.sign > 0]))
    )
    if not len(doubtful):
        return changes
    some = changes.take(doubtful)
    rows = some.rows.append_column("_ts", pa.array(some.ts)).append_column("_exp", pa.array(some.exp))
    (codes,) = dense_codes([rows], [rows.schema.names], null_safe=True)
    order = np.lexsort((some.sign, codes))
    starts = np.searchsorted(codes[order], codes[order])
    rank = np.arange(len(order)) - starts
    negatives = np.bincount(codes, weights=some.sign < 0, minlength=len(codes)).astype(np.int64)[codes[order]]
    sizes = np.bincount(codes, minlength=len(codes))[codes[order]]
    pairs = np.minimum(negatives, sizes - negatives)
    # A row's negative changes come first: `pairs` of them go, and as many of the positive ones.
    cancelled = (rank < pairs) | ((rank >= negatives) & (rank < negatives + pairs))
    keep = np.ones(len(changes), dtype=np.bool_)
    keep[doubtful[order[cancelled]]] = False
    return changes.where(keep)


class DeltasOp:
    """An input that never ends needs no memory: all of it is new, and nothing is ever gone."""

    def __init__(self, schema: pa.Schema, kind: str, storing: StoredInput, width: int) -> None:
        self.schema = schema
        self.width = width
        self._sign = 1 if kind == ISTREAM else -1
        self._storing = storing

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (arrived,) = inputs
        if self._storing.pattern is UpdatePattern.MONOTONIC:
            found = arrived if self._sign > 0 else Changes.none(self.schema)
            return appended(found.rows, found.ts, state, self._storing.name, self.width)
        buffer = self._storing.open(state)
        alive = lifetimes(buffer, arrived)
        places, times = self._changed(alive, epoch)
        alive.settle(buffer, epoch.high - 1)
        self._storing.close(state, buffer)
        order = np.argsort(times, kind="stable")
        rows = alive.tuples.rows.take(pa.array(places[order]))
        return appended(rows, times[order], state, self._storing.name, self.width)

    def _changed(self, alive: Lifetimes, epoch: Epoch) -> tuple[Int64s, Int64s]:
        """Places of rows whose number grew (or shrank), each repeated by the difference, and when."""
        (codes,) = dense_codes([alive.tuples.rows], [self.schema.names], null_safe=True)
        came, went = alive.arrivals(), alive.departures(epoch)
        places = np.concatenate([came, went])
        times = np.concatenate([alive.tuples.ts[came], alive.out[went]])
        steps = np.repeat(np.array([1, -1]), [len(came), len(went)])
        order = np.lexsort((times, codes[places]))
        places, times, steps = places[order], times[order], steps[order]
        begins = (np.diff(codes[places], prepend=-1) != 0) | (np.diff(times, prepend=-1) != 0)
        firsts = np.flatnonzero(begins)
        if not len(firsts):
            return places, times
        number = np.maximum(self._sign * np.add.reduceat(steps, firsts), 0)
        return np.repeat(places[firsts], number), np.repeat(times[firsts], number)


class DuplicatesOp:
    """Gives a row again for each copy by which its number of copies grows at an instant.

    needs   copies that never become fewer
    time    one sort of the epoch's changes, and the rows that come
    space   nothing
    """

    def __init__(self, schema: pa.Schema, copies: str, name: str, width: int) -> None:
        self.schema = schema
        self.width = width
        self._copies = copies
        self._name = name

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (changes,) = inputs
        rows = changes.rows.select(self.schema.names)
        (codes,) = dense_codes([rows], [self.schema.names], null_safe=True)
        order = np.lexsort((codes, changes.exp, changes.ts))
        sorted_by = np.stack([changes.ts, changes.exp, codes])[:, order]
        firsts = np.flatnonzero((np.diff(sorted_by, prepend=-1) != 0).any(axis=0))
        copies = np.asarray(changes.rows[self._copies], dtype=np.int64) * changes.sign
        more = np.add.reduceat(copies[order], firsts) if len(firsts) else copies
        places = np.repeat(order[firsts], more)
        found = appended(rows.take(pa.array(places)), changes.ts[places], state, self._name, self.width)
        return replace(found, exp=changes.exp[places])


def appended(rows: pa.Table, ts: Int64s, state: WorkingState, name: str, width: int) -> Changes:
    """Rows that appear and never end, with new ids where ids are needed."""
    number = len(ts)
    ids = np.zeros((number, width), dtype=np.int64)
    if width:
        ids[:, 0] = state.numbers(name, number)
    return Changes(rows, ts, np.full(number, NEVER, dtype=np.int64), np.ones(number, dtype=np.int8), ids)
