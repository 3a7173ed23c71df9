"""The golden file's queries and synopses as what the runtime has: readings, stored partials, panes, join synopses.

One of the file's time units is a second. A synopsis of the thesis has the data of one aggregate; the runtime has pane
tables. So synopses that are updated together, of one input, are a pane table here, which stores their partials; a
synopsis that is too short for a window is left out, as a question leaves out panes that do not have its window.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from sash.catalog import Stream
from sash.core.time import SECOND
from sash.core.window import Window
from sash.panes.joins import Band, WindowPair
from sash.panes.partials import Partial
from sash.panes.readings import Reading
from sash.plan.predicates import EVERYTHING, Atom, Disjunction, disjunction
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.group_schedule import identity_of
from sash.sharing.choose import Load
from sash.sharing.choose_join import JoinPart
from sash.sharing.groups import StateSharing, StoredPartials, share_state
from sash.sharing.needs import Need
from sash.sharing.rules import Computation, Decision, QueryOutput, compute_together, scheduling_group, window_lack
from tests.support.feed import compiled

EXAMPLES: dict[str, dict[str, Any]] = {
    example["id"].removeprefix("sharing_rules."): example
    for example in json.loads((Path(__file__).parents[1] / "golden" / "sharing_rules.json").read_text())["examples"]
}
_TERM = re.compile(r"(\w+)(!=|=|<|>)(\w+)")
_SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        *((name, pa.int32()) for name in ("length", "port")),
        *((name, pa.string()) for name in ("protocol", "user")),
    ]
)
_CALLS = {"QUANTILE": "QUANTILE({}, 0.5)", "TOP K": "MODE({})", "COUNT DISTINCT": "COUNT(DISTINCT {})"}
# The data of the thesis, and the partials that are just this.
_DATA = {"AVG": ("sum", "count"), "SUM": ("sum",), "COUNT": ("count",), "MAX": ("max",), "MIN": ("min",)}
_KINDS = {"basic_interval": "basic", "BIJ": "basic", "IJ": "interval", "RJ": "running"}


def inputs(name: str) -> Any:
    return EXAMPLES[name]["inputs"]


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = EXAMPLES[name]["expected"]
    return found


def yes_no(decisions: Iterable[bool]) -> list[str]:
    return ["yes" if allowed else "no" for allowed in decisions]


def where(terms: list[str]) -> Disjunction:
    return disjunction([frozenset({_atom(term)}) for term in terms]) if terms else EVERYTHING


def _atom(term: str) -> Atom:
    match = _TERM.fullmatch(term)
    assert match is not None
    attribute, op, constant = match.groups()
    return Atom(attribute, "<>" if op == "!=" else op, int(constant) if constant.isdigit() else constant)


@dataclass(frozen=True)
class GoldenQuery:
    """One aggregate over a stream, or over a join of two: its aggregate is then of the results."""

    id: str
    aggregate: str
    argument: str
    streams: tuple[str, ...]
    windows: tuple[int, ...]
    slide: int
    where: Disjunction

    @cached_property
    def compiled(self) -> CompiledQuery:
        condition = "" if self.where == EVERYTHING else f" WHERE {self.where}"
        call = _CALLS.get(self.aggregate, f"{self.aggregate}({{}})").format(self.argument)
        span = f"[WINDOW {self.windows[0] // 1000} ms SLIDE {self.slide // 1000} ms]"
        text = f"SELECT {call} AS a FROM {self.streams[0]} {span}{condition}"
        return compiled({self.id: text}, Stream(self.streams[0], _SCHEMA, "ts", granule=SECOND // 2))[0]

    @cached_property
    def reading(self) -> Reading:
        """The runtime's reading, of the thesis' data alone: the number of rows under a predicate is no data there."""
        reading = self.compiled.readings[0]
        kinds = _DATA.get(self.aggregate, ("rows",))
        return replace(reading, partials=tuple(each for each in reading.partials if each.kind in kinds))

    @property
    def need(self) -> Need:
        return replace(self.compiled.needs[0][0], partials=self.reading.partials)

    @property
    def name(self) -> str:
        """The name of its data in sentences."""
        return f"{self.aggregate} of {self.argument} where {self.compiled.leaves[0].predicate}"

    @property
    def input(self) -> tuple[object, ...]:
        return (self.streams, self.reading.table)

    @property
    def output(self) -> QueryOutput:
        return QueryOutput(self.id, identity_of(self.compiled), self.slide)


@dataclass(frozen=True)
class GoldenSynopsis:
    """`b` intervals of length `s`, updated at phase + i * s, of a query's data; the `g` oldest keep windows apart."""

    like: GoldenQuery
    kind: str
    s: int
    b: int
    g: int = 0
    phase: int = 0

    @property
    def updates(self) -> tuple[object, ...]:
        """The same for synopses that are panes of one table."""
        return (*self.like.input, self.s, self.phase % self.s)

    def has(self, window: Window) -> bool:
        return window_lack(window, kept=self.b * self.s, pane=self.s) is None


