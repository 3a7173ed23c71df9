"""Statistics of streams for the optimiser, counted in the passes that run anyway (thesis 3.5.3: rates, selectivities).

    rates          tuples and micro-batches per second of event time, from the second micro-batch on
    selectivities  of a window's own condition: tuples that came to the window, of rows that were read
    distinct       values of a column, from a sample of the last micro-batch, or the groups of a pane table
    taken back     of a negation's or an intersection's results that an operator above stores, the part that was

A plan's tuples are counted where they are in the Sash process. Numbers that nobody has measured are assumed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.changes.operator import ENOUGH, counters_of
from sash.core.time import SECOND, Micros
from sash.plan.continuous import BaseWindow, Filter, Intersection, Map, Negation, Node, edges
from sash.plan.estimates import Statistics, condition_on, expression_on, matched_in, occupied

if TYPE_CHECKING:
    from sash.runtime.periodic.stream_runtime import StreamRuntime

SAMPLE = 10_000


@dataclass
class RateMeter:
    """Counts tuples after the first micro-batch: when the first one began is not known.

    >>> meter = RateMeter()
    >>> for rows, latest in ((500, 1 * SECOND), (100, 2 * SECOND), (300, 3 * SECOND)):
    ...     meter.take(rows, latest)
    >>> meter.rate, meter.epochs
    (200.0, 1.0)
    """

    begin: Micros | None = None
    latest: Micros = 0
    tuples: int = 0
    batches: int = 0

    def take(self, rows: int, latest: Micros | None) -> None:
        if latest is None:
            return
        if self.begin is None:
            self.begin = self.latest = latest
            return
        self.tuples += rows
        self.batches += 1
        self.latest = max(self.latest, latest)

    @property
    def rate(self) -> float | None:
        return self._per_second(self.tuples)

    @property
    def epochs(self) -> float | None:
        return self._per_second(self.batches)

    def _per_second(self, number: int) -> float | None:
        if self.begin is None or self.latest == self.begin or not number:
            return None
        return number * SECOND / (self.latest - self.begin)


class RecentRates:
    """Tuples of a plan's streams since the last look. A stream that was silent has one tuple: the next may come.

    >>> recent = RecentRates(["s", "t"])
    >>> for second in range(4):
    ...     recent.take("s", 100, second * SECOND)
    >>> recent.batches, recent.rates
    (3, {'s': 100.0, 't': 0.3333333333333333})
    >>> recent.begin_anew()
    >>> recent.take("s", 500, 4 * SECOND)
    >>> recent.batches, recent.rates
    (1, {'s': 500.0, 't': 1.0})
    """

    def __init__(self, streams: Iterable[str]) -> None:
        self._meters = {name: RateMeter() for name in streams}

    def take(self, stream: str, rows: int, latest: Micros | None) -> None:
        self._meters[stream].take(rows, latest)

    @property
    def batches(self) -> int:
        return sum(meter.batches for meter in self._meters.values())

    @property
    def epochs(self) -> float:
        """Micro-batches per second, of the stream with most of them."""
        return max((meter.epochs or 0.0 for meter in self._meters.values()), default=0.0)

    @property
    def rates(self) -> dict[str, float]:
        """Tuples per second; nothing while time stands still."""
        begun = ((meter.begin, meter.latest) for meter in self._meters.values())
        span = max((latest - begin for begin, latest in begun if begin is not None), default=0)
        return {name: meter.rate or SECOND / span for name, meter in self._meters.items()} if span else {}

    def begin_anew(self) -> None:
        for name, meter in self._meters.items():
            self._meters[name] = RateMeter(None if meter.begin is None else meter.latest, meter.latest)


class ObservedWindows:
    """The tuples of a plan's windows, in the layout that Spark gives them: `places` are each window's slots."""

    def __init__(self, windows: Sequence[BaseWindow], places: Sequence[Sequence[int]]) -> None:
        self._windows = windows
        self._places = places
        self._came = np.zeros(len(windows), dtype=np.int64)
        self._read = dict.fromkeys((window.stream.lower() for window in windows), 0)
        self._samples: dict[str, pa.Table] = {}
        # The numbers at the last look.
        self._looked_at = self._came, dict.fromkeys(self._read, 0)

    def take(self, stream: str, tuples: pa.Table, rows: int) -> None:
        """Count a micro-batch: the stream had `rows` rows, and `tuples` of them came to the windows."""
        leaves = np.asarray(tuples["_leaf"], dtype=np.int64)
        self._came = self._came + np.bincount(leaves, minlength=len(self._windows))
        self._read[stream] += rows
        if len(leaves):
            chosen = np.unique(np.linspace(0, len(leaves) - 1, SAMPLE).astype(np.int64))
            self._samples[stream] = tuples.take(pa.array(chosen))

    def begin_anew(self) -> None:
        """From now on, recent tuples are those that come."""
        self._looked_at = self._came, dict(self._read)

    @property
    def has_seen_all(self) -> bool:
        """Whether tuples of every stream were in this process."""
        return self._samples.keys() == self._read.keys()

    def selectivities(self, streams: Container[str], *, recent: bool = False) -> dict[str, float]:
        """Of all tuples, or of those since the last look."""
        found = {}
        before, read_before = self._looked_at if recent else (0, dict.fromkeys(self._read, 0))
        for window, came in zip(self._windows, (self._came - before).tolist(), strict=True):
            stream = window.stream.lower()
            read = self._read[stream] - read_before[stream] if stream in streams else 0
            if window.predicate is not None and read:
                # Perhaps not a single tuple came. The estimate counts one, because the next tuple may come.
                found[condition_on(window.stream, window.predicate.sql)] = min(1.0, max(came, 1) / read)
        return found

    def distinct(self, streams: Container[str]) -> dict[str, float]:
        """Values per column: of windows without a condition if there are some, else of the window with most values."""
        passed, every = dict[str, float](), dict[str, float]()
        for place, window in enumerate(self._windows):
            found = every if window.predicate is None else passed
            sample = self._samples.get(window.stream.lower())
            if sample is None or window.stream.lower() not in streams:
                continue
            mine = sample.filter(pc.equal(sample["_leaf"], place))
            for column, slot in zip(window.columns, self._places[place], strict=True):
                values = _values(mine[f"s{slot}"])
                if values is not None:
                    name = expression_on(window.stream, column.expression.sql)
                    found[name] = max(values, found.get(name, 0.0))
        return passed | every


def _values(column: pa.ChunkedArray) -> float | None:
    try:
        different = pc.count_distinct(column).as_py()
    except pa.ArrowNotImplementedError:
        return None
    return number_of_values(different, len(column) - column.null_count) if different else None


def number_of_values(different: int, tuples: int) -> float:
    """Estimate how many values there are if a sample has `different` ones, and all are equally frequent.

    >>> round(number_of_values(10, 10_000)), round(number_of_values(632, 1_000)), number_of_values(100, 100)
    (10, 1000, 5000.0)
    """
    low, high = float(different), max(float(different), tuples**2 / 2)
    if occupied(high, tuples) <= different:
        return high
    while high - low > 1e-6 * high:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if occupied(middle, tuples) < different else (low, middle)
    return high


def parts_taken_back(plan: Node, states: Iterable[Mapping[str, int]]) -> dict[str, float]:
    """The parts of matched tuples that were taken back, by the counters of a plan's buckets."""
    counted, found = sum(map(Counter, states), Counter[str]()), dict[str, float]()
    for path, node in edges(plan):
        while isinstance(node, Filter | Map):
            node = node.input
        came, taken_back = (counted[each] for each in counters_of(f"{path}.live"))
        if isinstance(node, Negation | Intersection) and came >= ENOUGH:
            found[matched_in(node)] = min(1.0, taken_back / came)
    return found


def measured(
    streams: Iterable[StreamRuntime],
    plans: Iterable[ObservedWindows],
    taken_back: Mapping[str, float] = MappingProxyType({}),
) -> Statistics:
    """The statistics of some streams, from their pane tables and from the plans that run."""
    known = {stream.stream.name.lower(): stream for stream in streams}
    rates = {name: stream.meter.rate for name, stream in known.items()}
    epochs = [stream.meter.epochs for stream in known.values() if stream.meter.epochs is not None]
    distinct, selectivities = dict[str, float](), dict[str, float]()
    for name, stream in known.items():
        for group in list(stream.groups.values()):
            if len(group.name.keys) == 1 and group.choices.load.groups:
                distinct[expression_on(name, group.name.keys[0].sql)] = float(group.choices.load.groups)
    for plan in plans:
        distinct |= plan.distinct(known)
        selectivities |= plan.selectivities(known)
    found = {name: rate for name, rate in rates.items() if rate is not None}
    return Statistics(
        found, selectivities, distinct, max(epochs, default=Statistics.epochs), taken_back=dict(taken_back)
    )
