"""The answers of a plan at the multiples of SLIDE, out of its changes.

    changes at m1, m2, ..  ──►  a relation: all its rows at every multiple; a stream: what came at one

The first answer is at the first multiple after the first tuple, and may be an empty one. A relation that is empty
answers once and then rests until rows come. An aggregate without GROUP BY has a row over nothing, too
(operators/group_by.py), and rests only where HAVING leaves that row out. A stream answers after its first answer where
it has something.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sash.core.changes import Changes
from sash.core.time import Micros
from sash.engine.continuous.view import ChangeView
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
        self._view = ChangeView(plan.schema)
        # Nothing is to be said until rows come: the last answer was empty.
        self._rests = False

    def stand(self, rows: Changes, now: Micros, begins: Micros | None = None) -> None:
        """The rows of the answer as they stood when the query came, or was recovered."""
        if not self._is_stream:
            self._view.add(rows, 0)
        has_answered = begins is not None and self._sampling.next_multiple(begins + 1) <= now
        self._rests = has_answered and not len(rows)

    def answers(self, changes: Changes, low: Micros, now: Micros, begins: Micros | None) -> Iterator[Sample]:
        """What is to be answered at the multiples low <= m <= now; the first tuple comes after `begins`."""
        multiple = self._next(low, changes, begins)
        while multiple is not None and multiple <= now:
            rows = self._rows(changes.where(changes.ts == multiple), multiple)
            if rows.num_rows or not self._rests:
                yield multiple, rows
            self._rests = self._is_stream or not rows.num_rows
            multiple = self._next(multiple + 1, changes, begins)

    def _rows(self, changes: Changes, multiple: Micros) -> pa.Table:
        if self._is_stream:
            return changes.rows
        self._view.add(changes, multiple)
        return self._view.rows(multiple).rows

    def _next(self, instant: Micros, changes: Changes, begins: Micros | None) -> Micros | None:
        """The next multiple at which there is something to say."""
        later = changes.ts[changes.ts >= instant]
        found = [int(later.min())] if len(later) else []
        if not self._rests and begins is not None:
            found.append(self._sampling.next_multiple(max(instant, begins + 1)))
        return min(found, default=None)
