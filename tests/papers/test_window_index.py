"""The benchmark of window indexes runs, and checks what its indexes say; every figure has what it draws."""

from __future__ import annotations

import pytest

from papers.window_index.draw import PANELS
from papers.window_index.run import EXPERIMENTS, Experiment

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("distribution", ["uniform", "power law"])
def test_every_experiment_runs(distribution: str) -> None:
    experiment = Experiment(distribution, distinct=60, sub_windows=5, window=500, rounds=1)
    found = {kind: cells for name in EXPERIMENTS for kind, cells in getattr(experiment, name)().items()}
    for kind, measure, _, ways in PANELS:
        for way in ways:
            assert found[kind][way][measure] >= 0
