"""A continuous plan in stages, with an exchange of changes between them.

    GroupBy T.b                         stage 2: buckets by T.b
      ═══ exchange by T.b ═══
      Join of 3                         stage 1: buckets by S.a and T.a, U in every bucket
        Window S
        Window T
        Window U

A stage is a part of the plan whose operators may all be spread over buckets in the same way (`partitioning`): what they
compare is in one bucket. Where the next operator needs another column, the changes are exchanged: each goes to the
bucket of its row's value there, and so does what takes it back, for it has the same row. A plan whose operators have
a column in common is one stage.

An exchange costs a step more per epoch, so a plan is cut as rarely as possible; but an operator that could be spread
never waits in the one bucket of another that cannot. Of cuts that are equally many, those right below an operator that
compares rows are better: filters and projections before it make the exchange smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import count

from sash.plan.continuous import BaseWindow, Node, inputs, path_below
from sash.plan.partitioning import Placement, Spread, Way, takes_rows_singly, ways

# The column that decides the bucket; EVERYWHERE where every bucket gets everything; None where there is one bucket.
Target = str | Placement | None
EVERYWHERE = Placement.EVERYWHERE


@dataclass(frozen=True)
class StagePlan:
    """The operators from the node at `path` down to windows and to stages below.

    `windows`, by their places in the plan, and `lower`, by the paths of the stages below, say where their tuples go.
    Of a stage with several buckets at least one of them is spread by a column.
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
    """A stage as far as it goes down from some node, and the finished stages below it.

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


# The cheapest part that ends in a node, for everything by which the node's results may be spread.
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
    """What an operator takes of an input that it wants spread in a certain way: as it is, or exchanged."""
    as_it_is = parts.get(spread)
    if spread is Placement.SOMEHOW:
        return as_it_is
    below = _cheapest(parts)
    exchanged = _Part(below.cuts + 1, below.early + early, lower={path: _target(spread)}, below=_finished(path, parts))
    return exchanged if as_it_is is None or exchanged.price < as_it_is.price else as_it_is


def _cheapest(parts: _Parts) -> _Part:
    """Of those that may be a stage: results that are in every bucket would be as many times too many."""
    whole = (part for spread, part in parts.items() if spread is not EVERYWHERE)
    return min(whole, key=lambda part: part.price)


def _finished(path: str, parts: _Parts) -> tuple[StagePlan, ...]:
    part = _cheapest(parts)
    return (*part.below, StagePlan(path, part.windows, part.lower))


def _target(spread: Spread) -> Target:
    return spread if isinstance(spread, str) or spread is EVERYWHERE else None
