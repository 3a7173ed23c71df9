"""The global scheduler: shares in proportion to weights, no credit for idleness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.schedule import SharedTime

WEIGHTS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.5, 1.0, 2.0, 3.0, 10.0]), min_size=2)


def shares_of(weights: dict[str, float]) -> SharedTime:
    shares = SharedTime()
    for name, weight in weights.items():
        shares.set_weight(name, weight)
    return shares


@given(WEIGHTS, st.lists(st.integers(1, 50), min_size=1, max_size=60), st.data())
def test_names_that_stay_backlogged_get_time_in_proportion(
    weights: dict[str, float], costs: list[int], data: st.DataObject
) -> None:
    """Two stay, the others come and go; their used / weight differ by one execution at most, at any time."""
    shares, (one, two, *others) = shares_of(weights), sorted(weights)
    used = dict.fromkeys(weights, 0.0)
    largest = 0.0
    for cost in costs:
        chosen = shares.choose([one, two, *data.draw(st.sets(st.sampled_from(others)) if others else st.just(set()))])
        shares.charge(chosen, cost)
        used[chosen] += cost / weights[chosen]
        largest = max(largest, cost / min(weights[one], weights[two]))
        assert abs(used[one] - used[two]) <= largest + 1e-9


def test_one_that_comes_back_has_no_credit() -> None:
    shares = SharedTime()
    for _ in range(100):
        shares.charge(shares.choose(["busy"]), 1)
    turns = []
    for _ in range(6):
        turns.append(shares.choose(["busy", "idle"]))
        shares.charge(turns[-1], 1)
    assert turns == ["idle", "busy"] * 3


def test_one_that_leaves_in_debt_comes_back_in_debt() -> None:
    shares = SharedTime()
    assert shares.choose(["a", "b"]) == "a"
    shares.charge("a", 100)
    assert shares.choose(["b"]) == "b"
    shares.charge("b", 1)
    assert shares.choose(["a", "b"]) == "b"
    shares.forget("a")
    assert shares.choose(["a", "b"]) == "a"


def test_an_impossible_weight_and_an_empty_choice() -> None:
    with pytest.raises(ValueError, match="weight of 'a' must be positive, got 0"):
        SharedTime().set_weight("a", 0)
    with pytest.raises(ValueError, match="empty"):
        SharedTime().choose([])
