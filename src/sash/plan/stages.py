"""A continuous plan in stages, with an exchange of changes between them.

    GroupBy T.b                         stage 2: buckets by T.b
      ═══ exchange by T.b ═══
      Join of 3                         stage 1: buckets by S.a and T.a, U in every bucket
        Window S
        Window T
        Window U

A stage is a part of the plan whose operators may all be spread over buckets in the same way (`ways`): a bucket has all
rows that they compare. If the next operator needs another column, the changes are exchanged: each goes to the bucket of
its row's value there, and so does its negative tuple, for it has the same row. A plan whose operators have a column in
common is one stage.

An exchange costs one more step per epoch, so a plan is cut as rarely as possible; but an operator that could be spread
never waits in the one bucket of another that cannot. Among equally many cuts, those right below an operator that
compares rows are better: filters and projections before it make the exchange smaller.

`ways` says by which columns operators may be spread. A bucket must hold all rows that an operator compares. A join on a
= b may be spread by a and b, a group-by by any of its keys, a duplicate elimination by any column. Operators on single
rows (filters, projections, unions, a join with a table, of which every bucket has a copy) may be spread like their
inputs, even by a column that they leave out. An operator that compares everything with everything, or counts rows of a
whole stream, has one bucket.

A join of n inputs need not have a column that all of them have. It is spread by a column of some inputs, and every
bucket has a copy of the others: the bucket of the spread inputs' tuples finds a result, and no other bucket does.

`divided_join` says which join of a stage may have its results divided among several tasks (changes/operator.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from itertools import count

import pyarrow as pa
import pyarrow.types as pt

from sash.core.changes import UpdatePattern
from sash.core.window import RowWindow
from sash.plan.continuous import (
    BaseWindow,
    Distinct,
    Duplicates,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    OuterJoin,
    RelationJoin,
    TableJoin,
    Union,
    edges,
    inputs,
    path_below,
)
from sash.plan.expressions import Field
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Sampled, Snapshots, Stamped


class Placement(Enum):
    """How tuples are spread if no column decides."""

    SOMEHOW = "by a column that is not among them any more"
    TOGETHER = "all in one bucket"
    EVERYWHERE = "all in every bucket"


# How tuples are spread: by a column's value, or by a placement.
Spread = str | Placement


@dataclass(frozen=True)
class Way:
    """How an operator may run in buckets: how each of its inputs is spread, and how its results then are."""

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
    """Whether the output for a row does not depend on any other row, or on none but the row that it replaces."""
    if isinstance(node, BaseWindow | ResultWindow):
        return not isinstance(node.window, RowWindow)
    if isinstance(node, Outliving):
        return not _compares_groups(node)
    return isinstance(node, Filter | Map | Union | TableJoin | Duplicates | Stamped | Sampled | Snapshots)


def _may_be_copied(node: Node) -> bool:
    """Whether every bucket may repeat the work: it is little, and gives the same result everywhere."""
    return isinstance(node, BaseWindow | Filter | Map | Union | TableJoin)


def _compares_groups(node: Outliving) -> bool:
    """Whether equal rows must be together: a group's row that is replaced by an equal one is no result."""
    return any(isinstance(part, GroupBy) for _, part in edges(node))


def _has_one_row(node: Node) -> bool:
    """Whether it only handles the single row of an aggregate without GROUP BY: an exchange gains nothing."""
    if isinstance(node, GroupBy):
        return not node.keys or _has_one_row(node.input)
    return isinstance(node, Filter | Map | Distinct | Deltas) and _has_one_row(node.input)


def _keyed(node: Node) -> Iterator[Way]:
    """The ways by a column. Its name may change on the way up, and it may have several names."""
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
    elif isinstance(node, OuterJoin):
        # The other column is NULL in rows without a match.
        for one, other in node.keys:
            certain = ((one, node.keeps_right), (other, node.keeps_left))
            yield (one, other), tuple(name for name, is_padded in certain if not is_padded)
    elif isinstance(node, MultiJoin):
        for key in node.keys:
            yield tuple(name or Placement.EVERYWHERE for name in key), tuple(name for name in key if name is not None)
    elif isinstance(node, Map):
        for field in node.input.schema:
            same = Field(field.name, field.type)
            yield (field.name,), tuple(name for name, made in node.outputs if made == same)
    elif isinstance(node, TableJoin):
        for column in node.input.schema.names:
            # A tuple that is kept without a row has NULLs there.
            equal = () if node.keeps else (other for one, other in node.keys if one == column)
            yield (column,), (column, *equal)
    elif isinstance(node, GroupBy):
        yield from (((key,), (key,)) for key in node.keys)
    elif isinstance(node, ResultWindow) and isinstance(node.window, RowWindow):
        yield from (((key,), (key,)) for key in node.partition)
    elif isinstance(node, Negation | Intersection):
        yield from (((one, other), (one,)) for one, other in node.keys)
    else:
        for column in (node if isinstance(node, Duplicates) else inputs(node)[0]).schema.names:
            yield (column,), (column,) if column in node.schema.names else ()


# The column that decides the bucket; EVERYWHERE where every bucket gets everything; None where there is one bucket.
Target = str | Placement | None
EVERYWHERE = Placement.EVERYWHERE


