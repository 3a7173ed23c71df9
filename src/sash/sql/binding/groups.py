"""The Aggregate node of one query while it is built: its keys, and the calls met so far."""

from __future__ import annotations

from collections.abc import Iterable

from sash.plan.expressions import Expression, Field, RowExpression
from sash.plan.nodes import AggregateCall, Key
from sash.sql.expressions.aggregates import parameters
from sash.sql.expressions.answer_terms import Translator
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, render


class GroupingColumns:
    """Equal keys and equal calls stand once; `reserved` are names that nodes above give to columns of their own."""

    def __init__(self, scope: Scope, reserved: Iterable[str] = ()) -> None:
        self._scope = scope
        self._reserved = frozenset(reserved)
        self._keys: dict[str, Key] = {}
        self._calls: dict[str, AggregateCall] = {}
        self._translator = Translator(scope, self._field)

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self._keys.values())

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self._calls.values())

    def add_key(self, term: Term) -> None:
        sql = render(term)
        name = str(term.value) if term.op == "column" else sql
        self._keys.setdefault(sql, Key(self._unused(name), row_expression(term)))

    def has_key(self, term: Term) -> bool:
        return render(term) in self._keys

    def translate(self, term: Term) -> Expression:
        return self._translator.translate(term)

    def _field(self, term: Term) -> Field | None:
        """The leaves over groups: keys and aggregates."""
        sql = render(term)
        key = self._keys.get(sql)
        if key is not None:
            return Field(key.name, key.expression.type)
        if term.op == "column":
            reason = f"'{term.value}' is neither in GROUP BY nor inside an aggregate"
            raise self._scope.error(reason, term.span)
        return self._call_field(term, sql) if term.op == "aggregate" else None

    def _call_field(self, term: Term, sql: str) -> Field:
        if sql not in self._calls:
            argument = row_expression(term.args[0]) if term.args else None
            name, function = self._unused(sql), str(term.value)
            self._calls[sql] = AggregateCall(name, function, argument, term.type, parameters(term))
        return Field(self._calls[sql].name, term.type)

    def _unused(self, name: str) -> str:
        taken = {key.name for key in self.keys} | {call.name for call in self.calls} | self._reserved
        while name in taken:
            name += "'"
        return name


def row_expression(term: Term) -> RowExpression:
    return RowExpression(render(term), term.type, term.columns)
