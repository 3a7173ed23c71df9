"""The sources in FROM of a continuous plan: windows on streams, sub-queries, and tables.

While the plan of a SELECT is made, each source collects the conditions on it alone, and the columns and expressions
that are used above. Only then its node is built, with these columns and no others.

    packets [RANGE 5 sec] p     Window packets p where <conditions>               Spark computes the columns
    packets [ROWS 100] p        Filter p.<conditions> <- Window packets p         rows are counted before WHERE
    (SELECT ..) a               Project a.x <- Filter <conditions> <- the SELECT  Sash computes the columns
    ports p                     looked up by its key, above the joins of the others; conditions stand above that

A column is called `alias.column`, an expression `alias.SQL`. The columns of PARTITION BY are always there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from sash.catalog import Stream, Table
from sash.core.changes import UpdatePattern
from sash.core.errors import CqlError, Span
from sash.core.time import Micros
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import (
    Aggregated,
    BaseWindow,
    Column,
    Distinct,
    Duplicates,
    Filter,
    GroupBy,
    LeftNrrJoin,
    LeftRelationJoin,
    Map,
    Node,
    NrrJoin,
    RelationJoin,
    RememberedValues,
    TableJoin,
    edges,
    inputs,
    windows,
)
from sash.plan.expressions import Expression, Field, Literal, RowExpression
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Snapshots
from sash.sql.binding.finite import FiniteTerms
from sash.sql.expressions.answer_terms import Translator, unused
from sash.sql.expressions.constants import literal
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, column_of, over_tuples, render, row_expression
from sash.sql.reading.limits import MOST_READ

OVER = "joined windows, sub-queries or groups; compute it inside a sub-query over one window"


@dataclass(frozen=True)
class ChangeScope:
    """What all SELECTs of one continuous query share. `places` has every source, and where its window was written.

    `slide` is the SLIDE of all windows, with the origin of its multiples, if they slide.
    """

    script: str
    places: Mapping[str, Span]
    slide: tuple[Micros, Micros] | None = None

    def check_size(self, read: int, at: Span, why: str = "") -> None:
        """Check how often sources are read, which may be more often than they are written; `why` explains it."""
        if read > MOST_READ:
            reason = f"the plan of this query would read {read:,} windows and tables, and {MOST_READ} are the most"
            raise CqlError(reason + why, self.script, at)

    def check_bounded(self, node: Node, what: str, *, by_values: bool = True) -> Node:
        """The node, unless an operator that remembers its input would remember all of a stream.

        `by_values`: there are queries in which the operator remembers finitely many values instead.
        """
        for alias, of_what in _unbounded(node):
            hint = _VALUES if of_what == _STREAM and by_values else ""
            raise CqlError(f"{what} over {of_what}{hint}", self.script, self.places[alias])
        return node

    def refuse_internal(self, node: Node, what: str, why: str) -> None:
        """Refuse INTERNAL windows below operators that take results back: results of such windows stay."""
        for window in _internal_windows(node):
            reason = f"{what} over an INTERNAL window is refused: {why}; leave out INTERNAL"
            raise CqlError(reason, self.script, self.places[window.alias])


_STREAM = "[UNBOUNDED] would have to remember the whole stream: give a window, [WINDOW 10 min]"
_VALUES = (
    ", or, in DISTINCT, joins and EXISTS, conditions that leave its columns finitely many values "
    "(x IN (1, 2) AND y BETWEEN 1 AND 9)"
)
_RESULTS = "append-only results would have to remember all of them: give them a window, (SELECT ..) [RANGE 10 min] a"


def _unbounded(node: Node) -> Iterator[tuple[str, str]]:
    """Windows whose tuples, or results, would be remembered for ever."""
    if isinstance(node, BaseWindow) and node.window.unbounded:
        yield node.alias, _STREAM
    if isinstance(node, Duplicates | Deltas | Outliving | Snapshots) and node.pattern is UpdatePattern.MONOTONIC:
        yield windows(node)[0].alias, _RESULTS
    elif not isinstance(
        node, GroupBy | ResultWindow | Distinct
    ):  # groups, windows, values: they are what is remembered
        for part in inputs(node):
            yield from _unbounded(part)


def _internal_windows(node: Node) -> Iterator[BaseWindow]:
    """The INTERNAL windows whose results come up to here; a window on the results ends them again."""
    if isinstance(node, BaseWindow) and node.internal:
        yield node
    if not isinstance(node, ResultWindow):
        for part in inputs(node):
            yield from _internal_windows(part)


def read_by(node: Node) -> int:
    """How many windows and tables a plan reads, each as often as it stands there."""
    return sum(isinstance(part, BaseWindow | NrrJoin | RelationJoin) for _, part in edges(node))


class WindowSource:
    """A window on a stream: Spark computes everything that refers to it alone."""

    def __init__(
        self, alias: str, stream: Stream, window: TimeWindow | RowWindow, partition: tuple[str, ...],
        *, internal: bool = False,
    ) -> None:  # fmt: skip
        self.alias = alias
        self.internal = internal
        self._stream, self._window = stream, window
        self._columns: dict[str, tuple[str, Term]] = {}
        self._conditions: list[Term] = []
        # The name of a column that nothing but an inequality reads, and which of its values decides.
        self._extreme: dict[str, str] = {}
        columns = (Term("column", (), stream.schema.field(name).type, Span(0, 1), name) for name in partition)
        self._partition = tuple(self._field(column).name for column in columns)

    def require(self, condition: Term) -> None:
        self._conditions.append(over_tuples(condition))

    def field(self, term: Term) -> Field:
        """The column that a term over this window alone becomes."""
        return self._field(over_tuples(term))

    def _field(self, term: Term) -> Field:
        sql = render(term)
        if sql not in self._columns:
            name = str(term.value) if term.op == "column" else sql
            self._columns[sql] = (unused(f"{self.alias}.{name}", [used for used, _ in self._columns.values()]), term)
        return Field(self._columns[sql][0], term.type)

    @property
    def is_unbounded(self) -> bool:
        return self._window.unbounded

    @property
    def can_be_values(self) -> bool:
        """Whether all of the stream can be remembered: as its different tuples, of which there are finitely many, if
        need be with the least or greatest value of one more column."""
        known = FiniteTerms(self._conditions)
        return self.is_unbounded and all(
            term in known or name in self._extreme for name, term in self._columns.values()
        )

    def decide_by(self, term: Term, function: str) -> None:
        """Of a column that nothing else reads, one value is enough: the least or the greatest of each value's tuples.

        Tuples with two such columns would have to be compared as wholes.
        """
        plain = over_tuples(term)
        if not self.is_unbounded or plain in FiniteTerms(self._conditions):
            return
        sql = render(plain)
        if sql not in self._columns:
            self._extreme = self._extreme or {self._field(plain).name: function}
        elif self._extreme.get(self._columns[sql][0], function) != function:
            # Two inequalities need both ends of its values, perhaps of one tuple.
            self._extreme = {}

    def values(self) -> Node:
        """Each of its different tuples once."""
        node, names = self.node(), self._extreme
        if not names:
            return Distinct(node)
        kept = tuple(name for name in node.schema.names if name not in names)
        calls = (Aggregated(name, each, name, node.schema.field(name).type) for name, each in names.items())
        return RememberedValues(node, kept, tuple(calls))

    def counted(self) -> tuple[Node, Field]:
        """Each of its different tuples once, and how often the tuple came."""
        node = self.node()
        copies = Field(unused(f"{self.alias}.copies", node.schema.names), pa.int64())
        call = Aggregated(copies.name, "count", None, copies.type)
        return RememberedValues(node, tuple(node.schema.names), (call,)), copies

    def node(self) -> Node:
        condition = joined("and", self._conditions) if self._conditions else None
        if isinstance(self._window, RowWindow):
            return self._row_based(condition)
        predicate = row_expression(condition) if condition is not None else None
        columns = tuple(Column(name, row_expression(term)) for name, term in self._columns.values())
        return self._base(columns, predicate)

    def _base(self, columns: tuple[Column, ...], predicate: RowExpression | None) -> BaseWindow:
        """A window with no columns, only a number of tuples, gets a constant: a table must have a column."""
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
    """A sub-query: its answer changes tuple by tuple, and Sash computes the expressions over it."""

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
            plain = column_of(term) if term.op == "field" else render(over_tuples(term))
            name = f"{self.alias}.{plain}"
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

    def joined(self, input: Node, keys: tuple[tuple[str, str], ...], *, keeps: bool = False) -> TableJoin:
        columns = tuple((name, column) for column, name in self._columns.items())
        kinds = (RelationJoin, LeftRelationJoin) if self.table.retroactive else (NrrJoin, LeftNrrJoin)
        return kinds[keeps](input, self.table, keys, columns)


PlanSource = WindowSource | QuerySource | TableSource


def _inner_field(term: Term) -> Field | None:
    """A column of a sub-query's answer, under its inner name."""
    return Field(column_of(term), term.type) if term.op == "field" else None


def _guarded(condition: Term, term: Term) -> Term:
    otherwise = literal(None, term.type, term.span)
    return Term("case", (condition, term, otherwise), term.type, term.span)
