"""Negation and intersection of two windows on keys (thesis 2.2.2), duplicate-preserving.

    needs   equal keys; any update patterns on both sides
    time    one pass over both buffers per epoch
    space   the live tuples of the left input, keys and expiries of the right

With v1 left and v2 right tuples of a key, negation shows v1 - v2 of the left ones (none if that is negative),
intersection the lesser of v1 and v2; the anti join shows all while v2 is 0, the semi join all while it is not.

The procedure of the thesis says which: a right arrival takes back the oldest result, a right expiry brings the
youngest left tuple that is not shown, a left arrival is shown if v1 > v2. So what is shown are at any time the
youngest live tuples, as many as the rule says, and nothing else need be stored. Printed as it is, the procedure breaks
its equation twice: a right expiry needs v1 > v2 (not >=), and the expiry of a left tuple that is not shown may take
back one that is. Both follow here from the counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import Changes
from sash.operators.base import Epoch
from sash.operators.keys import dense_codes
from sash.operators.lifetimes import Lifetimes, lifetimes
from sash.operators.matching_kernels import WITHOUT_MATCH, Int64s, _kernel_matching
from sash.operators.storing import Storing
from sash.state.state import Working


class MatchingOp:
    """`rule` is one of matching_kernels'. The right side comes with its key columns only."""

    def __init__(
        self,
        schema: pa.Schema,
        rule: int,
        keys: tuple[tuple[str, str], ...],
        sides: tuple[Storing, Storing],
        *,
        null_safe: bool,
        width: int,
    ) -> None:
        self.schema = schema
        self.width = width
        self._rule = rule
        self._keys = keys
        self._sides = sides
        self._null_safe = null_safe

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        buffers = [side.open(state) for side in self._sides]
        # Without keys one column stands for the row: a table must have one.
        right_keys = list(dict.fromkeys(other for _, other in self._keys)) or inputs[1].rows.schema.names[:1]
        arrived = (inputs[0], inputs[1].with_rows(inputs[1].rows.select(right_keys)))
        left, right = (lifetimes(buffer, changes) for buffer, changes in zip(buffers, arrived, strict=True))
        found = self._changes(left, right, epoch)
        for side, alive, buffer in zip(self._sides, (left, right), buffers, strict=True):
            alive.settle(buffer, epoch.high - 1)
            side.close(state, buffer)
        return found

    def _changes(self, left: Lifetimes, right: Lifetimes, epoch: Epoch) -> Changes:
        codes, others = self._codes(left, right)
        number = int(max(codes.max(initial=-1), others.max(initial=-1))) + 1
        ours = np.flatnonzero((left.before(epoch) | left.is_new) & (codes >= 0))
        ours = ours[np.lexsort((*left.tuples.ids[ours].T, left.tuples.ts[ours], codes[ours]))]
        theirs = np.flatnonzero((right.before(epoch) | right.is_new) & (others >= 0))
        ts, out = left.tuples.ts[ours], left.out[ours]
        came, came_starts = _by_key(others[theirs], right.tuples.ts[theirs], number)
        leaving = theirs[right.out[theirs] < epoch.high]
        went, went_starts = _by_key(others[leaving], right.out[leaving], number)
        times, places, signs = _kernel_matching(
            self._rule, _starts(codes[ours], number), ts, left.tuples.exp[ours], out, np.lexsort((out, codes[ours])),
            came_starts, came, went_starts, went, epoch.low, epoch.high,
        )  # fmt: skip
        shown = left.tuples.take(ours[places])
        return Changes(shown.rows, times, shown.exp, signs.astype(np.int8), shown.ids).in_order()

    def _codes(self, left: Lifetimes, right: Lifetimes) -> tuple[Int64s, Int64s]:
        """Keys of both sides. A left tuple with a NULL that equals nothing has a key of its own: it has no match."""
        if not self._keys:
            return np.zeros(len(left), dtype=np.int64), np.zeros(len(right), dtype=np.int64)
        names = ([one for one, _ in self._keys], [other for _, other in self._keys])
        ours, theirs = dense_codes((left.tuples.rows, right.tuples.rows), names, null_safe=self._null_safe)
        nameless = ours < 0
        if nameless.any():
            alone = int(max(ours.max(), theirs.max(initial=-1))) + 1
            ours = np.where(nameless, alone if self._rule == WITHOUT_MATCH else ours, ours)
        return ours, theirs


def _by_key(codes: Int64s, times: Int64s, number: int) -> tuple[Int64s, Int64s]:
    """Times in order of (key, time), and where each key begins."""
    order = np.lexsort((times, codes))
    return times[order], _starts(codes[order], number)


def _starts(codes: NDArray[np.int64], number: int) -> Int64s:
    return np.searchsorted(codes, np.arange(number + 1))
