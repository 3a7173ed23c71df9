"""Predicates in disjunctive normal form, for the rules about overlapping WHERE clauses (thesis 8.3.3).

    WHERE (protocol = 'TCP' OR port = 80) AND length > 100

    Disjunction   { protocol = 'TCP', length > 100 }  or  { port = 80, length > 100 }
    Conjunction     a set of atoms
    Atom                                                    port = 80

An atom is true, false or NULL for a row, and a WHERE keeps the rows for which it is true. So only truth counts: an
`IS NULL` is an atom like any other, and `x <> 1` is not "the rest" beside `x = 1` (NULL is neither).
A condition of another form is an atom too, its text compared with TRUE or, under a NOT, with FALSE.

`disjoint` reasons about what atoms mean, as Spark compares: NaN equals itself and lies above every number, strings
are ordered by their bytes in UTF-8 (which is the order of code points). It claims nothing that it cannot prove.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

Constant = bool | int | float | Decimal | str | bytes | date | datetime | None
# More terms than that are not worth comparing.
MOST_TERMS = 32


@dataclass(frozen=True)
class Atom:
    """`subject op constant`; the subject is an expression's canonical text, most often a column.

    `op` is = <> < <= > >= or IS NULL, IS NOT NULL, which have no constant. All constants of one subject are exact in
    one type: the builder of atoms makes the text of a lossy comparison a subject of its own.
    """

    subject: str
    op: str
    constant: Constant = None

    def __str__(self) -> str:
        if self.constant is None:
            return f"{self.subject} {self.op}"
        if self.op == "=" and isinstance(self.constant, bool):
            return self.subject if self.constant else f"NOT ({self.subject})"
        value = self.constant if isinstance(self.constant, int | float | Decimal) else repr(str(self.constant))
        return f"{self.subject} {self.op} {value}"

    @property
    def order(self) -> tuple[Any, ...]:
        return (self.subject, self.op, _rank(self.constant))


Conjunction = frozenset[Atom]


@dataclass(frozen=True)
class Disjunction:
    """Distinct conjunctions in canonical order; `disjunction` makes it. Without terms, no row satisfies it."""

    terms: tuple[Conjunction, ...]

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return " OR ".join(map(term_text, self.terms)) or "FALSE"


def term_text(term: Conjunction) -> str:
    return " AND ".join(str(atom) for atom in sorted(term, key=lambda atom: atom.order)) or "TRUE"


def disjunction(terms: Iterable[Conjunction]) -> Disjunction:
    """A disjunction without unsatisfiable terms, repetitions, and terms that a weaker one absorbs.

    >>> tcp, web = Atom("protocol", "=", "TCP"), Atom("port", "=", 80)
    >>> print(disjunction([frozenset({tcp, web}), frozenset({tcp}), frozenset({tcp, Atom("protocol", "=", "UDP")})]))
    protocol = 'TCP'
    """
    possible = {term for term in terms if is_satisfiable(term)}
    weakest = (term for term in possible if not any(other < term for other in possible))
    return Disjunction(tuple(sorted(weakest, key=term_order)))


def term_order(term: Conjunction) -> list[tuple[Any, ...]]:
    return sorted(atom.order for atom in term)


NOTHING = Disjunction(())
# A query without a WHERE.
EVERYTHING = Disjunction((frozenset(),))


def only(*atoms: Atom) -> Disjunction:
    """All of these atoms."""
    return disjunction([frozenset(atoms)])


def opaque(text: str, *, negated: bool = False) -> Disjunction:
    """A condition about which nothing but its text is known."""
    return only(Atom(text, "=", not negated))


def any_of(parts: Sequence[Disjunction | None]) -> Disjunction | None:
    """OR; None if there would be too many terms."""
    known = [part for part in parts if part is not None]
    terms = {term for part in known for term in part.terms}
    return disjunction(terms) if len(known) == len(parts) and len(terms) <= MOST_TERMS else None


def all_of(parts: Sequence[Disjunction | None]) -> Disjunction | None:
    """AND, distributed over OR; None if there would be too many terms."""
    known = [part.terms for part in parts if part is not None]
    if len(known) < len(parts) or math.prod(map(len, known)) > MOST_TERMS:
        return None
    return disjunction(frozenset[Atom]().union(*chosen) for chosen in itertools.product(*known))


def disjoint(left: Conjunction, right: Conjunction) -> bool:
    """Whether certainly no row satisfies both.

    >>> disjoint(frozenset({Atom("length", "<", 10)}), frozenset({Atom("length", ">", 20)}))
    True
    """
    return not is_satisfiable(left | right)


@lru_cache(maxsize=4_096)
def is_disjoint(predicate: Disjunction) -> bool:
    """Whether every row satisfies at most one term."""
    return all(disjoint(left, right) for left, right in itertools.combinations(predicate.terms, 2))


def is_satisfiable(term: Conjunction) -> bool:
    """False only if the atoms certainly contradict each other."""
    by_subject: dict[str, list[Atom]] = {}
    for atom in term:
        by_subject.setdefault(atom.subject, []).append(atom)
    return all(map(_can_hold_together, by_subject.values()))


def _can_hold_together(atoms: list[Atom]) -> bool:
    """Whether atoms about one subject can hold: it is NULL and nothing else, or it lies in all ranges."""
    if len(atoms) > 1 and any(atom.op == "IS NULL" for atom in atoms):
        return False
    by_kind: dict[str, list[Atom]] = {}
    for atom in atoms:
        by_kind.setdefault(_rank(atom.constant)[0], []).append(atom)
    return all(map(_has_values, by_kind.values()))


# A bound is a constant's rank and a side of it: -1 just below, 0 at it, 1 just above.
_LOWEST = {"=": 0, ">=": 0, ">": 1}
_HIGHEST = {"=": 0, "<=": 0, "<": -1}


def _has_values(atoms: list[Atom]) -> bool:
    """Whether a value may lie between the highest lower bound and the lowest upper bound."""
    lows = [(_rank(atom.constant), _LOWEST[atom.op]) for atom in atoms if atom.op in _LOWEST]
    highs = [(_rank(atom.constant), _HIGHEST[atom.op]) for atom in atoms if atom.op in _HIGHEST]
    if not lows or not highs:
        return True
    low, high = max(lows), min(highs)
    excluded = {_rank(atom.constant) for atom in atoms if atom.op == "<>"}
    return low < high or (low == high and low[0] not in excluded)


def _rank(constant: Constant) -> tuple[Any, ...]:
    """The constant's kind and place among its kind; constants of other kinds are never compared."""
    if isinstance(constant, int | float | Decimal) and not isinstance(constant, bool):
        return ("number", True, 0) if math.isnan(constant) else ("number", False, constant)
    if isinstance(constant, datetime):
        return ("moment" if constant.tzinfo is None else "zoned moment", constant)
    return (type(constant).__name__, constant if constant is not None else 0)
