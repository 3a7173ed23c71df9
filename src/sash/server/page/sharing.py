"""Sharing: streams, the pane tables that they are cut into, the synopses on these, and who is executed together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nicegui import ui

from sash.server.page import charts
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
    """Of every query that is scheduled: through which pane table, synopsis and sub-group it is answered."""
    found = []
    for stream, facts in stats["streams"].items():
        for table in facts["pane_tables"]:
            scheduled = {query: task for task in table["tasks"] for query in task["queries"]}
            for query in table["queries"]:
                task = scheduled.get(query)
                # A query of several pane tables is scheduled by one of them; before the first tuple nobody is.
                together = f"every {task['period']} · {task['group']}" if task is not None else _elsewhere(table)
                cut = f"{_keys(table)} · panes of {table['pane']}"
                found.append(Path(stream, cut, f"{table['synopsis']} · {_keys(table)}", together, query))
    return found + _continuous(stats)


def _continuous(stats: dict[str, Any]) -> list[Path]:
    """Queries over single tuples: those that ask the same have one plan."""
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
    """The flow of ECharts. A node's name must be its own, so columns are told apart by a number that nobody sees."""
    nodes: dict[tuple[int, str], None] = {}
    links: dict[tuple[tuple[int, str], tuple[int, str]], int] = {}
    for path in found:
        steps = list(path.nodes())
        nodes |= dict.fromkeys(steps)
        for link in pairwise(steps):
            links[link] = links.get(link, 0) + 1
    return charts.flow(
        [{"name": _unique(*node), "depth": node[0], "itemStyle": {"color": charts.PALETTE[node[0]]}} for node in nodes],
        [
            {"source": _unique(*source), "target": _unique(*target), "value": number}
            for (source, target), number in links.items()
        ],
    )


def _unique(column: int, name: str) -> str:
    """Zero-width spaces: shown as the name alone."""
    return name + "​" * column


def _elsewhere(table: dict[str, Any]) -> str:
    return "by another pane table" if table["tasks"] else "not scheduled yet"


def _keys(table: dict[str, Any]) -> str:
    return ", ".join(table["keys"]) or "all tuples"


def show(watch: Watch) -> None:
    heading("Sharing", "every stream is read once; what is shared is drawn once")
    sentence = ui.label("").classes("text-base")
    with ui.element("div").classes("w-full overflow-x-auto"), ui.element("div").classes("sash-wide"):
        with ui.element("div").classes("w-full grid grid-cols-5 text-sm sash-dim"):
            for column in _COLUMNS:
                ui.label(column)
        chart = ui.echart(picture([])).classes("w-full")
    tables = ui.table(columns=_TABLE_COLUMNS, rows=[], row_key="name").classes("w-full").props("flat bordered dense")
    drawn: list[Path] = []

    def draw() -> None:
        if not watch.stats:
            return
        sentence.set_text(summary(watch.stats))
        found = paths(watch.stats)
        if found != drawn:
            drawn[:] = found
            height = max(_LEAST_HEIGHT, _ROW_HEIGHT * len({path.query for path in found}))
            chart.style(f"height: {height}px")
            chart.options.update(picture(found))
            chart.update()
        tables.rows = [_row(stream, table) for stream, facts in watch.stats["streams"].items()
                       for table in facts["pane_tables"]]  # fmt: skip

    draw()
    ui.timer(REFRESH_SECONDS, draw)


def summary(stats: dict[str, Any]) -> str:
    """What sharing saves, in a sentence."""
    tables = [table for facts in stats["streams"].values() for table in facts["pane_tables"]]
    queries = len(stats["queries"])
    if not queries:
        return "No query is registered yet."
    streams = len(stats["streams"])
    over = f"{_count(queries, 'query', 'queries')} over {_count(streams, 'stream')}"
    parts = [
        f"{over}: {_count(streams, 'pass', 'passes')} over each micro-batch instead of {queries}",
        f"{_count(len(tables), 'pane table')}",
        f"{stats['joint_executions']:,} of {stats['executions']:,} executions answered several queries at once",
        f"{stats['work_saved']:.0%} of the work on panes saved",
    ]
    if stats["plans"]:
        parts.insert(1, f"{_count(stats['plans'], 'continuous plan')}")
    return ", ".join(parts) + "."


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _row(stream: str, table: dict[str, Any]) -> dict[str, Any]:
    separate = table["separate_cost"]
    return {
        "name": f"{stream}: {_keys(table)}",
        "pane": table["pane"],
        "synopsis": table["synopsis"],
        "panes": table["panes"],
        "groups": table["groups"],
        "queries": len(table["queries"]),
        "tasks": len(table["tasks"]),
        "saved": f"{1 - table['joint_cost'] / separate:.0%}" if separate else "–",
    }


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
        ("saved", "Work saved", "right"),
    )
]
