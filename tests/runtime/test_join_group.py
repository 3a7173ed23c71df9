"""Aggregates over one join that share it, against their own plans and against the definition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as given_data
from hypothesis import settings
from hypothesis import strategies as st

from sash.catalog import Catalog, Stream
from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.changes import Changes
from sash.plan.continuous import STRATEGIES, Node, is_stream, windows
from sash.plan.outputs import Sampled
from sash.plan.rewrites import optimise
from sash.plan.shared_joins import JoinedAggregate, joined_aggregate, shared_rows
from sash.runtime.continuous.join_group import JoinAnswer, JoinGroup
from sash.runtime.continuous.plan_reader import Sampler
from sash.schedule import POLICY_NAMES, policy
from sash.sharing.choose_join import JoinLoad
from sash.sql import SelectStatement, bind, parse, plan_changes
from tests.support.examples import examples
from tests.support.journal import reread_group
from tests.support.relational import answer

SEC = 1_000_000
TYPES = {"a": pa.int32(), "b": pa.int32(), "c": pa.string(), "d": pa.float64(), "e": pa.int64()}
Tuple = tuple[int, dict[str, Any]]
Tuples = dict[str, list[Tuple]]
END = 40


def catalog(offset: int = 0) -> Catalog:
    known = Catalog()
    for name in ("s", "t"):
        fields = [("ts", pa.timestamp("us", "UTC")), *TYPES.items()]
        known.add_stream(Stream(name, pa.schema(fields), "ts", offset=offset))
    return known


def plan_of(text: str, offset: int = 0) -> Node:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    return plan_changes(bind(statement.select, catalog(offset)))


def query_of(text: str, offset: int = 0) -> JoinedAggregate:
    found = joined_aggregate(plan_of(text, offset))
    assert found is not None, text
    return found


def arrivals(plan: Node, tuples: Tuples, low: int, high: int) -> dict[int, Arrivals]:
    """Base windows ask for columns of their streams; Spark computes expressions."""
    found = {}
    for place, window in enumerate(windows(plan)):
        batch = [(ts, row) for ts, row in tuples[window.stream] if low <= ts < high]
        columns = [pa.array([row[column.expression.sql] for _, row in batch], column.type) for column in window.columns]
        stamps = np.array([ts for ts, _ in batch], dtype=np.int64)
        found[place] = Arrivals(pa.table(columns, schema=window.schema), stamps)
    return found


def epochs(plan: Node, tuples: Tuples, cuts: list[int], strategy: str = "upa") -> Iterator[tuple[Changes, int, int]]:
    stage, state, low = Stage(plan, 3, strategy), State(), 0
    for high in cuts:
        arrived = arrivals(plan, tuples, low, high)
        changes, state = stage.step(state, arrived, low, high, {}, begins=begins(tuples, high))
        yield changes, low, high
        low = high


def begins(tuples: Tuples, before: int) -> int | None:
    """After which instant the tuples begin that have come before a time."""
    stamps = [ts for stream in tuples.values() for ts, _ in stream if ts < before]
    return min(stamps) - 1 if stamps else None


def shared(
    texts: dict[str, str], tuples: Tuples, cuts: list[int], load: JoinLoad | None, offset: int, strategy: str
) -> list[JoinAnswer]:
    queries = {name: query_of(text, offset) for name, text in texts.items()}
    group, found = JoinGroup(queries, load), []
    for number, (changes, _, high) in enumerate(epochs(group.plan, tuples, cuts, strategy)):
        # As buckets would bring them: some results here, some there.
        for half in (slice(0, None, 2), slice(1, None, 2)):
            group.absorb(group.rows(changes.take(np.arange(len(changes))[half])))
        found += list(group.advance(high - 1, begins(tuples, high)))
        if number % 2:
            # As after a crash.
            saved = group.save()
            group = JoinGroup(queries, load)
            group.load(reread_group(saved))
    assert not group.failed
    return found


def alone(text: str, tuples: Tuples, cuts: list[int], offset: int) -> list[tuple[int, list[Any]]]:
    """The answers of a query's own plan."""
    plan = optimise(plan_of(text, offset))
    sampler = Sampler(plan)
    found = []
    for changes, low, high in epochs(plan, tuples, cuts):
        found += [(at, listed(table)) for at, table in sampler.answers(changes, low, high - 1, begins(tuples, high))]
    return found


def listed(table: pa.Table) -> list[Any]:
    return sorted((_rounded(tuple(row.values())) for row in table.to_pylist()), key=repr)


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


