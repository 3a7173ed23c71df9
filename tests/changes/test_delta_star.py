"""Duplicate elimination that remembers: the same whether it does or not, and it writes no more than it must."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage, bucket_state
from sash.changes.bucket_state import State
from sash.changes.key_numbers import KeyNumbers, dense_codes
from sash.core.window import TimeWindow
from sash.plan.continuous import BaseWindow, Column, Distinct, Join
from sash.plan.expressions import RowExpression
from tests.changes.test_plans_oracle import restored
from tests.support.plans import INT, named, window
from tests.support.relational import listed

END = 60
values = st.one_of(st.integers(0, 5), st.none())
stamped = st.tuples(st.integers(1, END - 10), st.tuples(values, st.integers(0, 1)))


def arrivals(stage: Stage, inputs: list[list[tuple[int, tuple[int | None, int]]]], low: int, high: int) -> dict:
    found = {}
    for place, (schema, given_tuples) in enumerate(zip(stage.schemas, inputs, strict=True)):
        batch = [(ts, row) for ts, row in given_tuples if low <= ts < high]
        columns = [pa.array([row[i] for _, row in batch], INT) for i in (0, 1)]
        found[place] = Arrivals(pa.table(columns, schema=schema), np.array([ts for ts, _ in batch], dtype=np.int64))
    return found


def contents(state: State) -> dict[str, list[pa.Table]]:
    return {name: [chunk.to_table() for chunk in chunks] for name, chunks in state.buffers.items()}


@pytest.mark.parametrize("weak", [False, True])
@given(st.data())
def test_an_epoch_does_the_same_whether_it_remembers_or_not(weak: bool, data: st.DataObject) -> None:
    """Another attempt at an epoch, in another process, must give the same changes and write the same bytes."""
    one = window("S", TimeWindow(data.draw(st.integers(2, 20))))
    plan = Distinct(named(Join(one, window("T", TimeWindow(7)), (("S.b", "T.b"),)), "n") if weak else one)
    inputs = [data.draw(st.lists(stamped, max_size=25)) for _ in range(2 if weak else 1)]
    cuts = sorted(data.draw(st.sets(st.integers(1, END - 1), max_size=20)))
    stage, state, low = Stage(plan, 3), State(), 0
    for high in [*cuts, END]:
        forgetful, arrived = restored(state), arrivals(stage, inputs, low, high)
        changes, after = stage.step(state, arrived, low, high)
        # The memory has been handed out: the second attempt from the same state has none.
        for attempt in (forgetful, state):
            again, after_again = stage.step(attempt, arrived, low, high)
            assert listed(again) == listed(changes)
            assert contents(after_again) == contents(after)
        state, low = after, high


def plan_of(length: int) -> Distinct:
    return Distinct(BaseWindow("S", "S", TimeWindow(length), (Column("S.v", RowExpression("v", INT)),)))


def numbers(stage: Stage, drawn: np.ndarray, low: int) -> dict[int, Arrivals]:
    rows = pa.table([pa.array(drawn)], schema=stage.schemas[0])
    return {0: Arrivals(rows, np.arange(low, low + len(drawn)))}


def test_an_epoch_writes_about_what_arrives(tmp_path: Path) -> None:
    """Few tuples into a large answer: their chunks are written, the others stay where they are."""
    stage, chance, manifest = Stage(plan_of(10**6)), np.random.default_rng(5), None
    sizes, low = [], 0
    for epoch, size in enumerate([20_000, *[100] * 30]):
        drawn = np.arange(size) if epoch == 0 else chance.integers(0, 20_000, size)
        state = bucket_state.load(tmp_path, 0, manifest)
        changes, after = stage.step(state, numbers(stage, drawn, low), low, low + size)
        _, manifest = bucket_state.store(tmp_path, 0, f"{epoch}.arrow", after, durable=False)
        path = tmp_path / f"{epoch}.arrow"
        sizes.append(path.stat().st_size if path.exists() else 0)
        assert len(changes) == (size if epoch == 0 else 0)
        low += size
    assert sum(sizes[1:]) < sizes[0]


@pytest.mark.parametrize("length", [300, 10**6])
def test_what_is_stored_is_bounded_by_the_answer(length: int) -> None:
    """A tuple and a spare duplicate per value, and at most as many that are dead."""
    stage, state, chance = Stage(plan_of(length)), State(), np.random.default_rng(6)
    for low in range(0, 40_000, 100):
        _, state = stage.step(state, numbers(stage, chance.integers(0, 400, 100), low), low, low + 100)
        assert state.tuples <= 2 * 2 * min(400, length + 100)
        assert all(len(chunks) <= 33 for chunks in state.buffers.values())


def test_values_that_never_come_again_are_forgotten() -> None:
    stage, state = Stage(plan_of(50)), State()
    for low in range(0, 40_000, 100):
        _, state = stage.step(state, numbers(stage, np.arange(low, low + 100), low), low, low + 100)
        assert all(len(known.numbering) <= 2_000 for known in state.memory.values())


MOMENT = datetime(2024, 5, 1, tzinfo=UTC)
COLUMNS = {
    "whole": (pa.int32(), st.one_of(st.none(), st.integers(-3, 3))),
    "moment": (pa.timestamp("us", "UTC"), st.one_of(st.none(), st.just(MOMENT))),
    "word": (pa.string(), st.one_of(st.none(), st.sampled_from(["", "a", "b"]))),
    "real": (pa.float64(), st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5]))),
    "exact": (pa.decimal128(20, 2), st.one_of(st.none(), st.sampled_from([Decimal("1.50"), Decimal("-2.00")]))),
    "yes": (pa.bool_(), st.one_of(st.none(), st.booleans())),
    "list": (pa.list_(pa.int64()), st.one_of(st.none(), st.lists(st.integers(0, 1), max_size=2))),
}


@given(st.data())
def test_values_of_every_type_are_numbered_as_within_one_call(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True))
    schema = pa.schema([(name, COLUMNS[name][0]) for name in names])
    row = st.tuples(*(COLUMNS[name][1] for name in names))
    tables = []
    for rows in data.draw(st.lists(st.lists(row, max_size=6), min_size=1, max_size=4)):
        columns = [pa.array([each[i] for each in rows], field.type) for i, field in enumerate(schema)]
        tables.append(pa.table(columns, schema=schema))
    numbering = KeyNumbers(schema)
    found = np.concatenate([numbering.numbers(table) for table in tables]).tolist()
    (codes,) = dense_codes([pa.concat_tables(tables)], [names], null_safe=True)
    assert len(set(zip(found, codes.tolist(), strict=True))) == len(set(found)) == len(set(codes.tolist()))
    assert set(found) == set(range(len(numbering)))


def test_many_columns_have_their_nulls_apart() -> None:
    names = [f"c{place}" for place in range(130)]
    schema = pa.schema([(name, INT) for name in names])
    rows = [[None if place == null else 0 for place in range(130)] for null in (0, 61, 62, 63, 129, 200)]
    table = pa.table([pa.array(column, INT) for column in zip(*rows, strict=True)], schema=schema)
    assert KeyNumbers(schema).numbers(table).tolist() == [0, 1, 2, 3, 4, 5]
