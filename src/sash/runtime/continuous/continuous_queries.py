"""The continuous queries of a session: from their texts to running plans, and back to changes and views.

A plan is chosen when its query is registered, by what is known of its streams then. The strategy, the measurements and
whether the plan is evaluated lazily go into the catalog, so a restart compiles the same plan again and finds its state.
A plan that replaces it (replanning.py) is in the log of the runtime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.catalog import RegisteredQuery, Route
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, SashError
from sash.core.time import BEGINNING, Micros, format_duration, to_datetime
from sash.plan.choice import Choice, best_plans, considered
from sash.plan.continuous import AUTO, Node, is_stream, sampling_of, streams_of
from sash.plan.estimates import Statistics
from sash.plan.lazy_joins import lazily
from sash.plan.nested_joins import with_lengths
from sash.plan.reach import complete_from, reaches
from sash.plan.rewrites import optimise
from sash.runtime.answers.registered_query import Query, written_together
from sash.runtime.continuous.beginnings import PlanPanes, panes_of
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.continuous.plan_runtime import Admission, ContinuousQuery, PlanRuntime
from sash.runtime.continuous.plans import KINDS, Plans
from sash.runtime.observed import measured
from sash.runtime.records.journal import Beginning, PlanReplacement
from sash.runtime.route import RouteDecision, decide_registered
from sash.runtime.spark_pass import BatchTimes
from sash.sharing.rules import Decision

if TYPE_CHECKING:
    from sash.runtime.session_parts import SessionParts


@dataclass(frozen=True)
class LateBeginning:
    """A query that comes after its streams have begun, and shares nothing. Its first answer is as of `first`.

    It begins with the rows that the streams in `stored` have, and with empty windows of the others. Its answers are
    complete from a time on, at the earliest; None: never.
    """

    complete_from: Micros | None
    first: Micros
    stored: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        known = self.complete_from
        when = "never complete" if known is None else f"complete as of {to_datetime(known).isoformat()} at the earliest"
        if known is not None and known <= self.first:
            when = "complete at once"
        windows = f"the stored rows of {', '.join(self.stored)}" if self.stored else "empty windows"
        return f"begins with {windows}, because its streams have begun: {when}"


@dataclass(frozen=True)
class PlanDecision:
    """The decision about a continuous query: its route, the chosen plan, the reasons, and the query itself.

    `current` is what is known by now. The query `like` asks the same already; `mates` share what it is answered from.
    """

    routed: RouteDecision
    choice: Choice
    statistics: Statistics
    current: Statistics
    query: ContinuousQuery
    like: str | None = None
    mates: tuple[str, ...] = ()
    # Of an aggregate over a join: what its group keeps, and which queries are in another group, and why.
    group: JoinLayout | None = None
    apart: str | None = None
    late: LateBeginning | None = None
    # Of a join of two windows: whether it uses the state of the queries in `mates`, or not of those in `apart`.
    nested: Decision | None = None
    # On what grounds another plan runs than the registered one, and why no other one takes over (now).
    replaced: PlanReplacement | None = None
    fixed: str | None = None

    def as_it_runs(self, runtime: PlanRuntime | None) -> PlanDecision:
        """The decision with the plan that runs now."""
        if runtime is None:
            return self
        replaced, running = runtime.replaced, replace(self, fixed=runtime.why_fixed)
        if replaced is None:
            return running
        known = Statistics.of(replaced.measurements)
        choice = KINDS[self.routed.route].choose(self.routed.written, known, self.choice.strategy)
        return replace(running, choice=choice, statistics=known, replaced=replaced)


def unmeasured(routed: RouteDecision) -> PlanDecision:
    """What would be decided about a plan before any tuple has come."""
    known, kind = Statistics(), KINDS[routed.route]
    choice = kind.choose(routed.written, known, routed.execution)
    query = kind.of(routed, known, choice.strategy, choice.plan)
    return PlanDecision(routed, choice, known, known, query, group=query.alone(), fixed=query.why_fixed)


def _digest_of(state: str) -> str:
    return state.rpartition("-")[0]


def _discard(found: dict[Any, dict[Any, Any]], key: object, value: object) -> bool:
    """Take a value away from a key; whether the key has none left."""
    some = found.get(key, {})
    some.pop(value, None)
    if not some:
        found.pop(key, None)
    return not some


def _alike(routed: RouteDecision) -> Node:
    """The same for plans that may share a state though the lengths of their windows differ."""
    return routed.written if routed.lengths is None else with_lengths(routed.written, (0, 0))


def _skeleton(routed: RouteDecision | None) -> Hashable:
    return None if routed is None or routed.joined is None else routed.joined.skeleton


class ContinuousQueries:
    """Compiled queries by their registration; the plans are compiled again after a restart, from the texts."""

    def __init__(self, shared: SessionParts, plans: Plans) -> None:
        self._shared = shared
        self._catalog = shared.catalog
        self._plans = plans
        self._compiled: dict[RegisteredQuery, ContinuousQuery] = {}
        self._routed: dict[RegisteredQuery, RouteDecision] = {}
        # Those that are registered, in the order in which they came: by the plan as it was written, once that is known,
        # and by the same for any lengths of windows (`_alike`), by the name of the directory, and the names of
        # directories by digest. A query finds its like among them.
        self._by_plan: dict[Node, dict[int, RegisteredQuery]] = {}
        self._by_shape: dict[Node, dict[int, RegisteredQuery]] = {}
        self._unbound: dict[int, RegisteredQuery] = {}
        self._by_state: dict[str, dict[int, RegisteredQuery]] = {}
        self._by_digest: dict[str, dict[str, None]] = {}
        # What `prepare` found: for which plan as written, and by what statistics.
        self._prepared: deque[tuple[Node, Statistics, Mapping[str, Node]]] = deque(maxlen=8)

    def _measured(self, streams: Sequence[str]) -> Statistics:
        """What the optimiser may know about some streams."""
        running = [self._shared.running(name).runtime for name in streams]
        return measured(running, self._plans.observed, self._plans.taken_back)

    def add(self, query: RegisteredQuery) -> None:
        """A query is registered."""
        self._unbound[query.serial] = query
        self._by_state.setdefault(query.state, {})[query.serial] = query
        self._by_digest.setdefault(_digest_of(query.state), {})[query.state] = None

    def _remove(self, query: RegisteredQuery) -> bool:
        """A query is not registered any more: whether it was the last one of its plan."""
        if self._unbound.pop(query.serial, None) is None and query in self._routed:
            _discard(self._by_plan, self._routed[query].written, query.serial)
            _discard(self._by_shape, _alike(self._routed[query]), query.serial)
        was_last = _discard(self._by_state, query.state, query.serial)
        if was_last:
            _discard(self._by_digest, _digest_of(query.state), query.state)
        return was_last

    def prepare(self, routed: RouteDecision, lock: AbstractContextManager[object]) -> None:
        """Look for the best plans of a query before it is registered, without the lock that micro-batches wait for.

        The catalog may change meanwhile: the query is bound again when it is registered, and what was found counts only
        if it is of the same plan and the same statistics. What is wrong with the query is said there, too.
        """
        written = routed.written
        with suppress(SashError):
            with lock:
                twin = self._twin(routed)
                known = Statistics.of(twin.measurements) if twin else self._measured(streams_of(written))
            if routed.route is not Route.SETS:
                self._prepared.append((written, known, best_plans(written, known)))

    def compile(
        self, routed: RouteDecision, wanted: RegisteredQuery, before: RegisteredQuery | None
    ) -> RegisteredQuery:
        """The registration of a query with the streams that it reads.

        `before` is the query of that name that a checkpoint has: the same query keeps its plan.
        """
        same = before if before and before.text == wanted.text else None
        decided = self._decide(routed, same)
        strategy = decided.choice.strategy
        found = replace(
            decided.query, name=wanted.name, serial=wanted.serial, text=wanted.text, lifetime=wanted.lifetime,
            order=routed.order,
        )  # fmt: skip
        kept = same is not None and same.execution == strategy
        found = replace(found, state=same.state if same is not None and kept else self._state_of(found, routed.written))
        query = replace(
            wanted,
            stream=found.streams[0],
            streams=found.streams,
            tables=found.tables,
            execution=strategy,
            measurements=decided.statistics.measurements,
            state=found.state,
            route=decided.routed.route,
            lazy=decided.choice.is_lazy,
        )
        self._compiled[query], self._routed[query] = found, decided.routed
        return query

    def _state_of(self, query: ContinuousQuery, written: Node) -> str:
        """The directory of other queries' state that a query can use, rather of its own plan; else a new one.

        A query that uses a state is one of its queries at once.
        """
        states = self._states(query)
        same = {other.state for other in self._by_plan.get(written, {}).values()}.intersection(states)
        if same and not query.is_grouped:
            return min(same, key=states.index)
        admitted = (state for state in states if self._admit(state, query))
        return next(admitted, f"{query.digest}-{query.serial}")

    def _admission(self, state: str, query: ContinuousQuery) -> Admission:
        return self._runtime_of(state).admission(query) if query.is_admitted else Admission(True)

    def _admit(self, state: str, query: ContinuousQuery) -> bool:
        if not query.is_admitted:
            return True
        self._runtime_of(state)  # runs from now on
        return self._plans.admit(state, query)

    def _runtime_of(self, state: str) -> PlanRuntime:
        return self.attach(next(iter(self._by_state[state].values())))

    def _states(self, query: ContinuousQuery) -> list[str]:
        """The directories of other queries' plans that a query might share."""
        return list(self._by_digest.get(query.digest, ()))

    def decide(self, routed: RouteDecision) -> PlanDecision:
        """What registering a query would lead to; of an aggregate over a join, with what its group would keep."""
        decided = self._decide(routed)
        query, states = decided.query, self._states(decided.query)
        admissions = [self._admission(state, query) for state in states]
        for state, found in zip(states, admissions, strict=True):
            if found.allowed:
                shared = replace(decided, mates=self._those_of(state), group=found.layout, nested=found.rule)
                return shared.as_it_runs(self._plans.running(state))
        nested, apart = None, self._otherwise_computed(decided)
        if states:
            nested = admissions[-1].rule
            apart = ": ".join(filter(None, [", ".join(self._those_of(states[-1])), admissions[-1].why_not]))
        return replace(decided, group=query.alone(), apart=apart, nested=nested, late=self._late(routed.written))

    def _late(self, written: Node) -> LateBeginning | None:
        """What a query misses that shares nothing with others; None if all its tuples are still to come."""
        sampling = sampling_of(written)
        panes = PlanPanes() if sampling is None else panes_of(written, sampling)
        reached, begun, stored = list[Micros](), dict[str, Beginning](), list[str]()
        for name in streams_of(written):
            running = self._shared.running(name)
            latest, watermark = running.runtime.latest, running.runtime.watermark
            if latest is None or watermark is None:
                return None
            found = None if running.stored_window is None else running.stored_window.everything()
            times = BatchTimes(None, None, latest)
            begun[name.lower()] = panes.begun(times) if found is None else panes.stored(found.earliest, found.missed)
            stored += [] if found is None else [name]
            reached.append(watermark)
        since = {name: each.missed if each.since is None else each.since for name, each in begun.items()}
        whole = [name for name, each in begun.items() if each.missed is None]
        known = complete_from(reaches(written), {name: time for name, time in since.items() if time is not None}, whole)
        if sampling is None:
            return LateBeginning(known, min(reached) - 1, tuple(stored))
        known = None if known is None else sampling.next_multiple(known)
        return LateBeginning(known, sampling.next_multiple(min(reached)), tuple(stored))

    def late(self, query: RegisteredQuery) -> LateBeginning | None:
        """What a query misses whose plan has not begun; None if its plan has, or nothing has come."""
        begins = self._plans.begins(query.state, query.streams, founded=query.state.endswith(f"-{query.serial}"))
        routed = self._routed_of(query) if begins and self._are_here(query) else None
        return None if routed is None else self._late(routed.written)

    def begin(self, query: RegisteredQuery) -> None:
        """Let a new query begin with stored rows. If a micro-batch is in flight, the next one does it.

        A group stays open for more queries until its first epoch.
        """
        running = [self._shared.running(name) for name in query.streams]
        if KINDS[query.route].is_grouped or not any(each.has_stored_rows for each in running):
            return
        with ExitStack() as held, written_together():
            if not all(held.enter_context(each.at_rest()) for each in running):
                return
            with self._shared.lock:
                if self._shared.handle(query.name, query.serial) is None:
                    return
                runtime = self.attach(query)
            times = [each.runtime.watermark for each in running]
            known = [time for time in times if time is not None]
            for each in running:
                each.open([runtime], min(known) if len(known) == len(times) else None)
            for each in running:
                if each.has_ended and not runtime.is_new_to(each.stream.name):
                    runtime.finish(each.stream.name)

    def _those_of(self, state: str) -> tuple[str, ...]:
        return tuple(other.name for other in self._by_state.get(state, {}).values())

    def _otherwise_computed(self, decided: PlanDecision) -> str | None:
        """Who has the join of an aggregate, and computes other columns of it; None if no query does."""
        if decided.routed.route is not Route.JOINED_PANES:
            return None
        skeleton = _skeleton(decided.routed)
        for other in self._catalog.queries:
            if other.route is Route.JOINED_PANES and _skeleton(self._routed_of(other)) == skeleton:
                return f"{other.name}: other columns of it are computed, and what is computed may fail"
        return None

    def _decide(self, routed: RouteDecision, before: RegisteredQuery | None = None) -> PlanDecision:
        """The plan and the strategy of a query. Queries that ask the same have one plan, and share it."""
        written, execution = routed.written, routed.execution
        twin, current = before or self._twin(routed), self._measured(streams_of(written))
        if twin is not None and execution not in (AUTO, twin.execution):
            twin = None
        if twin is not None:
            routed = routed.like(twin)
        kind = KINDS[routed.route]
        like = before if kind.is_grouped else twin
        known = current if like is None else Statistics.of(like.measurements)
        prepared = (plans for of, by, plans in list(self._prepared) if of == written and by == known)
        wanted, lazy = (execution, None) if like is None else (like.execution, like.lazy)
        choice = kind.choose(written, known, wanted, next(prepared, None), lazy)
        query = kind.of(routed, known, choice.strategy, choice.plan)
        found = None if like is None else self._routed_of(like)
        name = None if like is None or found is None or found.written != written else like.name
        return PlanDecision(routed, choice, known, current, query, name, fixed=query.why_fixed)

    def _twin(self, routed: RouteDecision) -> RegisteredQuery | None:
        """A registered query with the same plan as it was written, and a strategy that would do.

        Of a join of two windows, the lengths of the windows may be others.
        """
        written, execution = routed.written, routed.execution
        wanted = considered(written) if execution == AUTO else (execution,)
        for query in [query for query in self._unbound.values() if self._routed_of(query) is not None]:
            self._by_plan.setdefault(self._routed[query].written, {})[query.serial] = query
            self._by_shape.setdefault(_alike(self._routed[query]), {})[query.serial] = query
            del self._unbound[query.serial]
        like = chain(self._by_plan.get(written, {}).values(), self._by_shape.get(_alike(routed), {}).values())
        return next((query for query in like if query.execution in wanted), None)

    def _routed_of(self, query: RegisteredQuery) -> RouteDecision | None:
        """None while a stream of a checkpoint's query has not been created again."""
        try:
            return self.decision_of(query)
        except SashError:
            return None

    def decision_of(self, query: RegisteredQuery) -> RouteDecision:
        """The decision about a registered query; after a restart it is made again, once."""
        if query not in self._routed:
            self._routed[query] = decide_registered(query, self._catalog)
        return self._routed[query]

    def attach(self, query: RegisteredQuery) -> PlanRuntime:
        if self._plans.running(query.state) is not None:
            return self._plans.attach(self.compiled(query))
        mates = self._by_state.get(query.state, {query.serial: query}).values()
        return self._plans.attach(self.compiled(query), [self.compiled(mate) for mate in mates])

    def detach(self, query: RegisteredQuery) -> None:
        """Of a query that the catalog does not have any more."""
        self._plans.detach(query.state, query.serial, last=self._remove(query))
        self._compiled.pop(query, None)
        self._routed.pop(query, None)

    def processed(self, table: str) -> Micros:
        """The first instant that no plan which reads a table has processed."""
        queries = self._catalog.queries
        readers = [query for query in queries if query.is_continuous and query.reads_table(table)]
        return max([BEGINNING, *(self.attach(query).now + 1 for query in readers)])

    def compiled(self, query: RegisteredQuery) -> ContinuousQuery:
        """A query with its plan; CheckpointError where what is stored for it is of another plan."""
        if query not in self._compiled:
            routed, known = self.decision_of(query), Statistics.of(query.measurements)
            plan = lazily(optimise(routed.written, known, query.execution)) if query.lazy else None
            found = KINDS[query.route].of(routed, known, query.execution, plan)
            found = replace(
                found, name=query.name, serial=query.serial, text=query.text, state=query.state,
                lifetime=query.lifetime, order=routed.order,
            )  # fmt: skip
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
        rows, now = query.ordered(runtime.answer(query)), runtime.now
        return rows.replace_schema_metadata({"as_of": to_datetime(now).isoformat()} if now > BEGINNING else {})

    def complete_from(self, query: RegisteredQuery) -> str | None:
        """From when on a query's answers are complete, at the earliest; None if never, or nothing has come."""
        if not self._are_here(query):
            return None
        runtime = self.attach(query)
        known = runtime.complete_from(self.compiled(query))
        sampling = sampling_of(self.plan(query))
        if known is not None and sampling is not None:
            known = sampling.next_multiple(known)
        if known is None and (late := self.late(query)) is not None:
            known = late.complete_from
        return None if known is None else to_datetime(known).isoformat()

    def statistics(self, handle: Query) -> dict[str, Any]:
        if not handle.is_continuous:
            return {}
        runtime, query = self.runtime(handle), self._registered(handle)
        sampling = sampling_of(self.plan(query))
        return {
            "late_tuples": runtime.late,
            "broken_promises": runtime.broken,
            "complete_from": self.complete_from(query),
            "rows": runtime.count_of(handle.serial),
            "buckets": runtime.buckets,
            "streams": list(query.streams),
            "plan": query.state,
            "plan_replacements": 0 if runtime.replaced is None else runtime.replaced.number,
            # Its answers are then whole, and no changes.
            "slide": None if sampling is None else format_duration(sampling.slide),
        }

    @property
    def plans(self) -> int:
        return self._plans.number
