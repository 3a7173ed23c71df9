"""Tables in FROM of a continuous query: by which equalities their rows are found, and in which order they are joined.

    FROM packets [RANGE 5 sec] a, ports p, customers c WHERE a.port = p.port AND a.src = c.id AND c.city = 'Rome'

Every column of a table's key must equal something of the windows, or of tables joined before. Non-retroactive tables
come first, a relation last: the results of a join with a relation may be taken back, and a join with a table cannot
take back its own (thesis 3.5.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sash.core.changes import UpdatePattern
from sash.core.errors import CqlError, Span
from sash.plan.continuous import Node
from sash.sql.continuous.from_clause import QueryScope
from sash.sql.continuous.sources import TableSource, aliases_in, cast_to, column_of
from sash.sql.expressions.terms import Term
from sash.sql.types import spark_name


@dataclass(frozen=True)
class JoinStep:
    """The next source to be joined, and the equalities that tie it to those before: they and their two sides."""

    source: str
    equalities: tuple[Term, ...]
    keys: tuple[tuple[Term, Term], ...]


def order_tables(
    tables: Mapping[str, TableSource], joined: set[str], equalities: Sequence[Term], query: QueryScope,
    places: Mapping[str, Span],
) -> list[JoinStep]:  # fmt: skip
    """The tables in the order in which they can be looked up, each with the equalities that fix its key."""
    done, steps = set(joined), list[JoinStep]()
    waiting = sorted(tables, key=lambda name: tables[name].table.retroactive)
    while waiting:
        found = (_lookup(name, tables[name], done, equalities) for name in waiting)
        step = next((step for step in found if step is not None), None)
        if step is None:
            raise _untied(tables[waiting[0]], done, equalities, query, places[waiting[0]])
        steps.append(step)
        done.add(step.source)
        waiting.remove(step.source)
    return steps


def check_input(node: Node, source: TableSource, query: QueryScope, at: Span) -> None:
    """Whether what is joined with a table may be: no negative tuples, and with a relation nothing unbounded."""
    if node.pattern is UpdatePattern.STRICT:
        reason = (
            f"'{source.table.name}' cannot be joined with what may be taken back (a row-based window, groups, "
            "NOT EXISTS, a join with another TABLE): its row may be another by then. Join it with the window itself"
        )
        hint = "" if not source.table.retroactive else ", or make it a NONRETROACTIVE TABLE and join it first"
        raise CqlError(reason + hint, query.script, at)
    if source.table.retroactive:
        query.check_bounded(node, "a join with a TABLE, whose changes concern all tuples,")


def sides(equality: Term, source: str, done: set[str]) -> tuple[Term, Term] | None:
    """The equality's two sides in their common type, if it ties a source to those that are joined already."""
    one, other = (cast_to(arg, type) for arg, type in zip(equality.args, equality.coerced, strict=True))
    for left, right in ((one, other), (other, one)):
        if aliases_in(left) <= done and aliases_in(right) == {source}:
            return left, right
    return None


def _lookup(name: str, source: TableSource, done: set[str], equalities: Sequence[Term]) -> JoinStep | None:
    """An equality for each column of the key; what else equals them is tested above the join."""
    found: dict[str, tuple[Term, tuple[Term, Term]]] = {}
    for equality in equalities:
        pair = sides(equality, name, done)
        if pair is not None and pair[1].op == "field":
            found.setdefault(column_of(pair[1]), (equality, pair))
    if not all(key in found for key in source.table.key):
        return None
    chosen = [found[key] for key in source.table.key]
    return JoinStep(name, tuple(equality for equality, _ in chosen), tuple(pair for _, pair in chosen))


def _untied(
    source: TableSource, done: set[str], equalities: Sequence[Term], query: QueryScope, at: Span
) -> CqlError:  # fmt: skip
    """Why a table's row cannot be found."""
    for equality in equalities:
        pair = sides(equality, source.alias, done)
        if pair is not None and pair[1].op == "cast" and _is_key(pair[1], source):
            key = pair[1].args[0]
            types = f"{column_of(key)} is {spark_name(key.type)} and is compared as {spark_name(pair[1].type)}"
            return CqlError(
                f"a key is looked up in its own type, but {types}: CAST the other side", query.script, equality.span
            )
    missing = " AND ".join(f"{source.alias}.{key} = .." for key in source.table.key)
    reason = f"a row of '{source.table.name}' is found by its key: add {missing}, with columns of the windows"
    return CqlError(reason, query.script, at)


def _is_key(cast: Term, source: TableSource) -> bool:
    (inner,) = cast.args
    return inner.op == "field" and column_of(inner) in source.table.key
