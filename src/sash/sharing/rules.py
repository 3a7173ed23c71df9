"""The sharing rules of the thesis (8.3, 8.4.3): SS1 to SS4 for state, CS1 to CS8 for computation and output.

A rule is a function over descriptions that decides, or does not apply. The rules are ordered tuples, and the first that
applies decides: a rule in front of the others overrules them.

    state          may this query be answered from these synopses?                        SS1 to SS4 (state_rules.py)
    computation    may these queries, which use these synopses, be executed together?     CS1 to CS7
    output         does a registered query give the answers already?                      CS8

A synopsis for lookups (running, interval, landmark, RJ, IJ) is looked up for each window length anew, so only equal
windows share. A scanned one (basic interval, BIJ) gives the answers of shorter windows on the way. All rules of
computation assume that the queries may use the synopses as their state.

    Q   MAX(length) [WINDOW 10 min SLIDE 2 min]      computed every 2 min
    Q'  MAX(length) [WINDOW 10 min SLIDE 3 min]      has the answers of Q, every 2 min; once Q is gone, every 3 min
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

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
    windows_text,
)
from sash.sharing.state_rules import JOIN_STATE, PREDICATE_STATE, STATE, combine_predicates

StateRules = tuple[Rule[QueryDescription], ...]
ComputationRules = tuple[Rule[Queries], ...]

STATE_RULES: StateRules = (*STATE, *JOIN_STATE, *PREDICATE_STATE)

__all__ = [
    "COMPUTATION_RULES",
    "STATE_RULES",
    "Decision",
    "Kind",
    "QueryDescription",
    "Rule",
    "SynopsisDescription",
    "effective_period",
    "may_compute_together",
    "may_share_state",
    "shares_output",
    "together_key",
]

# A query without a name, which is only explained.
THIS = "this query"


def shares_output(registered: QueryDescription, new: QueryDescription) -> Decision:
    """CS8: an identical query whose period is not shorter gets the output of the registered one."""
    if replace(new, id=registered.id, slide=registered.slide) != registered:
        return Decision("CS8", False, f"{new.id or THIS} is not the same query as {registered.id}")
    own, other = (length_text(query.slide, query.by_rows) for query in (new, registered))
    if new.slide < registered.slide:
        return Decision("CS8", False, f"{registered.id} is computed every {other}, {new.id or THIS} is due every {own}")
    return Decision("CS8", True, f"{registered.id} is the same query and computed every {other}")


def effective_period(registered: QueryDescription | None, new: QueryDescription) -> int:
    """How often the new query has an answer: by its own period if it shares no output (None)."""
    if registered is not None and shares_output(registered, new).allowed:
        return registered.slide
    return new.slide


def together_key(kind: Kind, windows: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """The part of a scheduling group's name that the rules add: nothing if all windows share, otherwise the windows.

    >>> together_key(Kind.BASIC_INTERVAL, (10,)), together_key(Kind.RUNNING, (10,))
    ((), (10,))
    """
    return () if kind in SCANNED else windows


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
