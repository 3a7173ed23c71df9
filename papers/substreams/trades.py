"""A stream like a day of stock trades, as running counts per pane and key, and filters over it.

Keys have rates proportional to 1 / rank, .06 trades per second and key on average. A filter is a window that ends now,
15 min to 3 h long, and a threshold such that .03 to .05 of the keys have had more trades in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PANE = 15  # seconds
HISTORY, SHORTEST = 3 * 3600 // PANE, 15 * 60 // PANE  # panes
RATE = 0.06  # trades per second and key
FILTERS = 64


@dataclass(frozen=True)
class Trades:
    """`running[i]` counts the trades of the first i panes, by key: R-INT for every substream at once."""

    running: NDArray[np.int32]
    shares: NDArray[np.float64]
    lengths: NDArray[np.int64]
    thresholds: NDArray[np.int64]

    @property
    def keys(self) -> int:
        return int(self.running.shape[1])

    def pane(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The keys of a pane, and their trades."""
        counts = self.running[number] - self.running[number - 1]
        keys = np.flatnonzero(counts)
        return keys, counts[keys]


def generate(keys: int, more: int, spare: int, chance: np.random.Generator) -> Trades:
    """Three hours, `more` panes, and rows for `spare` panes that the caller fills."""
    shares = 1.0 / np.arange(1, keys + 1)
    # Shuffled, since a code says nothing about a key's rate.
    shares = chance.permutation(shares / shares.sum())
    running = np.zeros((HISTORY + more + spare + 1, keys), dtype=np.int32)
    for pane in range(1, HISTORY + more + 1):
        np.add(running[pane - 1], chance.poisson(shares * (keys * RATE * PANE)), out=running[pane], casting="unsafe")
    lengths = chance.integers(SHORTEST, HISTORY + 1, FILTERS)
    selective = chance.uniform(0.03, 0.05, FILTERS)
    counts = (running[HISTORY] - running[HISTORY - length] for length in lengths)
    thresholds = [int(np.quantile(count, 1 - share)) for count, share in zip(counts, selective, strict=True)]
    return Trades(running, shares, lengths, np.array(thresholds))
