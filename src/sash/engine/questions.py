"""What a session answers about itself and its windows: one-time SELECTs and EXPLAIN."""

from __future__ import annotations

import pyarrow as pa

from sash.core.errors import SashError
from sash.engine import explain as explaining
from sash.engine.compiler import compile_question
from sash.engine.continuous import ContinuousQueries
from sash.engine.explain_continuous import either, explain_continuous
from sash.engine.onetime import answer_once
from sash.engine.query import Query
from sash.engine.query_commands import QueryCommands
from sash.engine.settings import Settings
from sash.engine.shared import Shared
from sash.language import Explain, RegisterQuery, Select, SelectStatement, Statement, is_continuous
from sash.transactions import Isolation


class Questions:
    """Nothing here changes anything."""

    def __init__(
        self,
        shared: Shared,
        queries: QueryCommands,
        continuous: ContinuousQueries,
        handles: dict[str, Query],
        settings: Settings,
        isolation: Isolation,
    ) -> None:
        self._shared = shared
        self._queries = queries
        self._continuous = continuous
        self._handles = handles
        self._settings = settings
        self._isolation = isolation

    def ask(self, select: Select) -> pa.Table:
        """A one-time query: answered between two executions, when what it reads is as of one time."""
        with self._shared.lock:
            compiled = compile_question(select, self._shared.catalog)
            running = self._shared.streams[compiled.stream.lower()]
        while True:
            with self._isolation.read():
                if not running.runtime.is_between(compiled):
                    return answer_once(compiled, running.runtime)

    def explain(self, statement: Statement) -> str:
        """Without SLIDE a SELECT is a question when it is asked, and a continuous query when it is registered."""
        match statement:
            case RegisterQuery(select=select) if is_continuous(select):
                return self._explain_continuous(select)
            case RegisterQuery(select=select, synopsis=synopsis):
                return self._explain_answers(select, synopsis)
            case Explain(select=select) | SelectStatement(select=select):
                return self.explain_select(select)
        raise SashError("EXPLAIN takes a SELECT")

    def explain_select(self, select: Select) -> str:
        if not is_continuous(select):
            return self._explain_answers(select, None)
        return either(lambda: self._explain_answers(select, None), lambda: self._explain_continuous(select))

    def _explain_continuous(self, select: Select) -> str:
        with self._shared.lock:
            return explain_continuous(self._continuous.decide(select, self._queries.execution))

    def _explain_answers(self, select: Select, synopsis: str | None) -> str:
        with self._shared.lock:
            compiled = explaining.compile_for_explain(select, self._shared.catalog, synopsis)
            registered = self._queries.at(compiled.stream)
            neighbours = [query for query in registered if self._handles[query.name].failure is None]
            stream = self._shared.catalog.stream(compiled.stream)
            runtime = self._shared.streams[compiled.stream.lower()].runtime
            loads = {name: group.load for name, group in runtime.groups.items()}
        return explaining.explain(compiled, neighbours, stream, self._settings, runtime.unreduced, loads)
