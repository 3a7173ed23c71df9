"""A query as its plan sees it: changes come in, answers go to the query that its user holds.

The answers of a plan at the multiples of SLIDE, out of its changes.

    changes at m1, m2, ..  ──►  a relation: all its rows at every multiple; a stream: what came at one

The first answer is at the first multiple after the first tuple, and may be an empty one. A relation that is empty
answers once and then rests until rows come. An aggregate without GROUP BY has a row over nothing, too
(changes/group_by.py), and rests only where HAVING leaves that row out. A stream answers after its first answer where
it has something.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa

from sash.core.changes import Changes
from sash.core.errors import QueryFailedError
from sash.core.events import report
from sash.core.time import Micros, to_datetime
from sash.plan.continuous import Node, is_stream, sampling_of
from sash.plan.outputs import Deltas, Sampled
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Delivery, Query
from sash.runtime.continuous.change_view import ChangeView
from sash.runtime.continuous.plan_runtime import EpochInstants

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


logger = logging.getLogger("sash.runtime")


class PlanReader:
    """`handle` finds the query that the user holds, if it is still registered."""

    def __init__(self, name: str, plan: Node, handle: Callable[[], Query | None]) -> None:
        self._name = name
        self._handle = handle
        self._sampler = None if sampling_of(plan) is None else Sampler(plan)

    def take(self, changes: Changes, instants: EpochInstants, *, delivered: bool) -> list[Delivery]:
        """What is to be delivered. `delivered`: subscribers were told before, or have not come yet."""
        known, told = instants.complete_from, list[Delivery]()
        for as_of, table in self._answers(changes, instants):
            # Changes are of no window.
            complete = self._sampler is None or (known is not None and as_of >= known)
            told += self.tell(as_of, table, complete=complete, delivered=delivered)
        return told

    def tell(self, as_of: Micros, table: pa.Table, *, complete: bool, delivered: bool) -> list[Delivery]:
        """One answer, or the changes up to a time."""
        handle = self._handle()
        if handle is None:
            return []
        answer = Answer(self._name, to_datetime(as_of), complete, True, table)
        handle._remember(answer)
        return [] if delivered else [(handle, answer)]

    def _answers(self, changes: Changes, instants: EpochInstants) -> Iterator[tuple[Micros, pa.Table]]:
        """An epoch's changes as one table, or an answer at each multiple of SLIDE."""
        if self._sampler is None:
            if len(changes):
                yield instants.now, changes.to_table()
        elif instants.low is None:
            self._sampler.stand(changes, instants.now, instants.begins)
        else:
            yield from self._sampler.answers(changes, instants.low, instants.now, instants.begins)

    def fail(self, why: str, *, reported: bool) -> None:
        if not reported:
            told = "query %(query)s failed: %(why)s"
            report(logger, logging.ERROR, "query.failed", told, query=self._name, why=why)
        handle = self._handle()
        if handle is not None:
            handle.failure = QueryFailedError(f"query '{self._name}' failed: {why}")
