"""EXPLAIN: the plan, its pane tables and synopses, the queries that share them, its sub-group, and the cost.

EXPLAIN prints the decisions of the runtime. For a query that is not registered, `tried` registers it in a copy of the
runtime, by the same code, and EXPLAIN reads the decisions there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property

from sash.catalog import CLUSTER, Catalog, Stream
from sash.core.time import format_duration
from sash.core.window import SessionWindow, Window
from sash.panes.aggregates.holistic import Collect
from sash.panes.counters import COUNTERS, ROWS, CounterKey
from sash.panes.partials import Partial
from sash.panes.readers import CoarserReader, ItemReader, holistic_of
from sash.panes.readings import TableName
from sash.plan.nodes import tree
from sash.runtime.compiler import CompiledQuery
from sash.runtime.explaining.explanation import Explanation, Section, time_sections
from sash.runtime.periodic.active import ActiveQuery, BoundReading
from sash.runtime.periodic.onetime import PaneLack, PaneOffer, offered
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.route import RouteDecision, RowsBehind, SelectDecision, rows_behind
from sash.runtime.stored.stored_indexes import COLLECTED
from sash.schedule import cost_per_time, joint_cost, separate_cost
from sash.sharing.choose import CLUSTER as CLUSTER_PANES
from sash.sharing.choose import SynopsisChoice, lookup_cost
from sash.sharing.rules import SCANNED
from sash.sql import Select, complete

_SYNOPSES = {
    "basic": "basic interval, {panes} panes{history}, scanned from the youngest to the oldest",
    "running": "running (R-INT) over {panes} panes, two values per window",
    "interval": "interval (B-INT) over {panes} panes, about log2 of them per window",
    "landmark": "landmark (L-INT) over {panes} panes, two values per window",
    "cluster": "basic interval, {panes} panes{history}, in the cluster: one job reads all windows that are due",
}

_WISHED = "the query asks for it"


def read_as(select: Select, catalog: Catalog) -> Iterator[Section]:
    """The CQL that a SELECT stands for, if it leaves something to Sash."""
    cql = complete(select, catalog).cql
    if cql != select.text:
        yield Section("Read as", " ".join(cql.split()))


def explain_select(
    decision: SelectDecision, answer: Explanation | None, explain_changes: Callable[[RouteDecision], Explanation]
) -> Explanation:
    """Both explanations of a SELECT without SLIDE, or the only one. `answer` explains the decision's answer."""
    sections = [] if answer is None else list(answer.parts)
    if decision.changes is not None:
        if sections:
            sections.append(Section("REGISTER QUERY .. AS would make it continuous:", apart=True))
        sections += explain_changes(decision.changes).parts
    if decision.refusal is not None:
        reason = str(decision.refusal).splitlines()[0]
        sections.append(Section("It cannot be registered without SLIDE", reason, apart=bool(sections)))
    return Explanation(sections)


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
    wanted = [each for each in registered if not tables.isdisjoint(_tables(each))]
    if query.slide is None:
        trial.synchronise(wanted)
    else:
        if not query.serial and all(each is not query for each in registered):
            # The newest query: among identical queries with one SLIDE, the oldest leads.
            query = replace(query, serial=1 + max((each.serial for each in registered), default=0))
        trial.synchronise([*wanted, query])
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
    forms = [query] if query.with_counters is None else [query, query.with_counters]
    readings = [reading for form in forms for reading in form.readings]
    return {table for reading in readings for table in (reading.table, reading.lists) if table is not None}


def _linked(query: CompiledQuery, registered: Iterable[CompiledQuery]) -> set[TableName]:
    """The tables that a query reads, and those that other queries read together with them."""
    found, several = _tables(query), [_tables(each) for each in registered if len(each.readings) > 1]
    while more := [tables for tables in several if not tables.isdisjoint(found) and not tables <= found]:
        found = found.union(*more)
    return found


def explain(
    query: CompiledQuery, runtime: StreamRuntime, way: RowsBehind | None = None, offer: PaneOffer | None = None
) -> Explanation:
    """`runtime` has the query, or would be asked the question.

    `way` is the route of a one-time question; without it EXPLAIN assumes that the stream has no index. `offer` is what
    panes have for it, looked up between two slides.
    """
    stream, nodes = runtime.stream, [f"  {'  ' * depth}{node.describe()}" for depth, node in tree(query.plan)]
    sections = [Section("Plan", lines=nodes), *time_sections([stream])]
    if stream.shed is not None:
        sections.append(Section("Overload", _shed_text(stream)))
    if query.slide is None:
        way = way or rows_behind(query, stream)
        return Explanation([*sections, *_one_time_sections(offer or offered(query, runtime), runtime, way)])
    active = runtime.active[query.name]
    home = runtime.groups[active.home.name]
    for shown in [_ExplainedTable(active, runtime.groups[group.name]) for group in active.groups]:
        sections += [_table_section(shown, runtime), *_synopsis_sections(shown, runtime)]
    rules = _rule_lines(active, home)
    sections += [Section("Rules", lines=rules)] if rules else []
    return Explanation([*sections, *_schedule_sections(active, home)])


