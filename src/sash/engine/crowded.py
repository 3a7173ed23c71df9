"""Too many groups: a query that would take all memory fails, and its neighbours go on."""

from __future__ import annotations

from sash.engine.group import PaneGroup


def crowded(group: PaneGroup) -> dict[str, str]:
    """The queries that read a pane table with more groups than there may be, and the reason; all of them, or none.

    Whatever their aggregates and conditions, they have the groups in common.
    """
    most = group.settings.max_groups
    if group.synopsis.groups <= most or (groups := group.synopsis.live_groups()) <= most:
        return {}
    why = (
        f"it has {groups:,} groups by {group.label} in its windows, and max_groups is {most:,}: group by something "
        "coarser, take a shorter window, an estimate (APPROX_TOP, APPROX_COUNT_DISTINCT) where every value counts, or "
        "connect(max_groups=..) with more if there is memory"
    )
    return {name: why for name, _ in group.readers}
