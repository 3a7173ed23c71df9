"""The definition: at every instant, the relational query over what is in the windows (thesis, definition 2.1).

A relation is what it is at that instant; a tuple's non-retroactive relation is as it was at its timestamp (3.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pyarrow as pa

from sash.changes.stateless import columns_of
from sash.core.changes import NEVER, Changes
from sash.core.window import RowWindow
from sash.expr.evaluate import evaluate
from sash.plan.continuous import (
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    OuterJoin,
    RelationJoin,
    TableJoin,
    Union,
    windows,
)
from sash.plan.outputs import ISTREAM, Deltas, OutputNode, ResultWindow, Sampled

Row = tuple[Any, ...]
# The tuples of each window of the plan, from left to right: (timestamp, row).
Inputs = Sequence[Sequence[tuple[int, Row]]]


# A table's rows with the changes that begin and end them.
Versions = Mapping[str, Sequence[tuple[int, int, Row]]]


@dataclass(frozen=True)
class At:
    """The rows at an instant."""

    inputs: Iterator[Sequence[tuple[int, Row]]]
    now: int
    tables: Versions


def answer(plan: Node, inputs: Inputs, now: int, tables: Versions | None = None) -> Counter[Row]:
    """What the query's answer holds at an instant."""
    return Counter(_rows(plan, At(iter(inputs), now, tables or {})))


def _rows(node: Node, at: At) -> list[Row]:
    if isinstance(node, BaseWindow):
        return _window(node, next(at.inputs), at.now)
    if isinstance(node, OutputNode):
        return _output(node, [next(at.inputs) for _ in windows(node)], at.now, at.tables)
    if isinstance(node, NrrJoin):
        return [row for _, row in _stamped(node, at)]
    if isinstance(node, Union):
        return [row for input in node.inputs for row in _rows(input, at)]
    if isinstance(node, Join | OuterJoin | Negation | Intersection):
        left, right = _rows(node.left, at), _rows(node.right, at)
        if isinstance(node, OuterJoin):
            return _outer_joined(node, left, right)
        return _joined(node, left, right) if isinstance(node, Join) else _matched(node, left, right)
    rows = _rows(node.input, at)
    if isinstance(node, RelationJoin):
        return [row + found for row in rows for found in _looked_up(node, row, at, at.now, begins_at_once=True)]
    if isinstance(node, Distinct):
        return sorted(set(rows), key=repr)
    if isinstance(node, GroupBy):
        return _grouped(node, rows)
    return [row for row in _computed(node, rows) if row is not None]


def _computed(node: Filter | Map, rows: list[Row]) -> list[Row | None]:
    """What becomes of each row; None where it is left out."""
    table = pa.Table.from_arrays(
        [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(node.input.schema)],
        schema=node.input.schema,
    )
    if isinstance(node, Filter):
        keep = evaluate(node.condition, columns_of(table), len(rows)).to_pylist()
        return [row if kept else None for row, kept in zip(rows, keep, strict=True)]
    made = [evaluate(made, columns_of(table), len(rows)).to_pylist() for _, made in node.outputs]
    return list(zip(*made, strict=True)) if made else [()] * len(rows)


def _stamped(node: Node, at: At) -> list[tuple[int, Row]]:
    """The rows of a plan without negative tuples, each with its timestamp."""
    if isinstance(node, BaseWindow):
        low = at.now - node.window.length
        return [(ts, row) for ts, row in next(at.inputs) if low < ts <= at.now]
    if isinstance(node, Join):
        left, right = _stamped(node.left, at), _stamped(node.right, at)
        pairs = ((max(ts, other), _joined(node, [one], [two])) for ts, one in left for other, two in right)
        return [(ts, row) for ts, rows in pairs for row in rows]
    assert isinstance(node, NrrJoin | Filter | Map)
    below = _stamped(node.input, at)
    if isinstance(node, NrrJoin):
        found = ((ts, row, _looked_up(node, row, at, ts, begins_at_once=False)) for ts, row in below)
        return [(ts, row + more) for ts, row, rows in found for more in rows]
    made = _computed(node, [row for _, row in below])
    return [(ts, row) for (ts, _), row in zip(below, made, strict=True) if row is not None]


def _looked_up(node: TableJoin, row: Row, at: At, ts: int, *, begins_at_once: bool) -> list[Row]:
    """The columns of the table's row with the tuple's key at a time; a change counts at its instant or after it."""
    names, columns = node.input.schema.names, dict(node.columns)
    found = []
    for begin, end, version in at.tables[node.table.name]:
        values = dict(zip(node.table.schema.names, version, strict=True))
        lives = begin <= ts < end if begins_at_once else begin < ts <= end
        if lives and all(row[names.index(one)] == values[columns[other]] for one, other in node.keys):
            found.append(tuple(values[column] for _, column in node.columns))
    return found or [(None,) * len(node.columns)] * node.keeps


def _output(node: OutputNode, inputs: Inputs, now: int, tables: Versions) -> list[Row]:
    if isinstance(node, Sampled) and not isinstance(node.input, Deltas):
        last = node.next_multiple(now + 1) - node.slide
        return list(answer(node.input, inputs, last, tables).elements())
    results = generated(node.input if isinstance(node, ResultWindow) else node, inputs, now, tables)
    if isinstance(node, ResultWindow):
        last = results[-node.window.length :] if isinstance(node.window, RowWindow) else results
        results = [each for each in last if isinstance(node.window, RowWindow) or each[0] > now - node.window.length]
    return [row for _, row in results]


