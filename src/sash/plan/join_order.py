"""The order in which the windows of a multi-way join are probed, and the cost of an order (thesis 5.3).

A new tuple of one input probes the others one after the other, in the global order without its own. The fewer
combinations an early input leaves, the less is probed further in:

    by_selectivity   the pair with the smallest result first, then always the input that adds the least (5.3.2)
    augmented        also with fast inputs moved up, though never to the first place; the cheapest by `cost`

All n! orders are never tried. The thesis calls the first order descending and ascending in two places; fewest results
first is meant. It leaves open which of the first pair comes first: here the one that was given first.

    >>> inputs = [JoinInput(10, 100, 40), JoinInput(1, 100, 100), JoinInput(1, 100, 8), JoinInput(1, 100, 5)]
    >>> by_selectivity(inputs), augmented(inputs)
    ((1, 2, 3, 0), (1, 0, 2, 3))
    >>> probing_order((1, 0, 2, 3), 2)
    (2, 1, 0, 3)

Where not all inputs have the same attribute, `connected_order` has the same heuristic, fewest combinations first, with
two differences. A step goes to an input that has an attribute in common with the inputs that were probed before: any
other input would be read as a whole. And every input has an order of its own, since what is connected depends on the
input at the beginning; there is no global order in which fast inputs would have to be moved up.

    >>> chain = [GraphInput(100, {0: 50}), GraphInput(100, {0: 50, 1: 10}), GraphInput(10, {1: 10, 2: 10})]
    >>> star = [*chain, GraphInput(1_000, {2: 10})]
    >>> connected_order(star, 0), connected_order(star, 1), connected_order(star, 3)
    ((0, 1, 2, 3), (1, 2, 0, 3), (3, 2, 1, 0))

The cost of a pipelined multi-way join is the number of tuples that probes look at, per unit of time (thesis 5.3.1).

    size of a join      phi = |S1| .. |Sn| / (max(v1, v2) max(min(v1, v2), v3) ..)
    cost of arrivals    rate of probing x (|next| + matches so far x |next| + ..), in the order of probing

It is assumed that values are uniform and that an input with fewer values has a prefix of another's. The thesis spells
this out for four inputs, nested loops, eager evaluation and expiry; here are n inputs and the other algorithms:

    hash tables         a probe looks at one bucket of the next input: |S| / b
    lazy expiry         a window holds what has expired since it was last cleaned: on average half an interval
    lazy evaluation     tuples of one value that came since the last evaluation probe together, once
    .. without restore  what would expire before the next evaluation is gone: a window that is yet to take its new
                        tuples holds an interval less
    .. with restore     what has expired since the last evaluation is kept until this one is done

Insertion, expiry and comparisons of timestamps are left out, as in the thesis: they do not depend on the order. Where
all numbers are fractions, so are the costs of eager evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod
from statistics import fmean

Size = int | float


@dataclass(frozen=True)
class GraphInput:
    """How many tuples an input has, and how many different values of each of its attributes, by place."""

    size: Size
    values: Mapping[int, Size]


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
    inputs: Sequence[GraphInput], of: int, dearness: Callable[[Mapping[int, Size], int], Size]
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


def matches(values: Mapping[int, Size], each: GraphInput) -> Size:
    """How many tuples of an input a combination with these values finds: the fewer values are among the more."""
    return each.size / selectivity(values, each)


def selectivity(values: Mapping[int, Size], each: GraphInput) -> Size:
    """One of this many tuples of an input matches a combination."""
    return prod(max(values[place], own, 1) for place, own in each.values.items() if place in values)


def met(values: Mapping[int, Size], each: GraphInput) -> dict[int, Size]:
    """How many values the combinations have once an input is added."""
    return {**values, **{place: min(own, values.get(place, own)) for place, own in each.values.items()}}


Number = int | float | Fraction


@dataclass(frozen=True)
class JoinInput:
    """Tuples per unit of time, the window's length, different join values in it, buckets of its hash table."""

    rate: Number
    length: Number
    values: Number
    buckets: Number = 1

    @property
    def size(self) -> Number:
        return self.rate * self.length


@dataclass(frozen=True)
class JoinExecution:
    """`interval` is that of re-evaluation where `lazy`, else that of expiry; 0 expires with every arrival."""

    lazy: bool = False
    restore: bool = False
    interval: Number = 0


EAGER = JoinExecution()


