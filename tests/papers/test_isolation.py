"""The isolation benchmark drives threads and the simulation: both must go on running, and show what needs no clock."""

from __future__ import annotations

from typing import Any

import pytest

from papers.isolation.draw import verdicts
from papers.isolation.flights import FlightRun
from papers.isolation.run import summary
from papers.isolation.simulation import Costs, Simulation
from papers.isolation.threads import ThreadedRun
from papers.isolation.workload import workload
from sash.isolation.shared_window import LEVELS

pytestmark = pytest.mark.deep

SLOTS, SLIDES = 12, 40
# A scan of the whole window takes nine tenths of the time between two slides, and answers and questions a little.
COSTS = Costs(scan=0.075, question=0.002, answers=0.01, slide=0.001, step=dict.fromkeys(LEVELS, 0.0))


def simulated(level: str, once: bool = False) -> dict[str, Any]:
    run = Simulation(level, workload(1, SLOTS, 40, seed=1), SLOTS, 1, 1.0, COSTS).run(SLIDES, once)
    return summary(run, SLIDES, 1.0, SLIDES)


@pytest.mark.parametrize("level", LEVELS)
def test_threads_run(level: str) -> None:
    run = ThreadedRun(level, workload(1, SLOTS, 40, seed=1), SLOTS, 1, second=0.005, slides=SLIDES)
    executions = run.run(with_questions=True)
    assert executions and run.processor_seconds > 0
    assert all(each.end > each.start and each.staleness > 0 for each in executions)
    assert level in ("lws", "ttu") or not any(each.aborts for each in executions)


@pytest.mark.spark
@pytest.mark.parametrize("level", ["serial", "lws", "ttu"])
def test_flights_run(spark: Any, level: str) -> None:
    executions = FlightRun(level, slots=4, t=1, second=0.5, seconds=3, seed=1).run(spark, with_questions=True)
    assert any(each.once for each in executions) and all(each.staleness > 0 for each in executions)
    assert level == "lws" or not any(each.aborts for each in executions)


@pytest.mark.parametrize("once", [False, True])
def test_what_the_thesis_shows_holds_without_noise(once: bool) -> None:
    found = {level: simulated(level, once) for level in LEVELS}
    assert found["ttu"]["aborted"] == 0 < found["lws"]["aborted"]
    assert all(found["ttu"]["staleness"] < found[other]["staleness"] for other in ("serial", "ws", "lws"))
    assert found["ttu"]["throughput"] >= 0.95 * found["serial"]["throughput"] > found["lws"]["throughput"]
    if once:
        assert found["ttu"]["once_response"] < found["serial"]["once_response"]


def test_verdicts_compare_within_repetitions() -> None:
    base = {"way": "simulation", "slots": SLOTS, "repetition": 0}
    cells = [
        {**base, "level": level, "t": t, "once": once, **simulated(level, once)}
        for level in LEVELS
        for t, once in ((1, False), (5, True))
    ]
    said = verdicts({"cells": cells})
    assert any(line.startswith("simulation: ttu aborted at most 0%") for line in said)
