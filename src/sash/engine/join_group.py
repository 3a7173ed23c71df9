"""Aggregates over one join, answered together: one join, one synopsis or few, any windows (thesis 8.3.2).

    S [longest] ─┐                        put together by panes
    T [longest] ─┴─► join ─► results ─► (first, second, group): partials ─► synopses ─► q1 (7, 8)  every 1 min
                     one plan            on executors                                    q2 (3, 3)  every 2 min ...

The join is a continuous plan as any other (`plan`); its changes of an epoch are put together by `rows`, bucket by
bucket, and taken in by `absorb`. `advance` closes the panes that the watermark has passed, one after the other, and
gives the answers that the scheduler finds due at the end of each: a scan of a synopsis is shared by all of them (CS5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sash.core.changes import Changes
from sash.core.errors import QueryFailedError
from sash.core.time import Micros
from sash.operators.join_partials import Cut, join_rows
from sash.plan.rewrites import optimise
from sash.plan.shared_joins import JoinedAggregate, shared_rows
from sash.scheduling import LocalScheduler, Policy
from sash.scheduling.policies import Conservative
from sash.sharing.choose import Load
from sash.sharing.choose_join import AskedPair, JoinChoice, JoinLoad, choose_join, read_cost
from sash.sharing.prices import post_cost
from sash.sharing.rules import Kind, together_key
from sash.synopses.answers import Finisher
from sash.synopses.basic_interval import WindowView
from sash.synopses.joins import JoinHistory, JoinRows, WindowPair, join_synopsis
from sash.synopses.partials import Partial
from sash.synopses.readers import Found
from sash.synopses.readings import TableName


@dataclass(frozen=True)
class JoinAnswer:
    query: str
    as_of: Micros
    table: pa.Table
    scheduled: bool = True


@dataclass
class _Asked:
    """One query while it runs."""

    name: str
    query: JoinedAggregate
    pair: WindowPair
    finisher: Finisher
    # Its windows have had a result; its last answer had a row; it may have something to say without new results.
    has_begun: bool = False
    had_rows: bool = False
    is_awake: bool = False

    @property
    def table(self) -> TableName:
        return self.finisher.readings[0].table


@dataclass
class _Table:
    """What is kept of the results for one set of keys."""

    keys: list[str]
    partials: list[Partial]
    choice: JoinChoice
    load: JoinLoad
    synopses: list[JoinHistory] = field(default_factory=list)


class JoinGroup:
    """Queries of one skeleton (see `sash.plan.shared_joins`). Not safe for several threads."""

    def __init__(
        self, queries: Mapping[str, JoinedAggregate], load: JoinLoad | None = None, policy: Policy | None = None
    ) -> None:
        every = list(queries.values())
        rows = shared_rows(every)
        if rows is None or len({query.skeleton for query in every}) > 1:
            raise ValueError("queries over different joins do not share one")
        self.plan = optimise(rows)
        length = math.gcd(*(length for query in every for length in (*query.windows, query.slide)))
        longest = (max(query.windows[0] for query in every), max(query.windows[1] for query in every))
        self.cut = Cut(longest, length, every[0].offset)
        self._asked = [
            _Asked(name, query, WindowPair(*(w // length for w in query.windows)), Finisher(query.query))
            for name, query in queries.items()
        ]
        names = dict.fromkeys(each.table for each in self._asked)
        self._tables = {name: self._table(name, load or JoinLoad()) for name in names}
        # The end of the last pane that closed; none before the first results.
        self._now: Micros | None = None
        self._policy = policy or Conservative()
        self._scheduler = LocalScheduler(self._policy)
        # By then every query has looked at the last results.
        self._looked_at: Micros = 0
        self.failed: dict[str, QueryFailedError] = {}

    def _table(self, name: TableName, load: JoinLoad) -> _Table:
        readers = [each for each in self._asked if each.table == name]
        partials = list(dict.fromkeys(partial for each in readers for partial in each.finisher.partials))
        choice = choose_join(
            [AskedPair(each.pair, each.query.slide // self.cut.length) for each in readers], partials, load
        )
        synopses = [
            join_synopsis(
                part.kind, [key.type for key in name.keys], partials, self.cut.length, part.band, part.capacity
            )
            for part in choice.parts
        ]
        return _Table([key.sql for key in name.keys], partials, choice, load, synopses)

    @property
    def choices(self) -> dict[TableName, JoinChoice]:
        """Which synopses answer, by key set, and why."""
        return {name: table.choice for name, table in self._tables.items()}

    # -- results come --------------------------------------------------------------------------------

    def rows(self, changes: Changes) -> list[JoinRows]:
        """An epoch's results, put together: one per table, in their order. It reads nothing that changes."""
        return [join_rows(changes, table.keys, table.partials, self.cut) for table in self._tables.values()]

    def absorb(self, rows: Iterable[JoinRows]) -> None:
        """What `rows` made of the results of one bucket."""
        for table, brought in zip(self._tables.values(), rows, strict=True):
            for synopsis in table.synopses:
                synopsis.absorb(brought)

    # -- time goes on --------------------------------------------------------------------------------

    def advance(self, now: Micros) -> Iterator[JoinAnswer]:
        """Everything that is due up to a time by which all results have come; answers in order of time."""
        while (end := self._next_end()) is not None and end <= now:
            self._wake(end)
            self._now = end
            for table in self._tables.values():
                for synopsis in table.synopses:
                    synopsis.close(end)
            yield from self._answers(end)

    def _next_end(self) -> Micros | None:
        """When the next pane ends; where all queries rest, when the pane of the next results does."""
        if self._now is not None and (self._now < self._looked_at or any(each.is_awake for each in self._asked)):
            return self._now + self.cut.length
        return self._next_results()

    def _next_results(self) -> Micros | None:
        panes = [synopsis.next_pane for table in self._tables.values() for synopsis in table.synopses]
        known = [pane * self.cut.length + self.cut.offset % self.cut.length for pane in panes if pane is not None]
        return min(known, default=None)

    def _wake(self, end: Micros) -> None:
        """Before the first pane, and after panes in which everybody rested, schedules begin with this one."""
        if self._now is None:
            for each in self._asked:
                self._schedule(each, end)
        elif end > self._now + self.cut.length:
            for task in self._scheduler.tasks():
                self._scheduler.postpone(task, end)
        if end == self._next_results():
            self._looked_at = max(self._scheduler.deadline_of(each.name) for each in self._asked)

    def _schedule(self, each: _Asked, first: Micros) -> None:
        """With whom it is executed, the rules say: all of a scan (CS5), or equal windows (CS4)."""
        table = self._tables[each.table]
        part = table.choice.part_of(each.pair)
        together = together_key(Kind.BIJ if part.kind == "basic" else Kind.RJ, each.pair)
        post = post_cost([each.query.query], Load(self.cut.length, table.load.groups))
        self._scheduler.add(
            each.name,
            " ".join(map(str, (each.table.label, table.choice.parts.index(part), *together))),
            each.query.slide,
            now=first - 1,
            offset=self.cut.offset,
            exactly=each.query.exactly,
            access=read_cost(part, each.pair, table.load),
            post=post,
        )

    def _answers(self, end: Micros) -> Iterator[JoinAnswer]:
        due: set[str] = set()
        while (execution := self._scheduler.decide(end)) is not None:
            self._scheduler.done(execution)
            due.update(execution.members)
        for name, table in self._tables.items():
            readers = [each for each in self._asked if each.table == name and each.name in due - self.failed.keys()]
            for synopsis, part in zip(table.synopses, table.choice.parts, strict=True):
                needs: dict[WindowPair, list[Partial]] = {}
                for each in readers:
                    if each.pair in part.pairs:
                        needs[each.pair] = list(dict.fromkeys([*needs.get(each.pair, ()), *each.finisher.partials]))
                for pair, view in synopsis.views(needs):
                    yield from self._of_view([each for each in readers if each.pair == pair], view, end)

    def _of_view(self, readers: list[_Asked], view: WindowView, end: Micros) -> Iterator[JoinAnswer]:
        """A relation that has become empty answers once and then rests until results come."""
        found: Found = {}
        for each in readers:
            each.has_begun |= not view.empty
            if not each.has_begun:
                continue
            try:
                table = each.finisher.answer(view, found)
            except QueryFailedError as error:
                self.failed[each.name] = error
                each.is_awake = False
                continue
            if table.num_rows or each.had_rows:
                scheduled = (end - self.cut.offset) % each.query.slide == 0
                yield JoinAnswer(each.name, end, table, scheduled)
            each.had_rows = table.num_rows > 0
            # Without keys there is a row for no results, too.
            each.is_awake = each.had_rows or not view.empty or not each.query.query.keys

    # -- recovery ------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.Table]]:
        """What a checkpoint keeps: a few numbers, and a table per synopsis."""
        synopses = [synopsis for table in self._tables.values() for synopsis in table.synopses]
        queries = {each.name: [each.has_begun, each.had_rows, each.is_awake] for each in self._asked}
        state = {
            "now": self._now,
            "looked_at": self._looked_at,
            "queries": queries,
            "schedule": self._scheduler.snapshot(),
            "panes": [synopsis.now for synopsis in synopses],
            "failed": {name: str(error) for name, error in self.failed.items()},
        }
        return state, [synopsis.to_table() for synopsis in synopses]

    def load(self, state: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        """The inverse of `save`, into a group of the same queries and the same load that has nothing yet."""
        self._now, self._looked_at = state["now"], state["looked_at"]
        for each in self._asked:
            each.has_begun, each.had_rows, each.is_awake = state["queries"][each.name]
        self._scheduler = LocalScheduler.restore(state["schedule"], self._policy)
        self.failed = {name: QueryFailedError(text) for name, text in state["failed"].items()}
        synopses = (synopsis for table in self._tables.values() for synopsis in table.synopses)
        for synopsis, table, pane in zip(synopses, tables, state["panes"], strict=True):
            synopsis.load(table, pane)


def same_join(queries: Mapping[str, JoinedAggregate]) -> list[dict[str, JoinedAggregate]]:
    """Queries in groups that share a join each, in the order in which they came."""
    groups: list[dict[str, JoinedAggregate]] = []
    for name, query in queries.items():
        fitting = (group for group in groups if _fits(query, group))
        group = next(fitting, None)
        if group is None:
            groups.append({name: query})
        else:
            group[name] = query
    return groups


def _fits(query: JoinedAggregate, group: Mapping[str, JoinedAggregate]) -> bool:
    members = list(group.values())
    return members[0].skeleton == query.skeleton and shared_rows([*members, query]) is not None
