"""Punctuations (thesis 2.2.1): a promise that no further tuple of a stream has a certain value in a column.

    Join      a tuple waits for partners that may still come: it leaves once the value of its key is promised for every
              other input
    GroupBy   over a whole stream: a group is final once the value of one of its keys is promised

The column must be a column of a window, unchanged by conditions and projections above it. A join whose results may be
taken back keeps its tuples: a negative tuple looks for its partners.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from sash.core.changes import UpdatePattern
from sash.plan.continuous import (
    BaseWindow,
    Filter,
    GroupBy,
    Join,
    Map,
    Node,
    executed_pattern,
    inputs,
    path_below,
    strategy_below,
)
from sash.plan.expressions import Field
from sash.plan.multi_join import MultiJoin


@dataclass(frozen=True)
class Promise:
    """`value` is an array of one value; all tuples that came before the promise have timestamps up to `after`."""

    stream: str
    column: str
    value: pa.Array
    after: int


@dataclass(frozen=True)
class PromisedColumn:
    """A column of the window at a path, about which promises are made."""

    path: str
    stream: str
    column: str
    name: str

    @property
    def buffer(self) -> str:
        """Where a bucket's state has the promised values."""
        return f"{self.path}.promised.{self.name}"


def can_be_promised(type: pa.DataType) -> bool:
    """Whether values of a type are simply equal or not."""
    return not pt.is_floating(type) and not pt.is_nested(type)


def promised_columns(window: BaseWindow, path: str) -> list[PromisedColumn]:
    """The columns of a window that are columns of its stream."""
    return [
        PromisedColumn(path, window.stream, made.expression.column, made.name)
        for made in window.columns
        if made.expression.column is not None and can_be_promised(made.type)
    ]


def promised_column(node: Node, path: str, name: str) -> PromisedColumn | None:
    """The column of a window that a node's column is."""
    if isinstance(node, BaseWindow):
        return next((each for each in promised_columns(node, path) if each.name == name), None)
    if isinstance(node, Filter):
        return promised_column(node.input, path_below(path, 0), name)
    if isinstance(node, Map) and isinstance(made := dict(node.outputs).get(name), Field):
        return promised_column(node.input, path_below(path, 0), made.name)
    return None


# For each of several conditions, of which all must hold: columns of an input, each with the column whose promises say
# that no partner comes. One of the promises fulfils the condition.
Closers = tuple[tuple[tuple[str, PromisedColumn], ...], ...]


def closers(node: Node, path: str, place: int, strategy: str) -> Closers:
    """The promises that let a node forget tuples of its input at a place; none at all, if they cannot."""
    if isinstance(node, GroupBy) and node.input.pattern is UpdatePattern.MONOTONIC:
        pairs = [[(key, promised_column(node.input, path_below(path, 0), key)) for key in node.keys]]
    elif isinstance(node, Join | MultiJoin) and not _takes_back(node, strategy):
        others = [other for other in range(len(inputs(node))) if other != place]
        pairs = [list(_partners(node, path, place, other)) for other in others]
    else:
        return ()
    found = tuple(tuple((own, column) for own, column in each if column is not None) for each in pairs)
    return found if all(found) else ()


def _takes_back(node: Join | MultiJoin, strategy: str) -> bool:
    return any(executed_pattern(each, strategy) is UpdatePattern.STRICT for each in inputs(node))


def _partners(node: Join | MultiJoin, path: str, place: int, other: int) -> Iterator[tuple[str, PromisedColumn | None]]:
    """The columns by which tuples of one input find those of another one."""
    for names in node.keys:
        own, partner = names[place], names[other]
        if own is not None and partner is not None:
            yield own, promised_column(inputs(node)[other], path_below(path, other), partner)


def useful_promises(node: Node, strategy: str, path: str = "") -> Iterator[tuple[Node, list[PromisedColumn]]]:
    """The operators that promises let forget tuples, from the answer down, each with the columns that count."""
    found = [closers(node, path, place, strategy) for place in range(len(inputs(node)))]
    columns = dict.fromkeys(column for each in found for pairs in each for _, column in pairs)
    if columns:
        yield node, list(columns)
    for place, below in enumerate(inputs(node)):
        yield from useful_promises(below, strategy_below(node, strategy), path_below(path, place))
