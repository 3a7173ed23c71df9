"""Windows that slide in queries that panes cannot answer: joins, DISTINCT, negation, set operations, plain rows,
sub-queries over several streams.

    SELECT .. FROM s [RANGE 1 min SLIDE 10 sec], t [RANGE 1 min SLIDE 10 sec] WHERE s.k = t.k

Such a query is kept up to date as any continuous one, and answered at the multiples of SLIDE (thesis 3.3.4). Aggregates
over one window are computed from panes as ever.
"""

from __future__ import annotations

from sqlglot import exp

from sash.catalog import Catalog
from sash.core.errors import CatalogError, CqlError, NotSupportedError
from sash.core.time import Micros
from sash.core.window import RowWindow
from sash.sql.binding.windows import check_all_slide, check_one_slide, has_slide, has_windows
from sash.sql.expressions import aggregates
from sash.sql.expressions.aggregates import is_item_call
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import output_of, span_of, window_clause
from sash.sql.reading.statements import Select
from sash.sql.reading.window_clause import WindowClause

ADD_SLIDE = "add SLIDE to the window and it is computed at every re-execution: [WINDOW 10 min SLIDE 1 min]"


def without_panes(*, slides: bool) -> str:
    """Where that is which only panes can compute, and the way out if there is one."""
    if slides:
        return "in a query that panes cannot answer (a join, DISTINCT, tests, set operations, plain rows)"
    return f"in a continuous query; {ADD_SLIDE}"


def is_continuous(select: Select) -> bool:
    """Whether a registered SELECT is a plan that is kept up to date with every tuple, and not read from panes."""
    return has_windows(select) and (not has_slide(select) or _needs_plan(select.tree))


def _needs_plan(tree: exp.Expr) -> bool:
    while isinstance(tree, exp.Subquery):
        if window_clause(tree) is not None:
            return True
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return isinstance(tree, exp.SetOperation)
    return _is_own(output_of(tree)) or tree.args.get("distinct") is not None or _tests(tree) or _needs_sources(tree)


def _is_own(clause: OutputClause | None) -> bool:
    """Rstream(..) is what a periodic query does anyway."""
    return clause is not None and (clause.kind != "rstream" or clause.restore or clause.distinct is not None)


def _tests(tree: exp.Select) -> bool:
    where = tree.args.get("where")
    return where is not None and any(
        isinstance(part, exp.Exists) or part.args.get("query") is not None
        for part in where.find_all(exp.Exists, exp.In)
    )


def _needs_sources(tree: exp.Select) -> bool:
    clause = tree.args.get("from_")
    if clause is None:
        return False
    tables = [clause.this, *(join.this for join in tree.args.get("joins") or [])]
    streams = [table for table in tables if isinstance(table, exp.Table)]
    if any(_needs_plan(table) or _is_nested(table) for table in tables if isinstance(table, exp.Subquery)):
        return True
    if any((found := window_clause(table)) is not None and found.internal_at is not None for table in streams):
        return True
    if streams:
        # What has no window is a table of the catalog: tuples are looked up in it before panes are cut.
        joined = [table for table in tables if not isinstance(table, exp.Table) or window_clause(table) is not None]
        return len(joined) > 1 or not _is_aggregated(tree)
    return _is_aggregated(tree) or len({table.name.lower() for table in tree.find_all(exp.Table)}) > 1


def _is_nested(sub_query: exp.Subquery) -> bool:
    """Panes answer one level of sub-queries."""
    inner = sub_query.unnest()
    clause = inner.args.get("from_") if isinstance(inner, exp.Select) else None
    return clause is not None and isinstance(clause.this, exp.Subquery)


def _is_aggregated(tree: exp.Select) -> bool:
    calls = [node for item in tree.expressions for node in item.find_all(exp.Anonymous)]
    named = any(call.name.lower() in aggregates.NAMES or is_item_call(call) for call in calls)
    return named or tree.args.get("group") is not None or tree.args.get("having") is not None


def common_slide(select: Select, catalog: Catalog) -> tuple[Micros, Micros] | None:
    """The SLIDE of all windows, and from where its multiples count; None where none slides."""
    tables = sorted(select.tree.find_all(exp.Table), key=lambda table: span_of(table).start)
    found = [(table, clause) for table in tables if (clause := window_clause(table)) is not None]
    if not any(clause.slide_at is not None for _, clause in found):
        return None
    check_all_slide(select.tree, select.script)
    (_, first), *others = found
    for _, clause in found:
        _check_in_time(clause, select.script)
    for _, clause in others:
        check_one_slide(first, clause, select.script)
    assert first.window.slide is not None
    return first.window.slide, _offset([table for table, _ in found], catalog, select.script)


def _check_in_time(clause: WindowClause, script: str) -> None:
    if isinstance(clause.window, RowWindow) and clause.slide_at is not None:
        reason = "this query is answered at multiples of a time, and SLIDE of a row-based window counts tuples"
        raise CqlError(f"{reason}: give a time-based window, or leave out SLIDE everywhere", script, clause.slide_at)
    if clause.lag_at is not None:
        raise NotSupportedError("LAG beside joins, DISTINCT, negation, set operations", script, clause.lag_at)


def _offset(tables: list[exp.Table], catalog: Catalog, script: str) -> Micros:
    offsets: list[Micros] = []
    for table in tables:
        try:
            offsets.append(catalog.stream(table.name).offset)
        except CatalogError:
            continue  # the name is refused where it is bound
        if offsets[-1] != offsets[0]:
            reason = "the multiples of streams with different OFFSETs are not the same: make the streams with one"
            raise CqlError(reason, script, span_of(table.this))
    return offsets[0] if offsets else 0
