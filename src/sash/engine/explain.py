"""EXPLAIN: the plan, the pane table and synopsis it would read, with whom, in which sub-group, at what cost."""

from __future__ import annotations

from collections.abc import Mapping

from sash.catalog import Catalog, Stream
from sash.core.time import format_duration
from sash.core.window import TimeWindow
from sash.engine.compiler import CompiledQuery, compile_select
from sash.language import Select, has_slide
from sash.plan.nodes import chain
from sash.plan.periodic import key_set
from sash.scheduling import joint_cost, separate_cost
from sash.sharing.pane_tables import PaneTable, key_label, pane_table
from sash.synopses.partials import Partial


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
    keys = key_set(query.periodic)
    mates = [other for other in registered if key_set(other.periodic) == keys]
    lines = ["Plan"]
    lines += [f"  {'  ' * depth}{node.describe()}" for depth, node in enumerate(chain(query.plan))]
    if query.periodic.window.slide is None:
        return "\n".join([*lines, _one_time_line(query, mates, stream)])
    table = pane_table(keys, [mate.periodic for mate in mates] + [query.periodic])
    lines += _pane_lines(query, mates, table, stream)
    if table.label in unreduced:
        lines.append(f"  note: these groups are {unreduced[table.label]:.0%} of the tuples; panes save little")
    lines += _schedule_lines(query, mates, table, policy)
    return "\n".join(lines)


def _one_time_line(query: CompiledQuery, mates: list[CompiledQuery], stream: Stream) -> str:
    """A question changes nothing: it reads the panes that registered queries have, or is refused."""
    window, keys = query.periodic.window, key_set(query.periodic)
    stored = {partial for mate in mates for partial in mate.finisher.partials}
    if missing := [p for p in query.finisher.partials if p not in stored]:
        what = ", ".join(map(_partial_text, missing))
        return f"One-time: refused, no registered query over {stream.name} by {key_label(keys)} keeps {what}"
    table = pane_table(keys, [mate.periodic for mate in mates])
    reach = max(mate.periodic.window.reach for mate in mates)
    if window.reach > reach or window.resolution % table.length:
        kept = f"{format_duration(reach)} in panes of {format_duration(table.length)}"
        return f"One-time: refused, pane table {stream.name} by {table.label} keeps {kept}"
    panes = f"panes of {format_duration(table.length)}"
    return f"One-time: answered from pane table {stream.name} by {table.label}, {panes}, as of the newest closed one"


def _pane_lines(query: CompiledQuery, mates: list[CompiledQuery], table: PaneTable, stream: Stream) -> list[str]:
    stored = {partial for mate in mates for partial in mate.finisher.partials}
    lines = [f"Pane table {stream.name} by {table.label}: panes of {format_duration(table.length)}, one pass on Spark"]
    for partial in query.finisher.partials:
        sharers = [mate.name for mate in mates if partial in mate.finisher.partials]
        state = f"shared with {_names(sharers)} (SS1)" if partial in stored else "new"
        lines.append(f"  {_partial_text(partial)}: {state}")
    reach = max(other.periodic.window.reach for other in [*mates, query])
    lines.append(f"Synopsis: basic interval, {reach // table.length} panes, scanned from the youngest to the oldest")
    lines.append(
        f"  read by {_names([mate.name for mate in mates])} too, in one scan (CS2)" if mates else "  its only reader"
    )
    return lines


def _partial_text(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    return text if partial.predicate is None else f"{text} where {partial.predicate}"


def _schedule_lines(query: CompiledQuery, mates: list[CompiledQuery], table: PaneTable, policy: str) -> list[str]:
    window = query.periodic.window
    assert window.slide is not None
    same = [mate.name for mate in mates if _task(mate.periodic.window) == _task(window)]
    together = [mate.periodic.window.length for mate in mates if mate.name in same] + [window.length]
    period = f"{'EXACTLY ' if window.exactly else ''}{format_duration(window.slide)}"
    company = f"with {_names(same)}" if same else "alone in it"
    cost = f"{joint_cost([window.length], table.length)} combinations of pane values per group"
    if same:
        joint, separate = joint_cost(together, table.length), separate_cost(together, table.length)
        cost += f"; with its sub-group {joint} in all, {separate} one by one"
    lines = [f"Schedule: policy {policy}, sub-group SLIDE {period}, {company}", f"Expected cost per execution: {cost}"]
    if window.slide > window.length:
        gap = format_duration(window.slide - window.length)
        lines.append(
            f"Note: SLIDE is longer than WINDOW: {gap} of every {format_duration(window.slide)} are in no answer"
        )
    return lines


def _task(window: TimeWindow) -> tuple[int | None, bool]:
    return window.slide, window.exactly


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
