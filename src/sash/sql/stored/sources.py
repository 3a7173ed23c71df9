"""The names in FROM of one SELECT over stored windows, and which of them a column belongs to.

What is said of columns elsewhere (sought, links, leading) only ever saves work: where it is not plain whose column a
name is, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from sash.catalog import DeclaredArchive, Stream, Table


@dataclass(frozen=True)
class StoredSource:
    """A stream's window, a table or an archive, by the name of its view."""

    view: str
    relation: Stream | Table | DeclaredArchive


class StoredSources:
    """`known` has the source of each table node, by the node's id; sub-queries in FROM have none."""

    def __init__(self, query: exp.Expr, known: Mapping[int, StoredSource]) -> None:
        self.nodes = list(_nodes(query))
        self.views = [known[id(node)].view if id(node) in known else None for node in self.nodes]
        # By alias, in small letters; None for what the columns are not known of.
        self._named: dict[str, StoredSource | None] = {}
        for node in self.nodes:
            alias = node.alias_or_name.lower()
            is_plain = id(node) in known and alias not in self._named and not _is_renamed(node) and not _is_hidden(node)
            self._named[alias] = known[id(node)] if is_plain else None

    @property
    def only(self) -> StoredSource | None:
        """The one source, where there is no other."""
        return next(iter(self._named.values())) if len(self.nodes) == 1 else None

    def owner(self, node: exp.Expr) -> tuple[str, pa.Field] | None:
        """The view that a column is of, and the column there."""
        if not isinstance(node, exp.Column):
            return None
        among = [self._named.get(node.table.lower())] if node.table else list(self._named.values())
        found = [(each.view, each.relation.column(node.name)) for each in among if each is not None]
        owners = [(view, field) for view, field in found if field is not None]
        return owners[0] if None not in among and len(owners) == 1 else None


def terms(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Conditions all of which must be true."""
    if isinstance(condition, exp.Paren):
        yield from terms(condition.this)
    elif isinstance(condition, exp.And):
        yield from terms(condition.left)
        yield from terms(condition.right)
    else:
        yield condition


def _nodes(query: exp.Expr) -> Iterator[exp.Expr]:
    clause = query.args.get("from_") or query.args.get("from")
    yield from ([clause.this] if clause is not None else [])
    yield from (join.this for join in query.args.get("joins") or [])


def _is_renamed(node: exp.Expr) -> bool:
    alias = node.args.get("alias")
    return alias is not None and bool(alias.columns)


def _is_hidden(node: exp.Expr) -> bool:
    """Behind SEMI and ANTI JOIN: a name that is only there may be one of a query around this one."""
    return isinstance(node.parent, exp.Join) and node.parent.kind in ("SEMI", "ANTI")
