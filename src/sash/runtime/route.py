"""Which runtime answers a query: the one place that decides.

    registered    has SLIDE, and panes can answer it ────────────────────────────► PANES
                  else a continuous plan ── route ──┬─ an aggregate over a join ──► JOINED_PANES
                                                    ├─ a set operation, one column ► SETS
                                                    └─ anything else ─────────────► CHANGES

    asked once    an aggregate of one window ── route_question ──► PANES, if they have all of the window; else ROWS:
                      columns, constants, machine numbers; rows in memory ──► computed in the process
                      anything else ────────────────────────────────────────► computed by Spark
                  any other SELECT ──► ROWS, computed by Spark

The catalog stores the route of a registered query, and everybody reads it there: the route is not derived again from
what a query looks like. The route of a question is a value, too: the question is answered by it, and EXPLAIN prints it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sash.catalog import CLUSTER, Route, StoredIndex, Stream
from sash.core.time import format_duration
from sash.panes import row_folds
from sash.panes.answers import Finisher
from sash.panes.partials import Partial
from sash.plan.continuous import AUTO, UPA, Node
from sash.plan.set_windows import windowed_set
from sash.plan.shared_joins import joined_aggregate
from sash.rows.value_keys import can_be_indexed
from sash.runtime.compiler import CompiledQuery, why_not_stored
from sash.sql import ROW_KINDS

_ROWS = Partial("rows")


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

    `routes` come in the order in which they are tried: stored rows answer what panes do not have.
    `refusal` says why stored rows do not answer. `why_spark` says why Spark computes with the rows; None: the process
    does, from the counts of `index` if there is one. `irreversible` is an aggregate from which the process cannot take
    back a sub-window that has left: such a question is begun again.
    """

    routes: tuple[Route, ...]
    refusal: str | None = None
    why_spark: str | None = None
    index: StoredIndex | None = None
    irreversible: str | None = None


def route_question(query: CompiledQuery, stream: Stream, indexes: Iterable[StoredIndex] = ()) -> QuestionRoute:
    """From the question, its stream, and the indexes over the stored window."""
    refusal = _why_not_rows(query, stream)
    if refusal is not None:
        return QuestionRoute((Route.PANES,), refusal)
    both, why_spark = (Route.PANES, Route.ROWS), _why_spark(query, stream)
    if why_spark is not None:
        return QuestionRoute(both, why_spark=why_spark)
    words = (row_folds.irreversible(reading) for reading in query.readings)
    irreversible = next((word for word in words if word is not None), None)
    return QuestionRoute(both, index=_counting_index(query, stream, indexes), irreversible=irreversible)


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
