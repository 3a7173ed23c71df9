"""The runtime of one stream: watermark, groups, and what a micro-batch does to them.

Everything here is a function of the micro-batches, the heartbeats and the queries: no clock, no I/O, no Spark.
Recovery relies on that: applying the same entries again gives the same state and the same answers.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from sash.catalog import Stream
from sash.core.time import Micros
from sash.engine.answer import Answer
from sash.engine.compiler import CompiledQuery
from sash.engine.group import ActiveQuery, Outcome, PeriodicGroup
from sash.engine.statistics import StreamStatistics
from sash.plan.periodic import key_set
from sash.scheduling import Policy
from sash.sharing.pane_tables import KeySet, PaneTable
from sash.synopses.basic_interval import BatchFacts

logger = logging.getLogger("sash.engine")

# A pane table with more rows than this part of the tuples it summarises saves nothing.
_REDUCTION = 0.5
_ENOUGH_TO_JUDGE = 1_000


@dataclass
class Progress:
    """Answers in the order of time, and queries that failed or ended on the way.

    `serials` tells which query each name meant: one of the same name may have come since.
    """

    serials: dict[str, int] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)


class StreamRuntime:
    """One stream: its watermark and its groups of queries, by key set."""

    def __init__(self, stream: Stream, policy: Policy) -> None:
        self.stream = stream
        self._policy = policy
        self.groups: dict[KeySet, PeriodicGroup] = {}
        self.active: dict[str, PeriodicGroup] = {}
        self.latest: Micros | None = None
        self.watermark: Micros | None = None
        self.statistics = StreamStatistics()
        self.unreduced: dict[str, float] = {}
        self._warned_late = False

    # -- queries ---------------------------------------------------------------------------------------

    def synchronise(self, wanted: Iterable[CompiledQuery]) -> None:
        """Make the running queries those that the catalog has now. Takes effect for the next micro-batch."""
        queries = {query.name: query for query in wanted}
        for name in [name for name in self.active if self.active[name].queries[name].compiled is not queries.get(name)]:
            self.remove(name)
        for name, query in queries.items():
            if name not in self.active:
                self._add(query)

    def _add(self, query: CompiledQuery) -> None:
        keys = key_set(query.periodic)
        fresh = keys not in self.groups
        group = self.groups.setdefault(keys, PeriodicGroup(keys, self.stream, self._policy))
        self.active[query.name] = group
        group.add(query, self.latest)
        if fresh and self.watermark is not None:
            group.now = group.closed_by(self.watermark)

    def remove(self, name: str) -> None:
        group = self.active.pop(name, None)
        if group is None:
            return
        group.remove(name)
        if not group.queries:
            del self.groups[group.keys]

    def ordered(self) -> list[PeriodicGroup]:
        """The groups in the order of their keys: the same queries give the same pass, whatever came before."""
        return [self.groups[keys] for keys in sorted(self.groups, key=lambda keys: [key.sql for key in keys])]

    def tables(self) -> list[PaneTable]:
        """The pane tables of the next pass."""
        return [group.table for group in self.ordered()]

    def covers(self, query: CompiledQuery) -> PeriodicGroup | None:
        """The group whose synopsis stores everything that a query reads, if there is one."""
        group = self.groups.get(key_set(query.periodic))
        if group is None or any(partial not in group.synopsis.since for partial in query.finisher.partials):
            return None
        return group

    # -- data ------------------------------------------------------------------------------------------

    def apply(self, batch: BatchFacts) -> Progress:
        """A micro-batch: absorb its partials, move the watermark, close panes, run what is due."""
        self._count(batch)
        groups = self.ordered()
        late = [0]
        for number, rows, counts in batch.lanes:
            late.append(groups[number].absorb(rows, counts))
        self._judge_reduction(groups, batch)
        self._report_late(max(late))
        if batch.latest is None:
            return Progress()
        self.latest = batch.latest if self.latest is None else max(self.latest, batch.latest)
        return self.advance(self.latest - self.stream.delay)

    def advance(self, watermark: Micros) -> Progress:
        """The watermark, or a heartbeat, has come to a time."""
        if self.watermark is not None and watermark <= self.watermark:
            return Progress()
        self.watermark = watermark
        return self._advance({group.keys: group.closed_by(watermark) for group in self.ordered()})

    def finish(self) -> Progress:
        """End of input, or idleness: nothing more is expected in the panes that are open."""
        if self.latest is None:
            return Progress()
        self.watermark = self.latest if self.watermark is None else max(self.latest, self.watermark)
        return self._advance({group.keys: group.ends_after(self.latest) for group in self.ordered()})

    def _advance(self, targets: dict[KeySet, Micros]) -> Progress:
        progress = Progress()
        runs = [self.groups[keys].advance(target, progress.outcome) for keys, target in targets.items()]
        progress.answers.extend(heapq.merge(*runs, key=lambda answer: answer.as_of))
        for name in (*progress.outcome.failed, *progress.outcome.ended):
            self.remove(name)
        return progress

    # -- one answer now --------------------------------------------------------------------------------

    def answer_now(self, query: CompiledQuery) -> Answer | None:
        group = self.active.get(query.name)
        return None if group is None else group.answer_now(group.queries[query.name])

    def probe(self, query: CompiledQuery, group: PeriodicGroup) -> Answer | None:
        """A one-time query's answer from a group's synopsis."""
        active = ActiveQuery(query)
        active.valid_from = group.valid_from(active)
        return group.answer_now(active)

    # -- counting --------------------------------------------------------------------------------------

    def _count(self, batch: BatchFacts) -> None:
        self.statistics.micro_batches += 1
        self.statistics.tuples += batch.rows
        self.statistics.null_timestamps += batch.null_timestamps
        self.statistics.unparsable += batch.unparsable

    def _report_late(self, late: int) -> None:
        self.statistics.late_tuples += late
        if late and not self._warned_late and not self.stream.late_revise:
            self._warned_late = True
            logger.warning(
                "stream %s: late tuples dropped (%d); a longer DELAY waits for them, LATE REVISE merges them "
                "(said once; stats() counts on)",
                self.stream.name,
                late,
            )

    def _judge_reduction(self, groups: list[PeriodicGroup], batch: BatchFacts) -> None:
        """Report, once, a set of groups that has nearly as many groups as there are tuples."""
        if batch.rows < _ENOUGH_TO_JUDGE:
            return
        for number, group in enumerate(groups):
            largest = max((len(rows.ends) for table, rows, _ in batch.lanes if table == number), default=0)
            ratio = largest / batch.rows
            if ratio > _REDUCTION and group.label not in self.unreduced:
                logger.warning(
                    "stream %s: grouping by %s leaves %.0f%% of the tuples as groups; pre-aggregation saves little",
                    self.stream.name,
                    group.label,
                    100 * ratio,
                )
            if ratio > _REDUCTION or group.label in self.unreduced:
                self.unreduced[group.label] = ratio
