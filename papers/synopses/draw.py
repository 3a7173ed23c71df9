"""Draws figures 9, 10 and 11 of Arasu and Widom from what ``run`` measured.

`python -m papers.synopses.draw` reads papers/out/synopses.json, prints tables and writes one picture per
figure; `tables` and `figures` serve papers/figures.py, which draws all benchmarks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import measurements

Cells = list[dict[str, Any]]
# By figure: title, the horizontal axis and its name, the vertical one, whether the horizontal one is logarithmic.
AXES: dict[str, tuple[str, str, str, str, bool]] = {
    "figure9": ("1,000 SUMs over row windows", "update_percent", "percent of updates", "inputs_per_s", False),
    "figure10": ("updates, one group", "n_max", "N_max (positions)", "updates_per_s", True),
    "figure11": ("lookups, N_max = 100,000", "width", "width of the window (positions)", "lookups_per_s", True),
}


def curves(cells: Cells, across: str, rate: str) -> dict[str, dict[int, float]]:
    """By curve: the rate at each point."""
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        name = cell["algorithm"] + (f", {cell['windows']}" if "windows" in cell else "")
        found.setdefault(name, {})[cell[across]] = cell[rate]
    return found


def tables(results: dict[str, Any]) -> None:
    """Every figure that was measured, as a table of rates in thousands per second."""
    for figure, (title, across, label, rate, _) in AXES.items():
        if figure not in results:
            continue
        lines = curves(results[figure], across, rate)
        points = sorted({point for line in lines.values() for point in line})
        table = Table(title=f"{figure.replace('figure', 'Figure ')}: {title}; thousands of {rate.split('_')[0]}/s")
        table.add_column(label)
        for point in points:
            table.add_column(f"{point:,}", justify="right")
        for name, line in lines.items():
            table.add_row(name, *(f"{line[point] / 1e3:,.0f}" if point in line else "-" for point in points))
        Console(width=160).print(table)


def figures(results: dict[str, Any], directory: Path) -> list[Path]:
    """Every figure that was measured, as a picture."""
    return [draw(results, figure, directory / f"synopses_{figure}.png") for figure in AXES if figure in results]


def draw(results: dict[str, Any], figure: str, path: Path) -> Path:
    import matplotlib.pyplot as plt

    title, across, label, rate, logarithmic = AXES[figure]
    picture, axes = plt.subplots(figsize=(7, 4.5))
    for name, line in curves(results[figure], across, rate).items():
        style = "--" if name.endswith(", historical") else "-"
        axes.plot(*zip(*sorted(line.items()), strict=True), style, marker="o", markersize=4, label=name)
    # The rates of one picture differ by a factor of a thousand.
    axes.set(yscale="log", xlabel=label, ylabel=f"{rate.split('_')[0]} per second", title=title)
    if logarithmic:
        axes.set_xscale("log")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize="small")
    picture.tight_layout()
    picture.savefig(path, dpi=120)
    plt.close(picture)
    return path


def main() -> None:
    path = measurements("synopses.json")
    results = json.loads(path.read_text())
    tables(results)
    for written in figures(results, path.parent):
        print(f"written: {written}")


if __name__ == "__main__":
    main()
