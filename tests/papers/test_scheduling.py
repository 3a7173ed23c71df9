"""The scheduling benchmark drives the engine's own parts: it must go on running when they change."""

from __future__ import annotations

import pytest

from benchmarks.packet_queries import workload
from papers.scheduling.run import Measurement

pytestmark = pytest.mark.deep


@pytest.mark.parametrize(
    ("policy", "load"),
    [
        ("no-sharing", "low"),
        ("hybrid-late-pending", "low"),
        ("hybrid", "long"),
        pytest.param("hybrid", "cluster", marks=pytest.mark.spark),
    ],
)
def test_a_cell_is_measured(policy: str, load: str) -> None:
    work = workload(load, 40, 0)
    measurement = Measurement(policy, work, {}, work.longest + 6, clock="processor")
    assert measurement.demand(2) > 0
    tally = measurement.live(4, interval=0.02)
    assert tally.updates == 4 and tally.asked == (4 if work.questions else 0) and tally.answers > 0
    assert 0 < tally.executing <= tally.busy
    assert measurement.plan()["tasks"] > 0
