"""A query as its plan sees it: changes come in, answers go to the query that its user holds.

At the multiples of SLIDE answers are made of changes:

    changes at m1, m2, ..  ──►  a relation: all its rows at every multiple; a stream: what came at one

The first answer is at the first multiple after the first tuple, and may be empty. An aggregate without GROUP BY has a
row over no tuples, too (changes/group_by.py), and rests (`EmptyOnce`) only if HAVING leaves that row out. After its
first answer a stream answers only when it has rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.core.changes import Changes, EmptyOnce
from sash.core.time import Micros, to_datetime
from sash.plan.continuous import Node, is_stream, sampling_of
from sash.plan.outputs import Deltas, Sampled
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.change_view import ChangeView
from sash.runtime.answers.registered_query import Delivery, fail_query
from sash.runtime.continuous.plan_runtime import ContinuousQuery, EpochInstants

if TYPE_CHECKING:
    from sash.runtime.session_parts import SessionParts

Sample = tuple[Micros, pa.Table]


class Sampler:
    """The sampler of one query. It gets all changes of its plan, epoch by epoch, after the rows that stand already."""

    def __init__(self, plan: Node) -> None:
        sampling = sampling_of(plan)
        assert sampling is not None
        self._sampling: Sampled = sampling
        self._is_stream = isinstance(plan, Deltas) or is_stream(plan)
        self._view = ChangeView(plan.schema)
        self._empty = EmptyOnce()

    def stand(self, rows: Changes, now: Micros, begins: Micros | None = None) -> None:
        """Take the rows of the answer at the time when the query came, or was recovered."""
        if not self._is_stream:
            self._view.add(rows, 0)
        has_answered = begins is not None and self._sampling.next_multiple(begins + 1) <= now
        self._empty.rests = has_answered and not len(rows)

    def answers(self, changes: Changes, low: Micros, now: Micros, begins: Micros | None) -> Iterator[Sample]:
        """The answers at the multiples low <= m <= now; the first tuple comes after `begins`."""
        multiple = self._next(low, changes, begins)
        while multiple is not None and multiple <= now:
            rows = self._rows(changes.where(changes.ts == multiple), multiple)
            if self._empty.tells(rows.num_rows):
                yield multiple, rows
            self._empty.rests |= self._is_stream
            multiple = self._next(multiple + 1, changes, begins)

    def _rows(self, changes: Changes, multiple: Micros) -> pa.Table:
        if self._is_stream:
            return changes.rows
        self._view.add(changes, multiple)
        return self._view.rows(multiple).rows

    def _next(self, instant: Micros, changes: Changes, begins: Micros | None) -> Micros | None:
        """The next multiple with an answer."""
        later = changes.ts[changes.ts >= instant]
        found = [int(later.min())] if len(later) else []
        if not self._empty.rests and begins is not None:
            found.append(self._sampling.next_multiple(max(instant, begins + 1)))
        return min(found, default=None)


class PlanReader:
    """Makes the answers of one query, and sends them to the user's handle while the query is registered."""

    def __init__(self, query: ContinuousQuery, shared: SessionParts) -> None:
        self._query = query
        self._shared = shared
        self._sampler = None if sampling_of(query.plan) is None else Sampler(query.plan)

    @property
    def lifetime(self) -> Micros | None:
        return self._query.lifetime

    def take(self, changes: Changes, instants: EpochInstants) -> list[Delivery]:
        """The answers of an epoch: its changes as one table, or an answer at each multiple of SLIDE."""
        if self._sampler is None:
            # Changes belong to no window, so they are complete.
            return self.answer(instants.now, changes.to_table(), complete=True) if len(changes) else []
        if instants.low is None:
            self._sampler.stand(changes, instants.now, instants.begins)
            return []
        known, told = instants.complete_from, list[Delivery]()
        for as_of, table in self._sampler.answers(changes, instants.low, instants.now, instants.begins):
            told += self.answer(as_of, table, complete=known is not None and as_of >= known)
        return told

    def answer(self, as_of: Micros, table: pa.Table, *, complete: bool) -> list[Delivery]:
        """One answer, addressed to the query."""
        handle = self._shared.handle(self._query.name, self._query.serial)
        if handle is None:
            return []
        answer = Answer(handle.name, to_datetime(as_of), complete, True, self._query.ordered(table))
        return [(handle.outward, answer)]

    def fail(self, why: str, *, reported: bool) -> None:
        fail_query(self._query.name, self._shared.handle(self._query.name, self._query.serial), why, reported=reported)

    def end(self) -> None:
        """Drop the query: its life is over."""
        self._shared.end_life(self._query.name, self._query.serial)
