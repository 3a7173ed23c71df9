"""GROUP BY: keys, and the sets of keys of GROUPING SETS, ROLLUP and CUBE.

GROUP BY a, ROLLUP(b, c)      (a, b, c)  (a, b)  (a)
GROUP BY CUBE(a, (b, c))      (a, b, c)  (a)  (b, c)  ()
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, render
from sash.sql.reading.limits import MOST_READ
from sash.sql.reading.places import span_of

_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


@dataclass(frozen=True)
class Grouping:
    """`sets` has the places of the keys of each grouping set; none where the keys are listed alone."""

    keys: tuple[Term, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()


def grouping_sets(group: exp.Expr, scope: Scope) -> list[list[exp.Expr]]:
    """The keys of each grouping set as they are written; none if GROUP BY lists keys alone."""
    if not any(isinstance(node, _SETS) for node in group.expressions):
        return []
    _check_number(group, scope)
    return [[node for part in parts for node in part] for parts in product(*map(_sets_of, group.expressions))]


def grouping_of(sets: list[list[Term]]) -> Grouping:
    """The keys of all sets, each once, and the sets."""
    known = {render(term): term for each in sets for term in each}
    places = {sql: place for place, sql in enumerate(known)}
    return Grouping(
        tuple(known.values()), tuple(tuple(dict.fromkeys(places[render(t)] for t in each)) for each in sets)
    )


def _check_number(group: exp.Expr, scope: Scope) -> None:
    number = 1
    for node in group.expressions:
        number *= _number_of(node)
        if number > MOST_READ:
            reason = f"GROUP BY has more than {MOST_READ} grouping sets, which are the most that a query has"
            raise scope.error(f"{reason}: ask for less, in several queries", span_of(node))


def _number_of(node: exp.Expr) -> int:
    if isinstance(node, exp.GroupingSets):
        return sum(map(_number_of, node.expressions))
    if isinstance(node, exp.Cube):
        return 1 << len(node.expressions)
    return len(node.expressions) + 1 if isinstance(node, exp.Rollup) else 1


def _sets_of(node: exp.Expr) -> list[list[exp.Expr]]:
    """The sets of one entry of GROUP BY, each a list of keys."""
    if isinstance(node, exp.GroupingSets):
        return [each for part in node.expressions for each in _sets_of(part)]
    parts = [_keys_of(part) for part in node.expressions]
    if isinstance(node, exp.Rollup):
        chosen = [parts[:length] for length in range(len(parts), -1, -1)]
    elif isinstance(node, exp.Cube):
        chosen = [list(some) for length in range(len(parts), -1, -1) for some in combinations(parts, length)]
    else:
        return [_keys_of(node)]
    return [[key for part in some for key in part] for some in chosen]


def _keys_of(node: exp.Expr) -> list[exp.Expr]:
    """The keys of `(a, b)`, which stand together, or of one expression."""
    return node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
