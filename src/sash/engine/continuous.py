"""The continuous queries of a session: from their texts to running plans, and back to changes and views.

A plan is chosen when its query is registered, by what is known of its streams then. The strategy and the measurements
go into the catalog, so a restart compiles the same plan again and finds its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sash.catalog import Catalog, RegisteredQuery
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, NotSupportedError, SashError
from sash.core.time import Micros, to_datetime
from sash.engine.compiler import as_select
from sash.engine.history import CatalogHistory
from sash.engine.plan_runtime import BEGINNING, PlanRuntime
from sash.engine.plans import ContinuousQuery, Plans
from sash.engine.query import Query
from sash.language import Select, bind_continuous
from sash.plan.choice import Choice, choose, considered
from sash.plan.continuous import Node, streams_of
from sash.plan.estimates import Statistics
from sash.plan.rewrites import optimise
from sash.plan.strategies import AUTO
from sash.plan.streams import is_stream, sampling_of


@dataclass(frozen=True)
class Decision:
    """A plan as it was written, what was chosen for it and on what grounds; `like` asks the same already.

    `current` is what is known by now.
    """

    written: Node
    choice: Choice
    statistics: Statistics
    execution: str
    current: Statistics
    like: str | None = None


def unmeasured(select: Select, catalog: Catalog, execution: str) -> Decision:
    """What would be decided before any tuple has come."""
    written, known = bind_continuous(select, catalog), Statistics()
    return Decision(written, choose(written, known, execution), known, execution, known)


class ContinuousQueries:
    """Compiled queries by their registration; the plans are compiled again after a restart, from the texts."""

    def __init__(
        self,
        catalog: Catalog,
        history: CatalogHistory,
        plans: Plans,
        measured: Callable[[Sequence[str]], Statistics],
    ) -> None:
        self._catalog = catalog
        self._history = history
        self._plans = plans
        self._measured = measured
        self._compiled: dict[RegisteredQuery, ContinuousQuery] = {}
        self._written: dict[RegisteredQuery, Node] = {}

    def compile(self, select: Select, wanted: RegisteredQuery, before: RegisteredQuery | None) -> RegisteredQuery:
        """The registration of a query with the streams that it reads; what only periodic ones have is refused.

        `before` is the query of that name that a checkpoint has: the same query keeps its plan.
        """
        if wanted.lifetime is not None:
            raise NotSupportedError("a LIFETIME of a continuous query", select.script, select.span)
        if wanted.synopsis is not None:
            raise SashError("a continuous query has no synopsis; leave it out, or add SLIDE")
        decided = self.decide(select, wanted.execution, before if before and before.text == wanted.text else None)
        strategy = decided.choice.strategy
        found = ContinuousQuery(wanted.name, decided.choice.plan, wanted.serial, strategy)
        found = replace(found, state=self._state_of(found))
        query = replace(
            wanted,
            stream=found.streams[0],
            streams=found.streams,
            tables=found.tables,
            execution=strategy,
            measurements=decided.statistics.measurements,
            state=found.state,
        )
        self._compiled[query] = found
        return query

    def _state_of(self, query: ContinuousQuery) -> str:
        """The directory of the same plan, where another query has it; else a new one."""
        same = (other.state for other in self._catalog.queries if other.state.startswith(f"{query.digest}-"))
        return next(same, f"{query.digest}-{query.serial}")

    def decide(self, select: Select, execution: str, before: RegisteredQuery | None = None) -> Decision:
        """The plan and the strategy of a query. One that asks what another asks already has its plan, and shares it."""
        written = bind_continuous(select, self._catalog)
        twin, current = before or self._twin(written, execution), self._measured(streams_of(written))
        if twin is None or execution not in (AUTO, twin.execution):
            return Decision(written, choose(written, current, execution), current, execution, current)
        known = Statistics.of(twin.measurements)
        return Decision(written, choose(written, known, twin.execution), known, execution, current, twin.name)

    def _twin(self, written: Node, execution: str) -> RegisteredQuery | None:
        """A registered query with the same plan as it was written, and a strategy that would do."""
        wanted = considered(written) if execution == AUTO else (execution,)
        for query in self._catalog.queries:
            if query.is_continuous and query.execution in wanted and self._as_written(query) == written:
                return query
        return None

    def _as_written(self, query: RegisteredQuery) -> Node | None:
        """None while a stream of a checkpoint's query has not been created again."""
        if query not in self._written:
            try:
                self._written[query] = bind_continuous(as_select(query.text), self._catalog)
            except SashError:
                return None
        return self._written[query]

    def attach(self, query: RegisteredQuery) -> PlanRuntime:
        return self._plans.attach(self._found(query))

    def detach(self, query: RegisteredQuery) -> None:
        """Of a query that the catalog does not have any more."""
        last = all(other.state != query.state for other in self._catalog.queries)
        self._plans.detach(query.state, query.serial, last=last)
        self._compiled.pop(query, None)
        self._written.pop(query, None)

    def at(self, stream: str, version: int | None) -> list[ContinuousQuery]:
        """The continuous queries that read a stream at a version of the catalog."""
        registered = self._history.queries(version).values()
        return [self._found(query) for query in registered if query.is_continuous and query.reads(stream)]

    def processed(self, table: str) -> Micros:
        """The first instant that no plan which reads a table has processed."""
        queries = self._catalog.queries
        readers = [query for query in queries if query.is_continuous and query.reads_table(table)]
        return max([BEGINNING, *(self.attach(query).now + 1 for query in readers)])

    def _found(self, query: RegisteredQuery) -> ContinuousQuery:
        if query not in self._compiled:
            written = bind_continuous(as_select(query.text), self._catalog)
            plan = optimise(written, Statistics.of(query.measurements), query.execution)
            found = ContinuousQuery(query.name, plan, query.serial, query.execution, query.state)
            if query.state.rpartition("-")[0] != found.digest:
                raise CheckpointError(
                    f"what is stored for query '{query.name}' is of another plan than this version of Sash makes of "
                    f"it; go on with the version that wrote the checkpoint, or DROP QUERY {query.name} and register it "
                    "again: it then begins with empty windows"
                )
            self._compiled[query] = found
        return self._compiled[query]

    def check(self, query: RegisteredQuery) -> None:
        """What is stored for a query can be continued; CheckpointError where it cannot."""
        self._found(query)

    # -- what users look at ----------------------------------------------------------------------------

    def runtime(self, handle: Query) -> PlanRuntime:
        if not handle.is_continuous:
            raise SashError(
                f"query '{handle.name}' is periodic: it has answers(); changes and views are of continuous queries"
            )
        return self.attach(self._catalog.query(handle.name))

    def schema(self, handle: Query) -> pa.Schema:
        """The columns of a query's changes."""
        plan = self.runtime(handle).plan
        if sampling_of(plan) is not None:
            raise SashError(f"query '{handle.name}' is answered at the multiples of its SLIDE: it has answers()")
        return Changes.none(plan.schema).to_table().schema

    def view(self, handle: Query) -> pa.Table:
        if is_stream(self.runtime(handle).plan):
            reason = "is a stream of results that never end, and no relation to look at"
            raise SashError(f"query '{handle.name}' {reason}: it has answers() and, without SLIDE, changes()")
        changes, now = self.runtime(handle).rows()
        return changes.rows.replace_schema_metadata({"as_of": to_datetime(now).isoformat()} if now > BEGINNING else {})

    def statistics(self, handle: Query) -> dict[str, Any]:
        if not handle.is_continuous:
            return {}
        runtime = self.runtime(handle)
        return {"late_tuples": runtime.late, "rows": len(runtime.rows()[0]), "buckets": runtime.buckets}

    @property
    def plans(self) -> int:
        return self._plans.number
