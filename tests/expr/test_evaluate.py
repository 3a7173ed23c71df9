"""The evaluator against the table of cases; `test_evaluate_spark` holds Spark to the same table."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from sash.core.errors import QueryFailedError
from sash.expr.evaluate import FUNCTIONS, LAZY, evaluate
from sash.plan.expressions import Call, Expression, Field, Literal
from sash.sql.expressions.answer_terms import EVALUATED_BY
from tests.expr.expression_cases import CASES, Case

TOO_LATE = 253_402_300_800_000_000  # the first microsecond of the year 10000


def run(case: Case, rows: list[tuple[Any, ...]]) -> pa.Array:
    expression, names = case.bound
    columns = case.inputs(rows).columns
    fields = {name: column.combine_chunks() for name, column in zip(names, columns, strict=True)}
    return evaluate(expression, fields, len(rows))


def same(ours: Any, expected: Any) -> bool:
    if isinstance(ours, float) and isinstance(expected, float):
        return (math.isnan(ours) and math.isnan(expected)) or math.isclose(ours, expected, rel_tol=1e-12)
    return type(ours) is type(expected) and ours == expected


def label(case: Case) -> str:
    return f"{case.text}-{'-'.join(case.types)}"


@pytest.mark.parametrize("case", CASES, ids=label)
def test_values(case: Case) -> None:
    expression, _ = case.bound
    ours = run(case, case.good)
    assert isinstance(ours, pa.Array) and ours.type == expression.type
    ours.validate(full=True)
    for row, value in zip(case.good, ours.to_pylist(), strict=True):
        assert same(value, row[-1]), (row, value)


@pytest.mark.parametrize("case", [case for case in CASES if case.bad], ids=label)
def test_errors(case: Case) -> None:
    for row in case.bad:
        with pytest.raises(QueryFailedError):
            run(case, [row])
        with pytest.raises(QueryFailedError):
            run(case, [*case.good, row])


@pytest.mark.parametrize("case", CASES, ids=label)
def test_no_rows(case: Case) -> None:
    expression, _ = case.bound
    assert run(case, []).type == expression.type


@pytest.mark.parametrize("case", [case for case in CASES if case.good], ids=label)
def test_slices(case: Case) -> None:
    """Columns that are slices of longer ones: an offset into their buffers."""
    expression, names = case.bound
    padded = case.inputs([case.good[0], *case.good]).columns
    fields = {name: column.combine_chunks()[1:] for name, column in zip(names, padded, strict=True)}
    ours = evaluate(expression, fields, len(case.good)).to_pylist()
    assert all(same(value, row[-1]) for value, row in zip(ours, case.good, strict=True))


def functions_in(expression: Expression) -> set[str]:
    if not isinstance(expression, Call):
        return set()
    return {expression.function}.union(*(functions_in(argument) for argument in expression.arguments))


def test_every_function_has_a_case() -> None:
    tested = set().union(*(functions_in(case.bound[0]) for case in CASES))
    assert tested == FUNCTIONS.keys() | LAZY.keys()


def test_the_binder_knows_the_same_vocabulary() -> None:
    assert set(EVALUATED_BY.values()) == FUNCTIONS.keys() | LAZY.keys()


def test_a_constant_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = FUNCTIONS["divide"]

    def counting(type: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
        seen.append(len(left))
        return real(type, left, right)

    monkeypatch.setitem(FUNCTIONS, "divide", counting)
    third = Call("divide", (Literal(1.0, pa.float64()), Literal(4.0, pa.float64())), pa.float64())
    assert evaluate(third, {}, 1000).to_pylist() == [0.25] * 1000
    assert seen == [1]


def test_an_error_names_the_expression() -> None:
    ratio = Call("divide", (Field("total", pa.float64()), Field("n", pa.float64())), pa.float64())
    with pytest.raises(QueryFailedError, match=r"divide\(total, n\): division by zero"):
        evaluate(ratio, {"total": pa.array([1.0]), "n": pa.array([0.0])}, 1)


def test_a_bad_cast_names_the_value() -> None:
    number = Call("cast", (Field("name", pa.string()),), pa.int32())
    with pytest.raises(QueryFailedError, match="'x1' cannot be cast to INT"):
        evaluate(number, {"name": pa.array(["1", "x1"])}, 2)


@pytest.mark.parametrize(
    ("function", "values", "constants", "reason"),
    [
        ("format_number", [1e15], (1,), "more than 15 digits"),
        ("date_format", [TOO_LATE], ("yyyy",), "the years 1 to 9999"),
        ("rlike", ["a", "a\n"], ("a$",), "ends with a line break"),
        ("regexp_replace", ["a\u2028"], ("a$", ""), "ends with a line break"),
    ],
)
def test_what_spark_would_write_in_its_own_way(
    function: str, values: list[Any], constants: tuple[Any, ...], reason: str
) -> None:
    """An error instead of another answer than Spark's."""
    column = pa.array(values) if function != "date_format" else pa.array(values).cast(pa.timestamp("us", "UTC"))
    arguments = (Field("x", column.type), *(Literal(each, pa.scalar(each).type) for each in constants))
    with pytest.raises(QueryFailedError, match=reason):
        evaluate(Call(function, arguments, pa.string()), {"x": column}, len(values))


def test_patterns_are_linear_in_the_text() -> None:
    """Java and Python would go on for years."""
    call = Call("rlike", (Field("x", pa.string()), Literal("^(a+)+$", pa.string())), pa.bool_())
    assert evaluate(call, {"x": pa.array(["a" * 10_000 + "b"])}, 1).to_pylist() == [False]


def test_nulls_without_a_type() -> None:
    null = Literal(None, pa.null())
    assert evaluate(Call("eq", (null, null), pa.bool_()), {}, 2).to_pylist() == [None, None]
    assert evaluate(Call("null_safe_eq", (null, null), pa.bool_()), {}, 1).to_pylist() == [True]
    assert evaluate(Call("coalesce", (null, null), pa.null()), {}, 2).to_pylist() == [None, None]
    assert evaluate(Call("case", (Literal(True, pa.bool_()), null, null), pa.null()), {}, 1).to_pylist() == [None]
