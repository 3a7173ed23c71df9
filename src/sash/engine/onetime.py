"""One-time queries: answered from a synopsis that has what they need, else refused with the reason."""

from __future__ import annotations

import json

import pyarrow as pa

from sash.core.errors import SashError
from sash.core.time import format_duration
from sash.engine.compiler import CompiledQuery
from sash.engine.group import PeriodicGroup
from sash.engine.stream import StreamRuntime


def answer_once(query: CompiledQuery, runtime: StreamRuntime) -> pa.Table:
    """The answer as of the newest pane, with `as_of` and `complete` in the schema's metadata."""
    if runtime.latest is None:
        raise SashError(_too_early(query))
    group = runtime.covers(query)
    if group is None:
        raise SashError(_why_not(query, runtime))
    _check_edges(query, group)
    answer = runtime.probe(query, group)
    if answer is None:
        raise SashError(_too_early(query))
    metadata = {"as_of": answer.as_of.isoformat(), "complete": json.dumps(answer.complete)}
    return answer.table.replace_schema_metadata(metadata)


def _check_edges(query: CompiledQuery, group: PeriodicGroup) -> None:
    window = query.periodic.window
    if window.reach > group.reach:
        raise SashError(
            f"the synopsis over {query.stream} by {group.label} keeps {format_duration(group.reach)}, "
            f"the question looks back {format_duration(window.reach)}; register a query with such a window first"
        )
    if group.cuts(window):
        raise SashError(
            f"{window} does not fit the stored panes of {format_duration(group.length)}; "
            f"take multiples of {format_duration(group.length)}"
        )


def _too_early(query: CompiledQuery) -> str:
    return f"no pane of stream '{query.stream}' is closed yet: there is nothing to ask"


def _why_not(query: CompiledQuery, runtime: StreamRuntime) -> str:
    labels = ", ".join(group.label for group in runtime.groups.values()) or "none"
    wanted = ", ".join(str(call) for call in query.periodic.calls)
    by = ", ".join(key.expression.sql for key in query.periodic.keys)
    return (
        f"no synopsis of stream '{query.stream}' holds {wanted} by ({by}) "
        f"{'under this WHERE ' if query.periodic.predicate is not None else ''}"
        f"(pane tables: {labels}); register a query with these aggregates and groups, its panes then answer"
    )
