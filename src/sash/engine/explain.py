"""EXPLAIN: the plan, the pane tables and synopses it would read, with whom, in which sub-group, at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sash.catalog import Catalog, Stream
from sash.core.time import format_duration
from sash.core.window import Window, pane_length
from sash.engine.compiler import CompiledQuery, compile_select
from sash.engine.filters import LEAST_GROUPS, LEAST_QUERIES, filterable, is_worth
from sash.language import Select, has_slide
from sash.plan.nodes import tree
from sash.scheduling import joint_cost, separate_cost
from sash.sharing.choose import Choice, Load, choose, lookup_cost
from sash.synopses.partials import Partial
from sash.synopses.readings import Reading, TableName

_SYNOPSES = {
    "basic": "basic interval, {panes} panes{history}, scanned from the youngest to the oldest",
    "running": "running (R-INT) over {panes} panes, two values per window",
    "interval": "interval (B-INT) over {panes} panes, about log2 of them per window",
    "landmark": "landmark (L-INT) over {panes} panes, two values per window",
}


def compile_for_explain(select: Select, catalog: Catalog, synopsis: str | None = None) -> CompiledQuery:
    """A periodic query, or a one-time one where no SLIDE is given."""
    return compile_select(select, catalog, one_time=not has_slide(select), synopsis=synopsis)


def explain(
    query: CompiledQuery,
    registered: list[CompiledQuery],
    stream: Stream,
    policy: str,
    unreduced: Mapping[str, float],
    loads: Mapping[TableName, Load],
) -> str:
    """`loads` tells how many groups the running pane tables have; without it a table is judged by its windows."""
    lines = ["Plan", *(f"  {'  ' * depth}{node.describe()}" for depth, node in tree(query.plan))]
    sites = [_Site(query, name, registered, loads) for name in dict.fromkeys(r.table for r in query.readings)]
    if query.slide is None:
        return "\n".join([*lines, *(_one_time_line(site, stream) for site in sites)])
    for site in sites:
        lines += _table_lines(site, stream)
        if site.name.label in unreduced:
            part = f"{unreduced[site.name.label]:.0%}"
            lines.append(f"  note: these groups are {part} of the tuples; panes save little")
    return "\n".join([*lines, *_schedule_lines(sites[0], policy)])


class _Site:
    """One pane table as a query would find it: who else reads it, how it would be cut, which synopsis it would have."""

    def __init__(
        self,
        query: CompiledQuery,
        name: TableName,
        registered: list[CompiledQuery],
        loads: Mapping[TableName, Load],
    ) -> None:
        self.query = query
        self.name = name
        self.own = [reading for reading in query.readings if reading.table == name]
        self.others = [(mate, other) for mate in registered for other in mate.readings if other.table == name]
        self.load = loads.get(name, Load(1))

    @property
    def mates(self) -> list[CompiledQuery]:
        """The registered queries that read this table."""
        return list({mate.name: mate for mate, _ in self.others}.values())

    @property
    def readings(self) -> list[Reading]:
        return [*(other for _, other in self.others), *self.own]

    @property
    def pane(self) -> int:
        """The pane's length; a query that reads several tables has them all cut alike."""
        if self.name.partition:
            return 1
        asking = [self.query] if self.query.slide is not None else []
        return pane_length([window for query in [*self.mates, *asking] for window in query.windows])

    @property
    def panes(self) -> int:
        windows = [reading.window for reading in self.readings]
        return max((window.reach // self.pane for window in windows if not window.unbounded), default=0)

    @property
    def choice(self) -> Choice:
        if self.query.synopsis is not None:
            return Choice(self.query.synopsis, "the query insists on it")
        if all(reading.window.unbounded for reading in self.own):
            return choose(self.own, self.load)
        free = [other for mate, other in self.others if mate.synopsis is None]
        return choose([*free, *self.own], replace(self.load, pane=self.pane))

    def extent(self, length: int) -> str:
        return f"{length} row{'s' * (length != 1)}" if self.name.by_rows else format_duration(length)


def _one_time_line(site: _Site, stream: Stream) -> str:
    """A question changes nothing: it reads the panes that registered queries have, or is refused."""
    stored = {partial for _, other in site.others for partial in other.partials}
    where = f"{stream.name} by {site.name.label}"
    if missing := [p for reading in site.own for p in reading.partials if p not in stored]:
        what = ", ".join(map(_partial_text, dict.fromkeys(missing)))
        return f"One-time: refused, no registered query over {where} keeps {what}"
    unbounded = any(other.window.unbounded for _, other in site.others)
    reach = max((other.window.reach for _, other in site.others if not other.window.unbounded), default=0)
    for window in (reading.window for reading in site.own):
        beyond = not unbounded if window.unbounded else window.reach > reach
        if beyond or window.resolution % site.pane:
            kept = f"{site.extent(reach)} in panes of {site.extent(site.pane)}"
            return f"One-time: refused, pane table {where} keeps {kept}"
    return f"One-time: answered from pane table {where}, panes of {site.extent(site.pane)}, as of the newest closed one"


def _table_lines(site: _Site, stream: Stream) -> list[str]:
    how = "one pass over the numbered tuples" if site.name.by_rows else "one pass on Spark"
    lines = [f"Pane table {stream.name} by {site.name.label}: panes of {site.extent(site.pane)}, {how}"]
    for partial in dict.fromkeys(partial for reading in site.own for partial in reading.partials):
        sharers = list(dict.fromkeys(mate.name for mate, other in site.others if partial in other.partials))
        state = f"shared with {_names(sharers)} (SS1)" if sharers else "new"
        lines.append(f"  {_partial_text(partial)}: {state}")
    return [*lines, *_synopsis_lines(site)]


def _synopsis_lines(site: _Site) -> list[str]:
    names, choice = [mate.name for mate in site.mates], site.choice
    if site.name.partition:
        return [f"Synopsis: single rows, the last {site.panes} of each partition"]
    merged = any(reading.window.unbounded for reading in site.readings)
    history = ", older ones merged for UNBOUNDED" if merged else ""
    lines = [f"Synopsis: {_SYNOPSES[choice.kind].format(panes=site.panes, history=history)}"]
    lines += [f"  because {choice.reason}"] if choice.reason else []
    together = "in one scan (CS2)" if choice.kind == "basic" else "looked up together where windows are equal (CS1)"
    lines.append(f"  read by {_names(names)} too, {together}" if names else "  its only reader")
    return [*lines, *_filter_lines(site)]


def _filter_lines(site: _Site) -> list[str]:
    """Whether HAVING is answered by a collective index, with whom it is shared, or what it would take."""
    mine = [finisher for finisher in site.query.finishers if finisher.readings[0].table == site.name]
    if not site.query.is_simple or (key := filterable(mine[0])) is None:
        return []
    sharers = [mate for mate in site.mates if mate.is_simple and filterable(mate.finishers[0]) == key]
    if site.query.synopsis not in (None, "running", "interval"):
        return [f"Having: evaluated for every group; {site.query.synopsis} panes give no values of single groups"]
    queries, groups = len(sharers) + 1, site.load.groups
    if not is_worth([site.query, *sharers], groups):
        few = f"{queries} of {LEAST_QUERIES} queries, {groups} of {LEAST_GROUPS} groups so far"
        return [f"Having: evaluated for every group; an index on {key} does not pay yet ({few})"]
    ending = "the groups it finds are tested exactly"
    if mine[0].query.approximate:
        ending = "its superset is the answer" if key.function in ("count", "sum") else "its answer is exact"
    company = f"shared with {_names([mate.name for mate in sharers])}" if sharers else "for this query alone"
    return [f"Substream filter: {key.name} on {key}, {company}; {ending}"]


def _partial_text(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    return text if partial.predicate is None else f"{text} where {partial.predicate}"


def _schedule_lines(site: _Site, policy: str) -> list[str]:
    query = site.query
    assert query.slide is not None
    same = [mate for mate in site.mates if (mate.slide, mate.exactly) == (query.slide, query.exactly)]
    period = f"{'EXACTLY ' if query.exactly else ''}{site.extent(query.slide)}"
    company = f"with {_names([mate.name for mate in same])}" if same else "alone in it"
    lines = [
        f"Schedule: policy {policy}, sub-group SLIDE {period}, {company}",
        f"Expected cost per execution: {_cost_text(site, same)}",
    ]
    longest = max(window.length for window in query.windows)
    if query.slide > longest and not site.name.partition:
        gap = site.extent(query.slide - longest)
        lines.append(f"Note: SLIDE is longer than WINDOW: {gap} of every {site.extent(query.slide)} are in no answer")
    return lines


def _cost_text(site: _Site, same: list[CompiledQuery]) -> str:
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


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
