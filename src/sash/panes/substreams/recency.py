"""Keys by stamp, newest first: the search structure beside each column of stamps.

The paper keeps a search tree per level. A stamp only ever grows, and that allows a flatter structure: the keys in order
at the time when the list was made, and a log of moves since.

    run     key      7    2    9    4  |  1    3          newer than pane 5 when it was made: a prefix, and still newer
            stamp   19   19   18    6  |  4    4          (the run ends at its floor, pane 3)
            surely  17    3   16    0  |  0    2          7 and 9 need no second look, see below
    moves   (3: 4 -> 8)   (7: 19 -> 20)   (1: 4 -> 5)   (1: 5 -> 6)
             crossed 5     newer before    not yet       crossed 5

The moves of one key follow each other (4 -> 5 -> 6), so exactly one of them crosses a threshold in between: no key is
found twice, and nothing has to be looked up by key. A key that is newer in level l + 2 as well is in the answer of
level l for certain; `surely` is that stamp. The stamp may have grown since, which costs only a check.

A list leaves out keys that are older than its floor, which lies somewhat further back than any look-up so far. The log
is merged into the run when reading the log has taken as long as a merge; a merge visits the R keys and panes above the
floor, so a look-up costs O(K_o + sqrt(u R)) on average, with u moves between two of them. The first look-up of a column
makes its list, in O(K), and the log is given up when it grows to a quarter of the keys.

Invariants: a run has the keys that were newer than its floor, once each; the log has every move since that ends above
the floor; filled < 0 says that a list must be made before it is read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

# Merging one key or pane takes as long as reading about this many moves.
_MERGE = 4
_LEAST_MOVES = 256


class Listing(NamedTuple):
    """The lists of some columns. `slots` says which column has which slot; all but the last two are by slot."""

    slots: NDArray[np.int32]
    keys: NDArray[np.int32]
    stamps: NDArray[np.int32]
    surely: NDArray[np.int32]
    sizes: NDArray[np.int64]
    floors: NDArray[np.int64]
    reaches: NDArray[np.int64]
    moves: NDArray[np.int32]
    filled: NDArray[np.int64]
    read: NDArray[np.int64]
    # Room for the keys of an answer, and zeros by key, both for use within a call.
    found: NDArray[np.int32]
    marks: NDArray[np.int32]


def empty_listing(columns: int, slots: int, keys: int) -> Listing:
    most = max(_LEAST_MOVES, keys // 4)
    return Listing(
        slots=np.full(columns, -1, dtype=np.int32),
        keys=np.empty((slots, keys), dtype=np.int32),
        stamps=np.empty((slots, keys), dtype=np.int32),
        surely=np.empty((slots, keys), dtype=np.int32),
        sizes=np.zeros(slots, dtype=np.int64),
        floors=np.zeros(slots, dtype=np.int64),
        reaches=np.zeros(slots, dtype=np.int64),
        moves=np.empty((slots, most, 3), dtype=np.int32),
        filled=np.full(slots, -1, dtype=np.int64),
        read=np.zeros(slots, dtype=np.int64),
        # One more than can be filled: a move that has not crossed is written and not counted.
        found=np.empty(keys + most + 1, dtype=np.int32),
        marks=np.zeros(keys, dtype=np.int32),
    )


def with_more_slots(listing: Listing, slots: int) -> Listing:
    more = empty_listing(0, slots, listing.keys.shape[1])
    pairs: Any = zip(listing[:-2], more[:-2], strict=True)
    return Listing._make([*map(np.concatenate, pairs), listing.found, listing.marks])


@numba.njit(cache=True, nogil=True)
def kernel_order(keys: Any, stamps: Any, floor: int, newest: int, sorted_keys: Any, sorted_stamps: Any) -> None:
    """Sorts keys by stamp, the newest first, by counting; every stamp lies between floor and newest."""
    starts = np.zeros(newest - floor + 1, dtype=np.int64)
    for i in range(keys.size):
        starts[newest - stamps[i] + 1] += 1
    for i in range(1, starts.size):
        starts[i] += starts[i - 1]
    for i in range(keys.size):
        place = starts[newest - stamps[i]]
        starts[newest - stamps[i]] += 1
        sorted_keys[place], sorted_stamps[place] = keys[i], stamps[i]


@numba.njit(cache=True, nogil=True)
def kernel_pick(stamps: Any, column: int, floor: int) -> Any:
    """The keys newer than a floor, with their stamps."""
    keys, theirs, count = np.empty(len(stamps), dtype=np.int32), np.empty(len(stamps), dtype=np.int32), 0
    for key in range(len(stamps)):
        if stamps[key, column] > floor:
            keys[count], theirs[count] = key, stamps[key, column]
            count += 1
    return keys[:count], theirs[:count]


@numba.njit(cache=True, nogil=True)
def kernel_merge(run_keys: Any, run_stamps: Any, moves: Any, floor: int, marks: Any) -> Any:
    """The keys of a run and its moves that are newer than a floor, with their stamps."""
    most, count = run_keys.size + len(moves), 0
    keys, theirs = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    for i in range(len(moves)):
        marks[moves[i, 0]] = i + 1
    for i in range(run_keys.size):
        if marks[run_keys[i]] == 0 and run_stamps[i] > floor:
            keys[count], theirs[count] = run_keys[i], run_stamps[i]
            count += 1
    for i in range(len(moves)):
        # Only a key's last move has its current place.
        if marks[moves[i, 0]] == i + 1:
            marks[moves[i, 0]] = 0
            if moves[i, 2] > floor:
                keys[count], theirs[count] = moves[i, 0], moves[i, 2]
                count += 1
    return keys[:count], theirs[:count]


@numba.njit(cache=True, nogil=True, inline="always")
def kernel_prefix(sorted_stamps: Any, outside: int) -> int:
    """How many stamps of a run are newer than a pane."""
    low, high = 0, sorted_stamps.size
    while low < high:
        middle = (low + high) // 2
        if sorted_stamps[middle] > outside:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True, inline="always")
def kernel_select(keys: Any, sorted_stamps: Any, surely: Any, moves: Any, outside: int, found: Any) -> Any:
    """Put certain keys at the beginning of `found` and uncertain ones at its end; returns where the parts are."""
    # Unsigned, so that no index has to be tested for being negative.
    certain, uncertain, one = np.uint64(0), np.uint64(found.size - 1), np.uint64(1)
    for i in range(kernel_prefix(sorted_stamps, outside)):
        if surely[i] > outside:
            found[certain] = keys[i]
            certain += one
        else:
            found[uncertain] = keys[i]
            uncertain -= one
    for i in range(len(moves)):
        # Without a branch: nobody can foresee which moves cross.
        found[uncertain] = moves[i, 0]
        uncertain -= np.uint64((moves[i, 1] <= outside) & (moves[i, 2] > outside))
    return np.int64(certain), np.int64(uncertain + one)


@numba.njit(cache=True, nogil=True)
def kernel_freshen(listing: Any, stamps: Any, column: int, outside: int, forgotten: int, newest: int) -> None:
    """Makes a column's list, or merges its log into its run."""
    slot = listing.slots[column]
    made, floor = listing.filled[slot] >= 0, listing.floors[slot]
    run_keys, run_stamps, surely = listing.keys[slot], listing.stamps[slot], listing.surely[slot]
    # Panes come unevenly, so the next window of the same length may have some more.
    reach = newest - outside + (newest - outside) // 4 + 8
    listing.reaches[slot] = max(reach, listing.reaches[slot]) if made else reach
    if not made or outside < floor:
        floor = max(newest - listing.reaches[slot], forgotten)
        keys, theirs = kernel_pick(stamps, column, floor)
    else:
        floor = max(newest - listing.reaches[slot], floor, forgotten)
        size, moves = listing.sizes[slot], listing.moves[slot, : listing.filled[slot]]
        keys, theirs = kernel_merge(run_keys[:size], run_stamps[:size], moves, floor, listing.marks)
    kernel_order(keys, theirs, floor, newest, run_keys, run_stamps)
    # A key in column 0 was seen for certain.
    beyond = column + 2 if column > 0 else 0
    for i in range(keys.size):
        surely[i] = stamps[run_keys[i], beyond] if beyond < stamps.shape[1] else 0
    listing.sizes[slot], listing.floors[slot], listing.filled[slot], listing.read[slot] = keys.size, floor, 0, 0


@numba.njit(cache=True, nogil=True, inline="always")
def kernel_newer(listing: Any, stamps: Any, column: int, outside: int, forgotten: int, newest: int) -> Any:
    """The keys whose stamp in a column with a slot is newer than a pane, in the two parts of `listing.found`."""
    slot = listing.slots[column]
    filled, floor = listing.filled[slot], listing.floors[slot]
    listing.read[slot] += filled
    due = listing.read[slot] > _MERGE * (listing.sizes[slot] + newest - floor)
    if due or filled < 0 or outside < floor:
        kernel_freshen(listing, stamps, column, outside, forgotten, newest)
    size, moves = listing.sizes[slot], listing.moves[slot, : listing.filled[slot]]
    keys, sorted_stamps, surely = listing.keys[slot, :size], listing.stamps[slot, :size], listing.surely[slot, :size]
    return kernel_select(keys, sorted_stamps, surely, moves, outside, listing.found)


newer = kernel_newer
