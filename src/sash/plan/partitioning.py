"""By which column a continuous plan's tuples may be spread over buckets.

A bucket must hold everything that an operator compares. A join on a = b may be spread by a and b, a group-by by any
of its keys, a duplicate elimination by any column; filters and unions by whatever their inputs allow, and so does a
join with a table: every bucket gets the whole table. A plan whose operators have no column in common, or that counts
rows of a whole stream, has one bucket.
"""

from __future__ import annotations

from collections.abc import Mapping

from sash.core.window import RowWindow
from sash.plan.continuous import (
    BaseWindow,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    TableJoin,
    Union,
    windows,
)
from sash.plan.expressions import Field
from sash.plan.outputs import ResultWindow

# For every window of the plan (by its place among them) the column that decides its tuple's bucket.
Spread = Mapping[int, str]


def spread(plan: Node) -> Spread | None:
    """The columns to spread by, or None where everything must be in one bucket."""
    return next(iter(_Candidates(plan).of(plan).values()), None)


class _Candidates:
    """A node's columns by which it may be spread, each with what that means for the windows below."""

    def __init__(self, plan: Node) -> None:
        self._next = iter(range(len(windows(plan))))

    def of(self, node: Node) -> dict[str, Spread]:
        if isinstance(node, BaseWindow):
            place = next(self._next)
            counted = isinstance(node.window, RowWindow)
            names = node.partition if counted else node.schema.names
            return {name: {place: name} for name in names}
        if isinstance(node, Join):
            return self._joined(node.left, node.right, node.keys, both=True)
        if isinstance(node, Negation | Intersection):
            return self._joined(node.left, node.right, node.keys, both=False)
        if isinstance(node, Union):
            return self._united(node)
        below = self.of(node.input)
        if isinstance(node, Map):
            renamed = ((name, made) for name, made in node.outputs if isinstance(made, Field))
            return {name: below[made.name] for name, made in renamed if made.name in below}
        if isinstance(node, GroupBy):
            return {key: below[key] for key in node.keys if key in below}
        if isinstance(node, TableJoin):
            return {**below, **{other: below[one] for one, other in node.keys if one in below}}
        if isinstance(node, ResultWindow) and isinstance(node.window, RowWindow):
            return {key: below[key] for key in node.partition if key in below}
        return below

    def _joined(self, left: Node, right: Node, keys: tuple[tuple[str, str], ...], *, both: bool) -> dict[str, Spread]:
        lefts, rights = self.of(left), self.of(right)
        found: dict[str, Spread] = {}
        for one, other in keys:
            if one in lefts and other in rights:
                together = {**lefts[one], **rights[other]}
                found[one] = together
                if both:
                    found[other] = together
        return found

    def _united(self, node: Union) -> dict[str, Spread]:
        below = [self.of(input) for input in node.inputs]
        columns = zip(*(input.schema.names for input in node.inputs), strict=True)
        found: dict[str, Spread] = {}
        for names in columns:
            if all(name in part for name, part in zip(names, below, strict=True)):
                found[names[0]] = {
                    place: column
                    for name, part in zip(names, below, strict=True)
                    for place, column in part[name].items()
                }
        return found
