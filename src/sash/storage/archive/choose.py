"""PARTITION AUTO: the guidelines of the thesis (4.4.6) from the size of the data and the queries between updates.

                      few queries         many queries
    small data        NoRebuild 4 x 4     Rebuild 2 x 2
    large data        NoRebuild 3 x 3     NoRebuild 2 x 2

More sub-indices make updates cheaper and every query dearer; Rebuild makes queries cheaper and updates dearer, the
more so the more data there are. "Rebuild 2 x 2 or 3 x 3 only if fast probes are crucial" is left to the user.

The thesis measured 500 MB as small and 5 GB as large, with a query of each kind per update, and gives no limits;
those here lie between (the geometric mean, and some ten times its queries).
"""

from __future__ import annotations

from dataclasses import dataclass

LARGE_FROM_BYTES = 1_600_000_000
MANY_FROM_QUERIES = 20.0
# A choice is kept until what was measured is this far beyond a limit: changing costs a rewriting of everything.
HYSTERESIS = 2.0


@dataclass(frozen=True)
class PartitionChoice:
    g: int
    e: int
    strategy: str


def choose(size: float, queries: float, slots: int) -> PartitionChoice:
    """For so many bytes, queries per update, and updates in a lifetime.

    >>> choose(500e6, 2, 8)
    PartitionChoice(g=4, e=4, strategy='no_rebuild')
    """
    large, many = size >= LARGE_FROM_BYTES, queries >= MANY_FROM_QUERIES
    if many:
        side, strategy = 2, "no_rebuild" if large else "rebuild"
    else:
        side, strategy = (3 if large else 4), "no_rebuild"
    side = max(2, min(side, slots))
    return PartitionChoice(side, side, strategy)


def rechoose(current: PartitionChoice, size: float, queries: float, slots: int) -> PartitionChoice:
    """The choice for what is measured now; the current one as long as the figures are near a limit."""
    around = {
        choose(size * by, queries * often, slots)
        for by in (1 / HYSTERESIS, HYSTERESIS)
        for often in (1 / HYSTERESIS, HYSTERESIS)
    }
    return around.pop() if len(around) == 1 else current
