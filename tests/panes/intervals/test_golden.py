"""The papers' examples of shared synopses, run as they are."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.synopses.basic_intervals import BasicIntervals, window_interval
from papers.synopses.quantile_intervals import QuantileIntervals, quantile_rank
from sash.panes.intervals.interval import IntervalSynopsis
from sash.panes.intervals.landmark import landmark_decomposition
from sash.panes.intervals.running import RunningSynopsis
from sash.panes.intervals.synopsis import SharedSynopsis, decompose
from sash.panes.partials import Combine
from tests.panes.intervals.cases import (
    SYNOPSES,
    base_level,
    expiring_base_intervals,
    is_landmark_interval,
    new_base_intervals,
)

EXAMPLES = {
    example["id"].removeprefix("synopses."): example
    for example in json.loads((Path(__file__).parents[2] / "golden" / "synopses.json").read_text())["examples"]
}
Pairs = list[list[int]]


def example(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return EXAMPLES[name]["inputs"], EXAMPLES[name]["expected"]


def filled(name: str, capacity: int, combine: Combine, values: list[int]) -> SharedSynopsis:
    """One value per position; a landmark synopsis is laid out for all widths."""
    synopsis = SYNOPSES[name](capacity, 1, combine, np.int64, widths=range(1, capacity + 1))
    synopsis.extend(np.array(values, dtype=np.int64).reshape(-1, 1))
    return synopsis


def suffixes(synopsis: SharedSynopsis, widths: list[int]) -> list[int]:
    m = synopsis.length
    return synopsis.lookup_many([m - n + 1 for n in widths], [m] * len(widths)).ravel().tolist()


def relative(intervals: list[tuple[int, int]], now: int) -> Pairs:
    """Positions as the thesis writes them: (left, right) covers the time from left - 1 to right, relative to now."""
    return [[left - 1 - now, right - now] for left, right in intervals]


# -- the thesis' three synopses -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["basic", "interval", "landmark"])
def test_max_scan(name: str) -> None:
    given, want = example("max.scan")
    synopsis = filled(name, given["b"], Combine.MAX, given["oldest_to_youngest"])
    assert suffixes(synopsis, given["window_lengths"]) == want["before"]
    synopsis.update([given["new_value"]])
    assert suffixes(synopsis, given["window_lengths"]) == want["after"]
    if isinstance(synopsis, BasicIntervals):
        assert synopsis.values().ravel().tolist() == want["synopsis_after"]


def test_max_figure2() -> None:
    given, want = example("max.figure2")
    b = given["b"]
    synopsis = BasicIntervals(b, 1, Combine.MAX, np.int64)
    synopsis.extend([[want["removed"]["value"]], *[[0]] * (b - 1)])
    before = synopsis.stored()
    synopsis.update([want["added"]["value"]])
    after = synopsis.stored()
    assert relative([interval for interval in before if interval not in after], b) == [want["removed"]["interval"]]
    assert relative([interval for interval in after if interval not in before], b) == [want["added"]["interval"]]
    assert suffixes(synopsis, want["query_windows_answerable"]) == [want["added"]["value"]] * b
    scan = synopsis.probed(b + 1 - 8 + 1, b + 1)
    assert scan[: want["scan_for_8s_answers_6s_after_reading"]] == synopsis.probed(b + 1 - 6 + 1, b + 1)


def test_running_intervals() -> None:
    given, want = example("running.intervals")
    b, k, n = given["b"], 20, given["window"]
    synopsis = filled("running", b, Combine.ADD, list(range(k)))
    right_ends = [right - k for _, right in synopsis.stored()]
    assert right_ends == want["stored_right_ends"]
    assert len(right_ends) == want["stored_count"]
    plus, minus = synopsis.probed(k - n + 1, k)
    assert {"plus": plus[1] - k, "minus": minus[1] - k} == want["probe"]
    synopsis.update([1])
    updated = [right - k for _, right in synopsis.stored()]
    assert [r for r in right_ends if r not in updated] == [want["update"]["removed_right_end"]]
    assert [r for r in updated if r not in right_ends] == [want["update"]["added_right_end"]]
    assert len(suffixes(synopsis, want["windows_answerable"])) == b
    with pytest.raises(ValueError, match="not active"):
        suffixes(synopsis, [b + 1])


def test_running_sum() -> None:
    given, want = example("running.sum")
    synopsis = filled("running", given["b"], Combine.ADD, given["subwindow_sums_1_to_15"])
    assert isinstance(synopsis, RunningSynopsis)
    for expected in (want, want["after_update"]):
        k = synopsis.length
        values = {str(right - k): int(synopsis.running(right)[0]) for _, right in synopsis.stored()}
        assert values == expected["running_values"]
        assert suffixes(synopsis, list(range(1, given["b"] + 1))) == expected["sum_over_n"]
        synopsis.update([given["next_subwindow_sum"]])


def test_interval_probe_and_update() -> None:
    given, want = example("interval.probe_and_update")
    b, n = given["b"], given["window"]
    for k, row in zip(given["k"], want["rows"], strict=True):
        synopsis = filled("interval", b, Combine.MAX, [0] * k)
        before = synopsis.stored()
        probed = synopsis.probed(k - n + 1, k)
        synopsis.update([0])
        after = synopsis.stored()
        removed, added = (
            [interval for interval in these if interval not in those]
            for these, those in ((before, after), (after, before))
        )
        found = {
            "k": k,
            "stored": len(before),
            "probe_7s": relative(probed, k),
            "update_removed": relative(removed, k),
            "update_added": relative(added, k),
        }
        assert found == row
        assert len(probed) == want["probed"]
        assert (removed, added) == (expiring_base_intervals(k, b), new_base_intervals(k + 1, b))


def test_interval_worst_probe() -> None:
    given, want = example("interval.worst_probe")
    for b in given["b"]:
        probes = {(k, n): len(decompose(k - n + 1, k)) for k in range(b, 2 * b + 1) for n in range(1, b + 1)}
        worst = want["worst_case"][str(b)]
        assert max(probes.values()) == worst["worst"] == probes[tuple(worst["at_k_n"])]


@pytest.mark.parametrize("name", ["interval", "basic", "landmark"])
def test_interval_max_values(name: str) -> None:
    given, want = example("interval.max_values")
    lengths = list(range(1, given["b"] + 1))
    for combine in (Combine.MAX, Combine.MIN):
        for k in given["k"]:
            synopsis = filled(name, given["b"], combine, given["subwindow_max_1_to_16"][:k])
            assert suffixes(synopsis, lengths) == want[f"{combine}_over_n"][str(k)]


def test_basic_interval_probe_and_update() -> None:
    given, want = example("basic_interval.probe_and_update")
    b, n = given["b"], given["window"]
    synopsis = filled("basic", b, Combine.MAX, [0] * b)
    before = synopsis.stored()
    assert len(before) == want["stored"]
    probe = synopsis.probed(b - n + 1, b)
    assert relative(probe, b) == want["probe"]
    assert len(probe) == want["probed"]
    synopsis.update([0])
    after = synopsis.stored()
    assert relative([i for i in before if i not in after], b) == [want["update_removed"]]
    assert relative([i for i in after if i not in before], b) == [want["update_added"]]


@pytest.mark.parametrize("name", SYNOPSES)
def test_extend(name: str) -> None:
    given, want = example("extend")
    b, n = given["b_existing"], given["window_of_new_query"]
    existing, fresh = (
        SYNOPSES[name](size, 1, Combine.ADD, np.int64, widths=range(1, 9)) for size in (b, given["fresh_build_window"])
    )
    existing.extend([[1]] * 3 * b)
    existing.grow(n)
    for synopsis, needed in (
        (existing, want["updates_until_extended"]),
        (fresh, want["updates_until_built_from_scratch"]),
    ):
        updates = 0
        while synopsis.length - synopsis.oldest + 1 < n:
            synopsis.update([1])
            updates += 1
        assert updates == needed
        if name != "landmark":
            assert suffixes(synopsis, [n]) == [n]


# -- base-intervals, running intervals ----------------------------------------------------------------


def test_base_membership() -> None:
    given, want = example("base.membership")
    assert [base_level(*interval) for interval in given["intervals"]] == want["level"]


def test_base_decompose() -> None:
    given, want = example("base.decompose_1_43")
    assert [list(part) for part in decompose(*given["interval"])] == want["minimal"]
    assert [list(part) for part in decompose(2, 43)] == want["minimal_of_2_43"]
    given, want = example("base.decompose_cases")
    assert [[list(part) for part in decompose(*each)] for each in given["intervals"]] == want["minimal"]


def test_base_new_on_update() -> None:
    given, want = example("base.new_on_update")
    found = [[list(each) for each in new_base_intervals(m)] for m in given["m_plus_1"]]
    assert found == want["new_base_intervals"]


@pytest.mark.parametrize("name", SYNOPSES)
def test_lookups(name: str) -> None:
    given, want = example("bint_rint.lookups")
    for aggregate, combine in {
        "MAX": Combine.MAX,
        "MIN": Combine.MIN,
        "SUM": Combine.ADD,
        "COUNT": Combine.ADD,
    }.items():
        if SYNOPSES[name].refuse(combine, np.int64):
            continue
        for m in given["at_length_m"]:
            elements = [1] * m if aggregate == "COUNT" else given["elements"][:m]
            synopsis = filled(name, given["n_max"], combine, elements)
            intervals = [window_interval(m, *operator) for operator in given["operators_NL_NR"]]
            found = synopsis.lookup_many([left for left, _ in intervals], [right for _, right in intervals])
            assert found.ravel().tolist() == want[aggregate][str(m)]
            if isinstance(synopsis, IntervalSynopsis):
                assert len(synopsis.stored()) == want["active_base_intervals"][str(m)]
            if isinstance(synopsis, RunningSynopsis):
                assert len(synopsis.stored()) == want["active_running_intervals"]


@pytest.mark.parametrize("name", SYNOPSES)
def test_short_stream(name: str) -> None:
    """Windows that the beginning of the stream cuts short; the landmarks know the full widths only."""
    given, want = example("window.short_stream")
    elements, operators = given["elements"], given["operators_NL_NR"]
    widths = [left - right for left, right in operators]
    synopsis = SYNOPSES[name](9, 1, Combine.ADD, np.int64, widths)
    synopsis.extend([[element] for element in elements])
    for operator, contents in zip(operators, want["contents"], strict=True):
        left, right = window_interval(len(elements), *operator)
        assert elements[left - 1 : right] == contents
        assert synopsis.lookup(left, right) == sum(contents)


@pytest.mark.parametrize("name", SYNOPSES)
def test_time_based_windows(name: str) -> None:
    """A position is a pane of one unit of time, a group is a timestamp: each window counts its tuples."""
    given, want = example("window.time_based")
    stamps, now = given["timestamps"], given["now"]
    counts = np.array([[pane == ts for ts in stamps] for pane in range(1, now + 1)], dtype=np.int64)
    widths = [left - right for left, right in given["windows_TL_TR"]]
    synopsis = SYNOPSES[name](now, len(stamps), Combine.ADD, np.int64, widths)
    synopsis.extend(counts)
    for window, contents in zip(given["windows_TL_TR"], want["contents"], strict=True):
        found = synopsis.lookup(*window_interval(now, *window))
        assert [ts for ts, count in zip(stamps, found.tolist(), strict=True) for _ in range(count)] == contents


@pytest.mark.parametrize("name", SYNOPSES)
def test_avg_from_sum_count(name: str) -> None:
    given, want = example("avg.from_sum_count")
    rows = np.array([given["subwindow_sums"], given["subwindow_counts"]], dtype=np.int64).T
    synopsis = SYNOPSES[name](len(rows), 2, Combine.ADD, np.int64, given["n"])
    synopsis.extend(rows)
    m = synopsis.length
    found = synopsis.lookup_many([m - n + 1 for n in given["n"]], [m] * len(given["n"]))
    assert [Fraction(*row) for row in found.tolist()] == [Fraction(text) for text in want["avg_over_n"]]


# -- landmarks, quantiles, classes --------------------------------------------------------------------


def test_landmark_membership() -> None:
    given, want = example("landmark.membership")
    widths = given["w_min"], given["w_max"]
    assert [is_landmark_interval(*each, *widths) for each in given["intervals"]] == want["is_landmark_interval"]
    given, want = example("landmark.width_boundary")
    left, right = given["interval"]
    assert is_landmark_interval(left, right, given["w_min"], given["w_max"]) is want["by_definition_3_2"]
    assert right - left + 1 == want["width"]
    assert (right - left + 1 <= given["w_max"]) is want["by_prose_width_limit"]


def test_landmark_decompose() -> None:
    given, want = example("landmark.decompose")
    found = landmark_decomposition(*given["interval"], given["w_min"])
    assert [list(part) for part in found] == want["decomposition"]
    for parts in (want["decomposition"], *want["other_valid"]):
        assert all(is_landmark_interval(*part, given["w_min"], given["w_max"]) for part in parts)
    given, want = example("landmark.decompose_cases")
    found_each = [landmark_decomposition(*each, given["w_min"]) for each in given["intervals"]]
    assert [[list(part) for part in parts] for parts in found_each] == want["decomposition"]


def test_quantile_position() -> None:
    """Where the paper's position is 0, which does not exist, ours is 1."""
    given, want = example("quantile.position")
    elements = given["elements"]
    phis = [Fraction(str(phi)) for phi in given["phi"]]
    assert [quantile_rank(phi, len(elements)) for phi in phis] == [max(1, p) for p in want["position"]]
    synopsis = QuantileIntervals(len(elements), np.int64)
    synopsis.extend(elements)
    found = [int(synopsis.lookup(1, len(elements), phi)) for phi in phis]
    assert found == [min(elements) if value is None else value for value in want["value"]]


def test_aggregate_classes() -> None:
    """A running synopsis takes exactly the subtractable aggregates; AVG is one, by its SUM and its COUNT."""
    _, want = example("aggregate.classes")
    combines = {"SUM": Combine.ADD, "COUNT": Combine.ADD, "MAX": Combine.MAX, "MIN": Combine.MIN}
    taken = {name for name, combine in combines.items() if RunningSynopsis.refuse(combine, np.int64) is None}
    assert taken == set(want["subtractable_thesis"])
    assert set(combines) - taken == set(want["not_subtractable"])
    assert set(combines) == set(want["distributive"])
