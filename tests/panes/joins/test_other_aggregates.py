"""Sketches and aggregates that need every value, over joins: what holds rows of any partial holds theirs."""

from __future__ import annotations

from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from sash.core.window import TimeWindow
from sash.panes.answers import Finisher
from sash.panes.joins import Band, JoinHistory, JoinRows, WindowPair, join_refusal, join_synopsis
from sash.panes.joins.bands import JoinPanes
from sash.panes.partials import Partial
from sash.plan.expressions import Field
from sash.plan.nodes import AggregateCall, Key, Output
from sash.plan.periodic import PeriodicAggregate
from tests.panes.joins.cases import Result, joined, lift_results, pane_end
from tests.panes.raw import K, N, query, row
from tests.panes.sketches.build import hll_of

LENGTH, NOW = 10, 90
PAIRS = [WindowPair(first, second) for first in (1, 4, 7) for second in (2, 4, 9)]
RESULTS: list[Result] = [
    (i, max(1, i + (7 * i) % 61 - 30), row(k="xy"[i % 2], n=(i * i) % 13)) for i in range(1, NOW + 1)
]


def band_of(pairs: list[WindowPair]) -> tuple[Band, int]:
    band = Band.of(pairs)
    return band, band.capacity(pairs)


@pytest.mark.parametrize("kind", ["basic", "interval", "running", "table"])
def test_distinct_values_and_medians(kind: str) -> None:
    """Counts of single values are sums: every kind of synopsis keeps them."""
    calls = (
        AggregateCall("d", "count_distinct", N, pa.int64()),
        AggregateCall("m", "median", N, pa.float64()),
    )
    fields = [Field("k", pa.string()), Field("d", pa.int64()), Field("m", pa.float64())]
    asked = PeriodicAggregate(
        stream="join",
        window=TimeWindow(LENGTH),
        predicate=None,
        keys=(Key("k", K),),
        calls=calls,
        having=None,
        order=(),
        limit=None,
        outputs=tuple(Output(field.name, field) for field in fields),
    )
    finisher = Finisher(asked)
    (reading,) = finisher.readings
    band, capacity = (Band(-8, 6), 9) if kind == "table" else band_of(PAIRS)
    types = [key.type for key in reading.table.keys]
    synopsis: JoinHistory = join_synopsis(kind, types, reading.partials, LENGTH, band, capacity)
    synopsis.absorb(lift_results(RESULTS, LENGTH, reading.table.keys, reading.partials))
    synopsis.close(NOW)
    for pair, view in synopsis.views(dict.fromkeys(PAIRS, reading.partials)):
        values: dict[str, list[int]] = {}
        for each in joined(RESULTS, pair, LENGTH, NOW):
            values.setdefault(each["k"], []).append(each["n"])
        expected = {key: [len(set(found)), float(median(found))] for key, found in values.items()}
        table = finisher.answer(view, {})
        assert {each["k"]: [each["d"], each["m"]] for each in table.to_pylist()} == expected, pair


def test_sketches() -> None:
    """HyperLogLog counts so few values exactly; sketches of intervals are merged as they are scanned."""
    asked = query((K,), [("approx_count_distinct", N)], TimeWindow(LENGTH))
    finisher = Finisher(asked)
    rows, sketch = Partial("rows"), Partial("hll", N)
    assert set(finisher.partials) == {rows, sketch}
    assert all(join_refusal(kind, sketch) for kind in ("interval", "running", "table"))
    band, capacity = band_of(PAIRS)
    synopsis = JoinPanes([K.type], finisher.partials, LENGTH, band, capacity)
    synopsis.absorb(_sketched(rows, sketch))
    synopsis.close(NOW)
    again = JoinPanes([K.type], finisher.partials, LENGTH, band, capacity)
    again.load(synopsis.to_table(), synopsis.now)
    for each in (synopsis, again):
        for pair, view in each.views(dict.fromkeys(PAIRS, finisher.partials)):
            values: dict[str, set[int]] = {}
            for result in joined(RESULTS, pair, LENGTH, NOW):
                values.setdefault(result["k"], set()).add(result["n"])
            found = {tuple(line.values()) for line in finisher.answer(view, {}).to_pylist()}
            assert found == {(key, len(distinct)) for key, distinct in values.items()}


def _sketched(rows: Partial, sketch: Partial) -> JoinRows:
    cells: dict[tuple[int, int, str], list[int]] = {}
    for first, second, each in RESULTS:
        cells.setdefault((pane_end(first, LENGTH), pane_end(second, LENGTH), each["k"]), []).append(each["n"])
    sketches = np.full(len(cells), None, dtype=np.object_)
    sketches[:] = [hll_of(values) for values in cells.values()]
    first, second = (np.array([cell[i] for cell in cells], dtype=np.int64) for i in (0, 1))
    counts = np.array([len(values) for values in cells.values()], dtype=np.int64)
    return JoinRows(
        LENGTH, first, second, [pa.array([key for *_, key in cells])], {(rows, 0): counts, (sketch, 0): sketches}
    )
