"""In which order the windows of a multi-way join are probed (thesis 5.3).

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import fmean

from sash.plan.join_costs import EAGER, JoinExecution, JoinInput, cost, join_size

# Inputs by their places, the first one probed first.
Order = tuple[int, ...]
# Each fast input multiplies the orders to consider by up to n.
MOST_FAST = 3


def probing_order(order: Order, of: int) -> Order:
    """What a new tuple of input `of` meets: itself, then the others in global order (table 5.2)."""
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
    """Those whose rate is above the mean of all, at most `MOST_FAST`, the fastest first."""
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
