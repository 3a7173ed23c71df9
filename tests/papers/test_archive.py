"""The benchmark of archives runs, and its archives hold what its workload says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from papers.archive.draw import LINES, PANELS, points
from papers.archive.run import FLUCTUATING, WAYS, build, measure, migrate, partitioning
from papers.archive.workload import RATES, RECORD, Workload

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("rate", RATES)
def test_ways_run(tmp_path: Path, rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nothing is timed here
    work = Workload(alive=300, rate=rate)
    build(tmp_path / "built", work)
    for way in ("Rebuild2x2", "NoRebuild3x3", "R-ins4", "D-ins1"):
        migrate(tmp_path / "built", tmp_path / way, way)
        cell = measure(tmp_path / way, work, settle=1, updates=2)
        assert cell["stored"] > 200 * RECORD
        assert all(cell[name] > 0 for name, _ in PANELS)
        g, e, layout, _ = partitioning(way)
        assert cell["touched"] <= (g if layout == "wave" else g + e - 1)


def test_every_way_has_a_name_and_a_line() -> None:
    cells = [{"way": way, "rate": "steady", "n": 1, "update": 1.0} for way in WAYS]
    drawn = sum(len(points(cells, line, "steady", "update")) for line in LINES)
    assert drawn == len(WAYS) - 2, "those of figure 4.4 are printed only"
    assert set(FLUCTUATING) < set(WAYS)
    assert partitioning("NoRebuild2x8") == (2, 8, "round_robin", "no_rebuild_eager")
