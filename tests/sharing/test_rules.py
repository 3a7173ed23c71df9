"""The sharing rules beyond the golden file: which rule decides, and the sentence for a reader."""

from __future__ import annotations

import pytest

from sash.core.window import RowWindow, TimeWindow, Window
from sash.panes.joins import WindowPair
from sash.panes.partials import Partial
from sash.runtime.compiler import CompiledQuery
from sash.sharing.choose import Load
from sash.sharing.groups import StateSharing, StoredPartials, share_state
from sash.sharing.needs import listed
from sash.sharing.rules import (
    Computation,
    Decision,
    QueryOutput,
    WindowLack,
    compute_together,
    scheduling_group,
    shares_output,
    window_lack,
)
from tests.support.feed import compiled
from tests.support.streams import stream

SEC = 1_000_000


def query(what: str, where: str = "") -> CompiledQuery:
    condition = where and f" WHERE {where}"
    return compiled({"q": f"SELECT k, {what} AS a FROM s [WINDOW 8 sec SLIDE 2 sec]{condition} GROUP BY k"}, stream())[
        0
    ]


def stored(*queries: CompiledQuery) -> StoredPartials:
    return StoredPartials(partial for each in queries for partial in each.readings[0].partials)


def shared(asked: CompiledQuery, *others: CompiledQuery, mode: str = "always") -> StateSharing:
    return share_state(asked.readings[0], asked.needs[0], stored(*others), Load(SEC), mode)


def only(sharing: StateSharing) -> Decision:
    ((_, decision),) = sharing.decisions
    return decision


SUM_OF_V = "the basic interval synopsis SUM of v by (k) has SUM of every pane"
STATES = [
    (query("MAX(v)"), [query("MAX(v)")], "SS1", "the basic interval synopsis MAX of v by (k) has MAX of every pane"),
    (query("SUM(v)"), [query("AVG(v)")], "SS1", SUM_OF_V),
    (query("MEDIAN(v)"), [query("MODE(v)")], "SS1", "the basic interval synopsis COUNTERS of v by (k) has COUNTERS"),
    (query("AVG(v)"), [query("SUM(v)")], "SS2", "SUM of v by (k) and COUNT of v by (k) have the sum and the count of"),
    (query("SUM(v)", "v = 1"), [query("SUM(v)", "v = 1")], "SS1", "SUM of v by (k) where v = 1 has SUM of every pane"),
    (
        query("MAX(w)", "v IN (1, 2)"),
        [query("MAX(w)", "v = 1"), query("MAX(w)", "v = 2")],
        "SS4",
        "the answer is max(MAX of w by (k) where v = 1, MAX of w by (k) where v = 2)",
    ),
    (
        query("MAX(w)", "v = 1 OR x < 5e0"),
        [query("MAX(w)", "v = 1"), query("MAX(w)", "x < 5e0")],
        "SS4",
        "the answer is max(MAX of w by (k) where",
    ),
    (
        query("COUNT(w)", "v = 1"),
        [query("COUNT(w)", "v IN (1, 2)"), query("COUNT(w)", "v = 2")],
        "SS4",
        "the answer is COUNT of w by (k) where v IN (1, 2) - COUNT of w by (k) where v = 2",
    ),
]


@pytest.mark.parametrize(("asked", "others", "rule", "reason"), STATES)
def test_what_is_shared_and_by_which_rule(
    asked: CompiledQuery, others: list[CompiledQuery], rule: str, reason: str
) -> None:
    sharing = shared(asked, *others)
    assert sharing.is_whole
    assert (only(sharing).rule, only(sharing).allowed) == (rule, True)
    assert reason in only(sharing).reason
    assert (sharing.covered is not None) == (rule == "SS4")


REFUSALS = [
    (query("MAX(v)"), [query("MIN(v)")], "SS1", "no query before it keeps its data"),
    (query("AVG(v)"), [query("COUNT(v)")], "SS2", "no query before it keeps its data"),
    (query("MAX(w)", "v = 1"), [query("MAX(w)")], "SS1", "no query before it keeps its data"),
    (
        query("SUM(w)", "v IN (1, 2)"),
        [query("SUM(w)", "v = 1")],
        "SS4",
        "the predicates v = 1 do not make up v IN (1, 2) without counting a tuple twice",
    ),
]


@pytest.mark.parametrize(("asked", "others", "rule", "reason"), REFUSALS)
def test_a_refusal_says_why(asked: CompiledQuery, others: list[CompiledQuery], rule: str, reason: str) -> None:
    sharing = shared(asked, *others)
    assert not sharing.is_whole and sharing.cover is None
    assert (only(sharing).rule, only(sharing).allowed) == (rule, False)
    assert reason == only(sharing).reason


def test_a_cover_that_is_not_used_is_known() -> None:
    parts = [query("SUM(w)", f"v = {value}") for value in (1, 2)]
    sharing = shared(query("SUM(w)", "v IN (1, 2)"), *parts, mode="never")
    assert sharing.cover == only(sharing) == Decision("SS4", False, "share_predicates is 'never'")
    assert sharing.covered is None and not sharing.is_whole


def test_each_aggregate_has_a_decision_of_its_own() -> None:
    sharing = shared(query("SUM(v) AS t, MAX(v)"), query("COUNT(v) AS n, SUM(v)"))
    decided = {need.text: decision.allowed for need, decision in sharing.decisions}
    assert decided == {"SUM of v by (k)": True, "MAX of v by (k)": False}
    assert not sharing.is_whole


