"""An execution over panes in the cluster that runs beside the micro-batches that follow: live, not under `serial`.

    epochs          [ 7: slide, depart ][ 8: slide ][ 9: slide ][ land ]     the stream's thread waits for no job
    sash-flight                 [ Spark's job, as of 7             ]

    departed   decided as in any service: its tasks are done and have their next deadlines. The epoch's entry says so
    started    the files are taken as they were at the departure; a thread computes
    landed     the answers, or a query's failure, belong to the epoch of this entry; that may be an epoch of its own

A group has one flight at a time; its later deadlines wait, and are then late. Until the flight has landed, the group
keeps all panes that the flight reads. So a crash before that loses nothing: recovery repeats the departure, and the
flight starts again. A job that fails, fails the epoch in which it would have landed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait

import pyarrow.compute as pc

from sash.runtime.answers.answer import Answer
from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.joint_queries import JointQueries, divided
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.records.journal import SavedFlight
from sash.schedule import ScheduledTask

# Computes answers elsewhere.
Launch = Callable[[Callable[[], list[Answer]]], Future[list[Answer]]]


class Flight:
    """`jobs` are the queries of each job: one job, or, if nothing is shared, one for each execution.

    `later` has files, by the label of their group, that came after the departure.
    """

    def __init__(
        self,
        group: PaneGroup,
        jobs: Sequence[Sequence[JointQueries]],
        as_of: int,
        executions: Sequence[ScheduledTask] = (),
        later: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.as_of = as_of
        self.queries = {active.name: active for job in jobs for joint in job for active in joint.queries}
        self._group = group
        self._jobs = jobs
        self._executions = list(executions)
        groups = {each.label: each for active in self.queries.values() for each in active.groups}
        self._panes = {label: each.cluster_panes for label, each in groups.items() if each.cluster_panes is not None}
        self._files = {label: panes.without((later or {}).get(label, ())) for label, panes in self._panes.items()}
        self._joints: list[JointAnswers] = []
        # None: it has not started.
        self.found: Future[list[Answer]] | None = None

    @property
    def is_done(self) -> bool:
        return self.found is not None and self.found.done()

    def forget(self, names: Iterable[str]) -> bool:
        """Some queries have gone; whether anybody still waits for an answer."""
        for name in names:
            self.queries.pop(name, None)
        return bool(self.queries)

    def start(self, launch: Launch) -> None:
        """Compute the answers, unless it has begun already."""
        if self.found is not None:
            return
        for job in self._jobs:
            living, _ = divided(job, lambda active: active.name not in self.queries)
            if living:
                self._joints.append(JointAnswers(living, self.as_of, AdvanceOutcome()))
                self._joints[-1].freeze(self._files)
        self.found = launch(self._compute)

    def _compute(self) -> list[Answer]:
        return [answer for joint in self._joints for answer in joint.compute()]

    def land(self) -> tuple[list[Answer], dict[str, str]]:
        """The answers, and the queries that failed. Raises the error of a job.

        During recovery there are no answers, and the log has the failures.
        """
        living, panes = self.queries, next(iter(self._panes.values()))
        if self.found is None:
            noted = {name: panes.noted_failure(name, self.as_of) for name in living}
            return [], {name: why for name, why in noted.items() if why is not None}
        answers = [answer for answer in self.found.result() if answer.query in living]
        failed: dict[str, str] = {}
        for joint in self._joints:
            failed |= {name: why for name, why in joint.outcome.failed.items() if name in living}
            self._group.calibration.observe(self._group.schedule.expected(joint.joint), joint.seconds)
        for name, why in failed.items():
            panes.note_failure(name, self.as_of, why)
        self._group.statistics.beside_slides += self._group.clock.position > self.as_of
        if self._executions and self._joints:
            seconds = sum(joint.seconds for joint in self._joints)
            self._group.timeline.note(self._executions, self._joints[0].moment, seconds, [list(living)])
        return answers, failed

    def save(self) -> SavedFlight:
        came = {label: panes.without(self._files[label]["file"].to_pylist()) for label, panes in self._panes.items()}
        late = {label: files.filter(pc.field("end") <= self.as_of) for label, files in came.items()}
        later = {label: files["file"].to_pylist() for label, files in late.items()}
        return SavedFlight(self.as_of, list(self.queries), later)


def wait_for_all(flights: Iterable[Flight]) -> None:
    """Wait until the jobs of started flights have ended, in whichever way."""
    wait([flight.found for flight in flights if flight.found is not None])
