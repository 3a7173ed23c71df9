"""The archive on disk: updates, probes and scans by layout, strategy and sub-indices (thesis, figures 4.4 to 4.11).

    python -m papers.archive.run [--large] [--quick | --megabytes N] [--updates 36] [--ways R-ins4 ..] [--warm]
                                 [--scan-every 1]

500 MB of records are alive (--large: 5 GB; --quick: a hundredth of either, and fewer ways): 1,000 bytes each, 100 keys,
uniform lifetimes, 36 updates in the longest. One archive is built and then migrated for every way; after some updates
to settle in, each further update is timed, then a probe of a random key and a scan of everything. Wall-clock and
processor seconds, and bytes that came from the disk, which do not depend on what else the machine does.

    Rebuild4x4, NoRebuild4x4       doubly partitioned, round robin; with -chr chronological
    R-ins4, D-ins4                 wave indexes by insertion time, REINDEX and DEL
    Lazy4x4, Lazy-ins4             NOREBUILD of Sash: expired records stay until half of a file has expired

An archive smaller than the memory would be read from the system's page cache, where the thesis read a disk. So the
archive's files are dropped from the cache before every operation (posix_fadvise, which needs no rights, unlike a
memory limit on the process group); --warm leaves them there. New files are synced, as in use.

Each way runs in a process of its own: `memory` is how far its peak is, after the first updates, above that at the
start (scans read ahead, and would hide it). What an archive holds in the end is compared with the workload. Writes
papers/out/archive.json (--large: archive_large.json), which `python -m papers.archive.draw` prints and draws. A run
that was stopped leaves archive.part.json (archive_large.part.json), and the next one goes on from there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np

from papers import out_directory
from papers.archive.workload import EVERY, KEYS, LIFETIME, RATES, RECORD, SCHEMA, SLOTS, Workload
from sash.archive import Archive

SMALL_BYTES, LARGE_BYTES = 500_000_000, 5_000_000_000
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
# Those of figures 4.9 to 4.11: 36 updates of 5 GB, each with a scan, take hours.
LARGE = tuple(way for way in WAYS if re.fullmatch(r"(Rebuild|NoRebuild)(\d)x\2|[RD]-ins(4|9|16|25)", way))
QUICK = tuple(way for way in WAYS if re.search(r"build(2x2|4x4|2x8|8x2)|^[RD]-ins(4|16)$", way))
# Figure 4.8 has no chronological layouts.
FLUCTUATING = tuple(way for way in WAYS if not way.endswith(("-chr", "2x8", "8x2")))
STRATEGY = {"Rebuild": "rebuild", "R": "rebuild", "NoRebuild": "no_rebuild_eager", "D": "no_rebuild_eager"}
Cell = dict[str, Any]
_T = TypeVar("_T")


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


def built_in(directory: Path, work: Workload) -> Path:
    """The archive that all ways begin with; a stopped run leaves it in its --directory."""
    found, unfinished = (directory / f"{name}-{work.alive}-{work.rate}" for name in ("built", "unfinished"))
    if not found.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        apart(build, unfinished, work)
        unfinished.rename(found)
    return found


def migrate(source: Path, directory: Path, way: str) -> None:
    """Another partitioning of an archive, in a directory of its own; data files are replaced, never changed."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, directory, copy_function=_copied)
    g, e, layout, strategy = partitioning(way)
    with Archive.open(directory, write=True) as archive:
        archive.migrate(g, e, layout=layout, strategy=strategy)


def _copied(source: str, target: str) -> str:
    if source.endswith(".parquet"):
        os.link(source, target)
        return target
    return str(shutil.copy2(source, target))


def measure(directory: Path, work: Workload, settle: int, updates: int, cold: bool, scan_every: int = 1) -> Cell:
    """Seconds of each operation, what it read from the disk, and what the updates touched and wrote."""
    random, clock = np.random.default_rng(5), Clock(directory if cold else None)
    before = _peak_memory()
    touched, written, memory, last = [], [], 0, SLOTS + settle + updates
    with Archive.open(directory, write=True) as archive:
        for update in range(SLOTS + 1, last + 1):
            records = work.records(update)
            if update <= SLOTS + settle:
                archive.update(records, update * EVERY)
                memory = _peak_memory() - before
                continue
            done = clock.timed("update", lambda: archive.update(records, update * EVERY))  # noqa: B023 - called at once
            touched.append(len(done.sub_indices))
            written.append(done.bytes)
            key = int(random.integers(KEYS))
            found = clock.timed("probe", lambda: archive.probe([key]).num_rows)  # noqa: B023
            if (last - update) % scan_every == 0:
                scanned = clock.timed("scan", lambda: sum(batch.num_rows for batch in archive.scan_batches()))
        _check(found, work.count_alive(update, key))
        _check(scanned, work.count_alive(update))
        stored = archive.facts().bytes
    return {
        **{name: fmean(each) for name, each in clock.seconds.items()},
        **{f"{name}_median": median(each) for name, each in clock.seconds.items()},
        **{f"{name}_cpu": fmean(each) for name, each in clock.processor.items()},
        **{f"{name}_read": fmean(each) for name, each in clock.read.items()},
        "touched": fmean(touched),
        "written": fmean(written),
        "stored": stored,
        "memory": memory,
    }


