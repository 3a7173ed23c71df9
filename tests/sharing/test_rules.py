"""The sharing rules beyond the golden file: reasons, new rules in front of the old, and the names of groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sash.core.time import SECOND
from sash.plan.predicates import Atom, disjunction, only
from sash.sharing.descriptions import JOINS, Queries, Synopses
from sash.sharing.rules import (
    COMPUTATION_RULES,
    STATE_RULES,
    Decision,
    Kind,
    QueryDescription,
    Rule,
    SynopsisDescription,
    may_compute_together,
    may_share_state,
    shares_output,
    together_key,
)

QUERY = QueryDescription("q", "MAX", "length", ("S",), (8 * SECOND,), 2 * SECOND)
PANES = SynopsisDescription("panes of S", Kind.BASIC_INTERVAL, "MAX", "length", ("S",), SECOND, 8)
JOIN = replace(QUERY, streams=("S", "R"), windows=(7 * SECOND, 8 * SECOND))
JOINED = replace(PANES, id="join", kind=Kind.BIJ, streams=("S", "R"), g=2)
TCP, UDP = (only(Atom("protocol", "=", name)) for name in ("TCP", "UDP"))
EITHER = disjunction([*TCP.terms, *UDP.terms])
AVERAGE = replace(QUERY, aggregate="AVG")
SUMS, COUNTS = (replace(PANES, id=data.lower(), kind=Kind.RUNNING, data=data) for data in ("SUM", "COUNT"))


def seconds(*windows: int) -> tuple[int, ...]:
    return tuple(window * SECOND for window in windows)


STATES = [
    (QUERY, [PANES], "SS1", "the basic interval synopsis panes of S has MAX of every pane"),
    (JOIN, [JOINED], "SS3", "the BIJ synopsis join has the results of the join"),
    (AVERAGE, [COUNTS, SUMS], "SS2", "sum and count have the sum and the count of the same panes"),
    (
        replace(QUERY, where=EITHER),
        [replace(PANES, id="a", where=UDP), replace(PANES, id="b", where=TCP)],
        "SS4",
        "the answer is max(a, b)",
    ),
    (
        replace(QUERY, aggregate="COUNT", where=TCP),
        [replace(COUNTS, id="a", where=EITHER), replace(COUNTS, id="b", where=UDP)],
        "SS4",
        "the answer is a - b",
    ),
]


@pytest.mark.parametrize(("query", "synopses", "rule", "reason"), STATES)
def test_what_may_be_shared_and_by_which_rule(
    query: QueryDescription, synopses: list[SynopsisDescription], rule: str, reason: str
) -> None:
    assert may_share_state(query, synopses) == Decision(rule, True, reason)


REFUSALS = [
    (
        replace(QUERY, windows=seconds(9)),
        PANES,
        "window 9 sec is longer than the 8 panes of 1 sec that panes of S keeps",
    ),
    (
        replace(QUERY, windows=(1_500_000,)),
        PANES,
        "window 1500 ms is not a multiple of the panes of 1 sec that panes of S",
    ),
    (replace(QUERY, aggregate="MEDIAN"), PANES, "MEDIAN needs COUNTERS of every pane, panes of S has MAX"),
    (AVERAGE, SUMS, "AVG needs SUM and COUNT of every pane, sum has SUM"),
    (replace(QUERY, streams=("R",)), PANES, "panes of S is over S, the query reads R"),
    (replace(QUERY, argument="port"), PANES, "panes of S is about length, the query about port"),
    (replace(QUERY, by_rows=True), PANES, "the panes of panes of S are cut by time, the query's window by rows"),
    (
        replace(QUERY, by_rows=True, windows=(9,)),
        replace(PANES, by_rows=True, s=1),
        "window 9 rows is longer than the 8 panes of 1 rows",
    ),
    (replace(JOIN, windows=seconds(5, 6)), JOINED, "windows of 5 and 6 panes is not kept by join, which tells windows"),
    (replace(JOIN, windows=seconds(6, 8)), JOINED, "windows of 6 and 8 panes is not kept by join, whose windows may"),
    (JOIN, replace(JOINED, g=0), "which tells windows apart in no pane"),
    (replace(QUERY, where=TCP), PANES, "the predicates of panes of S do not make up protocol = 'TCP'"),
    (replace(QUERY, where=TCP, argument="port"), PANES, "no synopsis has MAX of port over S"),
]


@pytest.mark.parametrize(("query", "synopsis", "reason"), REFUSALS)
def test_a_refusal_says_why(query: QueryDescription, synopsis: SynopsisDescription, reason: str) -> None:
    decision = may_share_state(query, [synopsis])
    assert not decision.allowed and reason in decision.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replace(COUNTS, s=2 * SECOND), "different lengths: 1 sec and 2 sec"),
        (replace(COUNTS, phase=SECOND // 2), "sum and count are updated at different times"),
        (replace(COUNTS, b=7), "longer than the 7 panes of 1 sec that count keeps"),
        (replace(COUNTS, where=TCP), "no synopsis has SUM and COUNT of length"),
    ],
)
def test_an_average_needs_two_synopses_that_fit_together(change: SynopsisDescription, reason: str) -> None:
    decision = may_share_state(AVERAGE, [SUMS, change])
    assert not decision.allowed and reason in decision.reason


def test_synopses_updated_whole_intervals_apart_are_aligned() -> None:
    assert may_share_state(AVERAGE, [SUMS, replace(COUNTS, phase=3 * SECOND)]).allowed


WINDOWS = [((8,), (8,)), ((8,), (7,)), ((8,), (1,))]
JOIN_WINDOWS = [((7, 8), (7, 8)), ((7, 8), (8, 7)), ((7, 7), (8, 8))]


@pytest.mark.parametrize("kind", Kind)
def test_the_names_of_groups_agree_with_the_rules(kind: Kind) -> None:
    """Queries are in one group exactly if the rules execute them together."""
    join = kind in JOINS
    query, synopsis = (JOIN, replace(JOINED, kind=kind)) if join else (QUERY, replace(PANES, kind=kind))
    outcomes = []
    for left, right in JOIN_WINDOWS if join else WINDOWS:
        queries = [replace(query, windows=seconds(*windows)) for windows in (left, right)]
        outcomes.append(may_compute_together(queries, [synopsis]).allowed)
        assert outcomes[-1] is (together_key(kind, queries[0].windows) == together_key(kind, queries[1].windows))
    assert outcomes[0]


def test_why_queries_are_computed_apart() -> None:
    queries = [replace(QUERY, windows=seconds(window)) for window in (5, 7, 5)]
    reason = "the running synopsis is looked up for each window length, and the windows 5 sec and 7 sec differ"
    assert may_compute_together(queries, [replace(PANES, kind=Kind.RUNNING)]) == Decision("CS1", False, reason)
    joins = [replace(JOIN, windows=seconds(*windows)) for windows in ((7, 8), (8, 8))]
    assert (
        "(7 sec, 8 sec) and (8 sec, 8 sec) differ"
        in may_compute_together(joins, [replace(JOINED, kind=Kind.RJ)]).reason
    )


def test_queries_without_their_state_are_not_computed() -> None:
    decision = may_compute_together([QUERY, replace(QUERY, windows=seconds(9))], [PANES])
    assert (decision.rule, decision.allowed) == ("SS1", False)


def test_sums_and_counts_alone_have_nothing_in_common() -> None:
    queries = [replace(QUERY, aggregate=aggregate) for aggregate in ("SUM", "COUNT")]
    assert may_compute_together(queries, [SUMS, COUNTS]) == Decision(
        "none", False, "these queries have no synopsis in common"
    )
    assert may_compute_together([*queries, AVERAGE], [SUMS, COUNTS]).rule == "CS3"


@pytest.mark.parametrize(
    ("kind", "rule", "allowed"), [(Kind.RUNNING, "CS6", False), (Kind.BASIC_INTERVAL, "CS7", True)]
)
def test_one_looked_up_synopsis_in_a_cover_demands_equal_windows(kind: Kind, rule: str, allowed: bool) -> None:
    synopses = [replace(PANES, where=TCP), replace(PANES, id="other", where=UDP, kind=kind)]
    queries = [replace(QUERY, where=TCP), replace(QUERY, where=UDP), replace(QUERY, where=EITHER, windows=seconds(5))]
    decision = may_compute_together(queries, synopses)
    assert (decision.rule, decision.allowed) == (rule, allowed)


def _refuse_maxima(query: QueryDescription, synopses: Synopses) -> Decision | None:
    return Decision("local", False, "no maxima here") if query.aggregate == "MAX" else None


def _keep_apart(queries: Queries, synopses: Synopses) -> Decision | None:
    return Decision("local", False, "too many") if len(queries) > 2 else None


def test_a_rule_in_front_decides_where_it_has_something_to_say() -> None:
    rules = (Rule("local", _refuse_maxima), *STATE_RULES)
    minimum, minima = replace(QUERY, aggregate="MIN"), replace(PANES, data="MIN")
    assert may_share_state(QUERY, [PANES], rules) == Decision("local", False, "no maxima here")
    assert may_share_state(minimum, [minima], rules).rule == "SS1"
    assert may_compute_together([QUERY, QUERY], [PANES], state_rules=rules).rule == "local"
    apart = (Rule("local", _keep_apart), *COMPUTATION_RULES)
    assert may_compute_together([QUERY] * 3, [PANES], apart) == Decision("local", False, "too many")
    assert may_compute_together([QUERY] * 2, [PANES], apart).rule == "CS2"


def test_without_rules_nothing_is_shared() -> None:
    assert not may_share_state(QUERY, [PANES], ()).allowed
    assert not may_compute_together([QUERY, QUERY], [PANES], ()).allowed


def test_an_output_is_shared_by_an_equal_query_with_an_equal_period() -> None:
    twin = replace(QUERY, id="twin")
    assert shares_output(QUERY, twin) == Decision("CS8", True, "q is the same query and computed every 2 sec")
    faster = shares_output(QUERY, replace(twin, slide=SECOND))
    assert faster == Decision("CS8", False, "q is computed every 2 sec, twin is due every 1 sec")
