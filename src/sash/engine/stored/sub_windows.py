"""Sub-windows of a stored window: pieces of equal length, none of which ever changes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sash.catalog import Stream
from sash.core.time import Micros

# The column of stored rows that tells when a row's tuple happened.
TIME = "_t"
# What EXPLAIN says of a question that collects rows.
COLLECTED = "if something that was read leaves the window: dropped before Spark has the rows"
# More sub-windows make answers younger by less than anybody notices, and slides more expensive.
_MOST_SUB_WINDOWS = 600


@dataclass(frozen=True)
class RowSubWindow:
    """The rows of (end - length, end], in order of event time."""

    end: Micros
    rows: pa.Table


def sub_window_length(stream: Stream) -> Micros:
    """How long the sub-windows of a stream are: granules, as few as do."""
    assert stream.keep is not None
    return -(-stream.keep // (stream.granule * _MOST_SUB_WINDOWS)) * stream.granule
