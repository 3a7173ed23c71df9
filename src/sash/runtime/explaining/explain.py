"""EXPLAIN: the plan, its pane tables and synopses, the queries that share them, its sub-group, and the cost.

EXPLAIN prints the decisions of the runtime. For a query that is not registered, `tried` registers it in a copy of the
runtime, by the same code, and EXPLAIN reads the decisions there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from sash.catalog import CLUSTER, Stream
from sash.core.time import format_duration
from sash.core.window import LandmarkWindow, Window
from sash.panes.filters import FilterKey
from sash.panes.partials import Partial
from sash.panes.readings import TableName
from sash.plan.nodes import tree
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.active import ActiveQuery, BoundReading
from sash.runtime.periodic.group_filters import LEAST_GROUPS, LEAST_QUERIES, filterable, is_worth
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import StreamRuntime, newest_common
from sash.runtime.route import RowsBehind, rows_behind
from sash.runtime.stored.stored_indexes import COLLECTED
from sash.schedule import cost_per_time, joint_cost, separate_cost
from sash.sharing.choose import CLUSTER as CLUSTER_PANES
from sash.sharing.choose import SynopsisChoice, lookup_cost
from sash.sharing.descriptions import SCANNED
from sash.sharing.groups import synopsis_kind

_SYNOPSES = {
    "basic": "basic interval, {panes} panes{history}, scanned from the youngest to the oldest",
    "running": "running (R-INT) over {panes} panes, two values per window",
    "interval": "interval (B-INT) over {panes} panes, about log2 of them per window",
    "landmark": "landmark (L-INT) over {panes} panes, two values per window",
    "cluster": "basic interval, {panes} panes{history}, in the cluster: one job reads all windows that are due",
}


def tried(
    runtime: StreamRuntime,
    registered: Sequence[CompiledQuery],
    query: CompiledQuery,
    lock: AbstractContextManager[object] | None = None,
) -> StreamRuntime:
    """A copy of the groups that a query reads, with all their registered queries and the query itself.

    A one-time question is not registered. `lock` is the one that micro-batches need.
    """
    tables = _linked(query, registered)
    with lock or nullcontext():
        trial = runtime.trial(tables)
    wanted = {each.name: each for each in registered if not tables.isdisjoint(_tables(each))}
    gone = [name for name, active in trial.active.items() if active.compiled is not wanted.get(name)]
    come = [each for name, each in wanted.items() if name in gone or name not in trial.active]
    is_new = query.slide is not None and wanted.get(query.name) is not query
    trial.change(gone, [*come, query] if is_new else come)
    if query.slide is not None:
        schedule_all(trial)
    return trial


def schedule_all(trial: StreamRuntime) -> None:
    """Schedule the queries of a stream that has not begun, as if it began now."""
    for group in trial.groups.values():
        if group.clock.origin is None:
            group.clock.begin(0)
            for active in group.queries.values():
                group.schedule.add(active, 0)


def _tables(query: CompiledQuery) -> set[TableName]:
    return {table for reading in query.readings for table in (reading.table, reading.lists) if table is not None}


def _linked(query: CompiledQuery, registered: Iterable[CompiledQuery]) -> set[TableName]:
    """The tables that a query reads, and those that other queries read together with them."""
    found, several = _tables(query), [_tables(each) for each in registered if len(each.readings) > 1]
    while more := [tables for tables in several if not tables.isdisjoint(found) and not tables <= found]:
        found = found.union(*more)
    return found


def explain(query: CompiledQuery, runtime: StreamRuntime, way: RowsBehind | None = None) -> str:
    """`runtime` has the query, or would be asked the question.

    `way` is the route of a one-time question; without it EXPLAIN assumes that the stream has no index.
    """
    lines = ["Plan", *(f"  {'  ' * depth}{node.describe()}" for depth, node in tree(query.plan))]
    stream = runtime.stream
    if stream.implicit:
        lines.append(f"Time: of arrival, one for each micro-batch, in the column {stream.timestamp}")
    if stream.shed is not None:
        lines.append(_shed_line(stream))
    if query.slide is None:
        return "\n".join([*lines, *_one_time_lines(query, runtime, way or rows_behind(query, stream))])
    active = runtime.active[query.name]
    home = runtime.groups[active.home.name]
    for site in [_Site(active, runtime.groups[group.name]) for group in active.groups]:
        lines += _table_lines(site, runtime)
        if runtime.flies and site.choice.kind == CLUSTER_PANES:
            lines.append("  live, slides do not wait for the job")
        if site.group.label in runtime.unreduced:
            part = f"{runtime.unreduced[site.group.label]:.0%}"
            lines.append(f"  note: these groups are {part} of the tuples; panes save little")
    return "\n".join([*lines, *_rule_lines(active, home), *_schedule_lines(active, home)])


def _shed_line(stream: Stream) -> str:
    others = "other aggregates are of the kept tuples" if stream.shed_approx else "averages are of the kept tuples"
    first = "" if stream.shed_first is None else f", first of those where {stream.shed_first}"
    kept = f"one tuple in {stream.shed} is kept{first}"
    return f"Overload: {kept}; SUM and COUNT are scaled and have WITH BOUNDS, {others}"


class _Site:
    """One pane table for a query: its own readings, and those of the others."""

    def __init__(self, active: ActiveQuery, group: PaneGroup) -> None:
        self.active, self.group = active, group
        readers = group.members.readers
        self.own = [bound for (name, _), bound in readers.items() if name == active.name]
        self.others = [(name, bound) for (name, _), bound in readers.items() if name != active.name]

    @cached_property
    def mates(self) -> list[str]:
        """The other queries that read this table."""
        return list(dict.fromkeys(name for name, _ in self.others))

    @cached_property
    def panes(self) -> int:
        windows = [bound.reading.window for bound in self.group.members.readers.values()]
        return max((window.reach // self.group.clock.length for window in windows if not window.unbounded), default=0)

    @cached_property
    def choice(self) -> SynopsisChoice:
        """The synopsis that answers the query here, and why."""
        group, query = self.group, self.active.compiled
        if group.list_panes is not None and query.synopsis in (None, CLUSTER_PANES):
            return SynopsisChoice(group.choices.place(self.own[0].stored, group.panes).kind, "")
        if query.synopsis is not None and (group.name.keys or query.synopsis != CLUSTER_PANES):
            return SynopsisChoice(query.synopsis, "the query asks for it")
        if group.in_cluster:
            return SynopsisChoice(CLUSTER_PANES, "it has many groups, or a query says STORED IN CLUSTER")
        if group.wants_cluster:
            insisting = [name for name, bound in self.others if bound.synopsis == CLUSTER_PANES]
            return SynopsisChoice(CLUSTER_PANES, f"{_names(list(dict.fromkeys(insisting)))} says STORED IN CLUSTER")
        kind, chosen = group.choices.place(self.own[0].stored, group.panes).kind, group.choices.choice
        return chosen if kind == chosen.kind else SynopsisChoice(kind, "no other synopsis answers such windows")


def _one_time_lines(query: CompiledQuery, runtime: StreamRuntime, way: RowsBehind) -> list[str]:
    """A question changes nothing: it reads the panes that registered queries have, or stored rows, or is refused."""
    names = list(dict.fromkeys(reading.table for reading in query.readings))
    lacks = [_what_panes_lack(query, name, runtime) for name in names]
    if way.refusal is None and not any(lacks) and _begin_too_late(query, runtime):
        lacks = ["panes begin later than its window" for _ in names]
    lines = [
        _from_panes(runtime.groups[name], runtime.stream) if lack is None else _without_panes(runtime.stream, way, lack)
        for name, lack in zip(names, lacks, strict=True)
    ]
    if way.refusal is not None or not any(lacks):
        return lines
    lines += _sliding_lines(way)
    if way.index is not None:
        lines.append(f"Instead of the rows: the {way.index.kind} index on {way.index.column}")
    return lines


def _begin_too_late(query: CompiledQuery, runtime: StreamRuntime) -> bool:
    """Whether an answer from panes would not be complete: stored rows may reach further back."""
    active = runtime.covers(query)
    as_of = None if active is None else newest_common(active)
    return active is not None and as_of is not None and not active.is_complete(as_of)


def _what_panes_lack(query: CompiledQuery, name: TableName, runtime: StreamRuntime) -> str | None:
    group, where = runtime.groups.get(name), f"{runtime.stream.name} by {name.label}"
    asked = [(number, reading) for number, reading in enumerate(query.readings) if reading.table == name]
    lacking = [reading for number, reading in asked if group is None or group.offer(query, number) is None]
    stored: Container[Partial] = () if group is None else group.members.partials
    if missing := [p for reading in lacking for p in reading.partials if p not in stored]:
        return f"no registered query over {where} keeps {', '.join(map(_partial_text, dict.fromkeys(missing)))}"
    assert group is not None
    bounded = [bound.reading.window for bound in group.members.readers.values() if not bound.reading.window.unbounded]
    reach, pane = max((window.reach for window in bounded), default=0), group.clock.length
    for window in (reading.window for _, reading in asked):
        beyond = not group.members.keeps_history if window.unbounded else window.reach > reach
        if isinstance(window, LandmarkWindow) and group.clock.has_closed:
            beyond = not group.keeps(window, group.clock.position)
        if beyond or window.resolution % pane:
            return f"pane table {where} keeps {_extent(group, reach)} in panes of {_extent(group, pane)}"
    return None


def _from_panes(group: PaneGroup, stream: Stream) -> str:
    table = f"pane table {stream.name} by {group.label}, panes of {_extent(group, group.clock.length)}"
    return f"One-time: answered from {table}, as of the newest closed pane"


def _without_panes(stream: Stream, way: RowsBehind, reason: str) -> str:
    if way.refusal is not None:
        return f"One-time: refused, {reason}"
    assert stream.keep is not None
    kept = f"KEEP {format_duration(stream.keep)}{' STORED IN CLUSTER' if stream.keep_in == CLUSTER else ''}"
    how = "sub-window by sub-window" if way.why_spark is None else "by a pass on Spark"
    return f"One-time: {how} over the stored rows ({kept}), because {reason}"


def _sliding_lines(way: RowsBehind) -> list[str]:
    """What becomes of a question over stored rows while the window slides; under serial and ws nothing does."""
    if way.why_spark is not None:
        return [f"  not sub-window by sub-window: {way.why_spark}", f"  {COLLECTED}"]
    if way.irreversible is not None:
        again = f"restarted, because {way.irreversible} cannot be taken back"
        return [f"  if a sub-window that was read leaves the window: {again}"]
    return ["  if a sub-window that was read leaves the window: taken back"]


def _table_lines(site: _Site, runtime: StreamRuntime) -> list[str]:
    group, stream = site.group, runtime.stream
    how = "one pass over the numbered tuples" if group.by_rows else "one pass on Spark"
    pane = _extent(group, group.clock.length)
    lines = [f"Pane table {stream.name} by {group.label}: panes of {pane}, {how}"]
    for bound in site.own:
        lines += _partial_lines(site, bound)
        if bound.reading.sub_window is not None:
            lines += _list_lines(site, bound, bound.reading.sub_window, runtime)
    # Several readings of a query may need the same partials.
    return [*dict.fromkeys(lines), *_synopsis_lines(site)]


def _list_lines(site: _Site, bound: BoundReading, sub_window: int, runtime: StreamRuntime) -> list[str]:
    """FREQUENT: how many pairs it keeps, where the counts of open sub-windows wait, and delta."""
    window, group, panes = bound.reading.window, site.group, site.group.list_panes
    if panes is None:
        why = runtime.why_counted(site.active.compiled) or "other queries read them as far back"
        return [f"  the counts of all items are kept, not short lists: {why}"]
    each = " for each group" if panes.lists.group else ""
    away = group.in_cluster or group.wants_cluster or (runtime.may_move and group.belongs_there)
    waits = "in files in the cluster" if away else "in this process"
    pairs = panes.lists.k * (window.length // sub_window)
    lines = [f"  at most {pairs} pairs in the window{each}; the counts of an open sub-window wait {waits}"]
    if group.clock.has_closed:
        delta = panes.delta(bound.reading.partials[0], window, group.clock.position)
        lines.append(f"  delta is {delta} now: an item on no list occurs that often at most, a reported one more often")
    return lines


def _partial_lines(site: _Site, bound: BoundReading) -> list[str]:
    """The partials that a reading needs of every pane: shared with others, its own, or combined from others'."""
    partials, sharing = bound.reading.partials, bound.sharing
    if bound.covered is not None:
        parts = " + ".join(f"({each})" for each in bound.covered.added)
        less = "".join(f" - ({each})" for each in bound.covered.subtracted)
        kinds = ", ".join(map(_partial_text, partials))
        return [f"  {kinds}: not stored, combined as {parts}{less} (SS4): {sharing.reason}"]
    lines = []
    for partial in partials:
        sharers = list(dict.fromkeys(name for name, other in site.others if partial in other.reading.partials))
        lines.append(f"  {_partial_text(partial)}: {f'shared with {_names(sharers)}' if sharers else 'new'}")
    if sharing.possible:
        lines.append(f"  stored, although its terms are stored (SS4): {sharing.reason}")
    return lines


