"""Shared synopses: one structure per stream, value and combine, from which windows of all widths are answered.

Each synopsis trades updates, lookups and space in its own way (Arasu and Widom 2004; thesis, 2.3.4):

    synopsis    paper's name   precomputes, per position          update         lookup    space       combines
    running     R-INT          the whole stream so far            1              1         N           ADD of int64
    interval    B-INT          base-intervals that end there      1, amortised   log W     2 N to 4 N  all
    landmark    L-INT          to and from landmarks around it    P, amortised   1         P N         all

for N positions (panes), windows of W of them, P partitions of their widths, up to constants. A synopsis refuses, when
it is made, a combine that it cannot do, with the reason.
"""

from __future__ import annotations

from sash.panes.intervals.interval import IntervalSynopsis
from sash.panes.intervals.landmark import LandmarkSynopsis
from sash.panes.intervals.running import RunningSynopsis
from sash.panes.intervals.synopsis import SharedSynopsis

SYNOPSES: dict[str, type[SharedSynopsis]] = {
    "running": RunningSynopsis,
    "interval": IntervalSynopsis,
    "landmark": LandmarkSynopsis,
}
