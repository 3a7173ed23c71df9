"""The answers of a plan at the multiples of SLIDE, out of its changes.

    changes at m1, m2, ..  ──►  a relation: all its rows at every multiple; a stream: what came at one

A relation that has become empty answers once and then rests until rows come. A stream answers where it has something.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sash.core.changes import Changes
from sash.core.time import Micros
from sash.engine.continuous.view import View
from sash.plan.continuous import Node
from sash.plan.outputs import Deltas, Sampled
from sash.plan.streams import is_stream, sampling_of

Sample = tuple[Micros, pa.Table]


class Sampler:
    """Of one query. It is given all changes of its plan, epoch by epoch, or first the rows that stand already."""

    def __init__(self, plan: Node) -> None:
        sampling = sampling_of(plan)
        assert sampling is not None
        self._sampling: Sampled = sampling
        self._is_stream = isinstance(plan, Deltas) or is_stream(plan)
        self._view = View(plan.schema)
        self._had_rows = False

    def stand(self, rows: Changes) -> None:
        """The rows of the answer as they stood when the query came, or was recovered."""
        if not self._is_stream:
            self._view.add(rows, 0)
            self._had_rows = len(rows) > 0

    def answers(self, changes: Changes, low: Micros, now: Micros) -> Iterator[Sample]:
        """What is to be answered at the multiples low <= m <= now."""
        return self._new(changes) if self._is_stream else self._rows(changes, low, now)

    def _new(self, changes: Changes) -> Iterator[Sample]:
        for multiple in np.unique(changes.ts).tolist():
            yield multiple, changes.where(changes.ts == multiple).rows

    def _rows(self, changes: Changes, low: Micros, now: Micros) -> Iterator[Sample]:
        multiple = self._next(low, changes)
        while multiple is not None and multiple <= now:
            self._view.add(changes.where(changes.ts == multiple), multiple)
            rows = self._view.rows(multiple).rows
            if rows.num_rows or self._had_rows:
                yield multiple, rows
            self._had_rows = rows.num_rows > 0
            multiple = self._next(multiple + 1, changes)

    def _next(self, instant: Micros, changes: Changes) -> Micros | None:
        """The next multiple at which there is something to say."""
        if self._had_rows:
            return self._sampling.next_multiple(instant)
        later = changes.ts[changes.ts >= instant]
        return int(later.min()) if len(later) else None
