"""Window join of n inputs along a graph of equalities, fully pipelined: chains, stars, cycles.

    needs   a way from every input to every other by attributes that two or more have; any update patterns
    time    one pass over the buffers per epoch for each attribute, and the combinations that are gone through
    space   the live tuples of the inputs; neither results nor intermediate results are stored

Touched tuples of each input probe the others, step by step along the graph, by the rule of deltas of `pipelined_join`.
Each epoch decides the order anew for each input (`plan.join_order`). Unlike a join on one common attribute, this join
may go through combinations without a result: A and B may meet, and C have nothing for them.

Combinations are followed depth first, so none is stored half done. Depth 0 has a touched tuple. Depth d has the tuples
of the next input that share a value with some tuple picked before (`lookups`), if their other values are those of
tuples picked before as well (`checks`), and if all were alive together. Tuples of all inputs lie in one sequence, and
so do their values, which are numbers from 0 for each attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from sash.changes.join import Combinations, Int64s, PipelinedJoin
from sash.changes.key_numbers import NO_KEY, dense_codes
from sash.changes.lifetimes import Lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.changes.pipelined_join import _wider
from sash.plan.join_order import GraphInput, connected_order
from sash.plan.multi_join import Attribute

Booleans = NDArray[np.bool_]


@njit(cache=True)
def kernel_grouped(numbers: Int64s, wanted: Booleans, count: int) -> tuple[Int64s, Int64s]:
    """Places of the wanted tuples by number, and where each number's begin; the last entry is where all end."""
    starts = np.zeros(count + 1, np.int64)
    for place in range(len(numbers)):
        if wanted[place]:
            starts[numbers[place] + 1] += 1
    for number in range(count):
        starts[number + 1] += starts[number]
    members, following = np.empty(starts[count], np.int64), starts[:count].copy()
    for place in range(len(numbers)):
        if wanted[place]:
            members[following[numbers[place]]] = place
            following[numbers[place]] += 1
    return starts, members


