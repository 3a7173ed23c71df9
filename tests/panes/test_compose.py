"""The answers of sub-queries joined into one: kinds of joins, NULL keys, and limits that do not depend on arrival."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from sash.catalog import Catalog, Stream
from sash.panes.compositions import compose
from sash.plan.periodic import Composition, flatten
from sash.sql import SelectStatement, bind, parse, plan_panes

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32())])
LEFT = [{"k": 1, "n": 5}, {"k": 2, "n": 7}, {"k": None, "n": 1}]
RIGHT = [{"k": 2, "m": 20}, {"k": 3, "m": 30}, {"k": None, "m": 0}]


def composition(rest: str) -> Composition:
    catalog = Catalog()
    catalog.add_stream(Stream("s", SCHEMA, "ts"))
    first = "(SELECT k, COUNT(*) AS n FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY k) a"
    second = "(SELECT k, MAX(v) AS m FROM s [WINDOW 3 sec SLIDE 3 sec] GROUP BY k) b"
    statement = parse(rest.replace("$a", first).replace("$b", second))
    assert isinstance(statement, SelectStatement)
    query = flatten(plan_panes(bind(statement.select, catalog), periodic=True))
    assert isinstance(query, Composition)
    return query


def answer(rest: str, left: list[dict[str, Any]] = LEFT, right: list[dict[str, Any]] = RIGHT) -> list[tuple[Any, ...]]:
    a = pa.Table.from_pylist(left, pa.schema([("k", pa.int32()), ("n", pa.int64())]))
    b = pa.Table.from_pylist(right, pa.schema([("k", pa.int32()), ("m", pa.int32())]))
    return [tuple(row.values()) for row in compose(composition(rest), [a, b]).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("JOIN", {(2, 7, 20)}),
        ("LEFT JOIN", {(1, 5, None), (2, 7, 20), (None, 1, None)}),
        ("RIGHT JOIN", {(2, 7, 20), (3, None, 30), (None, None, 0)}),
        ("FULL JOIN", {(1, 5, None), (2, 7, 20), (None, 1, None), (3, None, 30), (None, None, 0)}),
    ],
)
def test_kinds_of_joins(kind: str, expected: set[tuple[Any, ...]]) -> None:
    """A USING column is that of the side which has it; NULL joins nothing."""
    assert set(answer(f"SELECT k, n, m FROM $a {kind} $b USING (k)")) == expected


def test_cross_join_and_filter() -> None:
    assert sorted(answer("SELECT a.n, b.m FROM $a CROSS JOIN $b WHERE a.n > 1 AND b.m > 20")) == [(5, 30), (7, 30)]


@pytest.mark.parametrize("order", ["", " ORDER BY m DESC"])
def test_a_limit_does_not_depend_on_the_order_of_arrival(order: str) -> None:
    left = [{"k": k, "n": 1} for k in range(3)]
    right = [{"k": k, "m": 4} for k in range(3)]
    found = {
        tuple(answer(f"SELECT k, n, m FROM $a JOIN $b USING (k){order} LIMIT 2", list(some), list(others)))
        for some, others in itertools.product(itertools.permutations(left), itertools.permutations(right))
    }
    assert found == {((0, 1, 4), (1, 1, 4))}


def test_empty_answers() -> None:
    assert answer("SELECT k, n, m FROM $a JOIN $b USING (k) ORDER BY n LIMIT 3", [], []) == []
