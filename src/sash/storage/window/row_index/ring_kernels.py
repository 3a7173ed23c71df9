"""Rings of tuples with the same value, in integer arrays.

A node is a tuple's place in a ring. `link[node]` is the next node, or -1 - entry where the ring leads back to the
index; `start[entry]` is the node that the index points to, -1 for an empty ring. Which way a ring goes, from the
oldest tuple to the newest or back, is the method's business. All deletions take out a whole sub-window, the oldest,
whose nodes are given in order of arrival; they return how many links they followed beyond the nodes they took out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def _kernel_append_each(entries: Any, nodes: Any, start: Any, link: Any) -> int:
    """Plain ring: each tuple goes to the end of its ring, which is looked for from the beginning."""
    steps = 0
    for place in range(entries.size):
        entry, node = entries[place], nodes[place]
        at = start[entry]
        if at < 0:
            start[entry] = node
        else:
            while link[at] >= 0:
                at = link[at]
                steps += 1
            link[at] = node
        link[node] = -1 - entry
    return steps


@njit(cache=True)
def _kernel_append_local(local: Any, entries: Any, nodes: Any, start: Any, link: Any) -> int:
    """AUX: tuples are chained in a ring of the sub-window first; the end of a ring is looked for once per value.

    `local` is the place in `entries` of each tuple's value.
    """
    steps, newest = 0, np.full(entries.size, -1, np.int64)
    for place in range(local.size):
        value, node = local[place], nodes[place]
        at = newest[value]
        if at < 0:
            at = start[entries[value]]
            while at >= 0 and link[at] >= 0:
                at = link[at]
                steps += 1
        if at < 0:
            start[entries[value]] = node
        else:
            link[at] = node
        link[node] = -1 - entries[value]
        newest[value] = node
    return steps


@njit(cache=True)
def _kernel_push(local: Any, entries: Any, nodes: Any, start: Any, link: Any) -> int:
    """BW and DB: the index points to the newest tuple, each tuple to an older one."""
    for place in range(local.size):
        entry, node = entries[local[place]], nodes[place]
        link[node] = start[entry] if start[entry] >= 0 else -1 - entry
        start[entry] = node
    return 0


@njit(cache=True)
def _kernel_delete_oldest(nodes: Any, start: Any, link: Any) -> int:
    """Plain ring and AUX: once round the ring for each tuple, to find the index that must point to the next one."""
    steps = 0
    for place in range(nodes.size):
        at = nodes[place]
        while link[at] >= 0:
            at = link[at]
            steps += 1
        after = link[nodes[place]]
        start[-1 - link[at]] = after if after >= 0 else -1
    return steps


@njit(cache=True)
def _kernel_delete_bulk(nodes: Any, start: Any, link: Any, gone: Any) -> int:
    """BW: once round the ring for each value, to find the oldest tuple that stays; it leads back to the index then."""
    steps = 0
    gone[nodes] = False
    for place in range(nodes.size - 1, -1, -1):
        youngest = nodes[place]
        if gone[youngest]:
            continue
        at = youngest
        gone[at] = True
        while link[at] >= 0:
            at = link[at]
            gone[at] = True
        back = link[at]
        at = start[-1 - back]
        if at == youngest:
            start[-1 - back] = -1
            continue
        while link[at] != youngest:
            at = link[at]
            steps += 1
        link[at] = back
    return steps


@njit(cache=True)
def _kernel_delete_dirty(nodes: Any, start: Any, link: Any, gone: Any, dirty: Any, freed: Any) -> int:
    """DB: the youngest expired tuple of each ring stays as its last, and the ring is marked; how many go."""
    number = 0
    gone[nodes] = False
    for place in range(nodes.size - 1, -1, -1):
        youngest = nodes[place]
        if gone[youngest]:
            continue
        at = link[youngest]
        while at >= 0:
            gone[at] = True
            freed[number] = at
            number += 1
            at = link[at]
        link[youngest] = at
        dirty[-1 - at] = True
    return number


@njit(cache=True)
def _kernel_collect(entries: Any, start: Any, link: Any, row: Any, dirty: Any, newest_first: bool, room: int) -> Any:
    """The rows of rings in order of arrival, and where each ring's begin; an entry of -1 has none.

    `room` is how many rows are expected; more of them cost a copy.
    """
    bounds, rows, number = np.zeros(entries.size + 1, np.int64), np.empty(room, np.int64), 0
    for place in range(entries.size):
        entry, low = entries[place], number
        at = start[entry] if entry >= 0 else -1
        while at >= 0:
            if number == rows.size:
                grown = np.empty(2 * number + 16, np.int64)
                grown[:number] = rows
                rows = grown
            rows[number] = row[at]
            number += 1
            at = link[at]
        # The last tuple of a dirty ring has expired.
        if number > low and dirty[entry]:
            number -= 1
        if newest_first:
            for step in range((number - low) // 2):
                rows[low + step], rows[number - 1 - step] = rows[number - 1 - step], rows[low + step]
        bounds[place + 1] = number
    return rows[:number], bounds
