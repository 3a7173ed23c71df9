"""State sharing over joins (thesis 8.3.2): SS3."""

from __future__ import annotations

from sash.sharing.rules.conditions import why_not_answered
from sash.sharing.rules.descriptions import JOINS, Decision, QueryDescription, Rule, Synopses


def share_join_synopsis(query: QueryDescription, synopses: Synopses) -> Decision | None:
    """SS3: joins of windows of n intervals each, and of lengths one apart among the g oldest intervals."""
    if len(synopses) != 1 or synopses[0].kind not in JOINS or synopses[0].where != query.where:
        return None
    (synopsis,) = synopses
    why = why_not_answered(query, synopsis)
    return Decision("SS3", why is None, why or f"the {synopsis.kind.words} {synopsis.id} has the results of the join")


JOIN_STATE = (Rule("SS3", share_join_synopsis),)
