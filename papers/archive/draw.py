"""Prints and draws what `run` measured: `python -m papers.archive.draw`, from papers/out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import measurements

Cells = list[dict[str, Any]]
# Lines of the figures: a name, and the ways that are its points.
LINES = {
    "Rebuild": r"Rebuild(\d)x\1",
    "NoRebuild": r"NoRebuild(\d)x\1",
    "Rebuild chr": r"Rebuild(\d)x\1-chr",
    "NoRebuild chr": r"NoRebuild(\d)x\1-chr",
    "R-ins": r"R-ins\d+",
    "D-ins": r"D-ins\d+",
    "Lazy": r"Lazy(\d)x\1",
    "Lazy-ins": r"Lazy-ins\d+",
}
# Figures 4.5 to 4.7, and 4.9 to 4.11 of the large archive.
PANELS = {
    "archive": (("4.5", "update"), ("4.6", "probe"), ("4.7", "scan")),
    "archive_large": (("4.9", "update"), ("4.10", "probe"), ("4.11", "scan")),
}
MEASURES = ("update", "probe", "scan")
MOVED = "MB from and to the disk"
SPLITS = ("Rebuild4x4", "Rebuild2x8", "Rebuild8x2")


def points(cells: Cells, line: str, rate: str, measure: str) -> list[tuple[int, float]]:
    """By number of sub-indices."""
    mine = [cell for cell in cells if cell["rate"] == rate and re.fullmatch(LINES[line], cell["way"])]
    return sorted((cell["n"], cell[measure]) for cell in mine)


def table(cells: Cells) -> None:
    shown = Table(title="means; seconds, megabytes")
    names = ("way", "rate", *MEASURES, *(f"{name}_read" for name in MEASURES), "touched", "written", "stored", "memory")
    for name in names:
        shown.add_column(name, justify="left" if name in ("way", "rate") else "right")
    for cell in cells:
        seconds = (f"{cell[name]:.3f}" for name in MEASURES)
        read = (f"{cell[f'{name}_read'] / 1e6:,.1f}" for name in MEASURES)
        sizes = (f"{cell[name] / 1e6:,.0f}" for name in ("written", "stored", "memory"))
        shown.add_row(cell["way"], cell["rate"], *seconds, *read, f"{cell['touched']:.1f}", *sizes)
    Console(width=160).print(shown)


def claims(cells: Cells) -> None:
    """The best doubly partitioned update beside the best of the wave indexes, and probes beside scans."""
    best = {
        line: min((figure, n) for n, figure in found)
        for line in LINES
        if (found := points(cells, line, "steady", "update"))
    }
    for line, (seconds, n) in best.items():
        print(f"{line}: best update {seconds:.3f} s, at n = {n}")
    for ours, theirs in (("Rebuild", "R-ins"), ("NoRebuild", "D-ins"), ("Lazy", "Lazy-ins")):
        if ours in best and theirs in best:
            print(f"best {theirs} / best {ours}: {best[theirs][0] / best[ours][0]:.2f}")
    for cell in cells:
        if cell["rate"] == "steady" and cell["way"] in ("Rebuild2x2", "Rebuild4x4", "NoRebuild4x4", "Lazy4x4"):
            print(f"{cell['way']}: a scan takes {cell['scan'] / cell['probe']:.0f} times as long as a probe")


def moved(cell: dict[str, Any], measure: str) -> float:
    """Megabytes that an operation reads from the disk and writes."""
    return float(cell[f"{measure}_read"] + (cell["written"] if measure == "update" else 0)) / 1e6


def curves(seconds: Any, megabytes: Any, cells: Cells, measure: str) -> None:
    """Figures 4.5 to 4.7 and 4.9 to 4.11: seconds by number of sub-indices; below them what goes over the disk."""
    moving = [{**cell, "moved": moved(cell, measure)} for cell in cells]
    for axes, name, unit in ((seconds, measure, "seconds"), (megabytes, "moved", MOVED)):
        for line in LINES:
            found = points(moving, line, "steady", name)
            if found:
                axes.plot([n for n, _ in found], [each for _, each in found], marker="o", markersize=3, label=line)
        axes.set(xlabel="sub-indices", ylabel=unit)
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    seconds.legend(fontsize=7)


def splits(axes: Any, cells: Cells) -> None:
    """Figure 4.4: times, and bytes that updates write, beside those of Rebuild4x4."""
    by_way = {cell["way"]: cell for cell in cells if cell["rate"] == "steady"}
    for place, way in enumerate(way for way in SPLITS if way in by_way):
        names = (*MEASURES, "written")
        ratios = [by_way[way][name] / by_way[SPLITS[0]][name] for name in names]
        axes.bar([number + place * 0.25 for number in range(len(names))], ratios, 0.25, label=way)
    axes.set_xticks([number + 0.25 for number in range(4)], [*MEASURES, "written"])
    axes.set(ylabel=f"/ {SPLITS[0]}")
    axes.legend(fontsize=7)


def fluctuation(axes: Any, cells: Cells, name: str, unit: str) -> None:
    """Figure 4.8: updates at a steady rate, and above them what a fluctuating rate adds."""
    pairs = [(line, n) for line in ("Rebuild", "NoRebuild", "R-ins", "D-ins") for n in (4, 9, 16, 25)]
    moving = [{**cell, "moved": moved(cell, "update")} for cell in cells]
    steady, varying = (
        {(line, n): each for line in LINES for n, each in points(moving, line, rate, name)}
        for rate in ("steady", "fluctuating")
    )
    shown = [pair for pair in pairs if pair in steady and pair in varying]
    names = [f"{line.replace('ebuild', '')}{n}" for line, n in shown]
    axes.bar(names, [steady[pair] for pair in shown], color="lightgray", label="steady")
    more = [max(0.0, varying[pair] - steady[pair]) for pair in shown]
    axes.bar(names, more, bottom=[steady[pair] for pair in shown], color="black", label="more at a fluctuating rate")
    axes.tick_params(axis="x", rotation=90, labelsize=7)
    axes.set(title="4.8: updates, fluctuating rate", ylabel=unit)
    axes.legend(fontsize=7)


def figure(results: dict[str, Any], path: Path) -> Path:
    import matplotlib.pyplot as plt

    cells, large = results["cells"], path.stem == "archive_large"
    picture, panels = plt.subplots(2 if large else 3, 3, figsize=(15, 8 if large else 12))
    for column, (number, measure) in enumerate(PANELS[path.stem]):
        curves(panels[0, column], panels[1, column], cells, measure)
        panels[0, column].set(title=f"{number}: {measure}")
    if not large:
        splits(panels[2, 0], cells)
        panels[2, 0].set(title="4.4: how n is split")
        fluctuation(panels[2, 1], cells, "update", "seconds")
        fluctuation(panels[2, 2], cells, "moved", MOVED)
    for axes in panels.flat:
        axes.grid(True, axis="y", alpha=0.3)
    cache = "from the disk" if results["cold"] else "from the page cache"
    picture.suptitle(f"{results['bytes'] / 1e6:,.0f} MB, means of {results['updates']} updates, read {cache}")
    picture.tight_layout()
    picture.savefig(path, dpi=100)
    plt.close(picture)
    return path


def main() -> None:
    small = measurements("archive.json")
    for path in (small, small.with_stem("archive_large")):
        part = path.with_suffix(".part.json")
        # Of a run that was stopped, what it has measured.
        if found := next((each for each in (path, part) if each.exists()), None):
            results = json.loads(found.read_text())
            table(results["cells"])
            claims(results["cells"])
            print(f"written: {figure(results, path.with_suffix('.png'))}")


if __name__ == "__main__":
    main()
