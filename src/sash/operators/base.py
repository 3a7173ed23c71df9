"""What every physical operator is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sash.core.changes import Changes
from sash.operators.share import WHOLE, Share
from sash.state.state import Working


@dataclass(frozen=True)
class Epoch:
    """The instants to process: low <= t < high; of a join's results a share, where several tasks find them.

    `begins`: the first tuple of all streams comes after this. None before there is one, or where nobody asks.
    """

    low: int
    high: int
    share: Share = WHOLE
    begins: int | None = None


class Operator(Protocol):
    """`width` is how many ids its output rows have. It reads and replaces its own buffers of the working state."""

    schema: pa.Schema
    width: int

    def step(self, inputs: Sequence[Changes], state: Working, epoch: Epoch) -> Changes:
        """The changes of the epoch, from the inputs' changes of the epoch."""
        ...