def check(
    texts: dict[str, str],
    tuples: Tuples,
    cuts: list[int],
    load: JoinLoad | None = None,
    offset: int = 0,
    strategy: str = "upa",
) -> None:
    ours = shared(texts, tuples, cuts, load, offset, strategy)
    assert [each.as_of for each in ours] == sorted(each.as_of for each in ours)
    for name, text in texts.items():
        mine = [(each.as_of, listed(each.table)) for each in ours if each.query == name]
        assert mine == alone(text, tuples, cuts, offset), text


def given(plan: Node, tuples: Tuples) -> list[list[tuple[int, tuple[Any, ...]]]]:
    """The tuples of each window, as the definition takes them."""
    return [
        [(ts, tuple(row[column.expression.sql] for column in window.columns)) for ts, row in tuples[window.stream]]
        for window in windows(plan)
    ]


SELECTS = [
    ("MAX(s.a) AS x", ""),
    ("COUNT(*) AS n, SUM(s.e) AS x, AVG(t.a) AS y", "GROUP BY s.b"),
    ("t.c, MIN(s.c) AS x, COUNT(s.a) AS n", "GROUP BY t.c"),
    ("s.b, SUM(s.a + t.a) AS x", "GROUP BY s.b HAVING COUNT(*) < 3"),
    ("COUNT(*) AS n, SUM(t.a) AS x", ""),
    ("VARIANCE(s.a) AS v, SUM(t.d) AS d, MIN(t.d) AS m", "GROUP BY t.b, s.c"),
]
CONDITIONS = ["s.b = t.b", "s.b = t.b AND s.a < t.a", "s.b = t.b AND s.a + t.a > 0"]


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, str]:
    """Queries over one join that differ in windows, SLIDEs and aggregates."""
    condition = draw(st.sampled_from(CONDITIONS))
    found = {}
    for name in ("q1", "q2", "q3", "q4")[: draw(st.integers(1, 4))]:
        first, second, slide = draw(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4)))
        asked, groups = draw(st.sampled_from(SELECTS))
        source = f"s [WINDOW {first} sec SLIDE {slide} sec], t [WINDOW {second} sec SLIDE {slide} sec]"
        found[name] = f"SELECT {asked} FROM {source} WHERE {condition} {groups}".strip()
    return found


rows = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-5, 5),
        "b": st.sampled_from([1, 1, 2, None]),
        "c": st.sampled_from(["x", "yy", None]),
        "d": st.none() | st.integers(-50, 50).map(float),
        "e": st.none() | st.integers(-(2**50), 2**50),
    }
)
# Some tuples come at the very end of a pane, some at its beginning.
stamps = st.builds(lambda second, past: second * SEC + past, st.integers(0, END - 8), st.sampled_from([0, 1, 500_000]))
cuts = st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(
    lambda each: [cut * SEC for cut in (*sorted(each), END)]
)
streams = st.lists(st.tuples(stamps, rows), max_size=12).map(lambda each: sorted(each, key=lambda pair: pair[0]))


@given_data(
    texts=workloads(),
    tuples=st.fixed_dictionaries({"s": streams, "t": streams}),
    cuts=st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(
        lambda each: [c * SEC for c in (*sorted(each), END)]
    ),
    load=st.sampled_from([None, JoinLoad(groups=1000, density=1.0)]),
    offset=st.sampled_from([0, SEC, 250_000]),
    strategy=st.sampled_from(["upa", "upa", *STRATEGIES]),
)
@settings(max_examples=examples(120), deadline=None)
def test_sharing_changes_no_answer(
    texts: dict[str, str], tuples: Tuples, cuts: list[int], load: JoinLoad | None, offset: int, strategy: str
) -> None:
    """Whatever the windows, SLIDEs, synopses, micro-batches, restarts, and the way in which the join is executed."""
    check(texts, tuples, cuts, load, offset, strategy)


@pytest.mark.parametrize("name", POLICY_NAMES)
@given_data(texts=workloads(), tuples=st.fixed_dictionaries({"s": streams, "t": streams}))
@settings(max_examples=examples(12), deadline=None)
def test_every_policy_answers_rightly_and_in_time(name: str, texts: dict[str, str], tuples: Tuples) -> None:
    """Refreshed earlier perhaps, never later than SLIDE says; each answer is that of its own time."""
    queries = {each: query_of(text) for each, text in texts.items()}
    group, found = JoinGroup(queries, policy=policy(name)), []
    for changes, _, high in epochs(group.plan, tuples, [17 * SEC, END * SEC]):
        group.absorb(group.rows(changes))
        found += list(group.advance(high - 1, begins(tuples, high)))
    for each, text in texts.items():
        mine = [one for one in found if one.query == each]
        own = {one.as_of for one in mine if one.scheduled}
        assert all(at % queries[each].slide == 0 for at in own)
        for before, after in pairwise(mine):
            assert after.as_of - before.as_of <= queries[each].slide or not before.table.num_rows
        if "GROUP BY" in text and "VARIANCE" not in text:
            plan = plan_of(text)
            assert isinstance(plan, Sampled)
            for one in mine:
                expected = answer(plan.input, given(plan, tuples), one.as_of)
                assert listed(one.table) == sorted(map(_rounded, expected.elements()), key=repr)


