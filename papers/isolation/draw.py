"""Draws figures 7.8 to 7.14 of the thesis from what ``run`` measured.

`python -m papers.isolation.draw` reads papers/out/isolation.json and, if it is there, isolation_flights.json, prints
medians over repetitions and what they show, and draws one picture for each way.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from papers import measurements

LEVELS = ("serial", "ws", "lws", "ttu")


class Figure(NamedTuple):
    """Which cells, which column of them, and what the axis says."""

    number: str
    measure: str
    once: bool
    label: str
    # Figures with one-time queries have t = 5 s only.
    lengths: tuple[int, ...] = (1, 5)


FIGURES = (
    Figure("7.8", "aborted", False, "aborted (%)"),
    Figure("7.9", "staleness", False, "staleness (s)"),
    Figure("7.10", "inter_execution", False, "inter-execution time (s)"),
    Figure("7.11", "throughput", False, "throughput (1/s)"),
    Figure("7.12", "once_response", True, "one-time: response (s)", (5,)),
    Figure("7.13", "once_staleness", True, "one-time: staleness (s)", (5,)),
    Figure("7.14", "staleness", True, "periodic, with one-time: staleness (s)", (5,)),
)
Cells = list[dict[str, Any]]


def ways(results: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(cell["way"] for cell in results["cells"]))


def value(cells: Cells, figure: Figure, way: str, level: str, t: int, slots: int) -> float | None:
    """The median over repetitions."""
    key = {"way": way, "level": level, "t": t, "slots": slots, "once": figure.once}
    found = [cell[figure.measure] for cell in cells if key.items() <= cell.items()]
    found = [each for each in found if each is not None]
    return median(found) if found else None


def sizes(results: dict[str, Any]) -> list[int]:
    return sorted({cell["slots"] for cell in results["cells"]})


def tables(results: dict[str, Any]) -> None:
    console = Console(width=110)
    for way in ways(results):
        for figure in FIGURES:
            table = Table(title=f"Figure {figure.number}, {way}: {figure.label}, by sub-windows")
            for column in ("t", "level", *map(str, sizes(results))):
                table.add_column(column, justify="left" if column == "level" else "right")
            for t in figure.lengths:
                for level in LEVELS:
                    found = [value(results["cells"], figure, way, level, t, n) for n in sizes(results)]
                    table.add_row(f"{t} s", level, *("-" if each is None else f"{each:.4g}" for each in found))
            console.print(table)


def ratios(results: dict[str, Any], way: str, measure: str, level: str, base: str, once: bool) -> dict[Any, float]:
    """The ratio of a level to another one, by t and sub-windows: medians of ratios within a repetition."""
    found: dict[Any, dict[str, dict[int, float]]] = {}
    for cell in results["cells"]:
        if cell["way"] == way and cell["once"] == once and cell[measure]:
            by_level = found.setdefault((cell["t"], cell["slots"]), {})
            by_level.setdefault(cell["level"], {})[cell["repetition"]] = cell[measure]
    return {
        key: median(each[level][repetition] / each[base][repetition] for repetition in each[level])
        for key, each in found.items()
        if level in each and base in each
    }


def verdicts(results: dict[str, Any]) -> list[str]:
    """What the thesis found, and whether it holds here."""
    said = []
    for way in ways(results):
        cells = [cell for cell in results["cells"] if cell["way"] == way]
        aborted = {level: max(cell["aborted"] for cell in cells if cell["level"] == level) for level in LEVELS}
        said.append(f"{way}: ttu aborted at most {aborted['ttu']:.2g}% in a cell, lws {aborted['lws']:.2g}%")
        for level in ("ws", "lws", "ttu"):
            for measure in ("throughput", "processor_throughput"):
                against = list(ratios(results, way, measure, level, "serial", once=False).values())
                if not against:
                    continue
                said.append(
                    f"{way}: {measure.replace('_', ' ')} of {level} is {min(against):.1%} to {max(against):.1%} of "
                    f"serial's, median {median(against):.1%}"
                )
        for measure, once in (("staleness", False), ("staleness", True), ("once_staleness", True)):
            name = {"once_staleness": "of one-time queries"}.get(
                measure, "with them" if once else "of periodic queries"
            )
            for base in ("serial", "ws", "lws"):
                against = list(ratios(results, way, measure, "ttu", base, once).values())
                if not against:
                    continue
                lower = sum(each < 1 for each in against)
                said.append(
                    f"{way}: staleness {name}: ttu is lower than {base} in {lower} of {len(against)} cells, "
                    f"median {median(against):.1%} of it"
                )
        for base in ("serial", "ws", "lws"):
            against = list(ratios(results, way, "once_response", "ttu", base, once=True).values())
            if not against:
                continue
            said.append(f"{way}: response of one-time queries: ttu takes {median(against):.1%} of {base}")
    return said


def figures(results: dict[str, Any], way: str, path: Path) -> Path:
    import matplotlib.pyplot as plt

    picture, panels = plt.subplots(2, 4, figsize=(16, 7))
    for figure, axes in zip(FIGURES, panels.flat, strict=False):
        for color, level in enumerate(LEVELS):
            for t in figure.lengths:
                points = [(n, value(results["cells"], figure, way, level, t, n)) for n in sizes(results)]
                known = [(n, each) for n, each in points if each is not None]
                if known:
                    style = "-" if t == 5 else "--"
                    axes.plot(*zip(*known, strict=True), style, marker="o", markersize=3, color=f"C{color}",
                              label=f"{level}, t = {t} s")  # fmt: skip
        axes.set(title=f"Figure {figure.number}", xlabel="sub-windows", ylabel=figure.label)
        axes.set_ylim(bottom=0)
        axes.grid(True, alpha=0.3)
    panels.flat[-1].axis("off")
    panels.flat[-1].legend(*panels.flat[0].get_legend_handles_labels(), loc="center")
    picture.suptitle(way)
    picture.tight_layout()
    picture.savefig(path, dpi=100)
    plt.close(picture)
    return path


def main() -> None:
    path = measurements("isolation.json")
    for each in (path, path.with_name("isolation_flights.json")):
        if not each.exists():
            continue
        results = json.loads(each.read_text())
        tables(results)
        print("\n".join(verdicts(results)))
        for way in ways(results):
            print(f"written: {figures(results, way, path.parent / f'isolation_{way}.png')}")


if __name__ == "__main__":
    main()
