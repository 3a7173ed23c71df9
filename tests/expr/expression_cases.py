"""Expressions over an answer's columns and what they yield: one table for our evaluator and for Spark.

A case is an expression over columns a, b, c, the columns' types, and rows of (a, b, ..., expected); ERROR where the
expression raises.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from sash.catalog import Catalog, Stream
from sash.plan.expressions import Expression
from sash.plan.periodic import flatten
from sash.sql import SelectStatement, bind, parse, plan_panes
from sash.sql.types import TIMESTAMP, TIMESTAMP_NTZ


class Error:
    def __repr__(self) -> str:
        return "ERROR"


ERROR = Error()
D = Decimal
NAN, INF = float("nan"), float("inf")
TYPES = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}


@dataclass(frozen=True)
class Case:
    text: str
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    @property
    def schema(self) -> pa.Schema:
        names = "abcdef"[: len(self.types)]
        return pa.schema([(name, arrow(type)) for name, type in zip(names, self.types, strict=True)])

    def inputs(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self.schema)]
        return pa.Table.from_arrays(columns, schema=self.schema)

    @property
    def good(self) -> list[tuple[Any, ...]]:
        return [row for row in self.rows if row[-1] is not ERROR]

    @property
    def bad(self) -> list[tuple[Any, ...]]:
        return [row for row in self.rows if row[-1] is ERROR]

    @cached_property
    def bound(self) -> tuple[Expression, list[str]]:
        """The expression as the binder gives it, and the names of the fields that stand for a, b, c."""
        catalog = Catalog()
        catalog.add_stream(Stream("s", pa.schema([("ts", TIMESTAMP), *self.schema]), "ts"))
        keys = ", ".join(self.schema.names)
        grouped = f" GROUP BY {keys}" if keys else ""
        statement = parse(f"SELECT {self.text} AS v, COUNT(*) AS n FROM s [WINDOW 1 min SLIDE 1 min]{grouped}")
        assert isinstance(statement, SelectStatement)
        query = flatten(plan_panes(bind(statement.select, catalog), periodic=True))
        return query.outputs[0].expression, [key.name for key in query.keys]


def arrow(type: str) -> pa.DataType:
    if type.startswith("DECIMAL"):
        return pa.decimal128(*map(int, type[8:-1].split(",")))
    return TYPES[type]


def case(text: str, types: str, *rows: tuple[Any, ...]) -> Case:
    return Case(text, tuple(types.split()), list(rows))


def day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def local(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


I32, I64 = 2**31 - 1, 2**63 - 1
NINES = D("9" * 38)

ARITHMETIC = [
    case("a + b", "INT INT", (1, 2, 3), (None, 1, None), (I32, 1, ERROR), (-I32, -2, ERROR), (-I32, -1, -I32 - 1)),
    case("a + b", "TINYINT TINYINT", (100, 27, 127), (100, 28, ERROR)),
    case("a + b", "INT BIGINT", (1, I64 - 1, I64), (1, I64, ERROR)),
    case("a + b", "DOUBLE DOUBLE", (0.1, 0.2, 0.1 + 0.2), (INF, -INF, NAN), (1e308, 1e308, INF), (None, 1.0, None)),
    case("a + b", "INT DOUBLE", (1, 0.5, 1.5)),
    case("a + b", "DECIMAL(10,2) DECIMAL(5,4)", (D("1.25"), D("0.0001"), D("1.2501")), (None, D(1), None)),
    case(
        "a + b",
        "DECIMAL(38,4) DECIMAL(38,11)",
        (D("1.5"), D("0.00000055555"), D("1.500001")),
        (D("-1.5"), D("-0.00000050000"), D("-1.500001")),
        (D("9" * 32 + ".9999"), D("0.9"), ERROR),
    ),
    case("a + 1", "DECIMAL(38,0)", (D(5), D(6)), (D(10**38 - 2), NINES), (NINES, ERROR)),
    case("a + b", "BIGINT DECIMAL(10,2)", (5, D("0.25"), D("5.25"))),
    case("a - b", "BIGINT BIGINT", (1, 2, -1), (-I64, 2, ERROR)),
    case(
        "a - b",
        "DECIMAL(38,2) DECIMAL(38,2)",
        (D("1.00"), D("2.50"), D("-1.50")),
        (D("-" + "9" * 36 + ".99"), D(1), ERROR),
    ),
    case("a * b", "BIGINT BIGINT", (3, -4, -12), (I64, 2, ERROR), (None, None, None)),
    case("a * b", "DOUBLE DOUBLE", (0.5, 4.0, 2.0), (INF, 0.0, NAN)),
    case("a * b", "DECIMAL(10,2) DECIMAL(10,2)", (D("1.25"), D("-1.25"), D("-1.5625"))),
    case(
        "a * b",
        "DECIMAL(38,4) DECIMAL(38,4)",
        (D("1234567890123456789012.3456"), D("1234567.8910"), D("1524157876406035777640603480.355130")),
        (D("0.0055"), D("0.0001"), D("0.000001")),
        (D("-0.0055"), D("0.0001"), D("-0.000001")),
        (D("0.0049"), D("0.0001"), D("0.000000")),
        (D("9" * 34), D(10), ERROR),
    ),
    case(
        "a / b",
        "INT INT",
        (7, 2, 3.5),
        (-1, 3, -1 / 3),
        (None, 0, None),
        (0, None, None),
        (1, 0, ERROR),
        (0, 0, ERROR),
    ),
    case("a / b", "DOUBLE DOUBLE", (1.0, 3.0, 1 / 3), (NAN, 1.0, NAN), (1.0, INF, 0.0), (1.0, -0.0, ERROR)),
    case(
        "a / b",
        "DECIMAL(10,2) DECIMAL(10,2)",
        (D(10), D(3), D("3.3333333333333")),
        (D(-10), D(6), D("-1.6666666666667")),
        (D(1), D(0), ERROR),
        (None, D(0), None),
    ),
    case(
        "a / b",
        "DECIMAL(38,4) DECIMAL(38,4)",
        (D(20), D(3), D("6.666667")),
        (D(-20), D(3), D("-6.666667")),
        (D(1), D("0.0001"), D("10000.000000")),
        (D("9" * 34), D("0.0001"), ERROR),
    ),
    case("a / b", "DECIMAL(20,2) BIGINT", (D("10.00"), 4, D("2.5"))),
    case("a DIV b", "INT INT", (7, 2, 3), (-7, 2, -3), (7, -2, -3), (7, 0, ERROR), (None, 0, None)),
    case("a DIV b", "BIGINT BIGINT", (-I64 - 1, -1, ERROR), (-I64 - 1, 1, -I64 - 1)),
    case("a DIV b", "DECIMAL(5,1) DECIMAL(5,2)", (D("7.5"), D("2.00"), 3), (D("-7.5"), D("2.00"), -3)),
    case("a DIV b", "DECIMAL(5,1) DECIMAL(5,2)", (D("7.5"), D("0.00"), ERROR), (None, D("0.00"), None)),
    case("a % b", "INT INT", (5, 3, 2), (-5, 3, -2), (5, -3, 2), (-5, -3, -2), (5, 0, ERROR), (None, 0, None)),
    case("a % b", "BIGINT BIGINT", (-I64 - 1, -1, 0), (I64, 10, 7)),
    case(
        "a % b",
        "DOUBLE DOUBLE",
        (-5.5, 2.0, -1.5),
        (5.0, INF, 5.0),
        (NAN, 2.0, NAN),
        (INF, 2.0, NAN),
        (5.0, 0.0, ERROR),
    ),
    case("a % b", "DECIMAL(3,1) DECIMAL(3,2)", (D("7.5"), D("-2.30"), D("0.60")), (D("-7.5"), D("2.00"), D("-1.50"))),
    case("a % b", "DECIMAL(38,10) DECIMAL(38,20)", (D(5), D("0.3"), D("0.2")), (D(5), D(0), ERROR)),
    case("MOD(a, b)", "INT INT", (-7, 2, -1)),
    case("-a", "INT", (5, -5), (None, None), (-I32 - 1, ERROR)),
    case("-a", "TINYINT", (-127, 127), (-128, ERROR)),
    case("-a", "DOUBLE", (1.5, -1.5), (NAN, NAN), (INF, -INF)),
    case("-a", "DECIMAL(38,1)", (D("1.5"), D("-1.5")), (None, None)),
    case("ABS(a)", "INT", (-5, 5), (None, None), (-I32 - 1, ERROR)),
    case("ABS(a)", "DOUBLE", (-INF, INF), (NAN, NAN), (-0.5, 0.5)),
    case("ABS(a)", "DECIMAL(5,2)", (D("-1.25"), D("1.25"))),
]

ROUNDING = [
    case(
        "ROUND(a, 2)",
        "DOUBLE",
        (2.675, 2.68),
        (-2.675, -2.68),
        (1.005, 1.01),
        (0.285, 0.29),
        (123456789012345.675, 123456789012345.67),
        (1e300, 1e300),
        (5e-324, 0.0),
        (NAN, NAN),
        (-INF, -INF),
        (None, None),
        (3.0, 3.0),
        (-0.004, 0.0),
    ),
    case(
        "ROUND(a)", "DOUBLE", (2.5, 3.0), (-2.5, -3.0), (0.49999999999999994, 0.0), (-0.5, -1.0), (1e15 + 0.5, 1e15 + 1)
    ),
    case("ROUND(a, 1)", "DOUBLE", (1e15 + 0.3, 1000000000000000.2), (1.15, 1.2)),
    case("ROUND(a, -2)", "DOUBLE", (1234.5, 1200.0), (-1250.0, -1300.0), (49.0, 0.0), (0.001, 0.0)),
    case("ROUND(a, -308)", "DOUBLE", (1e308, 1e308), (1.7e308, INF)),
    case("ROUND(a, 20)", "DOUBLE", (0.1, 0.1), (1e-21, 0.0)),
    case("ROUND(a, 2)", "FLOAT", (2.675, 2.6700000762939453), (1.25, 1.25)),
    case("ROUND(a, -1)", "INT", (25, 30), (-25, -30), (24, 20), (None, None), (I32, ERROR)),
    case("ROUND(a, -1)", "TINYINT", (124, 120), (125, ERROR)),
    case("ROUND(a, -2)", "BIGINT", (I64, 9223372036854775800), (-I64 - 1, -9223372036854775800)),
    case("ROUND(a, -19)", "BIGINT", (1, 0), (I64, ERROR)),
    case("ROUND(a, -20)", "INT", (25, 0)),
    case("ROUND(a, 3)", "INT", (25, 25)),
    case(
        "ROUND(a, 2)", "DECIMAL(6,3)", (D("2.345"), D("2.35")), (D("-2.345"), D("-2.35")), (D("999.995"), D("1000.00"))
    ),
    case("ROUND(a, 5)", "DECIMAL(6,3)", (D("2.345"), D("2.345"))),
    case("ROUND(a)", "DECIMAL(6,3)", (D("2.500"), D(3)), (D("-2.500"), D(-3)), (None, None)),
    case("ROUND(a, -2)", "DECIMAL(6,1)", (D("12345.6"), D(12300)), (D("-12350.0"), D(-12400))),
    case("ROUND(a, -7)", "DECIMAL(6,1)", (D("12345.6"), D(0))),
    case("CEIL(a)", "DOUBLE", (2.1, 3), (-2.9, -2), (-0.5, 0), (None, None), (NAN, 0), (1e300, ERROR), (INF, ERROR)),
    case("CEIL(a)", "INT", (5, 5)),
    case("CEIL(a)", "FLOAT", (2.5, 3)),
    case("CEIL(a)", "DECIMAL(3,1)", (D("-1.5"), D(-1)), (D("1.5"), D(2)), (D("99.9"), D(100)), (None, None)),
    case("CEIL(a)", "DECIMAL(38,0)", (NINES, NINES)),
    case("FLOOR(a)", "DOUBLE", (2.9, 2), (-2.1, -3), (-INF, ERROR), (-1e300, ERROR), (NAN, 0)),
    case("FLOOR(a)", "BIGINT", (I64, I64), (2**53 + 1, 2**53 + 1)),
    case("FLOOR(a)", "DECIMAL(3,1)", (D("-1.5"), D(-2)), (D("1.5"), D(1))),
]

MATHEMATICS = [
    case("SQRT(a)", "DOUBLE", (4.0, 2.0), (-1.0, NAN), (NAN, NAN), (INF, INF), (None, None)),
    case("SQRT(a)", "INT", (16, 4.0)),
    case("EXP(a)", "DOUBLE", (0.0, 1.0), (710.0, INF), (-INF, 0.0), (NAN, NAN)),
    case("LN(a)", "DOUBLE", (1.0, 0.0), (0.0, None), (-0.0, None), (-1.0, None), (NAN, NAN), (INF, INF), (None, None)),
    case("LOG10(a)", "DOUBLE", (1000.0, 3.0), (0.0, None), (NAN, NAN)),
    case("LOG2(a)", "DOUBLE", (8.0, 3.0), (-8.0, None), (NAN, NAN)),
    case(
        "POWER(a, b)",
        "DOUBLE DOUBLE",
        (2.0, 10.0, 1024.0),
        (-1.0, 0.5, NAN),
        (0.0, -1.0, INF),
        (10.0, 400.0, INF),
        (1.0, NAN, NAN),
        (NAN, 0.0, 1.0),
        (-1.0, INF, NAN),
        (1.0, -INF, NAN),
        (2.0, INF, INF),
        (None, NAN, None),
        (NAN, None, None),
    ),
    case("POW(a, 2)", "INT", (3, 9.0)),
    case("SIGN(a)", "DOUBLE", (-2.5, -1.0), (0.0, 0.0), (NAN, NAN), (INF, 1.0), (None, None)),
    case("SIGN(a)", "DECIMAL(3,1)", (D("1.5"), 1.0), (D("-1.5"), -1.0)),
    case("SIGNUM(a)", "INT", (-7, -1.0)),
]

COMPARISONS = [
    case("a = b", "DOUBLE DOUBLE", (NAN, NAN, True), (1.0, NAN, False), (-0.0, 0.0, True), (None, NAN, None)),
    case("a <> b", "DOUBLE DOUBLE", (NAN, NAN, False), (1.0, NAN, True), (NAN, None, None)),
    case("a < b", "DOUBLE DOUBLE", (INF, NAN, True), (NAN, INF, False), (NAN, NAN, False), (-0.0, 0.0, False)),
    case("a <= b", "DOUBLE DOUBLE", (NAN, NAN, True), (NAN, 1.0, False), (1.0, 1.0, True)),
    case("a > b", "DOUBLE DOUBLE", (NAN, 1e308, True), (NAN, NAN, False), (1.0, NAN, False), (2.0, 1.0, True)),
    case("a >= b", "FLOAT FLOAT", (NAN, NAN, True), (NAN, 1.0, True), (1.0, NAN, False)),
    case("a <=> b", "DOUBLE DOUBLE", (NAN, NAN, True), (None, None, True), (1.0, None, False), (1.0, 1.0, True)),
    case("a <=> b", "STRING STRING", ("a", "a", True), (None, "a", False)),
    case("a < b", "STRING STRING", ("Z", "a", True), ("a", "ä", True), ("a", "ab", True), (None, "a", None)),
    case("a > b", "BOOLEAN BOOLEAN", (True, False, True), (False, False, False), (None, True, None)),
    case("a = b", "DECIMAL(5,2) DECIMAL(5,1)", (D("1.10"), D("1.1"), True), (D("1.11"), D("1.1"), False)),
    case("a = b", "DECIMAL(10,2) BIGINT", (D("10.00"), 10, True), (D("10.01"), 10, False)),
    case("a = b", "INT DOUBLE", (1, 1.0, True), (1, 1.5, False)),
    case("a < b", "DATE TIMESTAMP", (day("2024-01-01"), utc("2024-01-01T00:00:01"), True)),
    case("a < b", "DATE DATE", (day("2024-01-01"), day("2024-01-02"), True)),
    case("a > '2024-01-01'", "TIMESTAMP", (utc("2024-01-01T00:00:01"), True), (utc("2024-01-01T00:00:00"), False)),
    case("a = '2024-01-05'", "DATE", (day("2024-01-05"), True), (None, None)),
    case("a > 9", "STRING", ("10", True), ("8", False), ("x", ERROR)),
    case("a = 1.5", "STRING", ("1.5", True), (" 1.50 ", True)),
    case("a IN (1, 2)", "INT", (1, True), (3, False), (None, None)),
    case("a IN (1, NULL)", "INT", (1, True), (3, None), (None, None)),
    case("a NOT IN (1, NULL)", "INT", (1, False), (3, None)),
    case("a IN (b, 1.0)", "DOUBLE DOUBLE", (NAN, NAN, True), (2.0, NAN, False)),
    case("a BETWEEN 1 AND 3", "INT", (1, True), (3, True), (0, False), (None, None)),
    case("a IS NULL", "DOUBLE", (None, True), (NAN, False), (1.0, False)),
    case("a IS NOT NULL", "STRING", (None, False), ("", True)),
    case("a IS TRUE", "BOOLEAN", (True, True), (None, False), (False, False)),
    case("ISNULL(a)", "INT", (None, True), (1, False)),
    case("ISNOTNULL(a)", "INT", (None, False), (1, True)),
    case("ISNAN(a)", "DOUBLE", (NAN, True), (None, False), (INF, False)),
    case("ISNAN(a)", "INT", (1, False)),
    case("NOT a", "BOOLEAN", (True, False), (False, True), (None, None)),
    case(
        "a AND b",
        "BOOLEAN BOOLEAN",
        (True, True, True),
        (True, None, None),
        (False, None, False),
        (None, False, False),
        (None, True, None),
        (None, None, None),
        (True, False, False),
    ),
    case(
        "a OR b",
        "BOOLEAN BOOLEAN",
        (False, False, False),
        (True, None, True),
        (None, True, True),
        (None, False, None),
        (False, True, True),
        (None, None, None),
    ),
    case("a = NULL", "INT", (1, None), (None, None)),
]

CONDITIONS = [
    case("a <> 0 AND 10 / a > 3", "INT", (0, False), (2, True), (5, False), (None, None)),
    case("10 / a > 3 AND a <> 0", "INT", (2, True), (0, ERROR)),
    case("a = 0 OR 10 / a > 3", "INT", (0, True), (2, True), (5, False)),
    case("b AND 10 / a > 3", "INT BOOLEAN", (0, False, False), (0, None, ERROR), (0, True, ERROR), (2, None, None)),
    case("CASE WHEN a = 0 THEN -1 ELSE 10 / a END", "INT", (0, -1.0), (4, 2.5), (None, None)),
    case(
        "CASE WHEN a > 1 THEN 'many' WHEN a = 1 THEN 'one' END", "INT", (5, "many"), (1, "one"), (0, None), (None, None)
    ),
    case("CASE a WHEN 1 THEN 'a' WHEN 3 THEN 'c' ELSE 'z' END", "INT", (1, "a"), (3, "c"), (2, "z"), (None, "z")),
    case("CASE WHEN a > 0 THEN b ELSE 0 END", "INT DECIMAL(5,2)", (1, D("1.25"), D("1.25")), (0, D(1), D(0))),
    case(
        "CASE WHEN a > 0 THEN NULL ELSE b END", "INT DATE", (0, day("2024-01-01"), day("2024-01-01")), (1, None, None)
    ),
    case("IF(a = 0, NULL, 1 / a)", "INT", (0, None), (4, 0.25), (None, None)),
    case("IF(a, 'yes', 'no')", "BOOLEAN", (True, "yes"), (False, "no"), (None, "no")),
    case("COALESCE(a, b, 0)", "INT INT", (1, 2, 1), (None, 2, 2), (None, None, 0)),
    case("COALESCE(a, 1 / b)", "DOUBLE INT", (1.5, 0, 1.5), (None, 4, 0.25), (None, 0, ERROR)),
    case("COALESCE(a, b)", "INT DECIMAL(5,2)", (1, None, D(1)), (None, D("0.25"), D("0.25")), (None, None, None)),
    case("NVL(a, 'x')", "STRING", (None, "x"), ("a", "a")),
    case("NULLIF(a, b)", "INT INT", (1, 1, None), (1, 2, 1), (1, None, 1), (None, 1, None)),
    case("NULLIF(a, b)", "DOUBLE DOUBLE", (NAN, NAN, None), (NAN, 1.0, NAN)),
    case("NULLIF(a, 1.5e0)", "BIGINT", (2**53 + 1, 2**53 + 1), (None, None)),
    case("NULLIF(a, 5.0)", "INT", (5, None), (6, 6)),
    case("100 / NULLIF(a, 0)", "INT", (0, None), (8, 12.5)),
    case("GREATEST(a, b, 3)", "INT INT", (1, 9, 9), (None, 1, 3), (None, None, 3)),
    case("GREATEST(a, b)", "DOUBLE DOUBLE", (1.0, NAN, NAN), (None, 1.0, 1.0), (None, None, None), (NAN, None, NAN)),
    case("LEAST(a, b)", "DOUBLE DOUBLE", (1.0, NAN, 1.0), (NAN, NAN, NAN), (2.0, None, 2.0)),
    case("GREATEST(a, b)", "STRING STRING", ("a", "B", "a"), (None, "B", "B")),
    case("LEAST(a, b)", "DATE DATE", (day("2024-01-01"), day("2023-01-01"), day("2023-01-01"))),
    case("GREATEST(a, 2.5)", "INT", (1, D("2.5")), (7, D("7.0"))),
    case("GREATEST(a, b)", "BOOLEAN BOOLEAN", (True, False, True)),
]

STRINGS = [
    case("a LIKE 'a%'", "STRING", ("abc", True), ("a", True), ("bac", False), (None, None), ("a\nb", True)),
    case("a LIKE 'a_c'", "STRING", ("abc", True), ("a\nc", True), ("ac", False), ("a😀c", True), ("ABC", False)),
    case("a LIKE 'a.c'", "STRING", ("a.c", True), ("abc", False)),
    case("a LIKE '(%)'", "STRING", ("(x)", True), ("()", True), ("(", False)),
    case(r"a LIKE 'a\\%c'", "STRING", ("a%c", True), ("abc", False)),
    case(r"a LIKE 'a\\\\c'", "STRING", ("a\\c", True), ("ac", False)),
    case(r"a LIKE 'a\\bc'", "STRING", ("abc", ERROR)),
    case(r"a LIKE 'abc\\'", "STRING", ("abc", ERROR)),
    case("a LIKE ''", "STRING", ("", True), ("a", False)),
    case("a LIKE NULL", "STRING", ("a", None), (None, None)),
    case("a NOT LIKE '%b%'", "STRING", ("abc", False), ("xyz", True), (None, None)),
    case("SUBSTRING(a, 2)", "STRING", ("hello", "ello"), ("h", ""), (None, None), ("häß😀x", "äß😀x")),
    case("SUBSTRING(a, 2, 3)", "STRING", ("hello", "ell"), ("häß😀x", "äß😀"), ("he", "e")),
    case("SUBSTRING(a, -3)", "STRING", ("hello", "llo"), ("he", "he")),
    case("SUBSTRING(a, -3, 2)", "STRING", ("hello", "ll"), ("he", "h"), ("", "")),
    case("SUBSTRING(a, -7, 3)", "STRING", ("hello", "h")),
    case("SUBSTRING(a, -7, 9)", "STRING", ("hello", "hello")),
    case("SUBSTRING(a, 0, 2)", "STRING", ("hello", "he")),
    case("SUBSTRING(a, 2, -1)", "STRING", ("hello", "")),
    case("SUBSTRING(a, b, c)", "STRING INT INT", ("hello", 2, 2, "el"), ("hello", -2, 9, "lo"), ("x", None, 1, None)),
    case("SUBSTRING(a, b, c)", "STRING INT INT", ("hello", 2, None, None), ("hello", 1, I32, "hello")),
    case("SUBSTR(a, 2, 2)", "INT", (12345, "23"), (None, None)),
    case("CONCAT(a, b)", "STRING STRING", ("a", "b", "ab"), ("a", None, None), ("", "", "")),
    case("a || '-' || b", "STRING INT", ("a", 1, "a-1"), (None, 1, None)),
    case("LENGTH(a)", "STRING", ("häß😀", 4), ("", 0), ("a  ", 3), (None, None)),
    case("CHAR_LENGTH(a)", "INT", (1234, 4)),
    case("TRIM(a)", "STRING", ("  a b  ", "a b"), ("\t a \n", "\t a \n"), (None, None)),
    case("UPPER(a)", "STRING", ("straße äé", "STRASSE ÄÉ"), ("abc", "ABC"), (None, None), ("ı", "I")),
    case("UPPER(a)", "STRING", ("abc", "ABC"), (None, None)),
    case("LOWER(a)", "STRING", ("ÄÉ ΑΣ ΑΣΑ", "äé ας ασα"), ("TITLE", "title")),
    case("LCASE(a)", "STRING", ("ABC", "abc")),
]

CASTS = [
    case(
        "CAST(a AS INT)",
        "DOUBLE",
        (2.9, 2),
        (-2.9, -2),
        (2147483647.9, I32),
        (-2147483648.9, -I32 - 1),
        (None, None),
        (2147483648.0, ERROR),
        (-2147483649.0, ERROR),
        (NAN, ERROR),
        (INF, ERROR),
    ),
    case("CAST(a AS BIGINT)", "DOUBLE", (2.0**63, I64), (-(2.0**63), -I64 - 1), (9.3e18, ERROR), (-INF, ERROR)),
    case("CAST(a AS TINYINT)", "DOUBLE", (127.9, 127), (128.0, ERROR)),
    case("CAST(a AS INT)", "FLOAT", (2.5, 2), (3e9, ERROR)),
    case("CAST(a AS TINYINT)", "INT", (127, 127), (-128, -128), (128, ERROR), (None, None)),
    case("CAST(a AS INT)", "BIGINT", (5, 5), (3_000_000_000, ERROR)),
    case("CAST(a AS BIGINT)", "INT", (-5, -5)),
    case("CAST(a AS INT)", "DECIMAL(12,1)", (D("2.9"), 2), (D("-2.9"), -2), (D("99999999999.5"), ERROR), (None, None)),
    case("CAST(a AS BIGINT)", "DECIMAL(38,0)", (D(I64), I64), (D(I64 + 1), ERROR)),
    case("CAST(a AS INT)", "BOOLEAN", (True, 1), (False, 0), (None, None)),
    case(
        "CAST(a AS INT)",
        "STRING",
        (" 12 ", 12),
        ("\t-12\n", -12),
        ("+12", 12),
        ("-0", 0),
        (None, None),
        *((bad, ERROR) for bad in ("abc", "", "1.5", "1e3", "0x10", "2147483648", "12L", "1_000", "٣", "- 1")),
    ),
    case("CAST(a AS DOUBLE)", "INT", (5, 5.0), (None, None)),
    case("CAST(a AS DOUBLE)", "BIGINT", (2**53 + 1, float(2**53))),
    case("CAST(a AS FLOAT)", "INT", (16777217, 16777216.0)),
    case("CAST(a AS FLOAT)", "DOUBLE", (0.1, 0.10000000149011612), (1e300, INF), (NAN, NAN)),
    case("CAST(a AS DOUBLE)", "DECIMAL(38,9)", (D("12345678901234567890.123456789"), 1.2345678901234567e19)),
    case("CAST(a AS DOUBLE)", "BOOLEAN", (True, 1.0)),
    case(
        "CAST(a AS DOUBLE)",
        "STRING",
        (".5", 0.5),
        ("5.", 5.0),
        (" 1.5e2 ", 150.0),
        ("1e400", INF),
        ("Infinity", INF),
        ("-inf", -INF),
        ("+inf", INF),
        ("nan", NAN),
        ("1d", 1.0),
        ("1F", 1.0),
        ("0x1p3", 8.0),
        *((bad, ERROR) for bad in ("1,5", "", "1_0", "e5", "abc")),
    ),
    case("CAST(a AS FLOAT)", "STRING", ("0.1", 0.10000000149011612), ("3.4e39", INF)),
    case(
        "CAST(a AS DECIMAL(3,2))",
        "DOUBLE",
        (2.345, D("2.35")),
        (-2.345, D("-2.35")),
        (2.675, D("2.68")),
        (NAN, None),
        (INF, None),
        (None, None),
        (9.995, ERROR),
    ),
    case("CAST(a AS DECIMAL(38,30))", "DOUBLE", (0.1, D("0.1")), (1e-40, D(0))),
    case("CAST(a AS DECIMAL(38,5))", "DOUBLE", (1e30, D(10**30)), (1e300, ERROR)),
    case("CAST(a AS DECIMAL(20,15))", "FLOAT", (0.1, D("0.100000001490116"))),
    case(
        "CAST(a AS DECIMAL(3,1))", "DECIMAL(4,2)", (D("99.94"), D("99.9")), (D("99.99"), ERROR), (D("-1.25"), D("-1.3"))
    ),
    case("CAST(a AS DECIMAL(38,6))", "DECIMAL(10,2)", (D("1.25"), D("1.250000"))),
    case("CAST(a AS DECIMAL(4,0))", "INT", (1234, D(1234)), (12345, ERROR)),
    case("CAST(a AS DECIMAL(3,1))", "BOOLEAN", (True, D("1.0"))),
    case(
        "CAST(a AS DECIMAL(3,1))",
        "STRING",
        ("1.55", D("1.6")),
        ("-1.55", D("-1.6")),
        (" 1e1 ", D("10.0")),
        ("1.", D("1.0")),
        (".5", D("0.5")),
        ("0e999999999", D(0)),
        *((bad, ERROR) for bad in ("100.5", "x", "", "NaN", "1_0", "1e99")),
    ),
    case("CAST(a AS BOOLEAN)", "INT", (2, True), (0, False), (None, None)),
    case("CAST(a AS BOOLEAN)", "DOUBLE", (NAN, True), (0.0, False), (0.5, True)),
    case("CAST(a AS BOOLEAN)", "DECIMAL(3,1)", (D("0.0"), False), (D("0.1"), True)),
    case(
        "CAST(a AS BOOLEAN)",
        "STRING",
        *((good, True) for good in ("t", "TRUE", "yes", "y", "1", " true ")),
        *((good, False) for good in ("f", "False", "no", "N", "0")),
        *((bad, ERROR) for bad in ("off", "on", "2", "")),
    ),
    case("CAST(a AS STRING)", "INT", (-12, "-12"), (None, None)),
    case("CAST(a AS STRING)", "BOOLEAN", (True, "true"), (False, "false")),
    case("CAST(a AS STRING)", "DECIMAL(38,18)", (D(0), "0." + "0" * 18), (D("-1.5"), "-1.5" + "0" * 17)),
    case("CAST(a AS STRING)", "DECIMAL(10,8)", (D("0.00000001"), "0.00000001")),
    case("CAST(a AS STRING)", "DATE", (day("2024-01-01"), "2024-01-01"), (day("0001-01-01"), "0001-01-01")),
    case(
        "CAST(a AS DATE)",
        "STRING",
        ("2024-02-29", day("2024-02-29")),
        (" 2024-2-9 ", day("2024-02-09")),
        ("2024", day("2024-01-01")),
        ("2024-03", day("2024-03-01")),
        ("2024-02-29T10:00", day("2024-02-29")),
        ("2024-02-29 foo", day("2024-02-29")),
        ("0001-01-01", day("0001-01-01")),
        (None, None),
        *(
            (bad, ERROR)
            for bad in ("2023-02-29", "2024-02-29foo", "20240229", "24-01-01", "", "2024-13-01", "2024-03 x")
        ),
    ),
    case("CAST(a AS DATE)", "TIMESTAMP", (utc("1969-12-31T23:59:59.999999"), day("1969-12-31")), (None, None)),
    case("CAST(a AS DATE)", "TIMESTAMP_NTZ", (local("2024-01-01T23:59:59"), day("2024-01-01"))),
    case(
        "CAST(a AS TIMESTAMP)",
        "STRING",
        ("2024-01-01 12:34:56.123456789", utc("2024-01-01T12:34:56.123456")),
        ("2024-01-01T12:34:56Z", utc("2024-01-01T12:34:56")),
        ("2024-01-01 12:34:56+02:00", utc("2024-01-01T10:34:56")),
        ("2024-01-01 12:34:56 Europe/Berlin", utc("2024-01-01T11:34:56")),
        ("2024-07-01 12:34:56 Europe/Berlin", utc("2024-07-01T10:34:56")),
        ("2024-01-01 12:34:56 UTC+3", utc("2024-01-01T09:34:56")),
        ("2024-01-01 12:34:56-0230", utc("2024-01-01T15:04:56")),
        ("2024-01-01 12:34:56+2", utc("2024-01-01T10:34:56")),
        ("2024-01-01 12", utc("2024-01-01T12:00:00")),
        ("2024-01-01 1:2:3", utc("2024-01-01T01:02:03")),
        ("2024-01-01 1:2:3.5", utc("2024-01-01T01:02:03.5")),
        ("2024", utc("2024-01-01T00:00:00")),
        (None, None),
        *((bad, ERROR) for bad in ("2024-01-01 25:00", "2024-01-01 24:00:00", "x", "2024-01-01 1:2:3 Nowhere/At", "")),
    ),
    case(
        "CAST(a AS TIMESTAMP_NTZ)",
        "STRING",
        ("2024-01-01 12:34:56.5", local("2024-01-01T12:34:56.5")),
        ("2024-01-01 12:34:56+02:00", local("2024-01-01T12:34:56")),
        ("2024-01-01", local("2024-01-01T00:00:00")),
        ("x", ERROR),
    ),
    case("CAST(a AS TIMESTAMP)", "DATE", (day("2024-01-01"), utc("2024-01-01T00:00:00")), (None, None)),
    case("CAST(a AS TIMESTAMP)", "TIMESTAMP_NTZ", (local("2024-01-01T23:59:59"), utc("2024-01-01T23:59:59"))),
    case("CAST(a AS TIMESTAMP_NTZ)", "TIMESTAMP", (utc("2024-01-01T23:59:59"), local("2024-01-01T23:59:59"))),
    case(
        "CAST(a AS BIGINT)", "TIMESTAMP", (utc("1969-12-31T23:59:59.5"), -1), (utc("2024-01-01T23:59:59.5"), 1704153599)
    ),
    case("CAST(a AS INT)", "TIMESTAMP", (utc("1969-12-31T23:59:59.5"), -1), (utc("2100-01-01T00:00:00"), ERROR)),
    case("CAST(a AS DOUBLE)", "TIMESTAMP", (utc("1969-12-31T23:59:59.5"), -0.5)),
    case("CAST(a AS DECIMAL(20,6))", "TIMESTAMP", (utc("2024-01-01T23:59:59.5"), D("1704153599.5"))),
    case("CAST(a AS DECIMAL(12,0))", "TIMESTAMP", (utc("2024-01-01T23:59:59.5"), D(1704153600))),
    case("CAST(a AS TIMESTAMP)", "INT", (1_700_000_000, utc("2023-11-14T22:13:20")), (None, None)),
    case(
        "CAST(a AS TIMESTAMP)",
        "DOUBLE",
        (-1.0000005, utc("1969-12-31T23:59:59")),
        (1.9999999, utc("1970-01-01T00:00:01.999999")),
    ),
    case("CAST(a AS TIMESTAMP)", "DOUBLE", (NAN, ERROR), (INF, ERROR), (None, None)),
    case("CAST(a AS TIMESTAMP)", "DECIMAL(8,7)", (D("-1.5000009"), utc("1969-12-31T23:59:58.5"))),
    case("TRY_CAST(a AS INT)", "STRING", ("12", 12), ("abc", None), (None, None)),
    case("TRY_CAST(a AS INT)", "DOUBLE", (2.9, 2), (3e9, None), (NAN, None)),
    case("TRY_CAST(a AS TINYINT)", "INT", (1, 1), (300, None)),
    case("TRY_CAST(a AS DECIMAL(3,1))", "DECIMAL(4,2)", (D("99.99"), None), (D("1.25"), D("1.3"))),
    case("TRY_CAST(a AS TIMESTAMP)", "STRING", ("x", None), ("2024", utc("2024-01-01T00:00:00"))),
    case("TRY_CAST(a AS DATE)", "STRING", ("2023-02-29", None)),
    case("TRY_CAST(1 / a AS INT)", "INT", (1, 1), (0, ERROR)),
]

TEXTS = [
    case("LTRIM(a)", "STRING", ("  x y ", "x y "), ("\t x", "\t x"), (None, None)),
    case("RTRIM(a)", "STRING", (" x y  ", " x y"), ("x \n", "x \n")),
    case(
        "LEFT(a, b)", "STRING INT", ("größe", 3, "grö"), ("ab", 0, ""), ("ab", -1, ""), ("ab", 9, "ab"), (None, 1, None)
    ),
    case(
        "RIGHT(a, b)",
        "STRING INT",
        ("größe", 3, "öße"),
        ("ab", 0, ""),
        ("ab", -1, ""),
        ("ab", 9, "ab"),
        ("a", None, None),
    ),
    case("REVERSE(a)", "STRING", ("größe😀", "😀eßörg"), ("", ""), (None, None)),
    case(
        "REPLACE(a, b, c)",
        "STRING STRING STRING",
        ("abab", "b", "x", "axax"),
        ("ab", "", "x", "ab"),
        ("a", "a", None, None),
    ),
    case("REPLACE(a, b)", "STRING STRING", ("abab", "b", "aa"), ("aaa", "aa", "a")),
    case(
        "SPLIT_PART(a, b, c)",
        "STRING STRING INT",
        ("10.0.0.7", ".", 4, "7"),
        ("10.0.0.7", ".", -1, "7"),
        ("10.0.0.7", ".", 5, ""),
        ("10.0.0.7", ".", -5, ""),
        ("a||b", "||", 2, "b"),
        ("ab", "", 1, "ab"),
        ("ab", "", 2, ""),
        (None, ".", 1, None),
        ("a.b", ".", 0, ERROR),
    ),
    case(
        "STARTSWITH(a, b)",
        "STRING STRING",
        ("abc", "ab", True),
        ("abc", "b", False),
        ("abc", "", True),
        (None, "a", None),
    ),
    case("ENDSWITH(a, b)", "STRING STRING", ("abc", "bc", True), ("abc", "b", False), ("abc", None, None)),
    case("CONTAINS(a, b)", "STRING STRING", ("abc", "b", True), ("abc", "x", False), ("abc", "", True)),
    case(
        "CONCAT_WS(a, b, c)",
        "STRING STRING STRING",
        ("-", "x", "y", "x-y"),
        ("-", None, "y", "y"),
        ("-", None, None, ""),
        (None, "x", "y", None),
        ("", "x", "y", "xy"),
    ),
    case("CONCAT_WS('/', a, b)", "INT DATE", (5, day("2024-02-29"), "5/2024-02-29")),
]

LATE, EARLY = utc("2024-08-29 23:58:59.999999"), utc("1969-12-31 01:02:03.5")
MOMENTS = [
    *(
        case(f"{function}(a)", "DATE", (day("2024-02-29"), leap), (day("1969-12-28"), before), (None, None))
        for function, leap, before in (
            ("YEAR", 2024, 1969),
            ("QUARTER", 1, 4),
            ("MONTH", 2, 12),
            ("DAY", 29, 28),
            ("DAYOFMONTH", 29, 28),
            ("DAYOFYEAR", 60, 362),
            ("DAYOFWEEK", 5, 1),
            ("WEEKDAY", 3, 6),
            ("WEEKOFYEAR", 9, 52),
        )
    ),
    *(
        case(
            f"{function}(a)",
            "TIMESTAMP",
            (utc("2024-02-29 23:58:59.999999"), late),
            (utc("1969-12-31 01:02:03.5"), early),
        )
        for function, late, early in (("HOUR", 23, 1), ("MINUTE", 58, 2), ("SECOND", 59, 3), ("YEAR", 2024, 1969))
    ),
    case("HOUR(a)", "TIMESTAMP_NTZ", (local("2024-02-29 23:58:59"), 23)),
    case(
        "DATEDIFF(a, b)",
        "DATE DATE",
        (day("2024-03-01"), day("2024-02-28"), 2),
        (day("1969-01-01"), day("1970-01-01"), -365),
    ),
    case(
        "DATEDIFF(a, b)",
        "TIMESTAMP DATE",
        (utc("2024-03-01 23:00:00"), day("2024-03-01"), 0),
        (None, day("2024-03-01"), None),
    ),
    *(
        case(
            f"DATE_TRUNC('{unit}', a)",
            "TIMESTAMP",
            (utc("2024-08-29 23:58:59.999999"), late),
            (utc("1969-12-31 01:02:03.5"), early),
        )
        for unit, late, early in (
            ("year", utc("2024-01-01 00:00:00"), utc("1969-01-01 00:00:00")),
            ("QUARTER", utc("2024-07-01 00:00:00"), utc("1969-10-01 00:00:00")),
            ("mon", utc("2024-08-01 00:00:00"), utc("1969-12-01 00:00:00")),
            ("week", utc("2024-08-26 00:00:00"), utc("1969-12-29 00:00:00")),
            ("DD", utc("2024-08-29 00:00:00"), utc("1969-12-31 00:00:00")),
            ("hour", utc("2024-08-29 23:00:00"), utc("1969-12-31 01:00:00")),
            ("minute", utc("2024-08-29 23:58:00"), utc("1969-12-31 01:02:00")),
            ("second", utc("2024-08-29 23:58:59"), utc("1969-12-31 01:02:03")),
            ("millisecond", utc("2024-08-29 23:58:59.999"), utc("1969-12-31 01:02:03.5")),
            ("fortnight", None, None),
        )
    ),
]

BITS = [
    case("a & b", "INT INT", (12, 10, 8), (-1, 5, 5), (None, 1, None)),
    case("a | b", "BIGINT INT", (12, 3, 15), (-I64 - 1, 1, -I64)),
    case("a ^ b", "TINYINT TINYINT", (12, 10, 6), (-1, 1, -2)),
    case("~a", "INT", (0, -1), (I32, -I32 - 1), (None, None)),
    case("a << b", "INT INT", (1, 31, -I32 - 1), (1, 33, 2), (3, -1, -I32 - 1), (None, 1, None)),
    case("SHIFTLEFT(a, b)", "BIGINT INT", (1, 33, 2**33), (1, 65, 2)),
    case("a >> b", "INT INT", (-8, 1, -4), (8, 35, 1)),
    case("SHIFTRIGHT(a, b)", "SMALLINT INT", (-8, 1, -4)),
    case("SHIFTRIGHTUNSIGNED(a, b)", "INT INT", (-8, 1, 2147483644), (-1, 0, -1), (5, None, None)),
    case("SHIFTRIGHTUNSIGNED(a, b)", "BIGINT INT", (-1, 63, 1), (-8, 1, 2**63 - 4)),
]

TRIED = [
    case("TRY_DIVIDE(a, b)", "INT INT", (7, 2, 3.5), (1, 0, None), (0, 0, None), (None, 0, None)),
    case("TRY_DIVIDE(a, b)", "DOUBLE DOUBLE", (1.0, 4.0, 0.25), (1.0, 0.0, None), (NAN, 1.0, NAN)),
    case("TRY_DIVIDE(a, b)", "DECIMAL(10,2) DECIMAL(10,2)", (D(10), D(4), D("2.5")), (D(1), D(0), None)),
    case("TRY_ADD(a, b)", "INT INT", (1, 2, 3), (I32, 1, None), (None, 1, None)),
    case("TRY_ADD(a, 1)", "DECIMAL(38,0)", (D(5), D(6)), (NINES, None)),
    case("TRY_SUBTRACT(a, b)", "BIGINT BIGINT", (1, 2, -1), (-I64, 2, None)),
    case("TRY_MULTIPLY(a, b)", "BIGINT BIGINT", (3, -4, -12), (I64, 2, None)),
    case("TRY_MOD(a, b)", "INT INT", (-7, 2, -1), (7, 0, None)),
    case("TRY_ADD(1 / a, b)", "INT DOUBLE", (2, 0.5, 1.0), (0, 1.0, ERROR)),
    case("NEGATIVE(a)", "INT", (3, -3), (-I32 - 1, ERROR)),
    case("EQUAL_NULL(a, b)", "INT BIGINT", (1, 1, True), (None, None, True), (None, 1, False)),
]

PATTERNS = [
    case("a RLIKE '^10\\\\.'", "STRING", ("10.0.0.1", True), ("110.0", False), ("1010", False), (None, None)),
    case("REGEXP_LIKE(a, '(x|yz)+$')", "STRING", ("ayzx", True), ("xa", False), ("", False)),
    case("REGEXP(a, r'^.$')", "STRING", ("ü", True), ("ab", False), ("", False)),
    case("RLIKE(a, r'a.c')", "STRING", ("abc", True), ("a\nc", False), ("a\u2028c", False), ("a\rc", False)),
    case(
        "a RLIKE r'^\\s\\S\\d\\D\\w\\W$'", "STRING", ("\x0bx1x_-", True), ("\xa0x1x_-", False), (" x\u0661x_-", False)
    ),
    case("a RLIKE r'^[^a-c.]{2,3}?$'", "STRING", ("xy", True), ("x\n.", False), ("abc", False)),
    case("a NOT RLIKE 'b'", "STRING", ("abc", False), ("xyz", True), (None, None)),
    case(
        "REGEXP_EXTRACT(a, r'(\\d+)-(\\d+)', 2)",
        "STRING",
        ("100-200 300-400", "200"),
        ("none", ""),
        ("", ""),
        (None, None),
    ),
    case("REGEXP_EXTRACT(a, r'([a-z]+?)(\\d*)')", "STRING", ("ab12", "a"), ("ÄÖx1", "x")),
    case("REGEXP_EXTRACT(a, '(x)|(y)', 1)", "STRING", ("y", ""), ("x", "x")),
    case("REGEXP_EXTRACT(a, r'[^/]+', 0)", "STRING", ("/usr/lib", "usr"), ("//", "")),
    case("REGEXP_SUBSTR(a, r'[aeiou]{2}')", "STRING", ("queue", "ue"), ("rhythm", None), (None, None)),
    case("REGEXP_REPLACE(a, r'\\s+', ' ')", "STRING", ("a \t\n\x0b b", "a b"), ("ab", "ab"), (None, None)),
    case(
        "REGEXP_REPLACE(a, r'(\\w+)@(\\w+)', r'$2\\$ at \\\\$1')",
        "STRING",
        ("me@here, you@there", "here$ at \\me, there$ at \\you"),
    ),
    case("REGEXP_REPLACE(a, '[.]', '')", "STRING", ("1.2.3", "123"), ("", "")),
    case("REGEXP_REPLACE(a, 'aa', 'b')", "STRING", ("aaaaa", "bba")),
]

TEXTS_OF_NUMBERS = [
    case(
        "FORMAT_NUMBER(a, b)",
        "DOUBLE INT",
        (12332.123456, 4, "12,332.1235"),
        (0.125, 2, "0.12"),
        (0.375, 2, "0.38"),
        (0.15, 1, "0.1"),
        (2.5, 0, "2"),
        (-1234567.5, 0, "-1,234,568"),
        (-0.001, 2, "-0.00"),
        (123456789012.345, 3, "123,456,789,012.345"),
        (0.0, 14, "0.00000000000000"),
        (1e-300, 3, "0.000"),
        (NAN, 2, "NaN"),
        (INF, 2, "∞"),
        (-INF, 2, "-∞"),
        (1.0, -1, None),
        (None, 1, None),
        (1.0, None, None),
    ),
    case("FORMAT_NUMBER(a, 2)", "FLOAT", (0.1, "0.10"), (16777216.0, "16,777,216.00")),
    case("FORMAT_NUMBER(a, 1)", "BIGINT", (I64, "9,223,372,036,854,775,807.0"), (-5, "-5.0")),
    case("FORMAT_NUMBER(a, 1)", "DECIMAL(10,2)", (D("1234.25"), "1,234.2"), (D("-0.35"), "-0.4"), (D("0.05"), "0.0")),
]

MORE_TEXTS = [
    case(
        "LPAD(a, b, c)",
        "STRING INT STRING",
        ("hi", 5, "ab", "abahi"),
        ("hi", 1, "x", "h"),
        ("hi", -1, "x", ""),
        ("hi", 9, "", "hi"),
        (None, 1, "x", None),
    ),
    case(
        "RPAD(a, b, c)",
        "STRING INT STRING",
        ("hi", 5, "ab", "hiaba"),
        ("größe", 3, "x", "grö"),
        ("", 2, "xyz", "xy"),
        ("a", 2, None, None),
    ),
    case("LPAD(a, 4)", "STRING", ("ab", "  ab"), ("😀", "   😀")),
    case("RPAD(a, 4)", "INT", (17, "17  ")),
    case("REPEAT(a, b)", "STRING INT", ("ab", 3, "ababab"), ("ab", 0, ""), ("ab", -1, ""), (None, 2, None)),
    case("INSTR(a, b)", "STRING STRING", ("größe", "ß", 4), ("abc", "x", 0), ("abc", "", 1), (None, "a", None)),
    case("LOCATE(a, b)", "STRING STRING", ("b", "abcb", 2), ("", "abc", 1), ("x", None, None)),
    case(
        "LOCATE(a, b, c)",
        "STRING STRING INT",
        ("b", "abcb", 3, 4),
        ("b", "abcb", 0, 0),
        ("b", "abcb", -1, 0),
        ("b", "abcb", 9, 0),
        ("", "abc", 9, 1),
        ("b", "abcb", None, 0),
        (None, "a", 1, None),
    ),
    case("POSITION(a, b)", "STRING STRING", ("c", "abc", 3)),
    case(
        "SUBSTRING_INDEX(a, b, c)",
        "STRING STRING INT",
        ("www.spark.org", ".", 2, "www.spark"),
        ("www.spark.org", ".", -2, "spark.org"),
        ("a", ".", 1, "a"),
        ("a.b", ".", 0, ""),
        ("a.b", "", 1, ""),
        ("aaaa", "aa", 2, "a"),
        ("aaaa", "aa", -2, "a"),
        ("aaaaa", "aa", -2, "a"),
        ("a", "abc", -1, "a"),
    ),
    case(
        "TRANSLATE(a, b, c)",
        "STRING STRING STRING",
        ("AaBbCc", "abc", "123", "A1B2C3"),
        ("hello", "lo", "0", "he00"),
        ("aa", "aa", "xy", "xx"),
        ("a", "a", None, None),
    ),
    case("LEN(a)", "STRING", ("größe", 5)),
]

DAYS = [
    case(
        "DATE_ADD(a, b)",
        "DATE INT",
        (day("2024-02-28"), 2, day("2024-03-01")),
        (day("2024-03-01"), -1, day("2024-02-29")),
        (None, 1, None),
    ),
    case("DATEADD(a, 1)", "TIMESTAMP", (utc("2024-12-31 23:59:59"), day("2025-01-01"))),
    case(
        "DATE_SUB(a, b)",
        "DATE INT",
        (day("2024-03-01"), 1, day("2024-02-29")),
        (day("1970-01-01"), 1, day("1969-12-31")),
        (day("2024-01-01"), None, None),
    ),
    case(
        "ADD_MONTHS(a, b)",
        "DATE INT",
        (day("2024-01-31"), 1, day("2024-02-29")),
        (day("2024-02-29"), 12, day("2025-02-28")),
        (day("2024-02-29"), 1, day("2024-03-29")),
        (day("1969-03-31"), -1, day("1969-02-28")),
        (None, 1, None),
    ),
    case(
        "LAST_DAY(a)",
        "DATE",
        (day("2024-02-01"), day("2024-02-29")),
        (day("1969-12-31"), day("1969-12-31")),
        (None, None),
    ),
    *(
        case(f"TRUNC(a, '{unit}')", "DATE", (day("2024-08-29"), late), (None, None))
        for unit, late in (
            ("year", day("2024-01-01")),
            ("Q", None),
            ("QUARTER", day("2024-07-01")),
            ("mm", day("2024-08-01")),
            ("week", day("2024-08-26")),
            ("DAY", None),
            ("hour", None),
        )
    ),
    case("UNIX_DATE(a)", "DATE", (day("1970-01-02"), 1), (day("1969-12-31"), -1)),
    case("DATE_FROM_UNIX_DATE(a)", "INT", (1, day("1970-01-02")), (None, None)),
    *(
        case(f"{function}(a)", "TIMESTAMP", (LATE, late), (utc("1969-12-31 23:59:59.5"), early), (None, None))
        for function, late, early in (
            ("UNIX_SECONDS", 1724975939, -1),
            ("UNIX_MILLIS", 1724975939999, -500),
            ("UNIX_MICROS", 1724975939999999, -500000),
            ("UNIX_TIMESTAMP", 1724975939, 0),
            ("TO_UNIX_TIMESTAMP", 1724975939, 0),
        )
    ),
    case("UNIX_TIMESTAMP(a)", "DATE", (day("1970-01-02"), 86400)),
    case("TO_DATE(a)", "STRING", ("2024-02-29", day("2024-02-29")), ("x", ERROR)),
    case("TO_DATE(a)", "TIMESTAMP", (LATE, day("2024-08-29"))),
    case("TO_TIMESTAMP(a)", "STRING", ("2024-02-29 01:02:03.5", utc("2024-02-29 01:02:03.5")), (None, None)),
    *(
        case(f"EXTRACT({field} FROM a)", "TIMESTAMP", (LATE, late), (EARLY, early), (None, None))
        for field, late, early in (
            ("YEAR", 2024, 1969),
            ("QUARTER", 3, 4),
            ("MONTH", 8, 12),
            ("WEEK", 35, 1),
            ("DAY", 29, 31),
            ("DAYOFWEEK", 5, 4),
            ("DOW", 5, 4),
            ("DOY", 242, 365),
            ("HOUR", 23, 1),
            ("MINUTE", 58, 2),
            ("SECOND", D("59.999999"), D("3.5")),
        )
    ),
    case("EXTRACT(WEEK FROM a)", "DATE", (day("2024-02-29"), 9)),
    case("EXTRACT(SECOND FROM a)", "TIMESTAMP_NTZ", (local("2024-02-29 00:00:07.25"), D("7.25"))),
]

FORMATTED = [
    *(
        case(f"DATE_FORMAT(a, '{pattern}')", "TIMESTAMP", (LATE, late), (EARLY, early), (None, None))
        for pattern, late, early in (
            ("yyyy-MM-dd HH:mm:ss", "2024-08-29 23:58:59", "1969-12-31 01:02:03"),
            ("yyyy-MM-dd\\'T\\'HH:mm:ss.SSSXXX", "2024-08-29T23:58:59.999Z", "1969-12-31T01:02:03.500Z"),
            ("yy y M d H h m s", "24 2024 8 29 23 11 58 59", "69 1969 12 31 1 1 2 3"),
            ("EEE, MMM dd; EEEE, MMMM", "Thu, Aug 29; Thursday, August", "Wed, Dec 31; Wednesday, December"),
            ("hh:mm a Q QQ D DDD", "11:58 PM 3 03 242 242", "01:02 AM 4 04 365 365"),
            ("S SS SSSSSS SSSSSSSSS", "9 99 999999 999999000", "5 50 500000 500000000"),
            ("\\'at\\'\\'s\\' \\'\\'", "at's '", "at's '"),
        )
    ),
    case(
        "DATE_FORMAT(a, 'hh a')",
        "TIMESTAMP",
        (utc("2024-01-01 00:00:00"), "12 AM"),
        (utc("2024-01-01 12:30:00"), "12 PM"),
    ),
    case("DATE_FORMAT(a, 'yyyy/DDD X')", "DATE", (day("0099-02-01"), "0099/032 Z"), (day("9999-12-31"), "9999/365 Z")),
    case("DATE_FORMAT(a, 'HH:mm')", "TIMESTAMP_NTZ", (local("2024-01-01 07:05:00"), "07:05")),
    case("FROM_UNIXTIME(a)", "BIGINT", (0, "1970-01-01 00:00:00"), (-1, "1969-12-31 23:59:59"), (None, None)),
    case("FROM_UNIXTIME(a, 'yyyy')", "INT", (1_700_000_000, "2023")),
    case(
        "CAST(a AS STRING)",
        "TIMESTAMP",
        (LATE, "2024-08-29 23:58:59.999999"),
        (EARLY, "1969-12-31 01:02:03.5"),
        (utc("2024-01-01 00:00:00"), "2024-01-01 00:00:00"),
        (utc("0001-01-01 00:00:00.00001"), "0001-01-01 00:00:00.00001"),
        (None, None),
    ),
    case("CAST(a AS STRING)", "TIMESTAMP_NTZ", (local("2024-08-29 23:58:59.120"), "2024-08-29 23:58:59.12")),
    case("CONCAT('at ', a)", "TIMESTAMP", (utc("2024-01-01 00:00:00"), "at 2024-01-01 00:00:00")),
]

CASES = [
    *(*ARITHMETIC, *BITS, *TRIED, *PATTERNS, *TEXTS_OF_NUMBERS, *MORE_TEXTS, *DAYS, *FORMATTED),
    *ROUNDING,
    *MATHEMATICS,
    *COMPARISONS,
    *CONDITIONS,
    *STRINGS,
    *TEXTS,
    *MOMENTS,
    *CASTS,
]