def _shed_text(stream: Stream) -> str:
    others = "other aggregates are of the kept tuples" if stream.shed_approx else "averages are of the kept tuples"
    first = "" if stream.shed_first is None else f", first of those where {stream.shed_first}"
    kept = f"one tuple in {stream.shed} is kept{first}"
    return f"{kept}; SUM and COUNT are scaled and have WITH BOUNDS, {others}"


class _ExplainedTable:
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
        """The synopsis that answers the query here, and why; the cluster's as soon as the panes will be there."""
        group, query = self.group, self.active.compiled
        if group.name.lists is None and not group.in_cluster and (insisting := group.insisting):
            why = f"{_names(insisting)} says STORED IN CLUSTER"
            return SynopsisChoice(CLUSTER_PANES, _WISHED if query.synopsis == CLUSTER_PANES else why)
        place = group.choices.place(self.own[0].stored, group.panes)
        return SynopsisChoice(place.kind, _WISHED if place.kind == query.synopsis else place.reason)


def _one_time_sections(offer: PaneOffer, runtime: StreamRuntime, way: RowsBehind) -> list[Section]:
    """A question changes nothing: it reads the panes that registered queries have, or stored rows, or is refused."""
    stream, lacks = runtime.stream, {lack.table: _lack_text(lack, runtime.stream) for lack in offer.lacks}
    tables = {reading.table: number for number, reading in enumerate(offer.query.readings)}
    if way.refusal is None and not lacks and offer.begins_late:
        lacks = dict.fromkeys(tables, "panes begin later than its window")
    texts = []
    for table, number in tables.items():
        bound = None if table in lacks else runtime.offer(offer.query, number)
        texts.append(_without_panes(stream, way, lacks[table]) if bound is None else _from_panes(bound.group, stream))
    below = [] if way.refusal is not None or not lacks else _sliding_lines(way)
    sections = [Section("One-time", text) for text in texts]
    sections[-1] = sections[-1]._replace(lines=below)
    if below and way.index is not None:
        sections.append(Section("Instead of the rows", f"the {way.index.kind} index on {way.index.column}"))
    return sections


def _lack_text(lack: PaneLack, stream: Stream) -> str:
    where = f"{stream.name} by {lack.table.label}"
    if lack.partials:
        return f"no registered query over {where} keeps {', '.join(map(_partial_text, lack.partials))}"
    reach, pane = (_extent(lack.table, length) for length in (lack.reach, lack.pane))
    return f"pane table {where} keeps {reach} in panes of {pane}"


def _from_panes(group: PaneGroup, stream: Stream) -> str:
    table = f"pane table {stream.name} by {group.label}, panes of {_extent(group, group.clock.length)}"
    return f"answered from {table}, as of the newest closed pane"


def _without_panes(stream: Stream, way: RowsBehind, reason: str) -> str:
    if way.refusal is not None:
        return f"refused, {reason}"
    assert stream.keep is not None
    kept = f"KEEP {format_duration(stream.keep)}{' STORED IN CLUSTER' if stream.keep_in == CLUSTER else ''}"
    how = "sub-window by sub-window" if way.why_spark is None else "by a pass on Spark"
    return f"{how} over the stored rows ({kept}), because {reason}"


def _sliding_lines(way: RowsBehind) -> list[str]:
    """What becomes of a question over stored rows while the window slides; under serial and ws nothing does."""
    if way.why_spark is not None:
        return [f"  not sub-window by sub-window: {way.why_spark}", f"  {COLLECTED}"]
    if way.irreversible is not None:
        again = f"restarted, because {way.irreversible} cannot be taken back"
        return [f"  if a sub-window that was read leaves the window: {again}"]
    return ["  if a sub-window that was read leaves the window: taken back"]