def query(case: dict[str, Any], id: str = "new") -> GoldenQuery:
    """Covers' queries have no window; they get one that every synopsis answers."""
    return GoldenQuery(
        case.get("id", id),
        case["agg"],
        case["attr"],
        tuple(case.get("streams", [case.get("stream")])),
        tuple(int(window * SECOND) for window in case.get("window", [1])),
        case.get("slide", 1) * SECOND,
        where(case["where"]),
    )


def synopsis(case: dict[str, Any]) -> GoldenSynopsis:
    """COUNTERS are what a median needs, for example."""
    like = query({**case, "agg": "QUANTILE" if case["data"] == "COUNTERS" else case["data"]})
    s, phase = case["s"] * SECOND, int(case["phase"] * SECOND)
    return GoldenSynopsis(like, _KINDS.get(case["type"], case["type"]), s, case["b"], case.get("g", 0), phase)


def own_synopsis(asked: GoldenQuery, kind: str = "basic_interval", panes: int = 1) -> GoldenSynopsis:
    """The synopsis that belongs to a query, with its name."""
    return GoldenSynopsis(asked, _KINDS.get(kind, kind), SECOND, panes)


# -- decisions -----------------------------------------------------------------------------------------


def state(asked: GoldenQuery, synopses: Sequence[GoldenSynopsis], mode: str = "always") -> Decision | None:
    """Whether a query is answered from synopses; None if none of them is of its input."""
    own = [each for each in synopses if each.like.where == asked.where]
    if len(asked.streams) == 1:
        found = [sharing.decisions[0][1] for sharing in _tables(asked, synopses, mode)]
    elif own:
        found = [decision for each in own if (decision := _of_join(asked, each)) is not None]
    else:
        # A cover of a join's results is that of one input.
        return state(_first(asked), [replace(each, like=_first(each.like)) for each in synopses], mode)
    return next((each for each in found if each.allowed), found[0] if found else None)


def _first(asked: GoldenQuery) -> GoldenQuery:
    return replace(asked, streams=asked.streams[:1], windows=asked.windows[:1])


def _tables(asked: GoldenQuery, synopses: Sequence[GoldenSynopsis], mode: str) -> list[StateSharing]:
    (window,) = asked.reading.spans
    tables: dict[tuple[object, ...], list[Partial]] = {}
    for each in synopses:
        if len(each.like.streams) == 1 and each.like.input == asked.input:
            tables.setdefault(each.updates, []).extend(each.like.reading.partials if each.has(window) else ())
    share = functools.partial(share_state, asked.reading, [asked.need], load=Load(1), mode=mode)
    return [share(stored=StoredPartials(partials)) for partials in tables.values()]


def _of_join(asked: GoldenQuery, kept: GoldenSynopsis) -> Decision | None:
    """Windows that differ by one pane are kept apart; by the thesis in the g oldest intervals alone, by us in all."""
    if asked.streams != kept.like.streams or asked.argument != kept.like.argument:
        return None
    pair = _pair(asked, kept)
    band = Band(-1, 1) if min(pair) >= kept.b - kept.g else Band()
    return JoinPart(kept.kind, band, kept.b, ()).decide(pair, "J")


def _pair(asked: GoldenQuery, kept: GoldenSynopsis) -> WindowPair:
    first, second = (window // kept.s for window in asked.windows)
    return WindowPair(first, second)


def computation(asked: GoldenQuery, synopses: Sequence[GoldenSynopsis]) -> Computation:
    """What a query is computed from: its own synopsis, or others that cover its predicate."""
    kind, data = synopses[0].kind, f"{asked.argument} of {' and '.join(asked.streams)}"
    windows = asked.reading.spans if len(asked.streams) == 1 else _pair(asked, synopses[0])
    own = any(each.like.where == asked.where for each in synopses)
    partials = [partial for each in synopses for partial in each.like.reading.partials]
    return Computation(
        asked.id,
        scheduling_group(data, kind, windows),
        data,
        kind,
        windows if isinstance(windows, WindowPair) else windows[0],
        asked.reading.partials if own else tuple(partials),
        combined=not own,
        divides=asked.aggregate == "AVG",
    )


def compute(asked: Sequence[GoldenQuery], synopses: Sequence[GoldenSynopsis], mode: str = "always") -> Decision:
    """Whether the last query is executed together with the others; first of all, each needs its state."""
    for each in asked:
        decision = state(each, synopses, mode)
        if decision is None or not decision.allowed:
            return decision or Decision("none", False, "no synopsis of its input")
    *mates, mine = [computation(each, synopses) for each in asked]
    return compute_together(mine, mates)
