"""A query as its plan sees it: changes come in, answers go to the query that its user holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa

from sash.core.changes import Changes
from sash.core.errors import QueryFailedError
from sash.core.events import report
from sash.core.time import Micros, to_datetime
from sash.engine.answers.answer import Answer
from sash.engine.answers.query import Delivery, Query
from sash.engine.continuous.plan_runtime import EpochInstants
from sash.engine.continuous.sampling import Sampler
from sash.plan.continuous import Node
from sash.plan.streams import sampling_of

logger = logging.getLogger("sash.engine")


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
