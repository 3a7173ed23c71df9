"""State sharing between queries with overlapping predicates (thesis 8.3.3): SS4."""

from __future__ import annotations

from sash.sharing.covers import Cover, find_cover
from sash.sharing.rules.conditions import why_not_aligned, why_not_relevant, why_too_short
from sash.sharing.rules.descriptions import (
    DUPLICATE_INSENSITIVE,
    SUBTRACTABLE,
    Decision,
    QueryDescription,
    Rule,
    Synopses,
    listed,
)


def combine_predicates(query: QueryDescription, synopses: Synopses) -> Decision:
    """SS4: synopses of the same data whose predicates cover the query's, aligned and long enough."""
    relevant = relevant_synopses(query, synopses)
    cover = _cover(query, relevant)
    if cover is None:
        return Decision("SS4", False, _why_not_covered(query, relevant))
    used = [relevant[place] for place in (*cover.added, *cover.subtracted)]
    reasons = (why_too_short(query, synopsis) for synopsis in used)
    why = why_not_aligned(used) or next((reason for reason in reasons if reason is not None), None)
    return Decision("SS4", why is None, why or f"the answer is {combination(query, relevant)}")


def relevant_synopses(query: QueryDescription, synopses: Synopses) -> Synopses:
    """Those with the same data about the same input, whatever their predicates."""
    return [synopsis for synopsis in synopses if why_not_relevant(query, synopsis) is None]


def combination(query: QueryDescription, synopses: Synopses) -> str | None:
    """How relevant synopses give the query's answer: `Q1 + Q2`, `Q3 - Q2`, `max(Q4, Q5)`; None if they do not."""
    cover = _cover(query, synopses)
    if cover is None:
        return None
    if cover.combine == "extreme":
        return f"{query.aggregate.lower()}({', '.join(synopses[place].id for place in cover.added)})"
    added = " + ".join(synopses[place].id for place in cover.added)
    return " - ".join([added, *(synopses[place].id for place in cover.subtracted)])


def _cover(query: QueryDescription, synopses: Synopses) -> Cover | None:
    return find_cover(
        query.where,
        [synopsis.where for synopsis in synopses],
        sensitive=query.data not in DUPLICATE_INSENSITIVE,
        subtractable=query.data in SUBTRACTABLE,
    )


def _why_not_covered(query: QueryDescription, relevant: Synopses) -> str:
    if not relevant:
        return f"no synopsis has {query.data} of {query.argument} over {listed(query.streams)}"
    apart = "" if query.data in DUPLICATE_INSENSITIVE else " without counting a row twice"
    return f"the predicates of {listed(each.id for each in relevant)} do not make up {query.where}{apart}"


PREDICATE_STATE = (Rule("SS4", combine_predicates, always_beneficial=False),)
