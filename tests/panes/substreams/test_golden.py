"""The examples of substream filters, run as they are."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sash.panes.substreams import CollectiveIndex
from sash.panes.substreams.collective import Levels
from tests.panes.substreams.histories import of_tuples, stamp

EXAMPLES = {
    example["id"].removeprefix("substream_filter."): example
    for example in json.loads((Path(__file__).parents[2] / "golden" / "substream_filter.json").read_text())["examples"]
}
RUN_BELOW = {
    "example_4_1",
    "example_4_1.reconstruction",
    "levels",
    "stored_positions",
    "level_for_v",
    "level_for_small_v",
    "lookup.boundary",
    "lookup.more_than_v",
    "lookup.generated_p1",
    "levels_p2",
    "lookup.generated_p2",
    "epsilon_by_p",
    "range_below_v",
    "ci_sum",
    "range_notation",
}


def inputs(name: str) -> dict[str, Any]:
    return EXAMPLES[name]["inputs"]


def expected(name: str) -> dict[str, Any]:
    return EXAMPLES[name]["expected"]


def named(substreams: dict[str, list[int]], p: int) -> tuple[list[str], CollectiveIndex]:
    names = list(substreams)
    return names, of_tuples({names.index(name): times for name, times in substreams.items()}, p)


def in_window(times: list[int], tau: int, length: int) -> int:
    return sum(tau - length < time <= tau for time in times)


def answer(names: list[str], index: CollectiveIndex, tau: int, length: int, v: int) -> list[str]:
    return [names[code] for code in index.lookup_above(tau, length, v)]


def test_every_example_is_run() -> None:
    assert set(EXAMPLES) == RUN_BELOW


def test_example_4_1() -> None:
    """The timestamps of Figure 8 are lost; those of the reconstruction have every property that the text tells."""
    given, said = inputs("example_4_1"), expected("example_4_1")
    tau, length, v = (given["lookup"][name] for name in ("tau", "T", "v"))
    levels, (names, index) = Levels(1), named(inputs("example_4_1.reconstruction")["substreams"], 1)
    level = levels.above(v)
    assert [level, [levels.first(level), levels.last(level)]] == [said["level"], said["distances_in_level"]]
    assert tau - length + 1 == said["threshold"]
    for name, times in inputs("example_4_1.reconstruction")["substreams"].items():
        assert times[-11] == given["timestamp_of_11th_from_end"][name]
    assert stamp(index, names.index("k3"), level) == given["TSTAMP[k3,2]"]
    newer = [(stamp(index, code, level) or 0) >= said["threshold"] for code in range(3)]
    assert newer == [" >= " in relation for relation in said["relations"]]
    found = answer(names, index, tau, length, v)
    assert found == said["ci_count"]
    assert [name for name in found if name not in said["exact"]] == said["false_positives"]


def test_example_4_1_reconstruction() -> None:
    given, said = inputs("example_4_1.reconstruction"), expected("example_4_1.reconstruction")
    tau, length, v = (given["lookup"][name] for name in ("tau", "T", "v"))
    names, index = named(given["substreams"], 1)
    counts = {name: in_window(times, tau, length) for name, times in given["substreams"].items()}
    assert {name: times[-11] for name, times in given["substreams"].items()} == said["timestamp_of_11th_from_end"]
    assert counts == said["count_in_window"]
    for name, stamps in said["TSTAMP_by_level"].items():
        assert [stamp(index, names.index(name), level) for level in range(len(stamps))] == stamps
    assert [name for name in names if counts[name] > v] == said["exact"]
    assert answer(names, index, tau, length, v) == said["ci_count"]


def test_levels() -> None:
    m = inputs("levels")["m"]
    levels = [Levels(1).of(m - position + 1) for position in range(1, m + 1)]
    assert levels == expected("levels")["level_of_position_1_to_12"]


def test_stored_positions() -> None:
    """By the formula, and in the index: the unit at position i comes at time i."""
    levels = Levels(1)
    for m, positions in zip(
        inputs("stored_positions")["m"], expected("stored_positions")["position_by_level"], strict=True
    ):
        assert [levels.stored(m, level) for level in range(levels.of(m) + 1)] == positions
        index = of_tuples({0: list(range(1, m + 1))}, 1)
        assert [stamp(index, 0, level) for level in range(levels.of(m) + 1)] == positions


@pytest.mark.parametrize("name", ["level_for_v", "level_for_small_v"])
def test_the_level_for_a_threshold(name: str) -> None:
    assert [Levels(1).above(v) for v in inputs(name)["v"]] == expected(name)["level"]


def test_a_unit_that_has_just_left_the_window() -> None:
    given, said = inputs("lookup.boundary"), expected("lookup.boundary")
    tau, length, v = (given["lookup"][name] for name in ("tau", "T", "v"))
    index = of_tuples({0: given["substream"]}, 1)
    assert Levels(1).above(v) == said["level"]
    assert stamp(index, 0, said["level"]) == said["TSTAMP"] == tau - length
    assert in_window(given["substream"], tau, length) == said["count"]
    assert bool(len(index.lookup_above(tau, length, v))) is said["returned_with_gt_tau_minus_T"] is False


def test_more_than_v() -> None:
    """With p beyond v every level is one distance."""
    given, said = inputs("lookup.more_than_v"), expected("lookup.more_than_v")
    tau, length, v = (given["lookup"][name] for name in ("tau", "T", "v"))
    index = of_tuples({0: given["substream"]}, 16)
    count = in_window(given["substream"], tau, length)
    assert [count, count > v] == [said["count"], said["more_than_v"]]
    newer = [(stamp(index, 0, distance - 1) or 0) > tau - length for distance in (v, v + 1)]
    assert newer == [said["vth_from_end_in_window"], said["v_plus_1_th_from_end_in_window"]]
    # At most a candidate, as it should be for a superset, and never a certain one.
    assert not len(index.candidates_above(tau, length, v).certain)


@pytest.mark.parametrize("p", [1, 2])
def test_generated_lookups(p: int) -> None:
    substreams = inputs("lookup.generated_p1")["substreams"]
    names, index = named(substreams, p)
    levels = Levels(p)
    for row in expected(f"lookup.generated_p{p}")["rows"]:
        tau, length, v = row["tau"], row["T"], row["v"]
        counts = {name: in_window(times, tau, length) for name, times in substreams.items()}
        found = answer(names, index, tau, length, v)
        assert counts == row.get("counts", counts)
        assert [name for name in names if counts[name] > v] == row["exact"]
        assert levels.above(v) == row["level"]
        assert [levels.first(row["level"]), levels.last(row["level"])] == row.get(
            "level_distances", [2 ** row["level"], 2 ** (row["level"] + 1) - 1]
        )
        assert found == row[f"ci_count_p{p}"]
        assert set(row["exact"]) <= set(found)
        assert all(counts[name] > v * (1 - Levels(p).epsilon) for name in found)


def test_levels_p2() -> None:
    levels, said = Levels(inputs("levels_p2")["p"]), expected("levels_p2")
    several = range(inputs("levels_p2")["levels"])
    assert [[levels.first(level), levels.last(level)] for level in several] == said["distance_ranges"]
    assert [levels.size(level) for level in several] == said["sizes"]


def test_epsilon_by_p() -> None:
    epsilons = [Levels(p).epsilon for p in inputs("epsilon_by_p")["p"]]
    assert epsilons == [Fraction(text) for text in expected("epsilon_by_p")["epsilon"]]


def test_range_below_v() -> None:
    given, said = inputs("range_below_v"), expected("range_below_v")
    m, v = given["m"], given["v"]
    level = Levels(1).below(v)
    assert level == given["level_needed_for_superset"]
    assert Levels(1).stored(m, level) == said["stored_position"]
    assert m - said["stored_position"] + 1 == said["distance"]
    index = of_tuples({0: list(range(1, m + 1))}, 1)
    window = m - said["stored_position"]
    assert bool(len(index.lookup_below(m, window, v))) is said["returned"]
    assert window == said["count"] > Fraction(said["v_times_1_plus_epsilon"]) == v * (1 + Levels(1).epsilon)
    assert window < v * (1 + Levels(1).excess)


def test_ci_sum() -> None:
    given = inputs("ci_sum")["substreams_ts_value"]
    names, index = list(given), CollectiveIndex(1)
    for time, name, value in sorted((time, name, value) for name, rows in given.items() for time, value in rows):
        index.update(time, np.array([names.index(name)]), np.array([value]))
    for row, (tau, length, v) in zip(expected("ci_sum")["rows"], inputs("ci_sum")["lookups"], strict=True):
        sums = {name: sum(x for time, x in rows if tau - length < time) for name, rows in given.items()}
        found = answer(names, index, tau, length, v)
        assert [row["tau"], row["T"], row["v"], row["sums"]] == [tau, length, v, sums]
        assert [name for name in names if sums[name] > v] == row["exact"]
        assert found == row["ci_sum_p1"]
        assert set(row["exact"]) <= set(found) and all(4 * sums[name] > v for name in found)


def test_range_notation() -> None:
    """> is strict, and >= is there as well."""
    sums, said = inputs("range_notation")["sums"], expected("range_notation")
    index = CollectiveIndex()
    index.update(1, np.arange(len(sums)), np.array(sums))
    for comparison, name in ((">", "selected_strict"), (">=", "selected_by_prose")):
        exact = [total > 1000 if comparison == ">" else total >= 1000 for total in sums]
        assert exact == said[name]
        assert set(np.flatnonzero(exact)) <= set(index.lookup(1, 300, comparison, 1000).tolist())
