"""Terms: expressions with types, between sqlglot's tree and the two forms of the plan.

A term is written as canonical Spark SQL for the rows (`render`) or translated for the answers (`answer_terms.py`).
`coerced` gives the type of each argument before the operation: Spark casts rows by itself, the translation inserts
casts. The canonical text parses back to itself, and equal texts mean equal work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from sash.core.errors import Span
from sash.plan.expressions import RowExpression, name_in_spark, value_in_spark
from sash.sql.strings import quote
from sash.sql.types import identifier, spark_name


@dataclass(frozen=True)
class Term:
    """`op` is field (of a source in FROM), column (of a stream's tuples), literal, aggregate, interval, extract, an
    operator's name or a function's lower-case name.

    An aggregate's `value` is its name; its arguments are the aggregated term and its constants. A `filter` has an
    aggregate and the condition of its tuples; its `value` is COUNT_IF where it was written so. A window
    function is `over`, and its `value` an OverShape. The `value` of a `user_function` is its name.
    """

    op: str
    args: tuple[Term, ...]
    type: pa.DataType
    span: Span = field(compare=False)
    value: object = None
    coerced: tuple[pa.DataType, ...] = field(default=(), compare=False)

    def walk(self) -> Iterator[Term]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    @property
    def has_aggregate(self) -> bool:
        return any(part.op == "aggregate" for part in self.walk())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, in order of first use."""
        return tuple(dict.fromkeys(str(term.value) for term in self.walk() if term.op == "column"))


@dataclass(frozen=True)
class OverShape:
    """What of a window function is no term. Its terms are the arguments, those of PARTITION BY, and those of ORDER BY.

    `order` has of each key whether it is descending, and whether NULLs come first.
    """

    function: str
    arguments: int
    partition: int
    order: tuple[tuple[bool, bool], ...]
    frame: str

    def split(self, terms: tuple[Term, ...]) -> tuple[tuple[Term, ...], ...]:
        """The arguments, the terms of PARTITION BY and those of ORDER BY."""
        end = self.arguments + self.partition
        return terms[: self.arguments], terms[self.arguments : end], terms[end:]


@dataclass(frozen=True)
class AskedQuery:
    """A sub-query in an expression: its value, whether it has rows, or whether a value is in it.

    Its terms are `scalar_query`, `exists_query`, and `in_query` of the compared value. `name` is one that no source of
    the statement has, `text` is what was written, and `body` the bound query.
    """

    name: str
    text: str
    columns: tuple[tuple[str, pa.DataType], ...]
    body: object = field(compare=False, repr=False)


def asked_in(term: Term) -> list[Term]:
    """The parts of a term that are sub-queries."""
    return [part for part in term.walk() if isinstance(part.value, AskedQuery)]


def column_of(field: Term) -> str:
    """The name of a field without the name of its source."""
    return str(field.value).split(".", 1)[1]


def sources_in(term: Term) -> frozenset[str]:
    """The names of a term's sources."""
    return frozenset(str(part.value).split(".", 1)[0] for part in term.walk() if part.op == "field")


def over_tuples(term: Term, names: Mapping[str, str] | None = None) -> Term:
    """A term over one source as a term over its tuples; `names` gives the columns of fields with other names."""
    if term.op == "field":
        name = (names or {}).get(str(term.value)) or column_of(term)
        return Term("column", (), term.type, term.span, name)
    return replace(term, args=tuple(over_tuples(arg, names) for arg in term.args))


def cast_to(term: Term, type: pa.DataType) -> Term:
    """The term in another type, as Spark would cast it."""
    return term if term.type == type else Term("cast", (term,), type, term.span, coerced=(term.type,))


def extent_of(*terms: Term) -> Span:
    """From the first to the last character of terms that belong together."""
    return Span(min(term.span.start for term in terms), max(term.span.end for term in terms))


# How tightly an operator binds; an operand that binds less is put in parentheses.
_OR, _AND, _NOT, _PREDICATE, _BITS, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(9)
_INFIX: dict[str, tuple[str, int]] = {
    "or": ("OR", _OR),
    "and": ("AND", _AND),
    "eq": ("=", _PREDICATE),
    "ne": ("<>", _PREDICATE),
    "lt": ("<", _PREDICATE),
    "le": ("<=", _PREDICATE),
    "gt": (">", _PREDICATE),
    "ge": (">=", _PREDICATE),
    "null_safe_eq": ("<=>", _PREDICATE),
    "like": ("LIKE", _PREDICATE),
    "ilike": ("ILIKE", _PREDICATE),
    "rlike": ("RLIKE", _PREDICATE),
    "bit_and": ("&", _BITS),
    "bit_or": ("|", _BITS),
    "bit_xor": ("^", _BITS),
    "add": ("+", _SUM),
    "subtract": ("-", _SUM),
    "multiply": ("*", _PRODUCT),
    "divide": ("/", _PRODUCT),
    "modulo": ("%", _PRODUCT),
    "int_divide": ("DIV", _PRODUCT),
}
SYMBOLS = {op: symbol for op, (symbol, _) in _INFIX.items()}


def render(term: Term, name: Callable[[str], str] = str.upper) -> str:
    """Canonical Spark SQL; `name` spells functions (lower case for an output's name, as Spark does)."""
    return _write(term, name)[0]


def row_expression(term: Term) -> RowExpression:
    """A term over tuples as the plan carries it."""
    return RowExpression(render(term), term.type, term.columns)


def shown(term: Term) -> str:
    """Canonical SQL for people: a column without its source."""
    return render(term, lambda name: name.upper())


def _write(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    if term.op in _INFIX:
        return _infix(term, name)
    special = _SPECIAL.get(term.op)
    if special is not None:
        return special(term, name)
    return f"{name(term.op)}({', '.join(render(arg, name) for arg in term.args)})", _PRIMARY


def _operand(term: Term, least: int, name: Callable[[str], str]) -> str:
    text, level = _write(term, name)
    return text if level >= least else f"({text})"


def _infix(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    symbol, level = _INFIX[term.op]
    left, *others = term.args
    # Predicates and bit operators do not chain: their operands are always set apart.
    first = level + 1 if level in (_PREDICATE, _BITS) else level
    operands = (_operand(left, first, name), *(_operand(other, level + 1, name) for other in others))
    return f" {symbol} ".join(operands), level


def _literal(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    value = term.value
    if value is None:
        return "NULL", _PRIMARY
    if isinstance(value, bool):
        return str(value).upper(), _PRIMARY
    if isinstance(value, str):
        return quote(value), _PRIMARY
    if isinstance(value, date | bytes):
        return f"CAST({quote(_text(value))} AS {spark_name(term.type)})", _PRIMARY
    if isinstance(value, Decimal) and term.type.scale == 0 and abs(value) < 2**63:
        return f"{value:f}.", _UNARY if value < 0 else _PRIMARY
    text = repr(value) if isinstance(value, float) else format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, float) and "e" not in text:
        text += "E0"
    return text.upper(), _UNARY if text.startswith("-") else _PRIMARY


def _text(value: date | bytes) -> str:
    """A date, a timestamp (with its zone, if it has one) or bytes as the string that Spark casts to it."""
    if isinstance(value, bytes):
        return value.decode()
    return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()


def _user_function(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    arguments = ", ".join(render(arg, name) for arg in term.args)
    if name is not str.upper:
        return f"{name(str(term.value))}({arguments})", _PRIMARY
    return value_in_spark(_result(term), spark_name(term.type)), _PRIMARY


def _result(term: Term) -> str:
    """The call without its value: an error of an argument must not be raised before the call."""
    arguments = (_result(arg) if arg.op == "user_function" else render(arg) for arg in term.args)
    return f"{name_in_spark(str(term.value))}({', '.join(arguments)})"


def _aggregate(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    if term.value in ("first", "last"):
        return f"{name(str(term.value))}({render(term.args[0], name)})", _PRIMARY
    if term.value in ("collect_list", "collect_set"):
        value, _, *most = (render(arg, name) for arg in term.args)
        return f"{name(str(term.value))}({', '.join([value, *most])})", _PRIMARY
    if term.value == "listagg":
        return _listagg(term, name), _PRIMARY
    if term.value == "percentile_disc":
        x, p, descending = term.args
        order = f"{render(x, name)}{' DESC' if descending.value else ''}"
        return f"{name('percentile_disc')}({render(p, name)}) WITHIN GROUP (ORDER BY {order})", _PRIMARY
    star = "1" if name is str.lower else "*"
    arguments = ", ".join(render(arg, name) for arg in term.args) or star
    if term.value == "count_distinct":
        return f"{name('count')}(DISTINCT {arguments})", _PRIMARY
    return f"{name(str(term.value))}({arguments})", _PRIMARY


def _listagg(term: Term, name: Callable[[str], str]) -> str:
    value, order, separator, once, descending, *most = term.args
    listed = ", ".join(render(each, name) for each in (value, separator, *most))
    way = f"{render(order, name)}{' DESC' if descending.value else ''}"
    return f"{name('listagg')}({'DISTINCT ' if once.value else ''}{listed}) WITHIN GROUP (ORDER BY {way})"


def _filter(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    aggregate, condition = (render(arg, name) for arg in term.args)
    if term.value is not None:
        return f"{name(str(term.value))}({condition})", _PRIMARY
    return f"{aggregate} FILTER (WHERE {condition})", _PRIMARY


_FRAMES = {
    "rows": "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "range": "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "all": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}


def _over(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    """The call, with its frame where it has one."""
    shape = term.value
    assert isinstance(shape, OverShape)
    arguments, partition, order = ([render(each, name) for each in terms] for terms in shape.split(term.args))
    keys = [
        f"{key} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
        for key, (descending, nulls_first) in zip(order, shape.order, strict=True)
    ]
    parts = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    parts += [f"ORDER BY {', '.join(keys)}"] if keys else []
    parts += [_FRAMES[shape.frame]] if shape.frame else []
    star = "1" if name is str.lower else "*"
    listed = ", ".join(arguments) or (star if shape.function == "count" else "")
    return f"{name(shape.function)}({listed}) OVER ({' '.join(parts)})", _PRIMARY


def _field(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    """A column; an output's name leaves out the sub-query, as in Spark."""
    alias, column = str(term.value).split(".", 1)
    return f"{identifier(alias)}.{identifier(column)}" if name is str.upper else identifier(column), _PRIMARY


def _in(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    value, *items = term.args
    return f"{_operand(value, _BITS, name)} IN ({', '.join(render(item, name) for item in items)})", _PREDICATE


def _between(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    value, low, high = (_operand(arg, _BITS, name) for arg in term.args)
    return f"{value} BETWEEN {low} AND {high}", _PREDICATE


def _case(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    *pairs, otherwise = (render(arg, name) for arg in term.args)
    branches = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(pairs[::2], pairs[1::2], strict=True))
    tail = "" if otherwise == "NULL" else f" ELSE {otherwise}"
    return f"CASE {branches}{tail} END", _PRIMARY


def _cast(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    return f"{term.op.upper()}({render(term.args[0], name)} AS {spark_name(term.type)})", _PRIMARY


def _asked(term: Term, name: Callable[[str], str]) -> tuple[str, int]:
    assert isinstance(term.value, AskedQuery)
    query = identifier(term.value.name)
    if term.op == "in_query":
        return f"{_operand(term.args[0], _BITS, name)} IN ({query})", _PREDICATE
    return f"{name('exists' if term.op == 'exists_query' else 'scalarsubquery')}({query})", _PRIMARY


_SPECIAL: dict[str, Callable[[Term, Callable[[str], str]], tuple[str, int]]] = {
    "column": lambda term, name: (identifier(str(term.value)), _PRIMARY),
    "field": _field,
    "user_function": _user_function,
    "literal": _literal,
    "aggregate": _aggregate,
    "filter": _filter,
    "over": _over,
    **dict.fromkeys(("scalar_query", "exists_query", "in_query"), _asked),
    "interval": lambda term, name: (f"INTERVAL {term.value}", _PRIMARY),
    "extract": lambda term, name: (f"EXTRACT({term.value} FROM {render(term.args[0], name)})", _PRIMARY),
    "in": _in,
    "between": _between,
    "case": _case,
    "cast": _cast,
    "try_cast": _cast,
    "not": lambda term, name: (f"NOT {_operand(term.args[0], _NOT, name)}", _NOT),
    "is_null": lambda term, name: (f"{_operand(term.args[0], _BITS, name)} IS NULL", _PREDICATE),
    "is_not_null": lambda term, name: (f"{_operand(term.args[0], _BITS, name)} IS NOT NULL", _PREDICATE),
    "negate": lambda term, name: (f"-{_operand(term.args[0], _PRIMARY, name)}", _UNARY),
    "bit_not": lambda term, name: (f"~{_operand(term.args[0], _PRIMARY, name)}", _UNARY),
}
