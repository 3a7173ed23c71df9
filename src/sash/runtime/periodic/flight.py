"""Executions over panes in the cluster that run beside the micro-batches that follow: live, not under `serial`.

    epochs          [ 7: slide, depart ][ 8: slide ][ 9: slide ][ land ]     the stream's thread waits for no job
    sash-flight                 [ Spark's job, as of 7             ]

    departed   decided as in any service: its tasks are done and have their next deadlines. The epoch's entry says so
    started    the files are taken as they were at the departure; a thread computes
    landed     the answers, or a query's failure, belong to the epoch of this entry; that may be an epoch of its own

The flights of a group depart in one advance, one for each time at which something is due, and run one after the other;
later deadlines wait until all have landed, and are then late. Until a flight has landed, the group keeps all panes that
the flight reads. So a crash before that loses nothing: recovery repeats the departure, and the flight starts again. A
job that fails, fails the epoch in which it would have landed. A job that nobody waits for any more is cancelled.

A job takes all its panes at once. So under `ws` and `ttu` an answer is as of its departure, and nothing is aborted.
Under `lws` it is as of its end: a flight whose window has slid, or was revised, starts again as of the newest pane, and
after `RESTARTS` times the next micro-batch waits for it. A SLIDE EXACTLY query has its own time under every level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial

import pyarrow.compute as pc

from sash.core.stopping import QUESTION, Cancellation
from sash.core.window import Window
from sash.isolation.history import Kind, PaneRecorder
from sash.isolation.shared_window import RESTARTS
from sash.runtime.answers.answer import AnswerBatch
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome
from sash.runtime.periodic.executor import JointAnswers
from sash.runtime.periodic.joint_queries import JointQueries, divided
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.records.journal import SavedFlight
from sash.schedule import ScheduledTask

# Runs functions elsewhere, one after the other.
Launch = Callable[[Sequence[Callable[[], None]]], None]


class Flight:
    """Queries of one home that one job answers, as of one time.

    `later` has files, by the label of their group, that came after the departure.
    """

    def __init__(
        self,
        group: PaneGroup,
        joint: Sequence[JointQueries],
        as_of: int,
        executions: Sequence[ScheduledTask] = (),
        later: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.queries = {active.name: active for each in joint for active in each.queries}
        self.attempts = 1
        self._group = group
        self._joint = joint
        self._executions = list(executions)
        self._answers: JointAnswers | None = None
        self._cancellation = Cancellation()
        # None: it has not started.
        self.found: Future[list[AnswerBatch]] | None = None
        self._take(as_of, later or {})

    def _take(self, as_of: int, later: Mapping[str, Collection[str]]) -> None:
        """From here on the files are the flight's, whatever happens to the window."""
        self.as_of = as_of
        groups = {each.label: each for active in self.queries.values() for each in active.groups}
        self._panes = {label: each.panes for label, each in groups.items() if each.panes.is_read_by_job}
        self._files = {label: panes.without(later.get(label, ())) for label, panes in self._panes.items()}
        self._versions = {label: panes.version for label, panes in self._panes.items()}
        self._reads = recorded_reads(self.queries.values(), as_of)

    @property
    def is_done(self) -> bool:
        return self.found is not None and self.found.done()

    @property
    def is_outdated(self) -> bool:
        """Whether its window has changed since, and its answer may be as of a later time."""
        changed = any(panes.version != self._versions[label] for label, panes in self._panes.items())
        exactly = any(active.compiled.exactly for active in self.queries.values())
        return not exactly and (changed or self.as_of < self._group.clock.position)

    @property
    def has_precedence(self) -> bool:
        """Whether it was aborted so often that the next slide waits for it."""
        return self.attempts > RESTARTS

    def forget(self, names: Iterable[str]) -> bool:
        """Some queries have gone; whether anybody still waits for an answer."""
        for name in names:
            self.queries.pop(name, None)
        if not self.queries:
            self._abort()
        return bool(self.queries)

    def begin_again(self) -> None:
        """Give up what is under way, and answer as of the newest pane."""
        self._abort()
        self.attempts += 1
        self.found, self._cancellation = None, Cancellation()
        self._take(self._group.clock.position, {})
        for active in self.queries.values():
            active.note_answer(self.as_of, active.lateness)
        self._group.statistics.beside_restarts += 1

    def _abort(self) -> None:
        self._cancellation.cancel()
        self._record("a")

    def start(self) -> Callable[[], None] | None:
        """Take the panes; the result computes the answers, in any thread. None: it has started already."""
        if self.found is not None:
            return None
        living, _ = divided(self._joint, lambda active: active.name not in self.queries)
        self._answers, self.found = JointAnswers(living, self.as_of, AdvanceOutcome()), Future[list[AnswerBatch]]()
        self._answers.freeze(self._files)
        return partial(_compute, self._answers, self.found, self._cancellation)

    def land(self) -> tuple[list[AnswerBatch], dict[str, str]]:
        """The answers, and the queries that failed. Raises the error of a job.

        During recovery there are no answers, and the log has the failures.
        """
        living, panes = self.queries, next(iter(self._panes.values()))
        if self.found is None or self._answers is None:
            noted = {name: panes.noted_failure(name, self.as_of) for name in living}
            return [], {name: why for name, why in noted.items() if why is not None}
        answers = [batch.only(living.__contains__) for batch in self.found.result()]
        failed = {name: why for name, why in self._answers.outcome.failed.items() if name in living}
        for name, why in failed.items():
            panes.note_failure(name, self.as_of, why)
        group, seconds = self._group, self._answers.seconds
        group.calibration.observe(group.schedule.expected(self._answers.joint), seconds)
        group.flight_seconds = seconds
        group.statistics.beside_slides += group.clock.position > self.as_of
        if self._executions:
            group.timeline.note(self._executions, self._answers.moment, seconds, [list(living)])
        self._record("c")
        return answers, failed

    def _record(self, kind: Kind) -> None:
        for recorder, name in self._reads:
            recorder.did(kind, name)

    def save(self) -> SavedFlight:
        came = {label: panes.without(self._files[label]["file"].to_pylist()) for label, panes in self._panes.items()}
        late = {label: files.filter(pc.field("end") <= self.as_of) for label, files in came.items()}
        later = {label: files["file"].to_pylist() for label, files in late.items()}
        return SavedFlight(self.as_of, list(self.queries), later)


def _compute(answers: JointAnswers, found: Future[list[AnswerBatch]], cancellation: Cancellation) -> None:
    """Its Spark jobs stop with the cancellation, like those of a question."""
    before = QUESTION.set(cancellation)
    try:
        found.set_result(answers.compute())
    except BaseException as error:
        found.set_exception(error)
    finally:
        QUESTION.reset(before)


def recorded_reads(queries: Iterable[ActiveQuery], as_of: int) -> list[tuple[PaneRecorder, str]]:
    """Record, where somebody does, that queries read their windows as of a time: recorders, and the reads' names."""
    spans: dict[PaneRecorder, list[Window]] = {}
    for bound in (bound for active in queries for bound in active.readings):
        if bound.group.recorder is not None:
            spans.setdefault(bound.group.recorder, []).extend(bound.reading.spans)
    edges = {each: (min(w.start(as_of) for w in some), max(w.end(as_of) for w in some)) for each, some in spans.items()}
    return [(recorder, recorder.took(*edge)) for recorder, edge in edges.items()]


def wait_for_all(flights: Iterable[Flight]) -> None:
    """Wait until the jobs of started flights have ended, in whichever way."""
    wait([flight.found for flight in flights if flight.found is not None])
