"""Multi-way joins: four orders under eight algorithms, predicted and measured, and the interval's part (thesis 5.4).

    python -m papers.joins.run [--repeats 10]
    python -m papers.joins.run --engine           processor time of the engine's lazy and eager joins alone (engine.py)

The streams are those of table 5.5, with the first rate that its costs need (10). As in the thesis, each tuple is of
stream i with a probability that is proportional to the stream's rate, has its number as timestamp and a join value
uniform in 0 .. v - 1. A unit of time has as many tuples as the rates add up to, so windows of 100 units hold as many
tuples as the cost model says.

    figure 5.2   the costs of four orders, relative to the best, for algorithms 2 to 5 with nested loops and with ten
                 buckets; intervals of ten units
    figure 5.3   nested loops: cost over the interval of evaluation, or of expiry for eager evaluation (0: eager expiry)
    figure 5.4   the same with two and with five buckets

    kernels      the same epoch of a window join of two inputs by the operator with its Numba kernel and by Arrow's hash
                 join (`join_kernels`), at four sizes

Costs are milliseconds of processor time per 1,000 tuples, the mean over the repeats. Beside them stand the tuples
probed per unit of time and what the cost model predicts for these, for the algorithm itself and as printed (eager,
nested loops). Goes to papers/out/joins.json; `python -m papers.joins.draw` prints tables and draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from papers import out_directory
from papers.joins import engine
from papers.joins.algorithms import ALGORITHMS, join
from papers.joins.join_kernels import SIZES, compare
from papers.joins.lazy_join import Tuples
from sash.core.changes import UpdatePattern
from sash.plan.join_order import JoinExecution, JoinInput, cost

STREAMS = (JoinInput(10, 100, 40), JoinInput(1, 100, 100), JoinInput(1, 100, 8), JoinInput(1, 100, 5))
UNIT = int(sum(stream.rate for stream in STREAMS))
# The best by the model, the fast stream first, the choice by selectivity alone, the worst.
ORDERS = ((1, 0, 2, 3), (0, 1, 2, 3), (1, 2, 3, 0), (3, 2, 0, 1))
INTERVAL, BUCKETS = 10, 10
INTERVALS = (0, 1, 2, 5, 10, 20, 40)
PATTERNS = [UpdatePattern.WEAKEST] * len(STREAMS)


def stream(number: int, seed: int) -> Tuples:
    chance = np.random.default_rng(seed)
    of = chance.choice(len(STREAMS), number, p=[float(each.rate) / UNIT for each in STREAMS])
    values = np.array([int(each.values) for each in STREAMS])[of]
    ts, lengths = np.arange(number), np.array([int(each.length) * UNIT for each in STREAMS])[of]
    return Tuples(of, (chance.random(number) * values).astype(np.int64), ts, ts + lengths, np.full(number, -1))


def predicted(algorithm: str, order: tuple[int, ...], interval: int, buckets: int) -> float:
    """Tuples probed per unit of time."""
    kind = ALGORITHMS[algorithm]
    inputs = [JoinInput(each.rate, each.length, each.values, buckets) for each in STREAMS]
    execution = JoinExecution(kind.lazy, kind.lazy and kind.timestamps, interval if kind.number > 2 else 0)
    return float(cost(order, inputs, execution))


def measure(
    algorithm: str, order: tuple[int, ...], interval: int, buckets: int, given: list[Tuples]
) -> dict[str, float | int | str]:
    """Means over several streams; windows fill up at the beginning of each, which is not left out."""
    seconds, probed, found = 0.0, 0, 0
    for tuples in given:
        begun = time.process_time()
        joined = join(algorithm, tuples, order, PATTERNS, interval=interval * UNIT, buckets=buckets, keep=False)
        seconds += time.process_time() - begun
        probed += joined.probed
        found += joined.found
    number = sum(len(tuples.ts) for tuples in given)
    return {
        "algorithm": algorithm,
        "order": "".join(str(place + 1) for place in order),
        "interval": interval,
        "buckets": buckets,
        "ms_per_1000": 1e6 * seconds / number,
        "probed": probed * UNIT / number,
        "predicted": predicted(algorithm, order, interval, buckets),
        "printed_model": float(cost(order, STREAMS)),
        "found": found,
    }


def orders(given: list[Tuples]) -> list[dict[str, Any]]:
    """Figure 5.2."""
    cells = []
    for buckets in (1, BUCKETS):
        for algorithm in ALGORITHMS:
            cells += [measure(algorithm, order, INTERVAL, buckets, given) for order in ORDERS]
            shown = ", ".join(f"{cell['order']} {cell['ms_per_1000']:.2f}" for cell in cells[-len(ORDERS) :])
            print(f"{algorithm}, {buckets} buckets: {shown} ms", file=sys.stderr, flush=True)
    return cells


def intervals(given: list[Tuples], buckets: tuple[int, ...]) -> list[dict[str, Any]]:
    """Figures 5.3 and 5.4: the best order."""
    cells = []
    for number in buckets:
        for interval in INTERVALS:
            eager = "eager-lazy-expiry" if interval else "eager"
            algorithms = (eager, "lazy", "lazy-restore") if interval else (eager,)
            cells += [measure(algorithm, ORDERS[0], interval, number, given) for algorithm in algorithms]
        print(f"{number} buckets: {len(INTERVALS)} intervals", file=sys.stderr, flush=True)
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=30_000, help="per repeat (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=10, help="streams per cell (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one short stream")
    parser.add_argument("--engine", action="store_true", help="joins under SLIDE by the engine alone")
    chosen = parser.parse_args()
    if chosen.engine:
        print(json.dumps(engine.compare(2 if chosen.quick else 20)))
        return
    number, repeats = (5_000, 1) if chosen.quick else (chosen.tuples, chosen.repeats)
    for algorithm in ALGORITHMS:
        measure(algorithm, ORDERS[0], INTERVAL, 1, [stream(1_000, 0)])
    given = [stream(number, seed) for seed in range(repeats)]
    results = {
        "tuples": number,
        "repeats": repeats,
        "figure5_2": orders(given),
        "figure5_3": intervals(given, (1,)),
        "figure5_4": intervals(given, (2, 5)),
        "kernels": compare(repeats, SIZES[:2] if chosen.quick else SIZES),
    }
    (out_directory(chosen.quick) / "joins.json").write_text(json.dumps(results, indent=1))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
