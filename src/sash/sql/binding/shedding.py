"""SHED RANDOM: the aggregates of a stream that may keep only a part of its tuples.

SUM, COUNT                      scaled; WITH BOUNDS gives error bars
AVG, VARIANCE, STDDEV           of the tuples that were kept
everything else                 would be wrong by an unknown amount: only where the stream says APPROX
ROWS, continuous queries        never: numbers of tuples, and single results, cannot be scaled
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError, Span
from sash.core.window import RowWindow
from sash.plan.nodes import StreamWindow
from sash.sql.expressions.aggregates import APPROXIMATE, is_item_call
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term
from sash.sql.reading.places import span_of, word_of
from sash.sql.reading.statements import Select

SCALED = ("sum", "count")
_OF_A_PART = ("avg", "variance", "var_pop", "stddev", "stddev_pop")
# A scaled sum of decimals must fit into 38 digits, however many tuples there are.
_MOST_DIGITS = 25


def estimates_of(relation: object) -> tuple[str, ...]:
    """The aggregates of a stream that have bounds; none of a sub-query's answer."""
    if not isinstance(relation, Stream):
        return ()
    return APPROXIMATE if relation.shed is None else (*APPROXIMATE, *SCALED)


def check_shedding(stream: Stream, scope: Scope, terms: Iterable[Term]) -> None:
    """Check that the aggregates of a query over a stream with SHED can be answered from a part of its tuples."""
    if stream.shed is None:
        return
    for term in (part for each in terms for part in each.walk() if part.op == "aggregate"):
        name = str(term.value).removesuffix("_lower").removesuffix("_upper")
        if name not in (*SCALED, *_OF_A_PART) and not stream.shed_approx:
            title = "COUNT(DISTINCT ..)" if name == "count_distinct" else name.upper()
            raise scope.error(_refusal(stream, title), term.span)
        _check_digits(name, term, scope)


def _check_digits(name: str, term: Term, scope: Scope) -> None:
    argument = term.args[0].type if term.args else None
    if (
        name in ("sum", "avg")
        and argument is not None
        and pt.is_decimal(argument)
        and argument.precision > _MOST_DIGITS
    ):
        what = f"{name.upper()} of more than {_MOST_DIGITS} digits over a stream with SHED; CAST it to fewer"
        raise scope.unsupported(what, term.span)


def check_shed_items(stream: Stream, scope: Scope, entries: Iterable[exp.Expr]) -> None:
    """Refuse TOP, HISTOGRAM and FREQUENT, which count single values."""
    if stream.shed is not None and not stream.shed_approx:
        call = next(node.unalias() for node in entries if is_item_call(node.unalias()))
        raise scope.error(_refusal(stream, call.name.upper()), word_of(call))


def check_shed_window(stream: Stream, windowed: StreamWindow, script: str, table: exp.Expr) -> None:
    if stream.shed is not None and isinstance(windowed.window, RowWindow):
        reason = (
            f"'{stream.name}' may drop tuples (SHED): a window of ROWS would count those that are left; use [WINDOW d]"
        )
        raise CqlError(reason, script, span_of(table))


def check_shed_continuous(select: Select, streams: Iterable[Stream]) -> None:
    for stream in streams:
        if stream.shed is not None:
            reason = (
                f"'{stream.name}' may drop tuples (SHED): single results cannot be scaled, so it answers aggregates "
                "over [WINDOW d SLIDE s] only"
            )
            raise CqlError(reason, select.script, Span(select.span.start, select.span.start + len("SELECT")))


def _refusal(stream: Stream, title: str) -> str:
    return (
        f"'{stream.name}' may drop tuples (SHED), and {title} cannot be scaled as SUM and COUNT can; "
        "SHED RANDOM p APPROX on the stream allows what the remaining tuples give"
    )
