"""Which runtime answers a query: the one place that decides. And what every runtime does.

    registered    is_continuous: does it slide, and can panes answer it? ────────► PANES
                  else a continuous plan ── route ──┬─ an aggregate over a join ──► JOINED_PANES
                                                    ├─ a set operation, one column ► SETS
                                                    └─ anything else ─────────────► CHANGES

    asked once    an aggregate of one window ── route_question ► panes if they have all of the window, else stored rows:
                      columns, constants, machine numbers; rows in memory ──► computed in the process
                      anything else ────────────────────────────────────────► computed by Spark
                  any other SELECT ──► stored rows, tables, archives, computed by Spark

The catalog stores the route of a registered query, and everybody reads it there: the route is not derived again from
what a query looks like. The route of a question is a value, too: the question is answered by it, and EXPLAIN prints it.

A stream is a loop over its runtimes (streams/running_stream.py). Each runtime has a log of its own, and the one of the
panes is the stream's: it comes last, so an epoch counts when all runtimes have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from sash.catalog import CLUSTER, Route, StoredIndex, Stream, Table
from sash.core.time import Micros, format_duration
from sash.panes import row_folds
from sash.panes.answers import Finisher
from sash.panes.partials import Partial
from sash.plan.continuous import AUTO, UPA, Node
from sash.plan.set_windows import windowed_set
from sash.plan.shared_joins import joined_aggregate
from sash.rows.value_keys import can_be_indexed
from sash.sql import ROW_KINDS, BoundQuery, BoundSelect, BoundSet, has_slide, is_own, relations_in, windows_of

if TYPE_CHECKING:
    from sash.runtime.compiler import CompiledQuery
    from sash.runtime.records.journal import JournalSnapshot
    from sash.runtime.spark_pass import Batch

Q = TypeVar("Q", contravariant=True)
A = TypeVar("A", covariant=True)
_ROWS = Partial("rows")


class Runtime(Protocol[Q, A]):
    """Answers the compiled queries `Q` of one route, by answers `A`.

    An epoch is a micro-batch, a heartbeat or the end of a stream. Within an epoch a runtime changes its state, tells
    the answers to the queries, and commits the epoch in its log, in this order. It is an error to skip an epoch; an
    epoch that comes again after its commit changes nothing.
    """

    def take(self, batch: Batch) -> int:
        """Take a micro-batch. The result is how many of its tuples came too late."""

    def advance(self, stream: str, watermark: Micros) -> None:
        """Go on without tuples: no tuple of a stream with an earlier time is to come."""

    def finish(self, stream: str) -> None:
        """Answer for everything that a stream has brought: it has ended, or is idle."""

    def answer(self, query: Q) -> A:
        """Answer a query as of now, from the state as it is."""

    def save(self) -> JournalSnapshot:
        """The whole state, for the log: it stands for all entries so far."""

    def load(self) -> None:
        """Become what the log has: the last snapshot, and the entries after it. Nobody is told again."""


def is_continuous(query: BoundQuery) -> bool:
    """Whether a registered query is a plan that is kept up to date with every tuple, and not read from panes."""
    select = query.select
    return bool(windows_of(select)) and not (has_slide(select) and _have_panes(query.body))


def _have_panes(body: BoundSelect | BoundSet) -> bool:
    """Whether panes answer a query that slides: an aggregate over one window, or the joined answers of such queries."""
    if isinstance(body, BoundSet) or is_own(body.output) or body.is_distinct or body.tests:
        return False
    if any(source.window is not None and source.window.internal_at is not None for source in body.sources):
        return False
    queries = [(source, source.relation) for source in body.sources if not isinstance(source.relation, Stream | Table)]
    streams = [source for source in body.sources if isinstance(source.relation, Stream)]
    for source, query in queries:
        if source.window is not None or not _have_panes(query) or _is_over_queries(query):
            return False
    if streams:
        return len(streams) + len(queries) == 1 and body.is_grouped
    return not body.is_grouped and len(relations_in(body)) == 1


def _is_over_queries(body: BoundSelect | BoundSet) -> bool:
    return isinstance(body, BoundSelect) and not isinstance(body.sources[0].relation, Stream | Table)


def route(plan: Node, execution: str) -> Route:
    """Of a continuous plan as it was written. A strategy other than UPA that the user sets has a plan of its own."""
    is_free = execution in (AUTO, UPA)
    joined, asked = joined_aggregate(plan), windowed_set(plan)
    if is_free and joined is not None and Finisher(joined.query).is_simple:
        return Route.JOINED_PANES
    # No strategy has another way to an approximate answer.
    if asked is not None and (is_free or asked.groups is not None) and can_be_indexed(asked.type):
        return Route.SETS
    return Route.CHANGES


@dataclass(frozen=True)
class QuestionRoute:
    """How an aggregate of one window is answered when it is asked once.

    Panes are asked first, and stored rows answer what panes do not have. `refusal` says why stored rows do not answer.
    `why_spark` says why Spark computes with the rows; None: the process does, from the counts of `index` if there is
    one. `irreversible` is an aggregate from which the process cannot take back a sub-window that has left: such a
    question is begun again.
    """

    refusal: str | None = None
    why_spark: str | None = None
    index: StoredIndex | None = None
    irreversible: str | None = None


def route_question(query: CompiledQuery, stream: Stream, indexes: Iterable[StoredIndex] = ()) -> QuestionRoute:
    """From the question, its stream, and the indexes over the stored window."""
    refusal = _why_not_rows(query, stream)
    if refusal is not None:
        return QuestionRoute(refusal)
    why_spark = _why_spark(query, stream)
    if why_spark is not None:
        return QuestionRoute(why_spark=why_spark)
    words = (row_folds.irreversible(reading) for reading in query.readings)
    irreversible = next((word for word in words if word is not None), None)
    return QuestionRoute(index=_counting_index(query, stream, indexes), irreversible=irreversible)


def why_not_stored(stream: Stream, reach: int | None, unbounded: bool) -> str | None:
    """What a stream would have to keep for a question; None if it does."""
    if unbounded:
        return f"stream '{stream.name}' stores no [UNBOUNDED] window: give a WINDOW"
    if stream.keep is None:
        example = "10 min" if reach is None else format_duration(reach)
        return f"stream '{stream.name}' stores no rows: CREATE STREAM .. KEEP {example} would make it possible"
    if reach is not None and reach > stream.keep:
        return (
            f"stream '{stream.name}' stores its rows for {format_duration(stream.keep)}, and the question looks back "
            f"{format_duration(reach)}: KEEP {format_duration(reach)} would make it possible"
        )
    return None


def _why_not_rows(query: CompiledQuery, stream: Stream) -> str | None:
    by_rows = query.readings[0].table.by_rows
    reach = None if by_rows else max(window.reach for window in query.windows)
    return why_not_stored(stream, reach, any(window.unbounded for window in query.windows))


def _why_spark(query: CompiledQuery, stream: Stream) -> str | None:
    """What of a question takes Spark, in words; None: nothing does."""
    if stream.keep_in == CLUSTER:
        return "its rows are in the cluster"
    if len(query.finishers) != 1:
        return "it puts several answers together"
    if query.lookups:
        return f"it looks tuples up in {', '.join(query.tables)}"
    reasons = (row_folds.why_not_folded(reading, stream.schema) for reading in query.readings)
    reason = next((each for each in reasons if each is not None), None)
    if reason is not None:
        return reason
    (window,) = query.windows
    if window.lag:
        return "its window has a LAG"
    if window.length % stream.sub_window:
        return f"its window is no multiple of the sub-windows of {format_duration(stream.sub_window)}"
    return None


def _counting_index(query: CompiledQuery, stream: Stream, indexes: Iterable[StoredIndex]) -> StoredIndex | None:
    """A set-valued index that has the answer's counts: over the whole stored window, without WHERE and GROUP BY.

    MEDIAN(x), COUNT(DISTINCT x), HISTOGRAM(x), TOP(k, x) and the like read the number of rows for each value of x.
    """
    if len(query.readings) != 1 or set(query.readings[0].partials) != {_ROWS}:
        return None
    (reading,) = query.readings
    if len(reading.table.keys) != 1 or reading.sub_window is not None or reading.window.length != stream.keep:
        return None
    column = reading.table.keys[0].column
    return next((each for each in indexes if each.column == column and each.kind not in ROW_KINDS), None)
