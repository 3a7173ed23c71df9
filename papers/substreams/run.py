"""Substream filters: a collective index against asking every key (Arasu and Widom 6.3, Figure 12).

    python -m papers.substreams.run [--quick] [--keys N ...] [--p P ...]

After three hours of trades (see `trades`), look-ups { k | COUNT(S_k[T]) > v }. Two ways answer them, both exactly:

- naive: R-INT for every substream, that is a matrix of running counts with a row per pane. A look-up compares two
  rows, key by key, in a compiled loop; the same in NumPy is timed as well.
- index: CI-COUNT for the candidates, and the same matrix for those of them that are not certain.

And two ways to interleave look-ups and updates equally:

- tuples: one tuple, one look-up, one tuple, one look-up ... as in the paper, in one compiled loop for each way. An
  *input* is a tuple or a look-up. Panes of 15 s pass at the stream's rate, .9 tuples per key.
- panes: through `CollectiveIndex`, called from Python. All tuples of 15 s are one update, then come 300 to 2,000
  look-ups, each a call; those after an update find most lists changed. The two are timed apart, and the rate is that
  of as many look-ups as tuples. `break_even` is the number of look-ups after which the index has made good for its
  update.

All ways get the same tuples and filters, in turn, round by round; the fastest round of each counts. Answers are
compared. An answer is in no particular order. Keeping the matrix is part of both ways. Writes
papers/out/substreams.json, which `python -m papers.substreams.draw` draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numba
import numpy as np

from papers import out_directory
from papers.substreams.trades import FILTERS, HISTORY, PANE, RATE, Trades, generate
from sash.panes.substreams import CollectiveIndex
from sash.panes.substreams.collective import Levels, advance
from sash.panes.substreams.recency import newer

KEYS = (5_000, 50_000, 500_000)
PS = (1, 2, 4, 8, 16, 32)
PANES, ROUNDS = 8, 60
# So many answers per pane are compared.
CHECKED = 20


@numba.njit(nogil=True)
def loop(now: Any, then: Any, v: int, found: Any) -> Any:
    count = 0
    for key in range(now.size):
        if now[key] - then[key] > v:
            found[count] = key
            count += 1
    return found[:count]


def vectors(now: Any, then: Any, v: int, found: Any) -> Any:
    np.subtract(now, then, out=found)
    return np.flatnonzero(found > v)


@numba.njit(nogil=True)
def check(uncertain: Any, now: Any, then: Any, v: int) -> Any:
    """Those of some keys that have more than v, in the same array."""
    count = 0
    for i in range(uncertain.size):
        key = uncertain[i]
        uncertain[count] = key
        count += now[key] - then[key] > v
    return uncertain[:count]


@numba.njit(nogil=True)
def naive_tuples(
    keys: Any, picks: Any, running: Any, row: Any, pane: int, lengths: Any, thresholds: Any, found: Any
) -> int:
    running[pane] = row
    answered = 0
    for i in range(keys.size):
        running[pane, keys[i]] += 1
        pick = picks[i]
        answered += loop(running[pane], running[pane - lengths[pick]], thresholds[pick], found).size
    return answered


@numba.njit(nogil=True)
def index_tuples(
    keys: Any, picks: Any, running: Any, row: Any, pane: int, lengths: Any, thresholds: Any,
    p: int, columns: Any, units: Any, stamps: Any, listing: Any,
) -> int:  # fmt: skip
    running[pane] = row
    answered = 0
    for i in range(keys.size):
        running[pane, keys[i]] += 1
        advance(keys[i], 1, pane, p, units, stamps, listing)
        pick = picks[i]
        outside = pane - lengths[pick]
        certain, uncertain = newer(listing, stamps, columns[pick], outside, 0, pane)
        checked = check(listing.found[uncertain:], running[pane], running[outside], thresholds[pick])
        answered += certain + checked.size
    return answered


def per_pane(keys: int) -> int:
    return round(keys * RATE * PANE)


def panes_of(keys: int, rounds: int, pairs: int) -> int:
    """In how many panes the tuples of some rounds come, at the stream's rate."""
    return (rounds - 1) * pairs // per_pane(keys) + 1