def _synopsis_lines(site: _Site) -> list[str]:
    choice = site.choice
    if site.group.name.partition:
        return [f"Synopsis: single rows, the last {site.panes} of each partition"]
    merged = ["UNBOUNDED"] if site.group.members.keeps_everything else []
    merged += sorted(window.extent for window in site.group.members.landmarks)
    history = f", older ones merged for {_names(merged)}" if merged else ""
    lines = [f"Synopsis: {_SYNOPSES[choice.kind].format(panes=site.panes, history=history)}"]
    lines += [f"  because {choice.reason}"] if choice.reason else []
    scanned = synopsis_kind(choice.kind) in SCANNED
    together = "in one scan" if scanned else "looked up together where windows are equal"
    if (lengths := len(site.own[0].reading.window.parts)) > 1:
        how = "in one scan as far as the longest" if scanned else "looked up one by one"
        lines.append(f"  {lengths} lengths, {how}")
    lines.append(f"  read by {_names(site.mates)} too, {together}" if site.mates else "  its only reader")
    return [*lines, *_filter_lines(site)]


def _filter_lines(site: _Site) -> list[str]:
    """Whether a collective index answers HAVING, who shares the index, or what is missing for one."""
    query, group = site.active.compiled, site.group
    if not query.is_simple or (key := filterable(query.finishers[0])) is None:
        return []
    if query.synopsis not in (None, "running", "interval"):
        return [f"Having: evaluated for every group; {query.synopsis} panes give no values of single groups"]
    sharers = [each for each in group.queries.values() if each is not site.active and _filters_by(each, key)]
    groups = group.choices.load.groups
    if not is_worth([query, *(each.compiled for each in sharers)], groups):
        few = f"{len(sharers) + 1} of {LEAST_QUERIES} queries, {groups} of {LEAST_GROUPS} groups so far"
        return [f"Having: evaluated for every group; an index on {key} does not pay yet ({few})"]
    ending = "the groups it finds are tested exactly"
    if query.finishers[0].query.approximate:
        ending = "its superset is the answer" if key.function in ("count", "sum") else "its answer is exact"
    company = f"shared with {_names([each.name for each in sharers])}" if sharers else "for this query alone"
    return [f"Substream filter: {key.name} on {key}, {company}; {ending}"]


