"""Tables in FROM of a periodic query: looked up when a tuple arrives, before it is aggregated.

    SELECT p.name, COUNT(*) FROM packets [WINDOW 1 min SLIDE 10 sec] s, ports p WHERE s.port = p.port GROUP BY p.name

The joins with tables, and the equalities that fix their keys, are taken out of the SELECT; what is left is a SELECT
over one stream that has more columns. Only non-retroactive tables: a change of another would concern tuples that are
in panes already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from sash.catalog import Catalog, Stream, Table
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.window import RowWindow
from sash.plan.nodes import Lookup
from sash.sql.binding.joins import join_kind
from sash.sql.expressions.operators import conjuncts
from sash.sql.expressions.scope import StreamColumns, stream_of, table_of
from sash.sql.expressions.terms import Term
from sash.sql.reading.places import span_of, window_clause, word_of
from sash.sql.reading.statements import Select
from sash.sql.types import spark_name

_RETROACTIVE = (
    "a TABLE in a periodic query: its changes would concern tuples that are in panes already; "
    "make it a NONRETROACTIVE TABLE, or leave out SLIDE"
)


@dataclass(frozen=True)
class Use:
    """A table under its alias; `merged` are the columns of USING, which stand for the stream's."""

    alias: str
    lookup: Lookup
    merged: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LookedUpColumns(StreamColumns):
    """The columns of a stream, and of the tables that its tuples are looked up in."""

    uses: tuple[Use, ...]
    script: str

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return (self.alias, *(use.alias for use in self.uses))

    def names(self, qualifier: str | None) -> list[str]:
        every = [(self.alias, self.stream.schema.names), *((u.alias, u.lookup.table.schema.names) for u in self.uses)]
        return [name for alias, names in every if qualifier in (None, alias) for name in names]

    def has(self, qualifier: str) -> bool:
        return super().has(qualifier) or self._use(qualifier) is not None

    def _use(self, alias: str) -> Use | None:
        return next((use for use in self.uses if use.alias.lower() == alias.lower()), None)

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        use = self._use(qualifier) if qualifier is not None else None
        if use is not None:
            return self._of(use, name, span)
        own = super().find(name, qualifier, span)
        if qualifier is not None:
            return own
        homes = [each for each in self.uses if name.lower() not in each.merged and each.lookup.table.column(name)]
        if len(own) + len(homes) > 1:
            aliases = [self.alias] * len(own) + [each.alias for each in homes]
            choices = " or ".join(f"{alias}.{name}" for alias in aliases)
            raise CqlError(f"column '{name}' is in several of stream and tables: write {choices}", self.script, span)
        return own or [term for each in homes for term in self._of(each, name, span)]

    def _of(self, use: Use, name: str, span: Span) -> list[Term]:
        """A column of a table; its key is the stream's own column, where they are of one type."""
        column = use.lookup.table.column(name)
        if column is None:
            return []
        own = {key: self.stream.schema.field(mine) for mine, key in use.lookup.keys}.get(column.name)
        if own is not None and own.type == column.type:
            return [Term("column", (), own.type, span, own.name)]
        return [Term("column", (), column.type, span, use.lookup.column(column.name))]


def take_tables(select: Select, catalog: Catalog, *, periodic: bool) -> tuple[Select, tuple[Use, ...]]:
    """The SELECT without its tables, and these with the stream's columns by which they are looked up."""
    tree = select.tree
    clause = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    if not isinstance(tree, exp.Select) or clause is None:
        return select, ()
    tables = [clause.this, *(join.this for join in tree.args.get("joins") or [])]
    named = [table for table in tables if table_of(table, catalog) is not None]
    if not named:
        return select, ()
    if not periodic:
        raise NotSupportedError("tables in one-time queries", select.script, span_of(named[0].this))
    _check_stream(clause.this, named, select)
    tree = tree.copy()
    taker = _Taker(tree, stream_of(clause.this, catalog, select.script), catalog, select.script)
    uses = taker.take()
    return Select(tree, select.script, select.span), uses


def _check_stream(first: exp.Expr, named: list[exp.Expr], select: Select) -> None:
    if first is named[0]:
        reason = "the stream with its window stands first in FROM, and the tables behind it"
        raise CqlError(reason, select.script, span_of(first.this))
    if isinstance(first, exp.Subquery):
        what = "tables beside sub-queries; join them inside of a sub-query"
        raise NotSupportedError(what, select.script, span_of(named[0].this))
    clause = window_clause(first)
    if clause is not None and isinstance(clause.window, RowWindow):
        raise NotSupportedError("tables in queries over row-based windows", select.script, span_of(named[0].this))


