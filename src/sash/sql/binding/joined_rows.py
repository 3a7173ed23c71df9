"""The joined rows of one SELECT: where its conditions go, and in which order its sources are joined.

    WHERE a.x > 1 AND a.k = b.k AND a.x + b.y > 7

A condition on one source alone goes below the join, an equality between sources becomes a key, and other conditions are
tested on the joined rows. Sources are joined in the order of FROM, from left to right; a source without an equality to
those before it waits until there is one. Tables come last: a join with a table takes no negative tuples.

    FROM packets [RANGE 5 sec] a, ports p, customers c WHERE a.port = p.port AND a.src = c.id AND c.city = 'Rome'

Every column of a table's key must equal something of the windows, or of tables joined before. Non-retroactive tables
come first, a relation last: the results of a join with a relation may be taken back, and a join with a table cannot
take back its own (thesis 3.5.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from sash.core.changes import UpdatePattern
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.plan.continuous import Filter, Join, Map, Node
from sash.plan.expressions import Expression, Field
from sash.plan.outputs import Stamped
from sash.sql.binding.finite import deciding_extremes
from sash.sql.binding.sources import OVER, ChangeScope, PlanSource, TableSource, WindowSource
from sash.sql.expressions.answer_terms import Translator
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, cast_to, column_of, render, sources_in
from sash.sql.types import is_interval, spark_name

# Functions whose arguments Spark must not compute in advance: 1 / x behind CASE WHEN x <> 0.
_CONDITIONAL = ("case", "if", "coalesce", "nvl", "ifnull")
Computed = tuple[str, Expression]


@dataclass(frozen=True)
class JoinStep:
    """The next source to be joined, the equalities that tie it to those before, and their two sides."""

    source: str
    equalities: tuple[Term, ...]
    keys: tuple[tuple[Term, Term], ...]


class JoinedRows:
    """The rows that FROM and WHERE leave, while a plan is made: first columns are requested, then the rows are built.

    A term over one window becomes a column that Spark computes; others are computed from such columns above. `once`:
    it does not matter how often a row is there. `counted`: who reads the rows multiplies them by `copies`.
    """

    def __init__(
        self, sources: Mapping[str, PlanSource], places: Mapping[str, Span], scope: Scope, query: ChangeScope,
        *, once: bool = False, counted: bool = False,
    ) -> None:  # fmt: skip
        self._sources, self._places, self._query = sources, places, query
        self._tables = {name: each for name, each in sources.items() if isinstance(each, TableSource)}
        self.is_internal = any(source.internal for source in sources.values())
        # Whether whole streams are remembered as their different tuples; a tuple that comes again may find another row
        # of a non-retroactive table than before.
        self.are_values = once and all(each.table.retroactive for each in self._tables.values())
        # Whether whole streams are remembered as their different tuples with the number of each.
        self.are_counted = counted and not self._tables and not self.is_internal
        # The columns with these numbers, and the patterns of the other sources, once the rows are built.
        self.copies = list[Field]()
        self._patterns = dict[str, UpdatePattern]()
        # Columns with the expiries of external tuples, once the rows are built, beside internal windows.
        self.stamps = list[str]()
        self._equalities: list[Term] = []
        self._others: list[Term] = []
        self._computed: dict[str, Computed] = {}
        self._translator = Translator(scope, self._leaf, OVER)
        self._plain = Translator(scope, self._plain_leaf, OVER)

    def require(self, condition: Term) -> None:
        # A condition that is NULL has no type of its own.
        condition = cast_to(condition, pa.bool_()) if pt.is_null(condition.type) else condition
        owner = self._owner(condition)
        if owner is not None and not isinstance(owner, TableSource):
            owner.require(condition)
        elif _is_equality(condition):
            self._equalities.append(condition)
        else:
            self._others.append(condition)

    def expression(self, term: Term) -> Expression:
        return self._translator.translate(term)

    def column(self, term: Term) -> str:
        """The name of a column with the term's value, which the rows will have."""
        return self._named(term, self._computed)

    def node(self) -> Node:
        """Build the rows. Call this once, after all columns were requested."""
        first, joins = self._order()
        done = {first, *(step.source for step in joins)}
        steps = [*joins, *_order_tables(self._tables, done, self._equalities, self._query, self._places)]
        used = {id(equality) for step in steps for equality in step.equalities}
        others = [*self._others, *(equality for equality in self._equalities if id(equality) not in used)]
        if self.are_values:
            self._decide(steps, others)
        test = self.expression(joined("and", others)) if others else None
        keys = [self._keys(step) for step in steps]
        node = self._source(first)
        for step, (computed, pairs) in zip(steps, keys, strict=True):
            node = self._joined(with_columns(node, computed), step.source, pairs)
        return with_columns(node if test is None else Filter(node, test), list(self._computed.values()))

    def _decide(self, steps: Sequence[JoinStep], others: Sequence[Term]) -> None:
        """Tell sources for which of their columns one value decides. The columns that others read come first."""
        limits = [each for each in others if len(deciding_extremes(each)) == 2 and self._spans(each)]
        if not limits:
            return
        for step in steps:
            self._keys(step)
        for each in others:
            if each not in limits:
                self.expression(each)
        for each in limits:
            for term, function in deciding_extremes(each):
                owner = self._owner(term)
                if isinstance(owner, WindowSource):
                    owner.decide_by(term, function)

    def _spans(self, condition: Term) -> bool:
        """Whether it compares a term over one source with a term over another."""
        one, other = (sources_in(arg) for arg in condition.args)
        return len(one) == len(other) == 1 and one != other

    def check_groups(self) -> None:
        """Groups over windows of both kinds would be neither append-only nor kept up to date."""
        if self.stamps:
            external = next(name for name in self._sources if f"{name} expires" in self.stamps)
            reason = (
                "groups over INTERNAL and external windows are refused: write INTERNAL into all windows, or into none"
            )
            raise CqlError(reason, self._query.script, self._places[external])

    def check_copies(self) -> None:
        """Rows that come in copies may expire; of rows that are taken back, nobody knows which copies are meant."""
        strict = [name for name, pattern in self._patterns.items() if pattern is UpdatePattern.STRICT]
        if self.copies and strict:
            what = (
                "a join of [UNBOUNDED] that keeps duplicates with what may be taken back ([ROWS n], groups, negation)"
            )
            way_out = "; SELECT DISTINCT and COUNT(*) may read it"
            raise NotSupportedError(what + way_out, self._query.script, self._places[strict[0]])

    def _source(self, name: str) -> Node:
        """A source's node; beside internal windows an external tuple carries its expiry along."""
        source, node = self._sources[name], self._source_node(name)
        if not self.is_internal or source.internal or node.pattern is UpdatePattern.MONOTONIC:
            return node
        if node.pattern is UpdatePattern.STRICT:
            what = "INTERNAL windows beside rows that may be taken back ([ROWS n], groups, negation)"
            raise NotSupportedError(what, self._query.script, self._places[name])
        self.stamps.append(f"{name} expires")
        return Stamped(node, self.stamps[-1])

    def _joined(self, left: Node, source: str, keys: tuple[tuple[str, str], ...]) -> Node:
        if source in self._tables:
            if self.is_internal and self._tables[source].table.retroactive:
                what = (
                    "INTERNAL windows joined with a TABLE, whose changes are retroactive; NONRETROACTIVE TABLEs may be"
                )
                raise NotSupportedError(what, self._query.script, self._places[source])
            _check_input(left, self._tables[source], self._query, self._places[source])
            return self._tables[source].joined(left, keys)
        right = self._source(source)
        for side in (left, right):
            self._query.check_bounded(side, "a join")
        return Join(left, right, keys)

    def _source_node(self, name: str) -> Node:
        source = self._sources[name]
        assert not isinstance(source, TableSource)
        if isinstance(source, WindowSource) and source.can_be_values:
            if self.are_values:
                return source.values()
            if self.are_counted:
                node, copies = source.counted()
                self.copies.append(copies)
                return node
        node = source.node()
        self._patterns[name] = node.pattern
        return node

    def _order(self) -> tuple[str, list[JoinStep]]:
        """A source to begin with, and the others; the first of FROM unless an equality needs several sources."""
        windows = [name for name in self._sources if name not in self._tables]
        if not windows:
            alone = next(iter(self._sources))
            reason = f"'{self._tables[alone].table.name}' is a table: join it with the window of a stream"
            raise CqlError(reason, self._query.script, self._places[alone])
        for first in windows:
            steps = self._steps(first)
            if len(steps) == len(windows) - 1:
                return first, steps
        first = windows[0]
        if self.are_values and all(_is_whole_stream(self._sources[name]) for name in windows):
            return first, self._steps(first, tied=False)
        reached = {first, *(step.source for step in self._steps(first))}
        alone = next(name for name in windows if name not in reached)
        reason = "a join of windows needs an equality between them: JOIN .. ON a.k = b.k, or WHERE a.k = b.k"
        raise CqlError(reason, self._query.script, self._places[alone])

    def _steps(self, first: str, *, tied: bool = True) -> list[JoinStep]:
        """The sources in the order in which equalities tie them; without one, the next comes only if none is needed."""
        done, steps = {first}, list[JoinStep]()
        while True:
            names = (name for name in self._sources if name not in done and name not in self._tables)
            waiting = [self._step(name, done) for name in names]
            waiting.sort(key=lambda step: not step.keys)
            step = next((step for step in waiting if step.keys or not tied), None)
            if step is None:
                return steps
            steps.append(step)
            done.add(step.source)

    def _step(self, source: str, done: set[str]) -> JoinStep:
        found = [(term, pair) for term in self._equalities if (pair := _sides(term, source, done)) is not None]
        return JoinStep(source, tuple(term for term, _ in found), tuple(pair for _, pair in found))

    def _keys(self, step: JoinStep) -> tuple[Sequence[Computed], tuple[tuple[str, str], ...]]:
        """The names of a step's keys, and the keys that must be computed on the rows joined before."""
        computed: dict[str, Computed] = {}
        source = self._sources[step.source]
        pairs = [(self._named(left, computed), source.field(right).name) for left, right in step.keys]
        return list(computed.values()), tuple(dict.fromkeys(pairs))

    def _named(self, term: Term, computed: dict[str, Computed]) -> str:
        owner = self._owner(term)
        if owner is not None and not isinstance(owner, TableSource):
            return owner.field(term).name
        made, sql = self.expression(term), render(term)
        if isinstance(made, Field):
            return made.name
        return computed.setdefault(sql, (sql, made))[0]

    def _owner(self, term: Term) -> PlanSource | None:
        """The only source of a term; Spark computes a term without a source beside any window."""
        aliases = sources_in(term)
        if len(aliases) == 1:
            return self._sources[min(aliases)]
        windows = (source for source in self._sources.values() if isinstance(source, WindowSource))
        return None if aliases else next(windows, None)

    def _leaf(self, term: Term) -> Expression | None:
        owner = self._owner(term)
        if isinstance(owner, WindowSource) and not is_interval(term.type):
            return owner.field(term)
        return self._plain.translate(term) if term.op in _CONDITIONAL else self._plain_leaf(term)

    def _plain_leaf(self, term: Term) -> Expression | None:
        owner = self._owner(term)
        return owner.field(term) if term.op == "field" and owner is not None else None


