"""Policies by name, and that the interface carries the policies still to come."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sash.core.errors import SashError
from sash.core.time import Micros
from sash.scheduling import POLICIES, Conservative, LocalScheduler, Policy, policy
from tests.scheduling.examples import SUBGROUP_NAMES, drain, expected, inputs, seven_queries, simulate, with_d_values


class Planned(Conservative):
    """Periods chosen beforehand; `late` is algorithm 11 with d < 0 in line 9, `late_pending` as printed."""

    def __init__(self, periods: Mapping[Micros, Micros] | None = None, variant: str = "") -> None:
        self._periods = periods or {}
        self._variant = variant

    def periods(self, longest: Mapping[Micros, Micros]) -> Mapping[Micros, Micros]:
        return {slide: self._periods.get(slide, slide) for slide in longest}

    def joint_until(self, lowest: Micros, now: Micros) -> Micros | None:
        if lowest >= now or not self._variant:
            return lowest
        return now if self._variant == "late_pending" else now - 1


def test_conservative_is_built() -> None:
    assert isinstance(policy("conservative"), Conservative) and set(POLICIES) == {"conservative"}


@pytest.mark.parametrize("name", ["no-sharing", "aggressive", "hybrid", "hybrid-late-pending", "conservative-late"])
def test_a_policy_that_is_known_but_not_built(name: str) -> None:
    with pytest.raises(SashError) as error:
        policy(name)
    assert str(error.value) == f"not supported yet: policy '{name}'; available: conservative"


def test_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(SashError, match="unknown policy 'conservativ'; did you mean 'conservative'"):
        policy("conservativ")


@pytest.mark.parametrize("name", ["aggressive", "hybrid"])
def test_assigned_periods_synchronize_sub_groups(name: str) -> None:
    want = expected(f"seven.sequence.{name}")
    periods = {slide: inputs(f"seven.sequence.{name}")["periods"][label] for slide, label in SUBGROUP_NAMES.items()}
    scheduler = seven_queries(Planned(periods))
    ran = [
        [now, [SUBGROUP_NAMES[due.task.key.slide] for due in execution.tasks]]
        for now in range(1, 31)
        for execution in drain(scheduler, now)
    ]
    assert ran == want["executions"]


@pytest.mark.parametrize("variant", ["late", "late_pending"])
@pytest.mark.parametrize("name", ["overload.late", "overload.late_pending", "overload.figure_4d"])
def test_late_sharing(name: str, variant: str) -> None:
    d = inputs(name)["d"]
    scheduler, now = with_d_values(Planned(variant=variant), d, dict.fromkeys(d, "G1"))
    assert [list(each.members) for each in drain(scheduler, now)] == expected(name)[variant]["order"]


@pytest.mark.parametrize("variant", ["late", "late_pending"])
def test_late_trace(variant: str) -> None:
    given = inputs("trace.generated")
    scheduler = LocalScheduler(Planned(variant=variant))
    for name, task in given["tasks"].items():
        scheduler.add(name, str(task["group"]), task["period_n"] * given["s"], now=0)
    assert simulate(scheduler, given, until=48) == expected("trace.generated")[f"{variant}_gated"]


def test_a_shorter_period_never_moves_a_deadline_back() -> None:
    class Aggressive(Conservative):
        def periods(self, longest: Mapping[Micros, Micros]) -> Mapping[Micros, Micros]:
            return dict.fromkeys(longest, min(longest, default=1))

    chosen: Policy = Aggressive()
    scheduler = LocalScheduler(chosen)
    scheduler.add("slow", "G1", 6, now=0)
    scheduler.add("exact", "G1", 6, exactly=True, now=0)
    scheduler.add("fast", "G1", 2, now=1)
    assert (scheduler.deadline_of("slow"), scheduler.deadline_of("exact")) == (2, 6)
    scheduler.remove("fast", now=1)
    assert (scheduler.task_of("slow").period, scheduler.deadline_of("slow")) == (6, 2)
