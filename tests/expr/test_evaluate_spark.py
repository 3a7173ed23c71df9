"""Spark itself yields what the table of cases says: all values in one job, errors one by one.

A CAST that fails is NULL as a TRY_CAST, so that its bad values can be asked for in the one job too.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from sash.sql.strings import quote
from sash.sql.types import spark_name
from tests.expr.expression_cases import CASES, ERROR, Case
from tests.expr.test_evaluate import label, same

pytestmark = pytest.mark.spark

TOLERANT = [
    Case(f"TRY_{case.text}", case.types, [(*row[:-1], None) for row in case.bad])
    for case in CASES
    if case.text.startswith("CAST(a AS ") and case.bad
]
RAISING = [
    (case, row) for case in CASES if not case.text.startswith("CAST(a AS ") for row in case.rows if row[-1] is ERROR
]
ASKED = [*CASES, *TOLERANT]


def text_over(case: Case, number: int) -> str:
    """The case's text over the columns of its number; strings are left alone."""
    parts = re.split(r"('(?:[^'\\]|\\.)*')", case.text)
    return "".join(part if i % 2 else re.sub(r"\b([abc])\b", rf"c{number}_\1", part) for i, part in enumerate(parts))


def inputs() -> pa.Table:
    """Every case's columns side by side; rows that a case does not have are NULL."""
    longest = max(len(case.good) for case in ASKED)
    columns: dict[str, pa.Array] = {"_row": pa.array(range(longest), pa.int32())}
    for number, case in enumerate(ASKED):
        for field, column in zip(case.schema, case.inputs(case.good).columns, strict=True):
            padding = pa.nulls(longest - len(column), field.type)
            columns[f"c{number}_{field.name}"] = pa.concat_arrays([*column.chunks, padding])
    return pa.table(columns)


@pytest.fixture(scope="module")
def answers(spark: Any) -> pa.Table:
    texts = [f"{text_over(case, number)} AS v{number}" for number, case in enumerate(ASKED)]
    spark.createDataFrame(inputs()).createOrReplaceTempView("inputs")
    return spark.sql(f"SELECT {', '.join(texts)} FROM inputs ORDER BY _row").toArrow()


@pytest.mark.parametrize("number", range(len(ASKED)), ids=lambda number: label(ASKED[number]))
def test_values(answers: pa.Table, number: int) -> None:
    case = ASKED[number]
    theirs = answers[f"v{number}"]
    assert spark_name(theirs.type) == spark_name(case.bound[0].type)
    for row, value in zip(case.good, theirs.to_pylist()[: len(case.good)], strict=True):
        assert same(value, row[-1]), (row, value)


@pytest.mark.parametrize(
    ("case", "row"), RAISING, ids=lambda part: label(part) if isinstance(part, Case) else str(part)
)
def test_errors(spark: Any, case: Case, row: tuple[Any, ...]) -> None:
    columns = [
        f"CAST({'NULL' if value is None else quote(str(value))} AS {spark_name(field.type)}) AS {field.name}"
        for field, value in zip(case.schema, row[:-1], strict=True)
    ]
    with pytest.raises(Exception, match=r"SQLSTATE: (22|42601)"):
        spark.sql(f"SELECT {case.text} AS v FROM (SELECT {', '.join(columns)})").collect()
