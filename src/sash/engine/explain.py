"""EXPLAIN: the plan, the pane tables and synopses it would read, with whom, in which sub-group, at what cost."""

from __future__ import annotations

from collections.abc import Mapping

from sash.catalog import Catalog, Stream
from sash.core.time import format_duration
from sash.core.window import RowWindow, Window, pane_length
from sash.engine.compiler import CompiledQuery, compile_select
from sash.language import Select, has_slide
from sash.plan.nodes import tree
from sash.scheduling import joint_cost, separate_cost
from sash.sharing.pane_tables import PaneTable, pane_table
from sash.synopses.partials import Partial
from sash.synopses.readings import Reading


def compile_for_explain(select: Select, catalog: Catalog) -> CompiledQuery:
    """A periodic query, or a one-time one where no SLIDE is given."""
    return compile_select(select, catalog, one_time=not has_slide(select))


def explain(
    query: CompiledQuery,
    registered: list[CompiledQuery],
    stream: Stream,
    policy: str,
    unreduced: Mapping[str, float],
) -> str:
    lines = ["Plan", *(f"  {'  ' * depth}{node.describe()}" for depth, node in tree(query.plan))]
    if query.slide is None:
        return "\n".join([*lines, *_one_time_lines(query, registered, stream)])
    lines += [line for reading in query.readings for line in _reading_lines(query, reading, registered, stream)]
    lines += [
        f"  note: the groups of {table} are {unreduced[table]:.0%} of the tuples; panes save little"
        for table in dict.fromkeys(reading.table.label for reading in query.readings)
        if table in unreduced
    ]
    lines += _schedule_lines(query, registered, policy)
    return "\n".join(lines)


def _readers(reading: Reading, registered: list[CompiledQuery]) -> list[tuple[CompiledQuery, Reading]]:
    """Who reads the same pane table."""
    return [(mate, other) for mate in registered for other in mate.readings if other.table == reading.table]


def _table(reading: Reading, readers: list[tuple[CompiledQuery, Reading]], linked: tuple[Window, ...]) -> PaneTable:
    """The pane table as it would be; windows of queries that read several tables cut them all alike."""
    windows = [window for mate, other in readers for window in (other.window, *mate.windows)]
    partials = [partial for _, other in readers for partial in other.partials]
    return pane_table(reading.table, pane_length([*windows, *linked]), [*partials, *reading.partials])


def _one_time_lines(query: CompiledQuery, registered: list[CompiledQuery], stream: Stream) -> list[str]:
    """A question changes nothing: it reads the panes that registered queries have, or is refused."""
    return [_one_time_line(reading, registered, stream) for reading in query.readings]


def _one_time_line(reading: Reading, registered: list[CompiledQuery], stream: Stream) -> str:
    readers, window = _readers(reading, registered), reading.window
    stored = {partial for _, other in readers for partial in other.partials}
    where = f"{stream.name} by {reading.table.label}"
    if missing := [p for p in reading.partials if p not in stored]:
        what = ", ".join(map(_partial_text, missing))
        return f"One-time: refused, no registered query over {where} keeps {what}"
    table = _table(reading, readers, ())
    unbounded = any(other.window.unbounded for _, other in readers)
    reach = max((other.window.reach for _, other in readers if not other.window.unbounded), default=0)
    beyond = not unbounded if window.unbounded else window.reach > reach
    if beyond or window.resolution % table.length:
        kept = f"{_extent(window, reach)} in panes of {_extent(window, table.length)}"
        return f"One-time: refused, pane table {where} keeps {kept}"
    panes = f"panes of {_extent(window, table.length)}"
    return f"One-time: answered from pane table {where}, {panes}, as of the newest closed one"


def _reading_lines(
    query: CompiledQuery, reading: Reading, registered: list[CompiledQuery], stream: Stream
) -> list[str]:
    readers = _readers(reading, registered)
    table = _table(reading, readers, query.windows)
    by_rows = ", one pass over the numbered tuples" if table.name.by_rows else ", one pass on Spark"
    pane = _extent(reading.window, table.length)
    lines = [f"Pane table {stream.name} by {table.label}: panes of {pane}{by_rows}"]
    for partial in reading.partials:
        sharers = list(dict.fromkeys(mate.name for mate, other in readers if partial in other.partials))
        state = f"shared with {_names(sharers)} (SS1)" if sharers else "new"
        lines.append(f"  {_partial_text(partial)}: {state}")
    windows = [other.window for _, other in readers] + [reading.window]
    panes = max((w.reach // table.length for w in windows if not w.unbounded), default=0)
    history = ", older ones merged for UNBOUNDED" if any(w.unbounded for w in windows) else ""
    lines.append(f"Synopsis: basic interval, {panes} panes{history}, scanned from the youngest to the oldest")
    names = list(dict.fromkeys(mate.name for mate, _ in readers))
    lines.append(f"  read by {_names(names)} too, in one scan (CS2)" if names else "  its only reader")
    return lines


def _partial_text(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    return text if partial.predicate is None else f"{text} where {partial.predicate}"


def _schedule_lines(query: CompiledQuery, registered: list[CompiledQuery], policy: str) -> list[str]:
    home, (window, *_) = query.readings[0], query.windows
    readers = _readers(home, registered)
    mates = list({mate.name: mate for mate, _ in readers}.values())
    table = _table(home, readers, query.windows)
    assert query.slide is not None
    same = [mate for mate in mates if (mate.slide, mate.exactly) == (query.slide, query.exactly)]
    together = [_cost_length(w) for mate in [*same, query] for w in mate.windows]
    period = f"{'EXACTLY ' if query.exactly else ''}{_extent(window, query.slide)}"
    company = f"with {_names([mate.name for mate in same])}" if same else "alone in it"
    own = joint_cost([_cost_length(w) for w in query.windows], table.length)
    cost = f"{own} combinations of pane values per group"
    if same:
        joint, separate = joint_cost(together, table.length), separate_cost(together, table.length)
        cost += f"; with its sub-group {joint} in all, {separate} one by one"
    lines = [f"Schedule: policy {policy}, sub-group SLIDE {period}, {company}", f"Expected cost per execution: {cost}"]
    longest = max(window.length for window in query.windows)
    if query.slide > longest:
        gap = _extent(window, query.slide - longest)
        lines.append(
            f"Note: SLIDE is longer than WINDOW: {gap} of every {_extent(window, query.slide)} are in no answer"
        )
    return lines


def _cost_length(window: Window) -> int:
    return 0 if window.unbounded else window.length


def _extent(window: Window, length: int) -> str:
    return f"{length} rows" if isinstance(window, RowWindow) else format_duration(length)


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
