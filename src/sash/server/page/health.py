"""Health: errors, rates, lag, losses, and resources."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

from nicegui import ui

from sash.server.page import page_charts
from sash.server.page.frame import REFRESH_SECONDS, heading
from sash.server.watch import Sample, Watch


def show(watch: Watch) -> None:
    heading("Health", "the last ten minutes, one sample a second")
    problems = ui.column().classes("w-full gap-1").props('role="alert"')
    with ui.row().classes("w-full gap-3"):
        facts = {name: _fact(name) for name in _FACTS}
    drawings = {}
    with ui.element("div").classes("w-full grid grid-cols-1 lg:grid-cols-2 gap-4"):
        for title in _CHARTS:
            with ui.card().classes("w-full").props("flat bordered"):
                ui.label(title).classes("font-medium")
                drawings[title] = ui.echart(_chart(title, [])).classes("h-52 w-full")
    told: list[list[str]] = []

    def draw() -> None:
        samples = list(watch.samples)
        if not samples:
            return
        for name, read in _FACTS.items():
            facts[name].set_text(read(samples[-1]))
        for title, drawing in drawings.items():
            drawing.options.update(_chart(title, samples))
            drawing.update()
        if told == [watch.failures, watch.warnings]:
            return
        told[:] = [watch.failures, watch.warnings]
        problems.clear()
        with problems:
            for failure in watch.failures:
                ui.label(failure).classes("sash-mono text-sm text-negative")
            for warning in watch.warnings:
                ui.label(warning)

    draw()
    ui.timer(REFRESH_SECONDS, draw)


def _chart(title: str, samples: list[Sample]) -> dict[str, Any]:
    series, unit = _CHARTS[title]
    points = {name: [(each.at, read(each)) for each in samples] for name, read in series.items()}
    known = {name: [point for point in line if point[1] is not None] for name, line in points.items()}
    return page_charts.lines(known, unit, stacked=title == _BATCHES)


def _fact(name: str) -> ui.label:
    with ui.card().classes("q-py-sm q-px-md gap-0").props("flat bordered"):
        value = ui.label("–").classes("text-xl font-semibold")
        ui.label(name).classes("text-sm sash-dim")
    return value


def _ago(seconds: float | None) -> str:
    """
    >>> _ago(None), _ago(3.25), _ago(9_000), _ago(900_000)
    ('–', '3.2 s', '2.5 h', '10.4 days')
    """
    if seconds is None:
        return "–"
    for limit, length, unit in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if abs(seconds) < limit:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 86_400:.1f} days"


_MB = 2**20
_FACTS: dict[str, Callable[[Sample], str]] = {
    "tuples/s": lambda s: f"{s.tuples_per_s:,.0f}",
    "watermark (UTC)": lambda s: "–" if s.watermark is None else f"{s.watermark.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
    "behind the clock": lambda s: _ago(s.lag),
    "late tuples": lambda s: f"{s.late:,}",
    "bad tuples": lambda s: f"{s.bad:,}",
    "answers": lambda s: f"{s.answers:,}",
    "memory, Sash + Spark": lambda s: f"{s.python_memory / _MB:,.0f} + {s.spark_memory / _MB:,.0f} MB",
    "micro-batches": lambda s: f"{s.micro_batches:,}",
}
_BATCHES = "Micro-batch times"
_Series = dict[str, Callable[[Sample], float | None]]
_CHARTS: dict[str, tuple[_Series, str]] = {
    "Tuples per second": ({"tuples/s": lambda s: s.tuples_per_s}, "per s"),
    _BATCHES: ({"Spark": lambda s: s.batch_in_spark, "Sash": lambda s: s.batch_in_sash}, "ms"),
    "Behind the clock": ({"seconds": lambda s: s.lag}, "s"),
    "Memory": ({"Sash": lambda s: s.python_memory, "Spark": lambda s: s.spark_memory}, "bytes"),
    "Late and bad tuples so far": ({"late": lambda s: s.late, "bad": lambda s: s.bad}, "tuples"),
    "Answers so far": ({"answers": lambda s: s.answers}, "answers"),
}
