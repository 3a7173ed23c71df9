"""An aggregate over a window of results, without a nested sub-query (thesis 3.4).

    SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM s [RANGE 6 sec SLIDE 6 sec]
    SELECT SUM(x) FROM (SELECT SUM(a) AS x FROM s [RANGE 6 sec SLIDE 6 sec INTERNAL]) [ROWS 10] wstream

The first is written for the second: Wstream implies that the windows below are internal.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.core.errors import NotSupportedError
from sash.sql.binding.shape import word_in
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import output_of, set_output, set_window, window_clause
from sash.sql.reading.statements import Select

_COLUMN, _TABLE = "x", "wstream"


def is_aggregate_of_results(tree: exp.Expr) -> bool:
    clause = output_of(tree)
    return clause is not None and clause.around is not None


def aggregate_of_results(select: Select) -> exp.Select:
    """The nested query for such an aggregate."""
    clause = select.output
    assert clause is not None and clause.around is not None
    for key, word in (("group", "GROUP BY"), ("having", "HAVING")):
        if select.tree.args.get(key) is not None:
            what = f"{word} beside an aggregate of results; write the sub-query, (SELECT .. INTERNAL]) [ROWS 10] a"
            raise NotSupportedError(what, select.script, word_in(select, word))
    inner = select.tree.copy()
    first = inner.expressions[0]
    set_output(first, None)
    inner.set("expressions", [exp.alias_(first.unalias().copy(), _COLUMN), *inner.expressions[1:]])
    for table in inner.find_all(exp.Table):
        window = window_clause(table)
        if window is not None:
            set_window(table, replace(window, internal_at=clause.at))
    sub_query = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_TABLE)))
    sub_query.meta.update(_place(clause))
    set_window(sub_query, clause.window)
    return exp.Select(expressions=[_item(clause)], from_=exp.From(this=sub_query))


def _item(clause: OutputClause) -> exp.Expr:
    assert clause.around is not None
    function = clause.around.function
    column = exp.Column(this=exp.to_identifier(_COLUMN))
    call = exp.Anonymous(this=function.text, expressions=[column])
    for node in (column, call):
        node.meta.update(start=function.span.start, end=function.span.end - 1)
    alias = clause.around.alias or f"{function.text.lower()}_of_results"
    return exp.Alias(this=call, alias=exp.to_identifier(alias))


def _place(clause: OutputClause) -> dict[str, int]:
    return {"start": clause.at.start, "end": clause.at.end - 1}
