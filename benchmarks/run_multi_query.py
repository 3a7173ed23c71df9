"""How many tuples per second for N windowed queries at once.

    python -m benchmarks.run_multi_query --workload FILE.json --data DIR --queries N --json     one figure, as JSON
    python -m benchmarks.run_multi_query --flat 1 240 1000 10000 --batch-seconds 20             several N by turns
    python -m benchmarks.run_multi_query --predicates --batch-seconds 20                        100 predicates alone
    python -m benchmarks.run_multi_query                                                        the whole table

The first form runs the first N queries of a workload file over Parquet files; its last line is a JSON object with
`tuples_per_s`. The second tells how flat the cost is: medians of three rounds, each with all N in turn, so that they
share whatever else the machine does; each rate as a share of the first. The third runs 100 predicates over 10 key sets
(a second time: the JVM has compiled), and tells their memory. The last generates data, runs W1, W2 and W3 at
N = 1, 8, 40, 240 (W1 and W2 also at 1,000) beside native Spark (N streaming queries with window()) and a re-scan in
DuckDB in the same run, and writes benchmarks/out/multi_query.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engines import FORMS, Query, drained, run_native, run_rescan, run_sash, shared_session, texts_of
from benchmarks.packets import generate, parts, rows_of, seconds_of
from sash.spark.spark_session import jvm_process

OUT = Path(__file__).parent / "out"
NUMBERS = (1, 8, 40, 240, 1_000)
ROUNDS = 3
# Native Spark needs minutes to hours for many queries over all files: it gets fewer tuples, and large N on demand.
NATIVE_TUPLES = {1: 4_000_000, 8: 2_000_000, 40: 1_000_000}
RESCAN_NUMBERS = (40, 240)
FORMS_HELP = (
    "W1 (by source), W2 (one maximum), W3 (median, top ten), W4 (HAVING, ORDER BY .. LIMIT); default %(default)s"
)


def workload(path: Path | None) -> list[Query]:
    """The queries of a workload file, or a seeded list like it: windows of 20 to 100 s, slides up to half of them."""
    if path is not None:
        return list(json.loads(path.read_text())["queries"])
    chance = random.Random(1)
    queries = []
    for i in range(max(NUMBERS)):
        window = chance.randint(20, 100)
        slide = chance.randint(1, window // 2)
        queries.append({"id": i, "w": window, "s": slide, "w_multiple": -(-window // slide) * slide})
    return queries


def repeated(queries: list[Query], number: int) -> list[Query]:
    """More queries than a workload has: query i has the slide of query i mod n, and a window that is i div n longer."""
    found = []
    for i in range(number):
        longer, place = divmod(i, len(queries))
        window, slide = queries[place]["w"] + longer, queries[place]["s"]
        found.append({"id": i, "w": window, "s": slide, "w_multiple": -(-window // slide) * slide})
    return found


def files_per_batch(files: list[Path], seconds: float | None, rows: int) -> int:
    """Files per micro-batch, from its length in event time or else from its number of tuples."""
    if seconds is not None:
        return max(1, round(seconds / (seconds_of(files) / len(files))))
    return max(1, rows // rows_of(files[0]))


def predicate_queries(sets: int = 10, each: int = 10) -> list[str]:
    """100 distinct predicates over 10 key sets."""
    keys = [
        "src",
        "dst",
        "protocol",
        "port",
        "protocol, port",
        "",
        "src % 10",
        "dst % 10",
        "port % 7",
        "protocol, src % 5",
    ]
    texts = []
    for number, key in enumerate(keys[:sets]):
        for i in range(each):
            where = f"length > {40 + 140 * i + number}" if number % 2 else f"(protocol + {number}) % 10 = {i}"
            select, group = (f"{key}, ", f" GROUP BY {key}") if key else ("", "")
            texts.append(
                f"SELECT {select}SUM(length) AS bytes, COUNT(*) AS packets FROM packets "
                f"[WINDOW {20 + 5 * i} sec SLIDE EXACTLY {5 + i} sec] WHERE {where}{group}"
            )
    return texts


def processes() -> dict[str, int]:
    return {"python": os.getpid(), "jvm": jvm_process(shared_session())}


def forget_peak(pid: int) -> None:
    """Let the system measure a process's peak memory from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mb(pid: int) -> float:
    """The peak resident memory of a process since `forget_peak`, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measured(texts: list[str], files: list[Path], per_batch: int, keep: int | None = None) -> dict[str, Any]:
    """Sash's figures for some queries, with the memory that they took."""
    running = processes()
    for pid in running.values():
        forget_peak(pid)
    found = run_sash(texts, files, per_batch, say, keep)
    return {**found, **{f"{name}_peak_mb": peak_mb(pid) for name, pid in running.items()}}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def one(arguments: argparse.Namespace) -> dict[str, Any]:
    files = parts(arguments.data or default_data())
    if not files:
        raise SystemExit(f"no Parquet files in {arguments.data}")
    per_batch = files_per_batch(files, arguments.batch_seconds, arguments.batch_rows)
    queries = repeated(workload(arguments.workload), arguments.queries)
    result = measured(texts_of(arguments.form, queries), files, per_batch, arguments.keep_answers)
    return {"form": arguments.form, "queries": len(queries), "files_per_batch": per_batch, **result}


