"""FREQUENT(k, x) through the engine: the thesis' examples as they are, and Algorithm 6 recomputed from raw tuples."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.explaining.explain import explain
from sash.runtime.periodic.onetime import is_cut, look_up
from tests.runtime.test_aggregate_oracle import numbered
from tests.support.examples import examples
from tests.support.feed import Feed, answers_of, compiled
from tests.support.streams import START, batches, stream, to_table

EXAMPLES = {
    each["id"].removeprefix("frequent_items."): each
    for each in json.loads((Path(__file__).parents[1] / "golden" / "frequent_items.json").read_text())["examples"]
}
RUNS = [name for name, each in EXAMPLES.items() if "rows" in each["expected"]]


def letters(items: str, step: int = SECOND) -> pa.Table:
    return to_table([(START + i * step, None, item, None, None, None) for i, item in enumerate(items)])


def counts_of(answer: Answer) -> dict[Any, int]:
    return {row["g"]: row["count"] for row in answer.table.to_pylist()}


# -- the thesis --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("batch", [5, 1000])
def test_every_slide_of_an_example(name: str, batch: int) -> None:
    inputs, rows = EXAMPLES[name]["inputs"], EXAMPLES[name]["expected"]["rows"]
    items, b = letters(inputs["items"]), inputs["b"]
    text = f"SELECT FREQUENT({inputs['k']}, g) FROM s [ROWS {inputs['N']} SLIDE {b}]"
    parts = [items.slice(start, batch) for start in range(0, len(items), batch)]
    answers = answers_of(stream(), {"q": text}, parts)["q"]
    assert len(answers) == len(rows)
    for row, answer in zip(rows, answers, strict=True):
        assert to_micros(answer.as_of) == START + (row["slide"] * b - 1) * SECOND
        full = row["slide"] * b >= inputs["N"]
        assert answer.complete == full
        output = row["output"] if row["output"] is not None else row.get("output_if_reported")
        assert (output is not None) == full
        if output is not None:
            assert counts_of(answer) == output
        # Before the first full window: what the counters of the sub-windows so far tell.
        assert counts_of(answer) == {item: n for item, n in row["global"].items() if n > row["delta"]}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("batch", [5, 1000])
@pytest.mark.parametrize("files_lists", [False, True])
def test_every_slide_of_an_example_over_time(name: str, batch: int, files_lists: bool) -> None:
    """One tuple a second: windows over time are the same sub-windows."""
    inputs, rows = EXAMPLES[name]["inputs"], EXAMPLES[name]["expected"]["rows"]
    b = inputs["b"]
    # The first tuple a second after a multiple of the slide, so that sub-windows begin with it.
    begin = START - START % (inputs["N"] * b * SECOND) + SECOND
    table = to_table([(begin + i * SECOND, None, item, None, None, None) for i, item in enumerate(inputs["items"])])
    text = f"SELECT FREQUENT({inputs['k']}, g) FROM s [WINDOW {inputs['N']} sec SLIDE {b} sec] WITH BOUNDS"
    parts = [table.slice(start, batch) for start in range(0, len(table), batch)]
    answers = answers_of(stream(), {"q": text}, parts, files_lists=files_lists)["q"]
    assert len(answers) == len(rows)
    for row, answer in zip(rows, answers, strict=True):
        expected = {item: n for item, n in row["global"].items() if n > row["delta"]}
        assert counts_of(answer) == expected
        bounds = {r["g"]: (r["lower"], r["upper"]) for r in answer.table.to_pylist()}
        assert bounds == {item: (n, n + row["delta"]) for item, n in expected.items()}


def test_the_most_popular_of_each_minute() -> None:
    """Figure 6.1: twelve lists of one item say nothing about the window, though the counts are known."""
    minutes, expected = EXAMPLES["figure_6_1"]["inputs"]["most_popular_per_minute"], EXAMPLES["figure_6_1"]["expected"]
    texts = {
        "frequent": "SELECT FREQUENT(1, g) FROM s [WINDOW 12 min SLIDE 1 min]",
        "exact": "SELECT HISTOGRAM(g) FROM s [WINDOW 12 min SLIDE 1 min]",
    }
    found = answers_of(stream(), texts, [letters(minutes, 60 * SECOND)])
    assert not any(len(answer.table) for answer in found["frequent"])
    assert any(counts_of(answer) == expected for answer in found["exact"])


# -- Algorithm 6, the obvious way --------------------------------------------------------------------------


def algorithm6(sub_windows: list[Counter[Any]], k: int) -> tuple[dict[Any, int], int]:
    """The report, and delta. Ties by value; a sub-window with fewer than k items has a k-th count of 0."""
    counters: Counter[Any] = Counter()
    delta = 0
    for counts in sub_windows:
        listed = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        delta += listed[-1][1] if len(listed) == k else 0
        counters.update(dict(listed))
    return {item: n for item, n in counters.items() if n > delta}, delta


Rows = list[dict[str, Any]]


def check(ours: Rows, sub_windows: list[Rows], k: int, item: str, by: str | None) -> None:
    """An answer of FREQUENT(k, item) WITH BOUNDS against its sub-windows' tuples, for each value of `by`."""
    groups = {row[by] if by else None for rows in sub_windows for row in rows}
    reported = {(row[by] if by else None, row[item]): row for row in ours}
    assert len(reported) == len(ours)
    expected: dict[Any, int] = {}
    for group in groups:
        mine = [
            Counter(row[item] for row in rows if row[item] is not None and (by is None or row[by] == group))
            for rows in sub_windows
        ]
        found, delta = algorithm6(mine, k)
        expected |= {(group, value): n for value, n in found.items()}
        truth: Counter[Any] = sum(mine, Counter())
        for (owner, value), row in reported.items():
            if owner == group:
                # Never a false positive, and the bounds always hold.
                assert truth[value] > delta
                assert row["lower"] == row["count"] <= truth[value] <= row["upper"]
    assert {pair: row["count"] for pair, row in reported.items()} == expected


