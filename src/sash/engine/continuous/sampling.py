"""The answers of a plan at the multiples of SLIDE, out of its changes.

    changes at m1, m2, ..  ──►  a relation: all its rows at every multiple; a stream: what came at one

The first answer is at the first multiple after the first tuple, and may be an empty one. A relation that is empty
answers once and then rests until rows come. An aggregate without GROUP BY has a row over nothing, too, and never rests.
A stream answers after its first answer where it has something.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sash.core.changes import Changes
from sash.core.time import Micros
from sash.engine.continuous.view import View
from sash.operators.stateless import columns_of
from sash.plan.continuous import Filter, GroupBy, Map, Node
from sash.plan.outputs import Deltas, Sampled
from sash.plan.streams import is_stream, sampling_of
from sash.synopses.evaluate import evaluate

Sample = tuple[Micros, pa.Table]


class Sampler:
    """Of one query. It is given all changes of its plan, epoch by epoch, or first the rows that stand already."""

    def __init__(self, plan: Node) -> None:
        sampling = sampling_of(plan)
        assert sampling is not None
        self._sampling: Sampled = sampling
        self._is_stream = isinstance(plan, Deltas) or is_stream(plan)
        self._view = View(plan.schema)
        self._plan = plan
        # Nothing is to be said until rows come: the last answer was empty.
        self._rests = False
        self._had_rows = False

    def stand(self, rows: Changes, now: Micros, begins: Micros | None = None) -> None:
        """The rows of the answer as they stood when the query came, or was recovered."""
        if not self._is_stream:
            self._view.add(rows, 0)
        has_answered = begins is not None and self._sampling.next_multiple(begins + 1) <= now
        self._had_rows = len(rows) > 0
        self._rests = has_answered and not self._had_rows and not self._over_nothing()

    def answers(self, changes: Changes, low: Micros, now: Micros, begins: Micros | None) -> Iterator[Sample]:
        """What is to be answered at the multiples low <= m <= now; the first tuple comes after `begins`."""
        multiple = self._next(low, changes, begins)
        while multiple is not None and multiple <= now:
            rows = self._rows(changes.where(changes.ts == multiple), multiple)
            self._had_rows |= rows.num_rows > 0
            known = rows if self._had_rows else self._over_nothing()
            if known is not None and (known.num_rows or not self._rests):
                yield multiple, known
            self._rests = self._is_stream or not known
            multiple = self._next(multiple + 1, changes, begins)

    def _rows(self, changes: Changes, multiple: Micros) -> pa.Table:
        if self._is_stream:
            return changes.rows
        self._view.add(changes, multiple)
        return self._view.rows(multiple).rows

    def _over_nothing(self) -> pa.Table | None:
        """The answer before it has had a row; None where nobody knows, because HAVING may have left a row out."""
        rows = _rows_over_nothing(self._plan)
        return None if rows and _has_filter(self._plan) else rows

    def _next(self, instant: Micros, changes: Changes, begins: Micros | None) -> Micros | None:
        """The next multiple at which there is something to say."""
        later = changes.ts[changes.ts >= instant]
        found = [int(later.min())] if len(later) else []
        if not self._rests and begins is not None:
            found.append(self._sampling.next_multiple(max(instant, begins + 1)))
        return min(found, default=None)


def _rows_over_nothing(node: Node) -> pa.Table:
    """The rows of a plan whose windows are empty: none, or one of an aggregate without GROUP BY."""
    if isinstance(node, GroupBy) and not node.keys:
        values = [pa.array([0 if call.function == "count" else None], call.type) for call in node.calls]
        return pa.table(values, schema=node.schema)
    rows = _rows_over_nothing(node.input) if isinstance(node, Sampled | Map | Filter) else None
    if not rows:
        return node.schema.empty_table()
    if isinstance(node, Map):
        return pa.table([evaluate(made, columns_of(rows), 1) for _, made in node.outputs], schema=node.schema)
    return rows.filter(evaluate(node.condition, columns_of(rows), 1)) if isinstance(node, Filter) else rows


def _has_filter(node: Node) -> bool:
    return isinstance(node, Filter) or (isinstance(node, Sampled | Map) and _has_filter(node.input))
