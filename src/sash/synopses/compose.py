"""A query over several windows: its sub-queries' answers, all as of one time, joined, filtered, sorted, projected."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sash.plan.expressions import Field
from sash.plan.nodes import AnswerFilter, AnswerJoin, Derived, Limit, Node, Sort, SortKey
from sash.plan.periodic import Composition
from sash.synopses.answers import sorted_and_limited
from sash.synopses.evaluate import evaluate

_KINDS = {"inner": "inner", "left": "left outer", "right": "right outer", "full": "full outer"}


def compose(query: Composition, tables: list[pa.Table]) -> pa.Table:
    """The answer; `tables` are those of the leaves, in their order."""
    plan = query.plan
    joined = _joined(plan.input, iter(tables))
    columns = [evaluate(output.expression, _fields(joined), joined.num_rows) for output in plan.outputs]
    return pa.Table.from_arrays(columns, schema=query.schema)


def _joined(node: Node, tables: Iterator[pa.Table]) -> pa.Table:
    if isinstance(node, Derived):
        table = next(tables)
        return table.rename_columns([f"{node.alias}.{name}" for name in table.column_names])
    if isinstance(node, AnswerJoin):
        left = _joined(node.left, tables)
        return _join(node, left, _joined(node.right, tables))
    assert isinstance(node, AnswerFilter | Sort | Limit)
    table = _joined(node.input, tables)
    if isinstance(node, AnswerFilter):
        return table.filter(evaluate(node.condition, _fields(table), table.num_rows).fill_null(False))
    if isinstance(node, Sort):
        fields, _ = sorted_and_limited(_fields(table), table.num_rows, node.keys, None)
        return pa.table(fields)
    return _limited(node, table)


def _limited(node: Limit, table: pa.Table) -> pa.Table:
    """Every column decides between equals, so that what is cut off does not depend on the order of arrival."""
    fields = [Field(name, column.type) for name, column in zip(table.column_names, table.columns, strict=True)]
    order = (*(node.input.keys if isinstance(node.input, Sort) else ()), *(SortKey(field) for field in fields))
    chosen, _ = sorted_and_limited(_fields(table), table.num_rows, order, node.count)
    return pa.table(chosen)


def _join(node: AnswerJoin, left: pa.Table, right: pa.Table) -> pa.Table:
    if node.kind == "cross":
        rows = np.repeat(np.arange(left.num_rows), right.num_rows)
        others = np.tile(np.arange(right.num_rows), left.num_rows)
        return pa.table({**_fields(left.take(pa.array(rows))), **_fields(right.take(pa.array(others)))})
    mine, theirs = [key for key, _ in node.keys], [key for _, key in node.keys]
    # One thread: the same tables give the same order of rows.
    return left.join(right, mine, theirs, _KINDS[node.kind], coalesce_keys=False, use_threads=False)


def _fields(table: pa.Table) -> dict[str, pa.Array]:
    return {name: _array(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
