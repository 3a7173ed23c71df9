"""Too many groups: a query that would take all memory fails, and its neighbours go on."""

from __future__ import annotations

from sash.engine.periodic.group import PaneGroup


def crowded(group: PaneGroup, may_move: bool) -> dict[str, str]:
    """The queries that read a pane table with more groups than there may be, and the reason; all of them, or none.

    Whatever their aggregates and conditions, they have the groups in common. A group that may and is to go to the
    cluster does so before the next micro-batch.
    """
    most = group.settings.max_groups
    groups = group.panes.groups_beyond(most)
    if not groups or (may_move and group.is_too_large):
        return {}
    why = (
        f"it has {groups:,} groups by {group.label} in its windows, and max_groups is {most:,}: group by something "
        "coarser, take a shorter window, an estimate (APPROX_TOP, APPROX_COUNT_DISTINCT) where every value counts, or "
        "STORED IN CLUSTER, or connect(max_groups=..) with more if there is memory"
    )
    return {name: why for name, _ in group.readers}
