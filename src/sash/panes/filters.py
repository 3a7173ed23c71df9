"""HAVING as a substream filter: `aggregate > constant`, answered by a collective index without asking every group.

A query qualifies when HAVING has a one-sided condition on COUNT, SUM, MAX or MIN (alone, or as one part of an AND)
and its window ends now. The index finds a superset of the groups; each found group's exact partials are looked up,
and HAVING as a whole decides. With HAVING APPROX the superset is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from sash.expr.value_codes import Codes
from sash.panes.accumulator import counted
from sash.panes.limbs import carry, join_int64
from sash.panes.pane_ring import PaneRing
from sash.panes.partials import Partial
from sash.panes.substreams import CollectiveIndex, ExtremeIndex
from sash.plan.expressions import Call, Expression, Field, Literal, RowExpression
from sash.plan.nodes import AggregateCall
from sash.plan.periodic import PeriodicAggregate

COMPARISONS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_FUNCTIONS = ("count", "sum", "max", "min")
# After this many look-ups an index is judged by how many groups it has spared.
_ENOUGH_TO_JUDGE = 32
_LEAST_SPARED = 0.5


@dataclass(frozen=True)
class FilterKey:
    """What one index serves: one aggregate of one argument under one predicate."""

    function: str
    argument: RowExpression | None
    predicate: RowExpression | None

    def __str__(self) -> str:
        where = "" if self.predicate is None else f" where {self.predicate}"
        return f"{self.function.upper()}({self.argument if self.argument is not None else '*'}){where}"

    @property
    def name(self) -> str:
        """The published name; MAX and MIN are exact and have none."""
        return {"count": "CI-COUNT", "sum": "CI-SUM"}.get(self.function, f"exact {self.function.upper()} index")


@dataclass(frozen=True)
class SubstreamFilter:
    """`rest` are the other parts of HAVING's AND: they hold in an approximate answer, too."""

    key: FilterKey
    comparison: str
    value: Fraction
    rest: tuple[Expression, ...] = ()


def substream_filter(query: PeriodicAggregate) -> SubstreamFilter | None:
    """The condition of a query's HAVING that an index can serve, if there is one."""
    if query.having is None or not query.keys or query.items is not None or query.partition:
        return None
    if query.window.lag or query.window.unbounded:
        return None
    calls = {call.name: call for call in query.calls}
    parts = list(_conjuncts(query.having))
    for i, part in enumerate(parts):
        found = _condition(part, calls, query.predicate)
        if found is not None:
            return replace(found, rest=(*parts[:i], *parts[i + 1 :]))
    return None


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Call) and expression.function == "and":
        for argument in expression.arguments:
            yield from _conjuncts(argument)
    else:
        yield expression


def _condition(
    part: Expression, calls: dict[str, AggregateCall], predicate: RowExpression | None
) -> SubstreamFilter | None:
    if not (isinstance(part, Call) and part.function in COMPARISONS):
        return None
    comparison, (left, right) = COMPARISONS[part.function], part.arguments
    if isinstance(left, Literal):
        left, right, comparison = right, left, _MIRRORED[comparison]
    if not (isinstance(left, Field) and isinstance(right, Literal) and left.name in calls):
        return None
    call = calls[left.name]
    if (
        call.function not in _FUNCTIONS
        or call.filtered is not None
        or _refused(call)
        or not isinstance(right.value, int | float | Decimal)
    ):
        return None
    if isinstance(right.value, float) and not np.isfinite(right.value):
        return None
    return SubstreamFilter(FilterKey(call.function, call.argument, predicate), comparison, Fraction(right.value))


def _refused(call: AggregateCall) -> bool:
    type = None if call.argument is None else call.argument.type
    index = CollectiveIndex if call.function in ("count", "sum") else ExtremeIndex
    return index.refuse(call.function, type) is not None


