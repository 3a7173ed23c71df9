"""Window functions over the rows of an answer: `LAG(SUM(x)) OVER (PARTITION BY a ORDER BY b)`, and their types.

Their arguments, and the terms of PARTITION BY and ORDER BY, are over the groups, aggregates included. Frames begin with
the partition: the default ones, and those that end at the row or with the partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.core.errors import Span
from sash.panes.aggregates import AGGREGATES
from sash.sql.expressions import constants
from sash.sql.expressions.coercion import common_type
from sash.sql.expressions.scope import Scope, Typer
from sash.sql.expressions.terms import OverShape, Term, cast_to
from sash.sql.reading.places import span_of, word_of
from sash.sql.types import is_interval, spark_name

_RANKS = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), pa.int32()),
    **dict.fromkeys(("percent_rank", "cume_dist"), pa.float64()),
}
_SHIFTS = ("lag", "lead")
_AGGREGATES = {"sum": "sum", "count": "count", "avg": "avg", "mean": "avg", "min": "min", "max": "max"}
OVER_NAMES = (*_RANKS, *_SHIFTS, *_AGGREGATES)
_FRAMES = {("ROWS", "CURRENT ROW"): "rows", ("RANGE", "CURRENT ROW"): "range"}


def over(node: exp.Expr, scope: Scope, typed: Typer) -> Term:
    call = node.this
    at, name = word_of(call), call.name.lower()
    title = name.upper()
    if isinstance(call, exp.Filter):
        title = call.this.name.upper()
        raise scope.unsupported(f"FILTER before OVER; write {title}(IF(c, x, NULL)) OVER (..)", word_of(call.this))
    if not isinstance(call, exp.Anonymous):
        raise scope.unsupported("IGNORE NULLS and WITHIN GROUP before OVER; leave them out", at)
    if scope.no_aggregates:
        where = "SELECT, QUALIFY and ORDER BY may have it: QUALIFY tests it, after HAVING"
        raise scope.error(f"{title}(..) OVER is of the rows of an answer, and cannot stand here; {where}", at)
    if node.args.get("alias") is not None:
        raise scope.unsupported("named windows (WINDOW w AS ..); write them out: OVER (..)", at)
    if name not in OVER_NAMES:
        raise scope.unsupported(f"{title} OVER; there are {', '.join(each.upper() for each in OVER_NAMES)}", at)
    partition = tuple(_comparable(typed(each, scope), scope) for each in node.args.get("partition_by") or ())
    keys = node.args["order"].expressions if node.args.get("order") is not None else []
    order = tuple(_comparable(typed(key.this, scope), scope) for key in keys)
    ways = tuple((bool(key.args.get("desc")), bool(key.args.get("nulls_first"))) for key in keys)
    if name in _AGGREGATES:
        frame = _frame(node, bool(order), title, scope, at)
    elif not order:
        reason = f"{title} numbers rows in an order"
        raise scope.error(f"{reason}: {title}(..) OVER (PARTITION BY .. ORDER BY ..)", at)
    elif node.args.get("spec") is not None:
        raise scope.error(f"{title} has no frame: leave out ROWS and RANGE", at)
    else:
        frame = ""
    arguments, type = _Arguments(call, title, at, scope, typed).of(name)
    terms = (*arguments, *partition, *order)
    nested = next((part for term in terms for part in term.walk() if part.op == "over"), None)
    if nested is not None:
        way_out = "compute it in a sub-query in FROM, and the other in the SELECT around it"
        raise scope.error(f"OVER cannot stand inside OVER: {way_out}", nested.span)
    function = _AGGREGATES.get(name, name)
    return Term("over", terms, type, at, OverShape(function, len(arguments), len(partition), ways, frame))


def _comparable(term: Term, scope: Scope) -> Term:
    if pt.is_nested(term.type) or is_interval(term.type):
        raise scope.unsupported(f"{spark_name(term.type)} in OVER", term.span)
    return term


def _frame(node: exp.Expr, is_ordered: bool, title: str, scope: Scope, at: Span) -> str:
    """Where the frame of an aggregate ends; it begins with the partition."""
    spec = node.args.get("spec")
    if spec is None:
        return "range" if is_ordered else "all"
    start = (str(spec.args.get("start")), spec.args.get("start_side"))
    end = str(spec.args.get("end") or "CURRENT ROW")
    found = "all" if (end, spec.args.get("end_side")) == ("UNBOUNDED", "FOLLOWING") else None
    found = found or _FRAMES.get((str(spec.args.get("kind")), end))
    if start != ("UNBOUNDED", "PRECEDING") or found is None or spec.args.get("exclude"):
        frames = "UNBOUNDED PRECEDING AND CURRENT ROW, or AND UNBOUNDED FOLLOWING"
        way_out = "LAG(x, n) and LEAD(x, n) reach single rows, and a WINDOW of its own in FROM some time"
        raise scope.unsupported(f"other frames of {title} than BETWEEN {frames}; {way_out}", at)
    return found


@dataclass(frozen=True)
class _Arguments:
    """The arguments of one call, with the type of its values."""

    call: exp.Expr
    title: str
    at: Span
    scope: Scope
    typed: Typer

    def of(self, name: str) -> tuple[tuple[Term, ...], pa.DataType]:
        if name == "ntile":
            return (self._parts(),), _RANKS[name]
        if name in _RANKS:
            self._check_number(0, 0)
            return (), _RANKS[name]
        return self._shift() if name in _SHIFTS else self._aggregated(_AGGREGATES[name])

    def _check_number(self, least: int, most: int) -> None:
        given = len(self.call.expressions)
        if not least <= given <= most:
            takes = f"{least}" if least == most else f"{least} to {most}"
            raise self.scope.error(f"{self.title} takes {takes} argument{'s' * (most != 1)}, got {given}", self.at)

    def _parts(self) -> Term:
        self._check_number(1, 1)
        (node,) = self.call.expressions
        if not (isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) < 2**31):
            raise self.scope.error("NTILE needs a positive whole constant, such as NTILE(4)", span_of(node))
        return constants.whole(int(node.name), self.scope, span_of(node))

    def _shift(self) -> tuple[tuple[Term, ...], pa.DataType]:
        self._check_number(1, 3)
        first, *others = self.call.expressions
        value = self._value(first)
        offset, default = constants.whole(1, self.scope, self.at), constants.literal(None, value.type, self.at)
        if others:
            offset = self._offset(others[0])
        if len(others) == 2:
            given = self.typed(others[1], self.scope)
            if common_type(value.type, given.type) != value.type:
                types = f"{spark_name(given.type)} and the value {spark_name(value.type)}"
                raise self.scope.error(f"the default of {self.title} is {types}: CAST one of them", given.span)
            default = cast_to(given, value.type)
        return (value, offset, default), value.type

    def _offset(self, node: exp.Expr) -> Term:
        negative = isinstance(node, exp.Neg)
        number = node.this if negative else node
        if not (isinstance(number, exp.Literal) and number.is_int and int(number.name) < 2**31):
            reason = f"{self.title} looks a whole constant of rows away, such as {self.title}(x, 2)"
            raise self.scope.error(reason, span_of(node))
        return constants.whole(int(number.name) * (-1 if negative else 1), self.scope, span_of(node))

    def _aggregated(self, name: str) -> tuple[tuple[Term, ...], pa.DataType]:
        if any(isinstance(each, exp.Distinct) for each in self.call.expressions):
            raise self.scope.unsupported(f"DISTINCT in {self.title} OVER; GROUP BY the values", self.at)
        self._check_number(1, 1)
        (node,) = self.call.expressions
        if name == "count" and isinstance(node, exp.Star | exp.Literal):
            return (), pa.int64()
        if isinstance(node, exp.Star):
            raise self.scope.error(f"{self.title}(*) has no meaning: {self.title} needs a column", self.at)
        value = self._value(node)
        try:
            return (value,), AGGREGATES[name].result_type(value.type)
        except ValueError as reason:
            raise self.scope.error(f"{reason}, but got {spark_name(value.type)}", value.span) from None

    def _value(self, node: exp.Expr) -> Term:
        value = self.typed(node, self.scope)
        if pt.is_null(value.type):
            raise self.scope.error(f"{self.title} needs a type: write CAST(NULL AS ..)", value.span)
        return _comparable(value, self.scope)
