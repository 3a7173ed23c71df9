"""A session: everything a user's program says to Sash goes through here.

The life of a query is `register`: text, statement, plan (compiler), catalog; the next micro-batch of its stream
takes it into the shared pass. The life of a tuple is in `running.py`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.clock import Clock, SystemClock
from sash.core.errors import CatalogError, CheckpointError, NotSupportedError, QueryFailedError, SashError
from sash.core.time import Micros, to_micros
from sash.engine import explain as explaining
from sash.engine.checkpoint import Checkpoint
from sash.engine.compiler import CompiledQuery, as_select, compile_query, compile_question, compile_select
from sash.engine.continuous import ContinuousQueries
from sash.engine.declare import check_name, check_same, check_same_query, checked, declared_stream, duration
from sash.engine.explain_continuous import either, explain_continuous
from sash.engine.history import CatalogHistory, query_change, stream_change, stream_of
from sash.engine.observed import measured
from sash.engine.onetime import answer_once
from sash.engine.plans import ContinuousQuery, Plans, StreamPlans
from sash.engine.query import AnswerMemory, Query
from sash.engine.report import describe, session_statistics, show_queries, show_tables
from sash.engine.runner import Runner
from sash.engine.running import RunningStream
from sash.engine.settings import DEFAULT_POLICY, Settings
from sash.engine.stream import Progress
from sash.engine.table_commands import TableCommands
from sash.engine.table_rows import Given
from sash.engine.tables import Tables
from sash.language import (
    CreateStream,
    CreateTable,
    Delete,
    Describe,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    Insert,
    RegisterQuery,
    Select,
    SelectStatement,
    SetExecution,
    ShowQueries,
    ShowTables,
    Statement,
    Update,
    is_continuous,
    parse,
    parse_script,
)
from sash.plan.estimates import Statistics
from sash.plan.strategies import AUTO, EXECUTIONS
from sash.transactions import isolation as isolation_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sash.engine")


class Session:
    """Use `sash.connect()`. All methods may be called from any thread."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        checkpoint: str | Path | None = None,
        policy: str = DEFAULT_POLICY,
        isolation: str = "serial",
        keep_answers: int = 1_000,
        answer_memory: int = 256 * 2**20,
        share_predicates: str = "auto",
        refresh_when_idle: bool = False,
        filter_precision: int = 8,
        executor_rows: int = 500_000,
        execution: str = AUTO,
        partitions: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._set_execution(execution)
        self._settings = Settings(policy, share_predicates, refresh_when_idle, filter_precision)
        self._isolation = isolation_named(isolation)
        self._borrowed = spark
        if spark is not None:
            from sash.spark.session import check_borrowed, jvm_process

            check_borrowed(spark)
        self._own: SparkSession | None = None
        self._keep_answers = keep_answers
        self._memory = AnswerMemory(answer_memory)
        self._catalog = Catalog()
        self._compiled: dict[RegisteredQuery, CompiledQuery] = {}
        self._streams: dict[str, RunningStream] = {}
        self.queries: dict[str, Query] = {}
        self._restored: set[str] = set()
        self._lock = threading.RLock()
        self._closed = False
        self._checkpoint = Checkpoint(checkpoint) if checkpoint is not None else None
        self._history = self._checkpoint.history if self._checkpoint else CatalogHistory()
        self._clock = clock or SystemClock()
        self._runner = Runner(self._checkpoint, self._clock, lambda: self._history.version)
        root = None if self._checkpoint is None else self._checkpoint.plans
        self._tables = Tables(self._catalog, self._history)
        self._plans = Plans(
            lambda: self.spark,
            self._catalog.stream,
            self._registered,
            self._tables,
            root,
            executor_rows,
            partitions,
        )
        self.continuous = ContinuousQueries(self._catalog, self._history, self._plans, self._measured)
        self._table_commands = TableCommands(
            self._catalog, self._history, self._tables, self.continuous, self._running, self._lock
        )
        try:
            if spark is not None and self._checkpoint is not None:
                self._checkpoint.record_jvm(jvm_process(spark))
            self._restore_catalog()
        except BaseException:
            self.close()
            raise

    # -- Spark -----------------------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        """The Spark session: the one that was given, or our own local one, started when it is first needed."""
        if self._borrowed is not None:
            return self._borrowed
        if self._own is None:
            from sash.spark.session import acquire_local_session, jvm_process

            self._check_open()
            self._own = acquire_local_session()
            if self._checkpoint is not None:
                self._checkpoint.record_jvm(jvm_process(self._own))
        return self._own

    # -- streams ---------------------------------------------------------------------------------------

    def create_stream(
        self,
        name: str,
        frame: DataFrame,
        timestamp: str,
        delay: str = "0 sec",
        granule: str = "1 sec",
        keep: str | None = None,
        *,
        offset: str = "0 sec",
        closed: str = "right",
        late: str = "drop",
        idle_after: str | None = None,
    ) -> None:
        """A stream from any DataFrame: a streaming one, or a static one, which is read once as a finite stream."""
        from sash.spark.sources import schema_of

        if keep is not None:
            raise NotSupportedError("KEEP (stored windows)")
        if closed not in ("right", "left") or late not in ("drop", "revise"):
            raise SashError("closed is 'right' or 'left'; late is 'drop' or 'revise'")
        stream = Stream(
            name,
            schema_of(frame),
            timestamp,
            delay=duration("delay", delay),
            granule=duration("granule", granule),
            offset=duration("offset", offset),
            closed_left=closed == "left",
            late_revise=late == "revise",
            idle_after=None if idle_after is None else duration("idle_after", idle_after),
        )
        self._open_stream(stream, frame)

    def _create_declared_stream(self, statement: CreateStream) -> None:
        from sash.spark.pipeline import Pipeline
        from sash.spark.sources import open_source, schema_of

        key = f"stream {statement.name.lower()}"
        if key in self._restored:
            known = self._catalog.stream(statement.name)
            stream = replace(declared_stream(statement, statement.schema or known.schema), serial=known.serial)
            check_same(stream, known)
            frame = open_source(self.spark, statement.source, stream.declared)
            self._streams[known.name.lower()].redeclare(stream, Pipeline(stream, frame))
            self._restored.discard(key)
            return
        frame = open_source(self.spark, statement.source, statement.schema)
        self._open_stream(declared_stream(statement, statement.schema or schema_of(frame)), frame)

    def _open_stream(self, stream: Stream, frame: DataFrame) -> None:
        from sash.spark.pipeline import Pipeline

        self._check_open()
        stream = checked(stream)
        check_name("stream", stream.name)
        with self._lock:
            known = self._history.streams().get(stream.name.lower())
            if known is not None and stream.name.lower() not in self._streams:
                check_same(stream, stream_of(known))
            serial = self._history.version + 1 if known is None else stream_of(known).serial
            stream = replace(stream, serial=serial)
            self._catalog.add_stream(stream)
            log = None if self._checkpoint is None else self._checkpoint.log(stream)
            running = RunningStream(
                stream,
                Pipeline(stream, frame),
                self._settings,
                self._isolation,
                partial(self._queries_at, stream.name),
                self._take,
                log,
                self._clock,
                StreamPlans(self._plans, stream.name, partial(self._continuous_at, stream.name)),
                self._tables,
            )
            self._streams[stream.name.lower()] = running
            try:
                running.recover()
            except BaseException:
                del self._streams[stream.name.lower()]
                self._catalog.drop_stream(stream.name, [])
                raise
            if known is None:
                self._history.append(stream_change(stream))

    def drop_stream(self, name: str) -> None:
        with self._lock:
            stream = self._catalog.stream(name)
            if self._runner.is_running(stream.name):
                raise CatalogError(f"stream '{stream.name}' is running; stop the session first")
            users = [query.name for query in self._catalog.queries if query.reads(stream.name)]
            self._catalog.drop_stream(name, users)
            del self._streams[stream.name.lower()]
            self._history.append({"change": "drop stream", "name": stream.name})
            self._restored.discard(f"stream {stream.name.lower()}")
            if self._checkpoint is not None:
                self._checkpoint.forget(stream)

    # -- tables ----------------------------------------------------------------------------------------

    def drop_table(self, name: str) -> None:
        self._table_commands.drop(name)

    def update_table(self, name: str, rows: Given, at: datetime | Micros | None = None, delete: bool = False) -> None:
        """Insert or replace rows of a table, or delete them, by key; effective at an event time.

        `rows` is a list of dicts, a pyarrow.Table or a pandas DataFrame. Without `at` the change comes after everything
        that the queries which read the table have processed; before anything ran, it holds from the beginning.
        """
        self._check_open()
        self._table_commands.update(name, rows, at, delete)

    # -- queries ---------------------------------------------------------------------------------------

    def _set_execution(self, strategy: str) -> None:
        """For continuous queries that are registered from now on."""
        if strategy not in EXECUTIONS:
            raise SashError(f"unknown execution '{strategy}'; one of {', '.join(EXECUTIONS)}")
        self._execution = strategy

    def register(
        self, text: str, name: str, priority: int = 0, lifetime: str | None = None, synopsis: str | None = None
    ) -> Query:
        """Register a query: it answers from the next micro-batch on, at once where a synopsis covers it.

        A query whose windows have no SLIDE is continuous: it yields changes (`changes`, `view`).
        `synopsis` insists on basic, running, interval or landmark; by default the optimiser chooses.
        """
        life = None if lifetime is None else duration("lifetime", lifetime)
        return self._register(as_select(text), name, priority, life, synopsis)

    def _register(
        self, select: Select, name: str, priority: int, lifetime: Micros | None, synopsis: str | None
    ) -> Query:
        self._check_open()
        with self._lock:
            check_name("query", name)
            serial = self._history.version + 1
            synopsis = None if synopsis is None or synopsis.lower() == "auto" else synopsis.lower()
            if is_continuous(select):
                return self._register_continuous(
                    select,
                    RegisteredQuery(
                        name, select.text, "", priority, lifetime, serial, synopsis, execution=self._execution
                    ),
                )
            found = compile_select(select, self._catalog, name, synopsis=synopsis)
            compiled = replace(found, priority=priority, lifetime=lifetime, serial=serial)
            query = RegisteredQuery(
                name, select.text, compiled.stream, priority, lifetime, serial, synopsis, tables=compiled.tables
            )
            if (known := self._known(query)) is not None:
                return known
            self._compiled[query] = compiled
            handle = self._add(query)
        self._answer_at_once(compiled)
        return handle

    def _register_continuous(self, select: Select, wanted: RegisteredQuery) -> Query:
        restored = wanted.name.lower() in self._restored
        query = self.continuous.compile(select, wanted, self._catalog.query(wanted.name) if restored else None)
        if (known := self._known(query)) is not None:
            return known
        handle = self._add(query)
        try:
            self.continuous.attach(query)
        except BaseException:
            self.drop_query(query.name)
            raise
        return handle

    def _measured(self, streams: Sequence[str]) -> Statistics:
        """What the optimiser may know about some streams."""
        return measured([self._running(name).runtime for name in streams], self._plans.observed)

    def _known(self, query: RegisteredQuery) -> Query | None:
        """The query of a checkpoint that a program registers again as it was."""
        if query.name.lower() not in self._restored:
            return None
        known = self._catalog.query(query.name)
        check_same_query(query, known)
        if known.is_continuous:
            self.continuous.check(known)
        self._restored.discard(query.name.lower())
        return self.queries[known.name]

    def _add(self, query: RegisteredQuery) -> Query:
        self._catalog.add_query(query)
        self._history.append(query_change(query))
        handle = self.queries[query.name] = Query(self, query, self._keep_answers, self._memory)
        return handle

    def _answer_at_once(self, compiled: CompiledQuery) -> None:
        """Where the stream has begun and its synopsis has what the query needs, nobody waits for a slide."""
        try:
            answer = self._streams[compiled.stream.lower()].first_answer(compiled)
        except QueryFailedError:
            # It fails again when it is due, and is reported then.
            return
        if answer is not None and (answer.scheduled or not compiled.exactly):
            self._take(Progress({compiled.name: compiled.serial}, [answer]), False)

    def drop_query(self, name: str) -> None:
        with self._lock:
            query = self._catalog.drop_query(name)
            self._history.append({"change": "drop query", "name": query.name})
            self._restored.discard(query.name.lower())
            handle = self.queries.pop(query.name, None)
            self._compiled.pop(query, None)
            if query.is_continuous:
                self.continuous.detach(query)
        if handle is not None:
            handle._dropped()
        if self._checkpoint is not None:
            self._checkpoint.forget_unwritten(query.name, query.serial)

    def _continuous_at(self, stream: str, version: int | None) -> list[ContinuousQuery]:
        with self._lock:
            return self.continuous.at(stream, version)

    def _queries_at(self, stream: str, version: int | None = None) -> list[CompiledQuery]:
        """A stream's queries at a version of the catalog."""
        with self._lock:
            mine = [q for q in self._history.queries(version).values() if not q.is_continuous and q.reads(stream)]
            for query in mine:
                if query not in self._compiled:
                    self._compiled[query] = compile_query(query, self._catalog)
            return [self._compiled[query] for query in mine]

    def _take(self, progress: Progress, delivered: bool) -> None:
        """Hand answers to their queries; record failures and ends. `delivered`: all this was told before a restart."""
        for answer in progress.answers:
            handle = self._handle(answer.query, progress)
            if handle is None:
                continue
            handle._remember(answer)
            if not delivered:
                handle._deliver(answer)
        for name, why in progress.outcome.failed.items():
            if not delivered:
                logger.error("query %s failed: %s", name, why)
            if (handle := self._handle(name, progress)) is not None:
                handle.failure = QueryFailedError(f"query '{name}' failed: {why}")
        for name in progress.outcome.ended:
            logger.info("query %s has reached the end of its lifetime", name)
            if not delivered and self._handle(name, progress) is not None:
                self.drop_query(name)

    def _handle(self, name: str, progress: Progress) -> Query | None:
        """The query that a name meant in some progress, if it is still registered."""
        return self._registered(name, progress.serials.get(name))

    def _registered(self, name: str, serial: int | None) -> Query | None:
        handle = self.queries.get(name)
        return handle if handle is not None and handle.serial == serial else None

    # -- recovery --------------------------------------------------------------------------------------

    def _restore_catalog(self) -> None:
        """After a restart: queries are known at once, streams with a declared source are opened again."""
        for query in self._history.queries().values():
            self._catalog.add_query(query)
            self._restored.add(query.name.lower())
            self.queries[query.name] = Query(self, query, self._keep_answers, self._memory)
        for change in self._history.streams().values():
            stream = stream_of(change)
            if stream.source is not None:
                from sash.spark.sources import open_source

                self._open_stream(stream, open_source(self.spark, stream.source, stream.declared))
                self._restored.add(f"stream {stream.name.lower()}")

    # -- running ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Drain finite sources, deterministically, then close the last panes and return."""
        self._check_open()
        self._runner.drain(self._ready())
        self._write_what_waits()

    def start(self, trigger: str = "1 second") -> None:
        """Run live: a micro-batch per trigger interval, until `stop`."""
        self._check_open()
        self._runner.start(self._ready(), trigger)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the streams end, at most `timeout` seconds; raises what went wrong. True when all have ended."""
        return self._runner.wait(timeout)

    def stop(self) -> None:
        """Stop live streams after the micro-batch in flight; the session can be started again."""
        self._runner.stop()
        self._write_what_waits()

    def _write_what_waits(self) -> None:
        """Sinks that failed get another chance."""
        for handle in list(self.queries.values()):
            handle._flush()

    def _report_unwritten(self) -> None:
        for handle in list(self.queries.values()):
            if handle.failure is None and handle.error is not None:
                logger.error("the session closes: %s", handle.error)

    def place_for_unwritten(self, query: Query, sink: str) -> Path | None:
        return None if self._checkpoint is None else self._checkpoint.unwritten(query.name, query.serial, sink)

    def _ready(self) -> list[RunningStream]:
        """The streams that some query reads, in the order of their names."""
        missing = [name for name in self._history.streams() if name not in self._streams]
        if missing:
            raise CheckpointError(
                f"the checkpoint knows the stream{'s' * (len(missing) > 1)} {', '.join(missing)}, which this program "
                "has not created; create_stream it first, or use another checkpoint"
            )
        queries = self._catalog.queries
        chosen = [self._streams[name] for name in sorted(self._streams) if any(query.reads(name) for query in queries)]
        if not chosen:
            raise SashError("nothing to run: no query is registered (session.register or REGISTER QUERY)")
        return chosen

    def close(self) -> None:
        """Stop, and end the Spark session if it is ours (never a borrowed one)."""
        if self._closed:
            return
        if any(running.in_batch for running in self._streams.values()):
            raise SashError("close() from inside a subscriber would end Spark under its own micro-batch; call stop()")
        self._runner.close()
        self._write_what_waits()
        self._report_unwritten()
        self._plans.close()
        self._closed = True
        if self._own is not None:
            from sash.spark.session import release_local_session

            release_local_session()
            self._own = None
        if self._checkpoint is not None:
            self._checkpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def advance(self, stream: str, to: datetime | Micros) -> None:
        """A heartbeat: no tuple before this event time is to come on a stream."""
        running = self._running(stream)
        running.advance(to if isinstance(to, int) else to_micros(to))

    # -- statements ------------------------------------------------------------------------------------

    def sql(self, text: str) -> pa.Table | Query | str | None:
        """Execute one statement. SELECT, SHOW and DESCRIBE return a table, REGISTER a query, EXPLAIN a string."""
        return self.execute(parse(text))

    def script(self, text: str) -> list[pa.Table | Query | str | None]:
        """Execute a script of statements in order; nothing is executed if one of them cannot be parsed."""
        return [self.execute(statement) for statement in parse_script(text)]

    def execute(self, statement: Statement) -> pa.Table | Query | str | None:
        """Execute a statement that was parsed already; its errors show their place in the whole script."""
        self._check_open()
        handlers: dict[type, Callable[[Any], pa.Table | Query | str | None]] = {
            CreateStream: self._create_declared_stream,
            CreateTable: self._table_commands.create,
            DropTable: lambda s: self.drop_table(s.name),
            **dict.fromkeys((Insert, Update, Delete), self._table_commands.execute),
            SetExecution: lambda s: self._set_execution(s.strategy),
            ShowTables: lambda s: self._locked(lambda: show_tables(self._catalog, self._tables.sizes())),
            RegisterQuery: lambda s: self._register(s.select, s.name, s.priority, s.lifetime, s.synopsis),
            DropQuery: lambda s: self.drop_query(s.name),
            DropStream: lambda s: self.drop_stream(s.name),
            ShowQueries: lambda s: self._locked(show_queries, self._catalog, self.queries),
            Describe: lambda s: self._locked(describe, s.name, self._catalog, self.queries),
            Explain: lambda s: self._explain(s.select),
            SelectStatement: lambda s: self._query(s.select),
        }
        return handlers[type(statement)](statement)

    def _locked(self, function: Callable[..., pa.Table], *arguments: Any) -> pa.Table:
        with self._lock:
            return function(*arguments)

    def query(self, text: str) -> pa.Table:
        """A one-time query over the live windows; `as_of` and `complete` are in the schema's metadata."""
        return self._query(as_select(text))

    def _query(self, select: Select) -> pa.Table:
        self._check_open()
        with self._lock:
            compiled = compile_question(select, self._catalog)
            running = self._streams[compiled.stream.lower()]
        while True:
            with self._isolation.read():
                if not running.runtime.is_between(compiled):
                    return answer_once(compiled, running.runtime)

    def explain(self, text: str) -> str:
        """How a query would be answered: plan, pane table, synopsis, with whom they are shared, expected cost."""
        statement = parse(text)
        if isinstance(statement, Explain | RegisterQuery | SelectStatement):
            if isinstance(statement, RegisterQuery) and is_continuous(statement.select):
                return self._explain_continuous(statement.select)
            return self._explain(statement.select, getattr(statement, "synopsis", None))
        raise SashError("EXPLAIN takes a SELECT")

    def _explain(self, select: Select, synopsis: str | None = None) -> str:
        """Without SLIDE a SELECT is a question when it is asked, and a continuous query when it is registered."""
        if not is_continuous(select):
            return self._explain_answers(select, synopsis)
        return either(lambda: self._explain_answers(select, synopsis), lambda: self._explain_continuous(select))

    def _explain_continuous(self, select: Select) -> str:
        with self._lock:
            return explain_continuous(self.continuous.decide(select, self._execution))

    def _explain_answers(self, select: Select, synopsis: str | None) -> str:
        with self._lock:
            compiled = explaining.compile_for_explain(select, self._catalog, synopsis)
            neighbours = [
                query for query in self._queries_at(compiled.stream) if self.queries[query.name].failure is None
            ]
            stream = self._catalog.stream(compiled.stream)
            runtime = self._streams[compiled.stream.lower()].runtime
            loads = {name: group.load for name, group in runtime.groups.items()}
        return explaining.explain(compiled, neighbours, stream, self._settings, runtime.unreduced, loads)

    def stats(self) -> dict[str, Any]:
        """Throughput, lateness, joint executions, work saved, late and bad tuples."""
        with self._isolation.read():
            return session_statistics(self._streams, self.queries, self._memory.forgotten, self.continuous)

    # -- checks ----------------------------------------------------------------------------------------

    def _running(self, stream: str) -> RunningStream:
        return self._streams[self._catalog.stream(stream).name.lower()]

    def _check_open(self) -> None:
        if self._closed:
            raise SashError("the session is closed; connect() again")


def connect(
    spark: SparkSession | None = None,
    checkpoint: str | Path | None = None,
    policy: str = DEFAULT_POLICY,
    isolation: str = "serial",
    **options: Any,
) -> Session:
    """Open a session: on a local Spark session of its own, or on yours."""
    return Session(spark, checkpoint, policy, isolation, **options)
