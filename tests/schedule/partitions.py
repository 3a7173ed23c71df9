"""All plans of a group, and their costs, by brute force: every set partition, every minute of the multiple."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import lcm

from sash.schedule import SubGroupCost


def set_partitions(count: int) -> Iterator[list[list[int]]]:
    """Every way to divide the numbers below `count` into blocks."""
    if count == 0:
        yield []
        return
    for blocks in set_partitions(count - 1):
        for place, block in enumerate(blocks):
            yield [*blocks[:place], [*block, count - 1], *blocks[place + 1 :]]
        yield [*blocks, [count - 1]]


def partitions(subgroups: Sequence[SubGroupCost]) -> Iterator[list[int]]:
    """The periods of every set partition, each block at its shortest SLIDE, that leaves EXACTLY sub-groups alone."""
    for blocks in set_partitions(len(subgroups)):
        periods = [0] * len(subgroups)
        for block in blocks:
            for place in block:
                periods[place] = min(subgroups[each].slide for each in block)
        if all(not each.exactly or period == each.slide for each, period in zip(subgroups, periods, strict=True)):
            yield periods


def cost_by_the_minute(subgroups: Sequence[SubGroupCost], periods: Sequence[int]) -> Fraction:
    multiple, total = lcm(*periods), Fraction(0)
    for minute in range(1, multiple + 1):
        joint = [each for each, period in zip(subgroups, periods, strict=True) if minute % period == 0]
        total += Fraction(max((each.access for each in joint), default=0))
        total += sum((Fraction(each.post) for each in joint), Fraction(0))
    return total / multiple
