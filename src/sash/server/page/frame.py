"""The common part of all views: navigation, the state of the engine, colours and type, tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from nicegui import ui

from sash.server.watch import ENDED, FAILED, FAILING, IDLE, LIVE, OVERLOADED, STARTING, STOPPED, Watch
from sash.sql.roles import is_number

VIEWS = {"Queries": "/", "Answer": "/answer", "Sharing": "/sharing", "Schedule": "/schedule", "Health": "/health"}
REFRESH_SECONDS = 1.0

# The words for each state, before the reason; and its colour, from Quasar's palette.
_STATES = {
    STARTING: ("Starting", "grey-7"),
    LIVE: ("Live", "positive"),
    IDLE: ("Idle", "warning"),
    ENDED: ("Ended", "grey-7"),
    STOPPED: ("Stopped", "negative"),
    FAILED: ("Stopped by an error", "negative"),
    FAILING: ("Failing", "negative"),
    OVERLOADED: ("Overloaded", "warning"),
}
_STYLE = """
<style>
  body { font-feature-settings: "tnum"; }
  .sash-nav a { padding: .35rem .6rem; border-radius: .4rem; text-decoration: none; color: inherit; opacity: .75; }
  .sash-nav a[aria-current="page"] { opacity: 1; font-weight: 600; background: rgba(127, 127, 127, .18); }
  .sash-nav a:focus-visible, button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
  .sash-mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
  .sash-error { text-decoration: underline wavy #e5484d 2px; text-underline-offset: 3px; }
  .sash-word { font-weight: 600; }
  .sash-dim { opacity: .7; }
  .sash-editor .cm-editor { font-size: .95rem; height: 100%; }
  .q-table th { vertical-align: bottom; white-space: nowrap; }
</style>
"""


@contextmanager
def frame(view: str, watch: Watch) -> Iterator[None]:
    """The page around a view."""
    ui.page_title(f"{view} · Sash")
    ui.add_head_html(_STYLE)
    ui.colors(primary="#2f6fde", positive="#1a7f4b", negative="#c0392b", warning="#b7791f")
    with ui.header(elevated=False).classes("items-center gap-x-4 gap-y-1 q-py-xs bg-transparent text-inherit"):
        ui.label("Sash").classes("text-lg font-bold")
        with ui.element("nav").classes("sash-nav row gap-1").props('aria-label="Views"'):
            for name, address in VIEWS.items():
                link = ui.link(name, address)
                if name == view:
                    link.props('aria-current="page"')
        ui.space()
        _state(watch)
    with ui.column().classes("w-full max-w-screen-xl mx-auto q-pa-sm gap-4"):
        yield


def _state(watch: Watch) -> None:
    """The worst state of the engine, on every view; in trouble, also why, and a link to Health."""
    with ui.row().classes("items-center gap-2").props('role="status"'):
        with ui.link(target=VIEWS["Health"]).props('aria-label="State"'):
            badge = ui.badge("")
        reason = ui.label("").classes("text-sm")

    def look() -> None:
        word, colour = _STATES[watch.state]
        badge.set_text(word)
        badge.props(f'color="{colour}"')
        reason.set_text(watch.why.split("\n")[0])

    look()
    ui.timer(REFRESH_SECONDS, look)


def heading(text: str, note: str = "") -> None:
    with ui.row().classes("items-baseline gap-3"):
        ui.label(text).classes("text-xl font-semibold").props('role="heading" aria-level="2"')
        if note:
            ui.label(note).classes("text-sm sash-dim")


# -- tables --------------------------------------------------------------------------------------------


# Beyond this a browser's numbers are not exact any more.
_EXACT = 2**53


def table_columns(schema: pa.Schema) -> list[dict[str, Any]]:
    """Numbers to the right, in the order of the schema."""
    return [
        {
            "name": field.name,
            "label": field.name,
            "field": field.name,
            "align": "right" if is_number(field.type) else "left",
            "sortable": True,
        }
        for field in schema
    ]


def shown_rows(table: pa.Table, most: int) -> list[dict[str, Any]]:
    return [{name: shown_value(value) for name, value in row.items()} for row in table.slice(0, most).to_pylist()]


def shown_value(value: Any) -> Any:
    """A value that JSON can carry.

    >>> shown_value(Decimal("1.50")), shown_value(float("nan")), shown_value(2**60), shown_value(b"ab")
    (1.5, 'NaN', '1152921504606846976', '6162')
    """
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) < _EXACT else str(value)
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        case Decimal():
            return shown_value(float(value))
        case datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return value.hex()
    return str(value)
