"""By which columns the operators of a continuous plan may be spread over buckets.

A bucket must hold everything that an operator compares. A join on a = b may be spread by a and b, a group-by by any
of its keys, a duplicate elimination by any column. What looks at one row at a time (filters, projections, unions, a
join with a table, of which every bucket has a copy) may be spread as its inputs are, be it by a column that it leaves
out. An operator that compares everything with everything, or counts rows of a whole stream, has one bucket.

A join of n inputs need not have a column that all of them have. It is spread by one that some have, and every bucket
has a copy of the other inputs: a result is found where its tuples of the spread inputs are, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.types as pt

from sash.core.window import RowWindow
from sash.plan.continuous import (
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    TableJoin,
    Union,
    edges,
    inputs,
)
from sash.plan.expressions import Field
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Sampled, Snapshots, Stamped


class Placement(Enum):
    """How tuples are spread where no column of theirs tells."""

    SOMEHOW = "by a column that is not among them any more"
    TOGETHER = "all in one bucket"
    EVERYWHERE = "all in every bucket"


# By what tuples are spread: a column's value, or otherwise.
Spread = str | Placement


@dataclass(frozen=True)
class Way:
    """How an operator may run in buckets: by what each of its inputs is spread, and by what its results then are."""

    inputs: tuple[Spread, ...]
    results: tuple[Spread, ...]


def spreads(type: pa.DataType) -> bool:
    """Whether values of a type have a hash that Spark and Sash compute alike."""
    plain = pt.is_boolean(type) or pt.is_signed_integer(type) or pt.is_float32(type) or pt.is_float64(type)
    texts = pt.is_string(type) or pt.is_large_string(type) or pt.is_binary(type) or pt.is_large_binary(type)
    return plain or texts or pt.is_date32(type) or pt.is_timestamp(type) or pt.is_decimal128(type)


def ways(node: Node) -> list[Way]:
    """All ways, the preferred first; there is always one."""
    found = [Way(way.inputs, (*way.results, Placement.SOMEHOW)) for way in _keyed(node)]
    number = len(inputs(node))
    if takes_rows_singly(node) and number:
        found.append(Way((Placement.SOMEHOW,) * number, (Placement.SOMEHOW,)))
    if not found or takes_rows_singly(node) or _has_one_row(node):
        found.append(Way((Placement.TOGETHER,) * number, (Placement.TOGETHER,)))
    if _may_be_copied(node):
        found.append(Way((Placement.EVERYWHERE,) * number, (Placement.EVERYWHERE,)))
    return found


def takes_rows_singly(node: Node) -> bool:
    """Whether what becomes of a row does not depend on any other row."""
    if isinstance(node, BaseWindow | ResultWindow):
        return not isinstance(node.window, RowWindow)
    if isinstance(node, Outliving):
        return not _compares_groups(node)
    return isinstance(node, Filter | Map | Union | TableJoin | Stamped | Sampled | Snapshots)


def _may_be_copied(node: Node) -> bool:
    """Whether every bucket may do the same over again: it is little, and comes out the same everywhere."""
    return isinstance(node, BaseWindow | Filter | Map | Union | TableJoin)


def _compares_groups(node: Outliving) -> bool:
    """A group's row that is replaced by an equal one is no result, so equal rows must be together."""
    return any(isinstance(part, GroupBy) for _, part in edges(node))


def _has_one_row(node: Node) -> bool:
    """Whether it makes a row or two of the single row of an aggregate without GROUP BY: an exchange gains nothing."""
    if isinstance(node, GroupBy):
        return not node.keys or _has_one_row(node.input)
    return isinstance(node, Filter | Map | Distinct | Deltas) and _has_one_row(node.input)


def _keyed(node: Node) -> Iterator[Way]:
    """The ways by a column. Its name may change on the way up, and it may have several."""
    if isinstance(node, BaseWindow):
        names = node.partition if isinstance(node.window, RowWindow) else node.schema.names
        yield from (Way((), (name,)) for name in names if spreads(node.schema.field(name).type))
        return
    for columns, names in _columns(node):
        sides = zip(inputs(node), columns, strict=True)
        first, *others = (input.schema.field(name).type for input, name in sides if isinstance(name, str))
        # Equal values of different types have different hashes.
        if spreads(first) and all(other == first for other in others):
            yield Way(columns, names)


def _columns(node: Node) -> Iterator[tuple[tuple[Spread, ...], tuple[str, ...]]]:
    """Columns of the inputs that are compared with each other, with the names of the results' columns."""
    if isinstance(node, Union):
        for names in zip(*(input.schema.names for input in node.inputs), strict=True):
            yield names, names[:1]
    elif isinstance(node, Join):
        yield from (((one, other), (one, other)) for one, other in node.keys)
    elif isinstance(node, MultiJoin):
        for key in node.keys:
            yield tuple(name or Placement.EVERYWHERE for name in key), tuple(name for name in key if name is not None)
    elif isinstance(node, Map):
        for field in node.input.schema:
            same = Field(field.name, field.type)
            yield (field.name,), tuple(name for name, made in node.outputs if made == same)
    elif isinstance(node, TableJoin):
        for column in node.input.schema.names:
            yield (column,), (column, *(other for one, other in node.keys if one == column))
    elif isinstance(node, GroupBy):
        yield from (((key,), (key,)) for key in node.keys)
    elif isinstance(node, ResultWindow) and isinstance(node.window, RowWindow):
        yield from (((key,), (key,)) for key in node.partition)
    elif isinstance(node, Negation | Intersection):
        yield from (((one, other), (one,)) for one, other in node.keys)
    else:
        for column in inputs(node)[0].schema.names:
            yield (column,), (column,) if column in node.schema.names else ()