def _table_section(shown: _ExplainedTable, runtime: StreamRuntime) -> Section:
    group, stream = shown.group, runtime.stream
    how = "one pass over the numbered tuples" if group.by_rows else "one pass on Spark"
    pane = _extent(group, group.clock.length)
    lines = list[str]()
    for bound in shown.own:
        lines += _partial_lines(shown, bound)
        if bound.reading.sub_window is not None:
            lines += _list_lines(shown, bound, bound.reading.sub_window, runtime)
        lines += _value_list_lines(bound)
    lines += [_counter_line(key, group.name) for key in group.name.keys if isinstance(key, CounterKey)]
    # Several readings of a query may need the same partials.
    return Section(f"Pane table {stream.name} by {group.label}", f"panes of {pane}, {how}", list(dict.fromkeys(lines)))


def _value_list_lines(bound: BoundReading) -> list[str]:
    """COLLECT_LIST and its like: how long the lists may become."""
    readers = [reader for finisher in bound.query.finishers for reader in finisher.readers]
    reader = readers[bound.number]
    calls = reader.calls if isinstance(reader, ItemReader | CoarserReader) else ()
    bounds = ((call, lowering) for call in calls if isinstance(lowering := holistic_of(call), Collect))
    return [f"  {call}: {lowering.bound}" for call, lowering in bounds]


def _counter_line(key: CounterKey, table: TableName) -> str:
    """COUNT_MIN: how large its sketch is, and where the counts of values stay."""
    each = " and group" if len(table.keys) > 1 else ""
    size = f"{ROWS} rows of {COUNTERS:,} counters for each pane{each} at most"
    return f"  a count-min sketch of {key.argument}: {size}; the counts of single values stay on Spark"


