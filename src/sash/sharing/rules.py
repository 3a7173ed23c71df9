"""The sharing rules of the thesis (8.3, 8.4.3): SS1 to SS4 for state, CS1 to CS8 for computation and output.

A rule is a function over descriptions that decides, or does not apply. The rules are ordered tuples, and the first that
applies decides: a rule in front of the others overrules them.

    state          may this query be answered from these synopses?                        SS1, SS2: over one window
                                                                                          (8.3.1); SS3: over a join;
                                                                                          SS4: of other predicates
    computation    may these queries, which use these synopses, be executed together?     CS1 to CS7
    output         does a registered query give the answers already?                      CS8
    windows        may a continuous join use the state of one with longer windows?        SS5, which the thesis leaves
                                                                                          to future work (9.2)

A synopsis for lookups (running, interval, landmark, RJ, IJ) is looked up for each window length anew, so only equal
windows share. A scanned one (basic interval, BIJ) gives the answers of shorter windows on the way. All rules of
computation assume that the queries may use the synopses as their state. A join group asks for CS4 and CS5 by their
`together_key`.

    Q   MAX(length) [WINDOW 10 min SLIDE 2 min]      computed every 2 min
    Q'  MAX(length) [WINDOW 10 min SLIDE 3 min]      has the answers of Q, every 2 min; once Q is gone, every 3 min
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from sash.core.time import format_duration
from sash.sharing.covers import Cover, find_cover
from sash.sharing.descriptions import (
    JOINS,
    SCANNED,
    Decision,
    Kind,
    Queries,
    QueryDescription,
    Rule,
    Synopses,
    SynopsisDescription,
    length_text,
    listed,
    why_not_aligned,
    why_not_answered,
    why_not_relevant,
    why_other_input,
    why_too_short,
    windows_text,
)

StateRules = tuple[Rule[QueryDescription], ...]
ComputationRules = tuple[Rule[Queries], ...]

__all__ = [
    "COMPUTATION_RULES",
    "STATE_RULES",
    "Decision",
    "Kind",
    "QueryDescription",
    "Rule",
    "SynopsisDescription",
    "TogetherKey",
    "may_compute_together",
    "may_share_state",
    "shares_longer_windows",
    "shares_output",
    "together_key",
]

# A query without a name, which is only explained.
THIS = "this query"


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


def share_join_synopsis(query: QueryDescription, synopses: Synopses) -> Decision | None:
    """SS3: joins of windows of n intervals each, and of lengths one apart among the g oldest intervals."""
    if len(synopses) != 1 or synopses[0].kind not in JOINS or synopses[0].where != query.where:
        return None
    (synopsis,) = synopses
    why = why_not_answered(query, synopsis)
    return Decision("SS3", why is None, why or f"the {synopsis.kind.words} {synopsis.id} has the results of the join")


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


STATE_RULES: StateRules = (
    Rule("SS1", share_one_synopsis),
    Rule("SS2", divide_sum_by_count),
    Rule("SS3", share_join_synopsis),
    Rule("SS4", combine_predicates, always_beneficial=False),
)


def shares_output(registered: QueryDescription, new: QueryDescription) -> Decision:
    """CS8: an identical query whose period is not shorter gets the output of the registered one."""
    if replace(new, id=registered.id, slide=registered.slide) != registered:
        return Decision("CS8", False, f"{new.id or THIS} is not the same query as {registered.id}")
    own, other = (length_text(query.slide, query.by_rows) for query in (new, registered))
    if new.slide < registered.slide:
        return Decision("CS8", False, f"{registered.id} is computed every {other}, {new.id or THIS} is due every {own}")
    return Decision("CS8", True, f"{registered.id} is the same query and computed every {other}")


def shares_longer_windows(kept: tuple[int, ...] | None, asked: tuple[int, ...], *, has_expiries: bool) -> Decision:
    """SS5 (thesis 9.2): a join of windows that are not longer, from the state of the same join.

    `kept` are the windows of the state; None: no tuple has come, and they become as long as the longest.
    `has_expiries`: its pairs carry the expiries of their tuples.
    """
    if kept is None:
        return Decision("SS5", True, "no tuple has come: one state has the longest windows of all")
    own, theirs = (" and ".join(map(format_duration, lengths)) for lengths in (asked, kept))
    if any(own > kept for own, kept in zip(asked, kept, strict=True)):
        return Decision("SS5", False, f"windows of {own} are longer than those of {theirs} that are kept")
    shorter = {kept - own for own, kept in zip(asked, kept, strict=True)}
    if len(shorter) == 1:
        by = f"{format_duration(*shorter)} earlier than" if any(shorter) else "as"
        return Decision("SS5", True, f"a pair ends {by} in the windows of {theirs} that are kept")
    if has_expiries:
        return Decision("SS5", True, f"pairs in the windows of {theirs} that are kept carry when their tuples expire")
    return Decision(
        "SS5", False, f"windows of {own} are not shorter by one length than those of {theirs} that are kept"
    )


class TogetherKey(NamedTuple):
    """Queries of one synopsis with an equal key are executed together, by this rule."""

    rule: str
    windows: tuple[Hashable, ...]


def together_key(kind: Kind, windows: tuple[Hashable, ...]) -> TogetherKey:
    """The part of a scheduling group's name that the rules add: nothing if all windows share, otherwise the windows.

    >>> together_key(Kind.BASIC_INTERVAL, (10,))
    TogetherKey(rule='CS2', windows=())
    >>> together_key(Kind.RUNNING, (10,))
    TogetherKey(rule='CS1', windows=(10,))
    """
    scanned, looked_up = ("CS5", "CS4") if kind in JOINS else ("CS2", "CS1")
    return TogetherKey(scanned, ()) if kind in SCANNED else TogetherKey(looked_up, windows)


def look_up_equal_windows(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS1: one running, interval or landmark synopsis, equal windows."""
    return _look_up("CS1", queries, synopses) if _only_kind(synopses) not in SCANNED | JOINS | {None} else None


