"""In which order a tuple of one input of a join probes the others, where not all inputs have the same attribute.

It is the heuristic of `join_order`, fewest combinations first, with two differences. A step goes to an input that has
an attribute in common with those that were met already: any other would be met as a whole. And every input has an
order of its own, since what is connected depends on where one starts; there is no global order in which fast inputs
would have to be moved up.

    >>> chain = [GraphInput(100, {0: 50}), GraphInput(100, {0: 50, 1: 10}), GraphInput(10, {1: 10, 2: 10})]
    >>> star = [*chain, GraphInput(1_000, {2: 10})]
    >>> connected_order(star, 0), connected_order(star, 1), connected_order(star, 3)
    ((0, 1, 2, 3), (1, 2, 0, 3), (3, 2, 1, 0))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

Number = int | float


@dataclass(frozen=True)
class GraphInput:
    """How many tuples an input has, and how many different values of each attribute that it has, by its place."""

    size: Number
    values: Mapping[int, Number]


def connected_order(inputs: Sequence[GraphInput], of: int) -> tuple[int, ...]:
    """The input itself, then always the connected one that leaves the fewest combinations; of equal ones the first."""
    return _connected(inputs, of, lambda values, place: matches(values, inputs[place]))


def written_order(inputs: Sequence[GraphInput], of: int) -> tuple[int, ...]:
    """The input itself, then always the connected one that was written first.

    >>> written_order([GraphInput(100, {0: 5}), GraphInput(100, {0: 5, 1: 5}), GraphInput(1, {1: 5})], 1)
    (1, 0, 2)
    """
    return _connected(inputs, of, lambda _, place: place)


def _connected(
    inputs: Sequence[GraphInput], of: int, dearness: Callable[[Mapping[int, Number], int], Number]
) -> tuple[int, ...]:
    chosen, values = [of], dict(inputs[of].values)
    while len(chosen) < len(inputs):
        rest = [place for place in range(len(inputs)) if place not in chosen]
        connected = [place for place in rest if not values.keys().isdisjoint(inputs[place].values)]
        ranked = [(dearness(values, place), place) for place in connected]
        _, following = min(ranked)
        chosen.append(following)
        values = met(values, inputs[following])
    return tuple(chosen)


def matches(values: Mapping[int, Number], each: GraphInput) -> Number:
    """How many tuples of an input a combination finds that has so many values: the fewer are among the more."""
    return each.size / selectivity(values, each)


def selectivity(values: Mapping[int, Number], each: GraphInput) -> Number:
    """Of how many tuples of an input a combination finds one."""
    return prod(max(values[place], own, 1) for place, own in each.values.items() if place in values)


def met(values: Mapping[int, Number], each: GraphInput) -> dict[int, Number]:
    """How many values the combinations have once an input is added."""
    return {**values, **{place: min(own, values.get(place, own)) for place, own in each.values.items()}}
