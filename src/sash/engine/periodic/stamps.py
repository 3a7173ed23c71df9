"""What time it was as of a number of tuples: the ends of panes of rows, and when their last tuples came."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.synopses.pane_rows import PaneRows


class Stamps:
    def __init__(self) -> None:
        # Ends, ascending, and under each the greatest timestamp of its pane.
        self._stamps: NDArray[np.int64] = np.empty((2, 0), dtype=np.int64)

    def note(self, rows: PaneRows) -> None:
        ends, places = np.unique(np.concatenate([self._stamps[0], rows.ends]), return_inverse=True)
        latest = np.full(len(ends), np.iinfo(np.int64).min)
        np.maximum.at(latest, places, np.concatenate([self._stamps[1], rows.latest]))
        self._stamps = np.stack([ends, latest])

    def at(self, number: int) -> Micros | None:
        """When the last of so many tuples came; None before any pane has ended."""
        place = int(np.searchsorted(self._stamps[0], number, side="right")) - 1
        return int(self._stamps[1, place]) if place >= 0 else None

    def forget(self, before: int) -> None:
        self._stamps = self._stamps[:, self._stamps[0] >= before]

    def save(self) -> list[list[int]]:
        return [row.tolist() for row in self._stamps]

    def load(self, saved: list[list[int]]) -> None:
        self._stamps = np.array(saved, dtype=np.int64).reshape(2, -1)