def _filters_by(active: ActiveQuery, key: FilterKey) -> bool:
    return active.compiled.is_simple and filterable(active.compiled.finishers[0]) == key


def _partial_text(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    text = text if partial.predicate is None else f"{text} where {partial.predicate}"
    return text if partial.user is None else f"{text}, lifted by Python on the executors"


def _rule_lines(active: ActiveQuery, home: PaneGroup) -> list[str]:
    """What the sharing rules decided: about state, computation and output."""
    lines = [
        f"  state of {text}: {decision}" for bound in active.readings for text, decision in bound.sharing.decisions
    ]
    names = [name for name, _ in home.members.readers]
    elders = list(home.members.readers.values())[: names.index(active.name)]
    bounded = [bound.reading.window for bound in elders if not bound.reading.window.unbounded]
    kept, needed = (max((w.reach for w in windows), default=0) for windows in (bounded, active.compiled.windows))
    if 0 < kept < needed and not any(window.unbounded for window in active.compiled.windows):
        lines.append(f"  panes are kept longer for it: {_extent(home, needed)} instead of {_extent(home, kept)}")
    if (together := home.schedule.together(active)) is not None:
        lines.append(f"  computed together: {together}")
    if (output := home.schedule.output(active)) is not None:
        lines.append(f"  output: {output}")
    return ["Rules", *dict.fromkeys(lines)] if lines else []


# -- the schedule --------------------------------------------------------------------------------------


def _extent(group: PaneGroup, length: int) -> str:
    """A length of time, or a number of rows."""
    return f"{length} row{'s' * (length != 1)}" if group.by_rows else format_duration(length)


def _schedule_lines(active: ActiveQuery, home: PaneGroup) -> list[str]:
    """`home` is the group in which the query is scheduled, or a trial of it."""
    query = active.compiled
    policy, leader = f"policy {home.settings.policy}", home.schedule.leader(active)
    assert query.slide is not None
    period = f"{'EXACTLY ' if query.exactly else ''}{_extent(home, query.slide)}"
    if leader is not active:
        assert leader.compiled.slide is not None
        answered = f"answered with {leader.name}, every {_extent(home, leader.compiled.slide)} (CS8)"
        return [f"Schedule: {policy}, {answered}; without {leader.name}, every {period}"]
    task = home.schedule.local.task_of(active.name)
    same = [name for name in task.members if name != active.name]
    company = f"with {_names(same)}" if same else "alone in it"
    lines = [
        f"Schedule: {policy}, group {task.group}, sub-group SLIDE {period}, {company}",
        *_plan_lines(home, task.group, task.period),
        f"Expected cost per execution: {_cost_text(active, home, [home.schedule.queries[name] for name in same])}",
    ]
    longest = max(window.length for window in query.windows)
    if query.slide > longest and not home.name.partition:
        gap = _extent(home, query.slide - longest)
        lines.append(f"Note: SLIDE is longer than WINDOW: {gap} of every {_extent(home, query.slide)} are in no answer")
    return lines


def _plan_lines(home: PaneGroup, group: str, mine: int) -> list[str]:
    """How often the sub-groups of a group are executed, and the cost against each at its own SLIDE."""
    plan = home.schedule.local.plan_of(group)
    subgroups, periods = [cost for cost, _ in plan], [period for _, period in plan]
    slides = [each.slide for each in subgroups]
    if periods == slides:
        alone = "the only sub-group of its group" if len(plan) == 1 else f"{len(plan)} sub-groups"
        return [f"  {alone}, {'' if len(plan) == 1 else 'each '}at its own SLIDE"]
    moved = ", ".join(
        f"SLIDE {_extent(home, cost.slide)} every {_extent(home, period)}"
        for cost, period in plan
        if cost.slide != period
    )
    own, planned = (float(cost_per_time(subgroups, each) * home.clock.length) for each in (slides, periods))
    saved = f"{planned:.3g} per pane, against {own:.3g} with each at its SLIDE"
    return [f"  executed every {_extent(home, mine)}; moved: {moved}; cost {saved}"]


def _cost_text(active: ActiveQuery, home: PaneGroup, same: Sequence[ActiveQuery]) -> str:
    own = [_cost_length(window) for window in active.compiled.windows]
    kind, pane = home.choices.place(active.readings[0].stored, home.panes).kind, home.clock.length
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


def _names(all: list[str]) -> str:
    return ", ".join(all[:5]) + (f" and {len(all) - 5} more" if len(all) > 5 else "")
