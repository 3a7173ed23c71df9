"""Draws the pictures of docs/sharing.md from the example of packets and from Sash's own code.

python tools/draw_sharing.py        docs/figures/sharing_panes.svg, _tables.svg, _synopses.svg, _costs.svg

panes       the example's packets, cut into the panes that EXPLAIN names; windows as runs of panes
tables      who reads which partial of which pane table, read from EXPLAIN of the example's queries
synopses    which stored values a lookup reads, asked of the synopses themselves (`probed`)
costs       the cost model's values for one execution of N windows, by scans and by lookups
"""

from __future__ import annotations

import random
import re
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from typer.testing import CliRunner

from papers.synopses.basic_intervals import BasicIntervals, window_interval
from sash.cli import app
from sash.core.time import SECOND, UNITS, parse_duration
from sash.panes.intervals import SYNOPSES
from sash.panes.partials import Combine
from sash.schedule import joint_cost
from sash.schedule.cost import separate_cost
from sash.sharing.choose import lookup_cost

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import Rectangle

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "packets"
FIGURES = ROOT / "docs" / "figures"
MINUTE = UNITS["min"]
TEAL, ORANGE, PALE = "#00796b", "#d84315", "#b2dfdb"
Partials = dict[str, set[str]]  # of a pane table: partial -> its queries


def explained() -> str:
    return CliRunner().invoke(app, ["explain", str(EXAMPLE / "queries.sql")]).stdout


def pane_tables(text: str) -> dict[str, Partials]:
    """Pane table -> partial -> the queries that read it, from the text of `sash explain`."""
    tables: dict[str, Partials] = defaultdict(lambda: defaultdict(set))
    query = table = ""
    for line in text.splitlines():
        if heading := re.match(r"(\w+): SELECT", line):
            query, table = heading[1], ""
        elif found := re.match(r"Pane table \w+ (by .*): panes of (.*), one pass", line):
            table = f"{found[1].replace('`', '')}, panes of {found[2]}"
        elif line.startswith("Synopsis"):
            table = ""
        elif table and (partial := re.match(r"  (.*?): (new|shared|not stored)", line)):
            names = re.split(r", (?=\w+\()|, (?=rows)", partial[1])
            for name in names:
                tables[table][name + (", not stored" if partial[2] == "not stored" else "")].add(query)
    return tables


