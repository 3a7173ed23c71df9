"""One-time questions over stored windows: any SELECT, joins, sub-queries and set operations included.

    SELECT src, dst FROM packets [WINDOW 10 min] p JOIN ports ON p.port = ports.port WHERE src = 42

The tree is checked node by node: only streams with a window, tables, archives, registered queries, and nodes on the
lists below go on to Spark, as text that is written anew from the tree. Each window becomes the name of a view of its
rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from sash.catalog import Catalog, DeclaredArchive, QueryResult, Stream, Table
from sash.core.errors import CqlError, NotSupportedError, SashError, Span, nearest
from sash.core.user_function import UserFunction
from sash.core.window import RowWindow, Window
from sash.plan.expressions import name_in_spark, value_in_spark, with_short_calls
from sash.sql.binding.completion import complete
from sash.sql.binding.narrowing import (
    Link,
    SoughtRange,
    SoughtValues,
    StoredSource,
    StoredSources,
    links_in,
    range_in,
    sought_in,
)
from sash.sql.binding.ordering import LeadingRows, WindowOrder, leading_in, sorting_in
from sash.sql.binding.windows import bind_stored_window
from sash.sql.expressions import aggregates
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS
from sash.sql.expressions.functions import FUNCTIONS, REFUSED, absence
from sash.sql.expressions.scope import WINDOW_FUNCTIONS, archive_of, field_of_struct, stream_of, table_of
from sash.sql.expressions.typer import NAMED
from sash.sql.reading.limits import within_stack
from sash.sql.reading.places import (
    approx_at,
    bounds_at,
    groups_of,
    keys_of,
    output_of,
    set_window,
    span_of,
    window_clause,
    word_of,
)
from sash.sql.reading.statements import Select
from sash.sql.strings import quote
from sash.sql.types import spark_name

_NAMES = """
    sum count avg mean min max variance var_samp var_pop stddev std stddev_samp stddev_pop median percentile
    percentile_approx approx_percentile approx_count_distinct count_if bool_and bool_or every some corr covar_pop
    covar_samp skewness kurtosis mode percentile_cont percentile_disc
    max_by min_by bit_and bit_or bit_xor try_sum try_avg regr_slope regr_count
    regr_intercept regr_r2 regr_avgx regr_avgy regr_sxx regr_syy regr_sxy
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value
"""
KNOWN_FUNCTIONS = FUNCTIONS.keys() | set(_NAMES.split())
_NODES = (
    exp.Select, exp.SetOperation, exp.Subquery, exp.From, exp.Table, exp.TableAlias, exp.Join, exp.Where, exp.Group,
    exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Alias, exp.Identifier, exp.Column,
    exp.Star, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Binary, exp.Unary, exp.Between, exp.In,
    exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Extract, exp.DataType, exp.DataTypeParam, exp.Interval,
    exp.IntervalSpan, exp.Var, exp.Exists, exp.Anonymous, exp.Filter, exp.WithinGroup, exp.Window,
    exp.WindowSpec,
)  # fmt: skip


# Joins in which only one side gives columns; joins with a method (NATURAL) merge columns by themselves.
_ONE_SIDED = ("SEMI", "ANTI")


@dataclass(frozen=True)
class StoredReading:
    """A stream's stored window: the last `window.length`, or a number of rows, of each partition if there is one."""

    stream: Stream
    window: Window
    at: Span
    partition: tuple[str, ...] = ()
    now: bool = False
    # Only rows with these values matter, with values of other windows, and the first rows in some order.
    sought: tuple[SoughtValues, ...] = ()
    links: tuple[Link, ...] = ()
    leading: LeadingRows | None = None

    @property
    def by_rows(self) -> bool:
        return isinstance(self.window, RowWindow)

    @property
    def reach(self) -> int | None:
        """How far back the window looks; None if only the rows themselves tell."""
        return None if self.by_rows or self.now else self.window.reach


@dataclass(frozen=True)
class ArchiveReading:
    """Rows of an archive: all, or those whose keys are some values or in a range."""

    archive: DeclaredArchive
    keys: SoughtValues | SoughtRange | None = None


@dataclass(frozen=True)
class ResultReading:
    """The present result of a registered query; only rows with the sought values matter."""

    result: QueryResult
    sought: tuple[SoughtValues, ...] = ()


# The result of the registered query with this name, if there is one.
ResultNamed = Callable[[str], QueryResult | None]


