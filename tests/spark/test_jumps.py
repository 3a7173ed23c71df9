"""Where the gap is behind which MAX JUMP leaves tuples out: against the definition, over single tuples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.spark.preparation import Stretches, last_without_gap

TIMES = st.lists(st.integers(-60, 60) | st.sampled_from([10**9, 10**9 + 3, -(10**9)]), max_size=25)


def stretches(times: list[int], longest: int) -> Stretches:
    """As Spark groups them, in some order."""
    grouped = [list(each) for _, each in groupby(sorted(times), lambda time: time // longest)]
    columns = [[min(each) for each in grouped], [max(each) for each in grouped], [len(each) for each in grouped]]
    return Stretches(*(np.array(column[::-1], dtype=np.int64) for column in columns))


def runs(times: list[int], longest: int) -> Iterator[list[int]]:
    """Times in order, each at most so much after the one before it."""
    run: list[int] = []
    for time in sorted(times):
        if run and time - run[-1] > longest:
            yield run
            run = []
        run.append(time)
    if run:
        yield run


@given(TIMES, st.integers(1, 30), st.integers(-80, 80))
def test_tuples_follow_those_before_them(times: list[int], longest: int, reached: int) -> None:
    ahead = [time for time in times if time > reached]
    (first, *_) = runs([reached, *ahead], longest)
    assert last_without_gap(stretches(ahead, longest), longest, reached) == first[-1]


@given(TIMES.filter(bool), st.integers(1, 30))
def test_the_first_micro_batch_follows_most_of_its_tuples(times: list[int], longest: int) -> None:
    followed = max(runs(times, longest), key=len)
    assert last_without_gap(stretches(times, longest), longest, None) == followed[-1]
