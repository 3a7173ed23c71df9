"""Isolation levels: staleness, response times, throughput and aborts while the window slides.

    python -m papers.isolation.run               on threads and simulated, about eight minutes
    python -m papers.isolation.run --quick       one repetition, two sizes of window, half a minute
    python -m papers.isolation.run --ways simulation
    python -m papers.isolation.run --ways flights    with Spark: executions over panes in the cluster, 240 runs of a
                                                     minute and their starts; with --quick 12 runs of 12 seconds

Section 7.5 of the thesis (figures 7.8 to 7.14): 40 periodic queries with sub-windows of t = 1 s, 100 with t = 5 s, in
groups of five that scan the window together, all the time and in turn; with t = 5 s also with one-time queries at
random times, one per second, of a higher priority. The window has 10 to 100 sub-windows. Our scans are fast, so the
stream runs faster than time: a second of it takes --second-ms milliseconds.

    threads      a thread slides the window, one executes the periodic queries, one asks
    simulation   the same on one processor without noise: algorithms 7 and 8 by the book, with measured costs
    flights      a live session whose panes are in the cluster: two groups of queries, executed beside the slides

    staleness        from the time when the latest update in an answer was due until the answer, in seconds of the
                     stream (periodic and one-time apart)
    response time    of one-time queries, from asking to the answer
    inter-execution  between two answers of a group
    throughput       answers of groups per second of the clock, and (for a machine that is busy with other things) per
                     second of a processor that the periodic queries had
    aborted          attempts of reads that were aborted, in percent

All levels of a cell are run in turn, in another order in every repetition; ratios are taken within a repetition, and
the median counts. Writes papers/out/isolation.json, and of flights isolation_flights.json, which
`python -m papers.isolation.draw` draws.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

import sash
from papers import out_directory
from papers.isolation.flights import FlightRun
from papers.isolation.metrics import Execution
from papers.isolation.simulation import Costs, Simulation, measured_costs
from papers.isolation.threads import ThreadedRun
from papers.isolation.workload import workload
from papers.scheduling.run import machine
from sash.isolation.shared_window import LEVELS

# Seconds of a sub-window, and how many periodic queries there are.
SETTINGS = {1: 40, 5: 100}
SLOTS = (10, 40, 70, 100)
REPETITIONS = 5
# A scan of a hundred sub-windows of 1 s takes so much of a second of the stream: in the thesis nearly every query of
# that size meets a slide.
LONGEST_SCAN = 0.8
# What a second of the stream takes with Spark, in seconds: a job takes about as long as the slides of 1 s are apart.
FLIGHT_SECOND = 0.5
# Seconds of the stream, per level in a cell. The thesis takes a window's length, which is short for few sub-windows.
CELL_SECONDS = (60, 250)


def summary(executions: list[Execution], seconds: float, second: float, processor: float) -> dict[str, float | None]:
    """Times in seconds of the stream."""
    periodic = [each for each in executions if not each.once]
    once = [each for each in executions if each.once]
    ends: dict[int, float] = {}
    between = []
    for each in periodic:
        if each.query in ends:
            between.append(each.end - ends[each.query])
        ends[each.query] = each.end
    aborts = sum(each.aborts for each in executions)
    return {
        "throughput": len(periodic) / seconds,
        "processor_throughput": len(periodic) / processor,
        "aborted": 100 * aborts / max(1, aborts + len(executions)),
        "staleness": average([each.staleness / second for each in periodic]),
        "inter_execution": average([each / second for each in between]),
        "once_staleness": average([each.staleness / second for each in once]),
        "once_response": average([each.response_time / second for each in once]),
        "asked": len(once),
    }


def average(values: list[float]) -> float | None:
    return fmean(values) if values else None


def calibrated() -> float:
    """What a second of the stream takes here, in seconds."""
    return 100 * measured_costs(workload(1, 100, SETTINGS[1], 0), 100).scan / LONGEST_SCAN


def all_costs(slots: list[int]) -> dict[tuple[int, int], Costs]:
    """By t and number of sub-windows. What does not depend on their number is the least that was measured for any."""
    found = {(t, n): measured_costs(workload(t, n, SETTINGS[t], 0), n) for t in SETTINGS for n in slots}
    step = {level: min(each.step[level] for each in found.values()) for level in LEVELS}
    slide = min(each.slide for each in found.values())
    for t in SETTINGS:
        scan = min(found[t, n].scan for n in slots)
        question = min(found[t, n].question for n in slots)
        for n in slots:
            found[t, n] = Costs(scan, question, found[t, n].answers, slide, step)
    return found


def all_cells(slots: list[int], repetitions: int) -> list[tuple[int, int, int, bool]]:
    return [
        (repetition, t, n, once)
        for repetition in range(repetitions)
        for t in SETTINGS
        for n in slots
        for once in ((False, True) if t == 5 else (False,))
    ]


def cells(ways: list[str], slots: list[int], repetitions: int, second: float) -> Iterator[Any]:
    todo = all_cells(slots, repetitions)
    costs = all_costs(slots)
    for repetition, t, n, once in track(todo, "cells", console=Console(stderr=True)):
        shortest, longest = CELL_SECONDS
        slides = min(max(n * t, shortest), longest) // t
        for place in range(len(LEVELS)):
            level = LEVELS[(place + repetition) % len(LEVELS)]
            for way in ways:
                # Made anew, so that all levels are asked the same questions.
                work = workload(t, n, SETTINGS[t], repetition)
                base = {"way": way, "level": level, "t": t, "slots": n, "once": once, "repetition": repetition}
                if way == "threads":
                    threads = ThreadedRun(level, work, n, t, second, slides)
                    found, processor = threads.run(once), threads.processor_seconds
                else:
                    found = Simulation(level, work, n, t, second, costs[t, n]).run(slides, once)
                    processor = slides * t * second
                yield {**base, **summary(found, slides * t * second, second, processor)}


def flight_cells(slots: list[int], repetitions: int, seconds: float) -> Iterator[Any]:
    """The same cells over panes in the cluster, each for some seconds of the clock."""
    with sash.connect() as owner:
        for repetition, t, n, once in track(all_cells(slots, repetitions), "flights", console=Console(stderr=True)):
            for level in np.roll(LEVELS, -repetition).tolist():
                found = FlightRun(level, n, t, FLIGHT_SECOND, seconds, repetition).run(owner.spark, once)
                base = {"way": "flights", "level": level, "t": t, "slots": n, "once": once, "repetition": repetition}
                yield {**base, **summary(found, seconds, FLIGHT_SECOND, seconds)}


def results_of(second: float, measured: Iterator[Any]) -> dict[str, Any]:
    return {"machine": machine(), "second_ms": 1_000 * second, "cells": list(measured)}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--ways", nargs="+", choices=["threads", "simulation", "flights"], default=["threads", "simulation"]
    )
    parser.add_argument("--slots", type=int, nargs="+", default=list(SLOTS), help="sub-windows (default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="default: %(default)s")
    parser.add_argument("--second-ms", type=float, help="what a second of the stream takes (default: calibrated)")
    parser.add_argument("--quick", action="store_true", help="one repetition, 10 and 100 sub-windows")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    return parser.parse_args()


def main() -> None:
    given = parsed()
    slots, repetitions = ([10, 100], 1) if given.quick else (given.slots, given.repetitions)
    here, written = [way for way in given.ways if way != "flights"], dict[str, Any]()
    if here:
        second = given.second_ms / 1_000 if given.second_ms else calibrated()
        print(f"a second of the stream takes {1_000 * second:.1f} ms", file=sys.stderr)
        written["isolation.json"] = results_of(second, cells(here, slots, repetitions, second))
    if "flights" in given.ways:
        sizes = ([10], 1, 12.0) if given.quick else (slots, repetitions, 60.0)
        written["isolation_flights.json"] = results_of(FLIGHT_SECOND, flight_cells(*sizes))
    for name, results in written.items():
        (out_directory(given.quick) / name).write_text(json.dumps(results, indent=1))
        if given.json:
            print(json.dumps(results))
            continue
        from papers.isolation.draw import tables, verdicts

        tables(results)
        print("\n".join(verdicts(results)))


if __name__ == "__main__":
    main()
