"""The live tuples of a plan's windows, read out of its operators' state: another plan of the query begins with them.

    state of the old plan ──► live tuples of each window, and waiting ones ──► one epoch of the new plan ──► its state
                                                                                └─► rows that stand: those of the answer

This is the moving state of Zhu, Rundensteiner and Heineman (2004; thesis 2.4.2). It is exact, because

- the tuples that are read bring the old plan into the state that it has: what no operator kept (tuples that a condition
  left out, duplicates that a younger one outlives) has no effect on the old plan's answers from now on;
- both plans have equal answers over all tuples, so over these;
- the standing rows are compared, with their expiries (`are_same`): then the changes of the new plan fit the answer. A
  plan may give a row another expiry (a duplicate elimination shows another duplicate) or round a sum of floats
  differently; then the old plan goes on.

`held_windows` says where a plan keeps the tuples of its windows, or why it does not.

A plan under SLIDE moves at a multiple: no change waits for the next one then, and rows that end there need no tuples.
Algorithm 4 (plan/lazy_joins.py) stores the times at which multiples see a tuple: `_times` finds such a
time for each tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.bucket_state import State
from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import in_sequence
from sash.changes.stage import Arrivals
from sash.core.changes import EXP, Changes, UpdatePattern
from sash.core.errors import SashError
from sash.core.window import RowWindow
from sash.plan.continuous import (
    DIRECT,
    NT,
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    OuterJoin,
    TableJoin,
    Union,
    edges,
    executed_pattern,
    inputs,
    path_below,
    strategy_below,
)
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Sampled
from sash.plan.rewrites import bare
from sash.plan.stages import EVERYWHERE, StagePlan, Target


class NotHeldError(SashError):
    """A plan that does not keep the live tuples of its windows; the message is a clause with the reason."""


@dataclass(frozen=True)
class StoredEdge:
    """The edge at a path is stored in some buffers, with some of its columns."""

    path: str
    buffers: tuple[str, ...]
    columns: frozenset[str]


@dataclass(frozen=True)
class HeldWindow:
    """A window at a path, and the stored edge that has its tuples: its own, or the edge above conditions on it."""

    window: BaseWindow
    path: str
    edge: StoredEdge


def held_windows(plan: Node, strategy: str) -> list[HeldWindow]:
    """Where a plan keeps the live tuples of its windows, from left to right; else NotHeldError."""
    if strategy == DIRECT:
        raise NotHeldError("SET EXECUTION direct is for comparison")
    found = list(_held(plan, "", None, strategy))
    if len({each.window for each in found}) < len(found):
        raise NotHeldError("it reads one window twice")
    return found


def _held(node: Node, path: str, above: StoredEdge | None, strategy: str) -> Iterator[HeldWindow]:
    if isinstance(node, BaseWindow):
        yield HeldWindow(node, path, _edge_of(node, path, above, strategy))
        return
    for place, (input, edge) in enumerate(zip(inputs(node), _edges(node, path, above, strategy), strict=True)):
        yield from _held(input, path_below(path, place), edge, strategy_below(node, strategy))


def _edge_of(window: BaseWindow, path: str, above: StoredEdge | None, strategy: str) -> StoredEdge:
    columns = frozenset(window.schema.names)
    if isinstance(window.window, RowWindow):
        return StoredEdge(path, (path,), columns)
    if window.window.unbounded:
        raise NotHeldError(f"window {window.alias} is UNBOUNDED")
    if strategy == NT:
        return StoredEdge(path, (path,), columns)
    if above is None or not columns <= above.columns:
        raise NotHeldError(f"no operator keeps all columns of the tuples in window {window.alias}")
    return above


def _edges(node: Node, path: str, above: StoredEdge | None, strategy: str) -> list[StoredEdge | None]:
    """How the inputs of a node are stored; None if the node does not store an input as it comes."""
    below = [path_below(path, place) for place in range(len(inputs(node)))]
    columns = [frozenset(input.schema.names) for input in inputs(node)]
    if isinstance(node, Filter):
        return [above]
    if isinstance(node, Sampled) and node.restore and any(isinstance(each, Distinct) for _, each in edges(node)):
        raise NotHeldError("which results of DISTINCT are short-lived depends on the plan")
    if isinstance(node, Sampled | Union):
        # A union does not keep which window a tuple is from.
        return [None] * len(below)
    if isinstance(node, Map):
        return [above if bare(node) is not node else None]
    if isinstance(node, Distinct):
        is_counted = executed_pattern(node.input, strategy) is UpdatePattern.STRICT
        return [None if is_counted else StoredEdge(below[0], (f"{path}.shown", f"{path}.spare"), columns[0])]
    if isinstance(node, Negation | Intersection):
        columns[1] = frozenset(other for _, other in node.keys)
    elif isinstance(node, GroupBy):
        columns[0] = frozenset({*node.keys, *(call.argument for call in node.calls if call.argument is not None)})
    elif not isinstance(node, Join | OuterJoin | MultiJoin):
        raise NotHeldError(_reason(node))
    return [StoredEdge(each, (f"{each}.live",), names) for each, names in zip(below, columns, strict=True)]


def _reason(node: Node) -> str:
    if isinstance(node, TableJoin):
        return f"the rows of table {node.table.name} that tuples have found are not kept"
    return "its answer depends on earlier answers"


# -- reading ---------------------------------------------------------------------------------------------


def live_tuples(
    held: Sequence[HeldWindow], stages: Sequence[StagePlan], states: Mapping[int, State], high: int
) -> dict[BaseWindow, Arrivals]:
    """The tuples of each window that have not expired before `high`, and those that wait, in order of arrival.

    `states` are those of all buckets, numbered over all stages.
    """
    ordered, found = [states[number] for number in sorted(states)], {}
    for place, each in enumerate(held):
        own = next(stage.windows[place] for stage in stages if place in stage.windows)
        kept = _tuples(ordered, each.edge.buffers, _target(each, stages, own), each.window)
        waiting = _tuples(ordered, [f"{each.path}.pending"], own, each.window)
        live = kept.where(kept.exp >= high)
        ts = _times(live, each.window)
        order = np.lexsort((live.ids[:, 0], ts))
        rows = pa.concat_tables([live.rows.take(pa.array(order)), waiting.rows])
        found[each.window] = Arrivals(rows, np.concatenate([ts[order], waiting.ts]))
    return found


def _times(live: Changes, window: BaseWindow) -> NDArray[np.int64]:
    """When tuples came. A shown duplicate has the time when it was shown; every tuple has its expiry."""
    if isinstance(window.window, RowWindow):
        return live.ts
    return np.minimum(live.ts, live.exp - window.window.length)


def _target(held: HeldWindow, stages: Sequence[StagePlan], own: Target) -> Target:
    """How the tuples of a stored edge are spread: exchanged between the window and the operator, or as they came."""
    if held.edge.path == held.path and held.edge.buffers == (held.path,):
        return own
    crossed = {
        path: target
        for stage in stages
        for path, target in stage.lower.items()
        if held.path.startswith(path) and path.startswith(held.edge.path)
    }
    return crossed[min(crossed, key=len)] if crossed else own


def _tuples(states: Sequence[State], buffers: Sequence[str], target: Target, window: BaseWindow) -> Changes:
    names = window.schema.names
    holders = [state for state in states if any(state.chunks(name) for name in buffers)]
    if target is EVERYWHERE:
        # Every bucket has a copy.
        holders = holders[:1]
    chunks = [chunk.tuples for state in holders for name in buffers for chunk in state.chunks(name)]
    numbered = [replace(part, rows=part.rows.select(names), ids=_first_id(part)) for part in chunks]
    return in_sequence([Changes.none(window.schema, 1), *numbered])


def _first_id(tuples: Changes) -> NDArray[np.int64]:
    """The number of each tuple of a window in order of arrival, if tuples are numbered."""
    return tuples.ids[:, :1] if tuples.ids.shape[1] else np.zeros((len(tuples), 1), dtype=np.int64)


def are_same(rows: Changes, others: Changes) -> bool:
    """Whether the rows of two answers are the same, with their expiries."""
    if len(rows) != len(others):
        return False
    tables = [each.rows.append_column(EXP, pa.array(each.exp)) for each in (rows, others)]
    ours, theirs = dense_codes(tables, [table.schema.names for table in tables], null_safe=True)
    return bool((np.sort(ours) == np.sort(theirs)).all())
