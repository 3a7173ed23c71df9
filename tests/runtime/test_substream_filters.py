"""HAVING answered by collective indexes: exactly what a scan gives, and with APPROX a superset within its bound."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.core.time import SECOND, to_micros
from sash.panes.substreams.collective import Levels
from sash.runtime.answers.answer import Answer
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.periodic import group_filters
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.settings import Settings
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.oracle import recompute, same_rows
from tests.support.streams import START, stream, to_table

AGGREGATES = ["COUNT(*)", "COUNT(v)", "SUM(v)", "SUM(w)", "MAX(v)", "MIN(v)", "MAX(x)"]


def text(condition: str, seconds: int, where: str = "WHERE v >= 0 OR v IS NULL") -> str:
    select = "SELECT k, COUNT(*) AS n, SUM(v) AS t"
    return f"{select} FROM s [WINDOW {seconds} sec SLIDE 1 sec] {where} GROUP BY k HAVING {condition}"


def trades(steps: int, keys: int, seed: int, least: int = 0) -> list[pa.Table]:
    """Few keys with many tuples, many with few; some values NULL."""
    chance = random.Random(seed)
    parts = []
    for step in range(steps):
        rows = []
        for _ in range(80):
            v = None if chance.random() < 0.1 else chance.randrange(least, 60)
            key = int(chance.paretovariate(0.5)) % keys
            stamp = START + step * SECOND + chance.randrange(1, SECOND)
            rows.append((stamp, key, None, v, None if v is None else v * 10**10, None if v is None else v / 4))
        parts.append(to_table(sorted(rows, key=lambda row: row[0])))
    return parts


def run(texts: dict[str, str], parts: list[pa.Table]) -> tuple[PaneGroup, list[Answer]]:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled(texts, stream()))
    answers = [answer for part in parts for answer in feed.push(part)]
    (group,) = feed.runtime.groups.values()
    return group, answers


def check(texts: dict[str, str], lengths: dict[str, int], parts: list[pa.Table], answers: list[Answer]) -> None:
    tuples = pa.concat_tables(parts)
    for answer in answers:
        expected = recompute(texts[answer.query], tuples, to_micros(answer.as_of), lengths[answer.query] * SECOND)
        assert same_rows(answer.table.to_pylist(), expected), (texts[answer.query], answer.as_of)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes pay from a few queries and groups on, so that small streams have some."""
    monkeypatch.setattr(group_filters, "LEAST_QUERIES", 1)
    monkeypatch.setattr(group_filters, "LEAST_GROUPS", 4)


@settings(max_examples=examples(30))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(AGGREGATES), st.sampled_from([">", ">=", "<", "<="]), st.integers(-5, 90), st.integers(1, 9)
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 1_000),
)
def test_exact_answers(asked: list[tuple[str, str, int, int]], seed: int) -> None:
    conditions = {f"q{i}": f"{function} {sign} {v}" for i, (function, sign, v, _) in enumerate(asked)}
    lengths = {f"q{i}": length for i, (_, _, _, length) in enumerate(asked)}
    texts = {name: text(condition, lengths[name]) for name, condition in conditions.items()}
    parts = trades(20, 60, seed)
    group, answers = run(texts, parts)
    assert sum(map(len, group.choices.filters.indexes.values())) == len(asked)
    check(texts, lengths, parts, answers)


@pytest.mark.parametrize("condition", ["COUNT(*) > 3 AND SUM(v) < 90", "10 < SUM(v)", "MAX(v) > 20 AND n > 2"])
def test_parts_of_conditions(condition: str) -> None:
    texts, parts = {"q": text(condition, 6)}, trades(20, 60, 1)
    group, answers = run(texts, parts)
    assert group.choices.filters.indexes
    check(texts, {"q": 6}, parts, answers)


@pytest.mark.parametrize("p", [1, 2, 8])
@pytest.mark.parametrize("function", ["COUNT(*)", "SUM(v)"])
def test_approximate_answers_are_supersets_within_their_bound(function: str, p: int) -> None:
    v, parts = 12, trades(30, 60, 2)
    feed = Feed(stream(), Settings("conservative", filter_precision=p))
    select = f"SELECT k, {function} AS a FROM s [WINDOW 7 sec SLIDE 1 sec] GROUP BY k HAVING"
    feed.runtime.synchronise(compiled({"rough": f"{select} APPROX {function} > {v}"}, stream()))
    answers = [answer for part in parts for answer in feed.push(part)]
    exact = f"{select} {function} > {v}"
    epsilon, wider = Levels(p).epsilon, 0
    for answer in answers:
        truth = recompute(exact, pa.concat_tables(parts), to_micros(answer.as_of), 7 * SECOND)
        found = {row["k"]: row["a"] for row in answer.table.to_pylist()}
        assert {row["k"]: row["a"] for row in truth}.items() <= found.items()
        assert all(value > v * (1 - epsilon) for value in found.values())
        wider += len(found) - len(truth)
    assert wider > 0, "an approximate answer that is always exact shows nothing"


def test_negative_sums_stop_the_index_and_not_the_query() -> None:
    texts, parts = {"q": text("SUM(v) > 20", 5, "")}, trades(20, 40, 3, least=-60)
    group, answers = run(texts, parts)
    (index,) = group.choices.filters.filter_indexes.values()
    assert index.failure is not None and "below 0" in index.failure
    check(texts, {"q": 5}, parts, answers)


def test_an_index_that_spares_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, parts = {"q": text("COUNT(*) > 0", 5)}, trades(60, 40, 4)
    group, answers = run(texts, parts)
    (index,) = group.choices.filters.filter_indexes.values()
    assert not index.pays
    check(texts, {"q": 5}, parts, answers)


