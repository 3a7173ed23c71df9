"""The disjunctive normal form of a WHERE (thesis 8.3.3), from its typed term.

NOT is pushed inward (De Morgan holds in SQL's three-valued logic), IN becomes equalities, BETWEEN two bounds, and AND
is distributed over OR. The remaining conditions must be true, so NULL and false are the same below.

A comparison is an atom if bringing its subject to the type in which Spark compares loses nothing. Otherwise two values
of the subject could count as one there and as two elsewhere (BIGINT against DOUBLE), and it stays an opaque condition.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from sash.plan.predicates import EVERYTHING, NOTHING, Atom, Constant, Disjunction, all_of, any_of, only, opaque
from sash.sql.expressions.coercion import as_decimal, common_type, is_integer
from sash.sql.expressions.constants import constant_of
from sash.sql.expressions.terms import SYMBOLS, Term, render

_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_NULL_TESTS = {"is_null": ("IS NULL", "IS NOT NULL"), "is_not_null": ("IS NOT NULL", "IS NULL")}


def normal_form(term: Term, *, negated: bool = False) -> Disjunction | None:
    """When the term (or its negation) is true; None if that takes too many terms."""
    if term.op == "not":
        return normal_form(term.args[0], negated=not negated)
    if term.op in ("and", "or"):
        parts = [normal_form(part, negated=negated) for part in term.args]
        return any_of(parts) if (term.op == "or") is not negated else all_of(parts)
    if term.op == "in":
        return _in(term, negated)
    if term.op == "between":
        return _between(term, negated)
    return _leaf(term, negated)


def _leaf(term: Term, negated: bool) -> Disjunction | None:
    if term.op in _OPPOSITE:
        meant = replace(term, op=_OPPOSITE[term.op]) if negated else term
        compared = _comparison(meant.op, meant.args[0], meant.args[1], meant.coerced[0])
        return opaque(render(meant)) if compared is None else compared
    if term.op == "null_safe_eq":
        return _null_safe(term, negated)
    if term.op in _NULL_TESTS:
        return only(Atom(render(term.args[0]), _NULL_TESTS[term.op][negated]))
    if term.op == "literal":
        return EVERYTHING if term.value is not None and bool(term.value) is not negated else NOTHING
    return opaque(render(term), negated=negated)


def _in(term: Term, negated: bool) -> Disjunction | None:
    subject, *items = term.args
    parts = [_comparison("ne" if negated else "eq", subject, item, term.coerced[0]) for item in items]
    if None in parts:
        return opaque(render(term), negated=negated)
    return all_of(parts) if negated else any_of(parts)


def _between(term: Term, negated: bool) -> Disjunction | None:
    subject, *bounds = term.args
    ops = ("lt", "gt") if negated else ("ge", "le")
    types = [common_type(subject.type, bound.type) for bound in bounds]
    parts = [_comparison(op, subject, bound, type) for op, bound, type in zip(ops, bounds, types, strict=True)]
    if None in parts:
        return opaque(render(term), negated=negated)
    return any_of(parts) if negated else all_of(parts)


def _null_safe(term: Term, negated: bool) -> Disjunction | None:
    """`x <=> 1` is true where `x = 1` is, but its negation is true for NULL."""
    for subject, other in (term.args, term.args[::-1]):
        if _is_null(other):
            return only(Atom(render(subject), "IS NOT NULL" if negated else "IS NULL"))
    compared = _comparison("ne" if negated else "eq", term.args[0], term.args[1], term.coerced[0])
    if compared is None:
        return opaque(render(term), negated=negated)
    subject = next(part for part in term.args if _constant(part, term.coerced[0]) is None)
    return any_of([compared, only(Atom(render(subject), "IS NULL"))]) if negated else compared


def _comparison(op: str, left: Term, right: Term, type: pa.DataType) -> Disjunction | None:
    """An expression against a constant, in the type in which Spark compares them; None for anything else."""
    if _is_null(left) or _is_null(right):
        return NOTHING
    constant = _constant(right, type)
    if constant is None:
        left, right, op = right, left, _MIRRORED[op]
        constant = _constant(right, type)
    if constant is None or _constant(left, type) is not None or not _keeps_values(left.type, type):
        return None
    if isinstance(constant, bool) and op == "ne":
        return only(Atom(render(left), "=", not constant))
    return only(Atom(render(left), SYMBOLS[op], constant))


def _is_null(term: Term) -> bool:
    return term.op == "literal" and term.value is None


def _constant(term: Term, type: pa.DataType) -> Constant:
    value = constant_of(term, type)
    return value if isinstance(value, int | float | Decimal | str | bytes | date) else None


def _keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps different values different, and their order."""
    if source == target or (is_integer(source) and is_integer(target)):
        return True
    if pt.is_decimal(target) and (is_integer(source) or pt.is_decimal(source)):
        exact = as_decimal(source)
        return target.scale >= exact.scale and target.precision - target.scale >= exact.precision - exact.scale
    return pt.is_float64(target) and (pt.is_float32(source) or (is_integer(source) and source != pa.int64()))
