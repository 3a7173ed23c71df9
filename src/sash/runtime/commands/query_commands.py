"""What a session does with queries: REGISTER, ALTER, PAUSE, DROP, and handing them what the streams have for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from sash.catalog import RegisteredQuery
from sash.core.changes import Changes
from sash.core.errors import CatalogError, CheckpointError, CqlError, QueryFailedError, SashError, Span
from sash.core.events import report
from sash.core.time import to_datetime
from sash.core.window import FOREVER, RowWindow
from sash.plan.continuous import sampling_of
from sash.plan.nodes import Project
from sash.runtime.answers.answer import Addressees, AnswerBatch
from sash.runtime.answers.outlet import Channel
from sash.runtime.answers.registered_query import Outward, Query, deliver, fail_query
from sash.runtime.commands.declare import check_kept, check_name, check_same_query, checked_execution, is_same_query
from sash.runtime.compiler import CompiledQuery, as_select, checked_panes, compile_query, registered_as
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.continuous.plan_runtime import ContinuousQuery
from sash.runtime.periodic.cluster_tables import ClusterTables
from sash.runtime.periodic.stream_runtime import Progress
from sash.runtime.records.catalog_history import query_change
from sash.runtime.records.stream_queries import StreamQueries
from sash.runtime.route import RouteDecision, route
from sash.runtime.session_parts import SessionParts
from sash.sql import AlterQuery, BoundQuery, Name, PauseOrResume, RegisterQuery, Select, altered, bind, relations_in

logger = logging.getLogger("sash.runtime")


class MissingAggregateError(CheckpointError):
    """A query of the checkpoint calls an aggregate, or a function, that the program has not created again."""

    def __init__(self, query: str, stream: str, called: str, kind: str = "aggregate") -> None:
        super().__init__(
            f"query '{query}' of the checkpoint calls the {kind} '{called}', whose functions no checkpoint has: "
            f"create_{kind}('{called}', ..) before stream '{stream}' is opened again"
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
        # How often queries have come or gone.
        self._changes = 0
        self._compiled: dict[RegisteredQuery, CompiledQuery] = {}
        # Queries of a checkpoint that the program may still register as they were.
        self._restored: set[str] = set()
        # Periodic ones among them whose claims on pane tables nobody has asked for yet (`_claim_restored`).
        self._unclaimed: dict[str, RegisteredQuery] = {}
        # Queries whose lives have ended while their sinks were still behind.
        self._partings: list[threading.Thread] = []
        self.execution = checked_execution(shared.settings.execution)
        shared.end_life = self.end_life

    def set_execution(self, strategy: str) -> None:
        """For continuous queries that are registered from now on."""
        self.execution = checked_execution(strategy)

    # -- register and drop -----------------------------------------------------------------------------

    def register(self, statement: RegisterQuery) -> Query:
        select, name, synopsis = statement.select, statement.name, statement.synopsis
        check_name("query", name)
        synopsis = None if synopsis is None or synopsis.lower() == "auto" else synopsis.lower()
        wanted = RegisteredQuery(
            name, select.text, "", statement.priority, statement.lifetime, 0, synopsis, comment=statement.comment,
            keep=statement.keep,
        )  # fmt: skip
        with self._shared.lock:
            if statement.replace_at is not None and self._shared.catalog.has_query(name):
                return self._register_in_place(select, wanted, statement.replace_at)
            bound, routed = self._bound(select, name)
            if wanted.keep is not None:
                check_kept(select, wanted.keep, routed.schema.names)
                wanted = replace(wanted, kept_form=routed.kept_form)
            if routed.panes is not None:
                handle, compiled = self._register_periodic(bound, routed.panes, wanted)
        if routed.changes is not None:
            if wanted.synopsis is not None:
                raise SashError("a continuous query has no synopsis; leave it out, or add SLIDE")
            self._continuous.prepare(routed, self._shared.lock)
            with self._shared.lock:
                is_current = self._shared.catalog.still_has(relations_in(bound.body).values())
                if is_current:
                    wanted = replace(wanted, execution=routed.execution, functions=self._functions_of(select))
                    handle, query = self._register_continuous(routed, wanted)
            if not is_current:
                # A stream or a table was exchanged meanwhile, and the text may mean something else.
                return self.register(statement)
            if query is not None:
                self._begin(query)
            return handle
        if compiled is not None:
            self._answer_at_once(compiled)
        return handle

    def _functions_of(self, select: Select) -> tuple[str, ...]:
        """The program's functions that a query calls."""
        return tuple(sorted(select.calls & self._shared.catalog.functions.keys()))

    def _bound(self, select: Select, name: str) -> tuple[BoundQuery, RouteDecision]:
        bound = bind(select, self._shared.catalog)
        routed = route(bound, self.execution)
        if (cql := bound.select.cql) != select.text:
            report(logger, logging.INFO, "query.read", "query %(query)s is read as %(cql)s", query=name, cql=cql)
        return bound, routed

    def _register_periodic(
        self, bound: BoundQuery, plan: Project, wanted: RegisteredQuery
    ) -> tuple[Query, CompiledQuery | None]:
        """The query's handle, and the query as it is compiled unless a checkpoint has it already."""
        query, compiled = self._compile_periodic(bound, plan, wanted)
        if (known := self._known(query)) is not None:
            return known, None
        handle = self._add(query)
        self._compiled[query] = compiled
        self._claims_of(compiled).claim(compiled)
        return handle, compiled

    def _compile_periodic(
        self, bound: BoundQuery, plan: Project, wanted: RegisteredQuery
    ) -> tuple[RegisteredQuery, CompiledQuery]:
        """The query with the next serial number, and as it is compiled: each is made once."""
        wanted = replace(wanted, serial=self._shared.history.version + 1)
        compiled = checked_panes(bound, registered_as(wanted, plan))
        self._claim_restored(compiled.stream)
        compiled = compiled.beside(partial(self.at, compiled.stream))
        self._claims_of(compiled).check(compiled)
        query = replace(
            wanted, stream=compiled.stream, tables=compiled.tables, aggregates=compiled.aggregates,
            functions=self._functions_of(bound.select), counters=compiled.counters,
        )  # fmt: skip
        return query, compiled

    # -- in the place of a registered query --------------------------------------------------------------

    def _register_in_place(self, select: Select, wanted: RegisteredQuery, at: Span) -> Query:
        """REGISTER OR REPLACE QUERY of a query that is registered; `at` is where OR REPLACE stands."""
        before = self._shared.catalog.query(wanted.name)
        if is_same_query(wanted, before):
            self._restored.discard(before.name.lower())
            return self._handles[before.name]
        return self._put(before, *self._compile_in_place(before, wanted, select, "OR REPLACE", (select.script, at)))

    def alter(self, statement: AlterQuery) -> Query:
        """ALTER QUERY: the query with an edited text, or other options, takes its own place."""
        checked: RegisteredQuery | None = None
        while True:
            with self._shared.lock:
                before = self._named(statement.name, statement.script)
                text = altered(as_select(before.text), statement.edits, statement.script)
                wanted = replace(before, text=text, **statement.options)
                if is_same_query(wanted, before):
                    return self._handles[before.name]
                place = statement.script, statement.name.span
                query, compiled = self._compile_in_place(before, wanted, as_select(text), "ALTER QUERY", place)
                if statement.allows_incomplete or before is checked:
                    return self._put(before, query, compiled)
                present = self.compiled(before)
            # Without the session's lock, which a slide may want. The query may change meanwhile.
            self._check_complete(present, compiled, statement)
            checked = before

    def pause(self, statement: PauseOrResume) -> None:
        """PAUSE QUERY and RESUME QUERY: the same query, with and without answers."""
        with self._shared.lock:
            before = self._named(statement.name, statement.script)
            if before.paused == statement.paused:
                return
            place = statement.script, statement.name.span
            what = f"{statement.word} QUERY does not stop"
            self._check_periodic(before, what, "unsubscribe, or DROP QUERY it", *place)
            failure = self._handles[before.name].failure
            if failure is not None:
                raise CqlError(f"{failure}; DROP QUERY it, or REGISTER OR REPLACE it", *place)
            query = self._in_place_of(before, replace(before, paused=statement.paused))
            self._put(before, query, registered_as(query, self.compiled(before).plan))

    def _named(self, name: Name, script: str) -> RegisteredQuery:
        try:
            return self._shared.catalog.query(name.text)
        except CatalogError as error:
            raise CqlError(str(error), script, name.span) from None

    def _check_periodic(self, query: RegisteredQuery, what: str, way_out: str, script: str, at: Span) -> None:
        if query.is_continuous:
            reason = f"query '{query.name}' is answered from the state of a plan, which {what}"
            raise CqlError(f"{reason}: {way_out}", script, at)

    def _in_place_of(self, before: RegisteredQuery, wanted: RegisteredQuery) -> RegisteredQuery:
        """A registration with the next serial number, which takes the place of `before`."""
        serial = self._shared.history.version + 1
        return replace(wanted, name=before.name, serial=serial, replaced_since=before.first_serial)

    def _compile_in_place(
        self, before: RegisteredQuery, wanted: RegisteredQuery, select: Select, word: str, place: tuple[str, Span]
    ) -> tuple[RegisteredQuery, CompiledQuery]:
        """What is to take the place of a query. A refusal names the `word` of the statement, and points to `place`."""
        way_out = "DROP QUERY it, and register it again"
        self._check_periodic(before, f"{word} cannot take over", way_out, *place)
        bound, routed = self._bound(select, before.name)
        if routed.panes is None:
            reason = f"query '{before.name}' has its answers from panes, and this text from the state of a plan"
            raise CqlError(f"{reason}, which {word} does not exchange: {way_out}", *place)
        wanted = self._in_place_of(before, replace(wanted, paused=before.paused))
        self._claim_restored(before.stream)
        with self._without_claims(before):
            query, compiled = self._compile_periodic(bound, routed.panes, wanted)
        self._check_receivers(before, query, compiled)
        return query, compiled

    def _put(self, before: RegisteredQuery, query: RegisteredQuery, compiled: CompiledQuery) -> Query:
        """A line of the history: an epoch sees the one or the other query."""
        # The history first: a statement that cannot be written changes nothing.
        self._shared.history.append(query_change(query))
        self._shared.catalog.replace_query(query)
        self._restored.discard(query.name.lower())
        self._release(before)
        self._compiled[query] = compiled
        self._claims_of(compiled).claim(compiled)
        handle = self._handles[query.name]
        handle.become(query)
        self._changes += 1
        told = "query %(query)s is %(now)s" if query.paused else "query %(query)s goes on as %(now)s"
        now = "paused" if query.paused else query.text
        report(logger, logging.INFO, "query.replaced", told, query=query.name, now=now)
        return handle

    def _release(self, query: RegisteredQuery) -> None:
        """Release the claims of a periodic query that has left the catalog."""
        compiled = self._compiled.pop(query, None)
        if self._unclaimed.pop(query.name.lower(), None) is None and compiled is not None:
            self._claims_of(compiled).release(compiled)

    @contextmanager
    def _without_claims(self, query: RegisteredQuery) -> Iterator[None]:
        """A query does not stand in the way of the one that takes its place."""
        compiled = None if query.name.lower() in self._unclaimed else self._compiled.get(query)
        if compiled is None:
            yield
            return
        self._claims_of(compiled).release(compiled)
        try:
            yield
        finally:
            self._claims_of(compiled).claim(compiled)

    def _check_receivers(self, before: RegisteredQuery, query: RegisteredQuery, compiled: CompiledQuery) -> None:
        """Sinks, archives and stored results go on, and have the columns that the query has had."""
        if query.keep != before.keep:
            reason = f"query '{before.name}' would store its results for another time (KEEP)"
            raise CatalogError(f"{reason}: write KEEP as it was, or DROP QUERY it first")
        if before.keep is not None and query.stream != before.stream:
            # Their log is that of the stream, and repeats them after a restart.
            reason = f"query '{before.name}' stores results of stream {before.stream} (KEEP)"
            raise CatalogError(f"{reason}: register the text under another name, or DROP QUERY it first")
        receivers = [outlet.sink for outlet in self._handles[before.name].outward.outlets]
        if before.keep is not None:
            receivers.append("its stored results (KEEP)")
        if receivers and compiled.query.schema != self.compiled(before).query.schema:
            raise CatalogError(
                f"query '{before.name}' writes to {', '.join(receivers)}, and its answers would have other columns or "
                "types: register the text under another name, or DROP QUERY it first"
            )

    def _check_complete(self, before: CompiledQuery, compiled: CompiledQuery, statement: AlterQuery) -> None:
        """Refuse a change that would make answers incomplete; the refusal says until when."""
        panes = self._shared.streams[compiled.stream.lower()].panes
        until = panes.incomplete_until(compiled)
        if until is None or until <= (panes.incomplete_until(before) or 0):
            return
        if until == FOREVER:
            when = "never be complete again"
        elif compiled.readings[0].table.by_rows:
            when = f"not be complete before {until:,} tuples have been counted"
        else:
            when = f"not be complete before {to_datetime(until).isoformat()}"
        at = statement.edits[0].at if statement.edits else statement.name.span
        reason = f"the panes so far do not have what query '{before.name}' would read, and its answers would {when}"
        raise CqlError(f"{reason}: ALTER QUERY .. SET (..) ALLOW INCOMPLETE", statement.script, at)

    def _register_continuous(
        self, routed: RouteDecision, wanted: RegisteredQuery
    ) -> tuple[Query, RegisteredQuery | None]:
        """The query's handle, and its registration unless a checkpoint has it already."""
        wanted = replace(wanted, serial=self._shared.history.version + 1)
        restored = wanted.name.lower() in self._restored
        before = self._shared.catalog.query(wanted.name) if restored else None
        if not restored:
            # Before it is compiled: an aggregate over a join would widen its group.
            self._shared.catalog.check_new_query(wanted.name)
        query = self._continuous.compile(routed, wanted, before)
        try:
            if (known := self._known(query)) is not None:
                return known, None
            handle = self._add(query)
        except BaseException:
            self._continuous.detach(query)
            raise
        try:
            self._continuous.attach(query)
        except BaseException:
            self._drop(query.name)
            raise
        return handle, query

    def _begin(self, query: RegisteredQuery) -> None:
        """Nobody waits for a micro-batch where stored rows show the answer."""
        try:
            self._continuous.begin(query)
        except BaseException:
            self._drop(query.name)
            raise

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
        self._changes += 1
        streams = ", ".join(query.streams) or query.stream
        kind = "continuous" if query.is_continuous else "periodic"
        told, facts = "query %(query)s is registered over %(stream)s", dict[str, Any]()
        late = self._continuous.late(query) if query.is_continuous else None
        if late is not None:
            told += "; it %(beginning)s"
            facts["beginning"] = late.described
        report(logger, logging.INFO, "query.registered", told, query=query.name, stream=streams, kind=kind, **facts)
        return handle

    def _claims_of(self, compiled: CompiledQuery) -> ClusterTables:
        return self._shared.streams[compiled.stream.lower()].cluster

    def _claim_restored(self, stream: str) -> None:
        """Queries of a checkpoint have claims on pane tables, too; they are compiled when that matters first."""
        for name in [name for name, query in self._unclaimed.items() if query.reads(stream)]:
            compiled = self.compiled(self._unclaimed[name])
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
            self.take(Progress({compiled.name: compiled.serial}, [AnswerBatch.of(answer.as_of, [answer])]), False)

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
            self._changes += 1
            if query.is_continuous:
                self._continuous.detach(query)
            else:
                self._release(query)
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
            self._shared.checkpoint.forget_unwritten(query.name, query.first_serial)

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
            mine = [query for query in self._shared.catalog.queries if is_periodic(stream, query)]
            return [self.compiled(query) for query in mine]

    def compiled(self, query: RegisteredQuery) -> CompiledQuery:
        if query not in self._compiled:
            missing = [name for name in query.aggregates if name not in self._shared.catalog.aggregates]
            if missing:
                raise MissingAggregateError(query.name, query.stream, missing[0])
            self._check_functions(query, query.stream)
            self._compiled[query] = compile_query(query, self._shared.catalog)
        return self._compiled[query]

    def decision_of(self, query: RegisteredQuery) -> RouteDecision:
        """How a registered query is answered, as that was decided once from its text."""
        if query.is_continuous:
            return self._continuous.decision_of(query)
        return RouteDecision(query.route, panes=self.compiled(query).plan)

    def _check_functions(self, query: RegisteredQuery, stream: str) -> None:
        missing = [name for name in query.functions if name not in self._shared.catalog.functions]
        if missing:
            raise MissingAggregateError(query.name, stream, missing[0], "function")

    def periodic_of(self, stream: str) -> StreamQueries[CompiledQuery]:
        """A stream's periodic queries at each version of the catalog."""
        return StreamQueries(self._shared.history, self._shared.lock, partial(is_periodic, stream), self.compiled)

    def continuous_of(self, stream: str) -> StreamQueries[ContinuousQuery]:
        """A stream's continuous queries at each version of the catalog."""

        def compile(query: RegisteredQuery) -> ContinuousQuery:
            self._check_functions(query, stream)
            return self._continuous.compiled(query)

        return StreamQueries(self._shared.history, self._shared.lock, partial(_is_continuous, stream), compile)

    def take(self, progress: Progress, delivered: bool) -> None:
        """Hand answers to their queries; record failures and ends. `delivered`: all this was told before a restart."""

        def meant(name: str) -> Query | None:
            """A query that has been replaced meanwhile has not failed, or ended, with the one before it."""
            return self._current(name, progress.serials.get(name))

        told = [
            (outward, answer)
            for batch in progress.batches
            for outward, answer in zip(self._outwards(batch.addressees, progress), batch.answers, strict=True)
            if outward is not None
        ]
        deliver(told, again=delivered)
        for name, why in progress.outcome.failed.items():
            fail_query(name, meant(name), why, reported=delivered)
        for name in progress.outcome.ended:
            self._end_life(name, None if delivered else meant(name))

    def _current(self, name: str, serial: int | None) -> Query | None:
        """The handle of a registration, unless another one has taken its place."""
        query = None if serial is None else self._shared.catalog.find_query(name, serial)
        return self._handles.get(name) if query is not None and query.serial == serial else None

    def _outwards(self, addressees: Addressees, progress: Progress) -> Sequence[Outward | None]:
        """Where answers go; None: the query is not registered any more. Looked up again when queries come or go."""
        known, changes = addressees.outwards, self._changes
        if known is None or known[0] != changes:
            handles = [self._shared.handle(name, progress.serials.get(name)) for name in addressees.names]
            known = addressees.outwards = changes, [None if each is None else each.outward for each in handles]
        return known[1]

    def end_life(self, name: str, serial: int) -> None:
        """Drop a registration whose LIFETIME is over, unless another one has taken its place."""
        self._end_life(name, self._current(name, serial))

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
        compiled = self.compiled(query)
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


def is_periodic(stream: str, query: RegisteredQuery) -> bool:
    return not query.is_continuous and query.reads(stream)


def _is_continuous(stream: str, query: RegisteredQuery) -> bool:
    return query.is_continuous and query.reads(stream)
