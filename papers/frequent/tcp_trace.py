"""A seeded trace of packets' sources that looks like wide-area TCP traffic: few heavy sources, packets in trains.

The thesis (chapter 6) measured on a trace of the Internet Traffic Archive with 1,647 distinct source addresses. That
trace is not available to us; this one has as many sources and the two properties which the chapter builds on:

- power law: a connection's source is drawn by rank with probability 1 / rank ** SKEW, its length by Pareto's law;
- bursts: only some connections are open at a time, and each sends trains of packets.

The constants are one of five settings that were tried, the nearest to what the chapter tells of lists of five.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

SOURCES = 1_647
SKEW = 1.2
OPEN_CONNECTIONS = 60
MEAN_TRAIN = 1.5
SHORTEST, LONGEST, TAIL = 4, 20_000, 1.1


@numba.njit(cache=True, nogil=True)
def kernel_trace(ends: Any, open_connections: int, random: Any, trace: Any) -> None:
    sources = np.zeros(open_connections, dtype=np.int64)
    left = np.zeros(open_connections, dtype=np.int64)
    filled = 0
    while filled < trace.size:
        at = random.integers(0, open_connections)
        if left[at] == 0:
            sources[at] = np.searchsorted(ends, random.random())
            length = SHORTEST * (1.0 - random.random()) ** (-1.0 / TAIL)
            left[at] = int(min(length, LONGEST))
        train = 1 + int(-MEAN_TRAIN * np.log(1.0 - random.random()))
        for _ in range(min(train, left[at], trace.size - filled)):
            trace[filled] = sources[at]
            filled += 1
            left[at] -= 1


def tcp_trace(packets: int, seed: int = 7) -> NDArray[np.int64]:
    """The source of each packet, 0 being the one with most connections. Each source sends at least one packet."""
    weights = np.arange(1, SOURCES + 1) ** -SKEW
    ends = np.cumsum(weights) / weights.sum()
    trace = np.empty(packets, dtype=np.int64)
    random = np.random.default_rng(seed)
    kernel_trace(ends, OPEN_CONNECTIONS, random, trace)
    # A source that had no connection at all sends one packet somewhere.
    silent = np.setdiff1d(np.arange(SOURCES), trace)
    trace[random.choice(packets, len(silent), replace=False)] = silent
    return trace
