"""Answers made of answers: those of sub-queries, all as of one time, joined, filtered, ranked and sorted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.core.errors import QueryFailedError
from sash.expr.evaluate import evaluate
from sash.expr.value_codes import canonical, encode_alone, one_array
from sash.panes.answers import sorted_and_limited
from sash.panes.window_functions import all_columns, with_window_functions
from sash.plan.nodes import (
    AnswerFilter,
    AnswerJoin,
    AnswerOrder,
    AnswerProbe,
    AnswerUnion,
    AnswerWindow,
    Limit,
    Node,
    Project,
    Sort,
    Subquery,
)
from sash.plan.periodic import Composition, sub_queries

_KINDS = {"inner": "inner", "left": "left outer", "right": "right outer", "full": "full outer"}


def compose(query: Composition, tables: list[pa.Table]) -> pa.Table:
    """The answer; `tables` are the answers of the leaves, in their order."""
    return _projected(query.plan, iter(tables))


def _projected(plan: Project, tables: Iterator[pa.Table]) -> pa.Table:
    joined = _joined(plan.input, tables)
    fields = _fields(joined)
    columns = [evaluate(output.expression, fields, joined.num_rows) for output in plan.outputs]
    types = [(output.name, output.expression.type) for output in plan.outputs]
    return pa.Table.from_arrays(columns, schema=pa.schema(types))


def _joined(node: Node, tables: Iterator[pa.Table]) -> pa.Table:
    if isinstance(node, Subquery):
        table = _projected(node.input, tables) if sub_queries(node.input) else next(tables)
        return table.rename_columns([f"{node.alias}.{name}" for name in table.column_names])
    if isinstance(node, AnswerJoin):
        left = _joined(node.left, tables)
        return _join(node, left, _joined(node.right, tables))
    if isinstance(node, AnswerProbe):
        rows = _joined(node.input, tables)
        return rows.append_column(node.name, _probed(node, rows, _joined(node.query, tables)))
    if isinstance(node, AnswerUnion):
        rows = pa.concat_tables([_joined(part, tables) for part in node.parts])
        return _different(rows) if node.distinct else rows
    assert isinstance(node, AnswerFilter | AnswerWindow | Sort | Limit)
    table = _joined(node.input, tables)
    if isinstance(node, AnswerWindow):
        return pa.table(with_window_functions(node, _fields(table), table.num_rows))
    if isinstance(node, AnswerFilter):
        return table.filter(evaluate(node.condition, _fields(table), table.num_rows).fill_null(False))
    if isinstance(node, Sort):
        fields, _ = sorted_and_limited(_fields(table), table.num_rows, node.keys, None)
        return pa.table(fields)
    return _limited(node, table)


def _limited(node: Limit, table: pa.Table) -> pa.Table:
    return in_order(table, AnswerOrder(node.input.keys if isinstance(node.input, Sort) else (), node.count))


def in_order(table: pa.Table, order: AnswerOrder) -> pa.Table:
    """Sort an answer, and cut it. Every column breaks ties, so that the result does not depend on who came first."""
    fields = _fields(table)
    keys = (*order.keys, *all_columns(fields))
    chosen, _ = sorted_and_limited(fields, table.num_rows, keys, order.limit)
    return pa.table(chosen, schema=table.schema)


def _join(node: AnswerJoin, left: pa.Table, right: pa.Table) -> pa.Table:
    if node.kind == "cross":
        rows = np.repeat(np.arange(left.num_rows), right.num_rows)
        others = np.tile(np.arange(right.num_rows), left.num_rows)
        return pa.table({**_fields(left.take(pa.array(rows))), **_fields(right.take(pa.array(others)))})
    mine, theirs = [key for key, _ in node.keys], [key for _, key in node.keys]
    # Arrow joins no lists: the keys are joined with the places of the rows. One thread: the same tables give the same
    # order of rows.
    joined = _numbered(left, mine, "left").join(
        _numbered(right, theirs, "right"), mine, theirs, _KINDS[node.kind], coalesce_keys=False, use_threads=False
    )
    return pa.table({**_fields(left.take(joined["left"])), **_fields(right.take(joined["right"]))})


def _numbered(table: pa.Table, keys: list[str], name: str) -> pa.Table:
    """Some columns, and the place of each row; names of columns have a dot."""
    return table.select(list(dict.fromkeys(keys))).append_column(name, pa.array(np.arange(table.num_rows)))


def _probed(node: AnswerProbe, rows: pa.Table, asked: pa.Table) -> pa.Array:
    """A column of the rows from a sub-query's answer."""
    if node.kind == "exists":
        return pa.array(np.full(rows.num_rows, asked.num_rows > 0))
    assert node.of is not None
    column = evaluate(node.of, _fields(asked), asked.num_rows)
    if node.value is not None:
        return _is_in(evaluate(node.value, _fields(rows), rows.num_rows), column)
    if len(column) > 1:
        way_out = "aggregate without GROUP BY, or write LIMIT 1 or IN"
        raise QueryFailedError(f"{node.text} has {len(column)} rows, and a value is one row: {way_out}")
    only = column if len(column) else pa.nulls(1, column.type)
    return only.take(pa.array(np.zeros(rows.num_rows, dtype=np.int64)))


def _is_in(values: pa.Array, among: pa.Array) -> pa.Array:
    """Whether each value is among some, as SQL has it: NULL if that depends on a NULL."""
    known = canonical(among.drop_null())
    found = pc.is_in(canonical(values), value_set=known)
    if not len(among):
        return found
    unknown = pc.is_null(values) if len(known) == len(among) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _different(rows: pa.Table) -> pa.Table:
    """Each row once, where it stands first; NULL is like NULL."""
    codes, _ = encode_alone(list(_fields(rows).values()), rows.num_rows)
    return rows.take(pa.array(np.sort(np.unique(codes, return_index=True)[1])))


def _fields(table: pa.Table) -> dict[str, pa.Array]:
    return {name: one_array(column) for name, column in zip(table.column_names, table.columns, strict=True)}
