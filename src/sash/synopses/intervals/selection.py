"""The k-th smallest element of several sorted runs, greedily (Arasu and Widom, 3.3).

    run 1   1   4  [7]  9  12 ..       k = 20, p = 4 runs, steps of s = 3: compare the third element of each run.
    run 2   2   3  [5]  8  30 ..       5 is the smallest of these. Before it there are at most two elements of each
    run 3   6   6  [6]  7   7 ..       run, so it is the ninth at most, and neither 2, 3 nor 5 is the twentieth:
    run 4   0  40 [41] 50  60 ..       drop them, and look for the seventeenth of the rest.

A step drops s elements of one run, with s about k / 2p; a heap finds the run. When k has halved so does s: that is
p steps per halving and O(log p) per step, O(p log p log q) in all for runs of up to q elements.
"""

from __future__ import annotations

from typing import Any

import numba


@numba.njit(cache=True, nogil=True)
def _kernel_sink(heap: Any, size: Any, keys: Any, place: Any) -> None:
    """Restore the order of a heap of runs, the smallest key on top, below one place."""
    run = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[run] <= keys[heap[child]]:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = run


@numba.njit(cache=True, nogil=True)
def _kernel_select(elements: Any, starts: Any, ends: Any, runs: Any, rank: Any, heap: Any, keys: Any) -> Any:
    """The element of a rank (from 1) in the runs starts[r] .. ends[r] - 1; uses up `starts`, `heap` and `keys`."""
    while True:
        live = 0
        for run in range(runs):
            if starts[run] < ends[run]:
                heap[live] = run
                live += 1
        step = max(1, rank // (2 * live))
        for place in range(live):
            run = heap[place]
            keys[run] = elements[min(starts[run] + step, ends[run]) - 1]
        for place in range(live // 2 - 1, -1, -1):
            _kernel_sink(heap, live, keys, place)
        # The top's key has at most live * (step - 1) elements before it.
        while rank > live * (step - 1) + 1:
            run = heap[0]
            dropped = min(step, ends[run] - starts[run])
            starts[run] += dropped
            rank -= dropped
            if starts[run] < ends[run]:
                keys[run] = elements[min(starts[run] + step, ends[run]) - 1]
            else:
                live -= 1
                heap[0] = heap[live]
            _kernel_sink(heap, live, keys, 0)
        if step == 1:
            return keys[heap[0]]


select = _kernel_select
