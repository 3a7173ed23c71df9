"""Update-pattern-aware processing against negative tuples and the direct approach: section 3.6 of the thesis.

    python -m papers.update_patterns.run                  the whole table, about a quarter of an hour
    python -m papers.update_patterns.run --quick          two windows, one minute
    python -m papers.update_patterns.run --queries 1a 3   some of the queries

    1a, 1b  a join of two links on the source, with protocol = ftp (few results) or telnet (ten times as many)
    2a, 2b  distinct sources (1,650 of them), or distinct pairs of source and destination, of a link
    3       the negation of two links on the source
    4a, 4b  a join of two links without sources that a third has: negation above the join, or below it

The operators are the engine's own, without Spark, over one bucket; the answer is kept as well, in the buffer that its
pattern asks for. The trace of the thesis is not available to us: this one has its shape (a tuple per time unit and
link, 1,650 sources, shares of the protocols that give its sizes of results). Tuples come in epochs of --epoch time
units. Time is processor time per 1,000 tuples after the windows have filled, space the tuples in all buffers. Beside
it stands what the cost model expects, and which strategy the optimiser would pick with the trace's statistics.

Writes papers/out/update_patterns.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from papers import out_directory
from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State, WorkingState
from sash.changes.lifetimes import lifetimes
from sash.changes.operator import StoredInput
from sash.core.changes import Changes, UpdatePattern
from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.choice import choose
from sash.plan.continuous import BaseWindow, Column, Distinct, Filter, Join, Map, Negation, Node, windows
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.expressions import Call, Field, Literal, RowExpression

SOURCES, PER_SOURCE, SKEW = 1_650, 10, 0.5
# Shares of the protocols: 0 is ftp, 1 telnet, 2 everything else.
SHARES = (0.01, 0.1, 0.89)
WINDOWS = (2_000, 10_000, 50_000, 200_000)
INT = pa.int64()


def link(name: str, length: int) -> BaseWindow:
    columns = tuple(Column(f"{name}.{column}", RowExpression(column, INT)) for column in ("src", "dst", "protocol"))
    return BaseWindow(name, name, TimeWindow(length), columns)


def of_protocol(node: Node, name: str, protocol: int) -> Node:
    return Filter(node, Call("eq", (Field(f"{name}.protocol", INT), Literal(protocol, INT)), pa.bool_()))


def sources(left: str, right: str) -> tuple[tuple[str, str], ...]:
    return ((f"{left}.src", f"{right}.src"),)


def join(length: int, protocol: int) -> Node:
    one, other = (of_protocol(link(name, length), name, protocol) for name in ("L1", "L2"))
    return Join(one, other, sources("L1", "L2"))


def distinct(length: int, *columns: str) -> Node:
    return Distinct(Map(link("L1", length), tuple((column, Field(f"L1.{column}", INT)) for column in columns)))


def negation_up(length: int) -> Node:
    return Negation(join(length, 0), link("L3", length), sources("L1", "L3"), whole=True)


def join_up(length: int) -> Node:
    kept = Negation(of_protocol(link("L1", length), "L1", 0), link("L3", length), sources("L1", "L3"), whole=True)
    return Join(kept, of_protocol(link("L2", length), "L2", 0), sources("L1", "L2"))


QUERIES: dict[str, Callable[[int], Node]] = {
    "1a": lambda length: join(length, 0),
    "1b": lambda length: join(length, 1),
    "2a": lambda length: distinct(length, "src"),
    "2b": lambda length: distinct(length, "src", "dst"),
    "3": lambda length: Negation(link("L1", length), link("L2", length), sources("L1", "L2")),
    "4a": negation_up,
    "4b": join_up,
}
STRATEGIES = {"upa10": ("upa", 10), "upa50": ("upa", 50), "nt": ("nt", 10), "direct": ("direct", 10)}


def statistics(query: str, epoch: int) -> Statistics:
    """What the optimiser would have measured of the trace: `packets` in numbers. A time unit is a microsecond."""
    weights = np.arange(1, SOURCES + 1) ** -SKEW
    # Sources meet as often as so many alike would.
    alike = float(weights.sum() ** 2 / (weights**2).sum())
    names = ("l1", "l2", "l3")
    sources = dict.fromkeys((f"{name}.src" for name in names), float(SOURCES) if query.startswith("2") else alike)
    protocols = {f"eq({name}.protocol, {p})": share for name in names for p, share in enumerate(SHARES)}
    return Statistics(
        rates=dict.fromkeys(names, float(SECOND)),
        selectivities=protocols,
        distinct={**sources, "l1.dst": float(PER_SOURCE)},
        epochs=SECOND / epoch,
        # Of equal counts on both links little is left; the third link has every other source.
        passes_negation=0.1 if query == "3" else 0.5,
    )


def expected(query: str, strategy: str, length: int, epoch: int) -> float:
    """The cost model's milliseconds per 1,000 tuples."""
    plan = QUERIES[query](length)
    return cost(plan, statistics(query, epoch), STRATEGIES[strategy][0]) / SECOND / len(windows(plan))


