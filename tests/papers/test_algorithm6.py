"""Algorithm 6: the thesis' examples as they are, and its guarantees on any stream."""

from __future__ import annotations

import json
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from papers.frequent import algorithm6 as module
from papers.frequent.algorithm6 import (
    LONGEST_INSERTED,
    FrequentItems,
    frequent_in_window,
    kernel_top,
    sorted_top,
    top_items,
)
from tests.support.examples import examples

EXAMPLES = {
    each["id"].removeprefix("frequent_items."): each
    for each in json.loads((Path(__file__).parents[1] / "golden" / "frequent_items.json").read_text())["examples"]
}
RUNS = [name for name, each in EXAMPLES.items() if "rows" in each["expected"]]
Pairs = tuple[np.ndarray, np.ndarray]


def counted(items: str) -> Pairs:
    """Exact counts of a sub-window's letters, in the order of the alphabet."""
    codes, counts = np.unique([ord(item) - ord("a") for item in items], return_counts=True)
    return codes.astype(np.int64), counts.astype(np.int64)


def letters(items: Any, counts: Any) -> dict[str, int]:
    return {chr(item + ord("a")): count for item, count in zip(items.tolist(), counts.tolist(), strict=True)}


def sub_windows(inputs: dict[str, Any]) -> list[Pairs]:
    items, b = inputs["items"], inputs["b"]
    return [counted(items[start : start + b]) for start in range(0, len(items), b)]


# -- the thesis ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_every_slide_of_an_example(name: str) -> None:
    inputs, rows = EXAMPLES[name]["inputs"], EXAMPLES[name]["expected"]["rows"]
    k, length = inputs["k"], inputs["N"] // inputs["b"]
    frequent, parts = FrequentItems(k, length), sub_windows(inputs)
    assert len(rows) == len(parts)
    for row, (items, counts) in zip(rows, parts, strict=True):
        frequent.slide(items, counts)
        places = top_items(counts, k)
        assert [[*pair] for pair in letters(items[places], counts[places]).items()] == row["top_k"]
        assert frequent.delta == row["delta"]
        assert {chr(item + ord("a")): count for item, count in frequent.counters().items()} == row["global"]
        output = row["output"] if row["output"] is not None else row.get("output_if_reported")
        assert frequent.full == (output is not None)
        if output is not None:
            assert letters(*frequent.report()) == output
            window = parts[row["slide"] - length : row["slide"]]
            *stateless, delta = frequent_in_window(window, k)
            assert letters(*stateless) == output and delta == row["delta"]


