"""Join synopses (thesis 8.3.2): aggregates over the results of a join, for many pairs of windows at once.

    kind       thesis   holds, per interval of expiry                 update        lookup           answers
    basic      BIJ      all results; leads apart (see `pairs`)        b             one scan for     everything
                                                                                    all pairs
    interval   IJ       base-intervals; leads apart, cumulative       2b + leads    log b + |n1-n2|  sums, extremes
    running    RJ       running sums; leads apart, cumulative         b + leads     2 + |n1-n2|      exact sums
    table               running sums in two dimensions                N1 + N2 + 1   4                exact sums

`basic` is `JoinPanes`, sparse rows of any partial; the others are `JoinLookups`, vectors over groups. What a synopsis
with some band answers is in `pairs`; which one is kept is decided in `sash.sharing.choose_join`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sash.synopses.joins.history import JoinHistory
from sash.synopses.joins.lookups import JoinLookups, join_refusal, longest_pair
from sash.synopses.joins.pairs import Band, WindowPair
from sash.synopses.joins.panes import JoinPanes
from sash.synopses.joins.results import JoinRows
from sash.synopses.joins.table import RunningTable
from sash.synopses.joins.vectors import JoinVectors
from sash.synopses.partials import Partial

JOIN_KINDS = ("basic", "interval", "running", "table")

__all__ = [
    "JOIN_KINDS",
    "Band",
    "JoinHistory",
    "JoinLookups",
    "JoinPanes",
    "JoinRows",
    "JoinVectors",
    "RunningTable",
    "WindowPair",
    "join_refusal",
    "join_synopsis",
    "longest_pair",
]


def join_synopsis(
    kind: str, key_types: list[pa.DataType], partials: Iterable[Partial], length: int, band: Band, capacity: int
) -> JoinHistory:
    """A synopsis of some kind over panes of some length."""
    if kind == "basic":
        return JoinPanes(key_types, partials, length, band, capacity)
    return JoinLookups(kind, key_types, partials, length, band, capacity)
