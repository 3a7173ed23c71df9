"""Sharing: streams, their pane tables, the synopses on these, and the queries that are executed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nicegui import ui

from sash.plan.nodes import as_written
from sash.runtime.work import COMPARED, times_less
from sash.server.page import page_charts
from sash.server.page.frame import REFRESH_SECONDS, heading
from sash.server.watch import Watch

_COLUMNS = ("stream", "pane table", "synopsis", "executed together", "query")
_LEAST_HEIGHT, _ROW_HEIGHT = 260, 26


@dataclass(frozen=True)
class Path:
    """The way of one query from its stream, node by node; each name is the node's own within its column."""

    stream: str
    table: str
    synopsis: str
    together: str
    query: str

    def nodes(self) -> Iterator[tuple[int, str]]:
        yield from enumerate((self.stream, self.table, self.synopsis, self.together, self.query))


def paths(stats: dict[str, Any]) -> list[Path]:
    """The path of every scheduled query: its pane table, synopsis and sub-group."""
    found = []
    for stream, facts in stats["streams"].items():
        # A query of several pane tables is scheduled by one of them; before the first tuple nobody is.
        tasks = [task for table in facts["pane_tables"] for task in table["tasks"]]
        scheduled = {query: task for task in tasks for query in task["queries"]}
        for table in facts["pane_tables"]:
            for query in table["queries"]:
                cut = f"{_keys(table)} · panes of {table['pane']}"
                task = scheduled.get(query)
                together = (
                    "not scheduled yet" if task is None else f"every {task['period']} · {sub_group(task['group'])}"
                )
                found.append(Path(stream, cut, f"{table['synopsis']} · {_keys(table)}", together, query))
    return found + _continuous(stats)


def sub_group(name: str) -> str:
    """A sub-group's name for people.

    >>> sub_group("() [WINDOW 1 min]"), sub_group("(k, g) of v")
    ('all tuples [WINDOW 1 min]', '(k, g) of v')
    """
    written = as_written(name)
    return f"all tuples{written[2:]}" if written.startswith("()") else written


def _continuous(stats: dict[str, Any]) -> list[Path]:
    """Queries over single tuples: equal queries have one plan."""
    numbers: dict[str, int] = {}
    found = []
    for name, facts in stats["queries"].items():
        if "plan" not in facts:
            continue
        plan = f"plan {numbers.setdefault(facts['plan'], len(numbers) + 1)}"
        when = "always" if facts["slide"] is None else f"every {facts['slide']}"
        found += [Path(stream, "no panes: every tuple", plan, when, name) for stream in facts["streams"]]
    return found


def picture(found: list[Path]) -> dict[str, Any]:
    """The flow of ECharts. Names of nodes must be unique, so an invisible number distinguishes columns."""
    nodes: dict[tuple[int, str], None] = {}
    links: dict[tuple[tuple[int, str], tuple[int, str]], int] = {}
    for path in found:
        steps = list(path.nodes())
        nodes |= dict.fromkeys(steps)
        for link in pairwise(steps):
            links[link] = links.get(link, 0) + 1
    return page_charts.flow(
        [
            {"name": _unique(*node), "depth": node[0], "itemStyle": {"color": page_charts.PALETTE[node[0]]}}
            for node in nodes
        ],
        [
            {"source": _unique(*source), "target": _unique(*target), "value": number}
            for (source, target), number in links.items()
        ],
    )


def _unique(column: int, name: str) -> str:
    """Zero-width spaces: shown as the name alone."""
    return name + "​" * column


def _keys(table: dict[str, Any]) -> str:
    return as_written(", ".join(table["keys"])) or "all tuples"


# The numbers of stats()["work"], and their titles.


def show(watch: Watch) -> None:
    heading("Sharing", "the work beside that of one Spark job per query; what is shared is drawn once")
    with ui.row().classes("w-full gap-3"):
        compared = {name: _comparison(title.capitalize()) for name, title in COMPARED.items()}
    sentence = ui.label("").classes("text-base")
    # A picture where there is room for five columns, else a list.
    with ui.element("div").classes("w-full gt-sm"):
        with ui.element("div").classes("w-full grid grid-cols-5 text-sm sash-dim"):
            for column in _COLUMNS:
                ui.label(column)
        chart = ui.echart(picture([])).classes("w-full")
    listed = ui.column().classes("w-full gap-2 lt-md")
    tables = ui.table(columns=_TABLE_COLUMNS, rows=[], row_key="name").classes("w-full")
    tables.props('flat bordered dense :grid="window.innerWidth < 1024"')
    tables.add_slot("item", _CARD)
    drawn: list[Path] = []

    def draw() -> None:
        if not watch.stats:
            return
        work = watch.stats["work"]
        for name, fill in compared.items():
            fill(work["separate"][name], work["shared"][name])
        sentence.set_text(summary(watch.stats))
        found = paths(watch.stats)
        if found != drawn:
            drawn[:] = found
            height = max(_LEAST_HEIGHT, _ROW_HEIGHT * len({path.query for path in found}))
            chart.style(f"height: {height}px")
            chart.options.update(picture(found))
            chart.update()
            listed.clear()
            with listed:
                _list(found)
        tables.rows = [table_row(stream, table) for stream, facts in watch.stats["streams"].items()
                       for table in facts["pane_tables"]]  # fmt: skip

    draw()
    ui.timer(REFRESH_SECONDS, draw)