class Clock:
    """Seconds and bytes from the disk of each operation; with a directory, of files that no cache holds."""

    def __init__(self, cold: Path | None) -> None:
        self._cold = cold
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.processor: dict[str, list[float]] = defaultdict(list)
        self.read: dict[str, list[int]] = defaultdict(list)

    def timed(self, name: str, work: Callable[[], _T]) -> _T:
        if self._cold is not None:
            drop_cached(self._cold)
        read, used, start = bytes_read(), time.process_time(), time.perf_counter()
        result = work()
        self.seconds[name].append(time.perf_counter() - start)
        self.processor[name].append(time.process_time() - used)
        self.read[name].append(bytes_read() - read)
        return result


def drop_cached(directory: Path) -> None:
    """Drop the files of an archive from the system's page cache; they are synced."""
    for path in directory.rglob("*.parquet"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bytes_read() -> int:
    """What this process has read from the disk, not from a cache; 0 on a system that does not tell."""
    counters = Path("/proc/self/io")
    if not counters.exists():
        return 0
    return int(dict(line.split(": ") for line in counters.read_text().splitlines())["read_bytes"])


def _check(found: int, wanted: int) -> None:
    if found != wanted:
        raise SystemExit(f"the archive has {found} records, the workload {wanted}")


def _peak_memory() -> int:
    """In bytes; the system counts in kilobytes, but for macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measured(path: Path, run: dict[str, Any]) -> list[Cell]:
    """The cells of a run of the same size that was stopped."""
    if not path.exists():
        return []
    earlier = json.loads(path.read_text())
    return list(earlier["cells"]) if {name: earlier.get(name) for name in run} == run else []


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a new process, so that peaks of memory are its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="5 GB, figures 4.9 to 4.11")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a hundredth of the size, to see that all works")
    size.add_argument("--megabytes", type=int, help="another size")
    parser.add_argument("--updates", type=int, help="timed updates (default 36: all records are replaced; quick: 4)")
    parser.add_argument("--settle", type=int, help="updates before those (default 12; quick: 2)")
    parser.add_argument("--scan-every", type=int, default=1, metavar="N", help="scan after every N-th update only")
    parser.add_argument("--rates", nargs="+", choices=RATES, default=RATES)
    parser.add_argument("--ways", nargs="+", help="some of the ways (default: all)")
    parser.add_argument("--directory", type=Path, help="where archives are built, for the next run, too")
    parser.add_argument("--warm", action="store_true", help="leave files in the system's page cache")
    arguments = parser.parse_args()
    if not arguments.warm and not hasattr(os, "posix_fadvise"):
        parser.error("this system cannot drop files from its page cache; take --warm")
    large, quick = arguments.large, arguments.quick
    updates, settle = arguments.updates or (4 if quick else 36), arguments.settle or (2 if quick else 12)
    size_bytes = (LARGE_BYTES if large else SMALL_BYTES) // (100 if quick else 1)
    if arguments.megabytes:
        size_bytes = arguments.megabytes * 1_000_000
    path = out_directory(quick) / ("archive_large.json" if large else "archive.json")
    run = {"bytes": size_bytes, "updates": updates, "settle": settle, "cold": not arguments.warm}
    part = path.with_suffix(".part.json")
    cells = measured(part, run)
    with tempfile.TemporaryDirectory() as temporary:
        for rate in ("steady",) if large else arguments.rates:
            every = LARGE if large else WAYS if rate == "steady" else FLUCTUATING
            ways = arguments.ways or [way for way in every if not quick or way in QUICK]
            missing = [way for way in ways if (way, rate) not in {(cell["way"], cell["rate"]) for cell in cells}]
            work = Workload(size_bytes // RECORD, rate)
            built = built_in(arguments.directory or Path(temporary), work) if missing else None
            for way in missing:
                assert built is not None
                copy = built.with_name(way)
                apart(migrate, built, copy, way)
                g, e, _, _ = partitioning(way)
                cell = apart(measure, copy, work, settle, updates, not arguments.warm, arguments.scan_every)
                shutil.rmtree(copy)
                cells.append({"way": way, "n": g * e, "rate": rate, **cell})
                part.write_text(json.dumps({**run, "cells": cells}, indent=1))
                print(f"{way}, {rate}: {cell['update']:.2f} s per update", file=sys.stderr, flush=True)
    part.replace(path)
    print(f"written: {path}")


if __name__ == "__main__":
    main()
