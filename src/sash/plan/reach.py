"""How far back the answer of a continuous plan looks: what each stream must store for a complete answer.

    Every 10 sec <- Window on results [WINDOW 1 min] <- Results <- GroupBy <- Window s [WINDOW 5 min]
                    the results of a minute           each of them over five: six minutes of s

Lengths add up along a path. If lengths are not enough, because results are counted or never end, an answer needs its
stream from the beginning. A reach is never too short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sash.core.time import Micros
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import BaseWindow, Filter, Map, Node, NrrJoin, Union, edges, inputs, is_stream, windows
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Sampled, Snapshots


@dataclass(frozen=True)
class Reach:
    """The part of a stream, by lower-case name, before the time of an answer; None: from its beginning on."""

    stream: str
    length: int | None


@dataclass(frozen=True)
class _Above:
    """The results of a node that are read: those of this time (None: all), and if that bounds endless results, too."""

    length: int | None = 0
    bounds: bool = False

    def longer(self, by: int | None, *, bounds: bool) -> _Above:
        return _Above(None if by is None or self.length is None else self.length + by, bounds)


def reaches(plan: Node) -> tuple[Reach, ...]:
    """A reach for each window of a plan; without SLIDE, for its answer at any instant."""
    top = plan.input if isinstance(plan, Deltas) else plan
    if not isinstance(top, Sampled):
        return tuple(dict.fromkeys(_reaches(plan, _Above(bounds=is_stream(plan)))))
    # A stream has the results since the multiple before, and so have restored results.
    since = top.slide if is_stream(plan) or top.restore else 0
    above = _Above(since, bounds=is_stream(top))
    return tuple(dict.fromkeys(_reaches(top.input, above)))


def _reaches(node: Node, above: _Above) -> Iterator[Reach]:
    if isinstance(node, BaseWindow):
        yield Reach(node.stream.lower(), above.longer(_bounded(node.window), bounds=False).length)
        return
    if isinstance(node, ResultWindow):
        above = above.longer(_bounded(node.window), bounds=True)
    elif isinstance(node, Outliving) and node.by:
        # A result lives as long as its external tuples; the internal ones may have left before.
        above = above.longer(_longest(windows(node)), bounds=False)
    elif isinstance(node, Deltas | Outliving | Snapshots):
        above = above.longer(0 if above.bounds else None, bounds=False)
    elif not isinstance(node, Map | Filter | Union | NrrJoin):
        # A row of its answer may be new because of old results.
        above = above.longer(0, bounds=False)
    for below in inputs(node):
        yield from _reaches(below, above)


def _bounded(window: TimeWindow | RowWindow) -> int | None:
    return None if isinstance(window, RowWindow) or window.unbounded else window.length


def _longest(every: Iterable[BaseWindow]) -> int | None:
    lengths = [_bounded(window.window) for window in every]
    known = [length for length in lengths if length is not None]
    return max(known) if len(known) == len(lengths) else None


def pane_of(plan: Node, slide: int) -> int:
    """The length of panes for a plan's windows and its SLIDE: the gcd of all lengths of time."""
    found = [node.window for _, node in edges(plan) if isinstance(node, BaseWindow | ResultWindow)]
    return math.gcd(slide, *(length for length in map(_bounded, found) if length is not None))


def complete_from(needed: Iterable[Reach], since: Mapping[str, Micros], whole: Iterable[str]) -> Micros | None:
    """The first time as of which an answer is complete; None if that is not known yet.

    All tuples of a stream from `since` on are stored; for streams in `whole`, since their data began.

    >>> complete_from([Reach("s", 5), Reach("t", 7)], {"s": 100, "t": 90}, [])
    105
    >>> complete_from([Reach("s", None)], {"s": 100}, []) is None
    True
    """
    complete = set(whole)
    found: list[Micros] = []
    for reach in needed:
        if reach.stream not in since or (reach.length is None and reach.stream not in complete):
            return None
        found.append(since[reach.stream] + (reach.length or 0))
    return max(found, default=None)
