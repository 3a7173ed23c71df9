"""The joined rows of one SELECT: where its conditions go, and in which order its sources are joined.

    WHERE a.x > 1 AND a.k = b.k AND a.x + b.y > 7

A condition on one source alone goes below the join, an equality between sources becomes a key, and other conditions are
tested on the joined rows. Sources are joined in the order of FROM, from left to right; a source without an equality to
those before it waits until there is one. Tables come last: a join with a table takes no negative tuples.

    FROM packets [RANGE 5 sec] a, ports p, customers c WHERE a.port = p.port AND a.src = c.id AND c.city = 'Rome'

Outer joins keep the order of FROM (join_parts.py). Their ON decides what matches and leaves no row out:

    a LEFT JOIN b ON a.k = b.k AND a.x > 1 AND b.y > 2

Conditions on b alone go below the join. The key of a becomes CASE WHEN a.x > 1 THEN a.k END: a row of a without a match
has a NULL there. A column of b that is computed, COALESCE(b.y, 0), is computed above the join.

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
from sash.plan.continuous import Filter, Join, Map, Node, OuterJoin
from sash.plan.expressions import Call, Expression, Field, Literal
from sash.plan.outputs import Stamped
from sash.sql.binding.bound import BoundJoin
from sash.sql.binding.finite import deciding_extremes
from sash.sql.binding.join_parts import JoinParts
from sash.sql.binding.sources import OVER, ChangeScope, PlanSource, TableSource, WindowSource
from sash.sql.expressions.answer_terms import Translator
from sash.sql.expressions.constants import literal
from sash.sql.expressions.operators import joined
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import Term, cast_to, column_of, render, sources_in
from sash.sql.reading.places import word_of
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


@dataclass(frozen=True)
class _OuterStep:
    """An outer join with the next source: the keys that must be computed before, and all keys.

    `test` is what a pair must fulfil beside having equal keys.
    """

    join: BoundJoin
    computed: Sequence[Computed]
    keys: tuple[tuple[str, str], ...]
    test: Expression | None = None


@dataclass(frozen=True)
class _PartOfRows:
    """What one part of FROM adds to the rows: an outer join or a first source, more sources, and a test of the rows."""

    outer: _OuterStep | None
    first: str
    steps: Sequence[tuple[str, Sequence[Computed], tuple[tuple[str, str], ...]]]
    test: Expression | None


class JoinedRows:
    """The rows that FROM and WHERE leave, while a plan is made: first columns are requested, then the rows are built.

    A term over one window becomes a column that Spark computes; others are computed from such columns above. `once`:
    it does not matter how often a row is there. `counted`: who reads the rows multiplies them by `copies`.
    """

    def __init__(
        self, sources: Mapping[str, PlanSource], places: Mapping[str, Span], scope: Scope, query: ChangeScope,
        parts: JoinParts, *, once: bool = False, counted: bool = False,
    ) -> None:  # fmt: skip
        self._sources, self._places, self._query, self._parts = sources, places, query, parts
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
        # The conditions by the parts in which they are tested.
        self._equalities: list[list[Term]] = [[] for _ in parts.parts]
        self._others: list[list[Term]] = [[] for _ in parts.parts]
        self._computed: dict[str, Computed] = {}
        self._translator = Translator(scope, self._leaf, OVER)
        self._plain = Translator(scope, self._plain_leaf, OVER)

    def require(self, condition: Term, written: int) -> None:
        """Test a condition that was written in a part of FROM; WHERE is in the last one."""
        condition, read = _boolean(condition), sources_in(condition)
        owner = self._owner(condition)
        part = self._parts.earliest(read, written)
        alone = all(self._parts.is_own(name, written) for name in read)
        if alone and owner is not None and not isinstance(owner, TableSource):
            owner.require(condition)
        elif _is_equality(condition):
            self._equalities[part].append(condition)
        else:
            self._others[part].append(condition)

    def expression(self, term: Term) -> Expression:
        return self._translator.translate(term)

    def column(self, term: Term) -> str:
        """The name of a column with the term's value, which the rows will have."""
        return self._named(term, self._computed)

    def node(self) -> Node:
        """Build the rows. Call this once, after all columns were requested."""
        done = set[str]()
        parts = [self._asked(number, done) for number in range(len(self._parts.parts))]
        node: Node | None = None
        for part in parts:
            node = self._source(part.first) if node is None else self._outer(node, part)
            for source, computed, pairs in part.steps:
                node = self._joined(with_columns(node, computed), source, pairs)
            node = node if part.test is None else Filter(node, part.test)
        assert node is not None
        return with_columns(node, list(self._computed.values()))

    def _asked(self, number: int, done: set[str]) -> _PartOfRows:
        """Request the columns of a part's joins. `done` are the sources of the parts before."""
        part, equalities = self._parts.parts[number], self._equalities[number]
        outer = None if part.outer is None else self._outer_step(part.outer, done)
        first, joins = self._order(number) if outer is None else (part.names[0], self._tied(number, done))
        done |= {first, *(step.source for step in joins)}
        tables = {name: self._tables[name] for name in part.names if name in self._tables and name not in done}
        steps = [*joins, *_order_tables(tables, done, equalities, self._query, self._places)]
        done |= set(tables)
        used = {id(equality) for step in steps for equality in step.equalities}
        others = [*self._others[number], *(equality for equality in equalities if id(equality) not in used)]
        if self.are_values:
            self._decide(steps, others)
        test = self.expression(joined("and", others)) if others else None
        return _PartOfRows(outer, first, [(step.source, *self._keys(step)) for step in steps], test)

    def _outer_step(self, join: BoundJoin, done: set[str]) -> _OuterStep:
        """The keys of an outer join: NULL for rows that its other conditions leave without a match."""
        name, source = join.source.name, self._sources[join.source.name]
        if isinstance(source, TableSource):
            return self._left_lookup(join, source, done)
        keys, left, right, both = list[tuple[Term, Term]](), list[Term](), list[Term](), list[Term]()
        for condition in map(_boolean, join.conditions):
            read = sources_in(condition)
            pair = _sides(condition, name, done) if _is_equality(condition) else None
            if pair is not None:
                keys.append(pair)
            elif name not in read:
                left.append(condition)
            elif read == {name}:
                right.append(condition)
            else:
                both.append(condition)
        if not keys:
            assert join.node is not None
            reason = f"a {join.kind.upper()} JOIN needs an equality between its sides: ON a.k = b.k"
            raise CqlError(reason, self._query.script, word_of(join.node))
        if join.kind == "left":
            for condition in right:
                source.require(condition)
            right = []
        (one, other), *_ = keys
        keys[0] = _among(left, one), _among(right, other)
        test = self.expression(joined("and", both)) if both else None
        return _OuterStep(join, *self._keys(JoinStep(name, (), tuple(keys))), test)

    def _left_lookup(self, join: BoundJoin, source: TableSource, done: set[str]) -> _OuterStep:
        """A LEFT JOIN with a table, which has one row for a key: if other conditions fail, there is none."""
        assert join.node is not None
        if join.kind != "left":
            what = f"{join.kind.upper()} JOIN with a table; LEFT JOIN keeps the tuples without a row"
            raise NotSupportedError(what, self._query.script, word_of(join.node))
        name, conditions = join.source.name, list(map(_boolean, join.conditions))
        equalities = [each for each in conditions if _is_equality(each)]
        (step,) = _order_tables({name: source}, done, equalities, self._query, self._places)
        used = {id(equality) for equality in step.equalities}
        others = [each for each in conditions if id(each) not in used]
        return _OuterStep(join, *self._keys(step), self.expression(joined("and", others)) if others else None)

    def _outer(self, left: Node, part: _PartOfRows) -> Node:
        assert part.outer is not None
        join, left = part.outer.join, with_columns(left, part.outer.computed)
        if part.first in self._tables:
            node = self._joined(left, part.first, part.outer.keys, keeps=True)
            return node if part.outer.test is None else _with_null(node, part.outer.test, left.schema.names)
        right, what = self._source(part.first), f"a {join.kind.upper()} JOIN"
        for side in (left, right):
            self._query.refuse_internal(side, what, "results that stay would no longer be without a match")
            self._query.check_bounded(side, what, by_values=False)
        return OuterJoin(
            left, right, part.outer.keys, join.kind != "right", join.kind != "left", part.outer.test
        )  # fmt: skip

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

    def _joined(
        self, left: Node, source: str, keys: tuple[tuple[str, str], ...], *, keeps: bool = False
    ) -> Node:  # fmt: skip
        if source in self._tables:
            if self.is_internal and self._tables[source].table.retroactive:
                what = (
                    "INTERNAL windows joined with a TABLE, whose changes are retroactive; NONRETROACTIVE TABLEs may be"
                )
                raise NotSupportedError(what, self._query.script, self._places[source])
            _check_input(left, self._tables[source], self._query, self._places[source])
            return self._tables[source].joined(left, keys, keeps=keeps)
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

    def _order(self, number: int) -> tuple[str, list[JoinStep]]:
        """A source to begin with, and the others of its part; the first unless an equality needs several sources."""
        names = self._parts.parts[number].names
        windows = [name for name in names if name not in self._tables]
        if not windows:
            alone = names[0]
            reason = f"'{self._tables[alone].table.name}' is a table: join it with the window of a stream"
            raise CqlError(reason, self._query.script, self._places[alone])
        for first in windows:
            steps = self._steps(number, {first})
            if len(steps) == len(windows) - 1:
                return first, steps
        first = windows[0]
        if self.are_values and all(_is_whole_stream(self._sources[name]) for name in windows):
            return first, self._steps(number, {first}, tied=False)
        return first, self._tied(number, set(), first)

    def _tied(self, number: int, done: set[str], first: str | None = None) -> list[JoinStep]:
        """The windows of a part behind its first source, all of which must be tied."""
        names = self._parts.parts[number].names
        begun = {*done, first or names[0]}
        steps = self._steps(number, begun)
        reached = {*begun, *(step.source for step in steps)}
        for alone in names:
            if alone not in reached and alone not in self._tables:
                reason = "a join of windows needs an equality between them: JOIN .. ON a.k = b.k, or WHERE a.k = b.k"
                raise CqlError(reason, self._query.script, self._places[alone])
        return steps

    def _steps(self, number: int, begun: set[str], *, tied: bool = True) -> list[JoinStep]:
        """The sources in the order in which equalities tie them; without one, the next comes only if none is needed."""
        done, steps = set(begun), list[JoinStep]()
        while True:
            names = (name for name in self._parts.parts[number].names if name not in done and name not in self._tables)
            waiting = [self._step(name, number, done) for name in names]
            waiting.sort(key=lambda step: not step.keys)
            step = next((step for step in waiting if step.keys or not tied), None)
            if step is None:
                return steps
            steps.append(step)
            done.add(step.source)

    def _step(self, source: str, number: int, done: set[str]) -> JoinStep:
        found = [(term, pair) for term in self._equalities[number] if (pair := _sides(term, source, done)) is not None]
        return JoinStep(source, tuple(term for term, _ in found), tuple(pair for _, pair in found))

    def _keys(self, step: JoinStep) -> tuple[Sequence[Computed], tuple[tuple[str, str], ...]]:
        """The names of a step's keys, and the keys that must be computed on the rows joined before."""
        computed: dict[str, Computed] = {}
        source = self._sources[step.source]
        pairs = [(self._named(left, computed), source.field(right).name) for left, right in step.keys]
        return list(computed.values()), tuple(dict.fromkeys(pairs))

    def _named(self, term: Term, computed: dict[str, Computed]) -> str:
        owner = self._owner(term)
        if owner is not None and not isinstance(owner, TableSource) and not self._is_padded(term):
            return owner.field(term).name
        made, sql = self.expression(term), render(term)
        if isinstance(made, Field):
            return made.name
        return computed.setdefault(sql, (sql, made))[0]

    def _owner(self, term: Term) -> PlanSource | None:
        """The only source of a term; Spark computes a term without a source beside any window, if none is padded."""
        aliases = sources_in(term)
        if len(aliases) == 1:
            return self._sources[min(aliases)]
        windows = (source for source in self._sources.values() if isinstance(source, WindowSource))
        return None if aliases or self._parts.last else next(windows, None)

    def _is_padded(self, term: Term) -> bool:
        """Whether an outer join may give NULLs for its sources, so that the term is computed above the join."""
        return not sources_in(term).isdisjoint(self._parts.padded)

    def _leaf(self, term: Term) -> Expression | None:
        owner = self._owner(term)
        if isinstance(owner, WindowSource) and not is_interval(term.type) and not self._is_padded(term):
            return owner.field(term)
        return self._plain.translate(term) if term.op in _CONDITIONAL else self._plain_leaf(term)

    def _plain_leaf(self, term: Term) -> Expression | None:
        owner = self._owner(term)
        return owner.field(term) if term.op == "field" and owner is not None else None


def _with_null(node: Node, test: Expression, certain: Sequence[str]) -> Node:
    """The node with NULLs in rows that fail a test, except in some columns."""
    outputs = list[Computed]()
    for column in node.schema:
        value = Field(column.name, column.type)
        made = value if column.name in certain else Call("if", (test, value, Literal(None, column.type)), column.type)
        outputs.append((column.name, made))
    return Map(node, tuple(outputs))


def _boolean(condition: Term) -> Term:
    """A condition that is NULL has no type of its own."""
    return cast_to(condition, pa.bool_()) if pt.is_null(condition.type) else condition


def _among(conditions: Sequence[Term], key: Term) -> Term:
    """A key that is NULL, and so matches nothing, unless conditions hold."""
    if not conditions:
        return key
    nothing = literal(None, key.type, key.span)
    return Term("case", (joined("and", list(conditions)), key, nothing), key.type, key.span)


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
            "NOT EXISTS, an outer join, a join with another TABLE): its row may be another by then. "
            "Join it with the window itself"
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
