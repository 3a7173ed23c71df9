"""The rules of state sharing (thesis 8.3).

SS1   over one window: one synopsis (8.3.1)
SS2   over one window: the two synopses of an AVG (8.3.1)
SS3   over a join (8.3.2)
SS4   between queries with overlapping predicates (8.3.3)
"""

from __future__ import annotations

from sash.sharing.covers import Cover, find_cover
from sash.sharing.descriptions import (
    JOINS,
    Decision,
    QueryDescription,
    Rule,
    Synopses,
    listed,
    why_not_aligned,
    why_not_answered,
    why_not_relevant,
    why_other_input,
    why_too_short,
)


def share_join_synopsis(query: QueryDescription, synopses: Synopses) -> Decision | None:
    """SS3: joins of windows of n intervals each, and of lengths one apart among the g oldest intervals."""
    if len(synopses) != 1 or synopses[0].kind not in JOINS or synopses[0].where != query.where:
        return None
    (synopsis,) = synopses
    why = why_not_answered(query, synopsis)
    return Decision("SS3", why is None, why or f"the {synopsis.kind.words} {synopsis.id} has the results of the join")


JOIN_STATE = (Rule("SS3", share_join_synopsis),)


def combine_predicates(query: QueryDescription, synopses: Synopses) -> Decision:
    """SS4: synopses of the same data whose predicates cover the query's, aligned and long enough."""
    relevant = relevant_synopses(query, synopses)
    cover = _cover(query, relevant)
    if cover is None:
        return Decision("SS4", False, _why_not_covered(query, relevant))
    used = [relevant[place] for place in (*cover.added, *cover.subtracted)]
    reasons = (why_too_short(query, synopsis) for synopsis in used)
    why = why_not_aligned(used) or next((reason for reason in reasons if reason is not None), None)
    return Decision("SS4", why is None, why or f"the answer is {_combined(query, relevant, cover)}", cover)


def relevant_synopses(query: QueryDescription, synopses: Synopses) -> Synopses:
    """The synopses with the same data about the same input, whatever their predicates."""
    return [synopsis for synopsis in synopses if why_not_relevant(query, synopsis) is None]


def combination(query: QueryDescription, synopses: Synopses) -> str | None:
    """How relevant synopses give the query's answer: `Q1 + Q2`, `Q3 - Q2`, `max(Q4, Q5)`; None if they do not."""
    cover = _cover(query, synopses)
    return None if cover is None else _combined(query, synopses, cover)


def _combined(query: QueryDescription, synopses: Synopses, cover: Cover) -> str:
    if cover.combine == "extreme":
        return f"{query.aggregate.lower()}({', '.join(synopses[place].id for place in cover.added)})"
    added = " + ".join(synopses[place].id for place in cover.added)
    return " - ".join([added, *(synopses[place].id for place in cover.subtracted)])


def _cover(query: QueryDescription, synopses: Synopses) -> Cover | None:
    return find_cover(
        query.where,
        [synopsis.where for synopsis in synopses],
        sensitive=query.is_sensitive,
        subtractable=query.is_subtractable,
    )


def _why_not_covered(query: QueryDescription, relevant: Synopses) -> str:
    if not relevant:
        return f"no synopsis has {query.data} of {query.argument} over {listed(query.streams)}"
    apart = " without counting a row twice" if query.is_sensitive else ""
    return f"the predicates of {listed(each.id for each in relevant)} do not make up {query.where}{apart}"


PREDICATE_STATE = (Rule("SS4", combine_predicates, always_beneficial=False),)


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

    The thesis speaks of running synopses; but SS2 only needs that both answer the same window at the same time.
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
