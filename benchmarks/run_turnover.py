"""A continuous query whose streams turn over: with the registered plan for ever, and with plans that are replaced.

    python -m benchmarks.run_turnover                  two phases of 120 seconds, some minutes
    python -m benchmarks.run_turnover --seconds 40     shorter phases

Requests are joined with replies unless they were cancelled, over a minute. In the first phase 50 requests and 4,900
replies come in a second, with 1,000 keys: the negation belongs below the join. In the second phase it is the other way
round, with 100,000 keys: the negation belongs above. The query is registered before data flow.

A micro-batch is a second. Epochs of so few tuples run in the Sash process, so this needs no Spark: the tuples come as
Spark would bring them. Both ways run in processes of their own, by turns, and write state and log to a checkpoint. The
time is the processor's. The changes of both ways must add up to the same. Goes to benchmarks/out/turnover.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from sash.catalog import Catalog, Stream
from sash.changes import Arrivals
from sash.core.changes import Changes
from sash.core.time import SECOND, Micros
from sash.plan.choice import choose
from sash.plan.continuous import windows
from sash.plan.estimates import Statistics
from sash.runtime.compiler import as_select
from sash.runtime.continuous.plan_runtime import ContinuousQuery, EpochInstants, PlanRuntime
from sash.runtime.continuous.plans import PlanDirectories
from sash.runtime.settings import SessionSettings
from sash.runtime.spark_pass import Batch, BatchTimes
from sash.spark.buckets import BucketSettings
from sash.sql import bind, plan_changes

OUT = Path(__file__).parent / "out"
WAYS = {"registered": False, "replaced": True}
FEW, MANY = 50, 4_900
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("kind", pa.string()), ("k", pa.int64()), ("x", pa.int64())])
QUERY = (
    "SELECT a.k, a.x AS asked, b.x AS replied FROM events [RANGE 1 min] a, events [RANGE 1 min] b "
    "WHERE a.kind = 'request' AND b.kind = 'reply' AND a.k = b.k AND NOT EXISTS "
    "(SELECT 1 FROM events [RANGE 1 min] c WHERE c.kind = 'cancel' AND c.k = a.k)"
)


class Sums:
    """A reader that adds up the changes."""

    lifetime = None

    def __init__(self) -> None:
        self.rows, self.sum = 0, 0

    def take(self, changes: Changes, instants: EpochInstants) -> list[Any]:
        asked, replied = (np.asarray(changes.rows[name]) for name in ("asked", "replied"))
        self.rows += len(changes)
        self.sum += int(((asked + 3 * replied) * changes.sign * (changes.ts % 1_009)).sum())
        return []

    def answer(self, as_of: Micros, table: pa.Table, *, complete: bool) -> list[Any]:
        raise AssertionError("changes are no answers")

    def fail(self, why: str, *, reported: bool) -> None:
        raise AssertionError(why)

    def end(self) -> None:
        raise AssertionError("it lives for ever")


def second_of(second: int, turned: bool, chance: np.random.Generator) -> dict[str, Arrivals]:
    """The tuples of a second, by window."""
    numbers = {"a": MANY if turned else FEW, "b": FEW if turned else MANY, "c": FEW}
    found = {}
    for alias, number in numbers.items():
        ts = np.sort(second * SECOND + chance.integers(1, SECOND, number))
        keys, values = chance.integers(0, 100_000 if turned else 1_000, number), chance.integers(0, 1_000_000, number)
        found[alias] = Arrivals(pa.table({f"{alias}.k": keys, f"{alias}.x": values}), ts)
    return found


def opened(scratch: Path, way: str, reader: Sums) -> PlanRuntime:
    """The plan of the query as a session opens it, by what is known before the first tuple."""
    catalog = Catalog()
    catalog.add_stream(Stream("events", SCHEMA, "ts"))
    written = plan_changes(bind(as_select(QUERY), catalog))
    chosen = choose(written, Statistics())
    query = ContinuousQuery(
        plan=chosen.plan, written=written, execution=chosen.strategy, name="q", text=QUERY, state="q-1"
    )
    shared: Any = SimpleNamespace(
        spark=SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)),
        settings=SessionSettings(replace_plans=WAYS[way]),
        checkpoint=SimpleNamespace(plans=scratch),
        catalog=catalog,
        tables=None,
    )
    return query.open(PlanDirectories(shared, BucketSettings()), [(query, reader)])


def run(way: str, seconds: int) -> dict[str, Any]:
    """Seconds of the processor in each phase, and what the changes add up to."""
    reader, chance, spent = Sums(), np.random.default_rng(7), list[float]()
    with tempfile.TemporaryDirectory() as scratch:
        runtime = opened(Path(scratch), way, reader)
        for second in range(2 * seconds):
            came = second_of(second, second >= seconds, chance)
            begun = time.process_time()
            take(runtime, second, came)
            spent.append(time.process_time() - begun)
        replaced = runtime.replaced
    phases = {"first": sum(spent[:seconds]), "second": sum(spent[seconds:])}
    numbers = {"rows": reader.rows, "sum": reader.sum, "replacements": 0 if replaced is None else replaced.number}
    return {**phases, **numbers, "by_second": spent}


def take(runtime: PlanRuntime, second: int, came: dict[str, Arrivals]) -> None:
    here = {
        place: Arrivals(came[window.alias].rows.select(window.schema.names), came[window.alias].ts)
        for place, window in enumerate(windows(runtime.plan))
    }
    times = np.concatenate([each.ts for each in came.values()])
    seen, nothing = BatchTimes(int(times.max()), int(times.min()), None), SimpleNamespace()
    rows: Any = nothing
    tuples = {runtime.leaves: runtime.leaves.table(here)}
    runtime.take(Batch("events", rows, len(times), second, seen, int(times.max()), tuples))


def measured(way: str, seconds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.run_turnover", "--seconds", str(seconds), "--run", way]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(found.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run, args.seconds)))
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way in WAYS:
            found[way].append(measured(way, args.seconds))
    every = [each for some in found.values() for each in some]
    assert len({(each["rows"], each["sum"]) for each in every}) == 1, "the changes differ"
    shown = Table("plan", "first phase", "second phase", "replacements")
    for way, some in found.items():
        phases = (f"{np.median([each[phase] for each in some]):.2f} s" for phase in ("first", "second"))
        shown.add_row(way, *phases, str(some[0]["replacements"]))
    Console().print(shown)
    OUT.mkdir(exist_ok=True)
    (OUT / "turnover.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
