"""A WHERE over rows in memory: which rows it keeps, as in Spark.

The test is the normal form of the WHERE. All its atoms must compare a column with a constant, by one vector operation
per atom. Anything else (a function, two columns, a comparison in which a value is rounded) is left to Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sash.expr import FUNCTIONS
from sash.plan.expressions import RowExpression, column_of
from sash.plan.predicates import Atom, Constant, Disjunction

_COMPARED = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
# Every BIGINT is one of these.
_WIDE = pa.decimal128(20, 0)

# A column of booleans without NULL.
_Test = Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class RowPredicate:
    """Which rows of a table a WHERE keeps."""

    terms: Disjunction
    tests: Mapping[Atom, _Test]

    def kept(self, rows: pa.Table) -> pa.Array:
        found = {atom: test(rows) for atom, test in self.tests.items()}
        nothing, everything = (pa.repeat(pa.scalar(value), len(rows)) for value in (False, True))
        terms = [reduce(pc.and_, [found[atom] for atom in term], everything) for term in self.terms.terms]
        return reduce(pc.or_, terms, nothing)


def row_predicate(predicate: RowExpression, schema: pa.Schema) -> RowPredicate | None:
    """The predicate; None if only Spark can test it.

    >>> from sash.plan.predicates import only
    >>> where = RowExpression("length > 100", pa.bool_(), ("length",), only(Atom("length", ">", 100)))
    >>> rows = pa.table({"length": pa.array([60, None, 1500], pa.int32())})
    >>> rows.filter(row_predicate(where, rows.schema).kept(rows))["length"].to_pylist()
    [1500]
    """
    if predicate.terms is None:
        return None
    atoms = frozenset[Atom]().union(*predicate.terms.terms)
    tests = {atom: test for atom in atoms if (test := _test(atom, schema)) is not None}
    return RowPredicate(predicate.terms, tests) if len(tests) == len(atoms) else None


def _test(atom: Atom, schema: pa.Schema) -> _Test | None:
    name = column_of(atom.subject, schema.names)
    if name is None:
        return None
    if atom.constant is None:
        is_null = atom.op == "IS NULL"
        return lambda rows: rows[name].combine_chunks().is_null() if is_null else rows[name].combine_chunks().is_valid()
    type = _compared_as(schema.field(name).type, atom.constant)
    if type is None:
        return None
    constant, compare = pa.scalar(atom.constant, type), FUNCTIONS[_COMPARED[atom.op]]

    def test(rows: pa.Table) -> pa.Array:
        return compare(pa.bool_(), rows[name].combine_chunks().cast(type), constant).fill_null(False)

    return test


def _compared_as(column: pa.DataType, constant: Constant) -> pa.DataType | None:
    """The type in which a column and a constant are compared exactly; None if Spark must compare them."""
    match constant:
        case bool():
            return column if pt.is_boolean(column) else None
        case int():
            return pa.int64() if pt.is_integer(column) else None
        case float():
            is_exact = pt.is_floating(column) or (pt.is_integer(column) and column.bit_width < 64)
            return pa.float64() if is_exact and not math.isnan(constant) else None
        case Decimal():
            return _common_decimal(_WIDE if pt.is_integer(column) else column, constant)
        case str():
            return column if pt.is_string(column) else None
        case bytes():
            return column if pt.is_binary(column) else None
        case datetime():
            has_zone = pt.is_timestamp(column) and column.tz is not None
            return column if pt.is_timestamp(column) and has_zone == (constant.tzinfo is not None) else None
        case date():
            return column if pt.is_date32(column) else None
    return None


def _common_decimal(column: pa.DataType, constant: Decimal) -> pa.DataType | None:
    """Wide enough for both."""
    if not pt.is_decimal128(column) or not constant.is_finite():
        return None
    exact = pa.scalar(constant).type
    scale = max(column.scale, exact.scale)
    precision = scale + max(column.precision - column.scale, exact.precision - exact.scale)
    return pa.decimal128(precision, scale) if precision <= 38 else None
