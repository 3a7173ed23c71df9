"""Prints and draws what `run` measured: `python -m papers.window_index.draw`, from papers/out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import measurements

Cells = list[dict[str, Any]]
# Figures 7 to 11: an experiment, the measure that is drawn, its title, and the ways that are shown.
PANELS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "maintenance",
        "seconds",
        "7, 8: keeping an index over LIST, GROUP",
        (
            *(f"{index} over LIST" for index in ("L", "T", "H", "UH")),
            "G over GROUP 10",
            "G over GROUP 50",
            "no index, LIST",
        ),
    ),
    ("maintenance", "seconds", "7: the same over AGGR", tuple(f"{index} over AGGR" for index in ("L", "T", "H", "UH"))),
    (
        "histogram",
        "seconds",
        "9: histogram after each slide",
        ("L over LIST", "T over LIST", "H over LIST", "no index, LIST", "no index, AGGR, sorted"),
    ),
    (
        "intersection",
        "seconds",
        "10: intersection after each slide",
        ("T over LIST", "H over LIST", "G over GROUP 10", "G over GROUP 50"),
    ),
    (
        "rings",
        "delete",
        "11 (a): deletion from rings over a list",
        tuple(f"{method} over list" for method in ("ring", "aux", "bw", "db")),
    ),
    (
        "rings",
        "seconds",
        "11 (b), (c): window sort, rings over a list",
        (*(f"{method} over list" for method in ("ring", "aux", "bw", "db")), "db over tree", "no index"),
    ),
)


def place(cell: dict[str, Any]) -> str:
    return f"{cell['distinct']:,} values, {cell['sub_windows']} sub-windows"


def tables(cells: Cells) -> None:
    """Milliseconds for a window of tuples: every experiment, distribution and way."""
    measures = {"maintenance": ("seconds", "index"), "rings": ("seconds", "index", "delete", "query")}
    for experiment in dict.fromkeys(cell["experiment"] for cell in cells):
        for distribution in dict.fromkeys(cell["distribution"] for cell in cells):
            mine = [c for c in cells if (c["experiment"], c["distribution"]) == (experiment, distribution)]
            shown = Table(title=f"{experiment}, {distribution}: ms")
            shown.add_column("way")
            shown.add_column("of which")
            places = list(dict.fromkeys(map(place, mine)))
            for name in places:
                shown.add_column(name, justify="right")
            for way in dict.fromkeys(cell["way"] for cell in mine):
                by_place = {place(cell): cell for cell in mine if cell["way"] == way}
                for measure in measures.get(experiment, ("seconds", "query")):
                    figures = (f"{1000 * by_place[name][measure]:,.1f}" for name in places)
                    shown.add_row(way, "all" if measure == "seconds" else measure, *figures)
            Console(width=180).print(shown)


def figure(cells: Cells, distribution: str, path: Path) -> None:
    """A panel per figure of the report, groups of bars by number of values and sub-windows; logarithmic."""
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(3, 2, figsize=(14, 13))
    for axes, (experiment, measure, title, ways) in zip(panels.flat, PANELS, strict=True):
        mine = [c for c in cells if (c["experiment"], c["distribution"]) == (experiment, distribution)]
        places = list(dict.fromkeys(map(place, mine)))
        width = 0.8 / len(ways)
        for number, way in enumerate(ways):
            found = {place(cell): cell[measure] for cell in mine if cell["way"] == way}
            left = [at + (number - (len(ways) - 1) / 2) * width for at in range(len(places))]
            axes.bar(left, [1000 * found[name] for name in places], width, label=way)
        axes.set(yscale="log", title=title, ylabel="ms for as many tuples as the window has")
        axes.set_xticks(range(len(places)), [name.replace(", ", "\n") for name in places], fontsize=7)
        axes.grid(True, axis="y", alpha=0.3)
        axes.legend(fontsize=7)
    picture.tight_layout()
    picture.savefig(path, dpi=110)
    plt.close(picture)


def main() -> None:
    path = measurements("window_index.json")
    cells = json.loads(path.read_text())["cells"]
    tables(cells)
    for distribution, name in (("uniform", "window_index.png"), ("power law", "window_index_power_law.png")):
        if all(cell["distribution"] != distribution for cell in cells):
            continue
        figure(cells, distribution, path.parent / name)
        print(f"written: {path.parent / name}")


if __name__ == "__main__":
    main()