@dataclass(frozen=True)
class StoredQuestion:
    """`sql` is for Spark, over views: those of windows, of tables, of archives and of queries' results, by name.

    `sorting`: the answer is the rows of the only window, in an order by their columns.
    """

    sql: str
    windows: dict[str, StoredReading]
    tables: dict[str, Table]
    archives: dict[str, ArchiveReading] = field(default_factory=dict)
    results: dict[str, ResultReading] = field(default_factory=dict)
    sorting: WindowOrder | None = None


def bind_stored(
    select: Select, catalog: Catalog, mark: str = "", result_named: ResultNamed = lambda name: None
) -> StoredQuestion:
    """A question that Spark answers from stored rows; CqlError at the word that is wrong.

    The names of all views end with `mark`.
    """
    with within_stack(select.script, select.word):
        return _bind(complete(select, catalog), catalog, mark, result_named)


def _bind(select: Select, catalog: Catalog, mark: str, result_named: ResultNamed) -> StoredQuestion:
    tree = select.tree.copy()
    _check_clauses(tree, select.script)
    windows: dict[str, StoredReading] = {}
    tables: dict[str, Table] = {}
    archives: dict[str, ArchiveReading] = {}
    results: dict[str, ResultReading] = {}
    sources: dict[int, StoredSource] = {}
    for node in sorted(tree.find_all(exp.Table), key=lambda node: span_of(node).start):
        _check_plain(node, select.script)
        written, table, archive = node.this, table_of(node, catalog), archive_of(node, catalog)
        if table is not None:
            view = f"_table_{len(tables)}{mark}"
            _refuse_window(node, "a table", select.script)
            tables[view] = table
        elif archive is not None:
            view = f"_archive_{len(archives)}{mark}"
            _refuse_window(node, "an archive", select.script)
            archives[view] = ArchiveReading(archive)
        elif (result := _result(node, catalog, result_named, select.script)) is not None:
            view = f"_result_{len(results)}{mark}"
            _refuse_window(node, "a query", select.script)
            results[view] = ResultReading(result)
        else:
            view = f"_window_{len(windows)}{mark}"
            windows[view] = _reading(node, stream_of(node, catalog, select.script), select.script)
        sources[id(node)] = StoredSource(view, table or archive or result or windows[view].stream)
        if not node.alias:
            node.set("alias", exp.TableAlias(this=written.copy()))
        node.set("this", exp.to_identifier(view))
    known = _Names.of(tree, [source.relation.schema for source in sources.values()])
    for part in tree.walk():
        _check(part, select.script, catalog.functions)
        if isinstance(part, exp.Column):
            known.check(part, select.script)
    if catalog.functions:
        tree = _with_functions(tree, catalog.functions)
    for query in tree.find_all(exp.Select):
        _prefix_columns(query, sources)
    for query in tree.find_all(exp.Select):
        windows |= _narrowed(query, StoredSources(query, sources), windows)
        archives |= _probed(query, StoredSources(query, sources), archives)
        sought = sought_in(query, StoredSources(query, sources))
        results |= {view: replace(results[view], sought=sought[view]) for view in results.keys() & sought.keys()}
    write = _Writer(dialect="spark", comments=False).generate
    of_one_window = len(windows) == 1 and not tables and not archives and not results
    sorting = sorting_in(tree, StoredSources(tree, sources), f"_place{mark}", write) if of_one_window else None
    return StoredQuestion(write(tree), windows, tables, archives, results, sorting)


def _prefix_columns(tree: exp.Select, sources: Mapping[int, StoredSource]) -> None:
    """Columns of `*` with the same name get the alias of their table as a prefix: Spark may have equal names."""
    joins = tree.args.get("joins") or []
    nodes = [tree.args["from_"].this, *(join.this for join in joins)] if joins else []
    one_sided = any(join.kind in _ONE_SIDED or join.args.get("method") for join in joins)
    if not nodes or not all(id(node) in sources for node in nodes) or one_sided:
        return
    merged = {column.name.lower(): column.name for join in joins for column in join.args.get("using") or ()}
    # Each item, and the alias of its table if a star stands for it.
    listed: list[tuple[exp.Expr, str | None]] = []
    for item in tree.expressions:
        if isinstance(item, exp.Star):
            listed += [(exp.column(name, quoted=True), None) for name in merged.values()]
            listed += [each for node in nodes for each in _columns(node, sources) if each[0].name.lower() not in merged]
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            mine = [node for node in nodes if node.alias.lower() == item.table.lower()]
            listed += [each for node in mine for each in _columns(node, sources)]
        else:
            listed.append((item, None))
    often = Counter(item.alias_or_name.lower() for item, _ in listed)
    twice = [alias is not None and often[item.name.lower()] > 1 for item, alias in listed]
    if any(twice):
        renamed = [
            exp.alias_(item, f"{alias}_{item.name}", quoted=True) if again else item
            for (item, alias), again in zip(listed, twice, strict=True)
        ]
        tree.set("expressions", renamed)


