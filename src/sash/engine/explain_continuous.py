"""EXPLAIN of a continuous query: its plan, the update pattern of every edge, how it is spread and what it stores."""

from __future__ import annotations

from collections.abc import Callable

from sash.catalog import Catalog
from sash.core.errors import CqlError
from sash.core.time import format_duration
from sash.language import Select, bind_continuous
from sash.plan.continuous import Node, explain, windows
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.partitioning import spread
from sash.plan.rewrites import optimise
from sash.plan.streams import sampling_of

_PATTERNS = (
    "  MON  never expires",
    "  WKS  first in, first out: stored as it comes",
    "  WK   its expiry is known: stored in a calendar queue",
    "  STR  may be taken back: stored by its identity",
)


def either(asked: Callable[[], str], registered: Callable[[], str]) -> str:
    """Both explanations of a SELECT without SLIDE, or the one that it has."""
    try:
        question = asked()
    except CqlError:
        return registered()
    try:
        return f"{question}\n\nREGISTER QUERY .. AS would make it continuous:\n{registered()}"
    except CqlError as error:
        return f"{question}\n\nIt cannot be registered without SLIDE: {str(error).splitlines()[0]}"


def explain_continuous(select: Select, catalog: Catalog) -> str:
    written = bind_continuous(select, catalog)
    plan = optimise(written)
    return "\n".join([*explain_plan(plan), *_costs(written, plan)])


def explain_plan(plan: Node) -> list[str]:
    shown = [f"  {line}" for line in explain(plan)]
    used = [line for line in _PATTERNS if any(each.endswith(f"-> {line.split()[0]}") for each in shown)]
    return [_title(plan), "Plan, each edge with its update pattern", *shown, *used, f"On Spark: {_spread(plan)}"]


def _costs(written: Node, plan: Node) -> list[str]:
    """What the optimiser has gained, where it has changed the plan; without measurements all streams count alike."""
    if plan == written:
        return []
    before, after = (cost(each, Statistics()) for each in (written, plan))
    return [f"Optimiser: {after / 1_000:,.1f} ms per second of the stream expected, {before / 1_000:,.1f} as written"]


def _title(plan: Node) -> str:
    sampling = sampling_of(plan)
    if sampling is not None:
        return f"Continuous, answered at the multiples of {format_duration(sampling.slide)}"
    return "Continuous: every arrival and every expiry changes the answer"


def _spread(plan: Node) -> str:
    columns = spread(plan)
    if columns is None:
        return "one bucket, because no column is the key of all operators"
    names = sorted({columns[place] for place in range(len(windows(plan)))})
    return f"buckets by {', '.join(names)}"
