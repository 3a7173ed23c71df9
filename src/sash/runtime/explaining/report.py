"""The reports of a session: SHOW QUERIES, SHOW TABLES, DESCRIBE, stats().

The report of the schedule has the price of other policies, and the latest executions.

Reports lock one pane table at a time, so a micro-batch waits for one at most, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.catalog import Catalog, RegisteredQuery
from sash.core.errors import CatalogError, nearest
from sash.core.time import SECOND, format_duration, to_datetime
from sash.core.window import Window
from sash.isolation import Isolation
from sash.panes.partials import Partial
from sash.runtime.answers.registered_query import AnswerMemory, Query
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.continuous.plan_runtime import PlanRuntime
from sash.runtime.explaining.explanation import Explanation
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.statistics import ExecutionRecord, GroupStatistics, ReadStatistics
from sash.runtime.streams.load import IDLE, SessionState
from sash.runtime.streams.running_stream import RunningStream
from sash.runtime.work import saved, total
from sash.schedule import POLICY_NAMES, Policy
from sash.schedule import policy as policy_named
from sash.sql import function_kinds
from sash.sql.types import spark_name

# How many stored values of a pane table a report looks at.
_MOST_VALUES = 2_000_000
_NOTHING = np.empty(0, dtype=np.int64)
# How many rows of the last answer DESCRIBE EXTENDED shows.
_ROWS_SHOWN = 10


class _Part(NamedTuple):
    """For one pane table or one join: the cost of each policy per second, and the executions."""

    costs: list[float]
    executed: list[dict[str, Any]]


def schedule_report(
    streams: dict[str, RunningStream], plans: Sequence[PlanRuntime], isolation: Isolation
) -> dict[str, Any]:
    """Costs are the model's, per second of the stream's time; for row-based windows, which have no time, per tuple."""
    policies = [policy_named(name) for name in POLICY_NAMES]
    parts = [_plan_part(plan, policies) for plan in plans]
    parts += [
        isolation.reading(partial(_group_part, running.stream.name, group, policies))
        for running in list(streams.values())
        for group in isolation.reading(running.runtime.all_groups)
    ]
    costs = [sum(part.costs[place] for part in parts) for place in range(len(policies))]
    executed = [each for part in parts for each in part.executed]
    return {
        "predicted_cost": dict(zip(POLICY_NAMES, costs, strict=True)),
        "executed": sorted(executed, key=lambda each: each["as_of"]),
    }


def _group_part(stream: str, group: PaneGroup, policies: Sequence[Policy]) -> _Part:
    unit = 1 if group.by_rows else SECOND
    costs = [cost * unit for cost in group.schedule.predicted(policies)]
    return _Part(costs, _told(stream, group.timeline.executed(group)))


def _plan_part(plan: PlanRuntime, policies: Sequence[Policy]) -> _Part:
    names = ", ".join(stream.name for stream in plan.streams.values())
    return _Part([plan.predicted(policy) * SECOND for policy in policies], _told(names, plan.executed()))


def _told(stream: str, executed: Iterable[ExecutionRecord]) -> list[dict[str, Any]]:
    # Not `asdict`, which copies every name: there is one for each answer of the remembered executions.
    return [
        {"stream": stream, **vars(each), "turns": tuple(dict(vars(turn)) for turn in each.turns)} for each in executed
    ]


def show_queries(catalog: Catalog, handles: dict[str, Query]) -> pa.Table:
    rows = []
    # A query keeps its place when it is replaced.
    for query in sorted(catalog.queries, key=lambda query: query.first_serial):
        handle = handles[query.name]
        latest = handle.latest()
        rows.append(
            {
                "name": query.name,
                "stream": ", ".join(query.streams) or query.stream,
                "state": _state(handle),
                "answers": handle.answered,
                "last_as_of": None if latest is None else latest.as_of,
                "query": query.text,
                "comment": query.comment,
            }
        )
    fields = [("name", pa.string()), ("stream", pa.string()), ("state", pa.string()), ("answers", pa.int64())]
    fields += [("last_as_of", pa.timestamp("us", "UTC")), ("query", pa.string()), ("comment", pa.string())]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def show_streams(catalog: Catalog, states: SessionState) -> pa.Table:
    rows = [
        {
            "name": stream.name,
            "source": "DataFrame" if stream.source is None else stream.source.format,
            "timestamp": stream.timestamp,
            "delay": format_duration(stream.delay),
            "granule": format_duration(stream.granule),
            "keep": None if stream.keep is None else format_duration(stream.keep),
            "state": states.streams[stream.name].name if stream.name in states.streams else IDLE,
            "queries": sum(query.reads(stream.name) for query in catalog.queries),
        }
        for stream in catalog.streams
    ]
    names = ("name", "source", "timestamp", "delay", "granule", "keep", "state")
    schema = pa.schema([*((name, pa.string()) for name in names), ("queries", pa.int64())])
    return pa.Table.from_pylist(rows, schema)


def show_functions(catalog: Catalog, like: str | None) -> pa.Table:
    """Functions and aggregates whose names are like a pattern: `*` stands for any letters, `|` separates patterns."""
    known = {**function_kinds(), **dict.fromkeys(catalog.aggregates, "aggregate of the program")}
    known |= dict.fromkeys(catalog.functions, "function of the program")
    patterns = ["*"] if like is None else [each.strip() for each in like.lower().split("|")]
    names = sorted(name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns))
    return pa.table(
        {"name": pa.array(names, pa.string()), "kind": pa.array([known[name] for name in names], pa.string())}
    )


def _state(handle: Query) -> str:
    if handle.failure is not None:
        return "failed"
    if handle.is_paused:
        return "paused"
    return "registered" if handle.error is None else "cannot write"


def show_tables(catalog: Catalog, sizes: dict[str, int]) -> pa.Table:
    rows = [
        {"name": table.name, "kind": table.kind, "key": ", ".join(table.key), "rows": sizes[table.name]}
        for table in catalog.tables
    ]
    text = pa.string()
    return pa.Table.from_pylist(rows, pa.schema([("name", text), ("kind", text), ("key", text), ("rows", pa.int64())]))


def describe(name: str, catalog: Catalog, handles: dict[str, Query], continuous: ContinuousQueries) -> pa.Table:
    """A query's facts, or the columns of a stream, a table or an archive."""
    if catalog.has_query(name):
        query = catalog.query(name)
        handle = handles[query.name]
        facts = {
            "name": query.name,
            "query": query.text,
            **({} if handle.cql == query.text else {"read as": handle.cql}),
            "stream": ", ".join(query.streams) or query.stream,
            "priority": str(query.priority),
            "lifetime": "unlimited" if query.lifetime is None else format_duration(query.lifetime),
            **({} if query.keep is None else {"keep": format_duration(query.keep)}),
            **(_plan_facts(query, continuous) if query.is_continuous else {"synopsis": query.synopsis or "auto"}),
            "answers": str(handle.answered),
            **({"state": "paused"} if query.paused else {}),
            "error": "" if handle.error is None else str(handle.error),
            "comment": query.comment,
        }
        return pa.table({"fact": list(facts), "value": list(facts.values())})
    schemas = {stream.name.lower(): stream.schema for stream in catalog.streams}
    schemas |= {table.name.lower(): table.schema for table in catalog.tables}
    schemas |= {archive.name.lower(): archive.schema for archive in catalog.archives}
    if name.lower() not in schemas:
        hint = nearest(name, [*schemas, *(query.name for query in catalog.queries)])
        raise CatalogError(f"unknown stream, table, archive or query '{name}'{hint}")
    schema = schemas[name.lower()]
    return pa.table({"column": schema.names, "type": [spark_name(field.type) for field in schema]})


