"""GROUP BY of a continuous query: its keys and aggregates as columns of the rows below.

    Filter (HAVING) <- GroupBy p.src: SUM(p.length) <- Window packets p

Keys and arguments over one window are that window's own columns. Over joined rows those that are no plain column
are computed by a Map between.
"""

from __future__ import annotations

from sash.plan.continuous import Aggregated, GroupBy, Map, Node
from sash.plan.expressions import Expression, Field
from sash.sql.continuous.joins import BoundRows, Computed
from sash.sql.continuous.sources import OVER, column_of, unused
from sash.sql.expressions.aggregates import ALGEBRAIC
from sash.sql.expressions.answer_terms import Translator
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, render


class ContinuousGroups:
    """Equal keys and equal aggregates stand once."""

    def __init__(self, scope: Scope, rows: BoundRows) -> None:
        self._scope, self._rows = scope, rows
        self._inputs: dict[str, Computed] = {}
        self._keys: dict[str, str] = {}
        self._calls: dict[str, Aggregated] = {}
        self._translator = Translator(scope, self._leaf, OVER)

    def add_key(self, term: Term) -> None:
        self._keys[render(term)] = self._input(term)

    def translate(self, term: Term) -> Expression:
        return self._translator.translate(term)

    def node(self, input: Node) -> GroupBy:
        computed = any(not isinstance(made, Field) for _, made in self._inputs.values())
        below = Map(input, tuple(dict.fromkeys(self._inputs.values()))) if computed else input
        return GroupBy(below, tuple(dict.fromkeys(self._keys.values())), tuple(self._calls.values()))

    def _input(self, term: Term) -> str:
        """The column of the input that a key or an argument is."""
        sql = render(term)
        if sql not in self._inputs:
            made = self._rows.expression(term)
            name = made.name if isinstance(made, Field) else unused(sql, [name for name, _ in self._inputs.values()])
            self._inputs[sql] = (name, made)
        return self._inputs[sql][0]

    def _leaf(self, term: Term) -> Field | None:
        key = self._keys.get(render(term))
        if key is not None:
            return Field(key, term.type)
        if term.op == "field":
            raise self._scope.error(f"'{column_of(term)}' is neither in GROUP BY nor inside an aggregate", term.span)
        return self._call(term) if term.op == "aggregate" else None

    def _call(self, term: Term) -> Field:
        sql, function = render(term), str(term.value)
        if function not in ALGEBRAIC:
            title = "COUNT(DISTINCT ..)" if function == "count_distinct" else function.upper()
            raise self._scope.unsupported(f"{title} {self._rows.without_panes}", term.span)
        if sql not in self._calls:
            argument = self._input(term.args[0]) if term.args else None
            taken = {*self._keys.values(), *(call.name for call in self._calls.values())}
            self._calls[sql] = Aggregated(unused(sql, taken), function, argument, term.type)
        return Field(self._calls[sql].name, term.type)
