"""The benchmark of archives runs, and its archives hold what its workload says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from papers.archive import run
from papers.archive.draw import LINES, MEASURES, PANELS, SPLITS, figure, points
from papers.archive.run import FLUCTUATING, LARGE, QUICK, WAYS, build, measure, migrate, partitioning
from papers.archive.workload import RATES, RECORD, Workload

pytestmark = pytest.mark.deep


@pytest.mark.parametrize("rate", RATES)
def test_ways_run(tmp_path: Path, rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nothing is timed here
    work = Workload(alive=300, rate=rate)
    build(tmp_path / "built", work)
    for way in ("Rebuild2x2", "NoRebuild3x3", "R-ins4", "D-ins1"):
        migrate(tmp_path / "built", tmp_path / way, way)
        cell = measure(tmp_path / way, work, settle=1, updates=2, cold=way.startswith("R"), scan_every=2)
        assert cell["stored"] > 200 * RECORD
        assert all(cell[name] > 0 for name in MEASURES)
        g, e, layout, _ = partitioning(way)
        assert cell["touched"] <= (g if layout == "wave" else g + e - 1)


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the archive that is built and the ways that are not measured."""
    done, arguments = list[str](), ["run", "--megabytes", "1", "--rates", "steady", "--directory", str(tmp_path)]

    def apart(work: Any, *given: Any) -> Any:
        done.append(work.__name__ if work is not migrate else given[-1])
        if work is measure and len(done) == 5:
            raise KeyboardInterrupt
        Path(given[1] if work is migrate else given[0]).mkdir(exist_ok=True)
        return {"update": 1.0}

    monkeypatch.setattr(run, "apart", apart)
    monkeypatch.setattr(run, "out_directory", lambda quick: tmp_path)
    monkeypatch.setattr(sys, "argv", [*arguments, "--ways", "Rebuild2x2", "R-ins4"])
    with pytest.raises(KeyboardInterrupt):
        run.main()
    assert done == ["build", "Rebuild2x2", "measure", "R-ins4", "measure"]
    assert not (tmp_path / "archive.json").exists()
    run.main()
    assert done[5:] == ["R-ins4", "measure"]
    cells = json.loads((tmp_path / "archive.json").read_text())["cells"]
    assert [cell["way"] for cell in cells] == ["Rebuild2x2", "R-ins4"]
    run.main()
    assert done[7:] == ["Rebuild2x2", "measure", "R-ins4", "measure"], "a run that has ended is measured again"


def test_every_way_has_a_name_and_a_line() -> None:
    cells = [{"way": way, "rate": "steady", "n": 1, "update": 1.0} for way in WAYS]
    drawn = sum(len(points(cells, line, "steady", "update")) for line in LINES)
    assert drawn == len(WAYS) - 2 and set(SPLITS) < set(WAYS), "those of figure 4.4 have no line"
    assert set(FLUCTUATING) < set(WAYS) and set(LARGE) < set(WAYS) and len(LARGE) == 16
    assert len(QUICK) == 14 and set(SPLITS) < set(QUICK)
    assert partitioning("NoRebuild2x8") == (2, 8, "round_robin", "no_rebuild_eager")


@pytest.mark.parametrize("name", PANELS)
def test_figures_are_drawn(tmp_path: Path, name: str) -> None:
    numbers = {"n": 4, "written": 5, **dict.fromkeys(MEASURES, 1.0), **{f"{each}_read": 7.0 for each in MEASURES}}
    cells = [{"way": way, "rate": rate, **numbers} for way in WAYS for rate in RATES]
    results = {"bytes": 20_000_000, "updates": 4, "cold": True, "cells": cells}
    assert figure(results, tmp_path / f"{name}.png").stat().st_size > 10_000
