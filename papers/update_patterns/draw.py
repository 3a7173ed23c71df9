"""Draws figures 3.8 to 3.15 of the thesis from what `run` measured: `python -m papers.update_patterns.draw`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from papers import measurements

Cells = list[dict[str, Any]]
NAMES = {"upa10": "UPA(10)", "upa50": "UPA(50)", "nt": "NT", "direct": "DIRECT"}
TIME, SPACE = "ms_per_1000", "space"
AXES = {TIME: "ms per 1,000 tuples", SPACE: "tuples stored"}
# Figure, title, measure, and its lines: a label, a query and a strategy. The thesis draws the space of query 2 only.
PANELS = (
    *(
        (figure, title, measure, [(label, query, strategy) for strategy, label in NAMES.items()])
        for figure, title, measure, query in (
            ("3.8", "query 1, few results", TIME, "1a"),
            ("3.9", "query 1, many results", TIME, "1b"),
            ("3.10", "distinct sources", TIME, "2a"),
            ("3.11", "distinct pairs", TIME, "2b"),
            ("3.12", "distinct sources", SPACE, "2a"),
            ("3.13", "distinct pairs", SPACE, "2b"),
            ("3.14", "negation", TIME, "3"),
        )
    ),
    (
        "3.15", "negation and join", TIME,
        [("UPA(10)", "4a", "upa10"), ("NT (join up)", "4b", "nt"), ("NT", "4a", "nt")],
    ),
)  # fmt: skip


def line(cells: Cells, query: str, strategy: str, measure: str) -> list[tuple[int, float]]:
    """The measurements over the window."""
    mine = [cell for cell in cells if (cell["query"], cell["strategy"]) == (query, strategy)]
    return sorted((cell["window"], cell[measure]) for cell in mine)


def figures(cells: Cells, path: Path) -> Path:
    """A panel for each figure. Both axes are logarithmic, as windows and times differ by orders of magnitude."""
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(2, 4, figsize=(16, 7))
    colours = {label: f"C{number}" for number, label in enumerate([*NAMES.values(), "NT (join up)"])}
    for axes, (figure, title, measure, lines) in zip(panels.flat, PANELS, strict=True):
        for label, query, strategy in lines:
            found = line(cells, query, strategy, measure)
            axes.plot(*zip(*found, strict=True), marker="o", markersize=3, label=label, color=colours[label])
        axes.set(title=f"{figure}: {title}", ylabel=AXES[measure], xlabel="window", xscale="log", yscale="log")
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=7)
    picture.tight_layout()
    picture.savefig(path, dpi=100)
    plt.close(picture)
    return path


def main() -> None:
    path = measurements("update_patterns.json")
    cells = json.loads(path.read_text())["cells"]
    print(f"written: {figures(cells, path.with_suffix('.png'))}")


if __name__ == "__main__":
    main()