class FilterIndex:
    """One collective index over the panes of a synopsis. A lookup feeds it.

    `failure` says why it has stopped: a SUM below 0, or a number that is too large. It begins anew when the pane that
    stopped it has left the windows.
    """

    def __init__(self, key: FilterKey, p: int) -> None:
        self.key = key
        self._p = p
        self._presence = Partial("rows", None, key.predicate)
        kind = "rows" if key.argument is None else key.function
        self._partial = Partial(kind, key.argument, key.predicate)
        self._version: int | None = None
        self._last: int | None = None
        self._index: CollectiveIndex | ExtremeIndex = self._fresh()
        self.failure: str | None = None
        self._stopped_at: int | None = None
        # The longest window of all lookups: panes before it are forgotten.
        self.longest = 0
        self._asked = self._visited = self._groups = 0

    @property
    def partials(self) -> tuple[Partial, ...]:
        parts = [self._presence, self._partial]
        return tuple(parts if self.key.function == "count" else [*parts, counted(self._partial)])

    @property
    def pays(self) -> bool:
        """Whether it spares enough groups, as far as is known."""
        return self._asked < _ENOUGH_TO_JUDGE or self._visited <= _LEAST_SPARED * self._groups

    def _fresh(self) -> CollectiveIndex | ExtremeIndex:
        if self.key.function in ("count", "sum"):
            return CollectiveIndex(self._p)
        return ExtremeIndex(self.key.function, self._partial.dtypes[0])  # type: ignore[arg-type]

    def look_back(self, longest: int) -> None:
        """Serve windows up to a length; if a window reaches into forgotten panes, the index begins anew."""
        if longest > self.longest:
            self._version = None
        self.longest = longest

    # -- feeding -------------------------------------------------------------------------------------

    def catch_up(self, ring: PaneRing, now: int, version: int) -> None:
        """Take in the panes that have closed up to a time; all of them again when some were revised."""
        if self._stopped_at is not None and now > self._stopped_at + self.longest:
            # The pane that it could not count has left every window.
            self._version = None
        if version != self._version:
            self._index, self._last, self._version = self._fresh(), None, version
            self.failure = self._stopped_at = None
        first = 0 if self._last is None else ring.position(self._last)
        for i in range(first, ring.position(now)):
            self._feed(ring, i)
        self._last = now
        self._index.forget(now - self.longest)

    def _feed(self, ring: PaneRing, i: int) -> None:
        witness = self._presence if self.key.function == "count" else counted(self._partial)
        seen = np.flatnonzero(ring.column((witness, 0), i, i + 1) > 0)
        codes = ring.codes(i, i + 1)[seen]
        parts = [ring.column((self._partial, c), i, i + 1)[seen] for c in range(len(self._partial.dtypes))]
        try:
            amounts = self._amounts(parts)
            self._index.update(ring.span(i)[1], codes, amounts)
        except (ValueError, OverflowError) as error:
            self.failure, self._stopped_at = str(error), ring.span(i)[1]

    def _amounts(self, parts: list[NDArray[Any]]) -> NDArray[Any]:
        """A pane's counts, sums or extremes as single numbers; a decimal as its unscaled value."""
        if len(parts) == 1:
            return parts[0]
        if len(parts) == 2:
            return join_int64(parts)
        low, middle, *high = carry(parts)
        if any(limb.any() for limb in high):
            raise OverflowError("a pane's sum does not fit into 64 bits")
        return join_int64([low, middle])

    # -- answering -----------------------------------------------------------------------------------

    def lookup(self, filter: SubstreamFilter, now: int, length: int, groups: int) -> Codes | None:
        """A superset of the groups that satisfy a filter over a window that ends now; None if the index has stopped."""
        if self.failure is not None:
            return None
        scale = self._partial.type.scale if pt.is_decimal(self._partial.type) else 0
        found = self._index.lookup(now, length, filter.comparison, filter.value * 10**scale)
        self._asked += 1
        self._visited += len(found)
        self._groups += groups
        return found
