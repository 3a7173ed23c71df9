"""Which runtime answers a query: the one place that decides. And what every runtime does.

    registered    route ──┬─ slides, and panes can answer it ──► PANES
                          ├─ an aggregate over a join ─────────► JOINED_PANES
                          ├─ a set operation, one column ──────► SETS
                          ├─ a join, nothing but its pairs ────► NESTED_JOINS
                          └─ anything else ────────────────────► CHANGES

    asked once    question_of ──┬─ an aggregate of one window, ─► panes, and behind them stored rows; without KEEP the
                                │  or made of such answers        answer of panes may be incomplete
                                └─ any other SELECT ────────────► stored rows, tables, archives, results of registered
                                                                  queries (result_of), computed by Spark
                  rows_behind: who computes with the stored rows where panes do not have all of the window
                          ├─ columns, constants, machine numbers; rows in memory ──► the process
                          └─ anything else ────────────────────────────────────────► Spark

    EXPLAIN       decide_select: what a SELECT is when it is asked, and when it is registered

A SELECT that nothing answers is refused here, by a CqlError: its word, the way out, and a code where programs need one.
The catalog stores the route of a registered query, and everybody reads it there: the route is not derived again from
what a query looks like, and what `route_plan` recognises in a plan goes with the route. A new query that is like a
registered one, with a strategy that would do, takes the registered one's strategy and route (`RouteDecision.like`):
queries that ask the same share one plan. The route of a question is a value, too: the question is answered by it, and
EXPLAIN prints it.

A stream is a loop over its runtimes (streams/running_stream.py). Each runtime has a log of its own, and the one of the
panes is the stream's: it comes last, so an epoch counts when all runtimes have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from sash.catalog import CLUSTER, Catalog, KeptForm, QueryResult, RegisteredQuery, Route, StoredIndex, Stream, Table
from sash.core.changes import UpdatePattern
from sash.core.errors import NEEDS_KEEP, NEEDS_REGISTRATION, CqlError, NotSupportedError, SashError
from sash.core.time import Micros, format_duration
from sash.core.window import MixedWindow, TimeWindow, Window
from sash.panes import row_folds
from sash.panes.answers import Finisher
from sash.panes.partials import Partial
from sash.plan.continuous import AUTO, NT, UPA, Node, is_stream, sampling_of
from sash.plan.nested_joins import Lengths, lengths_of
from sash.plan.nodes import AnswerOrder, Project
from sash.plan.periodic import flatten
from sash.plan.set_windows import WindowedSet, windowed_set
from sash.plan.shared_joins import JoinedAggregate, joined_aggregate
from sash.rows.value_keys import can_be_indexed
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.sql import (
    ROW_KINDS,
    BoundQuery,
    BoundSelect,
    BoundSet,
    Select,
    StoredQuestion,
    bind,
    bind_stored,
    has_slide,
    is_own,
    order_of_answers,
    plan_changes,
    plan_panes,
    relations_in,
    stream_names,
    windows_of,
)

if TYPE_CHECKING:
    from sash.runtime.records.journal import JournalSnapshot
    from sash.runtime.spark_pass import Batch

Q = TypeVar("Q", contravariant=True)
A = TypeVar("A", covariant=True)
_ROWS = Partial("rows")
# Answers and results of streams leave in the order in which they came.
_PATTERN_OF_STORED = UpdatePattern.WEAKEST


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


@dataclass(frozen=True)
class RouteDecision:
    """The route of a registered query, and its plan as it was written: of panes, or a continuous one.

    `joined`, `windowed_set` and `lengths` are what is recognised in a continuous plan, under any strategy: an aggregate
    over a join, a set operation, and the lengths of the windows of a join whose rows are its pairs. `execution` is the
    strategy that the user has set. `order` is ORDER BY and LIMIT of every answer of a continuous plan: it is no part of
    the plan, so queries with another order share the plan.
    """

    route: Route
    panes: Project | None = None
    changes: Node | None = None
    joined: JoinedAggregate | None = None
    windowed_set: WindowedSet | None = None
    lengths: Lengths | None = None
    execution: str = AUTO
    order: AnswerOrder | None = None

    @property
    def written(self) -> Node:
        """The continuous plan."""
        assert self.changes is not None
        return self.changes

    @property
    def is_free(self) -> bool:
        """Whether the strategy leaves the route open: another one than UPA that the user sets has a plan of its own."""
        return self.execution in (AUTO, UPA)

    def like(self, query: RegisteredQuery) -> RouteDecision:
        """The decision for a registered query, or for one that shares its plan: the route is the stored one."""
        return replace(self, route=query.route)

    @property
    def kept_form(self) -> KeptForm:
        """In which form KEEP stores its results."""
        if self.changes is None or sampling_of(self.changes) is not None:
            return KeptForm.ANSWERS
        return KeptForm.STREAM if is_stream(self.changes) else KeptForm.RELATION

    @property
    def schema(self) -> pa.Schema:
        """The columns of its answers."""
        if self.changes is not None:
            return self.changes.schema
        assert self.panes is not None
        return flatten(self.panes).schema


def route(query: BoundQuery, execution: str = AUTO) -> RouteDecision:
    """Decide which runtime answers a registered query. A CqlError says why none does."""
    if not is_continuous(query):
        return RouteDecision(Route.PANES, panes=plan_panes(query, periodic=True))
    return route_changes(query, execution)


def route_changes(query: BoundQuery, execution: str = AUTO) -> RouteDecision:
    """Decide about a query that panes do not answer."""
    found, order = route_plan(plan_changes(query), execution), order_of_answers(query)
    if order is None:
        return found
    joined = None if found.joined is None else found.joined.in_order(order)
    return replace(found, joined=joined, order=order)


def is_continuous(query: BoundQuery) -> bool:
    """Whether a registered query is a plan that is kept up to date with every tuple, and not read from panes."""
    select = query.select
    return bool(windows_of(select)) and not (has_slide(select) and _have_panes(query.body))


def _have_panes(body: BoundSelect | BoundSet) -> bool:
    """Whether panes answer a query that slides: an aggregate over one window, or one made of such answers."""
    if is_own(body.output):
        return False
    if isinstance(body, BoundSet):
        return body.is_union and all(map(_have_panes, (body.left, body.right))) and len(relations_in(body)) == 1
    if body.is_distinct:
        return False
    # No plan has sub-queries in expressions: panes answer them, or say why they do not.
    if body.asked:
        return True
    if any(test.condition is None or not _have_panes(test.query) for test in body.tests):
        return False
    for clause in (source.window for source in body.sources):
        # Rows as of multiples of a time begin and end inside of any pane.
        if clause is not None and (clause.internal_at is not None or isinstance(clause.window, MixedWindow)):
            return False
    queries = [(source, source.relation) for source in body.sources if not isinstance(source.relation, Stream | Table)]
    streams = [source for source in body.sources if isinstance(source.relation, Stream)]
    for source, query in queries:
        if source.window is not None or not _have_panes(query):
            return False
    if streams:
        return len(streams) + len(queries) == 1 and body.is_grouped and not body.tests
    return not body.is_grouped and len(relations_in(body)) == 1


def route_plan(plan: Node, execution: str = AUTO) -> RouteDecision:
    """Decide about a continuous plan as it was written."""
    joined, asked, lengths = joined_aggregate(plan), windowed_set(plan), lengths_of(plan)
    found = RouteDecision(Route.CHANGES, None, plan, joined, asked, lengths, execution)
    if found.is_free and joined is not None and Finisher(joined.query).is_simple:
        return replace(found, route=Route.JOINED_PANES)
    # No strategy has another way to an approximate answer.
    if asked is not None and (found.is_free or asked.groups is not None) and can_be_indexed(asked.type):
        return replace(found, route=Route.SETS)
    return replace(found, route=Route.NESTED_JOINS) if found.is_free and lengths is not None else found


# The decision of a query that is registered already: made once, from its text.
DecisionOf = Callable[[RegisteredQuery], RouteDecision]


def decide_registered(query: RegisteredQuery, catalog: Catalog) -> RouteDecision:
    """The decision from the text of a registered query, as after a restart: the route is the one of the catalog."""
    bound = bind(as_select(query.text), catalog)
    if query.route is Route.PANES:
        return RouteDecision(Route.PANES, panes=plan_panes(bound, periodic=True))
    return route_changes(bound, query.execution).like(query)


@dataclass(frozen=True)
class SelectDecision:
    """What a SELECT is to EXPLAIN: an answer of panes or of Spark, a continuous plan, or both.

    `refusal` says why a question without SLIDE cannot be registered.
    """

    answer: CompiledQuery | StoredQuestion | None = None
    changes: RouteDecision | None = None
    refusal: CqlError | None = None


def decide_select(select: Select, catalog: Catalog, decision_of: DecisionOf, execution: str = AUTO) -> SelectDecision:
    """Decide for EXPLAIN. A SELECT without SLIDE may be a question when it is asked, and a continuous query when it is
    registered.
    """
    try:
        bound = bind(select, catalog)
    except CqlError as error:
        if has_slide(select):
            raise
        return SelectDecision(question_of_rows(select, catalog, decision_of, error))
    if not is_continuous(bound):
        if has_slide(select):
            return SelectDecision(compile_panes(bound))
        return SelectDecision(question_of_bound(bound, catalog, decision_of))
    try:
        question = question_of_bound(bound, catalog, decision_of)
    except CqlError:
        return SelectDecision(changes=route(bound, execution))
    try:
        return SelectDecision(question, route(bound, execution))
    except CqlError as error:
        return SelectDecision(question, refusal=error)


def question_of(
    select: Select, catalog: Catalog, decision_of: DecisionOf, mark: str = ""
) -> CompiledQuery | StoredQuestion:
    """A SELECT that is asked once: an aggregate of one window, or made of such answers, which panes may answer, or a
    question to Spark.

    Our binder knows fewer types and functions than Spark: a SELECT that it refuses may still be asked of Spark.
    """
    try:
        bound = bind(select, catalog)
    except CqlError as error:
        return question_of_rows(select, catalog, decision_of, error, mark)
    return question_of_bound(bound, catalog, decision_of, mark)


def question_of_bound(
    bound: BoundQuery, catalog: Catalog, decision_of: DecisionOf, mark: str = ""
) -> CompiledQuery | StoredQuestion:
    try:
        return compile_panes(bound, "(one-time)", one_time=True)
    except CqlError as error:
        return question_of_rows(bound.select, catalog, decision_of, error, mark, bound)


def question_of_rows(
    select: Select,
    catalog: Catalog,
    decision_of: DecisionOf,
    refusal: CqlError,
    mark: str = "",
    bound: BoundQuery | None = None,
) -> StoredQuestion:
    """A question to Spark, over stored rows. `refusal` says why panes do not answer; it is raised if no stream stores
    rows, with the way out of a registration if the SELECT is `bound` and can be registered.
    """
    try:
        return stored_question(select, catalog, decision_of, mark)
    except CqlError as error:
        if not _stores_nothing(select, catalog):
            raise
        if bound is not None and refusal.code != NEEDS_REGISTRATION and _can_be_registered(bound):
            way_out = "a one-time question cannot have it, a continuous query can: REGISTER QUERY .. AS this SELECT"
            refusal = _with_way_out(refusal, way_out)
        raise (_with_way_out(refusal, error.reason) if error.code == NEEDS_KEEP else refusal) from None


def stored_question(select: Select, catalog: Catalog, decision_of: DecisionOf, mark: str = "") -> StoredQuestion:
    def result_named(name: str) -> QueryResult | None:
        return result_of(catalog.query(name), catalog, decision_of) if catalog.has_query(name) else None

    question = bind_stored(select, catalog, mark, result_named)
    for reading in question.windows.values():
        why = _why_not_stored(reading.stream, reading.reach, (reading.window,))
        if why is not None:
            raise CqlError(why, select.script, reading.at, "" if reading.window.unbounded else NEEDS_KEEP)
    return question


def result_of(query: RegisteredQuery, catalog: Catalog, decision_of: DecisionOf) -> QueryResult:
    """What a registered query is in FROM of a question: its answer as of now, or what KEEP stores of its answers.

    A SashError says why it is nothing.
    """
    missing = [name for name in query.streams or (query.stream,) if not catalog.has_stream(name)]
    if missing:
        raise SashError(f"query '{query.name}' reads stream '{missing[0]}', which is not open again: create it first")
    decision = decision_of(query)
    schema = query.asked_schema(decision.schema)
    if query.keep is not None and query.kept_form is not KeptForm.RELATION:
        return QueryResult(query, schema, _PATTERN_OF_STORED)
    if decision.changes is None:
        return QueryResult(query, schema)
    plan, limited = decision.changes, decision.order is not None and decision.order.limit is not None
    if is_stream(plan):
        reason = f"query '{query.name}' is a stream of results that never end, and no relation to ask"
        raise SashError(f"{reason}: CREATE ARCHIVE .. FROM {query.name} keeps results that can be asked, as KEEP does")
    if not query.route.has_view or limited:
        return QueryResult(query, schema)
    # With negative tuples every row that leaves is taken back.
    taken_back = query.execution == NT and plan.pattern is not UpdatePattern.MONOTONIC
    return QueryResult(query, schema, UpdatePattern.STRICT if taken_back else plan.pattern)


def _stores_nothing(select: Select, catalog: Catalog) -> bool:
    """Whether a question is about streams none of which stores its rows."""
    names = {name.lower() for name in stream_names(select)}
    kept = [stream.keep for stream in catalog.streams if stream.name.lower() in names]
    return bool(kept) and not any(kept)


def _can_be_registered(bound: BoundQuery) -> bool:
    try:
        return route(bound).changes is not None
    except CqlError:
        return False


def _with_way_out(error: CqlError, way_out: str) -> CqlError:
    if isinstance(error, NotSupportedError):
        return NotSupportedError(f"{error.what}; {way_out}", error.text, error.span)
    return CqlError(f"{error.reason}; {way_out}", error.text, error.span)


@dataclass(frozen=True)
class RowsBehind:
    """How stored rows answer an aggregate of one window that panes do not have.

    `refusal` says why stored rows do not answer.
    `why_spark` says why Spark computes with the rows; None: the process does, from the counts of `index` if there is
    one. `irreversible` is an aggregate from which the process cannot take back a sub-window that has left: such a
    question is begun again.
    """

    refusal: str | None = None
    why_spark: str | None = None
    index: StoredIndex | None = None
    irreversible: str | None = None


def rows_behind(query: CompiledQuery, stream: Stream, indexes: Iterable[StoredIndex] = ()) -> RowsBehind:
    """Decide from the question, its stream, and the indexes over the stored window."""
    refusal = _why_not_rows(query, stream)
    if refusal is not None:
        return RowsBehind(refusal)
    if (why := what_takes_spark(query, stream)) is not None:
        return RowsBehind(why_spark=why)
    words = (row_folds.irreversible(reading) for reading in query.readings)
    irreversible = next((word for word in words if word is not None), None)
    return RowsBehind(index=_counting_index(query, stream, indexes), irreversible=irreversible)


def _why_not_stored(stream: Stream, reach: int | None, windows: Iterable[Window]) -> str | None:
    """What a stream would have to keep for a question; None if it does."""
    for window in windows:
        if isinstance(window, TimeWindow) and window.unbounded:
            return f"stream '{stream.name}' stores no [{window.extent}] window: give a WINDOW"
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
    return _why_not_stored(stream, reach, query.windows)


def what_takes_spark(query: CompiledQuery, stream: Stream) -> str | None:
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
