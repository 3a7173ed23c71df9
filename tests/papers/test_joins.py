"""The benchmark of multi-way joins at a small size: its counts are those of the cost model."""

from __future__ import annotations

from collections import Counter

import pytest

from papers.joins import engine, join_kernels
from papers.joins.algorithms import ALGORITHMS
from papers.joins.draw import bars, lines, verdicts
from papers.joins.run import BUCKETS, INTERVAL, ORDERS, intervals, measure, orders, stream

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("buckets", [1, BUCKETS])
def test_tuples_probed_are_as_predicted(algorithm: str, buckets: int) -> None:
    given = [stream(20_000, seed) for seed in range(2)]
    cells = [measure(algorithm, order, INTERVAL, buckets, given) for order in ORDERS[:3]]
    for cell in cells:
        assert cell["probed"] == pytest.approx(cell["predicted"], rel=0.2)
    assert sorted(cells, key=lambda cell: cell["probed"]) == sorted(cells, key=lambda cell: cell["printed_model"])
    assert cells[0]["found"] == cells[1]["found"] == cells[2]["found"] > 0


def test_eager_and_lazy_joins_of_the_engine_have_as_many_results() -> None:
    cells = engine.compare(1)
    assert [(cell["inputs"], cell["evaluation"]) for cell in cells] == [
        (inputs, name) for inputs in (2, 3) for name in ("eager", "lazy")
    ]
    assert cells[0]["results"] == cells[1]["results"] > 0 and cells[2]["results"] == cells[3]["results"] > 0


def test_the_figures_have_their_parts() -> None:
    given = [stream(2_000, 0)]
    results = {"figure5_2": orders(given), "figure5_3": intervals(given, (1,)), "figure5_4": intervals(given, (2, 5))}
    assert len(bars(results)) == 1 + 2 * len(ALGORITHMS)
    assert len(lines(results["figure5_3"])) == 3 and len(lines(results["figure5_4"])) == 6
    assert verdicts(results)[1].startswith("orders rank by tuples probed")


def test_the_operator_and_arrow_give_the_same_pairs() -> None:
    case = join_kernels.Case.of(200, 40)
    ours, theirs = join_kernels.by_operator(case)(), join_kernels.by_arrow(case)()
    rows = ours.rows.append_column("_ts", [ours.ts]).append_column("_exp", [ours.exp])
    assert Counter(map(str, rows.to_pylist())) == Counter(map(str, theirs.to_pylist()))
    assert len(ours) > 100 and ours.ts.tolist() == theirs["_ts"].to_pylist()
    # Once more: the state that it began with is as it was.
    again = join_kernels.by_operator(case)()
    assert again.ts.tolist() == ours.ts.tolist()
    cells = join_kernels.compare(2, ((200, 40),))
    assert [cell["by"] for cell in cells] == ["numba", "arrow"] and cells[0]["results"] == cells[1]["results"]
