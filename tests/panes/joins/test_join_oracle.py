"""Every join synopsis against the join recomputed from its tuples, for any windows, groups and aggregates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.window import TimeWindow
from sash.panes.answers import Finisher
from sash.panes.joins import JOIN_KINDS, Band, JoinHistory, WindowPair, join_refusal, join_synopsis
from sash.panes.joins.lookups import longest_pair
from sash.panes.partials import Partial
from sash.plan.periodic import PeriodicAggregate
from tests.panes.joins.cases import Result, joined, lift_results
from tests.panes.raw import F, G, K, M, N, P, S, check_answer, query
from tests.support.examples import examples

LENGTH = 10
EXACT = [("count", None), ("count", N), ("sum", N), ("avg", N), ("sum", M), ("avg", M)]
EXTREMES = [("min", N), ("max", N), ("min", F), ("max", F)]
ANYTHING = [*EXACT, *EXTREMES, ("sum", F), ("variance", F), ("stddev_pop", N), ("max", S), ("min", M), ("min", S)]
CALLS: dict[str, list[Any]] = {"basic": ANYTHING, "interval": [*EXACT, *EXTREMES], "running": EXACT, "table": EXACT}

pairs = st.builds(WindowPair, st.integers(1, 8), st.integers(1, 8))
values = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["x", "y", None]),
        "g": st.none() | st.sampled_from([0.0, -0.0, float("nan")]),
        "n": st.none() | st.integers(-(2**40), 2**40),
        "f": st.none() | st.integers(-100, 100).map(float) | st.just(float("nan")),
        "s": st.none() | st.text("ab", max_size=2),
        "m": st.none() | st.decimals(-100, 100, places=2),
        "p": st.booleans(),
    }
)
# (timestamp, timestamp, row): each result has a row of its own, as if of tuples with one match each.
results = st.lists(st.tuples(st.integers(1, 140), st.integers(1, 140), values), max_size=40)


def asked(kind: str, data: st.DataObject) -> list[PeriodicAggregate]:
    """Some queries over one join, which share what they need."""
    calls = st.lists(st.sampled_from(CALLS[kind]), min_size=1, max_size=4, unique=True)
    keys = data.draw(st.sampled_from([(), (K,), (G,), (G, K)]))
    drawn = data.draw(st.lists(st.tuples(calls, st.sampled_from([None, P])), min_size=1, max_size=2))
    return [query(keys, each, TimeWindow(LENGTH), predicate) for each, predicate in drawn]


def needed(queries: list[PeriodicAggregate]) -> list[Partial]:
    return list(dict.fromkeys(partial for each in queries for partial in Finisher(each).partials))


def made(kind: str, queries: list[PeriodicAggregate], wanted: list[WindowPair]) -> JoinHistory:
    types = [key.expression.type for key in queries[0].keys]
    if kind != "table":
        band = Band.of(wanted)
        return join_synopsis(kind, types, needed(queries), LENGTH, band, band.capacity(wanted))
    band = Band(1 - max(pair.second for pair in wanted), max(pair.first for pair in wanted) - 1)
    return join_synopsis(kind, types, needed(queries), LENGTH, band, max(longest_pair(band)))


def check(
    synopsis: JoinHistory, queries: list[PeriodicAggregate], wanted: list[WindowPair], all: list[Result], now: int
) -> None:
    views = dict(synopsis.views({pair: needed(queries) for pair in wanted}))
    assert views.keys() == set(wanted)
    for pair, view in views.items():
        rows = joined(all, pair, LENGTH, now)
        assert view.is_empty or rows
        found: dict[Any, Any] = {}
        for each in queries:
            check_answer(each, Finisher(each).answer(view, found), rows)


def restarted(
    kind: str, synopsis: JoinHistory, queries: list[PeriodicAggregate], wanted: list[WindowPair]
) -> JoinHistory:
    """One with the same contents, from what the other saved."""
    fresh = made(kind, queries, wanted)
    fresh.load(synopsis.to_table(), synopsis.now)
    return fresh


@pytest.mark.parametrize("kind", JOIN_KINDS)
@given(data=st.data(), all=results, wanted=st.lists(pairs, min_size=1, max_size=4, unique=True))
@settings(max_examples=examples(80))
def test_pane_by_pane(kind: str, data: st.DataObject, all: list[Result], wanted: list[WindowPair]) -> None:
    """After every pane, each pair of windows equals the join recomputed; results come in several batches per pane."""
    queries = asked(kind, data)
    synopsis = made(kind, queries, wanted)
    keys = [key.expression for key in queries[0].keys]
    steps = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    now = 0
    for step in steps:
        until = now + step * LENGTH
        new = [result for result in all if now < max(result[:2]) <= until]
        for half in (new[::2], new[1::2]):
            synopsis.absorb(lift_results(half, LENGTH, keys, needed(queries)))
            if data.draw(st.booleans()):
                synopsis = restarted(kind, synopsis, queries, wanted)
        synopsis.close(now := until)
        check(synopsis, queries, wanted, [result for result in all if max(result[:2]) <= now], now)


@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_every_pair(kind: str) -> None:
    """All (n1 s, n2 s) with n1, n2 <= 6, from one synopsis, over many turns of its intervals."""
    wanted = [WindowPair(first, second) for first in range(1, 7) for second in range(1, 7)]
    queries = [query((K,), CALLS[kind], TimeWindow(LENGTH))]
    synopsis = made(kind, queries, wanted)
    blank = {"g": None, "f": 1.5, "s": "a", "m": None, "p": True}
    all = [
        (i, i + (7 * i) % 83 - 41, {"k": "xyz"[i % 3], "n": (i * i) % 31, **blank})
        for i in range(1, 400)
        if i + (7 * i) % 83 - 41 > 0
    ]
    for now in range(LENGTH, 460, LENGTH):
        new = [result for result in all if now - LENGTH < max(result[:2]) <= now]
        synopsis.absorb(lift_results(new, LENGTH, [K], needed(queries)))
        synopsis.close(now)
        check(synopsis, queries, wanted, [result for result in all if max(result[:2]) <= now], now)


@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_groups_and_values_that_vanish_are_forgotten(kind: str) -> None:
    """Every pane has groups and strings of its own: dictionaries stay bounded, answers stay right."""
    wanted = [WindowPair(2, 3), WindowPair(3, 2)]
    calls = [("count", None), ("sum", N), *([("max", S)] if kind == "basic" else [])]
    queries = [query((K,), calls, TimeWindow(LENGTH))]
    synopsis = made(kind, queries, wanted)
    blank = {"g": None, "f": None, "m": None, "p": True}
    all: list[Result] = []
    for now in range(LENGTH, 12 * LENGTH, LENGTH):
        all += [(now, now - i % 30, {"k": f"{now}/{i}", "n": i, "s": f"{now}:{i}", **blank}) for i in range(300)]
        new = [result for result in all if max(result[:2]) == now]
        synopsis.absorb(lift_results(new, LENGTH, [K], needed(queries)))
        synopsis.close(now)
        check(synopsis, queries, wanted, all, now)
    assert synopsis.groups <= 2100


def test_refusals() -> None:
    """A kind that cannot hold a partial says so when it is made, and a pair that is not kept when it is asked for."""
    floats = query((), [("sum", F)], TimeWindow(LENGTH))
    for kind in ("running", "table"):
        with pytest.raises(ValueError, match="float sums are never taken by subtraction"):
            made(kind, [floats], [WindowPair(2, 2)])
        assert join_refusal(kind, Partial("max", N)) is not None
    with pytest.raises(ValueError, match="compares values through a dictionary"):
        made("interval", [query((), [("max", S)], TimeWindow(LENGTH))], [WindowPair(2, 2)])
    synopsis = made("basic", [floats], [WindowPair(4, 4)])
    asked_for = {(5, 5): "keeps 4 intervals", (3, 4): "differ by 0", (0, 0): "one pane at least"}
    for pair, why in asked_for.items():
        with pytest.raises(ValueError, match=why):
            list(synopsis.views({WindowPair(*pair): Finisher(floats).partials}))
    table = made("table", [query((), [("count", None)], TimeWindow(LENGTH))], [WindowPair(4, 6)])
    with pytest.raises(ValueError, match="the synopsis keeps 4 and 6"):
        list(table.views({WindowPair(5, 6): []}))


def test_results_of_a_closed_pane_are_refused() -> None:
    counted = query((), [("count", None)], TimeWindow(LENGTH))
    synopsis = made("basic", [counted], [WindowPair(4, 4)])
    synopsis.close(50)
    row = {"k": None, "g": None, "n": 1, "f": None, "s": None, "m": None, "p": True}
    late = lift_results([(40, 50, row)], LENGTH, [], Finisher(counted).partials)
    with pytest.raises(ValueError, match="has closed"):
        synopsis.absorb(late)
    assert synopsis.numbers == 0
