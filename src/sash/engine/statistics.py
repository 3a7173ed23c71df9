"""Counters that `stats()` shows: throughput, late and bad tuples, joint executions, work saved."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sash.core.window import Window
from sash.scheduling import joint_cost, separate_cost
from sash.transactions import WindowRead


@dataclass
class GroupStatistics:
    """Costs are the analytic model's: pane values combined, jointly and as if each query had run alone."""

    executions: int = 0
    joint_executions: int = 0
    refreshes: int = 0
    joint_cost: int = 0
    separate_cost: int = 0
    # Live, with workers: executions during which their window slid, and how often one had to begin again for that.
    beside_slides: int = 0
    restarts: int = 0

    def executed(self, queries: Sequence[Sequence[Window]], pane: int) -> None:
        """Some queries were executed together; each is given by its windows."""
        # What an UNBOUNDED window sees is one merged pane.
        lengths = [pane if window.unbounded else window.length for windows in queries for window in windows]
        self.executions += 1
        self.joint_executions += len(queries) > 1
        self.refreshes += len(queries)
        self.joint_cost += joint_cost(lengths, pane)
        self.separate_cost += separate_cost(lengths, pane)


@dataclass
class StreamStatistics:
    tuples: int = 0
    micro_batches: int = 0
    # Live: those that took longer than the time between two of them.
    slow_batches: int = 0
    # Live: how often the source was given another limit to keep to `max_lag`.
    limit_changes: int = 0
    late_tuples: int = 0
    # About how many were dropped under overload (SHED); they are in `tuples`.
    shed_tuples: int = 0
    null_timestamps: int = 0
    unparsable: int = 0
    jumped_tuples: int = 0
    seconds_in_spark: float = 0.0
    seconds_in_sash: float = 0.0


class ReadStatistics:
    """What happened to reads of a stored window while it slid; threads read at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("stored_reads", "read_restarts", "read_undone", "read_inserted"), 0)

    def count(self, answer: WindowRead[Any]) -> None:
        with self._lock:
            self._counts["stored_reads"] += 1
            self._counts["read_restarts"] += answer.attempts - 1
            self._counts["read_undone"] += answer.undone
            self._counts["read_inserted"] += answer.inserted

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
