"""The worked examples of the sharing rules, run as they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sash.core.time import SECOND
from sash.panes.accumulator import FOLDS
from sash.panes.partials import Combine
from sash.plan.predicates import is_disjoint
from sash.sharing.covers import find_cover
from sash.sharing.rules import (
    COMPUTATION_RULES,
    STATE_RULES,
    Decision,
    Kind,
    QueryDescription,
    SynopsisDescription,
    combine_predicates,
    may_compute_together,
    may_share_state,
    relevant_synopses,
    shares_output,
    together_key,
)
from tests.sharing.golden_descriptions import EXAMPLES, expected, inputs, own_synopsis, query, synopsis, where, yes_no
from tests.sharing.test_covers import is_cover, is_disjoint_cover, is_subcover, is_supercover


def check_state(name: str, rule: str, decisions: list[Decision]) -> None:
    assert yes_no(decision.allowed for decision in decisions) == expected(name)["state"]
    assert {decision.rule for decision in decisions} == {rule}


def check_computed(name: str, decisions: list[Decision]) -> None:
    assert yes_no(decision.allowed for decision in decisions) == expected(name)["compute"]
    assert {decision.rule for decision in decisions if decision.allowed} == {name}


def one_synopsis(name: str) -> None:
    cases = inputs(name)["cases"]
    check_state(name, name, [may_share_state(query(case["query"]), [synopsis(case["synopsis"])]) for case in cases])


def two_synopses_of_an_average() -> None:
    cases = inputs("SS2")["cases"]
    states = [may_share_state(query(case["query"]), [*map(synopsis, case["synopses"])]) for case in cases]
    check_state("SS2", "SS2", states)


def computation(name: str) -> None:
    cases = inputs(name)["cases"]
    pairs = [([query(each) for each in case["queries"]], [synopsis(case["synopsis"])]) for case in cases]
    check_computed(name, [may_compute_together(*pair) for pair in pairs])


def seven_queries() -> None:
    asked = [query(case) for case in inputs("CS2.seven")["queries"]]
    for key, input in (("groups_basic_interval", "synopsis"), ("groups_interval", "other_synopsis")):
        shared = synopsis(inputs("CS2.seven")[input])
        by_name: dict[object, list[str]] = {}
        for each in asked:
            by_name.setdefault(together_key(shared.kind, each.windows), []).append(each.id)
        assert list(by_name.values()) == expected("CS2.seven")[key]
        assert may_compute_together(asked, [shared]).allowed is (len(by_name) == 1)
        assert not any(may_compute_together(pair, [shared]).allowed for pair in _across(by_name, asked))


def _across(by_name: dict[object, list[str]], asked: list[QueryDescription]) -> list[list[QueryDescription]]:
    """A query of each group with one of the next."""
    first = [next(each for each in asked if each.id == group[0]) for group in by_name.values()]
    return [[left, right] for left, right in itertools.pairwise(first)]


def averages_together() -> None:
    shared = [synopsis(case) for case in inputs("CS3")["synopses"]]
    check_computed("CS3", [may_compute_together([*map(query, case)], shared) for case in inputs("CS3")["cases"]])


def queries_of(name: str) -> dict[str, QueryDescription]:
    return {id: query(case, id) for id, case in inputs(name)["queries"].items()}


def covers() -> None:
    asked = queries_of("cover.Q1_to_Q6")
    rows = [cover_row(asked, case) for case in inputs("cover.Q1_to_Q6")["cases"]]
    assert rows == expected("cover.Q1_to_Q6")["rows"]


def cover_row(asked: dict[str, QueryDescription], case: dict[str, Any]) -> dict[str, str | None]:
    new, others = asked[case["query"]], [own_synopsis(asked[id]) for id in case["synopses_of"]]
    stored = [each.where for each in relevant_synopses(new, others)]
    tests = (is_cover, is_subcover, is_supercover, is_disjoint_cover, lambda *_: may_share_state(new, others).allowed)
    names = ("cover", "subcover", "supercover", "disjoint_cover", "answerable")
    row: dict[str, str | None] = dict(zip(names, yes_no(test(new.where, stored) for test in tests), strict=True))
    how = combination(new, others) if row["answerable"] == "yes" else None
    return {**row, "combine": how and ("add" if " + " in how else how.partition("(")[0])}


def combination(new: QueryDescription, others: list[SynopsisDescription]) -> str | None:
    """`Q1 + Q2`, `Q3 - Q2`, `max(Q4, Q5)`; None where other synopses do not give the answer."""
    decision = combine_predicates(new, others)
    return decision.reason.removeprefix("the answer is ") if decision.allowed else None


def subtraction() -> None:
    asked = queries_of("cover.subtraction")
    cases = inputs("cover.subtraction")["cases"]
    pairs = [
        (asked[case["query"]], [own_synopsis(asked[id]) for id in (*case["supercover"], *case["cover_of_rest"])])
        for case in cases
    ]
    assert yes_no(may_share_state(*pair).allowed for pair in pairs) == expected("cover.subtraction")["answerable"]
    assert [combination(*pair) for pair in pairs] == expected("cover.subtraction")["combine"]


def two_synopses() -> None:
    answerable = []
    for case in inputs("cover.two_synopses")["cases"]:
        asked = QueryDescription("new", case["data"], "length", ("S",), (SECOND,), SECOND, where(case["query_where"]))
        shared = [
            replace(own_synopsis(asked), id=str(i), where=where(case[f"synopsis_{i}_where"]), data=case["data"])
            for i in (1, 2)
        ]
        answerable.append(may_share_state(asked, shared).allowed)
    assert yes_no(answerable) == expected("cover.two_synopses")["answerable"]


def disjoint_predicates() -> None:
    found = [is_disjoint(where(terms)) for terms in inputs("predicate.disjoint")["predicates"]]
    assert yes_no(found) == expected("predicate.disjoint")["disjoint"]


PROTOCOLS = (["protocol=TCP"], ["protocol=UDP"])


def cover_of_two() -> None:
    states = []
    for case in inputs("SS4")["cases"]:
        asked = query({**inputs("SS4")["query"], "attr": "length", "stream": "S", "window": [case["query_window"]]})
        sizes = zip(case["synopsis_windows"], case["phase"], case["s"], strict=True)
        shared = [
            replace(own_synopsis(asked), s=s * SECOND, b=window // s, phase=int(phase * SECOND), where=where(terms))
            for (window, phase, s), terms in zip(sizes, PROTOCOLS, strict=False)
        ]
        states.append(may_share_state(asked, shared))
    check_state("SS4", "SS4", states)


def candidates(name: str) -> None:
    decisions = [candidate_decision(case) for case in inputs(name)["cases"]]
    check_computed(name, decisions)
    if (saved := expected(name).get("saved_for_new_query")) is not None:
        assert f"{saved['max_over_window']} sec are saved" in decisions[saved["case"]].reason


def candidate_decision(case: dict[str, Any]) -> Decision:
    """MAX over TCP and over UDP with a synopsis each, and a new query over both."""
    kind = Kind(case["synopsis_type"])
    streams = ["S", "R"] if kind in (Kind.RJ, Kind.IJ, Kind.BIJ) else ["S"]
    windows = [*case["candidate_windows"], case["new_query_window"]]
    predicates = [*PROTOCOLS, PROTOCOLS[0] + PROTOCOLS[1]]
    like = {"agg": "MAX", "attr": "length", "streams": streams}
    queries = [
        query({**like, "id": f"Q{i}", "window": [window] * len(streams), "where": terms})
        for i, (window, terms) in enumerate(zip(windows, predicates, strict=True), 4)
    ]
    return may_compute_together(queries, [own_synopsis(each, kind, panes=max(windows)) for each in queries[:2]])


def output() -> None:
    registered = query(inputs("CS8")["registered"])
    cases = [query(case) for case in inputs("CS8")["cases"]]
    decisions = [shares_output(registered, new) for new in cases]
    assert yes_no(decision.allowed for decision in decisions) == expected("CS8")["share_output"]
    both = [registered.slide if decision.allowed else new.slide for new, decision in zip(cases, decisions, strict=True)]
    assert [slide // SECOND for slide in both] == expected("CS8")["effective_period"]
    alone = [new.slide // SECOND for new in cases]
    assert alone == expected("CS8")["period_after_registered_query_expires"]


def maxima() -> None:
    stored = [where(terms) for terms in PROTOCOLS]
    cover = find_cover(where(PROTOCOLS[0] + PROTOCOLS[1]), stored, sensitive=False, subtractable=False)
    assert cover is not None and cover.combine == "extreme"
    values = np.array([inputs("tcp_udp_max")[key] for key in ("max_tcp", "max_udp")], dtype=np.int64)[list(cover.added)]
    found = np.zeros(1, dtype=np.int64)
    FOLDS[Combine.MAX](np.zeros(len(values), dtype=np.int64), values, found)
    assert found[0] == expected("tcp_udp_max")["max_tcp_or_udp"]


def space() -> None:
    """Q1, Q2 and Q3 come one after the other, and build a synopsis only if they must."""
    asked = [each for id, each in queries_of("cover.Q1_to_Q6").items() if id in ("Q1", "Q2", "Q3")]
    kept: list[SynopsisDescription] = []
    for each in asked:
        if not may_share_state(each, kept).allowed:
            kept.append(own_synopsis(each))
    without, shared = (
        inputs("space_saving")["synopses_without_sharing"],
        inputs("space_saving")["synopses_with_sharing"],
    )
    assert (len(asked), len(kept)) == (without, shared)
    assert str(Fraction(len(asked) - len(kept), len(asked))) == expected("space_saving")["saving"]


def benefits() -> None:
    rules = {rule.name: rule.always_beneficial for rule in STATE_RULES}
    rules |= {rule.name: rule.always_beneficial for rule in COMPUTATION_RULES}
    assert list(rules) == inputs("universal")["rules"]
    assert [name for name, always in rules.items() if always] == expected("universal")["always_beneficial"]
    assert [name for name, always in rules.items() if not always] == expected("universal")["trade_off"]


CHECKS: dict[str, Callable[[], None]] = {
    "SS1": lambda: one_synopsis("SS1"),
    "SS2": two_synopses_of_an_average,
    "SS3": lambda: one_synopsis("SS3"),
    "SS4": cover_of_two,
    "CS1": lambda: computation("CS1"),
    "CS2": lambda: computation("CS2"),
    "CS2.seven": seven_queries,
    "CS3": averages_together,
    "CS4": lambda: computation("CS4"),
    "CS5": lambda: computation("CS5"),
    "CS6": lambda: candidates("CS6"),
    "CS7": lambda: candidates("CS7"),
    "CS8": output,
    "cover.Q1_to_Q6": covers,
    "cover.subtraction": subtraction,
    "cover.two_synopses": two_synopses,
    "predicate.disjoint": disjoint_predicates,
    "tcp_udp_max": maxima,
    "space_saving": space,
    "universal": benefits,
}


@pytest.mark.parametrize("name", CHECKS)
def test_example(name: str) -> None:
    CHECKS[name]()


def test_no_example_is_left_out() -> None:
    assert sorted(CHECKS) == sorted(EXAMPLES)