def describe_extended(facts: pa.Table, query: RegisteredQuery, handle: Query, explained: Explanation) -> pa.Table:
    """The facts of DESCRIBE, the query's route and state, the sections of EXPLAIN, and the last answer's first rows."""
    latest = handle.latest()
    found = dict(zip(facts["fact"].to_pylist(), facts["value"].to_pylist(), strict=True))
    found |= {"route": query.route.value, "state": _state(handle), **explained.sections}
    if latest is not None:
        rows = latest.table.slice(0, _ROWS_SHOWN).to_pylist()
        found |= {"last answer as of": latest.as_of.isoformat(), "last answer": "\n".join(map(str, rows))}
    return pa.table({"fact": list(found), "value": list(found.values())})


def _plan_facts(query: RegisteredQuery, continuous: ContinuousQueries) -> dict[str, str]:
    return {"execution": query.execution, "complete from": continuous.complete_from(query) or ""}


def session_statistics(
    streams: dict[str, RunningStream],
    queries: dict[str, Query],
    memory: AnswerMemory,
    continuous: ContinuousQueries,
    isolation: Isolation,
) -> dict[str, Any]:
    """The numbers of `stats()`. Each pane table and its queries are read as of one moment.

    The lock that micro-batches need is held for one pane table at a time: a micro-batch waits for no more.
    """
    by_stream: dict[str, dict[str, Any]] = {}
    groups: list[_GroupReport] = []
    for running in list(streams.values()):
        facts, found = isolation.reading(partial(_stream_statistics, running))
        mine = [_locked(partial(_group_report, running.stream.name, group), isolation) for group in found]
        by_stream[running.stream.name] = {**facts, "pane_tables": [each.table for each in mine]}
        groups += mine
    # If a query was dropped and registered again, two streams may have its name for a moment: the first one counts.
    scheduled = {name: facts for each in reversed(groups) for name, facts in each.queries.items()}
    told = {
        query.name: {**_query_statistics(query, scheduled.get(query.name, {})), **continuous.statistics(query)}
        for query in list(queries.values())
    }
    meters = [running.runtime.work for running in list(streams.values())]
    shared, separate = total(each.shared for each in meters), total(each.separate for each in meters)
    executed = _execution_statistics([each.statistics for each in groups])
    read = [stream for facts in told.values() for stream in streams_read(facts)]
    return {
        "tuples": sum(each["tuples"] for each in by_stream.values()),
        "tuples_per_s": sum(each["tuples_per_s"] for each in by_stream.values()),
        "late_tuples": sum(each["late_tuples"] for each in by_stream.values()),
        "jumped_tuples": sum(each["jumped_tuples"] for each in by_stream.values()),
        **executed,
        "work_saved": saved(shared, separate),
        "work": {
            "shared": {
                "passes": len(set(read)),
                **vars(shared),
                "state_rows": sum(each.table["rows"] for each in groups),
                "executions": executed["executions"],
            },
            "separate": {
                "passes": len(read),
                **vars(separate),
                "state_rows": sum(each.separate_rows for each in groups),
                "executions": executed["refreshes"],
            },
        },
        "answer_bytes": memory.used,
        "answers_forgotten": memory.forgotten,
        "plans": continuous.plans,
        "streams": by_stream,
        "queries": told,
    }


