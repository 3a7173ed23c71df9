"""Queries: the registered ones with their latest answers, and an editor to ask, register and drop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from sash.core.errors import SashError
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Query
from sash.runtime.session import Session
from sash.server.api import Service
from sash.server.page.editor import Editor
from sash.server.page.frame import REFRESH_SECONDS, heading, shown_rows
from sash.server.page.sharing_view import sub_group
from sash.server.watch import Watch

_LONGEST = 80


def rows(session: Session, stats: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per query, by name."""
    queries, known = dict(session.queries), stats.get("queries", {})
    return [_row(queries[name], known.get(name, {})) for name in sorted(queries)]


def _row(query: Query, facts: dict[str, Any]) -> dict[str, Any]:
    latest = query.latest()
    slide = facts.get("slide")
    return {
        "name": query.name,
        "window": "; ".join(facts.get("windows") or _written(query.text)),
        "slide": "–" if slide is None else f"{'exactly ' * facts.get('exactly', False)}{slide}",
        "together": _together(facts),
        "answers": query.answered,
        "as_of": "–" if latest is None else f"{latest.as_of:%H:%M:%S}",
        "last": _first_row(latest) if query.error is None else _first_line(query.error),
        "lateness": round(facts.get("lateness", 0.0), 2),
        "mark": "" if query.error is None else "failed" if query.failure is not None else "cannot write",
    }


def _first_line(error: SashError) -> str:
    return str(error).split("\n")[0]


def _written(text: str) -> list[str]:
    """The windows of a query that panes do not answer, in the text's form.

    >>> _written("SELECT 1 FROM a [WINDOW 30 sec SLIDE 5 sec] x, b [ROWS 10] WHERE x.k = b.k")
    ['30 sec', 'ROWS 10']
    """
    clauses = re.findall(r"\[([^\]]*)\]", text)
    return list(dict.fromkeys(re.sub(r"^(WINDOW|RANGE) +| *SLIDE.*$", "", clause, flags=re.I) for clause in clauses))


def _together(facts: dict[str, Any]) -> str:
    if "plan" in facts:
        return "a plan of its own" if facts["slide"] is None else f"a plan of its own, every {facts['slide']}"
    if facts.get("paused"):
        return "paused"
    if facts.get("sub_group") is None:
        return "–"
    return f"{sub_group(facts['sub_group'])}, every {facts['period']}"


def _first_row(latest: Answer | None) -> str:
    if latest is None:
        return "no answer yet"
    if not latest.table.num_rows:
        return "no rows"
    (row,) = shown_rows(latest.table, 1)
    more = f"  (+{latest.table.num_rows - 1:,})" if latest.table.num_rows > 1 else ""
    text = ", ".join(f"{name} {_short(value)}" for name, value in row.items() if not name.startswith("_"))
    return f"{text[:_LONGEST]}{more}"


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def show(service: Service, watch: Watch) -> None:
    session = service.session

    async def refresh() -> None:
        # On a thread: answers from before a restart may have to be read from the checkpoint.
        table.rows = await asyncio.to_thread(rows, session, watch.stats)

    Editor(service, refresh).build()
    heading("Queries", "answers as of event time, UTC")
    table = ui.table(columns=_COLUMNS, rows=[], row_key="name", pagination=25)
    # On a narrow screen one card per query, instead of unreadable columns.
    table.classes("w-full").props('flat bordered dense wrap-cells :grid="window.innerWidth < 1024"')
    table.add_slot("item", _CARD)
    # A link to the answer, and a button with a name for screen readers.
    table.add_slot(
        "body-cell-name",
        """<q-td :props="props"><a class="text-primary" :href="'/answer?query=' + encodeURIComponent(props.value)">
        {{ props.value }}</a>"""
        + _MARK
        + "</q-td>",
    )
    table.add_slot(
        "body-cell-last", """<q-td :props="props" :class="props.row.mark && 'text-negative'">{{ props.value }}</q-td>"""
    )
    table.add_slot(
        "body-cell-drop",
        """<q-td :props="props"><q-btn flat dense no-caps size="sm" label="Drop" :aria-label="'Drop ' + props.row.name"
        @click="$parent.$emit('drop', props.row.name)" /></q-td>""",
    )
    table.on("drop", lambda event: _confirm_drop(session, event.args, refresh))
    ui.timer(REFRESH_SECONDS, refresh, immediate=True)


def _confirm_drop(session: Session, name: str, dropped: Callable[[], Awaitable[None]]) -> None:
    """Ask once before a query is dropped: its synopses go with it."""
    with ui.dialog(value=True) as dialog, ui.card():
        ui.label(f"Drop query {name}? What only it needs is forgotten.")

        async def drop() -> None:
            dialog.close()
            try:
                await asyncio.to_thread(session.drop_query, name)
            except SashError as error:
                ui.notify(str(error), type="negative")
            await dropped()

        with ui.row().classes("w-full justify-end"):
            ui.button("Keep it", on_click=dialog.close).props("no-caps flat autofocus")
            ui.button("Drop it", on_click=drop).props("no-caps color=negative")


# Queries that have failed, or whose sink refuses answers.
_MARK = """<q-badge v-if="props.row.mark" color="negative" class="q-ml-xs">{{ props.row.mark }}</q-badge>"""
_CARD = (
    """
<div class="col-12 q-pa-xs"><q-card flat bordered class="q-pa-sm">
  <div class="row items-center justify-between">
    <a class="text-primary text-weight-medium" :href="'/answer?query=' + encodeURIComponent(props.row.name)">
      {{ props.row.name }}</a>"""
    + _MARK
    + """<q-btn flat dense no-caps size="sm" label="Drop" :aria-label="'Drop ' + props.row.name"
      @click="$parent.$emit('drop', props.row.name)" />
  </div>
  <div :class="props.row.mark && 'text-negative'">{{ props.row.last }}</div>
  <div class="sash-dim">{{ props.row.window }}, slide {{ props.row.slide }}, as of {{ props.row.as_of }},
    {{ props.row.answers }} answers, lateness {{ props.row.lateness }}</div>
</q-card></div>"""
)
_COLUMNS = [
    {"name": key, "label": label, "field": key, "align": align, "sortable": key != "drop"}
    for key, label, align in (
        ("name", "Query", "left"),
        ("window", "Window", "left"),
        ("slide", "Slide", "left"),
        ("together", "Sub-group", "left"),
        ("answers", "Answers", "right"),
        ("as_of", "As of", "left"),
        ("last", "Last answer", "left"),
        ("lateness", "Lateness", "right"),
        ("drop", "", "right"),
    )
]