def test_few_queries_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_filters, "LEAST_QUERIES", 4)
    parts = trades(10, 60, 5)
    three = {f"q{i}": text(f"COUNT(*) > {i}", 5) for i in range(3)}
    group, _ = run(three, parts)
    assert not group.choices.filters.indexes
    group, _ = run({**three, "q3": text("COUNT(*) > 3", 4)}, parts)
    (served,) = group.choices.filters.indexes.values()
    assert sorted(served) == ["q0", "q1", "q2", "q3"]


@pytest.mark.parametrize(
    "condition", ["AVG(v) > 3", "SUM(x) > 3", "COUNT(*) > n", "COUNT(*) > 3 OR MAX(v) > 5", "COUNT(*) <> 3"]
)
def test_approx_needs_a_condition_that_an_index_serves(condition: str) -> None:
    (query,) = compiled({"q": text(f"APPROX {condition}", 5)}, stream())
    with pytest.raises(SashError, match="HAVING APPROX needs"):
        query.check()


def test_groups_that_are_forgotten_leave_the_index_too() -> None:
    """Ever new keys: codes are given back, and the index follows."""
    texts: dict[str, str] = {"q": text("COUNT(*) > 2", 3)}
    parts: list[Any] = []
    for step in range(60):
        rows = [(START + step * SECOND + i + 1, 200 * step + i % 70, None, 1, None, None) for i in range(200)]
        parts.append(to_table(rows))
    group, answers = run(texts, parts)
    assert group.panes.groups < 3_000
    check(texts, {"q": 3}, parts[:3] + parts[-6:], answers[:2] + answers[-2:])


def test_approx_relaxes_only_the_condition_that_the_index_serves() -> None:
    texts, parts = {"q": text("APPROX COUNT(*) > 6 AND k % 2 = 0", 7)}, trades(20, 60, 6)
    _, answers = run(texts, parts)
    assert any(answer.table.num_rows for answer in answers)
    assert all(k % 2 == 0 for answer in answers for k in answer.table["k"].to_pylist())


def test_an_index_begins_anew_when_the_negative_sum_has_left_the_windows() -> None:
    parts = trades(30, 40, 7)
    parts[4] = trades(5, 40, 8, least=-200)[4]
    texts = {"q": text("SUM(v) > 20", 5, "")}
    group, answers = run(texts, parts)
    (index,) = group.choices.filters.filter_indexes.values()
    assert index.failure is None
    check(texts, {"q": 5}, parts, answers)


WINDOW = "SELECT k, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 1 sec]"
ROUGH = "GROUP BY k HAVING APPROX COUNT(*) > 3"
UNDER = {
    "tens": f"{WINDOW} WHERE v = 1 GROUP BY k",
    "twenties": f"{WINDOW} WHERE v = 2 GROUP BY k",
}


@pytest.mark.parametrize(
    ("before", "text", "told"),
    [
        ({}, f"{WINDOW} {ROUGH}", "Substream filter: CI-COUNT on COUNT(*), for this query alone; its superset"),
        (
            {"precise": f"{WINDOW} GROUP BY k HAVING COUNT(*) > 7"},
            f"{WINDOW} {ROUGH}",
            "Substream filter: CI-COUNT on COUNT(*), shared with precise; its superset",
        ),
        (UNDER, f"{WINDOW} WHERE v IN (1, 2) {ROUGH}", "Having: evaluated for every group; its values are combined"),
        (
            {"wide": f"{WINDOW} WHERE v IN (1, 2) {ROUGH}", **UNDER},
            f"{WINDOW} WHERE v IN (1, 2) GROUP BY k HAVING COUNT(*) > 5",
            "Substream filter: CI-COUNT on COUNT(*) where ",
        ),
        (
            {"plain": f"{WINDOW} GROUP BY k"},
            f"{WINDOW.replace('5 sec', '9 min')} {ROUGH}",
            "Having: evaluated for every group; the exact values of",
        ),
    ],
)
def test_explain_tells_which_queries_an_index_answers(
    before: dict[str, str], text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its registration and after it, as the runtime then does."""
    monkeypatch.setattr(group_filters, "MOST_NUMBERS", 10_000)
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    *others, query = compiled({**before, "q": text}, stream())
    feed.runtime.synchronise(others)
    for part in trades(8, 60, 9):
        feed.push(part)
    wished = explain(query, tried(feed.runtime, others, query))
    feed.runtime.synchronise([*others, query])
    (group,) = feed.runtime.groups.values()
    (line,) = (line for line in wished.splitlines() if line.startswith(("Substream filter", "Having")))
    assert line.startswith(told)
    assert line in explain(query, tried(feed.runtime, [*others, query], query)).splitlines()
    served = {name for names in group.choices.filters.indexes.values() for name in names}
    assert ("q" in served) is line.startswith("Substream filter")


def test_explain_tells_that_an_index_spares_too_little() -> None:
    feed = Feed(stream())
    queries = compiled({"q": text("COUNT(*) > 0", 5)}, stream())
    feed.runtime.synchronise(queries)
    told: list[str] = []
    for part in trades(60, 40, 4):
        feed.push(part)
        told += explain(queries[0], tried(feed.runtime, queries, queries[0])).splitlines()
    having = [line.partition("; ")[2] for line in told if line.startswith(("Substream filter", "Having"))]
    assert list(dict.fromkeys(having)) == [
        "an index on COUNT(*) where v >= 0 OR v IS NULL does not pay yet (1 of 1 queries, 1 of 4 groups so far)",
        "the groups it finds are tested exactly",
        "the index on COUNT(*) where v >= 0 OR v IS NULL spares too few groups",
    ]