def bytes_per_pane(source: str, pane: int) -> list[int]:
    data = runpy.run_path(str(EXAMPLE / "make_data.py"))
    totals = [0] * (12 * MINUTE // pane)
    for second, src, *_, length in data["connections"](random.Random(11)):
        if src == source and second < 720:
            totals[int(second * SECOND // pane)] += length
    return totals


def draw_panes() -> None:
    """Bars: what Spark computes for each pane of one group. Below: the windows as of the end."""
    pane = parse_duration("10 sec")
    totals = bytes_per_pane("10.0.0.1", pane)
    edges = np.arange(len(totals)) * pane / MINUTE
    figure, axis = pyplot.subplots(figsize=(10, 3.6))
    axis.bar(edges, np.array(totals) / 1_000, width=pane / MINUTE, align="edge", color=PALE, edgecolor="white")
    windows = {"talkers_1_min": 1, "talkers_5_min, usual_length": 5, "talkers_10_min": 10}
    for row, (names, minutes) in enumerate(windows.items()):
        bottom = -6 - 7 * row
        axis.add_patch(Rectangle((12 - minutes, bottom), minutes, 4, color=TEAL))
        panes, total = minutes * MINUTE // pane, sum(totals[-minutes * MINUTE // pane :])
        axis.text(12 - minutes - 0.1, bottom + 2, f"{names}: {panes} panes, {total:,} bytes", ha="right", va="center")
    axis.axhline(0, color="0.3", linewidth=0.8)
    axis.set_xlim(0, 12)
    axis.set_xticks(range(13))
    axis.set_ylim(-22, max(totals) / 1_000 * 1.1)
    axis.set_yticks(range(0, 31, 10))
    axis.set_xlabel("minutes of the stream; answers as of minute 12")
    axis.set_ylabel("kilobytes of 10.0.0.1", loc="top")
    save(figure, axis, "panes")


def draw_tables(text: str) -> None:
    """A dot where a query (column) reads a partial (row) of a pane table."""
    tables = pane_tables(text)
    queries = list(dict.fromkeys(q for line in text.splitlines() for q in re.findall(r"^(\w+): SELECT", line)))
    queries = [query for query in queries if any(query in p for table in tables.values() for p in table.values())]
    figure, axis = pyplot.subplots(figsize=(10, 7))
    row, labels = 0, []
    for table, partials in tables.items():
        axis.text(-0.6, row, f"packets {table}", fontweight="bold", va="center", fontsize=8.5)
        row += 1
        for partial, readers in partials.items():
            stored = "not stored" not in partial
            columns = sorted(queries.index(reader) for reader in readers)
            axis.plot(columns, [row] * len(columns), color=PALE, linewidth=5, zorder=1)
            axis.plot(
                columns, [row] * len(columns), "o", color=TEAL, zorder=2, markerfacecolor=TEAL if stored else "white"
            )
            labels.append((row, partial))
            row += 1
    axis.set_yticks([place for place, _ in labels], [label for _, label in labels], fontsize=6.8)
    axis.set_xticks(range(len(queries)), queries, rotation=35, ha="left", fontsize=8)
    axis.xaxis.tick_top()
    axis.set_ylim(row - 0.3, -0.7)
    axis.set_xlim(-0.7, len(queries) - 0.4)
    axis.tick_params(length=0)
    save(figure, axis, "tables", spines=())


def draw_synopses() -> None:
    """Sixteen panes; what a window of eleven of them that ends three panes ago reads of each synopsis."""
    totals = bytes_per_pane("10.0.0.1", parse_duration("10 sec"))[:16]
    left, right = window_interval(16, 14, 3)
    figure, axes = pyplot.subplots(4, 1, figsize=(10, 6), sharex=True)
    for axis, name in zip(axes, ("basic", "running", "interval", "landmark"), strict=True):
        options: Any = {"widths": range(8, 15)} if name == "landmark" else {}
        kind: Any = SYNOPSES.get(name, BasicIntervals)
        synopsis = kind(16, 1, Combine.ADD, np.int64, **options)
        synopsis.extend([[total] for total in totals])
        probed = synopsis.probed(left, right)
        answer = int(synopsis.lookup(left, right)[0])
        assert answer == sum(totals[left - 1 : right])
        for row, (first, last) in enumerate(probed):
            taken = name == "running" and row == 1
            rank = 0 if name in ("basic", "interval", "landmark") else row
            axis.add_patch(
                Rectangle((first - 0.95, 1 + rank), last - first + 0.9, 0.8, color=ORANGE if taken else TEAL)
            )
        for pane in range(1, 17):
            inside = left <= pane <= right
            axis.add_patch(Rectangle((pane - 0.95, 0), 0.9, 0.8, color=PALE if inside else "0.92"))
            axis.text(pane - 0.5, 0.4, f"{totals[pane - 1] / 1_000:.0f}", ha="center", va="center", fontsize=7)
        axis.set_title(f"{name}: reads {len(probed)} values, {answer:,} bytes", loc="left", fontsize=9)
        axis.set_ylim(-0.1, 3)
        axis.set_yticks([])
    axes[-1].set_xlim(0, 16.1)
    axes[-1].set_xticks(np.arange(16) + 0.5, range(1, 17))
    axes[-1].set_xlabel("panes, each with its kilobytes; pale: the window of panes 3 to 13; orange: taken off")
    save(figure, axes, "synopses", spines=())


def draw_costs() -> None:
    """The model's combinations or values per group for one execution of N windows of up to 60 panes."""
    numbers = range(1, 61)
    windows = [[60 * (n + 1) // count for n in range(count)] for count in numbers]
    figure, axis = pyplot.subplots(figsize=(10, 3.8))
    lines = {
        "each window scanned by itself": [separate_cost(w, s=1) for w in windows],
        "one joint scan (CS2)": [joint_cost(w, s=1) for w in windows],
        "running synopsis, two values per window": [sum(lookup_cost("running", p) for p in w) for w in windows],
        "interval synopsis, about log2 of the panes": [sum(lookup_cost("interval", p) for p in w) for w in windows],
    }
    for (label, values), color in zip(lines.items(), (ORANGE, TEAL, "#5e35b1", "0.45"), strict=True):
        axis.plot(numbers, values, color=color, label=label, linewidth=2)
    axis.set_yscale("log")
    axis.set_xlabel("windows of up to 60 panes that are executed together")
    axis.set_ylabel("values read per group")
    axis.legend(frameon=False, fontsize=8.5)
    axis.set_xlim(1, 60)
    save(figure, axis, "costs", spines=("left", "bottom"))


def save(figure: Any, axes: Any, name: str, spines: tuple[str, ...] = ("bottom",)) -> None:
    for axis in np.atleast_1d(axes):
        for side, spine in axis.spines.items():
            spine.set_visible(side in spines)
    figure.tight_layout()
    figure.savefig(FIGURES / f"sharing_{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> int:
    with pyplot.rc_context({"svg.hashsalt": "sash", "font.size": 9, "svg.fonttype": "none"}):
        draw_panes()
        draw_tables(explained())
        draw_synopses()
        draw_costs()
    return 0


if __name__ == "__main__":
    sys.exit(main())
