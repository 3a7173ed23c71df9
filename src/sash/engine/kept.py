"""The stored window of a stream with KEEP: its rows, in sub-windows of equal length.

    micro-batch ──► rows as Arrow ──► buffer ──► sub-window (end - s, end]  ──► ring of n sub-windows ──► one-time
                                      not seen    when the watermark has         the oldest goes           questions
                                      by anyone   passed its end

Rows are kept as they came, with their event time in microseconds beside them (`TIME`). A tuple whose sub-window was
attached before it came is late: left out, or, with LATE REVISE, merged into a new version of its sub-window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.catalog import Stream
from sash.core.time import Micros, format_duration, multiple_after, multiple_at_or_after

# The column that tells when a row's tuple happened.
TIME = "_t"
# More sub-windows make answers younger by less than anybody notices, and slides more expensive.
_MOST_SUB_WINDOWS = 600
# Before every event time.
_NEVER: Micros = -(2**62)


@dataclass(frozen=True)
class SubWindow:
    """The rows of (end - length, end], in order of event time."""

    end: Micros
    rows: pa.Table


@dataclass(frozen=True)
class Stored:
    """The rows of a window as of a time; `since`: what happened before it is not there."""

    rows: pa.Table
    as_of: Micros
    since: Micros


class KeptWindow:
    """One writer, any number of readers: what is attached never changes, and is replaced as a whole."""

    def __init__(self, stream: Stream) -> None:
        assert stream.keep is not None
        self.stream = stream
        self.length = sub_window(stream)
        self._most = -(-stream.keep // self.length)
        self._attached: tuple[SubWindow, ...] = ()
        # The end of the youngest sub-window, attached or passed over, and since when everything is here.
        self.now: Micros | None = None
        self._since: Micros | None = None
        self._buffer: list[pa.Table] = []

    # -- tuples come ---------------------------------------------------------------------------------

    def accepted(self, rows: pa.Table) -> pa.Table:
        """The rows of a micro-batch that are not late, or may revise what is stored."""
        if self.now is None:
            return rows
        edge = self.now - self._most * self.length if self.stream.late_revise else self.now
        return rows.filter(pa.array(self._ends(rows) > edge))

    def take(self, rows: pa.Table, watermark: Micros | None) -> None:
        """Rows that were accepted; then time goes on to a watermark."""
        if len(rows):
            if self.now is None:
                begins = int(self._ends(rows).min()) - self.length
                self._since = begins if self._since is None else min(begins, self._since)
            late = self._ends(rows) <= self.now if self.now is not None else np.zeros(len(rows), dtype=np.bool_)
            if late.any():
                self._revise(rows.filter(pa.array(late)))
                rows = rows.filter(pa.array(~late))
            self._buffer.append(rows)
        if watermark is not None:
            ahead = multiple_after if self.stream.closed_left else multiple_at_or_after
            self._attach(ahead(watermark, self.length, self.stream.offset) - self.length)

    def finish(self, latest: Micros) -> None:
        """The stream has ended, or is idle: what is in the buffer is all there is."""
        ahead = multiple_after if self.stream.closed_left else multiple_at_or_after
        self._attach(ahead(latest, self.length, self.stream.offset))

    def _ends(self, rows: pa.Table) -> NDArray[np.int64]:
        """The ends of the sub-windows that rows belong to."""
        stamps, offset = np.asarray(rows[TIME]) - self.stream.offset, self.stream.offset
        whole = stamps // self.length + 1 if self.stream.closed_left else -(-stamps // self.length)
        return whole * self.length + offset

    def _attach(self, until: Micros) -> None:
        """Every sub-window that ends by a time, one after the other; those without tuples are not stored."""
        if self.now is not None and until <= self.now:
            return
        waiting = pa.concat_tables(self._buffer) if self._buffer else None
        oldest = until - self._most * self.length
        attached = [sub for sub in self._attached if sub.end > oldest]
        if waiting is not None:
            ends = self._ends(waiting)
            due = waiting.filter(pa.array(ends <= until))
            attached += [sub for sub in self._cut(due) if sub.end > oldest]
            self._buffer = [waiting.filter(pa.array(ends > until))]
        self._attached = tuple(attached)
        self.now = until

    def _cut(self, rows: pa.Table) -> Iterator[SubWindow]:
        order = np.argsort(np.asarray(rows[TIME]), kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        ends, starts = np.unique(self._ends(rows), return_index=True)
        stops = [*starts.tolist(), len(rows)][1:]
        for end, start, stop in zip(ends.tolist(), starts.tolist(), stops, strict=True):
            yield SubWindow(end, rows.slice(start, stop - start))

    def _revise(self, rows: pa.Table) -> None:
        late = {sub.end: sub.rows for sub in self._cut(rows)}
        known = {sub.end: sub.rows for sub in self._attached}
        for end, more in late.items():
            both = pa.concat_tables([known[end], more]) if end in known else more
            (merged,) = self._cut(both)
            known[end] = merged.rows
        self._attached = tuple(SubWindow(end, known[end]) for end in sorted(known))

    # -- questions -----------------------------------------------------------------------------------

    def read(self, reach: int | None) -> Stored | None:
        """The rows of the last `reach` microseconds (None: all that is stored); None where nothing is stored yet."""
        attached, now, since = self._attached, self.now, self._since
        if now is None or since is None:
            return None
        oldest = now - (self._most * self.length if reach is None else reach)
        parts = [sub.rows for sub in attached if sub.end > oldest]
        rows = pa.concat_tables(parts) if parts else self.empty()
        low = pc.greater_equal if self.stream.closed_left else pc.greater
        return Stored(rows.filter(low(rows[TIME], oldest)), now, max(since, now - self._most * self.length))

    def empty(self) -> pa.Table:
        return self.stream.schema.append(pa.field(TIME, pa.int64())).empty_table()

    @property
    def oldest(self) -> Micros:
        """What happened before this is not stored any more."""
        return _NEVER if self.now is None else self.now - self._most * self.length

    # -- recovery ------------------------------------------------------------------------------------

    def save(self) -> dict[str, Micros | None]:
        return {"now": self.now, "since": self._since}

    def load(self, state: dict[str, Micros | None], rows: list[pa.Table]) -> None:
        """As it was saved, from the rows that it had accepted by then and not let go."""
        self.now, self._since = state["now"], state["since"]
        every = pa.concat_tables([self.empty(), *rows])
        ends = self._ends(every)
        edge = _NEVER if self.now is None else self.now
        self._buffer = [every.filter(pa.array(ends > edge))]
        oldest = edge - self._most * self.length
        self._attached = tuple(self._cut(every.filter(pa.array((ends <= edge) & (ends > oldest)))))


def sub_window(stream: Stream) -> Micros:
    """The length of a stream's sub-windows."""
    assert stream.keep is not None
    return -(-stream.keep // (stream.granule * _MOST_SUB_WINDOWS)) * stream.granule


def why_not_stored(stream: Stream, reach: int | None, unbounded: bool) -> str | None:
    """What a stream would have to keep for a question; None if it does."""
    if unbounded:
        return f"stream '{stream.name}' stores no [UNBOUNDED] window: give a WINDOW"
    if stream.keep is None:
        example = "10 min" if reach is None else format_duration(reach)
        return f"stream '{stream.name}' stores no rows: CREATE STREAM .. KEEP {example} would make it possible"
    if reach is not None and reach > stream.keep:
        return (
            f"stream '{stream.name}' stores its rows for {format_duration(stream.keep)}, and the question looks back "
            f"{format_duration(reach)}: KEEP {format_duration(reach)} would make it possible"
        )
    return None