def packets(number: int, name: str) -> pa.Table:
    """A link's tuples, one per time unit. The third link has every other source: its negation leaves some."""
    chance = np.random.default_rng(int(name[1:]))
    weights = np.arange(1, SOURCES + 1) ** -SKEW
    if name == "L3":
        weights[::2] = 0
    src = chance.choice(SOURCES, number, p=weights / weights.sum())
    dst = src * PER_SOURCE + chance.integers(0, PER_SOURCE, number)
    return pa.table({"src": src, "dst": dst, "protocol": chance.choice(3, number, p=SHARES)})


@dataclass
class Measured:
    seconds: float = 0.0
    tuples: int = 0
    results: int = 0
    space: int = 0


class Run:
    """One plan under one strategy, with its answer."""

    def __init__(self, plan: Node, strategy: str, partitions: int, length: int) -> None:
        self._stage = Stage(plan, partitions, strategy, named=True)
        pattern = UpdatePattern.STRICT if strategy == "nt" else plan.pattern
        self._result = StoredInput("answer", pattern, length, partitions, plain=strategy == "direct")
        self._places = [windows(plan).index(window) for window in windows(plan)]
        self._names = [window.alias for window in windows(plan)]
        self._state, self._answer = State(), State()

    def step(self, tuples: dict[str, pa.Table], low: int, high: int) -> int:
        """One epoch; how many results it has brought or taken back."""
        arrived = {}
        for place, name in zip(self._places, self._names, strict=True):
            rows = tuples[name].slice(low, high - low)
            rows = rows.rename_columns([f"{name}.{column}" for column in rows.schema.names])
            arrived[place] = Arrivals(rows, np.arange(low, high))
        changes, self._state = self._stage.step(self._state, arrived, low, high)
        self._keep(changes, high)
        return len(changes)

    def _keep(self, changes: Changes, high: int) -> None:
        working = WorkingState(self._answer)
        buffer = self._result.open(working)
        if (changes.sign < 0).any():
            lifetimes(buffer, changes).settle(buffer, high - 1)
        else:
            buffer.add(changes.where(changes.exp > high - 1))
            buffer.expire(high - 1)
        self._result.close(working, buffer)
        self._answer = working.finished()

    @property
    def space(self) -> int:
        return self._state.tuples + self._answer.tuples


def measure(query: str, strategy: str, length: int, epoch: int, epochs: int) -> Measured:
    plan = QUERIES[query](length)
    begin = -(-length // epoch) * epoch
    names = {window.alias for window in windows(plan)}
    tuples = {name: packets(begin + (epochs + 1) * epoch, name) for name in names}
    run, found = Run(plan, *STRATEGIES[strategy], length), Measured()
    for low in range(0, begin + epoch, begin):
        run.step(tuples, low, min(low + begin, begin + epoch))
    for number in range(1, epochs + 1):
        low = begin + number * epoch
        begun = time.process_time()
        found.results += run.step(tuples, low, low + epoch)
        found.seconds += time.process_time() - begun
        found.tuples += epoch * len(names)
        found.space = max(found.space, run.space)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--windows", nargs="+", type=int, default=list(WINDOWS), help="in time units")
    parser.add_argument("--epoch", type=int, default=500, help="time units per epoch (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=60, help="epochs that count (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="windows of 2,000 and 50,000")
    given = parser.parse_args()
    lengths = [2_000, 50_000] if given.quick else given.windows
    measure("1a", "upa10", 1_000, 100, 1)
    rows: list[dict[str, Any]] = []
    for query in given.queries:
        for length in lengths:
            picked = choose(QUERIES[query](length), statistics(query, given.epoch)).strategy
            for strategy in given.strategies:
                measure(query, strategy, 1_000, 100, 2)
                found = measure(query, strategy, length, given.epoch, given.epochs)
                each = 1e6 * found.seconds / found.tuples
                model = expected(query, strategy, length, given.epoch)
                rows.append({"query": query, "window": length, "strategy": strategy, "ms_per_1000": each,
                             "space": found.space, "results": found.results, "expected": model,
                             "picked": STRATEGIES[strategy][0] == picked})  # fmt: skip
                print(f"{query} {length:>7} {strategy:>7}: {each:8.2f} ms per 1,000 tuples, expected {model:8.2f}, "
                      f"{found.space:>9,} tuples stored, {found.results:>9,} changes",
                      file=sys.stderr, flush=True)  # fmt: skip
            print(f"{query} {length:>7}: the optimiser would pick {picked}", file=sys.stderr, flush=True)
    (out_directory(given.quick) / "update_patterns.json").write_text(
        json.dumps({"epoch": given.epoch, "cells": rows}, indent=1)
    )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
