"""Draws what ``run`` measured: the six parts of the thesis' figure 6.3. `python -m papers.frequent.draw`"""

from __future__ import annotations

import csv
from pathlib import Path

from papers import measurements

# (a) to (f) of figure 6.3: a column of the CSV, and the label of its axis.
PARTS = (
    ("threshold_percent", "threshold (% of the window)"),
    ("over", "items over the threshold"),
    ("reported", "items reported"),
    ("identified", "items identified (%)"),
    ("space", "pairs stored"),
    ("error", "relative error (%)"),
)

Rows = list[dict[str, str]]


def read(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def frequent(rows: Rows, path: Path) -> None:
    """Six panels over k, a line for each sub-window length. Values that no trial had are left out."""
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(2, 3, figsize=(11, 6), sharex=True)
    for letter, (column, label), axes in zip("abcdef", PARTS, panels.flat, strict=True):
        for b in dict.fromkeys(row["b"] for row in rows):
            points = [(int(row["k"]), float(row[column])) for row in rows if row["b"] == b and row[column]]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=f"b = {b}")
        axes.set(title=f"({letter})", ylabel=label, xlabel="k" if letter in "def" else "")
        axes.grid(True, alpha=0.3)
    panels[0, 0].legend()
    picture.tight_layout()
    picture.savefig(path, dpi=120)
    plt.close(picture)


def main() -> None:
    path = measurements("frequent.csv")
    frequent(read(path), path.with_suffix(".png"))
    print(f"written: {path.with_suffix('.png')}")


if __name__ == "__main__":
    main()
