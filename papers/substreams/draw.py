"""Draws what `run` measured: `python -m papers.substreams.draw` reads papers/out, prints, draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import measurements

MODES = {"tuples": "one tuple, one look-up, compiled", "panes": "15 s per update, look-ups from Python"}


def table(results: dict[str, Any]) -> None:
    """Inputs per second by way and number of substreams, and how many times the naive way's that is."""
    cells = results["cells"]
    numbers = sorted({cell["keys"] for cell in cells})
    for mode, title in MODES.items():
        shown = Table(title=f"inputs/s: {title}")
        shown.add_column("way")
        for number in numbers:
            shown.add_column(f"{number:,} substreams", justify="right")
        for way in dict.fromkeys(cell["way"] for cell in cells if cell["mode"] == mode):
            mine = {c["keys"]: c for c in cells if (c["mode"], c["way"]) == (mode, way)}
            shown.add_row(way, *(_cell(mine.get(number)) for number in numbers))
        Console(width=140).print(shown)


def _cell(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "-"
    text = f"{cell['inputs_per_s']:,.0f}"
    if cell["way"] != "naive":
        text += f" ({cell['speedup']:.1f} x)"
    if cell.get("break_even") is not None and cell["way"].startswith("p"):
        text += f", pays from {cell['break_even']:,} look-ups a pane"
    return text


def figure(results: dict[str, Any], path: Path) -> None:
    """Figure 12 and its growth: how many times the naive way's rate, by p, for each number of substreams."""
    import matplotlib.pyplot as plt

    picture, both = plt.subplots(1, len(MODES), figsize=(11, 4.5), sharey=True)
    for axes, (mode, title) in zip(both, MODES.items(), strict=True):
        cells = [c for c in results["cells"] if c["mode"] == mode and c["way"].startswith("p")]
        for number in sorted({cell["keys"] for cell in cells}):
            points = sorted((int(c["way"].split("=")[1]), c["speedup"]) for c in cells if c["keys"] == number)
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{number:,} substreams")
        axes.axhline(1, color="gray", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="p, levels of each size", title=title)
        axes.set_xticks(ticks := sorted({int(c["way"].split("=")[1]) for c in cells}), [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_yticks(scale := [0.5, 1, 2, 5, 10, 20, 50], [f"{times:g}" for times in scale])
        axes.grid(True, alpha=0.3)
    both[0].set_ylabel("times the rate of asking every key")
    both[0].legend()
    picture.tight_layout()
    picture.savefig(path, dpi=120)


def main() -> None:
    path = measurements("substreams.json")
    results = json.loads(path.read_text())
    table(results)
    figure(results, path.with_suffix(".png"))
    print(f"written: {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
