"""The thesis' examples of join synopses (8.3.2), run as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.synopses.basic_intervals import BasicIntervalJoin
from sash.panes.intervals.synopsis import identity
from sash.panes.joins import Band, WindowPair
from sash.panes.joins.lookups import REVISED, JoinVectors, RevisedSynopsis, RunningJoin
from sash.panes.joins.sum_table import RunningTable
from sash.panes.partials import Combine
from sash.plan.predicates import EVERYTHING
from tests.sharing.golden_descriptions import GoldenQuery, GoldenSynopsis, state

EXAMPLES = {
    example["id"].removeprefix("synopses.join."): example
    for example in json.loads((Path(__file__).parents[2] / "golden" / "synopses.json").read_text())["examples"]
    if example["id"].startswith("synopses.join.")
}
KINDS: dict[str, type[RevisedSynopsis]] = {**REVISED, "basic": BasicIntervalJoin}
COUNTING = ("basic", "interval", "running")
ONE = np.zeros(1, dtype=np.int64)


def inputs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = EXAMPLES[name]["inputs"]
    same = found.get("same_data_as")
    return found if same is None else {**inputs(same.removeprefix("synopses.join.")), **found}


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = EXAMPLES[name]["expected"]
    return found


def results(name: str) -> list[tuple[int, int, int]]:
    """The timestamps of both tuples, and the first one's value."""
    given = inputs(name)
    return [(ts, other, v) for ts, a, v in given["S1_ts_a_v"] for other, b, _ in given["S2_ts_a_v"] if a == b]


