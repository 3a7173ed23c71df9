"""The demo's last word: what was answered at what price, and the price of one Spark job per query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sash.cli.demo_jobs import JobRates
from sash.cli.demo_view import DemoStage
from sash.cli.printing import short
from sash.runtime.work import COMPARED, times_less

_HOW = """\
A Spark job reads every packet, expands it into WINDOW / SLIDE rows, one for each window that it falls
into, and aggregates them. Sash expands it into one row for each set of GROUP BY columns. Work is the
rows read, expanded and aggregated; the rows of Sash are counted, and those of the jobs follow from the
packets that came while a query was registered and passed its WHERE."""


def closing_table(stats: Mapping[str, Any], stages: Sequence[DemoStage], jobs: JobRates | None) -> RenderableType:
    if not stats["tuples"]:
        return Text("Stopped before the first tuples had been read: nothing to compare.")
    queries = stats["work"]["separate"]["passes"]
    title = f"{queries:,} queries over one stream, {stats['tuples']:,} packets, {stats['refreshes']:,} answers"
    parts: list[RenderableType] = ["", Text(title, "bold"), _work(stats), _growth(stages)]
    if jobs is not None and jobs.queries and stages:
        parts.append(_rates(stages[-1], jobs))
    return Group(*parts, Text(_HOW, "dim"))


def _work(stats: Mapping[str, Any]) -> Table:
    shared, separate = stats["work"]["shared"], stats["work"]["separate"]
    table = _columns("", "Sash", "one Spark job per query", "times less")
    for name, title in COMPARED.items():
        table.add_row(title, f"{shared[name]:,}", f"{separate[name]:,}", times_less(separate[name], shared[name]))
    table.add_section()
    table.add_row(Text("work saved", "bold"), "", "", Text(f"{stats['work_saved']:.1%}", "bold"))
    return table


def _growth(stages: Sequence[DemoStage]) -> Table:
    table = _columns("queries", "micro-batch (median)", "in Spark", "in Sash", "answers")
    for stage in stages:
        times = (stage.batch_seconds, stage.in_spark, stage.in_sash)
        table.add_row(f"{stage.queries:,}", *(f"{each * 1e3:,.0f} ms" for each in times), f"{stage.answers:,.0f}")
    return table


def _rates(stage: DemoStage, jobs: JobRates) -> Table:
    table = _columns("one after the other", "Sash", "Spark jobs")
    table.add_row("queries served", f"{stage.queries:,}", f"{jobs.queries:,}")
    table.add_row("micro-batch", f"{stage.batch_seconds * 1e3:,.0f} ms", f"{jobs.batch_seconds * 1e3:,.0f} ms")
    together = stage.tuples_per_s * stage.queries
    table.add_row("packets/s x queries", short(together), short(jobs.tuples_per_s))
    table.add_section()
    table.add_row(Text("times faster", "bold"), Text(times_less(together, jobs.tuples_per_s), "bold"), "")
    return table


def _columns(*names: str) -> Table:
    table = Table(box=box.SIMPLE, header_style="cyan", border_style="dim", padding=(0, 1))
    for name in names:
        table.add_column(name, justify="right" if table.columns else "left")
    return table
