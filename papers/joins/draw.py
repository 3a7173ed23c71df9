"""Draws figures 5.2 to 5.4 of the thesis from what `run` measured: `python -m papers.joins.draw`"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import measurements

Cells = list[dict[str, Any]]
# As the thesis names the lines of figures 5.3 and 5.4: eager expiry is its eager evaluation at 0.
LINES = {"eager": "eager", "eager-lazy-expiry": "eager", "lazy": "lazy", "lazy-restore": "lazy, restore"}


def bars(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Figure 5.2: by algorithm, the cost of each order relative to the first, which is the best by the model."""
    cells: Cells = results["figure5_2"]
    orders = list(dict.fromkeys(cell["order"] for cell in cells))
    printed = {cell["order"]: cell["printed_model"] for cell in cells}
    found = {"predicted": {order: printed[order] / printed[orders[0]] for order in orders}}
    for algorithm, buckets in dict.fromkeys((cell["algorithm"], cell["buckets"]) for cell in cells):
        mine = {c["order"]: c["ms_per_1000"] for c in cells if (c["algorithm"], c["buckets"]) == (algorithm, buckets)}
        name = algorithm if buckets == 1 else f"{algorithm}, {buckets} buckets"
        found[name] = {order: mine[order] / mine[orders[0]] for order in orders}
    return found


def lines(cells: Cells) -> dict[str, dict[int, float]]:
    """Figures 5.3 and 5.4: milliseconds by interval."""
    several = len({cell["buckets"] for cell in cells}) > 1
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        name = LINES[cell["algorithm"]] + (f", {cell['buckets']} buckets" if several else "")
        found.setdefault(name, {})[cell["interval"]] = cell["ms_per_1000"]
    return found


def tables(results: dict[str, Any]) -> None:
    console = Console(width=140)
    relative = bars(results)
    table = Table(title="Figure 5.2: cost of the orders, relative to the first")
    for column in ("algorithm", *relative["predicted"]):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for name, costs in relative.items():
        table.add_row(name, *(f"{times:.2f}" for times in costs.values()))
    console.print(table)
    table = Table(title="Figure 5.2: ms per 1,000 tuples; tuples probed per unit of time, and predicted")
    for column in ("algorithm", "buckets", "order", "ms", "probed", "predicted"):
        table.add_column(column, justify="right" if column not in ("algorithm", "order") else "left")
    for c in results["figure5_2"]:
        table.add_row(c["algorithm"], str(c["buckets"]), c["order"], f"{c['ms_per_1000']:.3f}",
                      f"{c['probed']:,.0f}", f"{c['predicted']:,.0f}")  # fmt: skip
    console.print(table)
    for figure, title in (("figure5_3", "nested loops"), ("figure5_4", "hash tables")):
        curves = lines(results[figure])
        points = sorted({point for line in curves.values() for point in line})
        table = Table(title=f"Figure {figure[6:].replace('_', '.')}: {title}, ms per 1,000 tuples by interval")
        for column in ("algorithm", *map(str, points)):
            table.add_column(column, justify="left" if column == "algorithm" else "right")
        for name, line in curves.items():
            table.add_row(name, *(f"{line[point]:.3f}" if point in line else "-" for point in points))
        console.print(table)


def verdicts(results: dict[str, Any]) -> list[str]:
    """What the thesis found, and whether it holds here."""
    cells: Cells = results["figure5_2"]
    kinds = list(dict.fromkeys((c["algorithm"], c["buckets"]) for c in cells))
    said = []
    for measure, name in (("ms_per_1000", "time"), ("probed", "tuples probed")):
        right = sum(_ranks(cells, kind, measure) == _ranks(cells, kind, "printed_model") for kind in kinds)
        said.append(f"orders rank by {name} as predicted for {right} of {len(kinds)} algorithms")
    best = {(c["algorithm"], c["buckets"]): c["ms_per_1000"] for c in cells if c["order"] == cells[0]["order"]}
    hashed = max(b for _, b in best)
    for algorithm in dict.fromkeys(name for name, _ in best):
        times = best[algorithm, 1] / best[algorithm, hashed]
        said.append(f"{algorithm}: {hashed} buckets are {times:.1f} times as fast as nested loops")
    for buckets in (1, hashed):
        eager = min(best["eager", buckets], best["eager-lazy-expiry", buckets])
        lazy, restored = best["lazy", buckets], best["lazy-restore", buckets]
        said.append(
            f"{buckets} buckets: lazy evaluation takes {lazy / eager:.0%} of the better eager one, with restore "
            f"{restored / eager:.0%}"
        )
    return said


def _ranks(cells: Cells, kind: tuple[str, int], measure: str) -> list[str]:
    mine = [cell for cell in cells if (cell["algorithm"], cell["buckets"]) == kind]
    return [cell["order"] for cell in sorted(mine, key=lambda cell: cell[measure])]


def figures(results: dict[str, Any], path: Path) -> Path:
    """Bars for figure 5.2 above, lines for 5.3 and 5.4 below."""
    import matplotlib.pyplot as plt

    picture = plt.figure(figsize=(11, 8))
    above, *below = picture.add_subplot(2, 1, 1), picture.add_subplot(2, 2, 3), picture.add_subplot(2, 2, 4)
    relative = bars(results)
    orders = list(relative["predicted"])
    for number, order in enumerate(orders):
        places = [place + (number - 1.5) * 0.2 for place in range(len(relative))]
        above.bar(places, [costs[order] for costs in relative.values()], width=0.2, label=f"S{', S'.join(order)}")
    above.set_xticks(range(len(relative)), [name.replace(", ", "\n").replace("-", "\n", 1) for name in relative])
    above.set(title="Figure 5.2: four orders", ylabel="cost relative to the best order")
    above.legend()
    for axes, figure, title in zip(below, ("figure5_3", "figure5_4"), ("nested loops", "hash tables"), strict=True):
        for name, line in lines(results[figure]).items():
            axes.plot(*zip(*sorted(line.items()), strict=True), marker="o", markersize=3, label=name)
        axes.set(
            title=f"Figure {figure[6:].replace('_', '.')}: {title}", xlabel="interval", ylabel="ms per 1,000 tuples"
        )
        axes.set_ylim(bottom=0)
        axes.legend()
    for axes in (above, *below):
        axes.grid(True, alpha=0.3)
    picture.tight_layout()
    picture.savefig(path, dpi=120)
    plt.close(picture)
    return path


def main() -> None:
    path = measurements("joins.json")
    results = json.loads(path.read_text())
    tables(results)
    print("\n".join(verdicts(results)))
    print(f"written: {figures(results, path.with_suffix('.png'))}")


if __name__ == "__main__":
    main()
