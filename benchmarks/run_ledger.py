"""The ledger of speed: the ratios behind the documentation's claims, in one run of fifteen minutes at most.

    python -m benchmarks.run_ledger                                 all parts; appends a row to benchmarks/ledger.csv
    python -m benchmarks.run_ledger --parts w1_5s native --dry      some parts; prints
    python -m benchmarks.run_ledger --scale 0.01                    a trial on few tuples; prints
    python -m benchmarks.draw_ledger                                draws, and writes the last row into the docs

    w1_5s          W1 at N = 1, 40, 240 and 1,000 with micro-batches of 5 s of data
    w1_20s         W1 at N = 1, 240 and 1,000, and W3 at 240, with micro-batches of 20 s
    native         native Spark's window() at N = 1 and 40
    rescan         DuckDB scans the windows of 240 queries again at each slide
    registration   10,000 queries through a session
    question       one-time questions of the panes of 240 queries
    decision       which of 10,000 queries to execute, without Spark
    join           two sub-streams, beside Spark's stream-stream join with the state store in memory

Each part calls another benchmark's functions: run_multi_query, run_continuous and run_scale say what is measured. Rates
of Sash are medians of rounds; a round has all numbers of queries in turn, so that they share whatever else the machine
does. The ratios of a row are of figures of that row only (ledger.py). A part that fails leaves its cells empty, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pyspark

from benchmarks import ledger, run_continuous, run_scale
from benchmarks.engines import drained, run_native, run_rescan, stage, texts_of
from benchmarks.packets import generate, parts
from benchmarks.run_multi_query import files_per_batch, workload
from sash.runtime.settings import Settings

OUT = Path(__file__).parent / "out"
ROUNDS = 3
# The load average of a machine that does nothing else.
QUIET = 0.5
QUERIES = workload(None)
# Directory, packets per second of event time, packets per file, files. A file of either has 5 s.
WINDOWS_DATA = ("packets-100k", 100_000, 500_000, 48)
JOIN_DATA = ("packets-20k", 20_000, 100_000, 120)
# Files of WINDOWS_DATA: as many as each engine needs. Native Spark at N = 40 would need hours for all of them.
FILES = {"w1_5s": 24, "w1_20s": 48, "native_1": 8, "native_40": 2, "rescan": 12, "question": 24}
REGISTERED = 10_000
# Windows that one-time questions ask for, in seconds; all different, so that no answer can be remembered.
ASKED = range(20, 101)

Figures = dict[str, float]
# What a part measures on a share of the tuples.
Part = Callable[[float], Figures]


def data(source: tuple[str, int, int, int], scale: float) -> Path:
    """A directory of packets. A trial has a prefix of the same packets, in a directory of its own."""
    name, rate, each, files = source
    count = scaled(files, scale)
    return generate(OUT / (name if count == files else f"{name}-{count}"), count * each, rate, count)


def scaled(count: int, scale: float) -> int:
    return max(1, round(count * scale))


def packets(use: str, scale: float) -> list[Path]:
    return parts(data(WINDOWS_DATA, scale))[: scaled(FILES[use], scale)]


def tuples_used(scale: float) -> str:
    used = {use: scaled(files, scale) * WINDOWS_DATA[2] for use, files in FILES.items()}
    used["join"] = scaled(JOIN_DATA[3], scale) * JOIN_DATA[2]
    return "; ".join(f"{use} {tuples}" for use, tuples in used.items())


def rates(cells: Mapping[str, list[str]], files: list[Path], seconds: int) -> Figures:
    """Sash's tuples per second for several lists of queries, by turns."""
    found: dict[str, list[float]] = {name: [] for name in cells}
    per_batch = files_per_batch(files, seconds, 0)
    # The first round is not counted: the JVM compiles.
    for number in range(ROUNDS + 1):
        for name, texts in cells.items():
            with drained(texts, files, per_batch) as (session, took):
                found[name].append(session.stats()["tuples"] / took)
            say(f"  {name}, round {number} of {ROUNDS}: {found[name][-1]:,.0f} tuples/s")
    return {name: median(each[1:]) for name, each in found.items()}


def w1_5s(scale: float) -> Figures:
    cells = {f"sash_w1_{n}_5s": texts_of("W1", QUERIES[:n]) for n in (1, 40, 240, 1_000)}
    return rates(cells, packets("w1_5s", scale), 5)


def w1_20s(scale: float) -> Figures:
    cells = {f"sash_w1_{n}_20s": texts_of("W1", QUERIES[:n]) for n in (1, 240, 1_000)}
    cells["sash_w3_240_20s"] = texts_of("W3", QUERIES[:240])
    return rates(cells, packets("w1_20s", scale), 20)


def native(scale: float) -> Figures:
    run_native("W1", QUERIES[:1], packets("native_40", scale), 1)  # warm-up
    found = {}
    for n in (1, 40):
        found[f"native_w1_{n}_5s"] = run_native("W1", QUERIES[:n], packets(f"native_{n}", scale), 1)["tuples_per_s"]
        say(f"  native Spark, {n} queries: {found[f'native_w1_{n}_5s']:,.0f} tuples/s")
    return found


def rescan(scale: float) -> Figures:
    return {"duckdb_w1_240": run_rescan("W1", QUERIES[:240], packets("rescan", scale))["tuples_per_s"]}


