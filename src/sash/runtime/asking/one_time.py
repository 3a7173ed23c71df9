"""What a session answers about itself and its windows: one-time SELECTs and EXPLAIN.

    SELECT ── question_of (route.py, compiler.py) ──► question, answered by
        panes (periodic/onetime.py), if they have all of the window, or nothing is behind them
        stored rows: in_process.py or on_spark.py
        results of registered queries: query_results.py, then on_spark.py

`asked` holds how much a question matters, for how long it may take, how much of its answer is wanted. The executors
look these things up where they matter; the layers between do not pass them on.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from sash.catalog import RegisteredQuery, Stream
from sash.core.errors import QueryFailedError, QuestionStoppedError, SashError
from sash.core.stopping import QUESTION, Cancellation
from sash.core.time import format_duration
from sash.isolation import Isolation
from sash.plan.continuous import streams_of
from sash.runtime.asking.in_process import answer_in_process
from sash.runtime.asking.on_spark import MOST_ROWS, QuestionsOnSpark
from sash.runtime.asking.query_results import QueryResults
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.compiler import CompiledQuery, compile_panes
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.explaining import explain as explaining
from sash.runtime.explaining.explain_continuous import explain_continuous
from sash.runtime.explaining.explain_stored import explain_rows, what_is_kept
from sash.runtime.explaining.explanation import Explanation, Section
from sash.runtime.periodic.onetime import answer_now, offered, stamped
from sash.runtime.route import RouteDecision, RowsBehind, decide_select, question_of, route, rows_behind
from sash.runtime.session_parts import SessionParts
from sash.runtime.stored.stored_indexes import StoredIndexes
from sash.runtime.stored.stored_window import PRIORITY
from sash.runtime.streams.running_stream import RunningStream
from sash.sql import (
    Explain,
    RegisterQuery,
    Select,
    SelectStatement,
    Statement,
    StoredQuestion,
    bind,
)


def asked(
    ask: Callable[[], pa.Table],
    priority: int,
    timeout: float | None,
    cancellation: Cancellation | None,
    max_rows: int | None,
) -> pa.Table:
    """The answer. A cancelled question reports that it was cancelled, not the error that the cancellation caused."""
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


class Questions:
    """Answers and explains; nothing here changes anything."""

    def __init__(
        self,
        shared: SessionParts,
        queries: QueryCommands,
        continuous: ContinuousQueries,
        isolation: Isolation,
        on_spark: QuestionsOnSpark,
        results: QueryResults,
    ) -> None:
        self._shared = shared
        self._queries = queries
        self._continuous = continuous
        self._isolation = isolation
        self._on_spark = on_spark
        self._results = results

    def ask(self, select: Select) -> pa.Table:
        """A one-time query: from panes that cover it, else from the stored rows, else refused."""
        with self._shared.lock:
            question = question_of(select, self._shared.catalog, self._queries.decision_of, uuid.uuid4().hex)
            if isinstance(question, StoredQuestion):
                streams = {view: self._shared.running(each.stream.name) for view, each in question.windows.items()}
            else:
                running, way = self._shared.running(question.stream), self._rows_behind(question)
        if isinstance(question, StoredQuestion):
            return self._on_spark.answer_select(question, streams)
        return self._ask_of_window(question, running, way)

    def _rows_behind(self, question: CompiledQuery) -> RowsBehind:
        stream = self._shared.catalog.stream(question.stream)
        every = self._shared.catalog.indexes
        indexes = [index for index in every if index.query is None and index.stream == stream.name]
        return rows_behind(question, stream, indexes)

    def _ask_of_window(self, question: CompiledQuery, running: RunningStream, way: RowsBehind) -> pa.Table:
        try:
            answer = answer_now(question, running.runtime, self._isolation)
            if way.refusal is not None or answer.complete:
                return stamped(answer)
        except (QueryFailedError, QuestionStoppedError):
            raise
        except SashError as error:
            if way.refusal is not None:
                raise SashError(f"{error}; or {way.refusal}") from None
        # No synopsis has it, or one that came later than the rows that are stored.
        if way.why_spark is not None:
            return self._on_spark.answer_aggregate(question, running)
        assert running.stored_window is not None
        return answer_in_process(question, running.stored_window, way.index)

    def explain(self, statement: Statement) -> Explanation:
        """Without SLIDE a SELECT is a question when it is asked, and a continuous query when it is registered."""
        return Explanation([*self._read_as(statement), *self._explained(statement).parts])

    def _read_as(self, statement: Statement) -> Iterator[Section]:
        if isinstance(statement, RegisterQuery | Explain | SelectStatement):
            with self._shared.lock:
                yield from explaining.read_as(statement.select, self._shared.catalog)

    def _explained(self, statement: Statement) -> Explanation:
        match statement:
            case RegisterQuery():
                return self.explain_query(statement)
            case Explain(select=select) | SelectStatement(select=select):
                with self._shared.lock:
                    known, execution = self._queries.decision_of, self._queries.execution
                    decision = decide_select(select, self._shared.catalog, known, execution)
                answer = None if decision.answer is None else self._explain_answer(decision.answer)
                return explaining.explain_select(decision, answer, self._explain_continuous)
        raise SashError("EXPLAIN takes a SELECT")

    def explain_query(self, statement: RegisterQuery) -> Explanation:
        """What is registered already is explained as it is, whatever SET EXECUTION says now."""
        with self._shared.lock:
            bound = bind(statement.select, self._shared.catalog)
            known = self._registered_as(statement)
            name = "" if self._shared.catalog.has_query(statement.name) else statement.name
        routed = route(bound, self._queries.execution if known is None else known.execution)
        lifetime = statement.lifetime
        if routed.changes is not None:
            explained = self._explain_continuous(routed)
        else:
            compiled = compile_panes(bound, name, synopsis=statement.synopsis)
            explained = self._explain_answers(compiled, None if known is None else known.serial)
        sections = list(explained.parts)
        if lifetime is not None:
            sections.append(Section("Lifetime", f"it ends {format_duration(lifetime)} after it begins"))
        if statement.keep is not None:
            kept = what_is_kept(routed.kept_form, statement.keep)
            sections.append(Section("Keep", f"{kept} are stored in memory, for questions FROM {statement.name}"))
        return Explanation(sections)

    def _explain_answer(self, question: CompiledQuery | StoredQuestion) -> Explanation:
        if isinstance(question, StoredQuestion):
            return explain_rows(question, self._indexes_of, self._on_spark.feed_of, self._results.access)
        return self._explain_answers(question)

    def _indexes_of(self, stream: Stream) -> StoredIndexes | None:
        kept = self._shared.running(stream.name).stored_window
        return None if kept is None else kept.indexes

    def _explain_continuous(self, routed: RouteDecision) -> Explanation:
        with self._shared.lock:
            streams = map(self._shared.catalog.stream, streams_of(routed.written))
            return explain_continuous(self._continuous.decide(routed), streams)

    def _registered_as(self, statement: RegisterQuery) -> RegisteredQuery | None:
        """The query that is registered by this name and text."""
        catalog = self._shared.catalog
        known = catalog.query(statement.name) if catalog.has_query(statement.name) else None
        same = known is not None and (known.text, known.synopsis) == (statement.select.text, statement.synopsis)
        return known if same else None

    def _explain_answers(self, compiled: CompiledQuery, serial: int | None = None) -> Explanation:
        """`serial` is that of the registered query that this is."""
        with self._shared.lock:
            runtime = self._shared.streams[compiled.stream.lower()].runtime
            way = self._rows_behind(compiled) if compiled.slide is None else None
        handles, registered = dict(self._shared.handles), self._queries.at(compiled.stream)
        neighbours = [query for query in registered if query.name in handles and handles[query.name].failure is None]
        compiled = next((query for query in neighbours if query.serial == serial), compiled.beside(lambda: neighbours))
        if compiled.paused:
            # As it will run.
            compiled = replace(compiled, paused=False)
        # Without the session's lock: micro-batches slide under the one of the windows, and may then want the other.
        trial = explaining.tried(runtime, neighbours, compiled, self._isolation.read())
        offer = self._isolation.reading(partial(offered, compiled, trial)) if compiled.slide is None else None
        return explaining.explain(compiled, trial, way, offer)