def streams_read(query: dict[str, Any]) -> list[str]:
    """The streams that a query of `stats()` reads; none if it has failed, or if no stream runs it yet."""
    return query.get("streams") or [query[name] for name in ("stream",) if name in query]


@dataclass(frozen=True)
class _GroupReport:
    """A pane table and its queries as of one moment; `separate_rows` is the state that a job per query would have."""

    table: dict[str, Any]
    statistics: GroupStatistics
    separate_rows: int
    queries: dict[str, dict[str, Any]]


def _locked(read: Callable[[], _GroupReport], isolation: Isolation) -> _GroupReport:
    """Read under the lock: the first caller that asks a schedule for its tasks makes it plan them."""
    with isolation.read():
        return read()


def _group_report(stream: str, group: PaneGroup) -> _GroupReport:
    queries = {active.name: _scheduled(stream, group, active) for active in group.queries.values()}
    return _GroupReport(_table_statistics(group), replace(group.statistics), _separate_rows(group), queries)


def _separate_rows(group: PaneGroup) -> int:
    """The groups in the open windows of one job per query, as far as they can be counted in a moment."""
    now, rows, left = group.clock.position, 0, _MOST_VALUES
    # Many queries have the same WHERE, and many of these the same window.
    seen: dict[Partial, NDArray[np.int64]] = {}
    known: dict[tuple[Partial, Window], int] = {}
    for active in group.queries.values():
        presence, covered = active.readings[0].reading.partials[0], active.readings[0].covered
        # A union has at least the groups of one part, and a difference perhaps none.
        part = presence if covered is None else covered.parts(presence)[0]
        if part not in seen:
            left -= group.panes.closed_rows
            seen[part] = group.panes.last_seen(part) if left >= 0 else _NOTHING
        for window in [each for windows in active.compiled.windows for each in windows.parts]:
            if (part, window) not in known:
                known[part, window] = open_rows(seen[part], window, now)
            rows += 0 if covered is not None and covered.subtracted else known[part, window]
    return rows


