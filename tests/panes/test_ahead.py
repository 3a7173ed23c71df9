"""Windows that are read ahead and completed later equal a scan as of then, whichever panes came and went meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.window import Window
from sash.panes import ahead
from sash.panes.ahead import ReadAhead
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.pane_rows import PaneRows
from sash.panes.partials import Partial
from sash.panes.partitioned import PartitionedSynopsis
from sash.plan.expressions import RowExpression

V = RowExpression("v", pa.int64())
X = RowExpression("x", pa.float64())
ROWS, SUM, LOWEST, HIGHEST = Partial("rows"), Partial("sum", V), Partial("min", V), Partial("max", X)
PARTIALS = [ROWS, SUM, LOWEST, HIGHEST]
FLOATS = Partial("sum", X)


def filled(panes: list[list[tuple[int, int]]], closed: int) -> BasicIntervalSynopsis:
    """Pane i ends at i + 1 and has these groups and values; the last ones are open yet."""
    synopsis = BasicIntervalSynopsis([pa.int64()])
    synopsis.require([*PARTIALS, FLOATS], None)
    for end, rows in enumerate(panes, 1):
        by_group = dict(rows)
        keys, values = list(by_group), np.array(list(by_group.values()), dtype=np.int64)
        ones, floats = pa.array(np.ones(len(keys), dtype=np.int64)), pa.array(values * 0.1)
        lifted = {
            ROWS: [ones],
            SUM: [pa.array(values & 0xFFFFFFFF), pa.array(values >> 32)],
            LOWEST: [pa.array(values)],
            HIGHEST: [floats],
            FLOATS: [floats],
        }
        ends = np.full(len(keys), end, dtype=np.int64)
        synopsis.absorb(PaneRows(1, ends, [pa.array(keys, pa.int64())], lifted))
    synopsis.close(closed)
    return synopsis


def seen(synopsis: BasicIntervalSynopsis, needs: dict[Window, list[Partial]], now: int) -> dict[Window, Any]:
    found = {}
    for view in synopsis.scan(needs, now):
        groups = {}
        for code, key in enumerate(view.keys.decode_all()[0].to_pylist() if len(view.keys) else []):
            merged = [view.accumulator.merged(partial, None) for partial in needs[view.window]]
            groups[key] = [component[code] for parts in merged for component in parts]
        present = {key: numbers for key, numbers in groups.items() if numbers[0]}
        found[view.window] = (view.oldest, repr(present))
    return found


panes_of = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**40), 2**40)), max_size=5), max_size=12)
windows_of = st.sets(st.tuples(st.integers(1, 8), st.sampled_from([0, 0, 1, 3])), min_size=1, max_size=4)


@given(panes_of, windows_of, st.integers(0, 12), st.integers(0, 1))
def test_completed_as_of_now_or_a_pane_later(
    panes: list[list[tuple[int, int]]], windows: set[tuple[int, int]], now: int, slid: int
) -> None:
    needs = {Window(length, 1, lag): PARTIALS for length, lag in windows}
    synopsis = filled(panes, closed=now)
    early = ReadAhead(synopsis.frozen(needs, now), needs, now, pane=1)
    early.read()
    synopsis.close(now + slid)
    synopsis.expire(now + slid - max(window.reach for window in needs))
    assert early.follows(synopsis.version, now + slid)
    later = synopsis.frozen({}, now + slid)
    # Panes that close afterwards do not matter.
    synopsis.close(now + slid + 1)
    early.complete(later, now + slid)
    expected = seen(filled(panes, now + slid), needs, now + slid)
    assert seen(later, needs, now + slid) == expected


def test_two_panes_later_it_is_in_vain() -> None:
    needs = {Window(4, 1): PARTIALS}
    synopsis = filled([[(1, 1)]] * 8, closed=5)
    early = ReadAhead(synopsis.frozen(needs, 5), needs, 5, pane=1)
    assert early.follows(synopsis.version, 6) and not early.follows(synopsis.version, 7)


def test_and_so_it_is_when_panes_were_revised() -> None:
    needs = {Window(4, 1): PARTIALS}
    synopsis = filled([[(1, 1)]] * 8, closed=5)
    early = ReadAhead(synopsis.frozen(needs, 5), needs, 5, pane=1)
    one = {ROWS: [pa.array([1])], FLOATS: [pa.array([0.5])]}
    lifted = {**one, SUM: [pa.array([1]), pa.array([0])], LOWEST: [pa.array([1])], HIGHEST: [pa.array([0.5])]}
    synopsis.absorb(PaneRows(1, np.array([3]), [pa.array([1], pa.int64())], lifted), closed_until=5)
    assert not early.follows(synopsis.version, 5)


def test_what_is_read_at_the_end() -> None:
    """One pane, no end, sums that depend on their order: none of them is read ahead, nor is too much."""
    needs = {
        Window(4, 1): [ROWS, SUM],
        Window(3, 1): [ROWS, FLOATS],
        Window(1, 1): [ROWS],
        Window(1 << 61, 1): [ROWS],
        Window(2, 1): [ROWS, Partial("max", RowExpression("g", pa.string()))],
    }
    frozen = filled([[(1, 1)]] * 8, closed=5).frozen({}, 5)
    assert list(ReadAhead(frozen, needs, 5, pane=1).needs) == [Window(4, 1)]
    partitioned = PartitionedSynopsis([pa.int64()], (0,), (0,))
    assert not ReadAhead(partitioned.frozen({}, 5), needs, 5, pane=1).needs


def test_too_many_windows_are_read_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "MOST_AHEAD", 1)
    needs = {Window(4, 1): [ROWS, SUM], Window(5, 1): [ROWS, SUM]}
    assert not ReadAhead(filled([[(1, 1)]] * 8, closed=5).frozen({}, 5), needs, 5, pane=1).needs
