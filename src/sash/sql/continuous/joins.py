"""The joined rows of one SELECT: where its conditions go, and in which order its sources are joined.

    WHERE a.x > 1 AND a.k = b.k AND a.x + b.y > 7

A condition on one source alone goes below the join, an equality between sources becomes a key, and what is left is
tested on the joined rows. Sources are joined in the order of FROM, from left to right; one that no equality ties to
those before it waits until there is one. Tables come last (`continuous_tables`): a join with one takes no negative
tuples.
"""

from __future__ import annotations

from collections.abc import Sequence

from sash.core.changes import UpdatePattern
from sash.core.errors import CqlError, NotSupportedError
from sash.plan.continuous import Filter, Join, Map, Node
from sash.plan.expressions import Expression, Field
from sash.plan.outputs import Stamped
from sash.sql.continuous.from_clause import From, QueryScope
from sash.sql.continuous.slides import without_panes
from sash.sql.continuous.sources import OVER, Source, TableSource, WindowSource, aliases_in
from sash.sql.continuous.tables import JoinStep, check_input, order_tables, sides
from sash.sql.expressions.answer_terms import Translator
from sash.sql.expressions.coercion import is_interval
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, render

# What Spark must not compute unless it is asked for: 1 / x behind CASE WHEN x <> 0.
_CONDITIONAL = ("case", "if", "coalesce", "nvl", "ifnull")
Computed = tuple[str, Expression]


class BoundRows:
    """The rows that FROM and WHERE leave, while a SELECT is bound: first everything is asked of it, then it is built.

    A term over one window becomes a column that Spark computes; others are computed from such columns above.
    """

    def __init__(self, found: From, query: QueryScope) -> None:
        self._sources, self._places, self._query = found.sources, found.places, query
        self._tables = {name: each for name, each in found.sources.items() if isinstance(each, TableSource)}
        self.is_internal = any(source.internal for source in found.sources.values())
        # Columns with the expiries of external tuples, once the rows are built, beside internal windows.
        self.stamps = list[str]()
        self._equalities: list[Term] = []
        self._others: list[Term] = []
        self._computed: dict[str, Computed] = {}
        scope = Scope(query.script, found.columns)
        self._translator = Translator(scope, self._leaf, OVER)
        self._plain = Translator(scope, self._plain_leaf, OVER)
        for condition in found.conditions:
            self.require(condition)

    @property
    def without_panes(self) -> str:
        return without_panes(slides=self._query.slide is not None)

    def require(self, condition: Term) -> None:
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
        """To be called once, when everything was asked for."""
        first, joins = self._order()
        done = {first, *(step.source for step in joins)}
        steps = [*joins, *order_tables(self._tables, done, self._equalities, self._query, self._places)]
        used = {id(equality) for step in steps for equality in step.equalities}
        others = [*self._others, *(equality for equality in self._equalities if id(equality) not in used)]
        test = self.expression(joined("and", others)) if others else None
        keys = [self._keys(step) for step in steps]
        node = self._source(first)
        for step, (computed, pairs) in zip(steps, keys, strict=True):
            node = self._joined(with_columns(node, computed), step.source, pairs)
        return with_columns(node if test is None else Filter(node, test), list(self._computed.values()))

    def check_groups(self) -> None:
        """Groups over windows of both kinds would be neither append-only nor kept up to date."""
        if self.stamps:
            external = next(name for name in self._sources if f"{name} expires" in self.stamps)
            reason = (
                "groups over INTERNAL and external windows are refused: write INTERNAL into all windows, or into none"
            )
            raise CqlError(reason, self._query.script, self._places[external])

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
            check_input(left, self._tables[source], self._query, self._places[source])
            return self._tables[source].joined(left, keys)
        right = self._source(source)
        for side in (left, right):
            self._query.check_bounded(side, "a join")
        return Join(left, right, keys)

    def _source_node(self, name: str) -> Node:
        source = self._sources[name]
        assert not isinstance(source, TableSource)
        return source.node()

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
        reached = {first, *(step.source for step in self._steps(first))}
        alone = next(name for name in windows if name not in reached)
        reason = "a join of windows needs an equality between them: JOIN .. ON a.k = b.k, or WHERE a.k = b.k"
        raise CqlError(reason, self._query.script, self._places[alone])

    def _steps(self, first: str) -> list[JoinStep]:
        done, steps = {first}, list[JoinStep]()
        while True:
            names = (name for name in self._sources if name not in done and name not in self._tables)
            waiting = (self._step(name, done) for name in names)
            step = next((step for step in waiting if step.keys), None)
            if step is None:
                return steps
            steps.append(step)
            done.add(step.source)

    def _step(self, source: str, done: set[str]) -> JoinStep:
        found = [(term, pair) for term in self._equalities if (pair := sides(term, source, done)) is not None]
        return JoinStep(source, tuple(term for term, _ in found), tuple(pair for _, pair in found))

    def _keys(self, step: JoinStep) -> tuple[Sequence[Computed], tuple[tuple[str, str], ...]]:
        """The names of a step's keys, and those that must be computed on the rows joined before."""
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

    def _owner(self, term: Term) -> Source | None:
        """The source that a term speaks of alone; what speaks of none, Spark computes beside any window."""
        aliases = aliases_in(term)
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


def with_columns(node: Node, computed: Sequence[Computed]) -> Node:
    """The node, with columns beside its own; a computed column is named by what it is, so one is enough."""
    missing = [column for column in computed if column[0] not in node.schema.names]
    own = ((column.name, Field(column.name, column.type)) for column in node.schema)
    return Map(node, (*own, *missing)) if missing else node


def _is_equality(condition: Term) -> bool:
    """Whether it compares an expression of one side with an expression of another."""
    if condition.op != "eq":
        return False
    one, other = (aliases_in(arg) for arg in condition.args)
    return bool(one and other) and not one & other
