"""The sharing rules of the thesis (8.3, 8.4.3): SS1 to SS4 for state, CS1 to CS8 for computation.

A rule is a function over descriptions that decides, or has nothing to say. The rules are ordered tuples, and the first
that has something to say decides: a rule that is put in front of the others overrules them.

    state          may this query be answered from these synopses?
    computation    may these queries, which use these synopses, be executed together?
    output         does a query that is there already give the answers?
"""

from __future__ import annotations

from sash.sharing.computation_rules import COMPUTATION, effective_period, shares_output, together_key
from sash.sharing.descriptions import Decision, Kind, Queries, QueryDescription, Rule, Synopses, SynopsisDescription
from sash.sharing.state_rules import JOIN_STATE, PREDICATE_STATE, STATE

StateRules = tuple[Rule[QueryDescription], ...]
ComputationRules = tuple[Rule[Queries], ...]

STATE_RULES: StateRules = (*STATE, *JOIN_STATE, *PREDICATE_STATE)
COMPUTATION_RULES: ComputationRules = COMPUTATION

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
    """Whether queries gain by being executed together; of several synopses, a query may use one or all.

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