def flat(arguments: argparse.Namespace) -> dict[str, Any]:
    """The rate of each number of queries, and its share of the first one's."""
    files, queries = parts(arguments.data or default_data()), workload(arguments.workload)
    per_batch = files_per_batch(files, arguments.batch_seconds, arguments.batch_rows)
    found: dict[int, list[float]] = {number: [] for number in arguments.flat}
    # The first round is not counted: the JVM compiles.
    for _ in range(1 + ROUNDS):
        for number, rates in found.items():
            texts = texts_of(arguments.form, repeated(queries, number))
            with drained(texts, files, per_batch, keep=arguments.keep_answers) as (session, took):
                rates.append(session.stats()["tuples"] / took)
            say(f"  N={number}: {rates[-1]:,.0f} tuples/s")
    medians = {number: median(each[1:]) for number, each in found.items()}
    first = medians[arguments.flat[0]]
    return {
        "form": arguments.form,
        "files_per_batch": per_batch,
        "tuples_per_s": medians,
        "share": {number: rate / first for number, rate in medians.items()},
    }


def predicates(arguments: argparse.Namespace) -> dict[str, Any]:
    """The figures of 100 predicates over 10 key sets."""
    files = parts(arguments.data or default_data())
    per_batch = files_per_batch(files, arguments.batch_seconds, arguments.batch_rows)
    return {"files_per_batch": per_batch, **measured(predicate_queries(), files, per_batch, arguments.keep_answers)}


def default_data() -> Path:
    say("generating 24,000,000 tuples at 100,000 tuples/s (once) ...")
    return generate(OUT / "packets-100k", 24_000_000, 100_000, 48)


def table(arguments: argparse.Namespace) -> dict[str, Any]:
    files = parts(arguments.data or default_data())
    queries = workload(arguments.workload)
    results: dict[str, Any] = {"files": len(files), "cells": []}

    def cell(engine: str, form: str, n: int, micro_batch: str, figures: dict[str, Any]) -> None:
        results["cells"].append({"engine": engine, "form": form, "n": n, "micro_batch": micro_batch, **figures})
        say(f"  {engine} {form} N={n} {micro_batch}: {figures['tuples_per_s']:,.0f} tuples/s")

    # The first cell must not pay for what the JVM compiles during the first minute.
    run_sash(texts_of("W1", queries[:8]), files, files_per_batch(files, 5, 0), say)
    for seconds in (5, 20):
        per_batch = files_per_batch(files, seconds, 0)
        for n in NUMBERS:
            cell("sash", "W1", n, f"{seconds} s", measured(texts_of("W1", queries[:n]), files, per_batch))
    for form in ("W2", "W3"):
        for n in NUMBERS if form == "W2" else NUMBERS[:-1]:
            figures = measured(texts_of(form, queries[:n]), files, files_per_batch(files, 20, 0))
            cell("sash", form, n, "20 s", figures)
    for seconds in (5, 20):
        figures = measured(predicate_queries(), files, files_per_batch(files, seconds, 0))
        cell("sash", "100 predicates, 10 key sets", 100, f"{seconds} s", figures)
    run_native("W1", queries[:1], files[:2], 1)  # warm-up
    for form in ("W1", "W2", "W3"):
        # Exact medians and top lists are not for Spark's streaming aggregation.
        for n in arguments.native if form != "W3" else ():
            some = files[: max(1, NATIVE_TUPLES.get(n, rows_of(files[0])) // rows_of(files[0]))]
            cell("native Spark", form, n, "5 s", run_native(form, queries[:n], some, files_per_batch(files, 5, 0)))
        for n in RESCAN_NUMBERS:
            cell("DuckDB re-scan", form, n, "-", run_rescan(form, queries[:n], files[: max(1, len(files) // 4)]))
    OUT.mkdir(exist_ok=True)
    (OUT / "multi_query.json").write_text(json.dumps(results, indent=1))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", type=Path, help="a workload file (queries with w, s, w_multiple in seconds)")
    parser.add_argument("--data", type=Path, help="a directory of Parquet files in the order of time")
    parser.add_argument("--queries", type=int, help="run the first N queries and print one figure")
    parser.add_argument("--flat", type=int, nargs="+", metavar="N", help="run several N by turns and compare them")
    parser.add_argument("--predicates", action="store_true", help="run 100 predicates over 10 key sets")
    parser.add_argument("--form", choices=FORMS, default="W1", help=FORMS_HELP)
    parser.add_argument("--keep-answers", type=int, metavar="K", help="answers that a query remembers (default 1,000)")
    parser.add_argument("--batch-seconds", type=float, help="event time per micro-batch")
    parser.add_argument("--batch-rows", type=int, default=2_000_000, help="tuples per micro-batch (default 2,000,000)")
    parser.add_argument(
        "--native", type=int, nargs="*", default=list(NATIVE_TUPLES), help="N for native Spark (default 1 8 40)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    arguments = parser.parse_args()
    if arguments.queries is not None:
        result = one(arguments)
        print(json.dumps(result) if arguments.json else f"{result['tuples_per_s']:,.0f} tuples/s")
        return
    if arguments.flat is not None:
        print(json.dumps(flat(arguments)))
        return
    if arguments.predicates:
        print(json.dumps(predicates(arguments)))
        return
    results = table(arguments)
    if arguments.json:
        print(json.dumps(results))
    else:
        from benchmarks.report import multi_query

        multi_query(results)


if __name__ == "__main__":
    main()
