"""The optimiser picks the strategy that was measured to be faster (docs/benchmarks.md); the benchmark runs."""

from __future__ import annotations

import pytest

from papers.update_patterns.draw import PANELS, line
from papers.update_patterns.run import QUERIES, STRATEGIES, WINDOWS, expected, measure, statistics
from sash.plan.choice import choose

EPOCH = 500


@pytest.mark.parametrize("length", WINDOWS)
@pytest.mark.parametrize("query", QUERIES)
def test_the_optimiser_picks_what_was_measured_to_be_faster(query: str, length: int) -> None:
    picked = choose(QUERIES[query](length), statistics(query, EPOCH))
    assert picked.strategy == ("nt" if query == "3" and length == 200_000 else "upa")


@pytest.mark.parametrize("query", ["1a", "1b", "2a", "2b", "4a", "4b"])
def test_negative_tuples_are_dearer_everywhere_else(query: str) -> None:
    for length in WINDOWS:
        assert expected(query, "nt", length, EPOCH) > expected(query, "upa10", length, EPOCH)


# Milliseconds per 1,000 tuples at a window of 200,000, from the table.
MEASURED = {
    ("1a", "upa10"): 1.9,
    ("1a", "nt"): 15.1,
    ("2a", "upa10"): 1.6,
    ("2a", "nt"): 25.8,
    ("3", "upa10"): 74.8,
    ("3", "nt"): 62.6,
    ("3", "direct"): 80.6,
    ("4a", "upa10"): 16.1,
    ("4a", "nt"): 31.7,
    ("4b", "upa10"): 13.6,
    ("4b", "nt"): 30.9,
}


@pytest.mark.parametrize("cell", MEASURED)
def test_expected_times_are_about_those_that_were_measured(cell: tuple[str, str]) -> None:
    assert 0.5 < expected(*cell, 200_000, EPOCH) / MEASURED[cell] < 2


@pytest.mark.deep
def test_a_cell_is_measured() -> None:
    for strategy in ("upa10", "nt", "direct"):
        found = measure("3", strategy, 100, 20, 2)
        assert found.tuples == 80 and found.space > 0


@pytest.mark.deep
def test_every_figure_has_its_lines() -> None:
    cells = [
        {"query": query, "window": length, "strategy": strategy, "ms_per_1000": 1.0, "space": length}
        for query in QUERIES
        for length in WINDOWS
        for strategy in STRATEGIES
    ]
    for _, _, measured, lines in PANELS:
        for _, query, strategy in lines:
            assert [length for length, _ in line(cells, query, strategy, measured)] == sorted(WINDOWS)
    assert {query for _, _, _, lines in PANELS for _, query, _ in lines} == set(QUERIES)
    assert [figure for figure, *_ in PANELS] == [f"3.{number}" for number in range(8, 16)]
