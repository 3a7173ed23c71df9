"""The continuous queries of a session: from their texts to running plans, and back to changes and views.

A plan is chosen when its query is registered, by what is known of its streams then. The strategy, the measurements and
whether the plan is evaluated lazily go into the catalog, so a restart compiles the same plan again and finds its state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.catalog import RegisteredQuery, Route
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, SashError
from sash.core.time import BEGINNING, Micros, format_duration, multiple_at_or_after, to_datetime
from sash.plan.choice import Choice, best_plans, considered
from sash.plan.continuous import AUTO, Node, is_stream, sampling_of, streams_of
from sash.plan.estimates import Statistics
from sash.plan.lazy_joins import lazily
from sash.plan.reach import complete_from, pane_of, reaches
from sash.plan.rewrites import optimise
from sash.plan.shared_joins import joined_aggregate
from sash.runtime.answers.registered_query import Query
from sash.runtime.compiler import as_select
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.continuous.join_runtime import JoinQuery
from sash.runtime.continuous.plan_runtime import ContinuousQuery, PlanRuntime
from sash.runtime.continuous.plans import KINDS, Plans
from sash.runtime.observed import measured
from sash.runtime.route import route_plan
from sash.sql import bind, plan_changes

if TYPE_CHECKING:
    from sash.runtime.commands.session_state import SessionParts


@dataclass(frozen=True)
class LateBeginning:
    """A query that begins with empty windows after its streams have begun. Its answers are complete from a time on, at
    the earliest; None: never."""

    complete_from: Micros | None


@dataclass(frozen=True)
class PlanDecision:
    """A plan as it was written, what was chosen for it and on what grounds, and the query that comes of it.

    `current` is what is known by now. The query `like` asks the same already; `mates` share what it is answered from.
    """

    written: Node
    choice: Choice
    statistics: Statistics
    execution: str
    current: Statistics
    route: Route
    query: ContinuousQuery
    like: str | None = None
    mates: tuple[str, ...] = ()
    # Of an aggregate over a join: what its group keeps, and which queries are in another group, and why.
    group: JoinLayout | None = None
    apart: str | None = None
    late: LateBeginning | None = None


def unmeasured(written: Node, execution: str) -> PlanDecision:
    """What would be decided about a plan before any tuple has come."""
    known, way = Statistics(), route_plan(written, execution)
    choice = KINDS[way].choose(written, known, execution).evaluated(known)
    query = KINDS[way].of(written, known, choice.strategy, choice.plan)
    return PlanDecision(written, choice, known, execution, known, way, query, group=query.alone())


def _digest_of(state: str) -> str:
    return state.rpartition("-")[0]


def _discard(found: dict[Any, dict[Any, Any]], key: object, value: object) -> bool:
    """Take a value away from a key; whether the key has none left."""
    some = found.get(key, {})
    some.pop(value, None)
    if not some:
        found.pop(key, None)
    return not some


def _skeleton(written: Node | None) -> Hashable:
    joined = None if written is None else joined_aggregate(written)
    return None if joined is None else joined.skeleton


class ContinuousQueries:
    """Compiled queries by their registration; the plans are compiled again after a restart, from the texts."""

    def __init__(self, shared: SessionParts, plans: Plans) -> None:
        self._shared = shared
        self._catalog = shared.catalog
        self._plans = plans
        self._compiled: dict[RegisteredQuery, ContinuousQuery] = {}
        self._written: dict[RegisteredQuery, Node] = {}
        # Those that are registered, in the order in which they came: by the plan as it was written, once that is known,
        # by the name of the directory, and the names of directories by digest. A query finds its like among them.
        self._by_plan: dict[Node, dict[int, RegisteredQuery]] = {}
        self._unbound: dict[int, RegisteredQuery] = {}
        self._by_state: dict[str, dict[int, RegisteredQuery]] = {}
        self._by_digest: dict[str, dict[str, None]] = {}
        # What `prepare` found: for which plan as written, and by what statistics.
        self._prepared: deque[tuple[Node, Statistics, Mapping[str, Node]]] = deque(maxlen=8)

    def _measured(self, streams: Sequence[str]) -> Statistics:
        """What the optimiser may know about some streams."""
        return measured([self._shared.running(name).runtime for name in streams], self._plans.observed)

    def add(self, query: RegisteredQuery) -> None:
        """A query is registered."""
        self._unbound[query.serial] = query
        self._by_state.setdefault(query.state, {})[query.serial] = query
        self._by_digest.setdefault(_digest_of(query.state), {})[query.state] = None

    def _remove(self, query: RegisteredQuery) -> bool:
        """A query is not registered any more: whether it was the last one of its plan."""
        if self._unbound.pop(query.serial, None) is None and query in self._written:
            _discard(self._by_plan, self._written[query], query.serial)
        was_last = _discard(self._by_state, query.state, query.serial)
        if was_last:
            _discard(self._by_digest, _digest_of(query.state), query.state)
        return was_last

    def prepare(self, written: Node, execution: str, lock: AbstractContextManager[object]) -> None:
        """Look for the best plans of a query before it is registered, without the lock that micro-batches wait for.

        The catalog may change meanwhile: the query is bound again when it is registered, and what was found counts only
        if it is of the same plan and the same statistics. What is wrong with the query is said there, too.
        """
        with suppress(SashError):
            with lock:
                twin = self._twin(written, execution)
                known = Statistics.of(twin.measurements) if twin else self._measured(streams_of(written))
            if route_plan(written, execution) is not Route.SETS:
                self._prepared.append((written, known, best_plans(written, known)))

    def compile(self, written: Node, wanted: RegisteredQuery, before: RegisteredQuery | None) -> RegisteredQuery:
        """The registration of a query with the streams that it reads.

        `before` is the query of that name that a checkpoint has: the same query keeps its plan.
        """
        same = before if before and before.text == wanted.text else None
        decided = self._decide(written, wanted.execution, same)
        strategy = decided.choice.strategy
        found = replace(
            decided.query, name=wanted.name, serial=wanted.serial, text=wanted.text, lifetime=wanted.lifetime
        )
        kept = same is not None and same.execution == strategy
        found = replace(found, state=same.state if same is not None and kept else self._state_of(found))
        query = replace(
            wanted,
            stream=found.streams[0],
            streams=found.streams,
            tables=found.tables,
            execution=strategy,
            measurements=decided.statistics.measurements,
            state=found.state,
            route=decided.route,
            lazy=decided.choice.is_lazy,
        )
        self._compiled[query], self._written[query] = found, decided.written
        return query

    def _state_of(self, query: ContinuousQuery) -> str:
        """The directory of the same plan, or of a group that it can join, where another query has it; else a new one.

        One that joins a group is one of it at once.
        """
        admitted = (state for state in self._states(query) if self._plans.admit(state, query))
        return next(admitted, f"{query.digest}-{query.serial}")

    def _states(self, query: ContinuousQuery) -> list[str]:
        """The directories of other queries' plans that a query might share."""
        return list(self._by_digest.get(query.digest, ()))

    def decide(self, written: Node, execution: str) -> PlanDecision:
        """What registering a query would lead to; of an aggregate over a join, with what its group would keep."""
        decided = self._decide(written, execution)
        query, states = decided.query, self._states(decided.query)
        if not isinstance(query, JoinQuery):
            mates = tuple(name for state in states for name in self._those_of(state))
            return replace(decided, mates=mates, late=None if mates else self._late(written))
        for state in states:
            layout = self._plans.layout_with(state, query)
            if layout is not None:
                return replace(decided, group=layout, mates=self._those_of(state))
        return replace(decided, group=query.alone(), apart=self._why_apart(query), late=self._late(written))

    def _late(self, written: Node) -> LateBeginning | None:
        """What a query misses that shares nothing with others; None if all its tuples are still to come."""
        sampling = sampling_of(written)
        if sampling is None:
            return None
        latest = {name.lower(): self._shared.running(name).runtime.latest for name in streams_of(written)}
        reached = {name: time for name, time in latest.items() if time is not None}
        if len(reached) < len(latest):
            return None
        pane = pane_of(written, sampling.slide)
        since = {name: multiple_at_or_after(time, pane, sampling.offset) for name, time in reached.items()}
        found = complete_from(reaches(written), since, ())
        return LateBeginning(None if found is None else sampling.next_multiple(found))

    def _those_of(self, state: str) -> tuple[str, ...]:
        return tuple(other.name for other in self._by_state.get(state, {}).values())

    def _why_apart(self, query: JoinQuery) -> str | None:
        """Who has the same join and cannot share it with a query, and why; None where nobody has it."""
        if (state := next(iter(self._states(query)), None)) is not None:
            return f"{', '.join(self._those_of(state))}: {self._plans.group(state).why_not(query)}"
        for other in self._catalog.queries:
            if other.route is Route.JOINED_PANES and _skeleton(self._as_written(other)) == query.asked.skeleton:
                return f"{other.name}: other columns of it are computed, and what is computed may fail"
        return None

    def _decide(self, written: Node, execution: str, before: RegisteredQuery | None = None) -> PlanDecision:
        """The plan and the strategy of a query. Queries that ask the same have one plan, and share it."""
        twin, current = before or self._twin(written, execution), self._measured(streams_of(written))
        if twin is not None and execution not in (AUTO, twin.execution):
            twin = None
        way = route_plan(written, execution) if twin is None else twin.route
        kind = KINDS[way]
        like = before if kind.is_grouped else twin
        known = current if like is None else Statistics.of(like.measurements)
        prepared = (plans for of, by, plans in list(self._prepared) if of == written and by == known)
        choice = kind.choose(written, known, execution if like is None else like.execution, next(prepared, None))
        choice = choice.evaluated(known, None if like is None else like.lazy)
        query = kind.of(written, known, choice.strategy, choice.plan)
        name = None if like is None else like.name
        return PlanDecision(written, choice, known, execution, current, way, query, name)

    def _twin(self, written: Node, execution: str) -> RegisteredQuery | None:
        """A registered query with the same plan as it was written, and a strategy that would do."""
        wanted = considered(written) if execution == AUTO else (execution,)
        for query in [query for query in self._unbound.values() if self._as_written(query) is not None]:
            self._by_plan.setdefault(self._written[query], {})[query.serial] = query
            del self._unbound[query.serial]
        like = self._by_plan.get(written, {}).values()
        return next((query for query in like if query.execution in wanted), None)

    def _as_written(self, query: RegisteredQuery) -> Node | None:
        """None while a stream of a checkpoint's query has not been created again."""
        if query not in self._written:
            try:
                self._written[query] = plan_changes(bind(as_select(query.text), self._catalog))
            except SashError:
                return None
        return self._written[query]

    def attach(self, query: RegisteredQuery) -> PlanRuntime:
        if self._plans.is_running(query.state):
            return self._plans.attach(self.compiled(query))
        mates = self._by_state.get(query.state, {query.serial: query}).values()
        return self._plans.attach(self.compiled(query), [self.compiled(mate) for mate in mates])

    def detach(self, query: RegisteredQuery) -> None:
        """Of a query that the catalog does not have any more."""
        self._plans.detach(query.state, query.serial, last=self._remove(query))
        self._compiled.pop(query, None)
        self._written.pop(query, None)

    def processed(self, table: str) -> Micros:
        """The first instant that no plan which reads a table has processed."""
        queries = self._catalog.queries
        readers = [query for query in queries if query.is_continuous and query.reads_table(table)]
        return max([BEGINNING, *(self.attach(query).now + 1 for query in readers)])

    def compiled(self, query: RegisteredQuery) -> ContinuousQuery:
        """A query with its plan; CheckpointError where what is stored for it is of another plan."""
        if query not in self._compiled:
            written = plan_changes(bind(as_select(query.text), self._catalog))
            known = Statistics.of(query.measurements)
            plan = lazily(optimise(written, known, query.execution)) if query.lazy else None
            found = KINDS[query.route].of(written, known, query.execution, plan)
            found = replace(
                found, name=query.name, serial=query.serial, text=query.text, state=query.state, lifetime=query.lifetime
            )
            if _digest_of(query.state) != found.digest:
                raise CheckpointError(
                    f"what is stored for query '{query.name}' is of another plan than this version of Sash makes of "
                    f"it; go on with the version that wrote the checkpoint, or DROP QUERY {query.name} and register it "
                    "again: it then begins with empty windows"
                )
            self._compiled[query] = found
        return self._compiled[query]

    # -- what users look at ----------------------------------------------------------------------------

    def runtime(self, handle: Query) -> PlanRuntime:
        if not handle.is_continuous:
            raise SashError(
                f"query '{handle.name}' is periodic: it has answers(); changes and views are of continuous queries"
            )
        return self.attach(self._registered(handle))

    def recall(self, handle: Query) -> None:
        """Bring back what the checkpoint remembers of a query, once its streams are there again."""
        query = self._registered(handle)
        if self._are_here(query) and not self._plans.is_closed:
            self.attach(query)

    def _are_here(self, query: RegisteredQuery) -> bool:
        here = {stream.name.lower() for stream in self._catalog.streams}
        return all(name.lower() in here for name in query.streams)

    def _registered(self, handle: Query) -> RegisteredQuery:
        """A later query of the same name is another one."""
        found = self._catalog.find_query(handle.name, handle.serial)
        if found is None:
            raise SashError(f"query '{handle.name}' has been dropped: the answers that it had are still in answers()")
        return found

    def plan(self, query: RegisteredQuery) -> Node:
        return self.compiled(query).plan

    def reached(self, handle: Query) -> Micros | None:
        """How far a query's time has gone; None where nothing has come, or its streams are not here (again)."""
        query = self._registered(handle)
        if not self._are_here(query):
            return None
        now = self.attach(query).now
        return now if now > BEGINNING else None

    def schema(self, handle: Query) -> pa.Schema:
        """The columns of a query's changes."""
        self.runtime(handle)
        # A query's own plan, whatever it is answered from.
        plan = self.compiled(self._catalog.query(handle.name)).plan
        if sampling_of(plan) is not None:
            raise SashError(f"query '{handle.name}' is answered at the multiples of its SLIDE: it has answers()")
        return Changes.none(plan.schema).to_table().schema

    def view(self, handle: Query) -> pa.Table:
        runtime = self.runtime(handle)
        query = self.compiled(self._catalog.query(handle.name))
        if is_stream(query.plan):
            reason = "is a stream of results that never end, and no relation to look at"
            raise SashError(f"query '{handle.name}' {reason}: it has answers() and, without SLIDE, changes()")
        rows, now = runtime.answer(query), runtime.now
        return rows.replace_schema_metadata({"as_of": to_datetime(now).isoformat()} if now > BEGINNING else {})

    def statistics(self, handle: Query) -> dict[str, Any]:
        if not handle.is_continuous:
            return {}
        runtime, query = self.runtime(handle), self._registered(handle)
        sampling = sampling_of(self.plan(query))
        return {
            "late_tuples": runtime.late,
            "rows": runtime.count_of(handle.serial),
            "buckets": runtime.buckets,
            "streams": list(query.streams),
            "plan": query.state,
            # Its answers are then whole, and no changes.
            "slide": None if sampling is None else format_duration(sampling.slide),
        }

    @property
    def plans(self) -> int:
        return self._plans.number