def by_tuples(
    trades: Trades, indexes: dict[int, CollectiveIndex], rounds: int, pairs: int, chance: np.random.Generator
) -> dict[str, float]:
    """Seconds for one tuple and one look-up, by way."""
    best: dict[str, float] = {}
    room = np.empty(trades.keys, dtype=np.int32)
    first = len(trades.running) - panes_of(trades.keys, rounds, pairs)
    for round in range(rounds):
        pane = first + round * pairs // per_pane(trades.keys)
        # Every way begins with the row as the round before has left it.
        row = trades.running[pane if trades.running[pane].any() else pane - 1].copy()
        keys = chance.choice(trades.keys, pairs, p=trades.shares)
        picks = chance.integers(0, FILTERS, pairs)
        shared = (keys, picks, trades.running, row, pane, trades.lengths, trades.thresholds)
        clock = time.perf_counter()
        answered = naive_tuples(*shared, room)
        took = {"naive": time.perf_counter() - clock}
        for p, index in indexes.items():
            columns = np.array([1 + index.levels.above(v) for v in trades.thresholds.tolist()])
            state = (p, columns, index._lengths, index.stamps[: trades.keys], index.listing)
            clock = time.perf_counter()
            found = index_tuples(*shared, *state)
            took[f"p = {p}"] = time.perf_counter() - clock
            assert found == answered, f"p = {p}: {found} keys instead of {answered}"
        best = {way: min(best.get(way, seconds), seconds) for way, seconds in took.items()}
    return {way: seconds / pairs for way, seconds in best.items()}


class Naive:
    """R-INT alone; `compare` is the compiled loop or NumPy."""

    def __init__(self, trades: Trades, compare: Any) -> None:
        self.trades, self.compare = trades, compare
        self.room = np.empty(trades.keys, dtype=np.int32)

    def update(self, pane: int, keys: Any, counts: Any) -> None:
        row = self.trades.running[pane]
        row[:] = self.trades.running[pane - 1]
        row[keys] += counts

    def lookup(self, pane: int, length: int, v: int) -> Any:
        return self.compare(self.trades.running[pane], self.trades.running[pane - length], v, self.room).copy()


class Indexed(Naive):
    """CI-COUNT and R-INT."""

    def __init__(self, trades: Trades, index: CollectiveIndex) -> None:
        super().__init__(trades, None)
        self.index = index

    def update(self, pane: int, keys: Any, counts: Any) -> None:
        super().update(pane, keys, counts)
        self.index.update(pane, keys, counts)

    def lookup(self, pane: int, length: int, v: int) -> Any:
        certain, uncertain = self.index.candidates_above(pane, length, v)
        running = self.trades.running
        return np.concatenate([certain, check(uncertain, running[pane], running[pane - length], v)])


def by_panes(
    trades: Trades, indexes: dict[int, CollectiveIndex], panes: int, lookups: int, chance: np.random.Generator
) -> dict[str, Any]:
    """Seconds that have passed after a pane's update and after each look-up, by way; the best of all panes."""
    ways: dict[str, Naive] = {"naive": Naive(trades, loop), "NumPy": Naive(trades, vectors)}
    ways |= {f"p = {p}": Indexed(trades, index) for p, index in indexes.items()}
    best = {name: np.full(lookups + 1, np.inf) for name in ways}
    for pane in range(HISTORY + 1, HISTORY + panes + 1):
        keys, counts = trades.pane(pane)
        picks = chance.integers(0, FILTERS, lookups)
        filters = list(zip(trades.lengths[picks].tolist(), trades.thresholds[picks].tolist(), strict=True))
        expected = [np.flatnonzero(trades.running[pane] - trades.running[pane - s] > v) for s, v in filters[:CHECKED]]
        for name, way in ways.items():
            answers, passed = [], np.empty(lookups + 1)
            clock = time.perf_counter()
            way.update(pane, keys, counts)
            passed[0] = time.perf_counter() - clock
            for i, (length, v) in enumerate(filters, 1):
                found = way.lookup(pane, length, v)
                passed[i] = time.perf_counter() - clock
                if i <= CHECKED:
                    answers.append(found)
            assert all(np.array_equal(np.sort(a), b) for a, b in zip(answers, expected, strict=True)), name
            best[name] = np.minimum(best[name], passed)
    return best


