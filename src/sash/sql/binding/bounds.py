"""WITH BOUNDS: beside every output that is one approximate aggregate, its lower and its upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sash.sql.binding.select_list import SelectEntry, distinct
from sash.sql.binding.shedding import SCALED, sheds
from sash.sql.expressions.aggregates import APPROXIMATE
from sash.sql.expressions.scope import Scope
from sash.sql.reading.places import bounds_at


def with_bounds(tree: exp.Select, columns: list[SelectEntry], scope: Scope) -> list[SelectEntry]:
    """The columns, with `<name>_lower` and `<name>_upper` behind each estimate."""
    at = bounds_at(tree)
    if at is None:
        return columns
    estimates = (*APPROXIMATE, *SCALED) if sheds(scope) else APPROXIMATE
    found = [part for column in columns for part in (column, *_bounds(column, estimates))]
    if len(found) == len(columns):
        known = ", ".join(name.upper() for name in (*estimates, "approx_top", "frequent"))
        reason = f"WITH BOUNDS needs a column that is one approximate aggregate ({known})"
        raise scope.error(reason, at)
    return distinct(found, scope)


def _bounds(column: SelectEntry, estimates: Sequence[str]) -> list[SelectEntry]:
    term = column.term
    if term.op != "aggregate" or term.value not in estimates:
        return []
    type = pa.float64() if term.value == "sum" else term.type
    return [
        SelectEntry(f"{column.name}_{side}", replace(term, value=f"{term.value}_{side}", type=type), column.span)
        for side in ("lower", "upper")
    ]