def _comparison(title: str) -> Callable[[int, int], None]:
    """A card with the work of one Spark job per query, and Sash's; returns the function that fills it."""
    with ui.card().classes("q-py-sm q-px-md gap-0").props("flat bordered"):
        ui.label(title).classes("text-sm sash-dim")
        factor = ui.label("–").classes("text-2xl font-semibold")
        numbers = ui.label("").classes("text-base")

    def fill(separate: int, shared: int) -> None:
        times = times_less(separate, shared)
        factor.set_text(f"{times} times less" if times else "no less")
        numbers.set_text(f"{short(shared)} instead of {short(separate)}")

    return fill


def short(number: float) -> str:
    """
    >>> short(999), short(303_000), short(21_450_000), short(7e12)
    ('999', '303k', '21.4M', '7T')
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:,.0f}"


def _list(found: list[Path]) -> None:
    """The picture in words: each pane table with its executions."""
    by_table: dict[tuple[str, str], dict[str, list[str]]] = {}
    for path in found:
        executed = by_table.setdefault((path.stream, path.table), {})
        executed.setdefault(path.together, []).append(path.query)
    for (stream, table), executed in by_table.items():
        with ui.card().classes("w-full q-pa-sm gap-1").props("flat bordered"):
            ui.label(f"{stream} · {table}").classes("font-medium")
            for together, names in executed.items():
                ui.label(f"{together}: {', '.join(names)}").classes("text-sm")


def summary(stats: dict[str, Any]) -> str:
    """The savings of sharing, in a sentence."""
    tables = [table for facts in stats["streams"].values() for table in facts["pane_tables"]]
    queries = len(stats["queries"])
    if not queries:
        return "No query is registered yet."
    streams = len(stats["streams"])
    over = f"{_count(queries, 'query', 'queries')} over {_count(streams, 'stream')}"
    parts = [
        f"{over}: {_count(streams, 'pass', 'passes')} over each micro-batch instead of {queries}",
        f"{_count(len(tables), 'pane table')}",
    ]
    # Queries that share a pass may have nothing else to share.
    if stats["joint_executions"]:
        joint, all = f"{stats['joint_executions']:,}", f"{stats['executions']:,}"
        parts.append(f"{joint} of {all} executions answered several queries at once")
    if stats["plans"]:
        parts.insert(1, f"{_count(stats['plans'], 'continuous plan')}")
    saved = _percent(stats["work_saved"])
    lead = f"{saved} less work than one Spark job per query: rows read, expanded and aggregated. " if saved else ""
    return lead + ", ".join(parts) + "."


def _percent(part: float) -> str:
    """A percentage; empty for nothing."""
    return f"{part:.0%}" if part >= 0.005 else ""


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def table_row(stream: str, table: dict[str, Any]) -> dict[str, Any]:
    separate = table["separate_cost"]
    return {
        "name": f"{stream}: {_keys(table)}",
        "pane": table["pane"],
        "synopsis": table["synopsis"],
        "panes": table["panes"],
        "groups": table["groups"],
        "queries": len(table["queries"]),
        "tasks": len(table["tasks"]),
        "saved": (_percent(1 - table["joint_cost"] / separate) if separate else "") or "–",
    }


_CARD = """
<div class="col-12 q-pa-xs"><q-card flat bordered class="q-pa-sm">
  <div class="text-weight-medium">{{ props.row.name }}</div>
  <div>panes of {{ props.row.pane }}, {{ props.row.panes }} held, {{ props.row.synopsis }}, {{ props.row.groups }}
    groups, {{ props.row.queries }} queries, {{ props.row.tasks }} sub-groups, {{ props.row.saved }} saved by joint
    scans</div>
</q-card></div>"""
_TABLE_COLUMNS = [
    {"name": key, "label": label, "field": key, "align": align, "sortable": True}
    for key, label, align in (
        ("name", "Pane table", "left"),
        ("pane", "Pane", "left"),
        ("synopsis", "Synopsis", "left"),
        ("panes", "Panes held", "right"),
        ("groups", "Groups", "right"),
        ("queries", "Queries", "right"),
        ("tasks", "Sub-groups", "right"),
        ("saved", "Saved by joint scans", "right"),
    )
]
