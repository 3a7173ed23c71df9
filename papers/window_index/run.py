"""Indexes over sliding windows: keeping them, and asking them (Golab, Garg and Özsu 2003, figures 7 to 11).

    python -m papers.window_index.run [--quick] [--rounds 3] [--experiments values intersection rings]

A window of 100,000 tuples in 50, 100 and 500 sub-windows; 1,000 and 10,000 distinct values, uniform and by a power
law of coefficient 1. The window is filled, then as many tuples again are timed. Tuples are two whole numbers; they
go through `SlidingWindow` as in use, one table per sub-window, and are inserted one by one inside, as in the report.
AGGR and HASH are taken both ways: one by one, and sorted as a whole. Processor seconds for 100,000 tuples:

    maintenance    figures 7, 8    sub-windows and index are kept; `index`: the part of the index alone
    histogram      figure 9        that, and values with counts in order after each slide; the same without an index
    intersection   figure 10       two windows, one index with two counts; both slide, then the intersection
    rings          figure 11       rings over a list and over a tree: `delete` the evicted sub-windows alone,
                                   `index` all of it, `query` the rows in order of value after each slide; the same
                                   without an index

All ways of an experiment get the same tuples, in turn, round by round; the fastest round of each counts. What an
index says in the end is compared with the tuples. Writes papers/out/window_index.json, which
`python -m papers.window_index.draw` prints and draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from papers import out_directory
from sash.isolation import Optimistic
from sash.rows import Aggr, Group, GroupIndex, Groups, Hash, RowIndex, SetIndex, SlidingWindow, new_slides
from sash.rows.subwindows import Storage

WINDOW = 100_000
SUB_WINDOWS = (50, 100, 500)
DISTINCT = (1_000, 10_000)
DISTRIBUTIONS = ("uniform", "power law")
GROUPS = (10, 50)
DIRECTORIES = {"L": "list", "T": "tree", "H": "hash", "UH": "unsorted"}
METHODS = ("ring", "aux", "bw", "db")
SCHEMA = pa.schema({"value": pa.int64(), "other": pa.int64()})

Ints = NDArray[np.int64]
Cell = dict[str, Any]


def stream(distribution: str, distinct: int, tuples: int, seed: int) -> Ints:
    """Values 0 .. distinct - 1; by the power law the k-th most frequent one occurs 1 / k as often as the first."""
    random = np.random.default_rng(seed)
    if distribution == "uniform":
        return random.integers(0, distinct, tuples)
    weights = 1.0 / np.arange(1, distinct + 1)
    # Frequent values lie anywhere among the others.
    return random.permutation(distinct)[random.choice(distinct, tuples, p=weights / weights.sum())]


def tables(values: Ints, sub_windows: int, window: int) -> list[pa.Table]:
    """As many tuples per table as a sub-window has."""
    size = window // sub_windows
    return [
        pa.table({"value": values[low : low + size], "other": np.arange(low, low + size)}, SCHEMA)
        for low in range(0, len(values), size)
    ]


class Timed:
    """An index that knows how long it has worked."""

    def __init__(self, index: Any) -> None:
        self.index, self.attaching, self.evicting = index, 0.0, 0.0

    @property
    def sides(self) -> int:
        return int(self.index.sides)

    @property
    def taken(self) -> dict[int, Optimistic]:
        taken: dict[int, Optimistic] = self.index.taken
        return taken

    def refuse(self, *arguments: Any) -> None:
        self.index.refuse(*arguments)

    def clear(self, side: int) -> None:
        self.index.clear(side)

    def attach(self, *arguments: Any) -> None:
        start = time.process_time()
        self.index.attach(*arguments)
        self.attaching += time.process_time() - start

    def evict(self, *arguments: Any) -> None:
        start = time.process_time()
        self.index.evict(*arguments)
        self.evicting += time.process_time() - start

    def purge(self) -> None:
        start = time.process_time()
        self.index.purge()
        self.attaching += time.process_time() - start


class Run:
    """One or more windows that are filled, then timed."""

    def __init__(self, storage: Storage | None, index: Any, sub_windows: int, windows: int = 1) -> None:
        slides = new_slides()
        self.index, self.timed = index, Timed(index)
        kinds = {} if storage is None else {"value": storage}
        self.windows = [SlidingWindow(sub_windows, SCHEMA, kinds, slides) for _ in range(windows)]
        for side, window in enumerate(self.windows):
            if index is not None:
                window.keep(self.timed, "value", side)

    def slide(self, parts: tuple[pa.Table, ...]) -> None:
        for window, part in zip(self.windows, parts, strict=True):
            window.add(part)
            window.attach()

    def measure(self, parts: list[tuple[pa.Table, ...]], ask: Callable[[], Any] | None = None) -> Cell:
        """The first half fills the windows; the second half is timed, with a question after each slide."""
        half = len(parts) // 2
        for part in parts[:half]:
            self.slide(part)
        self.timed.attaching = self.timed.evicting = asking = 0.0
        start = time.process_time()
        for part in parts[half:]:
            self.slide(part)
            if ask is not None:
                before = time.process_time()
                ask()
                asking += time.process_time() - before
        seconds = time.process_time() - start
        deleting, inserting = self.timed.evicting, self.timed.attaching
        return {"seconds": seconds, "index": inserting + deleting, "delete": deleting, "query": asking}


def fastest(rounds: int, ways: dict[str, Callable[[], Cell]]) -> dict[str, Cell]:
    """Each way in turn, round by round."""
    best: dict[str, Cell] = {}
    for _ in range(rounds):
        for name, run in ways.items():
            cell = run()
            if name not in best or cell["seconds"] < best[name]["seconds"]:
                best[name] = cell
    return best


def check(index: Any, newest: Ints) -> None:
    values, counts = np.unique(newest, return_counts=True)
    if isinstance(index, GroupIndex):
        right = int(index.histogram()["count"].to_numpy().sum()) == len(newest)
    elif isinstance(index, RowIndex):
        rows = index.sorted_rows()
        right = np.array_equal(newest[rows - rows.min()], np.sort(newest, kind="stable"))
    else:
        found, amounts = index.items()
        right = np.array_equal(found.to_numpy(), values) and np.array_equal(amounts, counts)
    if not right:
        raise AssertionError(f"{type(index).__name__} differs from the tuples of its window")


def storages(distinct: int) -> dict[str, Storage | None]:
    return {
        "LIST": None,
        "AGGR": Aggr(one_by_one=True),
        "HASH": Hash(one_by_one=True),
        "AGGR, sorted": Aggr(),
        "HASH, sorted": Hash(),
        **{f"GROUP {g}": Group(Groups.equal(pa.int64(), 0, distinct - 1, g)) for g in GROUPS},
    }


def indexed_ways(distinct: int, sides: int) -> Iterator[tuple[str, Storage | None, Callable[[], Any]]]:
    """Every storage with every index that can be kept of it."""
    for name, storage in storages(distinct).items():
        if isinstance(storage, Group):
            yield f"G over {name}", storage, partial(GroupIndex, storage.groups, sides)
            continue
        for letter, directory in DIRECTORIES.items():
            yield f"{letter} over {name}", storage, partial(SetIndex, pa.int64(), directory, sides)


class Experiment:
    """One distribution, number of values and number of sub-windows."""

    def __init__(self, distribution: str, distinct: int, sub_windows: int, window: int, rounds: int) -> None:
        self.distinct, self.sub_windows, self.rounds = distinct, sub_windows, rounds
        streams = [stream(distribution, distinct, 2 * window, seed) for seed in (1, 2)]
        self.newest = streams[0][window:]
        both = [tables(values, sub_windows, window) for values in streams]
        self.one, self.two = [(part,) for part in both[0]], list(zip(*both, strict=True))

    def values(self) -> dict[str, dict[str, Cell]]:
        """Set-valued indexes: what keeping them costs, and a histogram after each slide."""

        def way(name: str, storage: Storage | None, make: Callable[[], Any]) -> Callable[[], Cell]:
            def run() -> Cell:
                kept = Run(storage, make(), self.sub_windows)
                # UH is not asked, as in the report: the result is to be in order. G answers another question.
                cell = kept.measure(self.one, kept.index.items if _has_histogram(name) else None)
                check(kept.index, self.newest)
                return cell

            return run

        ways = {name: way(name, storage, make) for name, storage, make in indexed_ways(self.distinct, 1)}
        indexed = fastest(self.rounds, ways)
        asked = fastest(self.rounds, {"no index, LIST": self._sorted, "no index, AGGR, sorted": self._merged})
        kept = fastest(self.rounds, {"no index, LIST": lambda: Run(None, None, self.sub_windows).measure(self.one)})
        kept |= {name: {**cell, "seconds": cell["seconds"] - cell["query"]} for name, cell in indexed.items()}
        histograms = {name: cell for name, cell in indexed.items() if _has_histogram(name)}
        return {"maintenance": kept, "histogram": {**histograms, **asked}}

    def _sorted(self) -> Cell:
        """The whole window is sorted again."""
        kept = Run(None, None, self.sub_windows)
        (window,) = kept.windows
        return kept.measure(self.one, lambda: np.unique(window.rows()["value"].to_numpy(), return_counts=True))

    def _merged(self) -> Cell:
        """The lists of values and counts of all sub-windows are merged."""
        kept = Run(Aggr(), None, self.sub_windows)
        (window,) = kept.windows

        def merge() -> Any:
            lists: list[Any] = [one.summaries["value"] for one in window.sub_windows()]
            values, places = np.unique(np.concatenate([each.values for each in lists]), return_inverse=True)
            return values, np.bincount(places, np.concatenate([each.counts for each in lists]))

        return kept.measure(self.one, merge)

    def intersection(self) -> dict[str, dict[str, Cell]]:
        """Two windows and one index."""

        def way(storage: Storage | None, make: Callable[[], Any]) -> Callable[[], Cell]:
            def run() -> Cell:
                kept = Run(storage, make(), self.sub_windows, windows=2)
                return kept.measure(self.two, kept.index.intersection)

            return run

        names = {"T over LIST", "H over LIST", *(f"G over GROUP {g}" for g in GROUPS)}
        ways = {name: way(storage, make) for name, storage, make in indexed_ways(self.distinct, 2) if name in names}
        return {"intersection": fastest(self.rounds, ways)}

    def rings(self) -> dict[str, dict[str, Cell]]:
        """Row indexes, and a sort after each slide."""

        def way(method: str, directory: str) -> Callable[[], Cell]:
            def run() -> Cell:
                kept = Run(None, RowIndex(pa.int64(), method, directory), self.sub_windows)
                cell = kept.measure(self.one, kept.index.sorted_rows)
                check(kept.index, self.newest)
                return cell

            return run

        ways = {f"{method} over {name}": way(method, name) for name in ("list", "tree") for method in METHODS}
        return {"rings": fastest(self.rounds, {**ways, "no index": self._sorted_rows})}

    def _sorted_rows(self) -> Cell:
        """The rows of the whole window are sorted again."""
        kept = Run(None, None, self.sub_windows)
        (window,) = kept.windows
        return kept.measure(self.one, lambda: np.argsort(window.rows()["value"].to_numpy(), kind="stable"))


def _has_histogram(way: str) -> bool:
    return not way.startswith(("UH", "G"))


EXPERIMENTS = ("values", "intersection", "rings")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a window of 10,000 tuples, to see that all works")
    parser.add_argument("--rounds", type=int, default=1, help="the fastest of so many counts (default 1)")
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--distributions", nargs="+", choices=DISTRIBUTIONS, default=DISTRIBUTIONS)
    arguments = parser.parse_args()
    window = WINDOW // 10 if arguments.quick else WINDOW
    # Kernels are compiled before anything is timed.
    warm = Experiment("uniform", 100, 5, 1_000, 1)
    for name in arguments.experiments:
        getattr(warm, name)()
    path, rows = out_directory(arguments.quick) / "window_index.json", list[Cell]()
    for distribution in arguments.distributions:
        for distinct in DISTINCT:
            for sub_windows in SUB_WINDOWS:
                experiment = Experiment(distribution, distinct, sub_windows, window, arguments.rounds)
                where = {"distribution": distribution, "distinct": distinct, "sub_windows": sub_windows}
                for name in arguments.experiments:
                    for kind, cells in getattr(experiment, name)().items():
                        rows += [{"experiment": kind, **where, "way": way, **cell} for way, cell in cells.items()]
                # Written each time, so that a stopped run can be drawn.
                path.write_text(json.dumps({"window": window, "cells": rows}, indent=1))
                print(f"{distribution}, {distinct} values, {sub_windows} sub-windows", file=sys.stderr, flush=True)
    print(f"written: {path}")


if __name__ == "__main__":
    main()