def _columns(node: exp.Table, sources: Mapping[int, StoredSource]) -> list[tuple[exp.Expr, str | None]]:
    names = sources[id(node)].relation.schema.names
    return [(exp.column(name, node.alias, quoted=True), node.alias) for name in names]


@dataclass(frozen=True)
class _Names:
    """The allowed names and qualifiers of columns.

    Spark takes a name that is no column for a function or for a variable of the session.
    """

    columns: frozenset[str]
    qualifiers: frozenset[str]
    structs: frozenset[str]

    @classmethod
    def of(cls, tree: exp.Expr, schemas: Sequence[pa.Schema]) -> _Names:
        named = [alias.alias for alias in tree.find_all(exp.Alias)]
        aliases = list(tree.find_all(exp.TableAlias))
        renamed = [column.name for alias in aliases for column in alias.columns]
        columns = [*(name for schema in schemas for name in schema.names), *named, *renamed]
        structs = [column.name for schema in schemas for column in schema if pt.is_struct(column.type)]
        qualifiers = [alias.name for alias in aliases]
        return cls(*(frozenset(map(str.lower, names)) for names in (columns, qualifiers, structs)))

    def check(self, column: exp.Column, script: str) -> None:
        if column.args.get("db") is not None or column.args.get("catalog") is not None:
            raise CqlError("a column is written as name, or as alias.name", script, span_of(column))
        if column.table and column.table.lower() not in self.qualifiers:
            if column.table.lower() in self.structs:
                raise NotSupportedError(field_of_struct(column), script, span_of(column))
            hint = nearest(column.table, self.qualifiers)
            raise CqlError(f"unknown stream or alias '{column.table}'{hint}", script, span_of(column.args["table"]))
        if isinstance(column.this, exp.Star) or column.name.lower() in self.columns:
            return
        if column.name.lower() in REFUSED:
            raise CqlError(f"{column.name.upper()} is refused: {REFUSED[column.name.lower()]}", script, word_of(column))
        hint = nearest(column.name, self.columns)
        raise CqlError(f"unknown column '{column.name}'{hint}", script, span_of(column.this))


class _Writer(SparkGenerator):
    """Writes SQL that Spark reads in CQL's meaning."""

    def literal_sql(self, expression: exp.Literal) -> str:
        return quote(expression.name) if expression.is_string else super().literal_sql(expression)


def _reading(node: exp.Expr, stream: Stream, script: str) -> StoredReading:
    window, partition = bind_stored_window(node, stream, script)
    clause = window_clause(node)
    assert clause is not None
    set_window(node, None)
    return StoredReading(stream, window, clause.span, partition, clause.now)


def _result(node: exp.Expr, catalog: Catalog, result_named: ResultNamed, script: str) -> QueryResult | None:
    """The query of a name that no stream has."""
    try:
        return None if catalog.has_stream(node.name) else result_named(node.name)
    except SashError as error:
        raise CqlError(str(error), script, span_of(node.this)) from None


def _narrowed(query: exp.Expr, sources: StoredSources, windows: dict[str, StoredReading]) -> dict[str, StoredReading]:
    """The windows in FROM of one SELECT, narrowed to the rows that matter."""
    sought, links, leading = sought_in(query, sources), links_in(query, sources), leading_in(query, sources)
    # All rows decide how many rows a window of rows holds.
    narrowed = [view for view in sources.views if view in windows and windows[view].reach is not None]
    return {
        view: replace(
            windows[view],
            sought=sought.get(view, ()),
            links=tuple(link for link in links.get(view, ()) if link.other in windows),
            leading=leading,
        )
        for view in narrowed
        if view is not None
    }


def _probed(
    query: exp.Expr, sources: StoredSources, archives: Mapping[str, ArchiveReading]
) -> dict[str, ArchiveReading]:
    """The archives from which a SELECT needs rows with certain keys only."""
    sought, found = sought_in(query, sources), {}
    for view in sources.views:
        if view is not None and view in archives:
            key = archives[view].archive.key
            values = [each for each in sought.get(view, ()) if each.column == key]
            found[view] = replace(archives[view], keys=values[0] if values else range_in(query, sources, view, key))
    return found


def _refuse_window(node: exp.Expr, what: str, script: str) -> None:
    clause = window_clause(node)
    if clause is not None:
        raise CqlError(f"'{node.name}' is {what}, which has no window: leave it out", script, clause.span)


