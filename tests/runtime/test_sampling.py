"""Answers at the multiples of SLIDE, out of changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.core.changes import NEVER, Changes
from sash.core.window import TimeWindow
from sash.plan.outputs import ISTREAM, Deltas, Sampled
from sash.runtime.continuous.plan_reader import Sampler
from sash.runtime.explaining.explain_continuous import explain_plan
from sash.runtime.explaining.explanation import Explanation
from tests.support.plans import window

RELATION = Sampled(window("S", TimeWindow(20)), 10)


def changes(*listed: tuple[int, int, int, int]) -> Changes:
    ts, exp, sign, values = (np.array(each, dtype=np.int64) for each in zip(*listed, strict=True)) if listed else [
        np.zeros(0, dtype=np.int64)
    ] * 4  # fmt: skip
    rows = pa.table({"S.a": values, "S.b": values})
    return Changes(rows, ts, exp, sign.astype(np.int8), np.zeros((len(ts), 0), dtype=np.int64))


def answered(
    sampler: Sampler, given: Changes, low: int, now: int, begins: int | None = 15
) -> list[tuple[int, list[int]]]:
    return [(at, rows["S.a"].to_pylist()) for at, rows in sampler.answers(given, low, now, begins)]


def test_a_relation_answers_at_every_multiple_until_it_is_empty() -> None:
    sampler = Sampler(RELATION)
    given = changes((20, 40, 1, 7), (30, NEVER, 1, 8), (40, NEVER, -1, 8))
    assert answered(sampler, given, -(2**62), 35) == [(20, [7]), (30, [7, 8])]
    sampler = Sampler(RELATION)
    assert answered(sampler, changes((20, 40, 1, 7)), -(2**62), 29) == [(20, [7])]
    assert answered(sampler, changes(), 30, 10_000) == [(30, [7]), (40, [])]
    assert answered(sampler, changes((20_000, 20_010, 1, 9)), 10_001, 20_001) == [(20_000, [9])]
    assert answered(sampler, changes(), 20_002, 20_010) == [(20_010, [])]


def test_the_first_answer_may_be_empty_and_is_given_once() -> None:
    for plan in (RELATION, Deltas(RELATION, ISTREAM)):
        sampler = Sampler(plan)
        assert answered(sampler, changes(), -(2**62), 5, begins=None) == []
        assert answered(sampler, changes(), 6, 25, begins=10) == [(20, [])]
        assert answered(sampler, changes(), 26, 10_000, begins=10) == []
        assert answered(sampler, changes((10_010, NEVER, 1, 7)), 10_001, 10_010, begins=10) == [(10_010, [7])]


def test_the_first_answer_is_not_given_again_after_a_restart() -> None:
    for plan in (RELATION, Deltas(RELATION, ISTREAM)):
        answered_before, waiting = Sampler(plan), Sampler(plan)
        answered_before.stand(changes(), 20, begins=10)
        assert answered(answered_before, changes(), 21, 99) == []
        waiting.stand(changes(), 19, begins=10)
        assert answered(waiting, changes(), 20, 99) == [(20, [])]


def test_a_query_goes_on_from_the_rows_that_stand() -> None:
    sampler = Sampler(RELATION)
    sampler.stand(changes((20, 40, 1, 7)), 25)
    assert answered(sampler, changes(), 26, 45) == [(30, [7]), (40, [])]


def test_explain_says_when_it_answers() -> None:
    shown = Explanation(explain_plan(Sampled(window("S", TimeWindow(20)), 10_000_000))).splitlines()
    assert shown[0] == "Continuous, answered at the multiples of 10 sec" and shown[2] == "  Every 10 sec  -> WK"


def test_a_stream_answers_where_it_has_something() -> None:
    sampler = Sampler(Deltas(RELATION, ISTREAM))
    sampler.stand(changes(), 25, begins=15)
    assert answered(sampler, changes((30, NEVER, 1, 8), (30, NEVER, 1, 8), (60, NEVER, 1, 9)), 26, 99) == [
        (30, [8, 8]),
        (60, [9]),
    ]
