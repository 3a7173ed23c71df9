"""The archive on disk: updates, probes and scans by layout, strategy and sub-indices (thesis, figures 4.4 to 4.11).

    python -m papers.archive.run [--quick | --large] [--updates 36] [--rates steady fluctuating] [--ways R-ins4 ..]

500 MB of records are alive (--large: 5 GB, --quick: 20 MB): 1,000 bytes each, 100 keys, uniform lifetimes, 36 updates
in the longest. One archive is built and then migrated for every way; after some updates to settle in, each further
update is timed, then a probe of a random key and a scan of everything. Wall-clock seconds: files are synced, as in
use; what is read may be in the system's cache.

    Rebuild4x4, NoRebuild4x4       doubly partitioned, round robin; with -chr chronological
    R-ins4, D-ins4                 wave indexes by insertion time, REINDEX and DEL
    Lazy4x4, Lazy-ins4             NOREBUILD of Sash: expired records stay until half of a file has expired

Each way runs in a process of its own: `memory` is how far its peak is, after the first updates, above that at the
start (scans read ahead, and would hide it). What an archive holds in
the end is compared with the workload. Writes papers/out/archive.json, which `python -m papers.archive.draw`
prints and draws.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from papers import OUT
from papers.archive.workload import EVERY, KEYS, LIFETIME, RATES, RECORD, SCHEMA, SLOTS, Workload
from sash.archive import Archive

SIZES = {"quick": 20_000_000, "small": 500_000_000, "large": 5_000_000_000}
SIDES = ("2x2", "3x3", "4x4", "5x5")
# In the order in which they are taken: the doubly partitioned ones, those of figure 4.4, the wave indexes.
WAYS = (
    *(
        f"{strategy}{side}{layout}"
        for layout in ("", "-chr")
        for strategy in ("Rebuild", "NoRebuild", *([] if layout else ["Lazy"]))
        for side in SIDES
    ),
    "Rebuild2x8",
    "Rebuild8x2",
    *(f"{strategy}-ins{n}" for strategy in ("R", "D", "Lazy") for n in (1, 4, 9, 16, 25)),
)
# Figure 4.8 has no chronological layouts.
FLUCTUATING = tuple(way for way in WAYS if not way.endswith(("-chr", "2x8", "8x2")))
STRATEGY = {"Rebuild": "rebuild", "R": "rebuild", "NoRebuild": "no_rebuild_eager", "D": "no_rebuild_eager"}
Cell = dict[str, Any]


def partitioning(way: str) -> tuple[int, int, str, str]:
    """G, E, layout and strategy of a name.

    >>> partitioning("NoRebuild3x4-chr"), partitioning("R-ins9")
    ((3, 4, 'chronological', 'no_rebuild_eager'), (9, 1, 'wave', 'rebuild'))
    """
    wave = re.fullmatch(r"(R|D|Lazy)-ins(\d+)", way)
    if wave is not None:
        return int(wave[2]), 1, "wave", STRATEGY.get(wave[1], "no_rebuild")
    double = re.fullmatch(r"(Rebuild|NoRebuild|Lazy)(\d+)x(\d+)(-chr)?", way)
    if double is None:
        raise SystemExit(f"there is no way '{way}'; take one such as {', '.join(WAYS[:3])}, R-ins4")
    layout = "chronological" if double[4] else "round_robin"
    return int(double[2]), int(double[3]), layout, STRATEGY.get(double[1], "no_rebuild")


def build(directory: Path, work: Workload) -> None:
    """An archive in its steady state: as many updates as a lifetime has."""
    archive = Archive.create(directory, SCHEMA, "key", lifetime=LIFETIME, every=EVERY, g=6, e=6, strategy="no_rebuild")
    for update in range(1, SLOTS + 1):
        archive.update(work.records(update), update * EVERY)
    archive.close()


def migrate(source: Path, directory: Path, way: str) -> None:
    shutil.copytree(source, directory)
    g, e, layout, strategy = partitioning(way)
    with Archive.open(directory, write=True) as archive:
        archive.migrate(g, e, layout=layout, strategy=strategy)


def measure(directory: Path, work: Workload, settle: int, updates: int) -> Cell:
    """Seconds of each operation, and what the updates touched and wrote."""
    random = np.random.default_rng(5)
    before = _peak_memory()
    seconds: dict[str, list[float]] = {"update": [], "probe": [], "scan": []}
    touched, written, memory = [], [], 0
    with Archive.open(directory, write=True) as archive:
        for update in range(SLOTS + 1, SLOTS + 1 + settle + updates):
            records = work.records(update)
            done, taken = _timed(lambda: archive.update(records, update * EVERY))  # noqa: B023 - called at once
            if update <= SLOTS + settle:
                memory = _peak_memory() - before
                continue
            seconds["update"].append(taken)
            touched.append(len(done.sub_indices))
            written.append(done.bytes)
            key = int(random.integers(KEYS))
            found, taken = _timed(lambda: archive.probe([key]).num_rows)  # noqa: B023
            seconds["probe"].append(taken)
            scanned, taken = _timed(lambda: sum(batch.num_rows for batch in archive.scan_batches()))
            seconds["scan"].append(taken)
        _check(found, work.count_alive(update, key))
        _check(scanned, work.count_alive(update))
        stored = archive.facts().bytes
    means = {name: fmean(each) for name, each in seconds.items()}
    medians = {f"{name}_median": median(each) for name, each in seconds.items()}
    return {
        **means,
        **medians,
        "touched": fmean(touched),
        "written": fmean(written),
        "stored": stored,
        "memory": memory,
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _check(found: int, wanted: int) -> None:
    if found != wanted:
        raise SystemExit(f"the archive has {found} records, the workload {wanted}")


def _peak_memory() -> int:
    """In bytes; the system counts in kilobytes, but for macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a new process, so that peaks of memory are its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="size", const="quick", help="20 MB, to see that all works")
    size.add_argument("--large", action="store_const", dest="size", const="large", help="5 GB, figures 4.9 to 4.11")
    parser.add_argument("--updates", type=int, default=36, help="timed updates (default 36: all records are replaced)")
    parser.add_argument("--settle", type=int, default=12, help="updates before those (default 12)")
    parser.add_argument("--rates", nargs="+", choices=RATES, default=RATES)
    parser.add_argument("--ways", nargs="+", help="some of the ways (default: all)")
    parser.add_argument("--directory", type=Path, help="where archives are built (default: the system's)")
    arguments = parser.parse_args()
    size_name = arguments.size or "small"
    rates = ("steady",) if size_name == "large" else arguments.rates
    OUT.mkdir(exist_ok=True)
    path = OUT / ("archive_large.json" if size_name == "large" else "archive.json")
    cells: list[Cell] = []
    for rate in rates:
        work = Workload(SIZES[size_name] // RECORD, rate)
        with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
            apart(build, Path(directory) / "built", work)
            for way in arguments.ways or (WAYS if rate == "steady" else FLUCTUATING):
                copy = Path(directory) / way
                apart(migrate, Path(directory) / "built", copy, way)
                g, e, _, _ = partitioning(way)
                cell = apart(measure, copy, work, arguments.settle, arguments.updates)
                shutil.rmtree(copy)
                cells.append({"way": way, "n": g * e, "rate": rate, **cell})
                # Written each time, so that a stopped run can be drawn.
                path.write_text(json.dumps({"bytes": SIZES[size_name], "cells": cells}, indent=1))
                print(f"{way}, {rate}: {cell['update']:.2f} s per update", file=sys.stderr, flush=True)
    print(f"written: {OUT.name}/{path.name}")


if __name__ == "__main__":
    main()