def test_the_query_of_the_thesis_over_many_windows() -> None:
    """MAX over (7, 8) and all others up to it: one join, and one synopsis in two dimensions."""
    texts = {
        f"q{first}_{second}": f"SELECT MAX(s.a) AS x FROM s [WINDOW {first} sec SLIDE 1 sec], "
        f"t [WINDOW {second} sec SLIDE 1 sec] WHERE s.b = t.b GROUP BY s.b"
        for first in range(1, 8)
        for second in range(1, 9)
    }
    blank = {"c": None, "d": None, "e": None}
    tuples: Tuples = {
        "s": [(i * 333_333, {"a": (i * i) % 23, "b": i % 3, **blank}) for i in range(60)],
        "t": [(i * 700_000, {"a": i % 5, "b": i % 3, **blank}) for i in range(40)],
    }
    check(texts, tuples, [3 * SEC, 11 * SEC, END * SEC])
    group = JoinGroup({name: query_of(text) for name, text in texts.items()})
    (choice,) = group.choices.values()
    assert sum(len(part.pairs) for part in choice.parts) == 56
    assert len(windows(group.plan)) == 2
    assert is_stream(group.plan), "no results are kept beside the synopsis"


def test_which_plans_are_aggregates_over_a_join() -> None:
    slides = "s [WINDOW 2 sec SLIDE 1 sec], t [WINDOW 3 sec SLIDE 1 sec] WHERE s.b = t.b"
    assert query_of(f"SELECT COUNT(*) FROM {slides}").windows == (2 * SEC, 3 * SEC)
    others = [
        f"SELECT s.a FROM {slides}",
        "SELECT COUNT(*) FROM s [WINDOW 2 sec], t [WINDOW 3 sec] WHERE s.b = t.b",
        f"SELECT COUNT(*) FROM s [WINDOW 1 sec SLIDE 1 sec] u, {slides} AND u.b = t.b",
        f"SELECT DISTINCT COUNT(*) FROM {slides}",
    ]
    for text in others:
        assert joined_aggregate(plan_of(text)) is None, text


def same_join(queries: Mapping[str, JoinedAggregate]) -> list[dict[str, JoinedAggregate]]:
    """Queries in groups that share a join each, in the order in which they came."""
    groups: list[dict[str, JoinedAggregate]] = []
    for name, query in queries.items():
        fitting = (group for group in groups if _fits(query, group))
        group = next(fitting, None)
        if group is None:
            groups.append({name: query})
        else:
            group[name] = query
    return groups


def _fits(query: JoinedAggregate, group: Mapping[str, JoinedAggregate]) -> bool:
    members = list(group.values())
    return members[0].skeleton == query.skeleton and shared_rows([*members, query]) is not None


def test_who_shares_a_join() -> None:
    def asked(select: str, first: int, where: str) -> JoinedAggregate:
        return query_of(
            f"SELECT {select} FROM s [WINDOW {first} sec SLIDE 1 sec], t [WINDOW 3 sec SLIDE 1 sec] WHERE {where}"
        )

    queries = {
        "a": asked("COUNT(*)", 2, "s.b = t.b"),
        "b": asked("MAX(t.a)", 5, "s.b = t.b"),
        "c": asked("COUNT(*)", 2, "s.a = t.a"),
        "d": asked("COUNT(*)", 2, "s.b = t.b AND s.a = 1"),
        "e": asked("SUM(s.a + t.a)", 2, "s.b = t.b"),
    }
    assert [list(group) for group in same_join(queries)] == [["a", "b", "e"], ["c"], ["d"]]
    together = shared_rows([queries[name] for name in "abe"])
    assert together is not None
    assert [window.window.length for window in windows(together)] == [5 * SEC, 3 * SEC]
    with pytest.raises(ValueError, match="different joins"):
        JoinGroup(queries)


