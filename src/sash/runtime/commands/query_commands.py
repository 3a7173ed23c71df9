"""What a session does with queries: REGISTER, DROP, and handing them what the streams have for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sash.catalog import RegisteredQuery
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, QueryFailedError, SashError
from sash.core.events import report
from sash.core.time import Micros
from sash.core.window import RowWindow
from sash.plan.continuous import Node, sampling_of
from sash.plan.nodes import Project
from sash.runtime.answers.outlet import Channel
from sash.runtime.answers.registered_query import Query, deliver, fail_query
from sash.runtime.commands.declare import check_name, check_same_query, checked_execution
from sash.runtime.commands.session_state import SessionParts
from sash.runtime.compiler import CompiledQuery, compile_panes, compile_query
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.continuous.plan_runtime import ContinuousQuery
from sash.runtime.periodic.cluster_tables import ClusterTables
from sash.runtime.periodic.stream_runtime import Progress
from sash.runtime.records.catalog_history import query_change
from sash.runtime.records.stream_queries import StreamQueries
from sash.runtime.route import route
from sash.sql import BoundQuery, Select, bind, plan_changes

logger = logging.getLogger("sash.runtime")


class MissingAggregateError(CheckpointError):
    """A query of the checkpoint calls an aggregate that the program has not created again."""

    def __init__(self, query: str, stream: str, aggregate: str) -> None:
        super().__init__(
            f"query '{query}' of the checkpoint calls the aggregate '{aggregate}', whose functions no checkpoint has: "
            f"create_aggregate('{aggregate}', ..) before stream '{stream}' is opened again"
        )


class QueryCommands:
    """`make_handle` makes the query that a user holds of a registration."""

    def __init__(
        self, shared: SessionParts, continuous: ContinuousQueries, make_handle: Callable[[RegisteredQuery], Query]
    ) -> None:
        self._shared = shared
        self._continuous = continuous
        self._handles = shared.handles
        self._make_handle = make_handle
        self._compiled: dict[RegisteredQuery, CompiledQuery] = {}
        # Queries of a checkpoint that the program may still register as they were.
        self._restored: set[str] = set()
        # Periodic ones among them whose claims on pane tables nobody has asked for yet (`_claim_restored`).
        self._unclaimed: dict[str, RegisteredQuery] = {}
        # Queries whose lives have ended while their sinks were still behind.
        self._partings: list[threading.Thread] = []
        self.execution = checked_execution(shared.settings.execution)
        shared.end_life = lambda name, serial: self._end_life(name, shared.handle(name, serial))

    def set_execution(self, strategy: str) -> None:
        """For continuous queries that are registered from now on."""
        self.execution = checked_execution(strategy)

    # -- register and drop -----------------------------------------------------------------------------

    def register(
        self, select: Select, name: str, priority: int, lifetime: Micros | None, synopsis: str | None
    ) -> Query:
        check_name("query", name)
        synopsis = None if synopsis is None or synopsis.lower() == "auto" else synopsis.lower()
        wanted = RegisteredQuery(name, select.text, "", priority, lifetime, 0, synopsis)
        with self._shared.lock:
            bound = bind(select, self._shared.catalog)
            routed = route(bound, self.execution)
            if routed.panes is not None:
                handle, compiled = self._register_periodic(bound, routed.panes, wanted)
        if routed.changes is not None:
            if wanted.synopsis is not None:
                raise SashError("a continuous query has no synopsis; leave it out, or add SLIDE")
            self._continuous.prepare(routed.changes, self.execution, self._shared.lock)
            with self._shared.lock:
                # The catalog may have changed meanwhile.
                plan = plan_changes(bind(select, self._shared.catalog))
                return self._register_continuous(plan, replace(wanted, execution=self.execution))
        if compiled is not None:
            self._answer_at_once(compiled)
        return handle

    def _register_periodic(
        self, bound: BoundQuery, plan: Project, wanted: RegisteredQuery
    ) -> tuple[Query, CompiledQuery | None]:
        """The query's handle, and the query as it is compiled unless a checkpoint has it already."""
        wanted = replace(wanted, serial=self._shared.history.version + 1)
        # At once as it is registered: what it finds out about itself is found out once.
        compiled = compile_panes(
            bound, wanted.name, plan=plan,
            priority=wanted.priority, lifetime=wanted.lifetime, serial=wanted.serial, synopsis=wanted.synopsis,
        )  # fmt: skip
        self._claim_restored(compiled.stream)
        self._claims_of(compiled).check(compiled)
        query = replace(wanted, stream=compiled.stream, tables=compiled.tables, aggregates=compiled.aggregates)
        if (known := self._known(query)) is not None:
            return known, None
        handle = self._add(query)
        self._compiled[query] = compiled
        self._claims_of(compiled).claim(compiled)
        return handle, compiled

    def _register_continuous(self, plan: Node, wanted: RegisteredQuery) -> Query:
        wanted = replace(wanted, serial=self._shared.history.version + 1)
        restored = wanted.name.lower() in self._restored
        before = self._shared.catalog.query(wanted.name) if restored else None
        if not restored:
            # Before it is compiled: an aggregate over a join would widen its group.
            self._shared.catalog.check_new_query(wanted.name)
        query = self._continuous.compile(plan, wanted, before)
        try:
            if (known := self._known(query)) is not None:
                return known
            handle = self._add(query)
        except BaseException:
            self._continuous.detach(query)
            raise
        try:
            self._continuous.attach(query)
        except BaseException:
            self._drop(query.name)
            raise
        return handle

    def _known(self, query: RegisteredQuery) -> Query | None:
        """The query of a checkpoint that a program registers again as it was."""
        if query.name.lower() not in self._restored:
            return None
        known = self._shared.catalog.query(query.name)
        check_same_query(query, known)
        if known.is_continuous:
            self._continuous.compiled(known)
        self._restored.discard(query.name.lower())
        return self._handles[known.name]

    def _add(self, query: RegisteredQuery) -> Query:
        self._shared.catalog.add_query(query)
        try:
            self._shared.history.append(query_change(query))
        except CheckpointError:
            self._shared.catalog.drop_query(query.name)
            raise
        if query.is_continuous:
            self._continuous.add(query)
        handle = self._handles[query.name] = self._make_handle(query)
        streams = ", ".join(query.streams) or query.stream
        kind = "continuous" if query.is_continuous else "periodic"
        told = "query %(query)s is registered over %(stream)s"
        report(logger, logging.INFO, "query.registered", told, query=query.name, stream=streams, kind=kind)
        return handle

    def _claims_of(self, compiled: CompiledQuery) -> ClusterTables:
        return self._shared.streams[compiled.stream.lower()].cluster

    def _claim_restored(self, stream: str) -> None:
        """Queries of a checkpoint have claims on pane tables, too; they are compiled when that matters first."""
        for name in [name for name, query in self._unclaimed.items() if query.reads(stream)]:
            compiled = self._compile(self._unclaimed[name])
            self._claims_of(compiled).claim(compiled)
            del self._unclaimed[name]

    def _answer_at_once(self, compiled: CompiledQuery) -> None:
        """Where the stream has begun and its synopsis has what the query needs, nobody waits for a slide."""
        try:
            answer = self._shared.streams[compiled.stream.lower()].panes.answer(compiled)
        except QueryFailedError:
            # It fails again when it is due, and is reported then.
            return
        if answer is not None and (answer.scheduled or not compiled.exactly):
            self.take(Progress({compiled.name: compiled.serial}, [answer]), False)

    def drop(self, name: str) -> None:
        with self._shared.lock:
            self._shared.catalog.check_unarchived("query", self._shared.catalog.query(name).name)
            self._drop(name)

    def _drop(self, name: str, *, in_batch: bool = False) -> None:
        with self._shared.lock:
            query = self._shared.catalog.query(name)
            # First: what cannot be written does not happen.
            self._shared.history.append({"change": "drop query", "name": query.name})
            self._shared.catalog.drop_query(query.name)
            self._restored.discard(query.name.lower())
            handle = self._handles.pop(query.name, None)
            compiled = self._compiled.pop(query, None)
            if query.is_continuous:
                self._continuous.detach(query)
            elif self._unclaimed.pop(query.name.lower(), None) is None and compiled is not None:
                self._claims_of(compiled).release(compiled)
        # Sinks get a last try, for which no micro-batch waits.
        if in_batch:
            parting = threading.Thread(target=self._part, args=(query, handle), name="sash-part", daemon=True)
            self._partings.append(parting)
            parting.start()
        else:
            self._part(query, handle)
        report(logger, logging.INFO, "query.dropped", "query %(query)s is dropped", query=query.name)

    def _part(self, query: RegisteredQuery, handle: Query | None) -> None:
        if handle is not None:
            handle.outward.close()
        if self._shared.checkpoint is not None:
            self._shared.checkpoint.forget_unwritten(query.name, query.serial)

    def restore(self) -> None:
        """After a restart: queries are known at once."""
        for query in self._shared.history.queries().values():
            self._shared.catalog.add_query(query)
            self._restored.add(query.name.lower())
            self._handles[query.name] = self._make_handle(query)
            if query.is_continuous:
                self._continuous.add(query)
            else:
                self._unclaimed[query.name.lower()] = query

    # -- for the streams -------------------------------------------------------------------------------

    def at(self, stream: str) -> list[CompiledQuery]:
        """A stream's periodic queries."""
        with self._shared.lock:
            mine = [query for query in self._shared.catalog.queries if _is_periodic(stream, query)]
            return [self._compile(query) for query in mine]

    def _compile(self, query: RegisteredQuery) -> CompiledQuery:
        if query not in self._compiled:
            missing = [name for name in query.aggregates if name not in self._shared.catalog.aggregates]
            if missing:
                raise MissingAggregateError(query.name, query.stream, missing[0])
            self._compiled[query] = compile_query(query, self._shared.catalog)
        return self._compiled[query]

    def periodic_of(self, stream: str) -> StreamQueries[CompiledQuery]:
        """A stream's periodic queries at each version of the catalog."""
        return StreamQueries(self._shared.history, self._shared.lock, partial(_is_periodic, stream), self._compile)

    def continuous_of(self, stream: str) -> StreamQueries[ContinuousQuery]:
        """A stream's continuous queries at each version of the catalog."""
        wants, compile = partial(_is_continuous, stream), self._continuous.compiled
        return StreamQueries(self._shared.history, self._shared.lock, wants, compile)

    def take(self, progress: Progress, delivered: bool) -> None:
        """Hand answers to their queries; record failures and ends. `delivered`: all this was told before a restart."""

        def meant(name: str) -> Query | None:
            return self._shared.handle(name, progress.serials.get(name))

        handles, serials = self._shared.handles, progress.serials
        found = [(handles.get(answer.query), answer) for answer in progress.answers]
        deliver([(q, a) for q, a in found if q is not None and q.serial == serials.get(a.query)], again=delivered)
        for name, why in progress.outcome.failed.items():
            fail_query(name, meant(name), why, reported=delivered)
        for name in progress.outcome.ended:
            self._end_life(name, None if delivered else meant(name))

    def _end_life(self, name: str, handle: Query | None) -> None:
        """The LIFETIME of a query is over; it is dropped unless that was done before."""
        told = "query %(query)s has reached the end of its lifetime"
        report(logger, logging.INFO, "query.ended", told, query=name)
        if handle is not None:
            self._drop(name, in_batch=True)

    # -- sinks -----------------------------------------------------------------------------------------

    def columns_of(self, handle: Query) -> tuple[list[str], bool] | None:
        """The columns of a query's answers, and whether answers count rows.

        None where that is not known: the query was dropped, or is a checkpoint's whose streams are not there again.
        """
        with self._shared.lock:
            query = self._shared.catalog.find_query(handle.name, handle.serial)
            try:
                return None if query is None else self._columns_of(query)
            except SashError:
                return None

    def _columns_of(self, query: RegisteredQuery) -> tuple[list[str], bool]:
        if query.is_continuous:
            plan = self._continuous.plan(query)
            return (plan.schema if sampling_of(plan) else Changes.none(plan.schema).to_table().schema).names, False
        compiled = self._compiled.get(query) or compile_query(query, self._shared.catalog)
        by_rows = any(isinstance(window, RowWindow) for window in compiled.windows)
        return [output.name for output in compiled.plan.outputs], by_rows

    def settle(self, patience: float | None = None) -> None:
        """Sinks that failed get another chance; subscribers with queues are waited for, at most for so many seconds."""
        settled = set[Channel]()
        for handle in list(self._handles.values()):
            handle.outward.settle(patience, settled)
        for parting in self._partings:
            parting.join(patience)
        self._partings = [parting for parting in self._partings if parting.is_alive()]

    def report_unwritten(self) -> None:
        for handle in list(self._handles.values()):
            if handle.failure is None and handle.error is not None:
                told = "the session closes: %(why)s"
                report(logger, logging.ERROR, "sink.unwritten", told, query=handle.name, why=str(handle.error))


def _is_periodic(stream: str, query: RegisteredQuery) -> bool:
    return not query.is_continuous and query.reads(stream)


def _is_continuous(stream: str, query: RegisteredQuery) -> bool:
    return query.is_continuous and query.reads(stream)
