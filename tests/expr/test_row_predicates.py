"""A WHERE tested in the process keeps the rows that a database keeps; other conditions go to Spark by name."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.catalog import Catalog, Stream
from sash.expr.row_predicates import row_predicate
from sash.plan.expressions import RowExpression
from sash.plan.predicates import Atom, only
from sash.runtime.compiler import as_select, compile_panes
from sash.sql import bind
from tests.support.oracle import duck

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("i", pa.int32()),
        ("w", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("g", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
    ]
)
MOMENTS = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in (0, 1, 2)]
ROWS = st.fixed_dictionaries(
    {
        "ts": st.sampled_from(MOMENTS),
        "i": st.sampled_from([None, -1, 0, 1, 2, 2**31 - 1]),
        "w": st.sampled_from([None, -(2**63), 0, 1, 2**53 + 1, 2**63 - 1]),
        "x": st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")]),
        "f": st.sampled_from([None, 0.0, 0.5, float("nan")]),
        "d": st.sampled_from([None, Decimal("0.00"), Decimal("1.50"), Decimal("-9999999.99")]),
        "g": st.sampled_from([None, "", "a", "b", "ä"]),
        "b": st.sampled_from([None, True, False]),
        "day": st.sampled_from([None, date(2024, 1, 1), date(2024, 2, 29)]),
    }
)
CONSTANTS = {
    "ts": ["TIMESTAMP '2024-01-01 01:00:00+00:00'"],
    "i": ["0", "1", "2147483647", "1.5", "5E-1"],
    "w": ["0", "9007199254740993", "-9223372036854775807", "0.5"],
    "x": ["0", "1.5E0", "-1E0"],
    "f": ["0.5E0"],
    "d": ["0", "1.5", "1.505", "-9999999.99"],
    "g": ["'a'", "''", "'ä'"],
    "day": ["DATE '2024-02-29'"],
}
COMPARISONS = st.one_of(
    st.sampled_from(sorted(CONSTANTS)).flatmap(
        lambda name: st.builds(
            "{} {} {}".format,
            st.just(name),
            st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
            st.sampled_from(CONSTANTS[name]),
        )
    ),
    st.sampled_from(["b", "NOT b", "b = TRUE", "x IS NULL", "i IS NOT NULL", "i IN (0, 2)", "g NOT IN ('a', 'b')"]),
    st.sampled_from(["i BETWEEN 0 AND 1", "w NOT BETWEEN 0 AND 1", "TRUE", "FALSE"]),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


def predicate_of(condition: str) -> RowExpression:
    catalog = Catalog()
    catalog.add_stream(Stream("s", SCHEMA, "ts"))
    text = f"SELECT COUNT(*) AS n FROM s [WINDOW 5 sec] WHERE {condition}"
    (leaf,) = compile_panes(bind(as_select(text), catalog), one_time=True).leaves
    assert leaf.predicate is not None
    return leaf.predicate


@given(st.lists(ROWS, max_size=12), CONDITIONS)
def test_keeps_what_a_database_keeps(rows: list[dict[str, Any]], condition: str) -> None:
    predicate = row_predicate(predicate_of(condition), SCHEMA)
    if predicate is None:
        # With many terms there is no normal form.
        assert predicate_of(condition).terms is None
        return
    tuples = pa.Table.from_pylist(rows, SCHEMA).append_column("n", pa.array(range(len(rows)), pa.int64()))
    duck().register("tested", tuples)
    expected = [number for (number,) in duck().sql(f"SELECT n FROM tested WHERE {condition} ORDER BY n").fetchall()]
    assert tuples.filter(predicate.kept(tuples))["n"].to_pylist() == expected


@pytest.mark.parametrize(
    "condition",
    ["i + 1 > 2", "i < w", "UPPER(g) = 'A'", "g LIKE 'a%'", "w > 1.5E0", "1 / i > 0", "i > 0 AND i % 2 = 0"],
)
def test_what_is_left_to_spark(condition: str) -> None:
    assert row_predicate(predicate_of(condition), SCHEMA) is None


@pytest.mark.parametrize(
    ("type", "constant"),
    [
        (pa.float64(), float("nan")),
        (pa.int64(), 0.5),
        (pa.string(), 1),
        (pa.bool_(), 1),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), datetime(2024, 1, 1)),
        (pa.timestamp("us"), date(2024, 1, 1)),
        (pa.decimal128(38, 0), Decimal("0.5")),
        (pa.decimal128(9, 2), Decimal("NaN")),
        (pa.string(), b"x"),
    ],
)
def test_nothing_is_compared_with_rounding(type: pa.DataType, constant: Any) -> None:
    where = RowExpression("c = ?", pa.bool_(), ("c",), only(Atom("c", "=", constant)))
    assert row_predicate(where, pa.schema([("c", type)])) is None


def test_a_column_may_have_any_name() -> None:
    rows = pa.table({"a `b`": [1, 2], "a": [2, 1]})
    where = RowExpression("`a ``b``` = 2", pa.bool_(), ("a `b`",), only(Atom("`a ``b```", "=", 2)))
    predicate = row_predicate(where, rows.schema)
    assert predicate is not None and rows.filter(predicate.kept(rows)).to_pylist() == [{"a `b`": 2, "a": 1}]
