"""The kernel of sessions against the obvious way, over rows of panes of any length up to the gap."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.window import SessionWindow
from sash.panes.sessions import SessionRows, sessions_in
from tests.support.examples import examples
from tests.support.sessions import sessions_of

# Panes of length 2, 4 and 6 in units of time; gaps and maxima are multiples of them.
PANES = st.sampled_from([2, 4, 6])
TUPLES = st.lists(st.tuples(st.integers(0, 2), st.integers(-40, 120)), max_size=60)


def rows_of(tuples: list[tuple[int, int]], pane: int, offset: int, left: bool, parts: int) -> SessionRows:
    """Rows by pane and group; a pane may have several rows of a group, as a late tuple brings one."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for place, (group, us) in enumerate(tuples):
        cell = (us - offset) // pane + 1 if left else -((offset - us) // pane)
        found.setdefault((cell * pane + offset, place % parts, group), []).append(us)
    rows = [(group, len(times), min(times), max(times), end) for (end, _, group), times in sorted(found.items())]
    codes, *others = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)) if rows else [_NONE] * 5
    return SessionRows(codes.astype(np.int32), *others)


_NONE = np.empty(0, dtype=np.int64)


@settings(max_examples=examples(2_000))
@given(
    TUPLES, PANES, st.integers(1, 4), st.integers(0, 5), st.sampled_from([0, 1]), st.booleans(), st.integers(1, 3),
    st.integers(-50, 150), st.integers(0, 60),
)  # fmt: skip
def test_sessions_are_as_recomputed(
    tuples: list[tuple[int, int]], pane: int, gap: int, more: int, offset: int, left: bool, parts: int,
    since: int, slide: int,
) -> None:  # fmt: skip
    window = SessionWindow(
        0, 1, exactly=True, gap=gap * pane, most=(gap + more) * pane, offset=offset, closed_left=left
    )
    rows = rows_of(tuples, pane, offset, left, parts)
    found = sessions_in(rows, 3, window, since, since + slide)
    theirs = []
    for group in range(3):
        mine = [(us, place) for place, (each, us) in enumerate(tuples) if each == group]
        for final, start, end, places in sessions_of(mine, window.gap, window.most, offset, left):
            assert end - start <= window.most
            if since < final <= since + slide:
                theirs.append((group, start, end, len(places)))
    counts = np.zeros(len(found), dtype=np.int64)
    chosen = found.numbers >= 0
    np.add.at(counts, found.numbers[chosen], rows.counts[chosen])
    ours = zip(found.groups.tolist(), found.starts.tolist(), found.ends.tolist(), counts.tolist(), strict=True)
    assert sorted(ours) == sorted(theirs)


def test_rows_of_other_conditions_are_no_tuples() -> None:
    """A row of a pane without tuples under the query's WHERE neither begins nor joins sessions."""
    rows = SessionRows(*(np.array(each) for each in ([0, 0, 0], [1, 0, 2], [1, 99, 9], [2, -99, 9], [5, 10, 10])))
    found = sessions_in(rows, 1, SessionWindow.of(gap=5, most=50, slide=5), 0, 100)
    assert (found.starts.tolist(), found.ends.tolist(), found.numbers.tolist()) == ([1, 9], [7, 14], [0, -1, 1])