@pytest.mark.parametrize(("window", "lack"), [
    (TimeWindow(8), None),
    (TimeWindow(2), None),
    (TimeWindow(10), WindowLack.LONGER),
    (TimeWindow(6, lag=4), WindowLack.LONGER),
    (TimeWindow(5), WindowLack.UNEVEN),
    (TimeWindow(4, lag=1), WindowLack.UNEVEN),
])  # fmt: skip
def test_a_window_is_whole_panes_and_not_longer_than_what_is_kept(window: Window, lack: WindowLack | None) -> None:
    assert window_lack(window, kept=8, pane=2) is lack


# -- computation ---------------------------------------------------------------------------------------

SUM, COUNT, MAX = (Partial(kind) for kind in ("sum", "count", "max"))


def computation(
    name: str, kind: str, window: Window | WindowPair, *partials: Partial, combined: bool = False, divides: bool = False
) -> Computation:
    windows = window if isinstance(window, WindowPair) else (window,)
    group = scheduling_group("v by (k)", kind, windows)
    return Computation(name, group, "v by (k)", kind, window, partials, combined, divides)


FIVE, SEVEN = (TimeWindow(length * SEC) for length in (5, 7))
PAIR, OTHER = WindowPair(7, 8), WindowPair(8, 8)


@pytest.mark.parametrize(("mine", "mates", "rule", "allowed", "reason"), [
    (computation("q", "basic", FIVE), [computation("a", "basic", SEVEN)], "CS2", True,
     "one scan of v by (k) answers all windows on its way to the oldest pane"),
    (computation("q", "running", FIVE), [computation("a", "running", FIVE)], "CS1", True,
     "the running synopsis is looked up once for windows of 5 sec"),
    (computation("q", "running", FIVE), [computation("a", "running", SEVEN)], "CS1", False,
     "the running synopsis is looked up for each window, and windows of 7 sec and 5 sec differ"),
    (computation("q", "running", RowWindow(5, lag=1)), [computation("a", "running", RowWindow(5))], "CS1", False,
     "windows of 5 rows and 5 rows, 1 rows ago differ"),
    (computation("q", "running", FIVE), [computation("a", "basic", FIVE)], "CS1", False,
     "a reads another synopsis (basic, not running)"),
    (computation("q", "running", FIVE, SUM, COUNT, divides=True), [computation("a", "running", FIVE, SUM)], "CS3", True,
     "AVG divides the sum and the count over 5 sec"),
    (computation("q", "running", FIVE, SUM), [computation("a", "running", FIVE, SUM, COUNT, divides=True)], "CS3", True,
     "AVG divides the sum and the count over 5 sec"),
    (computation("q", "running", FIVE, SUM, COUNT, divides=True), [computation("a", "running", SEVEN, SUM)], "CS3",
     False, "AVG divides answers over its own window, but windows of 7 sec and 5 sec differ"),
    (computation("q", "running", FIVE, SUM, COUNT, divides=True), [computation("a", "running", FIVE, MAX)], "CS1", True,
     "looked up once"),
    (computation("q", "basic", PAIR), [computation("a", "basic", OTHER)], "CS5", True, "one scan of v by (k)"),
    (computation("q", "interval", PAIR), [computation("a", "interval", OTHER)], "CS4", False,
     "windows of 8 and 8 panes and 7 and 8 panes differ"),
    (computation("q", "interval", FIVE, SUM, combined=True), [computation("a", "interval", FIVE, SUM)], "CS6", True,
     "the interval synopsis is looked up once"),
    (computation("q", "interval", FIVE, SUM, combined=True), [computation("a", "interval", SEVEN, SUM)], "CS6", False,
     "the interval synopsis is looked up for each window"),
    (computation("q", "basic", FIVE, SUM, combined=True),
     [computation("a", "basic", SEVEN, SUM), computation("b", "basic", SEVEN, MAX)], "CS7", True,
     "while a is computed, values for q over 5 sec are saved"),
    (computation("q", "basic", FIVE, SUM, combined=True), [computation("a", "basic", SEVEN, MAX)], "CS2", True,
     "one scan of v by (k)"),
])  # fmt: skip
def test_who_is_executed_together(
    mine: Computation, mates: list[Computation], rule: str, allowed: bool, reason: str
) -> None:
    decision = compute_together(mine, mates)
    assert (decision.rule, decision.allowed) == (rule, allowed)
    assert reason in decision.reason


def test_a_sentence_names_five_at_most() -> None:
    assert listed("abcdefgh") == "a, b, c, d, e and 3 more"


# -- output --------------------------------------------------------------------------------------------


def test_an_output_is_shared_by_an_equal_query_with_an_equal_period() -> None:
    q, twin = QueryOutput("q", "same", 2 * SEC), QueryOutput("twin", "same", 2 * SEC)
    assert str(shares_output(q, twin)) == "shared (CS8): q is the same query and computed every 2 sec"
    faster = shares_output(q, twin._replace(slide=SEC))
    assert str(faster) == "not shared (CS8): q is computed every 2 sec, twin is due every 1 sec"
    other = shares_output(q, twin._replace(identity="another"))
    assert str(other) == "not shared (CS8): twin is not the same query as q"
