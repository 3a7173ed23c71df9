"""Tables in FROM of a periodic query: looked up when a tuple arrives, before it is aggregated.

    SELECT p.name, COUNT(*) FROM packets [WINDOW 1 min SLIDE 10 sec] s, ports p WHERE s.port = p.port GROUP BY p.name

The equalities that fix the keys of the tables are taken out of the conditions; the rest is a SELECT over one stream
with more columns. Only non-retroactive tables: a change of another table would affect tuples that are in panes already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt

from sash.catalog import Stream, Table
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.window import RowWindow
from sash.plan.nodes import Lookup
from sash.sql.binding.bound import BoundJoin, BoundSelect, BoundSource
from sash.sql.expressions.terms import Term, column_of, sources_in
from sash.sql.reading.places import word_of
from sash.sql.types import spark_name

_RETROACTIVE = (
    "a TABLE in a periodic query: its changes would concern tuples that are in panes already; "
    "make it a NONRETROACTIVE TABLE, or leave out SLIDE"
)


@dataclass(frozen=True)
class Lookups:
    """`conditions` are the rest of ON and WHERE, and that a tuple has found its row in every table.

    `names` gives the tuples' columns for the fields of tables.
    """

    lookups: tuple[Lookup, ...]
    conditions: tuple[Term, ...]
    names: Mapping[str, str] = field(default_factory=dict)


def bind_lookups(body: BoundSelect, stream: Stream) -> Lookups:
    script, first = body.scope.script, body.sources[0]
    joins = {join.source.name: join for join in body.joins[1:]}
    for join in joins.values():
        _check_join(join, script)
    keys: dict[str, dict[str, str]] = {name: {} for name in joins}
    rest = list[Term]()
    for condition in (*(each for join in joins.values() for each in join.conditions), *body.conditions):
        tie = _tie(condition, first, joins, keys)
        if tie is None:
            rest.append(condition)
            continue
        name, mine, key = tie
        _check_types(stream, _table(joins[name].source), mine, key, script, condition.span)
        keys[name][key] = mine
    made = {name: _lookup(join.source, keys[name], script) for name, join in joins.items()}
    # A join leaves out the tuples that have found no row.
    found = (Term("column", (), pa.bool_(), Span(0, 1), lookup.name) for lookup in made.values())
    names = {
        f"{name}.{column.name}": _name(column, lookup, stream)
        for name, lookup in made.items()
        for column in lookup.table.schema
    }
    return Lookups(tuple(made.values()), (*found, *rest), names)


def check_tables(body: BoundSelect, *, periodic: bool) -> None:
    """Check the tables in FROM."""
    script, first = body.scope.script, body.sources[0]
    tables = [source for source in body.sources if isinstance(source.relation, Table)]
    if not tables:
        return
    if not periodic:
        raise NotSupportedError("tables in one-time queries", script, tables[0].word)
    if first is tables[0]:
        raise CqlError("the stream with its window stands first in FROM, and the tables behind it", script, first.word)
    if not isinstance(first.relation, Stream):
        what = "tables beside sub-queries; join them inside of a sub-query"
        raise NotSupportedError(what, script, tables[0].word)
    if first.window is not None and isinstance(first.window.window, RowWindow):
        raise NotSupportedError("tables in queries over row-based windows", script, tables[0].word)


def _table(source: BoundSource) -> Table:
    assert isinstance(source.relation, Table)
    return source.relation


def _check_join(join: BoundJoin, script: str) -> None:
    table = _table(join.source)
    if join.kind not in ("inner", "cross"):
        assert join.node is not None
        raise NotSupportedError(f"{join.kind.upper()} JOIN with a table", script, word_of(join.node))
    refuse_window(join.source, script)
    if table.retroactive:
        raise NotSupportedError(_RETROACTIVE, script, join.source.word)


def refuse_window(source: BoundSource, script: str) -> None:
    if source.window is not None:
        reason = f"'{_table(source).name}' is a table, and only streams have windows: leave out the window"
        raise CqlError(reason, script, source.window.span)


def _tie(
    condition: Term, stream: BoundSource, joins: Mapping[str, BoundJoin], keys: Mapping[str, Mapping[str, str]]
) -> tuple[str, str, str] | None:
    """A table, the stream's column and the column of the table's key that an equality ties together; or None."""
    if condition.op != "eq" or any(arg.op != "field" for arg in condition.args):
        return None
    for one, other in (condition.args, condition.args[::-1]):
        (owner,) = sources_in(other)
        if sources_in(one) == {stream.name} and owner in joins:
            key = column_of(other)
            if key in _table(joins[owner].source).key and key not in keys[owner]:
                return owner, column_of(one), key
    return None


def _check_types(stream: Stream, table: Table, mine: str, key: str, script: str, at: Span) -> None:
    one, other = stream.schema.field(mine).type, table.schema.field(key).type
    if one != other and not (pt.is_integer(one) and pt.is_integer(other)):
        types = f"{mine} is {spark_name(one)} and {key} is {spark_name(other)}"
        raise CqlError(f"a table is looked up by a column of its key's type, but {types}", script, at)


def _lookup(source: BoundSource, keys: Mapping[str, str], script: str) -> Lookup:
    table = _table(source)
    if len(keys) < len(table.key):
        missing = " AND ".join(f"{source.alias}.{key} = .." for key in table.key if key not in keys)
        reason = f"a row of '{table.name}' is found by its key: add {missing}, with columns of the stream"
        raise CqlError(reason, script, source.word)
    return Lookup(table, tuple((keys[key], key) for key in table.key))


def _name(column: pa.Field, lookup: Lookup, stream: Stream) -> str:
    """The name of a looked-up column; a key is the stream's own column, if both have one type."""
    own = {key: stream.schema.field(mine) for mine, key in lookup.keys}.get(column.name)
    return str(own.name) if own is not None and own.type == column.type else lookup.column(column.name)