@njit(cache=True)
def kernel_connected(
    roots: Int64s, sides: Int64s, lookups: Int64s, checks: Int64s, starts: Int64s, members: Int64s,
    numbers: Int64s, touched: Booleans, ts: Int64s, exp: Int64s, end: Int64s, low: int,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:  # fmt: skip
    """`sides` are the inputs in order of probing, `roots` touched tuples of the first.

    A row of `lookups`, one for each depth: by which attribute, at which depth its value was picked, and where in
    `starts` the groups of this input by this attribute begin. A row of `checks`: at a depth, an attribute, and the
    depth at which its value was picked. Touched tuples of inputs before the first are left to their own turn.

    Returns the members by input, and when each combination appears, expires, and is taken back. Combinations that were
    there before `low` and are not taken back are left out.
    """
    depths = len(sides)
    at, stop, picked = np.empty(depths, np.int64), np.empty(depths, np.int64), np.empty(depths, np.int64)
    # For the tuples picked up to a depth: when all had come, when the first expires, when the first is taken back.
    came, expires, ends = np.empty(depths, np.int64), np.empty(depths, np.int64), np.empty(depths, np.int64)
    size, found = 64, 0
    places, times = np.empty((depths, size), np.int64), np.empty((3, size), np.int64)
    for root in roots:
        picked[0], came[0], expires[0], ends[0] = root, ts[root], exp[root], end[root]
        if came[0] >= min(expires[0], ends[0]):
            continue
        depth = 1
        at[1], stop[1] = _range(lookups[1], picked, starts, numbers)
        while depth > 0:
            if at[depth] == stop[depth]:
                depth -= 1
                continue
            member = members[at[depth]]
            at[depth] += 1
            if touched[member] and sides[depth] < sides[0]:
                continue
            start = max(came[depth - 1], ts[member])
            until, taken = min(expires[depth - 1], exp[member]), min(ends[depth - 1], end[member])
            if start >= min(until, taken) or not _fits(depth, member, checks, picked, numbers):
                continue
            picked[depth], came[depth], expires[depth], ends[depth] = member, start, until, taken
            if depth + 1 < depths:
                depth += 1
                at[depth], stop[depth] = _range(lookups[depth], picked, starts, numbers)
            elif start >= low or taken < until:
                if found == size:
                    size *= 2
                    places, times = _wider(places, size), _wider(times, size)
                for each in range(depths):
                    places[sides[each], found] = picked[each]
                times[0, found], times[1, found], times[2, found] = start, until, taken
                found += 1
    return places[:, :found], times[0, :found], times[1, :found], times[2, :found]


@njit(cache=True)
def _range(lookup: Int64s, picked: Int64s, starts: Int64s, numbers: Int64s) -> tuple[int, int]:
    group = lookup[2] + numbers[lookup[0], picked[lookup[1]]]
    return starts[group], starts[group + 1]


@njit(cache=True)
def _fits(depth: int, member: int, checks: Int64s, picked: Int64s, numbers: Int64s) -> bool:
    for each in range(len(checks)):
        if checks[each, 0] == depth:
            attribute = checks[each, 1]
            if numbers[attribute, member] != numbers[attribute, picked[checks[each, 2]]]:
                return False
    return True


class GraphJoinOp(PipelinedJoin):
    """`attributes` has for each one its columns' names in the inputs that have it."""

    def __init__(
        self, schema: pa.Schema, attributes: Sequence[Attribute], sides: tuple[StoredInput, ...], width: int
    ) -> None:
        super().__init__(schema, sides, width)
        self._attributes = attributes

    def _combinations(self, alive: Sequence[Lifetimes], epoch: Epoch) -> Combinations | None:
        touched = [side.touched for side in alive]
        if not any(hit.any() for hit in touched):
            return None
        numbers = self._numbers(alive)
        wanted = [
            (side.tuples.exp > epoch.low) & self._is_named(numbers, place, begin, len(side))
            for place, (side, begin) in enumerate(zip(alive, _begins(alive), strict=True))
        ]
        # A result has one tuple of the divided input, whatever its values: as if all tuples had one value.
        one_value = [np.zeros(len(side), dtype=np.int64) for side in alive]
        wanted = epoch.share.taken(one_value, touched, wanted)
        if not all(own.any() for own in wanted):
            return None
        values = Values(self._attributes, alive, numbers, touched, wanted)
        found = [kernel_connected(*values.arguments(turn, epoch.low)) for turn in values.turns]
        if not found:
            return None
        places, start, exp, end = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
        return Combinations(places - np.array(_begins(alive))[:, None], start, exp, end)

    def _numbers(self, alive: Sequence[Lifetimes]) -> Int64s:
        """The values of each attribute as numbers, for the tuples of all inputs in one sequence."""
        begins = _begins(alive)
        found = np.full((len(self._attributes), sum(map(len, alive))), NO_KEY, dtype=np.int64)
        for row, attribute in zip(found, self._attributes, strict=True):
            tables = [alive[place].tuples.rows for place in attribute]
            codes = dense_codes(tables, [list(names) for names in attribute.values()], null_safe=False)
            for place, own in zip(attribute, codes, strict=True):
                row[begins[place] : begins[place] + len(own)] = own
        return found

    def _is_named(self, numbers: Int64s, place: int, begin: int, length: int) -> Booleans:
        """Which tuples of an input have a value of all its attributes: NULL equals nothing."""
        having = [number for number, attribute in enumerate(self._attributes) if place in attribute]
        named: Booleans = (numbers[having, begin : begin + length] != NO_KEY).all(axis=0)
        return named


@dataclass(frozen=True)
class _Step:
    """The step to an input: the attribute to look up, where the input's groups begin in `starts`, and the checks."""

    side: int
    attribute: int
    begin: int
    checked: tuple[int, ...]


class Values:
    """The wanted tuples of the inputs by the values of each attribute, in an epoch."""

    def __init__(
        self,
        attributes: Sequence[Attribute],
        alive: Sequence[Lifetimes],
        numbers: Int64s,
        touched: Sequence[Booleans],
        wanted: Sequence[Booleans],
    ) -> None:
        self._attributes = attributes
        self._numbers = numbers
        self._begins = _begins(alive)
        self._touched = np.concatenate(touched)
        self._roots = [np.flatnonzero(hit & own) for hit, own in zip(touched, wanted, strict=True)]
        self._ts, self._exp = (np.concatenate([getattr(side.tuples, name) for side in alive]) for name in ("ts", "exp"))
        self._end = np.concatenate([side.end for side in alive])
        self._groups(wanted)

    @property
    def turns(self) -> list[int]:
        """The inputs with touched tuples."""
        return [place for place, roots in enumerate(self._roots) if len(roots)]

    def arguments(self, turn: int, low: int) -> tuple[Any, ...]:
        """For the kernel, to combine the touched tuples of an input with the other inputs."""
        order = connected_order(self._inputs, turn)
        steps = list(self._steps(order))
        depth_of: dict[int, int] = {}
        for depth, side in enumerate(order):
            depth_of = dict.fromkeys(self._of(side), depth) | depth_of
        lookups = [(0, 0, 0), *((step.attribute, depth_of[step.attribute], step.begin) for step in steps)]
        checks = [
            (depth, attribute, depth_of[attribute]) for depth, step in enumerate(steps, 1) for attribute in step.checked
        ]
        return (
            self._roots[turn] + self._begins[turn], np.array(order, dtype=np.int64), np.array(lookups, dtype=np.int64),
            np.array(checks, dtype=np.int64).reshape(-1, 3), self._starts, self._members,
            self._numbers, self._touched, self._ts, self._exp, self._end, low,
        )  # fmt: skip

    def _groups(self, wanted: Sequence[Booleans]) -> None:
        """Group the inputs by value. The only input with touched tuples is not probed, and needs no groups."""
        probed = [place for place in range(len(wanted)) if self.turns != [place]]
        starts, members = [], []
        values: list[dict[int, int]] = [{} for _ in wanted]
        self._where: dict[tuple[int, int], int] = {}
        after, number_of_members = 0, 0
        for number, attribute in enumerate(self._attributes):
            count = int(self._numbers[number].max(initial=-1)) + 1
            for place in attribute:
                own, begin = wanted[place], self._begins[place]
                values[place][number] = min(count, int(own.sum()))
                if place not in probed:
                    continue
                first, places = kernel_grouped(self._numbers[number, begin : begin + len(own)], own, count)
                values[place][number] = int((np.diff(first) > 0).sum())
                self._where[number, place] = after
                starts.append(first + number_of_members)
                members.append(places + begin)
                after += len(first)
                number_of_members += len(places)
        self._starts, self._members = np.concatenate(starts), np.concatenate(members)
        self._inputs = [GraphInput(int(own.sum()), known) for own, known in zip(wanted, values, strict=True)]

    def _of(self, side: int) -> list[int]:
        return [number for number, attribute in enumerate(self._attributes) if side in attribute]

    def _steps(self, order: Sequence[int]) -> Iterator[_Step]:
        """The steps; of several attributes that connect an input, the one with most values is looked up."""
        known = set(self._of(order[0]))
        for side in order[1:]:
            shared = sorted(known.intersection(self._of(side)), key=lambda number: -self._inputs[side].values[number])
            yield _Step(side, shared[0], self._where[shared[0], side], tuple(shared[1:]))
            known.update(self._of(side))


def _begins(alive: Sequence[Lifetimes]) -> list[int]:
    """Where each input's tuples begin in the sequence of all."""
    return [0, *accumulate(map(len, alive))][:-1]
