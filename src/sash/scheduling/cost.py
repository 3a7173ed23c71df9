"""The analytic cost of executions over a basic interval synopsis (thesis, section 8.4.4).

A joint execution scans the youngest intervals once, as far back as its longest window; answers over shorter
windows come for free along the way. Combining k intervals takes k - 1 comparisons (for MAX; any aggregate's
combine counts the same). Maintenance costs are left out: they are the same under every schedule.
"""

from __future__ import annotations

from collections.abc import Iterable

from sash.core.time import Micros


def intervals_scanned(windows: Iterable[Micros], s: Micros) -> int:
    """How many intervals of length s the longest of these windows covers; a part of one counts whole.

    >>> intervals_scanned([10, 5, 6], s=1)
    10
    """
    return max((-(-window // s) for window in windows), default=0)


def joint_cost(windows: Iterable[Micros], s: Micros) -> int:
    """Cost of executing queries over these windows together.

    >>> joint_cost([10, 5, 6], s=1)
    9
    """
    return max(0, intervals_scanned(windows, s) - 1)


def separate_cost(windows: Iterable[Micros], s: Micros) -> int:
    """Cost of executing each of these queries on its own."""
    return sum(joint_cost((window,), s) for window in windows)
