"""Duplicate elimination over a sliding window, in the thesis' three ways (2.2.2, 3.2.2, 3.5.2).

    DeltaStarOp          needs an input without negative tuples; stores per value what stands for it and the duplicate
                         that expires last: at most twice the output. Output WEAK.
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
from sash.operators.distinct_kernels import _kernel_changes_of_presence, _kernel_delta_star
from sash.operators.identities import Identities
from sash.operators.keys import Codes, dense_codes
from sash.operators.lifetimes import in_sequence, lifetimes
from sash.operators.storing import Storing
from sash.state import Fifo
from sash.state.state import Working


class DeltaStarOp:
    """Delta-star. Its two buffers are made anew in every epoch: they are as small as the answer."""

    def __init__(self, schema: pa.Schema, name: str, width: int) -> None:
        self.schema = schema
        self.width = width
        self._shown, self._spare = f"{name}.shown", f"{name}.spare"

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        kept = [Fifo(state.chunks(name)).tuples() for name in (self._shown, self._spare)]
        shown, spare = (parts[0] if parts else Changes.none(self.schema, self.width) for parts in kept)
        new = inputs[0].take(np.lexsort((-inputs[0].exp, inputs[0].ts)))
        parts = (shown, spare, new)
        codes = dense_codes([part.rows for part in parts], [self.schema.names] * 3, null_safe=True)
        every = in_sequence(parts)
        standing = np.full(int(max((part.max(initial=-1) for part in codes), default=-1)) + 1, -1, dtype=np.int64)
        second = standing.copy()
        standing[codes[0]] = np.arange(len(shown))
        second[codes[1]] = np.arange(len(spare)) + len(shown)
        # What is stored has been seen: it must not count as arriving.
        ts = every.ts.copy()
        ts[: len(shown) + len(spare)] = epoch.low - 1
        places, times = _kernel_delta_star(
            np.concatenate(codes), ts, every.exp, standing, second, epoch.low, epoch.high
        )
        for name, stays in ((self._shown, standing), (self._spare, second)):
            _keep(state, name, every.take(np.sort(stays[stays >= 0])))
        appeared = every.take(places)
        return Changes(appeared.rows, times, appeared.exp, appeared.sign, appeared.ids).in_order()


class PlainDistinctOp:
    """The weak version that stores input and output."""

    def __init__(self, schema: pa.Schema, storing: Storing, width: int) -> None:
        self.schema = schema
        self.width = width
        self._storing = storing
        self._shown = f"{storing.name}.shown"

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffer, new = self._storing.open(state), inputs[0].take(np.lexsort((-inputs[0].exp, inputs[0].ts)))
        shown = [*Fifo(state.chunks(self._shown)).tuples(), Changes.none(self.schema, self.width)][0]
        stored = in_sequence([Changes.none(self.schema, self.width), *buffer.tuples()])
        parts = (shown, stored, new)
        codes = dense_codes([part.rows for part in parts], [self.schema.names] * 3, null_safe=True)
        standing = np.full(int(max(part.max(initial=-1) for part in codes)) + 1, -1, dtype=np.int64)
        standing[codes[0]] = np.arange(len(shown))
        spare = _latest(codes[1], stored.exp, shown.exp, standing, len(shown))
        every, ts = in_sequence(parts), np.concatenate([shown.ts, stored.ts, new.ts])
        ts[: len(shown) + len(stored)] = epoch.low - 1
        places, times = _kernel_delta_star(np.concatenate(codes), ts, every.exp, standing, spare, epoch.low, epoch.high)
        _keep(state, self._shown, every.take(np.sort(standing[standing >= 0])))
        buffer.add(new)
        buffer.expire(epoch.high - 1)
        self._storing.close(state, buffer)
        appeared = every.take(places)
        return Changes(appeared.rows, times, appeared.exp, appeared.sign, appeared.ids).in_order()


def _latest(codes: Codes, exp: Codes, shown_exp: Codes, standing: Codes, offset: int) -> Codes:
    """For every value the stored duplicate that expires last, if it outlives what stands for the value."""
    spare = np.full(len(standing), -1, dtype=np.int64)
    order = np.argsort(exp, kind="stable")
    spare[codes[order]] = order
    found = spare >= 0
    lasting = np.zeros(len(spare), dtype=np.bool_)
    lasting[found] = exp[spare[found]] > shown_exp[standing[found]]
    return np.where(lasting, spare + offset, -1)


def _keep(state: Working, name: str, tuples: Changes) -> None:
    buffer = Fifo()
    buffer.add(tuples)
    state.store(name, buffer.chunks)


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
