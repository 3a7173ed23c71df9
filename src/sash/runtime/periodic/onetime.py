"""One-time queries: answered from synopses that cover them, else refused with the reason.

An answer takes two steps: its panes are taken in a moment, and computed with while panes slide.

    under the lock     as of when, complete or not; the panes that it reads, frozen
    without it         scan or merge, HAVING, ORDER BY, the SELECT list
    at the end         lws, ttu: have the groups that it read moved on, or were panes revised?

The first answer of a new query is made in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sash.core.errors import QueryFailedError, SashError
from sash.core.stopping import check_question
from sash.core.time import format_duration, to_micros
from sash.core.window import LandmarkWindow
from sash.isolation import Isolation
from sash.panes.answers import PendingTable
from sash.panes.partials import Partial
from sash.panes.readings import Reading, TableName
from sash.runtime.answers.answer import Answer, stamped_table
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery, AdvanceOutcome, BoundReading
from sash.runtime.periodic.executor import Execution
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.stream_runtime import StreamRuntime, newest_common
from sash.sharing.rules import WindowLack, window_lack


@dataclass(frozen=True)
class PaneLack:
    """What a pane table lacks for a question: partials, or it keeps `reach` in panes of `pane`, which does not fit.

    `error` tells it to the asker.
    """

    table: TableName
    error: str
    partials: tuple[Partial, ...] = ()
    reach: int = 0
    pane: int = 0


@dataclass(frozen=True)
class PaneOffer:
    """What panes have for a question as of the newest common time, or what they lack; None: no pane is closed yet."""

    query: CompiledQuery
    lacks: tuple[PaneLack, ...]
    active: ActiveQuery | None = None
    as_of: int | None = None

    @property
    def begins_late(self) -> bool:
        """Whether an answer would not be complete: stored rows may reach further back."""
        return self.active is not None and self.as_of is not None and not self.active.is_complete(self.as_of)


class PaneLookup:
    """Made under the isolation level's lock; it is a `TakenWindow`."""

    def __init__(self, active: ActiveQuery, as_of: int) -> None:
        home = active.home
        self._joint = JointQueries([active])
        home.note_execution([self._joint])
        for bound in active.readings:
            bound.valid_from = bound.group.valid_from(bound)
        self._active = active
        self._as_of = as_of
        self._moment = home.clock.moment(as_of)
        self._complete = active.is_complete(as_of)
        self._outcome = AdvanceOutcome()
        self._execution = Execution([self._joint], as_of, self._outcome)
        self._execution.freeze()
        self._seen = self._state()

    def compute(self) -> Answer:
        active, home = self._active, self._active.home
        self._execution.read()
        (table,) = self._execution.tables(self._joint)
        if table is None:
            raise QueryFailedError(next(iter(self._outcome.failed.values())))
        scheduled = home.clock.is_multiple(active.compiled.slide, self._as_of)
        number = self._as_of if home.name.by_rows else None
        whole = table.table if isinstance(table, PendingTable) else table
        return Answer(active.name, self._moment, self._complete, scheduled, whole, number)

    def is_latest(self) -> bool:
        """Whether all its groups are where they were. Numbers only grow, so they were so at the first comparison.

        A job in the cluster is not done again: its answer has the time at which its files were taken.
        """
        return self._active.reads_cluster or self._state() == self._seen

    def _state(self) -> list[tuple[int | None, int]]:
        return [(group.clock.now, group.panes.version) for group in self._active.groups]


# Seconds until it is looked again whether the groups that a question reads are all as of one time.
_AGAIN = 0.001


def answer_now(query: CompiledQuery, runtime: StreamRuntime, isolation: Isolation) -> Answer:
    """The answer from panes, which are taken between two executions, when all of them are as of one time."""

    def take() -> PaneLookup | None:
        return None if runtime.is_between(query) else look_up(query, runtime)

    while (answer := isolation.taking(take)) is None:
        # The thread that moves the groups on needs the processor.
        time.sleep(_AGAIN)
        check_question()
    return answer


def look_up(query: CompiledQuery, runtime: StreamRuntime) -> PaneLookup:
    """The panes for an answer as of the newest pane."""
    if runtime.latest is None:
        raise SashError(_too_early(query))
    offer = offered(query, runtime)
    if offer.lacks:
        raise SashError(offer.lacks[0].error)
    if offer.active is None or offer.as_of is None:
        raise SashError(_too_early(query))
    return PaneLookup(offer.active, offer.as_of)