PREDICATES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "": lambda row: True,
    " WHERE v > 5": lambda row: row["v"] is not None and row["v"] > 5,
    " WHERE k = 1 OR k IS NULL": lambda row: row["k"] in (1, None),
    " WHERE v > 1000": lambda row: False,
}
SHAPES = st.tuples(
    st.integers(1, 4),
    st.sampled_from(["g", "v", "k"]),
    st.sampled_from([None, "k", "g"]),
    st.sampled_from(list(PREDICATES)),
).filter(lambda shape: shape[1] != shape[2])


def frequent(k: int, item: str, by: str | None, where: str, window: str) -> str:
    keys = f"{by}, " if by else ""
    return f"SELECT {keys}FREQUENT({k}, {item}) FROM s {window}{where}{f' GROUP BY {by}' if by else ''} WITH BOUNDS"


def cut(tuples: Rows, edges: list[int], at: str, where: str) -> list[Rows]:
    """The tuples between neighbouring edges (low, high], the youngest first."""
    holds = PREDICATES[where]
    return [[row for row in tuples if low < row[at] <= high and holds(row)] for high, low in pairwise(edges)]


@settings(max_examples=examples(40))
@given(
    SHAPES,
    st.integers(1, 12),
    st.integers(1, 8),
    st.sampled_from([0, 0, 2, 5]),
    batches(disorder=SECOND),
    st.sampled_from([None, "basic", "running", "interval", "landmark", "cluster"]),
    st.booleans(),
    st.booleans(),
)
def test_time_windows(
    shape: tuple[int, str, str | None, str],
    length: int,
    slide: int,
    lag: int,
    parts: list[pa.Table],
    synopsis: str | None,
    closed_left: bool,
    files_lists: bool,
) -> None:
    k, item, by, where = shape
    text = frequent(k, item, by, where, f"[WINDOW {length} sec SLIDE {slide} sec LAG {lag} sec]")
    tuples, sub = pa.concat_tables(parts).to_pylist(), math.gcd(length, slide) * SECOND
    declared = stream(delay=SECOND, closed_left=closed_left, offset=300_000)
    for answer in answers_of(declared, {"q": text}, parts, synopsis, files_lists)["q"]:
        # In whole microseconds, [a, b) is (a - 1, b - 1].
        newest = to_micros(answer.as_of) - lag * SECOND - closed_left
        edges = [newest - place for place in range(0, length * SECOND + 1, sub)]
        check(answer.table.to_pylist(), cut(tuples, edges, "_us", where), k, item, by)


