"""Draws figures 5 to 8 of the report on scheduling from what ``run`` measured.

`python -m papers.scheduling.draw` reads papers/out/scheduling.json, prints the averages over seeds and what
they show, and draws throughput and latency by number of queries, for both loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from papers import measurements

FIGURES = (("low", "throughput"), ("low", "latency"), ("high", "throughput"), ("high", "latency"))
UNITS = {"throughput": "re-executions per second", "latency": "extra updates"}
BEST, BASE, CONSERVATIVE, WORST = "hybrid-late-pending", "hybrid", "conservative", "no-sharing"
MEASURES = ("throughput", "latency", "moved")
# By load, measure, policy and number of queries.
Averages = dict[tuple[str, str, str, int], float]


def averages(results: dict[str, Any]) -> Averages:
    """Over the seeds."""
    found: dict[tuple[str, str, str, int], list[float]] = {}
    for cell in results["cells"]:
        measured = {**cell, "moved": cell["moved"] / cell["tasks"]}
        for measure in (*MEASURES, "demand"):
            found.setdefault((cell["load"], measure, cell["policy"], cell["queries"]), []).append(measured[measure])
    return {key: fmean(values) for key, values in found.items()}


def _distinct(results: dict[str, Any], name: str) -> list[Any]:
    return list(dict.fromkeys(cell[name] for cell in results["cells"]))


def tables(results: dict[str, Any]) -> None:
    """A table per load: throughput and latency of each policy, and how busy conservative is."""
    found, numbers = averages(results), sorted(_distinct(results, "queries"))
    for load in _distinct(results, "load"):
        pace = f", an update every {results['update_ms'][load]:g} ms" if load in results["update_ms"] else ""
        table = Table(title=f"{load} load{pace}: throughput, latency, share of sub-groups that are moved")
        table.add_column("policy")
        for number in numbers:
            table.add_column(f"{number} queries", justify="right")
        for policy in _distinct(results, "policy"):
            rows = [[found[load, measure, policy, n] for measure in MEASURES] for n in numbers]
            table.add_row(policy, *(f"{rate:,.1f}/s, {late:,.2f}, {moved:.0%}" for rate, late, moved in rows))
        demands = [found[load, "demand", _distinct(results, "policy")[0], n] for n in numbers]
        table.add_row("conservative's demand / capacity", *(f"{demand:.2f}" for demand in demands))
        Console(width=140).print(table)


def claims(results: dict[str, Any]) -> Iterator[tuple[str, list[tuple[float, bool]]]]:
    """What the report found; for each number of queries a ratio and whether it holds here."""
    found, numbers = averages(results), sorted(_distinct(results, "queries"))
    policies, loads = _distinct(results, "policy"), _distinct(results, "load")

    def ratios(load: str, measure: str, one: str, other: str) -> list[float]:
        pairs = [(found[load, measure, one, n], found[load, measure, other, n]) for n in numbers]
        return [a / b if b else float("inf") if a else 1.0 for a, b in pairs]

    def compared(load: str, measure: str, one: str, extreme: Any) -> list[float]:
        others = [extreme(found[load, measure, each, n] for each in policies if each != one) for n in numbers]
        mine = [found[load, measure, one, n] for n in numbers]
        return [a / b if b else float("inf") if a else 1.0 for a, b in zip(mine, others, strict=True)]

    if "low" in loads and {BASE, CONSERVATIVE} <= set(policies):
        times = ratios("low", "throughput", BASE, CONSERVATIVE)
        yield "low: hybrid's throughput is 2 times conservative's", [(r, r >= 2) for r in times]
        times = ratios("low", "latency", BASE, CONSERVATIVE)
        yield "low: hybrid's latency is a tenth of conservative's", [(r, r <= 0.1) for r in times]
    if "high" in loads and {BASE, BEST} <= set(policies):
        times = ratios("high", "throughput", BEST, BASE)
        yield "high: hybrid-late-pending's throughput is 2 times hybrid's", [(r, r >= 2) for r in times]
    for load in (each for each in loads if each not in ("low", "high")):
        if {BASE, CONSERVATIVE} <= set(policies):
            times = ratios(load, "throughput", BASE, CONSERVATIVE)
            yield f"{load}: hybrid's throughput is 1.6 times conservative's", [(r, r >= 1.6) for r in times]
            times = ratios(load, "latency", BASE, CONSERVATIVE)
            yield f"{load}: hybrid's latency is a fifth of conservative's", [(r, r <= 0.2) for r in times]
        if {BASE, BEST} <= set(policies):
            times = ratios(load, "throughput", BEST, BASE)
            yield f"{load}: hybrid-late-pending's throughput is 2 times hybrid's", [(r, r >= 2) for r in times]
    if len(policies) > 1 and {BEST, WORST} <= set(policies):
        for load in loads:
            times = compared(load, "throughput", BEST, max)
            yield f"{load}: hybrid-late-pending has the best throughput", [(r, r >= 1) for r in times]
            times = compared(load, "latency", BEST, min)
            yield f"{load}: hybrid-late-pending has the best latency", [(r, r <= 1) for r in times]
            times = compared(load, "throughput", WORST, min)
            yield f"{load}: no-sharing has the worst throughput", [(r, r <= 1) for r in times]
            times = compared(load, "latency", WORST, max)
            yield f"{load}: no-sharing has the worst latency", [(r, r >= 1) for r in times]


def verdicts(results: dict[str, Any]) -> None:
    """Each claim with its ratios; the best and the worst are compared with the best or worst of the others."""
    table = Table(title="what the report found, as ratios, and whether it is so here")
    table.add_column("claim")
    for number in sorted(_distinct(results, "queries")):
        table.add_column(f"{number} queries", justify="right")
    for claim, cells in claims(results):
        table.add_row(claim, *(f"{ratio:.2f} {'yes' if holds else 'no'}" for ratio, holds in cells))
    Console(width=140).print(table)


def figures(results: dict[str, Any], path: Path) -> Path:
    """The four figures in one picture."""
    import matplotlib.pyplot as plt

    found, numbers = averages(results), sorted(_distinct(results, "queries"))
    loads = _distinct(results, "load")
    picture, parts = plt.subplots(2, 2, figsize=(11, 8))
    for number, (axes, (load, measure)) in enumerate(zip(parts.flat, FIGURES, strict=True), 5):
        for policy in _distinct(results, "policy") if load in loads else ():
            points = [found[load, measure, policy, n] for n in numbers]
            axes.plot(numbers, points, marker="o", markersize=4, label=policy)
        axes.set(xlabel="queries", ylabel=UNITS[measure], title=f"Figure {number}: {measure}, {load} load")
        axes.set_xticks(numbers)
        if measure == "latency":
            # Latencies differ by orders of magnitude and may be zero.
            axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0)
        axes.grid(True, alpha=0.3)
    picture.legend(*parts.flat[0].get_legend_handles_labels(), loc="lower center", ncols=4)
    picture.tight_layout(rect=(0, 0.06, 1, 1))
    picture.savefig(path, dpi=120)
    plt.close(picture)
    return path


def main() -> None:
    path = measurements("scheduling.json")
    results = json.loads(path.read_text())
    tables(results)
    verdicts(results)
    print(f"written: {figures(results, path.with_suffix('.png'))}")


if __name__ == "__main__":
    main()
