"""The short lists that Spark makes of files are those that this process makes of the same counts, for every type."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sash.panes.cluster_panes import key_name, stored_rows, stored_schema, synopsis_of, value_name
from sash.panes.list_panes import ListPanes
from sash.panes.pane_store import SPAN
from sash.panes.partials import Partial
from sash.panes.readings import ShortLists, TableName
from sash.plan.expressions import RowExpression
from sash.sharing.groups import pane_table
from sash.spark.pane_files import short_lists

pytestmark = pytest.mark.spark

LENGTH, PANES = 10, 3
ITEMS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [*range(-3, 9), 2**62]),
    "double": (pa.float64(), [0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan")]),
    "string": (pa.string(), ["", "a", "B", "ä", "zz", "\U0001f600", "\uffff"]),
    "decimal": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 9)]),
    "date": (pa.date32(), [date(1969, 12, day) for day in range(1, 9)]),
    "boolean": (pa.bool_(), [True, False]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
}
CONDITION = RowExpression("k > 0", pa.bool_(), ("k",))


@pytest.mark.parametrize("kind", list(ITEMS))
def test_the_lists_of_this_process(spark: Any, tmp_path: Path, kind: str) -> None:
    type, values = ITEMS[kind]
    keys = (RowExpression("k", pa.int32(), ("k",)), RowExpression("x", type, ("x",)))
    rule = ShortLists(2, 1, (0,), LENGTH)
    partials = [Partial("rows"), Partial("rows", None, CONDITION)]
    table = pane_table(TableName(keys, lists=rule), LENGTH, partials)
    chance, files = random.Random(kind), []
    schema = stored_schema([key.type for key in keys], table.partials)
    names = [value_name(partial, 0) for partial in table.partials]
    for number in range(6):
        end = (number % PANES + 1) * LENGTH
        pairs = [(k, x) for k in (1, 2, None) for x in (*values, None) if chance.random() < 0.7]
        rows = [dict(zip((*SPAN, key_name(0), key_name(1)), (end - LENGTH, end, k, x), strict=True)) for k, x in pairs]
        rows = [row | {name: chance.randrange(4) for name in names} for row in rows]
        # The first file is older than the condition.
        written = pa.Table.from_pylist(rows, schema).drop_columns(names[1:] if number == 0 else [])
        pq.write_table(written, tmp_path / f"{number}.parquet", coerce_timestamps="us")
        files.append(tmp_path / f"{number}.parquet")
    found = short_lists(spark, files, table)
    ours = ListPanes([key.type for key in keys], rule)
    ours.require(table.partials, None)
    counts = [pq.read_table(path, schema=schema) for path in files]
    summed = stored_rows(synopsis_of(pa.concat_tables(counts), [k.type for k in keys], dict.fromkeys(partials), 99))
    by_place = {partial: names[place] for place, partial in enumerate(table.partials)}
    ours.load(_snapshot(summed, by_place), [[*partial.signature, None] for partial in table.partials])
    ours.close(PANES * LENGTH)
    expected = stored_rows(ours)
    assert _rows(found) == _rows(expected) != set()
    most = rule.k * 3 * len(partials)
    assert all(len(found.filter(pc.field("end") == end)) <= most for end in (10, 20, 30))


def _snapshot(table: pa.Table, names: dict[Partial, str]) -> pa.Table:
    parts = pa.array([row // LENGTH for row in table["end"].to_pylist()])
    columns = {name: table[name] for name in (*SPAN, key_name(0), key_name(1))}
    columns |= {"part": parts, "closed": pa.array([False] * len(table))}
    columns |= {f"value{place}_0": table[name] for place, name in enumerate(names.values())}
    return pa.table(columns).sort_by("part")


def _rows(table: pa.Table) -> set[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        return "NaN" if isinstance(value, float) and math.isnan(value) else value

    return {tuple(plain(row[name]) for name in sorted(row)) for row in table.to_pylist()}
