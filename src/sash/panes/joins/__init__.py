"""Join synopses (thesis 8.3.2): aggregates over the results of a join, for many pairs of windows at once.

    kind       thesis   holds, per interval of expiry                 update        lookup           answers
    basic      BIJ      all results; leads apart (see `pairs`)        b             one scan for     everything
                                                                                    all pairs
    interval   IJ       base-intervals; leads apart, cumulative       2b + leads    log b + |n1-n2|  sums, extremes
    running    RJ       running sums; leads apart, cumulative         b + leads     2 + |n1-n2|      exact sums
    table               running sums in two dimensions                N1 + N2 + 1   4                exact sums

`basic` is `JoinPanes`, sparse rows of any partial; the others are `JoinLookups`, vectors over groups.
`sash.sharing.choose_join` decides which one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sash.panes.joins.bands import JoinPanes
from sash.panes.joins.join_synopsis import JoinHistory
from sash.panes.joins.lookups import JoinLookups, join_refusal, pair_refusal
from sash.panes.joins.pairs import Band, JoinRows, WindowPair
from sash.panes.partials import Partial

JOIN_KINDS = ("basic", "interval", "running", "table")

__all__ = [
    "JOIN_KINDS",
    "Band",
    "JoinHistory",
    "JoinRows",
    "WindowPair",
    "join_refusal",
    "join_synopsis",
    "pair_refusal",
]


def join_synopsis(
    kind: str, key_types: list[pa.DataType], partials: Iterable[Partial], length: int, band: Band, capacity: int
) -> JoinHistory:
    """A synopsis of some kind over panes of some length."""
    if kind == "basic":
        return JoinPanes(key_types, partials, length, band, capacity)
    return JoinLookups(kind, key_types, partials, length, band, capacity)