def update(synopsis: JoinVectors | RunningTable, name: str, pane: int, of: str) -> None:
    """The results that came in a pane."""
    s = inputs(name)["s"]
    found = np.array([r for r in results(name) if -(-max(r[:2]) // s) == pane], dtype=np.int64).reshape(-1, 3)
    ages = pane + found[:, :2] // -s
    values = found[:, 2] if of == "max" else np.ones(len(found), dtype=np.int64)
    synopsis.update(ages[:, 0], ages[:, 1], np.zeros(len(found), dtype=np.int64), values)


def filled(kind: str, name: str, band: Band, of: str = "count") -> JoinVectors:
    """All panes up to t."""
    given = inputs(name)
    combine = Combine.MAX if of == "max" else Combine.ADD
    synopsis = JoinVectors(KINDS[kind], band, given["b"], 1, combine, np.int64)
    for pane in range(1, given["t"] // given["s"] + 1):
        update(synopsis, name, pane, of)
    return synopsis


def per_interval(synopsis: JoinVectors) -> list[int | None]:
    whole, b = synopsis.whole, synopsis.capacity
    oldest = whole.length - b + 1
    return [known(int(whole.lookup(place, place)[0])) for place in range(oldest, oldest + b)]


def known(value: int) -> int | None:
    return None if value == identity(Combine.MAX, np.int64) else value


def equal_windows(synopsis: JoinVectors) -> list[int | None]:
    return [known(int(synopsis.lookup(WindowPair(n, n))[0])) for n in range(1, synopsis.capacity + 1)]


def expiry(intervals: list[tuple[int, int]], b: int, now: int) -> list[list[int]]:
    """Intervals of the older tuple's panes as those of expiry, relative to a time."""
    return [[left - 1 + b - now, right + b - now] for left, right in intervals]


def bij_update() -> None:
    want, b = expected("bij_update"), inputs("bij_update")["b"]
    synopsis = JoinVectors(BasicIntervalJoin, Band(), b, 1, Combine.ADD, np.int64)
    t = synopsis.whole.length
    before = expiry(synopsis.whole.stored(), b, t)
    assert before == want["before"]
    ages = np.arange(b)
    synopsis.update(ages, 0 * ages, 0 * ages, 0 * ages + 1)
    after = expiry(synopsis.whole.stored(), b, t)
    filled = [interval for interval, value in zip(after, per_interval(synopsis), strict=True) if value]
    assert filled == want["buffer_precomputes"]
    assert after == want["after"]
    assert [each for each in before if each not in after] == [want["dropped"]]
    assert [each for each in after if each not in before] == [want["appended"]]
    assert [each for each in filled if each in before] == want["merged"]


def rj_update() -> None:
    """The update as printed drops a value that windows of b panes need; ours keeps it."""
    want, b = expected("rj_update"), inputs("rj_update")["b"]
    synopsis = REVISED["running"](b, 1, Combine.ADD, np.int64)
    synopsis.extend(np.zeros((b, 1), dtype=np.int64))
    t = synopsis.length
    before = [right for _, right in expiry(synopsis.stored(), b, t)]
    synopsis.update([0])
    after = [right for _, right in expiry(synopsis.stored(), b, t)]
    missing = want["right_end_missing_for_n_8"]
    assert [right for right in after if right not in before] == [want["added_right_end"]]
    assert sorted(after) == [missing, *want["after_right_ends"]]
    assert missing == want["removed_right_end"]
    answerable = [n for n in range(1, b + 1) if want["added_right_end"] - n in want["after_right_ends"]]
    assert answerable == want["windows_answerable_after"]
    assert all(want["added_right_end"] - n in after for n in range(1, b + 1))
    brought = [(t - b + 2, t - b + 1 + n) for n in range(1, b + 1)]
    assert expiry(brought, b, t) == want["buffer_precomputes"]


def bij_values() -> None:
    given, want = inputs("bij_values"), expected("bij_values")
    s, b, t = given["s"], given["b"], given["t"]
    for of in ("count", "max"):
        for kind in COUNTING if of == "count" else ("basic", "interval"):
            synopsis = filled(kind, "bij_values", Band(), of)
            for name, pane in (("at_t", None), ("at_t_plus_s", t // s + 1)):
                if pane is not None:
                    update(synopsis, "bij_values", pane, of)
                assert per_interval(synopsis) == want[name][f"{of}_per_interval_oldest_first"]
                assert equal_windows(synopsis) == want[name][f"{of}_n_n_join"]
    buffer = JoinVectors(BasicIntervalJoin, Band(), b, 1, Combine.ADD, np.int64)
    update(buffer, "bij_values", t // s + 1, "count")
    assert per_interval(buffer) == want["buffer_count_oldest_first"]
    generated = [(max(r[:2]), min(r[:2]) + b * s) for r in results("bij_values") if min(r[:2]) + b * s > max(r[:2])]
    assert sum(t - 7 * s < ts <= t for ts, _ in generated) == want["results_generated_in_last_7s_at_t"]
    short = [each for each in generated if t < each[0] <= t + s and each[1] <= t + s]
    assert len(short) == want["short_lived_results_in_t_to_t_plus_s"]


def rj_values() -> None:
    want = expected("rj_values")
    synopsis = filled("running", "rj_values", Band())
    whole, b = synopsis.whole, synopsis.capacity
    assert isinstance(whole, RunningJoin)
    rights = range(whole.length - b, whole.length + 1)
    found = {str(right + b - whole.length): int(whole.running(right)[0]) for right in rights}
    assert found == want["running_count_right_end_0_to_8"]
    assert equal_windows(synopsis) == want["count_n_n_join"]


def pair_of(text: str) -> WindowPair:
    first, second = text.split(",")
    return WindowPair(int(first), int(second))


def generalized_bij() -> None:
    """Three values per interval, and the windows that only a band of five differences can answer."""
    given, want = inputs("generalized_bij"), expected("generalized_bij")
    for kind in COUNTING:
        three, five = (filled(kind, "generalized_bij", Band(-g, g)) for g in (1, 2))
        ages = [given["b"] - 1 - i for i in range(given["g"])]
        values = [[int(value[0]) for value in three.values(age)] for age in ages]
        assert values == list(want["three_values_of_the_g_oldest"].values())
        for text, count in want["count_n1_n2_join"].items():
            assert int(five.lookup(pair_of(text))[0]) == count
        for text, count in want["readable_from_synopsis"].items():
            assert int(three.lookup(pair_of(text))[0]) == count
        for text in want["not_determined_by_the_three_values"]:
            with pytest.raises(ValueError, match="differ by -1 to 1"):
                three.lookup(pair_of(text))
        for text, side in (("6,8", 0), ("8,6", 2)):
            naive = int(three.lookup(WindowPair(6, 6))[0]) + sum(each[side] for each in values)
            assert naive == want["naive_reading"][text] != want["count_n1_n2_join"][text]
    table = RunningTable(WindowPair(given["b"], given["b"]), 1)
    for pane in range(1, given["t"] // given["s"] + 1):
        update(table, "generalized_bij", pane, "count")
    for text, count in want["count_n1_n2_join"].items():
        assert int(table.lookup(pair_of(text))[0]) == count


def generalized_bij_limit() -> None:
    given, want = inputs("generalized_bij_limit"), expected("generalized_bij_limit")
    b, g = given["b"], given["g"]
    for name, dataset in given["datasets"].items():
        parts = dataset["one_result"]
        three, wide = (JoinVectors(BasicIntervalJoin, Band(-d, d), b, 1, Combine.ADD, np.int64) for d in (1, g))
        for synopsis in (three, wide):
            # A result comes with its younger tuple, which is a pane old or older by now.
            ages = [np.array([parts[side] - 1]) for side in ("S1_part", "S2_part")]
            younger = int(min(ages)[0])
            synopsis.update(*(age - younger for age in ages), ONE, ONE + 1)
            synopsis.slide(younger)
        found = [[int(value[0]) for value in three.values(age)] for age in range(b - 1, -1, -1)]
        stored = want[f"synopsis_{name}"]
        assert found[:g] == [stored["(t, t+s]"], stored["(t+s, t+2s]"]]
        assert all(value == stored["others"] for values in found[g:] for value in values)
        for pair in ((6, 8), (7, 8), (8, 8)):
            count = want[f"count_{pair[0]}_{pair[1]}_join"][name]
            assert int(wide.lookup(WindowPair(*pair))[0]) == count


def ss3_ranges() -> None:
    """Of a generalized synopsis with g; one in two dimensions answers all windows that it keeps."""
    given, want = inputs("ss3_ranges"), expected("ss3_ranges")
    asked = [GoldenQuery("Q", "COUNT", "length", ("S", "R"), tuple(n), 1, EVERYTHING) for n in given["queries_n1_n2"]]
    decided = [state(query, [GoldenSynopsis(query, "basic", 1, given["b"], given["g"])]) for query in asked]
    assert [decision is not None and decision.allowed for decision in decided] == want["answerable"]
    band = Band(-1, 1)
    exact = [band.why_not(WindowPair(*n), given["b"]) is None for n in given["queries_n1_n2"]]
    # g is no bound for a synopsis that keeps leads apart in all intervals: (5, 6) is answered too.
    assert [a for a, b in zip(exact, want["answerable"], strict=True) if a != b] == [True]
    assert [n for n, a, b in zip(given["queries_n1_n2"], exact, want["answerable"], strict=True) if a != b] == [[5, 6]]


CHECKS: dict[str, Callable[[], None]] = {
    "bij_update": bij_update,
    "rj_update": rj_update,
    "bij_values": bij_values,
    "rj_values": rj_values,
    "generalized_bij": generalized_bij,
    "generalized_bij_limit": generalized_bij_limit,
    "ss3_ranges": ss3_ranges,
}


@pytest.mark.parametrize("name", CHECKS)
def test_example(name: str) -> None:
    CHECKS[name]()


def test_no_example_is_left_out() -> None:
    assert sorted(CHECKS) == sorted(EXAMPLES)
