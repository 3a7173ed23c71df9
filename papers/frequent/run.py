"""How well short lists per sub-window find the frequent items of a window (thesis, figure 6.3).

    python -m papers.frequent.run [--quick] [--trials 100]

Windows of N = 100,000 packets that start anywhere in a trace, sub-windows of b = 20, 100 and 500 packets, lists of
k = 1 .. 10 items; exact counts beside them. Averages over the trials go to papers/out/frequent.csv:

    threshold    delta, in packets; threshold_percent of the window's packets
    over         items that truly occur more than delta times
    reported     items that Algorithm 6 reports (never a false positive: checked in each trial)
    identified   reported as a percentage of over, in the trials where some item is over the threshold
    space        pairs of item and count: those on lists and the global counters
    error        relative error of the counters of the items over the threshold, in percent

The original trace is not available: see tcp_trace.py for the one that stands in for it.
"""

from __future__ import annotations

import argparse
import csv
import sys

import numpy as np
from numpy.typing import NDArray

from papers import out_directory
from papers.frequent.algorithm6 import FrequentItems
from papers.frequent.tcp_trace import SOURCES, tcp_trace

WINDOW = 100_000
SUB_WINDOWS = (20, 100, 500)
LISTS = range(1, 11)
TRACE = 1_800_000
MEASURES = ("threshold", "threshold_percent", "over", "reported", "identified", "space", "error")

Ints = NDArray[np.int64]


def sub_windows(window: Ints, b: int) -> list[tuple[Ints, Ints]]:
    """Exact counts of each b packets."""
    parts = (np.unique(part, return_counts=True) for part in window.reshape(-1, b))
    return [(items, counts.astype(np.int64)) for items, counts in parts]


def trial(parts: list[tuple[Ints, Ints]], k: int, true: Ints) -> list[float]:
    """One window's measures, in the order of MEASURES; NaN where no item is over the threshold."""
    frequent = FrequentItems(k, len(parts))
    for items, counts in parts:
        frequent.slide(items, counts)
    found, counts = frequent.report()
    if not (counts <= true[found]).all() or not (counts > frequent.delta).all():
        raise AssertionError("Algorithm 6 reported an item that is not over the threshold")
    over = np.flatnonzero(true > frequent.delta)
    counters = frequent.counters()
    errors = [100.0 * (true[item] - counters.get(item, 0)) / true[item] for item in over.tolist()]
    return [
        frequent.delta,
        100.0 * frequent.delta / WINDOW,
        len(over),
        len(found),
        100.0 * len(found) / len(over) if len(over) else np.nan,
        frequent.space,
        float(np.mean(errors)) if errors else np.nan,
    ]


def measure(trace: Ints, trials: int) -> list[dict[str, float | str]]:
    starts = np.random.default_rng(11).integers(0, len(trace) - WINDOW, trials).tolist()
    rows: list[dict[str, float | str]] = []
    for b in SUB_WINDOWS:
        figures = np.empty((len(LISTS), trials, len(MEASURES)))
        for number, start in enumerate(starts):
            window = trace[start : start + WINDOW]
            parts, true = sub_windows(window, b), np.bincount(window, minlength=SOURCES)
            for place, k in enumerate(LISTS):
                figures[place, number] = trial(parts, k, true)
        for place, k in enumerate(LISTS):
            rows.append({"b": b, "k": k, **dict(zip(MEASURES, _averages(figures[place]), strict=True))})
        print(f"b = {b}: {trials} windows", file=sys.stderr, flush=True)
    return rows


def _averages(figures: NDArray[np.float64]) -> list[float | str]:
    """The mean of each measure over the trials that have it; empty if none has."""
    known = ~np.isnan(figures)
    sums, numbers = np.where(known, figures, 0.0).sum(axis=0), known.sum(axis=0)
    return [round(float(total / n), 4) if n else "" for total, n in zip(sums, numbers, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="windows per sub-window length (default 100)")
    parser.add_argument("--quick", action="store_true", help="5 windows")
    arguments = parser.parse_args()
    rows = measure(tcp_trace(TRACE), 5 if arguments.quick else arguments.trials)
    path = out_directory(arguments.quick) / "frequent.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ("b", "k", *MEASURES))
        writer.writeheader()
        writer.writerows(rows)
    print(f"written: {path}")


if __name__ == "__main__":
    main()
