"""Results of STRICT sub-plans lie in a calendar queue if few are taken back, by identity if most are (thesis 3.5.2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage, buffers, build, operator
from sash.changes.bucket_state import State, WorkingState
from sash.changes.buffers import CalendarQueue, HashedBuffer, buffer_for
from sash.changes.lifetimes import lifetimes
from sash.changes.operator import ENOUGH, RECENT, StoredInput, counters_of
from sash.core.changes import UpdatePattern, together
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import UPA, Aggregated, GroupBy, Join, Negation, Node, windows
from sash.plan.estimates import Statistics, flow_above, matched_in
from sash.runtime.observed import parts_taken_back
from tests.changes.test_buffers import tuples
from tests.changes.test_plans_oracle import END, run
from tests.support.examples import examples
from tests.support.plans import INT, dense_tuples, window
from tests.support.relational import answer, view

ON = (("S.a", "T.a"),)
COUNT = (Aggregated("n", "count", None, INT),)
STRICT = UpdatePattern.STRICT


def counted(length: int = 40, rows: bool = False) -> GroupBy:
    """Counts the tuples of S without a match in T."""
    left = window("S", RowWindow(length) if rows else TimeWindow(length))
    return GroupBy(Negation(left, window("T", TimeWindow(length)), ON, whole=True), ("S.a",), COUNT)


def test_the_majority_decides() -> None:
    assert isinstance(buffer_for(STRICT, span=10, taken_back=0.49), CalendarQueue)
    assert isinstance(buffer_for(STRICT, span=10, taken_back=0.5), HashedBuffer)


def test_before_tuples_are_counted_an_assumption_decides() -> None:
    """The thesis' 40 percent of a negation, and all of a row-based window."""
    for plan, expected, chunks in ((counted(), 0.4, 1), (counted(rows=True), 1.0, 10)):
        assert flow_above(plan.input, Statistics(), UPA).announced == pytest.approx(expected)
        # Tuples that expire together are in one day of a calendar queue, and in all slots of a hashed buffer.
        state, _ = stepped(plan, 0.0, number=1)
        assert len(state.chunks("0.live")) == chunks


@pytest.mark.parametrize(("every", "kind"), [(10, CalendarQueue), (1, HashedBuffer)])
def test_counted_tuples_decide(every: int, kind: type) -> None:
    """Whatever is assumed; and the count is part of the state."""
    for assumed in (0.0, 1.0):
        state, storing = State(), StoredInput("0", STRICT, 100, 5, taken_back=assumed)
        for epoch in range(0, 2 * ENOUGH, 100):
            working = WorkingState(state)
            buffer = storing.open(working)
            new = tuples(*((epoch, epoch + 500, epoch + i) for i in range(100)))
            # Some of the epoch before are taken back.
            old = tuples(*((epoch, epoch + 400, id) for id in range(epoch - 100, epoch, every) if id >= 0))
            lifetimes(buffer, together((new, replace(old, sign=-old.sign)))).settle(buffer, epoch)
            storing.close(working, buffer)
            state = working.finished()
        came, taken_back = (state.counters[each] for each in counters_of("0"))
        assert came == 2 * ENOUGH and taken_back == (2 * ENOUGH - 100) // every
        assert isinstance(storing.open(WorkingState(state)), kind)


def test_recent_tuples_count_most() -> None:
    storing, state = StoredInput("0", STRICT, 100, 5), State()
    for part in (0.0, 1.0):
        for _ in range(6):
            working = WorkingState(state)
            buffer = storing.open(working)
            buffer.came, buffer.taken_back = RECENT // 2, int(part * RECENT // 2)
            storing.close(working, buffer)
            state = working.finished()
        assert state.counters[counters_of("0")[0]] <= 2 * RECENT
    # Of all that came half was taken back, of the recent ones more.
    came, taken_back = (state.counters[each] for each in counters_of("0"))
    assert taken_back / came > 0.6


@pytest.mark.parametrize("assumed", [0.0, 1.0])
@given(st.data())
@settings(max_examples=examples(60))
def test_both_give_the_definitions_answer(assumed: float, data: st.DataObject) -> None:
    """Also if the buffer changes its kind while tuples lie in it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(operator, "ENOUGH", data.draw(st.sampled_from([3, 1_000]), label="enough"))
        patched.setattr(build, "flow_above", lambda *_: SimpleNamespace(announced=assumed))
        length = data.draw(st.integers(2, 9))
        negation = counted(length).input
        joined = Join(negation, window("U", TimeWindow(5)), (("S.a", "U.a"),))
        plan: Node = data.draw(st.sampled_from([counted(length), counted(length, rows=True), joined]), label="plan")
        inputs = [data.draw(dense_tuples, label=each.alias) for each in windows(plan)]
        cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=8), label="cuts")
        changes = run(plan, inputs, cuts)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now), f"at {now}"
    assert Counter(changes) == Counter(run(plan, inputs, []))


def stepped(plan: Node, matches: float, number: int = 60, size: int = 50) -> tuple[State, int]:
    """The state after some epochs in which a part of S gets a match in T, and how many tuples of it were written."""
    stage, state, chance, written = Stage(plan, 10), State(), np.random.default_rng(3), 0
    for now in range(number):
        arrived, keys = {}, np.arange(size) + now * size
        matched = chance.random(size) < matches
        for place, name in enumerate("ST"):
            # A match comes ten epochs later.
            own = keys if name == "S" else keys[matched] - 10 * size
            rows = pa.table({f"{name}.a": own, f"{name}.b": own}, schema=stage.schemas[place])
            arrived[place] = Arrivals(rows, np.full(len(own), now))
        before = state.chunks("0.live")
        _, state = stage.step(state, arrived, now, now + 1)
        written += sum(len(chunk) for chunk in state.chunks("0.live") if chunk not in before)
    return state, written


def test_the_part_that_was_taken_back_is_a_statistic() -> None:
    for matches in (0.1, 0.9):
        plan = counted(40)
        state, _ = stepped(plan, matches)
        (part,) = parts_taken_back(plan, [state.counters]).values()
        # Of the last ten of sixty epochs none has been taken back yet.
        assert part == pytest.approx(matches * 50 / 60, abs=0.05)
        known = Statistics(taken_back={matched_in(plan.input): part})
        assert flow_above(plan.input, known, UPA).announced == pytest.approx(part)
        assert Statistics.of(known.measurements) == known


def test_a_calendar_queue_writes_less_while_few_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    _, calendar = stepped(counted(40), 0.02)
    monkeypatch.setattr(buffers, "HASHED_FROM", 0.0)
    _, hashed = stepped(counted(40), 0.02)
    assert calendar < 0.7 * hashed