def _list_lines(shown: _ExplainedTable, bound: BoundReading, sub_window: int, runtime: StreamRuntime) -> list[str]:
    """FREQUENT: how many pairs it keeps, where the counts of open sub-windows wait, and delta."""
    window, group, lists = bound.reading.window, shown.group, shown.group.name.lists
    if lists is None:
        why = runtime.why_counted(shown.active.compiled) or "other queries read them as far back"
        return [f"  the counts of all items are kept, not short lists: {why}"]
    each = " for each group" if lists.group else ""
    away = group.in_cluster or group.wants_cluster or (runtime.may_move and group.belongs_there)
    waits = "in files in the cluster" if away else "in this process"
    pairs = lists.k * (window.length // sub_window)
    lines = [f"  at most {pairs} pairs in the window{each}; the counts of an open sub-window wait {waits}"]
    if group.clock.has_closed:
        delta = group.panes.delta(bound.reading.partials[0], window, group.clock.position)
        lines.append(f"  delta is {delta} now: an item on no list occurs that often at most, a reported one more often")
    return lines


def _partial_lines(shown: _ExplainedTable, bound: BoundReading) -> list[str]:
    """The partials that a reading needs of every pane: shared with others, its own, or combined from others'."""
    partials, sharing = bound.reading.partials, bound.sharing
    if bound.covered is not None and sharing.cover is not None:
        parts = " + ".join(f"({each})" for each in bound.covered.added)
        less = "".join(f" - ({each})" for each in bound.covered.subtracted)
        kinds = ", ".join(map(_partial_text, partials))
        return [f"  {kinds}: not stored, combined as {parts}{less} ({sharing.cover.rule}): {sharing.cover.reason}"]
    lines = []
    for partial in partials:
        sharers = list(dict.fromkeys(name for name, other in shown.others if partial in other.reading.partials))
        lines.append(f"  {_partial_text(partial)}: {f'shared with {_names(sharers)}' if sharers else 'new'}")
    if sharing.cover is not None:
        lines.append(f"  stored, although its terms are stored ({sharing.cover.rule}): {sharing.cover.reason}")
    return lines


def _synopsis_sections(shown: _ExplainedTable, runtime: StreamRuntime) -> list[Section]:
    """What answers a query from a pane table, and what is to be known about it."""
    notes = list[str]()
    if runtime.flies and shown.choice.kind == CLUSTER_PANES:
        notes.append("  live, slides do not wait for the job")
    if shown.group.label in runtime.unreduced:
        part = f"{runtime.unreduced[shown.group.label]:.0%}"
        notes.append(f"  note: these groups are {part} of the tuples; panes save little")
    sections = [_synopsis_section(shown), *_filter_sections(shown)]
    sections[-1] = sections[-1]._replace(lines=[*sections[-1].lines, *notes])
    return sections


def _synopsis_section(shown: _ExplainedTable) -> Section:
    choice = shown.choice
    if shown.group.name.partition:
        return Section("Synopsis", f"single rows, the last {shown.panes} of each partition")
    merged = ["UNBOUNDED"] if shown.group.members.keeps_everything else []
    merged += sorted(window.extent for window in shown.group.members.landmarks)
    history = f", older ones merged for {_names(merged)}" if merged else ""
    lines = [f"  because {choice.reason}"] if choice.reason else []
    scanned = choice.kind in SCANNED
    together = "in one scan" if scanned else "looked up together where windows are equal"
    if (lengths := len(shown.own[0].reading.window.parts)) > 1:
        how = "in one scan as far as the longest" if scanned else "looked up one by one"
        lines.append(f"  {lengths} lengths, {how}")
    if isinstance(window := shown.own[0].reading.window, SessionWindow):
        gap, most = format_duration(window.gap), format_duration(window.most)
        told = "sessions: panes are joined where the last and the first time of a group are at most"
        lines.append(f"  {told} {gap} apart; longer ones than {most} are cut at its multiples")
        together = "each in a scan of its own"
    lines.append(f"  read by {_names(shown.mates)} too, {together}" if shown.mates else "  its only reader")
    return Section("Synopsis", _SYNOPSES[choice.kind].format(panes=shown.panes, history=history), lines)


def _filter_sections(shown: _ExplainedTable) -> list[Section]:
    """Whether a collective index answers HAVING, who shares the index, or what is missing for one."""
    decision = shown.group.choices.filters.decision(shown.active)
    if decision is None:
        return []
    if decision.why_not is not None:
        return [Section("Having", f"evaluated for every group; {decision.why_not}")]
    key, ending = decision.key, "the groups it finds are tested exactly"
    if shown.active.compiled.finishers[0].query.approximate:
        ending = "its superset is the answer" if key.function in ("count", "sum") else "its answer is exact"
    sharers = [name for name in decision.company if name != shown.active.name]
    company = f"shared with {_names(sharers)}" if sharers else "for this query alone"
    return [Section("Substream filter", f"{key.name} on {key}, {company}; {ending}")]


def _partial_text(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    text = text if partial.predicate is None else f"{text} where {partial.predicate}"
    return text if partial.user is None else f"{text}, lifted by Python on the executors"


def _rule_lines(active: ActiveQuery, home: PaneGroup) -> list[str]:
    """What the sharing rules decided: about state, computation and output."""
    lines = [
        f"  state of {need.text}: {decision}" for bound in active.readings for need, decision in bound.sharing.decisions
    ]
    own = [bound for bound in active.readings if bound.group.name is home.name]
    kept, needed = min(bound.kept for bound in own), max(bound.reading.window.reach for bound in own)
    if 0 < kept < needed and not any(bound.reading.window.unbounded for bound in own):
        lines.append(f"  panes are kept longer for it: {_extent(home, needed)} instead of {_extent(home, kept)}")
    if (together := home.schedule.together(active)) is not None:
        lines.append(f"  computed together: {together}")
    if (output := home.schedule.output(active)) is not None:
        lines.append(f"  output: {output}")
    return list(dict.fromkeys(lines))


# -- the schedule --------------------------------------------------------------------------------------


def _extent(group: PaneGroup | TableName, length: int) -> str:
    """A length of time, or a number of rows."""
    return f"{length} row{'s' * (length != 1)}" if group.by_rows else format_duration(length)


def _schedule_sections(active: ActiveQuery, home: PaneGroup) -> list[Section]:
    """`home` is the group in which the query is scheduled, or a trial of it."""
    query = active.compiled
    policy, leader = f"policy {home.settings.policy}", home.schedule.leader(active)
    assert query.slide is not None
    period = f"{'EXACTLY ' if query.exactly else ''}{_extent(home, query.slide)}"
    if leader is not active:
        assert leader.compiled.slide is not None
        answered = f"answered with {leader.name}, every {_extent(home, leader.compiled.slide)} (CS8)"
        return [Section("Schedule", f"{policy}, {answered}; without {leader.name}, every {period}")]
    task = home.schedule.local.task_of(active.name)
    same = [name for name in task.members if name != active.name]
    company = f"with {_names(same)}" if same else "alone in it"
    place = f"{policy}, group {task.group}, sub-group SLIDE {period}, {company}"
    sections = [
        Section("Schedule", place, _plan_lines(home, task.group, task.period)),
        Section(
            "Expected cost per execution", _cost_text(active, home, [home.schedule.queries[name] for name in same])
        ),
    ]
    longest = max(window.length for window in query.windows)
    if query.slide > longest and not home.name.partition:
        gap = _extent(home, query.slide - longest)
        of = f"{gap} of every {_extent(home, query.slide)} are in no answer"
        sections.append(Section("Note", f"SLIDE is longer than WINDOW: {of}"))
    return sections


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
