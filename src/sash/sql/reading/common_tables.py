"""WITH: common table expressions become sub-queries where their names stand in FROM.

    WITH now(src, bytes) AS (SELECT src, SUM(length) FROM packets [WINDOW 10 sec SLIDE 5 sec] GROUP BY src)
    SELECT * FROM now WHERE bytes > 1000

    SELECT * FROM (SELECT src AS src, SUM(length) AS bytes FROM packets [..] GROUP BY src) now WHERE bytes > 1000

Nothing behind this module knows of WITH. A name means the last definition before it, of its own query or of one around
it, and hides a stream of that name. What is read twice costs no more than once, because equal sub-queries share their
panes. Names that nobody refers to are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sash.core.errors import CqlError
from sash.sql.reading import places
from sash.sql.reading.limits import MOST_NESTED, MOST_READ
from sash.sql.reading.places import span_of


@dataclass(frozen=True)
class CommonTable:
    """A query with a name; `read` is how many windows and tables it reads, `depth` how many names stand in each other.

    Both are checked before the query is copied: names of names double with every line.
    """

    query: exp.Expr
    read: int
    depth: int


def inline_common_tables(tree: exp.Expr, text: str) -> bool:
    """Put the queries of WITH in the places of their names; False if there is no WITH."""
    if tree.find(exp.With) is None:
        return False
    _Inliner(text).resolve(tree, {})
    return True


class _Inliner:
    def __init__(self, text: str) -> None:
        self._text = text

    def resolve(self, query: exp.Expr, known: Mapping[str, CommonTable]) -> CommonTable:
        """The query with sub-queries for the names that are known around it, and for its own."""
        known = dict(known)
        clause, own = query.args.get("with_"), set[str]()
        query.set("with_", None)
        for defined in clause.expressions if clause is not None else ():
            alias = defined.args["alias"]
            name = alias.name.lower()
            if name in own:
                reason = f"'{alias.name}' stands twice in WITH: give each its own name"
                raise CqlError(reason, self._text, span_of(alias.this))
            own.add(name)
            self._name_columns(defined.this, alias)
            known[name] = self.resolve(defined.this, known)
        read, depth = 0, 0
        for node in list(query.walk(prune=lambda node: node is not query and bool(node.args.get("with_")))):
            if node is not query and node.args.get("with_"):
                found = self.resolve(node, known)
            elif isinstance(node, exp.Table):
                found = self._source(node, known)
            else:
                continue
            read, depth = read + found.read, max(depth, found.depth)
        return CommonTable(query, read, depth)

    def _source(self, table: exp.Table, known: Mapping[str, CommonTable]) -> CommonTable:
        """The table itself, or the query that its name means."""
        common = known.get(table.name.lower()) if isinstance(table.this, exp.Identifier) else None
        if common is None or table.args.get("db"):
            return CommonTable(table, 1, 0)
        at, clause = span_of(table.this), places.window_clause(table)
        if clause is not None and clause.call is not None:
            reason = f"{clause.call.word} is over a stream, and '{table.name}' is a query of WITH: call it there"
            raise CqlError(reason, self._text, clause.call.at)
        if common.read > MOST_READ:
            reason = f"'{table.name}' reads {common.read} windows and tables, and a query reads at most {MOST_READ}"
            raise CqlError(f"{reason}: ask for less, in several queries", self._text, at)
        if common.depth >= MOST_NESTED:
            raise CqlError(f"nested too deeply: at most {MOST_NESTED} levels are read", self._text, at)
        alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
        query = exp.Subquery(this=common.query.copy(), alias=alias.copy())
        places.set_window(query, clause)
        places.set_named(query, at)
        table.replace(query)
        return CommonTable(query, common.read, common.depth + 1)

    def _name_columns(self, query: exp.Expr, alias: exp.TableAlias) -> None:
        """`WITH t(a, b) AS (SELECT x, y ..)`: the aliases of the SELECT list."""
        names = alias.columns
        if not names:
            return
        while not isinstance(query, exp.Select):
            query = query.this
        entries = query.expressions
        if any(entry.is_star for entry in entries):
            reason = f"names for the columns of '{alias.name}' need a SELECT list that names them, without *"
            raise CqlError(reason, self._text, span_of(names[0]))
        if len(entries) != len(names):
            reason = f"'{alias.name}' has {len(names)} names for columns, and its SELECT list {len(entries)}"
            raise CqlError(f"{reason}: both must have as many", self._text, span_of(alias.this))
        output = places.output_of(query)
        named = [exp.Alias(this=e.unalias(), alias=name.copy()) for e, name in zip(entries, names, strict=True)]
        query.set("expressions", named)
        if query.meta.get("cql_output") is None:
            places.set_output(named[0], output)