def open_rows(seen: NDArray[np.int64], window: Window, now: int) -> int:
    """The state of a job over a window: of each open window, the groups that it has seen.

    `seen` has the last time of each group. WINDOW / SLIDE windows are open, and the youngest began a SLIDE ago.

    >>> open_rows(np.array([3, 8, 9, 10]), Window(6, 2), now=10)
    8
    """
    if window.unbounded or window.slide is None:
        return len(seen)
    # A group that was seen in the last SLIDE is in all of them, and in one less for each SLIDE before.
    return int(np.clip(window.per_tuple - (now - seen) // window.slide, 0, window.per_tuple).sum())


def _scheduled(stream: str, group: PaneGroup, active: ActiveQuery) -> dict[str, Any]:
    """A query's windows, how often it may be answered and how often it is; `lateness` is the sum of all executions."""
    extent, schedule, compiled = _extent(group), group.schedule, active.compiled
    leader = schedule.leader(active).name
    task = schedule.local.task_of(leader) if leader in schedule.leaders else None
    return {
        "lateness": active.lateness,
        "stream": stream,
        "windows": [window.words for window in compiled.windows],
        "slide": None if compiled.slide is None else extent(compiled.slide),
        "exactly": compiled.exactly,
        "pane_table": group.label,
        "sub_group": None if task is None else task.group,
        "period": None if task is None else extent(task.period),
    }


def _query_statistics(query: Query, scheduled: dict[str, Any]) -> dict[str, Any]:
    """`scheduled` is empty for a query that no stream runs yet. Lateness: updates beyond SLIDE (thesis 8.5.1)."""
    answers, error = query.answered, query.error
    return {
        "answers": answers,
        "error": None if error is None else str(error),
        "paused": query.is_paused,
        "subscriber_errors": query.subscriber_errors,
        "subscribers": query.subscribers(),
        "sinks": query.sinks(),
        **({} if query.outward.kept_result is None else query.outward.kept_result.statistics()),
        **scheduled,
        "lateness": scheduled.get("lateness", 0) / max(1, answers),
    }


def _extent(group: PaneGroup) -> Callable[[int], str]:
    return str if group.by_rows else format_duration


def _windows_per_tuple(active: ActiveQuery) -> int:
    return sum(window.per_tuple for window in active.compiled.windows)


def _execution_statistics(groups: list[GroupStatistics]) -> dict[str, Any]:
    return {
        "executions": sum(g.executions for g in groups),
        "joint_executions": sum(g.joint_executions for g in groups),
        "refreshes": sum(g.refreshes for g in groups),
        "beside_slides": sum(g.beside_slides for g in groups),
        "beside_restarts": sum(g.beside_restarts for g in groups),
    }


def _stream_statistics(running: RunningStream) -> tuple[dict[str, Any], list[PaneGroup]]:
    """A stream's own numbers, and its current pane tables."""
    runtime, counted = running.runtime, running.runtime.statistics
    seconds = counted.seconds_in_spark + counted.seconds_in_sash
    facts = {
        **vars(counted),
        **(ReadStatistics() if running.stored_window is None else running.stored_window.reads).counts(),
        "tuples_per_s": counted.tuples / seconds if seconds else 0.0,
        "overloaded": running.is_overloaded,
        "kept_part": 1 / running.keeps_one_in,
        "input_limit": None if running.input_limit is None else running.input_limit.most,
        "watermark": None if runtime.watermark is None else to_datetime(runtime.watermark),
        "unreduced": dict(runtime.unreduced),
    }
    return facts, runtime.all_groups()


def _table_statistics(group: PaneGroup) -> dict[str, Any]:
    return {
        "name": group.label,
        "keys": [key.sql for key in group.name.keys],
        "pane": f"{group.clock.length} rows" if group.name.by_rows else format_duration(group.clock.length),
        "synopsis": ", ".join(each.kind for each in group.panes.accelerators) or group.panes.kind,
        "filters": {str(key): sorted(names) for key, names in group.choices.filters.indexes.items()},
        "panes": group.panes.panes,
        "groups": group.panes.groups,
        "rows": group.panes.rows,
        "queries": sorted({name for name, _ in group.members.readers}),
        "covered": _covered(group),
        "windows_per_tuple": sum(map(_windows_per_tuple, group.queries.values())),
        "executions": group.statistics.executions,
        "joint_executions": group.statistics.joint_executions,
        "joint_cost": group.statistics.joint_cost,
        "separate_cost": group.statistics.separate_cost,
        "tasks": _tasks(group),
    }


def _covered(group: PaneGroup) -> dict[str, list[str]]:
    """The queries whose WHERE is combined from those of others, and from which."""
    covered = {name: bound.covered for (name, _), bound in group.members.readers.items() if bound.covered is not None}
    return {name: [each.sql for each in (*parts.added, *parts.subtracted)] for name, parts in covered.items()}


def _tasks(group: PaneGroup) -> list[dict[str, Any]]:
    """The schedule: which queries are executed together, and how often."""
    extent = _extent(group)
    return [
        {
            "group": task.group,
            "slide": extent(task.key.slide),
            "exactly": task.exactly,
            "period": extent(task.period),
            "queries": sorted(group.schedule.answered_by(task.members)),
        }
        for task in group.schedule.local.tasks()
    ]
