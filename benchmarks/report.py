"""Draws what the benchmarks measured: `python -m benchmarks.report` reads benchmarks/out, prints tables, draws."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"


def multi_query(results: dict[str, Any]) -> None:
    """Tuples per second by engine and number of queries, and what N queries keep of the rate of one."""
    cells = results["cells"]
    numbers = sorted({cell["n"] for cell in cells})
    table = Table(title="tuples/s for N windowed queries")
    for column in ("engine", "form", "micro-batch", *(f"N = {n:,}" for n in numbers)):
        table.add_column(column, justify="right" if column.startswith("N") else "left")
    for engine, form, batch in dict.fromkeys((c["engine"], c["form"], c["micro_batch"]) for c in cells):
        mine = {
            c["n"]: c["tuples_per_s"]
            for c in cells
            if (c["engine"], c["form"], c["micro_batch"]) == (engine, form, batch)
        }
        base = mine.get(1)
        shown = [_cell(mine.get(n), base if engine == "sash" and n > 1 else None) for n in numbers]
        table.add_row(engine, form, batch, *shown)
    Console(width=140).print(table)


def _cell(rate: float | None, base: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:,.0f}" + (f" ({rate / base:.0%})" if base else "")


def figure(results: dict[str, Any], path: Path) -> None:
    """The same as a picture, both axes logarithmic."""
    import matplotlib.pyplot as plt

    picture, axes = plt.subplots(figsize=(7, 4.5))
    cells = [cell for cell in results["cells"] if cell["form"] == "W1"]
    for engine, batch in dict.fromkeys((c["engine"], c["micro_batch"]) for c in cells):
        points = sorted(
            (c["n"], c["tuples_per_s"]) for c in cells if (c["engine"], c["micro_batch"]) == (engine, batch)
        )
        label = engine if batch == "-" else f"{engine}, {batch} micro-batches"
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel="windowed queries at once", ylabel="tuples per second", title="W1")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    picture.tight_layout()
    picture.savefig(path, dpi=120)


def report_multi_query(path: Path) -> list[Path]:
    results = json.loads(path.read_text())
    multi_query(results)
    figure(results, OUT / "multi_query.png")
    return [OUT / "multi_query.png"]


def report_scale(path: Path) -> list[Path]:
    # Brings Spark with it.
    from benchmarks.run_scale import table

    table(json.loads(path.read_text()))
    return []


# What each benchmark leaves, and who draws it.
REPORTS: dict[str, Callable[[Path], list[Path]]] = {
    "multi_query.json": report_multi_query,
    "scale.json": report_scale,
}


def main() -> None:
    measured = [name for name in REPORTS if (OUT / name).exists()]
    if not measured:
        runs = ", ".join(Path(name).stem for name in REPORTS)
        raise SystemExit(f"nothing measured yet: python -m benchmarks.run_NAME (NAME is one of {runs})")
    for name in measured:
        for picture in REPORTS[name](OUT / name):
            print(f"written: {OUT.name}/{picture.name}")


if __name__ == "__main__":
    main()