def join_size(inputs: Sequence[JoinInput]) -> Number:
    """How many results live at a time (phi). The printed formula for three has the wrong rate: |Sk| is meant.

    >>> join_size([JoinInput(10, 100, 500), JoinInput(1, 100, 50), JoinInput(1, 200, 40)])
    800.0
    """
    first, *others = inputs
    found, values = first.size, first.values
    for each in others:
        found = found * each.size / max(values, each.values)
        values = min(values, each.values)
    return found


def cost(order: Sequence[int], inputs: Sequence[JoinInput], execution: JoinExecution = EAGER) -> Number:
    """The cost of a global order, for all inputs."""
    return sum(costs(order, inputs, execution))


def costs(order: Sequence[int], inputs: Sequence[JoinInput], execution: JoinExecution = EAGER) -> list[Number]:
    """The parts of the cost that new tuples of each input cause (X), in the global order."""
    return [_cost_of(place, order, inputs, execution) for place in order]


def _cost_of(new: int, order: Sequence[int], inputs: Sequence[JoinInput], execution: JoinExecution) -> Number:
    arriving = inputs[new]
    matches: Number = 1
    spent: Number = 0
    values = arriving.values
    for place in (place for place in order if place != new):
        each = inputs[place]
        spent += matches * _stored(each, execution, taken=order.index(place) < order.index(new)) / each.buckets
        matches = matches * each.size / max(values, each.values)
        values = min(values, each.values)
    return _probes(arriving, execution) * spent


def _probes(arriving: JoinInput, execution: JoinExecution) -> Number:
    """How often its tuples probe the others, per unit of time: each one, or each value of an interval once."""
    if not execution.lazy or not execution.interval:
        return arriving.rate
    number = float(arriving.rate * execution.interval)
    missing = (1.0 - 1.0 / float(arriving.values)) ** number
    return float(arriving.values) * (1.0 - missing) / float(execution.interval)


def _stored(each: JoinInput, execution: JoinExecution, *, taken: bool) -> Number:
    """Tuples of an input when another probes it; `taken`: it has its tuples of this evaluation already."""
    if not execution.interval:
        return each.size
    interval = execution.interval
    if not execution.lazy:
        return each.rate * (each.length + Fraction(interval) / 2)
    length = each.length + (interval if execution.restore else 0)
    return each.rate * max(0, length if taken else length - interval)


# Inputs by their places, the first one probed first.
Order = tuple[int, ...]
# Each fast input multiplies the orders to consider by up to n.
MOST_FAST = 3


def probing_order(order: Order, of: int) -> Order:
    """The order of a new tuple of input `of`: itself, then the others in global order (table 5.2)."""
    return (of, *(place for place in order if place != of))


def by_selectivity(inputs: Sequence[JoinInput]) -> Order:
    """Greedy: each step leaves as few combinations as possible; of equal choices the first."""
    if len(inputs) < 2:
        return tuple(range(len(inputs)))
    pairs = combinations(range(len(inputs)), 2)
    chosen: Order = min(pairs, key=lambda pair: join_size([inputs[place] for place in pair]))
    while len(chosen) < len(inputs):
        rest = [place for place in range(len(inputs)) if place not in chosen]
        chosen = (*chosen, min(rest, key=lambda place: join_size([inputs[i] for i in (*chosen, place)])))
    return chosen


def augmented(
    inputs: Sequence[JoinInput], fast: Sequence[int] | None = None, execution: JoinExecution = EAGER
) -> Order:
    """The cheapest of the order by selectivity and those with fast inputs moved up; the first of equal ones."""
    moving = fast_inputs(inputs) if fast is None else fast
    return min(moved_up(by_selectivity(inputs), moving), key=lambda order: cost(order, inputs, execution))


def fast_inputs(inputs: Sequence[JoinInput]) -> tuple[int, ...]:
    """The inputs whose rate is above the mean of all, at most `MOST_FAST`, the fastest first."""
    mean = fmean(each.rate for each in inputs)
    above = [place for place, each in enumerate(inputs) if each.rate > mean]
    return tuple(sorted(above, key=lambda place: -inputs[place].rate)[:MOST_FAST])


def moved_up(order: Order, fast: Sequence[int]) -> list[Order]:
    """An order, and all in which fast inputs stand nearer to the top, the first place excepted.

    >>> moved_up((2, 3, 0, 1), [0])
    [(2, 3, 0, 1), (2, 0, 3, 1)]
    """
    found = [order]
    for each in sorted(fast, key=order.index):
        found += [moved for candidate in found for moved in _with_moved(candidate, each)]
    return list(dict.fromkeys(found))


def _with_moved(order: Order, each: int) -> Iterator[Order]:
    place = order.index(each)
    for target in range(place - 1, 0, -1):
        yield (*order[:target], each, *order[target:place], *order[place + 1 :])
