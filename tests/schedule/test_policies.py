"""Policies by name, and what every policy keeps to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.schedule import POLICIES, POLICY_NAMES, LocalScheduler, SubGroupCost, policy
from sash.schedule.policies import Aggressive, Conservative, Hybrid, Late, LatePending, NoSharing

GROUPS = st.lists(
    st.builds(SubGroupCost, st.integers(1, 60), st.floats(0, 100), st.floats(0, 20), exactly=st.booleans()), max_size=12
)


def test_every_policy_has_its_name() -> None:
    assert {name: type(policy(name)) for name in POLICY_NAMES} == {
        "no-sharing": NoSharing,
        "aggressive": Aggressive,
        "conservative": Conservative,
        "conservative-late": Late,
        "conservative-late-pending": LatePending,
        "hybrid": Hybrid,
        "hybrid-late": Late,
        "hybrid-late-pending": LatePending,
    }
    assert tuple(POLICIES) == POLICY_NAMES


def test_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(SashError, match="unknown policy 'conservativ'; did you mean 'conservative'"):
        policy("conservativ")


@pytest.mark.parametrize("name", POLICY_NAMES)
@given(subgroups=GROUPS)
def test_a_period_is_at_most_the_slide_and_exactly_that_of_exactly_queries(
    name: str, subgroups: list[SubGroupCost]
) -> None:
    periods = policy(name).periods(subgroups)
    assert periods == policy(name).periods(subgroups)
    for each, period in zip(subgroups, periods, strict=True):
        assert period == each.slide if each.exactly else 0 < period <= each.slide


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_on_time_only_equal_deadlines_join(name: str) -> None:
    assert policy(name).joint_until(7, now=7) == (None if name == "no-sharing" else 7)


@pytest.mark.parametrize(
    ("name", "until"),
    [("no-sharing", None), ("aggressive", 4), ("hybrid", 4), ("hybrid-late", 6), ("hybrid-late-pending", 7)],
)
def test_who_joins_a_late_task(name: str, until: int | None) -> None:
    assert policy(name).joint_until(4, now=7) == until


def test_late_policies_have_the_periods_of_their_base() -> None:
    seven = [SubGroupCost(2, 9), SubGroupCost(3, 14), SubGroupCost(5, 29)]
    assert policy("conservative-late").periods(seven) == [2, 3, 5]
    assert policy("hybrid-late").periods(seven) == policy("hybrid-late-pending").periods(seven) == [2, 2, 5]


def test_aggressive_goes_to_an_exactly_slide_that_is_the_shortest() -> None:
    assert policy("aggressive").periods([SubGroupCost(4, 1), SubGroupCost(2, 1, exactly=True)]) == [2, 2]
    assert policy("aggressive").periods([SubGroupCost(2, 1), SubGroupCost(4, 1, exactly=True)]) == [2, 4]


def test_a_shorter_period_never_moves_a_deadline_back() -> None:
    scheduler = LocalScheduler(policy("aggressive"))
    scheduler.add("slow", "G1", 6, now=0)
    scheduler.add("exact", "G1", 6, exactly=True, now=0)
    scheduler.add("fast", "G1", 2, now=1)
    assert (scheduler.deadline_of("slow"), scheduler.deadline_of("exact")) == (2, 6)
    scheduler.remove("fast", now=1)
    assert (scheduler.task_of("slow").period, scheduler.deadline_of("slow")) == (6, 2)
