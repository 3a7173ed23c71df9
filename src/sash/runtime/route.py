"""Which runtime answers a registered query: the one place that decides.

    SELECT ── language ──► has SLIDE, and panes can answer it ────────────────────────────► PANES
                           else a continuous plan ── route ──┬─ an aggregate over a join ──► JOINED_PANES
                                                             ├─ a set operation, one column ► SETS
                                                             └─ anything else ─────────────► CHANGES

The catalog stores the route, and everybody reads it there: it is not derived again from what a query looks like.
"""

from __future__ import annotations

from sash.catalog import Route
from sash.panes.answers import Finisher
from sash.plan.continuous import AUTO, UPA, Node
from sash.plan.set_windows import windowed_set
from sash.plan.shared_joins import joined_aggregate
from sash.rows.value_keys import can_be_indexed


def route(plan: Node, execution: str) -> Route:
    """Of a continuous plan as it was written. A strategy other than UPA that the user sets has a plan of its own."""
    is_free = execution in (AUTO, UPA)
    joined, asked = joined_aggregate(plan), windowed_set(plan)
    if is_free and joined is not None and Finisher(joined.query).is_simple:
        return Route.JOINED_PANES
    # No strategy has another way to an approximate answer.
    if asked is not None and (is_free or asked.groups is not None) and can_be_indexed(asked.type):
        return Route.SETS
    return Route.CHANGES
