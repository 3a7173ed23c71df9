"""Sessions from panes: the runs of a group's tuples that are at most a gap apart, exact to the tuple.

    panes       |  3     8 |          | 22       |    31 | 33     |       each with the group's first and last tuple
    gap 10      <----- session -----> <---------- session --------        last + 10 < next first: another one

Panes are no longer than the gap, so the tuples of one pane are in one session, and whether two panes are is a question
of the last tuple of the one and the first of the other. A session that is longer than the maximum is cut at the
multiples of the maximum, which are ends of panes.

A session is *final* when no later tuple can change it: at the end of its window. The first part of a cut session is
final later, a maximum after its first tuple: only then is it known that the session is cut. (On a stream that is CLOSED
LEFT a tuple of that very time may still come, and join.) An answer has the sessions that became final after the time of
the answer before. All these are event times, so an answer does not depend on when it is computed.

One pass over the rows of the panes of the window, oldest first. Time: O(rows). Space: some numbers per row and group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.core.window import SessionWindow
from sash.expr.value_codes import Codes
from sash.panes.readings import WindowView

Times = NDArray[np.int64]
# After all times.
NEVER = 1 << 62


@dataclass(frozen=True)
class SessionRows:
    """Rows of panes, in the order of their first tuples in each group: how many tuples, from when to when.

    `ends` has the end of each row's pane.
    """

    codes: Codes
    counts: NDArray[np.int64]
    firsts: Times
    lasts: Times
    ends: Times


@dataclass(frozen=True)
class Sessions:
    """The sessions of an answer: each one's group, its first tuple and the end of its window.

    `numbers` has the session of each row, -1 where there is none.
    """

    numbers: Codes
    groups: Codes
    starts: Times
    ends: Times

    def __len__(self) -> int:
        return len(self.groups)


@dataclass(eq=False)
class SessionView(WindowView):
    """The sessions of one window; the accumulator has a place for each of them, and not for each group."""

    sessions: Sessions


def sessions_in(rows: SessionRows, groups: int, window: SessionWindow, since: Micros, until: Micros) -> Sessions:
    """The sessions that became final after `since`, up to `until`."""
    columns = (rows.codes, rows.counts, rows.firsts, rows.lasts, rows.ends)
    rule = (window.gap, window.most, window.offset, int(window.closed_left))
    return Sessions(*kernel_sessions(*columns, groups, *rule, since, until))


@numba.njit(cache=True, nogil=True)
def kernel_sessions(
    codes: Any, counts: Any, firsts: Any, lasts: Any, ends: Any,
    groups: int, gap: int, most: int, offset: int, later: int, since: int, until: int,
) -> Any:  # fmt: skip
    # The runs, without the maximum: the run of each row, and of each run its first and last tuple.
    runs, run_first, run_last = np.full(codes.size, -1), np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    open_run, found = np.full(groups, -1), 0
    for i in range(codes.size):
        if counts[i] == 0:
            continue
        run = open_run[codes[i]]
        if run < 0 or firsts[i] > run_last[run] + gap:
            run, found = found, found + 1
            open_run[codes[i]], run_first[run], run_last[run] = run, firsts[i], lasts[i]
        else:
            run_first[run], run_last[run] = min(run_first[run], firsts[i]), max(run_last[run], lasts[i])
        runs[i] = run

    # The sessions: runs, or their parts between two cuts. `until_cut` is where a part is cut at the latest.
    sessions, group = np.full(codes.size, -1), np.empty(codes.size, np.int32)
    first, last = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    until_cut, final = np.empty(codes.size, np.int64), np.empty(codes.size, np.int64)
    newest, number = np.full(found, -1), 0
    for i in range(codes.size):
        run = runs[i]
        if run < 0:
            continue
        is_long = run_last[run] + gap - run_first[run] > most
        cut = -((offset - ends[i]) // most) * most + offset if is_long else NEVER
        session = newest[run]
        if session < 0 or until_cut[session] != cut:
            final[number] = run_first[run] + most + later if is_long and session < 0 else since
            session, number = number, number + 1
            newest[run], group[session], until_cut[session] = session, codes[i], cut
            first[session], last[session] = firsts[i], lasts[i]
        else:
            first[session], last[session] = min(first[session], firsts[i]), max(last[session], lasts[i])
        sessions[i] = session

    # The sessions of this answer.
    places, kept = np.full(number, -1), 0
    for session in range(number):
        end = last[session] + gap
        known = end + later
        if end >= until_cut[session]:
            end = known = until_cut[session]
        if since < max(final[session], known) <= until:
            places[session] = kept
            group[kept], first[kept], last[kept] = group[session], first[session], end
            kept += 1
    numbers = np.full(codes.size, -1, np.int32)
    for i in range(codes.size):
        if sessions[i] >= 0:
            numbers[i] = places[sessions[i]]
    return numbers, group[:kept].copy(), first[:kept].copy(), last[:kept].copy()
