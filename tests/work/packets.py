"""A stream of packets without Spark, second by second, for runs in which work is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.packet_panes import PACKETS, START, Traffic
from sash.catalog import Stream
from sash.core.time import SECOND
from sash.runtime.settings import DEFAULT_POLICY
from tests.support.numpy_pass import Columns, NumpyPipeline
from tests.support.sparkless_session import SparklessSession

_TRAFFIC = Traffic(rate=50, addresses=10, ports=5)


class PacketSession(SparklessSession):
    """Time is in seconds since the beginning of the stream; windows and slides begin at multiples of 100 s.

    Each second has the same packets: counts do not depend on them.
    """

    def __init__(
        self,
        traffic: Traffic = _TRAFFIC,
        pipeline: Callable[[Stream], NumpyPipeline] = NumpyPipeline,
        **settings: Any,
    ) -> None:
        super().__init__(**{"policy": DEFAULT_POLICY, **settings})
        self.declare(PACKETS, pipeline)
        self.seconds = 0
        self._packets = traffic.packets(np.random.default_rng(1))

    def go_on(self, seconds: int = 1) -> None:
        """One micro-batch of this many seconds."""
        self.push(PACKETS.name, packets(self.seconds, seconds, self._packets))
        self.seconds += seconds

    @property
    def answers(self) -> int:
        return sum(query.answered for query in self.queries.values())


def packets(first: int, seconds: int, every: Columns) -> Columns:
    """Some seconds with the packets of `every` second."""
    rate = len(every["length"])
    offsets = 1 + np.arange(rate) * SECOND // rate
    stamps = [START + (first + second) * SECOND + offsets for second in range(seconds)]
    return {**{name: np.tile(column, seconds) for name, column in every.items()}, "_us": np.concatenate(stamps)}
