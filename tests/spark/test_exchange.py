"""Changes in the pieces of an exchange: the result is that of `stage.exchanged`, in whatever order they come."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sash.changes.stage import exchanged, targets_of
from sash.core.changes import Changes
from sash.core.window import TimeWindow
from sash.plan.continuous import Aggregated, BaseWindow, Column, GroupBy, Join
from sash.plan.expressions import RowExpression
from sash.plan.stages import stages
from sash.spark.exchange import PIECES, Piece, changes_in, pieces_of, read, written
from sash.spark.leaves import LeafLayout
from sash.spark.steps import Job, PlanEpoch

TYPES = {"k": pa.int64(), "g": pa.string(), "d": pa.decimal128(20, 2), "at": pa.timestamp("us", "UTC"), "n": pa.int64()}


def window(name: str) -> BaseWindow:
    columns = tuple(Column(f"{name}.{each}", RowExpression(each, type, (each,))) for each, type in TYPES.items())
    return BaseWindow(name, name, TimeWindow(5), columns)


# The join's results have two columns of each type; grouped by nothing that it is joined on, they are exchanged. Under
# the nt strategy what takes them back is known by two ids.
PLAN = GroupBy(
    Join(window("S"), window("T"), (("S.k", "T.k"),)), ("T.g",), (Aggregated("n", "count", None, pa.int64()),)
)
STAGES = stages(PLAN)
COLUMN = STAGES[-1].lower["0"]
JOB = Job(PLAN, STAGES, (3, 2), LeafLayout((), ()), "", PlanEpoch(1, 0, 9, (0, 0)), {}, {}, False, "nt", None)

values = {
    "k": st.integers(0, 3),
    "g": st.one_of(st.none(), st.sampled_from("xyz")),
    "d": st.one_of(st.none(), st.integers(-500, 500).map(lambda cents: Decimal(cents) / 100)),
    "at": st.integers(0, 3).map(lambda second: datetime(2024, 1, 1, 0, 0, second, tzinfo=UTC)),
    "n": st.one_of(st.none(), st.integers(0, 3)),
}
rows = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([-1, 1]), *(values[name] for name in (*TYPES, *TYPES))), max_size=9
)


@given(st.lists(rows, min_size=3, max_size=3), st.randoms(use_true_random=False), st.sampled_from([200, 2**20]))
def test_what_is_written_is_read_again_whatever_the_order(given_rows: list[list], chance: Any, most: int) -> None:
    schema, width = JOB.stage(0).schema_of("0"), JOB.stage(0).width_of("0")
    assert width == 2
    parts, pieces = [], list[Piece]()
    for task, each in enumerate(given_rows):
        ts, sign = (np.array([row[i] for row in each], dtype=np.int64) for i in (0, 1))
        columns = [pa.array([row[2 + i] for row in each], field.type) for i, field in enumerate(schema)]
        ids = np.stack([np.arange(len(each)), np.full(len(each), task)], axis=1)
        found = Changes(pa.table(columns, schema=schema), ts, ts + 4, sign.astype(np.int8), ids).in_order()
        parts.append(found)
        targets = targets_of(found, COLUMN, 2)
        for bucket in range(2):
            pieces += pieces_of(found.where(targets == bucket), 0, bucket, task, len(pieces), most)
    chance.shuffle(pieces)
    table = pa.Table.from_batches([written(pieces)]) if pieces else PIECES.empty_table()
    for bucket, expected in enumerate(exchanged(parts, COLUMN, 2)):
        found = changes_in((piece for piece in read(table) if piece.bucket == bucket), schema, width)
        assert found.rows.to_pylist() == expected.rows.to_pylist()
        for name in ("ts", "exp", "sign", "ids"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_changes_of_a_task_are_one_row_unless_they_are_many_bytes() -> None:
    schema, number = pa.schema([("n", pa.int64())]), 1_000
    ts, sign = np.arange(number), np.ones(number, dtype=np.int8)
    changes = Changes(pa.table({"n": ts}, schema), ts, ts + 9, sign, np.zeros((number, 0), dtype=np.int64))
    (whole,) = pieces_of(changes, 0, 0, 0, 1)
    parts = pieces_of(changes, 0, 0, 0, 1, most=5_000)
    assert len(parts) == 5 and [part.number for part in parts] == [1, 2, 3, 4, 5]
    assert changes_in([whole], schema).rows == changes_in(parts, schema).rows == changes.rows
    assert pieces_of(Changes.none(schema), 0, 0, 0, 1) == []
