"""The multi-way join algorithms of the thesis (5.2) line by line, and their results by definition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from papers.joins.algorithms import ALGORITHMS
from papers.joins.lazy_join import JoinResults, Tuples
from sash.core.changes import NEVER

# ("time", length), ("rows", number), or ("lifetimes", those of the tuples in turn, over and over)
Window = tuple[str, int | Sequence[int]]
# (members, reported, ts, exp, sign)
Result = tuple[tuple[int, ...], int, int, int, int]


@dataclass
class Plain:
    """Windows are lists of places, one per bucket; `exp` may be set by negative tuples."""

    algorithm: str
    tuples: Tuples
    order: Sequence[int]
    interval: int
    buckets: int
    results: list[Result] = field(default_factory=list)
    probed: int = 0
    compared: int = 0

    def __post_init__(self) -> None:
        self.number = ALGORITHMS[self.algorithm].number
        self.windows = [[list[int]() for _ in range(self.buckets)] for _ in self.order]
        self.given_exp = self.tuples.exp.tolist()
        self.stream, self.value, self.ts, self.exp, self.back = (
            part.tolist() for part in (self.tuples.stream, self.tuples.value, self.tuples.ts,
                                       self.tuples.exp, self.tuples.back)
        )  # fmt: skip

    def run(self) -> Plain:
        if self.number in (2, 3):
            for place in range(len(self.ts)):
                self.arrive(place)
        else:
            for now in range(0, max(self.ts, default=-1) + self.interval, self.interval):
                self.evaluate(now, [place for place, ts in enumerate(self.ts) if now - self.interval < ts <= now])
        return self

    def bucket(self, place: int) -> list[int]:
        return self.windows[self.stream[place]][self.value[place] % self.buckets]

    def arrive(self, place: int) -> None:
        now, gone = self.ts[place], self.back[place]
        if gone >= 0:
            self.bucket(gone).remove(gone)
        else:
            self.bucket(place).append(place)
        if self.number == 2:
            self.expire(now, besides=self.stream[place])
        # Algorithm 3 may expire whenever it likes: here never.
        self.compute([place if gone < 0 else gone], now if self.number == 3 else None, now, now, -1 if gone >= 0 else 1)

    def evaluate(self, now: int, arrived: list[int]) -> None:
        for place in arrived:
            if self.back[place] >= 0:
                self.take_back(self.back[place], self.ts[place], now, arrived)
        new = [place for place in arrived if self.back[place] < 0 and (self.number == 5 or self.exp[place] > now)]
        for stream in self.order:
            mine = [place for place in new if self.stream[place] == stream]
            for place in mine:
                self.bucket(place).append(place)
            for value in sorted({self.value[place] for place in mine}):
                group = [place for place in mine if self.value[place] == value]
                self.compute(group, min(self.ts[place] for place in group) if self.number == 5 else None, now)
        self.expire(now if self.number == 5 else now + self.interval)

    def take_back(self, gone: int, ts: int, now: int, arrived: list[int]) -> None:
        if gone not in arrived and gone in self.bucket(gone):
            if self.number == 4:
                self.bucket(gone).remove(gone)
            self.compute([gone], ts if self.number == 5 else None, now, ts, -1)
        self.exp[gone] = ts

    def expire(self, until: int, besides: int = -1) -> None:
        for stream, window in enumerate(self.windows):
            for bucket in window:
                if stream != besides:
                    bucket[:] = [place for place in bucket if self.exp[place] > until]

    def compute(self, group: list[int], since: int | None, now: int, at: int | None = None, sign: int = 1) -> None:
        others = [stream for stream in self.order if stream != self.stream[group[0]]]
        for chosen in self.loops(others, self.value[group[0]], since):
            for each in group:
                members = tuple(sorted((*chosen, each), key=self.stream.__getitem__))
                start, until = max(self.ts[place] for place in members), min(self.exp[place] for place in members)
                if sign < 0 or self.number != 5 or start < until:
                    self.results.append((members, now, start if at is None else at, until, sign))

    def loops(self, others: list[int], value: int, since: int | None) -> Iterator[tuple[int, ...]]:
        if not others:
            yield ()
            return
        for place in self.windows[others[0]][value % self.buckets]:
            self.probed += 1
            if since is not None and self.exp[place] <= since:
                continue
            self.compared += 1
            if self.value[place] == value:
                for rest in self.loops(others[1:], value, since):
                    yield (place, *rest)


def results_of(found: JoinResults) -> list[Result]:
    columns = (found.reported, found.ts, found.exp, found.sign)
    return list(zip(map(tuple, found.members.tolist()), *(column.tolist() for column in columns), strict=True))


def arriving(streams: Sequence[Sequence[tuple[int, int]]], windows: Sequence[Window]) -> Tuples:
    """(timestamp, value) tuples of each stream, as its window lets them expire or takes them back."""
    events: list[tuple[int, int, int, int, int, tuple[int, int] | None, tuple[int, int]]] = []
    for stream, (tuples, (kind, length)) in enumerate(zip(streams, windows, strict=True)):
        ordered = sorted(tuples, key=lambda pair: pair[0])
        for place, (ts, value) in enumerate(ordered):
            if kind != "rows":
                lives = length if kind == "time" else length[place % len(length)]
                events.append((ts, 1, stream, value, ts + lives, None, (stream, place)))
                continue
            out = ordered[place + length][0] if place + length < len(ordered) else None
            # A tuple that is pushed out at its arrival is never seen.
            if out == ts:
                continue
            events.append((ts, 1, stream, value, NEVER, None, (stream, place)))
            if out is not None:
                events.append((out, 0, stream, value, NEVER, (stream, place), (stream, -1 - place)))
    events.sort(key=lambda event: event[:2])
    places = {event[-1]: place for place, event in enumerate(events)}
    back = [-1 if event[5] is None else places[event[5]] for event in events]
    rows = [(event[2], event[3], event[0], event[4], gone) for event, gone in zip(events, back, strict=True)]
    return Tuples(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def definition(tuples: Tuples, streams: int, now: int) -> set[tuple[int, ...]]:
    """The results at an instant: one live tuple of each stream, all with the same value."""
    out = tuples.exp.copy()
    for place, gone in enumerate(tuples.back.tolist()):
        if gone >= 0:
            out[gone] = tuples.ts[place]
    lives = (tuples.back < 0) & (tuples.ts <= now) & (now < out)
    live = [np.flatnonzero(lives & (tuples.stream == stream)).tolist() for stream in range(streams)]
    return {chosen for chosen in product(*live) if len({tuples.value[place] for place in chosen}) == 1}


def view(results: Sequence[Result], now: int) -> set[tuple[int, ...]]:
    """The rows that results leave at an instant; nothing comes twice, and only existing rows are taken back."""
    shown: set[tuple[int, ...]] = set()
    for members, _, _, _, sign in (result for result in results if result[2] <= now < result[3]):
        assert (members in shown) is (sign < 0)
        (shown.add if sign > 0 else shown.remove)(members)
    return shown
