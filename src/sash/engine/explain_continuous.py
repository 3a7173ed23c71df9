"""EXPLAIN of a continuous query: its plan, the update pattern of every edge, how it is spread and what it stores."""

from __future__ import annotations

from collections.abc import Callable

from sash.catalog import Catalog
from sash.core.errors import CqlError
from sash.language import Select, bind_continuous
from sash.plan.continuous import Node, explain, windows
from sash.plan.partitioning import spread

_PATTERNS = "MON: never expires, WKS: first in, first out, WK: expiry known, STR: may be taken back"


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
    plan = bind_continuous(select, catalog)
    lines = ["Continuous query: every arrival and every expiry changes the answer.", "", "Plan", *explain(plan)]
    return "\n".join([*lines, f"  ({_PATTERNS})", "", "On Spark", f"  {_spread(plan)}"])


def _spread(plan: Node) -> str:
    columns = spread(plan)
    if columns is None:
        return "one bucket: no column is the key of all operators"
    names = sorted({columns[place] for place in range(len(windows(plan)))})
    return f"buckets by {', '.join(names)}"