@settings(max_examples=examples(40))
@given(
    SHAPES,
    st.integers(1, 20),
    st.integers(1, 9),
    st.sampled_from([0, 0, 4]),
    batches(disorder=SECOND),
    st.sampled_from([None, "basic", "running", "interval", "landmark"]),
)
def test_row_windows(
    shape: tuple[int, str, str | None, str],
    length: int,
    slide: int,
    lag: int,
    parts: list[pa.Table],
    synopsis: str | None,
) -> None:
    """Rows are counted before WHERE, in sub-windows of gcd(ROWS, SLIDE) rows."""
    k, item, by, where = shape
    text = frequent(k, item, by, where, f"[ROWS {length} SLIDE {slide} LAG {lag}]")
    tuples, sub = numbered(parts).to_pylist(), math.gcd(length, slide)
    answers = answers_of(stream(delay=SECOND), {"q": text}, parts, synopsis)["q"]
    positions = [p for p in range(slide, len(tuples) + 1, slide) if p > lag]
    for position, answer in zip(positions, answers[len(answers) - len(positions) :], strict=True):
        edges = [position - lag - place for place in range(0, length + 1, sub)]
        check(answer.table.to_pylist(), cut(tuples, edges, "_n", where), k, item, by)


@settings(max_examples=examples(25))
@given(SHAPES, st.integers(1, 4), st.integers(1, 6), batches())
def test_partitioned_windows(
    shape: tuple[int, str, str | None, str], length: int, slide: int, parts: list[pa.Table]
) -> None:
    """Sub-windows are runs of gcd(ROWS, SLIDE) rows of each partition."""
    k, item, by, where = shape
    text = frequent(k, item, by, where, f"[PARTITION BY g ROWS {length} SLIDE {slide}]")
    tuples, sub = numbered(parts).to_pylist(), math.gcd(length, slide)
    answers = answers_of(stream(), {"q": text}, parts)["q"]
    positions = range(slide, len(tuples) + 1, slide)
    for position, answer in zip(positions, answers, strict=True):
        ages: Counter[Any] = Counter()
        kept = []
        for row in reversed(tuples[:position]):
            kept.append({**row, "_age": -ages[row["g"]]})
            ages[row["g"]] += 1
        edges = [-place for place in range(0, length + 1, sub)]
        check(answer.table.to_pylist(), cut(kept, edges, "_age", where), k, item, by)


# -- neighbours --------------------------------------------------------------------------------------------


NEIGHBOURS = [
    "SELECT HISTOGRAM(v) FROM s [WINDOW {n} sec SLIDE 1 sec]",
    "SELECT k, HISTOGRAM(v) FROM s [WINDOW {n} sec SLIDE 1 sec LAG 1 sec] GROUP BY k",
    "SELECT k, COUNT(DISTINCT v) AS d, COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE {n} sec] GROUP BY k",
    "SELECT TOP(2, v) FROM s [UNBOUNDED SLIDE {n} sec]",
    "SELECT FREQUENT(3, v) FROM s [WINDOW 5 sec SLIDE {n} sec]",
]


@settings(max_examples=examples(40))
@given(
    st.tuples(st.integers(1, 4), st.just("v"), st.sampled_from([None, "k"]), st.sampled_from(list(PREDICATES))),
    st.integers(2, 12),
    st.integers(2, 8),
    st.lists(st.tuples(st.sampled_from(NEIGHBOURS), st.integers(1, 4)), min_size=1, max_size=3),
    batches(),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
)
def test_neighbours_change_nothing(
    shape: tuple[int, str, str | None, str],
    length: int,
    slide: int,
    others: list[tuple[str, int]],
    parts: list[pa.Table],
    come: int,
    go: int,
    files_lists: bool,
) -> None:
    """Its sub-window is its own, though neighbours that come and go cut the panes finer."""
    declared = stream()
    text = frequent(*shape, f"[WINDOW {length} sec SLIDE {slide} sec]")
    (alone,) = compiled({"q": text}, declared)
    neighbours = compiled({f"n{i}": other.format(n=n) for i, (other, n) in enumerate(others)}, declared)

    def told(come: int, go: int) -> list[tuple[datetime, Rows]]:
        feed, answers = Feed(declared, files_lists=files_lists), []
        for i, part in enumerate(parts):
            feed.runtime.synchronise([alone, *neighbours] if come <= i < go else [alone])
            answers += feed.push(part)
        answers += feed.finish()
        return [(answer.as_of, answer.table.to_pylist()) for answer in answers if answer.query == "q"]

    ours, theirs = told(come, come + go + 1), told(0, 0)
    # With finer panes the end of input may come before the last multiple of the slide.
    assert len(ours) in (len(theirs), len(theirs) - 1)
    assert ours == theirs[: len(ours)]


