"""The prices of the cost model (sash/plan/costs.py) from the measured cells of `run`.

    python -m papers.update_patterns.run         measures, writes papers/out/update_patterns.json
    python -m papers.update_patterns.fit_costs   prints prices, and for every cell measured and expected times

Least squares of relative errors, without negative prices: a cell of a small window counts as much as one of a large.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import OUT
from papers.update_patterns.run import QUERIES, STRATEGIES, statistics
from sash.core.time import SECOND
from sash.plan.continuous import windows
from sash.plan.costs import PlanWork, work

ROUNDS = 100_000
Floats = NDArray[np.float64]


def amounts(cell: dict[str, Any], epoch: int) -> Floats:
    """The work of a cell per 1,000 tuples."""
    plan = QUERIES[cell["query"]](cell["window"])
    found = work(plan, statistics(cell["query"], epoch), STRATEGIES[cell["strategy"]][0])
    return np.array(found.amounts) * 1_000 / SECOND / len(windows(plan))


def fit(matrix: Floats) -> Floats:
    """x >= 0 that brings every row's product closest to 1: accelerated projected gradients."""
    scale = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    square, wanted = (matrix / scale).T @ (matrix / scale), (matrix / scale).sum(axis=0)
    step = 1 / np.linalg.eigvalsh(square)[-1]
    here = ahead = np.zeros(len(wanted))
    momentum = 1.0
    for _ in range(ROUNDS):
        there = np.maximum(0, ahead - step * (square @ ahead - wanted))
        faster = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = there + (momentum - 1) / faster * (there - here)
        here, momentum = there, faster
    return np.asarray(here / scale, dtype=np.float64)


def main() -> None:
    measured = json.loads((OUT / "update_patterns.json").read_text())
    # The model does not know of other numbers of partitions.
    cells = [cell for cell in measured["cells"] if cell["strategy"] != "upa50"]
    done = np.array([amounts(cell, measured["epoch"]) for cell in cells])
    micros = np.array([1_000 * cell["ms_per_1000"] for cell in cells])
    prices = fit(done / micros[:, None])
    print("PRICES =", PlanWork(*(float(f"{price:.2g}") for price in prices)))
    for cell, expected in zip(cells, done @ prices / 1_000, strict=True):
        print(f"{cell['query']} {cell['window']:>7} {cell['strategy']:>7}: {cell['ms_per_1000']:8.2f} {expected:8.2f}")


if __name__ == "__main__":
    main()
