"""The benchmark of archives runs, and its archives hold what its workload says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from papers.archive.draw import LINES, MEASURES, PANELS, SPLITS, figure, points
from papers.archive.run import FLUCTUATING, LARGE, WAYS, build, measure, migrate, partitioning
from papers.archive.workload import RATES, RECORD, Workload

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("rate", RATES)
def test_ways_run(tmp_path: Path, rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nothing is timed here
    work = Workload(alive=300, rate=rate)
    build(tmp_path / "built", work)
    for way in ("Rebuild2x2", "NoRebuild3x3", "R-ins4", "D-ins1"):
        migrate(tmp_path / "built", tmp_path / way, way)
        cell = measure(tmp_path / way, work, settle=1, updates=2, cold=way.startswith("R"))
        assert cell["stored"] > 200 * RECORD
        assert all(cell[name] > 0 for name in MEASURES)
        g, e, layout, _ = partitioning(way)
        assert cell["touched"] <= (g if layout == "wave" else g + e - 1)


def test_every_way_has_a_name_and_a_line() -> None:
    cells = [{"way": way, "rate": "steady", "n": 1, "update": 1.0} for way in WAYS]
    drawn = sum(len(points(cells, line, "steady", "update")) for line in LINES)
    assert drawn == len(WAYS) - 2 and set(SPLITS) < set(WAYS), "those of figure 4.4 have no line"
    assert set(FLUCTUATING) < set(WAYS) and set(LARGE) < set(WAYS) and len(LARGE) == 16
    assert partitioning("NoRebuild2x8") == (2, 8, "round_robin", "no_rebuild_eager")


@pytest.mark.parametrize("name", PANELS)
def test_figures_are_drawn(tmp_path: Path, name: str) -> None:
    numbers = {"n": 4, "written": 5, **dict.fromkeys(MEASURES, 1.0), **{f"{each}_read": 7.0 for each in MEASURES}}
    cells = [{"way": way, "rate": rate, **numbers} for way in WAYS for rate in RATES]
    results = {"bytes": 20_000_000, "updates": 4, "cold": True, "cells": cells}
    assert figure(results, tmp_path / f"{name}.png").stat().st_size > 10_000