def offered(query: CompiledQuery, runtime: StreamRuntime) -> PaneOffer:
    """What panes have for a question, or lack."""
    query = as_stored(query, runtime)
    active = runtime.covers(query)
    if active is None:
        return PaneOffer(query, tuple(_missing(query, runtime)))
    as_of = newest_common(active)
    lacks = (_lack_of(bound, query.stream, as_of) for bound in active.readings)
    return PaneOffer(query, tuple(lack for lack in lacks if lack is not None), active, as_of)


def as_stored(query: CompiledQuery, runtime: StreamRuntime) -> CompiledQuery:
    """The question as panes can answer it: COUNT_MIN by counters, if the counts of all values are not there."""
    other = query.with_counters
    is_better = other is not None and runtime.covers(query) is None and runtime.covers(other) is not None
    return other if other is not None and is_better else query


def stamped(answer: Answer) -> pa.Table:
    return stamped_table(answer.table, to_micros(answer.as_of), answer.complete)


def is_cut(active: ActiveQuery) -> bool:
    """Whether some window's edge lies inside a stored pane as of the newest common time."""
    as_of = newest_common(active)
    return as_of is not None and any(bound.is_cut(as_of) for bound in active.readings)


def _lack_of(bound: BoundReading, stream: str, as_of: int | None) -> PaneLack | None:
    """Why the panes of a reading do not have all of its window."""
    error, group = _beyond(bound, stream, as_of), bound.group
    if error is None:
        return None
    return PaneLack(bound.reading.table, error, reach=group.members.reach, pane=group.clock.length)


def _beyond(bound: BoundReading, stream: str, as_of: int | None) -> str | None:
    window, group = bound.reading.window, bound.group
    where, register = f"the synopsis over {stream} by {group.label}", "register a query with"
    if isinstance(window, LandmarkWindow) and as_of is not None:
        is_kept = group.keeps(window, as_of)
        return None if is_kept else f"{where} does not keep all of {window}; {register} such a window first"
    if window.unbounded and not group.members.keeps_history:
        return f"{where} forgets what its windows have passed; {register} an [UNBOUNDED ..] window first"
    lack = None if window.unbounded else window_lack(window, group.members.reach, group.clock.length)
    if lack is WindowLack.LONGER:
        kept, asked = (_extent(bound, length) for length in (group.members.reach, window.reach))
        return f"{where} keeps {kept}, the question looks back {asked}; {register} such a window first"
    if bound.is_cut(as_of) if as_of is not None else lack is WindowLack.UNEVEN:
        pane = _extent(bound, group.clock.length)
        return f"{window} does not fit the stored panes of {pane}; take multiples of {pane}"
    return None


def _extent(bound: BoundReading, length: int) -> str:
    return f"{length} rows" if bound.group.name.by_rows else format_duration(length)


def _too_early(query: CompiledQuery) -> str:
    return f"no pane of stream '{query.stream}' is closed yet: there is nothing to ask"


def _missing(query: CompiledQuery, runtime: StreamRuntime) -> Iterator[PaneLack]:
    """The tables that do not store everything, with the partials that they lack."""
    missing = [each for number, each in enumerate(query.readings) if runtime.offer(query, number) is None]
    error = _why_not(query, missing, runtime)
    for table in dict.fromkeys(reading.table for reading in missing):
        group = runtime.groups.get(table)
        stored: Container[Partial] = () if group is None else group.members.partials
        needed = dict.fromkeys(partial for each in missing if each.table == table for partial in each.partials)
        yield PaneLack(table, error, tuple(partial for partial in needed if partial not in stored))


def _why_not(query: CompiledQuery, missing: Sequence[Reading], runtime: StreamRuntime) -> str:
    labels = ", ".join(group.label for group in runtime.groups.values()) or "none"
    leaf = next(f.query for f in query.finishers if any(reading in missing for reading in f.readings))
    wanted = ", ".join(str(call) for call in leaf.calls)
    by = ", ".join(key.expression.sql for key in leaf.keys)
    return (
        f"no synopsis of stream '{query.stream}' holds {wanted} by ({by}) "
        f"{'under this WHERE ' if leaf.predicate is not None else ''}"
        f"(pane tables: {labels}); register a query with these aggregates and groups, its panes then answer"
    )
