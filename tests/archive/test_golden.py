"""The examples of the thesis, run as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from papers.archive.sizes import (
    alternating,
    chronological_variance,
    deviation,
    round_robin_variance,
    simulated_variance,
    sizes_after,
    steady,
)
from sash.archive import LAYOUTS, Archive, ArchiveLayout, RandomRounds, with_times

EXAMPLES = {
    each["id"].removeprefix("double_index."): each
    for each in json.loads((Path(__file__).parents[1] / "golden" / "double_index.json").read_text())["examples"]
}
BOTH = ["chronological", "round_robin"]


def example(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return EXAMPLES[name]["inputs"], EXAMPLES[name]["expected"]


def layout_of(name: str, inputs: dict[str, Any]) -> ArchiveLayout:
    return LAYOUTS[name](inputs["S"], inputs["D"], inputs["G"], inputs["E"])


def named(numbers: list[int]) -> list[str]:
    return [f"I{number + 1}" for number in numbers]


def insertion_ranges(layout: ArchiveLayout, now: int) -> list[list[tuple[int, int]]]:
    """For each sub-index the insertion times of what it may hold at `now`, as closed ranges."""
    times = np.arange(now - layout.lifetime, now) + 1
    rows = layout.place(times, times) // layout.e
    return [closed_ranges(times[rows == number // layout.e]) for number in range(layout.n)]


def expiry_ranges(layout: ArchiveLayout, now: int) -> list[list[tuple[int, int]]]:
    times = np.arange(now, now + layout.lifetime) + 1
    columns = layout.place(times, times) % layout.e
    return [closed_ranges(times[columns == number % layout.e]) for number in range(layout.n)]


def closed_ranges(times: NDArray[np.int64]) -> list[tuple[int, int]]:
    runs = np.split(times, np.flatnonzero(np.diff(times) > 1) + 1)
    return [(int(run[0]), int(run[-1])) for run in runs if run.size]


def ranges_at(layout: ArchiveLayout, now: int) -> dict[str, Any]:
    pairs = zip(insertion_ranges(layout, now), expiry_ranges(layout, now), strict=True)
    return {
        f"I{number + 1}": {"ins": [list(each) for each in ins], "exp": [list(each) for each in exp]}
        for number, (ins, exp) in enumerate(pairs)
    }


@pytest.mark.parametrize("name", BOTH)
def test_layouts_and_updates(name: str) -> None:
    inputs, expected = example(f"{name}.2x2")
    layout = layout_of(name, inputs)
    assert ranges_at(layout, 16) == expected["layout_16"]
    assert ranges_at(layout, 18) == expected["layout_18"]
    everything = set(range(layout.n))
    for update in expected["updates"]:
        now = update["time"]
        touched = layout.touched(now - layout.every, now)
        assert named(layout.inserts_into(now)) == update["insert"]
        assert named(layout.deletes_from(now)) == update["delete"]
        assert named(touched) == update["accessed"]
        assert named(sorted(everything - set(touched))) == update["not_accessed"]
    assert [each["time"] for each in expected["updates"]] == inputs["updates_at"]


def test_the_empty_sub_index_of_the_chronological_layout() -> None:
    inputs, expected = example("chronological.empty_I2")
    layout = layout_of("chronological", inputs)
    latest = insertion_ranges(layout, inputs["now"])[1][-1][1]
    earliest = expiry_ranges(layout, inputs["now"])[1][0][0]
    assert earliest - latest == expected["smallest_lifetime_in_I2"]
    assert (earliest - latest > inputs["S"]) == expected["I2_possible_lifetimes_over_16_only"]


def test_the_initial_stage_of_algorithm_1() -> None:
    inputs, expected = example("round_robin.algorithm1_initial")
    layout = layout_of("round_robin", inputs)
    for key, ranges in (
        ("insertion_ranges", insertion_ranges(layout, inputs["tau"])),
        ("expiration_ranges", expiry_ranges(layout, inputs["tau"])),
    ):
        for names, wanted in expected[key].items():
            for name in names.split(","):
                assert [list(each) for each in ranges[int(name[1:]) - 1]] == wanted


def test_how_many_sub_indices_an_update_accesses() -> None:
    inputs, expected = example("accesses")
    for number, (g, e) in enumerate(inputs["G_E"]):
        for name in BOTH:
            layout = LAYOUTS[name](48, 1, g, e)
            assert layout.n == expected["n"][number]
            for now in range(1, 60):
                assert len(layout.touched(now - 1, now)) == expected["accessed_per_update"][number]
                assert len(layout.inserts_into(now)) == expected["inserted_into"][number]
                assert len(layout.deletes_from(now)) == expected["deleted_from"][number]


def test_the_best_split() -> None:
    inputs, expected = example("optimal_split")
    for n, best, accesses in zip(inputs["n"], expected["best_G_E"], expected["accesses"], strict=True):
        splits = [(g, n // g) for g in range(2, n // 2 + 1) if n % g == 0]
        costs = {split: len(LAYOUTS["round_robin"](n, 1, *split).touched(0, 1)) for split in splits}
        assert costs[tuple(best)] == min(costs.values()) == accesses


@pytest.mark.parametrize("by", ["ins", "exp"])
def test_the_wave_index(by: str) -> None:
    inputs, expected = example("wave_index")
    n, every, lifetime = inputs["sub_indices"], inputs["D"], inputs["window"]
    layout = LAYOUTS["wave"](lifetime, every, *((n, 1) if by == "ins" else (1, n)))
    ranges = insertion_ranges if by == "ins" else expiry_ranges
    assert {f"I{i + 1}": list(*each) for i, each in enumerate(ranges(layout, inputs["now"]))} == expected[by]
    before, after = ranges(layout, 16)[0], ranges(layout, 18)[0]
    assert before[0][0] == expected["at_18"][f"deleted_{by}"][0] and after[0][0] == before[0][0] + 2
    assert list(after[-1]) == expected["at_18"][f"inserted_{by}"]


@pytest.mark.parametrize("by", ["ins", "exp"])
def test_a_wave_index_with_equal_lifetimes_changes_one_sub_index(tmp_path: Path, by: str) -> None:
    inputs, expected = example("wave_index")
    n = inputs["sub_indices"]
    archive = small_archive(tmp_path, "wave", *((n, 1) if by == "ins" else (1, n)))
    archive.update(of_times([(t, t + 16) for t in range(1, 17)]), 16)
    for now in inputs["updates_at"]:
        done = archive.update(of_times([(t, t + 16) for t in (now - 1, now)]), now)
        assert named(list(done.sub_indices)) == [expected["changed"][str(now)]]
        assert archive.facts().rows == 16
    archive.close()


def test_a_wave_index_with_variable_lifetimes_touches_all() -> None:
    inputs, expected = example("wave_index.variable_lifetimes")
    n, now = inputs["sub_indices"], inputs["update"]
    by_insertion, by_expiry = (LAYOUTS["wave"](16, 2, *side) for side in ((n, 1), (1, n)))
    wanted = expected["by_insertion_time"]
    assert len(by_insertion.inserts_into(now)) == wanted["insert"]
    assert len(by_insertion.deletes_from(now)) == wanted["scan_for_expired"]
    wanted = expected["by_expiration_time"]
    assert len(by_expiry.deletes_from(now)) == wanted["delete"]
    assert len(by_expiry.inserts_into(now)) == wanted["may_insert"]


@pytest.mark.parametrize("name", BOTH)
def test_records_in_sub_indices(tmp_path: Path, name: str) -> None:
    inputs, expected = example("records.2x2")
    archive = small_archive(tmp_path, name, 2, 2)
    archive.update(of_times(inputs["records_ins_exp"]), 16)
    assert sizes_of(archive) == expected[name]["sizes_at_16"]
    before = archive.facts().rows
    done = archive.update(of_times(inputs["new_at_18_ins_exp"]), 18)
    assert sizes_of(archive) == expected[name]["sizes_after_update_18"]
    assert before + done.rows - archive.facts().rows == expected["expired_at_18"]
    assert named(list(done.sub_indices)) == ["I1", "I2", "I3"]
    archive.close()


def test_variances_by_simulation_and_in_closed_form() -> None:
    _, expected = example("variance.simulation")
    for row in expected["rows"]:
        n, p = row["n"], row["p"]
        side = int(n**0.5)
        chronological, round_robin = (LAYOUTS[name](p, 1, side, side) for name in BOTH)
        assert simulated_variance(chronological) == pytest.approx(row["chronological"], abs=1e-3)
        assert chronological_variance(n, p) == pytest.approx(row["chronological"], abs=1e-3)
        assert simulated_variance(round_robin) == pytest.approx(row["round_robin"], abs=1e-3)
        assert round_robin_variance(n, p) == pytest.approx(row["round_robin"], abs=1e-3)
        assert (row["chronological"] > row["round_robin"]) == expected["chronological_greater"]


def test_sizes_of_the_appendix() -> None:
    inputs, expected = example("variance.figure_a")
    chronological, round_robin = (LAYOUTS[name](inputs["p"], 1, 2, 2) for name in BOTH)
    assert sizes_after(chronological, 0).tolist() == expected["chronological_sizes_initial"]
    assert sizes_after(round_robin, 0).tolist() == expected["round_robin_sizes_initial"]
    assert sizes_after(round_robin, 1).tolist() == expected["round_robin_sizes_after_one_update"]
    assert sizes_after(round_robin, 0).sum() == expected["total"]
    assert sizes_after(round_robin, 0).mean() == expected["mean"]


def small_archive(directory: Path, layout: str, g: int, e: int) -> Archive:
    schema = pa.schema({"key": pa.int64()})
    return Archive.create(directory, schema, "key", lifetime=16, every=2, g=g, e=e, layout=layout, strategy="rebuild")


def of_times(times: list[Any]) -> pa.Table:
    rows = pa.table({"key": pa.array(range(len(times)), pa.int64())})
    return with_times(rows, [ins for ins, _ in times], [exp for _, exp in times])


def sizes_of(archive: Archive) -> dict[str, int]:
    return {each.name: each.rows for each in archive.facts().sub_indices}


@pytest.mark.parametrize("partitions", [2, 3, 4, 7])
def test_a_random_round_has_every_partition_once(partitions: int) -> None:
    layout = RandomRounds(lifetime=40, every=1, g=partitions, e=partitions)
    slots = np.arange(-50 * partitions, 50 * partitions)
    rounds = layout.partition(slots, partitions).reshape(-1, partitions)
    assert (np.sort(rounds, axis=1) == np.arange(partitions)).all()
    firsts = np.bincount(rounds[:, 0], minlength=partitions)
    assert firsts.min() > 0.5 * firsts.mean()


@pytest.mark.parametrize("side", [2, 4])
def test_random_rounds_even_out_a_rate_that_alternates(side: int) -> None:
    """Section 4.3.3: round robin puts every burst into the same sub-indices."""
    turns, random = (LAYOUTS[name](36, 1, side, side) for name in ("round_robin", "random"))
    assert deviation(turns, alternating) > 0.6 and deviation(random, alternating) < 0.3
    assert deviation(random, steady) < deviation(turns, steady) + 0.02
