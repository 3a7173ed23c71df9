"""The update of CI-COUNT and CI-SUM: which pane each level of a substream stands for, after more units have come.

`stamps[key]` is a row of pane numbers: column 0 is the pane in which the key was last seen, column 1 + l is
TSTAMP[key, l] of the paper, 0 where nothing is stored. `lengths[key]` is m, the units so far.

The paper's update brings one unit. Here a pane brings `amount` units at once, all with the pane's number, and
the row goes from m to m + amount in one step. For each class c in which m + p passes a multiple of 2^c, say n of them:

    p = 4, c = 3, m = 70      r    0    1    2    3      positions of the units (the row keeps their panes)
    before                      | 40 | 32 | 24 | 16 |
    after 15 more,    n = 2     | 56 | 48 | 40 | 32 |    from r - n where there is one; 56 and 48 are older than this
                                                         pane as well, and a level of a lower class stood for them
    after 40 more,    n = 5     | 80 | 72 | 64 | 56 |    80 and 72 are past m: they come with this pane

No class beyond the highest bit in which m + p and m + amount + p differ is touched: p (log2 amount + 2) levels on
average, never `amount` of them. Classes go from the highest to the lowest, so that what is copied is still old.

Lengths are kept modulo 2^62. Only their lower bits and differences matter, so a sum may grow for ever.

A changed stamp is noted in the log of moves of its column, if the column is listed (see `recency`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

LENGTH_BITS = 62
_MASK = (1 << LENGTH_BITS) - 1


@numba.njit(cache=True, nogil=True)
def _kernel_note(slot: int, key: int, old: int, stamp: int, floors: Any, moves: Any, filled: Any) -> None:
    """Writes a move into the log of a list, unless the list has been given up or does not go down so far."""
    if filled[slot] < 0 or stamp <= floors[slot]:
        return
    if filled[slot] == moves.shape[1]:
        # So many moves since the list was made: making it anew will be cheaper, if it is ever asked for.
        filled[slot] = -1
        return
    moves[slot, filled[slot], 0] = key
    moves[slot, filled[slot], 1] = old
    moves[slot, filled[slot], 2] = stamp
    filled[slot] += 1


# Inlined, because for one tuple the passing of so many arrays would take as long as the work.
@numba.njit(cache=True, nogil=True, inline="always")
def _kernel_advance(key: int, amount: int, pane: int, p: int, lengths: Any, stamps: Any, listing: Any) -> int:
    """One key's row goes from m to m + amount; how many levels it had to look at."""
    m, row, slots = lengths[key], stamps[key], listing.slots
    floors, moves, filled = listing.floors, listing.moves, listing.filled
    if slots[0] >= 0 and row[0] != pane:
        _kernel_note(slots[0], key, row[0], pane, floors, moves, filled)
    row[0] = pane
    before, after = m + p, m + amount + p
    classes, top = (row.size - 1) // p, 0
    while top < classes and before >> top != after >> top:
        top += 1
    for c in range(top - 1, -1, -1):
        n = (after >> c) - (before >> c)
        source = c - 1
        for r in range(p - 1, -1, -1):
            column = 1 + c * p + r
            if r >= n:
                stamp = row[column - n]
            else:
                position = ((after >> c) - p - r) << c
                stamp = np.int32(pane)
                if position <= m:
                    # As in `Levels.of`; the positions only get newer, so `source` only goes down.
                    shifted = m - position + p
                    while shifted >> source < p:
                        source -= 1
                    stamp = row[1 + source * p + (shifted >> source) - p]
            if slots[column] >= 0 and row[column] != stamp:
                _kernel_note(slots[column], key, row[column], stamp, floors, moves, filled)
            row[column] = stamp
    lengths[key] = (m + amount) & _MASK
    return top * p


@numba.njit(cache=True, nogil=True)
def _kernel_update(keys: Any, amounts: Any, pane: int, p: int, lengths: Any, stamps: Any, listing: Any) -> int:
    """All keys of a pane; how many levels it had to look at, or -1 where a key outgrows the levels that there are."""
    visited, classes = 0, (stamps.shape[1] - 1) // p
    for i in range(keys.size):
        if (lengths[keys[i]] + amounts[i] + p) >> classes > p:
            return -1
        visited += _kernel_advance(keys[i], amounts[i], pane, p, lengths, stamps, listing)
    return visited


update_stamps, advance = _kernel_update, _kernel_advance
