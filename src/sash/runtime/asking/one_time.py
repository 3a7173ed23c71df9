"""What a session answers about itself and its windows: one-time SELECTs and EXPLAIN.

How a one-time question is asked: how much it matters, for how long it may take, how much of its answer is wanted.

Those who answer look these things up where they matter; the layers between do not pass them on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.catalog import Stream
from sash.core.errors import CqlError, QueryFailedError, QuestionStoppedError, SashError
from sash.core.stopping import QUESTION, Cancellation, check_question
from sash.isolation import Isolation
from sash.panes.readings import TableName
from sash.runtime.answers.answer import Explanation
from sash.runtime.answers.registered_query import Query
from sash.runtime.asking.ask_counts import counting_index
from sash.runtime.asking.ask_stored import MOST_ROWS, answer_by_spark, answer_from_rows, is_whole
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.commands.session_state import Shared
from sash.runtime.compiler import (
    CompiledQuery,
    compile_any_question,
    compile_bound_question,
    compile_panes,
    why_not_stored,
)
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.explaining import explain as explaining
from sash.runtime.explaining.explain_continuous import either, explain_continuous
from sash.runtime.explaining.explain_stored import explain_rows
from sash.runtime.periodic.onetime import PaneLookup, look_up, stamped
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.records.session_tables import Tables
from sash.runtime.settings import Settings
from sash.runtime.stored.archive_feed import ArchiveFeed
from sash.runtime.stored.stored_indexes import KeptIndexes
from sash.runtime.stored.stored_window import PRIORITY
from sash.runtime.streams.running_stream import RunningStream
from sash.sharing.choose import Load
from sash.sql import (
    BoundQuery,
    Explain,
    RegisterQuery,
    Select,
    SelectStatement,
    Statement,
    StoredQuestion,
    bind,
    has_slide,
    is_continuous,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def asked(
    ask: Callable[[], pa.Table],
    priority: int,
    timeout: float | None,
    cancellation: Cancellation | None,
    max_rows: int | None,
) -> pa.Table:
    """The answer. A stopped question reports that it was stopped, not the error that the stop caused."""
    if timeout is not None and not timeout > 0:
        raise SashError(f"a timeout is a number of seconds above 0, not {timeout}")
    if max_rows is not None and max_rows < 0:
        raise SashError(f"max_rows is 0 at least, not {max_rows}")
    question = cancellation or Cancellation()
    with ExitStack() as held:
        for variable, value in ((PRIORITY, priority), (QUESTION, question), (MOST_ROWS, max_rows)):
            held.enter_context(_holding(variable, value))
        held.enter_context(question.within(timeout))
        try:
            question.check()
            return _cut(ask(), max_rows)
        except Exception as error:
            if question.why is None or question.why is error:
                raise
            raise question.why from error


@contextmanager
def _holding(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def _cut(table: pa.Table, most: int | None) -> pa.Table:
    """Not more rows than wanted; then the metadata says `truncated`."""
    if most is None or len(table) <= most:
        return table
    return table.slice(0, most).replace_schema_metadata({**(table.schema.metadata or {}), "truncated": "true"})


# Seconds until it is looked again whether the groups that a question reads are all as of one time.
_AGAIN = 0.001


class Questions:
    """Nothing here changes anything."""

    def __init__(
        self,
        shared: Shared,
        queries: QueryCommands,
        continuous: ContinuousQueries,
        handles: dict[str, Query],
        settings: Callable[[], Settings],
        isolation: Isolation,
        tables: Tables,
        feed_of: Callable[[str], ArchiveFeed],
        spark: Callable[[], SparkSession],
    ) -> None:
        self._shared = shared
        self._queries = queries
        self._continuous = continuous
        self._handles = handles
        self._settings = settings
        self._isolation = isolation
        self._tables = tables
        self._feed_of = feed_of
        self._spark = spark

    def ask(self, select: Select) -> pa.Table:
        """A one-time query: from a synopsis that covers it, else from the stored rows, else refused."""
        with self._shared.lock:
            question = compile_any_question(select, self._shared.catalog, uuid.uuid4().hex)
            if isinstance(question, StoredQuestion):
                streams = {view: self._shared.running(each.stream.name) for view, each in question.windows.items()}
                ask = partial(answer_by_spark, question, streams, self._tables.rows_at, self._feed_of)
            else:
                ask = partial(self._ask_of_window, question, self._shared.running(question.stream))
        return ask(self._spark())

    def _ask_of_window(self, compiled: CompiledQuery, running: RunningStream, spark: SparkSession) -> pa.Table:
        why = _why_not_rows(compiled, running)
        try:
            answer = self._from_synopsis(compiled, running)
            if why is not None or is_whole(answer):
                return answer
        except (QueryFailedError, QuestionStoppedError):
            raise
        except SashError as error:
            if why is not None:
                raise SashError(f"{error}; or {why}") from None
        # No synopsis has it, or one that came later than the rows that are stored.
        return answer_from_rows(compiled, running, self._settings(), spark)

    def _from_synopsis(self, compiled: CompiledQuery, running: RunningStream) -> pa.Table:
        """What it reads is taken between two executions, when it is as of one time."""
        runtime = running.runtime

        def take() -> PaneLookup | None:
            return None if runtime.is_between(compiled) else look_up(compiled, runtime)

        while (answer := self._isolation.taking(take)) is None:
            # The thread that moves the groups on may be waiting for workers, which need the processor.
            time.sleep(_AGAIN)
            check_question()
        return stamped(answer)

    def explain(self, statement: Statement) -> Explanation:
        """Without SLIDE a SELECT is a question when it is asked, and a continuous query when it is registered."""
        return Explanation(self._explained(statement))

    def _explained(self, statement: Statement) -> str:
        match statement:
            case RegisterQuery(select=select, synopsis=synopsis):
                bound = self._bound(select)
                if is_continuous(bound):
                    return self._explain_continuous(bound)
                return self._explain_answers(compile_panes(bound, synopsis=synopsis))
            case Explain(select=select) | SelectStatement(select=select):
                return self.explain_select(select)
        raise SashError("EXPLAIN takes a SELECT")

    def explain_select(self, select: Select) -> str:
        try:
            bound = self._bound(select)
        except CqlError:
            if has_slide(select):
                raise
            # Stored rows may still answer it.
            with self._shared.lock:
                question = compile_any_question(select, self._shared.catalog)
            return self._explain_question(question)
        if is_continuous(bound):
            return either(lambda: self._explain_bound(bound), lambda: self._explain_continuous(bound))
        return self._explain_answers(compile_panes(bound)) if has_slide(select) else self._explain_bound(bound)

    def _bound(self, select: Select) -> BoundQuery:
        with self._shared.lock:
            return bind(select, self._shared.catalog)

    def _explain_bound(self, bound: BoundQuery) -> str:
        with self._shared.lock:
            question = compile_bound_question(bound, self._shared.catalog)
        return self._explain_question(question)

    def _explain_question(self, question: CompiledQuery | StoredQuestion) -> str:
        if isinstance(question, StoredQuestion):
            return explain_rows(question, self._indexes_of, lambda name: self._feed_of(name).archive.facts())
        explanation = self._explain_answers(question)
        kept = self._shared.running(question.stream).kept
        index = None if kept is None else counting_index(question, kept)
        if index is None:
            return explanation
        return f"{explanation}\nRather than over the rows: from the {index.kind} index on {index.column}"

    def _indexes_of(self, stream: Stream) -> KeptIndexes | None:
        kept = self._shared.running(stream.name).kept
        return None if kept is None else kept.indexes

    def _explain_continuous(self, bound: BoundQuery) -> str:
        with self._shared.lock:
            return explain_continuous(self._continuous.decide(bound, self._queries.execution))

    def _explain_answers(self, compiled: CompiledQuery) -> str:
        with self._shared.lock:
            stream = self._shared.catalog.stream(compiled.stream)
            runtime = self._shared.streams[compiled.stream.lower()].runtime
        # Without that lock: micro-batches slide under this one, and may then want the other.
        loads = self._isolation.reading(partial(_loads, compiled, runtime))
        handles, registered = dict(self._handles), self._queries.at(compiled.stream)
        neighbours = [query for query in registered if query.name in handles and handles[query.name].failure is None]
        return explaining.explain(compiled, neighbours, stream, self._settings(), runtime.unreduced, loads)


def _loads(compiled: CompiledQuery, runtime: StreamRuntime) -> dict[TableName, Load]:
    """Of the pane tables that a query would read and that are there already."""
    names = {reading.table for reading in compiled.readings}
    return {name: runtime.groups[name].choices.load for name in names if name in runtime.groups}


def _why_not_rows(compiled: CompiledQuery, running: RunningStream) -> str | None:
    windows = compiled.windows
    by_rows = compiled.readings[0].table.by_rows
    reach = None if by_rows else max(window.reach for window in windows)
    return why_not_stored(running.stream, reach, any(window.unbounded for window in windows))
