"""The answers of one joint execution: what is known about them when their panes are taken, and their tables later.

Whether an answer is complete, and what time it was as of a number of tuples, depends on what a group retains. So that
is written down at the moment at which the panes are taken, and tables may be made while the group goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

from sash.engine.answers.answer import Answer
from sash.engine.periodic.active import ActiveQuery, AdvanceOutcome
from sash.engine.periodic.executor import Execution


class JointAnswers:
    """Queries of one home, as of one time; followers get the tables of their leaders."""

    def __init__(self, queries: list[ActiveQuery], as_of: int, outcome: AdvanceOutcome) -> None:
        self._home = queries[0].home
        self._queries = queries
        self.outcome = outcome
        readers: dict[str, list[ActiveQuery]] = {}
        for active in queries:
            readers.setdefault(self._home.schedule.leader(active).name, []).append(active)
        self._executed = {same[0].name: same for same in readers.values()}
        self._execution = Execution([same[0] for same in self._executed.values()], as_of, outcome)
        # The seconds that were spent on it.
        self.seconds = 0.0
        self._look(as_of)

    def _look(self, as_of: int) -> None:
        self.as_of = as_of
        self._moment = self._home.clock.moment(as_of)
        self._complete = {
            active.name: all(bound.is_complete(as_of) for bound in active.readings) for active in self._queries
        }

    @property
    def moment(self) -> datetime:
        """The event time that it is as of."""
        return self._moment

    def freeze(self) -> None:
        """Take the panes of this moment: from here on tables may be made by another thread."""
        self._execution.freeze(build=True)

    def plan_ahead(self) -> bool:
        """Whether some of it can be read before it is known as of when (see `synopses.ahead`)."""
        return self._execution.plan_ahead()

    def read_ahead(self) -> None:
        started = time.perf_counter()
        self._execution.read_ahead()
        self.seconds += time.perf_counter() - started

    def follow(self, as_of: int) -> bool:
        """Take the rest as of now; False: what was read ahead is in vain."""
        if not self._execution.follow(as_of):
            return False
        self._look(as_of)
        return True

    def compute(self) -> list[Answer]:
        started = time.perf_counter()
        answers = list(self.answers())
        self.seconds += time.perf_counter() - started
        return answers

    def answers(self) -> Iterator[Answer]:
        home, number = self._home, self.as_of if self._home.name.by_rows else None
        for leader, table in self._execution.tables():
            for active in self._executed[leader.name]:
                scheduled = home.clock.is_multiple(active.compiled.slide, self.as_of)
                yield Answer(active.name, self._moment, self._complete[active.name], scheduled, table, number)
        for name in self.outcome.failed.keys() & self._executed.keys():
            self.outcome.failed |= {active.name: self.outcome.failed[name] for active in self._executed[name]}