@settings(max_examples=examples(25))
@given(SHAPES, SHAPES, st.integers(1, 6), st.integers(1, 6), batches(disorder=3 * SECOND))
def test_late_tuples_are_late_for_lists_in_files_too(
    shape: tuple[int, str, str | None, str],
    other: tuple[int, str, str | None, str],
    length: int,
    slide: int,
    parts: list[pa.Table],
) -> None:
    """Open counts in files, open counts in this process, and the counts of all items: the same answers."""
    declared, window = stream(), f"[WINDOW {length} sec SLIDE {slide} sec]"
    queries = compiled({"q": frequent(*shape, window), "p": frequent(*other, window)}, declared)

    def told(files_lists: bool, has_lists: bool) -> tuple[list[Any], int]:
        feed = Feed(declared, files_lists=files_lists)
        feed.runtime.has_lists = has_lists
        feed.runtime.synchronise(queries)
        answers = [answer for part in parts for answer in feed.push(part)] + feed.finish()
        # Tables of their own may answer in another order.
        rows = sorted(((a.query, a.as_of, a.complete, a.table.to_pylist()) for a in answers), key=lambda a: a[:2])
        return rows, feed.runtime.statistics.late_tuples

    assert told(True, True) == told(False, True) == told(False, False)


# -- corners -----------------------------------------------------------------------------------------------


def only(text: str, rows: list[tuple[Any, ...]], **clauses: Any) -> list[Rows]:
    return [answer.table.to_pylist() for answer in answers_of(stream(**clauses), {"q": text}, [to_table(rows)])["q"]]


def test_null_is_no_item_but_a_group() -> None:
    rows = [(START + 1, None, None, 1, None, None), (START + 2, None, None, 1, None, None)]
    rows += [(START + 3, 1, None, None, None, None)]
    text = "SELECT {} FROM s [WINDOW 1 sec SLIDE 1 sec]{}"
    assert only(text.format("FREQUENT(2, g)", ""), rows) == [[]]
    assert only(text.format("k, FREQUENT(2, v)", " GROUP BY k"), rows) == [[{"k": None, "v": 1, "count": 2}]]


@pytest.mark.parametrize(
    "window", ["WINDOW 5 sec SLIDE 5 sec", "WINDOW 3 sec SLIDE 7 sec", "ROWS 1 SLIDE 1", "ROWS 9 SLIDE 1"]
)
def test_a_single_tuple(window: str) -> None:
    """Tumbling, slides longer than the window, windows longer than the stream."""
    # As of a multiple of 35, so that it is in the window of every slide here.
    stamp = START - START % (35 * SECOND) + 35 * SECOND
    assert only(f"SELECT FREQUENT(2, v) FROM s [{window}]", [(stamp, 1, "a", 7, None, None)]) == [
        [{"v": 7, "count": 1}]
    ]


