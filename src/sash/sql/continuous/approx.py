"""APPROX INTERSECT: the intersection of two windows that slide, as ranges of values.

    SELECT src FROM a [WINDOW 9 min SLIDE 1 min] APPROX INTERSECT GROUPS 50 SELECT src FROM b [WINDOW 5 min SLIDE 1 min]

It is answered from a G-INDEX and nothing else: of one column whose values can be counted through, of two time-based
windows, at the multiples of SLIDE. Everything else is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.plan.continuous import Node, edges
from sash.plan.set_windows import GroupedIntersection, windowed_set
from sash.sql.continuous.from_clause import QueryScope
from sash.sql.reading.places import approx_at, groups_of, span_of
from sash.sql.reading.statements import Select
from sash.sql.types import spark_name

DEFAULT_GROUPS = 100
MOST_GROUPS = 100_000
# Longer decimals are more than whole numbers of 64 bits.
_MOST_DIGITS = 18


def bind_approx(tree: exp.Expr, left: Node, query: QueryScope) -> int | None:
    """How many groups a set operation may have if it is approximate; None if it is exact."""
    at, groups = approx_at(tree), groups_of(tree)
    if at is None:
        if groups is not None:
            raise CqlError("GROUPS belongs to APPROX INTERSECT", query.script, span_of(groups))
        return None
    if not isinstance(tree, exp.Intersect) or not tree.args.get("distinct"):
        reason = "APPROX goes with INTERSECT alone, of sets: only there all values that count are in the ranges"
        raise CqlError(reason, query.script, at)
    if query.slide is None:
        reason = "APPROX INTERSECT is answered at the multiples of SLIDE: add it to both windows"
        raise CqlError(f"{reason}, [WINDOW 10 min SLIDE 1 min]", query.script, at)
    _check_column(left, query.script, at)
    return DEFAULT_GROUPS if groups is None else _number(groups, query.script)


def _number(groups: exp.Expr, script: str) -> int:
    if isinstance(groups, exp.Literal) and groups.is_int and 2 <= int(groups.name) <= MOST_GROUPS:
        return int(groups.name)
    raise CqlError(f"GROUPS takes a whole number from 2 to {MOST_GROUPS:,}", script, span_of(groups))


def _check_column(node: Node, script: str, at: Span) -> None:
    if len(node.schema) != 1:
        raise CqlError(f"APPROX INTERSECT is of one column, not of {len(node.schema)}", script, at)
    (column,) = node.schema
    if not has_groups(column.type):
        needed = "whole numbers, dates, timestamps or decimals of up to 18 digits"
        reason = f"of {spark_name(column.type)} (column '{column.name}') there are no ranges with a next value each"
        raise CqlError(f"APPROX INTERSECT needs {needed}: {reason}", script, at)


def has_groups(type: pa.DataType) -> bool:
    """The types of which a G-INDEX has groups (rows/value_groups.py)."""
    if pt.is_decimal(type):
        return type.precision <= _MOST_DIGITS
    return pt.is_integer(type) or pt.is_boolean(type) or pt.is_date(type) or pt.is_timestamp(type)


def check_approx(plan: Node, select: Select) -> None:
    """Refuse it where no index answers: there is no operator that does."""
    grouped = any(isinstance(node, GroupedIntersection) for _, node in edges(plan))
    if not grouped or windowed_set(plan) is not None:
        return
    at = next(at for node in select.tree.walk() if (at := approx_at(node)) is not None)
    what = "APPROX INTERSECT inside of another query, or of anything but one column of each of two time-based windows"
    raise NotSupportedError(what, select.script, at)