def test_the_first_full_window_is_reported_too() -> None:
    inputs, expected = EXAMPLES["output_timing"]["inputs"], EXAMPLES["output_timing"]["expected"]
    frequent = FrequentItems(1, inputs["N"] // inputs["b"])
    for slide in range(1, expected["first_output_after_slide_as_printed"]):
        frequent.slide(*counted("a" * inputs["b"]))
        assert frequent.full == (slide >= expected["first_full_window_after_slide"])


def test_few_distinct_items_are_counted_exactly() -> None:
    inputs = EXAMPLES["algorithm6.few_distinct"]["inputs"]
    assert EXAMPLES["algorithm6.few_distinct"]["expected"]["counts_are_exact"]
    frequent = FrequentItems(inputs["k"], inputs["N"] // inputs["b"])
    for slide, part in enumerate(sub_windows(inputs), 1):
        frequent.slide(*part)
        last = inputs["items"][max(0, slide * inputs["b"] - inputs["N"]) : slide * inputs["b"]]
        assert letters(*frequent.report()) == Counter(last)


def test_an_item_that_is_always_fourth_is_on_no_list() -> None:
    given_, expected = (EXAMPLES["algorithm6.always_fourth"][part] for part in ("inputs", "expected"))
    frequent = FrequentItems(given_["k"], given_["N"] // given_["b"])
    for part in sub_windows(given_):
        frequent.slide(*part)
    fourth = given_["items"][-given_["N"] :].count("d")
    assert fourth == expected["d_true_count_at_slide_4"] <= frequent.delta
    assert (ord("d") - ord("a") in frequent.counters()) is expected["d_in_global"]


def test_a_false_negative() -> None:
    given_, expected = (EXAMPLES["algorithm6.false_negative"][part] for part in ("inputs", "expected"))
    frequent = FrequentItems(given_["k"], given_["N"] // given_["b"])
    slides = expected["false_negatives_at_slide"]
    for part in sub_windows(given_)[:slides]:
        frequent.slide(*part)
    window = given_["items"][slides * given_["b"] - given_["N"] : slides * given_["b"]]
    (missed,) = expected["items_true_count"].items()
    assert frequent.delta == expected["delta"] < Counter(window)[missed[0]] == missed[1]
    assert missed[0] not in letters(*frequent.report())


def test_the_most_popular_of_each_minute() -> None:
    """Figure 6.1: twelve lists of one item, which say nothing about the window."""
    minutes = EXAMPLES["figure_6_1"]["inputs"]["most_popular_per_minute"]
    frequent = FrequentItems(1, len(minutes))
    for url in minutes:
        frequent.slide(np.array([ord(url)]), np.array([1]))
    assert {chr(item): count for item, count in frequent.counters().items()} == EXAMPLES["figure_6_1"]["expected"]
    assert not len(frequent.report()[0])


def test_no_example_is_left_out() -> None:
    """Of figure 6.2 only the caption survives: there is nothing to compute."""
    assert set(EXAMPLES) == {*RUNS, "output_timing", "figure_6_1", "figure_6_2"}


# -- any stream ---------------------------------------------------------------------------------------

STREAMS = st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2), max_size=12), min_size=1, max_size=14)


@given(STREAMS, st.integers(1, 5), st.integers(1, 6))
@example([[0, 0, 1], [], [5], [5]], 2, 2)
def test_the_guarantees(stream: list[list[int]], k: int, length: int) -> None:
    """Sub-windows of any sizes, as a time-based window has them."""
    frequent, recent = FrequentItems(k, length), deque[list[int]](maxlen=length)
    for tuples in stream:
        recent.append(tuples)
        frequent.slide(*exact(tuples))
        true = Counter(item for part in recent for item in part)
        items, counts = frequent.report()
        reported = dict(zip(items.tolist(), counts.tolist(), strict=True))
        assert all(frequent.delta < count <= true[item] for item, count in reported.items()), "a false positive"
        listed = frequent.counters()
        assert all(count <= frequent.delta for item, count in true.items() if item not in listed)
        assert frequent.space <= 2 * k * length
        assert list(reported.items()) == sorted(reported.items(), key=lambda pair: (-pair[1], pair[0]))
        again, their_counts, delta = frequent_in_window([exact(part) for part in recent], k)
        assert (again.tolist(), their_counts.tolist(), delta) == (items.tolist(), counts.tolist(), frequent.delta)


def exact(tuples: list[int]) -> Pairs:
    items, counts = np.unique(np.array(tuples, dtype=np.int64), return_counts=True)
    return items, counts.astype(np.int64)


@given(STREAMS, st.integers(1, 3))
def test_lists_and_exact_counts_report_the_same(stream: list[list[int]], k: int) -> None:
    parts = [exact(tuples) for tuples in stream]
    lists = [(items[places], counts[places]) for items, counts in parts for places in [top_items(counts, k)]]
    for ours, theirs in zip(frequent_in_window(parts, k), frequent_in_window(lists, k), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 25))
@settings(max_examples=examples(50))
def test_the_kernel_is_its_reference(drawn: list[int], k: int) -> None:
    counts = np.array(drawn, dtype=np.int64)
    ours, theirs = np.full(k, -1, dtype=np.int64), np.full(k, -1, dtype=np.int64)
    assert kernel_top(counts, ours) == sorted_top(counts, theirs)
    np.testing.assert_array_equal(ours, theirs)


def test_long_lists_are_sorted_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(1).integers(0, 50, 500)
    long = top_items(counts, 2 * LONGEST_INSERTED)
    monkeypatch.setattr(module, "LONGEST_INSERTED", 1_000)
    np.testing.assert_array_equal(long, top_items(counts, 2 * LONGEST_INSERTED))


@pytest.mark.parametrize(("k", "length"), [(0, 3), (2, 0)])
def test_nothing_to_keep_is_refused(k: int, length: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FrequentItems(k, length)


def test_negative_codes_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        FrequentItems(2, 2).slide(np.array([-1, 3]), np.array([1, 1]))
