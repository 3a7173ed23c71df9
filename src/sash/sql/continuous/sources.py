"""What stands in FROM of a continuous query: windows on streams, sub-queries, and tables.

While a SELECT is bound, each source collects what is asked of it: the conditions that speak of it alone, and the
columns and expressions that are used above. Only then is its node built, with these columns and no others.

    packets [RANGE 5 sec] p     Window packets p where <conditions>               Spark computes the columns
    packets [ROWS 100] p        Filter p.<conditions> <- Window packets p         rows are counted before WHERE
    (SELECT ..) a               Project a.x <- Filter <conditions> <- the SELECT  Sash computes the columns
    ports p                     looked up by its key, above the joins of the others; conditions stand above that

A column is called `alias.column`, an expression `alias.SQL`. The columns of PARTITION BY are always there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from sash.catalog import Stream, Table
from sash.core.errors import Span
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import BaseWindow, Column, Filter, Map, Node, NrrJoin, RelationJoin, TableJoin
from sash.plan.expressions import Expression, Field, Literal, RowExpression
from sash.sql.binding.groups import row_expression
from sash.sql.expressions.answer_terms import Translator
from sash.sql.expressions.constants import literal
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, render

OVER = "joined windows, sub-queries or groups; compute it inside a sub-query over one window"


class WindowSource:
    """A window on a stream: Spark computes whatever concerns it alone."""

    def __init__(
        self, alias: str, stream: Stream, window: TimeWindow | RowWindow, partition: tuple[str, ...],
        *, internal: bool = False,
    ) -> None:  # fmt: skip
        self.alias = alias
        self.internal = internal
        self._stream, self._window = stream, window
        self._columns: dict[str, tuple[str, Term]] = {}
        self._conditions: list[Term] = []
        columns = (Term("column", (), stream.schema.field(name).type, Span(0, 1), name) for name in partition)
        self._partition = tuple(self._field(column).name for column in columns)

    def require(self, condition: Term) -> None:
        self._conditions.append(_own(condition))

    def field(self, term: Term) -> Field:
        """The column that a term over this window alone becomes."""
        return self._field(_own(term))

    def _field(self, term: Term) -> Field:
        sql = render(term)
        if sql not in self._columns:
            name = str(term.value) if term.op == "column" else sql
            self._columns[sql] = (unused(f"{self.alias}.{name}", [used for used, _ in self._columns.values()]), term)
        return Field(self._columns[sql][0], term.type)

    def node(self) -> Node:
        condition = joined("and", self._conditions) if self._conditions else None
        if isinstance(self._window, RowWindow):
            return self._row_based(condition)
        predicate = row_expression(condition) if condition is not None else None
        columns = tuple(Column(name, row_expression(term)) for name, term in self._columns.values())
        return self._base(columns, predicate)

    def _base(self, columns: tuple[Column, ...], predicate: RowExpression | None) -> BaseWindow:
        """A window of which nothing is asked but how many tuples it has gets a constant: a table must have a column."""
        only = Column(f"{self.alias}.1", RowExpression("1", pa.int32()))
        return BaseWindow(
            self._stream.name, self.alias, self._window, columns or (only,), predicate, self._partition, self.internal
        )

    def _row_based(self, condition: Term | None) -> Node:
        """The condition is a column, tested above the window. It guards the expressions: WHERE x <> 0 before 1 / x."""
        guarded = {
            name: term if condition is None or term.op == "column" else _guarded(condition, term)
            for name, term in self._columns.values()
        }
        test = self._field(condition) if condition is not None else None
        columns = tuple(Column(name, row_expression(guarded.get(name, t))) for name, t in self._columns.values())
        base = self._base(columns, None)
        return base if test is None else Filter(base, test)


class QuerySource:
    """A sub-query: its answer changes tuple by tuple, and Sash computes what is asked of it."""

    internal = False

    def __init__(self, alias: str, plan: Node, scope: Scope) -> None:
        self.alias = alias
        self._plan = plan
        self._outputs: dict[str, tuple[str, Expression]] = {}
        self._conditions: list[Term] = []
        self._translator = Translator(scope, _inner_field, OVER)

    def require(self, condition: Term) -> None:
        self._conditions.append(condition)

    def field(self, term: Term) -> Field:
        sql = render(term)
        if sql not in self._outputs:
            name = f"{self.alias}.{column_of(term) if _is_field(term) else render(_own(term))}"
            name = unused(name, [used for used, _ in self._outputs.values()])
            self._outputs[sql] = (name, self._translator.translate(term))
        return Field(self._outputs[sql][0], term.type)

    def node(self) -> Node:
        plan = self._plan
        if self._conditions:
            plan = Filter(plan, self._translator.translate(joined("and", self._conditions)))
        return Map(plan, tuple(self._outputs.values()) or ((f"{self.alias}.1", Literal(1, pa.int32())),))


class TableSource:
    """A table: nothing but its own columns, and its key always."""

    internal = False

    def __init__(self, alias: str, table: Table) -> None:
        self.alias = alias
        self.table = table
        self._columns = {key: f"{alias}.{key}" for key in table.key}

    def field(self, term: Term) -> Field:
        """A column of the table, by the name that it has above the join."""
        name = column_of(term)
        return Field(self._columns.setdefault(name, f"{self.alias}.{name}"), term.type)

    def joined(self, input: Node, keys: tuple[tuple[str, str], ...]) -> TableJoin:
        columns = tuple((name, column) for column, name in self._columns.items())
        kind = RelationJoin if self.table.retroactive else NrrJoin
        return kind(input, self.table, keys, columns)


Source = WindowSource | QuerySource | TableSource


def aliases_in(term: Term) -> frozenset[str]:
    """The sources that a term speaks of."""
    return frozenset(str(part.value).split(".", 1)[0] for part in term.walk() if _is_field(part))


def column_of(field: Term) -> str:
    return str(field.value).split(".", 1)[1]


def unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name


def cast_to(term: Term, type: pa.DataType) -> Term:
    """The term in another type, as Spark would cast it."""
    return term if term.type == type else Term("cast", (term,), type, term.span, coerced=(term.type,))


def condition_of(term: Term) -> Term:
    """A condition that is NULL as written has no type of its own."""
    return cast_to(term, pa.bool_()) if pt.is_null(term.type) else term


def _is_field(term: Term) -> bool:
    return term.op == "field"


def _inner_field(term: Term) -> Field | None:
    """A column of a sub-query's answer, as it is called in there."""
    return Field(column_of(term), term.type) if _is_field(term) else None


def _own(term: Term) -> Term:
    """The term over the columns of its only source, without the alias."""
    if _is_field(term):
        return Term("column", (), term.type, term.span, column_of(term))
    return replace(term, args=tuple(_own(arg) for arg in term.args))


def _guarded(condition: Term, term: Term) -> Term:
    otherwise = literal(None, term.type, term.span)
    return Term("case", (condition, term, otherwise), term.type, term.span)