def test_a_query_that_fails_leaves_the_others_alone() -> None:
    """A sum that overflows is an error of the query that asks for it."""
    joined = "s [WINDOW 2 sec SLIDE 1 sec], t [WINDOW 2 sec SLIDE 1 sec] WHERE s.b = t.b"
    texts = {"sum": f"SELECT SUM(s.e) FROM {joined}", "count": f"SELECT COUNT(s.e) AS n FROM {joined}"}
    group = JoinGroup({name: query_of(text) for name, text in texts.items()})
    row = {"a": 1, "b": 1, "c": None, "d": None, "e": 2**62}
    tuples: Tuples = {"s": [(SEC, row)] * 2, "t": [(SEC, row)]}
    answers = []
    for changes, _, high in epochs(group.plan, tuples, [4 * SEC]):
        group.absorb(group.rows(changes))
        answers += list(group.advance(high - 1, begins(tuples, high)))
    assert set(group.failed) == {"sum"}
    assert [(each.query, each.table.to_pylist()) for each in answers] == [
        ("count", [{"n": 2}]),
        ("count", [{"n": 2}]),
        ("count", [{"n": 0}]),
    ]


@given_data(texts=workloads(), tuples=st.fixed_dictionaries({"s": streams, "t": streams}), end=st.integers(1, END - 1))
@settings(max_examples=examples(40), deadline=None)
def test_the_end_of_all_streams_may_not_be_the_end(texts: dict[str, str], tuples: Tuples, end: int) -> None:
    """Each query is answered at its next multiple as if nothing more came; then more comes, and nothing is late."""
    queries = {name: query_of(text) for name, text in texts.items()}
    group, found, at_end = JoinGroup(queries), [], []
    for changes, low, high in epochs(group.plan, tuples, [end * SEC, END * SEC]):
        group.absorb(group.rows(changes))
        found += list(group.advance(high - 1, begins(tuples, high)))
        if low == 0:
            at_end = list(group.ahead(high - 1, begins(tuples, high)))
            assert not list(group.ahead(high - 1, begins(tuples, high))), "said already"
    until_end = {name: [each for each in each_stream if each[0] < end * SEC] for name, each_stream in tuples.items()}
    for name, text in texts.items():
        last = -(-(end * SEC - 1) // queries[name].slide) * queries[name].slide
        ahead = [(each.as_of, listed(each.table)) for each in at_end if each.query == name]
        past = alone(text, until_end, [end * SEC, 2 * END * SEC], 0)
        seen = [each for each in past if end * SEC <= each[0] <= last]
        assert ahead == seen, text
        mine = [(each.as_of, listed(each.table)) for each in found if each.query == name]
        told = {at for at, _ in ahead}
        expected = [each for each in alone(text, tuples, [end * SEC, END * SEC], 0) if each[0] not in told]
        assert mine == expected, text


@given_data(
    texts=workloads(),
    tuples=st.fixed_dictionaries({"s": streams, "t": streams}),
    shorter=st.integers(0, 4),
    at=st.integers(9, 20),
)
@settings(max_examples=examples(80), deadline=None)
def test_who_comes_later_is_answered_from_what_is_kept(
    texts: dict[str, str], tuples: Tuples, shorter: int, at: int
) -> None:
    """As by definition, from the next pane on; who goes takes nobody else's answers along."""

    def cut_off(match: re.Match[str]) -> str:
        return f"WINDOW {max(1, int(match[1]) - shorter)} sec"

    group, found = JoinGroup({name: query_of(text) for name, text in texts.items()}), []
    later = {f"late {name}": re.sub(r"WINDOW (\d) sec", cut_off, text) for name, text in texts.items()}
    covered = {name: text for name, text in later.items() if group.layout.place_of(query_of(text)) is not None}
    assert covered or shorter, "the same windows are answered"
    for changes, low, high in epochs(group.plan, tuples, [at * SEC, END * SEC]):
        group.absorb(group.rows(changes))
        found += list(group.advance(high - 1, begins(tuples, high)))
        if low == 0:
            for name, text in covered.items():
                group.enter(name, query_of(text))
            group.leave("q1")
    for name, text in (texts | covered).items():
        mine = {each.as_of: listed(each.table) for each in found if each.query == name}
        if name == "q1":
            assert all(when < at * SEC for when in mine)
        elif "GROUP BY" in text and "VARIANCE" not in text:
            plan = plan_of(text)
            assert isinstance(plan, Sampled)
            begin = at * SEC if name.startswith("late") else 0
            for when in range(-(-begin // plan.slide) * plan.slide, END * SEC, plan.slide):
                expected = answer(plan.input, given(plan, tuples), when)
                assert mine.get(when, []) == sorted(map(_rounded, expected.elements()), key=repr), (text, when)
