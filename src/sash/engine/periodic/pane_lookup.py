"""One answer from the panes, in two steps: what it reads is taken in a moment, and computed with while panes slide.

    under the lock     as of when, complete or not; the panes that it reads, frozen
    without it         scan or merge, HAVING, ORDER BY, the SELECT list
    at the end         lws, ttu: have the groups that it read moved on, or were panes revised?

Answers of one-time queries, and the first answer of a query that has just come.
"""

from __future__ import annotations

from sash.core.errors import QueryFailedError
from sash.engine.answers.answer import Answer
from sash.engine.periodic.active import ActiveQuery, AdvanceOutcome
from sash.engine.periodic.executor import Execution


class PaneLookup:
    """To be made under the isolation level's lock; it is `Taken` from the windows."""

    def __init__(self, active: ActiveQuery, as_of: int) -> None:
        home = active.home
        home.statistics.executed([active.compiled.windows], home.clock.length)
        for bound in active.readings:
            bound.valid_from = bound.group.valid_from(bound)
        self._active = active
        self._as_of = as_of
        self._moment = home.clock.moment(as_of)
        self._complete = all(bound.is_complete(as_of) for bound in active.readings)
        self._outcome = AdvanceOutcome()
        self._execution = Execution([active], as_of, self._outcome)
        self._execution.freeze()
        self._seen = self._state()

    def compute(self) -> Answer:
        active, home = self._active, self._active.home
        for _, table in self._execution.tables():
            scheduled = home.clock.is_multiple(active.compiled.slide, self._as_of)
            number = self._as_of if home.name.by_rows else None
            return Answer(active.name, self._moment, self._complete, scheduled, table, number)
        raise QueryFailedError(next(iter(self._outcome.failed.values())))

    def is_latest(self) -> bool:
        """All groups that it reads are where they were. Numbers only grow, so they were so at the first comparison.

        A job in the cluster is not done again: its answer is as of when its files were taken.
        """
        return any(group.in_cluster for group in self._active.groups) or self._state() == self._seen

    def _state(self) -> list[tuple[int | None, int]]:
        return [(group.clock.now, group.panes.version) for group in self._active.groups]