def test_k_beyond_every_list_counts_exactly() -> None:
    rows = [(START + i * SECOND // 3, i % 2, "ab"[i % 2], i % 5, None, None) for i in range(60)]
    window = "FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY k"
    found = answers_of(
        stream(),
        {"q": f"SELECT k, FREQUENT(1000, v) {window}", "h": f"SELECT k, HISTOGRAM(v) {window}"},
        [to_table(rows)],
    )
    for ours, theirs in zip(found["q"], found["h"], strict=True):
        assert sorted(ours.table.to_pylist(), key=str) == sorted(theirs.table.to_pylist(), key=str)


def test_the_most_frequent_come_first_and_ties_by_value() -> None:
    rows = [(START + 1 + i, 1, item, None, None, None) for i, item in enumerate("zzzaabbbcdd")]
    (answer,) = only("SELECT FREQUENT(9, g) FROM s [WINDOW 1 sec SLIDE 1 sec]", rows)
    assert [(row["g"], row["count"]) for row in answer] == [("b", 3), ("z", 3), ("a", 2), ("d", 2), ("c", 1)]


def test_a_tuple_that_is_late_is_revised_into_its_own_sub_window() -> None:
    declared = stream(late_revise=True)
    feed = Feed(declared)
    feed.runtime.synchronise(compiled({"q": "SELECT FREQUENT(1, v) FROM s [WINDOW 4 sec SLIDE 2 sec]"}, declared))

    def push(*rows: tuple[float, int]) -> list[Rows]:
        table = to_table([(START + round(at * SECOND), 1, None, v, None, None) for at, v in rows])
        return [answer.table.to_pylist() for answer in feed.push(table)]

    assert push((0.5, 7), (0.6, 7), (0.7, 7), (1.5, 8), (2.1, 8)) == [[]]
    # Three more of 8 for the sub-window that is closed: its list is now of 8, and 8 is on both lists.
    assert push((1.6, 8), (1.7, 8), (1.8, 8), (4.1, 1)) == [[]]
    assert counted_in(feed, "SELECT HISTOGRAM(v) FROM s [WINDOW 4 sec]") == {7: 3, 8: 5}


def counted_in(feed: Feed, text: str) -> dict[Any, int]:
    (query,) = compiled({"probe": text.replace("]", " SLIDE 2 sec]")}, feed.declared)
    active = feed.runtime.covers(query)
    assert active is not None
    answer = feed.runtime.probe(active)
    assert answer is not None
    return {row["v"]: row["count"] for row in answer.table.to_pylist()}


def test_sub_windows_that_panes_cannot_tell_apart_are_not_claimed_to_be_known() -> None:
    """Panes of 4 seconds are no sub-windows of 2: a first answer at once would leave all their tuples out."""
    declared = stream()
    feed = Feed(declared)
    feed.runtime.synchronise(compiled({"coarse": "SELECT HISTOGRAM(v) FROM s [WINDOW 4 sec SLIDE 4 sec]"}, declared))
    feed.push(to_table([(START + i * SECOND // 2, 1, None, i % 2, None, None) for i in range(20)]))
    (late,) = compiled({"late": "SELECT FREQUENT(3, v) FROM s [WINDOW 4 sec SLIDE 2 sec]"}, declared)
    active = feed.runtime.covers(late)
    assert active is not None
    answer = None if is_cut(active) else feed.runtime.probe(active)
    assert (
        answer is None
        or not answer.complete
        or answer.table.to_pylist()
        == [
            {"v": 0, "count": 4},
            {"v": 1, "count": 4},
        ]
    )


def test_of_equally_frequent_items_none_is_frequent_for_certain() -> None:
    """Seven items in turn, a hundred tuples a second: a reported item must truly occur more than delta times.

    With sub-windows of SLIDE, delta is greater than any count: no answer but the empty one keeps that promise. With
    shorter ones delta is less.
    """
    table = to_table([(START + i * SECOND // 100, i % 7, None, None, None, None) for i in range(1, 6_001)])
    texts = {slide: f"SELECT FREQUENT(3, k) FROM s [WINDOW 10 sec SLIDE {slide} sec]" for slide in ("5", "1")}
    found = answers_of(stream(), texts, [table])
    tuples = [(to_micros(row["ts"]), row["k"]) for row in table.select(["ts", "k"]).to_pylist()]
    for slide, answers in found.items():
        for answer in (each for each in answers if each.complete):
            now, length = to_micros(answer.as_of), int(slide) * SECOND
            ends = range(now - 10 * SECOND + length, now + 1, length)
            parts = [Counter(k for ts, k in tuples if end - length < ts <= end) for end in ends]
            expected, delta = algorithm6(parts, 3)
            true = sum(parts, Counter[Any]())
            assert {row["k"]: row["count"] for row in answer.table.to_pylist()} == expected
            assert all(true[item] > delta for item in expected)
            assert (max(true.values()) > delta) == bool(expected) == (slide == "1")


# -- EXPLAIN -----------------------------------------------------------------------------------------------


def explained(text: str, rows: list[tuple[Any, ...]], *others: str, may_move: bool = False, **clauses: Any) -> str:
    declared = stream(**clauses)
    feed = Feed(declared)
    feed.runtime.may_move = may_move
    (query, *neighbours) = compiled({"q": text, **{f"n{i}": other for i, other in enumerate(others)}}, declared)
    feed.runtime.synchronise([query, *neighbours])
    feed.push(to_table(rows))
    return explain(query, feed.runtime)


def test_a_question_that_looks_beyond_the_lists_finds_the_counts() -> None:
    """The lists are older than the counts, which reach further back."""
    feed, text = Feed(stream()), "SELECT FREQUENT(2, g) FROM s [WINDOW {} sec SLIDE 1 sec]"
    counting = "SELECT g, COUNT(*) AS n FROM s [WINDOW 30 sec SLIDE 1 sec] GROUP BY g"
    known = compiled({"lists": text.format(4), "counts": counting}, feed.declared)
    for wanted, part in zip((known[:1], known), (letters("a"), letters("abac" * 15)[1:]), strict=True):
        feed.runtime.synchronise(wanted)
        feed.push(part)
    assert [group.name.lists is not None for group in feed.runtime.all_groups()] == [True, False]
    (question,) = compiled({"question": text.format(20)}, feed.declared)
    found = look_up(question, feed.runtime).compute()
    assert found.complete and counts_of(found) == {"a": 10, "b": 5, "c": 5}


def test_explain_tells_pairs_and_delta() -> None:
    rows = [(START + 1 + i * SECOND // 4, i % 2, "aab"[i % 3], None, None, None) for i in range(40)]
    text = explained("SELECT k, FREQUENT(2, g) FROM s [WINDOW 8 sec SLIDE 2 sec] GROUP BY k WITH BOUNDS", rows)
    assert "Pane table s by (g, k), the 2 most frequent g of every 2 sec: panes of 2 sec" in text
    assert "at most 8 pairs in the window for each group; the counts of an open sub-window wait in this process" in text
    # Of each group four tuples come in two seconds: at most two of them are of the second item.
    assert re.search(r"delta is [4-8] now: an item on no list occurs that often at most", text)
    in_files = explained("SELECT FREQUENT(2, g) FROM s [WINDOW 8 sec SLIDE 2 sec]", rows, may_move=True)
    assert "at most 8 pairs in the window; the counts of an open sub-window wait in files in the cluster" in in_files


def test_delta_is_the_gap_between_the_bounds() -> None:
    rows = [(START + 1 + i * SECOND // 5, 1, "aaaabbbccd"[i % 10], None, None, None) for i in range(200)]
    declared, feed = stream(), Feed(stream())
    text = "SELECT FREQUENT(3, g) FROM s [WINDOW 12 sec SLIDE 4 sec] WITH BOUNDS"
    (query,) = compiled({"q": text}, declared)
    feed.runtime.synchronise([query])
    *_, last = feed.push(to_table(rows))
    gaps = {row["upper"] - row["lower"] for row in last.table.to_pylist()}
    assert len(gaps) == 1 and f"delta is {gaps.pop()} now" in explain(query, feed.runtime)


KEPT = "  the counts of all items are kept, not short lists: "


@pytest.mark.parametrize(
    ("window", "others", "clauses", "why"),
    [
        ("[WINDOW 8 sec SLIDE 2 sec]", [], {"late_revise": True}, "LATE REVISE adds to closed sub-windows"),
        ("[WINDOW 8 sec SLIDE 2 sec LAG 1 sec]", [], {}, "a sub-window is no pane, because of PARTITION BY or LAG"),
        (
            "[WINDOW 8 sec SLIDE 2 sec]",
            ["SELECT TOP(1, v) FROM s [WINDOW 9 sec SLIDE 1 sec]"],
            {},
            "other queries read them as far back",
        ),
    ],
)
def test_explain_tells_why_all_counts_are_kept(
    window: str, others: list[str], clauses: dict[str, Any], why: str
) -> None:
    rows = [(START + 1, 1, "a", 7, None, None)]
    assert KEPT + why in explained(f"SELECT FREQUENT(2, v) FROM s {window}", rows, *others, **clauses)