@dataclass(frozen=True)
class StagePlan:
    """The operators from the node at `path` down to windows and to stages below.

    `windows`, by their places in the plan, and `lower`, by the paths of the stages below, give the targets of their
    tuples. In a stage with several buckets at least one of them is spread by a column.
    """

    path: str
    windows: Mapping[int, Target] = field(default_factory=dict)
    lower: Mapping[str, Target] = field(default_factory=dict)

    @property
    def spread(self) -> bool:
        """Whether it may have several buckets."""
        return None not in self._targets

    @property
    def copies(self) -> bool:
        """Whether something goes to every bucket."""
        return EVERYWHERE in self._targets

    @property
    def _targets(self) -> tuple[Target, ...]:
        return (*self.windows.values(), *self.lower.values())


def stages(plan: Node) -> tuple[StagePlan, ...]:
    """The stages of a plan, each after those below it; the last one gives the answer."""
    return _finished("", _parts(plan, "", count()))


@dataclass(frozen=True)
class _Part:
    """A stage from some node down, and the finished stages below it.

    `early` are cuts right below operators that take rows singly, and could as well have been above them.
    """

    cuts: int = 0
    early: int = 0
    windows: Mapping[int, Target] = field(default_factory=dict)
    lower: Mapping[str, Target] = field(default_factory=dict)
    below: tuple[StagePlan, ...] = ()

    @property
    def price(self) -> tuple[int, int]:
        return self.cuts, self.early

    def beside(self, other: _Part) -> _Part:
        """Both in one stage: the inputs of one operator."""
        return _Part(
            self.cuts + other.cuts,
            self.early + other.early,
            {**self.windows, **other.windows},
            {**self.lower, **other.lower},
            self.below + other.below,
        )


# The cheapest part that ends in a node, for every possible spread of the node's results.
_Parts = dict[Spread, _Part]


def _parts(node: Node, path: str, places: Iterator[int]) -> _Parts:
    found: _Parts = {}
    if isinstance(node, BaseWindow):
        place = next(places)
        for way in ways(node):
            _offer(found, way, _Part(windows={place: _target(way.results[0])}))
        return found
    paths = [path_below(path, each) for each in range(len(inputs(node)))]
    below = [_parts(input, its, places) for input, its in zip(inputs(node), paths, strict=True)]
    early = takes_rows_singly(node)
    for way in ways(node):
        taken = [_taken(*each, early) for each in zip(way.inputs, paths, below, strict=True)]
        possible = [part for part in taken if part is not None]
        if len(possible) == len(taken):
            _offer(found, way, reduce(_Part.beside, possible))
    return found


def _offer(found: _Parts, way: Way, part: _Part) -> None:
    for spread in way.results:
        if spread not in found or part.price < found[spread].price:
            found[spread] = part


def _taken(spread: Spread, path: str, parts: _Parts, early: bool) -> _Part | None:
    """An operator's input with a certain spread: unchanged, or exchanged."""
    as_it_is = parts.get(spread)
    if spread is Placement.SOMEHOW:
        return as_it_is
    below = _cheapest(parts)
    exchanged = _Part(below.cuts + 1, below.early + early, lower={path: _target(spread)}, below=_finished(path, parts))
    return exchanged if as_it_is is None or exchanged.price < as_it_is.price else as_it_is


def _cheapest(parts: _Parts) -> _Part:
    """The cheapest part that may be a stage: results in every bucket would be repeated."""
    whole = (part for spread, part in parts.items() if spread is not EVERYWHERE)
    return min(whole, key=lambda part: part.price)


def _finished(path: str, parts: _Parts) -> tuple[StagePlan, ...]:
    part = _cheapest(parts)
    return (*part.below, StagePlan(path, part.windows, part.lower))


def _target(spread: Spread) -> Target:
    return spread if isinstance(spread, str) or spread is EVERYWHERE else None


_Passing = Filter | Map | NrrJoin | Outliving | ResultWindow | Sampled


def divided_join(plan: Node, stage: StagePlan, numbering: Collection[str] = ()) -> str | None:
    """The path of the join, if a stage has one that may be divided.

    The operators above must take rows singly: each task passes its own results through. Every task repeats the work
    below, so there must be little: windows, filters, projections. Nodes at the paths `numbering` number their rows one
    after the other, for which they need all of them.
    """
    node, path = _node_at(plan, stage.path), stage.path
    while isinstance(node, _Passing) and _takes_parts(node) and path not in stage.lower and path not in numbering:
        node, path = node.input, path_below(path, 0)
    if path in stage.lower or not isinstance(node, Join | RelationJoin | MultiJoin):
        return None
    if isinstance(node, RelationJoin) and node.keeps:
        # Every task would output the tuples that find no row.
        return None
    below = [(input, path_below(path, place)) for place, input in enumerate(inputs(node))]
    return path if all(_is_light(*each, stage) for each in below) else None


def _takes_parts(node: _Passing) -> bool:
    """Whether several tasks may each have some of its rows.

    A row waits alone for a multiple of SLIDE, whichever task found it; but its negative tuple, which another task may
    find, must meet it.
    """
    if isinstance(node, Sampled):
        return node.input.pattern is not UpdatePattern.STRICT
    return takes_rows_singly(node)


def _is_light(node: Node, path: str, stage: StagePlan) -> bool:
    if path in stage.lower or isinstance(node, BaseWindow):
        return True
    below = [(input, path_below(path, place)) for place, input in enumerate(inputs(node))]
    return isinstance(node, Filter | Map | NrrJoin | Stamped | Union) and all(_is_light(*each, stage) for each in below)


def _node_at(node: Node, path: str, here: str = "") -> Node:
    """The node at a path that surely exists."""
    if here == path:
        return node
    ways = [(input, path_below(here, place)) for place, input in enumerate(inputs(node))]
    input, below = next((input, way) for input, way in ways if path.startswith(way))
    return _node_at(input, path, below)
