"""Duplicate elimination over a sliding window, in the thesis' three ways (2.2.2, 3.2.2, 3.5.2).

    DeltaStarOp          (delta_star.py) needs an input without negative tuples; stores per value what stands for it and
                         the duplicate that expires last: at most twice the output. Output WEAK.
    PlainDistinctOp      stores its whole input and its output, and looks through the input when a result expires: the
                         direct approach. The same output as delta-star.
    CountingDistinctOp   for STRICT inputs; counts each value. A value stays as long as one like it does, so its
                         expiry is unknown. Output STRICT.

The thesis lets delta-star keep the youngest duplicate; over WEAK inputs that one may expire before an older one, and
the value would be missing. The one that expires last is right for both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.core.changes import NEVER, Changes
from sash.operators.base import Epoch
from sash.operators.delta_star import oldest_first
from sash.operators.distinct_kernels import GONE, _kernel_changes_of_presence, _kernel_delta_star
from sash.operators.identities import Identities
from sash.operators.keys import Codes, dense_codes
from sash.operators.lifetimes import in_sequence, lifetimes
from sash.operators.storing import Storing
from sash.state import Fifo
from sash.state.state import Working


class PlainDistinctOp:
    """The weak version that stores input and output."""

    def __init__(self, schema: pa.Schema, storing: Storing, width: int) -> None:
        self.schema = schema
        self.width = width
        self._storing = storing
        self._shown = f"{storing.name}.shown"

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffer, new = self._storing.open(state), oldest_first(inputs[0])
        standing = [*Fifo(state.chunks(self._shown)).tuples(), Changes.none(self.schema, self.width)][0]
        stored = in_sequence([Changes.none(self.schema, self.width), *buffer.tuples()])
        parts = (standing, stored, new)
        codes = dense_codes([part.rows for part in parts], [self.schema.names] * 3, null_safe=True)
        shown = np.full(int(max(part.max(initial=-1) for part in codes)) + 1, GONE, dtype=np.int64)
        shown[codes[0]] = standing.exp
        spare, spare_exp = _latest(codes[1], stored.exp, shown)
        first, expiring = len(stored), np.flatnonzero((shown < epoch.high) & (shown > GONE))
        places, times = _kernel_delta_star(
            codes[2], new.ts, new.exp, expiring, shown, spare, spare_exp, first, epoch.high
        )
        found = in_sequence((stored, new)).take(places)
        appeared = Changes(found.rows, times, found.exp, found.sign, found.ids).in_order()
        self._keep(state, in_sequence((standing, appeared)), epoch)
        buffer.add(new)
        buffer.expire(epoch.high - 1)
        self._storing.close(state, buffer)
        return appeared

    def _keep(self, state: Working, appeared: Changes, epoch: Epoch) -> None:
        """What has appeared stands until it expires."""
        shown = Fifo()
        shown.add(appeared.where(appeared.exp >= epoch.high))
        state.store(self._shown, shown.chunks)


def _latest(codes: Codes, exp: Codes, shown: Codes) -> tuple[Codes, Codes]:
    """For every value the stored duplicate that expires last, if it outlives what stands for the value."""
    spare, spare_exp = np.full(len(shown), -1, dtype=np.int64), np.full(len(shown), GONE, dtype=np.int64)
    order = np.argsort(exp, kind="stable")
    spare[codes[order]], spare_exp[codes[order]] = order, exp[order]
    dead = (shown == GONE) | (spare_exp <= shown)
    spare[dead], spare_exp[dead] = -1, GONE
    return spare, spare_exp


class CountingDistinctOp:
    """Multiplicities: a value appears when its count leaves 0 and is taken back when it returns to 0."""

    def __init__(self, schema: pa.Schema, storing: Storing, width: int) -> None:
        self.schema = schema
        self.width = width
        self._storing = storing
        self._identities = Identities(f"{storing.name}.shown", schema)

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffer = self._storing.open(state)
        alive = lifetimes(buffer, inputs[0])
        (codes,) = dense_codes([alive.tuples.rows], [self.schema.names], null_safe=True)
        came, went = alive.arrivals(), alive.departures(epoch)
        present = np.bincount(codes[alive.before(epoch)], minlength=int(codes.max(initial=-1)) + 1).astype(np.int64)
        places = np.concatenate([came, went])
        times = np.concatenate([alive.tuples.ts[came], alive.out[went]])
        steps = np.repeat(np.array([1, -1]), [len(came), len(went)])
        order = np.lexsort((times, codes[places]))
        places, times = places[order], times[order]
        at, signs = _kernel_changes_of_presence(codes[places], times, steps[order], present)
        alive.settle(buffer, epoch.high - 1)
        self._storing.close(state, buffer)
        rows, exp = alive.tuples.rows.take(pa.array(places[at])), np.full(len(at), NEVER, dtype=np.int64)
        found = Changes(rows, times[at], exp, signs.astype(np.int8), np.zeros((len(at), 0), dtype=np.int64))
        return (self._identities.named(found, state) if self.width else found).in_order()
