"""Which join synopses answer a group of aggregates over one join: by space and time (thesis 8.3.2).

    windows (7, 7) (8, 8)              one value per interval
    windows (7, 7) (7, 8) (8, 7)       three values per interval (SS3)
    windows (8, 8) (2, 8)              seven values per interval; or two synopses, one for each difference: two values
    all windows up to (8, 8)           fifteen values per interval; or, of exact sums, a table of 9 x 9

As printed, SS3 lets three values per interval answer windows of any two lengths among the oldest; that is right for
lengths that differ by one at most. Here every synopsis answers its pairs exactly (see `sash.panes.joins.pairs`), and
only the price differs. Windows of one difference need one value per interval, whatever the difference: so the
differences are put into one band, or into several with a synopsis each, which are read one after the other.

Space is numbers, time is combinations of two values per pane, both per group and component. They are weighed against
each other by their product: a synopsis that takes twice the space must save half the time.

An update changes all intervals, whatever the kind, so lookups save less than over one window: one scan for all due
answers costs no more than the update before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sash.panes.joins import JOIN_KINDS, Band, WindowPair, join_refusal, pair_refusal
from sash.panes.joins.pairs import PairReading
from sash.panes.partials import Partial
from sash.sharing.rules import Decision

# How many deadlines the choice looks ahead.
_HORIZON = 2_000
# The most numbers that the vectors of one component may take.
_MOST_NUMBERS = 16_000_000

# The fixed cost of updating or scanning a synopsis, and the part of it for looking up one pair more; the cost of
# putting a result's row into a vector; of merging a row into others. In combinations of two values; the orders of
# magnitude of 1 to 10,000 groups.
_TOUCH = 150_000.0
_LOOKUP = 0.2
_INSERTED = 30.0
_MERGED = 60.0

_WORDS = {"basic": "BIJ", "interval": "IJ", "running": "RJ", "table": "table of running sums"}


@dataclass(frozen=True)
class AskedPair:
    """Two windows that a query joins, and how often it is due; all in panes."""

    windows: WindowPair
    slide: int = 1


@dataclass(frozen=True)
class JoinLoad:
    """The known facts about the results: how many groups, the share of them in an interval, the size of each."""

    groups: int = 1
    density: float = 1.0
    components: int = 1

    @property
    def touch(self) -> float:
        """A group's and a component's share."""
        return _TOUCH / (self.groups * self.components)


@dataclass(frozen=True)
class JoinPart:
    """One synopsis, and the windows that it answers."""

    kind: str
    band: Band
    capacity: int
    pairs: tuple[WindowPair, ...]

    def decide(self, windows: WindowPair, results: str) -> Decision:
        """SS3: whether this synopsis, of some results, has the join of two windows, in panes."""
        why = pair_refusal(self.kind, self.band, self.capacity, windows)
        return Decision("SS3", why is None, why or f"the synopsis {results} ({_WORDS[self.kind]}) has their join")


@dataclass(frozen=True)
class JoinChoice:
    parts: tuple[JoinPart, ...]
    space: float
    time: float
    reason: str

    @property
    def price(self) -> float:
        return self.space * self.time


def choose_join(asked: Sequence[AskedPair], partials: Iterable[Partial], load: JoinLoad | None = None) -> JoinChoice:
    """The cheapest synopses that answer all pairs of windows."""
    load = load or JoinLoad()
    needed = sorted(partials, key=lambda partial: partial.signature)
    refused: list[str] = []
    found: list[JoinChoice] = []
    for kind in JOIN_KINDS:
        if (why := next((why for partial in needed if (why := join_refusal(kind, partial))), None)) is not None:
            refused.append(f"{_WORDS[kind]} refused: {why}")
            continue
        for parts in _layouts(kind, {each.windows for each in asked}):
            space = sum(_space(part, load) for part in parts)
            if kind != "basic" and space * load.groups > _MOST_NUMBERS:
                refused.append(f"{_WORDS[kind]} would need too much memory for {load.groups} groups")
                continue
            found.append(JoinChoice(parts, space, _time(parts, asked, load), ""))
    best = min(found, key=lambda choice: choice.price)
    return JoinChoice(best.parts, best.space, best.time, _reason(best, found, list(dict.fromkeys(refused))))


def _layouts(kind: str, pairs: set[WindowPair]) -> list[tuple[JoinPart, ...]]:
    """All differences in one synopsis, each run of adjacent ones in its own, each difference in its own."""
    if kind == "table":
        longest = WindowPair(max(pair.first for pair in pairs), max(pair.second for pair in pairs))
        return [(JoinPart(kind, Band(1 - longest.second, longest.first - 1), max(longest), tuple(sorted(pairs))),)]
    differences = sorted({pair.difference for pair in pairs})
    bands = {
        (Band(differences[0], differences[-1]),): None,
        tuple(_runs(differences)): None,
        tuple(Band(each, each) for each in differences): None,
    }
    return [tuple(_part(kind, band, pairs) for band in layout) for layout in bands]


def _runs(differences: list[int]) -> list[Band]:
    breaks = [i for i, (low, high) in enumerate(pairwise(differences), 1) if high - low > 1]
    edges = [0, *breaks, len(differences)]
    return [Band(differences[first], differences[last - 1]) for first, last in pairwise(edges)]


def _part(kind: str, band: Band, pairs: set[WindowPair]) -> JoinPart:
    own = tuple(sorted(pair for pair in pairs if pair in band))
    return JoinPart(kind, band, band.capacity(own), own)


# -- the cost ------------------------------------------------------------------------------------------


def _space(part: JoinPart, load: JoinLoad) -> float:
    b, apart = part.capacity, part.band.values - 1
    if part.kind == "basic":
        return (b + _cells(part)) * load.density
    if part.kind == "table":
        return float((part.band.high + 2) * (2 - part.band.low))
    return (_tree(b) if part.kind == "interval" else b + 1) + b * apart


def _cells(part: JoinPart) -> int:
    """The leads that results of some age can have: the younger tuple has come already."""
    return sum(min(age, part.band.above) + min(age, part.band.below) for age in range(part.capacity))


def _tree(intervals: int) -> int:
    return 2 << (intervals - 1).bit_length()


def _time(parts: Sequence[JoinPart], asked: Sequence[AskedPair], load: JoinLoad) -> float:
    """Per pane: updates, and executions over the coming deadlines."""
    slides = [each.slide for each in asked]
    horizon = min(math.lcm(*slides), max(slides) * max(1, _HORIZON // len(asked)))
    due: dict[int, set[WindowPair]] = {}
    for each in asked:
        for time in range(each.slide, horizon + 1, each.slide):
            due.setdefault(time, set()).add(each.windows)
    reads = sum(_read(part, pairs.intersection(part.pairs), load) for pairs in due.values() for part in parts)
    return sum(_update(part, load) for part in parts) + reads / horizon


def _update(part: JoinPart, load: JoinLoad) -> float:
    """The cost of an update: the results of a pane belong to intervals of all ages, by the panes of both tuples."""
    b, band, come = part.capacity, part.band, (2 * part.capacity - 1) * load.density
    if part.kind == "basic":
        apart = come if band.values > 1 else 0.0
        return load.touch + _MERGED * (come + apart + (b + _cells(part)) * load.density)
    if part.kind == "table":
        return load.touch + _INSERTED * come + 3.0 * (band.high + 2 + 2 - band.low)
    # A result that leads by three panes is also one that leads by one and by two.
    leads = _cells(part) * load.density
    vectors = b + (_tree(b) if part.kind == "interval" else 2 * b)
    return load.touch * (1 + _LOOKUP * (band.values - 1)) + _INSERTED * (come + leads) + vectors


def read_cost(part: JoinPart, pair: WindowPair, load: JoinLoad) -> float:
    """The cost of reading one pair of windows, in combinations of two values: for policies that weigh schedules."""
    return _read(part, {pair}, load) * load.groups * load.components


def _read(part: JoinPart, pairs: set[WindowPair], load: JoinLoad) -> float:
    """One joint execution: a scan is shared (CS5), lookups are not (CS4)."""
    readings = [part.band.reading(pair) for pair in pairs]
    if not readings:
        return 0.0
    if part.kind == "basic":
        scanned = max(reading.whole for reading in readings) * load.density
        unequal = [reading for reading in readings if reading.next]
        return load.touch + scanned + sum(_LOOKUP * load.touch + _apart(part.band, each, load) for each in unequal)
    if part.kind == "table":
        return (_LOOKUP * load.touch + 4.0) * len(readings)
    each = 2.0 if part.kind == "running" else max(1.0, math.log2(part.capacity))
    return sum(_LOOKUP * load.touch + each + reading.next for reading in readings)


def _apart(band: Band, reading: PairReading, load: JoinLoad) -> float:
    """A copy of the scanned values, and the rows of the leads that reach."""
    most = band.above if reading.side > 0 else band.below
    return 1.0 + sum(max(0, most - reading.least - i + 1) for i in range(reading.next)) * load.density


# -- why -----------------------------------------------------------------------------------------------


def _reason(best: JoinChoice, found: list[JoinChoice], refused: list[str]) -> str:
    def costs(choice: JoinChoice) -> str:
        return f"{_name(choice)}: {choice.space:.3g} numbers and {choice.time:.3g} steps per pane and group"

    others = sorted((choice for choice in found if choice is not best), key=lambda choice: choice.price)
    against = [f"against {costs(others[0])}"] if others else []
    return "; ".join([" ".join([costs(best), *against]), *refused])


def _name(choice: JoinChoice) -> str:
    (kind,) = {part.kind for part in choice.parts}
    if kind == "table":
        return f"a {_WORDS[kind]}"
    values = " + ".join(str(part.band.values) for part in choice.parts)
    return f"{_WORDS[kind]} of {values} value{'s' * (values != '1')} per interval"
