"""Prints and draws what `run` measured: `python -m papers.archive.draw`, from papers/out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import OUT

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
# Figures 4.5 to 4.7 (4.9 to 4.11 for the large archive): the measure, its title, and whether it is logarithmic.
PANELS = (("update", "4.5, 4.9: update"), ("probe", "4.6, 4.10: probe"), ("scan", "4.7, 4.11: scan"))


def points(cells: Cells, line: str, rate: str, measure: str) -> list[tuple[int, float]]:
    """By number of sub-indices."""
    mine = [cell for cell in cells if cell["rate"] == rate and re.fullmatch(LINES[line], cell["way"])]
    return sorted((cell["n"], cell[measure]) for cell in mine)


def table(cells: Cells) -> None:
    shown = Table(title="means; seconds, megabytes")
    names = ("way", "rate", "update", "probe", "scan", "touched", "written", "stored", "memory")
    for name in names:
        shown.add_column(name, justify="left" if name in ("way", "rate") else "right")
    for cell in cells:
        seconds = (f"{cell[name]:.3f}" for name in ("update", "probe", "scan"))
        sizes = (f"{cell[name] / 1e6:,.0f}" for name in ("written", "stored", "memory"))
        shown.add_row(cell["way"], cell["rate"], *seconds, f"{cell['touched']:.1f}", *sizes)
    Console(width=140).print(shown)


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


def figure(cells: Cells, path: Path) -> None:
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(2, 2, figsize=(13, 10))
    for axes, (measure, title) in zip(panels.flat, PANELS, strict=False):
        for line in LINES:
            found = points(cells, line, "steady", measure)
            axes.plot([n for n, _ in found], [figure for _, figure in found], marker="o", label=line)
        axes.set(title=title, xlabel="sub-indices", ylabel="seconds")
    fluctuation = panels.flat[3]
    for line in LINES:
        steady = dict(points(cells, line, "steady", "update"))
        found = [(n, each / steady[n]) for n, each in points(cells, line, "fluctuating", "update") if n in steady]
        if found:
            fluctuation.plot([n for n, _ in found], [ratio for _, ratio in found], marker="o", label=line)
    fluctuation.set(title="4.8: update at a fluctuating rate / at a steady one", xlabel="sub-indices")
    for axes in panels.flat:
        axes.grid(True, alpha=0.3)
        if axes.lines:
            axes.legend(fontsize=7)
            axes.set_ylim(bottom=0)
    picture.tight_layout()
    picture.savefig(path, dpi=110)
    plt.close(picture)


def main() -> None:
    paths = [path for name in ("archive", "archive_large") if (path := OUT / f"{name}.json").exists()]
    if not paths:
        raise SystemExit("nothing measured yet: python -m papers.archive.run")
    for path in paths:
        cells = json.loads(path.read_text())["cells"]
        table(cells)
        claims(cells)
        figure(cells, path.with_suffix(".png"))
        print(f"written: {OUT.name}/{path.stem}.png")


if __name__ == "__main__":
    main()
