"""What a pipelined multi-way join costs per unit of time: tuples that it looks at while it probes (thesis 5.3.1).

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

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

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
    """Of a global order, for all inputs."""
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


def lost_share(length: Number, interval: Number) -> Number:
    """The part of all results that no evaluation sees, where lifetimes are uniform up to `length` (5.2.3).

    A result that lives shorter than an interval is still seen if an evaluation falls into its life: half of those, so
    the thesis' figure for 60 and 10, 17 percent, is twice what is lost.

    >>> lost_share(Fraction(60), 10)
    Fraction(1, 12)
    """
    if interval <= length:
        return Fraction(interval) / (2 * Fraction(length))
    return 1 - Fraction(length) / (2 * Fraction(interval))
