"""Relation-to-stream operators where a query is answered from panes, or once: only Rstream means something there."""

from __future__ import annotations

from sqlglot import exp

from sash.core.errors import NEEDS_REGISTRATION, CqlError
from sash.sql.reading.places import output_of, window_clause
from sash.sql.reading.statements import Select


def refuse_outputs(select: Select, *, periodic: bool) -> None:
    for query in (select.tree, *select.tree.find_all(exp.Select)):
        clause = output_of(query)
        if clause is not None and (clause.kind != "rstream" or clause.restore or clause.distinct is not None):
            where = "a query that is answered from panes" if periodic else "a one-time query"
            reason = f"{clause.title}(..) speaks of changes, and {where} has none: REGISTER QUERY a continuous one"
            raise CqlError(reason, select.script, clause.at, NEEDS_REGISTRATION)
    for table in select.tree.find_all(exp.Subquery):
        window = window_clause(table)
        if window is not None:
            reason = "a window on a sub-query is over its results as they come: REGISTER QUERY a continuous query"
            raise CqlError(reason, select.script, window.span, NEEDS_REGISTRATION)
