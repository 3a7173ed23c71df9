"""The scheduling part of EXPLAIN: group, sub-group, the period that the policy has assigned, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.time import format_duration
from sash.core.window import Window
from sash.runtime.periodic.active import ActiveQuery
from sash.runtime.periodic.pane_group import PaneGroup
from sash.schedule import cost_per_time, joint_cost, separate_cost
from sash.sharing.choose import lookup_cost


def extent(group: PaneGroup, length: int) -> str:
    """A length of time, or a number of rows."""
    return f"{length} row{'s' * (length != 1)}" if group.by_rows else format_duration(length)


def schedule_lines(active: ActiveQuery, home: PaneGroup) -> list[str]:
    """`home` is the group in which the query is scheduled, or a trial of it."""
    query = active.compiled
    policy, leader = f"policy {home.settings.policy}", home.schedule.leader(active)
    assert query.slide is not None
    period = f"{'EXACTLY ' if query.exactly else ''}{extent(home, query.slide)}"
    if leader is not active:
        assert leader.compiled.slide is not None
        answered = f"answered with {leader.name}, every {extent(home, leader.compiled.slide)} (CS8)"
        return [f"Schedule: {policy}, {answered}; should that end, every {period}"]
    task = home.schedule.local.task_of(active.name)
    same = [name for name in task.members if name != active.name]
    company = f"with {names(same)}" if same else "alone in it"
    lines = [
        f"Schedule: {policy}, group {task.group}, sub-group SLIDE {period}, {company}",
        *_plan_lines(home, task.group, task.period),
        f"Expected cost per execution: {_cost_text(active, home, [home.schedule.queries[name] for name in same])}",
    ]
    longest = max(window.length for window in query.windows)
    if query.slide > longest and not home.name.partition:
        gap = extent(home, query.slide - longest)
        lines.append(f"Note: SLIDE is longer than WINDOW: {gap} of every {extent(home, query.slide)} are in no answer")
    return lines


def _plan_lines(home: PaneGroup, group: str, mine: int) -> list[str]:
    """How often the sub-groups of a group are executed, and what that costs against each at its own SLIDE."""
    plan = home.schedule.local.plan_of(group)
    subgroups, periods = [cost for cost, _ in plan], [period for _, period in plan]
    slides = [each.slide for each in subgroups]
    if periods == slides:
        alone = "the only sub-group of its group" if len(plan) == 1 else f"{len(plan)} sub-groups"
        return [f"  {alone}, {'' if len(plan) == 1 else 'each '}at its own SLIDE"]
    moved = ", ".join(
        f"SLIDE {extent(home, cost.slide)} every {extent(home, period)}"
        for cost, period in plan
        if cost.slide != period
    )
    own, planned = (float(cost_per_time(subgroups, each) * home.clock.length) for each in (slides, periods))
    saved = f"{planned:.3g} per pane, against {own:.3g} with each at its SLIDE"
    return [f"  executed every {extent(home, mine)}; moved: {moved}; cost {saved}"]


def _cost_text(active: ActiveQuery, home: PaneGroup, same: Sequence[ActiveQuery]) -> str:
    own = [_cost_length(window) for window in active.compiled.windows]
    kind, pane = home.choices.kind_for(active.readings[0].stored, home.panes), home.clock.length
    if kind != "basic":
        probes = sum(lookup_cost(kind, length // pane) for length in own)
        return f"about {probes:.0f} pane values per group"
    combined = joint_cost(own, pane)
    cost = f"{combined} combination{'s' * (combined != 1)} of pane values per group"
    if same:
        together = [_cost_length(window) for mate in [*same, active] for window in mate.compiled.windows]
        joint, separate = joint_cost(together, pane), separate_cost(together, pane)
        cost += f"; with its sub-group {joint} in all, {separate} one by one"
    return cost


def _cost_length(window: Window) -> int:
    return 0 if window.unbounded else window.length


def names(all: list[str]) -> str:
    return ", ".join(all[:5]) + (f" and {len(all) - 5} more" if len(all) > 5 else "")