def indexed(trades: Trades, p: int) -> CollectiveIndex:
    """An index of the first three hours, with a list for every level that will be asked for."""
    index = CollectiveIndex(p)
    for pane in range(1, HISTORY + 1):
        index.update(pane, *trades.pane(pane))
    for length, v in zip(trades.lengths.tolist(), trades.thresholds.tolist(), strict=True):
        index.candidates_above(HISTORY, length, v)
    return index


def facts(trades: Trades, p: int, index: CollectiveIndex) -> dict[str, Any]:
    """What the index stores and how good its candidates are."""
    filters = list(zip(trades.lengths.tolist(), trades.thresholds.tolist(), strict=True))
    parts = [index.candidates_above(HISTORY, length, v) for length, v in filters]
    now = trades.running[HISTORY]
    answers = [int((now - trades.running[HISTORY - length] > v).sum()) for length, v in filters]
    candidates = [len(certain) + len(uncertain) for certain, uncertain in parts]
    return {
        "keys": trades.keys,
        "p": p,
        "epsilon": str(Levels(p).epsilon),
        "selectivity": float(np.mean(answers)) / trades.keys,
        "candidates_per_answer": float(np.sum(candidates) / np.sum(answers)),
        "certain_share": float(sum(len(part.certain) for part in parts) / np.sum(candidates)),
        "levels_listed": index.listed,
        "levels_per_tuple": float(index.visited / now.sum()),
        "stamp_bytes_per_key": int(index.stamps.shape[1] * index.stamps.itemsize),
    }


def measure(keys: int, ps: list[int], panes: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    chance = np.random.default_rng(1)
    pairs = min(per_pane(keys), max(400, 25_000_000 // keys))
    trades = generate(keys, panes, panes_of(keys, rounds, pairs), chance)
    say(f"{keys:,} keys: {int(trades.running[HISTORY].sum()):,} trades, thresholds {trades.thresholds.min():,} to "
        f"{trades.thresholds.max():,}")  # fmt: skip
    indexes = {p: indexed(trades, p) for p in ps}
    known = [facts(trades, p, index) for p, index in indexes.items()]
    tuples = int((trades.running[HISTORY + panes] - trades.running[HISTORY]).sum()) // panes
    lookups = max(300, min(2_000, 50_000_000 // keys))
    base: dict[str, Any] = {"keys": keys}
    cells = []
    paned = by_panes(trades, indexes, panes, lookups, chance)
    for way, passed in paned.items():
        update, lookup = passed[0], (passed[-1] - passed[0]) / lookups
        pair = update / tuples + lookup
        ahead = np.flatnonzero(passed < paned["naive"])
        cells.append({
            **base, "mode": "panes", "way": way, "pair_us": pair * 1e6, "inputs_per_s": 2 / pair,
            "update_us": update * 1e6, "lookup_us": lookup * 1e6, "tuples_per_pane": tuples,
            "lookups_per_pane": lookups, "break_even": int(ahead[0]) if len(ahead) else None,
        })  # fmt: skip
    paired = by_tuples(trades, indexes, rounds, pairs, chance)
    for way, pair in paired.items():
        cells.append({
            **base, "mode": "tuples", "way": way, "pair_us": pair * 1e6, "inputs_per_s": 2 / pair,
        })  # fmt: skip
    naive = {cell["mode"]: cell["pair_us"] for cell in cells if cell["way"] == "naive"}
    cells = [{**cell, "speedup": naive[cell["mode"]] / cell["pair_us"]} for cell in cells]
    return {"cells": cells, "indexes": known}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=list(KEYS), help="numbers of substreams")
    parser.add_argument("--p", type=int, nargs="+", default=list(PS), help="levels of each size")
    parser.add_argument("--quick", action="store_true", help="5,000 substreams, few rounds")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    arguments = parser.parse_args()
    say("compiling ...")
    measure(300, [1], 1, 1)
    results: dict[str, Any] = {"cells": [], "indexes": []}
    for keys in [5_000] if arguments.quick else arguments.keys:
        measured = measure(keys, arguments.p, 2 if arguments.quick else PANES, 20 if arguments.quick else ROUNDS)
        results = {name: results[name] + measured[name] for name in results}
    (out_directory(arguments.quick) / "substreams.json").write_text(json.dumps(results, indent=1))
    if arguments.json:
        print(json.dumps(results))
    else:
        from papers.substreams.draw import table

        table(results)


if __name__ == "__main__":
    main()
