"""EXPLAIN: the plan, the pane tables and synopses it would read, with whom, in which sub-group, at what cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from sash.catalog import CLUSTER, Stream
from sash.core.time import format_duration
from sash.core.window import pane_length
from sash.panes.partials import Partial
from sash.panes.readings import Reading, TableName
from sash.plan.nodes import tree
from sash.runtime.compiler import CompiledQuery
from sash.runtime.explaining.explain_schedule import names, schedule_lines
from sash.runtime.explaining.rulings import Synopses, computation_ruling, output_ruling, state_rulings
from sash.runtime.periodic.group_filters import LEAST_GROUPS, LEAST_QUERIES, filterable, is_worth
from sash.runtime.route import QuestionRoute, route_question
from sash.runtime.settings import Settings
from sash.runtime.stored.stored_indexes import COLLECTED
from sash.sharing.choose import CLUSTER as CLUSTER_PANES
from sash.sharing.choose import Load, SynopsisChoice, choose
from sash.sharing.covers import Relevant, StoredPartials, relevant_set
from sash.sharing.groups import families
from sash.sharing.rules import Decision

_SYNOPSES = {
    "basic": "basic interval, {panes} panes{history}, scanned from the youngest to the oldest",
    "running": "running (R-INT) over {panes} panes, two values per window",
    "interval": "interval (B-INT) over {panes} panes, about log2 of them per window",
    "landmark": "landmark (L-INT) over {panes} panes, two values per window",
    "cluster": "basic interval, {panes} panes{history}, in the cluster: one job reads all windows that are due",
}


def explain(
    query: CompiledQuery,
    registered: list[CompiledQuery],
    stream: Stream,
    settings: Settings,
    unreduced: Mapping[str, float],
    loads: Mapping[TableName, Load],
    way: QuestionRoute | None = None,
) -> str:
    """`loads` tells how many groups the running pane tables have; without it a table is judged by its windows.

    `way` is the route of a one-time question; without it the stream is taken to have no index.
    """
    lines = ["Plan", *(f"  {'  ' * depth}{node.describe()}" for depth, node in tree(query.plan))]
    if stream.shed is not None:
        lines.append(_shed_line(stream))
    sites = [_Site(query, name, registered, settings, loads) for name in dict.fromkeys(r.table for r in query.readings)]
    if query.slide is None:
        return "\n".join([*lines, *_one_time_lines(sites, stream, way or route_question(query, stream))])
    for site in sites:
        lines += _table_lines(site, stream)
        if site.name.label in unreduced:
            part = f"{unreduced[site.name.label]:.0%}"
            lines.append(f"  note: these groups are {part} of the tuples; panes save little")
    return "\n".join([*lines, *_rule_lines(sites[0], settings), *schedule_lines(sites[0], settings)])


def _shed_line(stream: Stream) -> str:
    others = (
        "the rest as of the tuples that are left" if stream.shed_approx else "averages as of the tuples that are left"
    )
    return f"Overload: one tuple in {stream.shed} is kept; SUM and COUNT are scaled and have WITH BOUNDS, {others}"


def _order(query: CompiledQuery) -> float:
    """Queries in the order of their registration; one that is only explained would be the last."""
    return query.serial or math.inf


class _Site:
    """One pane table as a query would find it: who else reads it, how it would be cut, which synopsis it would have."""

    def __init__(
        self,
        query: CompiledQuery,
        name: TableName,
        registered: list[CompiledQuery],
        settings: Settings,
        loads: Mapping[TableName, Load],
    ) -> None:
        self.query = query
        self.name = name
        self.own = [reading for reading in query.readings if reading.table == name]
        self.others = [(mate, other) for mate in registered for other in mate.readings if other.table == name]
        self.load = loads.get(name, Load(1))
        self.elders = [mate for mate in self.mates if _order(mate) < _order(query)]
        self.kept: set[Partial] = set()
        self._found: dict[tuple[str, Reading], Relevant] = {}
        self._tell_what_is_stored(settings)
        self.relevant = {reading: self._found[query.name, reading] for reading in self.own}
        asking = [*self.others, *((query, reading) for reading in self.own)]
        self.related = families(self.stored(mate, reading) for mate, reading in asking)

    def _tell_what_is_stored(self, settings: Settings) -> None:
        """One query after the other, as they came: what is there already covers those that come later (SS4)."""
        asking = [*self.others, *((self.query, reading) for reading in self.own)]
        load, stored = replace(self.load, pane=self.pane), StoredPartials()
        for mate, reading in sorted(asking, key=lambda pair: _order(pair[0])):
            if mate is self.query:
                self.kept.update(stored)
            mode = settings.share_in_questions if mate.slide is None else settings.share_predicates
            self._found[mate.name, reading] = relevant_set(reading, stored, load, mode)
            stored.add(self.stored(mate, reading).partials)

    def stored(self, query: CompiledQuery, reading: Reading) -> Reading:
        """What is stored for a query's reading: its own partials, or those that cover them."""
        covered = self._found[query.name, reading].covered
        return reading if covered is None else covered.reading(reading)

    @cached_property
    def mates(self) -> list[CompiledQuery]:
        """The registered queries that read this table."""
        return list({mate.name: mate for mate, _ in self.others}.values())

    @cached_property
    def readings(self) -> list[Reading]:
        return [*(other for _, other in self.others), *self.own]

    @cached_property
    def pane(self) -> int:
        """The pane's length; a query that reads several tables has them all cut alike."""
        if self.name.partition:
            return 1
        asking = [self.query] if self.query.slide is not None else []
        return pane_length([window for query in [*self.mates, *asking] for window in query.windows])

    @cached_property
    def panes(self) -> int:
        windows = [reading.window for reading in self.readings]
        return max((window.reach // self.pane for window in windows if not window.unbounded), default=0)

    @cached_property
    def choice(self) -> SynopsisChoice:
        if self.query.synopsis is not None and (self.name.keys or self.query.synopsis != CLUSTER_PANES):
            return SynopsisChoice(self.query.synopsis, "the query insists on it")
        if self.load.in_cluster:
            return SynopsisChoice(CLUSTER_PANES, "it has many groups, or a query says STORED IN CLUSTER")
        if insisting := [mate.name for mate in self.mates if mate.synopsis == CLUSTER_PANES and self.name.keys]:
            return SynopsisChoice(CLUSTER_PANES, f"{names(insisting)} says STORED IN CLUSTER")
        if all(reading.window.unbounded for reading in self.own):
            return choose(self.own, self.load)
        free = [other for mate, other in self.others if mate.synopsis is None]
        return choose([*free, *self.own], replace(self.load, pane=self.pane))

    def extent(self, length: int) -> str:
        return f"{length} row{'s' * (length != 1)}" if self.name.by_rows else format_duration(length)


def _one_time_lines(sites: list[_Site], stream: Stream, way: QuestionRoute) -> list[str]:
    """A question changes nothing: it reads the panes that registered queries have, or stored rows, or is refused."""
    lacks = [_what_panes_lack(site, stream) for site in sites]
    lines = [
        _from_panes(site, stream) if lack is None else _without_panes(stream, way, lack)
        for site, lack in zip(sites, lacks, strict=True)
    ]
    if way.refusal is not None or not any(lacks):
        return lines
    lines += _sliding_lines(way)
    if way.index is not None:
        lines.append(f"Rather than over the rows: from the {way.index.kind} index on {way.index.column}")
    return lines


def _what_panes_lack(site: _Site, stream: Stream) -> str | None:
    where = f"{stream.name} by {site.name.label}"
    lacking = [reading for reading in site.own if site.relevant[reading].covered is None]
    if missing := [p for reading in lacking for p in reading.partials if p not in site.kept]:
        what = ", ".join(map(_partial_text, dict.fromkeys(missing)))
        return f"no registered query over {where} keeps {what}"
    unbounded = any(other.window.unbounded for _, other in site.others)
    reach = max((other.window.reach for _, other in site.others if not other.window.unbounded), default=0)
    for window in (reading.window for reading in site.own):
        beyond = not unbounded if window.unbounded else window.reach > reach
        if beyond or window.resolution % site.pane:
            return f"pane table {where} keeps {site.extent(reach)} in panes of {site.extent(site.pane)}"
    return None


def _from_panes(site: _Site, stream: Stream) -> str:
    table = f"pane table {stream.name} by {site.name.label}, panes of {site.extent(site.pane)}"
    return f"One-time: answered from {table}, as of the newest closed one"


def _without_panes(stream: Stream, way: QuestionRoute, reason: str) -> str:
    if way.refusal is not None:
        return f"One-time: refused, {reason}"
    assert stream.keep is not None
    kept = f"KEEP {format_duration(stream.keep)}{' STORED IN CLUSTER' if stream.keep_in == CLUSTER else ''}"
    how = "sub-window by sub-window" if way.why_spark is None else "by a pass on Spark"
    return f"One-time: {how} over the stored rows ({kept}), as {reason}"


def _sliding_lines(way: QuestionRoute) -> list[str]:
    """What becomes of a question over stored rows while the window slides; under serial and ws nothing does."""
    if way.why_spark is not None:
        return [f"  not sub-window by sub-window: {way.why_spark}", f"  {COLLECTED}"]
    if way.irreversible is not None:
        again = f"begun again, for {way.irreversible} cannot be taken back"
        return [f"  if something that was read leaves the window: {again}"]
    return ["  if something that was read leaves the window: taken back"]


def _table_lines(site: _Site, stream: Stream) -> list[str]:
    how = "one pass over the numbered tuples" if site.name.by_rows else "one pass on Spark"
    lines = [f"Pane table {stream.name} by {site.name.label}: panes of {site.extent(site.pane)}, {how}"]
    for reading in site.own:
        lines += _partial_lines(site, reading)
    return [*lines, *_synopsis_lines(site)]


def _partial_lines(site: _Site, reading: Reading) -> list[str]:
    """What a reading needs of every pane: stored for others too, or for it alone, or put together from others'."""
    found = site.relevant[reading]
    if found.covered is not None:
        parts = " + ".join(f"({each})" for each in found.covered.added)
        less = "".join(f" - ({each})" for each in found.covered.subtracted)
        kinds = ", ".join(map(_partial_text, reading.partials))
        return [f"  {kinds}: not stored, put together as {parts}{less} (SS4): {found.reason}"]
    lines = []
    for partial in reading.partials:
        sharers = list(dict.fromkeys(mate.name for mate, other in site.others if partial in other.partials))
        lines.append(f"  {_partial_text(partial)}: {f'shared with {names(sharers)} (SS1)' if sharers else 'new'}")
    if found.possible:
        lines.append(f"  stored, though its terms are (SS4): {found.reason}")
    return lines


def _synopsis_lines(site: _Site) -> list[str]:
    readers, choice = [mate.name for mate in site.mates], site.choice
    if site.name.partition:
        return [f"Synopsis: single rows, the last {site.panes} of each partition"]
    merged = any(reading.window.unbounded for reading in site.readings)
    history = ", older ones merged for UNBOUNDED" if merged else ""
    lines = [f"Synopsis: {_SYNOPSES[choice.kind].format(panes=site.panes, history=history)}"]
    lines += [f"  because {choice.reason}"] if choice.reason else []
    together = (
        "in one scan (CS2)"
        if choice.kind in ("basic", CLUSTER_PANES)
        else "looked up together where windows are equal (CS1)"
    )
    lines.append(f"  read by {names(readers)} too, {together}" if readers else "  its only reader")
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
    company = f"shared with {names([mate.name for mate in sharers])}" if sharers else "for this query alone"
    return [f"Substream filter: {key.name} on {key}, {company}; {ending}"]


def _partial_text(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    return text if partial.predicate is None else f"{text} where {partial.predicate}"


def _rule_lines(site: _Site, settings: Settings) -> list[str]:
    """What the sharing rules say: about state, computation and output."""
    elders = [window for mate in site.elders for window in mate.windows if not window.unbounded]
    kept, needed = (max((w.reach for w in windows), default=0) for windows in (elders, site.query.windows))
    synopses = Synopses(site.elders, site.choice.kind, site.pane, site.panes)
    lines = [f"  state of {text}: {_ruled(decision)}" for text, decision in state_rulings(site.query, synopses)]
    if 0 < kept < needed and not any(window.unbounded for window in site.query.windows):
        lines.append(f"  panes are kept longer for it: {site.extent(needed)} instead of {site.extent(kept)}")
    if (together := computation_ruling(site.query, synopses)) is not None:
        lines.append(f"  computed together: {_ruled(together)}")
    if settings.shares and (output := output_ruling(site.query, site.mates)) is not None:
        lines.append(f"  output: {_ruled(output)}")
    return ["Rules", *dict.fromkeys(lines)] if lines else []


def _ruled(decision: Decision) -> str:
    rule = f" ({decision.rule})" if decision.rule else ""
    return f"{'shared' if decision.allowed else 'not shared'}{rule}: {decision.reason}"
