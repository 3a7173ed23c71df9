"""The worked examples of the sharing rules, run as they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from sash.core.time import SECOND
from sash.panes.accumulator import FOLDS
from sash.panes.partials import Combine
from sash.plan.predicates import is_disjoint
from sash.sharing.covers import find_cover
from sash.sharing.rules import Decision, scheduling_group, shares_output
from tests.sharing.golden_descriptions import (
    EXAMPLES,
    GoldenQuery,
    GoldenSynopsis,
    compute,
    expected,
    inputs,
    own_synopsis,
    query,
    state,
    synopsis,
    where,
    yes_no,
)
from tests.sharing.test_covers import is_cover, is_disjoint_cover, is_subcover, is_supercover

Decisions = Callable[[str], list[Decision | None]]


def check_state(name: str, rule: str, decisions: list[Decision | None]) -> None:
    """A rule says no, or there is nothing about which it could say anything."""
    assert yes_no(decision is not None and decision.allowed for decision in decisions) == expected(name)["state"]
    assert {decision.rule for decision in decisions if decision is not None} == {rule}


def check_computed(name: str, decisions: list[Decision | None]) -> None:
    found = [decision for decision in decisions if decision is not None]
    assert yes_no(decision.allowed for decision in found) == expected(name)["compute"]
    assert {decision.rule for decision in found if decision.allowed} == {name}


def one_synopsis(name: str, mode: str) -> list[Decision | None]:
    return [state(query(case["query"]), [synopsis(case["synopsis"])], mode) for case in inputs(name)["cases"]]


def two_synopses_of_an_average(mode: str) -> list[Decision | None]:
    return [state(query(case["query"]), [*map(synopsis, case["synopses"])], mode) for case in inputs("SS2")["cases"]]


def computation(name: str, mode: str) -> list[Decision | None]:
    cases = inputs(name)["cases"]
    return [compute([*map(query, case["queries"])], [synopsis(case["synopsis"])], mode) for case in cases]


def seven_queries() -> None:
    asked = [query(case) for case in inputs("CS2.seven")["queries"]]
    for key, input in (("groups_basic_interval", "synopsis"), ("groups_interval", "other_synopsis")):
        shared = synopsis(inputs("CS2.seven")[input])
        by_name: dict[object, list[str]] = {}
        for each in asked:
            by_name.setdefault(scheduling_group("S", shared.kind, each.windows), []).append(each.id)
        assert list(by_name.values()) == expected("CS2.seven")[key]
        assert compute(asked, [shared]).allowed is (len(by_name) == 1)
        assert not any(compute(pair, [shared]).allowed for pair in _across(by_name, asked))


def _across(by_name: dict[object, list[str]], asked: list[GoldenQuery]) -> list[list[GoldenQuery]]:
    """A query of each group with one of the next."""
    first = [next(each for each in asked if each.id == group[0]) for group in by_name.values()]
    return [[left, right] for left, right in itertools.pairwise(first)]


def averages_together(mode: str) -> list[Decision | None]:
    shared = [synopsis(case) for case in inputs("CS3")["synopses"]]
    return [compute([*map(query, case)], shared, mode) for case in inputs("CS3")["cases"]]


def queries_of(name: str) -> dict[str, GoldenQuery]:
    return {id: query(case, id) for id, case in inputs(name)["queries"].items()}


def covers() -> None:
    asked = queries_of("cover.Q1_to_Q6")
    rows = [cover_row(asked, case) for case in inputs("cover.Q1_to_Q6")["cases"]]
    assert rows == expected("cover.Q1_to_Q6")["rows"]


def is_answerable(new: GoldenQuery, others: list[GoldenSynopsis]) -> bool:
    decision = state(new, others)
    return decision is not None and decision.allowed


def cover_row(asked: dict[str, GoldenQuery], case: dict[str, Any]) -> dict[str, str | None]:
    new, others = asked[case["query"]], [own_synopsis(asked[id]) for id in case["synopses_of"]]
    stored = [each.like.where for each in others if each.like.aggregate == new.aggregate]
    tests = (is_cover, is_subcover, is_supercover, is_disjoint_cover, lambda *_: is_answerable(new, others))
    names = ("cover", "subcover", "supercover", "disjoint_cover", "answerable")
    row: dict[str, str | None] = dict(zip(names, yes_no(test(new.where, stored) for test in tests), strict=True))
    how = combination(new, others) if row["answerable"] == "yes" else None
    return {**row, "combine": how and ("add" if " + " in how else how.partition("(")[0])}


def combination(new: GoldenQuery, others: list[GoldenSynopsis]) -> str | None:
    """`Q1 + Q2`, `Q3 - Q2`, `max(Q4, Q5)`; None where other synopses do not give the answer."""
    decision = state(new, others)
    if decision is None or not decision.allowed or decision.rule != "SS4":
        return None
    how = decision.reason.removeprefix("the answer is ")
    for each in sorted(others, key=lambda each: len(each.like.name), reverse=True):
        how = how.replace(each.like.name, each.like.id)
    return how


def subtraction() -> None:
    asked = queries_of("cover.subtraction")
    cases = inputs("cover.subtraction")["cases"]
    pairs = [
        (asked[case["query"]], [own_synopsis(asked[id]) for id in (*case["supercover"], *case["cover_of_rest"])])
        for case in cases
    ]
    assert yes_no(is_answerable(*pair) for pair in pairs) == expected("cover.subtraction")["answerable"]
    assert [combination(*pair) for pair in pairs] == expected("cover.subtraction")["combine"]


def two_synopses() -> None:
    answerable = []
    for case in inputs("cover.two_synopses")["cases"]:
        like = {"agg": "QUANTILE" if case["data"] == "COUNTERS" else case["data"], "attr": "length", "stream": "S"}
        asked, *shared = (
            query({**like, "where": case[f"{which}_where"]}) for which in ("query", "synopsis_1", "synopsis_2")
        )
        answerable.append(is_answerable(asked, [*map(own_synopsis, shared)]))
    assert yes_no(answerable) == expected("cover.two_synopses")["answerable"]


def disjoint_predicates() -> None:
    found = [is_disjoint(where(terms)) for terms in inputs("predicate.disjoint")["predicates"]]
    assert yes_no(found) == expected("predicate.disjoint")["disjoint"]


PROTOCOLS = (["protocol=TCP"], ["protocol=UDP"])


def cover_of_two(mode: str) -> list[Decision | None]:
    states = []
    for case in inputs("SS4")["cases"]:
        like = {**inputs("SS4")["query"], "attr": "length", "stream": "S"}
        asked = query({**like, "window": [case["query_window"]]})
        sizes = zip(case["synopsis_windows"], case["phase"], case["s"], strict=True)
        shared = [
            replace(
                own_synopsis(query({**like, "where": terms})), s=s * SECOND, b=window // s, phase=int(phase * SECOND)
            )
            for (window, phase, s), terms in zip(sizes, PROTOCOLS, strict=False)
        ]
        states.append(state(asked, shared, mode))
    return states


def candidates(name: str, mode: str) -> list[Decision | None]:
    return [candidate_decision(case, mode) for case in inputs(name)["cases"]]


def candidate_decision(case: dict[str, Any], mode: str) -> Decision:
    """MAX over TCP and over UDP with a synopsis each, and a new query over both."""
    kind = case["synopsis_type"]
    streams = ["S", "R"] if kind in ("RJ", "IJ", "BIJ") else ["S"]
    windows = [*case["candidate_windows"], case["new_query_window"]]
    predicates = [*PROTOCOLS, PROTOCOLS[0] + PROTOCOLS[1]]
    like = {"agg": "MAX", "attr": "length", "streams": streams}
    queries = [
        query({**like, "id": f"Q{i}", "window": [window] * len(streams), "where": terms})
        for i, (window, terms) in enumerate(zip(windows, predicates, strict=True), 4)
    ]
    return compute(queries, [own_synopsis(each, kind, panes=max(windows)) for each in queries[:2]], mode)


def saved_values() -> None:
    saved = expected("CS7")["saved_for_new_query"]
    decision = candidates("CS7", "always")[saved["case"]]
    assert decision is not None and f"{saved['max_over_window']} sec are saved" in decision.reason


def output() -> None:
    registered = query(inputs("CS8")["registered"]).output
    cases = [query(case).output for case in inputs("CS8")["cases"]]
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
    kept: list[GoldenSynopsis] = []
    for each in asked:
        if not is_answerable(each, kept):
            kept.append(own_synopsis(each))
    without, shared = (
        inputs("space_saving")["synopses_without_sharing"],
        inputs("space_saving")["synopses_with_sharing"],
    )
    assert (len(asked), len(kept)) == (without, shared)
    assert str(Fraction(len(asked) - len(kept), len(asked))) == expected("space_saving")["saving"]


DECIDED: dict[str, Decisions] = {
    "SS1": partial(one_synopsis, "SS1"),
    "SS2": two_synopses_of_an_average,
    "SS3": partial(one_synopsis, "SS3"),
    "SS4": cover_of_two,
    "CS1": partial(computation, "CS1"),
    "CS2": partial(computation, "CS2"),
    "CS3": averages_together,
    "CS4": partial(computation, "CS4"),
    "CS5": partial(computation, "CS5"),
    "CS6": partial(candidates, "CS6"),
    "CS7": partial(candidates, "CS7"),
}


def benefits() -> None:
    """The rules that share_predicates='never' leaves always gain; it turns the others off."""
    assert list(DECIDED) == inputs("universal")["rules"]
    left = [name for name, decisions in DECIDED.items() if any(each and each.allowed for each in decisions("never"))]
    assert left == expected("universal")["always_beneficial"]
    assert [name for name in DECIDED if name not in left] == expected("universal")["trade_off"]


CHECKS: dict[str, Callable[[], None]] = {
    **{
        name: partial(lambda name, rule: check_state(name, name, rule("always")), name, rule)
        for name, rule in DECIDED.items()
        if name.startswith("SS")
    },
    **{
        name: partial(lambda name, rule: check_computed(name, rule("always")), name, rule)
        for name, rule in DECIDED.items()
        if name.startswith("CS")
    },
    "CS2.seven": seven_queries,
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


def test_what_a_new_query_saves() -> None:
    saved_values()


def test_no_example_is_left_out() -> None:
    assert sorted(CHECKS) == sorted(EXAMPLES)
