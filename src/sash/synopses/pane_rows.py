"""What a pass over a micro-batch brings to the synopses."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.synopses.partials import Partial


@dataclass(frozen=True)
class PaneRows:
    """What one micro-batch brings: rows of (pane, group), sorted in no order, as Arrow columns.

    `latest` is the greatest timestamp behind each row.
    """

    length: int
    ends: NDArray[np.int64]
    keys: list[pa.Array]
    lifted: dict[Partial, list[pa.Array]]
    latest: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def only(self, keep: NDArray[np.bool_]) -> PaneRows:
        """Some of the rows."""
        mask = pa.array(keep)
        keys = [column.filter(mask) for column in self.keys]
        lifted = {partial: [column.filter(mask) for column in parts] for partial, parts in self.lifted.items()}
        return PaneRows(self.length, self.ends[keep], keys, lifted, self.latest[keep])


@dataclass(frozen=True)
class BatchFacts:
    """What one pass over a micro-batch brought: counts, and rows of partials with the tuples behind each row.

    The first tuple came by `earliest`, the end of its pane.
    """

    rows: int
    latest: Micros | None
    null_timestamps: int
    unparsable: int
    lanes: list[tuple[int, PaneRows, np.ndarray]]
    earliest: Micros | None = None
