"""Running unions, the accumulator and the whole synopsis: what a scan emits is what merging from scratch gives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.window import TimeWindow
from sash.panes.accumulator import Accumulator, ScanRows, scan
from sash.panes.basic_interval import MOST_CONTRIBUTIONS, BasicIntervalSynopsis
from sash.panes.pane_rows import PaneRows
from sash.panes.partials import Combine, Partial
from sash.panes.sketches import SKETCHES, Hll, Unions
from tests.panes.raw import K, N, P, column
from tests.panes.sketches.build import BUILD, hll_of, merged
from tests.support.examples import examples

ROWS = Partial("rows")
SKETCHED = [Partial(kind, N) for kind in SKETCHES]
GROUPS = "abc"
Tuples = list[tuple[int, str, int | None]]
TUPLES = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from(GROUPS), st.none() | st.integers(0, 40)), min_size=1, max_size=25
)


def pane_rows(tuples: Tuples, length: int, partials: list[Partial]) -> PaneRows:
    """The pass over a micro-batch of (timestamp, key, value)."""
    groups: dict[tuple[int, str], list[int | None]] = {}
    for ts, key, value in tuples:
        groups.setdefault((-(-ts // length) * length, key), []).append(value)
    lifted: dict[Partial, list[pa.Array]] = {}
    for partial in partials:
        if partial == ROWS:
            lifted[partial] = [pa.array([len(values) for values in groups.values()])]
        else:
            lifted[partial] = [pa.array([BUILD[partial.kind](values) for values in groups.values()], pa.binary())]
    ends = np.array([end for end, _ in groups], dtype=np.int64)
    return PaneRows(length, ends, [pa.array([key for _, key in groups], pa.string())], lifted)


def answers(kind: str, data: bytes | None) -> Any:
    """Everything that can be asked of a small sketch; small ones are exact, so that answers can be compared."""
    if data is None:
        return None
    sketch = SKETCHES[kind].from_bytes(data)
    asked: list[Any] = {"hll": [None], "kll": [Fraction(n, 7) for n in range(8)], "items": list(map(str, range(41)))}[
        kind
    ]
    return [(sketch.estimate(each), *sketch.bounds(each)) for each in asked]


def check(kind: str, data: bytes | None, values: list[int | None]) -> None:
    known = [value for value in values if value is not None]
    assert (data is None) == (not known)
    assert answers(kind, data) == (answers(kind, BUILD[kind](known)) if known else None)


def filled(tuples: Tuples, length: int = 1, batches: int = 1) -> BasicIntervalSynopsis:
    synopsis = BasicIntervalSynopsis([K.type])
    synopsis.require([ROWS, *SKETCHED], None)
    for i in range(batches):
        synopsis.absorb(pane_rows(tuples[i::batches], length, [ROWS, *SKETCHED]))
    return synopsis


def check_windows(synopsis: BasicIntervalSynopsis, tuples: Tuples, windows: list[TimeWindow], now: int) -> None:
    for view in synopsis.scan({window: [ROWS, *SKETCHED] for window in windows}, now):
        newest = now - view.window.lag
        inside = [each for each in tuples if newest - view.window.length < each[0] <= newest]
        keys = view.keys.decode_all()[0].to_pylist()
        for partial in SKETCHED:
            (sketches,) = view.accumulator.merged(partial, None)
            for key, data in zip(keys, sketches, strict=True):
                check(partial.kind, data, [value for _, group, value in inside if group == key])


# -- the synopsis -------------------------------------------------------------------------------------


@given(TUPLES, st.integers(1, 3), st.sampled_from([1, 2]))
@settings(max_examples=examples(30))
def test_windows_are_what_merging_from_scratch_gives(tuples: Tuples, batches: int, length: int) -> None:
    synopsis = filled(tuples, length, batches)
    synopsis.close(12)
    windows = [TimeWindow(2), TimeWindow(4), TimeWindow(12), TimeWindow(6, lag=2)]
    check_windows(synopsis, tuples, windows, 12)
    fresh = filled([], length)
    fresh.load(synopsis.to_table(), synopsis.save_since())
    check_windows(fresh, tuples, windows, 12)
    synopsis.expire(6)
    check_windows(synopsis, [each for each in tuples if each[0] > 6], [TimeWindow(6), TimeWindow(2)], 12)


def test_a_pane_of_many_micro_batches_and_late_tuples() -> None:
    tuples = [(1 + i % 2, GROUPS[i % 3], i) for i in range(4 * MOST_CONTRIBUTIONS)]
    synopsis = filled(tuples, 4, batches=3 * MOST_CONTRIBUTIONS)
    assert synopsis.rows <= 3 + 3 * MOST_CONTRIBUTIONS
    synopsis.close(4)
    assert synopsis.rows == 3
    check_windows(synopsis, tuples, [TimeWindow(4)], 4)
    late: Tuples = [(3, "a", 99), (3, "c", None)]
    synopsis.absorb(pane_rows(late, 4, [ROWS, *SKETCHED]), closed_until=4)
    check_windows(synopsis, [*tuples, *late], [TimeWindow(4)], 4)


def test_nested_panes() -> None:
    """A straggler of a coarse pane comes after finer ones: windows are folded one by one then."""
    tuples: Tuples = [(ts, "a", ts) for ts in (5, 6, 7, 8)]
    synopsis = filled(tuples, 2)
    synopsis.close(8)
    synopsis.absorb(pane_rows([(7, "b", 1), (7, "a", 1)], 4, [ROWS, *SKETCHED]), closed_until=8)
    check_windows(synopsis, [*tuples, (7, "b", 1), (7, "a", 1)], [TimeWindow(4), TimeWindow(8)], 8)


def test_a_sketch_that_came_later_reads_its_own_panes() -> None:
    hll = SKETCHED[0]
    synopsis = BasicIntervalSynopsis([K.type])
    synopsis.require([ROWS], None)
    synopsis.absorb(pane_rows([(1, "a", 1), (2, "a", 2)], 1, [ROWS]))
    synopsis.require([hll], 2)
    synopsis.absorb(pane_rows([(3, "a", 3)], 1, [ROWS, hll]))
    synopsis.close(3)
    (view,) = synopsis.scan({TimeWindow(3): [ROWS, hll]}, 3)
    (data,) = view.accumulator_for([ROWS, hll]).merged(hll, None)[0]
    check("hll", data, [3])
    synopsis.release({ROWS})
    assert hll not in synopsis.since
    assert view.accumulator.merged(ROWS, None)[0].tolist() == [3]


def test_a_snapshot_has_flat_binary_columns() -> None:
    synopsis = filled([(1, "a", 1), (1, "b", None)])
    for tuples in (synopsis, filled([])):
        table = tuples.to_table()
        assert all(table.schema.field(f"value{i}_0").type == pa.large_binary() for i in (1, 2, 3))
    stored = {row["key0"]: row["value1_0"] for row in synopsis.to_table().to_pylist()}
    assert stored["b"] is None and Hll.from_bytes(stored["a"]).estimate() == pytest.approx(1.0)


# -- its parts ----------------------------------------------------------------------------------------


def test_a_synopsis_holds_no_expired_sketches() -> None:
    synopsis = filled([(ts, "a", ts) for ts in range(1, 7)])
    synopsis.close(6)
    synopsis.expire(4)
    assert synopsis.rows == len(synopsis.to_table()["value1_0"].drop_null()) == 2


def test_windows_share_the_sketches_of_groups_without_news() -> None:
    """a has a row in each of the panes, b only in the youngest."""
    hll = SKETCHED[0]
    codes = np.array([0, 0, 0, 1], dtype=np.int32)
    sketches = np.array([hll_of([1]), hll_of([2]), hll_of([3]), hll_of([9])], dtype=object)
    rows = ScanRows(2, np.array([4, 2, 1, 0]), codes, {(hll, 0): sketches}.__getitem__, {})
    first, second, third = scan([[hll], [], [hll]], rows)
    assert (hll, 0) not in second.slots, "not asked for"
    (short,), (long,) = first.merged(hll, None), third.merged(hll, None)
    assert short[0] is sketches[2], "one sketch is kept as it came"
    assert short[1] is long[1] is sketches[3]
    assert Hll.from_bytes(long[0]).estimate() == pytest.approx(3.0, abs=1e-4)
    assert Hll.from_bytes(short[0]).estimate() == pytest.approx(1.0, abs=1e-4), "a copy of its own"


def test_each_row_is_merged_once_however_many_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    hll, merges = SKETCHED[0], []
    plain = Hll.merge
    monkeypatch.setattr(Hll, "merge", lambda self, data: (merges.append(data), plain(self, data)))
    panes = 10
    sketches = np.array([hll_of([n]) for n in range(panes)], dtype=object)
    cuts = np.arange(panes, -1, -1)
    rows = ScanRows(1, cuts, np.zeros(panes, dtype=np.int32), {(hll, 0): sketches}.__getitem__, {})
    assert len(list(scan([[hll]] * panes, rows))) == panes
    assert len(merges) == panes - 1


def test_numbers_and_sketches_in_one_accumulator() -> None:
    hll = SKETCHED[0]
    accumulator = Accumulator(3, [ROWS, hll], {})
    columns = {(ROWS, 0): np.array([4, 5, 6]), (hll, 0): np.array([hll_of([1]), None, hll_of([2])], dtype=object)}
    accumulator.fold([ROWS, hll], np.array([0, 1, 0], dtype=np.int32), columns.__getitem__)
    assert accumulator.stored(ROWS)[0].tolist() == [10, 5, 0]
    first, second, third = accumulator.stored(hll)[0]
    assert Hll.from_bytes(first).estimate() == pytest.approx(2.0, abs=1e-4) and second is third is None
    (picked,) = accumulator.merged(hll, np.array([2, 0]))
    assert picked[0] is None and picked[1] == first


def test_unions_serialise_only_what_has_changed() -> None:
    unions = Unions(Hll, 2)
    unions.add(np.array([0, 1, 0, 1], dtype=np.int32), np.array([hll_of([n]) for n in range(4)], dtype=object))
    before = unions.values()
    unions.add(np.array([1, 0], dtype=np.int32), np.array([hll_of([9]), None], dtype=object))
    after = unions.values()
    assert after[0] is before[0] and after[1] is not before[1]
    expected = merged(Hll, [hll_of([1]), hll_of([3]), hll_of([9])])
    assert expected is not None and Hll.from_bytes(after[1]).estimate() == Hll.from_bytes(expected).estimate()


@pytest.mark.parametrize("kind", SKETCHES)
def test_the_partial_of_a_sketch(kind: str) -> None:
    partial = Partial(kind, N, P)
    assert partial.combine is Combine.UNION and partial.dtypes == (np.object_,) and partial.identity() is None
    assert not partial.numeric and not partial.ranked and partial.signature == (kind, "n", "p")
    stored = partial.store([pa.array([BUILD[kind]([1]), BUILD[kind]([]), None], pa.binary())], None)
    assert [data is None for data in stored[0]] == [False, True, True]
    assert Partial("sum", N).numeric and not Partial("max", column("s", pa.string())).numeric
