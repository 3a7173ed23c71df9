"""A session: everything a user's program says to Sash goes through here, and on to the part that does it.

    commands/   statements about streams, tables, queries, indexes, archives; answers come to query_commands.py
    asking/     one-time SELECT, EXPLAIN
    streams/    run, start, stop

The life of a query is `register`: text, statement, plan (compiler), catalog; the next micro-batch of its stream
takes it into the shared pass. The life of a tuple is in `streams/running_stream.py`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from numpy.typing import ArrayLike

from sash.catalog import MEMORY, Catalog, RegisteredQuery, Stream
from sash.core import collection
from sash.core.clock import Clock, SystemClock
from sash.core.errors import CatalogError, SashError, Span
from sash.core.stopping import Cancellation
from sash.core.time import EARLIEST, LATEST, Micros, to_datetime, to_micros
from sash.core.user_aggregate import UserAggregate, checked_zero
from sash.core.user_function import UserFunction
from sash.isolation import isolation as isolation_named
from sash.runtime.answers.kept_result import KeptResult
from sash.runtime.answers.outlet import Channel
from sash.runtime.answers.registered_query import AnswerMemory, Query
from sash.runtime.asking.on_spark import QuestionsOnSpark
from sash.runtime.asking.one_time import Questions, asked
from sash.runtime.asking.query_results import QueryResults
from sash.runtime.commands.adoption_commands import AdoptionCommands
from sash.runtime.commands.archive_commands import ArchiveCommands
from sash.runtime.commands.declare import (
    checked_execution,
    is_needless,
    promised_value,
    returned_type,
    shedding,
)
from sash.runtime.commands.index_commands import IndexCommands
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.commands.stream_commands import StreamCommands, StreamMaker
from sash.runtime.commands.table_commands import TableCommands
from sash.runtime.compiler import as_select
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.continuous.plans import Plans
from sash.runtime.dashboard import Dashboard, open_dashboard
from sash.runtime.explaining.explanation import Explanation
from sash.runtime.explaining.metrics import exposition
from sash.runtime.explaining.report import (
    describe,
    describe_extended,
    schedule_report,
    session_statistics,
    show_functions,
    show_queries,
    show_streams,
    show_tables,
)
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.records.checkpoint import Checkpoint
from sash.runtime.records.table_contents import TableRows
from sash.runtime.session_parts import SessionParts
from sash.runtime.settings import DEFAULT_POLICY, SessionSettings, duration
from sash.runtime.spark_home import SparkHome, check_classic
from sash.runtime.streams.load import IDLE, SessionState
from sash.runtime.streams.runner import Runner
from sash.spark.buckets import BucketSettings
from sash.sql import (
    FUNCTION_NAMES,
    SCRIPTS,
    AlterArchive,
    AlterQuery,
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Delete,
    Describe,
    Drop,
    DropIndex,
    Explain,
    Insert,
    Name,
    PauseOrResume,
    RegisterQuery,
    SelectStatement,
    SetExecution,
    Show,
    Statement,
    Update,
    parse,
    parse_script,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# How long a session that stops waits for a subscriber that is behind.
_PATIENCE_SECONDS = 10.0
_DOUBLE = pa.float64()


class Session:
    """Use `sash.connect()`. All methods may be called from any thread.

    `catalog`, `streams`, `tables` and `queries` are what is declared and running, by lower-case name. They are for
    reading: statements change them.
    """

    def __init__(
        self,
        settings: SessionSettings,
        spark: SparkSession | None = None,
        checkpoint: str | Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._isolation = isolation_named(settings.isolation)
        checked_execution(settings.execution)
        check_classic(spark)
        if spark is not None:
            from sash.spark.spark_session import check_borrowed

            check_borrowed(spark, settings.packages)
        self._memory = AnswerMemory(settings.answer_memory)
        # Sinks that several queries write to share a channel; by sink.
        self.channels: dict[str, Channel] = {}
        clock = clock or SystemClock()
        self._dashboard: Dashboard | None = None
        self.checkpoint = Checkpoint(checkpoint) if checkpoint is not None else None
        history = self.checkpoint.history if self.checkpoint else CatalogHistory()
        self._home, self._is_relaxed = self._open_home(spark, settings.packages), False
        shared = self._shared = SessionParts(Catalog(), history, self.checkpoint, settings, self._home)
        self.catalog, self.streams, self.queries = shared.catalog, shared.streams, shared.handles
        self.tables = shared.tables
        lag = None if settings.max_lag is None else duration("max_lag", settings.max_lag)
        self._runner = Runner(self.checkpoint, clock, history, lag)
        buckets = BucketSettings(settings.share_results, settings.partitions)
        self._plans = Plans(shared, buckets)
        self.continuous = ContinuousQueries(shared, self._plans)
        self._query_commands = QueryCommands(shared, self.continuous, self._make_handle)
        self._archive_commands = ArchiveCommands(shared, self._query_commands, self.continuous)
        results = QueryResults(shared, self._query_commands, self.continuous, self._isolation)
        self._index_commands = IndexCommands(shared, results)
        maker = StreamMaker(shared, self._isolation, self._runner, clock, self._query_commands, self._plans)
        self._stream_commands = StreamCommands(shared, maker, self._index_commands, self._archive_commands)
        self._adoption_commands = AdoptionCommands(shared, self._stream_commands)
        self._table_commands = TableCommands(shared, self.continuous)
        on_spark = QuestionsOnSpark(shared, self._archive_commands.feed_now, results)
        self._questions = Questions(shared, self._query_commands, self.continuous, self._isolation, on_spark, results)
        try:
            self._home.record_borrowed()
            self._query_commands.restore()
            self._index_commands.restore()
            self._archive_commands.restore()
            self._stream_commands.restore()
        except BaseException:
            self.close()
            raise
        collection.relax()
        self._is_relaxed = True

    def _open_home(self, spark: SparkSession | None, packages: Sequence[str]) -> SparkHome:
        return SparkHome(spark, self.checkpoint, packages)

    @property
    def spark(self) -> SparkSession:
        """The Spark session: the one that was given, or our own local one, started when it is first needed."""
        return self._home.session

    # -- what the parts ask for ------------------------------------------------------------------------

    def _make_handle(self, query: RegisteredQuery) -> Query:
        settings = self._shared.settings
        kept = None if query.keep is None else KeptResult(query, settings.max_rows)
        return Query(self, query, settings.keep_answers, self._memory, kept)

    def columns_of(self, query: Query) -> tuple[list[str], bool] | None:
        return self._query_commands.columns_of(query)

    def place_for_unwritten(self, query: Query, sink: str) -> Path | None:
        """The directory of answers that a sink would not take."""
        return self._shared.unwritten(query, sink)

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
        keep_in: str = MEMORY,
        shed: float | None = None,
        shed_approx: bool = False,
        shed_first: str | None = None,
        max_jump: str | None = None,
    ) -> None:
        """A stream from any DataFrame: a streaming one, or a static one, which is read once as a finite stream."""
        from sash.spark.pipeline import Pipeline
        from sash.spark.sources import schema_of

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
            keep=None if keep is None else duration("keep", keep),
            keep_in=keep_in,
            shed=None if shed is None else shedding(shed),
            shed_approx=shed_approx,
            shed_first=shed_first,
            max_jump=None if max_jump is None else duration("max_jump", max_jump),
        )
        self._home.check_open()
        self._stream_commands.open(stream, partial(Pipeline, frame=frame))

    def drop_stream(self, name: str) -> None:
        self._stream_commands.drop(name)
        self._runner.forget(name)

    # -- tables ----------------------------------------------------------------------------------------

    def drop_table(self, name: str) -> None:
        self._table_commands.drop(name)

    def update_table(
        self, name: str, rows: TableRows, at: datetime | Micros | None = None, delete: bool = False
    ) -> None:
        """Insert or replace rows of a table, or delete them, by key; effective at an event time.

        `rows` is a list of dicts, a pyarrow.Table or a pandas DataFrame. Without `at` the change comes after everything
        that the queries which read the table have processed; before anything ran, it holds from the beginning.
        """
        self._home.check_open()
        self._table_commands.update(name, rows, at, delete)

    # -- queries ---------------------------------------------------------------------------------------

    def register(
        self,
        text: str | DataFrame,
        name: str,
        priority: int = 0,
        lifetime: str | None = None,
        synopsis: str | None = None,
        comment: str = "",
        keep: str | None = None,
        replace: bool = False,
        stream: str | None = None,
    ) -> Query:
        """Register a query: it answers from the next micro-batch on, at once where a synopsis covers it.

        `text` is a SELECT, or a streaming DataFrame of Spark's API, which becomes one over `stream`, a stream of its
        source. A query whose windows have no SLIDE is continuous: it yields changes (`changes`, `view`).
        `synopsis` insists on basic, running, interval or landmark; by default the optimiser chooses.
        `comment` is for SHOW QUERIES and DESCRIBE. `keep` stores its results for so long, for questions. `replace`:
        REGISTER OR REPLACE QUERY.
        """
        life = None if lifetime is None else duration("lifetime", lifetime)
        kept = None if keep is None else duration("keep", keep)
        self._home.check_open()

        def register(text: str) -> Query:
            select = as_select(text)
            place = select.word if replace else None
            return self._query_commands.register(
                RegisterQuery(name, select, priority, life, synopsis, comment, keep=kept, replace_at=place)
            )

        if not isinstance(text, str):
            return self._adoption_commands.register(text, stream, register)
        if stream is not None:
            raise SashError("stream names the stream of a DataFrame's source; a SELECT names its own in FROM")
        return register(text)

    def drop_query(self, name: str) -> None:
        self._query_commands.drop(name)

    def pause_query(self, name: str) -> None:
        self.execute(PauseOrResume(Name(name, Span(0, len(name))), "PAUSE", name))

    def resume_query(self, name: str) -> None:
        self.execute(PauseOrResume(Name(name, Span(0, len(name))), "RESUME", name))

    def create_aggregate(
        self,
        name: str,
        zero: ArrayLike,
        lift: Callable[..., Any],
        combine: Callable[[Any, Any], Any],
        lower: Callable[[Any], Any],
        invert: Callable[[Any, Any], Any] | None = None,
        returns: pa.DataType = _DOUBLE,
    ) -> None:
        """An aggregate of Python functions, for queries with SLIDE; all windows share its partials.

        `lift(*columns)` runs on Spark's executors: the values of a pane and group, as Arrow arrays without NULL, to as
        many numbers as `zero` has. `combine(a, b)`, `invert(whole, part)` and `lower(a)` get NumPy arrays with a row
        for each number and a column for each group. After a restart the program creates its aggregates first.
        """
        from sash.spark.user_lifts import check_sendable

        self._home.check_open()
        self._check_new(name, "an aggregate")
        zeros = checked_zero(name, zero)
        aggregate = UserAggregate(name.lower(), zeros, lift, combine, lower, returns, invert)
        check_sendable(aggregate)
        with self._shared.lock:
            self._check_unused(name)
            self.catalog.aggregates[aggregate.name] = aggregate
            self._stream_commands.restore_waiting()

    def create_function(self, name: str, function: Callable[..., Any], type: str | pa.DataType) -> None:
        """A function of tuples, of a Python function: Spark's executors call it for every tuple of a micro-batch.

        `function(*values)` gets the values of a tuple, None for NULL; one with `pandas.Series` among its type hints
        gets columns. `type` is that of its values, as `"DOUBLE"` or of Arrow. After a restart the program creates its
        functions before its streams.
        """
        from sash.spark.user_functions import offer_function

        self._home.check_open()
        self._check_new(name, "a function")
        made = UserFunction.of(name.lower(), function, returned_type(name, function, type))
        with self._shared.lock:
            self._check_unused(name)
            offer_function(made)
            self.catalog.functions[made.name] = made
            self._stream_commands.restore_waiting()

    def _check_new(self, name: str, what: str) -> None:
        if re.fullmatch(r"[A-Za-z_]\w*", name) is None or name.lower() in FUNCTION_NAMES:
            why = "is a function already" if name.lower() in FUNCTION_NAMES else f"is no name for {what}"
            raise CatalogError(f"'{name}' {why}; take another one of letters, digits and _")

    def _check_unused(self, name: str) -> None:
        for kind, known in (("aggregate", self.catalog.aggregates), ("function", self.catalog.functions)):
            if name.lower() in known:
                raise CatalogError(f"the {kind} '{name}' exists already; choose another name")

    # -- running ---------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Some query is registered, or some stream stores its window or fills an archive."""
        return bool(self.queries) or any(running.is_stored for running in self.streams.values())

    @property
    def unread(self) -> list[str]:
        """Streams that have something to do and were never started."""
        if all(state.name != IDLE for state in self.state().streams.values()):
            return []
        names = [running.stream.name for running in self._stream_commands.wanted()]
        return [name for name in names if self._runner.state_of(name).name == IDLE]

    def run(self) -> None:
        """Drain finite sources, deterministically, then close the last panes and return."""
        self._home.check_open()
        self._archive_commands.check_open()
        self._runner.drain(self._stream_commands.ready())
        self._query_commands.settle()

    def start(self, trigger: str = "1 second") -> None:
        """Run live: a micro-batch per trigger interval, until `stop`."""
        self._home.check_open()
        self._archive_commands.check_open()
        self._runner.start(self._stream_commands.ready(), trigger)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the streams end, at most `timeout` seconds; raises what went wrong. True when all have ended."""
        return self._runner.wait(timeout)

    def state(self) -> SessionState:
        """The state of the session and its streams, and their errors."""
        names = [running.stream.name for running in list(self.streams.values())]
        return SessionState.of({name: self._runner.state_of(name) for name in names}, self._home.is_closed)

    def stop(self) -> None:
        """Stop live streams after the micro-batch in flight; the session can be started again."""
        inside = any(running.in_batch for running in list(self.streams.values()))
        self._runner.stop()
        self._query_commands.settle(0.0 if inside else _PATIENCE_SECONDS)

    def close(self) -> None:
        """Stop, and end the Spark session if it is ours (never a borrowed one)."""
        if self._home.is_closed:
            return
        if any(running.in_batch for running in self.streams.values()):
            raise SashError("close() from inside a subscriber would end Spark under its own micro-batch; call stop()")
        if self._is_relaxed:
            collection.restore()
            self._is_relaxed = False
        if self._dashboard is not None:
            self._dashboard.stop()
        self._runner.close()
        self._query_commands.settle(_PATIENCE_SECONDS)
        self._query_commands.report_unwritten()
        self._archive_commands.close()
        self._plans.close()
        if self.catalog.functions:
            from sash.spark.user_functions import withdraw_functions

            withdraw_functions(self.catalog.functions.values())
        self._home.close()
        if self.checkpoint is not None:
            self.checkpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def policy(self) -> str:
        """The scheduling policy's name."""
        return self._shared.settings.policy

    def use_policy(self, name: str) -> None:
        """Schedule by another policy from the next micro-batch on. Deadlines that were promised stay."""
        with self._shared.lock:
            self._shared.settings = replace(self._shared.settings, policy=name)
            for running in self.streams.values():
                running.use(self._shared.settings)

    def advance(self, stream: str, to: datetime | Micros) -> None:
        """A heartbeat: no tuple before this event time is to come on a stream."""
        self._home.check_open()
        if not isinstance(to, int | datetime):
            raise SashError(f"advance goes to a datetime or to microseconds since 1970, not to {to!r}")
        micros = to if isinstance(to, int) else to_micros(to)
        if not EARLIEST <= micros <= LATEST:
            raise SashError(f"advance goes to a time between {to_datetime(EARLIEST)} and {to_datetime(LATEST)}")
        self._shared.running(stream).advance(micros)

    def punctuate(self, stream: str, column: str, value: object) -> None:
        """A punctuation: no tuple of a stream that comes after this call has this value in this column.

        The running continuous queries forget what only such tuples would need. A tuple that breaks the promise is left
        out of these queries and counted (`broken_promises`).
        """
        self._home.check_open()
        running = self._shared.running(stream)
        running.punctuate(*promised_value(running.stream, column, value))

    # -- statements ------------------------------------------------------------------------------------

    def sql(self, text: str) -> pa.Table | Query | str | None:
        """Execute one statement. SELECT, SHOW and DESCRIBE return a table, REGISTER a query, EXPLAIN a string."""
        return self.execute(parse(text))

    def script(self, text: str) -> list[pa.Table | Query | str | None]:
        """Execute a script of statements in order; nothing is executed if one of them cannot be parsed."""
        return [self.execute(statement) for statement in parse_script(text, SCRIPTS)]

    def execute(self, statement: Statement) -> pa.Table | Query | str | None:
        """Execute a statement that was parsed already; its errors show their place in the whole script."""
        self._home.check_open()
        handlers: dict[type, Callable[[Any], pa.Table | Query | str | None]] = {
            CreateStream: self._stream_commands.declare,
            CreateTable: self._table_commands.create,
            CreateIndex: self._index_commands.create,
            DropIndex: self._index_commands.drop,
            CreateArchive: self._archive_commands.create,
            AlterArchive: self._archive_commands.alter,
            Drop: self._drop,
            Show: self._show,
            **dict.fromkeys((Insert, Update, Delete), self._table_commands.execute),
            SetExecution: lambda s: self._query_commands.set_execution(s.strategy),
            RegisterQuery: self._query_commands.register,
            AlterQuery: self._query_commands.alter,
            PauseOrResume: self._query_commands.pause,
            Describe: self._describe,
            Explain: self._questions.explain,
            SelectStatement: lambda s: self._questions.ask(s.select),
        }
        handler = handlers.get(type(statement))
        if handler is None:
            raise SashError(f"execute() takes a parsed statement, not a {type(statement).__name__}; sql() takes a text")
        with self._shared.lock:
            if is_needless(statement, self.catalog):
                if isinstance(statement, RegisterQuery):
                    return self.queries[self.catalog.query(statement.name).name]
                return None
        return handler(statement)

    def _drop(self, statement: Drop) -> None:
        drops = {"query": self.drop_query, "stream": self.drop_stream, "table": self.drop_table}
        drops.get(statement.kind, self._archive_commands.drop)(statement.name)

    def _show(self, statement: Show) -> pa.Table:
        if statement.what == "archives":
            return self._archive_commands.show()
        states = self.state()
        shown: dict[str, Callable[[], pa.Table]] = {
            "queries": lambda: show_queries(self.catalog, self.queries),
            "streams": lambda: show_streams(self.catalog, states),
            "tables": lambda: show_tables(self.catalog, self.tables.sizes()),
            "indexes": self._index_commands.show,
            "functions": lambda: show_functions(self.catalog, statement.like),
        }
        with self._shared.lock:
            return shown[statement.what]()

    def _describe(self, statement: Describe) -> pa.Table:
        with self._shared.lock:
            if not statement.extended:
                return describe(statement.name, self.catalog, self.queries, self.continuous)
            query = self.catalog.query(statement.name)
            handle = self.queries[query.name]
            facts = describe(query.name, self.catalog, self.queries, self.continuous)
        as_written = RegisterQuery(query.name, as_select(query.text), synopsis=query.synopsis, keep=query.keep)
        explained = self._questions.explain_query(as_written)
        return describe_extended(facts, query, handle, explained)

    def query(
        self,
        text: str,
        priority: int = 0,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        max_rows: int | None = None,
    ) -> pa.Table:
        """A one-time query over the live windows; `as_of` and `complete` are in the schema's metadata.

        Questions with less `priority` stop for questions with more while both read a stored window. After `timeout`
        seconds, or when another thread calls `cancellation.cancel()`, the question and its Spark jobs end with an
        error. An answer is cut to `max_rows` rows; then the metadata has `truncated`.
        """
        self._home.check_open()
        select = as_select(text)
        return asked(lambda: self._questions.ask(select), priority, timeout, cancellation, max_rows)

    def explain(self, text: str) -> Explanation:
        """How a query would be answered: plan, pane table, synopsis, with whom they are shared, expected cost."""
        return self._questions.explain(parse(text))

    def stats(self) -> dict[str, Any]:
        """Throughput, lateness, joint executions, work saved, late and bad tuples."""
        continuous = self.continuous
        return {
            **session_statistics(self.streams, self.queries, self._memory, continuous, self._isolation),
            "archives": self._archive_commands.statistics(),
        }

    def schedule(self) -> dict[str, Any]:
        """The policy, what each policy is expected to cost, and what was executed lately, with whom and how late."""
        return {"policy": self.policy, **schedule_report(self.streams, self._plans.runtimes, self._isolation)}

    def dashboard(self, port: int = 0) -> Dashboard:
        """The live page of this session, on this machine only; the same one when asked again.

        It needs the packages of the server.
        """
        self._home.check_open()
        with self._shared.lock:
            if self._dashboard is None or self._dashboard.wait(0):
                self._dashboard = open_dashboard(self, port)
            return self._dashboard

    def metrics(self) -> str:
        """The numbers of `stats()` as a text for Prometheus."""
        return exposition(self.stats())


def connect(
    spark: SparkSession | None = None,
    checkpoint: str | Path | None = None,
    policy: str = DEFAULT_POLICY,
    isolation: str = "ttu",
    *,
    clock: Clock | None = None,
    **options: Any,
) -> Session:
    """Open a session: on a local Spark session of its own, or on yours. `options` are those of `SessionSettings`."""
    if options.pop("workers", None) is not None:
        told = "workers has no effect: two threads were slower than one; the option goes with the next version"
        warnings.warn(told, FutureWarning, stacklevel=2)
    return Session(SessionSettings(policy=policy, isolation=isolation, **options), spark, checkpoint, clock)
