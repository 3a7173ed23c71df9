"""Schedule: a timeline of executions, which ran together, early or late; and the cost of other policies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from nicegui import ui

from sash.core.errors import SashError
from sash.runtime.session import Session
from sash.runtime.statistics import EARLY, LATE, ON_TIME
from sash.schedule import POLICY_NAMES
from sash.server.page import page_charts
from sash.server.page.frame import heading
from sash.server.page.sharing_view import sub_group

REFRESH_SECONDS = 2.0
# A page rests for this many times the duration of its last look.
_REST = 10
# The most moments that are drawn: more could not be distinguished.
_MOMENTS = 40
# Shapes as well as colours, for people who see few of these.
_MARKS = {
    ON_TIME: {"symbol": "circle", "symbolSize": 11, "itemStyle": {"color": "#009e73"}},
    EARLY: {
        "symbol": "circle",
        "symbolSize": 10,
        "itemStyle": {"color": "transparent", "borderColor": "#3b9ae1", "borderWidth": 2},
    },
    LATE: {"symbol": "triangle", "symbolSize": 14, "itemStyle": {"color": "#d55e00"}},
}
_MEANINGS = "one row per sub-group; a line joins what one scan answered; early: before its own SLIDE, to go along"


def timeline(executed: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Event time from left to right, one row per sub-group, as in figure 8.6 of the thesis."""
    moments = sorted({each["as_of"] for each in executed})[-_MOMENTS:]
    shown = [each for each in executed if moments and each["as_of"] >= moments[0]]
    rows = sorted({_row(turn) for each in shown for turn in each["turns"]}, key=lambda row: (row[0], _length(row[1])))
    names = [f"SLIDE {slide} · {sub_group(group)}" for group, slide in rows]
    place = {row: number for number, row in enumerate(rows)}
    marks: dict[str, list[dict[str, Any]]] = {state: [] for state in _MARKS}
    joined: list[list[Any]] = []
    for each in shown:
        at = page_charts.milliseconds(each["as_of"])
        for turn in each["turns"]:
            who = ", ".join(turn["queries"][:12]) + (" ..." if len(turn["queries"]) > 12 else "")
            marks[turn["state"]].append({"value": [at, place[_row(turn)]], "name": who})
        if len(each["turns"]) > 1:
            ends = sorted(place[_row(turn)] for turn in each["turns"])
            # A value that is not a number interrupts the line.
            joined += [[at, ends[0]], [at, ends[-1]], [at, "-"]]
    options = page_charts.lines({})
    options["yAxis"] = page_charts.axis("category", data=names, inverse=True)
    # Above their rows, and not beside them: a phone has no room there.
    options["yAxis"]["axisLabel"] |= {
        "inside": True, "hideOverlap": False, "margin": 2, "verticalAlign": "bottom", "padding": [0, 0, 8, 0],
        "width": 320, "overflow": "truncate",
    }  # fmt: skip
    options["tooltip"] |= {"trigger": "item", "formatter": "{a}: {b}"}
    options["legend"] |= {"show": True, "data": list(_MARKS)}
    together = {"lineStyle": {"color": page_charts.GREY, "width": 2}, "silent": True, "showSymbol": False}
    options["series"] = [
        {"name": "together", "type": "line", "data": joined, "z": 1, **together},
        *({"name": state, "type": "scatter", "data": marks[state], "z": 2, **_MARKS[state]} for state in _MARKS),
    ]
    return options


def _row(turn: dict[str, Any]) -> tuple[str, str]:
    return turn["group"], turn["slide"]


def _length(slide: str) -> tuple[str, float]:
    """Slides of one unit in the order of their lengths."""
    number, _, unit = slide.partition(" ")
    return unit, float(number)


def show(session: Session) -> None:
    heading("Schedule", _MEANINGS)
    empty = ui.label("Nothing has been executed yet.").classes("sash-dim")
    chart = ui.echart(timeline([])).classes("w-full")
    heading("Policies", "expected cost per second of the stream's time, by the cost model")
    with ui.row().classes("w-full items-center gap-4"):
        choice = ui.select(list(POLICY_NAMES), value=session.policy, label="Policy").classes("w-64")
        told = ui.label("").props('role="status"')
    costs = ui.echart(page_charts.bars({}, "")).classes("w-full h-64")

    async def use() -> None:
        if choice.value == session.policy:
            return
        try:
            await asyncio.to_thread(session.use_policy, choice.value)
        except SashError as error:
            told.set_text(str(error))
            return
        told.set_text(f"{choice.value} from the next micro-batch on")

    choice.on_value_change(use)

    asked = 0.0

    async def draw() -> None:
        # With very many queries the costs of all policies take long to compute: a page must not ask all the time.
        nonlocal asked
        if time.monotonic() < asked:
            return
        began = time.monotonic()
        report = await asyncio.to_thread(session.schedule)
        asked = time.monotonic() + _REST * (time.monotonic() - began)
        empty.set_visibility(not report["executed"])
        options = timeline(report["executed"])
        chart.style(f"height: {max(160, 60 + 34 * len(options['yAxis']['data']))}px")
        chart.options.update(options)
        chart.update()
        marked = {_named(name, report["policy"]): cost for name, cost in report["predicted_cost"].items()}
        costs.options.update(page_charts.bars(marked, "cost per s"))
        costs.update()

    ui.timer(REFRESH_SECONDS, draw, immediate=True)


def _named(policy: str, current: str) -> str:
    return f"▶ {policy}" if policy == current else policy