def registration(scale: float) -> Figures:
    queries = scaled(REGISTERED, scale)
    with run_scale.wide_session() as session:
        found = run_scale.registration(session, queries)
    return {
        "registration_first_ms": found["first_tenth_ms"],
        "registration_last_ms": found["last_tenth_ms"],
        "registration_s": found["registration_ms"] * queries / 1_000,
    }


def question(scale: float) -> Figures:
    files, took = packets("question", scale), []
    with drained(texts_of("W1", QUERIES[:240]), files, files_per_batch(files, 20, 0)) as (session, _):
        for window in ASKED:
            text = f"SELECT src, SUM(length) AS bytes FROM packets [WINDOW {window} sec] GROUP BY src"
            begun = time.perf_counter()
            session.query(text)
            took.append(1_000 * (time.perf_counter() - begun))
    return {"question_ms": median(took)}


def decision(scale: float) -> Figures:
    stream, queries = run_scale.compiled(scaled(REGISTERED, scale))
    found = run_scale.scheduling(stream, queries, Settings().policy, run_scale.UPDATES)
    return {"decision_us": found["decision_us"]}


def join(scale: float) -> Figures:
    # Staged, because the engines read all files of a directory.
    with tempfile.TemporaryDirectory() as directory:
        staged = stage(parts(data(JOIN_DATA, scale)), directory)
        ours, theirs = run_continuous.compared("join", ["sash", "spark-memory"], staged)
    return {"join_sash_s": ours["seconds"], "join_spark_s": theirs["seconds"]}


PARTS: dict[str, Part] = {
    "w1_5s": w1_5s,
    "w1_20s": w1_20s,
    "native": native,
    "rescan": rescan,
    "registration": registration,
    "question": question,
    "decision": decision,
    "join": join,
}


def measured(chosen: Mapping[str, Part], scale: float) -> tuple[Figures, list[str]]:
    """The figures of all parts that succeed, and the names of those that fail."""
    found: Figures = {}
    failed, begun = [], time.perf_counter()
    for number, (name, part) in enumerate(chosen.items(), 1):
        say(f"[{number}/{len(chosen)}] {name}, {time.perf_counter() - begun:.0f} s so far")
        try:
            figures = part(scale)
        # Benchmarks end by SystemExit when engines disagree.
        except (Exception, SystemExit) as error:
            say(f"{name} failed: {type(error).__name__}: {error}")
            failed.append(name)
            continue
        found |= figures
        for figure, value in {**figures, **new_ratios(found, figures)}.items():
            print(f"{figure}: {ledger.cell(value)}", flush=True)
    return found, failed


def new_ratios(found: Figures, figures: Figures) -> Figures:
    """The ratios that could not be told before a part's figures were there."""
    before = ledger.ratios({name: value for name, value in found.items() if name not in figures})
    return {name: value for name, value in ledger.ratios(found).items() if name not in before}


def row_of(figures: Figures, conditions: Mapping[str, str]) -> dict[str, str]:
    values = {**ledger.ratios(figures), **figures}
    cells = {column: ledger.cell(values[column]) if column in values else "" for column in ledger.COLUMNS}
    return {"commit": conditions["commit"], "date": conditions["date"], **cells, **conditions}


def conditions_now(note: str) -> dict[str, str]:
    return {
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.2f}",
        "spark": pyspark.__version__,
        "python": platform.python_version(),
        "micro_batch_s": "w1_5s 5; w1_20s 20; native 5; question 20; join 20",
        "note": note,
    }


def commit() -> str:
    """The commit that is checked out, marked when files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=10"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="only these; prints")
    parser.add_argument("--scale", type=float, default=1.0, help="share of tuples and registrations; prints")
    parser.add_argument("--dry", action="store_true", help="print, and write nothing")
    parser.add_argument("--note", default="", help="goes into the row: what changed, and why a ratio fell")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = parsed(arguments)
    chosen = {name: part for name, part in PARTS.items() if name in given.parts}
    conditions, begun = conditions_now(given.note), time.perf_counter()
    adds_row = not given.dry and len(chosen) == len(PARTS) and given.scale == 1
    if adds_row and conditions["commit"].endswith("-dirty"):
        say("files differ from the last commit: commit them, so that the row can be measured again (or --dry)")
        return 2
    if float(conditions["load"]) > QUIET:
        say(f"the machine is busy (load average {conditions['load']}): ratios will be off")
    figures, failed = measured(chosen, given.scale)
    conditions |= {"tuples": tuples_used(given.scale), "seconds": f"{time.perf_counter() - begun:.0f}"}
    row, rows = row_of(figures, conditions), ledger.read(ledger.LEDGER) if given.scale == 1 else []
    say(f"{conditions['seconds']} s in all" + (f"; failed: {', '.join(failed)}" if failed else ""))
    for fell in ledger.fallen(rows[-1], row) if rows else ():
        say(f"fell by more than a quarter: {fell}")
    if adds_row:
        ledger.append(ledger.LEDGER, row)
        say(f"a row was added to {ledger.LEDGER.name}; now: python -m benchmarks.draw_ledger")
    else:
        say("no row was added: that takes all parts, at full scale, without --dry")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
