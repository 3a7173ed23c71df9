"""Which terms have finitely many values (thesis 2.2.1): what may be remembered of a whole stream.

    SELECT DISTINCT a.x FROM s [UNBOUNDED] a JOIN t [UNBOUNDED] b ON a.x = b.y WHERE a.x > 10 AND b.y < 20

Both windows are remembered by x and y alone, which have nine values; a join that keeps duplicates counts the tuples of
each value. A term has finitely many values if it is compared
with constants (=, IN, or from below and above where values are whole numbers or days), if its type has few values, if
it is a column of a table, if it equals such a term, or if it is computed from such terms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow.types as pt

from sash.sql.expressions.terms import Term, render, sources_in

_BELOW, _ABOVE, _LISTED = "below", "above", "listed"
_COMPARED = {"gt": _BELOW, "ge": _BELOW, "lt": _ABOVE, "le": _ABOVE, "eq": _LISTED, "null_safe_eq": _LISTED}
_TURNED = {_BELOW: _ABOVE, _ABOVE: _BELOW, _LISTED: _LISTED}
_EQUAL = ("eq", "null_safe_eq")


class FiniteTerms:
    """The terms that conditions leave finitely many values; columns of the sources named in `tables` have no more."""

    def __init__(self, conditions: Sequence[Term], tables: Collection[str] = ()) -> None:
        self._tables = frozenset(tables)
        self._limits = defaultdict[str, set[str]](set)
        equal = []
        for condition in conditions:
            for term, limit in _limits(condition):
                self._limits[render(term)].add(limit)
            if condition.op in _EQUAL and not _reads_text(condition):
                equal.append(condition.args)
        for _ in equal:  # as many rounds as the longest chain of equalities has links
            for one, other in (*equal, *(sides[::-1] for sides in equal)):
                self._limits[render(other)] |= {_LISTED} if one in self else self._limits[render(one)]

    def __contains__(self, term: Term) -> bool:
        if _is_constant(term) or _has_few_values(term):
            return True
        if term.op == "field" and sources_in(term) <= self._tables:
            return True
        limits = self._limits.get(render(term), set())
        if _LISTED in limits or ({_BELOW, _ABOVE} <= limits and (pt.is_integer(term.type) or pt.is_date(term.type))):
            return True
        return bool(term.args) and all(arg in self for arg in term.args)


def with_implied(conditions: Sequence[Term], sources: Collection[str]) -> list[Term]:
    """The conditions, and what they imply of some sources alone: what equals a term is compared with its constants.

    So each of the sources is limited by its own conditions: `a.x = b.y AND a.x < 9` says `b.y < 9`.
    """
    known, equal = list(conditions), [each.args for each in conditions if _ties_alike(each)]
    for _ in equal:
        for one, other in (*equal, *(sides[::-1] for sides in equal)):
            for each in [each for each in known if any(limited == one for limited, _ in _limits(each))]:
                implied = replace(each, args=tuple(other if arg == one else arg for arg in each.args))
                if implied not in known:
                    known.append(implied)
    return [*conditions, *(each for each in known[len(conditions) :] if sources_in(each) <= {*sources})]


_DECIDING = {"lt": ("min", "max"), "le": ("min", "max"), "gt": ("max", "min"), "ge": ("max", "min")}


def deciding_extremes(condition: Term) -> tuple[tuple[Term, str], ...]:
    """The sides of an inequality, each with the one of its values that decides if any two fulfil the inequality.

    `B < D` holds for some B and some D if it holds for the least B and the greatest D.
    """
    if condition.op not in _DECIDING or _reads_text(condition) or not all(_is_ordered(arg) for arg in condition.args):
        return ()
    return tuple(zip(condition.args, _DECIDING[condition.op], strict=True))


def _is_ordered(term: Term) -> bool:
    """Whether its type has a least value, MIN."""
    numbers = pt.is_integer(term.type) or pt.is_floating(term.type) or pt.is_decimal(term.type)
    return numbers or pt.is_string(term.type) or pt.is_date(term.type) or pt.is_timestamp(term.type)


def _ties_alike(condition: Term) -> bool:
    """Whether it ties two sources by terms of one type: in another type, a constant may not be comparable."""
    if condition.op != "eq" or condition.args[0].type != condition.args[1].type:
        return False
    one, other = (sources_in(arg) for arg in condition.args)
    return len(one) == len(other) == 1 and one != other


def _limits(condition: Term) -> Iterator[tuple[Term, str]]:
    """The terms that a condition compares with constants, each with what it limits."""
    if _reads_text(condition):
        return
    first, *others = condition.args or (condition,)
    constant = all(_is_constant(other) for other in others)
    if condition.op == "between" and constant:
        yield from ((first, _BELOW), (first, _ABOVE))
    elif condition.op == "in" and constant:
        yield first, _LISTED
    elif condition.op in _COMPARED and constant:
        yield first, _COMPARED[condition.op]
    elif condition.op in _COMPARED and _is_constant(first):
        yield others[0], _TURNED[_COMPARED[condition.op]]


def _reads_text(condition: Term) -> bool:
    """Whether it compares a STRING as another type: '5', '05' and '005' equal 5, and Spark fails at 'five'."""
    strings = [arg for arg in condition.args if pt.is_string(arg.type) and not _is_constant(arg)]
    return bool(strings) and not all(pt.is_string(arg.type) or pt.is_null(arg.type) for arg in condition.args)


def _is_constant(term: Term) -> bool:
    return not any(part.op in ("field", "column", "aggregate") for part in term.walk())


def _has_few_values(term: Term) -> bool:
    """Whether it has few values whatever it is computed from."""
    if not pt.is_integer(term.type):
        return pt.is_boolean(term.type) or pt.is_null(term.type)
    return term.type.bit_width <= 16 or (term.op == "modulo" and _is_constant(term.args[1]))
