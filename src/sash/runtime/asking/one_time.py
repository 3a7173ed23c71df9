"""What a session answers about itself and its windows: one-time SELECTs and EXPLAIN.

    SELECT ── compiler ──► question ── route ──► panes (periodic/onetime.py), if they have all of the window
                                                 stored rows: in_process.py or on_spark.py

`asked` holds how much a question matters, for how long it may take, how much of its answer is wanted. The executors
look these things up where they matter; the layers between do not pass them on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import pyarrow as pa

from sash.catalog import Stream
from sash.core.errors import QueryFailedError, QuestionStoppedError, SashError
from sash.core.stopping import QUESTION, Cancellation, check_question
from sash.isolation import Isolation
from sash.plan.continuous import Node
from sash.runtime.answers.answer import Answer, Explanation
from sash.runtime.asking.in_process import answer_in_process
from sash.runtime.asking.on_spark import MOST_ROWS, QuestionsOnSpark
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.commands.session_state import SessionParts
from sash.runtime.compiler import CompiledQuery, compile_panes
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.explaining import explain as explaining
from sash.runtime.explaining.explain_continuous import explain_continuous, explain_select
from sash.runtime.explaining.explain_stored import explain_rows
from sash.runtime.periodic.onetime import PaneLookup, look_up, stamped
from sash.runtime.route import RowsBehind, decide_select, question_of, route, rows_behind
from sash.runtime.stored.stored_indexes import KeptIndexes
from sash.runtime.stored.stored_window import PRIORITY
from sash.runtime.streams.running_stream import RunningStream
from sash.sql import (
    BoundQuery,
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


# Seconds until it is looked again whether the groups that a question reads are all as of one time.
_AGAIN = 0.001


class Questions:
    """Answers and explains; nothing here changes anything."""

    def __init__(
        self,
        shared: SessionParts,
        queries: QueryCommands,
        continuous: ContinuousQueries,
        isolation: Isolation,
        on_spark: QuestionsOnSpark,
    ) -> None:
        self._shared = shared
        self._queries = queries
        self._continuous = continuous
        self._isolation = isolation
        self._on_spark = on_spark

    def ask(self, select: Select) -> pa.Table:
        """A one-time query: from panes that cover it, else from the stored rows, else refused."""
        with self._shared.lock:
            question = question_of(select, self._shared.catalog, uuid.uuid4().hex)
            if isinstance(question, StoredQuestion):
                streams = {view: self._shared.running(each.stream.name) for view, each in question.windows.items()}
            else:
                running, way = self._shared.running(question.stream), self._rows_behind(question)
        if isinstance(question, StoredQuestion):
            return self._on_spark.answer_select(question, streams)
        return self._ask_of_window(question, running, way)

    def _rows_behind(self, question: CompiledQuery) -> RowsBehind:
        stream = self._shared.catalog.stream(question.stream)
        indexes = [index for index in self._shared.catalog.indexes if index.stream == stream.name]
        return rows_behind(question, stream, indexes)

    def _ask_of_window(self, question: CompiledQuery, running: RunningStream, way: RowsBehind) -> pa.Table:
        try:
            answer = self._from_synopsis(question, running)
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
        assert running.kept is not None
        return answer_in_process(question, running.kept, way.index)

    def _from_synopsis(self, compiled: CompiledQuery, running: RunningStream) -> Answer:
        """The answer from panes, which are taken between two executions, when all of them are as of one time."""
        runtime = running.runtime

        def take() -> PaneLookup | None:
            return None if runtime.is_between(compiled) else look_up(compiled, runtime)

        while (answer := self._isolation.taking(take)) is None:
            # The thread that moves the groups on needs the processor.
            time.sleep(_AGAIN)
            check_question()
        return answer

    def explain(self, statement: Statement) -> Explanation:
        """Without SLIDE a SELECT is a question when it is asked, and a continuous query when it is registered."""
        return Explanation(self._explained(statement))

    def _explained(self, statement: Statement) -> str:
        match statement:
            case RegisterQuery(name=name, select=select, synopsis=synopsis):
                with self._shared.lock:
                    bound = bind(select, self._shared.catalog)
                routed = route(bound, self._queries.execution)
                if routed.changes is not None:
                    return self._explain_continuous(routed.changes)
                return self._explain_registered(bound, name, synopsis)
            case Explain(select=select) | SelectStatement(select=select):
                with self._shared.lock:
                    decision = decide_select(select, self._shared.catalog)
                answer = None if decision.answer is None else self._explain_answer(decision.answer)
                return explain_select(decision, answer, self._explain_continuous)
        raise SashError("EXPLAIN takes a SELECT")

    def _explain_answer(self, question: CompiledQuery | StoredQuestion) -> str:
        if isinstance(question, StoredQuestion):
            return explain_rows(question, self._indexes_of, self._on_spark.feed_of)
        return self._explain_answers(question)

    def _indexes_of(self, stream: Stream) -> KeptIndexes | None:
        kept = self._shared.running(stream.name).kept
        return None if kept is None else kept.indexes

    def _explain_continuous(self, plan: Node) -> str:
        with self._shared.lock:
            return explain_continuous(self._continuous.decide(plan, self._queries.execution))

    def _explain_registered(self, bound: BoundQuery, name: str, synopsis: str | None) -> str:
        """A query that is registered by a name and a text as it is, any other one as it would be."""
        with self._shared.lock:
            catalog = self._shared.catalog
            known = catalog.query(name) if catalog.has_query(name) else None
        compiled = compile_panes(bound, "" if known else name, synopsis=synopsis)
        is_known = known is not None and (known.text, known.synopsis) == (bound.select.text, synopsis)
        serial = known.serial if known is not None and is_known else None
        return self._explain_answers(compiled, serial)

    def _explain_answers(self, compiled: CompiledQuery, serial: int | None = None) -> str:
        """`serial` is that of the registered query that this is."""
        with self._shared.lock:
            runtime = self._shared.streams[compiled.stream.lower()].runtime
            way = self._rows_behind(compiled) if compiled.slide is None else None
        handles, registered = dict(self._shared.handles), self._queries.at(compiled.stream)
        neighbours = [query for query in registered if query.name in handles and handles[query.name].failure is None]
        compiled = next((query for query in neighbours if query.serial == serial), compiled)
        # Without the session's lock: micro-batches slide under the one of the windows, and may then want the other.
        trial = explaining.tried(runtime, neighbours, compiled, self._isolation.read())
        return explaining.explain(compiled, trial, way)