class _Taker:
    """Takes the tables out of one SELECT's tree."""

    def __init__(self, tree: exp.Select, stream: Stream, catalog: Catalog, script: str) -> None:
        self._tree = tree
        self._stream = stream
        self._catalog = catalog
        self._script = script
        first = tree.args["from_"].this
        self._alias = first.alias or first.name
        self._tables: dict[str, tuple[Table, Span]] = {}
        self._merged: dict[str, set[str]] = {}
        self._keys: dict[str, dict[str, str]] = {}

    def take(self) -> tuple[Use, ...]:
        where = self._tree.args.get("where")
        conditions = [*self._joins(), *(conjuncts(where.this) if where is not None else [])]
        rest = [condition for condition in conditions if not self._is_key(condition)]
        self._tree.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        return tuple(self._use(alias) for alias in self._tables)

    def _joins(self) -> list[exp.Expr]:
        """The conditions of the joins with tables, which go."""
        kept, conditions = [], list[exp.Expr]()
        for join in self._tree.args["joins"]:
            table = table_of(join.this, self._catalog)
            if table is None:
                kept.append(join)
                continue
            alias = self._add(join, table)
            conditions += conjuncts(join.args["on"]) if join.args.get("on") is not None else []
            for name in join.args.get("using") or []:
                self._merge(alias, table, name)
        self._tree.set("joins", kept or None)
        return conditions

    def _add(self, join: exp.Expr, table: Table) -> str:
        node, kind = join.this, join_kind(join, self._script)
        alias, clause = (node.alias or table.name).lower(), window_clause(node)
        if kind not in ("inner", "cross"):
            raise NotSupportedError(f"{kind.upper()} JOIN with a table", self._script, word_of(join))
        if clause is not None:
            reason = f"'{table.name}' is a table, and only streams have windows: leave out the window"
            raise CqlError(reason, self._script, clause.span)
        if table.retroactive:
            raise NotSupportedError(_RETROACTIVE, self._script, span_of(node.this))
        if alias in self._tables or alias in (self._alias.lower(), self._stream.name.lower()):
            raise CqlError(f"'{alias}' stands twice in FROM: give each its own alias", self._script, span_of(node))
        self._tables[alias], self._merged[alias], self._keys[alias] = (table, span_of(node.this)), set(), {}
        return alias

    def _merge(self, alias: str, table: Table, name: exp.Expr) -> None:
        mine, key = self._stream.column(name.name), table.column(name.name)
        if mine is None or key is None or key.name not in table.key:
            reason = f"USING names columns of the key that the stream has too ({', '.join(table.key)})"
            raise CqlError(reason, self._script, span_of(name))
        self._tie(alias, mine.name, key.name, span_of(name))
        self._merged[alias].add(name.name.lower())

    def _is_key(self, condition: exp.Expr) -> bool:
        """Whether it is an equality by which a table is looked up: it is remembered as that."""
        if not isinstance(condition, exp.EQ):
            return False
        sides = [self._home(side.unnest()) for side in (condition.this, condition.expression)]
        for one, other in (sides, sides[::-1]):
            if one is not None and other is not None and not one[0] and other[0]:
                table, _ = self._tables[other[0]]
                if other[1] in table.key and other[1] not in self._keys[other[0]]:
                    self._tie(other[0], one[1], other[1], span_of(condition))
                    return True
        return False

    def _home(self, node: exp.Expr) -> tuple[str, str] | None:
        """Whose a column is ('' is the stream), and its name there; None for anything else and what is ambiguous."""
        if not isinstance(node, exp.Column):
            return None
        qualifier = node.args["table"].name.lower() if node.args.get("table") is not None else None
        found = [
            (alias, column.name)
            for alias, (table, _) in self._tables.items()
            if qualifier in (None, alias) and (column := table.column(node.name)) is not None
        ]
        own = self._stream.column(node.name)
        if own is not None and qualifier in (None, self._alias.lower(), self._stream.name.lower()):
            found.append(("", own.name))
        return found[0] if len(found) == 1 else None

    def _tie(self, alias: str, mine: str, key: str, at: Span) -> None:
        table, _ = self._tables[alias]
        one, other = self._stream.schema.field(mine).type, table.schema.field(key).type
        if one != other and not (pt.is_integer(one) and pt.is_integer(other)):
            types = f"{mine} is {spark_name(one)} and {key} is {spark_name(other)}"
            raise CqlError(f"a table is looked up by a column of its key's type, but {types}", self._script, at)
        self._keys[alias][key] = mine

    def _use(self, alias: str) -> Use:
        table, at = self._tables[alias]
        keys = self._keys[alias]
        if len(keys) < len(table.key):
            missing = " AND ".join(f"{alias}.{key} = .." for key in table.key if key not in keys)
            reason = f"a row of '{table.name}' is found by its key: add {missing}, with columns of the stream"
            raise CqlError(reason, self._script, at)
        lookup = Lookup(table, tuple((keys[key], key) for key in table.key))
        return Use(alias, lookup, frozenset(self._merged[alias]))


def found_terms(uses: Sequence[Use]) -> list[Term]:
    """That a tuple has found its row in every table: a join leaves out the others."""
    return [Term("column", (), pa.bool_(), Span(0, 1), use.lookup.name) for use in uses]
