"""The life of a query in one place: text, statement, logical plan, what it reads of which pane tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain

import pyarrow as pa

from sash.catalog import Catalog, RegisteredQuery
from sash.core.errors import CqlError, RefusalError, Span
from sash.core.time import Micros
from sash.core.window import LandmarkWindow, TimeWindow, Window
from sash.panes.accelerator import refusal
from sash.panes.answers import Finisher
from sash.panes.compositions import compose
from sash.panes.readings import Reading
from sash.plan.nodes import Lookup, Project
from sash.plan.periodic import Composition, PeriodicAggregate, PeriodicQuery, flatten, leaves
from sash.sharing.choose import check_synopsis
from sash.sharing.needs import Need, needs_of
from sash.sql import BoundQuery, Select, SelectStatement, bind, parse, plan_panes


@dataclass(frozen=True)
class CompiledQuery:
    """`leaves` are its aggregates: one, or those of its sub-queries, which `compose` joins into one answer.

    `counters`: COUNT_MIN reads counters of values (panes/counters.py), not the counts of all values.
    `replaced_since` and `paused` are those of its registration.
    """

    name: str
    plan: Project
    priority: int = 0
    lifetime: Micros | None = None
    serial: int = 0
    synopsis: str | None = None
    counters: bool = False
    replaced_since: int = 0
    paused: bool = False

    def replaces(self, other: CompiledQuery) -> bool:
        """Whether it took the place of another query, perhaps with others in between."""
        return 0 < self.replaced_since <= other.serial

    @cached_property
    def query(self) -> PeriodicQuery:
        return flatten(self.plan, self.counters)

    @cached_property
    def leaves(self) -> tuple[PeriodicAggregate, ...]:
        return leaves(self.query)

    @cached_property
    def finishers(self) -> tuple[Finisher, ...]:
        return tuple(Finisher(leaf) for leaf in self.leaves)

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The readings of all leaves, one leaf after the other."""
        return tuple(reading for finisher in self.finishers for reading in finisher.readings)

    @cached_property
    def needs(self) -> tuple[tuple[Need, ...], ...]:
        """Of each reading, the aggregates that it is for: what the sharing rules are asked about."""
        return tuple(chain.from_iterable(map(needs_of, self.finishers)))

    @cached_property
    def estimates_counts(self) -> bool:
        return any(call.function == "count_min" for leaf in self.leaves for call in leaf.calls)

    @cached_property
    def with_counters(self) -> CompiledQuery | None:
        """A question with COUNT_MIN as it reads counters; None for all others."""
        is_other = self.slide is None and not self.counters and self.estimates_counts
        return replace(self, counters=True) if is_other else None

    def beside(self, others: Callable[[], Iterable[CompiledQuery]]) -> CompiledQuery:
        """The query as it is registered beside others: COUNT_MIN reads the counts of all values where they are kept."""
        if not self.counters or not self.estimates_counts:
            return self
        exact = replace(self, counters=False)
        kept = [each for other in others() for each in other.readings if each.sub_window is None]
        wanted = [reading for reading in exact.readings if reading not in self.readings]
        return exact if all(any(reading.is_held_by(each) for each in kept) for reading in wanted) else self

    @cached_property
    def is_simple(self) -> bool:
        """Whether the answer of its only leaf is its own, made as soon as the window has been scanned."""
        return isinstance(self.query, PeriodicAggregate) and self.finishers[0].is_simple

    @cached_property
    def lookups(self) -> tuple[Lookup, ...]:
        """The tables in which its tuples are looked up."""
        return tuple(dict.fromkeys(lookup for leaf in self.leaves for lookup in leaf.lookups))

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lookup.table.name for lookup in self.lookups))

    @property
    def aggregates(self) -> tuple[str, ...]:
        """The aggregates of the program that it calls."""
        calls = (call for leaf in self.leaves for call in leaf.calls)
        return tuple(dict.fromkeys(call.user.name for call in calls if call.user is not None))

    @property
    def stream(self) -> str:
        return self.leaves[0].stream

    @cached_property
    def slide(self) -> int | None:
        """All windows of a query have one SLIDE."""
        return self.leaves[0].window.slide

    @cached_property
    def exactly(self) -> bool:
        return self.leaves[0].window.exactly

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        return tuple(dict.fromkeys([leaf.window for leaf in self.leaves]))

    @cached_property
    def until(self) -> Micros | None:
        """An answer as of this time or later is its last: all windows end at fixed times. None: some go on."""
        found = None
        for window in self.windows:
            if not isinstance(window, LandmarkWindow) or window.until is None:
                return None
            found = window.until if found is None else max(found, window.until)
        return found

    @property
    def is_mortal(self) -> bool:
        return self.lifetime is not None or self.until is not None

    def check(self) -> None:
        """Refuse what cannot be answered before anything is stored for it."""
        for leaf in self.leaves:
            if leaf.items is not None and leaf.items.function == "frequent" and leaf.window.unbounded:
                assert isinstance(leaf.window, TimeWindow)
                what = f"[{leaf.window.word} ..] has no length"
                reason = f"FREQUENT keeps a list per sub-window, and {what}: give a WINDOW"
                raise RefusalError(reason, "FREQUENT")
        for finisher in [each for each in self.finishers if each.query.approximate]:
            served = finisher.filter is not None and self.synopsis in (None, "running", "interval")
            exact = all(refusal("interval", partial) is None for partial in finisher.readings[0].partials)
            if not (served and exact):
                reason = (
                    "HAVING APPROX needs a condition that an index serves, COUNT, SUM (of whole numbers), MAX or MIN "
                    "compared with a constant, over GROUP BY and a window without LAG, and aggregates that an interval "
                    "synopsis holds; leave out APPROX"
                )
                raise RefusalError(reason, "APPROX")
        if self.synopsis == "cluster" and any(leaf.finest for leaf in self.leaves):
            reason = "panes in the cluster have no GROUPING SETS, ROLLUP and CUBE; give each set its own query"
            raise RefusalError(reason, "GROUP BY")
        if self.synopsis is not None:
            check_synopsis(self.synopsis, self.readings)

    def compose(self, tables: list[pa.Table]) -> pa.Table:
        """The answer from the leaves' answers."""
        return compose(self.query, tables) if isinstance(self.query, Composition) else tables[0]