def _check_clauses(tree: exp.Expr, script: str) -> None:
    """Refuse CQL's own clauses that have no meaning here; Rstream(..) is the relation, as if it were left out."""
    clause = output_of(tree)
    if clause is not None and clause.kind == "rstream" and not clause.restore:
        if clause.distinct is not None:
            tree.set("distinct", exp.Distinct())
    elif clause is not None:
        reason = f"{clause.title}(..) gives a stream of changes, and a question is answered once"
        raise CqlError(f"{reason}: leave it out, or REGISTER QUERY .. AS it", script, clause.at)
    for node in tree.walk():
        if isinstance(node, exp.Subquery) and (inner := window_clause(node)) is not None:
            raise NotSupportedError("a window on a sub-query, in a one-time question", script, inner.span)
        if (at := bounds_at(node)) is not None:
            raise NotSupportedError("WITH BOUNDS over stored rows, which are exact; leave it out", script, at)
        if keys := keys_of(node):
            raise NotSupportedError("EXCEPT ALL ON, in a one-time question", script, span_of(keys[0]))
        if (at := approx_at(node)) is not None:
            raise NotSupportedError("APPROX, in a one-time question; INTERSECT is exact", script, at)
        if (groups := groups_of(node)) is not None:
            raise CqlError("GROUPS belongs to APPROX INTERSECT", script, span_of(groups))


def _check_plain(node: exp.Expr, script: str) -> None:
    """A name by itself: no catalog, no path, no sample."""
    odd = next((node.args[name] for name in node.args if name not in ("this", "alias") and node.args[name]), None)
    if odd is not None or not isinstance(node.this, exp.Identifier):
        raise CqlError("expected the name of a stream or a table, by itself", script, span_of(node))


def _check(node: exp.Expr, script: str, functions: Mapping[str, UserFunction]) -> None:
    if not isinstance(node, _NODES) or isinstance(node, exp.Dot):
        what = NAMED.get(type(node), type(node).__name__.upper())
        raise NotSupportedError(f"{what}, in a one-time question", script, word_of(node))
    function = functions.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    if function is not None:
        if not node.expressions or not function.takes(len(node.expressions)):
            given = f"{len(node.expressions)} argument{'s' * (len(node.expressions) != 1)}"
            reason = f"{node.name.upper()} cannot be called with {given}: its Python function takes others"
            raise CqlError(reason, script, word_of(node))
    elif isinstance(node, exp.Anonymous) and node.name.lower() not in KNOWN_FUNCTIONS:
        raise _refusal(node.name, script, word_of(node))
    if isinstance(node, exp.Identifier) and "${" in node.name:
        raise CqlError("a name may not contain ${, which Spark would replace", script, word_of(node))


def _with_functions(tree: exp.Expr, functions: Mapping[str, UserFunction]) -> exp.Expr:
    """Calls of the program's functions as Spark is to see them, those inside of others first."""
    write = _Writer(dialect="spark", comments=False).generate
    for node in reversed(list(tree.find_all(exp.Anonymous))):
        function = functions.get(node.name.lower())
        if function is None:
            continue
        title = f"{function.name}({', '.join(write(each) for each in node.expressions)})"
        result = exp.Anonymous(this=name_in_spark(function.name), expressions=node.expressions)
        if isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() in functions:
            # The outer call passes the error on, so it is not raised here.
            node.replace(result)
            continue
        made: exp.Expr = exp.maybe_parse(value_in_spark(write(result), spark_name(function.returns)), dialect="spark")
        is_listed = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        node.replace(exp.alias_(made, with_short_calls(title), quoted=True) if is_listed else made)
    return tree


def _refusal(written: str, script: str, at: Span) -> CqlError:
    name = written.lower()
    if name in REFUSED:
        return CqlError(f"{name.upper()} is refused: {REFUSED[name]}", script, at)
    if name in WINDOW_FUNCTIONS:
        return NotSupportedError(f"{name}(), but in an aggregate of one window", script, at)
    if name in ITEM_FUNCTIONS or name in aggregates.NAMES:
        reason = f"{name.upper()} is answered over one window by itself, without joins and sub-queries"
        return NotSupportedError(reason, script, at)
    missing = absence(name)
    if missing is not None:
        return NotSupportedError(f"{name.upper()}, {missing}", script, at)
    hint = nearest(name, [known.upper() for known in KNOWN_FUNCTIONS]).split("; known")[0]
    return CqlError(f"unknown function '{written}'{hint}", script, at)
