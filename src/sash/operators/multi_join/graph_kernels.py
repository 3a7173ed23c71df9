"""Combinations of one tuple of each input along a graph of equalities, found depth first: none is stored half done.

    depth 0     a touched tuple of the input whose turn it is
    depth d     the tuples of the next input with a value of some tuple that was picked before (`lookups`), if their
                other values are those of tuples picked before as well (`checks`), and if all were alive together

Tuples of all inputs lie in one sequence, and so do their values, which are numbers from 0 for each attribute.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sash.operators.join_kernels import Int64s

Booleans = NDArray[np.bool_]


@njit(cache=True)
def _kernel_grouped(numbers: Int64s, wanted: Booleans, count: int) -> tuple[Int64s, Int64s]:
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
def _kernel_connected(
    roots: Int64s, sides: Int64s, lookups: Int64s, checks: Int64s, starts: Int64s, members: Int64s,
    numbers: Int64s, touched: Booleans, ts: Int64s, exp: Int64s, end: Int64s, low: int,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:  # fmt: skip
    """`sides` are the inputs in order of probing, `roots` touched tuples of the first.

    A row of `lookups`, one for each depth: by which attribute, at which depth its value was picked, and where in
    `starts` the groups of this input by this attribute begin. A row of `checks`: at a depth, an attribute, and the
    depth at which its value was picked. Touched tuples of inputs before the first are left to their own turn.

    Returns the members by input, and when each combination appears, expires, and is taken back. Left out are those
    that were there before `low` and are not taken back.
    """
    depths = len(sides)
    at, stop, picked = np.empty(depths, np.int64), np.empty(depths, np.int64), np.empty(depths, np.int64)
    # Of what is picked up to a depth: when all had come, when the first expires, when the first is taken back.
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


@njit(cache=True)
def _wider(rows: Int64s, size: int) -> Int64s:
    found = np.empty((rows.shape[0], size), np.int64)
    found[:, : rows.shape[1]] = rows
    return found
