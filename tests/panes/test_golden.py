"""The papers' examples of the basic interval synopsis, run as they are."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sash.core.window import TimeWindow
from sash.panes.accumulator import SCANS
from sash.panes.answers import Finisher
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.partials import Combine, Partial
from tests.panes.raw import N, Tuple, answer, filled, lift_rows, query, row

EXAMPLES = {
    example["id"].removeprefix("synopses."): example
    for example in json.loads((Path(__file__).parents[1] / "golden" / "synopses.json").read_text())["examples"]
}
MAX = Partial("max", N)


def inputs(name: str) -> dict[str, Any]:
    return EXAMPLES[name]["inputs"]


def expected(name: str) -> dict[str, Any]:
    return EXAMPLES[name]["expected"]


def of_maxima(values: list[int]) -> BasicIntervalSynopsis:
    """One value per pane (i - 1, i]."""
    synopsis = filled(query((), [("max", N)], TimeWindow(1)), [])
    for end, value in enumerate(values, 1):
        update(synopsis, end, value)
    return synopsis


def update(synopsis: BasicIntervalSynopsis, end: int, value: int) -> None:
    synopsis.absorb(lift_rows([(end, row(n=value))], 1, [], list(synopsis.since)))
    synopsis.close(end)


def maxima(synopsis: BasicIntervalSynopsis, lengths: list[int], now: int) -> list[int]:
    finisher = Finisher(query((), [("max", N)], TimeWindow(1)))
    views = synopsis.scan({TimeWindow(length): finisher.partials for length in lengths}, now)
    return [finisher.answer(view, {}).column(0)[0].as_py() for view in views]


def stored(synopsis: BasicIntervalSynopsis) -> list[int]:
    values: list[int] = synopsis.to_table()[f"value{list(synopsis.since).index(MAX)}_0"].to_pylist()
    return values


def spans(synopsis: BasicIntervalSynopsis, now: int) -> list[list[int]]:
    table = synopsis.to_table()
    return [
        [start - now, end - now] for start, end in zip(*(table[c].to_pylist() for c in ("start", "end")), strict=True)
    ]


def test_max_scan() -> None:
    given, want = inputs("max.scan"), expected("max.scan")
    b = given["b"]
    synopsis = of_maxima(given["oldest_to_youngest"])
    assert maxima(synopsis, given["window_lengths"], b) == want["before"]
    update(synopsis, b + 1, given["new_value"])
    synopsis.expire(1)
    assert stored(synopsis) == want["synopsis_after"]
    assert maxima(synopsis, given["window_lengths"], b + 1) == want["after"]


def spied_cuts(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Where each scan's windows begin, in rows; here a pane is one row."""
    seen: list[list[int]] = []
    kernel = SCANS[Combine.MAX]

    def spy(codes: Any, values: Any, cuts: Any, out: Any) -> None:
        seen.append(cuts.tolist())
        kernel(codes, values, cuts, out)

    monkeypatch.setitem(SCANS, Combine.MAX, spy)
    return seen


def test_max_poster_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, want = inputs("max.poster_scan")["windows"], expected("max.poster_scan")
    synopsis = of_maxima(list(range(10)))
    seen = spied_cuts(monkeypatch)
    needs = {TimeWindow(length): list(synopsis.since) for length in windows.values()}
    names = {length: name for name, length in windows.items()}
    order = [[names[view.window.length], view.window.length] for view in synopsis.scan(needs, 10)]
    assert order == want["answered_in_order"]
    (cuts,) = seen
    assert [-step for step in np.diff(cuts).tolist()] == want["intervals_read_between"]
    assert cuts[0] - cuts[-1] - 1 == want["comparisons"]


def test_basic_interval_probe_and_update(monkeypatch: pytest.MonkeyPatch) -> None:
    given, want = inputs("basic_interval.probe_and_update"), expected("basic_interval.probe_and_update")
    b = given["b"]
    synopsis = of_maxima(list(range(b)))
    before = spans(synopsis, b)
    assert len(before) == want["stored"]
    seen = spied_cuts(monkeypatch)
    maxima(synopsis, [given["window"]], b)
    ((newest, oldest),) = seen
    assert newest - oldest == want["probed"]
    assert before[::-1][: newest - oldest] == want["probe"]
    update(synopsis, b + 1, 0)
    synopsis.expire(1)
    after = spans(synopsis, b)
    assert [span for span in before if span not in after] == [want["update_removed"]]
    assert [span for span in after if span not in before] == [want["update_added"]]


def test_avg_from_sum_count() -> None:
    given, want = inputs("avg.from_sum_count"), expected("avg.from_sum_count")
    tuples: list[Tuple] = []
    for end, (total, count) in enumerate(zip(given["subwindow_sums"], given["subwindow_counts"], strict=True), 1):
        tuples += [(end, row(n=total if i == 0 else 0)) for i in range(count)]
    now = len(given["subwindow_sums"])
    asked = [query((), [("avg", N)], TimeWindow(n)) for n in given["n"]]
    synopsis = filled(asked[0], tuples)
    synopsis.close(now)
    averages = [answer(synopsis, each, now)[0]["avg(n)"] for each in asked]
    assert averages == [float(Fraction(text)) for text in want["avg_over_n"]]


def test_time_based_windows() -> None:
    given, want = inputs("window.time_based"), expected("window.time_based")
    for (left, right), contents in zip(given["windows_TL_TR"], want["contents"], strict=True):
        asked = query((N,), [("count", None)], TimeWindow(left - right, lag=right))
        synopsis = filled(asked, [(ts, row(n=ts)) for ts in given["timestamps"]])
        synopsis.close(given["now"])
        found = {each["n"]: each["count(*)"] for each in answer(synopsis, asked, given["now"])}
        assert sorted(ts for ts, count in found.items() for _ in range(count)) == contents


def updates_until(synopsis: BasicIntervalSynopsis, now: int, window: int) -> int:
    """How many updates it takes until nothing is missing in a window, when nothing younger than it is deleted."""
    updates = 0
    while synopsis.panes < window:
        updates += 1
        update(synopsis, now + updates, 0)
        synopsis.expire(now + updates - window)
    return updates


def test_extend() -> None:
    given, want = inputs("extend"), expected("extend")
    b, window = given["b_existing"], given["window_of_new_query"]
    existing = of_maxima([0] * b)
    for end in range(b + 1, 3 * b):
        update(existing, end, 0)
        existing.expire(end - b)
    assert existing.panes == b
    assert updates_until(existing, 3 * b - 1, window) == want["updates_until_extended"]
    scratch = of_maxima([])
    assert updates_until(scratch, 3 * b - 1, given["fresh_build_window"]) == want["updates_until_built_from_scratch"]
