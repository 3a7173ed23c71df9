"""The scheduling part of EXPLAIN: group, sub-group, the period that the policy would assign, and what it saves."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from sash.core.window import Window
from sash.panes.readings import Reading, TableName
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.group_schedule import identity_of
from sash.runtime.settings import Settings
from sash.schedule import SubGroupCost, cost_per_time, joint_cost, separate_cost
from sash.sharing.choose import Load, SynopsisChoice, access_cost, lookup_cost, post_cost
from sash.sharing.groups import similar


class Site(Protocol):
    """A pane table as a query would find it (see `explain`)."""

    query: CompiledQuery
    name: TableName
    load: Load
    related: dict[str, str]

    @property
    def mates(self) -> list[CompiledQuery]: ...

    @property
    def pane(self) -> int: ...

    @property
    def choice(self) -> SynopsisChoice: ...

    def extent(self, length: int) -> str: ...

    def stored(self, query: CompiledQuery, reading: Reading) -> Reading: ...


def schedule_lines(site: Site, settings: Settings) -> list[str]:
    query, group = site.query, _group(site, site.query)
    assert query.slide is not None
    leaders = _leaders([*site.mates, query]) if settings.shares else {}
    similar_ones = [mate for mate in site.mates if _group(site, mate) == group and not _follows(mate, leaders)]
    same = [mate for mate in similar_ones if (mate.slide, mate.exactly) == (query.slide, query.exactly)]
    company = f"with {names([mate.name for mate in same])}" if same else "alone in it"
    period = f"{'EXACTLY ' if query.exactly else ''}{site.extent(query.slide)}"
    if (leader := _follows(query, leaders)) is not None:
        assert leader.slide is not None
        answered = f"answered with {leader.name}, every {site.extent(leader.slide)} (CS8)"
        return [f"Schedule: policy {settings.policy}, {answered}; should that end, every {period}"]
    lines = [
        f"Schedule: policy {settings.policy}, group {group}, sub-group SLIDE {period}, {company}",
        *_plan_lines(site, settings, [*similar_ones, query]),
        f"Expected cost per execution: {_cost_text(site, same)}",
    ]
    longest = max(window.length for window in query.windows)
    if query.slide > longest and not site.name.partition:
        gap = site.extent(query.slide - longest)
        lines.append(f"Note: SLIDE is longer than WINDOW: {gap} of every {site.extent(query.slide)} are in no answer")
    return lines


def _leaders(queries: Iterable[CompiledQuery]) -> dict[Hashable, CompiledQuery]:
    """Of identical queries the fastest."""
    found: dict[Hashable, CompiledQuery] = {}
    for query in sorted(queries, key=lambda each: (each.slide or 0, each.serial or math.inf)):
        found.setdefault(identity_of(query), query)
    return found


def _follows(query: CompiledQuery, leaders: Mapping[Hashable, CompiledQuery]) -> CompiledQuery | None:
    """The identical query that is faster, if there is one."""
    leader = leaders.get(identity_of(query), query)
    return None if leader is query else leader


def _group(site: Site, query: CompiledQuery) -> str:
    reading = next(reading for reading in query.readings if reading.table == site.name)
    return similar(site.name.label, site.stored(query, reading), query.synopsis or site.choice.kind, site.related)


def _plan_lines(site: Site, settings: Settings, members: Sequence[CompiledQuery]) -> list[str]:
    """How often the sub-groups of its group are executed, and what that costs against each at its own SLIDE."""
    subgroups = _subgroups(site, members)
    periods = settings.make_policy().periods(subgroups)
    own = cost_per_time(subgroups, [each.slide for each in subgroups])
    planned = cost_per_time(subgroups, periods)
    mine = next(i for i, each in enumerate(subgroups) if _is_of(each, site.query))
    if periods == [each.slide for each in subgroups]:
        alone = "the only sub-group of its group" if len(subgroups) == 1 else f"{len(subgroups)} sub-groups"
        return [f"  {alone}, {'' if len(subgroups) == 1 else 'each '}at its own SLIDE"]
    moved = ", ".join(
        f"SLIDE {site.extent(each.slide)} every {site.extent(period)}"
        for each, period in zip(subgroups, periods, strict=True)
        if each.slide != period
    )
    saved = f"{float(planned * site.pane):.3g} per pane, against {float(own * site.pane):.3g} with each at its SLIDE"
    return [f"  executed every {site.extent(periods[mine])}; moved: {moved}; cost {saved}"]


def _is_of(subgroup: SubGroupCost, query: CompiledQuery) -> bool:
    return (subgroup.slide, subgroup.exactly) == (query.slide, query.exactly)


def _subgroups(site: Site, members: Sequence[CompiledQuery]) -> list[SubGroupCost]:
    load = Load(site.pane, site.load.groups, site.load.rows_per_pane)
    parts: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for query in members:
        readings = [reading for reading in query.readings if reading.table == site.name]
        cost = (access_cost(readings, query.synopsis or site.choice.kind, load), post_cost(query.leaves, load))
        parts.setdefault((query.slide or 0, query.exactly), []).append(cost)
    return [
        SubGroupCost(slide, max(access for access, _ in costs), sum(post for _, post in costs), exactly)
        for (slide, exactly), costs in sorted(parts.items())
    ]


def _cost_text(site: Site, same: list[CompiledQuery]) -> str:
    own = [_cost_length(window) for window in site.query.windows]
    if site.choice.kind != "basic":
        probes = sum(lookup_cost(site.choice.kind, length // site.pane) for length in own)
        return f"about {probes:.0f} pane values per group"
    combined = joint_cost(own, site.pane)
    cost = f"{combined} combination{'s' * (combined != 1)} of pane values per group"
    if same:
        together = [_cost_length(window) for mate in [*same, site.query] for window in mate.windows]
        joint, separate = joint_cost(together, site.pane), separate_cost(together, site.pane)
        cost += f"; with its sub-group {joint} in all, {separate} one by one"
    return cost


def _cost_length(window: Window) -> int:
    return 0 if window.unbounded else window.length


def names(all: list[str]) -> str:
    return ", ".join(all[:5]) + (f" and {len(all) - 5} more" if len(all) > 5 else "")
