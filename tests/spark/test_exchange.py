"""Changes in the rows of an exchange: the result is that of `operators.exchange`, in any order."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

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
from sash.spark.exchange import Wire
from sash.spark.leaves import LeafLayout
from sash.spark.steps import BUCKET, Job, PlanEpoch

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


@given(st.lists(rows, min_size=3, max_size=3), st.randoms(use_true_random=False))
def test_what_is_written_is_read_again_whatever_the_order(given_rows: list[list], chance: object) -> None:
    wire, schema = Wire.of(JOB), JOB.stage(0).schema_of("0")
    assert wire.ids == JOB.stage(0).width_of("0") == 2
    parts, tables = [], []
    for bucket, each in enumerate(given_rows):
        ts, sign = (np.array([row[i] for row in each], dtype=np.int64) for i in (0, 1))
        columns = [pa.array([row[2 + i] for row in each], field.type) for i, field in enumerate(schema)]
        ids = np.stack([np.arange(len(each)), np.full(len(each), bucket)], axis=1)
        found = Changes(pa.table(columns, schema=schema), ts, ts + 4, sign.astype(np.int8), ids).in_order()
        parts.append(found)
        tables.append(wire.written(found, "0", bucket, targets_of(found, COLUMN, 2)))
    table = pa.concat_tables(tables)
    assert table.schema == wire.schema
    order = list(range(table.num_rows))
    chance.shuffle(order)  # type: ignore[attr-defined]
    table = table.take(pa.array(order, pa.int64()))
    for bucket, expected in enumerate(exchanged(parts, COLUMN, 2)):
        mine = table.filter(pa.array(np.asarray(table[BUCKET]) == bucket))
        read = wire.read(mine, "0", schema, 2)
        assert read.rows.to_pylist() == expected.rows.to_pylist()
        for name in ("ts", "exp", "sign", "ids"):
            assert getattr(read, name).tolist() == getattr(expected, name).tolist()
