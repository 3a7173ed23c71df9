"""State sharing over one window (thesis 8.3.1): SS1, one synopsis; SS2, the two synopses of an AVG."""

from __future__ import annotations

from sash.sharing.rules.conditions import why_not_aligned, why_not_answered, why_other_input, why_too_short
from sash.sharing.rules.descriptions import JOINS, Decision, QueryDescription, Rule, Synopses, listed


def share_one_synopsis(query: QueryDescription, synopses: Synopses) -> Decision | None:
    """SS1: windows of n intervals, 1 <= n <= b, of aggregates that need the same data per interval."""
    if len(synopses) != 1 or synopses[0].kind in JOINS or synopses[0].where != query.where:
        return None
    (synopsis,) = synopses
    why = why_not_answered(query, synopsis)
    return Decision(
        "SS1", why is None, why or f"the {synopsis.kind.words} {synopsis.id} has {query.data} of every pane"
    )


def divide_sum_by_count(query: QueryDescription, synopses: Synopses) -> Decision | None:
    """SS2: AVG from a synopsis of sums and one of counts, aligned, with equal intervals and both long enough.

    The thesis speaks of running synopses; what it needs is only that both answer the same window at the same time.
    """
    if query.aggregate != "AVG" or sorted(synopsis.data for synopsis in synopses) != ["COUNT", "SUM"]:
        return None
    if any(synopsis.where != query.where for synopsis in synopses):
        return None
    reasons = (why_other_input(query, synopsis) or why_too_short(query, synopsis) for synopsis in synopses)
    why = why_not_aligned(synopses) or next((reason for reason in reasons if reason is not None), None)
    names = listed(synopsis.id for synopsis in sorted(synopses, key=lambda synopsis: synopsis.data, reverse=True))
    return Decision("SS2", why is None, why or f"{names} have the sum and the count of the same panes")


STATE = (Rule("SS1", share_one_synopsis), Rule("SS2", divide_sum_by_count))
