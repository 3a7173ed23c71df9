"""Conditions over a few columns with few values: their SQL, their truth in three-valued logic, and all rows."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from hypothesis import strategies as st

from sash.plan.predicates import Atom, Conjunction, Disjunction

Value = bool | int | float | str | None
Row = dict[str, Value]
DOMAINS: dict[str, tuple[Value, ...]] = {
    "src": (None, 0, 1, 2),
    "port": (None, 0, 2),
    "protocol": (None, "TCP", "UDP"),
    "ratio": (None, 0.5, 1.0, math.nan),
    "ok": (None, True, False),
}
ROWS: list[Row] = [dict(zip(DOMAINS, values, strict=True)) for values in itertools.product(*DOMAINS.values())]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    sql: str
    truth: Callable[[Row], bool | None] = field(repr=False)


def compare(op: str, left: Value, right: Value) -> bool | None:
    """As Spark: NaN equals NaN and is the greatest number."""
    if left is None or right is None:
        return None
    return OPERATORS[op](_place(left), _place(right))


def _place(value: Value) -> tuple[bool, Value]:
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def either(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


def both(left: bool | None, right: bool | None) -> bool | None:
    return negate(either(negate(left), negate(right)))


def satisfies(row: Row, predicate: Disjunction) -> bool:
    return any(fulfils(row, term) for term in predicate.terms)


def fulfils(row: Row, term: Conjunction) -> bool:
    return all(_holds(row, atom) for atom in term)


def _holds(row: Row, atom: Atom) -> bool:
    value = row[atom.subject] if atom.subject in row else _of_columns(row, atom.subject)
    if atom.op in ("IS NULL", "IS NOT NULL"):
        return (value is None) is (atom.op == "IS NULL")
    assert isinstance(atom.constant, bool | int | float | str)
    return compare(atom.op, value, atom.constant) is True


def _of_columns(row: Row, text: str) -> bool | None:
    """An opaque condition: two columns compared."""
    left, op, right = text.split()
    return compare(op, row[left], row[right])


def _written(value: Value) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "NULL" if value is None else f"{value}E0" if isinstance(value, float) else str(value)


# NaN has no literal.
VALUES = {name: tuple(v for v in domain if v is not None and v == v) for name, domain in DOMAINS.items()}
COMPARABLE = st.sampled_from(sorted(DOMAINS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name]), st.sampled_from(VALUES[name]))
)


def _comparison(parts: tuple[tuple[str, Value, Value], str]) -> Condition:
    (name, value, _), op = parts
    return Condition(f"{name} {op} {_written(value)}", lambda row: compare(op, row[name], value))


def _mirrored(parts: tuple[tuple[str, Value, Value], str]) -> Condition:
    (name, value, _), op = parts
    return Condition(f"{_written(value)} {op} {name}", lambda row: compare(op, value, row[name]))


def _null_safe(parts: tuple[tuple[str, Value, Value], bool]) -> Condition:
    (name, value, _), absent = parts
    wanted = None if absent else value

    def truth(row: Row) -> bool:
        return row[name] is None if wanted is None else compare("=", row[name], wanted) is True

    return Condition(f"{name} <=> {_written(wanted)}", truth)


def _in(parts: tuple[tuple[str, Value, Value], bool]) -> Condition:
    (name, low, high), with_null = parts
    items = [low, high, *([None] if with_null else [])]
    return Condition(
        f"{name} IN ({', '.join(map(_written, items))})",
        lambda row: reduce(either, (compare("=", row[name], item) for item in items)),
    )


def _between(parts: tuple[str, Value, Value]) -> Condition:
    name, low, high = parts
    return Condition(
        f"{name} BETWEEN {_written(low)} AND {_written(high)}",
        lambda row: both(compare(">=", row[name], low), compare("<=", row[name], high)),
    )


def _null_test(name: str, absent: bool) -> Condition:
    return Condition(f"{name} IS {'' if absent else 'NOT '}NULL", lambda row: (row[name] is None) is absent)


def _columns(op: str) -> Condition:
    return Condition(f"src {op} port", lambda row: compare(op, row["src"], row["port"]))


SIMPLE = st.one_of(
    st.tuples(COMPARABLE, st.sampled_from(sorted(OPERATORS))).map(_comparison),
    st.tuples(COMPARABLE, st.sampled_from(sorted(OPERATORS))).map(_mirrored),
    st.tuples(COMPARABLE, st.booleans()).map(_null_safe),
    st.tuples(COMPARABLE, st.booleans()).map(_in),
    COMPARABLE.map(_between),
    st.builds(_null_test, st.sampled_from(sorted(DOMAINS)), st.booleans()),
    st.sampled_from(sorted(OPERATORS)).map(_columns),
    st.just(Condition("ok", lambda row: compare("=", row["ok"], True))),
    st.just(Condition("TRUE", lambda row: True)),
    st.just(Condition("NULL", lambda row: None)),
)


def _chained(parts: tuple[Condition, bool, Condition]) -> Condition:
    left, conjunctive, right = parts
    word, combine = ("AND", both) if conjunctive else ("OR", either)
    return Condition(f"({left.sql}) {word} ({right.sql})", lambda row: combine(left.truth(row), right.truth(row)))


def _negated(inner: Condition) -> Condition:
    return Condition(f"NOT ({inner.sql})", lambda row: negate(inner.truth(row)))


CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(st.tuples(inner, st.booleans(), inner).map(_chained), inner.map(_negated)),
    max_leaves=5,
)
