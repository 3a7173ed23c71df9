"""Frequent items over a sliding window from short lists (thesis chapter 6, Algorithm 6 "Frequent").

Every sub-window is counted exactly while it is filled; when it closes, only its k most frequent items stay. The sum of
the k-th counts is delta; items whose listed counts exceed delta are reported.

Invariants: a reported count is at most the true one, and greater than delta, so there is never a false positive; an
item on no list occurs at most delta times. There may be false negatives: items that are on too few lists.

Where the thesis says nothing: the k-th count of a sub-window with fewer than k distinct items is 0, and of equal counts
the lesser item is the more frequent one. `report` works before the first full window, too.

This is the algorithm by itself, over codes. Queries have it in `sash.panes.list_panes` and `item_lists.Frequent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Lists up to this length are sorted by insertion; longer ones as a whole.
LONGEST_INSERTED = 64


@numba.njit(cache=True, nogil=True)
def kernel_top(counts: Any, places: Any) -> int:
    # `places` is filled in descending order of count. An equal count further on never moves an earlier one.
    filled = 0
    for i in range(counts.size):
        if counts[i] <= 0 or (filled == places.size and counts[i] <= counts[places[filled - 1]]):
            continue
        at = filled if filled < places.size else filled - 1
        filled = at + 1
        while at > 0 and counts[places[at - 1]] < counts[i]:
            places[at] = places[at - 1]
            at -= 1
        places[at] = i
    return filled


def sorted_top(counts: Any, places: Any) -> int:
    """As `kernel_top`, by sorting all counts: faster for long lists."""
    found = np.argsort(-counts, kind="stable")[: places.size]
    found = found[counts[found] > 0]
    places[: found.size] = found
    return int(found.size)


def top_items(counts: Ints, k: int) -> Ints:
    """The places of the k greatest counts above 0, the greatest first; of equal counts the lower place.

    >>> top_items(np.array([2, 0, 5, 2, 2]), 3).tolist()
    [2, 0, 3]
    """
    places = np.empty(min(k, counts.size), dtype=np.int64)
    if not places.size:
        return places
    fill = kernel_top if places.size <= LONGEST_INSERTED else sorted_top
    return places[: fill(counts, places)]


class FrequentItems:
    """Algorithm 6: the frequent items of a window of `sub_windows` sub-windows, from lists of k.

    Items are codes: small whole numbers, as a dictionary gives them, because global counters are an array over them.

    Needs: sub-windows expire in the order in which they came (FIFO), whether they are cut by count or by time.
    Time: one pass over a sub-window's counts and O(k) per slide; a report looks at each code once.
    Space: k pairs per sub-window and one global counter per item on a list.
    Reference: thesis 6.2, Algorithm 6.

    >>> frequent = FrequentItems(k=2, sub_windows=3)
    >>> for counts in ([3, 2, 0], [3, 1, 2], [1, 4, 0]):
    ...     frequent.slide(np.arange(3), np.array(counts))
    >>> frequent.delta, [column.tolist() for column in frequent.report()]
    (5, [[0, 1], [7, 6]])
    """

    def __init__(self, k: int, sub_windows: int) -> None:
        if k < 1 or sub_windows < 1:
            raise ValueError(f"k and the number of sub-windows must be at least 1, not {k} and {sub_windows}")
        self.k, self.sub_windows = k, sub_windows
        # The circular queue of lists. A list that is shorter than k ends with counts of 0.
        self._items: Ints = np.zeros((sub_windows, k), dtype=np.int64)
        self._counts: Ints = np.zeros((sub_windows, k), dtype=np.int64)
        self._global: Ints = np.zeros(0, dtype=np.int64)
        self._slides = 0
        self.delta = 0

    @property
    def full(self) -> bool:
        """Whether the window has all its sub-windows."""
        return self._slides >= self.sub_windows

    @property
    def space(self) -> int:
        """The stored pairs of item and count: those on lists and the global counters."""
        return int(np.count_nonzero(self._counts)) + int(np.count_nonzero(self._global))

    def slide(self, items: Ints, counts: Ints) -> None:
        """Slide by a sub-window with these exact counts; items in ascending order of their values."""
        if len(items) and int(items.min()) < 0:
            raise ValueError("an item's code must not be negative")
        self._take_back(self._slides % self.sub_windows)
        self._put(self._slides % self.sub_windows, items, counts)
        self._slides += 1

    def _take_back(self, place: int) -> None:
        """Take the oldest list out of the counters; there is none while the window is not full."""
        used = self._counts[place] > 0
        self._global[self._items[place, used]] -= self._counts[place, used]
        self.delta -= int(self._counts[place, -1])

    def _put(self, place: int, items: Ints, counts: Ints) -> None:
        places = top_items(counts, self.k)
        listed, amounts = items[places], counts[places]
        self._items[place, : len(places)], self._counts[place, : len(places)] = listed, amounts
        self._counts[place, len(places) :] = 0
        self._make_room(int(listed.max(initial=-1)) + 1)
        # An item is on a list once, so that no counter is added to twice here.
        self._global[listed] += amounts
        self.delta += int(self._counts[place, -1])

    def _make_room(self, codes: int) -> None:
        if codes > len(self._global):
            self._global = np.pad(self._global, (0, max(codes, 2 * len(self._global)) - len(self._global)))

    def report(self) -> tuple[Ints, Ints]:
        """Items whose counter is greater than delta and their counters, the greatest first."""
        items = np.flatnonzero(self._global > self.delta)
        return _ranked(items, self._global[items])

    def counters(self) -> dict[int, int]:
        """The global counters by item, for tests and inspection."""
        items = np.flatnonzero(self._global)
        return dict(zip(items.tolist(), self._global[items].tolist(), strict=True))


def frequent_in_window(sub_windows: Sequence[tuple[Ints, Ints]], k: int) -> tuple[Ints, Ints, int]:
    """The same without state: the report of some sub-windows' lists together, and their delta.

    A sub-window is (items, counts): its exact counts, or its list of the k most frequent items.

    >>> window = [(np.array([1, 2]), np.array([3, 2])), (np.array([1, 3]), np.array([3, 2]))]
    >>> items, counts, delta = frequent_in_window(window, 2)
    >>> items.tolist(), counts.tolist(), delta
    ([1], [6], 4)
    """
    delta, listed, amounts = 0, [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for items, counts in sub_windows:
        places = top_items(counts, k)
        delta += int(counts[places[-1]]) if len(places) == k else 0
        listed.append(items[places])
        amounts.append(counts[places])
    unique, place = np.unique(np.concatenate(listed), return_inverse=True)
    counters = np.zeros(len(unique), dtype=np.int64)
    np.add.at(counters, place, np.concatenate(amounts))
    over = counters > delta
    return *_ranked(unique[over], counters[over]), delta


def _ranked(items: Ints, counts: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(-counts, kind="stable")
    return items[order], counts[order]