def _is_whole_stream(source: PlanSource) -> bool:
    return isinstance(source, WindowSource) and source.is_unbounded


def with_columns(node: Node, computed: Sequence[Computed]) -> Node:
    """The node with more columns; a computed column is named after its contents, so one is enough."""
    missing = [column for column in computed if column[0] not in node.schema.names]
    own = ((column.name, Field(column.name, column.type)) for column in node.schema)
    return Map(node, (*own, *missing)) if missing else node


def _is_equality(condition: Term) -> bool:
    """Whether it compares an expression of one side with an expression of another."""
    if condition.op != "eq":
        return False
    one, other = (sources_in(arg) for arg in condition.args)
    return bool(one and other) and not one & other


def _order_tables(
    tables: Mapping[str, TableSource], joined: set[str], equalities: Sequence[Term], query: ChangeScope,
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


def _check_input(node: Node, source: TableSource, query: ChangeScope, at: Span) -> None:
    """Check that a node may be joined with a table: no negative tuples, and with a relation nothing unbounded."""
    if node.pattern is UpdatePattern.STRICT:
        reason = (
            f"'{source.table.name}' cannot be joined with what may be taken back (a row-based window, groups, "
            "NOT EXISTS, a join with another TABLE): its row may be another by then. Join it with the window itself"
        )
        hint = "" if not source.table.retroactive else ", or make it a NONRETROACTIVE TABLE and join it first"
        raise CqlError(reason + hint, query.script, at)
    if source.table.retroactive:
        what = (
            "a join with a TABLE, whose changes concern all tuples (those of a NONRETROACTIVE TABLE: only later ones),"
        )
        query.check_bounded(node, what)


def _sides(equality: Term, source: str, done: set[str]) -> tuple[Term, Term] | None:
    """The equality's two sides in their common type, if it ties a source to those that are joined already."""
    one, other = (cast_to(arg, type) for arg, type in zip(equality.args, equality.coerced, strict=True))
    for left, right in ((one, other), (other, one)):
        if sources_in(left) <= done and sources_in(right) == {source}:
            return left, right
    return None


def _lookup(name: str, source: TableSource, done: set[str], equalities: Sequence[Term]) -> JoinStep | None:
    """An equality for each column of the key; further equalities are tested above the join."""
    found: dict[str, tuple[Term, tuple[Term, Term]]] = {}
    for equality in equalities:
        pair = _sides(equality, name, done)
        if pair is not None and pair[1].op == "field":
            found.setdefault(column_of(pair[1]), (equality, pair))
    if not all(key in found for key in source.table.key):
        return None
    chosen = [found[key] for key in source.table.key]
    return JoinStep(name, tuple(equality for equality, _ in chosen), tuple(pair for _, pair in chosen))


def _untied(
    source: TableSource, done: set[str], equalities: Sequence[Term], query: ChangeScope, at: Span
) -> CqlError:  # fmt: skip
    """Why a table's row cannot be found."""
    for equality in equalities:
        pair = _sides(equality, source.alias, done)
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
