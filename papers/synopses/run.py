"""Shared synopses: updates and lookups per second, beside search trees and materialised answers.

    python -m papers.synopses.run             figures 9, 10 and 11 of Arasu and Widom, a minute or two
    python -m papers.synopses.run --quick     the same with fewer points and inputs, a few seconds

Figure 9: inputs/s of 1,000 SUMs over row windows, by the share of updates among updates and lookups.
Figure 10: updates/s of R-INT (SUM), B-INT (MAX) and B-INT-QNT (QUANTILE) by capacity N_max.
Figure 11: their lookups/s by window width, for suffix and historical windows, N_max = 100,000.

Everything runs on one core, compiled before it is measured. Rates are medians over rounds, and each round measures
all algorithms in turn, so that they share whatever else the machine does. Writes papers/out/synopses.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from papers import out_directory
from papers.synopses.alternatives import ALTERNATIVES, Inputs, Run
from papers.synopses.quantile_intervals import QuantileIntervals
from sash.panes.intervals.interval import IntervalSynopsis
from sash.panes.intervals.running import RunningSynopsis
from sash.panes.partials import Combine

OPERATORS = 1_000
LOOKUP_CAPACITY = 100_000
PHI = Fraction(1, 2)


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    rounds: int
    inputs: int
    shares: tuple[int, ...]
    updates: int
    capacities: tuple[int, ...]
    lookups: int
    widths: tuple[int, ...]


FULL = Scale(
    rounds=5,
    inputs=300_000,
    shares=tuple(range(0, 101, 10)),
    updates=2_000_000,
    capacities=(1_000, 3_000, 10_000, 30_000, 100_000, 300_000),
    lookups=200_000,
    widths=(10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
)
QUICK = Scale(
    rounds=3,
    inputs=50_000,
    shares=(0, 50, 100),
    updates=200_000,
    capacities=(1_000, 100_000),
    lookups=20_000,
    widths=(100, 10_000, 100_000),
)


@dataclass(frozen=True)
class Cell:
    """One point of one curve: the measurement, how many events it handles, and its preparation."""

    labels: dict[str, Any]
    events: int
    prepare: Callable[[], Callable[[], object]]


def ready(call: Callable[[], object]) -> Callable[[], Callable[[], object]]:
    """Nothing to prepare."""
    return lambda: call


def rates(cells: list[Cell], rounds: int, unit: str) -> list[dict[str, Any]]:
    """The median rate of each cell, in rounds of all cells. What a cell's preparation returns is timed."""
    seconds: list[list[float]] = [[] for _ in cells]
    for _ in range(rounds):
        for cell, taken in zip(cells, seconds, strict=True):
            call = cell.prepare()
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    found = [
        {**cell.labels, unit: cell.events / statistics.median(taken)}
        for cell, taken in zip(cells, seconds, strict=True)
    ]
    for each in found:
        say("  " + ", ".join(f"{v:,.0f} {k}" if k == unit else f"{k} {v}" for k, v in each.items()))
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def figure9(scale: Scale) -> list[dict[str, Any]]:
    """Windows of 0 to 999 rows; all algorithms must give the same answers."""
    capacity, found = OPERATORS - 1, []
    for share in scale.shares:
        chance = np.random.default_rng(share)
        filling = Inputs.mixed(chance, 2 * capacity, 1.0, OPERATORS, 0)
        inputs = Inputs.mixed(chance, scale.inputs, share / 100, OPERATORS, 2 * capacity)
        prepared = {name: partial(_filled, make, filling, inputs) for name, make in ALTERNATIVES.items()}
        # Also compiles them.
        answers = {name: prepare()() for name, prepare in prepared.items()}
        if wrong := [name for name, each in answers.items() if not np.array_equal(each, answers["materialise none"])]:
            raise SystemExit(f"not the answers of materialise none: {', '.join(wrong)}")
        cells = [
            Cell({"algorithm": name, "update_percent": share}, scale.inputs, prepare)
            for name, prepare in prepared.items()
        ]
        found += rates(cells, scale.rounds, "inputs_per_s")
    return found


def _filled(make: Callable[[int], Run], filling: Inputs, inputs: Inputs) -> Callable[[], Any]:
    run = make(OPERATORS - 1)
    run(filling)
    return partial(run, inputs)


def synopses(capacity: int) -> dict[str, Any]:
    return {
        "R-INT": RunningSynopsis(capacity, 1, Combine.ADD, np.int64),
        "B-INT": IntervalSynopsis(capacity, 1, Combine.MAX, np.int64),
        "B-INT-QNT": QuantileIntervals(capacity, np.int64),
    }


def elements(name: str, count: int) -> Any:
    values = np.random.default_rng(count).integers(0, 1_000_000, count)
    return values if name == "B-INT-QNT" else values.reshape(-1, 1)


def figure10(scale: Scale) -> list[dict[str, Any]]:
    """Updates alone, in one batch on a synopsis that is full already."""
    cells = []
    for capacity in scale.capacities:
        for name, synopsis in synopses(capacity).items():
            synopsis.extend(elements(name, 2 * capacity))
            call = partial(synopsis.extend, elements(name, scale.updates))
            cells.append(Cell({"algorithm": name, "n_max": capacity}, scale.updates, ready(call)))
    return rates(cells, scale.rounds, "updates_per_s")


def figure11(scale: Scale) -> list[dict[str, Any]]:
    """Lookups alone, in one batch: windows that end now, and windows anywhere among the last N_max positions."""
    capacity, cells, chance = LOOKUP_CAPACITY, [], np.random.default_rng(11)
    made = synopses(capacity)
    for name, synopsis in made.items():
        synopsis.extend(elements(name, 3 * capacity + 12_345))
    for width in scale.widths:
        for kind in ("suffix", "historical"):
            for name, synopsis in made.items():
                count = scale.lookups // 20 if name == "B-INT-QNT" else scale.lookups
                # Up to a tenth narrower: two lookups in a row should not read the same intervals.
                widths = chance.integers(width - width // 10, width + 1, count)
                lag = chance.integers(0, capacity - width + 1, count) * (kind == "historical")
                rights = synopsis.length - lag
                phi = [PHI] if name == "B-INT-QNT" else []
                call = partial(synopsis.lookup_many, rights - widths + 1, rights, *phi)
                call()
                labels = {"algorithm": name, "windows": kind, "width": width}
                cells.append(Cell(labels, count, ready(call)))
    return rates(cells, scale.rounds, "lookups_per_s")


FIGURES = {"figure9": figure9, "figure10": figure10, "figure11": figure11}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer points, inputs and rounds")
    parser.add_argument("--only", choices=FIGURES, nargs="+", default=list(FIGURES), help="measure only these figures")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"quick": arguments.quick, "operators": OPERATORS, "lookup_n_max": LOOKUP_CAPACITY}
    for name in arguments.only:
        say(f"{name}: {FIGURES[name].__doc__}")
        results[name] = FIGURES[name](QUICK if arguments.quick else FULL)
    (out_directory(arguments.quick) / "synopses.json").write_text(json.dumps(results, indent=1))
    if arguments.json:
        print(json.dumps(results))
    else:
        from papers.synopses.draw import tables

        tables(results)


if __name__ == "__main__":
    main()