def scan_all_windows(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS2: one basic interval synopsis, here or in the cluster, any windows; an AVG's sums and counts count as one."""
    divided = any(query.aggregate == "AVG" for query in queries) and _are_sums_and_counts(synopses)
    kinds = {synopsis.kind for synopsis in synopses}
    scanned = len(kinds) == 1 and kinds <= SCANNED - JOINS
    return _scan("CS2", synopses) if scanned and (len(synopses) == 1 or divided) else None


def divide_answers(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS3: AVG divides the answers of SUM and COUNT over the same window."""
    aggregates = {query.aggregate for query in queries}
    if not _are_sums_and_counts(synopses) or "AVG" not in aggregates or not aggregates <= {"SUM", "COUNT", "AVG"}:
        return None
    if (differing := _why_apart(queries, synopses)) is not None:
        return Decision("CS3", False, f"AVG divides answers over its own window, but {differing}")
    return Decision("CS3", True, f"AVG divides the sum and the count over {windows_text(queries[0])}")


def look_up_equal_joins(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS4: one RJ or IJ synopsis, equal windows on both sides."""
    return _look_up("CS4", queries, synopses) if _only_kind(synopses) in JOINS - SCANNED else None


def scan_all_joins(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS5: one BIJ synopsis, any windows that it answers."""
    return _scan("CS5", synopses) if _only_kind(synopses) is Kind.BIJ else None


def reuse_equal_windows(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS6: a query that combines other queries' synopses (SS4) follows these queries, if all windows are equal."""
    if not _combines(queries, synopses) or all(synopsis.kind in SCANNED for synopsis in synopses):
        return None
    return _look_up("CS6", queries, synopses)


def reuse_in_one_scan(queries: Queries, synopses: Synopses) -> Decision | None:
    """CS7: the same with scanned synopses; windows may differ."""
    if not _combines(queries, synopses) or any(synopsis.kind not in SCANNED for synopsis in synopses):
        return None
    *candidates, new = queries
    names = list(dict.fromkeys(query.id for query in candidates))
    computed = f"{listed(names)} {'are' if len(names) > 1 else 'is'} computed"
    return Decision("CS7", True, f"while {computed}, values for {new.id or THIS} over {windows_text(new)} are saved")


def _are_sums_and_counts(synopses: Synopses) -> bool:
    return sorted(synopsis.data for synopsis in synopses) == ["COUNT", "SUM"]


def _only_kind(synopses: Synopses) -> Kind | None:
    return synopses[0].kind if len(synopses) == 1 else None


def _combines(queries: Queries, synopses: Synopses) -> bool:
    """Whether the last query is a new one, without a synopsis of its own; the others are its candidates."""
    new, own = queries[-1], {synopsis.where for synopsis in synopses}
    return len(queries) > 1 and new.where not in own and combine_predicates(new, synopses).allowed


def _scan(rule: str, synopses: Synopses) -> Decision:
    names = listed(synopsis.id for synopsis in synopses)
    return Decision(rule, True, f"one scan of {names} answers all windows on its way to the oldest pane")


def _look_up(rule: str, queries: Queries, synopses: Synopses) -> Decision:
    looked_up = listed(dict.fromkeys(synopsis.kind.words for synopsis in synopses if synopsis.kind not in SCANNED))
    if (differing := _why_apart(queries, synopses)) is not None:
        return Decision(rule, False, f"the {looked_up} is looked up for each window length, and {differing}")
    return Decision(rule, True, f"the {looked_up} is looked up once for the window {windows_text(queries[0])}")


def _why_apart(queries: Queries, synopses: Synopses) -> str | None:
    """Why queries are in different scheduling groups; None where their keys are equal."""
    looked_up = next((synopsis.kind for synopsis in synopses if synopsis.kind not in SCANNED), Kind.BASIC_INTERVAL)
    if len({together_key(looked_up, (*query.windows, query.lag)) for query in queries}) == 1:
        return None
    return f"the windows {listed(dict.fromkeys(map(windows_text, queries)))} differ"


COMPUTATION_RULES: ComputationRules = (
    Rule("CS1", look_up_equal_windows),
    Rule("CS2", scan_all_windows),
    Rule("CS3", divide_answers),
    Rule("CS4", look_up_equal_joins),
    Rule("CS5", scan_all_joins),
    Rule("CS6", reuse_equal_windows, always_beneficial=False),
    Rule("CS7", reuse_in_one_scan, always_beneficial=False),
)


def may_share_state(query: QueryDescription, synopses: Synopses, rules: StateRules = STATE_RULES) -> Decision:
    """Whether these synopses, all of them together, answer the query."""
    decisions = (rule.decide(query, synopses) for rule in rules)
    silent = Decision("none", False, f"no rule lets {query.id} use these synopses")
    return next((decision for decision in decisions if decision is not None), silent)


def may_compute_together(
    queries: Queries,
    synopses: Synopses,
    rules: ComputationRules = COMPUTATION_RULES,
    state_rules: StateRules = STATE_RULES,
) -> Decision:
    """Whether queries gain by joint execution; of several synopses, a query may use one or all.

    With overlapping predicates (CS6, CS7) the new query is the last one.
    """
    states = (_state(query, synopses, state_rules) for query in queries)
    refused = (state for state in states if not state.allowed)
    decisions = (rule.decide(queries, synopses) for rule in rules)
    silent = Decision("none", False, "these queries have no synopsis in common")
    return next(refused, None) or next((decision for decision in decisions if decision is not None), silent)


def _state(query: QueryDescription, synopses: Synopses, rules: StateRules) -> Decision:
    alone = (may_share_state(query, (synopsis,), rules) for synopsis in synopses)
    return next((state for state in alone if state.allowed), None) or may_share_state(query, synopses, rules)