def generated(node: Node, inputs: Inputs, now: int, tables: Versions | None = None) -> list[tuple[int, Row]]:
    """The results of Istream or Dstream up to an instant and when they came, those of one instant by value."""
    if isinstance(node, Sampled):
        found = [(node.next_multiple(at), row) for at, row in generated(node.input, inputs, now, tables)]
        return [(at, row) for at, row in found if at <= now]
    assert isinstance(node, Deltas)
    found, before = [], Counter[Row]()
    for at in range(now + 1):
        after = answer(node.input, inputs, at, tables)
        change = after - before if node.kind == ISTREAM else before - after
        found += [(at, row) for row in sorted(change.elements(), key=lambda row: [(v is None, v) for v in row])]
        before = after
    return found


def _window(node: BaseWindow, tuples: Sequence[tuple[int, Row]], now: int) -> list[Row]:
    """The youngest last. Tuples of one instant come in the order in which they are given."""
    seen = [row for ts, row in sorted(tuples, key=lambda pair: pair[0]) if ts <= now]
    if isinstance(node.window, RowWindow):
        places = [node.schema.names.index(name) for name in node.partition]
        kept, counted = [], Counter[Row]()
        for row in reversed(seen):
            key = tuple(row[place] for place in places)
            counted[key] += 1
            if counted[key] <= node.window.length:
                kept.append(row)
        return kept[::-1]
    low = now - node.window.length
    return [row for ts, row in sorted(tuples, key=lambda pair: pair[0]) if low < ts <= now]


def _joined(node: Join, left: list[Row], right: list[Row]) -> list[Row]:
    keys = _places(node)
    return [
        one + other
        for one in left
        for other in right
        if all(one[i] is not None and one[i] == other[j] for i, j in keys)
    ]


def _outer_joined(node: OuterJoin, left: list[Row], right: list[Row]) -> list[Row]:
    keys, found, matched = _places(node), list[Row](), set[int]()
    for one in left:
        own = [
            place
            for place, other in enumerate(right)
            if all(one[i] is not None and one[i] == other[j] for i, j in keys)
        ]
        matched |= set(own)
        found += [one + right[place] for place in own]
        if not own and node.keeps_left:
            found.append(one + (None,) * len(node.right.schema))
    alone = [other for place, other in enumerate(right) if place not in matched and node.keeps_right]
    return found + [(None,) * len(node.left.schema) + other for other in alone]


def _matched(node: Negation | Intersection, left: list[Row], right: list[Row]) -> list[Row]:
    keys = _places(node)
    ours = [_key([row[i] for i, _ in keys], node.null_safe) for row in left]
    theirs = Counter(_key([row[j] for _, j in keys], node.null_safe) for row in right)
    del theirs[None]
    found: list[Row] = []
    for key in dict.fromkeys(ours):
        mine = [row for row, its in zip(left, ours, strict=True) if its == key]
        v1, v2 = len(mine), theirs[key] if key is not None else 0
        if isinstance(node, Negation):
            shown = (v1 if v2 == 0 else 0) if node.whole else max(v1 - v2, 0)
        else:
            shown = (v1 if v2 > 0 else 0) if node.whole else min(v1, v2)
        found += mine[v1 - shown :]
    return found


def _key(values: list[Any], null_safe: bool) -> Row | None:
    return None if not null_safe and None in values else tuple(values)


def _places(node: Join | OuterJoin | Negation | Intersection) -> list[tuple[int, int]]:
    names, others = node.left.schema.names, node.right.schema.names
    return [(names.index(one), others.index(other)) for one, other in node.keys]


def _grouped(node: GroupBy, rows: list[Row]) -> list[Row]:
    names = node.input.schema.names
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[names.index(key)] for key in node.keys), []).append(row)
    found = []
    for key, members in groups.items():
        values = []
        for call in node.calls:
            given = [1 if call.argument is None else row[names.index(call.argument)] for row in members]
            values.append(_aggregate(call.function, [value for value in given if value is not None]))
        found.append(key + tuple(values))
    return found


def _aggregate(function: str, values: list[Any]) -> Any:
    if function == "count":
        return len(values)
    if not values:
        return None
    return {"sum": sum, "min": min, "max": max, "avg": fmean}[function](values)


def view(changes: Sequence[tuple[int, int, int, Row]], now: int) -> Counter[Row]:
    """The answer that (ts, exp, sign, row) changes leave at an instant."""
    found: Counter[Row] = Counter()
    for ts, exp, sign, row in changes:
        if ts <= now < exp:
            found[row] += sign
    assert all(number >= 0 for number in found.values()), "something was taken back that was not there"
    return +found


def listed(changes: Changes) -> list[tuple[int, int, int, Row]]:
    rows = list(zip(*(column.to_pylist() for column in changes.rows.columns), strict=True))
    rows = rows or [()] * len(changes)
    return list(zip(changes.ts.tolist(), changes.exp.tolist(), changes.sign.tolist(), rows, strict=True))


def check_net(changes: list[tuple[int, int, int, Row]]) -> None:
    """In order of time; at one instant nothing both appears and is taken back with the same expiry."""
    assert [ts for ts, *_ in changes] == sorted(ts for ts, *_ in changes)
    counted: dict[Any, set[int]] = {}
    for ts, exp, sign, row in changes:
        assert ts < exp <= NEVER
        counted.setdefault((ts, exp, row), set()).add(sign)
    assert all(len(signs) == 1 for signs in counted.values())