def compile_panes(
    bound: BoundQuery, name: str = "", *, one_time: bool = False, synopsis: str | None = None
) -> CompiledQuery:
    """A periodic query that is not registered, or a question."""
    plan = plan_panes(bound, periodic=not one_time)
    return checked_panes(bound, CompiledQuery(name, plan, synopsis=synopsis, counters=not one_time))


def checked_panes(bound: BoundQuery, compiled: CompiledQuery) -> CompiledQuery:
    """The query, unless it cannot be answered: CqlError at the word at fault."""
    try:
        compiled.check()
    except RefusalError as error:
        raise CqlError(str(error), bound.script, _place(bound.select, error.word)) from None
    return compiled


def _place(select: Select, word: str) -> Span:
    """Where a word stands in a SELECT; where it does not, the word SELECT itself."""
    place = max(0, select.text.upper().find(word))
    return Span(select.span.start + place, select.span.start + place + len(word if place else "SELECT"))


def compile_query(query: RegisteredQuery, catalog: Catalog) -> CompiledQuery:
    """A registered query from its text, as at registration and again after a restart."""
    plan = plan_panes(bind(as_select(query.text), catalog), periodic=True)
    return registered_as(query, plan)


def registered_as(query: RegisteredQuery, plan: Project) -> CompiledQuery:
    """A plan as the catalog has its query."""
    shared = {each.name: getattr(query, each.name) for each in fields(CompiledQuery) if each.name != "plan"}
    return CompiledQuery(plan=plan, **shared)


def as_select(text: str) -> Select:
    """The SELECT of a text that is nothing else."""
    statement = parse(text)
    if not isinstance(statement, SelectStatement):
        raise CqlError("expected a SELECT", text, Span(0, len(text.split(maxsplit=1)[0])))
    return statement.select
