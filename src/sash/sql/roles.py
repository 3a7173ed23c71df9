"""Which columns of an answer identify a row, and which are numbers: for charts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

# Aggregates whose first column is the item, with the place of the item among the arguments.
_ITEMS = {"TOP": 1, "FREQUENT": 1, "HISTOGRAM": 0, "APPROX_TOP": 1}


def value_columns(tree: exp.Expr, schema: pa.Schema) -> list[str]:
    """The numbers of an answer without its keys; if all numbers are keys, there are none.

    >>> from sash.sql import parse
    >>> text = "SELECT src, port % 10 AS p, SUM(x) AS t FROM s [WINDOW 1 min SLIDE 1 sec] GROUP BY src, port % 10"
    >>> value_columns(parse(text).select.tree, pa.schema({"src": pa.int32(), "p": pa.int32(), "t": pa.int64()}))
    ['t']
    """
    keys = _key_columns(tree, schema.names)
    numbers = [field.name for field in schema if is_number(field.type) and not field.name.startswith("_")]
    return [name for name in numbers if name.lower() not in keys]


def key_columns(schema: pa.Schema, values: Sequence[str]) -> list[str]:
    """The columns that are no numbers to draw."""
    return [name for name in schema.names if name not in values and not name.startswith("_")]


def is_list(tree: exp.Expr) -> bool:
    """Whether the rows are items in order: TOP and its like."""
    return any(_items(item.unalias()) for select in tree.find_all(exp.Select) for item in select.expressions)


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _key_columns(tree: exp.Expr, columns: list[str]) -> set[str]:
    """The lower-case names of columns that a query groups by, joins by, or counts as items, anywhere in it."""
    grouped = [each for group in tree.find_all(exp.Group) for each in group.expressions]
    written = {each.sql() for each in grouped}
    names = {each.name for each in grouped if isinstance(each, exp.Column)}
    for select in tree.find_all(exp.Select):
        for place, item in enumerate(select.expressions):
            # GROUP BY 1, or by an expression: find the answer's name for it, by its place if necessary.
            if item.unalias().sql() in written or str(place + 1) in written:
                names.add(item.alias_or_name or columns[min(place, len(columns) - 1)])
            names |= _items(item.unalias())
    for join in tree.find_all(exp.Join):
        names |= {each.name for each in join.args.get("using") or ()}
    return {name.lower() for name in names}


def _items(call: exp.Expr) -> set[str]:
    place = _ITEMS.get(call.name.upper()) if isinstance(call, exp.Anonymous) else None
    arguments = call.expressions
    return {arguments[place].name} if place is not None and len(arguments) > place else set()
