"""Draws figures 3.8 to 3.15 of the thesis from what `run` measured: `python -m papers.update_patterns.draw`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from papers import OUT

Cells = list[dict[str, Any]]
# The panels of each query; the thesis draws the space of query 2 only.
PANELS = (
    ("1a", "ms_per_1000", "3.8: query 1, few results"),
    ("1b", "ms_per_1000", "3.9: query 1, many results"),
    ("2a", "ms_per_1000", "3.10: distinct sources"),
    ("2b", "ms_per_1000", "3.11: distinct pairs"),
    ("2a", "space", "3.12: distinct sources"),
    ("2b", "space", "3.13: distinct pairs"),
    ("3", "ms_per_1000", "3.14: negation"),
    ("4a", "ms_per_1000", "3.15: negation above the join"),
    ("4b", "ms_per_1000", "3.15: negation below the join"),
)
AXES = {"ms_per_1000": "ms per 1,000 tuples", "space": "tuples stored"}


def lines(cells: Cells, query: str, measure: str) -> dict[str, dict[int, float]]:
    """By strategy, the measurements over the window."""
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        if cell["query"] == query:
            found.setdefault(cell["strategy"], {})[cell["window"]] = cell[measure]
    return found


def figures(cells: Cells, path: Path) -> Path:
    """A panel for each figure. Both axes are logarithmic, as windows and times differ by orders of magnitude."""
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(3, 3, figsize=(12, 10))
    for axes, (query, measure, title) in zip(panels.flat, PANELS, strict=True):
        for strategy, line in lines(cells, query, measure).items():
            axes.plot(*zip(*sorted(line.items()), strict=True), marker="o", markersize=3, label=strategy)
        axes.set(title=title, ylabel=AXES[measure], xlabel="window", xscale="log", yscale="log")
        axes.grid(True, alpha=0.3)
    panels[0, 0].legend()
    picture.tight_layout()
    picture.savefig(path, dpi=120)
    plt.close(picture)
    return path


def main() -> None:
    path = OUT / "update_patterns.json"
    if not path.exists():
        raise SystemExit("nothing measured yet: python -m papers.update_patterns.run")
    cells = json.loads(path.read_text())["cells"]
    print(f"written: {OUT.name}/{figures(cells, OUT / 'update_patterns.png').name}")


if __name__ == "__main__":
    main()
